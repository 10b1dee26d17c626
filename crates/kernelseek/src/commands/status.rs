//! `status`.

use super::campaign;
use crate::cli::{Global, Status};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{exit, status_view};
use kernelseek_supervisor::{Openness, now_ms};

pub(crate) fn run(args: &Status, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let opened = campaign::open(&args.here, global, Openness::Reading)?;
    campaign::warn(&opened, printer);
    let status = opened.status()?;
    if printer.json {
        printer.json(&status)?;
    } else {
        printer.data(&status_view::render(&status, now_ms(), printer.out, printer.width()));
    }
    Ok(exit::OK)
}
