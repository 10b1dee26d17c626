//! The second layer: after it, the process can read a few folders, compute, and use the descriptors it has.
//!
//! Applied before the candidate's code exists in the process. Landlock limits what can be opened, seccomp which
//! system calls can be made; denied calls go to a descriptor that the supervisor holds, so that every attempt is
//! recorded whatever the candidate does about it.

use crate::SandboxError;
use crate::report::LayerState;
use crate::seccomp;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus,
    Scope, path_beneath_rules,
};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Newest Landlock interface that is asked for; older kernels enforce what they know.
const LANDLOCK: ABI = ABI::V6;

/// What to lock down to.
#[derive(Debug, Clone)]
pub struct LockdownSpec {
    /// Files and folders that may be read and executed.
    pub read: Vec<PathBuf>,
    /// Whether new threads may be started.
    pub threads_allowed: bool,
}

/// What was achieved.
#[derive(Debug)]
pub struct Lockdown {
    /// Landlock.
    pub landlock: LayerState,
    /// System call filter.
    pub seccomp: LayerState,
    /// Where denied system calls are reported, if the kernel offers it.
    pub listener: Option<OwnedFd>,
}

/// Locks the calling thread (and every thread it will start) down.
///
/// # Errors
/// When a filter cannot be made. A kernel without a layer is reported, not an error.
pub fn apply(spec: &LockdownSpec) -> Result<Lockdown, SandboxError> {
    no_new_privileges()?;
    let landlock = restrict_files(&spec.read, &[]);
    let (seccomp, listener) = seccomp::install_worker_filter(spec.threads_allowed)?;
    Ok(Lockdown { landlock, seccomp, listener })
}

/// Limits what the calling thread can open: `read` for reading and executing, `write` for everything.
pub(crate) fn restrict_files(read: &[PathBuf], write: &[PathBuf]) -> LayerState {
    let existing = |paths: &[PathBuf]| paths.iter().filter(|p| p.exists()).cloned().collect::<Vec<_>>();
    let outcome = (|| {
        Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(LANDLOCK))?
            .handle_access(AccessNet::from_all(LANDLOCK))?
            .scope(Scope::from_all(LANDLOCK))?
            .create()?
            .add_rules(path_beneath_rules(existing(read), AccessFs::from_read(LANDLOCK)))?
            .add_rules(path_beneath_rules(existing(write), AccessFs::from_all(LANDLOCK)))?
            .restrict_self()
    })();
    match outcome {
        Ok(status) => match status.ruleset {
            RulesetStatus::FullyEnforced => LayerState::Enforced,
            // An older interface still fences files, which is what this layer is for.
            RulesetStatus::PartiallyEnforced if status.no_new_privs => LayerState::Enforced,
            RulesetStatus::PartiallyEnforced => LayerState::Partial("privileges can still be gained".into()),
            RulesetStatus::NotEnforced => LayerState::Unavailable("the kernel has no Landlock".into()),
        },
        Err(error) => LayerState::Unavailable(error.to_string()),
    }
}

/// No program that this process starts can gain privileges.
#[expect(unsafe_code, reason = "prctl")]
pub(crate) fn no_new_privileges() -> Result<(), SandboxError> {
    // SAFETY: no pointers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(SandboxError::last("prctl(PR_SET_NO_NEW_PRIVS)"));
    }
    Ok(())
}

/// The folders that dynamic linking needs, of those that exist.
#[must_use]
pub fn system_folders() -> Vec<PathBuf> {
    ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache"].iter().map(Path::new).filter(|p| p.exists()).map(Path::to_owned).collect()
}
