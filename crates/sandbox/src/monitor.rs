//! The supervisor's side of a worker's filter: answers every call that the filter hands over, and keeps a
//! record that the candidate cannot reach.
#![expect(unsafe_code, reason = "the listener is served by ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::SandboxError;
use crate::sys;
use crate::trespass::{self, Attempt, Request};

/// The most kinds of denial kept; the rest only count.
const KINDS_MAX: usize = 64;
/// After so many denials each further one is answered late: a candidate that does nothing but trespass
/// must not keep the supervisor busy.
const PATIENCE: u64 = 4096;
/// How late.
const LATE: Duration = Duration::from_millis(1);

/// Attempts of one kind that were denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// The system call.
    pub syscall: String,
    /// What it was tried on: path, process, address family, flags. Empty if the call says it all.
    pub detail: String,
    /// The error the candidate saw.
    pub errno: i32,
    /// How often.
    pub count: u64,
}

/// Everything denied so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denials {
    /// At most 64 kinds, in the order of their first attempt.
    pub kinds: Vec<Denial>,
    /// All attempts, those whose kind was not kept included.
    pub total: u64,
}

impl Denials {
    fn add(&mut self, syscall: String, detail: String, errno: i32) {
        self.total += 1;
        let known = self.kinds.iter_mut().find(|kind| kind.syscall == syscall && kind.detail == detail);
        if let Some(kind) = known {
            kind.count += 1;
        } else if self.kinds.len() < KINDS_MAX {
            self.kinds.push(Denial { syscall, detail, errno, count: 1 });
        }
    }
}

/// Serves one worker's denied calls on a thread of its own until the worker is gone or this is dropped.
#[derive(Debug)]
pub struct Monitor {
    denials: Arc<Mutex<Denials>>,
    stop: Option<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

fn locked(denials: &Mutex<Denials>) -> MutexGuard<'_, Denials> {
    // A record is never half written, so a poisoned lock holds a good one.
    denials.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Monitor {
    /// Starts serving. Reads beneath `allowed_reads` continue; every other call handed over is denied and
    /// recorded.
    ///
    /// # Errors
    /// If no thread or pipe can be made, or the kernel does not tell the size of its messages.
    pub fn start(listener: OwnedFd, allowed_reads: &[PathBuf]) -> Result<Self, SandboxError> {
        let (stopped, stop) = sys::pipe().map_err(SandboxError::system("making a pipe"))?;
        let exchange = Exchange::new().map_err(SandboxError::system("asking for notification sizes"))?;
        let denials = Arc::new(Mutex::new(Denials::default()));
        let server = Server {
            listener,
            stopped,
            exchange,
            allowed: allowed_reads.iter().map(|path| trespass::normalise(path)).collect(),
            denials: Arc::clone(&denials),
        };
        let thread = std::thread::Builder::new()
            .name("denials".to_owned())
            .spawn(move || server.serve())
            .map_err(SandboxError::system("starting a thread"))?;
        Ok(Self { denials, stop: Some(stop), thread: Some(thread) })
    }

    /// What has been denied so far.
    #[must_use]
    pub fn denials(&self) -> Denials {
        locked(&self.denials).clone()
    }

    /// What has been denied since the last `take`.
    #[must_use]
    pub fn take(&self) -> Denials {
        std::mem::take(&mut locked(&self.denials))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // Closing the pipe wakes the thread; closing the listener with it makes later calls fail at once.
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has nothing to add here.
            let _ = thread.join();
        }
    }
}

/// Buffers of the size that the running kernel uses, which may be newer than the structures known here.
#[derive(Debug)]
struct Exchange {
    /// In words of 8 bytes, for alignment.
    notification: Vec<u64>,
    response: Vec<u64>,
}

impl Exchange {
    fn new() -> io::Result<Self> {
        let mut sizes =
            libc::seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
        // SAFETY: the pointer outlives the call.
        sys::check(unsafe {
            libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_NOTIF_SIZES, 0, &raw mut sizes)
        })?;
        let words = |kernel: u16, known: usize| vec![0; usize::from(kernel).max(known).div_ceil(8)];
        Ok(Self {
            notification: words(sizes.seccomp_notif, size_of::<libc::seccomp_notif>()),
            response: words(sizes.seccomp_notif_resp, size_of::<libc::seccomp_notif_resp>()),
        })
    }
}

/// What the supervisor answers.
enum Answer {
    Continue,
    Refuse(i32),
}

struct Server {
    listener: OwnedFd,
    stopped: OwnedFd,
    exchange: Exchange,
    allowed: Vec<PathBuf>,
    denials: Arc<Mutex<Denials>>,
}

impl Server {
    fn serve(mut self) {
        loop {
            let Ok(seen) = sys::poll(&[self.listener.as_fd(), self.stopped.as_fd()], None) else { return };
            if seen[1] != 0 {
                return;
            }
            if seen[0] & libc::POLLIN != 0 {
                if self.serve_one().is_err() {
                    return;
                }
            } else if seen[0] != 0 {
                // Hung up: the last thread under the filter is gone.
                return;
            }
        }
    }

    fn serve_one(&mut self) -> io::Result<()> {
        let Some((id, attempt)) = self.receive()? else { return Ok(()) };
        let memory = File::open(format!("/proc/{}/mem", attempt.thread)).ok();
        let request = trespass::read(&attempt, memory.as_ref());
        // If the thread died meanwhile, its id may be another process's and what was read is that one's.
        if !self.still_waiting(id) {
            return Ok(());
        }
        let answer = self.judge(request);
        self.respond(id, &answer);
        Ok(())
    }

    fn judge(&self, request: Request) -> Answer {
        let (call, detail, errno) = match request {
            // The path can change between this look and the kernel's own: this judgement decides what is
            // recorded. What can be read is decided by Landlock and by the mounts.
            Request::Read { path, .. } if self.allows(&path) => return Answer::Continue,
            Request::Read { call, path } => (call, trespass::refused_read(&path), libc::EACCES),
            Request::Trespass { call, detail, errno } => (call, detail, errno),
        };
        let total = {
            let mut denials = locked(&self.denials);
            denials.add(call, detail, errno);
            denials.total
        };
        if total > PATIENCE {
            std::thread::sleep(LATE);
        }
        Answer::Refuse(errno)
    }

    fn allows(&self, path: &Path) -> bool {
        self.allowed.iter().any(|allowed| path.starts_with(allowed))
    }

    /// The next call, or none if its thread died before it could be fetched.
    fn receive(&mut self) -> io::Result<Option<(u64, Attempt)>> {
        // The kernel refuses a buffer that is not zeroed.
        self.exchange.notification.fill(0);
        let buffer = self.exchange.notification.as_mut_ptr();
        // SAFETY: the buffer has the size the kernel asked for and outlives the call.
        let answer =
            unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, buffer) };
        match sys::check(answer.into()) {
            Ok(_) => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        // SAFETY: the buffer is at least this long, aligned to 8, and the kernel filled it.
        let notification = unsafe { buffer.cast::<libc::seccomp_notif>().read() };
        let attempt = Attempt {
            thread: notification.pid,
            number: notification.data.nr.cast_unsigned(),
            arguments: notification.data.args,
        };
        Ok(Some((notification.id, attempt)))
    }

    fn still_waiting(&self, id: u64) -> bool {
        let listener = self.listener.as_raw_fd();
        // SAFETY: the pointer outlives the call.
        unsafe { libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const id) == 0 }
    }

    fn respond(&mut self, id: u64, answer: &Answer) {
        let (error, flags) = match answer {
            Answer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Refuse(errno) => (-errno, 0),
        };
        self.exchange.response.fill(0);
        let buffer = self.exchange.response.as_mut_ptr();
        let response = libc::seccomp_notif_resp { id, val: 0, error, flags };
        // SAFETY: the buffer is at least this long and aligned to 8.
        unsafe { buffer.cast::<libc::seccomp_notif_resp>().write(response) };
        // SAFETY: the buffer has the size the kernel asked for. A thread that died meanwhile gives an error
        // that needs no answer.
        unsafe { libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, buffer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_merged_and_bounded() {
        let mut denials = Denials::default();
        for _ in 0..3 {
            denials.add("socket".to_owned(), "AF_INET".to_owned(), libc::EPERM);
        }
        assert_eq!(denials.kinds.len(), 1);
        assert_eq!(denials.kinds[0].count, 3);
        for index in 0..100 {
            denials.add("openat".to_owned(), format!("/secret/{index}"), libc::EACCES);
        }
        assert_eq!(denials.kinds.len(), KINDS_MAX);
        assert_eq!(denials.total, 103);
    }
}
