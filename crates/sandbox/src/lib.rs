//! Isolation of processes that are not trusted, and a truthful report of what holds.
//!
//! Three uses share the pieces:
//!
//! * a **worker** calls [`namespaces::enter`] first, [`limits::apply`] and [`lockdown::apply`] before the
//!   candidate's code is loaded; the supervisor spawned it with [`process::spawn`] and serves its denied
//!   system calls with [`monitor::Monitor`];
//! * a **build** is one call of [`command::run`];
//! * a coding **agent** is started by [`agent::start`]: it may do nearly everything, except change what the
//!   supervisor owns.
//!
//! No layer is skipped silently: every step returns a [`report::LayerState`], and [`probe::probe`] says
//! what this machine can enforce. Linux on x86-64 and aarch64.

pub mod agent;
pub mod apart;
mod bpf;
mod capabilities;
mod capture;
pub mod command;
pub mod control;
pub mod descriptors;
mod error;
mod fences;
pub mod limits;
pub mod lockdown;
pub mod monitor;
mod mounts;
pub mod namespaces;
mod policy;
pub mod probe;
pub mod process;
pub mod programs;
mod reaper;
pub mod report;
mod seccomp;
mod stillness;
mod sys;
mod syscalls;
mod trespass;

pub use error::SandboxError;
pub use report::{LayerState, Layers};
