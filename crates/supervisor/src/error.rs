//! Why a campaign cannot be driven.

use kernelseek_core::diagnostic::Diagnostics;
use kernelseek_evaluator::evaluate::EvaluateError;
use kernelseek_evaluator::session::SessionError;
use kernelseek_ledger::seal::Change;
use kernelseek_ledger::{Busy, LedgerError};
use std::path::PathBuf;

/// Why a campaign cannot be driven.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The campaign file is malformed.
    #[error("{0}")]
    Malformed(Box<Diagnostics>),
    /// A file cannot be read or written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no campaign file.
    #[error("there is no campaign.toml in {0} or above it")]
    NoCampaign(PathBuf),
    /// The campaign was never sealed.
    #[error("the campaign in {0} is not sealed yet")]
    NotSealed(PathBuf),
    /// The state lies where whoever edits the kernel edits it too.
    #[error("the state folder {state} lies inside the campaign's folder {workspace}")]
    StateInside {
        /// The state folder.
        state: PathBuf,
        /// The campaign's folder.
        workspace: PathBuf,
    },
    /// The goal cannot be judged on this problem.
    #[error("the goal cannot be judged: {}", .0.join("; "))]
    Goal(Vec<String>),
    /// What results rest on has changed.
    #[error("the seal is broken: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    SealBroken(Vec<Change>),
    /// Sealing again needs a reason.
    #[error("sealing again needs a reason; what changed: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    ReasonNeeded(Vec<Change>),
    /// Another evaluation runs.
    #[error("an evaluation of {} is running since {seconds} s (process {})", .busy.what, .busy.pid)]
    Busy {
        /// Who.
        busy: Busy,
        /// How long, in seconds.
        seconds: i64,
    },
    /// The problem, the toolchain.
    #[error(transparent)]
    Session(Box<SessionError>),
    /// The seed or the reference failed.
    #[error(transparent)]
    Evaluate(Box<EvaluateError>),
    /// The question bank is wrong.
    #[error("the question bank cannot be used: {0}")]
    Bank(String),
    /// There is no question to answer.
    #[error("{0}")]
    NoQuestion(String),
    /// What was handed in cannot be judged.
    #[error("the answer cannot be judged: {0}")]
    Answer(String),
    /// A kept thing cannot be read back.
    #[error("{what} in the ledger cannot be read: {why}")]
    Unreadable {
        /// What.
        what: String,
        /// Why.
        why: String,
    },
    /// The sandbox around an agent.
    #[error("the agent cannot be led")]
    Sandbox(#[from] kernelseek_sandbox::SandboxError),
    /// The socket between the agent's side and the supervisor.
    #[error("the supervisor cannot be reached at {path}")]
    Socket {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The supervisor refuses.
    #[error("{0}")]
    Refused(String),
    /// A row cannot be written as JSON.
    #[error("a record cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl From<SessionError> for SupervisorError {
    fn from(error: SessionError) -> Self {
        Self::Session(Box::new(error))
    }
}

impl From<EvaluateError> for SupervisorError {
    fn from(error: EvaluateError) -> Self {
        Self::Evaluate(Box::new(error))
    }
}

impl SupervisorError {
    /// An error of the operating system about a file; a full disk is one of the state's, and said like one.
    pub(crate) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => LedgerError::Full { path }.into(),
            ErrorKind::ReadOnlyFilesystem => LedgerError::ReadOnly { path, why: source.to_string() }.into(),
            _ => Self::File { path, source },
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Ledger(error) => return error.hint().map(str::to_owned),
            Self::NoCampaign(_) => {
                "`kernelseek init FILE.c` makes a campaign from a kernel; or write a campaign.toml beside the candidate"
            }
            Self::Goal(_) => {
                "conditions read the fields of the problem's scenarios, `id` and `tags`, and give true or false"
            }
            Self::NotSealed(_) => "run `kernelseek seal` there",
            Self::StateInside { .. } => {
                "name a folder outside with `--state-dir DIR`: the ledger must not lie where the kernel is edited"
            }
            Self::SealBroken(changes) if Change::only_steering(changes) => {
                "undo the change, or seal it with `kernelseek seal --because \"…\"`; results stay as they are"
            }
            Self::SealBroken(_) => {
                "undo the change, or seal again with `kernelseek seal --because \"…\"`, which makes earlier results STALE"
            }
            Self::ReasonNeeded(_) => "run `kernelseek seal --because \"…\"`",
            Self::Busy { .. } => "wait for its verdict; without `--no-wait` this command waits by itself",
            Self::Answer(_) => {
                "hand in the fields that the question names: `--value NAME=NUMBER`, `--value NAME=A,B` for a list (`NAME=A,` for one of one), or `--artefact FILE.json`"
            }
            Self::NoQuestion(_) => "`kernelseek ask` shows what is open",
            Self::Unreadable { .. } => "evaluate again; `kernelseek export` checks the whole ledger",
            Self::Socket { .. } => "the supervisor has ended, or this is not the shell that it leads",
            Self::Session(error) => return error.advice().1,
            Self::Evaluate(_) => {
                "the seed and the reference must work before a candidate can be judged: run `kernelseek check`"
            }
            Self::Malformed(_)
            | Self::File { .. }
            | Self::Bank(_)
            | Self::Sandbox(_)
            | Self::Refused(_)
            | Self::Json(_) => return None,
        };
        Some(text.to_owned())
    }
}
