//! The first minutes as a newcomer has them: `kernelseek demo` as often as asked, each time with nothing cached.

use crate::stop_speed::{commit, processor};
use clap::Args;
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// The binary, a release build
    #[arg(long, default_value = "target/release/kernelseek")]
    binary: PathBuf,
    /// Runs
    #[arg(long, default_value_t = 20)]
    runs: usize,
    /// The record
    #[arg(long, default_value = "results/cpu/demo.json")]
    record: PathBuf,
}

/// Runs the demo and writes the record.
pub(crate) fn demo(args: &Demo, root: &Path) -> Result<(), String> {
    let mut runs = Vec::new();
    for round in 0..args.runs {
        let run = once(&args.binary)?;
        let _ = writeln!(
            std::io::stderr(),
            "{} of {}: {:.1} s, exit {}, goal {}, geomean {}",
            round + 1,
            args.runs,
            run["seconds"].as_f64().unwrap_or(f64::NAN),
            run["exit"],
            run["goal"],
            run["geomean"]
        );
        runs.push(run);
    }
    let mut seconds: Vec<f64> = runs.iter().filter_map(|r| r["seconds"].as_f64()).collect();
    seconds.sort_by(f64::total_cmp);
    let met = runs.iter().filter(|r| r["goal"] == true && r["exit"] == 0).count();
    let least = runs.iter().filter_map(|r| r["geomean"].as_f64()).fold(f64::INFINITY, f64::min);
    let record = json!({
        "what": "`kernelseek demo`, process start to end, each time with an empty state folder: nothing built, nothing calibrated",
        "command": format!("cargo xtask demo --runs {}", args.runs),
        "commit": commit(root),
        "processor": processor(),
        "met": met,
        "median_seconds": seconds.get(seconds.len() / 2),
        "worst_seconds": seconds.last(),
        "least_geomean": least.is_finite().then_some(least),
        "runs": runs,
    });
    let text = serde_json::to_string_pretty(&record).map_err(|e| e.to_string())?;
    std::fs::write(&args.record, text + "\n").map_err(|e| format!("{}: {e}", args.record.display()))
}

fn once(binary: &Path) -> Result<Value, String> {
    let scratch = tempfile::tempdir().map_err(|e| e.to_string())?;
    let begun = Instant::now();
    let output = Command::new(binary)
        .args(["demo", "--json", "--quiet", "--into"])
        .arg(scratch.path().join("demo"))
        .env("KERNELSEEK_STATE_DIR", scratch.path().join("state"))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{}: {e}", binary.display()))?;
    let seconds = begun.elapsed().as_secs_f64();
    let said: Value = serde_json::from_slice(&output.stdout).map_err(|e| {
        format!(
            "no summary ({e}): {}",
            String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default()
        )
    })?;
    let outcome = &said["run"]["outcome"];
    let scenarios: serde_json::Map<String, Value> = outcome["verdict"]["scenarios"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|s| Some((s["id"].as_str()?.to_owned(), s["ratio"].clone())))
        .collect();
    Ok(json!({
        "seconds": seconds,
        "exit": output.status.code(),
        "goal": said["goal"],
        "geomean": said["geomean"],
        "turns": said["run"]["turns"],
        "end": said["run"]["end"],
        "reason": outcome["reason"],
        "aa_spread": outcome["verdict"]["aa_spread"],
        "scenarios": scenarios,
    }))
}
