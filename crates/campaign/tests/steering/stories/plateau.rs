//! Plateau: no promotion for a while, or a search that circles.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{CampaignStart, Plateau};
use kernelseek_core::decision::Layer;
use kernelseek_ledger::entry::Purpose;

/// Attempts with a hypothesis before each, `pause` minutes before the third hypothesis and 14 before everything else.
fn at_work(name: &str, pause: f64) -> Script {
    let mut script = Script::begun(name);
    for i in 0..4 {
        // An attempt takes five minutes by itself.
        script = script.minutes(if i == 2 { pause } else { 14.0 }).states("", None).minutes(9.0).tries();
    }
    script.minutes(9.0).tries()
}

/// An attempt at each of these versions.
fn versions(name: &str, versions: &[&str]) -> Script {
    versions.iter().fold(Script::begun(name), |s, v| s.attempt(Shot::even(v, 1.19)))
}

/// An attempt with a hypothesis before it about each of these layers.
fn layers(name: &str, layers: &[Layer]) -> Script {
    layers.iter().fold(Script::begun(name), |s, l| s.states("", Some(*l)).tries())
}

/// `before` attempts after the first promotion, then one that is promoted with `ratio`, then `after` more.
fn step(name: &str, before: usize, ratio: f64, after: usize) -> Script {
    Script::begun(name).tries_times(before).wins(Shot::even("b", ratio).width(0.0005)).tries_times(after)
}

/// A campaign in which nothing was ever promoted, sealed again in the middle.
fn never(name: &str, reseal: fn(Script) -> Script) -> Script {
    let script = Script::sealed(name).slower().asked(CampaignStart).slower().asked(CampaignStart);
    (0..4).fold(reseal(script.slower().slower()), |s, _| s.slower())
}

pub(super) const STORIES: &[Story] = &[
    fires("eight-attempts-without-a-promotion", |n| Script::begun(n).tries_times(8)),
    silent("seven-attempts-without-a-promotion", |n| Script::begun(n).tries_times(7)),
    silent("eighth-attempt-promoted", |n| Script::begun(n).tries_times(7).wins(Shot::even("b", 1.3))),
    silent("eighth-attempt-died", |n| Script::begun(n).tries_times(7).dies(Purpose::Attempt)),
    silent("eighth-evaluation-is-the-engines", |n| {
        Script::begun(n)
            .tries_times(6)
            .attempt(Shot::even("b", 1.25))
            .confirm(Shot::even("b", 1.19))
            .not_promote("the second measurement's lower bound is 1.184×, the incumbent has 1.200×", &[])
    }),
    fires("eight-quick-attempts", |n| {
        (0..8).fold(Script::begun(n), |s, i| s.attempt(Shot::even(&format!("q{i}"), 1.19).quick("short")))
    }),
    fires("sealed-again-for-a-budget-in-between", |n| {
        never(n, |s| s.reseal(|t| t.budget = "evaluations = 100".to_owned()))
    }),
    silent("sealed-again-for-a-compiler-in-between", |n| {
        never(n, |s| s.reseal(|t| t.toolchain = "another compiler".to_owned()))
    }),
    fires("four-attempts-after-the-question", |n| {
        Script::begun(n).tries_times(8).asked(Plateau).tries_times(4)
    }),
    silent("three-attempts-after-the-question", |n| {
        Script::begun(n).tries_times(8).asked(Plateau).tries_times(3)
    }),
    fires("two-hours-of-work", |n| at_work(n, 14.0)),
    silent("two-hours-with-a-pause", |n| at_work(n, 16.0)),
    fires("two-versions-come-back", |n| versions(n, &["b", "c", "b", "c"])),
    silent("one-version-comes-back", |n| versions(n, &["b", "c", "b", "d"])),
    silent("versions-measured-again-without-leaving-them", |n| versions(n, &["b", "b", "c", "c"])),
    fires("five-hypotheses-about-one-layer", |n| layers(n, &[Layer::Memory; 5])),
    silent("four-hypotheses-about-one-layer", |n| layers(n, &[Layer::Memory; 4])),
    silent("one-of-five-hypotheses-about-another-layer", |n| {
        use Layer::{Memory, Schedule};
        layers(n, &[Memory, Memory, Memory, Schedule, Memory])
    }),
    fires("best-rises-by-a-third-of-a-percent", |n| step(n, 4, 1.204, 5)),
    silent("best-rises-by-two-thirds-of-a-percent", |n| step(n, 4, 1.208, 5)),
    silent("best-rises-by-a-third-of-a-percent-in-nine", |n| step(n, 4, 1.204, 4)),
];
