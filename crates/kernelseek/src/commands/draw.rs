//! `draw`.

use crate::cli::Draw;
use crate::error::CommandError;
use crate::exit;
use crate::printer::Printer;
use kernelseek_core::held_out;
use kernelseek_evaluator::problem_files::ProblemFiles;
use kernelseek_evaluator::session::SessionError;
use serde_json::json;

pub(crate) fn run(args: &Draw, printer: &mut Printer) -> Result<u8, CommandError> {
    let files = ProblemFiles::load(&args.problem, args.set.as_deref())?;
    let rule = files.problem.held_out.as_ref();
    let share = args.share.or_else(|| rule.map(|r| r.share)).unwrap_or(1.0);
    let drawn = held_out::draw(&files.problem, &files.scenarios, args.seed, share)
        .map_err(|e| SessionError::HeldOut(e.to_string()))?;
    let lines: Vec<String> = drawn.iter().map(kernelseek_core::scenario::Scenario::to_line).collect();
    if printer.json {
        let scenarios: Vec<serde_json::Value> =
            lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        printer.json(&json!({ "problem": files.problem.name, "set": files.set, "seed": args.seed, "scenarios": scenarios }))?;
    } else {
        lines.iter().for_each(|line| printer.data(&format!("{line}\n")));
    }
    Ok(exit::OK)
}
