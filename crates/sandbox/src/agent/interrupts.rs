//! Ctrl-C while an agent works: it is meant for the agent, and the supervisor has to survive it.
#![expect(unsafe_code, reason = "signal dispositions have no safe wrapper in the standard library")]

/// Signals that a terminal sends to everybody in front of it.
const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// While this lives, the process ignores Ctrl-C and Ctrl-\\. Dropping it puts back what was before.
#[derive(Debug)]
pub struct Interrupts([libc::sighandler_t; 2]);

impl Interrupts {
    /// Ignores them from now on.
    #[must_use]
    pub fn ignored() -> Self {
        // SAFETY: installs no handler of ours, only the kernel's own way to drop a signal.
        Self(SIGNALS.map(|signal| unsafe { libc::signal(signal, libc::SIG_IGN) }))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        for (signal, before) in SIGNALS.into_iter().zip(self.0) {
            if before != libc::SIG_ERR {
                // SAFETY: puts back a disposition that this process had.
                unsafe { libc::signal(signal, before) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_survived_and_the_way_before_comes_back() {
        let now = || {
            // SAFETY: reads the disposition by setting it twice.
            unsafe {
                let before = libc::signal(libc::SIGQUIT, libc::SIG_IGN);
                libc::signal(libc::SIGQUIT, before);
                before
            }
        };
        let before = now();
        let ignored = Interrupts::ignored();
        // SAFETY: sends a signal to this process alone.
        unsafe { libc::kill(libc::getpid(), libc::SIGQUIT) };
        assert_eq!(now(), libc::SIG_IGN);
        drop(ignored);
        assert_eq!(now(), before);
    }
}
