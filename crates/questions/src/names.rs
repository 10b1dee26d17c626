//! The closed sets of names that an entry draws from.

use kernelseek_core::decision::Layer;
use serde::{Deserialize, Serialize};

/// Declares an enum whose variants are written by fixed names, in records and in the bank alike.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$variant_meta])* #[serde(rename = $text)] $variant,)+
        }

        impl $name {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as it is written.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            /// The one of this name.
            #[must_use]
            pub fn of(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|n| n.as_str() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

named! {
    /// Group of entries. G1 to G10 are the layers, outermost first.
    Group {
        /// Goal, scenario coverage and where the shortfall sits.
        G1 = "G1",
        /// Validity of the measurement.
        G2 = "G2",
        /// Host path and the call boundary.
        G3 = "G3",
        /// Dispatch, routing and fallbacks.
        G4 = "G4",
        /// Work formulation.
        G5 = "G5",
        /// How the work is spread over processors.
        G6 = "G6",
        /// Memory beyond the chip, caches and pages.
        G7 = "G7",
        /// Movement and waiting on the chip.
        G8 = "G8",
        /// Instructions, registers, and what the compiler made.
        G9 = "G9",
        /// Correctness, numerics, claims, and the search itself.
        G10 = "G10",
        /// For when another implementation exists.
        Alt = "ALT",
        /// For one architecture.
        Arch = "ARCH",
    }
}

impl Group {
    /// What the group is about.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::G1 => "goal, scenario coverage and where the shortfall sits",
            Self::G2 => "validity of the measurement",
            Self::G3 => "host path and the call boundary",
            Self::G4 => "dispatch, routing and fallbacks",
            Self::G5 => "work formulation",
            Self::G6 => "how the work is spread over processors",
            Self::G7 => "memory beyond the chip, caches and pages",
            Self::G8 => "movement and waiting on the chip",
            Self::G9 => "instructions, registers, and what the compiler made",
            Self::G10 => "correctness, numerics, claims, and the search itself",
            Self::Alt => "beside another implementation",
            Self::Arch => "one architecture",
        }
    }

    /// The layer that a group of the core is about.
    #[must_use]
    pub fn layer(self) -> Option<Layer> {
        Layer::ALL.get(self as usize).copied()
    }
}

named! {
    /// Where an entry stands in its life. Only active ones are asked.
    Status {
        /// Being written.
        Draft = "draft",
        /// May be asked.
        Active = "active",
        /// Held back, because something is doubted.
        Quarantined = "quarantined",
        /// No longer asked; kept because records name it.
        Retired = "retired",
    }
}

named! {
    /// What asking is meant to bring about.
    Intent {
        /// That the search looks at another layer.
        MoveLayer = "move_layer",
        /// That a claimed limit is worked out or given up.
        RejectLimit = "reject_limit",
        /// That a win is confirmed or given up.
        VerifyWin = "verify_win",
        /// That a correctness break is explained by a measurement.
        ExplainBreak = "explain_break",
        /// That the search starts where the shortfall is.
        SetDirection = "set_direction",
    }
}

named! {
    /// Form of an answer.
    AnswerForm {
        /// A number with its unit.
        NumberWithUnit = "number_with_unit",
        /// A table.
        Table = "table",
        /// A list with counts.
        ListWithCounts = "list_with_counts",
        /// A difference between two states.
        Diff = "diff",
        /// What happened when.
        Timeline = "timeline",
        /// What came out of an experiment, beside what was predicted.
        ExperimentResult = "experiment_result",
    }
}

named! {
    /// What stands behind an entry.
    ProvenanceKind {
        /// A trace of this project in which it mattered.
        TraceConfirmed = "trace_confirmed",
        /// Cases that others reported in public.
        PublicCase = "public_case",
        /// General knowledge.
        Untested = "untested",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_the_core_are_the_layers_in_order() {
        let layers: Vec<_> = Group::ALL.iter().filter_map(|g| g.layer()).collect();
        assert_eq!(layers, Layer::ALL);
        assert_eq!(Group::Alt.layer(), None);
        assert_eq!(Group::Arch.layer(), None);
    }

    #[test]
    fn names_are_what_records_hold() {
        for group in Group::ALL {
            assert_eq!(serde_json::to_value(group).unwrap(), group.as_str());
            assert_eq!(Group::of(group.as_str()), Some(*group));
        }
        assert_eq!(Group::of("G11"), None);
    }
}
