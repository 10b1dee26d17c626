//! The tool as it is run.

use std::process::Command;

/// What is generated without a compiler: the reference pages and the tables. With one, `.ci/run` looks at the kernels too.
#[test]
fn generated_pages_are_current() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.args(["generate", "--check"]).env_remove("KERNELSEEK_NVCC").env("PATH", "");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("skipped: crates/device/src/cuda/kernels/kernels.ptx"), "{said}");
}
