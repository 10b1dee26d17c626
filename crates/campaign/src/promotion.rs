//! Promotion: a candidate becomes the incumbent when an independent second measurement says so too.
//!
//! The first measurement of a winner is flattered by having been picked, so only the second one is recorded. A mean
//! can rise while a scenario falls; a scenario that seems to have fallen is measured again with four times the pairs,
//! and the intervals are widened so that all of them together are wrong in at most one promotion of twenty.

use crate::board::Evaluation;
use kernelseek_core::verdict::{Digest, Ratio, Stage, Word};
use kernelseek_ledger::entry::Evaluated;
use std::cmp::Ordering;

/// Times the pairs with which seemingly fallen scenarios are measured again.
pub const PAIRS_FACTOR: usize = 4;
/// Chance of wrongly calling one of the scenarios fallen, over all of them together.
pub const CONFIDENCE: f64 = 0.05;

/// Where a contest for the incumbent's place stands.
#[derive(Debug, Clone, PartialEq)]
pub enum Contest {
    /// The evaluation makes no contender, and why.
    None(&'static str),
    /// It must be measured a second time.
    Confirm,
    /// These scenarios seem to have fallen and must be measured again.
    Remeasure(Vec<String>),
    /// It lost.
    Lost {
        /// Why.
        why: String,
        /// Scenarios that fell.
        fallen: Vec<String>,
    },
    /// It won; the numbers are the second measurement's.
    Won(Ratio),
}

/// Whether the candidate is right everywhere and nothing about it is open.
#[must_use]
pub(crate) fn correct_everywhere(digest: &Digest) -> bool {
    matches!(digest.word, Word::Pass | Word::Unresolved)
        && !digest.scenarios.is_empty()
        && digest
            .scenarios
            .iter()
            .all(|s| matches!(s.word, Word::Pass | Word::Unresolved) && s.passed >= Stage::Correct)
}

/// The aggregate that a contender's lower bound must exceed: the incumbent's, or 1 for the seed.
fn bar(incumbent: Option<&Digest>) -> f64 {
    incumbent.and_then(|d| d.geomean).map_or(1.0, |g| g.point)
}

/// Lower end of what the incumbent reaches in a scenario; the seed's ratio to itself is 1.
fn incumbent_lo(incumbent: Option<&Digest>, id: &str) -> f64 {
    incumbent.and_then(|d| d.scenario(id)).and_then(|s| s.ratio).map_or(1.0, |r| r.lo)
}

/// Scenarios of `now` whose whole interval lies below the incumbent's.
fn fallen(now: &Digest, incumbent: Option<&Digest>) -> Vec<String> {
    now.scenarios
        .iter()
        .filter(|s| match (s.ratio, s.fallback) {
            // A number that is none has fallen.
            (Some(r), _) => r.hi.partial_cmp(&incumbent_lo(incumbent, &s.id)).is_none_or(Ordering::is_lt),
            // Without a ratio there is nothing to set against what the incumbent reached, unless the seed runs it.
            (None, true) => incumbent_lo(incumbent, &s.id) > 1.0,
            (None, false) => true,
        })
        .map(|s| s.id.clone())
        .collect()
}

const NOT_ABOVE: &str = "its lower bound does not exceed the incumbent";

fn exceeds(g: &Ratio, bar: f64) -> bool {
    g.lo.is_finite() && g.lo > bar
}

/// Why an evaluation makes no contender for the incumbent's place; nothing if it makes one. `incumbent` is its candidate
/// hash and its aggregate; none for the seed. Needs the row's facts alone, so that a whole ledger can be told.
#[must_use]
pub fn no_contender(
    facts: &Evaluated,
    correct: bool,
    seed_hash: &str,
    incumbent: Option<(&str, f64)>,
) -> Option<&'static str> {
    if facts.tier == "quick" || !facts.whole_grid {
        return Some("only an evaluation of the whole grid can promote");
    }
    if facts.mode != crate::stop::MODE {
        return Some("only an evaluation with cold caches, in the device column, can promote");
    }
    if !correct {
        return Some("it is not proven correct everywhere");
    }
    if facts.candidate_hash.is_empty() || facts.candidate_hash == seed_hash {
        return Some("it is the seed itself");
    }
    if incumbent.is_some_and(|(hash, _)| hash == facts.candidate_hash) {
        return Some("it is the incumbent itself");
    }
    let bar = incumbent.map_or(1.0, |(_, point)| point);
    (!facts.geomean.is_some_and(|g| exceeds(&g, bar))).then_some(NOT_ABOVE)
}

/// Where the contest of `first` stands.
#[must_use]
pub(crate) fn contest(
    first: &Evaluation,
    first_digest: &Digest,
    incumbent: Option<&Digest>,
    confirmed: Option<&Digest>,
    remeasured: Option<&Digest>,
) -> Contest {
    let facts = &first.facts;
    let bar = bar(incumbent);
    let holder = incumbent.map(|d| (d.candidate_hash.as_str(), bar));
    if let Some(why) = no_contender(facts, correct_everywhere(first_digest), &first_digest.seed_hash, holder)
    {
        return Contest::None(why);
    }
    let exceeds = |d: &Digest| d.geomean.is_some_and(|g| exceeds(&g, bar));
    if !exceeds(first_digest) {
        return Contest::None(NOT_ABOVE);
    }
    let Some(confirmed) = confirmed else { return Contest::Confirm };
    if confirmed.candidate_hash != facts.candidate_hash {
        return lost("the sources changed between the two measurements", Vec::new());
    }
    if !correct_everywhere(confirmed) {
        return lost("the second measurement does not prove it correct everywhere", Vec::new());
    }
    let Some(geomean) = confirmed.geomean.filter(|_| exceeds(confirmed)) else {
        let reached = confirmed.geomean.map_or(0.0, |g| g.lo);
        return lost(
            &format!("the second measurement's lower bound is {reached:.3}×, the incumbent has {bar:.3}×"),
            Vec::new(),
        );
    };
    let seemingly = fallen(confirmed, incumbent);
    if seemingly.is_empty() {
        return Contest::Won(geomean);
    }
    let Some(remeasured) = remeasured else { return Contest::Remeasure(seemingly) };
    let still: Vec<String> = seemingly
        .into_iter()
        .filter(|id| {
            let again = remeasured.scenario(id);
            let ratio = again.and_then(|s| s.ratio);
            let correct = again.is_some_and(|s| matches!(s.word, Word::Pass | Word::Unresolved));
            !correct || !ratio.is_some_and(|r| r.hi >= incumbent_lo(incumbent, id))
        })
        .collect();
    if still.is_empty() {
        return Contest::Won(geomean);
    }
    lost("the mean rises, but scenarios fall", still)
}

fn lost(why: &str, fallen: Vec<String>) -> Contest {
    Contest::Lost { why: why.to_owned(), fallen }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::testing::{digest, evaluation};

    fn go(first: &Digest, inc: Option<&Digest>, second: Option<&Digest>, again: Option<&Digest>) -> Contest {
        contest(&evaluation(5, "default", first), first, inc, second, again)
    }

    #[test]
    fn the_first_measurement_alone_promotes_nothing() {
        let faster = digest("a", &[("x", 1.3), ("y", 1.2)]);
        assert_eq!(go(&faster, None, None, None), Contest::Confirm);
        let second = digest("a", &[("x", 1.25), ("y", 1.15)]);
        match go(&faster, None, Some(&second), None) {
            Contest::Won(g) => assert_eq!(g, second.geomean.unwrap(), "the second one's numbers"),
            other => panic!("{other:?}"),
        }
        let lucky = digest("a", &[("x", 1.0), ("y", 1.0)]);
        assert!(matches!(go(&faster, None, Some(&lucky), None), Contest::Lost { .. }));
        let other = digest("b", &[("x", 1.3), ("y", 1.2)]);
        assert!(matches!(go(&faster, None, Some(&other), None), Contest::Lost { .. }));
    }

    #[test]
    fn what_cannot_be_a_contender_says_why() {
        let good = [("x", 1.3), ("y", 1.2)];
        let mut wrong = digest("a", &good);
        wrong.scenarios[0].word = Word::Fail;
        wrong.word = Word::Fail;
        let mut unproven = digest("a", &good);
        unproven.word = Word::Unproven;
        let slower = digest("a", &[("x", 0.9), ("y", 1.0)]);
        let incumbent = digest("a", &good);
        for (d, inc) in
            [(&wrong, None), (&unproven, None), (&slower, None), (&digest("a", &good), Some(&incumbent))]
        {
            assert!(matches!(go(d, inc, None, None), Contest::None(_)), "{d:?}");
        }
        let d = digest("seed", &good);
        assert!(matches!(go(&d, None, None, None), Contest::None(why) if why.contains("seed")));
        let d = digest("a", &good);
        let quick = contest(&evaluation(5, "quick", &d), &d, None, None, None);
        assert!(matches!(quick, Contest::None(why) if why.contains("grid")));
        let mut nan = digest("a", &good);
        nan.geomean.as_mut().unwrap().lo = f64::NAN;
        assert!(matches!(go(&nan, None, None, None), Contest::None(_)));
    }

    #[test]
    fn a_scenario_that_fell_is_measured_again_before_it_counts() {
        let incumbent = digest("i", &[("x", 1.2), ("y", 1.2)]);
        let uneven = digest("a", &[("x", 2.0), ("y", 1.0)]);
        assert_eq!(go(&uneven, Some(&incumbent), None, None), Contest::Confirm);
        assert_eq!(
            go(&uneven, Some(&incumbent), Some(&uneven), None),
            Contest::Remeasure(vec!["y".to_owned()])
        );
        let recovered = digest("a", &[("y", 1.2)]);
        assert!(matches!(go(&uneven, Some(&incumbent), Some(&uneven), Some(&recovered)), Contest::Won(_)));
        let fell = digest("a", &[("y", 1.05)]);
        match go(&uneven, Some(&incumbent), Some(&uneven), Some(&fell)) {
            Contest::Lost { fallen, .. } => assert_eq!(fallen, ["y"]),
            other => panic!("{other:?}"),
        }
        let mut absent = digest("a", &[("y", 1.2)]);
        absent.scenarios.clear();
        assert!(matches!(go(&uneven, Some(&incumbent), Some(&uneven), Some(&absent)), Contest::Lost { .. }));
    }
}
