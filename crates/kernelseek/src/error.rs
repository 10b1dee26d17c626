//! Errors as a user sees them: what happened, where, what to do.

use crate::exit;
use kernelseek_evaluator::evaluate::EvaluateError;
use kernelseek_evaluator::problem_files::ProblemError;
use kernelseek_evaluator::session::SessionError;
use kernelseek_evaluator::sweep::SweepError;
use kernelseek_ledger::LedgerError;
use kernelseek_supervisor::SupervisorError;
use std::fmt;

/// Whose fault it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of the user's files.
    Input,
    /// A compiler or interpreter.
    Toolchain,
    /// The machine or the harness.
    Harness,
    /// The command line, in a way that clap cannot see.
    Usage,
}

impl Kind {
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Input => exit::INPUT,
            Self::Toolchain => exit::TOOLCHAIN,
            Self::Harness => exit::HARNESS,
            Self::Usage => exit::USAGE,
        }
    }
}

/// An error with its hint.
#[derive(Debug)]
pub(crate) struct CommandError {
    pub(crate) kind: Kind,
    pub(crate) message: String,
    /// Rendered diagnostics that replace the message, already complete.
    pub(crate) diagnostics: Vec<kernelseek_core::diagnostic::Diagnostic>,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), diagnostics: Vec::new(), hint: None }
    }
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
    /// An error of the operating system about a file.
    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::new(Kind::Input, format!("{}: {error}", path.display()))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    kernelseek_evaluator::fault::chain(error)
}

impl From<ProblemError> for CommandError {
    fn from(error: ProblemError) -> Self {
        let message = chain(&error);
        let hint = match &error {
            ProblemError::Read { path, .. } if path.ends_with("problem.toml") => {
                Some("name the folder that holds problem.toml with `--problem DIR`".to_owned())
            }
            ProblemError::NoScenario { .. } => {
                Some("`kernelseek check DIR --json` lists the scenario ids".to_owned())
            }
            _ => None,
        };
        let diagnostics = match error {
            ProblemError::Malformed(diagnostics) => diagnostics.items,
            ProblemError::Unresolvable(diagnostic) => vec![*diagnostic],
            _ => Vec::new(),
        };
        Self { kind: Kind::Input, message, diagnostics, hint }
    }
}

impl From<SessionError> for CommandError {
    fn from(error: SessionError) -> Self {
        if let SessionError::Problem(inner) = error {
            return inner.into();
        }
        let (kind, hint) = error.advice();
        let kind = match kind {
            kernelseek_evaluator::session::Fault::Input => Kind::Input,
            kernelseek_evaluator::session::Fault::Toolchain => Kind::Toolchain,
            kernelseek_evaluator::session::Fault::Harness => Kind::Harness,
        };
        Self { kind, message: chain(&error), diagnostics: Vec::new(), hint }
    }
}

impl From<EvaluateError> for CommandError {
    fn from(error: EvaluateError) -> Self {
        match error {
            EvaluateError::Session(inner) => (*inner).into(),
            EvaluateError::Measure(inner) => Self::new(Kind::Harness, chain(&inner))
                .with_hint("the seed and the reference must work before a candidate can be judged: run `kernelseek check`"),
        }
    }
}

impl From<SweepError> for CommandError {
    fn from(error: SweepError) -> Self {
        let message = chain(&error);
        match error {
            SweepError::Session(inner) => inner.into(),
            SweepError::Evaluate(inner) => inner.into(),
            SweepError::Kernel(diagnostics) => {
                Self { kind: Kind::Input, message, diagnostics: diagnostics.items, hint: None }
            }
            SweepError::Refused(findings) => {
                let hint = findings.iter().find_map(|f| f.next.clone());
                Self { hint, ..Self::new(Kind::Input, message) }
            }
            SweepError::Edit(_) | SweepError::File { .. } | SweepError::Outside(_) => {
                Self::new(Kind::Input, message)
            }
        }
    }
}

impl From<SupervisorError> for CommandError {
    fn from(error: SupervisorError) -> Self {
        let hint = error.hint();
        let message = chain(&error);
        let kind = match error {
            SupervisorError::Malformed(diagnostics) => {
                return Self { kind: Kind::Input, message, diagnostics: diagnostics.items, hint: None };
            }
            SupervisorError::Session(inner) => return (*inner).into(),
            SupervisorError::Evaluate(inner) => return (*inner).into(),
            SupervisorError::SealBroken(_)
            | SupervisorError::Goal(_)
            | SupervisorError::File { .. }
            | SupervisorError::Bank(_)
            | SupervisorError::Ledger(
                LedgerError::Damaged { .. } | LedgerError::OtherHead { .. } | LedgerError::Newer { .. },
            ) => Kind::Input,
            SupervisorError::NoCampaign(_)
            | SupervisorError::NotSealed(_)
            | SupervisorError::StateInside { .. }
            | SupervisorError::ReasonNeeded(_)
            | SupervisorError::NoQuestion(_)
            | SupervisorError::Answer(_)
            | SupervisorError::Ledger(LedgerError::Exists { .. }) => Kind::Usage,
            SupervisorError::Ledger(_)
            | SupervisorError::Busy { .. }
            | SupervisorError::Unreadable { .. }
            | SupervisorError::Sandbox(_)
            | SupervisorError::Socket { .. }
            | SupervisorError::Refused(_)
            | SupervisorError::Json(_) => Kind::Harness,
        };
        Self { kind, message, diagnostics: Vec::new(), hint }
    }
}

impl From<serde_json::Error> for CommandError {
    fn from(error: serde_json::Error) -> Self {
        Self::new(Kind::Harness, format!("cannot write JSON: {error}"))
    }
}
