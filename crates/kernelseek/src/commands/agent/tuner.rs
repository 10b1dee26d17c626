//! The built-in agent `tuner`: declared tunables and allowed flags, searched without a model. It asks for every
//! evaluation as any agent does.

use super::Voice;
use crate::commands::campaign;
use crate::error::{CommandError, Kind};
use crate::exit;
use kernelseek_agents::Heard;
use kernelseek_core::decision::Layer;
use kernelseek_core::kernel_file::{self, KernelFile};
use kernelseek_evaluator::fault::chain;
use kernelseek_evaluator::kernel_files;
use kernelseek_evaluator::problem_files::ProblemFiles;
use kernelseek_evaluator::settings::Tier;
use kernelseek_evaluator::sweep::{self, Beside, SweepError};
use kernelseek_supervisor::protocol::AskKind;
use kernelseek_supervisor::{Site, SupervisorError};
use kernelseek_tuning::Budget;
use kernelseek_tuning::tuner::{self, Bench, Measured, Subject, TuneError};
use std::path::Path;
use std::time::Instant;

/// Tunes the campaign's candidate.
pub(super) fn run(voice: Voice<'_>, budget: Budget) -> Result<u8, CommandError> {
    let site = campaign::site(Path::new("."))?;
    let candidate = site.candidate();
    let files = ProblemFiles::load(&site.problem(), site.file.set.as_deref())
        .map_err(|e| CommandError::new(Kind::Input, chain(&e)))?;
    let kernel_path = kernel_file::beside(&candidate).ok_or_else(|| {
        CommandError::new(
            Kind::Input,
            format!("{}: a candidate of this name has no kernel file", candidate.display()),
        )
    })?;
    let (kernel, had_file) = kernel(&files, &candidate, &kernel_path)?;
    let allowed = allowed(&site, &files);
    let mut bench = Asking(voice);
    if kernel.tunables.is_empty() && allowed.is_empty() {
        let what = format!(
            "there is nothing to tune: {} declares no tunable, and the campaign allows no flag",
            site.relative(&kernel_path)
        );
        bench.0.say(Heard::Finished(what));
        return Ok(exit::OK);
    }
    let routes_path = kernel_file::routes_beside(&candidate);
    let found_routes = std::fs::read_to_string(&routes_path).ok();
    let scenarios = files.select(&[]).map_err(|e| CommandError::new(Kind::Input, chain(&e)))?;
    let cases = files.resolve(&scenarios).map_err(|e| CommandError::new(Kind::Input, chain(&e)))?;
    let subject = Subject {
        problem: &files.problem,
        scenarios: &scenarios,
        cases: &cases,
        kernel: &kernel,
        routes: found_routes.as_deref(),
        allowed: &allowed,
    };
    let mut workspace = Beside {
        bare: (!had_file).then(|| kernel.source.text().to_owned()),
        kernel: kernel_path,
        routes: routes_path,
    };
    let tuned = match tuner::tune(&mut bench, &mut workspace, &subject, budget) {
        Ok(tuned) => tuned,
        Err(error) => {
            bench.0.say(Heard::Broken(in_words(&error)));
            return Ok(exit::OK);
        }
    };
    let words = tuner::last_words(&tuned.outcome);
    if tuned.outcome.gain.is_none() {
        // What stands in the workspace again was measured in part at most.
        let whole = tuner::Request { whole: true, only: Vec::new() };
        if let Err(error) = bench.evaluate(&whole) {
            bench.0.say(Heard::Broken(chain(&error)));
            return Ok(exit::OK);
        }
    }
    bench.0.say(Heard::Words(words.clone()));
    let _ = bench.0.ask(AskKind::Stop { words: words.clone() });
    bench.0.say(Heard::Finished(words));
    Ok(exit::OK)
}

/// The kernel file, and whether there is one.
fn kernel(files: &ProblemFiles, candidate: &Path, path: &Path) -> Result<(KernelFile, bool), CommandError> {
    let name = path.display().to_string();
    let read = kernel_files::read(candidate).map_err(|e| CommandError::file(path, &e))?;
    let parsed = match &read {
        Some((_, bytes)) => kernel_file::text_of(&name, bytes)
            .and_then(|text| kernel_file::parse_kernel(&files.problem, &name, &text)),
        None => KernelFile::empty(&files.problem, &name),
    };
    let kernel = parsed.map_err(|e| CommandError::new(Kind::Input, e.to_string()))?;
    Ok((kernel, read.is_some()))
}

fn allowed(site: &Site, files: &ProblemFiles) -> Vec<String> {
    site.file.candidate_flags.clone().unwrap_or_else(|| files.problem.build.candidate_flags.clone())
}

fn in_words(error: &TuneError<SupervisorError, SweepError>) -> String {
    match error {
        TuneError::Condition(diagnostic) => diagnostic.to_string(),
        TuneError::Edit(error) => error.to_string(),
        TuneError::Bench(error) => chain(error),
        TuneError::Files(error) => format!("the kernel file cannot be written: {}", chain(error)),
    }
}

/// Evaluates by asking the supervisor.
struct Asking<'a>(Voice<'a>);

impl Bench for Asking<'_> {
    type Error = SupervisorError;

    fn evaluate(&mut self, request: &tuner::Request) -> Result<Measured, SupervisorError> {
        let begun = Instant::now();
        let tier = if request.whole { Tier::Default } else { Tier::Quick };
        let attempt = self.0.evaluate(tier, &request.only)?;
        // A contender is measured a second time before the answer comes: that is spent too.
        let seconds = begun.elapsed().as_secs_f64();
        Ok(Measured { seconds, ..sweep::measured(&attempt.evaluation.verdict) })
    }

    fn state_hypothesis(
        &mut self,
        text: &str,
        layer: Layer,
        expect: Option<f64>,
    ) -> Result<(), SupervisorError> {
        self.0.ask(AskKind::Hypothesis { text: text.to_owned(), layer: Some(layer), expect }).map(|_| ())
    }

    fn say(&mut self, line: &str) {
        self.0.say(Heard::Says(line.to_owned()));
    }
}
