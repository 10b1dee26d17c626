//! Builds run sandboxed: no network, reads limited to the sources and the toolchain, writes to the build folder.

use kernelseek_sandbox::command::{self, CommandSpec, Ended};
use kernelseek_sandbox::limits::Limits;
use kernelseek_toolchain::{BuildCommand, CommandOutput, Exit, Runner, RunnerError};
use std::path::PathBuf;

/// Most bytes of a compiler's output that are kept: nvcc says some lines about every kernel, and templates have long
/// names.
const OUTPUT: usize = 1 << 20;
/// Address space of one compiler.
const MEMORY: u64 = 8 << 30;

/// Runs compilers under the build sandbox.
#[derive(Debug, Clone)]
pub struct SandboxedRunner {
    /// Where compilers keep intermediate files.
    scratch: PathBuf,
}

impl SandboxedRunner {
    /// A runner whose commands keep their intermediate files in folders of their own under `scratch`.
    #[must_use]
    pub const fn new(scratch: PathBuf) -> Self {
        Self { scratch }
    }
}

impl Runner for SandboxedRunner {
    fn run(&self, build: &BuildCommand) -> Result<CommandOutput, RunnerError> {
        let spec = CommandSpec {
            program: build.program.clone(),
            args: build.args.clone(),
            cwd: build.cwd.clone(),
            env: build.env.iter().cloned().collect(),
            read: build.readable.clone(),
            write: build.writable.clone(),
            scratch: self.scratch.clone(),
            deadline: build.deadline,
            limits: Limits { address_space: Some(MEMORY), ..Limits::default() },
            output_cap: OUTPUT,
        };
        let output = command::run(&spec).map_err(|e| RunnerError(Box::new(e)))?;
        let exit = match output.ended {
            Ended::Exited(code) => Exit::Code(code),
            Ended::Signalled(signal) => Exit::Signal(signal),
            Ended::DeadlinePassed | Ended::Flooded => Exit::Deadline,
        };
        Ok(CommandOutput { exit, stdout: output.stdout.head, stderr: output.stderr.head })
    }
}
