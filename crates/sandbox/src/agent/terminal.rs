//! The terminal that an agent shares with the person: as it was, once the agent has left.
#![expect(unsafe_code, reason = "terminal calls have no safe wrapper")]

use crate::sys;

/// What the terminal on standard input was like before an agent used it.
pub(crate) struct Terminal {
    settings: libc::termios,
    foreground: libc::pid_t,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal").field("foreground", &self.foreground).finish_non_exhaustive()
    }
}

impl Terminal {
    /// Remembers it; `None` if standard input is no terminal.
    pub(crate) fn remember() -> Option<Self> {
        // SAFETY: an all-zero termios is a valid value of this plain C struct, and outlives the call.
        unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            sys::check(libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings).into()).ok()?;
            let foreground = libc::tcgetpgrp(libc::STDIN_FILENO);
            Some(Self { settings, foreground })
        }
    }

    /// A killed agent leaves echo off and its own group in front.
    pub(crate) fn restore(&self) {
        // SAFETY: signal sets and settings live on the stack and in `self`; a process in the background would
        // be stopped by these calls unless the signal is blocked.
        unsafe {
            let mut stop: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut stop);
            libc::sigaddset(&raw mut stop, libc::SIGTTOU);
            let blocked = libc::pthread_sigmask(libc::SIG_BLOCK, &raw const stop, &raw mut before) == 0;
            if self.foreground > 0 {
                libc::tcsetpgrp(libc::STDIN_FILENO, self.foreground);
            }
            libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.settings);
            if blocked {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
            }
        }
    }
}
