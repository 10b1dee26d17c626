//! What a process prints, bounded: the head is kept, the rest is counted.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};

/// The beginning of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundedCapture {
    /// The first bytes, at most as many as were asked for.
    pub head: Vec<u8>,
    /// All bytes that arrived, kept or not.
    pub total_bytes: u64,
    /// Whether bytes were dropped.
    pub truncated: bool,
}

impl BoundedCapture {
    /// The head as text; bytes that are not UTF-8 become replacement characters.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.head).into_owned()
    }

    fn add(&mut self, bytes: &[u8], keep: usize) {
        let room = keep.saturating_sub(self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..room]);
        self.total_bytes += bytes.len() as u64;
        self.truncated |= room < bytes.len();
    }
}

/// How much output is kept, and how much is too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputBounds {
    /// Bytes kept of each stream.
    pub head: usize,
    /// Bytes of one stream after which [`Waited::Flooded`](crate::process::Waited) is reported; the rest is
    /// read and dropped.
    pub flood: Option<u64>,
}

impl Default for OutputBounds {
    /// 64 KiB kept, a flood after 64 MiB.
    fn default() -> Self {
        Self { head: 64 << 10, flood: Some(64 << 20) }
    }
}

/// Takes what a process prints as it comes. It must not block: whoever prints would be held up.
#[derive(Clone)]
pub struct Tee(Arc<Take>);

type Take = dyn Fn(&[u8]) + Send + Sync;

impl Tee {
    /// Hands every piece to `take`.
    #[must_use]
    pub fn new(take: impl Fn(&[u8]) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }

    /// Hands a piece over.
    pub fn hand(&self, piece: &[u8]) {
        (self.0)(piece);
    }
}

impl std::fmt::Debug for Tee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tee")
    }
}

/// A thread that empties a pipe until its end.
#[derive(Debug)]
pub(crate) struct Drain {
    seen: Arc<Mutex<BoundedCapture>>,
    thread: JoinHandle<()>,
}

fn locked(seen: &Mutex<BoundedCapture>) -> MutexGuard<'_, BoundedCapture> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drain {
    /// Writes one byte to `flooded` when the bound is passed. What arrives goes to `tee` too.
    pub(crate) fn start(
        pipe: OwnedFd,
        bounds: OutputBounds,
        flooded: OwnedFd,
        tee: Option<Tee>,
    ) -> io::Result<Self> {
        let seen = Arc::new(Mutex::new(BoundedCapture::default()));
        let shared = Arc::clone(&seen);
        let thread = std::thread::Builder::new().name("output".to_owned()).spawn(move || {
            let mut pipe = File::from(pipe);
            let mut flooded = Some(File::from(flooded));
            let mut buffer = vec![0; 64 << 10];
            loop {
                match pipe.read(&mut buffer) {
                    Ok(0) => return,
                    Ok(count) => {
                        if let Some(tee) = &tee {
                            tee.hand(&buffer[..count]);
                        }
                        let mut seen = locked(&shared);
                        seen.add(&buffer[..count], bounds.head);
                        let too_much = bounds.flood.is_some_and(|most| seen.total_bytes > most);
                        drop(seen);
                        if too_much && let Some(mut flooded) = flooded.take() {
                            // Nobody listening is no reason to stop draining.
                            let _ = flooded.write_all(&[1]);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        })?;
        Ok(Self { seen, thread })
    }

    /// What has arrived so far.
    pub(crate) fn seen(&self) -> BoundedCapture {
        locked(&self.seen).clone()
    }

    /// Whether the stream has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_head_is_a_prefix_and_the_count_is_exact(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..10),
            keep in 0_usize..120,
        ) {
            let mut capture = BoundedCapture::default();
            for chunk in &chunks {
                capture.add(chunk, keep);
            }
            let all = chunks.concat();
            prop_assert_eq!(&capture.head, &all[..all.len().min(keep)]);
            prop_assert_eq!(capture.total_bytes, all.len() as u64);
            prop_assert_eq!(capture.truncated, all.len() > keep);
        }
    }
}
