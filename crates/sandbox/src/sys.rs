//! Thin, checked wrappers over the system calls that the standard library does not offer.
#![expect(unsafe_code, reason = "system calls without a safe wrapper in the standard library")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use crate::error::SandboxError;

/// Turns the `-1` convention into a result.
pub(crate) fn check(value: libc::c_long) -> io::Result<libc::c_long> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

/// A path as a C string.
pub(crate) fn c_path(path: &Path) -> Result<CString, SandboxError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| SandboxError::Nul(path.display().to_string()))
}

/// `prctl(option, argument)`.
pub(crate) fn prctl(option: libc::c_int, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the options used in this crate take plain integers, no pointers.
    check(unsafe { libc::prctl(option, argument, 0, 0, 0) }.into()).map(drop)
}

/// Forbids gaining privileges on exec; needed by Landlock and seccomp without capabilities.
pub(crate) fn no_new_privileges() -> io::Result<()> {
    prctl(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// The calling process's id, as it sees itself.
pub(crate) fn own_pid() -> libc::pid_t {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getpid() }
}

/// A descriptor of the process, close-on-exec. Absent before Linux 5.3.
pub(crate) fn pidfd_open(pid: libc::pid_t) -> io::Result<OwnedFd> {
    // SAFETY: two plain integers.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: the call just returned this descriptor and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// `kill(pid, signal)`; a negative pid names a process group.
pub(crate) fn kill(pid: libc::pid_t, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: two plain integers.
    check(unsafe { libc::kill(pid, signal) }.into()).map(drop)
}

/// Waits until one of the descriptors is readable or hung up. The answer has one entry a descriptor;
/// all false after the time limit. `None` waits for ever.
pub(crate) fn poll(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<Vec<libc::c_short>> {
    let mut entries: Vec<libc::pollfd> =
        fds.iter().map(|fd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 }).collect();
    let timeout = limit.map_or(-1, |limit| {
        let rounded_up = limit.as_millis().saturating_add(u128::from(limit.subsec_nanos() % 1_000_000 != 0));
        libc::c_int::try_from(rounded_up).unwrap_or(libc::c_int::MAX)
    });
    // SAFETY: the pointer and the length describe `entries`, which outlives the call.
    let answer = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
    match check(answer.into()) {
        Ok(_) => Ok(entries.iter().map(|entry| entry.revents).collect()),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(vec![0; fds.len()]),
        Err(error) => Err(error),
    }
}

/// Whether the child has ended; it stays a zombie, so its ids are not reused yet.
pub(crate) fn has_ended(pid: libc::pid_t) -> io::Result<bool> {
    // SAFETY: an all-zero siginfo_t is a valid value of this plain C struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    // SAFETY: `info` outlives the call.
    check(unsafe { libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, options) }.into())?;
    // SAFETY: waitid filled the struct, or left the zeroes that mean "nothing to report".
    Ok(unsafe { info.si_pid() } == pid)
}

/// Closes every descriptor from `first` on, or marks it close-on-exec. Absent before Linux 5.9 (5.11).
pub(crate) fn close_from(first: libc::c_uint, on_exec_only: bool) -> io::Result<()> {
    let flags = if on_exec_only { libc::CLOSE_RANGE_CLOEXEC } else { 0 };
    // SAFETY: plain integers; callers own every descriptor of the process at this point.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, flags) }).map(drop)
}

/// Sets one resource limit, both the soft and the hard value.
pub(crate) fn set_limit(resource: libc::c_int, value: u64) -> io::Result<()> {
    let mut current = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: pid 0 is the caller, the old-limit pointer outlives the call, no new limit is given.
    let read = unsafe {
        libc::syscall(libc::SYS_prlimit64, 0, resource, std::ptr::null::<libc::rlimit64>(), &raw mut current)
    };
    check(read)?;
    let value = value.min(current.rlim_max);
    let wanted = libc::rlimit64 { rlim_cur: value, rlim_max: value };
    // SAFETY: pid 0 is the caller, the new-limit pointer outlives the call.
    let written = unsafe {
        libc::syscall(
            libc::SYS_prlimit64,
            0,
            resource,
            &raw const wanted,
            std::ptr::null_mut::<libc::rlimit64>(),
        )
    };
    check(written).map(drop)
}

/// CPU time of a process with all its threads, ended ones included.
pub(crate) fn process_cpu_time(pid: libc::pid_t) -> io::Result<Duration> {
    // The kernel's encoding of "the CPU clock of this process": complemented pid, 3 low bits = scheduler clock.
    const SCHEDULER_CLOCK: libc::clockid_t = 2;
    let clock = (!pid << 3) | SCHEDULER_CLOCK;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call.
    check(unsafe { libc::clock_gettime(clock, &raw mut time) }.into())?;
    Ok(Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0)))
}

/// Clears close-on-exec; safe between fork and exec.
pub(crate) fn keep_on_exec(fd: libc::c_int) -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, 0) }.into()).map(drop)
}

/// Starts a new session; safe between fork and exec.
pub(crate) fn new_session() -> io::Result<()> {
    // SAFETY: no arguments.
    check(unsafe { libc::setsid() }.into()).map(drop)
}

/// Restricts the calling thread with a prepared Landlock ruleset; safe between fork and exec.
pub(crate) fn landlock_restrict(ruleset: libc::c_int) -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) }).map(drop)
}

/// Gives the signals of a terminal and of job control their default actions, which an exec does not where
/// the caller ignores them, and blocks none; safe between fork and exec.
pub(crate) fn default_signals() {
    for signal in [
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGPIPE,
        libc::SIGCHLD,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGUSR1,
        libc::SIGUSR2,
    ] {
        // SAFETY: the default action is no function of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: a signal set that lives on the stack.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Waits for a child that has ended or is about to.
pub(crate) fn reap(child: libc::pid_t) {
    loop {
        // SAFETY: a null status pointer is allowed.
        let answer = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        if answer >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

/// The highest Landlock interface version of the running kernel.
pub(crate) fn landlock_abi() -> io::Result<i64> {
    const VERSION: libc::c_uint = 1;
    // SAFETY: with the version flag the pointer must be null and the size zero.
    check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) })
}

/// A pipe, both ends close-on-exec: (read, write).
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: the array holds two descriptors and outlives the call.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }.into())?;
    // SAFETY: both descriptors were just returned and nobody else owns them.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cpu_time_advances() {
        let before = process_cpu_time(own_pid()).unwrap();
        let mut sum = 0_u64;
        while process_cpu_time(own_pid()).unwrap() - before < Duration::from_millis(2) {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        assert!(sum != 0);
    }

    #[test]
    fn poll_times_out_and_sees_data() {
        use std::io::Write;
        use std::os::fd::AsFd;
        let (read, write) = pipe().unwrap();
        assert_eq!(poll(&[read.as_fd()], Some(Duration::from_millis(1))).unwrap(), [0]);
        std::fs::File::from(write).write_all(b"x").unwrap();
        let seen = poll(&[read.as_fd()], Some(Duration::from_secs(1))).unwrap();
        assert!(seen[0] & libc::POLLIN != 0);
    }

    #[test]
    fn a_path_with_nul_is_refused() {
        let path = Path::new("a\0b");
        assert!(matches!(c_path(path), Err(SandboxError::Nul(_))));
    }
}
