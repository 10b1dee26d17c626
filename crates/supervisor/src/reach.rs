//! What a led agent cannot reach: the programs that the supervisor starts must not lie where the agent may write.

use crate::error::SupervisorError;
use kernelseek_evaluator::settings::Settings;
use kernelseek_toolchain::SearchPlaces;
use std::path::{Path, PathBuf};

/// The settings with every program out of the agent's reach: folders that it may write are left out of the search path,
/// and symbolic links in it are followed now, because the agent could turn them later.
///
/// # Errors
/// When a compiler or interpreter lies beneath `writable` nevertheless.
pub(crate) fn beyond(writable: &[PathBuf], settings: Settings) -> Result<Settings, SupervisorError> {
    let writable: Vec<PathBuf> = writable.iter().filter_map(|p| p.canonicalize().ok()).collect();
    let reached = |path: &Path| writable.iter().any(|w| path.starts_with(w));
    let mut path: Vec<PathBuf> = settings.path.iter().filter_map(|p| p.canonicalize().ok()).collect();
    path.retain(|p| !reached(p));
    let mut settings = Settings { path, ..settings };
    let named = |what: &str, program: &Path| -> Result<(), SupervisorError> {
        match program.canonicalize() {
            Ok(real) if reached(&real) || reached(&absolute(program)) => {
                Err(SupervisorError::Refused(format!(
                    "the {what} {} lies where the agent may write, so what it says would prove nothing; name one elsewhere",
                    program.display()
                )))
            }
            // One that is not there is missed when it is needed.
            _ => Ok(()),
        }
    };
    let toolchain = kernelseek_toolchain::discover(&SearchPlaces {
        cc: settings.cc.clone(),
        cxx: settings.cxx.clone(),
        path: settings.path.clone(),
        ..SearchPlaces::default()
    });
    let toolchain = toolchain.map_err(kernelseek_evaluator::session::SessionError::from)?;
    for compiler in toolchain.compilers() {
        let folders = compiler.include_dirs.iter().chain(&compiler.own_dir);
        for program in std::iter::once(&compiler.program).chain(&compiler.parts).chain(folders) {
            named("compiler", program)?;
        }
    }
    // nvcc is looked for when it is needed; what the agent may write is passed over then.
    if let Some(nvcc) = &settings.cuda.nvcc {
        named("CUDA compiler", nvcc)?;
    }
    settings.cuda.out_of_bounds = writable.clone();
    match &settings.python {
        Some(python) => named("Python interpreter", python)?,
        // What is found now is what is used later.
        None => settings.python = settings.path.iter().map(|f| f.join("python3")).find(|p| p.is_file()),
    }
    if let Some(python) = &settings.python {
        named("Python interpreter", python)?;
    }
    Ok(settings)
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
