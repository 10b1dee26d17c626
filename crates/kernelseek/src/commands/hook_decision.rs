//! `hook-decision`: the agent-neutral stop decision. JSON in, JSON out, exit 0; adapters put it into each agent's words.

use super::campaign;
use crate::cli::{Global, HookDecision};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{exit, settings};
use kernelseek_campaign::{StopDecision, StopRule};
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Campaign, Stop, client};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Longest input in bytes.
const LONGEST: u64 = 4 << 20;

/// What is read; everything may be left out, and what is not known is passed over.
#[derive(Debug, Default, Deserialize)]
struct Input {
    /// Folder that the agent works in.
    #[serde(default)]
    cwd: Option<PathBuf>,
    /// Its last words.
    #[serde(default)]
    words: Option<String>,
}

pub(crate) fn run(args: &HookDecision, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let stop = match read() {
        Ok(input) => decide(args, global, input),
        Err(why) => blocked(&format!("the hook's input cannot be read ({why})")),
    };
    printer.json_line(&output(&stop))?;
    Ok(exit::OK)
}

fn read() -> Result<Input, String> {
    let mut text = String::new();
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.trim().is_empty() {
        return Ok(Input::default());
    }
    serde_json::from_str(&text).map_err(|e| e.to_string())
}

fn decide(args: &HookDecision, global: &Global, input: Input) -> Stop {
    let words = input.words.unwrap_or_default();
    if let Some(socket) = campaign::supervisor() {
        return match client::ask(&socket, AskKind::Stop { words }, &mut |_: &_| {}, &mut |_| {}) {
            Ok(Reply::Stop(stop)) => *stop,
            Ok(_) => blocked("the supervisor answers something else than was asked"),
            Err(error) => blocked(&kernelseek_evaluator::fault::chain(&error)),
        };
    }
    let folder = input.cwd.unwrap_or_else(|| args.here.folder.clone());
    match settings::state_path(global) {
        Ok(state_dir) => Campaign::stop_in(Path::new(&folder), &state_dir, &words),
        Err(error) => blocked(&error.message),
    }
}

fn blocked(why: &str) -> Stop {
    let reason = format!("whether the goal is met cannot be told: {why}");
    Stop { decision: StopDecision::new(StopRule::Error, reason), campaign: None, question: None }
}

fn output(stop: &Stop) -> Value {
    let decision = &stop.decision;
    let unmet: Vec<&str> =
        decision.judgement.iter().flat_map(|j| j.missing_scenarios()).map(|m| m.scenario.as_str()).collect();
    json!({
        "decision": if decision.allow { "allow" } else { "block" },
        "rule": decision.rule,
        "reason": decision.reason,
        "campaign": stop.campaign,
        "scenarios": unmet,
        "question": stop.question,
    })
}
