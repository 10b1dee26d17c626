//! Targets: memory, calls, clocks, and the worker that runs a kernel outside the judge's process.
//!
//! Duty: own the buffers and the clock, start workers, make calls through them, and say what happened. This crate
//! and `sandbox` are the only ones with `unsafe`; everything above sees copies and typed errors.

pub mod arena;
pub mod cache;
pub mod channel;
pub mod client;
pub mod control;
pub mod cuda;
pub mod layout;
pub mod peaks;
pub mod protocol;
pub mod topology;
pub mod worker;

/// The Python worker, written out by whoever starts one.
pub const PYTHON_WORKER: &str = include_str!("client/python_worker.py");
