//! Sections of the self-test that only the cuda target has.

use super::{Going, SHORT_AA, save};
use crate::cli::Section;
use crate::error::CommandError;
use crate::progress::Progress;
use kernelseek_evaluator::selftest::{
    self, AA_RUNS, FAULTS, GAIN_ROUNDS, LONG_SET, SLOWDOWN_PROBLEM, SelftestRecord, Whole,
};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Sections of the cuda target, in the order in which they are run.
pub(super) const SECTIONS: [Section; 6] =
    [Section::Aa, Section::Agreement, Section::Gain, Section::Throughput, Section::Faults, Section::Hostile];
/// Problem that faults are candidates of, beside the one that stands for all.
const FAULTY: &str = "softmax";
/// Faults when nothing is recorded, and rounds of gains.
const SHORT_FAULTS: usize = 4;
const SHORT_GAINS: usize = 1;

pub(super) fn run(going: &mut Going<'_>) -> Result<(), CommandError> {
    let recorded = going.file.is_some();
    for section in SECTIONS {
        let named = going.args.section.contains(&section);
        // Not recorded, it is a look at whether all is well; the hostile candidates take minutes and have a record of their
        // own.
        let by_itself = match section {
            Section::Aa | Section::Faults => true,
            Section::Gain | Section::Throughput => recorded,
            _ => false,
        };
        let wanted = if going.args.section.is_empty() { by_itself } else { named };
        if !wanted {
            continue;
        }
        going.budget.next_section();
        if !going.budget.allows() {
            return Ok(());
        }
        match section {
            Section::Aa => going.gpu_aa(recorded)?,
            // From the pairs of `aa`: where there are none, a run makes some.
            Section::Agreement if going.record.aa_runs.is_empty() => {
                going.aa_run(&going.args.problem.clone(), 1)?;
            }
            Section::Gain => going.gains(if recorded { GAIN_ROUNDS } else { SHORT_GAINS })?,
            Section::Throughput => going.throughput()?,
            Section::Faults => going.faults(if recorded || named { FAULTS } else { SHORT_FAULTS })?,
            Section::Hostile => going.hostile("cheats/cuda")?,
            Section::Agreement | Section::Slowdown => {}
        }
    }
    Ok(())
}

/// A problem of this name beside `problem`, or `problem` itself.
fn beside(problem: &Path, name: &str) -> PathBuf {
    if problem.file_name().is_some_and(|n| n == name) {
        return problem.to_owned();
    }
    let other = problem.join("..").join(name);
    other.canonicalize().unwrap_or(other)
}

impl Going<'_> {
    /// The problem and the kernel of known duration in turns, until there are twenty runs and five hundred verdicts.
    fn gpu_aa(&mut self, recorded: bool) -> Result<(), CommandError> {
        let own = self.args.problem.clone();
        let other = beside(&own, SLOWDOWN_PROBLEM);
        while self.budget.allows() {
            let record = &self.record;
            if !recorded && record.aa_runs.len() >= SHORT_AA {
                break;
            }
            if record.has_all_aa() {
                break;
            }
            // The kernel of known duration touches next to no memory: the two do not go wrong in the same way.
            let of_own = 2 * record.own_runs() <= record.aa_runs.len();
            let problem = if of_own { own.clone() } else { other.clone() };
            let of = if recorded { AA_RUNS.max(record.aa_runs.len() + 1) } else { SHORT_AA };
            self.aa_run(&problem, of)?;
        }
        Ok(())
    }

    fn gains(&mut self, rounds: usize) -> Result<(), CommandError> {
        let start = Instant::now();
        let mut progress = Progress::new(self.printer);
        let settings = self.derived("gain", self.record.slowdown.len());
        let mut counts = std::mem::take(&mut self.record.cycles);
        let mut done = std::mem::take(&mut self.record.slowdown);
        let mut failed = None;
        let (record, file, printer) = (&mut self.record, self.file.as_deref(), self.printer);
        let outcome = selftest::run_gains(
            &beside(&self.args.problem, SLOWDOWN_PROBLEM),
            rounds,
            &settings,
            &mut counts,
            &mut done,
            &mut self.stand,
            &mut self.budget,
            &mut progress,
            |counts, trials| {
                record.cycles = counts.to_vec();
                record.slowdown = trials.to_vec();
                record.total();
                let found = trials.iter().filter(|t| t.found).count();
                printer.talk(&format!("gain: {found} of {} found", trials.len()));
                failed = failed.take().or_else(|| save(file, record).err());
            },
        );
        progress.finish();
        (self.record.cycles, self.record.slowdown) = (counts, done);
        self.record.total();
        self.spent("gain", start);
        self.save()?;
        outcome?;
        failed.map_or(Ok(()), Err)
    }

    fn throughput(&mut self) -> Result<(), CommandError> {
        if self.record.throughput.is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let mut progress = Progress::new(self.printer);
        let own = self.args.problem.clone();
        let timed = beside(&own, SLOWDOWN_PROBLEM);
        let all = [Some(LONG_SET), None].map(|set| Whole { problem: &timed, set });
        let quick = Whole { problem: &own, set: None };
        let settings = self.derived("throughput", 0);
        self.record.throughput =
            selftest::run_throughput(&all, quick, &settings, &mut self.stand, &mut progress)?;
        progress.finish();
        self.spent("throughput", start);
        self.save()
    }

    fn faults(&mut self, trials: usize) -> Result<(), CommandError> {
        let start = Instant::now();
        let mut progress = Progress::new(self.printer);
        let cheats = self.args.cheats.clone().unwrap_or_else(|| "cheats/cuda".into());
        let settings = self.derived("faults", self.record.faults.len());
        let mut done = std::mem::take(&mut self.record.faults);
        let mut failed = None;
        let (record, file, printer) = (&mut self.record, self.file.as_deref(), self.printer);
        let outcome = selftest::run_faults(
            &beside(&self.args.problem, FAULTY),
            &cheats.join("faults"),
            trials,
            &settings,
            &mut done,
            &mut self.stand,
            &mut self.budget,
            &mut progress,
            |all| {
                record.faults = all.to_vec();
                if let Some(trial) = all.last().filter(|t| !t.is_right()) {
                    printer.talk(&format!(
                        "{}: {} {}",
                        trial.candidate,
                        trial.word,
                        trial.defences.join(" ")
                    ));
                }
                if all.len().is_multiple_of(10) {
                    let right = all.iter().filter(|t| t.is_right()).count();
                    printer.talk(&format!("faults: {right} of {} recovered from", all.len()));
                }
                failed = failed.take().or_else(|| save(file, record).err());
            },
        );
        progress.finish();
        self.record.faults = done;
        self.spent("faults", start);
        self.save()?;
        outcome?;
        failed.map_or(Ok(()), Err)
    }
}

/// What only a GPU's record tells, a line each.
pub(super) fn summary(record: &SelftestRecord) -> String {
    let mut lines = Vec::new();
    for widths in record.widths() {
        lines.push(format!(
            "intervals of calls {}: median ±{:.2} %, {} of {} within ±{} %",
            widths.class.as_str(),
            100.0 * widths.median,
            widths.narrow,
            widths.intervals,
            100.0 * widths.class.half_width()
        ));
    }
    for gain in record.gains() {
        lines.push(format!(
            "gains of {} %: {} of {} found",
            f64::from(gain.permille) / 10.0,
            gain.found,
            gain.tried
        ));
    }
    if !record.timer_agreement.is_empty() {
        let agree = record.timer_agreement.iter().filter(|t| t.agree).count();
        lines.push(format!("events and wall agree on {agree} of {} scenarios", record.timer_agreement.len()));
    }
    if let Some(t) = &record.throughput {
        lines.push(format!(
            "default verdict of {} scenarios: {:.1} s ({:.0} % GPU, {:.0} % flushes); quick: {:.1} s",
            t.scenarios,
            t.default_seconds,
            100.0 * t.gpu_share,
            100.0 * t.flush_share,
            t.quick_seconds
        ));
    }
    if !record.faults.is_empty() {
        let right = record.faults.iter().filter(|t| t.is_right()).count();
        lines.push(format!("faults: {right} of {} recovered from", record.faults.len()));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_found_beside_each_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/cuda");
        let softmax = root.join("softmax");
        assert_eq!(beside(&softmax, "softmax"), softmax);
        let slowdown = beside(&softmax, SLOWDOWN_PROBLEM);
        assert!(slowdown.join("same.cu").is_file() && slowdown.ends_with("problems/cuda/slowdown"));
    }
}
