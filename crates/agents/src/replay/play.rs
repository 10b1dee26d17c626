//! Playing a recording through somebody's hands.

use super::script::{Answer, CameOut, Effort, Script, Statement};
use crate::Heard;

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Done,
    /// It was refused, and the recording goes on: what was handed in does not fit, no question is open.
    Refused(String),
    /// Nothing more can be asked: the supervisor is gone, the seal is broken.
    Lost(String),
}

/// What acts for the agent: asks the supervisor, writes files, prints.
pub trait Hands {
    /// Answers the open question.
    fn answer(&mut self, answer: &Answer) -> Said;
    /// States a hypothesis.
    fn state(&mut self, statement: &Statement) -> Said;
    /// Copies a file of the recording to a path of the workspace.
    fn edit(&mut self, path: &str, from: &str) -> Said;
    /// Evaluates the candidate.
    fn evaluate(&mut self, effort: Effort, only: &[String]) -> Said;
    /// Asks whether it may stop.
    fn stop(&mut self, words: &str) -> Said;
    /// How the last evaluation of this turn came out, if there was one.
    fn came_out(&self) -> Option<CameOut>;
    /// Prints.
    fn say(&mut self, heard: Heard);
}

/// Plays the steps from number `from` (from 0) until one wants to stop, or the recording is over.
pub fn play(script: &Script, from: usize, hands: &mut dyn Hands) {
    for (i, step) in script.steps.iter().enumerate().skip(from) {
        // Recorded words about a verdict are said where this one agrees with them.
        let fits = step.after.is_none_or(|after| hands.came_out() == Some(after));
        if let Some(say) = step.say.as_ref().filter(|_| fits) {
            hands.say(Heard::Says(say.clone()));
        }
        let mut lost = None;
        let mut note = |said: Said, hands: &mut dyn Hands| match said {
            Said::Done => true,
            Said::Refused(why) => {
                hands.say(Heard::Says(why));
                true
            }
            Said::Lost(why) => {
                lost = Some(why);
                false
            }
        };
        let mut on = true;
        if let Some(answer) = &step.answer {
            let said = hands.answer(answer);
            on = note(said, hands);
        }
        if on && let Some(statement) = &step.statement {
            let said = hands.state(statement);
            on = note(said, hands);
        }
        for (path, from) in &step.files {
            if on {
                hands.say(Heard::Edits(path.clone()));
                let said = hands.edit(path, from);
                on = note(said, hands);
            }
        }
        if on && let Some(effort) = step.eval {
            let said = hands.evaluate(effort, &step.only);
            on = note(said, hands);
        }
        if on && let Some(words) = &step.stop {
            hands.say(Heard::Words(words.clone()));
            let said = hands.stop(words);
            note(said, hands);
        }
        if let Some(why) = lost {
            // The step was not played to its end: the next turn begins with it.
            hands.say(Heard::Broken(why));
            return;
        }
        hands.say(Heard::Session((i + 1).to_string()));
        // Whoever is sent back after the last step has nothing left to play.
        if step.stop.is_some() && i + 1 < script.steps.len() {
            return;
        }
    }
    hands.say(Heard::Finished("the recording is over".to_owned()));
}

#[cfg(test)]
mod tests {
    use super::super::script::parse;
    use super::*;

    #[derive(Default)]
    struct Fake {
        log: Vec<String>,
        lost_at: Option<&'static str>,
        came_out: Option<CameOut>,
    }

    impl Fake {
        fn note(&mut self, text: String) -> Said {
            let lost = self.lost_at.is_some_and(|at| text.contains(at));
            self.log.push(text);
            if lost { Said::Lost("gone".into()) } else { Said::Done }
        }
    }

    impl Hands for Fake {
        fn answer(&mut self, answer: &Answer) -> Said {
            self.log.push(format!("answer {}", answer.text));
            Said::Refused("no question is open".into())
        }
        fn state(&mut self, statement: &Statement) -> Said {
            self.note(format!("state {}", statement.text))
        }
        fn edit(&mut self, path: &str, from: &str) -> Said {
            self.note(format!("edit {path} {from}"))
        }
        fn evaluate(&mut self, effort: Effort, only: &[String]) -> Said {
            self.note(format!("evaluate {effort:?} {only:?}"))
        }
        fn stop(&mut self, words: &str) -> Said {
            self.note(format!("stop {words}"))
        }
        fn came_out(&self) -> Option<CameOut> {
            self.came_out
        }
        fn say(&mut self, heard: Heard) {
            self.log.push(format!("{heard:?}"));
        }
    }

    fn script() -> Script {
        let text = r#"
format = 1
[[step]]
answer = { text = "a" }
hypothesis = "h"
files = { "k.c" = "1.c" }
eval = "default"
[[step]]
eval = "quick"
only = ["odd"]
stop = "done"
[[step]]
files = { "k.c" = "2.c" }
eval = "default"
stop = "really"
"#;
        parse("replay.toml", text).unwrap()
    }

    #[test]
    fn a_turn_ends_where_a_step_stops() {
        let mut hands = Fake::default();
        play(&script(), 0, &mut hands);
        assert_eq!(
            hands.log,
            [
                "answer a",
                "Says(\"no question is open\")",
                "state h",
                "Edits(\"k.c\")",
                "edit k.c 1.c",
                "evaluate Default []",
                "Session(\"1\")",
                "evaluate Quick [\"odd\"]",
                "Words(\"done\")",
                "stop done",
                "Session(\"2\")",
            ]
        );
    }

    #[test]
    fn words_about_a_verdict_are_said_where_it_agrees() {
        let text = "format = 1\n[[step]]\nsay = \"wrong\"\nafter = \"fail\"\neval = \"quick\"\n";
        let script = parse("replay.toml", text).unwrap();
        for (came_out, said) in [(Some(CameOut::Fail), true), (Some(CameOut::Gain), false), (None, false)] {
            let mut hands = Fake { came_out, ..Fake::default() };
            play(&script, 0, &mut hands);
            assert_eq!(hands.log[0] == "Says(\"wrong\")", said, "{came_out:?}");
        }
    }

    #[test]
    fn the_last_turn_says_that_the_recording_is_over() {
        let mut hands = Fake::default();
        play(&script(), 2, &mut hands);
        assert_eq!(hands.log.last().unwrap(), "Finished(\"the recording is over\")");
        let mut hands = Fake::default();
        play(&script(), 3, &mut hands);
        assert_eq!(hands.log, ["Finished(\"the recording is over\")"]);
    }

    #[test]
    fn what_was_cut_off_is_played_again() {
        let mut hands = Fake { lost_at: Some("evaluate Default"), ..Fake::default() };
        play(&script(), 0, &mut hands);
        assert_eq!(hands.log.last().unwrap(), "Broken(\"gone\")");
        assert!(!hands.log.iter().any(|l| l.starts_with("Session")), "{:?}", hands.log);
    }
}
