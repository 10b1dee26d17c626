//! The real binary, the real compiler, real processes.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

mod campaign;
mod campaigns_bad_days;
mod check;
mod crash;
mod demo;
mod eval;
mod gpu;
mod hostile;
mod init;
mod inspect;
mod led;
mod messages;
mod nvcc;
mod report;
mod settle;
mod solo;
mod stand_in;
mod stop;
mod tuning;
mod turns;

use kernelseek_testkit::TestContext;
use std::path::Path;

/// A fresh copy of a fixture with the binary under test.
fn context(fixture: &str) -> TestContext {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    TestContext::new(env!("CARGO_BIN_EXE_kernelseek"), &folder).unwrap()
}

/// The campaign that is attacked and interrupted.
fn led_fixture() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/led")
}
