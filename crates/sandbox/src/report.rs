//! What is in force, in words that `doctor` prints and every record keeps.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::lockdown::Lockdown;
use crate::namespaces::Namespaces;

/// The state of one layer of isolation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "state", content = "reason")]
pub enum LayerState {
    /// Everything that was asked of the layer holds.
    Enforced,
    /// The layer holds with the gap named.
    Partial(String),
    /// The layer does not hold, for the reason named.
    Unavailable(String),
}

impl LayerState {
    /// Whether everything asked of the layer holds.
    #[must_use]
    pub fn is_enforced(&self) -> bool {
        matches!(self, Self::Enforced)
    }

    /// Whether the layer does nothing at all.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// The same with more gaps.
    pub(crate) fn with_gaps(self, gaps: &[String]) -> Self {
        match self {
            state if gaps.is_empty() => state,
            Self::Enforced => Self::from_gaps(gaps),
            Self::Partial(before) => Self::Partial(format!("{before}; {}", gaps.join("; "))),
            Self::Unavailable(reason) => Self::Unavailable(reason),
        }
    }

    /// `Enforced` without gaps, `Partial` with them.
    pub(crate) fn from_gaps(gaps: &[String]) -> Self {
        if gaps.is_empty() { Self::Enforced } else { Self::Partial(gaps.join("; ")) }
    }
}

impl fmt::Display for LayerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced => f.write_str("enforced"),
            Self::Partial(gap) => write!(f, "partial ({gap})"),
            Self::Unavailable(reason) => write!(f, "unavailable ({reason})"),
        }
    }
}

/// Every layer of one worker, or of what this machine offers to one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layers {
    /// Namespaces and what rests on them (filesystem view, own `/proc`, capabilities), by name.
    pub namespaces: Vec<(String, LayerState)>,
    /// The filesystem rules of Landlock.
    pub landlock: LayerState,
    /// The system-call filter.
    pub seccomp: LayerState,
    /// Whether denied system calls reach the supervisor even if the process hides them.
    pub denials_recorded: LayerState,
    /// Resource limits.
    pub rlimits: LayerState,
}

impl Layers {
    /// Puts the answers of the three steps together.
    #[must_use]
    pub fn of(namespaces: &Namespaces, rlimits: LayerState, lockdown: &Lockdown) -> Self {
        Self {
            namespaces: namespaces.layers.clone(),
            landlock: lockdown.landlock.clone(),
            seccomp: lockdown.seccomp.clone(),
            denials_recorded: lockdown.denials_recorded.clone(),
            rlimits,
        }
    }

    /// Every layer by name, in the order of `doctor`.
    pub fn all(&self) -> impl Iterator<Item = (&str, &LayerState)> {
        self.namespaces.iter().map(|(name, state)| (name.as_str(), state)).chain([
            ("landlock", &self.landlock),
            ("seccomp", &self.seccomp),
            ("denials recorded", &self.denials_recorded),
            ("rlimits", &self.rlimits),
        ])
    }

    /// Whether every layer is fully enforced.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.all().all(|(_, state)| state.is_enforced())
    }

    /// One line: `enforced` when nothing is missing, else the layers that are not, with the reason.
    #[must_use]
    pub fn summary(&self) -> String {
        summary(self.all())
    }
}

/// `enforced` when nothing is missing, else the layers that are not, with the reason.
pub(crate) fn summary<'a>(layers: impl Iterator<Item = (&'a str, &'a LayerState)>) -> String {
    let missing: Vec<String> = layers
        .filter(|(_, state)| !state.is_enforced())
        .map(|(name, state)| format!("{name} {state}"))
        .collect();
    if missing.is_empty() { "enforced".to_owned() } else { missing.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers() -> Layers {
        Layers {
            namespaces: vec![("user".to_owned(), LayerState::Enforced)],
            landlock: LayerState::Enforced,
            seccomp: LayerState::Enforced,
            denials_recorded: LayerState::Enforced,
            rlimits: LayerState::Enforced,
        }
    }

    #[test]
    fn summary_names_only_what_is_missing() {
        let mut all = layers();
        assert!(all.complete());
        assert_eq!(all.summary(), "enforced");
        all.namespaces
            .push(("pid".to_owned(), LayerState::Unavailable("operation not permitted".to_owned())));
        all.landlock = LayerState::Partial("abi 3".to_owned());
        assert!(!all.complete());
        assert_eq!(all.summary(), "pid unavailable (operation not permitted), landlock partial (abi 3)");
    }

    #[test]
    fn json_round_trip() {
        let mut all = layers();
        all.seccomp = LayerState::Unavailable("not built in".to_owned());
        let text = serde_json::to_string(&all).unwrap();
        assert!(text.contains(r#""seccomp":{"state":"unavailable","reason":"not built in"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Layers>(&text).unwrap(), all);
    }

    #[test]
    fn gaps_become_partial() {
        assert_eq!(LayerState::from_gaps(&[]), LayerState::Enforced);
        assert_eq!(
            LayerState::from_gaps(&["a".to_owned(), "b".to_owned()]),
            LayerState::Partial("a; b".to_owned())
        );
    }
}
