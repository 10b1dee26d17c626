//! Giving every privilege up, for good.
#![expect(unsafe_code, reason = "capset(2) has no safe wrapper")]

use std::io;

use crate::sys;

/// Layout of the kernel's header for version 3 of the interface.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// Layout of one 32-bit half of the three sets.
#[repr(C)]
#[derive(Clone, Copy)]
struct Half {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

const VERSION_3: u32 = 0x2008_0522;

/// Empties the ambient, bounding, effective, permitted and inheritable sets, and forbids gaining
/// privileges on exec.
pub(crate) fn drop_all() -> io::Result<()> {
    // Kernels without ambient capabilities have none to clear.
    let _ = sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    for capability in 0..64 {
        match sys::prctl(libc::PR_CAPBSET_DROP, capability) {
            Ok(()) => {}
            // The first number that this kernel does not know.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => break,
            // Without the right to shrink the bounding set there is no privilege to gain by it either:
            // `no_new_privs` follows.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => break,
            Err(error) => return Err(error),
        }
    }
    let header = Header { version: VERSION_3, pid: 0 };
    let none = [Half { effective: 0, permitted: 0, inheritable: 0 }; 2];
    // SAFETY: both pointers have the layout of version 3 and outlive the call.
    sys::check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })?;
    sys::no_new_privileges()
}
