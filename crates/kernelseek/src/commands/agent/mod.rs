//! `agent`: the hidden entries of the built-in agents. They run as an agent does: behind the fence, asking over the
//! supervisor's socket, printing the neutral stream.

use super::campaign;
use crate::cli::{AgentCommand, AgentEntry};
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use kernelseek_agents::Heard;
use kernelseek_agents::replay::{self, Answer, CameOut, Effort, Hands, Said, Script, Statement};
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::settings::{Mode, Tier};
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Request, SupervisorError, client};
use kernelseek_tuning::Budget;
use std::path::{Path, PathBuf};

/// How long an evaluation waits for another, in seconds.
const PATIENCE_S: u64 = 3600;

pub(crate) fn run(entry: &AgentEntry, printer: &Printer) -> Result<u8, CommandError> {
    let socket = campaign::supervisor().ok_or_else(|| {
        CommandError::new(Kind::Usage, "a built-in agent works where a supervisor leads it")
            .with_hint("start it with `kernelseek run --agent NAME`")
    })?;
    match &entry.command {
        AgentCommand::Tuner { evaluations, seconds } => {
            let budget = Budget { evaluations: *evaluations, seconds: *seconds };
            return super::tuner::run(&socket, budget, printer);
        }
        AgentCommand::Replay { recording: folder, session } => {
            let script = recording(folder)?;
            let from = session.as_deref().and_then(|s| s.parse().ok()).unwrap_or(0);
            let mut hands = Client { socket, recording: folder.clone(), came_out: None, printer };
            replay::play(&script, from, &mut hands);
        }
    }
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
struct Client<'a> {
    socket: PathBuf,
    recording: PathBuf,
    came_out: Option<CameOut>,
    printer: &'a Printer,
}

impl Client<'_> {
    fn ask(&self, kind: AskKind) -> Result<Reply, SupervisorError> {
        client::ask(&self.socket, kind, &mut |_: &_| {}, &mut |_| {})
    }
}

fn said(asked: Result<Reply, SupervisorError>) -> Said {
    match asked {
        Ok(_) => Said::Done,
        Err(error) => Said::Lost(kernelseek_evaluator::fault::chain(&error)),
    }
}

impl Hands for Client<'_> {
    fn answer(&mut self, answer: &Answer) -> Said {
        let kind = |artefact| AskKind::Answer { question: None, text: answer.text.clone(), artefact };
        match self.ask(kind(answer.values.clone())) {
            Ok(_) => Said::Done,
            // Another question may be open than the one that was answered when this was recorded; words fit any.
            Err(SupervisorError::Refused(_)) if !answer.values.is_empty() => {
                match self.ask(kind(serde_json::Map::new())) {
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
        said(self.ask(AskKind::Hypothesis { text, layer, expect }))
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
        let request = Request { tier, mode: Mode::Cold, only: only.to_vec(), patience_s: PATIENCE_S };
        let asked = self.ask(AskKind::Evaluate(request));
        if let Ok(Reply::Attempt(attempt)) = &asked {
            self.came_out = Some(match attempt.evaluation.verdict.word {
                Word::Fail => CameOut::Fail,
                _ if attempt.promoted => CameOut::Gain,
                _ => CameOut::NoGain,
            });
        }
        said(asked)
    }

    fn stop(&mut self, words: &str) -> Said {
        said(self.ask(AskKind::Stop { words: words.to_owned() }))
    }

    fn came_out(&self) -> Option<CameOut> {
        self.came_out
    }

    fn say(&mut self, heard: Heard) {
        // An agent whose output nobody reads works on.
        let _ = self.printer.json_line(&heard);
    }
}
