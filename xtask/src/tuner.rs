//! What tuning gains and declares, many times over, with the real binary on the two fixtures: one whose best tile
//! differs between its scenarios, one whose default is the best there is.

use crate::stop_speed::{commit, processor};
use serde_json::{Value, json};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const SWEPT: &str = "`kernelseek sweep` on a fixture whose best tile differs between its scenarios (tiles) and on one whose \
                     default is the best there is (worse); seconds are wall time of the process, a fresh state folder each \
                     time; gain is of the confirming measurement";
const LED: &str = "`kernelseek run --agent tuner` on the same two fixtures: behind the fence, every evaluation asked of the \
                   supervisor; seconds are wall time of the process with the supervisor's own full evaluation; gain is the \
                   ratio of the last two evaluations that the tuner asked for, as it was and as chosen";
/// The campaign that the tuner is led in. Nothing meets its goal, so that its turn ends the run.
const CAMPAIGN: &str = "format = 1\nname = \"tuned\"\nproblem = \".\"\ncandidate = \"kernel.c\"\n[goal]\nclauses = \
                        [\"every scenario correct\", \"every speedup >= 900\"]\n";

/// The least gain on the fixture that has one.
const GAIN: f64 = 1.3;
/// The most seconds that a run may take there.
const SECONDS: f64 = 60.0;

/// `cargo xtask tuner`.
#[derive(Debug, clap::Args)]
pub(crate) struct Tuner {
    /// The binary, a release build
    #[arg(long, default_value = "target/release/kernelseek")]
    binary: PathBuf,
    /// Lead the agent `tuner` in a campaign instead of sweeping
    #[arg(long)]
    agent: bool,
    /// Runs of each fixture, each in a fresh folder
    #[arg(long, default_value_t = 10)]
    runs: usize,
    /// The record; without it only the summary is printed
    #[arg(long)]
    record: Option<PathBuf>,
}

/// Runs and records.
pub(crate) fn measure(args: &Tuner, root: &Path) -> Result<(), String> {
    let binary = args.binary.canonicalize().map_err(|e| format!("{}: {e}", args.binary.display()))?;
    let mut all = Vec::new();
    let mut bars = [0usize; 2];
    for (index, fixture) in ["tiles", "worse"].into_iter().enumerate() {
        for run in 1..=args.runs {
            let scratch =
                std::env::temp_dir().join(format!("kernelseek-tuner-{}-{fixture}-{run}", std::process::id()));
            let done = if args.agent {
                led(&binary, root, fixture, &scratch)
            } else {
                one(&binary, root, fixture, &scratch)
            };
            let _ = std::fs::remove_dir_all(&scratch);
            let done = done?;
            let met = match fixture {
                "tiles" => {
                    done["gain"].as_f64().is_some_and(|g| g >= GAIN)
                        && done["seconds"].as_f64() <= Some(SECONDS)
                }
                _ => done["declared"] == false && done["files_changed"] == false,
            };
            bars[index] += usize::from(met);
            let line =
                format!("{fixture} {run} of {}: {}", args.runs, done["words"].as_str().unwrap_or_default());
            let _ = writeln!(std::io::stderr(), "{line}");
            all.push(json!({ "fixture": fixture, "run": run, "met": met, "result": done }));
        }
    }
    let record = json!({
        "what": if args.agent { LED } else { SWEPT },
        "command": format!("cargo xtask tuner --runs {}{}", args.runs, if args.agent { " --agent" } else { "" }),
        "commit": commit(root),
        "processor": processor(),
        "bars": {
            "tiles": format!("gain of at least {GAIN} within {SECONDS} s: {} of {}", bars[0], args.runs),
            "worse": format!("no gain declared and nothing written: {} of {}", bars[1], args.runs),
        },
        "runs": all,
    });
    let _ = writeln!(std::io::stderr(), "{}", record["bars"]);
    if let Some(path) = &args.record {
        let text = serde_json::to_string_pretty(&record).map_err(|e| e.to_string())?;
        std::fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))?;
    }
    if bars == [args.runs; 2] { Ok(()) } else { Err(format!("a bar was missed: {}", record["bars"])) }
}

/// Copies a fixture into a fresh folder.
fn lay_out(root: &Path, fixture: &str, scratch: &Path) -> Result<PathBuf, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", scratch.display());
    let work = scratch.join("work");
    std::fs::create_dir_all(&work).map_err(|e| fail(&e))?;
    let from = root.join("crates/kernelseek/tests/fixtures/tuning").join(fixture);
    for entry in std::fs::read_dir(&from).map_err(|e| fail(&e))? {
        let path = entry.map_err(|e| fail(&e))?.path();
        std::fs::copy(&path, work.join(path.file_name().unwrap_or_default())).map_err(|e| fail(&e))?;
    }
    Ok(work)
}

/// The two files that tuning writes.
fn written(work: &Path) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (std::fs::read(work.join("kernel.toml")).ok(), std::fs::read(work.join("kernel_routes.h")).ok())
}

/// Leads the agent.
fn led(binary: &Path, root: &Path, fixture: &str, scratch: &Path) -> Result<Value, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", scratch.display());
    let work = lay_out(root, fixture, scratch)?;
    std::fs::write(work.join("campaign.toml"), CAMPAIGN).map_err(|e| fail(&e))?;
    let run = |args: &[&str]| -> Result<Value, String> {
        let output = Command::new(binary)
            .args(args)
            .args(["--json", "--quiet"])
            .current_dir(&work)
            .env("KERNELSEEK_STATE_DIR", scratch.join("state"))
            .output()
            .map_err(|e| fail(&e))?;
        serde_json::from_slice(&output.stdout)
            .map_err(|e| format!("{args:?}: {e}: {}", String::from_utf8_lossy(&output.stderr)))
    };
    let before = written(&work);
    run(&["seal"])?;
    let start = Instant::now();
    let driven = run(&["run", "--agent", "tuner", "--minutes", "1"])?;
    let seconds = start.elapsed().as_secs_f64();
    let words = driven["end"]["words"].as_str().unwrap_or_default().to_owned();
    let rows = run(&["log", "--number", "0", "--kind", "evaluated"])?;
    let rows: Vec<&Value> = rows.as_array().into_iter().flatten().map(|r| &r["entry"]).collect();
    let attempts = rows.iter().filter(|e| e["purpose"] == "attempt").count();
    let whole: Vec<f64> = rows
        .iter()
        .filter(|e| e["purpose"] == "attempt" && e["tier"] == "default")
        .filter_map(|e| e["geomean"]["point"].as_f64())
        .collect();
    let declared = words.contains("faster than before");
    let gain = match whole.as_slice() {
        [.., before, after] if declared => Some(after / before),
        _ => None,
    };
    Ok(json!({
        "seconds": seconds,
        "evaluations": attempts,
        "declared": declared,
        "gain": gain,
        "words": words,
        "end": driven["end"]["why"],
        "files_changed": written(&work) != before,
    }))
}

fn one(binary: &Path, root: &Path, fixture: &str, scratch: &Path) -> Result<Value, String> {
    let fail = |e: &dyn std::fmt::Display| format!("{}: {e}", scratch.display());
    let work = lay_out(root, fixture, scratch)?;
    let before = written(&work);
    let start = Instant::now();
    let output = Command::new(binary)
        .args(["sweep", "kernel.c", "--json", "--quiet", "--seconds", "55"])
        .current_dir(&work)
        .env("KERNELSEEK_STATE_DIR", scratch.join("state"))
        .output()
        .map_err(|e| fail(&e))?;
    let seconds = start.elapsed().as_secs_f64();
    let said: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&output.stderr)))?;
    let outcome = &said["outcome"];
    let gain = &outcome["gain"]["ratio"];
    let ratio = |log: Option<f64>| log.map(f64::exp);
    Ok(json!({
        "seconds": seconds,
        "evaluations": outcome["evaluations"],
        "declared": said["declared_gain"],
        "gain": ratio(gain["log"].as_f64()),
        "gain_lo": gain["log"].as_f64().zip(gain["down"].as_f64()).map(|(l, d)| (l - d).exp()),
        "words": outcome["words"],
        "files_changed": written(&work) != before,
    }))
}
