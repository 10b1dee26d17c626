//! What happens while an agent is led or driven, for whoever watches.

use crate::asking::Question;
use crate::attempt::Attempt;
use crate::last::Outcome;
use crate::stop::Stop;
use kernelseek_agents::Heard;
use kernelseek_evaluator::event::Event;
use kernelseek_ledger::Busy;
use kernelseek_ledger::entry::{Answered, Hypothesis};

/// What happens meanwhile, for whoever watches.
#[derive(Debug)]
pub enum Watched {
    /// A turn of several begins.
    Turn {
        /// Its number, from 1.
        number: u32,
        /// The agent.
        agent: String,
        /// The session that it goes on with.
        session: Option<String>,
    },
    /// The agent works; what the fence holds, in words.
    Started {
        /// Every layer with its state.
        layers: Vec<String>,
        /// Whether all of them hold.
        fenced: bool,
    },
    /// It said something about itself.
    Heard(Heard),
    /// It asked for something.
    Asked(&'static str),
    /// A step of an evaluation.
    Event(Event),
    /// An attempt has a verdict.
    Attempt(Box<Attempt>),
    /// It stated a hypothesis.
    Stated(Box<Hypothesis>),
    /// It answered.
    Answered(Box<Answered>),
    /// It was asked outside an evaluation.
    Question(Box<Question>),
    /// A stop was decided.
    Stop(Box<Stop>),
    /// A request was refused.
    Refused(String),
    /// It has left.
    Left {
        /// How it ended, in words.
        ended: String,
        /// Processes of it that had to be killed.
        killed: usize,
    },
    /// The evaluation that counts begins.
    Own,
    /// It is done.
    Counted(Box<Outcome>),
    /// The supervisor's own evaluation waits for another.
    Waiting(Busy),
}
