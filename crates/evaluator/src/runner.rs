//! Builds run sandboxed: no network, reads limited to the sources and the toolchain, writes to the build folder.

use kernelseek_sandbox::command::{self, CommandSpec};
use kernelseek_sandbox::limits::Limits;
use kernelseek_sandbox::process::Ended;
use kernelseek_toolchain::{BuildCommand, CommandOutput, Exit, Runner, RunnerError};
use std::path::{Path, PathBuf};

/// Most bytes of a compiler's output that are kept.
const OUTPUT: usize = 64 << 10;

/// Runs compilers under the build sandbox.
#[derive(Debug, Clone)]
pub struct SandboxedRunner {
    helper: PathBuf,
}

impl SandboxedRunner {
    /// A runner that starts `helper` (the tool's own binary) to set the sandbox up.
    #[must_use]
    pub fn new(helper: &Path) -> Self {
        Self { helper: helper.to_owned() }
    }
}

impl Runner for SandboxedRunner {
    fn run(&self, build: &BuildCommand) -> Result<CommandOutput, RunnerError> {
        let text = |s: &std::ffi::OsString| s.to_string_lossy().into_owned();
        let spec = CommandSpec {
            helper: self.helper.clone(),
            program: build.program.clone(),
            args: build.args.iter().map(text).collect(),
            cwd: build.cwd.clone(),
            env: build.env.iter().map(|(k, v)| (text(k), text(v))).collect(),
            read: build.readable.clone(),
            write: build.writable.clone(),
            deadline: build.deadline,
            limits: Limits { address_space: Some(8 << 30), ..Limits::default() },
            output_cap: OUTPUT,
        };
        let output = command::run(&spec).map_err(|e| RunnerError(Box::new(e)))?;
        let exit = match (output.timed_out, output.ended) {
            (true, _) | (_, None) => Exit::Deadline,
            (_, Some(Ended::Exited(code))) => Exit::Code(code),
            (_, Some(Ended::Killed(signal))) => Exit::Signal(signal),
        };
        Ok(CommandOutput { exit, stdout: output.stdout, stderr: output.stderr })
    }
}
