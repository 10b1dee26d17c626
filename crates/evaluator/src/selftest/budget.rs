//! Time that a machine is lent for: a self-test stops between two trials and goes on another day. Pure but for the clock.

use std::time::{Duration, Instant};

/// A budget of wall time.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    start: Instant,
    limit: Option<Duration>,
    longest: Duration,
}

impl Budget {
    /// Begins now; without a limit it never ends.
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        Self { start: Instant::now(), limit, longest: Duration::ZERO }
    }

    /// Whether another trial as long as the longest so far still fits.
    #[must_use]
    pub fn allows(&self) -> bool {
        fits(self.limit, self.start.elapsed(), self.longest)
    }

    /// Notes how long a trial took.
    pub fn took(&mut self, trial: Duration) {
        self.longest = self.longest.max(trial);
    }

    /// Forgets how long trials take: those of the next section are others.
    pub fn next_section(&mut self) {
        self.longest = Duration::ZERO;
    }
}

fn fits(limit: Option<Duration>, elapsed: Duration, longest: Duration) -> bool {
    limit.is_none_or(|limit| elapsed + longest < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_is_begun_only_if_it_fits() {
        let s = Duration::from_secs;
        for (limit, elapsed, longest, expected) in [
            (None, 1_000_000, 1_000_000, true),
            (Some(60), 0, 0, true),
            (Some(60), 49, 10, true),
            (Some(60), 50, 10, false),
            (Some(60), 61, 0, false),
            (Some(0), 0, 0, false),
        ] {
            assert_eq!(fits(limit.map(s), s(elapsed), s(longest)), expected, "{limit:?} {elapsed} {longest}");
        }
        let mut budget = Budget::new(Some(s(3600)));
        assert!(budget.allows());
        budget.took(s(3601));
        assert!(!budget.allows());
        budget.next_section();
        assert!(budget.allows());
    }
}
