//! `sweep`.

use super::campaign;
use crate::cli::{Global, Sweep};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::progress::Progress;
use crate::{exit, settings, sweep_view};
use kernelseek_evaluator::settings::Tier;
use kernelseek_evaluator::sweep::{self, Swept};
use kernelseek_ledger::EvaluationLock;
use kernelseek_supervisor::{Site, SupervisorError, now_ms};
use kernelseek_tuning::Budget;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a sweep waits for another evaluation, in seconds.
const PATIENCE_S: u64 = 3600;

pub(crate) fn run(args: &Sweep, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    if !(args.seconds > 0.0 && args.seconds.is_finite()) {
        return Err(CommandError::new(Kind::Usage, format!("--seconds {} is no time", args.seconds)));
    }
    let site = site(args)?;
    let (candidate, folder) = match (&args.candidate, &site) {
        (Some(candidate), _) => (
            candidate.clone(),
            settings::problem_folder(args.selection.problem.as_deref(), candidate)
                .or_else(|e| site.as_ref().map(Site::problem).ok_or(e))?,
        ),
        (None, Some(site)) => (site.candidate(), site.problem()),
        (None, None) => {
            return Err(CommandError::new(
                Kind::Usage,
                "no candidate was named, and there is no campaign.toml here",
            )
            .with_hint("name a C or C++ source with a kernel file beside it"));
        }
    };
    let mut settings = settings::resolve(global, Tier::Quick)?;
    settings.set.clone_from(&args.selection.set);
    settings.only.clone_from(&args.selection.scenario);
    if let Some(site) = &site {
        settings.candidate_flags.clone_from(&site.file.candidate_flags);
        settings.set = settings.set.or_else(|| site.file.set.clone());
    }
    let name = candidate.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    let patience = Duration::from_secs(PATIENCE_S);
    let _lock = EvaluationLock::wait(&settings.state_dir, &name, now_ms(), patience, |busy| {
        campaign::waiting(printer, busy);
    })
    .map_err(SupervisorError::from)?
    .map_err(|busy| {
        let seconds = (now_ms() - busy.since_ms).max(0) / 1000;
        CommandError::from(SupervisorError::Busy { busy, seconds })
    })?;
    let budget = Budget { evaluations: args.budget_evaluations, seconds: args.seconds };
    let mut progress = Progress::silent();
    let mut said = Vec::new();
    let swept = {
        let talk = &*printer;
        let mut say = |line: &str| {
            said.push(line.to_owned());
            talk.talk(line);
        };
        sweep::sweep(&folder, &candidate, &settings, budget, args.flags, &mut progress, &mut say)
    };
    let swept = swept?;
    let written = if args.dry_run { Vec::new() } else { write(args, &swept)? };
    if printer.json {
        printer.json(&json!({
            "format": 1,
            "candidate": candidate,
            "outcome": swept.tuning.outcome,
            "declared_gain": swept.tuning.outcome.gain.is_some(),
            "written": written,
            "allowed_flags": swept.allowed,
            "steps": said,
        }))?;
        return Ok(exit::OK);
    }
    printer.data(&sweep_view::render(&swept.tuning.outcome, &written, printer.out, printer.width()));
    Ok(exit::OK)
}

/// The campaign that decides which flags are allowed: the candidate's own, unless a problem is named.
fn site(args: &Sweep) -> Result<Option<Site>, CommandError> {
    if args.selection.problem.is_some() {
        return Ok(None);
    }
    let Some(candidate) = &args.candidate else { return Ok(Site::find(Path::new("."))?) };
    let path = candidate.canonicalize().map_err(|e| CommandError::file(candidate, &e))?;
    let Some(site) = Site::find(path.parent().unwrap_or(Path::new("/")))? else { return Ok(None) };
    Ok(site.candidate().canonicalize().is_ok_and(|own| own == path).then_some(site))
}

/// Writes what was gained beside the candidate; nothing without a gain. Both files are complete before either is there.
fn write(args: &Sweep, swept: &Swept) -> Result<Vec<PathBuf>, CommandError> {
    if swept.tuning.outcome.gain.is_none() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    if let Some(routes) = &swept.tuning.routes {
        files.push((args.output.clone().unwrap_or_else(|| swept.routes_path.clone()), routes));
    }
    files.push((swept.kernel_path.clone(), &swept.tuning.kernel));
    files.retain(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(*text));
    for (path, text) in &files {
        let aside = path.with_extension(format!("tmp{}", std::process::id()));
        std::fs::write(&aside, text).map_err(|e| CommandError::file(&aside, &e))?;
        std::fs::rename(&aside, path).map_err(|e| CommandError::file(path, &e))?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}
