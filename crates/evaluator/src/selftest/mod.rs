//! The self-test: measures the measurement. Everything goes through the same evaluation that users run.
//!
//! Sections: `aa` (the seed as a candidate: no verdict may be "faster"), `slowdown` (copies of the seed that execute
//! 5 % more instructions: every one must be found), `hostile` (candidates that misbehave: each ends as its catalogue
//! line says, in time, and the next evaluation is right). On a GPU besides: `gain` (copies of a seed that wait a known
//! share less), `agreement` (events and the supervisor's wall tell the same story), `throughput` (how long evaluations
//! take, and where the time goes), `faults` (candidates that crash, hang and spoil their context). Raw pairs are kept, and
//! every figure can be recomputed.

pub mod agreement;
pub mod bars;
pub mod budget;
pub mod catalogue;
mod cycles;
pub mod expectation;
mod faults;
mod gain;
mod hostile;
mod mean;
mod raw;
mod recompute;
mod record;
mod slowdown;
pub mod table;
pub mod throughput;

pub use faults::run as run_faults;
pub use gain::run as run_gains;
pub use hostile::{HostileError, run as run_hostile};
pub use mean::Means;
pub use raw::Raw;
pub use recompute::recompute;
pub use record::{AaRun, CycleCount, Gain, HostileTrial, SelftestRecord, SlowdownTrial};
pub use slowdown::run as run_slowdown;
pub use throughput::{Whole, run as run_throughput};

use crate::evaluate::{self, EvaluateError, Evaluation};
use crate::event::Sink;
use crate::session::SessionError;
use crate::settings::Settings;
use crate::stand::Stand;
use kernelseek_core::verdict::{Ratio, Standing, Word, geomean};
use std::collections::BTreeMap;
use std::path::Path;

/// Runs of the seed against itself.
pub const AA_RUNS: usize = 20;
/// Scenario verdicts that the runs of the seed against itself must come to, on a GPU.
pub const AA_VERDICTS: usize = 500;
/// Slowdowns that are planted.
pub const SLOWDOWNS: usize = 100;
/// Evaluations of each planted gain.
pub const GAIN_ROUNDS: usize = 3;
/// Faults that must be recovered from.
pub const FAULTS: usize = 100;
/// Folder of the kernel of known duration, beside the others of the cuda target.
pub const SLOWDOWN_PROBLEM: &str = "slowdown";
/// Its scenarios of up to a millisecond, on which the time of a whole evaluation is taken.
pub const LONG_SET: &str = "up_to_1ms";
/// A copy of that kernel in which nothing is changed.
const SAME: &str = "same.cu";

/// Runs the seed against itself once, as a candidate like any other. `folder` may hold a copy named `same.cu`, which is
/// taken in its place.
///
/// # Errors
/// When the seed or the reference fails.
pub fn run_aa(
    folder: &Path,
    settings: &Settings,
    stand: &mut Stand,
    sink: &mut dyn Sink,
) -> Result<AaRun, EvaluateError> {
    let files = crate::problem_files::ProblemFiles::load(folder, settings.set.as_deref())
        .map_err(SessionError::from)?;
    let same = folder.join(SAME);
    let candidate = if same.is_file() {
        same
    } else {
        files.path(&files.problem.seed.path).map_err(SessionError::from)?
    };
    let mut session = stand.open(folder, Some(&candidate), settings)?;
    let evaluation = evaluate::evaluate(&mut session, settings, sink)?;
    stand.keep(&session);
    let on_gpu = session.gpu_hold().is_some();
    let Evaluation { verdict, raw, spreads, canaries } = evaluation;
    let ratios: BTreeMap<String, Ratio> =
        verdict.scenarios.iter().filter_map(|s| Some((s.id.clone(), s.ratio?))).collect();
    let all: Vec<Ratio> = ratios.values().copied().collect();
    let passed = |w: Word| matches!(w, Word::Pass | Word::Unresolved);
    let not_passed = verdict.scenarios.iter().filter(|s| !passed(s.word)).map(|s| {
        let why = s.findings.first().map_or_else(String::new, |f| format!(" {}", f.defence));
        (s.id.clone(), format!("{}{why}", s.word))
    });
    let seed_ns = verdict.scenarios.iter().filter_map(|s| Some((s.id.clone(), s.seed_ns?)));
    Ok(AaRun {
        problem: on_gpu.then(|| files.problem.name.clone()),
        // What JSON cannot say is not kept: no ratio at all is far from 1.
        geomean: geomean(&all).map_or(0.0, |r| r.point),
        verdicts: verdict.scenarios.len(),
        false_faster: verdict.scenarios.iter().filter(|s| s.standing == Some(Standing::Faster)).count(),
        false_one_percent: AaRun::one_percent(&ratios),
        ratios,
        raw: raw.into_iter().map(|(id, all)| (id, Raw(all))).collect(),
        aa_spread: spreads,
        not_passed: if on_gpu { not_passed.collect() } else { BTreeMap::new() },
        canaries,
        seed_ns: if on_gpu { seed_ns.collect() } else { BTreeMap::new() },
        seconds: verdict.seconds,
    })
}
