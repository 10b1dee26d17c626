//! The hidden entry that sanitizers and profilers are put around.

use crate::cli::SoloArgs;
use crate::exit;
use kernelseek_device::cuda::solo::{self, SoloReport, SoloSpec};
use kernelseek_evaluator::fault::chain;
use kernelseek_evaluator::solo::NOT_APART;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;

/// Makes the calls of a specification, or enters namespaces and becomes another command.
pub(crate) fn run(args: &SoloArgs) -> u8 {
    if args.apart {
        return apart(args);
    }
    let outcome = args.spec.as_deref().ok_or_else(|| "no specification was named".to_owned()).and_then(calls);
    let (report, code) = match outcome {
        Ok(report) => (report, exit::OK),
        Err(error) => {
            let error = Some(error);
            (
                SoloReport { ok: false, prepare: None, statuses: Vec::new(), workspace_bytes: 0, error },
                exit::UNMET,
            )
        }
    };
    let line = serde_json::to_string(&report).unwrap_or_default();
    let _ = writeln!(std::io::stdout().lock(), "{line}");
    code
}

fn calls(file: &Path) -> Result<SoloReport, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    let spec: SoloSpec = serde_json::from_slice(&bytes).map_err(|e| format!("{}: {e}", file.display()))?;
    solo::run(&spec).map_err(|e| chain(&e))
}

fn apart(args: &SoloArgs) -> u8 {
    let Some((program, rest)) = args.command.split_first() else { return exit::USAGE };
    if let Err(error) = kernelseek_sandbox::apart::enter() {
        let _ = writeln!(std::io::stderr().lock(), "this machine has no namespaces to give: {error}");
        return NOT_APART;
    }
    let error = std::process::Command::new(program).args(rest).exec();
    let _ = writeln!(std::io::stderr().lock(), "{}: {error}", Path::new(program).display());
    exit::HARNESS
}
