//! What a self-test must come to, and what misses it, in words. Pure.

use super::gain::PLANTED;
use super::record::{AaRun, HostileTrial, SelftestRecord};
use super::throughput::Throughput;
use super::{AA_RUNS, AA_VERDICTS, FAULTS, GAIN_ROUNDS};
use crate::call_class::CallClass;
use crate::settings::Tier;
use kernelseek_core::verdict::Ratio;
use std::collections::BTreeSet;

/// Intervals of one class over all runs of the seed against itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Widths {
    /// The class.
    pub class: CallClass,
    /// Intervals in it.
    pub intervals: usize,
    /// Of these, how many are narrow enough.
    pub narrow: usize,
    /// The median half-width.
    pub median: f64,
    /// The widest half, and where.
    pub widest: (f64, String),
}

/// One planted gain over all its trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Thousandths that the copy waits less.
    pub permille: u32,
    /// Tag of its scenarios.
    pub class: String,
    /// Scenarios that it was looked for in.
    pub scenarios: usize,
    /// Trials.
    pub tried: usize,
    /// Of these, how many were found.
    pub found: usize,
}

/// Largest distance of a geometric mean from 1.
const GPU_GEOMEAN: f64 = 0.003;
const CPU_GEOMEAN: f64 = 0.01;
/// One run of this many may have a geomean whose interval does not hold 1: at 99 % one of a hundred does not.
const MEANS_BESIDE: usize = 20;
/// How long a whole record may take on a GPU, seconds.
const RECORD_SECONDS: f64 = 480.0;
/// Seconds that a default and a quick verdict may take.
const DEFAULT_SECONDS: f64 = 30.0;
const QUICK_SECONDS: f64 = 3.0;
/// Share of a verdict's time that may be neither work of the GPU nor a flush.
const REST: f64 = 0.25;

impl SelftestRecord {
    /// Half-widths by class; empty where the runs do not say how long calls take.
    #[must_use]
    pub fn widths(&self) -> Vec<Widths> {
        let all: Vec<(CallClass, f64, &str)> = self.aa_runs.iter().flat_map(intervals).collect();
        CallClass::ALL
            .into_iter()
            .filter_map(|class| {
                let mut own: Vec<(f64, &str)> =
                    all.iter().filter(|(c, _, _)| *c == class).map(|(_, half, id)| (*half, *id)).collect();
                own.sort_by(|a, b| a.0.total_cmp(&b.0));
                let (widest, id) = own.last()?;
                Some(Widths {
                    class,
                    intervals: own.len(),
                    narrow: own.iter().filter(|(half, _)| *half <= class.half_width()).count(),
                    median: own.get(own.len() / 2)?.0,
                    widest: (*widest, (*id).to_owned()),
                })
            })
            .collect()
    }

    /// Planted gains, the smallest first.
    #[must_use]
    pub fn gains(&self) -> Vec<Found> {
        let mut all: Vec<Found> = Vec::new();
        for trial in &self.slowdown {
            let Some(gain) = &trial.gain else { continue };
            let at = all.iter().position(|f| f.permille == gain.permille && f.class == gain.class);
            let at = at.unwrap_or_else(|| {
                let (permille, class) = (gain.permille, gain.class.clone());
                all.push(Found { permille, class, scenarios: 0, tried: 0, found: 0 });
                all.len() - 1
            });
            if let Some(found) = all.get_mut(at) {
                found.tried += 1;
                found.found += usize::from(trial.found);
            }
        }
        for found in &mut all {
            let own = self.slowdown.iter().filter(|t| {
                t.gain.as_ref().is_some_and(|g| g.permille == found.permille && g.class == found.class)
            });
            found.scenarios = own.map(|t| t.scenario.as_str()).collect::<BTreeSet<_>>().len();
        }
        all.sort_by_key(|f| f.permille);
        all
    }

    /// What misses a bar, in words; empty when every bar is met by what was run.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        let mut misses = Vec::new();
        let most = if self.on_gpu() { GPU_GEOMEAN } else { CPU_GEOMEAN };
        for (index, run) in self.aa_runs.iter().enumerate() {
            // Written so that a mean that is no number does not pass.
            let within = (run.geomean - 1.0).abs() <= most;
            if !within {
                misses.push(format!(
                    "aa run {}: geomean {:.4}, outside {} %",
                    index + 1,
                    run.geomean,
                    100.0 * most
                ));
            }
        }
        let means = self.means();
        let beside = means.of - means.hold;
        if beside > 1 && beside * MEANS_BESIDE > means.of {
            misses.push(format!("{beside} of {} intervals of the geomean, at 99 %, do not hold 1", means.of));
        }
        if self.false_faster * 100 > self.verdicts {
            misses.push(format!(
                "{} of {} verdicts say faster where nothing is",
                self.false_faster, self.verdicts
            ));
        }
        if self.on_gpu() {
            self.gpu_misses(&mut misses);
        } else if self.slowdown_found * 100 < self.slowdown_tried * 95 {
            misses
                .push(format!("{} of {} planted slowdowns found", self.slowdown_found, self.slowdown_tried));
        }
        misses.extend(self.hostile.iter().chain(&self.faults).filter(|t| !t.is_right()).map(describe));
        misses
    }

    fn gpu_misses(&self, misses: &mut Vec<String>) {
        if self.false_one_percent * 100 > self.verdicts {
            misses.push(format!(
                "{} of {} verdicts say at least 1 % faster where nothing is",
                self.false_one_percent, self.verdicts
            ));
        }
        for run in &self.aa_runs {
            let without = run.verdicts - run.ratios.len().min(run.verdicts);
            if without > 0 {
                misses.push(format!(
                    "{without} of {} scenarios of {} have no ratio of the seed to itself",
                    run.verdicts,
                    run.problem.as_deref().unwrap_or(&self.problem)
                ));
            }
        }
        for (run, (scenario, word)) in
            self.aa_runs.iter().flat_map(|r| r.not_passed.iter().map(move |n| (r, n)))
        {
            let problem = run.problem.as_deref().unwrap_or(&self.problem);
            misses.push(format!("the seed of {problem} as its own candidate on `{scenario}`: {word}"));
        }
        for widths in self.widths().iter().filter(|w| w.narrow < w.intervals) {
            misses.push(format!(
                "calls of {}: {} of {} intervals are wider than ±{} % (median ±{:.2} %, widest ±{:.2} %, `{}`)",
                widths.class.as_str(),
                widths.intervals - widths.narrow,
                widths.intervals,
                100.0 * widths.class.half_width(),
                100.0 * widths.median,
                100.0 * widths.widest.0,
                widths.widest.1
            ));
        }
        for gain in self.gains().iter().filter(|g| g.found * 100 < g.tried * 95) {
            misses.push(format!(
                "gains of {} %: {} of {} found ({})",
                f64::from(gain.permille) / 10.0,
                gain.found,
                gain.tried,
                gain.class
            ));
        }
        for count in self.cycles.iter().filter(|c| !c.holds) {
            misses.push(format!(
                "the clock counter does not confirm the gain of {} %: {}",
                f64::from(count.permille) / 10.0,
                count.printed.last().map_or("nothing was printed", String::as_str)
            ));
        }
        for two in self.timer_agreement.iter().filter(|t| !t.agree) {
            misses.push(format!(
                "{} `{}`: {:.2} µs by events, {:.2} µs by the slope of the wall",
                two.problem,
                two.scenario,
                two.events_ns / 1e3,
                two.slope_ns / 1e3
            ));
        }
        misses.extend(self.throughput.iter().flat_map(slow));
        let whole = self.whole_seconds();
        if whole > RECORD_SECONDS {
            misses.push(format!("the whole record takes {whole:.0} s, more than {RECORD_SECONDS} s"));
        }
    }

    /// How long the sections of a whole record took together, seconds. Hostile candidates have a record of their own.
    #[must_use]
    pub fn whole_seconds(&self) -> f64 {
        self.own_seconds().map(|(_, s)| s).sum()
    }

    /// The sections of a whole record, with the seconds that each took.
    pub(super) fn own_seconds(&self) -> impl Iterator<Item = (&str, f64)> {
        self.seconds
            .iter()
            .map(|(section, s)| (section.as_str(), *s))
            .filter(|(section, _)| *section != "hostile")
    }

    /// What a whole record still lacks, in words: sections that were begun or never run.
    #[must_use]
    pub fn lacks(&self) -> Vec<String> {
        let mut lacks = Vec::new();
        if !self.has_all_aa() {
            let runs = self.aa_runs.len();
            lacks.push(format!("aa: {runs} of {AA_RUNS} runs, {} of {AA_VERDICTS} verdicts", self.verdicts));
        }
        let wanted = PLANTED.len() * GAIN_ROUNDS;
        let rounds: usize =
            self.gains().iter().map(|g| (g.tried / g.scenarios.max(1)).min(GAIN_ROUNDS)).sum();
        if rounds < wanted {
            lacks.push(format!("gain: {rounds} of {wanted} evaluations"));
        }
        if self.throughput.is_none() {
            lacks.push("throughput: nothing yet".to_owned());
        }
        if self.faults.len() < FAULTS {
            lacks.push(format!("faults: {} of {FAULTS}", self.faults.len()));
        }
        lacks
    }

    /// Whether the seed was held against itself as often as a whole record on a GPU asks for.
    #[must_use]
    pub const fn has_all_aa(&self) -> bool {
        self.aa_runs.len() >= AA_RUNS && self.verdicts >= AA_VERDICTS
    }

    /// Runs of the record's own problem against itself.
    #[must_use]
    pub fn own_runs(&self) -> usize {
        self.aa_runs.iter().filter(|r| r.problem.as_ref().is_none_or(|p| *p == self.problem)).count()
    }
}

impl HostileTrial {
    /// Whether it ended as it should.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        self.as_expected && self.next_right && self.in_time
    }
}

fn intervals(run: &AaRun) -> impl Iterator<Item = (CallClass, f64, &str)> {
    run.ratios.iter().filter_map(|(id, ratio): (&String, &Ratio)| {
        let ns = run.seed_ns.get(id)?;
        Some((CallClass::of(*ns), ratio.half_width(), id.as_str()))
    })
}

fn slow(throughput: &Throughput) -> Vec<String> {
    let mut misses = Vec::new();
    for run in &throughput.runs {
        let most = if run.tier == Tier::Quick { QUICK_SECONDS } else { DEFAULT_SECONDS };
        if run.seconds > most {
            misses.push(format!(
                "a {} verdict on {} takes {:.1} s, more than {most} s",
                run.tier.as_str(),
                run.of_what(),
                run.seconds
            ));
        }
        if run.tier == Tier::Default && run.rest_share() > REST {
            misses.push(format!(
                "a default verdict on {} spends {:.0} % of its time neither on the GPU nor on flushes",
                run.of_what(),
                100.0 * run.rest_share()
            ));
        }
    }
    misses
}

fn describe(trial: &HostileTrial) -> String {
    format!(
        "{} round {}: {} {}{}{}{}",
        trial.candidate,
        trial.round,
        trial.word,
        trial.defences.join(" "),
        if trial.as_expected { "" } else { ", which is not expected" },
        if trial.in_time { "" } else { ", late" },
        if trial.next_right {
            String::new()
        } else {
            format!(", and the next evaluation was wrong: {}", trial.next)
        }
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::selftest::agreement::TimerAgreement;
    use crate::selftest::throughput::Walk;
    use crate::selftest::{CycleCount, Gain, Raw, SlowdownTrial};
    use kernelseek_device::cuda::GpuIdentity;
    use kernelseek_device::topology::CpuIdentity;
    use std::collections::BTreeMap;

    pub(crate) fn ratio(point: f64, half: f64) -> Ratio {
        Ratio {
            point,
            lo: point * (1.0 - half),
            hi: point * (1.0 + half),
            instances: 5,
            pairs: 30,
            correlation: None,
        }
    }

    pub(crate) fn run(geomean: f64) -> AaRun {
        AaRun {
            problem: None,
            geomean,
            verdicts: 1,
            false_faster: 0,
            false_one_percent: 0,
            ratios: [("s".to_owned(), ratio(geomean, 0.004))].into(),
            raw: BTreeMap::new(),
            aa_spread: BTreeMap::new(),
            seed_ns: [("s".to_owned(), 60e3)].into(),
            canaries: BTreeMap::new(),
            not_passed: BTreeMap::new(),
            seconds: 9.0,
        }
    }

    pub(crate) fn gpu() -> GpuIdentity {
        GpuIdentity {
            name: "NVIDIA H200".into(),
            uuid: "GPU-1".into(),
            capability: (9, 0),
            multiprocessors: 132,
            l2_bytes: 60 << 20,
            persisting_l2_bytes: 0,
            memory_bytes: 139 << 30,
            sm_clock_khz: 1_980_000,
            driver_cuda: 13_000,
        }
    }

    /// A record in which everything is right, on a GPU.
    pub(crate) fn record() -> SelftestRecord {
        let walk = |tier, seconds| Walk {
            problem: "softmax".into(),
            set: None,
            tier,
            scenarios: 20,
            seconds,
            supervisor_seconds: 0.5 * seconds,
            request_seconds: 0.25 * seconds,
            flush_seconds: 0.125 * seconds,
            chore_seconds: BTreeMap::from([("start".to_owned(), 1.25), ("stop".to_owned(), 0.5)]),
        };
        let mut record = SelftestRecord {
            format: 1,
            version: "0".into(),
            command: Some("kernelseek selftest".into()),
            commit: None,
            problem: "softmax".into(),
            problem_hash: "h".into(),
            device: CpuIdentity::read(),
            gpu: Some(gpu()),
            moments: Vec::new(),
            compiler: "nvcc".into(),
            aa_runs: vec![run(1.0), run(1.002)],
            verdicts: 0,
            false_faster: 0,
            false_one_percent: 0,
            slowdown_tried: 0,
            slowdown_found: 0,
            slowdown: (0..20).map(|i| gain(20, i > 0)).chain([gain(50, true)]).collect(),
            cycles: vec![CycleCount { permille: 20, holds: true, printed: vec!["x".into()] }],
            timer_agreement: Vec::new(),
            throughput: Throughput::of(vec![walk(Tier::Default, 20.0), walk(Tier::Quick, 2.0)]),
            faults: vec![trial("a.cu", 1)],
            hostile: Vec::new(),
            seconds: BTreeMap::new(),
        };
        record.total();
        record
    }

    fn gain(permille: u32, found: bool) -> SlowdownTrial {
        SlowdownTrial {
            scenario: "s".into(),
            instructions: None,
            ratio: ratio(1.02, 0.01),
            found,
            gain: Some(Gain {
                permille,
                class: format!("c{permille}"),
                word: "PASS".into(),
                cycles: Some(0.98),
            }),
            raw: Raw::default(),
            aa_spread: 0.001,
        }
    }

    pub(crate) fn trial(candidate: &str, round: usize) -> HostileTrial {
        HostileTrial {
            candidate: candidate.into(),
            round,
            word: "FAIL".into(),
            defences: vec!["correct.crash".into()],
            as_expected: true,
            next_right: true,
            next: String::new(),
            seconds: 1.0,
            in_time: true,
        }
    }

    #[test]
    fn a_good_record_misses_nothing() {
        let record = record();
        assert_eq!(record.misses(), [""; 0]);
        assert_eq!(record.gains().iter().map(|g| (g.tried, g.found)).collect::<Vec<_>>(), [(20, 19), (1, 1)]);
        assert_eq!((record.verdicts, record.slowdown_tried, record.slowdown_found), (2, 21, 20));
        assert_eq!(record.widths().len(), 1);
    }

    #[test]
    fn every_bar_can_be_missed() {
        type Spoil = fn(&mut SelftestRecord);
        let spoilt: [(Spoil, &str); 18] = [
            (
                |r| r.aa_runs[0].not_passed = [("s".to_owned(), "UNPROVEN timed.clocks".to_owned())].into(),
                "the seed of softmax as its own candidate on `s`: UNPROVEN timed.clocks",
            ),
            (|r| r.aa_runs[0].geomean = 1.004, "aa run 1: geomean 1.0040, outside 0.3 %"),
            (|r| r.aa_runs[1].geomean = f64::NAN, "aa run 2: geomean NaN"),
            (
                |r| {
                    r.aa_runs
                        .iter_mut()
                        .for_each(|run| run.ratios = [("s".to_owned(), ratio(1.002, 0.001))].into());
                },
                "2 of 2 intervals of the geomean, at 99 %, do not hold 1",
            ),
            (|r| r.aa_runs[0].false_faster = 1, "1 of 2 verdicts say faster"),
            (|r| r.aa_runs[0].false_one_percent = 1, "1 of 2 verdicts say at least 1 % faster"),
            (|r| r.aa_runs[0].ratios.clear(), "1 of 1 scenarios of softmax have no ratio"),
            (
                |r| r.aa_runs[0].ratios = [("s".to_owned(), ratio(1.0, 0.006))].into(),
                "50 µs and longer: 1 of 2 intervals are wider than ±0.5 %",
            ),
            (|r| r.slowdown[5].found = false, "gains of 2 %: 18 of 20 found (c20)"),
            (|r| r.cycles[0].holds = false, "does not confirm the gain of 2 %: x"),
            (
                |r| r.seconds = [("aa", 470.0), ("faults", 11.0)].map(|(k, s)| (k.to_owned(), s)).into(),
                "the whole record takes 481 s",
            ),
            (
                |r| r.throughput.as_mut().unwrap().runs[0].seconds = 31.0,
                "default verdict on softmax takes 31.0 s",
            ),
            (
                |r| r.throughput.as_mut().unwrap().runs[1].seconds = 3.5,
                "quick verdict on softmax takes 3.5 s",
            ),
            (
                |r| r.throughput.as_mut().unwrap().runs[0].supervisor_seconds = 5.0,
                "38 % of its time neither on the GPU nor on flushes",
            ),
            (|r| r.faults[0].as_expected = false, "a.cu round 1: FAIL correct.crash, which is not expected"),
            (|r| r.faults[0].in_time = false, ", late"),
            (|r| r.faults[0].next_right = false, "the next evaluation was wrong"),
            (|r| r.hostile.push(HostileTrial { as_expected: false, ..trial("b.cu", 2) }), "b.cu round 2"),
        ];
        for (spoil, expected) in spoilt {
            let mut record = record();
            spoil(&mut record);
            record.total();
            let misses = record.misses();
            assert!(misses.iter().any(|m| m.contains(expected)), "{expected}: {misses:?}");
        }
        let mut record = record();
        record.timer_agreement.push(TimerAgreement {
            problem: "softmax".into(),
            scenario: "s".into(),
            pairs: 30,
            events_ns: 10e3,
            slope_ns: 15e3,
            wall_ns: 10e3,
            agree: false,
        });
        assert_eq!(record.misses(), ["softmax `s`: 10.00 µs by events, 15.00 µs by the slope of the wall"]);
    }

    #[test]
    fn a_cpu_has_the_bars_of_a_cpu() {
        let mut record = record();
        record.gpu = None;
        record.aa_runs[0].geomean = 1.009;
        record.total();
        assert_eq!(record.misses(), [""; 0]);
        record.slowdown.truncate(10);
        record.slowdown[5].found = false;
        record.total();
        assert_eq!(record.misses(), ["8 of 10 planted slowdowns found"]);
    }

    #[test]
    fn what_is_not_there_yet_is_named() {
        let mut record = record();
        assert_eq!(record.lacks().len(), 3, "{:?}", record.lacks());
        assert_eq!(record.lacks()[1], "gain: 4 of 9 evaluations");
        assert!(record.lacks()[0].starts_with("aa: 2 of 20 runs, 2 of 500 verdicts"));
        record.aa_runs = vec![AaRun { verdicts: 20, ..run(1.0) }; 20];
        record.aa_runs.push(AaRun { verdicts: 100, problem: Some("slowdown".into()), ..run(1.0) });
        record.slowdown = (0..9).map(|i| gain([20, 50, 100][i % 3], true)).collect();
        record.faults = (0..100).map(|i| trial("a.cu", i)).collect();
        record.total();
        assert_eq!((record.own_runs(), record.lacks().len()), (20, 0), "{:?}", record.lacks());
        record.throughput = None;
        record.slowdown.clear();
        assert_eq!(record.lacks(), ["gain: 0 of 9 evaluations", "throughput: nothing yet"]);
    }

    #[test]
    fn a_record_comes_back_as_it_was_and_goes_on_on_the_same_model_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("r/selftest.json");
        let record = record();
        record.save(&file).unwrap();
        assert_eq!(SelftestRecord::load(&file).as_ref(), Some(&record));
        let other = |change: fn(&mut SelftestRecord)| {
            let mut other = record.clone();
            change(&mut other);
            record.goes_on_as(&other)
        };
        assert!(other(|r| r.gpu.as_mut().unwrap().uuid = "GPU-2".into()), "another of the same model");
        assert!(other(|r| r.device.cores += 1), "the GPU does the work");
        assert!(!other(|r| r.gpu.as_mut().unwrap().name = "NVIDIA B200".into()));
        assert!(!other(|r| r.gpu = None));
        assert!(!other(|r| r.problem_hash = "x".into()));
        std::fs::write(&file, "{}").unwrap();
        assert!(SelftestRecord::load(&file).is_none());
    }

    #[test]
    fn the_record_of_the_cpu_is_still_read() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/cpu/selftest.json");
        let record = SelftestRecord::load(&file).unwrap();
        assert!(!record.on_gpu() && record.aa_runs.len() == 20);
        assert!(record.timer_agreement.is_empty() && record.throughput.is_none());
    }
}
