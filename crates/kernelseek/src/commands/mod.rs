//! One file a command.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod header;
pub(crate) mod inspect;
pub(crate) mod selftest;
pub(crate) mod worker;
