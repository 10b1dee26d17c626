//! One file a command.

pub(crate) mod agent;
pub(crate) mod ask;
pub(crate) mod build;
mod campaign;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod doctor;
mod doctor_gpu;
pub(crate) mod eval;
pub(crate) mod goal;
pub(crate) mod gpu;
pub(crate) mod header;
pub(crate) mod hook_decision;
pub(crate) mod init;
pub(crate) mod inspect;
pub(crate) mod log;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod seal;
pub(crate) mod selftest;
pub(crate) mod status;
pub(crate) mod sweep;
pub(crate) mod transfer;
pub(crate) mod worker;
