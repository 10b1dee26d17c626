//! A problem's folder, read and resolved.

use kernelseek_core::case::Case;
use kernelseek_core::diagnostic::{Diagnostic, Diagnostics};
use kernelseek_core::problem::{self, Problem};
use kernelseek_core::scenario::{self, Scenario};
use std::path::{Path, PathBuf};

/// Why a problem cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProblemError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is malformed.
    #[error("{0}")]
    Malformed(Diagnostics),
    /// A scenario cannot be resolved.
    #[error("{0}")]
    Unresolvable(Box<Diagnostic>),
    /// There is no such scenario set.
    #[error("the problem has no scenario set `{name}`; it has {known}")]
    NoSet {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// No scenario of a set's file has its tag.
    #[error("the scenario set `{set}` is empty: no scenario in {path} has the tag `{tag}`")]
    NoneTagged {
        /// Name of the set.
        set: String,
        /// The tag.
        tag: String,
        /// The file.
        path: PathBuf,
    },
    /// There is no such scenario.
    #[error("the scenario set has no scenario `{id}`")]
    NoScenario {
        /// What was asked for.
        id: String,
    },
    /// A path climbs out of the problem's folder.
    #[error("`{path}` leaves the problem's folder")]
    Outside {
        /// The path.
        path: String,
    },
}

/// A problem read from its folder.
#[derive(Debug, Clone)]
pub struct ProblemFiles {
    /// The folder, canonical.
    pub folder: PathBuf,
    /// The problem.
    pub problem: Problem,
    /// Name of the scenario set that was read.
    pub set: String,
    /// Its scenarios.
    pub scenarios: Vec<Scenario>,
    /// Hash over the problem file, the scenario file, the reference and the seed's main source.
    pub hash: String,
}

fn read(path: &Path) -> Result<String, ProblemError> {
    std::fs::read_to_string(path).map_err(|source| ProblemError::Read { path: path.to_owned(), source })
}

/// Reads the problem file in `folder` and nothing else: what it names may not have been written yet.
///
/// # Errors
/// When it is missing or malformed.
pub fn problem_file(folder: &Path) -> Result<Problem, ProblemError> {
    let file = folder.join("problem.toml");
    let text = read(&file)?;
    problem::parse_problem(&file.display().to_string(), &text).map_err(ProblemError::Malformed)
}

impl ProblemFiles {
    /// Reads the problem in `folder` and the scenario set `set` (the default one without a name).
    ///
    /// # Errors
    /// When a file is missing or malformed.
    pub fn load(folder: &Path, set: Option<&str>) -> Result<Self, ProblemError> {
        let file = folder.join("problem.toml");
        let folder =
            folder.canonicalize().map_err(|source| ProblemError::Read { path: file.clone(), source })?;
        let problem = problem_file(file.parent().unwrap_or(Path::new(".")))?;
        let set = set.unwrap_or(&problem.scenarios.default).to_owned();
        let Some((_, file_of_set)) = problem.scenarios.files.iter().find(|(name, _)| *name == set) else {
            let known: Vec<&str> = problem.scenarios.files.iter().map(|(name, _)| name.as_str()).collect();
            return Err(ProblemError::NoSet { name: set, known: known.join(", ") });
        };
        let path = inside(&file, &file_of_set.path)?;
        let scenario_text = read(&path)?;
        let scenarios = scenario::of_set(&problem, file_of_set, &path.display().to_string(), &scenario_text)
            .map_err(ProblemError::Malformed)?;
        if let (Some(tag), true) = (&file_of_set.tag, scenarios.is_empty()) {
            return Err(ProblemError::NoneTagged { set, tag: tag.clone(), path });
        }
        let mut hasher = blake3::Hasher::new();
        for part in [problem.hash_input(), scenario_text.as_bytes()] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        for source in [&problem.reference.source.path, &problem.seed.path] {
            let text = read(&inside(&file, source)?)?;
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        let hash = hasher.finalize().to_hex().to_string();
        Ok(Self { folder, problem, set, scenarios, hash })
    }

    /// Path of a file that the problem names.
    ///
    /// # Errors
    /// When it leaves the folder.
    pub fn path(&self, relative: &str) -> Result<PathBuf, ProblemError> {
        inside(&self.folder.join("problem.toml"), relative)
    }

    /// Resolves `scenarios`, in order.
    ///
    /// # Errors
    /// When an expression fails or gives an impossible shape.
    pub fn resolve(&self, scenarios: &[Scenario]) -> Result<Vec<Case>, ProblemError> {
        scenarios
            .iter()
            .map(|s| {
                kernelseek_core::resolve::resolve(&self.problem, s)
                    .map_err(|diagnostic| ProblemError::Unresolvable(Box::new(diagnostic)))
            })
            .collect()
    }

    /// The scenarios with these ids, in the set's order; all of them for an empty list.
    ///
    /// # Errors
    /// When there is no such scenario.
    pub fn select(&self, ids: &[String]) -> Result<Vec<Scenario>, ProblemError> {
        if ids.is_empty() {
            return Ok(self.scenarios.clone());
        }
        if let Some(id) = ids.iter().find(|id| !self.scenarios.iter().any(|s| s.id == **id)) {
            return Err(ProblemError::NoScenario { id: id.clone() });
        }
        Ok(self.scenarios.iter().filter(|s| ids.contains(&s.id)).cloned().collect())
    }

    /// The ids that `--quick` takes, of those that the set has.
    #[must_use]
    pub fn quick_ids(&self) -> Vec<String> {
        let ids: Vec<String> = self
            .problem
            .scenarios
            .quick
            .iter()
            .map(|q| q.id.clone())
            .filter(|id| self.scenarios.iter().any(|s| s.id == *id))
            .collect();
        if ids.is_empty() { self.scenarios.iter().take(1).map(|s| s.id.clone()).collect() } else { ids }
    }
}

/// `relative` beside `file`, refused when it climbs out.
fn inside(file: &Path, relative: &str) -> Result<PathBuf, ProblemError> {
    let path = Path::new(relative);
    let climbs = path
        .components()
        .any(|c| !matches!(c, std::path::Component::Normal(_) | std::path::Component::CurDir));
    if climbs {
        return Err(ProblemError::Outside { path: relative.to_owned() });
    }
    Ok(file.parent().unwrap_or(Path::new(".")).join(path))
}
