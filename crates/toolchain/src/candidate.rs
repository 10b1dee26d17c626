//! The identity of a candidate: everything that decides what its build is, and nothing that does not.

use std::fmt;

use kernelseek_inspect::PathClass;
use serde::{Deserialize, Serialize};

use crate::hash::FieldHasher;

/// Hash of every project file the build read, the recipe, the compilers and the resolved target. Does not depend on
/// where the workspace lies. 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CandidateHash(String);

impl CandidateHash {
    /// All 64 digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 12 digits, for people.
    #[must_use]
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// `files` in any order; their order does not matter.
    pub(crate) fn of(compilers: &[&str], argv: &[Vec<String>], files: &[ProjectFile]) -> Self {
        let mut files: Vec<&ProjectFile> = files.iter().collect();
        files.sort();
        let mut hasher = FieldHasher::new("kernelseek candidate 1");
        hasher.list(compilers);
        hasher.field((argv.len() as u64).to_le_bytes());
        for command in argv {
            hasher.list(command);
        }
        hasher.field((files.len() as u64).to_le_bytes());
        for file in files {
            hasher.field(class_name(file.class)).field(&file.name).field(&file.hash);
        }
        Self(hasher.hex())
    }
}

impl fmt::Display for CandidateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<CandidateHash> for String {
    fn from(hash: CandidateHash) -> Self {
        hash.0
    }
}

/// Text that is no candidate hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a candidate hash is 64 lowercase hexadecimal digits")]
pub struct NotACandidateHash;

impl TryFrom<String> for CandidateHash {
    type Error = NotACandidateHash;

    fn try_from(text: String) -> Result<Self, NotACandidateHash> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digits && text.len() == 64 { Ok(Self(text)) } else { Err(NotACandidateHash) }
    }
}

/// A file of the project that the build read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProjectFile {
    /// Where it lies.
    pub class: PathClass,
    /// Name relative to the workspace or to the offered folder; the absolute path if outside both.
    pub name: String,
    /// BLAKE3 of its contents, hexadecimal.
    pub hash: String,
}

fn class_name(class: PathClass) -> &'static str {
    match class {
        PathClass::Workspace => "workspace",
        PathClass::Offered => "offered",
        PathClass::Toolchain => "toolchain",
        PathClass::System => "system",
        PathClass::Outside => "outside",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(class: PathClass, name: &str, hash: &str) -> ProjectFile {
        ProjectFile { class, name: name.into(), hash: hash.into() }
    }

    #[test]
    fn every_part_counts_and_order_does_not() {
        let (a, b) = (file(PathClass::Workspace, "a.c", "1"), file(PathClass::Offered, "b.h", "2"));
        let argv = vec![vec!["cc".to_owned(), "-O2".to_owned()], vec!["cc".to_owned()]];
        let base = CandidateHash::of(&["id"], &argv, &[a.clone(), b.clone()]);
        assert_eq!(base, CandidateHash::of(&["id"], &argv, &[b.clone(), a.clone()]));
        let others = [
            CandidateHash::of(&["other"], &argv, &[a.clone(), b.clone()]),
            CandidateHash::of(&["id"], &argv[..1], &[a.clone(), b.clone()]),
            CandidateHash::of(
                &["id"],
                &[vec!["cc".into()], vec!["-O2".into(), "cc".into()]],
                &[a.clone(), b],
            ),
            CandidateHash::of(&["id"], &argv, std::slice::from_ref(&a)),
            CandidateHash::of(&["id"], &argv, &[a.clone(), file(PathClass::Workspace, "b.h", "2")]),
            CandidateHash::of(&["id"], &argv, &[a.clone(), file(PathClass::Offered, "c.h", "2")]),
            CandidateHash::of(&["id"], &argv, &[a, file(PathClass::Offered, "b.h", "3")]),
        ];
        for (i, x) in others.iter().enumerate() {
            assert_ne!(&base, x, "{i}");
            assert!(others[i + 1..].iter().all(|y| x != y), "{i}");
        }
    }

    #[test]
    fn text_round_trip() {
        let hash = CandidateHash::of(&[], &[], &[]);
        assert_eq!(CandidateHash::try_from(hash.to_string()), Ok(hash.clone()));
        assert_eq!(hash.short().len(), 12);
        assert!(CandidateHash::try_from("../x".to_owned()).is_err());
        assert!(CandidateHash::try_from("A".repeat(64)).is_err());
    }
}
