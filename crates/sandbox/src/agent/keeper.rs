//! The process between the supervisor and an agent, which finds and ends whatever the agent has started.
//!
//! It is the agent's parent and the one that orphans fall to, so every descendant stays below it: one that
//! left its session, its group and its parent too. It ends them when told to, and when the supervisor is
//! gone. Chosen over two other ways:
//!
//! * *The supervisor as the one that orphans fall to* mixes the agent's with those of its own workers, and
//!   finds nothing once it has been killed itself.
//! * *A pid namespace* ends everything by itself, but takes a user namespace (refused on many machines, and
//!   with it every file of other users looks like nobody's) and a `/proc` of its own: process ids would mean
//!   one thing to the agent's debuggers, profilers and device tools and another to everybody else.
//!
//! In a Landlock domain that keeps signals in, one signal to everybody ends all of them in one step, which
//! no fork slips through. Before the keeper relies on that it has tried the domain on the supervisor. Without
//! it, processes are looked for one by one, again and again.
#![expect(unsafe_code, reason = "waiting, signals and immediate exit have no safe wrapper")]

use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::Duration;

use crate::capabilities;
use crate::control;
use crate::sys;

/// How often children are looked at while they are being ended.
const ENDING: Duration = Duration::from_millis(5);
/// How often children are looked at where the kernel tells nothing about them.
const LOOK: Duration = Duration::from_millis(20);

/// Capabilities left to an agent that is a root user, by their numbers: what working with files of several
/// owners takes (0, 1, 3, 4: chown, `dac_override`, fowner, fsetid), its own processes (5: kill), other
/// users (6, 7: setgid, setuid), and the network (10, 13: low ports, raw sockets). Not: administration,
/// modules, raw devices and disks, tracing of others, clocks, kernel programs, opening by handle.
const KEPT: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 13;

/// What the keeper tells the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record {
    /// Whether its signals stay inside.
    Confined(bool),
    /// The error of giving privileges up; 0 for none.
    Privileges(i32),
    /// The agent runs under this id.
    Started(i32),
    /// It could not be started, for this error.
    Failed(i32),
    /// It ended, with the status of a wait.
    Ended(i32),
    /// Nobody is left; so many were alive at the order.
    Left(i32),
}

/// Bytes of one record: the kind and its value. A pipe takes them whole or not at all.
pub(crate) const RECORD: usize = 8;

impl Record {
    fn encode(self) -> [u8; RECORD] {
        let (kind, value) = match self {
            Self::Confined(yes) => (1_i32, i32::from(yes)),
            Self::Privileges(error) => (2, error),
            Self::Started(pid) => (3, pid),
            Self::Failed(error) => (4, error),
            Self::Ended(status) => (5, status),
            Self::Left(count) => (6, count),
        };
        let mut bytes = [0; RECORD];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[4..].copy_from_slice(&value.to_le_bytes());
        bytes
    }

    /// `None` for bytes that no keeper writes.
    pub(crate) fn decode(bytes: [u8; RECORD]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let value = i32::from_le_bytes([e, f, g, h]);
        match i32::from_le_bytes([a, b, c, d]) {
            1 => Some(Self::Confined(value != 0)),
            2 => Some(Self::Privileges(value)),
            3 => Some(Self::Started(value)),
            4 => Some(Self::Failed(value)),
            5 => Some(Self::Ended(value)),
            6 => Some(Self::Left(value)),
            _ => None,
        }
    }
}

/// What a keeper is made from.
pub(crate) struct Plan {
    /// The agent, confined between fork and exec.
    pub(crate) command: Command,
    /// The keeper's own Landlock domain, if it keeps signals in.
    pub(crate) domain: Option<OwnedFd>,
    /// Readable once the agent has to leave, hung up when the supervisor is gone.
    pub(crate) orders: OwnedFd,
    /// Where records go.
    pub(crate) reports: OwnedFd,
    /// The supervisor's process id.
    pub(crate) supervisor: libc::pid_t,
}

/// Runs as the keeper in a process just split off, and ends it. It allocates, which the C library keeps
/// possible after a fork, and takes no other lock of the process it is a copy of.
pub(crate) fn run(plan: Plan) -> ! {
    // A panic must not unwind into the copy of the caller.
    let done = catch_unwind(AssertUnwindSafe(|| keep(plan)));
    // SAFETY: never returns, runs no handlers.
    unsafe { libc::_exit(if done.is_ok() { 0 } else { 1 }) }
}

fn report(to: &mut impl Write, record: Record) {
    // A supervisor that is gone needs no record.
    let _ = to.write_all(&record.encode());
}

fn code(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EINVAL)
}

fn keep(plan: Plan) {
    let Plan { mut command, domain, orders, reports, supervisor } = plan;
    block_signals();
    // The copy of the supervisor's memory is nobody's to read. The agent is dumpable again by its exec.
    let _ = sys::prctl(libc::PR_SET_DUMPABLE, 0);
    let mut reports = std::fs::File::from(reports);
    let confined =
        match sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1).and_then(|()| confine(domain, supervisor)) {
            Ok(confined) => confined,
            Err(error) => return report(&mut reports, Record::Failed(code(&error))),
        };
    report(&mut reports, Record::Confined(confined));
    let privileges = capabilities::keep_only(KEPT).map_or_else(|error| code(&error), |()| 0);
    report(&mut reports, Record::Privileges(privileges));
    let agent = match command.spawn() {
        Ok(child) => child.id().cast_signed(),
        Err(error) => return report(&mut reports, Record::Failed(code(&error))),
    };
    report(&mut reports, Record::Started(agent));
    keep_only(&orders, &reports);
    // From here on no descriptor that the process had before is valid, so nothing may be dropped.
    let _forgotten = ManuallyDrop::new((command, orders, reports));
    watch(agent, confined);
}

/// Puts the two pipes in place of standard input and output and closes everything else: databases, sockets
/// and above all the other ends of the agent's own pipes.
fn keep_only(orders: &OwnedFd, reports: &std::fs::File) {
    // SAFETY: plain integers. The copies take numbers above 2 first, as either may be 0 or 1 already.
    unsafe {
        let read = libc::fcntl(orders.as_raw_fd(), libc::F_DUPFD, 3);
        let write = libc::fcntl(reports.as_raw_fd(), libc::F_DUPFD, 3);
        libc::dup2(read, libc::STDIN_FILENO);
        libc::dup2(write, libc::STDOUT_FILENO);
        libc::close(libc::STDERR_FILENO);
    }
    if sys::close_from(2, false).is_err() {
        for fd in 2..65_536 {
            // SAFETY: this process uses none of them after this point.
            unsafe { libc::close(fd) };
        }
    }
}

/// Enters the domain. True once it is seen to hold: a process outside it cannot be signalled.
fn confine(domain: Option<OwnedFd>, supervisor: libc::pid_t) -> io::Result<bool> {
    let Some(domain) = domain else { return Ok(false) };
    sys::no_new_privileges()?;
    sys::landlock_restrict(domain.as_raw_fd())?;
    Ok(sys::kill(supervisor, 0).is_err_and(|error| error.raw_os_error() == Some(libc::EPERM)))
}

/// What a person types at the shared terminal is meant for the agent.
fn block_signals() {
    // SAFETY: a signal set that lives on the stack.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// A descriptor that is readable once a child has ended.
fn child_ends() -> Option<OwnedFd> {
    // SAFETY: a signal set that lives on the stack, and a descriptor that the call just returned.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        // The supervisor may ignore the signal, and then the kernel would reap for us.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

fn watch(agent: libc::pid_t, confined: bool) {
    // SAFETY: both descriptors were just put there and stay open for good.
    let orders = unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) };
    // SAFETY: as above.
    let mut reports = ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(libc::STDOUT_FILENO) });
    let ends = child_ends();
    let mut leaving = None;
    loop {
        let nobody = reap(|pid, status| {
            if pid == agent {
                report(&mut *reports, Record::Ended(status));
            }
        });
        match leaving {
            Some(count) if nobody => return report(&mut *reports, Record::Left(count)),
            Some(_) => end_everybody(confined),
            None => {}
        }
        let mut watched: Vec<BorrowedFd<'_>> = ends.iter().map(AsFd::as_fd).collect();
        let limit = match (leaving, &ends) {
            (Some(_), _) => ENDING,
            (None, Some(_)) => Duration::from_secs(1),
            (None, None) => LOOK,
        };
        if leaving.is_none() {
            watched.push(orders);
        }
        match sys::poll(&watched, Some(limit)) {
            Ok(seen) => {
                if leaving.is_none() && seen.last().is_some_and(|events| *events != 0) {
                    let alive = control::alive_below(sys::own_pid()).len();
                    leaving = Some(i32::try_from(alive).unwrap_or(i32::MAX));
                }
            }
            Err(_) => std::thread::sleep(LOOK),
        }
        if let Some(ends) = &ends {
            let mut drained = [0_u8; 128];
            // SAFETY: the pointer and the length describe `drained`; without a signal the call fails at once.
            unsafe { libc::read(ends.as_raw_fd(), drained.as_mut_ptr().cast(), drained.len()) };
        }
    }
}

/// Reaps all that have ended; true if no child is left. Orphans are children of this process, so that none
/// is left at all then.
fn reap(mut each: impl FnMut(libc::pid_t, libc::c_int)) -> bool {
    loop {
        let mut status = 0;
        // SAFETY: the pointer outlives the call.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
            0 => return false,
            pid if pid > 0 => each(pid, status),
            _ => match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => {}
                other => return other == Some(libc::ECHILD),
            },
        }
    }
}

fn end_everybody(confined: bool) {
    if confined {
        // Everybody in the domain but the caller.
        let _ = sys::kill(-1, libc::SIGKILL);
        return;
    }
    // A stopped process cannot fork, so the second look finds those born during the first.
    for signal in [libc::SIGSTOP, libc::SIGKILL] {
        for pid in control::alive_below(sys::own_pid()) {
            let _ = sys::kill(pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        for record in [
            Record::Confined(true),
            Record::Confined(false),
            Record::Privileges(libc::EPERM),
            Record::Started(4_194_303),
            Record::Failed(libc::ENOENT),
            Record::Ended(-1),
            Record::Left(0),
        ] {
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode([0; RECORD]), None);
        assert_eq!(Record::decode([7, 0, 0, 0, 1, 0, 0, 0]), None);
    }
}
