//! `seal`.

use super::campaign;
use crate::cli::{Global, Seal};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings};
use kernelseek_evaluator::settings::Tier;
use kernelseek_supervisor::{Campaign, Resealed};

pub(crate) fn run(args: &Seal, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    if campaign::supervisor().is_some() {
        return Err(CommandError::new(
            Kind::Usage,
            "sealing is a person's, and done outside the led agent's shell",
        ));
    }
    let site = campaign::site(&args.here.folder)?;
    let settings = settings::resolve(global, Tier::Default)?;
    let mut progress = Progress::new(printer);
    let sealed =
        Campaign::seal(&site, &settings.state_dir, &settings, args.because.as_deref(), &mut progress);
    progress.finish();
    let sealed = sealed?;
    if printer.json {
        printer.json(&sealed)?;
    } else {
        printer.data(&render(&sealed, printer));
    }
    Ok(exit::OK)
}

fn render(sealed: &Resealed, printer: &Printer) -> String {
    let style = printer.out;
    let mut text = String::new();
    let name = style.strong(&sealed.campaign);
    let short = &sealed.seal[..sealed.seal.len().min(12)];
    match (sealed.written, sealed.again) {
        (false, _) => {
            text.push_str(&format!("{name} is sealed already ({short}), and nothing has changed\n"));
        }
        (true, false) => text.push_str(&format!("{name} is sealed ({short}, row {})\n", sealed.row)),
        (true, true) => text.push_str(&format!("{name} is sealed again ({short}, row {})\n", sealed.row)),
    }
    for change in &sealed.changes {
        text.push_str(&format!("  {change}\n"));
    }
    if sealed.stale {
        text.push_str(&format!("{} results under the seal before are STALE\n", style.doubtful("!")));
    }
    for warning in &sealed.warnings {
        text.push_str(&format!("{} {warning}\n", style.doubtful("!")));
    }
    if sealed.written {
        text.push_str(&format!("{} `kernelseek eval` evaluates the candidate\n", style.strong("next:")));
    }
    text
}
