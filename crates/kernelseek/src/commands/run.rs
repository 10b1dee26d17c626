//! `run`: leads an agent. What counts is the supervisor's own full evaluation after it has left.

use super::campaign;
use crate::cli::{Global, Run};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{exit, goal_view, settings, verdict_view};
use kernelseek_evaluator::settings::Tier;
use kernelseek_sandbox::agent::AgentStdio;
use kernelseek_supervisor::{Leading, LedOutcome, Watched, lead};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) fn run(args: &Run, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    if campaign::supervisor().is_some() {
        return Err(CommandError::new(Kind::Usage, "this shell is led already"));
    }
    if args.minutes.is_some_and(|m| !(m.is_finite() && m > 0.0)) {
        return Err(CommandError::new(Kind::Usage, "`--minutes` is a number above 0"));
    }
    let site = campaign::site(&args.here.folder)?;
    let base = settings::resolve(global, Tier::Default)?;
    let env: BTreeMap<_, _> = std::env::vars_os().collect();
    let leading = Leading {
        site,
        state_dir: base.state_dir.clone(),
        base,
        command: args.command.clone(),
        env,
        write: args.write.clone(),
        temporary: std::env::temp_dir(),
        stdio: AgentStdio::Inherit,
        limit: args.minutes.map(|m| Duration::from_secs_f64(60.0 * m)),
    };
    let mut watch = |watched: Watched| talk(printer, watched);
    let outcome = lead(leading, &mut watch)?;
    if printer.json {
        printer.json(&outcome)?;
    } else {
        printer.data(&render(&outcome, printer));
    }
    Ok(if args.exit_code && !outcome.outcome.met { exit::UNMET } else { exit::OK })
}

fn talk(printer: &Printer, watched: Watched) {
    let line = match watched {
        Watched::Started { fenced: true, .. } => "led: the agent works behind a fence".to_owned(),
        Watched::Started { layers, .. } => {
            let missing: Vec<String> = layers.into_iter().filter(|l| !l.ends_with(": enforced")).collect();
            format!("led: the fence has gaps on this machine ({}); a win will not count", missing.join(", "))
        }
        Watched::Asked(_) | Watched::Event(_) => return,
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
            if killed == 1 { "1 process".to_owned() } else { format!("{killed} processes") }
        ),
        Watched::Waiting(busy) => return campaign::waiting(printer, &busy),
    };
    printer.talk(&line);
}

fn render(led: &LedOutcome, printer: &Printer) -> String {
    let style = printer.out;
    let mut text = String::new();
    if let Some(verdict) = &led.outcome.verdict {
        text.push_str(&verdict_view::render(verdict, style, printer.width()));
        text.push('\n');
    }
    let head = if led.outcome.met { style.good("MET") } else { style.bad("UNMET") };
    text.push_str(&format!("{head}  {}\n", led.outcome.reason));
    if let Some(goal) = &led.outcome.goal {
        text.push_str(&goal_view::goal(goal, style, printer.width()));
    }
    text
}
