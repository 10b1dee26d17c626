//! One evaluation at a time: two would time each other.

use crate::error::LedgerError;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who holds the lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// Its process id.
    pub pid: u32,
    /// What it evaluates.
    pub what: String,
    /// Since when, milliseconds since 1970.
    pub since_ms: i64,
}

/// A held lock on a state folder's device. The kernel lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct EvaluationLock {
    _file: File,
}

fn file(state_dir: &Path) -> PathBuf {
    state_dir.join("evaluating.lock")
}

impl EvaluationLock {
    /// Takes the lock, or says who has it.
    ///
    /// # Errors
    /// When the lock file cannot be used.
    pub fn try_take(state_dir: &Path, what: &str, now_ms: i64) -> Result<Result<Self, Busy>, LedgerError> {
        let path = file(state_dir);
        let fail = |e: std::io::Error| LedgerError::file(&path, e);
        let mut file =
            File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let busy = Busy { pid: std::process::id(), what: what.to_owned(), since_ms: now_ms };
                let text = serde_json::to_vec(&busy)?;
                file.set_len(0)
                    .and_then(|()| file.rewind())
                    .and_then(|()| file.write_all(&text))
                    .map_err(fail)?;
                Ok(Ok(Self { _file: file }))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(Err(holder(&mut file))),
            Err(e) => Err(fail(e.into())),
        }
    }

    /// Takes the lock, waiting up to `patience` and telling whom it waits for, once.
    ///
    /// # Errors
    /// When the lock file cannot be used. `Ok(Err(holder))` when the patience has run out.
    pub fn wait(
        state_dir: &Path,
        what: &str,
        now_ms: i64,
        patience: Duration,
        mut waiting: impl FnMut(&Busy),
    ) -> Result<Result<Self, Busy>, LedgerError> {
        let start = Instant::now();
        let mut told = false;
        loop {
            match Self::try_take(state_dir, what, now_ms)? {
                Ok(lock) => return Ok(Ok(lock)),
                Err(busy) if start.elapsed() >= patience => return Ok(Err(busy)),
                Err(busy) => {
                    if !told {
                        waiting(&busy);
                        told = true;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    /// Who evaluates now, if anybody does.
    #[must_use]
    pub fn holder(state_dir: &Path) -> Option<Busy> {
        let mut file = File::open(file(state_dir)).ok()?;
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::WOULDBLOCK) => Some(holder(&mut file)),
            _ => None,
        }
    }
}

fn holder(file: &mut File) -> Busy {
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text).map(|_| ()));
    // The holder may be about to write its name.
    serde_json::from_str(&text).unwrap_or(Busy { pid: 0, what: "another candidate".to_owned(), since_ms: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_and_the_others_know_whom() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(EvaluationLock::holder(folder.path()), None);
        let lock = EvaluationLock::try_take(folder.path(), "kernel.c", 7).unwrap().unwrap();
        let busy = EvaluationLock::try_take(folder.path(), "other.c", 8).unwrap().unwrap_err();
        assert_eq!((busy.pid, busy.what.as_str(), busy.since_ms), (std::process::id(), "kernel.c", 7));
        assert_eq!(EvaluationLock::holder(folder.path()), Some(busy.clone()));
        let mut told = 0;
        let waited =
            EvaluationLock::wait(folder.path(), "other.c", 9, Duration::from_millis(250), |_| told += 1)
                .unwrap();
        assert_eq!((waited.unwrap_err(), told), (busy, 1));
        drop(lock);
        assert!(EvaluationLock::try_take(folder.path(), "other.c", 9).unwrap().is_ok());
    }
}
