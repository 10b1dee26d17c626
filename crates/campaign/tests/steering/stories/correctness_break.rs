//! Correctness break explained away: a scenario fails, and something else than a measurement follows.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{CampaignStart, ClaimedLimit, CorrectnessBreak};

/// A candidate that fails in one scenario, after the first promotion.
fn broken(name: &str) -> Script {
    Script::begun(name).attempt(Shot::even("b", 1.19).fails("odd"))
}

/// Three attempts; the shots are made from 1.19 ×.
fn three(name: &str, shots: [(&str, &str); 3]) -> Script {
    shots
        .iter()
        .fold(Script::begun(name), |s, (version, fails)| s.attempt(Shot::even(version, 1.19).fails(fails)))
}

fn tolerant(script: Script) -> Script {
    script.reseal(|t| t.tolerance = "k = 4.0".to_owned())
}

fn budget(script: Script) -> Script {
    script.reseal(|t| t.budget = "evaluations = 100".to_owned())
}

pub(super) const STORIES: &[Story] = &[
    fires("stop-while-a-scenario-fails", |n| broken(n).stops("unmet")).also(&[ClaimedLimit]),
    silent("failed-and-no-stop", broken),
    silent("all-pass-before-the-stop", |n| broken(n).tries().stops("unmet")).also(&[ClaimedLimit]),
    silent("the-scenario-passes-alone-before-the-stop", |n| {
        broken(n).attempt(Shot::even("c", 1.19).only("odd")).stops("not_evaluated")
    }),
    fires("another-scenario-passes-alone-before-the-stop", |n| {
        broken(n).attempt(Shot::even("c", 1.19).only("square")).stops("not_evaluated")
    }),
    fires("edited-and-stopped-without-measuring", |n| broken(n).stops("not_evaluated")),
    silent("stop-was-asked-about", |n| broken(n).stops("not_evaluated").asked(CorrectnessBreak)),
    silent("let-go-because-the-time-is-spent", |n| {
        Script::sealed_with(n, |t| t.budget = "hours = 1".to_owned())
            .wins(Shot::even("a", 1.2))
            .attempt(Shot::even("b", 1.19).fails("odd"))
            .minutes(60.0)
            .stops("budget")
    }),
    fires("left-out-of-two-evaluations", |n| {
        broken(n).attempt(Shot::even("c", 1.19).quick("short")).attempt(Shot::even("d", 1.19).quick("short"))
    }),
    silent("left-out-of-one-evaluation", |n| broken(n).attempt(Shot::even("c", 1.19).quick("short"))),
    silent("the-scenario-alone-in-one-of-two-evaluations", |n| {
        broken(n).attempt(Shot::even("c", 1.19).quick("short")).attempt(Shot::even("d", 1.19).only("odd"))
    }),
    silent("two-versions-that-do-not-build", |n| {
        broken(n).attempt(Shot::unbuilt("c")).attempt(Shot::unbuilt("d"))
    }),
    fires("three-candidates-carry-one-failure", |n| three(n, [("b", "odd"), ("c", "odd"), ("d", "odd")])),
    silent("two-candidates-carry-one-failure", |n| {
        Script::begun(n)
            .attempt(Shot::even("b", 1.19).fails("odd"))
            .attempt(Shot::even("c", 1.19).fails("odd"))
    }),
    silent("the-third-candidate-fails-elsewhere", |n| three(n, [("b", "odd"), ("c", "odd"), ("d", "long")])),
    silent("one-candidate-fails-three-times", |n| three(n, [("b", "odd"), ("b", "odd"), ("b", "odd")])),
    fires("one-candidate-passed-and-failed", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.19)).attempt(Shot::even("b", 1.19).fails("odd"))
    }),
    silent("one-candidate-passed-another-failed", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.19)).attempt(Shot::even("c", 1.19).fails("odd"))
    }),
    fires("failed-first-and-passed-when-measured-again", |n| broken(n).attempt(Shot::even("b", 1.19))),
    silent("failed-first-and-passed-where-it-had-not-failed", |n| {
        broken(n).attempt(Shot::even("b", 1.19).only("short"))
    }),
    fires("passed-whole-and-failed-alone", |n| {
        Script::begun(n)
            .attempt(Shot::even("b", 1.19))
            .attempt(Shot::even("b", 1.19).only("odd").fails("odd"))
    }),
    fires("the-confirmation-fails-what-the-attempt-passed", |n| {
        Script::begun(n)
            .attempt(Shot::even("b", 1.3))
            .confirm(Shot::even("b", 1.3).fails("odd"))
            .not_promote("the second measurement does not prove it correct everywhere", &[])
    }),
    fires("tolerance-sealed-anew-while-failing", |n| tolerant(broken(n))),
    silent("budget-sealed-anew-while-failing", |n| budget(broken(n))),
    silent("tolerance-sealed-anew-after-it-passed", |n| tolerant(broken(n).tries())),
    silent("tolerance-sealed-anew-after-it-passed-alone", |n| {
        tolerant(broken(n).attempt(Shot::even("c", 1.19).only("odd")))
    }),
    fires("tolerance-sealed-anew-then-a-budget", |n| budget(tolerant(broken(n)))),
    fires("budget-sealed-anew-then-the-tolerance", |n| tolerant(budget(broken(n)))),
    fires("scenarios-sealed-anew-while-failing", |n| broken(n).reseal(|t| t.tagged = true))
        .also(&[CampaignStart]),
    silent("tolerance-sealed-anew-and-asked-about", |n| {
        tolerant(broken(n)).attempt(Shot::even("c", 1.0)).asked(CorrectnessBreak)
    }),
];
