//! Contents: generators, stress families, reproducibility.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail it")]

mod common;
mod counter;
mod generators;
mod golden;
mod streams;
mod stress;
mod throughput;
