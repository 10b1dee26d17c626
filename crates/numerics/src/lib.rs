//! Element codecs, seeded contents, poison, error metrics, judgement of errors, statistics.
//!
//! Duty: turn bytes into numbers and numbers into a decision, the same way on every machine and in every
//! year. Nothing here does I/O, reads a clock or draws entropy: whatever is random comes from a seed.

pub mod codec;
pub mod content;
pub mod fingerprint;
pub mod judge;
pub mod metrics;
pub mod normal;
pub mod partials;
pub mod poison;
pub mod rng;
mod small_float;
pub mod stats;
pub mod view;
