//! What stands between an agent and the supervisor, in words.

use serde::{Deserialize, Serialize};

use crate::report::{self, LayerState};

/// What is in force around one agent. The table of what each layer stops, and of what none does, is in the
/// documentation of [the module](crate::agent).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLayers {
    /// Files change only beneath the paths that may be written.
    pub landlock: LayerState,
    /// Memory, descriptors and folders of processes outside are out of reach.
    pub ptrace: LayerState,
    /// Processes outside get no signals.
    pub signals: LayerState,
    /// Abstract sockets of processes outside are out of reach.
    pub abstract_sockets: LayerState,
    /// Nothing is typed into a terminal, and limits of other processes stay as they are.
    pub seccomp: LayerState,
    /// What only an administrator may do is given up.
    pub privileges: LayerState,
    /// Whatever the agent starts is found and ended when it leaves.
    pub leaving: LayerState,
}

impl AgentLayers {
    /// Every layer by name, in the order of a report.
    pub fn all(&self) -> impl Iterator<Item = (&str, &LayerState)> {
        [
            ("landlock", &self.landlock),
            ("ptrace", &self.ptrace),
            ("signals", &self.signals),
            ("abstract sockets", &self.abstract_sockets),
            ("seccomp", &self.seccomp),
            ("privileges", &self.privileges),
            ("leaving", &self.leaving),
        ]
        .into_iter()
    }

    /// Whether every layer is fully enforced. Anything less proves nothing about a led campaign.
    #[must_use]
    pub fn complete(&self) -> bool {
        self.all().all(|(_, state)| state.is_enforced())
    }

    /// One line: `enforced` when nothing is missing, else the layers that are not, with the reason.
    #[must_use]
    pub fn summary(&self) -> String {
        report::summary(self.all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_names_only_what_is_missing() {
        let mut layers = AgentLayers {
            landlock: LayerState::Enforced,
            ptrace: LayerState::Enforced,
            signals: LayerState::Enforced,
            abstract_sockets: LayerState::Enforced,
            seccomp: LayerState::Enforced,
            privileges: LayerState::Enforced,
            leaving: LayerState::Enforced,
        };
        assert!(layers.complete());
        assert_eq!(layers.summary(), "enforced");
        layers.signals = LayerState::Unavailable("interface 4".to_owned());
        assert!(!layers.complete());
        assert_eq!(layers.summary(), "signals unavailable (interface 4)");
        let text = serde_json::to_string(&layers).unwrap();
        assert_eq!(serde_json::from_str::<AgentLayers>(&text).unwrap(), layers);
    }
}
