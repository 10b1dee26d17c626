//! Which layers are in force.

use crate::lockdown::Lockdown;
use crate::namespaces::Namespaces;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// Whether a layer holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "why")]
pub enum LayerState {
    /// Wholly.
    Enforced,
    /// In part; the text says what is missing.
    Partial(String),
    /// Not at all; the text says why.
    Unavailable(String),
}

impl LayerState {
    /// Whether it holds wholly.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced)
    }
}

impl fmt::Display for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced => f.write_str("enforced"),
            Self::Partial(why) => write!(f, "partial: {why}"),
            Self::Unavailable(why) => write!(f, "unavailable: {why}"),
        }
    }
}

/// The layers of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Namespaces and what is mounted in them.
    pub namespaces: LayerState,
    /// Landlock.
    pub landlock: LayerState,
    /// System call filter.
    pub seccomp: LayerState,
    /// Whether the supervisor sees every denied attempt.
    pub denials_recorded: bool,
}

impl Layers {
    /// Nothing but what `namespaces` says (`None`: they were not asked for).
    #[must_use]
    pub fn from_namespaces(namespaces: Option<&Namespaces>) -> Self {
        let off = || LayerState::Unavailable("switched off".into());
        Self {
            namespaces: namespaces.map_or_else(off, |n| n.state.clone()),
            landlock: off(),
            seccomp: off(),
            denials_recorded: false,
        }
    }

    /// Takes over what a lockdown achieved.
    pub fn add_lockdown(&mut self, lockdown: &Lockdown) {
        self.landlock.clone_from(&lockdown.landlock);
        self.seccomp.clone_from(&lockdown.seccomp);
        self.denials_recorded = lockdown.listener.is_some();
    }

    /// Whether every layer holds.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.namespaces.is_enforced()
            && self.landlock.is_enforced()
            && self.seccomp.is_enforced()
            && self.denials_recorded
    }

    /// Layers by name.
    #[must_use]
    pub fn entries(&self) -> Vec<(String, LayerState)> {
        let recorded = if self.denials_recorded {
            LayerState::Enforced
        } else {
            LayerState::Unavailable("no seccomp user notification: denied attempts are refused but not recorded".into())
        };
        vec![
            ("namespaces".into(), self.namespaces.clone()),
            ("landlock".into(), self.landlock.clone()),
            ("seccomp".into(), self.seccomp.clone()),
            ("denials".into(), recorded),
        ]
    }

    /// One line a layer.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.entries().into_iter().map(|(name, state)| format!("{name}: {state}")).collect()
    }
}

/// Argument that makes [`crate::command::sandbox_exec_main`] probe instead of running anything.
pub(crate) const PROBE: &str = "--probe";

/// Finds out what holds on this machine, in a throw-away process: `helper` is the tool's own binary.
#[must_use]
pub fn probe(helper: &Path) -> Layers {
    let failed = |why: String| Layers {
        namespaces: LayerState::Unavailable(why.clone()),
        landlock: LayerState::Unavailable(why.clone()),
        seccomp: LayerState::Unavailable(why),
        denials_recorded: false,
    };
    match std::process::Command::new(helper).args(["sandbox-exec", PROBE]).output() {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) => failed(error.to_string()),
    }
}
