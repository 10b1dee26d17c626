//! `export` and `import`.

use super::campaign;
use crate::cli::{Export, Global, Import};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{exit, settings};
use kernelseek_agents::replay;
use kernelseek_core::wording::counted;
use kernelseek_ledger::entry::Workspace;
use kernelseek_ledger::{Access, Batch, Entry, Imported, Ledger, LedgerError, registry};
use kernelseek_supervisor::{Campaign, Openness, SupervisorError, now_ms};
use serde_json::json;
use std::io::Write;
use std::path::Path;

pub(crate) fn export(args: &Export, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let opened = campaign::open(&args.here, global, Openness::Reading)?;
    if let Some(folder) = &args.recording {
        return recording(&opened, folder, printer);
    }
    let ledger = opened.ledger();
    let wrap = |e: LedgerError| CommandError::from(SupervisorError::from(e));
    match &args.file {
        None => {
            let mut bytes = Vec::new();
            kernelseek_ledger::export(ledger, args.without_bulk, Path::new("standard output"), &mut bytes)
                .map_err(wrap)?;
            printer.bytes(&bytes);
        }
        Some(file) => {
            // Beside its place first: a full disk leaves no file that looks whole.
            let temporary = file.with_extension(format!("tmp{}", std::process::id()));
            let written = std::fs::File::create(&temporary)
                .map_err(|e| CommandError::file(&temporary, &e))
                .and_then(|out| {
                    let mut out = std::io::BufWriter::new(out);
                    kernelseek_ledger::export(ledger, args.without_bulk, file, &mut out).map_err(wrap)?;
                    out.flush().map_err(|e| CommandError::file(file, &e))
                })
                .and_then(|()| std::fs::rename(&temporary, file).map_err(|e| CommandError::file(file, &e)));
            if written.is_err() {
                let _ = std::fs::remove_file(&temporary);
            }
            written?;
            let (rows, head) = ledger.head().map_err(wrap)?;
            if printer.json {
                printer
                    .json(&json!({ "file": file, "campaign": opened.id(), "rows": rows, "head": head }))?;
            } else {
                printer.data(&format!("{}: {rows} rows of {}, head {head}\n", file.display(), opened.id()));
                printer.talk("keep the head elsewhere: `kernelseek import FILE --head HASH` then shows that nobody rewrote the file");
            }
        }
    }
    Ok(exit::OK)
}

/// Writes a recording into a folder that is not there yet, or empty.
fn recording(opened: &Campaign, folder: &Path, printer: &Printer) -> Result<u8, CommandError> {
    let recording = opened.recording()?;
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        let what = format!("{} is not empty", folder.display());
        return Err(CommandError::new(Kind::Usage, what).with_hint("name a folder that does not exist yet"));
    }
    let text = recording
        .script
        .to_toml()
        .map_err(|e| CommandError::new(Kind::Input, format!("the recording cannot be written: {e}")))?;
    std::fs::create_dir_all(folder).map_err(|e| CommandError::file(folder, &e))?;
    let main = (replay::FILE.to_owned(), text.into_bytes());
    for (name, bytes) in recording.files.into_iter().chain([main]) {
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(|e| CommandError::file(&path, &e))?;
    }
    let steps = recording.script.steps.len();
    if printer.json {
        printer.json(&json!({ "folder": folder, "campaign": opened.id(), "steps": steps }))?;
    } else {
        let steps = counted(steps, "step");
        printer.data(&format!("{}: {steps} of {}\n", folder.display(), opened.id()));
        printer.talk(&format!(
            "play it in a campaign of the same problem: `kernelseek run --agent replay --recording {}`",
            folder.display()
        ));
    }
    Ok(exit::OK)
}

/// The ledger that is there already, if it holds the file's last row.
fn again(args: &Import, state_dir: &Path) -> Result<Imported, CommandError> {
    let wrap = |e: LedgerError| CommandError::from(SupervisorError::from(e));
    let bytes = std::fs::read(&args.file).map_err(|e| CommandError::file(&args.file, &e))?;
    let (campaign, rows, head) = kernelseek_ledger::check_export(&args.file, &bytes).map_err(wrap)?;
    let folder = registry::campaigns(state_dir).join(&campaign);
    let ledger = Ledger::open(&folder, Access::Read).map_err(wrap)?;
    let artefacts = ledger.artefacts().map_err(wrap)?.len() as u64;
    if !ledger.rows().map_err(wrap)?.iter().any(|r| r.hash == head) {
        return Err(wrap(LedgerError::Exists { path: ledger.path().to_owned() }));
    }
    Ok(Imported { campaign, folder, rows, artefacts, head })
}

pub(crate) fn import(args: &Import, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let state_dir = settings::state_dir(global)?;
    let wrap = |e: LedgerError| CommandError::from(SupervisorError::from(e));
    // The workspace first: a folder that does not exist should not leave a campaign without one.
    let workspace = args.workspace.as_deref().map(registry::look).transpose().map_err(wrap)?;
    let tool = env!("CARGO_PKG_VERSION");
    let imported =
        match kernelseek_ledger::import(&args.file, &state_dir, args.head.as_deref(), tool, now_ms()) {
            // Imported before: what is missing may be its workspace.
            Err(LedgerError::Exists { .. }) if workspace.is_some() => again(args, &state_dir)?,
            other => other.map_err(wrap)?,
        };
    if let Some(workspace) = &workspace {
        let entry = Workspace {
            path: workspace.path.clone(),
            device: workspace.device,
            inode: workspace.inode,
            because: "imported".to_owned(),
        };
        let mut ledger = Ledger::open(&imported.folder, Access::Write).map_err(wrap)?;
        ledger.append(Batch::of(Entry::Workspace(entry)), now_ms()).map_err(wrap)?;
        registry::register(&imported.folder, workspace).map_err(wrap)?;
    }
    if printer.json {
        printer.json(&json!({
            "campaign": imported.campaign, "rows": imported.rows, "artefacts": imported.artefacts,
            "head": imported.head, "folder": imported.folder,
        }))?;
    } else {
        printer.data(&format!(
            "{}: {} rows and {} artefacts, every byte checked; head {}\n",
            printer.out.strong(&imported.campaign),
            imported.rows,
            imported.artefacts,
            imported.head
        ));
        if workspace.is_none() {
            printer.talk("no folder is its workspace yet: the same command with `--workspace DIR` makes one");
        }
    }
    Ok(exit::OK)
}
