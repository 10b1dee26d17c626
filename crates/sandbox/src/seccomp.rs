//! Installs a filter, with a listener where the kernel offers one.
#![expect(unsafe_code, reason = "seccomp(2) has no safe wrapper")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::bpf::{Answering, Instruction, Policy, compile};
use crate::error::SandboxError;
use crate::sys;

/// What came of an installation.
#[derive(Debug)]
pub(crate) enum Installed {
    /// Denied calls go to this listener.
    Supervised(OwnedFd),
    /// Denied calls fail without a record, for the reason named.
    Alone(String),
    /// No filter is in force, for the reason named.
    Not(String),
}

// By default a filter switches the speculation mitigations of older kernels on, which slows every load of
// the process down. The kernel of such a process would be timed with a handicap that nobody else has.
const KEEP_SPECULATION: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
// The two flags together exist since Linux 5.7, so that letting a judged call continue (5.5) works too.
const LISTENER: libc::c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
    | libc::SECCOMP_FILTER_FLAG_TSYNC
    | libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH;

fn set_filter(code: &[Instruction], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let program = program(code)?;
    // SAFETY: `program` points to `code`, which outlives the call; an instruction has the kernel's layout.
    sys::check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })
}

fn program(code: &[Instruction]) -> io::Result<libc::sock_fprog> {
    let len = u16::try_from(code.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // The kernel only reads through the pointer.
    Ok(libc::sock_fprog { len, filter: code.as_ptr().cast_mut().cast() })
}

/// Installs a prepared program on the calling thread; safe between fork and exec.
pub(crate) fn install_program(code: &[Instruction]) -> io::Result<()> {
    set_filter(code, KEEP_SPECULATION).map(drop)
}

/// The program of a policy that nobody supervises.
pub(crate) fn unsupervised(policy: &Policy) -> Result<Vec<Instruction>, SandboxError> {
    assemble(policy, Answering::Kernel)
}

fn assemble(policy: &Policy, answering: Answering) -> Result<Vec<Instruction>, SandboxError> {
    compile(policy, answering).ok_or_else(|| SandboxError::System {
        operation: "assembling the system-call filter",
        source: io::Error::from(io::ErrorKind::InvalidInput),
    })
}

/// Installs the policy on every thread of the process. `no_new_privs` must be set.
pub(crate) fn install(policy: &Policy) -> Result<Installed, SandboxError> {
    let no_listener = match set_filter(&assemble(policy, Answering::Supervisor)?, LISTENER | KEEP_SPECULATION)
    {
        Ok(fd) => {
            // SAFETY: the call just returned this descriptor and nobody else owns it.
            let listener = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
            return Ok(Installed::Supervised(listener));
        }
        // `EBUSY`: a filter of the container around us has a listener already, and there can be only one.
        Err(error) => error.to_string(),
    };
    let alone = assemble(policy, Answering::Kernel)?;
    match set_filter(&alone, libc::SECCOMP_FILTER_FLAG_TSYNC | KEEP_SPECULATION) {
        Ok(0) => Ok(Installed::Alone(no_listener)),
        // Without the flag of 5.7 a thread that cannot follow is answered by its id.
        Ok(thread) => Ok(Installed::Not(format!("thread {thread} cannot take the filter"))),
        Err(error) => Ok(Installed::Not(error.to_string())),
    }
}

/// Whether the kernel takes filters at all.
pub(crate) fn available() -> io::Result<()> {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the pointer outlives the call.
    sys::check(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action)
    })
    .map(drop)
}
