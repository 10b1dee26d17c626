//! `demo`: a true campaign in under a minute. The edits are recorded; every verdict, question and refusal is not.

use super::run::replay;
use crate::cli::{Demo, Global};
use crate::error::{CommandError, Kind};
use crate::live::{Lines, Live};
use crate::narrator::Narrator;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::story::Story;
use crate::style::Style;
use crate::wrap::{hanging, wrap};
use crate::{exit, settings, verdict_view};
use kernelseek_core::goal::MissReason;
use kernelseek_core::verdict::Trust;
use kernelseek_evaluator::settings::Tier;
use kernelseek_supervisor::{Campaign, Driven, Driving, Openness, Outcome, Place, Site, drive};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Turns that the recording may take.
const TURNS: u32 = 20;
/// Folder of the recording inside the demo's folder.
const RECORDING: &str = "recording";

/// The demo's files: path in its folder, text.
const FILES: [(&str, &str); 12] = [
    ("campaign.toml", include_str!("../../../../demo/campaign.toml")),
    ("problem/problem.toml", include_str!("../../../../demo/problem/problem.toml")),
    ("problem/cpu.jsonl", include_str!("../../../../demo/problem/cpu.jsonl")),
    ("problem/seed.c", include_str!("../../../../demo/problem/seed.c")),
    ("problem/reference.c", include_str!("../../../../demo/problem/reference.c")),
    ("recording/replay.toml", include_str!("../../../../demo/replay/replay.toml")),
    ("recording/01_near_keys.c", include_str!("../../../../demo/replay/01_near_keys.c")),
    ("recording/02_keys_first.c", include_str!("../../../../demo/replay/02_keys_first.c")),
    ("recording/03_output_cache.c", include_str!("../../../../demo/replay/03_output_cache.c")),
    ("recording/04_blocks.c", include_str!("../../../../demo/replay/04_blocks.c")),
    ("recording/05_odd_keys.c", include_str!("../../../../demo/replay/05_odd_keys.c")),
    ("recording/06_short_rows.c", include_str!("../../../../demo/replay/06_short_rows.c")),
];
/// The seed, which the candidate begins as.
const SEED: &str = "problem/seed.c";

/// What a demo came to, as data.
#[derive(Debug, serde::Serialize)]
struct Summary<'a> {
    folder: &'a Path,
    report: &'a Path,
    seconds: f64,
    goal: bool,
    geomean: Option<f64>,
    run: &'a Driven,
}

pub(crate) fn run(args: &Demo, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let begun = Instant::now();
    let base = settings::resolve(global, Tier::Default)?;
    let folder = folder(args)?;
    lay_out(&folder)?;
    let site = Site::read(&folder)?;
    if let Err(error) = seal(&site, &base, printer) {
        // Nothing happened that anybody would want to look at.
        if args.into.is_none() {
            let _ = std::fs::remove_dir_all(&folder);
        }
        return Err(error);
    }
    if !printer.json {
        printer.data(&opening(&site, printer));
    }
    let recording = match &args.recording {
        Some(recording) => recording.clone(),
        None => folder.join(RECORDING),
    };
    let mut agent = replay(base.helper.clone(), &recording)?;
    let place = Place {
        site,
        state_dir: base.state_dir.clone(),
        base,
        env: std::env::vars_os().collect::<BTreeMap<_, _>>(),
        write: Vec::new(),
        temporary: std::env::temp_dir(),
    };
    let driving = Driving { place, turns: TURNS, limit: None, fresh: true };
    let driven = watch(&driving, &mut agent, printer)?;
    let report = folder.join("report.md");
    let campaign = Campaign::open(&driving.place.site, &driving.place.state_dir, Openness::Reading)?;
    let text = kernelseek_report::markdown(&campaign.report()?);
    std::fs::write(&report, text).map_err(|e| CommandError::file(&report, &e))?;
    let seconds = begun.elapsed().as_secs_f64();
    if printer.json {
        let geomean = driven.outcome.verdict.as_ref().and_then(|v| v.geomean).map(|g| g.point);
        printer.json(&Summary {
            folder: &folder,
            report: &report,
            seconds,
            goal: driven.outcome.met,
            geomean,
            run: &driven,
        })?;
    } else {
        printer.data(&ending(&driven, &folder, &report, seconds, printer));
    }
    Ok(match (&driven.end, driven.outcome.met) {
        (kernelseek_campaign::outer::End::Interrupted, _) => exit::INTERRUPTED,
        (_, true) => exit::OK,
        (_, false) => exit::UNMET,
    })
}

/// The folder to lay the campaign out in: a new one.
fn folder(args: &Demo) -> Result<PathBuf, CommandError> {
    let folder = match &args.into {
        Some(folder) => folder.clone(),
        None => {
            let tail = std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs() % 1_000_000);
            std::env::temp_dir().join(format!("kernelseek-demo-{tail:06}-{}", std::process::id()))
        }
    };
    let used = std::fs::read_dir(&folder).is_ok_and(|mut entries| entries.next().is_some());
    if used {
        let what = format!("{} is not empty", folder.display());
        return Err(CommandError::new(Kind::Usage, what).with_hint("name a folder that does not exist yet"));
    }
    std::fs::create_dir_all(&folder).map_err(|e| CommandError::file(&folder, &e))?;
    folder.canonicalize().map_err(|e| CommandError::file(&folder, &e))
}

fn lay_out(folder: &Path) -> Result<(), CommandError> {
    for (path, text) in FILES {
        let path = folder.join(path);
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        made.and_then(|()| std::fs::write(&path, text)).map_err(|e| CommandError::file(&path, &e))?;
    }
    let candidate = folder.join("kernel.c");
    let seed = FILES.iter().find(|(path, _)| *path == SEED).map_or("", |(_, text)| text);
    std::fs::write(&candidate, seed).map_err(|e| CommandError::file(&candidate, &e))
}

fn seal(
    site: &Site,
    base: &kernelseek_evaluator::settings::Settings,
    printer: &Printer,
) -> Result<(), CommandError> {
    let mut progress = Progress::new(printer);
    let sealed = Campaign::seal(site, &base.state_dir, base, None, &mut progress);
    progress.finish();
    sealed.map(|_| ()).map_err(Into::into)
}

fn watch(
    driving: &Driving,
    agent: &mut dyn kernelseek_agents::Agent,
    printer: &Printer,
) -> Result<Driven, CommandError> {
    let live = Live::new(printer, if printer.json { Lines::Nowhere } else { Lines::Data });
    let style = printer.out;
    let width = printer.width();
    let mut story = Story::new(style);
    let mut narrator = Narrator::default();
    let mut tell = |watched: kernelseek_supervisor::Watched| {
        let told = narrator.tell(&watched);
        let mut entries = story.tell(&watched).into_iter();
        let mut text: String =
            entries.next().map_or_else(String::new, |e| e.render(&live.clock(), style, width));
        told.first.iter().for_each(|line| text.push_str(&aside(line, style, width)));
        entries.for_each(|e| text.push_str(&e.render(&live.clock(), style, width)));
        told.last.iter().for_each(|line| text.push_str(&aside(line, style, width)));
        if !text.is_empty() {
            live.keep(&text, printer);
        }
        live.status(story.doing());
    };
    Ok(drive(driving, agent, &mut tell)?)
}

/// A line beside the story.
fn aside(line: &str, style: Style, width: usize) -> String {
    let bar = style.note("│");
    wrap(line, width.saturating_sub(11).max(30))
        .into_iter()
        .map(|l| format!("         {bar} {}\n", style.note(&l)))
        .collect()
}

/// What the reader is about to see.
fn opening(site: &Site, printer: &Printer) -> String {
    let (style, width) = (printer.out, printer.width());
    let mut text =
        format!("{}\n", style.strong("A campaign: causal attention in C, fp32, from plain loops to a goal."));
    let what = "An agent edits kernel.c. It plays recorded edits, so that no model is needed; whether they are right and \
                how fast they are is measured now, on this machine. The goal, which only the evaluator can call met:";
    text.push_str(&hanging("", what, width));
    for clause in &site.file.goal.clauses {
        text.push_str(&format!("  · {}\n", clause.text));
    }
    text.push('\n');
    text
}

/// What it came to.
fn ending(driven: &Driven, folder: &Path, report: &Path, seconds: f64, printer: &Printer) -> String {
    let (style, width) = (printer.out, printer.width());
    let mut text = String::from("\n");
    if let Some(verdict) = &driven.outcome.verdict {
        text.push_str(&verdict_view::render(verdict, style, width));
        text.push('\n');
    }
    if driven.outcome.met {
        text.push_str(&format!("{}  the goal is met, {seconds:.0} s after the start\n", style.good("MET")));
    } else {
        text.push_str(&format!("{}  {}\n", style.bad("UNMET"), driven.end));
        for line in why_not(&driven.outcome) {
            text.push_str(&hanging("  ", &line, width));
        }
    }
    text.push_str(&format!("report: {}\n", report.display()));
    let next = format!(
        "the whole story: `kernelseek log --in {}`; your own kernel: `kernelseek init FILE.c`",
        folder.display()
    );
    text.push_str(&hanging("next: ", &next, width));
    text
}

/// Why this machine did not get there, in plain words.
fn why_not(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    if outcome.verdict.as_ref().is_some_and(|v| v.trust == Trust::Reduced) {
        lines.push(
            "This machine lacks a layer of the sandbox (`kernelseek doctor` says which), so its verdicts have reduced \
             trust, which this goal does not accept."
                .to_owned(),
        );
    }
    let Some(goal) = &outcome.goal else {
        lines.push(outcome.reason.clone());
        return lines;
    };
    for (clause, misses) in goal.told_once().into_iter().filter(|(clause, _)| !clause.met) {
        let Some(first) = misses.first() else {
            lines.push(format!("`{}`: for the same reason.", clause.clause));
            continue;
        };
        let name = format!(" ({first})");
        lines.push(match first.reason {
            MissReason::Unresolved => format!(
                "`{}` could not be told{name}: the machine is too busy or too small for an answer this sharp. Try again \
                 when it is quieter.",
                clause.clause
            ),
            MissReason::Below => format!(
                "`{}` is out of reach of these edits on this processor{name}.",
                clause.clause
            ),
            _ => format!("`{}` is not met{name}.", clause.clause),
        });
    }
    lines.extend(goal.blockers.iter().map(|b| format!("{}: {}", b.message, b.next)));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_file_of_the_demo_is_in_the_binary() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
        let mut on_disk = BTreeSet::from(["campaign.toml".to_owned()]);
        for (folder, name) in [("problem", "problem"), ("replay", RECORDING)] {
            for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
                if entry.path().is_file() {
                    on_disk.insert(format!("{name}/{}", entry.file_name().to_string_lossy()));
                }
            }
        }
        let embedded: BTreeSet<String> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(embedded, on_disk);
    }

    #[test]
    fn the_recording_can_be_played() {
        let text = FILES.iter().find(|(path, _)| path.ends_with("replay.toml")).unwrap().1;
        let script = kernelseek_agents::replay::parse("replay.toml", text).unwrap();
        let names: BTreeSet<&str> =
            FILES.iter().filter_map(|(path, _)| path.strip_prefix("recording/")).collect();
        for step in &script.steps {
            for file in step.files.values() {
                assert!(names.contains(file.as_str()), "{file}");
            }
        }
    }
}
