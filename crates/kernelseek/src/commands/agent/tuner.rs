//! The built-in agent `tuner`: declared tunables and allowed flags, searched without a model. It asks for every
//! evaluation as any agent does.

use super::campaign;
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use kernelseek_agents::Heard;
use kernelseek_core::decision::Layer;
use kernelseek_core::kernel_file::{self, KernelFile};
use kernelseek_evaluator::fault::chain;
use kernelseek_evaluator::problem_files::ProblemFiles;
use kernelseek_evaluator::settings::{Mode, Tier};
use kernelseek_evaluator::sweep;
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Request, Site, SupervisorError, client};
use kernelseek_tuning::Budget;
use kernelseek_tuning::tuner::{self, Bench, Files, Measured, Subject, TuneError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How long an evaluation waits for another, in seconds.
const PATIENCE_S: u64 = 3600;

/// Tunes the campaign's candidate.
pub(crate) fn run(socket: &Path, budget: Budget, printer: &Printer) -> Result<u8, CommandError> {
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
    let kernel = kernel(&files, &kernel_path)?;
    let allowed = allowed(&site, &files);
    let mut bench = Asking { socket, printer };
    if kernel.tunables.is_empty() && allowed.is_empty() {
        let what = format!(
            "there is nothing to tune: {} declares no tunable, and the campaign allows no flag",
            site.relative(&kernel_path)
        );
        bench.hear(Heard::Finished(what));
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
    let mut workspace = Workspace {
        bare: (!kernel_path.exists()).then(|| kernel.source.text().to_owned()),
        kernel: kernel_path,
        routes: routes_path,
    };
    let tuned = match tuner::tune(&mut bench, &mut workspace, &subject, budget) {
        Ok(tuned) => tuned,
        Err(error) => {
            bench.hear(Heard::Broken(in_words(&error)));
            return Ok(exit::OK);
        }
    };
    let words = tuner::last_words(&tuned.outcome);
    if tuned.outcome.gain.is_none() {
        // What stands in the workspace again was measured in part at most.
        let whole = tuner::Request { whole: true, only: Vec::new() };
        if let Err(error) = bench.evaluate(&whole) {
            bench.hear(Heard::Broken(chain(&error)));
            return Ok(exit::OK);
        }
    }
    bench.hear(Heard::Words(words.clone()));
    let _ = bench.ask(AskKind::Stop { words: words.clone() });
    bench.hear(Heard::Finished(words));
    Ok(exit::OK)
}

fn kernel(files: &ProblemFiles, path: &Path) -> Result<KernelFile, CommandError> {
    let name = path.display().to_string();
    let parsed = match std::fs::read(path) {
        Ok(bytes) => kernel_file::text_of(&name, &bytes)
            .and_then(|text| kernel_file::parse_kernel(&files.problem, &name, &text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => KernelFile::empty(&files.problem, &name),
        Err(e) => return Err(CommandError::file(path, &e)),
    };
    parsed.map_err(|e| CommandError::new(Kind::Input, e.to_string()))
}

fn allowed(site: &Site, files: &ProblemFiles) -> Vec<String> {
    site.file.candidate_flags.clone().unwrap_or_else(|| files.problem.build.candidate_flags.clone())
}

fn in_words(error: &TuneError<SupervisorError, io::Error>) -> String {
    match error {
        TuneError::Condition(diagnostic) => diagnostic.to_string(),
        TuneError::Edit(error) => error.to_string(),
        TuneError::Bench(error) => chain(error),
        TuneError::Files(error) => format!("the kernel file cannot be written: {error}"),
    }
}

/// Evaluates by asking the supervisor.
struct Asking<'a> {
    socket: &'a Path,
    printer: &'a Printer,
}

impl Asking<'_> {
    fn ask(&self, kind: AskKind) -> Result<Reply, SupervisorError> {
        client::ask(self.socket, kind, &mut |_: &_| {}, &mut |_| {})
    }

    fn hear(&self, heard: Heard) {
        // An agent whose output nobody reads works on.
        let _ = self.printer.json_line(&heard);
    }
}

impl Bench for Asking<'_> {
    type Error = SupervisorError;

    fn evaluate(&mut self, request: &tuner::Request) -> Result<Measured, SupervisorError> {
        let begun = Instant::now();
        let tier = if request.whole { Tier::Default } else { Tier::Quick };
        let only = request.only.clone();
        let request = Request { tier, mode: Mode::Cold, only, patience_s: PATIENCE_S };
        match self.ask(AskKind::Evaluate(request))? {
            Reply::Attempt(attempt) => {
                // A contender is measured a second time before the answer comes: that is spent too.
                let seconds = begun.elapsed().as_secs_f64();
                Ok(Measured { seconds, ..sweep::measured(&attempt.evaluation.verdict) })
            }
            _ => Err(SupervisorError::Refused(
                "the supervisor answers something else than was asked".to_owned(),
            )),
        }
    }

    fn state_hypothesis(
        &mut self,
        text: &str,
        layer: Layer,
        expect: Option<f64>,
    ) -> Result<(), SupervisorError> {
        self.ask(AskKind::Hypothesis { text: text.to_owned(), layer: Some(layer), expect }).map(|_| ())
    }

    fn say(&mut self, line: &str) {
        self.hear(Heard::Says(line.to_owned()));
    }
}

/// The candidate's two files, in the workspace.
struct Workspace {
    kernel: PathBuf,
    routes: PathBuf,
    /// The text that stands for a kernel file that is not there.
    bare: Option<String>,
}

impl Files for Workspace {
    type Error = io::Error;

    fn write(&mut self, kernel: &str, routes: Option<&str>) -> Result<(), io::Error> {
        let gone = |path: &Path| match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        };
        if self.bare.as_deref() == Some(kernel) {
            gone(&self.kernel)?;
        } else {
            std::fs::write(&self.kernel, kernel)?;
        }
        match routes {
            Some(text) => std::fs::write(&self.routes, text),
            None => gone(&self.routes),
        }
    }
}
