//! What an agent's output says, and the neutral stream that says it.

use serde::{Deserialize, Serialize};

/// Longest line that is read, in bytes; the rest of a longer one is passed over.
pub const LONGEST_LINE: usize = 1 << 20;
/// Longest text that is kept of one line, in characters.
const LONGEST_TEXT: usize = 2_000;

/// Something that an agent said about itself.
///
/// As JSON, one object a line, it is the neutral stream of agents that have no other: `{"says": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// By this name the next turn goes on where this one stops.
    Session(String),
    /// What it thinks or tells.
    Says(String),
    /// It edits this file.
    Edits(String),
    /// It runs this command.
    Runs(String),
    /// Its last words of the turn: what it would tell a person.
    Words(String),
    /// It has nothing more to do, whatever it is told.
    Finished(String),
    /// It cannot go on: no model, no permission.
    Broken(String),
}

impl Heard {
    /// The same with its text made fit to be shown and kept: no control characters, cut.
    #[must_use]
    pub fn plain(self) -> Self {
        let fit = |text: String| -> String {
            text.chars()
                .map(|c| if c.is_control() { ' ' } else { c })
                .take(LONGEST_TEXT)
                .collect::<String>()
                .trim()
                .to_owned()
        };
        match self {
            Self::Session(text) => Self::Session(fit(text)),
            Self::Says(text) => Self::Says(fit(text)),
            Self::Edits(text) => Self::Edits(fit(text)),
            Self::Runs(text) => Self::Runs(fit(text)),
            Self::Words(text) => Self::Words(fit(text)),
            Self::Finished(text) => Self::Finished(fit(text)),
            Self::Broken(text) => Self::Broken(fit(text)),
        }
    }
}

/// Reads a line of the neutral stream; a line that is none of it is something said.
#[must_use]
pub fn hear(line: &str) -> Vec<Heard> {
    let line = line.trim();
    if line.is_empty() {
        return Vec::new();
    }
    let heard = serde_json::from_str::<Heard>(line).unwrap_or_else(|_| Heard::Says(line.to_owned()));
    vec![heard.plain()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_neutral_stream_is_read_and_everything_else_is_said() {
        assert_eq!(hear(r#"{"edits":"kernel.c"}"#), [Heard::Edits("kernel.c".into())]);
        assert_eq!(hear(r#"{"session":"3"}"#), [Heard::Session("3".into())]);
        assert_eq!(hear("compiling…"), [Heard::Says("compiling…".into())]);
        // A verdict is nothing that an agent can say.
        assert_eq!(hear(r#"{"pass":"1.5"}"#), [Heard::Says(r#"{"pass":"1.5"}"#.into())]);
        assert_eq!(hear("  "), []);
    }

    #[test]
    fn escape_codes_of_an_agent_do_not_reach_the_terminal() {
        assert_eq!(hear("\x1b[2Jgone\x07"), [Heard::Says("[2Jgone".into())]);
        assert_eq!(hear(r#"{"words":"a\u001b[31mb\nc"}"#), [Heard::Words("a [31mb c".into())]);
    }

    proptest! {
        #[test]
        fn no_line_is_too_strange(line in any::<String>()) {
            for heard in hear(&line) {
                let text = serde_json::to_string(&heard).unwrap();
                prop_assert!(!text.chars().any(char::is_control));
                prop_assert_eq!(serde_json::from_str::<Heard>(&text).unwrap(), heard);
            }
        }
    }
}
