//! The supervisor's side of the system call filter: serves, judges and records what a worker may not do by itself.

use crate::seccomp;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Different denials that are kept; more only count.
const MOST_KINDS: usize = 64;
/// How often the thread looks whether it should end.
const PATIENCE_MS: i32 = 20;

/// A denied attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Denial {
    /// System call.
    pub syscall: String,
    /// What it was about: a path, a process, an address family.
    pub detail: String,
    /// How often.
    pub count: u64,
}

/// Serves the notifications of one worker.
#[derive(Debug)]
pub struct Monitor {
    denials: Arc<Mutex<Vec<Denial>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Monitor {
    /// Starts serving. Opening a file for reading is allowed under `allowed_reads`; everything else is refused.
    #[must_use]
    pub fn start(listener: OwnedFd, allowed_reads: Vec<PathBuf>) -> Self {
        let denials = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&denials), Arc::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("denials".into())
            .spawn(move || serve(&listener, &allowed_reads, &shared, &stopped))
            .ok();
        Self { denials, stop, thread }
    }

    /// What was denied so far.
    #[must_use]
    pub fn denials(&self) -> Vec<Denial> {
        lock(&self.denials).clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(denials: &Mutex<Vec<Denial>>) -> MutexGuard<'_, Vec<Denial>> {
    denials.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default, Clone, Copy)]
#[repr(C)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    nr: i32,
    arch: u32,
    instruction_pointer: u64,
    args: [u64; 6],
}

#[derive(Debug, Default)]
#[repr(C)]
struct Response {
    id: u64,
    val: i64,
    error: i32,
    flags: u32,
}

const RECEIVE: libc::Ioctl = 0xc050_2100u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xc018_2101u32 as libc::Ioctl;
const STILL_VALID: libc::Ioctl = 0x4008_2102u32 as libc::Ioctl;
const CONTINUE: u32 = 1;

#[expect(unsafe_code, reason = "poll and ioctl on the listener")]
fn serve(listener: &OwnedFd, allowed: &[PathBuf], denials: &Mutex<Vec<Denial>>, stop: &AtomicBool) {
    let fd = listener.as_raw_fd();
    while !stop.load(Ordering::Relaxed) {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one live pollfd.
        let ready = unsafe { libc::poll(&raw mut poll, 1, PATIENCE_MS) };
        if poll.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            return;
        }
        if ready <= 0 || poll.revents & libc::POLLIN == 0 {
            continue;
        }
        let mut notification = Notification::default();
        // SAFETY: a zeroed struct of the kernel's size and layout.
        if unsafe { libc::ioctl(fd, RECEIVE, &raw mut notification) } != 0 {
            // The process died, or a signal came in between.
            continue;
        }
        let verdict = judge(&notification, allowed);
        let mut response = Response { id: notification.id, ..Response::default() };
        match verdict {
            Judgement::Allow => response.flags = CONTINUE,
            Judgement::Deny { errno, detail } => {
                response.error = -errno;
                // SAFETY: a live id. What was read from a process that is gone by now is not worth recording.
                if unsafe { libc::ioctl(fd, STILL_VALID, &raw const notification.id) } == 0 {
                    record(denials, seccomp::name(i64::from(notification.nr)), detail);
                }
            }
        }
        // SAFETY: a live struct of the kernel's size and layout. An error means that the process died.
        unsafe { libc::ioctl(fd, SEND, &raw mut response) };
    }
}

fn record(denials: &Mutex<Vec<Denial>>, syscall: String, detail: String) {
    let mut denials = lock(denials);
    if let Some(known) = denials.iter_mut().find(|d| d.syscall == syscall && d.detail == detail) {
        known.count += 1;
    } else if denials.len() < MOST_KINDS {
        denials.push(Denial { syscall, detail, count: 1 });
    } else if let Some(last) = denials.last_mut() {
        last.count += 1;
    }
}

enum Judgement {
    Allow,
    Deny { errno: i32, detail: String },
}

fn judge(notification: &Notification, allowed: &[PathBuf]) -> Judgement {
    let nr = i64::from(notification.nr);
    let args = notification.args;
    let deny = |errno, detail: String| Judgement::Deny { errno, detail };
    #[cfg(target_arch = "x86_64")]
    let opens = match nr {
        libc::SYS_open => Some((args[0], args[1])),
        libc::SYS_openat => Some((args[1], args[2])),
        _ => None,
    };
    #[cfg(not(target_arch = "x86_64"))]
    let opens = (nr == libc::SYS_openat).then_some((args[1], args[2]));
    if let Some((address, flags)) = opens {
        let path = read_string(notification.pid, address);
        let shown = path.as_deref().map_or_else(|| "an unreadable path".to_owned(), |p| p.display().to_string());
        let writing = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | libc::O_TMPFILE;
        // O_TMPFILE includes O_DIRECTORY's bit, which reading a folder may have.
        let writing = flags as i32 & (writing & !libc::O_DIRECTORY) != 0;
        if writing {
            return deny(libc::EACCES, format!("{shown} for writing"));
        }
        // The path is judged as it was a moment ago; another thread of the worker may change it before the kernel
        // reads it again. Landlock and the private root are what holds then; this is the record.
        return match path {
            Some(path) if is_allowed(&path, allowed) => Judgement::Allow,
            _ => deny(libc::EACCES, shown),
        };
    }
    let first = args[0];
    let detail = match nr {
        libc::SYS_socket | libc::SYS_socketpair => format!("address family {first}"),
        libc::SYS_kill | libc::SYS_tgkill | libc::SYS_tkill => format!("process {}", first as i32),
        libc::SYS_clone => "a new process".to_owned(),
        libc::SYS_mmap | libc::SYS_mprotect => "executable memory".to_owned(),
        libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_renameat2 | libc::SYS_fchmodat | libc::SYS_linkat => {
            text(notification.pid, args[1])
        }
        libc::SYS_execve | libc::SYS_truncate | libc::SYS_chdir | libc::SYS_mount => text(notification.pid, first),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink
        | libc::SYS_rmdir
        | libc::SYS_rename
        | libc::SYS_mkdir
        | libc::SYS_chmod
        | libc::SYS_creat
        | libc::SYS_link
        | libc::SYS_symlink => text(notification.pid, first),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_fork | libc::SYS_vfork => "a new process".to_owned(),
        _ => String::new(),
    };
    deny(libc::EPERM, detail)
}

fn text(pid: u32, address: u64) -> String {
    read_string(pid, address).map_or_else(|| "an unreadable path".to_owned(), |p| p.display().to_string())
}

/// The NUL-terminated string at `address` of another process, at most a path's length.
fn read_string(pid: u32, address: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    const PAGE: u64 = 4096;
    let memory = std::fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = Vec::new();
    let mut at = address;
    while bytes.len() < libc::PATH_MAX as usize {
        // Page by page, since the page after the string's end may not be mapped.
        let mut chunk = vec![0; (PAGE - at % PAGE) as usize];
        let n = memory.read_at(&mut chunk, at).ok().filter(|n| *n > 0)?;
        if let Some(end) = chunk[..n].iter().position(|&b| b == 0) {
            bytes.extend_from_slice(&chunk[..end]);
            return Some(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes)));
        }
        bytes.extend_from_slice(&chunk[..n]);
        at += n as u64;
    }
    None
}

/// Whether a path, taken literally, lies under one of the allowed ones. Relative paths start at the root, where a
/// worker's current folder is.
fn is_allowed(path: &Path, allowed: &[PathBuf]) -> bool {
    let mut plain = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    allowed.iter().any(|a| plain.starts_with(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_judged_after_their_dots_are_resolved() {
        let allowed = [PathBuf::from("/usr"), PathBuf::from("/proc/self")];
        for (path, expected) in [
            ("/usr/lib/libm.so", true),
            ("/usr/../etc/shadow", false),
            ("/usrlocal/x", false),
            ("usr/lib", true),
            ("/proc/self/maps", true),
            ("/proc/self/../1/environ", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(is_allowed(Path::new(path), &allowed), expected, "{path}");
        }
    }

    #[test]
    fn denials_are_counted_and_bounded() {
        let denials = Mutex::new(Vec::new());
        for i in 0..200 {
            record(&denials, "openat".into(), format!("/{}", i % 100));
        }
        let denials = lock(&denials);
        assert_eq!(denials.len(), MOST_KINDS);
        assert_eq!(denials.iter().map(|d| d.count).sum::<u64>(), 200);
    }

    #[test]
    fn strings_are_read_from_a_process() {
        let text = c"/some/where";
        let path = read_string(std::process::id(), text.as_ptr() as u64);
        assert_eq!(path, Some(PathBuf::from("/some/where")));
        assert_eq!(read_string(std::process::id(), 8), None);
    }
}
