//! Arguments and environment, resolved once into what the engine takes.

use crate::cli::Global;
use crate::env_vars;
use crate::error::{CommandError, Kind};
use kernelseek_core::campaign_file;
use kernelseek_evaluator::settings::{Column, Effort, Mode, Settings, Tier};
use kernelseek_supervisor::Site;
use kernelseek_toolchain::CudaPlaces;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Times the incumbent's aggregate above which a win is audited.
const SUSPICIOUS: f64 = 1.5;

/// Resolves the settings that every evaluating command shares.
pub(crate) fn resolve(global: &Global, tier: Tier) -> Result<Settings, CommandError> {
    let helper = std::env::current_exe()
        .map_err(|e| CommandError::new(Kind::Harness, format!("cannot find this program's own file: {e}")))?;
    let path = std::env::var_os("PATH").map_or_else(Vec::new, |p| std::env::split_paths(&p).collect());
    Ok(Settings {
        state_dir: state_dir(global)?,
        helper,
        cc: global.cc.clone(),
        cxx: global.cxx.clone(),
        cuda: cuda_places(global),
        archs: Vec::new(),
        python: std::env::var_os(crate::env_vars::PYTHON).map(PathBuf::from),
        path,
        gpu: global.gpu.clone(),
        gpu_leases: gpu_leases(),
        gpu_lease: gpu_lease(),
        tier,
        mode: Mode::Cold,
        column: Column::Device,
        effort: Effort::of(tier),
        set: None,
        only: Vec::new(),
        secret: secret()?,
        namespaces: true,
        lockdown: true,
        suspicious: SUSPICIOUS,
        candidate_flags: None,
        calibrate: tier != Tier::Quick,
        sanitize: Vec::new(),
    })
}

/// Where nvcc may be, from the command line and the environment.
fn cuda_places(global: &Global) -> CudaPlaces {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let homes = env_vars::CUDA_HOMES.iter().filter_map(|name| Some(((*name).to_owned(), set(name)?)));
    let active = set(env_vars::VIRTUAL_ENV).map(|folder| folder.join("bin/python3"));
    CudaPlaces {
        nvcc: global.nvcc.clone(),
        homes: homes.collect(),
        pythons: active.into_iter().chain(set(env_vars::PYTHON)).collect(),
        out_of_bounds: Vec::new(),
    }
}

/// The folder with the leases of GPUs, if one is named.
pub(crate) fn gpu_leases() -> Option<PathBuf> {
    std::env::var_os(crate::env_vars::GPU_LEASES).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// The lease that this process runs under, if there is one.
pub(crate) fn gpu_lease() -> Option<String> {
    std::env::var(crate::env_vars::GPU_LEASE).ok().filter(|v| !v.is_empty())
}

/// Where the state folder is, whether it exists or not.
pub(crate) fn state_path(global: &Global) -> Result<PathBuf, CommandError> {
    let folder = match &global.state_dir {
        Some(folder) => folder.clone(),
        None => match (std::env::var_os("XDG_STATE_HOME"), std::env::var_os("HOME")) {
            (Some(base), _) if !base.is_empty() => PathBuf::from(base).join("kernelseek"),
            (_, Some(home)) if !home.is_empty() => PathBuf::from(home).join(".local/state/kernelseek"),
            _ => {
                return Err(CommandError::new(Kind::Usage, "there is no folder for state")
                    .with_hint("give `--state-dir DIR`, or set HOME or XDG_STATE_HOME"));
            }
        },
    };
    Ok(folder.canonicalize().unwrap_or(folder))
}

/// The state folder, made if it does not exist.
pub(crate) fn state_dir(global: &Global) -> Result<PathBuf, CommandError> {
    let folder = state_path(global)?;
    std::fs::create_dir_all(&folder).map_err(|e| {
        CommandError::file(&folder, &e).with_hint("give a writable folder with `--state-dir DIR`")
    })?;
    folder.canonicalize().map_err(|e| CommandError::file(&folder, &e))
}

/// 32 bytes that nobody can guess.
fn secret() -> Result<[u8; 32], CommandError> {
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|e| CommandError::new(Kind::Harness, format!("no randomness: {e}")))?;
    Ok(bytes)
}

/// The folder with problem.toml: the one that was named, or the source's nearest folder that has one or that has a
/// campaign.toml which names one.
pub(crate) fn problem_folder(named: Option<&Path>, source: &Path) -> Result<PathBuf, CommandError> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let start = source.canonicalize().map_err(|e| {
        CommandError::file(source, &e)
            .with_hint("name an existing C or C++ source that defines the problem's entry point")
    })?;
    for folder in start.ancestors().skip(1) {
        if folder.join("problem.toml").is_file() {
            return Ok(folder.to_owned());
        }
        if folder.join(campaign_file::FILE).is_file() {
            return Ok(Site::read(folder)?.problem());
        }
    }
    Err(CommandError::new(Kind::Usage, format!("no problem.toml beside {} or above it", source.display()))
        .with_hint("name the problem's folder with `--problem DIR`"))
}
