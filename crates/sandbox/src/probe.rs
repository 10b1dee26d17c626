//! What this machine can enforce, found by doing it in a throwaway process.
#![expect(unsafe_code, reason = "fork(2) has no safe wrapper in the standard library")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::error::SandboxError;
use crate::limits::{self, Limits};
use crate::lockdown::{self, LockdownSpec};
use crate::namespaces::{self, NamespaceSpec};
use crate::report::Layers;
use crate::sys;

/// How long the throwaway process may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Enters every layer in a throwaway process, as a worker would, and returns what held there.
///
/// # Errors
/// If the process cannot be made or does not answer within five seconds.
pub fn probe() -> Result<Layers, SandboxError> {
    let (answer, report) = sys::pipe().map_err(SandboxError::system("making a pipe"))?;
    // SAFETY: the child allocates, which the C library keeps possible after a fork, takes no other lock of
    // this process, and ends without returning.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(SandboxError::last("splitting the process"));
    }
    if child == 0 {
        drop(answer);
        // A panic must not unwind into the copy of the caller.
        let done = catch_unwind(AssertUnwindSafe(|| measure(report)));
        let code = if matches!(done, Ok(Ok(()))) { 0 } else { 1 };
        // SAFETY: never returns, runs no handlers.
        unsafe { libc::_exit(code) };
    }
    drop(report);
    let text = read_within(answer, PATIENCE);
    // Once it has reported it ends by itself, after what it started; killed, it could not reap that.
    let started = Instant::now();
    while started.elapsed() < PATIENCE && sys::has_ended(child).is_ok_and(|ended| !ended) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let _ = sys::kill(child, libc::SIGKILL);
    // SAFETY: a null status pointer is allowed; the child is ours and killed.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    serde_json::from_slice(&text).map_err(|_| SandboxError::NoReport)
}

fn measure(report: OwnedFd) -> Result<(), SandboxError> {
    let read = lockdown::runtime_reads();
    let world = NamespaceSpec { read: read.clone(), devices: false, private_proc: true, enabled: true };
    let namespaces = namespaces::enter(&world, |_| {})?;
    let rlimits = limits::apply(&Limits { open_files: Some(64), ..Limits::default() });
    let locked = lockdown::apply(&LockdownSpec { read, threads_allowed: true, devices: false })?;
    let layers = Layers::of(&namespaces, rlimits, &locked);
    let text = serde_json::to_vec(&layers).map_err(|_| SandboxError::NoReport)?;
    File::from(report).write_all(&text).map_err(SandboxError::system("reporting"))
}

fn read_within(pipe: OwnedFd, limit: Duration) -> Vec<u8> {
    let deadline = Instant::now() + limit;
    let mut pipe = File::from(pipe);
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match sys::poll(&[pipe.as_fd()], Some(left)) {
            Ok(seen) if seen[0] != 0 => {}
            Ok(_) if !left.is_zero() => continue,
            _ => return text,
        }
        match pipe.read(&mut buffer) {
            Ok(count) if count > 0 => text.extend_from_slice(&buffer[..count]),
            _ => return text,
        }
    }
}
