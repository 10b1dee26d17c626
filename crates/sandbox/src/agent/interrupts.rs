//! Ctrl-C while an agent works. Of an agent that a person sits before it is meant for the agent, and the supervisor has
//! to survive it; of one that works alone it is meant for the supervisor, which ends the turn.
#![expect(unsafe_code, reason = "signal dispositions have no safe wrapper in the standard library")]

use std::sync::atomic::{AtomicU32, Ordering};

/// Signals that a terminal sends to everybody in front of it.
const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];

/// What a watched process is asked to end with.
const WATCHED: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// Interrupts since the watch began.
static SEEN: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_: libc::c_int) {
    SEEN.fetch_add(1, Ordering::SeqCst);
}

/// While this lives, Ctrl-C and a polite request to end are counted and do nothing else. Dropping it puts back what was
/// before. One at a time: the count is the process's.
#[derive(Debug)]
pub struct InterruptWatch([libc::sighandler_t; 2]);

impl InterruptWatch {
    /// Counts them from now on.
    #[must_use]
    pub fn begin() -> Self {
        SEEN.store(0, Ordering::SeqCst);
        let handler = count as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only adds to an atomic number.
        Self(WATCHED.map(|signal| unsafe { libc::signal(signal, handler) }))
    }

    /// How many there were.
    #[must_use]
    pub fn seen(&self) -> u32 {
        SEEN.load(Ordering::SeqCst)
    }
}

impl Drop for InterruptWatch {
    fn drop(&mut self) {
        for (signal, before) in WATCHED.into_iter().zip(self.0) {
            if before != libc::SIG_ERR {
                // SAFETY: puts back a disposition that this process had.
                unsafe { libc::signal(signal, before) };
            }
        }
    }
}

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
    fn interrupts_are_counted_while_somebody_watches() {
        let watch = InterruptWatch::begin();
        assert_eq!(watch.seen(), 0);
        // SAFETY: sends a signal to this thread alone, which has a handler for it.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_eq!(watch.seen(), 1);
    }

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
