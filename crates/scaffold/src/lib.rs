//! From a C, C++ or CUDA kernel with an ordinary prototype to a problem that `check` takes.
//!
//! Duty: source text → prototype → plan (tensors, fields, attributes, each guess with its reason) → files as path and
//! text. Nothing here reads or writes a file.

pub mod closure;
mod cuda;
mod extent;
mod leaf;
mod plan;
mod poly;
mod prototype;
mod ranges;
mod render;
mod role;
mod scaffold;
mod scenario;
mod syntax;
mod tokens;
mod types;
mod walk;
mod widen;

pub use render::campaign;
pub use scaffold::{Guess, Reference, Request, Scaffold, guesses, scaffold};
pub use scenario::without;
pub use syntax::{LONGEST, Language};
