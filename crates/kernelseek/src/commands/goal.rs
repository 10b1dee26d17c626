//! `goal`.

use super::campaign;
use crate::cli::{Global, Goal};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::{exit, goal_view};
use kernelseek_supervisor::Openness;

pub(crate) fn run(args: &Goal, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let opened = campaign::open(&args.here, global, Openness::Reading)?;
    campaign::warn(&opened, printer);
    let decision = opened.decide()?;
    if printer.json {
        printer.json(&decision)?;
    } else {
        printer.data(&goal_view::decision(&decision, printer.out, printer.width()));
    }
    Ok(if args.exit_code && !decision.met { exit::UNMET } else { exit::OK })
}
