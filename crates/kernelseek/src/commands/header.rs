//! `header`.

use crate::cli::Header;
use crate::error::CommandError;
use crate::exit;
use crate::printer::Printer;
use kernelseek_evaluator::problem_files;
use serde_json::json;

pub(crate) fn run(args: &Header, printer: &mut Printer) -> Result<u8, CommandError> {
    // The header is what seed and reference are written against, so it may not ask for them.
    let problem = problem_files::problem_file(&args.problem)?;
    let header = kernelseek_core::header::header(&problem);
    if printer.json {
        printer.json(&json!({ "problem": problem.name, "header": header }))?;
    } else {
        printer.data(&header);
    }
    Ok(exit::OK)
}
