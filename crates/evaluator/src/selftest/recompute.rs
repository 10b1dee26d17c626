//! Recomputes every figure of a record from its raw pairs.

use super::{SelftestRecord, agreement};
use crate::scenario_state::{Instance, ScenarioState};
use crate::settings::{Effort, Tier};
use kernelseek_core::case::Case;
use kernelseek_core::verdict::{Ratio, Standing, geomean};
use kernelseek_numerics::stats;

/// Relative difference that printing and parsing may make.
const CLOSE: f64 = 1e-9;

/// Differences between what a record says and what its raw pairs give; empty when it all follows.
#[must_use]
pub fn recompute(record: &SelftestRecord) -> Vec<String> {
    let mut differences = Vec::new();
    let effort = Effort::of(Tier::Default);
    let mut compare = |what: String, said: f64, found: f64| {
        let gap = (said - found).abs();
        if gap > CLOSE * found.abs().max(1e-300) || gap.is_nan() {
            differences.push(format!("{what}: recorded {said}, recomputed {found}"));
        }
    };
    let (mut verdicts, mut false_faster, mut one_percent) = (0, 0, 0);
    for (index, run) in record.aa_runs.iter().enumerate() {
        let mut ratios = Vec::new();
        let mut faster = 0;
        for (scenario, raw) in &run.raw {
            let spread = run.aa_spread.get(scenario).copied().unwrap_or(0.0);
            // What failed has pairs and no ratio.
            if !run.ratios.contains_key(scenario) {
                continue;
            }
            let Some(ratio) = ratio_of(&raw.0, spread, &effort) else { continue };
            if let Some(said) = run.ratios.get(scenario) {
                for (name, a, b) in
                    [("point", said.point, ratio.point), ("lo", said.lo, ratio.lo), ("hi", said.hi, ratio.hi)]
                {
                    compare(format!("aa run {} {scenario} {name}", index + 1), a, b);
                }
            }
            faster += usize::from(ratio.standing(effort.margin) == Standing::Faster);
            ratios.push(ratio);
        }
        compare(
            format!("aa run {} geomean", index + 1),
            run.geomean,
            geomean(&ratios).map_or(0.0, |r| r.point),
        );
        compare(
            format!("aa run {} false faster", index + 1),
            run.false_faster as f64,
            f64::from(faster as u32),
        );
        let above = ratios.iter().filter(|r| r.lo > 1.01).count();
        compare(format!("aa run {} false 1 %", index + 1), run.false_one_percent as f64, above as f64);
        verdicts += run.verdicts;
        false_faster += faster;
        one_percent += above;
    }
    compare("verdicts".into(), record.verdicts as f64, verdicts as f64);
    compare("false_faster".into(), record.false_faster as f64, false_faster as f64);
    compare("false_one_percent".into(), record.false_one_percent as f64, one_percent as f64);
    let mut found = 0;
    for (index, trial) in record.slowdown.iter().enumerate() {
        if trial.ratio.point.is_finite()
            && let Some(ratio) = ratio_of(&trial.raw.0, trial.aa_spread, &effort)
        {
            compare(format!("slowdown {} point", index + 1), trial.ratio.point, ratio.point);
            compare(format!("slowdown {} hi", index + 1), trial.ratio.hi, ratio.hi);
            let sought = if trial.gain.is_some() { Standing::Faster } else { Standing::Slower };
            found += usize::from(ratio.standing(effort.margin) == sought);
        }
    }
    compare("slowdown_tried".into(), record.slowdown_tried as f64, record.slowdown.len() as f64);
    compare("slowdown_found".into(), record.slowdown_found as f64, found as f64);
    let again = agreement::of(&record.problem, &record.aa_runs);
    compare("timer_agreement".into(), record.timer_agreement.len() as f64, again.len() as f64);
    for (said, found) in record.timer_agreement.iter().zip(&again) {
        compare(format!("{} events", said.scenario), said.events_ns, found.events_ns);
        compare(format!("{} slope", said.scenario), said.slope_ns, found.slope_ns);
        compare(format!("{} wall", said.scenario), said.wall_ns, found.wall_ns);
    }
    differences
}

/// The ratio that raw instances give, by the same functions that judged them.
fn ratio_of(raw: &[Instance], spread: f64, effort: &Effort) -> Option<Ratio> {
    let mut state = ScenarioState::new(Case {
        id: String::new(),
        tags: Vec::new(),
        tensors: Vec::new(),
        storages: Vec::new(),
        attributes: Vec::new(),
        flops: None,
        bytes: None,
        tolerance: Vec::new(),
    });
    state.instances = raw.to_vec();
    let e = stats::paired_ratio(&state.log_ratios(), effort.confidence, spread, 1).ok()?;
    Some(Ratio { point: e.point, lo: e.lo, hi: e.hi, instances: e.instances, pairs: e.pairs })
}
