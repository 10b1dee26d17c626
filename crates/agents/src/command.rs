//! Any command as an agent: it is started once a turn and finds what it is told in its environment.

use crate::builtin::environment;
use crate::{Agent, Heard, Invocation, Turn, hear};
use std::ffi::OsString;
use std::path::Path;

/// A command that is started once a turn.
#[derive(Debug, Clone)]
pub struct CommandAgent {
    name: String,
    command: Vec<OsString>,
}

impl CommandAgent {
    /// The agent that `command` is; `None` if it is empty. Its name is the program's.
    #[must_use]
    pub fn new(command: Vec<OsString>) -> Option<Self> {
        let program = Path::new(command.first()?);
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        Some(Self { name, command })
    }
}

impl Agent for CommandAgent {
    fn name(&self) -> &str {
        &self.name
    }

    fn invoke(&mut self, turn: &Turn<'_>) -> Invocation {
        let (program, args) =
            self.command.split_first().map_or_else(Default::default, |(p, a)| (p.into(), a.to_vec()));
        Invocation { program, args, env: environment(turn), write: Vec::new() }
    }

    fn hear(&mut self, line: &str) -> Vec<Heard> {
        hear(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_is_in_the_environment() {
        let mut agent = CommandAgent::new(vec!["/bin/sh".into(), "agent.sh".into()]).unwrap();
        assert_eq!(agent.name(), "sh");
        let invocation = agent.invoke(&Turn { number: 1, prompt: "do", session: None });
        assert_eq!(
            (invocation.program.as_os_str(), invocation.args.as_slice()),
            ("/bin/sh".as_ref(), &["agent.sh".into()][..])
        );
        assert_eq!(invocation.env[&OsString::from("KERNELSEEK_PROMPT")], "do");
        assert!(!invocation.env.contains_key(&OsString::from("KERNELSEEK_SESSION")));
        assert!(CommandAgent::new(Vec::new()).is_none());
    }
}
