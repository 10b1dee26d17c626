//! `eval`.

use super::campaign;
use crate::cli::{ColumnArg, Eval, Global, ModeArg};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{attempt_view, exit, settings, verdict_view};
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::evaluate::{self, Evaluation};
use kernelseek_evaluator::record;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::{Column, Effort, Mode, Settings, Tier};
use kernelseek_ledger::EvaluationLock;
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Attempt, Campaign, Openness, Request, Site, SupervisorError, client, now_ms};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long an evaluation waits for another, in seconds.
const PATIENCE_S: u64 = 3600;

pub(crate) fn run(args: &Eval, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let tier = match (args.quick, args.full) {
        (true, _) => Tier::Quick,
        (_, true) => Tier::Full,
        _ => Tier::Default,
    };
    let mode = match args.mode {
        ModeArg::Cold => Mode::Cold,
        ModeArg::Warm => Mode::Warm,
        ModeArg::Stream => Mode::Stream,
    };
    let column = match args.column {
        ColumnArg::Device => Column::Device,
        ColumnArg::Call => Column::Call,
        ColumnArg::Graph => Column::Graph,
    };
    let request = Request {
        tier,
        mode,
        column,
        only: args.selection.scenario.clone(),
        patience_s: if args.no_wait { 0 } else { PATIENCE_S },
    };
    if let Some(site) = belongs(args)? {
        if let Some(socket) = campaign::supervisor() {
            let mut progress = Progress::new(printer);
            let reply = client::ask(&socket, AskKind::Evaluate(request), &mut progress, &mut |busy| {
                campaign::waiting(printer, busy);
            });
            progress.finish();
            let Reply::Attempt(attempt) = reply? else {
                return Err(CommandError::new(
                    Kind::Harness,
                    "the supervisor answers something else than was asked",
                ));
            };
            return attempted(args, &attempt, printer);
        }
        let settings = settings::resolve(global, tier)?;
        match Campaign::open(&site, &settings.state_dir, Openness::Writing) {
            Ok(mut opened) => {
                campaign::warn(&opened, printer);
                let mut progress = Progress::new(printer);
                let attempt = opened.attempt(&request, &settings, false, &mut progress, &mut |busy| {
                    campaign::waiting(printer, busy);
                });
                progress.finish();
                return attempted(args, &attempt?, printer);
            }
            // Without a candidate on the command line the campaign is all that could be meant.
            Err(error @ SupervisorError::NotSealed(_)) if args.candidate.is_none() => {
                return Err(error.into());
            }
            Err(SupervisorError::NotSealed(_)) => {
                printer.talk("note: the campaign in this folder is not sealed, so nothing is written down");
            }
            Err(error) => return Err(error.into()),
        }
    }
    alone(args, global, &request, printer)
}

/// The campaign that the candidate belongs to, if it is one's and nothing on the command line takes it out of it.
fn belongs(args: &Eval) -> Result<Option<Site>, CommandError> {
    let apart = args.no_campaign
        || args.last
        || args.no_sandbox
        || args.untimed
        || !args.sanitize.is_empty()
        || args.selection.problem.is_some()
        || args.selection.set.is_some();
    if apart {
        return Ok(None);
    }
    let Some(candidate) = &args.candidate else { return Ok(Site::find(Path::new("."))?) };
    let Ok(path) = candidate.canonicalize() else { return Ok(None) };
    let Some(site) = Site::find(path.parent().unwrap_or(Path::new("/")))? else { return Ok(None) };
    Ok((site.candidate().canonicalize().is_ok_and(|own| own == path)).then_some(site))
}

/// Evaluates without a ledger.
fn alone(args: &Eval, global: &Global, request: &Request, printer: &Printer) -> Result<u8, CommandError> {
    let mut settings = settings::resolve(global, request.tier)?;
    settings.mode = request.mode;
    settings.column = request.column;
    settings.set.clone_from(&args.selection.set);
    settings.only.clone_from(&args.selection.scenario);
    settings.sanitize = args.sanitize.iter().map(|tool| tool.tool()).collect();
    if args.untimed {
        settings.effort = Effort::untimed();
        settings.calibrate = false;
    }
    if args.no_sandbox {
        settings.namespaces = false;
        settings.lockdown = false;
    }
    if args.last {
        return last(args, &settings, printer);
    }
    let Some(candidate) = &args.candidate else {
        return Err(CommandError::new(
            Kind::Usage,
            "no candidate was named, and there is no campaign.toml here",
        )
        .with_hint("name a C or C++ source, or write a campaign.toml that does"));
    };
    let folder = settings::problem_folder(args.selection.problem.as_deref(), candidate)?;
    let name = candidate.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let lock = EvaluationLock::wait(
        &settings.state_dir,
        &name,
        now_ms(),
        Duration::from_secs(request.patience_s),
        |busy| {
            campaign::waiting(printer, busy);
        },
    )
    .map_err(SupervisorError::from)?;
    let _lock = lock.map_err(|busy| {
        let seconds = (now_ms() - busy.since_ms).max(0) / 1000;
        CommandError::from(SupervisorError::Busy { busy, seconds })
    })?;
    let mut progress = Progress::new(printer);
    let mut session = Session::open(&folder, Some(candidate), &settings)?;
    let evaluation = evaluate::evaluate(&mut session, &settings, &mut progress)?;
    progress.finish();
    record::save(&settings.state_dir, &session, &evaluation)
        .map_err(|(path, e)| CommandError::file(&path, &e))?;
    write_record(args.record.as_ref(), &evaluation)?;
    print(args, &evaluation, printer)
}

fn write_record(file: Option<&PathBuf>, evaluation: &Evaluation) -> Result<(), CommandError> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(evaluation)?;
    std::fs::write(file, text + "\n").map_err(|e| CommandError::file(file, &e))
}

/// Prints an attempt: the verdict, what it means for the campaign, and the question.
fn attempted(args: &Eval, attempt: &Attempt, printer: &Printer) -> Result<u8, CommandError> {
    write_record(args.record.as_ref(), &attempt.evaluation)?;
    if printer.json {
        printer.json(&attempt_view::json(attempt)?)?;
    } else {
        let mut text = verdict_view::render(&attempt.evaluation.verdict, printer.out, printer.width());
        text.push_str(&attempt_view::render(attempt, printer.out, printer.width()));
        printer.data(&text);
    }
    let met = attempt.evaluation.verdict.word == Word::Pass;
    Ok(if args.exit_code && !met { exit::UNMET } else { exit::OK })
}

fn last(args: &Eval, settings: &Settings, printer: &Printer) -> Result<u8, CommandError> {
    let folder = match (&args.selection.problem, &args.candidate) {
        (Some(folder), _) => folder.clone(),
        (None, Some(candidate)) => settings::problem_folder(None, candidate)?,
        (None, None) => PathBuf::from("."),
    };
    let session = Session::open(&folder, args.candidate.as_deref(), settings)?;
    let Some(evaluation) = record::load(&settings.state_dir, &session) else {
        return Err(CommandError::new(Kind::Usage, "there is no verdict on this problem yet")
            .with_hint("run `kernelseek eval CANDIDATE` first"));
    };
    print(args, &evaluation, printer)
}

fn print(args: &Eval, evaluation: &Evaluation, printer: &Printer) -> Result<u8, CommandError> {
    let verdict = &evaluation.verdict;
    if printer.json {
        printer.json(verdict)?;
    } else {
        printer.data(&verdict_view::render(verdict, printer.out, printer.width()));
    }
    Ok(if args.exit_code && verdict.word != Word::Pass { exit::UNMET } else { exit::OK })
}
