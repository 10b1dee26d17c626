//! The built-in agent `replay`: plays a recording.

use super::Voice;
use crate::error::{CommandError, Kind};
use crate::exit;
use kernelseek_agents::Heard;
use kernelseek_agents::replay::{self, Answer, CameOut, Effort, Hands, Said, Script, Statement};
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::settings::Tier;
use kernelseek_supervisor::SupervisorError;
use kernelseek_supervisor::protocol::AskKind;
use std::path::{Path, PathBuf};

/// Plays the recording in `folder`, from the step that `session` names.
pub(super) fn run(voice: Voice<'_>, folder: &Path, session: Option<&str>) -> Result<u8, CommandError> {
    let script = recording(folder)?;
    let from = session.and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut hands = Player { voice, recording: folder.to_owned(), came_out: None };
    replay::play(&script, from, &mut hands);
    Ok(exit::OK)
}

/// Reads the recording in a folder.
pub(crate) fn recording(folder: &Path) -> Result<Script, CommandError> {
    let path = folder.join(replay::FILE);
    let text = std::fs::read_to_string(&path).map_err(|e| CommandError::file(&path, &e))?;
    let script = replay::parse(&path.display().to_string(), &text)
        .map_err(|e| CommandError::new(Kind::Input, e.to_string()))?;
    for (i, step) in script.steps.iter().enumerate() {
        if let Some(missing) = step.files.values().find(|f| !folder.join(f).is_file()) {
            let what = format!("{}: step {}: there is no file `{missing}` beside it", path.display(), i + 1);
            return Err(CommandError::new(Kind::Input, what));
        }
    }
    Ok(script)
}

/// An agent's hands: the socket, the workspace, standard output.
struct Player<'a> {
    voice: Voice<'a>,
    recording: PathBuf,
    came_out: Option<CameOut>,
}

fn said<T>(asked: Result<T, SupervisorError>) -> Said {
    match asked {
        Ok(_) => Said::Done,
        Err(error) => Said::Lost(kernelseek_evaluator::fault::chain(&error)),
    }
}

impl Hands for Player<'_> {
    fn answer(&mut self, answer: &Answer) -> Said {
        let kind = |artefact| AskKind::Answer { question: None, text: answer.text.clone(), artefact };
        match self.voice.ask(kind(answer.values.clone())) {
            Ok(_) => Said::Done,
            // Another question may be open than the one that was answered when this was recorded; words fit any.
            Err(SupervisorError::Refused(_)) if !answer.values.is_empty() => {
                match self.voice.ask(kind(serde_json::Map::new())) {
                    Ok(_) => Said::Done,
                    Err(_) => Said::Refused("no question is open".to_owned()),
                }
            }
            Err(SupervisorError::Refused(_)) => Said::Refused("no question is open".to_owned()),
            Err(error) => Said::Lost(kernelseek_evaluator::fault::chain(&error)),
        }
    }

    fn state(&mut self, statement: &Statement) -> Said {
        let Statement { text, layer, expect } = statement.clone();
        said(self.voice.ask(AskKind::Hypothesis { text, layer, expect }))
    }

    fn edit(&mut self, path: &str, from: &str) -> Said {
        let target = Path::new(path);
        let made =
            target.parent().filter(|p| !p.as_os_str().is_empty()).map_or(Ok(()), std::fs::create_dir_all);
        match made
            .and_then(|()| std::fs::read(self.recording.join(from)))
            .and_then(|bytes| std::fs::write(target, bytes))
        {
            Ok(()) => Said::Done,
            Err(error) => Said::Lost(format!("{path} cannot be written: {error}")),
        }
    }

    fn evaluate(&mut self, effort: Effort, only: &[String]) -> Said {
        let tier = match effort {
            Effort::Quick => Tier::Quick,
            Effort::Default => Tier::Default,
            Effort::Full => Tier::Full,
        };
        self.say(Heard::Runs(match effort {
            Effort::Quick => "kernelseek eval --quick".to_owned(),
            Effort::Default => "kernelseek eval".to_owned(),
            Effort::Full => "kernelseek eval --full".to_owned(),
        }));
        let asked = self.voice.evaluate(tier, only);
        if let Ok(attempt) = &asked {
            self.came_out = Some(match attempt.evaluation.verdict.word {
                Word::Fail => CameOut::Fail,
                _ if attempt.promoted => CameOut::Gain,
                _ => CameOut::NoGain,
            });
        }
        said(asked)
    }

    fn stop(&mut self, words: &str) -> Said {
        said(self.voice.ask(AskKind::Stop { words: words.to_owned() }))
    }

    fn came_out(&self) -> Option<CameOut> {
        self.came_out
    }

    fn say(&mut self, heard: Heard) {
        self.voice.say(heard);
    }
}
