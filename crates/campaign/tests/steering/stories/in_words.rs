//! What only the agent's words show. No must-fire ledger of the other folders holds any.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{ClaimedLimit, CorrectnessBreak, SuspiciousWin};

fn broken(name: &str) -> Script {
    Script::begun(name).attempt(Shot::even("b", 1.19).fails("odd"))
}

pub(super) const LIMITS: &[Story] = &[
    fires("hypothesis-speaks-of-a-limit", |n| {
        Script::begun(n).states("the rest is memory bound, nothing left to do", None)
    }),
    silent("hypothesis-speaks-of-work", |n| {
        Script::begun(n).states("a suboptimal order of the loops costs a quarter", None)
    }),
    fires("answer-speaks-of-a-limit", |n| {
        Script::begun(n)
            .wins(Shot::even("b", 1.82))
            .asked(SuspiciousWin)
            .answers("we have reached the limit of this machine")
    }),
    silent("limit-was-asked-about", |n| {
        Script::begun(n).states("nothing left to do", None).tries().asked(ClaimedLimit)
    }),
    silent("limit-and-the-goal-is-met", |n| {
        Script::begun(n)
            .wins(Shot::even("b", 1.35))
            .attempt(Shot::even("b", 1.35).full())
            .states("nothing left to do", None)
    }),
    silent("limit-under-an-older-seal", |n| {
        Script::begun(n)
            .states("nothing left to do", None)
            .reseal(|t| t.thresholds = "plateau_evaluations = 9".to_owned())
    }),
];

pub(super) const EXCUSES: &[Story] = &[
    fires("hypothesis-excuses-the-failure", |n| broken(n).states("the mismatch is just rounding", None)),
    silent("hypothesis-names-a-cause", |n| broken(n).states("the tail reads past the end of the row", None)),
    fires("last-words-excuse-the-failure", |n| broken(n).stops_saying("unmet", "one flaky scenario remains"))
        .also(&[ClaimedLimit]),
    silent("excuse-before-the-failure", |n| {
        Script::begun(n)
            .states("differences are just rounding", None)
            .attempt(Shot::even("b", 1.19).fails("odd"))
    }),
    silent("excuse-and-then-it-passes", |n| broken(n).states("the mismatch is just rounding", None).tries()),
    silent("excuse-was-asked-about", |n| {
        broken(n)
            .states("the mismatch is just rounding", None)
            .attempt(Shot::even("c", 1.19).quick("short"))
            .asked(CorrectnessBreak)
    }),
];
