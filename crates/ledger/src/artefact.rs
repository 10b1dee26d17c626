//! Artefacts: bytes named by their hash.

use serde::{Deserialize, Serialize};

/// What an artefact is; decides how long it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A source of a candidate or of the problem.
    Source,
    /// A verdict, JSON.
    Verdict,
    /// The raw pairs behind a verdict, JSON.
    Raw,
    /// A built library.
    Library,
    /// A seal, JSON.
    Seal,
    /// A log, or what an agent handed in.
    Log,
}

impl Kind {
    /// The kind as it is kept.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Verdict => "verdict",
            Self::Raw => "raw",
            Self::Library => "library",
            Self::Seal => "seal",
            Self::Log => "log",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        [Self::Source, Self::Verdict, Self::Raw, Self::Library, Self::Seal, Self::Log]
            .into_iter()
            .find(|k| k.as_str() == name)
    }
}

/// Bytes to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artefact {
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub data: Vec<u8>,
}

impl Artefact {
    /// An artefact.
    #[must_use]
    pub const fn new(kind: Kind, data: Vec<u8>) -> Self {
        Self { kind, data }
    }

    /// Its name: the BLAKE3 hash of its bytes, in hexadecimal.
    #[must_use]
    pub fn hash(&self) -> String {
        hash(&self.data)
    }
}

/// The name of these bytes.
#[must_use]
pub fn hash(data: &[u8]) -> String {
    blake3::hash(data).to_hex().to_string()
}
