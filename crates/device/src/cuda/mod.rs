//! The CUDA driver API in safe dress: one GPU, its memory, streams, events and our own kernels.
//!
//! The bindings are `cudarc`'s; libcuda is loaded when it is first needed. Nothing here judges or times anything.

pub mod device;
pub mod error;
pub mod memory;
pub mod module;
pub mod solo;
pub mod stream;

pub use device::{Context, GpuIdentity};
pub use error::CudaError;
