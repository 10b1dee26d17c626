//! The `kernelseek` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(kernelseek_cli::main())
}
