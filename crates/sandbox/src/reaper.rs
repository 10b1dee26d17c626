//! The two small processes beside a worker: the reaper outside its namespaces and the holder inside.
#![expect(unsafe_code, reason = "waiting, signals and immediate exit have no safe wrapper")]

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::sys;

/// How often parents and children are looked at where the kernel has no process descriptors.
const LOOK: Duration = Duration::from_millis(20);

/// Ends at once, without destructors: this is a copy of a process whose other half goes on.
fn end(code: libc::c_int) -> ! {
    // SAFETY: never returns, runs no handlers.
    unsafe { libc::_exit(code) }
}

/// Never touches a descriptor again: above all not the worker's socket, whose end the supervisor must see.
fn close_everything() {
    if sys::close_from(0, false).is_err() {
        for fd in 0..1024 {
            // SAFETY: this process uses no descriptor after this point.
            unsafe { libc::close(fd) };
        }
    }
}

/// The first process of a pid namespace: reaps what falls to it and waits for its own end.
pub(crate) fn hold_namespace() -> ! {
    let _ = sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
    // SAFETY: ignoring this signal makes the kernel reap children.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    close_everything();
    loop {
        // SAFETY: no arguments.
        unsafe { libc::pause() };
    }
}

fn parent() -> libc::pid_t {
    // SAFETY: no arguments.
    unsafe { libc::getppid() }
}

/// The status of the child, if it has ended.
fn ended(child: libc::pid_t) -> Option<libc::c_int> {
    let mut status = 0;
    // SAFETY: the pointer outlives the call.
    let pid = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
    (pid == child).then_some(status)
}

/// A descriptor that is readable once somebody asks this process to end.
fn end_requests() -> Option<OwnedFd> {
    // SAFETY: a signal set that lives on the stack, and a descriptor that the call just returned.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) < 0 {
            return None;
        }
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// Waits for the worker and ends the way it ended; kills it when the supervisor dies, when asked to end
/// (`SIGTERM`), or at once if it could not be released. Killed itself, it could not reap what dies with it,
/// and where the first process of the machine or container does not reap either, zombies would stay.
pub(crate) fn reap(
    worker: libc::pid_t,
    init: Option<libc::pid_t>,
    supervisor: libc::pid_t,
    not_released: bool,
) -> ! {
    close_everything();
    let asked = end_requests();
    // Not the parent-death signal: that one means the death of the *thread* that started us.
    let descriptors = (sys::pidfd_open(worker), sys::pidfd_open(supervisor));
    let status = loop {
        if let Some(status) = ended(worker) {
            break status;
        }
        if not_released || parent() != supervisor {
            let _ = sys::kill(worker, libc::SIGKILL);
        }
        let mut watched: Vec<BorrowedFd<'_>> = asked.iter().map(AsFd::as_fd).collect();
        let limit = if let (Ok(worker), Ok(supervisor)) = &descriptors {
            watched.extend([worker.as_fd(), supervisor.as_fd()]);
            // Bounded all the same: what descriptors miss, the parent's id shows.
            Duration::from_secs(1)
        } else {
            LOOK
        };
        match sys::poll(&watched, Some(limit)) {
            Ok(seen) if asked.is_some() && seen[0] != 0 => {
                let _ = sys::kill(worker, libc::SIGKILL);
                // The request stays readable: without a pause this would spin until the worker is gone.
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(LOOK),
        }
    };
    if let Some(init) = init {
        let _ = sys::kill(init, libc::SIGKILL);
        // SAFETY: a null status pointer is allowed.
        unsafe { libc::waitpid(init, std::ptr::null_mut(), 0) };
    }
    end_like(status)
}

fn end_like(status: libc::c_int) -> ! {
    if !libc::WIFSIGNALED(status) {
        end(libc::WEXITSTATUS(status));
    }
    let signal = libc::WTERMSIG(status);
    // The worker may have dumped core; a second dump, of this process, would be misleading.
    let _ = sys::set_limit(libc::RLIMIT_CORE as libc::c_int, 0);
    // SAFETY: plain integers, and a signal set that lives on the stack; the default action ends the process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    end(128 + signal)
}
