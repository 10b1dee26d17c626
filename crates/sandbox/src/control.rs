//! Stopping, continuing and measuring a process from outside.
#![expect(unsafe_code, reason = "pidfd_send_signal(2) has no safe wrapper")]

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::SandboxError;
use crate::stillness::{Standing, Stillness};
use crate::sys;

/// How long [`Target::stop`] waits for every thread to stand still.
pub const STOP_LIMIT: Duration = Duration::from_millis(1000);
/// How long a leader may take to end by itself when asked.
const REAPER_LIMIT: Duration = Duration::from_millis(100);
/// How long it looks again at once, and how often after that.
const EAGER: Duration = Duration::from_micros(200);

/// A process that is signalled and measured. It is held by a descriptor where the kernel has them, so that
/// a reused id is never mistaken for it.
#[derive(Debug)]
pub struct Target {
    pid: libc::pid_t,
    descriptor: Option<OwnedFd>,
    stillness: Mutex<Stillness>,
}

impl Target {
    /// Takes hold of a running process.
    ///
    /// # Errors
    /// [`SandboxError::Gone`] if there is none by this id.
    pub fn open(pid: u32) -> Result<Self, SandboxError> {
        let id = libc::pid_t::try_from(pid).map_err(|_| SandboxError::Gone(pid))?;
        let descriptor = match sys::pidfd_open(id) {
            Ok(descriptor) => Some(descriptor),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => return Err(SandboxError::Gone(pid)),
            Err(_) => None,
        };
        let target = Self { pid: id, descriptor, stillness: Mutex::default() };
        if target.is_alive() { Ok(target) } else { Err(SandboxError::Gone(pid)) }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.unsigned_abs()
    }

    /// Whether the process has not ended. A zombie has.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match &self.descriptor {
            Some(descriptor) => {
                sys::poll(&[descriptor.as_fd()], Some(Duration::ZERO)).is_ok_and(|seen| seen[0] == 0)
            }
            None => {
                state(&format!("/proc/{}/stat", self.pid)).is_some_and(|state| !matches!(state, 'Z' | 'X'))
            }
        }
    }

    fn gone(&self) -> SandboxError {
        SandboxError::Gone(self.pid())
    }

    fn signal(&self, signal: libc::c_int) -> Result<(), SandboxError> {
        let sent = match &self.descriptor {
            Some(descriptor) => {
                // SAFETY: plain integers and a null pointer, which means default signal information.
                sys::check(unsafe {
                    libc::syscall(
                        libc::SYS_pidfd_send_signal,
                        descriptor.as_raw_fd(),
                        signal,
                        std::ptr::null::<libc::siginfo_t>(),
                        0,
                    )
                })
                .map(drop)
            }
            None => sys::kill(self.pid, signal),
        };
        sent.map_err(|source| match source.raw_os_error() {
            Some(libc::ESRCH) => self.gone(),
            _ => SandboxError::System { operation: "sending a signal", source },
        })
    }

    /// Stops the process and waits until each of its threads stands still, at most [`STOP_LIMIT`].
    ///
    /// # Errors
    /// [`SandboxError::Gone`]; [`SandboxError::NotStopped`] if a thread still runs after the limit.
    pub fn stop(&self) -> Result<(), SandboxError> {
        self.ask_to_stop()?;
        self.await_stop()
    }

    /// Sends what stops the process and waits for nothing: [`Self::await_stop`] does, once there is nothing better to do.
    ///
    /// # Errors
    /// [`SandboxError::Gone`].
    pub fn ask_to_stop(&self) -> Result<(), SandboxError> {
        self.signal(libc::SIGSTOP)
    }

    /// Waits until each thread of the process stands still, at most [`STOP_LIMIT`].
    ///
    /// # Errors
    /// As [`Self::stop`].
    pub fn await_stop(&self) -> Result<(), SandboxError> {
        let started = Instant::now();
        loop {
            if self.stands_still()? {
                return Ok(());
            }
            let waited = started.elapsed();
            if waited >= STOP_LIMIT {
                let limit_ms = STOP_LIMIT.as_millis() as u64;
                return Err(SandboxError::NotStopped { pid: self.pid(), limit_ms });
            }
            // It usually takes some microseconds, and this stands between a worker's calls: sleeping or
            // yielding at once would cost a time slice on a busy machine.
            if waited > EAGER {
                std::thread::sleep(EAGER);
            }
        }
    }

    fn stands_still(&self) -> Result<bool, SandboxError> {
        // Nothing panics while it is held; if it did, what is kept would be no less true.
        let mut stillness = self.stillness.lock().unwrap_or_else(PoisonError::into_inner);
        match stillness.of(self.pid, self.pid()) {
            Standing::Stopped => {}
            Standing::Gone => return Err(self.gone()),
            Standing::Runs => return Ok(false),
        }
        // Listed only now: once one thread is stopped by it, the signal is before everything that another could start.
        let threads = self.threads()?;
        stillness.keep(&threads);
        let still = threads
            .iter()
            .filter(|thread| **thread != self.pid())
            // A thread that vanished between the two looks runs no more.
            .all(|thread| stillness.of(self.pid, *thread) != Standing::Runs);
        if self.is_alive() { Ok(still) } else { Err(self.gone()) }
    }

    /// Lets a stopped process run again.
    ///
    /// # Errors
    /// [`SandboxError::Gone`].
    pub fn cont(&self) -> Result<(), SandboxError> {
        self.signal(libc::SIGCONT)
    }

    /// Ends the process.
    ///
    /// # Errors
    /// [`SandboxError::Gone`].
    pub fn kill(&self) -> Result<(), SandboxError> {
        self.signal(libc::SIGKILL)
    }

    /// CPU time used by all threads of the process, ended ones included. Exact while it is stopped; for a
    /// thread that is running on another core it lags by up to one timer tick.
    ///
    /// # Errors
    /// [`SandboxError::Gone`].
    pub fn cpu_time(&self) -> Result<Duration, SandboxError> {
        let time = sys::process_cpu_time(self.pid).map_err(|_| self.gone())?;
        // Only now is it sure that the id was still this process's.
        if self.is_alive() { Ok(time) } else { Err(self.gone()) }
    }

    /// The ids of its threads.
    ///
    /// # Errors
    /// [`SandboxError::Gone`].
    pub fn threads(&self) -> Result<Vec<u32>, SandboxError> {
        let folder = std::fs::read_dir(format!("/proc/{}/task", self.pid)).map_err(|_| self.gone())?;
        Ok(folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

/// The state letter of a process or thread.
fn state(path: &str) -> Option<char> {
    fields(path)?.0
}

/// State letter and parent of a process.
fn fields(path: &str) -> Option<(Option<char>, Option<libc::pid_t>)> {
    let bytes = std::fs::read(path).ok()?;
    // The name in parentheses may hold anything, parentheses included.
    let after = bytes.iter().rposition(|byte| *byte == b')')? + 1;
    let text = std::str::from_utf8(&bytes[after..]).ok()?;
    let mut words = text.split_ascii_whitespace();
    let state = words.next().and_then(|word| word.chars().next());
    Some((state, words.next().and_then(|word| word.parse().ok())))
}

/// All processes below this one, by their parents' ids.
fn descendants(root: libc::pid_t) -> Vec<libc::pid_t> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut children: BTreeMap<libc::pid_t, Vec<libc::pid_t>> = BTreeMap::new();
    for entry in folder.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<libc::pid_t>().ok()) else {
            continue;
        };
        if let Some((_, Some(parent))) = fields(&format!("/proc/{pid}/stat")) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut pending = vec![root];
    while let Some(pid) = pending.pop() {
        if let Some(below) = children.remove(&pid) {
            found.extend(&below);
            pending.extend(below);
        }
    }
    found
}

/// Those below this one that have not ended.
pub(crate) fn alive_below(root: libc::pid_t) -> Vec<libc::pid_t> {
    let runs = |pid: &libc::pid_t| {
        state(&format!("/proc/{pid}/stat")).is_some_and(|state| !matches!(state, 'Z' | 'X'))
    };
    descendants(root).into_iter().filter(runs).collect()
}

/// Asks a process group's leader to end. The leader must be an unreaped child of the caller.
pub(crate) fn ask_to_end(leader: libc::pid_t) -> io::Result<()> {
    sys::kill(leader, libc::SIGTERM)
}

/// Kills a process group's leader, its group, and whatever descends from it in other groups. The leader must
/// be an unreaped child of the caller, so that its id cannot have been reused. It becomes a zombie.
pub(crate) fn kill_tree(leader: libc::pid_t) -> io::Result<()> {
    // Held by descriptor: once their parent is gone their ids may be reused.
    let below: Vec<Target> =
        descendants(leader).into_iter().filter_map(|pid| Target::open(pid.unsigned_abs()).ok()).collect();
    // A reaper that is asked takes everything below it along and leaves no zombies.
    ask_to_end(leader)?;
    let asked = Instant::now();
    while asked.elapsed() < REAPER_LIMIT && !sys::has_ended(leader)? {
        std::thread::sleep(Duration::from_micros(200));
    }
    // Those born meanwhile; a parent killed first would hand its children to somebody else.
    for _ in 0..8 {
        let born = descendants(leader);
        for pid in &born {
            let _ = sys::kill(*pid, libc::SIGKILL);
        }
        kill_group(leader)?;
        if born.is_empty() {
            break;
        }
    }
    for process in below {
        // Gone is what it should be.
        let _ = process.kill();
    }
    Ok(())
}

/// Kills every member of the group; none left is fine.
pub(crate) fn kill_group(leader: libc::pid_t) -> io::Result<()> {
    match sys::kill(-leader, libc::SIGKILL) {
        Err(error) if error.raw_os_error() != Some(libc::ESRCH) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_described() {
        let own = Target::open(std::process::id()).unwrap();
        assert!(own.is_alive());
        assert!(own.threads().unwrap().contains(&std::process::id()));
        assert!(own.cpu_time().unwrap() > Duration::ZERO);
        let (state, parent) = fields("/proc/self/stat").unwrap();
        assert!(matches!(state, Some('R' | 'S')));
        assert!(parent.is_some());
    }

    #[test]
    fn nobody_is_gone() {
        assert!(matches!(Target::open(u32::MAX), Err(SandboxError::Gone(_))));
        assert!(matches!(Target::open(4_194_304), Err(SandboxError::Gone(_))));
    }
}
