//! `header`.

use crate::cli::Header;
use crate::error::CommandError;
use crate::exit;
use crate::printer::Printer;
use kernelseek_evaluator::problem_files::ProblemFiles;
use serde_json::json;

pub(crate) fn run(args: &Header, printer: &mut Printer) -> Result<u8, CommandError> {
    let files = ProblemFiles::load(&args.problem, None)?;
    let header = kernelseek_core::header::header(&files.problem);
    if printer.json {
        printer.json(&json!({ "problem": files.problem.name, "header": header }))?;
    } else {
        printer.data(&header);
    }
    Ok(exit::OK)
}
