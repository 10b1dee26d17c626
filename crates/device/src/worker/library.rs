//! The loaded library and its entry points.

use super::mapping::CallStruct;
use crate::protocol::Entry;
use std::ffi::{CStr, CString, c_void};

/// `ks_status NAME(const NAME_call *)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function(unsafe extern "C" fn(*const c_void) -> i32);

impl Function {
    /// Makes the call.
    #[expect(unsafe_code, reason = "foreign call")]
    pub(crate) fn call(self, call: &CallStruct) -> i32 {
        // SAFETY: the struct is complete and its buffers are mapped. What the foreign code does is beyond Rust's
        // rules; that is why it runs in a process of its own.
        unsafe { (self.0)(call.as_ptr()) }
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
    main: Function,
    pub(crate) workspace: Option<WorkspaceFunction>,
    pub(crate) prepare: Option<Function>,
    pub(crate) model: Option<Function>,
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
        let function = |symbol| {
            Function(unsafe {
                std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> i32>(symbol)
            })
        };
        let main = find(entry).ok_or_else(|| format!("the library does not export `{entry}`"))?;
        Ok(Self {
            main: function(main),
            workspace: find(&format!("{entry}_workspace")).map(|symbol| {
                // SAFETY: the header fixes the function's type.
                WorkspaceFunction(unsafe {
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_void) -> usize>(symbol)
                })
            }),
            prepare: find(&format!("{entry}_prepare")).map(function),
            model: model.and_then(find).map(function),
        })
    }

    /// The function behind `entry`.
    pub(crate) fn entry(&self, entry: Entry) -> Result<Function, String> {
        match entry {
            Entry::Main => Ok(self.main),
            Entry::Prepare => self.prepare.ok_or_else(|| "the library has no prepare entry".to_owned()),
            Entry::Model => self.model.ok_or_else(|| "the library has no precision model".to_owned()),
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
