//! A bench for tuning that evaluates a private copy of the candidate: the person's files are written only when there is
//! something to write.

use crate::evaluate::{self, EvaluateError, Verdict};
use crate::event::Sink;
use crate::session::{Session, SessionError};
use crate::settings::{Effort, Settings, Tier};
use kernelseek_core::case::Case;
use kernelseek_core::diagnostic::Diagnostics;
use kernelseek_core::finding::Finding;
use kernelseek_core::kernel_file::{self, KernelFile};
use kernelseek_core::problem::Target;
use kernelseek_core::verdict::Word;
use kernelseek_inspect::PathClass;
use kernelseek_tuning::Budget;
use kernelseek_tuning::tuner::{self, Bench, Files, Measured, Request, Subject, TuneError, Tuning, tune};
use std::io;
use std::path::{Path, PathBuf};

/// Why a sweep has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The session cannot be prepared.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// There is no verdict.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// The kernel file is malformed, or a condition in it cannot be evaluated.
    #[error("{0}")]
    Kernel(Box<Diagnostics>),
    /// The kernel file cannot be edited.
    #[error(transparent)]
    Edit(#[from] kernel_file::EditError),
    /// The candidate is refused before anything is measured.
    #[error("{}", refused(.0))]
    Refused(Vec<Finding>),
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Sources lie outside the candidate's folder.
    #[error("{0} is outside the candidate's folder; keep every source inside it")]
    Outside(String),
}

fn refused(findings: &[Finding]) -> String {
    let lines = findings.iter().flat_map(|f| std::iter::once(&f.message).chain(&f.evidence));
    lines.map(String::as_str).collect::<Vec<_>>().join("\n")
}

fn file(path: &Path, source: io::Error) -> SweepError {
    SweepError::File { path: path.to_owned(), source }
}

/// What a sweep ended with.
#[derive(Debug)]
pub struct Swept {
    /// What came of it, with the texts of the two files.
    pub tuning: Tuning,
    /// The kernel file; where it would lie, if there is none.
    pub kernel_path: PathBuf,
    /// The header with the routes, likewise.
    pub routes_path: PathBuf,
    /// The flags that may be chosen.
    pub allowed: Vec<String>,
}

/// Sweeps `candidate`. Writes nothing beside it.
///
/// # Errors
/// [`SweepError`].
pub fn sweep(
    problem: &Path,
    candidate: &Path,
    settings: &Settings,
    budget: Budget,
    flags: bool,
    sink: &mut dyn Sink,
    say: &mut dyn FnMut(&str),
) -> Result<Swept, SweepError> {
    let mut settings = settings.clone();
    // Alternatives are audited only when one is confirmed: an audit of each would cost more than it tells.
    settings.suspicious = f64::INFINITY;
    let mut session = Session::open(problem, Some(candidate), &settings)?;
    let path = session.candidate_path().unwrap_or(candidate).to_owned();
    let kernel_path = kernel_file::beside(&path).ok_or_else(|| {
        file(&path, io::Error::other("a candidate of this name has no kernel file; rename it"))
    })?;
    let routes_path = kernel_file::routes_beside(&path);
    let kernel = match session.kernel(&path).map_err(|e| file(&kernel_path, e))? {
        Some(parsed) => parsed.map_err(|e| SweepError::Kernel(Box::new(e)))?,
        // Without one there are flags to tune at most.
        None => KernelFile::empty(&session.files.problem, &kernel_path.display().to_string())
            .map_err(|e| SweepError::Kernel(Box::new(e)))?,
    };
    let had_file = kernel_path.exists();
    let found_routes = std::fs::read_to_string(&routes_path).ok();
    let scenarios = session.files.select(&settings.only).map_err(SessionError::from)?;
    let cases = session.files.resolve(&scenarios).map_err(SessionError::from)?;
    let allowed = session.allowed_flags().to_vec();
    let scratch = tempdir_in(&settings.state_dir)?;
    copy(&mut session, &path, scratch.path(), sink)?;
    let name = path.file_name().map(PathBuf::from).unwrap_or_default();
    let copied = scratch.path().join(&name);
    let problem_of = session.files.problem.clone();
    let subject = Subject {
        problem: &problem_of,
        scenarios: &scenarios,
        cases: &cases,
        kernel: &kernel,
        routes: found_routes.as_deref(),
        allowed: if flags { &allowed } else { &[] },
    };
    if problem_of.target == Target::Cuda {
        // Compiling takes longer than measuring: all of them now, rather than one before each measurement.
        let mut kernels = tuner::alternatives(&subject)?;
        kernels.truncate(budget.evaluations);
        say(&format!("compiling {} assignments", kernels.len()));
        session.build_ahead(&copied, &kernels)?;
    }
    // It holds the GPU, which each evaluation takes for itself.
    drop(session);
    let mut bench = Direct { problem, candidate: &copied, settings: &settings, sink, say, cases: &cases };
    let mut files = Beside {
        kernel: scratch.path().join(kernel_path.file_name().map(PathBuf::from).unwrap_or_default()),
        routes: kernel_file::routes_beside(&copied),
        bare: (!had_file).then(|| kernel.source.text().to_owned()),
    };
    let tuning = tune(&mut bench, &mut files, &subject, budget).map_err(|e| match e {
        TuneError::Condition(d) => {
            SweepError::Kernel(Box::new(Diagnostics { source: d.source.clone(), items: vec![*d] }))
        }
        TuneError::Edit(e) => e.into(),
        TuneError::Bench(e) | TuneError::Files(e) => e,
    })?;
    Ok(Swept { tuning, kernel_path, routes_path, allowed })
}

/// Folder below the state that is removed with everything in it.
struct Scratch(PathBuf);

impl Scratch {
    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn tempdir_in(state: &Path) -> Result<Scratch, SweepError> {
    let mut tail = [0u8; 8];
    let source = Path::new("/dev/urandom");
    std::fs::File::open(source)
        .and_then(|mut f| io::Read::read_exact(&mut f, &mut tail))
        .map_err(|e| file(source, e))?;
    let name = format!("sweep-{}-{:016x}", std::process::id(), u64::from_le_bytes(tail));
    let path = state.join("scratch").join(name);
    std::fs::create_dir_all(&path).map_err(|e| file(&path, e))?;
    Ok(Scratch(path))
}

/// Copies what the candidate's build reads of its folder.
fn copy(session: &mut Session, candidate: &Path, to: &Path, sink: &mut dyn Sink) -> Result<(), SweepError> {
    if let Err(findings) = session.candidate(sink)? {
        return Err(SweepError::Refused(findings));
    }
    let Some(build) = session.candidate_build() else { return Ok(()) };
    for source in &build.sources {
        if source.class == PathClass::Outside {
            return Err(SweepError::Outside(source.name.clone()));
        }
        if source.class != PathClass::Workspace {
            continue;
        }
        let (from, target) =
            (build.stored_sources.join("workspace").join(&source.name), to.join(&source.name));
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder).map_err(|e| file(folder, e))?;
        }
        std::fs::copy(&from, &target).map_err(|e| file(&from, e))?;
    }
    let main = to.join(candidate.file_name().unwrap_or_default());
    if main.is_file() { Ok(()) } else { Err(SweepError::Outside(candidate.display().to_string())) }
}

/// Evaluates the copy.
struct Direct<'a> {
    problem: &'a Path,
    candidate: &'a Path,
    settings: &'a Settings,
    cases: &'a [Case],
    sink: &'a mut dyn Sink,
    say: &'a mut dyn FnMut(&str),
}

impl Bench for Direct<'_> {
    type Error = SweepError;

    fn evaluate(&mut self, request: &Request) -> Result<Measured, SweepError> {
        let mut settings = self.settings.clone();
        settings.tier = if request.whole { Tier::Default } else { Tier::Quick };
        settings.effort = Effort::of(settings.tier);
        settings.calibrate = request.whole;
        settings.only.clone_from(&request.only);
        if request.only.len() == self.cases.len() {
            settings.only = self.cases.iter().map(|c| c.id.clone()).collect();
        }
        // Contents that nobody saw in the trial before.
        let mut secret = blake3::Hasher::new_keyed(&self.settings.secret);
        let stamp = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        secret.update(&stamp.as_nanos().to_le_bytes());
        settings.secret = *secret.finalize().as_bytes();
        let mut session = Session::open(self.problem, Some(self.candidate), &settings)?;
        let evaluation = evaluate::evaluate(&mut session, &settings, self.sink)?;
        Ok(measured(&evaluation.verdict))
    }

    fn state_hypothesis(
        &mut self,
        text: &str,
        _layer: kernelseek_core::decision::Layer,
        _expect: Option<f64>,
    ) -> Result<(), SweepError> {
        (self.say)(&format!("→ {text}"));
        Ok(())
    }

    fn say(&mut self, line: &str) {
        (self.say)(line);
    }
}

/// What tuning needs of a verdict.
#[must_use]
pub fn measured(verdict: &Verdict) -> Measured {
    let failing = verdict.findings.iter().chain(verdict.scenarios.iter().flat_map(|s| &s.findings));
    let failed = (verdict.word == Word::Fail).then(|| {
        let worst = failing.max_by_key(|f| f.severity);
        worst.map_or_else(|| "the verdict is FAIL".to_owned(), |f| format!("{} ({})", f.message, f.defence))
    });
    let usable = |w: Word| matches!(w, Word::Pass | Word::Unresolved);
    Measured {
        ratios: verdict
            .scenarios
            .iter()
            .filter(|s| usable(s.word))
            .filter_map(|s| Some((s.id.clone(), s.ratio?)))
            .collect(),
        failed,
        tuned: verdict.tunables.clone(),
        seconds: verdict.seconds,
    }
}

/// The two files beside a candidate that tuning writes: of a copy, or of the candidate itself.
#[derive(Debug)]
pub struct Beside {
    /// The kernel file.
    pub kernel: PathBuf,
    /// The header with the routes.
    pub routes: PathBuf,
    /// The text that stands for a kernel file that is not there.
    pub bare: Option<String>,
}

impl Files for Beside {
    type Error = SweepError;

    fn write(&mut self, kernel: &str, routes: Option<&str>) -> Result<(), SweepError> {
        let gone = |path: &Path| match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(file(path, e)),
            _ => Ok(()),
        };
        if self.bare.as_deref() == Some(kernel) {
            gone(&self.kernel)?;
        } else {
            std::fs::write(&self.kernel, kernel).map_err(|e| file(&self.kernel, e))?;
        }
        match routes {
            Some(text) => std::fs::write(&self.routes, text).map_err(|e| file(&self.routes, e)),
            None => gone(&self.routes),
        }
    }
}
