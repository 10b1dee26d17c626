//! `completions`.

use crate::cli::{Cli, Completions};
use crate::error::CommandError;
use crate::exit;
use crate::printer::Printer;
use clap::CommandFactory;

pub(crate) fn run(args: &Completions, printer: &mut Printer) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "kernelseek", &mut script);
    printer.data(&String::from_utf8_lossy(&script));
    Ok(exit::OK)
}
