//! Steering, from recorded ledgers: the detectors, the machine, the signals and the stop decision.
//!
//! The ledgers under `tests/ledgers` are written by the scripts in `stories`; nobody edits them by hand.
//! `cargo test -p kernelseek-campaign --test steering -- --ignored` writes them anew.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "this is a test, helpers included")]

mod driver;
mod ledgers;
mod machine;
mod script;
mod shot;
mod signals;
mod stop;
mod stories;
mod world;
