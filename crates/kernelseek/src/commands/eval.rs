//! `eval`.

use crate::cli::{Eval, Global, ModeArg};
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{settings, verdict_view};
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::evaluate::{self, Evaluation};
use kernelseek_evaluator::record;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::{Mode, Tier};

pub(crate) fn run(args: &Eval, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let tier = match (args.quick, args.full) {
        (true, _) => Tier::Quick,
        (_, true) => Tier::Full,
        _ => Tier::Default,
    };
    let mut settings = settings::resolve(global, tier)?;
    settings.mode = match args.mode {
        ModeArg::Cold => Mode::Cold,
        ModeArg::Warm => Mode::Warm,
    };
    settings.set.clone_from(&args.selection.set);
    settings.only.clone_from(&args.selection.scenario);
    if args.no_sandbox {
        settings.namespaces = false;
        settings.lockdown = false;
    }
    if args.last {
        return last(args, &settings, printer);
    }
    let Some(candidate) = &args.candidate else {
        return Err(CommandError::new(Kind::Usage, "no candidate was named"));
    };
    let folder = settings::problem_folder(args.selection.problem.as_deref(), candidate)?;
    let mut progress = Progress::new(printer);
    let mut session = Session::open(&folder, Some(candidate), &settings)?;
    let evaluation = evaluate::evaluate(&mut session, &settings, &mut progress)?;
    progress.finish();
    record::save(&settings.state_dir, &session, &evaluation)
        .map_err(|(path, e)| CommandError::file(&path, &e))?;
    if let Some(file) = &args.record {
        let text = serde_json::to_string_pretty(&evaluation)?;
        std::fs::write(file, text + "\n").map_err(|e| CommandError::file(file, &e))?;
    }
    print(args, &evaluation, printer)
}

fn last(
    args: &Eval,
    settings: &kernelseek_evaluator::settings::Settings,
    printer: &Printer,
) -> Result<u8, CommandError> {
    let folder = match (&args.selection.problem, &args.candidate) {
        (Some(folder), _) => folder.clone(),
        (None, Some(candidate)) => settings::problem_folder(None, candidate)?,
        (None, None) => std::path::PathBuf::from("."),
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
