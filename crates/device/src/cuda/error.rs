//! What the CUDA driver answers when it does not do what it was asked.

use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_char};

/// Why something could not be done on a GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver library.
    #[error("libcuda.so.1 was not found: no NVIDIA driver is installed, or it is not visible here")]
    NoDriver,
    /// There is a driver and no such device.
    #[error("there is no GPU `{0}`")]
    NoDevice(String),
    /// The driver library is there and lacks a function that is needed.
    #[error("the NVIDIA driver is too old: it has no {0}")]
    TooOld(&'static str),
    /// A call failed.
    #[error("{call}: {text} ({name})")]
    Call {
        /// The driver function.
        call: &'static str,
        /// Its number.
        code: u32,
        /// Name of the number, as `CUDA_ERROR_ILLEGAL_ADDRESS`.
        name: String,
        /// What the driver says about it.
        text: String,
    },
}

/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = 2;

impl CudaError {
    /// Whether the device has no more memory.
    #[must_use]
    pub fn is_out_of_memory(&self) -> bool {
        self.code() == Some(OUT_OF_MEMORY)
    }
    /// The driver's error number, if the driver answered at all.
    #[must_use]
    pub const fn code(&self) -> Option<u32> {
        match self {
            Self::Call { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// Shorthand of this module.
pub type Result<T> = std::result::Result<T, CudaError>;

/// Turns a driver answer into a result.
pub(crate) fn check(call: &'static str, answer: CUresult) -> Result<()> {
    if answer == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let code = answer as u32;
    Err(CudaError::Call { call, code, name: name_of(answer), text: text_of(answer) })
}

type Describe = unsafe fn(CUresult, *mut *const c_char) -> CUresult;

#[expect(unsafe_code, reason = "driver call")]
fn described(answer: CUresult, by: Describe, otherwise: &str) -> String {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes null or a pointer to a static string.
    unsafe {
        if by(answer, &raw mut text) == CUresult::CUDA_SUCCESS && !text.is_null() {
            return CStr::from_ptr(text).to_string_lossy().into_owned();
        }
    }
    otherwise.to_owned()
}

fn name_of(answer: CUresult) -> String {
    described(answer, sys::cuGetErrorName, &format!("error {}", answer as u32))
}

fn text_of(answer: CUresult) -> String {
    described(answer, sys::cuGetErrorString, "no description")
}
