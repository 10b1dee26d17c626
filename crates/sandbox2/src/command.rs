//! Sandboxed commands: builds.
//!
//! The tool's own binary is started as `sandbox-exec SPEC`; it restricts itself and then becomes the command. That
//! keeps everything that must happen between fork and exec out of the caller's process.

use crate::limits::{self, Limits};
use crate::lockdown::{self, LockdownSpec};
use crate::namespaces::{self, NamespaceSpec};
use crate::process::{CapturedChild, Ended, ProcessSpec};
use crate::report::{self, Layers};
use crate::{SandboxError, seccomp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::time::Duration;

/// Exit code of `sandbox-exec` when the command could not be started.
const NOT_STARTED: u8 = 126;
/// Output after which a command is killed, as a multiple of what is kept.
const FLOOD: u64 = 64 << 20;

/// A command to run.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The tool's own binary.
    pub helper: PathBuf,
    /// Program.
    pub program: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Folder it starts in.
    pub cwd: PathBuf,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Files and folders it may read and execute.
    pub read: Vec<PathBuf>,
    /// Folders it may write.
    pub write: Vec<PathBuf>,
    /// When it is killed.
    pub deadline: Duration,
    /// Resource limits.
    pub limits: Limits,
    /// Bytes of each stream that are kept.
    pub output_cap: usize,
}

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutput {
    /// How it ended; `None` when the deadline did.
    pub ended: Option<Ended>,
    /// Beginning of standard output.
    pub stdout: Vec<u8>,
    /// Beginning of standard error.
    pub stderr: Vec<u8>,
    /// Whether the deadline ended it.
    pub timed_out: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Wire {
    program: PathBuf,
    args: Vec<String>,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    limits: Limits,
}

/// Runs a command under Landlock, a system call filter, resource limits and a deadline, in a process group that is
/// killed whole.
///
/// # Errors
/// When it cannot be started.
pub fn run(spec: &CommandSpec) -> Result<RunOutput, SandboxError> {
    let wire = Wire {
        program: spec.program.clone(),
        args: spec.args.clone(),
        read: spec.read.clone(),
        write: spec.write.clone(),
        limits: spec.limits,
    };
    let wire = serde_json::to_string(&wire)
        .map_err(|e| SandboxError::System { what: "encoding the command", source: e.into() })?;
    let mut env = spec.env.clone();
    // Compilers put intermediate files somewhere; the only place they may write is the build folder.
    if let Some(folder) = spec.write.first() {
        env.entry("TMPDIR".into()).or_insert_with(|| folder.to_string_lossy().into_owned());
    }
    let mut child = CapturedChild::spawn(&ProcessSpec {
        program: spec.helper.clone(),
        args: vec!["sandbox-exec".into(), wire],
        env,
        cwd: Some(spec.cwd.clone()),
        flood_limit: Some(FLOOD),
    })?;
    let ended = child.wait(spec.deadline);
    child.end();
    let [mut stdout, mut stderr] = child.output();
    stdout.head.truncate(spec.output_cap);
    stderr.head.truncate(spec.output_cap);
    Ok(RunOutput {
        ended,
        stdout: stdout.head,
        stderr: stderr.head,
        timed_out: ended.is_none(),
    })
}

/// The other side of [`run`] and of [`report::probe`]: what the tool does when it is started as `sandbox-exec`.
/// Returns only when it could not become the command.
#[must_use]
pub fn sandbox_exec_main(arguments: &[String]) -> u8 {
    if arguments.first().is_some_and(|a| a == report::PROBE) {
        return probe();
    }
    let complain = |message: String| {
        let _ = writeln!(std::io::stderr().lock(), "sandbox: {message}");
        NOT_STARTED
    };
    let wire: Wire = match arguments.first().map(|text| serde_json::from_str(text)) {
        Some(Ok(wire)) => wire,
        _ => return complain("no command".into()),
    };
    let restricted = limits::apply(&wire.limits)
        .and_then(|()| lockdown::no_new_privileges())
        .map(|()| lockdown::restrict_files(&wire.read, &wire.write))
        .and_then(|_| seccomp::install_build_filter());
    if let Err(error) = restricted {
        return complain(error.to_string());
    }
    let error = std::process::Command::new(&wire.program).args(&wire.args).exec();
    complain(format!("{}: {error}", wire.program.display()))
}

/// Applies every layer to this process and prints what holds.
fn probe() -> u8 {
    let spec = NamespaceSpec { read: lockdown::system_folders(), devices: true, private_proc: true };
    let namespaces = match namespaces::enter(&spec, |_| {}) {
        Ok(namespaces) => Some(namespaces),
        Err(_) => None,
    };
    let mut layers = Layers::from_namespaces(namespaces.as_ref());
    if let Ok(lockdown) = lockdown::apply(&LockdownSpec { read: lockdown::system_folders(), threads_allowed: true }) {
        layers.add_lockdown(&lockdown);
        let text = serde_json::to_vec(&layers).unwrap_or_default();
        let _ = std::io::stdout().lock().write_all(&text);
        // The listener must stay open until the last refused call, which is none.
        drop(lockdown);
    }
    0
}
