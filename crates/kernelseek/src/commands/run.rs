//! `run`: leads an agent. What counts is the supervisor's own full evaluation after it has left.

use super::campaign;
use crate::cli::{AgentArg, Global, Run};
use crate::error::{CommandError, Kind};
use crate::live::{Lines, Live};
use crate::printer::Printer;
use crate::story::Story;
use crate::{exit, goal_view, settings, verdict_view};
use kernelseek_agents::{Agent, BuiltIn, CommandAgent, Resume};
use kernelseek_campaign::outer::End;
use kernelseek_core::wording::counted_as;
use kernelseek_evaluator::settings::Tier;
use kernelseek_sandbox::agent::AgentStdio;
use kernelseek_supervisor::{Driven, Driving, Leading, Outcome, Place, Watched, drive, lead};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What the tuner may spend where nothing limits the run.
const TUNER_SECONDS: f64 = 300.0;
const TUNER_EVALUATIONS: usize = 60;
/// Share of a run's time that the tuner spends.
const TUNER_SHARE: f64 = 0.8;
/// Turns of an agent that nothing else limits.
const TURNS: u32 = 20;

pub(crate) fn run(args: &Run, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    if campaign::supervisor().is_some() {
        return Err(CommandError::new(Kind::Usage, "this shell is led already"));
    }
    if args.minutes.is_some_and(|m| !(m.is_finite() && m > 0.0)) {
        return Err(CommandError::new(Kind::Usage, "`--minutes` is a number above 0"));
    }
    if args.agent.is_none() && args.command.is_empty() {
        return Err(CommandError::new(Kind::Usage, "no agent was named").with_hint(
            "`kernelseek run --agent tuner`, or a command of your own: `kernelseek run -- COMMAND`",
        ));
    }
    let site = campaign::site(&args.here.folder)?;
    let base = settings::resolve(global, Tier::Default)?;
    let place = Place {
        site,
        state_dir: base.state_dir.clone(),
        base,
        env: std::env::vars_os().collect::<BTreeMap<_, _>>(),
        write: args.write.clone(),
        temporary: std::env::temp_dir(),
    };
    let limit = args.minutes.map(|m| Duration::from_secs_f64(60.0 * m));
    let Some(mut agent) = agent(args, &place)? else {
        let leading = Leading { place, command: args.command.clone(), stdio: AgentStdio::Inherit, limit };
        return once(leading, args.exit_code, printer);
    };
    let driving = Driving { place, turns: args.turns.unwrap_or(TURNS), limit, fresh: args.fresh };
    let driven = watched(&driving, agent.as_mut(), printer)?;
    if printer.json {
        printer.json(&driven)?;
    } else {
        printer.data(&render(&driven, printer));
    }
    Ok(match driven.end {
        End::Interrupted => exit::INTERRUPTED,
        _ if args.exit_code && !driven.outcome.met => exit::UNMET,
        _ => exit::OK,
    })
}

/// The agent that takes turns; none for a command that a person sits before.
fn agent(args: &Run, place: &Place) -> Result<Option<Box<dyn Agent>>, CommandError> {
    let program = place.base.helper.clone();
    let only = |flag: &str, name: &str| {
        CommandError::new(Kind::Usage, format!("`{flag}` goes with `--agent {name}`"))
    };
    if args.recording.is_some() && args.agent != Some(AgentArg::Replay) {
        return Err(only("--recording", "replay"));
    }
    Ok(match args.agent {
        None if args.turns.is_none() => None,
        None => CommandAgent::new(args.command.clone()).map(|a| Box::new(a) as Box<dyn Agent>),
        Some(AgentArg::Tuner) => Some(Box::new(tuner(program, args.minutes))),
        Some(AgentArg::Replay) => {
            let folder = args.recording.as_ref().ok_or_else(|| {
                CommandError::new(Kind::Usage, "`--agent replay` plays a recording, and none was named")
                    .with_hint(
                        "name its folder with `--recording DIR`; docs/reference/agents.md shows the format",
                    )
            })?;
            Some(Box::new(replay(program, folder)?))
        }
    })
}

/// The built-in agent that searches tunables and flags.
fn tuner(program: std::path::PathBuf, minutes: Option<f64>) -> BuiltIn {
    // It ends by itself before the run's time is over, so that its best is in the workspace and not a trial.
    let seconds = minutes.map_or(TUNER_SECONDS, |m| 60.0 * m * TUNER_SHARE);
    let args = [
        "agent",
        "tuner",
        "--evaluations",
        &TUNER_EVALUATIONS.to_string(),
        "--seconds",
        &seconds.to_string(),
    ];
    BuiltIn::new("tuner", program, args.map(Into::into).to_vec(), Resume::Never)
}

/// The built-in agent that plays the recording in `folder`.
pub(crate) fn replay(program: std::path::PathBuf, folder: &Path) -> Result<BuiltIn, CommandError> {
    let folder = folder.canonicalize().map_err(|e| CommandError::file(folder, &e))?;
    super::agent::recording(&folder)?;
    let args = vec!["agent".into(), "replay".into(), "--recording".into(), folder.into()];
    Ok(BuiltIn::new("replay", program, args, Resume::Session))
}

/// Drives an agent and tells what happens.
fn watched(driving: &Driving, agent: &mut dyn Agent, printer: &Printer) -> Result<Driven, CommandError> {
    let live = Live::new(printer, Lines::Talk);
    let mut story = Story::new(printer.err);
    let mut watch = |watched: Watched| {
        for entry in story.tell(&watched) {
            live.keep(&entry.render(&live.clock(), printer.err, printer.width()), printer);
        }
        live.status(story.doing());
    };
    Ok(drive(driving, agent, &mut watch)?)
}

/// Leads a command once, with a person before it.
fn once(leading: Leading, exit_code: bool, printer: &Printer) -> Result<u8, CommandError> {
    let mut progress = crate::progress::Progress::new(printer);
    let mut own = false;
    let mut watch = |watched: Watched| match watched {
        Watched::Own => own = true,
        // The terminal is the agent's until it has left.
        Watched::Event(event) if own => kernelseek_evaluator::event::Sink::on(&mut progress, &event),
        other => talk(printer, other),
    };
    let led = lead(leading, &mut watch)?;
    progress.finish();
    if printer.json {
        printer.json(&led)?;
    } else {
        printer.data(&outcome(&led.outcome, printer));
    }
    Ok(if exit_code && !led.outcome.met { exit::UNMET } else { exit::OK })
}

fn talk(printer: &Printer, watched: Watched) {
    let line = match watched {
        Watched::Started { fenced: true, .. } => "led: the agent works behind a fence".to_owned(),
        Watched::Started { layers, .. } => {
            let missing: Vec<String> = layers.into_iter().filter(|l| !l.ends_with(": enforced")).collect();
            format!("led: the fence has gaps on this machine ({}); a win will not count", missing.join(", "))
        }
        Watched::Attempt(attempt) => {
            let verdict = &attempt.evaluation.verdict;
            let ratio = verdict.geomean.map_or_else(String::new, |r| format!(" {:.3}×", r.point));
            format!("led: row {}: {}{ratio}", attempt.row, verdict.word)
        }
        Watched::Stop(stop) => {
            let what = if stop.decision.allow { "allowed" } else { "refused" };
            format!("led: stop {what} ({})", stop.decision.rule.as_str())
        }
        Watched::Refused(why) => format!("led: a request was refused: {why}"),
        Watched::Left { ended, killed: 0 } => {
            format!("led: the agent has left ({ended}); what counts follows")
        }
        Watched::Left { ended, killed } => format!(
            "led: the agent has left ({ended}) and {} of it had to be ended; what counts follows",
            counted_as(killed, "process", "processes")
        ),
        Watched::Waiting(busy) => return campaign::waiting(printer, &busy),
        _ => return,
    };
    printer.talk(&line);
}

/// What came of a run.
fn render(driven: &Driven, printer: &Printer) -> String {
    let style = printer.out;
    let mut text = outcome(&driven.outcome, printer);
    if driven.outcome.met {
        return text;
    }
    text.push_str(&format!("{} {}\n", style.strong("the run ends:"), driven.end));
    if matches!(driven.end, End::Barren { .. }) && !driven.last_words.is_empty() {
        text.push_str(&format!("the last that {} printed: {}\n", driven.agent, driven.last_words));
    }
    let next = match &driven.end {
        End::Interrupted => "nothing is lost: the same command goes on where this one stopped",
        End::Turns { .. } | End::Time { .. } => "the same command goes on where this one stopped",
        End::Barren { .. } => "run the agent by hand once: it may lack a login, a model or a permission",
        End::Finished { .. } => "`kernelseek goal` says what is missing; edit by hand, or run another agent",
        End::Over { .. } => "seal it again with a larger budget to go on: `kernelseek seal --because \"…\"`",
        End::Met => return text,
    };
    text.push_str(&format!("{} {next}\n", style.strong("next:")));
    text
}

/// Verdict and goal.
pub(crate) fn outcome(outcome: &Outcome, printer: &Printer) -> String {
    let style = printer.out;
    let mut text = String::new();
    if let Some(verdict) = &outcome.verdict {
        text.push_str(&verdict_view::render(verdict, style, printer.width()));
        text.push('\n');
    }
    let head = if outcome.met { style.good("MET") } else { style.bad("UNMET") };
    let reason = match &outcome.goal {
        // The clauses follow below.
        Some(_) => outcome.reason.lines().next().unwrap_or_default().trim_end_matches('.').to_owned(),
        None => outcome.reason.clone(),
    };
    text.push_str(&format!("{head}  {reason}\n"));
    if let Some(goal) = &outcome.goal {
        text.push_str(&goal_view::goal(goal, style, printer.width()));
    }
    text
}
