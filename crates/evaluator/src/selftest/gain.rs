//! Planted gains: copies of `problems/cuda/slowdown` that wait a known share less, through the same evaluation as any
//! candidate. The share is confirmed by the GPU's clock counter, not by timing.

use super::budget::Budget;
use super::{CycleCount, Gain, Raw, SlowdownTrial, cycles};
use crate::evaluate::{self, EvaluateError};
use crate::event::Sink;
use crate::problem_files::{ProblemError, ProblemFiles};
use crate::session::SessionError;
use crate::settings::Settings;
use crate::stand::Stand;
use kernelseek_core::case::AttributeValue;
use kernelseek_core::verdict::{Ratio, Standing, Word};
use std::path::Path;
use std::time::Instant;

/// A gain, and the scenarios that it must be found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planted {
    pub(super) class: &'static str,
    pub(super) permille: u32,
    file: &'static str,
}

/// What must be found: the shorter the call, the larger.
pub(super) const PLANTED: [Planted; 3] = [
    Planted { class: "above_50us", permille: 20, file: "gain_2.cu" },
    Planted { class: "10_to_50us", permille: 50, file: "gain_5.cu" },
    Planted { class: "below_10us", permille: 100, file: "gain_10.cu" },
];

/// Attribute that holds how long the kernel waits.
const CYCLES: &str = "cycles";

/// Evaluates every gain until each has had `rounds`; what is in `done` is not run again, `kept` is told after every
/// evaluation. Counts cycles first, where that has not been done.
///
/// # Errors
/// When the seed or the reference fails.
#[expect(clippy::too_many_arguments, reason = "one call site")]
pub fn run(
    folder: &Path,
    rounds: usize,
    settings: &Settings,
    counts: &mut Vec<CycleCount>,
    done: &mut Vec<SlowdownTrial>,
    stand: &mut Stand,
    budget: &mut Budget,
    sink: &mut dyn Sink,
    mut kept: impl FnMut(&[CycleCount], &[SlowdownTrial]),
) -> Result<(), EvaluateError> {
    let files = ProblemFiles::load(folder, None).map_err(SessionError::from)?;
    if counts.is_empty() {
        *counts = count(folder, &files, settings, stand, sink)?;
        kept(counts, done);
    }
    for round in 0..rounds {
        for planted in PLANTED {
            let ids = with_tag(&files, planted.class)?;
            let known = done.iter().filter(|t| is(t, planted)).count();
            if known >= ids.len() * (round + 1) {
                continue;
            }
            if !budget.allows() {
                return Ok(());
            }
            let start = Instant::now();
            let candidate = folder.join(planted.file);
            let settings = Settings {
                secret: crate::dice::key(&settings.secret, &format!("gain/{}/{known}", planted.permille)),
                only: ids,
                set: None,
                ..settings.clone()
            };
            let mut session = stand.open(folder, Some(&candidate), &settings)?;
            let evaluation = evaluate::evaluate(&mut session, &settings, sink)?;
            stand.keep(&session);
            for scenario in evaluation.verdict.scenarios {
                let none = Ratio {
                    point: f64::NAN,
                    lo: f64::NAN,
                    hi: f64::NAN,
                    instances: 0,
                    pairs: 0,
                    correlation: None,
                };
                done.push(SlowdownTrial {
                    instructions: None,
                    found: scenario.word == Word::Pass && scenario.standing == Some(Standing::Faster),
                    ratio: scenario.ratio.unwrap_or(none),
                    raw: Raw(evaluation.raw.get(&scenario.id).cloned().unwrap_or_default()),
                    aa_spread: evaluation.spreads.get(&scenario.id).copied().unwrap_or(0.0),
                    gain: Some(Gain {
                        permille: planted.permille,
                        class: planted.class.to_owned(),
                        word: scenario.word.as_str().to_owned(),
                        cycles: counted(counts, planted.permille, waits(&files, &scenario.id)),
                    }),
                    scenario: scenario.id,
                });
            }
            kept(counts, done);
            budget.took(start.elapsed());
        }
    }
    Ok(())
}

fn is(trial: &SlowdownTrial, planted: Planted) -> bool {
    trial.gain.as_ref().is_some_and(|g| g.permille == planted.permille && g.class == planted.class)
}

fn with_tag(files: &ProblemFiles, tag: &str) -> Result<Vec<String>, SessionError> {
    let ids: Vec<String> =
        files.scenarios.iter().filter(|s| s.tags.iter().any(|t| t == tag)).map(|s| s.id.clone()).collect();
    if ids.is_empty() {
        return Err(SessionError::Problem(ProblemError::NoScenario { id: format!("with the tag `{tag}`") }));
    }
    Ok(ids)
}

/// How many cycles a scenario's kernel waits.
fn waits(files: &ProblemFiles, scenario: &str) -> Option<i64> {
    let chosen = files.select(&[scenario.to_owned()]).ok()?;
    let case = files.resolve(&chosen).ok()?.into_iter().next()?;
    case.attributes.iter().find_map(|(name, value)| match value {
        AttributeValue::I64(cycles) if name == CYCLES => Some(*cycles),
        _ => None,
    })
}

fn count(
    folder: &Path,
    files: &ProblemFiles,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<Vec<CycleCount>, EvaluateError> {
    let mut session = stand.open(folder, None, settings)?;
    // The tool runs under the lease of this session.
    session.gpu(sink)?;
    stand.keep(&session);
    let mut all = Vec::new();
    for planted in PLANTED {
        let cycles: Vec<i64> =
            with_tag(files, planted.class)?.iter().filter_map(|id| waits(files, id)).collect();
        all.push(cycles::count(&session, folder, planted.permille, &cycles)?);
    }
    Ok(all)
}

/// Cycles of the copy over those of the seed, as they were counted for this wait.
fn counted(counts: &[CycleCount], permille: u32, wait: Option<i64>) -> Option<f64> {
    let count = counts.iter().find(|c| c.permille == permille)?;
    count.printed.iter().find_map(|line| cycles::ratio(line, wait?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/cuda/slowdown")
    }

    #[test]
    fn every_gain_has_a_file_and_scenarios() {
        let files = ProblemFiles::load(&folder(), None).unwrap();
        for planted in PLANTED {
            let ids = with_tag(&files, planted.class).unwrap();
            assert!(ids.len() >= 5, "{}", planted.class);
            let source = std::fs::read_to_string(folder().join(planted.file)).unwrap();
            assert!(source.contains(&format!("KS_GAIN_PERMILLE {}\n", planted.permille)), "{source}");
            for id in ids {
                assert_eq!(waits(&files, &id).map(|c| format!("spin_{c}")), Some(id));
            }
        }
        assert!(with_tag(&files, "none").is_err());
        let in_a_class = PLANTED.map(|p| with_tag(&files, p.class).unwrap().len());
        assert_eq!(in_a_class.iter().sum::<usize>(), files.scenarios.len(), "every scenario is of one class");
    }

    #[test]
    fn what_was_counted_is_found_by_its_wait() {
        let counts = [CycleCount {
            permille: 20,
            holds: true,
            printed: vec![
                "10000 cycles: 10060 and 9860, ratio 0.98012, intended 0.980".into(),
                "100000 cycles: 1 and 1, ratio 0.98001, intended 0.980".into(),
            ],
        }];
        assert_eq!(counted(&counts, 20, Some(10_000)), Some(0.980_12));
        assert_eq!(counted(&counts, 20, Some(100_000)), Some(0.980_01));
        assert_eq!(counted(&counts, 20, Some(1)), None);
        assert_eq!(counted(&counts, 50, Some(10_000)), None);
        assert_eq!(counted(&counts, 20, None), None);
    }
}
