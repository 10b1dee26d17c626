//! A command under a lease: its terminal is ours, signals go on to it, and its end is ours.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};

/// Signals that are passed on when somebody sends them to us.
const PASSED_ON: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// Why a command did not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such program.
    #[error("{program}: there is no such program")]
    NotFound {
        /// The program.
        program: String,
    },
    /// It cannot be executed.
    #[error("{program}: cannot be executed")]
    NotExecutable {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("waiting for {program}")]
    System {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
}

/// The exit code that a shell would give: the command's own, or 128 and the signal that ended it.
#[must_use]
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|s| 128 + s)).unwrap_or(255);
    u8::try_from(code & 0xff).unwrap_or(255)
}

/// Runs a command with our standard streams and more environment variables, and waits for its end. The calling thread
/// must be the only one of its process: it takes the signals for all.
///
/// # Errors
/// When it cannot be started or waited for.
pub fn run(program: &OsString, args: &[OsString], env: &[(&str, String)]) -> Result<ExitStatus, RunError> {
    let name = || program.to_string_lossy().into_owned();
    let signals = Signals::take().map_err(|source| RunError::System { program: name(), source })?;
    let mut command = Command::new(program);
    command.args(args).envs(env.iter().map(|(k, v)| (k, v)));
    signals.give_back_to(&mut command);
    let mut child = command.spawn().map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if !names_a_file(program) => RunError::NotFound { program: name() },
        _ => RunError::NotExecutable { program: name(), source },
    })?;
    signals.until_the_end(&mut child).map_err(|source| RunError::System { program: name(), source })
}

/// Whether the program is there as a file: then it is its interpreter that was not found.
fn names_a_file(program: &OsString) -> bool {
    let path = std::path::Path::new(program);
    path.components().count() > 1 && path.exists()
}

/// The signals of this process, held back while a command runs.
struct Signals {
    set: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    #[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
    fn take() -> io::Result<Self> {
        // SAFETY: plain structures that live here; a mask and a default action are set in the calling thread's process.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, signal);
            }
            // Whoever started us may have had the ends of children ignored; then none would be told.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            match libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before) {
                0 => Ok(Self { set, before }),
                code => Err(io::Error::from_raw_os_error(code)),
            }
        }
    }

    /// Lets the command begin with the signals held back that were so before.
    #[expect(unsafe_code, reason = "a setting between fork and exec")]
    fn give_back_to(&self, command: &mut Command) {
        let before = self.before;
        let restore = move || {
            // SAFETY: a plain structure; the child has one thread.
            match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) }
            {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            }
        };
        // SAFETY: the closure makes one plain system call, allocates nothing and takes no lock.
        unsafe { command.pre_exec(restore) };
    }

    #[expect(unsafe_code, reason = "waiting for a signal has no safe wrapper")]
    fn until_the_end(&self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // SAFETY: writes one structure.
            let (signal, info) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                (libc::sigwaitinfo(&raw const self.set, &raw mut info), info)
            };
            if signal < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            // What the terminal sends goes to the whole foreground group, the command included: a second one would
            // count as an impatient person's. A code above zero says that the kernel itself sent it.
            if signal != libc::SIGCHLD && info.si_code <= 0 {
                // SAFETY: the child has not been reaped, so the id is still its own.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
            }
        }
    }
}

impl Drop for Signals {
    #[expect(unsafe_code, reason = "signal masks have no safe wrapper")]
    fn drop(&mut self) {
        // What arrived after the command had ended would end us before its exit code is passed on.
        // SAFETY: plain structures; a zero time-out only looks.
        unsafe {
            let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            while libc::sigtimedwait(&raw const self.set, std::ptr::null_mut(), &raw const no_time) > 0 {}
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_a_shell() {
        for (raw, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), code, "{raw:#x}");
        }
    }
}
