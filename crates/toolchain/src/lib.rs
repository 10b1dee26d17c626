//! Compilers and builds: find the compiler, say exactly what it is, turn sources into a shared library, and do it
//! only once.
//!
//! Duty: from a [`Recipe`] and a workspace to a [`Build`] with its [`CandidateHash`]. Compilers are run through the
//! caller's [`Runner`], so that the caller decides how builds are confined; only questions to the compiler about
//! itself are asked directly.

pub mod build;
pub mod cache;
pub mod candidate;
pub mod command;
pub mod cuda;
pub mod diagnostics;
pub mod discover;
pub mod recipe;
pub mod target;

mod hash;

pub use build::{Build, BuildError, Builder, Done, Job};
pub use cache::Cache;
pub use candidate::CandidateHash;
pub use command::{BuildCommand, CommandOutput, Exit, Runner, RunnerError};
pub use cuda::{CudaPlaces, KernelResources, Nvcc, Remark};
pub use discover::{Compiler, Family, SearchPlaces, Toolchain, ToolchainError, discover};
pub use recipe::{Language, Recipe, RecipeFile};
