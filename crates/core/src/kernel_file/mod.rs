//! `kernel.toml`: what may be tuned about a candidate, and what was chosen. It lies beside the candidate, is the agent's
//! to edit, and is one of the candidate's project files.

mod edit;
pub mod flags;
mod parse;

pub use edit::{EditError, with_choice};
pub use parse::parse_kernel;

use crate::diagnostic::{Diagnostic, Diagnostics, Source};
use crate::expression::{Evaluator, Expression};
use crate::problem::Problem;
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the file's format that this code reads.
pub const FORMAT: i64 = 1;
/// Longest file in bytes.
pub const LONGEST_FILE: usize = 256 << 10;
/// Most assignments that a file may declare.
pub const MOST_ASSIGNMENTS: usize = 4096;
/// The variable that a tunable's `where` reads the value to be tried from.
pub const VALUE: &str = "value";

/// The kernel file of a candidate: its own name with the extension `toml`. A candidate called `campaign.c` or `problem.c`
/// has none, because that name is taken.
#[must_use]
pub fn beside(candidate: &Path) -> Option<PathBuf> {
    let stem = candidate.file_stem()?.to_str()?;
    let taken = matches!(stem.to_ascii_lowercase().as_str(), "campaign" | "problem" | "cargo");
    (!taken).then(|| candidate.with_extension("toml"))
}

/// The header with the routes of a candidate.
#[must_use]
pub fn routes_beside(candidate: &Path) -> PathBuf {
    let stem = candidate.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    candidate.with_file_name(format!("{stem}_routes.h"))
}

/// A value of a tunable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Choice {
    /// An integer.
    Int(i64),
    /// A word: a C identifier.
    Word(String),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(i) => write!(f, "{i}"),
            Self::Word(w) => f.write_str(w),
        }
    }
}

/// One thing that may be tuned.
#[derive(Debug, Clone)]
pub struct Tunable {
    /// Name: lowercase; the macro is `KS_` and the name in capitals.
    pub name: String,
    /// The values it may have, the default among them, in file order.
    pub values: Vec<Choice>,
    /// The value it has unless another is chosen.
    pub default: Choice,
    /// In which scenarios which values may be tried and routed; the default is exempt.
    pub condition: Option<Expression>,
    /// Range of its name in the file.
    pub span: Range<usize>,
}

impl Tunable {
    /// The macro that carries its value.
    #[must_use]
    pub fn define(&self) -> String {
        format!("KS_{}", self.name.to_uppercase())
    }

    /// Whether `value` may be used in a scenario with these field values.
    ///
    /// # Errors
    /// When the condition cannot be evaluated there.
    pub fn permits(
        &self,
        source: &Arc<Source>,
        value: &Choice,
        fields: &BTreeMap<String, Value>,
    ) -> Result<bool, Box<Diagnostic>> {
        let Some(condition) = &self.condition else { return Ok(true) };
        if *value == self.default {
            return Ok(true);
        }
        let fail = |message: String, hint: Option<String>| {
            Box::new(Diagnostic::new(source, condition.span(), message).with_hint_opt(hint))
        };
        let mut evaluator = Evaluator::new().map_err(|e| fail(e.message, e.hint))?;
        for (name, field) in fields {
            evaluator.set(name, field);
        }
        let own = match value {
            Choice::Int(i) => Value::Int(*i),
            Choice::Word(w) => Value::String(w.clone()),
        };
        evaluator.set(VALUE, &own);
        match evaluator.evaluate(condition) {
            Ok(Value::Bool(yes)) => Ok(yes),
            Ok(other) => {
                Err(fail(format!("`where` of `{}` yields {}, not a bool", self.name, other.kind()), None))
            }
            Err(e) => Err(fail(format!("`where` of `{}`: {}", self.name, e.message), e.hint)),
        }
    }
}

/// A compiler flag with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag.
    pub text: String,
    /// Range in the file.
    pub span: Range<usize>,
}

/// What was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chosen {
    /// Values that are not the defaults, by tunable.
    pub set: BTreeMap<String, Choice>,
    /// Whether what is not in `set` is left to the header with the routes.
    pub routes: bool,
    /// Compiler flags after those of the problem.
    pub flags: Vec<String>,
}

/// What a kernel file says.
#[derive(Debug, Clone)]
pub struct KernelFile {
    /// The file.
    pub source: Arc<Source>,
    /// What may be tuned, in file order.
    pub tunables: Vec<Tunable>,
    /// What was chosen.
    pub chosen: Chosen,
    /// The chosen flags with their places.
    pub flags: Vec<Flag>,
}

impl KernelFile {
    /// A file that declares nothing and chooses nothing.
    ///
    /// # Errors
    /// Never: the text is well-formed.
    pub fn empty(problem: &Problem, file: &str) -> Result<Self, Diagnostics> {
        parse_kernel(problem, file, "format = 1\n")
    }

    /// The tunable with this name.
    #[must_use]
    pub fn tunable(&self, name: &str) -> Option<&Tunable> {
        self.tunables.iter().find(|t| t.name == name)
    }

    /// The macros of a build with what was chosen: none for a tunable that is routed.
    #[must_use]
    pub fn defines(&self) -> Vec<(String, Option<String>)> {
        let value = |t: &Tunable| match self.chosen.set.get(&t.name) {
            Some(set) => Some(set.clone()),
            None if self.chosen.routes => None,
            None => Some(t.default.clone()),
        };
        self.tunables.iter().filter_map(|t| Some((t.define(), Some(value(t)?.to_string())))).collect()
    }

    /// What is wrong with the chosen flags, given those that are allowed.
    #[must_use]
    pub fn refused_flags(&self, allowed: &[String]) -> Vec<Diagnostic> {
        let hint = if allowed.is_empty() {
            "no flag is allowed: `[build] flags` of campaign.toml, or `candidate_flags` of problem.toml, lists them".to_owned()
        } else {
            let list: Vec<String> = allowed.iter().map(|a| format!("`{a}`")).collect();
            format!("allowed here: {}", list.join(", "))
        };
        self.flags
            .iter()
            .filter(|f| !allowed.contains(&f.text))
            .map(|f| {
                Diagnostic::new(&self.source, f.span.clone(), format!("the flag `{}` is not allowed", f.text))
                    .with_hint(hint.clone())
            })
            .collect()
    }

    /// What a verdict says about the build. `routable`: the build read a header with routes.
    #[must_use]
    pub fn tuned(&self, routable: bool) -> Tuned {
        let mut values = BTreeMap::new();
        let mut routed = Vec::new();
        for t in &self.tunables {
            match self.chosen.set.get(&t.name) {
                Some(set) => drop(values.insert(t.name.clone(), set.clone())),
                None if self.chosen.routes => routed.push(t.name.clone()),
                None => drop(values.insert(t.name.clone(), t.default.clone())),
            }
        }
        Tuned { values, routed, flags: self.chosen.flags.clone(), routable }
    }
}

/// How a candidate was built, as its verdict says it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tuned {
    /// Value of each tunable that has one value in the whole build.
    pub values: BTreeMap<String, Choice>,
    /// Tunables that the header with the routes decides for each call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routed: Vec<String>,
    /// Flags after those of the problem.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// Whether the build read a header with routes, so that routes would have an effect.
    pub routable: bool,
}

impl fmt::Display for Tuned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.values.iter().map(|(n, v)| format!("{n}={v}")).collect();
        parts.extend(self.routed.iter().map(|n| format!("{n} routed")));
        parts.extend(self.flags.iter().cloned());
        f.write_str(&parts.join(" "))
    }
}

/// Reads bytes as the text of a kernel file.
///
/// # Errors
/// When there are too many or they are not UTF-8, with the line where that begins.
pub fn text_of(file: &str, bytes: &[u8]) -> Result<String, Diagnostics> {
    let wrong = |text: &str, at: usize, message: String| {
        let source = Source::new(file, text);
        let item = Diagnostic::new(&source, at..at, message);
        Err(Diagnostics { source, items: vec![item] })
    };
    if bytes.len() > LONGEST_FILE {
        return wrong("", 0, format!("a kernel file of more than {LONGEST_FILE} bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(e) => {
            let shown = String::from_utf8_lossy(&bytes[..e.valid_up_to()]).into_owned();
            wrong(&shown, shown.len(), "not UTF-8 from here on".to_owned())
        }
    }
}
