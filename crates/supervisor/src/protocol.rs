//! What goes over the socket between the agent's side and the supervisor: one JSON object a line.
//!
//! The agent's side asks once for each connection and reads until `done` or `error`. It can ask for an evaluation, hand
//! in words, and ask whether it may stop. It cannot seal, ask in a person's name, or say what a verdict is: there is no
//! message for it.

use crate::asking::Question;
use crate::attempt::{Attempt, Request};
use crate::error::SupervisorError;
use crate::stop::Stop;
use kernelseek_core::decision::Layer;
use kernelseek_evaluator::event::Event;
use kernelseek_ledger::Busy;
use kernelseek_ledger::entry::Answered;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// Environment variable that names the socket.
pub const SOCKET: &str = "KERNELSEEK_SUPERVISOR";
/// Longest line in bytes.
pub const LONGEST_LINE: u64 = 8 << 20;
/// Version of the protocol.
pub const VERSION: u32 = 1;

/// What the agent's side asks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// Version of the protocol.
    pub version: u32,
    /// What it asks.
    pub ask: AskKind,
}

/// What the agent's side can ask.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AskKind {
    /// Evaluate the campaign's candidate as it is now.
    Evaluate(Request),
    /// Write a hypothesis down.
    Hypothesis {
        /// In the agent's words.
        text: String,
        /// Layer that it is about.
        layer: Option<Layer>,
        /// Ratio that it expects.
        expect: Option<f64>,
    },
    /// Write an answer down.
    Answer {
        /// Row of the question; the open one without it.
        question: Option<u64>,
        /// In the agent's words.
        text: String,
        /// What it hands in.
        artefact: serde_json::Map<String, serde_json::Value>,
    },
    /// May it stop?
    Stop {
        /// Its last words.
        words: String,
    },
    /// Which question is open, or due?
    Open,
}

impl AskKind {
    /// The kind in a word.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Evaluate(_) => "evaluate",
            Self::Hypothesis { .. } => "hypothesis",
            Self::Answer { .. } => "answer",
            Self::Stop { .. } => "stop",
            Self::Open => "open",
        }
    }
}

/// What the supervisor says.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Say {
    /// A step of the evaluation.
    Event(Event),
    /// Another evaluation must end first.
    Waiting(Busy),
    /// The end, as asked.
    Done(Box<Reply>),
    /// The end, otherwise.
    Error(Refusal),
}

/// The answer to what was asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// An attempt.
    Attempt(Box<Attempt>),
    /// Something was written in this row.
    Row(u64),
    /// An answer was written.
    Answered(Answered),
    /// The stop decision.
    Stop(Box<Stop>),
    /// The open question.
    Open(Option<Question>),
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What happened.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl From<&SupervisorError> for Refusal {
    fn from(error: &SupervisorError) -> Self {
        Self { message: kernelseek_evaluator::fault::chain(error), hint: error.hint() }
    }
}

/// Writes one line.
///
/// # Errors
/// When the other side is gone.
pub fn send<T: Serialize>(out: &mut impl Write, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    out.write_all(&line)
}

/// Reads one line; `None` at the end.
///
/// # Errors
/// When it is no message, or longer than [`LONGEST_LINE`].
pub fn receive<T: for<'de> Deserialize<'de>>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message without end"));
    }
    Ok(Some(serde_json::from_slice(&line)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back() {
        let ask = Ask { version: VERSION, ask: AskKind::Stop { words: "done\nreally".into() } };
        let mut bytes = Vec::new();
        send(&mut bytes, &ask).unwrap();
        assert_eq!(bytes.iter().filter(|b| **b == b'\n').count(), 1);
        let back: Ask = receive(&mut bytes.as_slice()).unwrap().unwrap();
        assert_eq!(format!("{back:?}"), format!("{ask:?}"));
        assert!(receive::<Ask>(&mut [].as_slice()).unwrap().is_none());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            &b"{}\n"[..],
            b"{\"version\":1,\"ask\":{\"seal\":{}}}\n",
            b"{\"version\":1,\"ask\":{\"evaluated\":{\"word\":\"PASS\"}}}\n",
            b"{\"version\":1,\"ask\":{\"stop\":{\"words\":\"\",\"allow\":true}}}\n",
            b"{\"done\":{\"row\":7}}\n",
            b"no json\n",
            b"{\"version\":1",
            b"\xff\xfe\n",
        ] {
            assert!(receive::<Ask>(&mut &*bytes).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
    }
}
