//! The first step of a worker: a world of its own, and a reaper outside it.
#![expect(unsafe_code, reason = "unshare(2) and fork(2) have no safe wrapper in the standard library")]

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::capabilities;
use crate::error::SandboxError;
use crate::mounts::{self, View};
use crate::reaper;
use crate::report::LayerState;
use crate::sys;

/// What the worker's world holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSpec {
    /// Paths shown read-only where they are; those that do not exist are left out.
    pub read: Vec<PathBuf>,
    /// Whether GPU device files are shown.
    pub devices: bool,
    /// Whether a `/proc` is shown: one of its own where the machine allows.
    pub private_proc: bool,
    /// `false` leaves every namespace out and says so: for machines where they do harm, and for tests.
    pub enabled: bool,
}

/// What holds, by name: `user`, `mount`, `pid`, `net`, `ipc`, `uts`, `filesystem`, `proc`, `capabilities`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    /// In that order; `filesystem` and `proc` only where they were attempted.
    pub layers: Vec<(String, LayerState)>,
}

const KINDS: &[(&str, libc::c_int)] = &[
    ("user", libc::CLONE_NEWUSER),
    ("mount", libc::CLONE_NEWNS),
    ("pid", libc::CLONE_NEWPID),
    ("net", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
    ("uts", libc::CLONE_NEWUTS),
];

/// Moves the calling process, which must have a single thread, into its own world.
///
/// The process splits: the parent stays outside as a **reaper** that calls `report_pid` with the id by
/// which the supervisor knows the worker, waits, ends as the worker ended (same exit code, same signal),
/// kills the worker when the supervisor dies, and never returns from here. The child returns, after
/// `report_pid` has, as the worker: in a pid namespace where there is one, without any capability.
/// `report_pid` runs in the reaper, which then closes all of its descriptors.
///
/// # Errors
/// Only if the process cannot be split. What the machine does not allow is a state in the answer.
pub fn enter(spec: &NamespaceSpec, report_pid: impl FnOnce(u32)) -> Result<Namespaces, SandboxError> {
    // SAFETY: no arguments.
    let (user, group, supervisor) = unsafe { (libc::geteuid(), libc::getegid(), libc::getppid()) };
    let mut layers = if spec.enabled {
        unshare_all(user, group)
    } else {
        let off = LayerState::Unavailable("switched off".to_owned());
        KINDS.iter().map(|(name, _)| ((*name).to_owned(), off.clone())).collect()
    };
    let holds = |layers: &[(String, LayerState)], name: &str| {
        layers.iter().any(|(known, state)| known == name && !state.is_unavailable())
    };
    let own_pids = holds(&layers, "pid");
    let own_mounts = holds(&layers, "mount");

    let barrier = sys::pipe().map_err(SandboxError::system("making a pipe"))?;
    if let Split::Parent { init, worker } = split(own_pids)? {
        // The worker must see the end of the pipe if the reaper dies.
        let (wait, go) = barrier;
        drop(wait);
        report_pid(worker.unsigned_abs());
        let released = File::from(go).write_all(&[1]);
        reaper::reap(worker, init, supervisor, released.is_err());
    }
    wait_for_release(barrier)?;

    if own_mounts {
        let view =
            View { read: &spec.read, devices: spec.devices, private_proc: spec.private_proc, own_pids };
        layers.extend(mounts::replace_root(&view));
    }
    let dropped = match capabilities::drop_all() {
        Ok(()) => LayerState::Enforced,
        Err(error) => LayerState::Unavailable(error.to_string()),
    };
    layers.push(("capabilities".to_owned(), dropped));
    // A change of credentials clears this setting, so it comes after all of them.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(SandboxError::system("asking to die with the reaper"))?;
    Ok(Namespaces { layers })
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: a plain integer; it changes the world of this process only.
    sys::check(unsafe { libc::unshare(flags) }.into()).map(drop)
}

fn unshare_all(user: libc::uid_t, group: libc::gid_t) -> Vec<(String, LayerState)> {
    let all = KINDS.iter().fold(0, |flags, (_, flag)| flags | flag);
    let together = unshare(all);
    KINDS
        .iter()
        .map(|&(name, flag)| {
            let state = match &together {
                Ok(()) if flag == libc::CLONE_NEWUSER => match map_ids(user, group) {
                    Ok(()) => LayerState::Enforced,
                    Err(error) => LayerState::Partial(format!("ids are not mapped: {error}")),
                },
                Ok(()) => LayerState::Enforced,
                // A user namespace alone, without the rights that should come with it, protects nothing.
                Err(error) if flag == libc::CLONE_NEWUSER => LayerState::Unavailable(error.to_string()),
                Err(_) => match unshare(flag) {
                    Ok(()) => LayerState::Enforced,
                    Err(error) => LayerState::Unavailable(error.to_string()),
                },
            };
            (name.to_owned(), state)
        })
        .collect()
}

/// Maps the caller's own ids to 0, so that it may mount.
fn map_ids(user: libc::uid_t, group: libc::gid_t) -> io::Result<()> {
    let write = |path: &str, text: &str| File::options().write(true).open(path)?.write_all(text.as_bytes());
    // Refused group changes are the price of mapping a group without privileges.
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("0 {user} 1"))?;
    write("/proc/self/gid_map", &format!("0 {group} 1"))
}

enum Split {
    Parent { init: Option<libc::pid_t>, worker: libc::pid_t },
    Worker,
}

fn fork() -> Result<libc::pid_t, SandboxError> {
    // SAFETY: the process has a single thread, so the child has every lock in a usable state.
    let pid = unsafe { libc::fork() };
    if pid < 0 { Err(SandboxError::last("splitting the process")) } else { Ok(pid) }
}

fn split(own_pids: bool) -> Result<Split, SandboxError> {
    // The first process of a pid namespace ignores most signals, `abort` included, so it is not the worker:
    // it only holds the namespace, and everything in it dies with it.
    let init = if own_pids {
        match fork()? {
            0 => reaper::hold_namespace(),
            pid => Some(pid),
        }
    } else {
        None
    };
    match fork() {
        Ok(0) => Ok(Split::Worker),
        Ok(worker) => Ok(Split::Parent { init, worker }),
        Err(error) => {
            if let Some(init) = init {
                let _ = sys::kill(init, libc::SIGKILL);
            }
            Err(error)
        }
    }
}

fn wait_for_release((wait, go): (OwnedFd, OwnedFd)) -> Result<(), SandboxError> {
    drop(go);
    // Until the final setting, which comes after the credentials have changed.
    sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)
        .map_err(SandboxError::system("asking to die with the reaper"))?;
    let mut byte = [0];
    File::from(wait).read_exact(&mut byte).map_err(SandboxError::system("waiting for the reaper"))
}
