//! Suspicious win: a gain that is larger than the campaign's history makes likely, or a time that cannot be.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{CampaignStart, SuspiciousWin};

/// One scenario of four rises, above an incumbent of 1.2 ×.
fn one(name: &str, gain: f64) -> Script {
    Script::begun(name).wins(Shot::of("b", [1.2 * gain, 1.2, 1.2, 1.2]))
}

/// All of them rise.
fn every(name: &str, gain: f64) -> Script {
    Script::begun(name).wins(Shot::even("b", 1.2 * gain))
}

pub(super) const STORIES: &[Story] = &[
    fires("first-candidate-half-as-fast-again", |n| Script::sealed(n).wins(Shot::even("a", 1.51))),
    silent("first-candidate-not-quite-half-as-fast-again", |n| Script::sealed(n).wins(Shot::even("a", 1.49))),
    fires("half-as-fast-again-as-the-incumbent", |n| every(n, 1.51)),
    silent("not-quite-half-as-fast-again-as-the-incumbent", |n| every(n, 1.49)),
    silent("the-same-gain-in-two-promotions", |n| {
        Script::begun(n).wins(Shot::even("b", 1.2 * 1.3)).wins(Shot::even("c", 1.2 * 1.51))
    }),
    fires("one-scenario-twice-as-fast", |n| one(n, 2.01)),
    silent("one-scenario-not-quite-twice-as-fast", |n| one(n, 1.99)),
    fires("a-time-below-its-floor", |n| Script::begun(n).wins(Shot::even("b", 1.3).over_floor("long", 0.99))),
    silent("a-time-at-its-floor", |n| Script::begun(n).wins(Shot::even("b", 1.3).over_floor("long", 1.0))),
    fires("a-time-that-is-not-plausible", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.3).unproven("long", "plausible.floor"))
    }),
    silent("clocks-that-disagree", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.3).unproven("long", "timed.clocks"))
    }),
    fires("audited-and-clean", |n| Script::begun(n).wins(Shot::even("b", 1.82).audited())),
    fires("in-a-quick-evaluation", |n| Script::begun(n).attempt(Shot::even("b", 1.2 * 1.51).quick("short"))),
    silent("in-a-quick-evaluation-and-smaller", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.2 * 1.49).quick("short"))
    }),
    fires("wrong-elsewhere", |n| Script::begun(n).attempt(Shot::even("b", 1.82).fails("odd"))),
    silent("seen-by-the-confirmation-alone", |n| {
        Script::begun(n).attempt(Shot::even("b", 1.78)).confirm(Shot::even("b", 1.83)).promote()
    }),
    silent("was-asked-about", |n| every(n, 1.51).asked(SuspiciousWin)),
    silent("was-asked-about-and-the-next-is-ordinary", |n| {
        every(n, 1.51).asked(SuspiciousWin).attempt(Shot::even("c", 1.8))
    }),
    fires("was-asked-about-and-happens-again", |n| {
        every(n, 1.51).asked(SuspiciousWin).wins(Shot::even("c", 1.2 * 1.51 * 1.51))
    }),
    silent("regained-after-a-slow-attempt", |n| {
        Script::begun(n).attempt(Shot::even("b", 0.6)).attempt(Shot::even("c", 1.2))
    }),
    silent("slower-than-the-seed", |n| Script::sealed(n).attempt(Shot::even("a", 0.5)))
        .also(&[CampaignStart]),
];
