//! How much one scenario's measurement takes. Pure, and decided by the seed's time and the tier: a candidate cannot make its
//! own measurement shorter.

use crate::requests::least_calls;
use crate::settings::Effort;
use std::time::Duration;

/// Fewest pairs of an instance and fewest instances that a slow seed's scenario is left with: six pairs in all.
const FEWEST_PAIRS: usize = 2;
const FEWEST_INSTANCES: usize = 3;
/// As long as there are more pairs or instances than these, the number of the other is left alone: what is left of a difference
/// between processes falls with the instances alone, what is left of the scatter of pairs with their product.
const SOME_PAIRS: usize = 3;
const SOME_INSTANCES: usize = 4;

/// Instances, pairs and calls of one scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Worker instances of each side.
    pub instances: usize,
    /// Timed pairs of requests in each of them.
    pub pairs: usize,
    /// Most calls of one request.
    pub most: usize,
}

impl Work {
    /// Nothing to be timed.
    pub const NONE: Self = Self { instances: 0, pairs: 0, most: 1 };

    /// As much as the effort says.
    #[must_use]
    pub const fn usual(effort: &Effort, pairs: usize) -> Self {
        Self { instances: effort.instances, pairs, most: effort.max_slots }
    }

    /// Calls of a fresh worker's first request, which is not timed.
    #[must_use]
    pub const fn warming(&self) -> usize {
        if self.most < 2 { self.most } else { 2 }
    }

    /// Time of the calls of both sides, on the average, when one call takes `call_ns`.
    fn nanos(&self, call_ns: f64) -> f64 {
        let calls = (least_calls(self.most, true) + self.most) as f64 / 2.0;
        2.0 * self.instances as f64 * (self.warming() as f64 + self.pairs as f64 * calls) * call_ns
    }

    /// The same with fewer calls, so that they take no longer than `share`: calls of a request first, since a long call needs no
    /// company to be timed, then pairs and instances in turns, down to the fewest that make an interval.
    #[must_use]
    pub fn within(mut self, call_ns: f64, budget: Duration, share: Duration) -> Self {
        self.most = ((budget.as_nanos() as f64 / call_ns.max(1.0)) as usize).clamp(1, self.most.max(1));
        while self.nanos(call_ns) > share.as_nanos() as f64 {
            if self.most > 1 {
                self.most -= 1;
            } else if self.pairs > SOME_PAIRS {
                self.pairs -= 1;
            } else if self.instances > SOME_INSTANCES {
                self.instances -= 1;
            } else if self.pairs > FEWEST_PAIRS {
                self.pairs -= 1;
            } else if self.instances > FEWEST_INSTANCES {
                self.instances -= 1;
            } else {
                break;
            }
        }
        self
    }
}

/// Time that the calls of each of `scenarios` scenarios may take.
#[must_use]
pub fn share(effort: &Effort, scenarios: usize) -> Duration {
    effort.timed.min(effort.timed_in_all / scenarios.max(1) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Tier;

    const MS: f64 = 1e6;

    fn plan(call_ns: f64, scenarios: usize) -> Work {
        let effort = Effort::on_gpu(Tier::Default);
        Work::usual(&effort, effort.pairs).within(call_ns, effort.request_budget, share(&effort, scenarios))
    }

    #[test]
    fn short_calls_are_timed_as_ever_and_long_ones_less_often() {
        let usual = Work { instances: 8, pairs: 5, most: 16 };
        for (call_ns, scenarios, expected) in [
            (5e3, 26, usual),
            (5e3, 182, usual),
            (0.5 * MS, 26, usual),
            (0.5 * MS, 182, Work { most: 9, ..usual }),
            (2.0 * MS, 182, Work { most: 1, ..usual }),
            (10.0 * MS, 26, Work { instances: 8, pairs: 4, most: 1 }),
            (10.0 * MS, 182, Work { instances: 4, pairs: 3, most: 1 }),
            (300.0 * MS, 26, Work { instances: 3, pairs: 2, most: 1 }),
            (300.0 * MS, 182, Work { instances: 3, pairs: 2, most: 1 }),
            (f64::INFINITY, 1, Work { instances: 3, pairs: 2, most: 1 }),
        ] {
            assert_eq!(plan(call_ns, scenarios), expected, "{call_ns} {scenarios}");
        }
        // What asks for less than the fewest gets what it asks for.
        let one = Work { instances: 1, pairs: 1, most: 1 };
        assert_eq!(one.within(1e12, Duration::from_millis(1), Duration::ZERO), one);
        assert_eq!(Work::NONE.within(1e12, Duration::ZERO, Duration::ZERO), Work::NONE);
    }

    #[test]
    fn no_plan_exceeds_its_share_unless_nothing_is_left_to_take_away() {
        for tier in [Tier::Quick, Tier::Default, Tier::Full] {
            let effort = Effort::on_gpu(tier);
            for scenarios in [1, 12, 26, 182] {
                for exponent in 10..40 {
                    let call_ns = 1.6f64.powi(exponent);
                    let share = share(&effort, scenarios);
                    let work =
                        Work::usual(&effort, effort.pairs).within(call_ns, effort.request_budget, share);
                    let fewest =
                        work.pairs == FEWEST_PAIRS && work.instances == FEWEST_INSTANCES && work.most == 1;
                    assert!(
                        fewest || work.nanos(call_ns) <= share.as_nanos() as f64,
                        "{tier:?} {call_ns} {work:?}"
                    );
                }
            }
        }
    }
}
