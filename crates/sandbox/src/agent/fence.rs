//! The two Landlock domains of an agent: the keeper's, and inside it the agent's own.
//!
//! The keeper's domain only keeps signals in. A signal that the keeper sends to everybody therefore reaches
//! the agent's processes, all of them and nobody else, in one step that no fork can slip through.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use landlock::{
    Access, AccessFs, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};

use crate::error::SandboxError;
use crate::fences::{NEWEST, writing};
use crate::report::LayerState;
use crate::sys;

/// Devices that ordinary programs write to: nothing that is kept, terminals, and shared memory.
pub(crate) const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// What each interface version added to the rules for files.
const ADDED: &[(i64, &str)] = &[(2, "linking across folders"), (3, "truncation"), (5, "device ioctl")];

/// The interface version that keeps signals and abstract sockets in.
const SCOPES_SINCE: i64 = 6;

/// Rulesets that are ready to be applied, and what they will enforce.
#[derive(Debug)]
pub(crate) struct AgentFence {
    /// Of the keeper; present only if it keeps signals in.
    pub(crate) keeper: Option<OwnedFd>,
    /// Of the agent.
    pub(crate) agent: Option<OwnedFd>,
    pub(crate) landlock: LayerState,
    pub(crate) ptrace: LayerState,
    pub(crate) signals: LayerState,
    pub(crate) abstract_sockets: LayerState,
}

/// Builds the rulesets for canonical paths. `newest` stands in for the kernel's interface version where it is
/// lower: for tests of what older kernels leave open.
pub(crate) fn build(write: &[PathBuf], newest: i64) -> Result<AgentFence, SandboxError> {
    let abi = match sys::landlock_abi() {
        Ok(abi) if newest > 0 => abi.min(newest),
        Ok(_) => return Ok(none("switched off".to_owned())),
        Err(error) => return Ok(none(error.to_string())),
    };
    let scoped = abi >= SCOPES_SINCE;
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
    if scoped {
        ruleset = ruleset.scope(Scope::from_all(NEWEST))?;
    }
    let agent: RulesetCreated = ruleset
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(NEWEST)))?
        .add_rules(path_beneath_rules(write, writing()))?
        .add_rules(path_beneath_rules(DEVICES, writing()))?;
    let keeper = match scoped {
        true => keeper_domain()?.into(),
        false => None,
    };
    let gaps: Vec<String> = ADDED
        .iter()
        .filter(|(since, _)| abi < *since)
        .map(|(_, what)| format!("{what} not covered by interface {abi}"))
        .collect();
    let scope = match scoped {
        true => LayerState::Enforced,
        false => LayerState::Unavailable(format!("not covered by interface {abi}")),
    };
    Ok(AgentFence {
        keeper,
        agent: agent.into(),
        landlock: LayerState::from_gaps(&gaps),
        ptrace: LayerState::Enforced,
        signals: scope.clone(),
        abstract_sockets: scope,
    })
}

/// A domain that keeps signals in and nothing else. Every domain denies moving files between folders, asked or
/// not, unless a rule allows it.
fn keeper_domain() -> Result<RulesetCreated, SandboxError> {
    let ruleset = Ruleset::default().handle_access(AccessFs::Refer)?.scope(Scope::Signal)?;
    Ok(ruleset.create()?.add_rules(path_beneath_rules(["/"], AccessFs::Refer))?)
}

fn none(reason: String) -> AgentFence {
    let state = LayerState::Unavailable(reason);
    AgentFence {
        keeper: None,
        agent: None,
        landlock: state.clone(),
        ptrace: state.clone(),
        signals: state.clone(),
        abstract_sockets: state,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interface_lacks_is_named() {
        let Ok(abi) = sys::landlock_abi() else { return };
        for newest in 0..=abi {
            let fence = build(&[], newest).unwrap();
            assert_eq!(fence.agent.is_some(), newest > 0);
            assert_eq!(fence.keeper.is_some(), newest >= SCOPES_SINCE);
            assert_eq!(fence.signals.is_enforced(), newest >= SCOPES_SINCE);
            assert_eq!(fence.landlock.is_enforced(), newest >= 5, "{}", fence.landlock);
            assert_eq!(fence.ptrace.is_enforced(), newest > 0);
        }
    }
}
