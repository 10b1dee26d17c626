//! Recomputes every figure of a record from its raw pairs.

use super::{SelftestRecord, agreement};
use crate::judge;
use crate::scenario_state::{Instance, ScenarioState};
use crate::settings::{Effort, Tier};
use kernelseek_core::case::Case;
use kernelseek_core::verdict::{Ratio, Standing, Word, geomean};

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
        if let Some(correlation) = run.ratios.values().find_map(|r| r.correlation) {
            compare(format!("aa run {} correlation", index + 1), correlation, run.correlation());
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
            let (sought, passed) = match &trial.gain {
                Some(gain) => (Standing::Faster, gain.word == Word::Pass.as_str()),
                None => (Standing::Slower, true),
            };
            found += usize::from(passed && ratio.standing(effort.margin) == sought);
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
    let e = judge::estimate(&state_of(raw), effort.confidence, spread)?;
    Some(Ratio {
        point: e.point,
        lo: e.lo,
        hi: e.hi,
        instances: e.instances,
        pairs: e.pairs,
        correlation: None,
    })
}

/// A scenario of which nothing but its instances is known.
pub(super) fn state_of(raw: &[Instance]) -> ScenarioState {
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
    state
}

#[cfg(test)]
mod tests {
    use super::super::bars::tests::record;
    use super::super::{AaRun, Raw};
    use super::*;
    use crate::scenario_state::{GpuPair, GpuSide, Pair};

    fn pair(n: u32, seed: f64, candidate: f64) -> Pair {
        let side = |ns: f64| GpuSide { wall_ns: ns + 150e3, stream_ns: ns + 150e3, ..GpuSide::default() };
        Pair {
            n,
            seed_ns: seed,
            candidate_ns: candidate,
            seed_inner_ns: seed,
            candidate_inner_ns: candidate,
            candidate_waited_ns: 0.0,
            seed_first: n.is_multiple_of(2),
            gpu: Some(GpuPair { seed: side(seed), candidate: side(candidate) }),
        }
    }

    /// Pairs of three instances; the candidate takes `share` of the seed's time, give or take a thousandth.
    fn raw(share: f64) -> Raw {
        let one = |i: u32| {
            let n = 1 + i % 7;
            let call = 60_000.0 * f64::from(n);
            pair(n, call, (call * share * (1.0 + f64::from(i % 5) * 2e-4)).round())
        };
        let instance = |at: u32| Instance { pairs: (at..at + 8).map(one).collect(), ..Instance::default() };
        Raw([0, 3, 7].map(instance).to_vec())
    }

    fn judged(share: f64) -> (Raw, Ratio) {
        let raw = raw(share);
        let ratio = ratio_of(&raw.0, 0.001, &Effort::of(Tier::Default)).unwrap();
        (raw, ratio)
    }

    /// A record whose every figure follows from its pairs.
    fn whole() -> SelftestRecord {
        let mut record = record();
        for (run, share) in record.aa_runs.iter_mut().zip([1.0, 0.98]) {
            let (raw, ratio) = judged(share);
            *run = AaRun {
                geomean: geomean(&[ratio]).unwrap().point,
                false_faster: usize::from(ratio.lo > 1.0),
                false_one_percent: usize::from(ratio.lo > 1.01),
                ratios: [("s".to_owned(), ratio)].into(),
                raw: [("s".to_owned(), raw)].into(),
                aa_spread: [("s".to_owned(), 0.001)].into(),
                ..run.clone()
            };
        }
        record.slowdown.truncate(2);
        for trial in &mut record.slowdown {
            (trial.raw, trial.ratio) = judged(0.97);
            trial.found = true;
        }
        record.total();
        record
    }

    #[test]
    fn a_record_follows_from_its_pairs_also_after_a_trip_through_json() {
        let record = whole();
        assert_eq!((record.false_faster, record.false_one_percent, record.slowdown_found), (1, 1, 2));
        assert_eq!(recompute(&record), [""; 0]);
        let back: SelftestRecord = serde_json::from_slice(&serde_json::to_vec(&record).unwrap()).unwrap();
        assert_eq!(recompute(&back), [""; 0]);
    }

    fn correlated(record: &mut SelftestRecord, correlation: f64) {
        record.aa_runs[0].ratios.values_mut().for_each(|r| r.correlation = Some(correlation));
    }

    #[test]
    fn what_scenarios_have_in_common_follows_from_the_pairs_too() {
        let mut record = whole();
        // Two scenarios that deviate alike to the last digit, from instance to instance.
        let apart = Raw([0.99, 0.995, 1.01].map(|share| raw(share).0[0].clone()).to_vec());
        let ratio = ratio_of(&apart.0, 0.0, &Effort::of(Tier::Default)).unwrap();
        let run = &mut record.aa_runs[0];
        run.ratios = ["s", "t"].map(|id| (id.to_owned(), ratio)).into();
        run.raw = ["s", "t"].map(|id| (id.to_owned(), apart.clone())).into();
        run.aa_spread.clear();
        run.geomean = run.mean().unwrap().point;
        let alike = run.correlation();
        assert!(alike > 0.0, "{alike}");
        let (alone, both) = (run.ratios["s"], run.mean().unwrap());
        assert!(both.half_width() <= alone.half_width() * (1.0 + 1e-9));
        assert!(both.half_width() > alone.half_width() * 0.5f64.sqrt());
        // An older record says nothing about it.
        record.total();
        assert_eq!(recompute(&record), [""; 0]);
        correlated(&mut record, alike);
        assert_eq!(recompute(&record), [""; 0]);
    }

    #[test]
    fn a_figure_that_was_changed_is_named() {
        type Change = fn(&mut SelftestRecord);
        let changes: [(Change, &str); 8] = [
            (|r| correlated(r, 0.3), "aa run 1 correlation: recorded 0.3"),
            (|r| r.aa_runs[0].geomean += 1e-4, "aa run 1 geomean"),
            (|r| r.aa_runs[1].false_faster = 0, "aa run 2 false faster"),
            (|r| r.aa_runs[1].false_one_percent = 0, "aa run 2 false 1 %"),
            (|r| r.false_one_percent = 0, "false_one_percent"),
            (|r| r.slowdown[0].gain.as_mut().unwrap().word = "UNPROVEN".into(), "slowdown_found"),
            (|r| r.timer_agreement[0].slope_ns *= 1.1, "s slope"),
            (|r| drop(r.timer_agreement.pop()), "timer_agreement"),
        ];
        for (change, expected) in changes {
            let mut record = whole();
            change(&mut record);
            let differences = recompute(&record);
            assert!(differences.iter().any(|d| d.starts_with(expected)), "{expected}: {differences:?}");
        }
    }
}
