//! The kernels' element logic, compiled as C++, against its twin in the numerics crate, bit for bit.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a helper of a test may fail it, and says when it is skipped"
)]

mod cases;
mod contents;
mod emulator;
mod outputs;
