//! Kernels of our own: loaded from PTX or machine code, launched with typed arguments.

use super::error::{CudaError, Result, check};
use super::stream::Stream;
use cudarc::driver::sys::{self, CUfunction, CUmodule};
use std::ffi::{CString, c_void};

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    module: CUmodule,
}

/// One kernel of a module, which must outlive it.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    function: CUfunction,
}

impl Module {
    /// Loads PTX text; the driver compiles it for the device of the current context.
    ///
    /// # Errors
    /// When the driver does not take it.
    pub fn from_ptx(ptx: &str) -> Result<Self> {
        let text = CString::new(ptx).map_err(|_| CudaError::NoDevice("PTX with a NUL byte".into()))?;
        Self::load(text.as_bytes_with_nul())
    }

    /// Loads machine code: one whole cubin.
    ///
    /// # Errors
    /// When it is for another architecture, or the driver is older than the compiler that made it.
    pub fn from_cubin(cubin: &[u8]) -> Result<Self> {
        Self::load(cubin)
    }

    /// `image` says itself where it ends: text at its NUL, a cubin in its header.
    #[expect(unsafe_code, reason = "driver call")]
    fn load(image: &[u8]) -> Result<Self> {
        // The tables of a cubin want to be aligned, which what lies in a binary need not be.
        let mut words = vec![0u64; image.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(image.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(whole);
        }
        let mut module: CUmodule = std::ptr::null_mut();
        // SAFETY: a whole image that outlives the call, which copies it; writes one handle.
        check("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&raw mut module, words.as_ptr().cast()) })?;
        Ok(Self { module })
    }

    /// The kernel of this name (`extern "C"` in the source).
    ///
    /// # Errors
    /// When there is none.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let c_name = CString::new(name).unwrap_or_default();
        let mut function: CUfunction = std::ptr::null_mut();
        // SAFETY: a live module and a NUL-terminated name.
        check("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&raw mut function, self.module, c_name.as_ptr())
        })?;
        Ok(Kernel { function })
    }
}

impl Drop for Module {
    #[expect(unsafe_code, reason = "driver call")]
    fn drop(&mut self) {
        // SAFETY: loaded by `from_ptx`.
        let _ = unsafe { sys::cuModuleUnload(self.module) };
    }
}

/// Arguments of a launch, in order. Each takes eight bytes here; the kernel reads as many as its parameter has.
#[derive(Debug, Clone, Default)]
pub struct Args {
    words: Vec<[u8; 8]>,
    structs: Vec<(usize, Vec<u64>)>,
}

impl Args {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// An address or another 64-bit integer.
    #[must_use]
    pub fn u64(mut self, value: u64) -> Self {
        self.words.push(value.to_ne_bytes());
        self
    }
    /// A 32-bit integer.
    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.u64(u64::from(value))
    }
    /// A double.
    #[must_use]
    pub fn f64(self, value: f64) -> Self {
        self.u64(value.to_bits())
    }
    /// A structure passed by value, as the 64-bit words that it is made of.
    #[must_use]
    pub fn words(mut self, words: Vec<u64>) -> Self {
        self.structs.push((self.words.len(), words));
        self.words.push([0; 8]);
        self
    }
}

impl Kernel {
    /// Enqueues the kernel: `grid` blocks of `block` threads in one dimension.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn launch(&self, grid: u32, block: u32, stream: &Stream, mut args: Args) -> Result<()> {
        let mut pointers: Vec<*mut c_void> = args.words.iter_mut().map(|w| w.as_mut_ptr().cast()).collect();
        for (at, words) in &mut args.structs {
            pointers[*at] = words.as_mut_ptr().cast();
        }
        // SAFETY: one pointer a parameter, each to at least as many bytes as the parameter has (our own kernels); the driver
        // copies them before it returns.
        check("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(
                self.function,
                grid.max(1),
                1,
                1,
                block,
                1,
                1,
                0,
                stream.raw(),
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }
}
