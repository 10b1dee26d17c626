//! Everything an evaluation stands on, prepared: the problem, the toolchain, the builds, the bench.

use crate::bench::{Artifact, Bench};
use crate::event::{Side, Sink};
use crate::gpu_hold::{GpuError, GpuHold};
use crate::kernel_files;
use crate::measure::MeasureError;
use crate::problem_files::{ProblemError, ProblemFiles};
use crate::settings::{Settings, Tier};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::kernel_file::Tuned;
use kernelseek_core::problem::{Language, Target};
use kernelseek_device::topology::{Division, allowed_cpus};
use kernelseek_inspect::{PathClass, Policy, device, elf, policy, rules};
use kernelseek_toolchain::{Build, BuildError, Recipe, SearchPlaces, Toolchain, ToolchainError};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Least deadline of anything asked of a worker.
pub const DEADLINE: Duration = Duration::from_secs(3);

/// Why a session cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The problem is not usable.
    #[error(transparent)]
    Problem(#[from] ProblemError),
    /// There is no compiler.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// The seed or the reference does not build.
    #[error("the {} of the problem does not build", .side.as_str())]
    Build {
        /// Which.
        side: Side,
        /// Why.
        #[source]
        source: BuildError,
    },
    /// The candidate's build failed for a reason that is not the candidate's.
    #[error("the candidate cannot be built")]
    CandidateBuild(#[source] BuildError),
    /// A file cannot be written or read.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The reference is Python and there is none.
    #[error("the reference is a Python module and no `python3` was found")]
    NoPython,
    /// There is no usable GPU.
    #[error("the problem's target is `cuda`, and no GPU can be used")]
    Gpu(#[source] Box<GpuError>),
    /// What was asked to be timed is nothing here.
    #[error("{0}")]
    Timing(&'static str),
    /// Held-out scenarios cannot be drawn.
    #[error("held-out scenarios cannot be drawn: {0}")]
    HeldOut(String),
    /// The seed could not be calibrated.
    #[error("the seed cannot be compared with itself")]
    Calibration(#[source] Box<MeasureError>),
}

/// Whose fault a [`SessionError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// One of the user's files.
    Input,
    /// A compiler or interpreter.
    Toolchain,
    /// The machine or the harness.
    Harness,
}

impl SessionError {
    /// Whose fault it is and what to do about it.
    #[must_use]
    pub fn advice(&self) -> (Fault, Option<String>) {
        match self {
            Self::Problem(_) | Self::HeldOut(_) => (Fault::Input, None),
            Self::Timing(_) => {
                (Fault::Input, Some("leave `--column` or `--mode` out, or name another".into()))
            }
            Self::Toolchain(error) => (Fault::Toolchain, error.hint().map(str::to_owned)),
            Self::Build { source, .. } | Self::CandidateBuild(source) => match source {
                BuildError::Unsupported { language, .. } => {
                    (Fault::Input, Some(language_advice(language).into()))
                }
                BuildError::NoArch { .. } | BuildError::Arch(_) => (
                    Fault::Input,
                    Some("name the GPU's architecture, for example sm_90a for an H100 or H200".into()),
                ),
                BuildError::Flag { .. } => {
                    (Fault::Input, Some("remove it from [build] in problem.toml".into()))
                }
                BuildError::Character { .. } => (Fault::Input, Some("move or rename it".into())),
                BuildError::Toolchain(error) if error.hint().is_some() => {
                    (Fault::Toolchain, error.hint().map(str::to_owned))
                }
                BuildError::Compile { .. } => {
                    (Fault::Input, Some("fix the source; it is built with the flags in [build]".into()))
                }
                _ => (Fault::Toolchain, Some("run `kernelseek doctor`".into())),
            },
            Self::File { .. } => (Fault::Harness, None),
            Self::Gpu(error) => (Fault::Toolchain, Some(error.advice().into())),
            Self::NoPython => {
                (Fault::Toolchain, Some("install Python 3, or name it with KERNELSEEK_PYTHON".into()))
            }
            Self::Calibration(error) => (Fault::Harness, error.next_in_calibration().map(Into::into)),
        }
    }
}

/// A prepared session.
#[derive(Debug)]
pub struct Session {
    /// The problem.
    pub files: ProblemFiles,
    pub(crate) settings: Settings,
    candidate_path: Option<PathBuf>,
    toolchain: Toolchain,
    header_folder: PathBuf,
    pub(crate) seed: Option<Build>,
    pub(crate) reference: Option<Build>,
    candidate: Option<Build>,
    tuned: Option<Tuned>,
    pub(crate) gpu: Option<Rc<GpuHold>>,
}

impl Session {
    /// Reads the problem and finds the toolchain. Builds nothing yet.
    ///
    /// # Errors
    /// When the problem is malformed or there is no compiler.
    pub fn open(folder: &Path, candidate: Option<&Path>, settings: &Settings) -> Result<Self, SessionError> {
        Self::open_with(folder, candidate, settings, None)
    }

    /// Opens a session with a toolchain that was found before; see [`crate::stand`].
    pub(crate) fn open_with(
        folder: &Path,
        candidate: Option<&Path>,
        settings: &Settings,
        toolchain: Option<Toolchain>,
    ) -> Result<Self, SessionError> {
        let files = ProblemFiles::load(folder, settings.set.as_deref())?;
        if let Some(why) = settings.nothing_to_time(files.problem.target) {
            return Err(SessionError::Timing(why));
        }
        let toolchain = match toolchain {
            Some(found) => found,
            None => kernelseek_toolchain::discover(&SearchPlaces {
                cc: settings.cc.clone(),
                cxx: settings.cxx.clone(),
                path: settings.path.clone(),
                cuda: settings.cuda.clone(),
            })?,
        };
        let header = kernelseek_core::header::header(&files.problem);
        let key = blake3::hash(header.as_bytes()).to_hex();
        let header_folder = settings.headers().join(&key.as_str()[..16]);
        write_if_changed(&header_folder.join(format!("{}.h", files.problem.name)), &header)?;
        let candidate_path = candidate
            .map(|path| {
                path.canonicalize().map_err(|source| SessionError::File { path: path.to_owned(), source })
            })
            .transpose()?;
        Ok(Self {
            files,
            settings: settings.clone(),
            candidate_path,
            toolchain,
            header_folder,
            seed: None,
            reference: None,
            candidate: None,
            tuned: None,
            gpu: None,
        })
    }

    /// The toolchain.
    #[must_use]
    pub const fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }
    /// Folder of the generated header.
    #[must_use]
    pub fn header_folder(&self) -> &Path {
        &self.header_folder
    }
    /// The candidate's source as it is shown.
    #[must_use]
    pub fn candidate_name(&self) -> String {
        let name = self.candidate_path.as_ref().and_then(|p| p.file_name());
        name.map_or_else(|| "candidate".to_owned(), |n| n.to_string_lossy().into_owned())
    }
    /// The candidate's source.
    #[must_use]
    pub fn candidate_path(&self) -> Option<&Path> {
        self.candidate_path.as_deref()
    }
    /// Hash of the candidate's build; empty before it.
    #[must_use]
    pub fn candidate_hash(&self) -> String {
        self.candidate.as_ref().map_or_else(String::new, |b| b.candidate.to_string())
    }
    /// Hash of the seed's build; empty before it.
    #[must_use]
    pub fn seed_hash(&self) -> String {
        self.seed.as_ref().map_or_else(String::new, |b| b.candidate.to_string())
    }
    /// The candidate's build, once there is one.
    #[must_use]
    pub const fn candidate_build(&self) -> Option<&Build> {
        self.candidate.as_ref()
    }
    /// The compiler in a few words.
    #[must_use]
    pub fn compiler(&self) -> String {
        let version =
            |c: &kernelseek_toolchain::Compiler| c.version.lines().next().unwrap_or_default().to_owned();
        if self.files.problem.target == Target::Cuda {
            let host = self.toolchain.cxx.as_ref().map_or_else(|| "no C++ compiler".to_owned(), version);
            return match self.toolchain.nvcc() {
                Ok(nvcc) => format!("nvcc {} with {host}", nvcc.version),
                Err(_) => "none".to_owned(),
            };
        }
        self.toolchain.compilers().next().map_or_else(|| "none".to_owned(), version)
    }

    /// Builds `source` with the problem's recipe, without a kernel file.
    ///
    /// # Errors
    /// When it does not compile or the compiler does not run.
    pub fn build(
        &self,
        source: &Path,
        side: Side,
        sink: &mut dyn Sink,
    ) -> Result<Build, SessionErrorOrBuild> {
        self.build_with(source, side, Recipe::default(), &[], sink)
    }

    /// How the candidate was built, if it has a kernel file.
    #[must_use]
    pub const fn tuned(&self) -> Option<&Tuned> {
        self.tuned.as_ref()
    }
    /// Folder of the caches and records.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.settings.state_dir
    }
    /// The flags that the candidate may choose from.
    #[must_use]
    pub fn allowed_flags(&self) -> &[String] {
        self.settings.candidate_flags.as_deref().unwrap_or(&self.files.problem.build.candidate_flags)
    }

    /// Builds the candidate with the sanitizers and finds their runtime; `None` where there is neither candidate nor
    /// runtime.
    ///
    /// # Errors
    /// When the build fails although the plain one did not.
    pub fn sanitized(&self, sink: &mut dyn Sink) -> Result<Option<(Artifact, PathBuf)>, SessionErrorOrBuild> {
        if self.files.problem.target == Target::Cuda {
            return Ok(None);
        }
        let compiler = self.toolchain.compilers().next();
        let runtime = compiler.and_then(|c| c.own_dir.as_ref()?.join("libasan.so").canonicalize().ok());
        let (Some(path), Some(runtime)) = (self.candidate_path.clone(), runtime) else { return Ok(None) };
        // A kernel file that was fine for the plain build is fine here.
        let Ok(own) = self.kernel_recipe(&path).map_err(SessionErrorOrBuild::Session)? else {
            return Ok(None);
        };
        let build = self.build_with(&path, Side::Candidate, own.recipe, &crate::sanitize::FLAGS, sink)?;
        Ok(Some((native(&build), runtime)))
    }

    /// Builds the candidate. The inner error is the candidate's fault.
    ///
    /// # Errors
    /// When the harness cannot build.
    pub fn candidate(&mut self, sink: &mut dyn Sink) -> Result<Result<Artifact, Vec<Finding>>, SessionError> {
        let together = self.files.problem.target == Target::Cuda;
        let Some(path) = self.candidate_path.clone() else {
            if together && self.seed.is_none() {
                // Their own errors are told below and when the bench is made.
                let _ = self.build_together(None, sink);
            }
            let seed = self.seed_build(sink)?;
            return Ok(Ok(native(&seed)));
        };
        match self.build_candidate(&path, together, sink) {
            Ok(built) => Ok(built.map(|build| native(&build))),
            Err(SessionErrorOrBuild::Build(BuildError::Compile { text, .. })) => {
                let mut finding =
                    Finding::new("built.compile", Severity::Fail, "the candidate does not compile");
                finding.evidence = text.lines().take(12).map(str::to_owned).collect();
                Ok(Err(vec![
                    finding.with_next("fix the first error; `kernelseek build` shows the whole output"),
                ]))
            }
            Err(SessionErrorOrBuild::Build(source)) => Err(SessionError::CandidateBuild(source)),
            Err(SessionErrorOrBuild::Session(error)) => Err(error),
        }
    }

    /// Builds `path` as a candidate is built, with its kernel file. The inner error is what is wrong with that file.
    ///
    /// # Errors
    /// When it does not compile, or the harness cannot build.
    pub fn candidate_as_built(
        &mut self,
        path: &Path,
        sink: &mut dyn Sink,
    ) -> Result<Result<Build, Vec<Finding>>, SessionErrorOrBuild> {
        self.build_candidate(path, false, sink)
    }

    /// `together`: with the seed and the reference at once.
    fn build_candidate(
        &mut self,
        path: &Path,
        together: bool,
        sink: &mut dyn Sink,
    ) -> Result<Result<Build, Vec<Finding>>, SessionErrorOrBuild> {
        let own = match self.kernel_recipe(path).map_err(SessionErrorOrBuild::Session)? {
            Ok(own) => own,
            Err(findings) => return Ok(Err(findings)),
        };
        let together =
            if together { self.build_together(Some((path, own.recipe.clone())), sink)? } else { None };
        let build = match together {
            Some(build) => build,
            None => self.build_with(path, Side::Candidate, own.recipe, &[], sink)?,
        };
        self.tuned = own.kernel.map(|k| k.tuned(kernel_files::reads_routes(&build, path)));
        self.candidate = Some(build.clone());
        Ok(Ok(build))
    }

    pub(crate) fn seed_build(&mut self, sink: &mut dyn Sink) -> Result<Build, SessionError> {
        if let Some(build) = &self.seed {
            return Ok(build.clone());
        }
        let path = self.files.path(&self.files.problem.seed.path)?;
        let build = self.build(&path, Side::Seed, sink).map_err(|e| e.of(Side::Seed))?;
        self.seed = Some(build.clone());
        Ok(build)
    }

    fn reference(&self, sink: &mut dyn Sink) -> Result<Artifact, SessionError> {
        let path = self.files.path(&self.files.problem.reference.source.path)?;
        if self.files.problem.reference.source.language == Language::Python {
            let text =
                std::fs::read(&path).map_err(|source| SessionError::File { path: path.clone(), source })?;
            let hash = blake3::hash(&text).to_hex().to_string();
            return Ok(Artifact::Python { interpreter: self.python()?, path, hash });
        }
        if let Some(build) = &self.reference {
            return Ok(native(build));
        }
        let build = self.build(&path, Side::Reference, sink).map_err(|e| e.of(Side::Reference))?;
        Ok(native(&build))
    }

    fn python(&self) -> Result<PathBuf, SessionError> {
        if let Some(python) = &self.settings.python {
            return Ok(python.clone());
        }
        self.settings
            .path
            .iter()
            .map(|folder| folder.join("python3"))
            .find(|p| p.is_file())
            .ok_or(SessionError::NoPython)
    }

    /// What the candidate's binary and header closure say.
    ///
    /// # Errors
    /// When the built library cannot be read.
    pub fn inspect(&self, _sink: &mut dyn Sink) -> Result<Vec<Finding>, SessionError> {
        let Some(build) = &self.candidate else { return Ok(Vec::new()) };
        let mut findings = self.inspect_build(build)?;
        findings.extend(crate::device_code::findings(build));
        Ok(findings)
    }

    /// What a build's binary and header closure say.
    ///
    /// # Errors
    /// When the built library cannot be read.
    pub fn inspect_build(&self, build: &Build) -> Result<Vec<Finding>, SessionError> {
        let bytes = std::fs::read(&build.artifact)
            .map_err(|source| SessionError::File { path: build.artifact.clone(), source })?;
        let facts = match elf::facts(&bytes) {
            Ok(facts) => facts,
            Err(error) => {
                return Ok(vec![
                    Finding::new("allowed.format", Severity::Fail, "the built library cannot be read")
                        .with_evidence(error.to_string()),
                ]);
            }
        };
        let constraints = &self.files.problem.constraints;
        let (name, target) = (&self.files.problem.name, self.files.problem.target);
        let policy = match target {
            Target::Cpu => Policy::cpu(name),
            Target::Cuda => Policy::cuda(name).emitted_by(build.argv.iter().flatten()),
        }
        .allow_imports(constraints.allow_imports.iter().cloned())
        .deny_headers(constraints.deny_headers.iter().cloned())
        .allow_linked(&self.files.problem.build.link);
        Ok(match target {
            Target::Cpu => rules::findings(&facts, &build.closure, &policy),
            Target::Cuda => rules::cuda(&facts, &device::facts(&bytes), &build.closure, &policy, None),
        })
    }

    /// The cases that the tier evaluates.
    ///
    /// # Errors
    /// When a scenario cannot be resolved.
    pub fn cases(&self) -> Result<Vec<Case>, SessionError> {
        let ids = if !self.settings.only.is_empty() {
            self.settings.only.clone()
        } else if self.settings.tier == Tier::Quick {
            self.files.quick_ids()
        } else {
            Vec::new()
        };
        Ok(self.files.resolve(&self.files.select(&ids)?)?)
    }

    /// The quick cases, whatever the tier.
    ///
    /// # Errors
    /// When a scenario cannot be resolved.
    pub fn quick_cases(&self) -> Result<Vec<Case>, SessionError> {
        Ok(self.files.resolve(&self.files.select(&self.files.quick_ids())?)?)
    }

    /// The bench for `cases`.
    ///
    /// # Errors
    /// When the seed or the reference does not build.
    pub fn bench(&mut self, cases: &[Case], sink: &mut dyn Sink) -> Result<Bench, SessionError> {
        let gpu = self.gpu(sink)?;
        let seed_build = self.seed_build(sink)?;
        let queues = self.few_queues(&seed_build).then_some(crate::bench::FEW_QUEUES);
        let seed = native(&seed_build);
        let reference = self.reference(sink)?;
        let python_worker = self.settings.state_dir.join("python_worker.py");
        write_if_changed(&python_worker, kernelseek_device::PYTHON_WORKER)?;
        let constraints = &self.files.problem.constraints;
        let threads = constraints.threads.max(1) as usize;
        // A GPU's driver has threads of its own in the worker.
        let cores = if gpu.is_some() { threads.max(2) } else { threads };
        let division = Division::new(allowed_cpus(), cores);
        kernelseek_device::topology::pin_self(&division.supervisor);
        // Held-out cases are up to some tens of percent larger than the listed ones.
        let largest_arena = 2 * Bench::arena_bytes(cases, self.settings.effort.max_slots);
        Ok(Bench {
            helper: self.settings.helper.clone(),
            python_worker,
            entry: self.files.problem.name.clone(),
            model: self.files.problem.reference.model.clone(),
            sampled: self.files.problem.reference.sampled,
            seed,
            reference,
            division,
            threads,
            memory: constraints.memory_mb << 20,
            largest_arena,
            deterministic: constraints.deterministic,
            deadline: DEADLINE,
            gpu,
            cuda_libraries: self.cuda_libraries(),
            queues,
            namespaces: self.settings.namespaces,
            lockdown: self.settings.lockdown,
        })
    }

    /// Whether neither side makes a stream, so that few queues are enough for their workers. Both have as many: what a queue more
    /// or less does to a call is nobody's merit.
    fn few_queues(&self, seed: &Build) -> bool {
        let makes_none = |build: &Build| {
            let facts = std::fs::read(&build.artifact).ok().and_then(|bytes| elf::facts(&bytes).ok());
            facts.is_some_and(|f| policy::makes_no_stream(f.imports.iter().map(|i| i.name.as_str())))
        };
        makes_none(seed) && self.candidate.as_ref().is_none_or(makes_none)
    }

    /// Whether the candidate's sources changed while they were being evaluated.
    #[must_use]
    pub fn changed_since(&self) -> Option<Finding> {
        let changed = self.candidate_sources().into_iter().find(|(path, hash)| !has_hash(path, hash))?;
        Some(
            Finding::new("stale.source", Severity::Unproven, "a source changed during the evaluation")
                .with_evidence(changed.0.display().to_string())
                .with_next("evaluate again"),
        )
    }

    /// The candidate's own files that its build read, with their hashes.
    #[must_use]
    pub fn candidate_sources(&self) -> Vec<(PathBuf, String)> {
        let (Some(build), Some(path)) = (&self.candidate, &self.candidate_path) else { return Vec::new() };
        let workspace = path.parent().unwrap_or(Path::new("/"));
        build
            .sources
            .iter()
            .filter(|f| f.class == PathClass::Workspace)
            .map(|f| (workspace.join(&f.name), f.hash.clone()))
            .collect()
    }
}

/// Whether a file still has this BLAKE3 hash.
#[must_use]
pub fn has_hash(path: &Path, hash: &str) -> bool {
    std::fs::read(path).is_ok_and(|bytes| blake3::hash(&bytes).to_hex().as_str() == hash)
}

/// An error of [`Session::build`].
#[derive(Debug)]
pub enum SessionErrorOrBuild {
    /// Not the compiler's.
    Session(SessionError),
    /// The compiler's.
    Build(BuildError),
}

impl SessionErrorOrBuild {
    /// The session error that this is when `side` must build.
    #[must_use]
    pub fn of(self, side: Side) -> SessionError {
        match self {
            Self::Session(error) => error,
            Self::Build(source) => SessionError::Build { side, source },
        }
    }
}

fn language_advice(language: &str) -> &'static str {
    match language {
        "CUDA" => "write it in C or C++, or set `target = \"cuda\"` in problem.toml",
        "C" | "C++" => "write it in CUDA, in a file that ends in .cu",
        _ => "write it in C or C++, or in CUDA where the problem says `target = \"cuda\"`",
    }
}

fn native(build: &Build) -> Artifact {
    Artifact::Native { path: build.artifact.clone(), hash: build.candidate.to_string() }
}

pub(crate) fn write_if_changed(path: &Path, text: &str) -> Result<(), SessionError> {
    if std::fs::read_to_string(path).is_ok_and(|known| known == text) {
        return Ok(());
    }
    let fail = |source| SessionError::File { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    let temporary = path.with_extension(format!("tmp{}", std::process::id()));
    std::fs::write(&temporary, text).map_err(fail)?;
    std::fs::rename(&temporary, path).map_err(fail)
}
