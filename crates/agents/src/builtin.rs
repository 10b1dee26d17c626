//! The built-in agents: the tool's own binary, started as an agent like any other.

use crate::{Agent, Heard, Invocation, Turn, hear};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Environment variable with the prompt of a turn.
pub(crate) const PROMPT: &str = "KERNELSEEK_PROMPT";
/// Environment variable with the number of a turn.
pub(crate) const TURN: &str = "KERNELSEEK_TURN";
/// Environment variable with the name of the session to go on with.
pub(crate) const SESSION: &str = "KERNELSEEK_SESSION";

/// What a turn tells an agent through its environment.
pub(crate) fn environment(turn: &Turn<'_>) -> BTreeMap<OsString, OsString> {
    let mut env =
        BTreeMap::from([(PROMPT.into(), turn.prompt.into()), (TURN.into(), turn.number.to_string().into())]);
    if let Some(session) = turn.session {
        env.insert(SESSION.into(), session.into());
    }
    env
}

/// How a built-in agent is told where to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resume {
    /// By the name of its session.
    Session,
    /// Not at all: a turn begins anew.
    Never,
}

/// A built-in agent.
#[derive(Debug, Clone)]
pub struct BuiltIn {
    name: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    resume: Resume,
}

impl BuiltIn {
    /// The agent `name` of `program`, the tool's own binary, which enters it with `args`.
    #[must_use]
    pub fn new(name: &'static str, program: PathBuf, args: Vec<OsString>, resume: Resume) -> Self {
        Self { name, program, args, resume }
    }
}

impl Agent for BuiltIn {
    fn name(&self) -> &str {
        self.name
    }

    fn invoke(&mut self, turn: &Turn<'_>) -> Invocation {
        let mut args = self.args.clone();
        if let (Resume::Session, Some(session)) = (self.resume, turn.session) {
            args.extend(["--session".into(), session.into()]);
        }
        Invocation { program: self.program.clone(), args, env: environment(turn), write: Vec::new() }
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        hear(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_handed_back() {
        let mut agent = BuiltIn::new("replay", "/k".into(), vec!["agent".into()], Resume::Session);
        let turn = Turn { number: 2, prompt: "go on", session: Some("7") };
        let invocation = agent.invoke(&turn);
        assert_eq!(invocation.args, ["agent", "--session", "7"]);
        assert_eq!(invocation.env[&OsString::from(PROMPT)], "go on");
        let mut agent = BuiltIn::new("tuner", "/k".into(), vec!["agent".into()], Resume::Never);
        assert_eq!(agent.invoke(&turn).args, ["agent"]);
    }
}
