//! The real binary, the real compiler, real processes.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

mod campaign;
mod check;
mod eval;
mod hostile;
mod messages;
mod stop;

use kernelseek_testkit::TestContext;
use std::path::Path;

/// A fresh copy of a fixture with the binary under test.
fn context(fixture: &str) -> TestContext {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
    TestContext::new(env!("CARGO_BIN_EXE_kernelseek"), &folder).unwrap()
}
