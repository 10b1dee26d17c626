//! One sandboxed command with an end: builds and the tools around them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::SandboxError;
use crate::fences;
use crate::limits::Limits;
use crate::policy;
use crate::process::{self, BoundedCapture, Confinement, OutputBounds, SpawnSpec, Waited};
use crate::report::LayerState;
use crate::seccomp;

/// What to run, and what it may touch.
#[derive(Debug, Clone)]
pub struct CommandSpec {
    /// The program, by path.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// Its folder.
    pub cwd: PathBuf,
    /// Its whole environment; `TMPDIR` is added.
    pub env: BTreeMap<OsString, OsString>,
    /// Paths beneath which it may read and execute.
    pub read: Vec<PathBuf>,
    /// Paths beneath which it may also write.
    pub write: Vec<PathBuf>,
    /// Where its private temporary folder is made, and removed afterwards.
    pub scratch: PathBuf,
    /// How long it may take, with everything it starts.
    pub deadline: Duration,
    /// Its resource limits.
    pub limits: Limits,
    /// Bytes kept of each output stream.
    pub output_cap: usize,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signalled(i32),
    /// The deadline passed; everything it had started was killed.
    DeadlinePassed,
    /// It printed without end and was killed.
    Flooded,
}

impl Ended {
    /// Whether it exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Exited(0)
    }
}

/// What was in force while a command ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLayers {
    /// The filesystem rules.
    pub landlock: LayerState,
    /// The system-call filter; with it there is no network.
    pub seccomp: LayerState,
    /// The resource limits.
    pub rlimits: LayerState,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOutput {
    /// How it ended.
    pub ended: Ended,
    /// Its standard output.
    pub stdout: BoundedCapture,
    /// Its standard error.
    pub stderr: BoundedCapture,
    /// From its start to the end of the last of its processes.
    pub wall: Duration,
    /// What was in force.
    pub layers: CommandLayers,
}

/// What a compiler driver of the system reads. Add the workspace, and toolkits outside these paths.
///
/// `/proc/self` is left out on purpose: the rules are made before the command exists, so it would be the
/// caller's own folder that they open.
#[must_use]
pub fn toolchain_reads() -> Vec<PathBuf> {
    [
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/bin",
        "/sbin",
        "/etc/alternatives",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/localtime",
        "/dev/urandom",
        "/dev/zero",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/sys/devices/system/cpu",
    ]
    .map(PathBuf::from)
    .to_vec()
}

/// A folder of its own for one command, removed with everything in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make(parent: &Path) -> io::Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        loop {
            let moment = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
            let count = COUNTER.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("kernelseek-{}-{count}-{moment:08x}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays: it is a temporary folder.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What this machine can put in force for a command, and the confinement that does it.
fn confine(
    read: &[PathBuf],
    write: &[PathBuf],
    limits: &Limits,
) -> Result<(Confinement, CommandLayers), SandboxError> {
    let fence = fences::build(read, write)?;
    let filter = seccomp::unsupervised(&policy::build(fence.signals))?;
    let (filter, seccomp) = match seccomp::available() {
        Ok(()) => (Some(filter), LayerState::Enforced),
        Err(error) => (None, LayerState::Unavailable(error.to_string())),
    };
    let confinement = Confinement {
        ruleset: fence.ruleset,
        filter,
        limits: limits.entries().map(|(_, resource, value)| (resource, value)).collect(),
        dies_with_thread: true,
    };
    // A limit that cannot be set makes the start fail, so what runs is limited.
    let layers = CommandLayers { landlock: fence.state, seccomp, rlimits: LayerState::Enforced };
    Ok((confinement, layers))
}

/// Runs a command in a session of its own, without network, reading and writing only where it may, and
/// returns once it and everything it started has ended.
///
/// # Errors
/// If it cannot be started, or the sandbox cannot be prepared. A command that fails is not an error.
pub fn run(spec: &CommandSpec) -> Result<RunOutput, SandboxError> {
    let scratch = Scratch::make(&spec.scratch).map_err(SandboxError::system("making a temporary folder"))?;
    let mut write = spec.write.clone();
    write.extend([scratch.0.clone(), PathBuf::from("/dev/null")]);
    let (confinement, layers) = confine(&spec.read, &write, &spec.limits)?;
    let mut env = spec.env.clone();
    env.insert("TMPDIR".into(), scratch.0.clone().into_os_string());

    let started = Instant::now();
    let deadline = started + spec.deadline;
    let mut process = process::spawn_confined(
        SpawnSpec {
            program: spec.program.clone(),
            args: spec.args.clone(),
            cwd: Some(spec.cwd.clone()),
            env,
            inherit: Vec::new(),
            output: OutputBounds { head: spec.output_cap, ..OutputBounds::default() },
        },
        confinement,
    )?;
    let ended = match process.wait_deadline(deadline)? {
        Waited::Ended(status) => ended(status),
        Waited::Deadline => {
            process.kill_tree()?;
            Ended::DeadlinePassed
        }
        Waited::Flooded => {
            process.kill_tree()?;
            Ended::Flooded
        }
    };
    let wall = started.elapsed();
    let (stdout, stderr) = process.final_output();
    Ok(RunOutput { ended, stdout, stderr, wall, layers })
}

fn ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, Some(signal)) => Ended::Signalled(signal),
        // Neither exists only for a stopped process, which a wait does not return.
        (None, None) => Ended::Exited(-1),
    }
}
