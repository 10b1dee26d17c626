//! A candidate's kernel file: found beside it, read once, turned into its part of the recipe or into findings.

use crate::session::{Session, SessionError, write_if_changed};
use kernelseek_core::diagnostic::{Diagnostic, Diagnostics};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::kernel_file::{self, KernelFile};
use kernelseek_toolchain::{Build, Recipe, RecipeFile};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Flags for opening without waiting for a writer and without following a link: the file's lines are shown in messages,
/// and whoever works in the folder may point a link at what only the supervisor can read.
const OPEN: i32 = (rustix::fs::OFlags::NONBLOCK.bits() | rustix::fs::OFlags::NOFOLLOW.bits()) as i32;

/// What a candidate's kernel file adds.
#[derive(Debug, Default)]
pub(crate) struct Own {
    pub(crate) recipe: Recipe,
    pub(crate) kernel: Option<KernelFile>,
}

/// Reads the kernel file of `candidate`; `None` when it has none.
///
/// # Errors
/// When it cannot be read, or is no regular file of its own.
pub fn read(candidate: &Path) -> io::Result<Option<(PathBuf, Vec<u8>)>> {
    let Some(path) = kernel_file::beside(candidate) else { return Ok(None) };
    let file = match File::options().read(true).custom_flags(OPEN).open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(_) if path.is_symlink() => {
            return Err(io::Error::other("it is a symbolic link; it must be a file of its own"));
        }
        Err(e) => return Err(e),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(kernel_file::LONGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some((path, bytes)))
}

/// Whether a build read a header with routes: that of the candidate, or the one that stands in for it.
pub(crate) fn reads_routes(build: &Build, candidate: &Path) -> bool {
    let routes = kernel_file::routes_beside(candidate);
    let Some(name) = routes.file_name() else { return false };
    build.closure.files.iter().any(|f| f.path.file_name() == Some(name))
}

impl Session {
    /// The candidate's kernel file, parsed; `None` when it has none.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn kernel(&self, candidate: &Path) -> io::Result<Option<Result<KernelFile, Diagnostics>>> {
        let Some((path, bytes)) = read(candidate)? else { return Ok(None) };
        let shown = path.display().to_string();
        let parsed = kernel_file::text_of(&shown, &bytes)
            .and_then(|text| kernel_file::parse_kernel(&self.files.problem, &shown, &text));
        Ok(Some(parsed))
    }

    /// What the kernel file of `path` adds to the recipe. The inner error is the candidate's fault.
    pub(crate) fn kernel_recipe(&self, path: &Path) -> Result<Result<Own, Vec<Finding>>, SessionError> {
        let (file, bytes) = match read(path) {
            Ok(None) => return Ok(Ok(Own::default())),
            Ok(Some(read)) => read,
            Err(e) => {
                let file = kernel_file::beside(path).unwrap_or_default();
                let finding =
                    Finding::new("built.kernel-file", Severity::Fail, "the kernel file cannot be read")
                        .with_evidence(format!("{}: {e}", file.display()))
                        .with_next("make it a regular file that you can read, or remove it");
                return Ok(Err(vec![finding]));
            }
        };
        self.recipe_of(path, file.file_name().map(PathBuf::from).unwrap_or_default(), bytes)
    }

    /// What a kernel file of this name and contents, beside `path`, adds to the recipe.
    pub(crate) fn recipe_of(
        &self,
        path: &Path,
        name: PathBuf,
        bytes: Vec<u8>,
    ) -> Result<Result<Own, Vec<Finding>>, SessionError> {
        // The name alone: the whole path is the machine's, and a led agent is measured in a copy.
        let shown = name.display().to_string();
        let parsed = kernel_file::text_of(&shown, &bytes)
            .and_then(|text| kernel_file::parse_kernel(&self.files.problem, &shown, &text));
        let kernel = match parsed {
            Ok(kernel) => kernel,
            Err(wrong) => {
                let finding =
                    Finding::new("built.kernel-file", Severity::Fail, "the kernel file is malformed")
                        .with_next(format!("mend {shown}; docs/reference/kernel-file.md describes it"));
                return Ok(Err(vec![with_places(finding, &wrong.items)]));
            }
        };
        let refused = kernel.refused_flags(self.allowed_flags());
        if !refused.is_empty() {
            let finding = Finding::new(
                "allowed.flag",
                Severity::Fail,
                "the kernel file chooses a flag that is not allowed",
            )
            .with_next(format!("choose among the allowed flags in {shown}"));
            return Ok(Err(vec![with_places(finding, &refused)]));
        }
        let mut include_dirs = Vec::new();
        if !kernel.tunables.is_empty() {
            include_dirs.push(self.stand_in(path, &kernel)?);
        }
        let recipe = Recipe {
            defines: kernel.defines(),
            flags: kernel.chosen.flags.clone(),
            include_dirs,
            file: Some(RecipeFile { name, contents: bytes }),
            ..Recipe::default()
        };
        Ok(Ok(Own { recipe, kernel: Some(kernel) }))
    }

    /// A folder with a header of the routes' name that knows no routes, for a candidate that has none yet: its own is
    /// found first.
    fn stand_in(&self, candidate: &Path, kernel: &KernelFile) -> Result<PathBuf, SessionError> {
        let text = kernelseek_tuning::header::forced(&self.files.problem.name, kernel);
        let key = blake3::hash(text.as_bytes()).to_hex();
        let folder = self.state_dir().join("headers").join(format!("routes-{}", &key.as_str()[..16]));
        let name = kernel_file::routes_beside(candidate);
        let name = name.file_name().map(PathBuf::from).unwrap_or_default();
        write_if_changed(&folder.join(name), &text)?;
        Ok(folder)
    }
}

fn with_places(mut finding: Finding, items: &[Diagnostic]) -> Finding {
    for item in items.iter().take(6) {
        finding.evidence.extend(item.to_string().lines().map(str::to_owned));
    }
    finding
}
