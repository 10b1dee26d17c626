//! A bank: the entries of one or several files.

use crate::document;
use crate::entry::Entry;
use crate::forbidden::Forbidden;
use crate::{lint, parse};
use kernelseek_core::diagnostic::{Diagnostic, Diagnostics, Source};
use std::path::{Path, PathBuf};

/// The file of forbidden terms in a bank's folder.
const FORBIDDEN: &str = "forbidden.toml";
/// Most files that a folder is read of.
const MOST_FILES: usize = 100;

const EMBEDDED: [(&str, &str); 9] = [
    ("bank/g01_goal.toml", include_str!("../../../bank/g01_goal.toml")),
    ("bank/g02_measurement.toml", include_str!("../../../bank/g02_measurement.toml")),
    ("bank/g03_host.toml", include_str!("../../../bank/g03_host.toml")),
    ("bank/g04_dispatch.toml", include_str!("../../../bank/g04_dispatch.toml")),
    ("bank/g05_formulation.toml", include_str!("../../../bank/g05_formulation.toml")),
    ("bank/g06_schedule.toml", include_str!("../../../bank/g06_schedule.toml")),
    ("bank/g07_memory.toml", include_str!("../../../bank/g07_memory.toml")),
    ("bank/g09_instructions.toml", include_str!("../../../bank/g09_instructions.toml")),
    ("bank/g10_conduct.toml", include_str!("../../../bank/g10_conduct.toml")),
];
const EMBEDDED_FORBIDDEN: (&str, &str) =
    ("bank/forbidden.toml", include_str!("../../../bank/forbidden.toml"));

/// The entries that may be asked from, in the order of their files. No two have the same id.
#[derive(Debug, Clone, Default)]
pub struct Bank {
    entries: Vec<Entry>,
    /// A list of its own; the embedded one without it.
    forbidden: Option<Forbidden>,
}

/// Why a bank could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BankError {
    /// A file or folder could not be read.
    #[error("the question bank at {} could not be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder without a bank.
    #[error("no question bank in {}: {reason}", path.display())]
    NoBank {
        /// The folder.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// Files with faults.
    #[error("{}", joined(.0))]
    Wrong(
        /// What is wrong, file by file; never empty.
        Vec<Diagnostic>,
    ),
}

fn joined(items: &[Diagnostic]) -> String {
    items.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n")
}

impl From<Diagnostics> for BankError {
    fn from(wrong: Diagnostics) -> Self {
        Self::Wrong(wrong.items)
    }
}

impl Bank {
    /// Reads the text of one file. `file` is the name to show in messages. Expressions are not parsed yet.
    ///
    /// # Errors
    /// Everything that is wrong with the text; if it is not TOML, only that.
    pub fn parse(file: &str, text: &str) -> Result<Self, Diagnostics> {
        let entries = document::parse(&Source::new(file, text), Vec::new(), parse::entries)?;
        Ok(Self { entries, forbidden: None })
    }

    /// Reads every `.toml` file of a folder, by name; `forbidden.toml` is the list of forbidden terms. Expressions are
    /// parsed and their names checked, so that a slip shows here and not in the middle of a campaign.
    ///
    /// # Errors
    /// If the folder or a file cannot be read or holds no entries, or everything that is wrong with the files.
    pub fn load(dir: &Path) -> Result<Self, BankError> {
        let read = |path: &Path| {
            let path = path.to_owned();
            move |source| BankError::Read { path, source }
        };
        let mut paths = Vec::new();
        for item in std::fs::read_dir(dir).map_err(read(dir))? {
            let path = item.map_err(read(dir))?.path();
            if path.extension().is_some_and(|e| e == "toml") && path.is_file() {
                paths.push(path);
            }
        }
        paths.sort();
        if paths.len() > MOST_FILES {
            let reason = format!("{} TOML files; at most {MOST_FILES}", paths.len());
            return Err(BankError::NoBank { path: dir.to_owned(), reason });
        }
        let mut bank = Self::default();
        let mut wrong = Vec::new();
        for path in paths {
            let text = bounded(&path).map_err(read(&path))?;
            let name = path.display().to_string();
            if path.file_name().is_some_and(|n| n == FORBIDDEN) {
                match document::parse(&Source::new(name, text), Forbidden::default(), Forbidden::read) {
                    Ok(forbidden) => bank.forbidden = Some(forbidden),
                    Err(faults) => wrong.extend(faults.items),
                }
                continue;
            }
            match Self::parse(&name, &text) {
                Ok(other) => wrong.extend(bank.merge(other)),
                Err(faults) => wrong.extend(faults.items),
            }
        }
        wrong.extend(lint::expressions(&bank).into_iter().map(|l| l.diagnostic));
        if !wrong.is_empty() {
            return Err(BankError::Wrong(wrong));
        }
        if bank.entries.is_empty() {
            let reason = "no TOML file with an `[[entry]]`".to_owned();
            return Err(BankError::NoBank { path: dir.to_owned(), reason });
        }
        Ok(bank)
    }

    /// This bank with the entries of `other` after its own.
    ///
    /// # Errors
    /// If an id is in both.
    pub fn join(mut self, other: Self) -> Result<Self, BankError> {
        let wrong = self.merge(other);
        if wrong.is_empty() { Ok(self) } else { Err(BankError::Wrong(wrong)) }
    }

    /// Adds the entries of `other` whose ids are new; what is wrong with the others.
    fn merge(&mut self, other: Self) -> Vec<Diagnostic> {
        let mut wrong = Vec::new();
        for entry in other.entries {
            if let Some(earlier) = self.get(&entry.id) {
                let (file, line) = earlier.place();
                let message = format!("`{}` stands already in {file}, line {line}", entry.id);
                wrong.push(Diagnostic::new(&entry.place.source, entry.place.entry.clone(), message));
            } else {
                self.entries.push(entry);
            }
        }
        self.forbidden = other.forbidden.or(self.forbidden.take());
        wrong
    }

    /// The entries, in the order of their files.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry of this id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|e| e.id == id)
    }

    /// Its list of forbidden terms, or the embedded one.
    pub(crate) fn forbidden(&self) -> Result<Forbidden, Diagnostics> {
        match &self.forbidden {
            Some(forbidden) => Ok(forbidden.clone()),
            None => {
                let (name, text) = EMBEDDED_FORBIDDEN;
                document::parse(&Source::new(name, text), Forbidden::default(), Forbidden::read)
            }
        }
    }

    /// A bank of these entries.
    #[cfg(test)]
    pub(crate) fn of(entries: Vec<Entry>) -> Self {
        Self { entries, forbidden: None }
    }
}

/// The text of a file, unless it is longer than any file of a bank.
fn bounded(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(document::LONGEST_FILE as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > document::LONGEST_FILE {
        let message = format!("longer than {} bytes", document::LONGEST_FILE);
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, message));
    }
    String::from_utf8(bytes).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e))
}

/// The bank that comes with the program. Its expressions are parsed when they are first needed.
///
/// # Errors
/// If it is wrong, which a test of this crate excludes.
pub fn embedded() -> Result<Bank, BankError> {
    let mut bank = Bank::default();
    for (file, text) in EMBEDDED {
        bank = bank.join(Bank::parse(file, text)?)?;
    }
    Ok(bank)
}
