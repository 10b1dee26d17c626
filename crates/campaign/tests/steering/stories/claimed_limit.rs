//! Claimed limit or completion: the agent wants to stop and the goal is unmet.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{ClaimedLimit, CorrectnessBreak};
use kernelseek_ledger::entry::Purpose;

/// A full evaluation of a promoted candidate that has 1.35 × everywhere, changed by `change`, and an attempt to stop.
fn full(name: &str, change: fn(Shot) -> Shot, rule: &str) -> Script {
    Script::begun(name).wins(Shot::even("b", 1.35)).attempt(change(Shot::even("b", 1.35).full())).stops(rule)
}

/// A failing scenario, a stop that was asked about for its sake, then `then`.
fn broken(name: &str, then: Shot) -> Script {
    Script::begun(name)
        .attempt(Shot::even("b", 1.19).fails("odd"))
        .stops("unmet")
        .asked(CorrectnessBreak)
        .attempt(then)
}

pub(super) const STORIES: &[Story] = &[
    fires("stop-with-the-goal-unmet", |n| Script::begun(n).stops("unmet")),
    silent("no-stop", Script::begun),
    silent("stop-was-asked-about", |n| Script::begun(n).stops("unmet").asked(ClaimedLimit)),
    fires("stop-again-after-the-question", |n| {
        Script::begun(n).stops("unmet").asked(ClaimedLimit).tries().stops("unmet")
    }),
    silent("stop-while-an-evaluation-runs", |n| Script::begun(n).begins(Purpose::Attempt).stops("running")),
    silent("stop-with-sources-not-evaluated", |n| Script::begun(n).stops("not_evaluated")),
    silent("stop-with-a-broken-seal", |n| Script::begun(n).stops("stale")),
    silent("stop-with-the-time-spent", |n| {
        Script::sealed_with(n, |t| t.budget = "hours = 1".to_owned())
            .wins(Shot::even("a", 1.2))
            .minutes(60.0)
            .stops("budget")
    }),
    silent("stop-with-the-goal-met", |n| full(n, |s| s, "met")),
    fires("stop-with-one-scenario-short", |n| {
        full(n, |_| Shot::of("b", [1.35, 1.35, 1.35, 1.28]).full(), "unmet")
    }),
    fires("stop-with-one-interval-too-wide", |n| full(n, |s| s.width_at("odd", 0.08), "unmet")),
    fires("stop-with-one-scenario-left-to-the-fallback", |n| full(n, |s| s.falls_back("odd"), "unmet")),
    fires("stop-with-reduced-trust", |n| full(n, Shot::reduced, "unmet")),
    silent("stop-with-every-clause-met-but-not-by-a-full-evaluation", |n| {
        Script::begun(n).wins(Shot::even("b", 1.35)).stops("not_evaluated")
    }),
    fires("question-about-a-failure-came-first", |n| broken(n, Shot::even("c", 1.19))),
    silent("question-about-a-failure-came-first-and-the-goal-was-met-since", |n| {
        let won = Shot::even("c", 1.35).full();
        broken(n, won.clone()).confirm(won).promote()
    }),
    silent("sealed-again-since", |n| {
        Script::begun(n)
            .attempt(Shot::even("b", 1.19).fails("odd"))
            .stops("unmet")
            .asked(CorrectnessBreak)
            .reseal(|t| t.thresholds = "plateau_evaluations = 9".to_owned())
            .slower()
    }),
];
