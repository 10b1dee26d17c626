//! `report`.

use super::campaign;
use crate::cli::{Global, Report};
use crate::error::CommandError;
use crate::exit;
use crate::printer::Printer;
use kernelseek_supervisor::Openness;
use std::path::Path;

pub(crate) fn run(args: &Report, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let opened = campaign::open(&args.here, global, Openness::Reading)?;
    campaign::warn(&opened, printer);
    let report = opened.report()?;
    let text = if printer.json {
        format!("{}\n", serde_json::to_string_pretty(&report)?)
    } else {
        kernelseek_report::markdown(&report)
    };
    match &args.output {
        None => printer.data(&text),
        Some(file) => {
            write(file, &text)?;
            printer.talk(&format!(
                "{}: report of {} up to row {}",
                file.display(),
                report.identity.campaign,
                report.identity.rows
            ));
        }
    }
    Ok(exit::OK)
}

/// Beside its place first: a full disk leaves no file that looks whole. What is no plain file (a pipe, a terminal) is
/// written as it is.
fn write(file: &Path, text: &str) -> Result<(), CommandError> {
    let fail = |e: std::io::Error| CommandError::file(file, &e);
    if std::fs::metadata(file).is_ok_and(|m| !m.is_file()) {
        return std::fs::write(file, text).map_err(fail);
    }
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(format!(".tmp{}", std::process::id()));
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.map_err(fail)
}
