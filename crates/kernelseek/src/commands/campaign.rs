//! What the commands about campaigns share.

use crate::cli::{Global, Here};
use crate::error::CommandError;
use crate::printer::Printer;
use crate::settings;
use kernelseek_ledger::Busy;
use kernelseek_supervisor::{Campaign, Openness, Site, SupervisorError};
use std::path::{Path, PathBuf};

/// The site of a folder, which must have one.
pub(crate) fn site(folder: &Path) -> Result<Site, CommandError> {
    Site::find(folder)?.ok_or_else(|| SupervisorError::NoCampaign(folder.to_owned()).into())
}

/// Opens the campaign of a folder.
pub(crate) fn open(here: &Here, global: &Global, openness: Openness) -> Result<Campaign, CommandError> {
    let site = site(&here.folder)?;
    let state_dir = match openness {
        Openness::Writing => settings::state_dir(global)?,
        Openness::Reading => settings::state_path(global)?,
    };
    Ok(Campaign::open(&site, &state_dir, openness)?)
}

/// The supervisor's socket, if this process runs under one.
pub(crate) fn supervisor() -> Option<PathBuf> {
    std::env::var_os(crate::env_vars::SUPERVISOR).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// Says whom an evaluation waits for.
pub(crate) fn waiting(printer: &Printer, busy: &Busy) {
    printer.talk(&format!(
        "waiting: an evaluation of {} is running (process {}); two at once would time each other",
        busy.what, busy.pid
    ));
}

/// Says what a reader of the ledger should know before anything else.
pub(crate) fn warn(campaign: &Campaign, printer: &Printer) {
    if campaign.clock_behind_ms > 2_000 {
        printer.talk(&format!(
            "warning: the clock is {:.0} s behind the last row; rows keep their order",
            campaign.clock_behind_ms as f64 / 1000.0
        ));
    }
    let newer = campaign.board().not_understood;
    if newer > 0 {
        printer.talk(&format!("warning: {newer} rows are of a newer version and are passed over"));
    }
}
