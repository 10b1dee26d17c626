//! From a recipe and a workspace to a shared library, once.

mod cuda;
mod dependencies;
mod many;
mod plan;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernelseek_inspect::headers::DepfileError;
use kernelseek_inspect::{Closure, PathClass};
use serde::{Deserialize, Serialize};

use crate::cache::{self, Cache, DependencyList, Stored};
use crate::candidate::{CandidateHash, ProjectFile};
use crate::command::{BuildCommand, CommandOutput, Exit, Runner, RunnerError};
use crate::cuda::{KernelResources, Remark, arch, resources};
use crate::diagnostics::{self, Diagnostic};
use crate::discover::{Toolchain, ToolchainError};
use crate::hash::{self, FieldHasher};
use crate::recipe::{Language, Recipe};
use crate::target;
use dependencies::{ReadFile, Snapshot};
use plan::Plan;

pub use many::{Done, Job};

/// A built shared library and what it was built from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The library.
    pub artifact: PathBuf,
    /// BLAKE3 of the library, hexadecimal.
    pub artifact_hash: String,
    /// Identity of what was built.
    pub candidate: CandidateHash,
    /// Every project file the build read; the main source first.
    pub sources: Vec<ProjectFile>,
    /// Folder with a copy of each of them: `workspace/NAME`, `offered/N/NAME`, `outside/PATH`.
    pub stored_sources: PathBuf,
    /// Every file the build read, with where it lies.
    pub closure: Closure,
    /// What compiler and linker said, at most [`diagnostics::TEXT_LIMIT`] bytes.
    pub diagnostics: String,
    /// The commands, without the machine's own paths.
    pub argv: Vec<Vec<String>>,
    /// Compiler flags with `native` resolved.
    pub flags: Vec<String>,
    /// What each GPU kernel takes, as the compiler says it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelResources>,
    /// The compiler's remarks about performance that is lost on the GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<Remark>,
    /// Whether no compiler ran.
    pub cached: bool,
}

/// Why there is no build.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A source in a language that is not built here.
    #[error("{}: {language}: {reason}", path.display())]
    Unsupported {
        /// The source.
        path: PathBuf,
        /// Its language.
        language: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// The recipe has no source.
    #[error("the recipe names no source")]
    NoSources,
    /// A CUDA source without an architecture to compile for.
    #[error("{}: no GPU architecture is named; known: {}", path.display(), cuda::known())]
    NoArch {
        /// The source.
        path: PathBuf,
    },
    /// Text that is no architecture.
    #[error(transparent)]
    Arch(arch::NoArch),
    /// A flag for nvcc that the recipe says in another way, or that means something else on every machine.
    #[error(
        "the flag `{flag}` cannot be given to nvcc: architectures, runtime library and processor are fixed by the build"
    )]
    Flag {
        /// The flag.
        flag: String,
    },
    /// A path that nvcc does not take.
    #[error("{}: nvcc cannot work with a path that holds `{}`", path.display(), character.escape_default())]
    Character {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        character: char,
    },
    /// A source that is not below the workspace.
    #[error("{} is not in the workspace", path.display())]
    OutsideWorkspace {
        /// The source.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("{}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No compiler, or one that does not answer.
    #[error(transparent)]
    Toolchain(#[from] ToolchainError),
    /// A command of the build could not be run.
    #[error("{} did not run", program.display())]
    Runner {
        /// The program.
        program: PathBuf,
        /// Why.
        source: RunnerError,
    },
    /// The compiler or the linker refused the sources.
    #[error("{}", compile_summary(first.as_ref(), text))]
    Compile {
        /// The first error in the candidate's own files, if one has a place.
        first: Option<Diagnostic>,
        /// Everything that was said, at most [`diagnostics::TEXT_LIMIT`] bytes.
        text: String,
        /// The command that failed.
        argv: Vec<String>,
    },
    /// A command was ended at its deadline or by a signal.
    #[error("{} {how}", program.display())]
    Ended {
        /// The program.
        program: PathBuf,
        /// What ended it.
        how: String,
    },
    /// What the compiler wrote about the files it read cannot be understood.
    #[error("the dependency output of the build cannot be read")]
    Depfile(#[from] DepfileError),
    /// A file changed while it was being built, several times in a row.
    #[error("{} changed while it was being built", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

fn compile_summary(first: Option<&Diagnostic>, text: &str) -> String {
    match first {
        Some(diagnostic) => diagnostic.to_string(),
        None => text.lines().next().unwrap_or("the compiler failed without a message").to_owned(),
    }
}

/// Makes builds through a [`Runner`].
#[derive(Debug, Clone)]
pub struct Builder<R> {
    runner: R,
    deadline: Duration,
}

/// A build is begun anew this often when its files change under it.
const ATTEMPTS: usize = 3;

impl<R: Runner> Builder<R> {
    /// A builder whose commands have a minute each.
    pub fn new(runner: R) -> Self {
        Self { runner, deadline: Duration::from_secs(60) }
    }

    /// Sets the wall time of each command.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Builds `recipe` in `workspace`, or finds the same build in `cache`: a hit if every file that it read, and every
    /// name that it would have preferred, is as it was.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build(
        &self,
        toolchain: &Toolchain,
        recipe: &Recipe,
        workspace: &Path,
        cache: &Cache,
    ) -> Result<Build, BuildError> {
        let workspace = workspace.canonicalize().map_err(|source| at(workspace, source))?;
        recipe.check()?;
        let recipe = &recipe.settled(&workspace);
        let language = recipe.language()?;
        let compiler = toolchain.compiler(language)?;
        let flags = match language {
            // Its flags are another compiler's; those that stand for this machine are refused by the plan.
            Language::Cuda => recipe.flags.clone(),
            _ => target::resolve(toolchain, compiler, language, &recipe.flags)?,
        };
        let plan = Plan::new(toolchain, recipe, flags)?;
        let sources = recipe
            .sources
            .iter()
            .map(|s| ReadFile::read(&workspace.join(s)).map(|f| f.hash))
            .collect::<Result<Vec<_>, _>>()?;
        let key = key(&plan, recipe, &sources);
        let snapshot = Snapshot::new(toolchain, recipe, &workspace);
        for list in cache.lists(&key) {
            if snapshot.matches(&list)
                && let Some(stored) = cache.load(&list.candidate)
                && stored.foreign == list.foreign
            {
                return Ok(build(cache, stored, true));
            }
        }
        let (stored, list) = self.compile(&plan, toolchain, recipe, &snapshot, cache)?;
        cache.remember(&key, list).map_err(|source| at(cache.root(), source))?;
        Ok(build(cache, stored, false))
    }

    fn compile(
        &self,
        plan: &Plan,
        toolchain: &Toolchain,
        recipe: &Recipe,
        snapshot: &Snapshot,
        cache: &Cache,
    ) -> Result<(Stored, DependencyList), BuildError> {
        let mut changed = None;
        // The first time, only the sources are known before the compiler has run; then every file is.
        let mut known = snapshot.hashes(recipe.sources.iter().map(|s| snapshot.workspace().join(s)))?;
        for _ in 0..ATTEMPTS {
            let staging = cache.staging().map_err(|source| at(cache.root(), source))?;
            if plan.is_cuda() {
                cuda::takes(staging.path())?;
                cuda::takes(snapshot.workspace())?;
            }
            let started = snapshot.now(staging.path())?;
            let text = self.run(plan, toolchain, recipe, snapshot, staging.path())?;
            let (closure, mut files) = snapshot.read(plan.depfiles(staging.path()))?;
            if let Some(own) = recipe.file.as_ref().map(|f| snapshot.recipe_file(f)) {
                // What the compiler read of it and what the recipe was made of are the same, or the build begins anew.
                match files.iter().find(|f| f.path == own.path) {
                    Some(read) if read.hash == own.hash => {}
                    Some(read) => return Err(BuildError::Changed { path: read.path.clone() }),
                    None => files.push(own),
                }
            }
            let given = recipe.file.as_ref().map(|f| snapshot.workspace().join(&f.name));
            let compiled = |f: &&ReadFile| Some(&f.path) != given.as_ref();
            changed =
                files.iter().filter(compiled).find(|f| !f.settled(&known, started)).map(|f| f.path.clone());
            if changed.is_some() {
                known = snapshot
                    .hashes(files.into_iter().map(|f| f.path).filter(|p| Some(p) != given.as_ref()))?;
                continue;
            }
            return self.store(plan, recipe, snapshot, cache, staging.path(), closure, &files, text);
        }
        Err(BuildError::Changed { path: changed.unwrap_or_default() })
    }

    /// Runs every command; what they said, joined.
    fn run(
        &self,
        plan: &Plan,
        toolchain: &Toolchain,
        recipe: &Recipe,
        snapshot: &Snapshot,
        staging: &Path,
    ) -> Result<String, BuildError> {
        let mut readable = toolchain.readable();
        readable.push(snapshot.workspace().to_owned());
        readable.extend(recipe.offered());
        let search = std::env::join_paths(&toolchain.path).unwrap_or_default();
        let mut said = Vec::new();
        for step in plan.steps(staging) {
            let command = BuildCommand {
                program: step.program.clone(),
                args: step.args,
                cwd: snapshot.workspace().to_owned(),
                env: vec![
                    ("PATH".into(), search.clone()),
                    ("LC_ALL".into(), "C".into()),
                    ("TMPDIR".into(), staging.into()),
                    // `__DATE__` and `__TIME__` would make the same sources build differently.
                    ("SOURCE_DATE_EPOCH".into(), "0".into()),
                ],
                readable: readable.clone(),
                writable: vec![staging.to_owned()],
                deadline: self.deadline,
            };
            let CommandOutput { exit, stderr, .. } = self
                .runner
                .run(&command)
                .map_err(|source| BuildError::Runner { program: step.program.clone(), source })?;
            said.extend_from_slice(&stderr);
            let how = match exit {
                Exit::Code(0) => continue,
                Exit::Code(_) => {
                    let said = heard(plan, String::from_utf8_lossy(&said).into_owned());
                    let text = diagnostics::bounded(said.rest.as_bytes());
                    return Err(BuildError::Compile {
                        first: diagnostics::first_error(&text),
                        text,
                        argv: step.canonical,
                    });
                }
                Exit::Signal(signal) => format!("was ended by signal {signal}"),
                Exit::Deadline => {
                    format!("ran for more than {} s and was ended", self.deadline.as_secs_f64())
                }
            };
            return Err(BuildError::Ended { program: step.program, how });
        }
        Ok(String::from_utf8_lossy(&said).into_owned())
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the one place where everything about a build comes together"
    )]
    fn store(
        &self,
        plan: &Plan,
        recipe: &Recipe,
        snapshot: &Snapshot,
        cache: &Cache,
        staging: &Path,
        closure: Closure,
        files: &[ReadFile],
        text: String,
    ) -> Result<(Stored, DependencyList), BuildError> {
        let said = heard(plan, text);
        let project: Vec<ProjectFile> = files.iter().map(ReadFile::project).collect();
        let foreign = snapshot.foreign(&closure)?;
        let candidate = CandidateHash::of(&plan.identities(), &plan.canonical(), &project);

        // A folder of its own: temporary files of the compiler and the dependency output stay behind.
        let entry = staging.join("entry");
        let artifact = entry.join("artifact.so");
        create(&entry)?;
        std::fs::rename(plan.artifact(staging), &artifact).map_err(|source| at(&artifact, source))?;
        for (file, stored) in files.iter().zip(&project) {
            let copy = entry.join("sources").join(cache::stored_name(stored));
            if let Some(parent) = copy.parent() {
                create(parent)?;
            }
            std::fs::write(&copy, &file.contents).map_err(|source| at(&copy, source))?;
        }
        let stored = Stored {
            candidate: candidate.clone(),
            artifact_hash: hash::file(&artifact).map_err(|source| at(&artifact, source))?,
            project: project.clone(),
            foreign: foreign.clone(),
            closure,
            diagnostics: diagnostics::bounded(said.rest.as_bytes()),
            argv: plan.canonical(),
            flags: plan.flags.clone(),
            kernels: said.kernels,
            remarks: said.remarks,
        };
        let record = entry.join("build.json");
        let file = std::fs::File::create(&record).map_err(|source| at(&record, source))?;
        cache::write_record(io::BufWriter::new(file), &stored).map_err(|source| at(&record, source))?;
        let absent = snapshot.absent(recipe, &stored.closure);
        let stored = cache.publish(&entry, stored).map_err(|source| at(&cache.folder(&candidate), source))?;
        Ok((stored, DependencyList { candidate, project, foreign, absent }))
    }
}

/// The cheap part of a build's identity: what can be known before the compiler runs.
fn key(plan: &Plan, recipe: &Recipe, sources: &[String]) -> String {
    let mut hasher = FieldHasher::new("kernelseek build key 1");
    hasher.list(plan.identities());
    for command in plan.canonical() {
        hasher.list(command);
    }
    // Offered folders have no place in the canonical commands, but different folders hold different files.
    hasher.list(recipe.offered().iter().map(|p| p.as_os_str().as_encoded_bytes().to_vec()));
    hasher.list(sources);
    if let Some(file) = &recipe.file {
        hasher.field(file.name.as_os_str().as_encoded_bytes()).field(hash::bytes(&file.contents));
    }
    hasher.hex()
}

fn build(cache: &Cache, stored: Stored, cached: bool) -> Build {
    let folder = cache.folder(&stored.candidate);
    Build {
        artifact: folder.join("artifact.so"),
        artifact_hash: stored.artifact_hash,
        candidate: stored.candidate,
        sources: stored.project,
        stored_sources: folder.join("sources"),
        closure: stored.closure,
        diagnostics: stored.diagnostics,
        argv: stored.argv,
        flags: stored.flags,
        kernels: stored.kernels,
        remarks: stored.remarks,
        cached,
    }
}

/// What the commands said, with what nvcc says of each kernel apart from the rest.
fn heard(plan: &Plan, text: String) -> resources::Said {
    if plan.is_cuda() {
        resources::parse(&text, plan.only_arch().as_deref())
    } else {
        resources::Said { rest: text, ..resources::Said::default() }
    }
}

fn at(path: &Path, source: io::Error) -> BuildError {
    BuildError::Io { path: path.to_owned(), source }
}

fn create(folder: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(folder).map_err(|source| at(folder, source))
}

/// Whether files of this class are the project's own.
fn is_project(class: PathClass) -> bool {
    match class {
        PathClass::Workspace | PathClass::Offered | PathClass::Outside => true,
        PathClass::Toolchain | PathClass::System => false,
    }
}

/// The compiler of a source.
fn compiler_of<'t>(toolchain: &'t Toolchain, source: &Path) -> Result<&'t crate::Compiler, BuildError> {
    Ok(toolchain.compiler(Language::of(source)?)?)
}
