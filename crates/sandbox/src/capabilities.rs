//! Giving privileges up, for good.
#![expect(unsafe_code, reason = "capget(2) and capset(2) have no safe wrapper")]

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
    keep_only(0)
}

/// Takes away every capability that is not in the set (bit n for capability n), in all five sets, and
/// forbids gaining privileges on exec; with that, a root user's programs do not get them back either.
pub(crate) fn keep_only(keep: u64) -> io::Result<()> {
    // Kernels without ambient capabilities have none to clear.
    let _ = sys::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL as libc::c_ulong);
    for capability in (0..64).filter(|number| keep >> number & 1 == 0) {
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
    let mut halves = [Half { effective: 0, permitted: 0, inheritable: 0 }; 2];
    if keep != 0 {
        // SAFETY: both pointers have the layout of version 3 and outlive the call.
        sys::check(unsafe { libc::syscall(libc::SYS_capget, &raw const header, halves.as_mut_ptr()) })?;
        for (half, kept) in halves.iter_mut().zip([keep as u32, (keep >> 32) as u32]) {
            half.permitted &= kept;
            half.effective &= half.permitted;
            half.inheritable = 0;
        }
    }
    // SAFETY: both pointers have the layout of version 3 and outlive the call.
    sys::check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, halves.as_ptr()) })?;
    sys::no_new_privileges()
}
