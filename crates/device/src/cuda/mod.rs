//! The CUDA driver API in safe dress: one GPU, its memory, streams, events and our own kernels.
//!
//! The bindings are `cudarc`'s; libcuda is loaded when it is first needed. Nothing here judges or times anything.

pub mod arena;
pub mod device;
pub mod error;
pub mod gpu;
pub mod helpers;
pub mod kernel_facts;
pub mod lease;
pub mod memory;
pub mod module;
pub mod nvml;
pub mod peaks;
pub mod plain;
pub mod solo;
pub mod spent;
pub mod stream;
pub mod surroundings;
pub mod trial;

pub use device::{Context, GpuIdentity, driver_reads};
pub use error::CudaError;
