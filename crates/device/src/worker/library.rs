//! The loaded library and its entry points.

use super::mapping::CallStruct;
use crate::protocol::{Entry, Sample};
use std::ffi::{CStr, CString, c_void};

type Plain = unsafe extern "C" fn(*const c_void) -> i32;
type Sampled = unsafe extern "C" fn(*const c_void, *const KsSample) -> i32;

/// `ks_sample` of the generated header.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct KsSample {
    key: u64,
    one_in: u32,
    reserved: u32,
}

/// An entry point, with what it is asked for besides the call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Function {
    /// `ks_status NAME(const NAME_call *)`.
    Plain(Plain),
    /// `ks_status NAME_sampled(const NAME_call *, const ks_sample *)`.
    Sampled(Sampled, Sample),
}

impl Function {
    /// Makes the call.
    #[expect(unsafe_code, reason = "foreign call")]
    pub(crate) fn call(self, call: &CallStruct) -> i32 {
        // SAFETY: the struct is complete and its buffers are mapped. What the foreign code does is beyond Rust's
        // rules; that is why it runs in a process of its own.
        unsafe {
            match self {
                Self::Plain(function) => function(call.as_ptr()),
                Self::Sampled(function, Sample { key, one_in }) => {
                    function(call.as_ptr(), &KsSample { key, one_in, reserved: 0 })
                }
            }
        }
    }
}

/// `size_t NAME_workspace(const NAME_call *)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkspaceFunction(unsafe extern "C" fn(*const c_void) -> usize);

impl WorkspaceFunction {
    /// Asks for the size in bytes.
    #[expect(unsafe_code, reason = "foreign call")]
    pub(crate) fn call(self, call: &CallStruct) -> usize {
        // SAFETY: as for `Function::call`.
        unsafe { (self.0)(call.as_ptr()) }
    }
}

/// A library loaded for the life of the process.
#[derive(Debug)]
pub(crate) struct Library {
    main: Plain,
    sampled: Option<Sampled>,
    pub(crate) workspace: Option<WorkspaceFunction>,
    pub(crate) prepare: Option<Function>,
    pub(crate) model: Option<Plain>,
    model_sampled: Option<Sampled>,
}

impl Library {
    /// Loads `path` and looks the entry points up. The library's constructors run here.
    #[expect(unsafe_code, reason = "dlopen and casts of dlsym results")]
    pub(crate) fn open(path: &str, entry: &str, model: Option<&str>) -> Result<Self, String> {
        let c_path = CString::new(path).map_err(|_| "the library's path holds a NUL byte")?;
        // SAFETY: a NUL-terminated path. Loading runs foreign code: see `Function::call`.
        let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if handle.is_null() {
            return Err(format!("the library could not be loaded: {}", dl_error()));
        }
        let find = |name: &str| -> Option<*mut c_void> {
            let name = CString::new(name).ok()?;
            // SAFETY: a live handle and a NUL-terminated name.
            let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
            (!symbol.is_null()).then_some(symbol)
        };
        // SAFETY (the casts below): the header fixes these functions' types.
        let function = |symbol| unsafe { std::mem::transmute::<*mut c_void, Plain>(symbol) };
        let sampled = |name: &str| {
            find(&format!("{name}_sampled"))
                .map(|symbol| unsafe { std::mem::transmute::<*mut c_void, Sampled>(symbol) })
        };
        let main = find(entry).ok_or_else(|| format!("the library does not export `{entry}`"))?;
        Ok(Self {
            main: function(main),
            sampled: sampled(entry),
            workspace: find(&format!("{entry}_workspace")).map(|symbol| {
                // SAFETY: the header fixes the function's type.
                WorkspaceFunction(unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> usize>(symbol)
                })
            }),
            prepare: find(&format!("{entry}_prepare")).map(function).map(Function::Plain),
            model: model.and_then(find).map(function),
            model_sampled: model.and_then(sampled),
        })
    }

    /// The function behind `entry`.
    pub(crate) fn entry(&self, entry: Entry) -> Result<Function, String> {
        let sampled = |function: Option<Sampled>, sample, missing: &str| {
            let found = function.map(|function| Function::Sampled(function, sample));
            found.ok_or_else(|| format!("the library has no {missing}, which `sampled = true` asks for"))
        };
        match entry {
            Entry::Main => Ok(Function::Plain(self.main)),
            Entry::Prepare => self.prepare.ok_or_else(|| "the library has no prepare entry".to_owned()),
            Entry::Model => {
                self.model.map(Function::Plain).ok_or_else(|| "the library has no precision model".to_owned())
            }
            Entry::Sampled(sample) => sampled(self.sampled, sample, "`NAME_sampled`"),
            Entry::ModelSampled(sample) => {
                sampled(self.model_sampled, sample, "`_sampled` entry of its precision model")
            }
        }
    }
}

#[expect(unsafe_code, reason = "dlerror")]
fn dl_error() -> String {
    // SAFETY: `dlerror` returns null or a NUL-terminated string that lives until the next dl call of this thread.
    unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "unknown reason".to_owned()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}
