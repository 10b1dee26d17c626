//! Landlock rulesets: reading beneath some paths, writing beneath others, nothing else.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    Scope, path_beneath_rules,
};

use crate::error::SandboxError;
use crate::report::LayerState;
use crate::sys;

/// The newest interface this crate has been tested with; the library lowers it to the kernel's.
pub(crate) const NEWEST: ABI = ABI::V7;

/// A ruleset that is ready to be applied, and what it will enforce.
pub(crate) struct Fence {
    /// `None` without Landlock.
    pub(crate) ruleset: Option<OwnedFd>,
    /// What holds once it is applied.
    pub(crate) state: LayerState,
    /// Whether signals to processes outside are denied too.
    pub(crate) signals: bool,
}

/// What each interface version added, so that a gap can be named.
const ADDED: &[(i64, &str)] = &[
    (2, "linking across folders"),
    (3, "truncation"),
    (4, "TCP"),
    (5, "device ioctl"),
    (6, "abstract sockets and signals"),
];

/// What may be done beneath a path that may be written: everything but making device files. With one of those
/// a root user would write to the disk itself, past every rule about files.
pub(crate) fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock)
}

/// Builds a ruleset. Paths that do not exist are left out one by one: a missing path must not void the rest.
pub(crate) fn build(read: &[PathBuf], write: &[PathBuf]) -> Result<Fence, SandboxError> {
    let abi = match sys::landlock_abi() {
        Ok(abi) => abi,
        Err(error) => {
            let state = LayerState::Unavailable(error.to_string());
            return Ok(Fence { ruleset: None, state, signals: false });
        }
    };
    let created: RulesetCreated = Ruleset::default()
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .add_rules(path_beneath_rules(read, AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(write, writing()))?;
    let gaps: Vec<String> = ADDED
        .iter()
        .filter(|(since, _)| abi < *since)
        .map(|(_, what)| format!("{what} not covered by interface {abi}"))
        .collect();
    Ok(Fence { ruleset: created.into(), state: LayerState::from_gaps(&gaps), signals: abi >= 6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_files_are_never_made() {
        let rights = writing();
        assert!(!rights.intersects(AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(rights.contains(AccessFs::MakeReg | AccessFs::Refer | AccessFs::Truncate));
    }

    #[test]
    fn missing_paths_do_not_void_the_ruleset() {
        let paths = ["/usr", "/no/such/path", "/dev/null"].map(PathBuf::from);
        let fence = build(&paths, &[]).unwrap();
        assert_eq!(fence.ruleset.is_some(), !fence.state.is_unavailable());
    }
}
