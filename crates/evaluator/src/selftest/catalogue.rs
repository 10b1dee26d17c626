//! The catalogue of candidates that must be caught and of honest ones that must pass: `cheats/catalogue.toml`.

use kernelseek_core::verdict::Word;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// One candidate and what is expected of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Source file, relative to the catalogue.
    pub file: String,
    /// Problem it is a candidate for: a folder beside the catalogue's.
    pub problem: String,
    /// Words that are right.
    pub expect: Vec<String>,
    /// Defence ids of which at least one must be found (a prefix is enough); none for honest candidates.
    #[serde(default)]
    pub defence: Vec<String>,
    /// Scenarios to evaluate; the quick ones when empty.
    #[serde(default)]
    pub scenarios: Vec<String>,
    /// What it does, in one sentence.
    pub does: String,
    /// Entry of the threat catalogue that it stands for.
    #[serde(default)]
    pub threat: Option<String>,
    /// Why a PASS is right although the candidate misbehaves.
    #[serde(default)]
    pub because: Option<String>,
    /// Part of every round; the others run in the first round only.
    #[serde(default)]
    pub repeat: bool,
    /// Needs the pairs of a default evaluation to be caught for certain.
    #[serde(default)]
    pub thorough: bool,
}

/// The whole catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Candidates.
    #[serde(rename = "candidate")]
    pub entries: Vec<Entry>,
}

/// Why the catalogue cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// It cannot be read.
    #[error("{path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is malformed.
    #[error("{path}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<toml::de::Error>,
    },
}

impl Catalogue {
    /// Reads `catalogue.toml` in `folder`.
    ///
    /// # Errors
    /// When it is missing or malformed.
    pub fn load(folder: &Path) -> Result<Self, CatalogueError> {
        let path = folder.join("catalogue.toml");
        let text = std::fs::read_to_string(&path)
            .map_err(|source| CatalogueError::Read { path: path.clone(), source })?;
        toml::from_str(&text).map_err(|source| CatalogueError::Malformed { path, source: Box::new(source) })
    }
}

impl Entry {
    /// Folder of the problem, given the catalogue's: that of `cheats/cuda` is in `problems/cuda`, where the last folder
    /// named `cheats` counts; without one `problems` stands beside the catalogue's folder.
    #[must_use]
    pub fn problem_folder(&self, catalogue: &Path) -> PathBuf {
        let beside = catalogue.ancestors().find(|a| a.file_name().is_some_and(|n| n == "cheats"));
        let root = beside.unwrap_or(catalogue);
        let below = catalogue.strip_prefix(root).unwrap_or(Path::new(""));
        root.parent().unwrap_or(Path::new("")).join("problems").join(below).join(&self.problem)
    }

    /// Whether a word with these defence ids is what the entry expects.
    #[must_use]
    pub fn matches(&self, word: Word, defences: &[String]) -> bool {
        let word_right = self.expect.iter().any(|w| w == word.as_str());
        let caught = self.defence.is_empty()
            || self.defence.iter().any(|wanted| defences.iter().any(|d| d.starts_with(wanted.as_str())));
        word_right && caught
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_defences_must_both_be_right() {
        let entry: Catalogue = toml::from_str(
            "[[candidate]]\nfile = 'a.c'\nproblem = 'p'\nexpect = ['FAIL', 'UNPROVEN']\ndefence = ['correct.']\ndoes = 'x'\n",
        )
        .unwrap();
        let entry = &entry.entries[0];
        assert!(entry.matches(Word::Fail, &["correct.redzone".into()]));
        assert!(
            !entry.matches(Word::Fail, &["timed.clocks".into()]),
            "caught for another reason is not caught"
        );
        assert!(!entry.matches(Word::Pass, &["correct.redzone".into()]));
        for (catalogue, folder) in [
            ("x/cheats", "x/problems/p"),
            ("cheats", "problems/p"),
            ("x/cheats/cuda", "x/problems/cuda/p"),
            ("/cheats/x/cheats/cuda/", "/cheats/x/problems/cuda/p"),
            ("x/others", "x/problems/p"),
        ] {
            assert_eq!(entry.problem_folder(Path::new(catalogue)), Path::new(folder), "{catalogue}");
        }
        assert!(toml::from_str::<Catalogue>("[[candidate]]\nfile = 'a'\nnope = 1\n").is_err());
    }
}
