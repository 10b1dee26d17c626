//! `agent`: the hidden entries of the built-in agents. They run as an agent does: behind the fence, asking over the
//! supervisor's socket, printing the neutral stream.

mod replay;
mod tuner;

pub(crate) use replay::recording;

use super::campaign;
use crate::cli::{AgentCommand, AgentEntry};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use kernelseek_agents::Heard;
use kernelseek_evaluator::settings::{Column, Mode, Tier};
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Attempt, Request, SupervisorError, client};
use kernelseek_tuning::Budget;
use std::path::PathBuf;

/// How long an evaluation waits for another, in seconds.
const PATIENCE_S: u64 = 3600;

pub(crate) fn run(entry: &AgentEntry, printer: &Printer) -> Result<u8, CommandError> {
    let socket = campaign::supervisor().ok_or_else(|| {
        CommandError::new(Kind::Usage, "a built-in agent works where a supervisor leads it")
            .with_hint("start it with `kernelseek run --agent NAME`")
    })?;
    let voice = Voice { socket, printer };
    match &entry.command {
        AgentCommand::Tuner { evaluations, seconds } => {
            tuner::run(voice, Budget { evaluations: *evaluations, seconds: *seconds })
        }
        AgentCommand::Replay { recording, session } => replay::run(voice, recording, session.as_deref()),
    }
}

/// How a built-in agent asks and speaks.
struct Voice<'a> {
    socket: PathBuf,
    printer: &'a Printer,
}

impl Voice<'_> {
    fn ask(&self, kind: AskKind) -> Result<Reply, SupervisorError> {
        client::ask(&self.socket, kind, &mut |_: &_| {}, &mut |_| {})
    }

    fn evaluate(&self, tier: Tier, only: &[String]) -> Result<Box<Attempt>, SupervisorError> {
        let request = Request {
            tier,
            mode: Mode::Cold,
            column: Column::Device,
            only: only.to_vec(),
            patience_s: PATIENCE_S,
        };
        match self.ask(AskKind::Evaluate(request))? {
            Reply::Attempt(attempt) => Ok(attempt),
            _ => Err(SupervisorError::Refused(
                "the supervisor answers something else than was asked".to_owned(),
            )),
        }
    }

    fn say(&self, heard: Heard) {
        // An agent whose output nobody reads works on.
        let _ = self.printer.json_line(&heard);
    }
}
