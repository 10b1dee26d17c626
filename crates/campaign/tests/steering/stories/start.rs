//! Campaign start: nothing was promoted yet, or what was sealed is another task.

use super::{Story, fires, silent};
use crate::script::Script;
use crate::shot::Shot;
use kernelseek_core::decision::DecisionPoint::{CampaignStart, Plateau, SuspiciousWin};

/// Five attempts whose numbers are implausible: the questions go to those.
fn implausible(name: &str, attempts: usize) -> Script {
    let mut script = Script::sealed(name);
    for i in 0..attempts {
        let shot = Shot::even(&format!("i{i}"), 1.0).unproven("odd", "plausible.floor");
        script = script.attempt(shot).asked(SuspiciousWin);
    }
    script
}

pub(super) const STORIES: &[Story] = &[
    fires("sealed-and-nothing-evaluated", Script::sealed),
    silent("sealed-and-asked", |n| Script::sealed(n).asked(CampaignStart)),
    fires("first-attempt-slower", |n| Script::sealed(n).attempt(Shot::even("a", 0.97))),
    silent("first-attempt-promoted", |n| Script::sealed(n).wins(Shot::even("a", 1.1))),
    fires("first-contest-lost", |n| {
        Script::sealed(n)
            .attempt(Shot::even("a", 1.1))
            .confirm(Shot::even("a", 1.0))
            .not_promote("the second measurement's lower bound is 0.995×, the incumbent has 1.000×", &[])
    }),
    fires("first-attempt-does-not-build", |n| Script::sealed(n).attempt(Shot::unbuilt("a"))),
    fires("second-attempt-slower-too", |n| Script::sealed(n).slower().asked(CampaignStart).slower()),
    silent("third-attempt-slower-too", |n| {
        Script::sealed(n).slower().asked(CampaignStart).slower().asked(CampaignStart).slower()
    }),
    fires("first-question-kept-back", |n| Script::sealed(n).slower().silent(CampaignStart).slower()),
    fires("fifth-attempt-first-questions-went-elsewhere", |n| implausible(n, 4).slower()),
    silent("sixth-attempt-first-questions-went-elsewhere", |n| implausible(n, 5).slower()),
    fires("sealed-again-with-another-goal", |n| {
        Script::begun(n).reseal(|t| t.goal[1] = "every speedup >= 1.4".to_owned())
    }),
    silent("sealed-again-with-another-budget", |n| {
        Script::begun(n).reseal(|t| t.budget = "evaluations = 100".to_owned())
    }),
    fires("sealed-again-on-another-device", |n| {
        Script::begun(n).reseal(|t| t.device = "another device".to_owned())
    }),
    silent("sealed-again-with-another-compiler", |n| {
        Script::begun(n).reseal(|t| t.toolchain = "another compiler".to_owned())
    }),
    fires("sealed-again-with-another-seed", |n| {
        Script::begun(n).reseal(|t| t.seed = "int another_seed;".to_owned())
    }),
    silent("sealed-again-with-other-thresholds", |n| {
        Script::begun(n).reseal(|t| t.thresholds = "plateau_evaluations = 9".to_owned())
    }),
    fires("sealed-again-with-other-scenarios", |n| Script::begun(n).reseal(|t| t.tagged = true)),
    silent("questions-switched-off", |n| {
        Script::sealed_with(n, |t| t.questions = "enabled = false".to_owned()).slower()
    }),
    silent("budget-of-one-attempt-spent", |n| {
        Script::sealed_with(n, |t| t.budget = "evaluations = 1".to_owned())
            .slower()
            .asked(CampaignStart)
            .ends(false, "the one evaluation is spent")
    }),
    // The same eight attempts are a plateau; that they are no start any more is what counts here.
    silent("eighth-attempt", |n| {
        let mut script = Script::sealed(n).slower().asked(CampaignStart).slower().asked(CampaignStart);
        for _ in 0..6 {
            script = script.slower();
        }
        script
    })
    .also(&[Plateau]),
];
