//! Tasks of the project's own: generated reference pages, converted data, and the check that both are current.
//!
//! `cargo xtask generate` writes, `cargo xtask generate --check` compares and fails on a difference.

mod attention_grid;
mod attention_table;
mod first_minutes;
mod gpu_archive;
mod kernels;
mod prove;
mod reference;
mod stop_speed;
mod tables;
mod tuner;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "xtask", about = "Tasks of the project's own")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write what is generated: the pages under docs/reference, the tables of records, the helper kernels' PTX (where nvcc 13.0
    /// is found)
    Generate {
        /// Write nothing; fail if something differs from what would be written
        #[arg(long)]
        check: bool,
    },
    /// Prove that no agent gets an unearned win recorded, and that kill -9 loses nothing
    Prove(prove::Prove),
    /// Run the demo as a newcomer does, many times
    Demo(first_minutes::Demo),
    /// Time the stop decision in a long ledger
    StopSpeed {
        /// The binary, a release build
        #[arg(long, default_value = "target/release/kernelseek")]
        binary: PathBuf,
        /// Rows of the ledger
        #[arg(long, default_value_t = 10_000)]
        rows: u64,
        /// The record
        #[arg(long, default_value = "results/cpu/stop.json")]
        record: PathBuf,
    },
    /// Measure what tuning gains and declares on the two tuning fixtures
    Tuner(tuner::Tuner),
    /// Pack the GPU tests for a machine without cargo: docs/guides/gpu-tests.md
    GpuArchive(gpu_archive::GpuArchive),
    /// Convert a published attention grid to the scenario lines of problems/cuda/attention_forward
    AttentionGrid {
        /// The grid, JSON
        grid: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Generate { check } => generate(check),
        Task::AttentionGrid { grid } => convert(&grid),
        Task::Tuner(args) => tuner::measure(&args, &root()),
        Task::GpuArchive(args) => gpu_archive::make(&args, &root()),
        Task::Prove(args) => prove::prove(&args, &root()),
        Task::Demo(args) => first_minutes::demo(&args, &root()),
        Task::StopSpeed { binary, rows, record } => {
            stop_speed::measure(&binary, &root(), rows).and_then(|value| {
                let text = serde_json::to_string_pretty(&value).map_err(|e| e.to_string())?;
                std::fs::write(&record, text + "\n").map_err(|e| format!("{}: {e}", record.display()))
            })
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            let _ = writeln!(std::io::stderr(), "error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn talk(line: &str) {
    // A closed stream stops no task.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The workspace's folder: the parent of this crate's.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(|| PathBuf::from("."), Path::to_owned)
}

fn generate(check: bool) -> Result<(), String> {
    let mut stale = Vec::new();
    let pages = reference::pages().into_iter().map(|(name, text)| (format!("docs/reference/{name}"), text));
    let tables = tables::tables(&root())?;
    let texts = pages.chain(tables).map(|(name, text)| (name, text.into_bytes()));
    for (name, bytes) in texts.chain(kernels::files(&root())?) {
        let path = root().join(&name);
        if std::fs::read(&path).is_ok_and(|known| known == bytes) {
            continue;
        }
        if check {
            stale.push(name);
        } else {
            write(&path, &bytes)?;
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("not current: {}; run `cargo xtask generate`", stale.join(", ")))
}

fn convert(grid: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(grid).map_err(|e| format!("{}: {e}", grid.display()))?;
    let folder = root().join("problems/cuda/attention_forward");
    let lines = attention_grid::convert(&text).map_err(|e| e.to_string())?;
    write(&folder.join("hopper182.jsonl"), &lines)?;
    let expected = attention_grid::expected(&text).map_err(|e| e.to_string())?;
    write(&folder.join("hopper182.expected.json"), &expected)
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, bytes).map_err(|e| format!("{}: {e}", path.display()))
}
