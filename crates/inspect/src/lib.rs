//! Bytes to facts, facts to findings: what a built candidate is made of and whether that is allowed.
//!
//! Duty: read what the loader would read of an ELF file and what the compiler said it opened, and compare both
//! with a [`Policy`]. Pure: no file is opened here, nothing is run, and no input makes it panic.

pub mod device;
pub mod elf;
pub mod headers;
pub mod pattern;
pub mod policy;
pub mod rules;
pub mod sass;
pub mod symbol;

pub use device::{DeviceFacts, DeviceObject};
pub use elf::{ElfFacts, InspectError, facts};
pub use headers::{Closure, PathClass, Roots};
pub use policy::Policy;
pub use rules::findings;
