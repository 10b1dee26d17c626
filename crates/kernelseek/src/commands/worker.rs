//! The hidden entry: what the tool starts itself as.

use crate::cli::WorkerArgs;
use crate::exit;
use kernelseek_device::worker::{self, WorkerSpec};
use std::io::Write;

/// Runs a worker on inherited descriptors.
pub(crate) fn run(args: &WorkerArgs) -> u8 {
    let spec: WorkerSpec = match serde_json::from_str(&args.spec) {
        Ok(spec) => spec,
        Err(error) => return complain(&format!("malformed specification: {error}")),
    };
    match worker::run_inherited(&spec, args.socket, args.control) {
        Ok(()) => exit::OK,
        Err(error) => complain(&kernelseek_evaluator::fault::chain(&error)),
    }
}

fn complain(message: &str) -> u8 {
    let _ = writeln!(std::io::stderr().lock(), "kernelseek worker: {message}");
    exit::HARNESS
}
