//! Spawning a process that can be bounded and killed as a whole.
#![expect(unsafe_code, reason = "settings between fork and exec")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::bpf::Instruction;
use crate::capture::Drain;
pub use crate::capture::{BoundedCapture, OutputBounds};
use crate::control;
use crate::error::SandboxError;
use crate::seccomp;
use crate::sys;

/// How often a child is looked at where the kernel has no process descriptors.
const LOOK: Duration = Duration::from_millis(2);
/// How long the end of the output may lag behind the end of everybody who could write it.
const OUTPUT_LAG: Duration = Duration::from_secs(1);

/// What to start.
#[derive(Debug)]
pub struct SpawnSpec {
    /// The program.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// Its folder; the caller's if absent.
    pub cwd: Option<PathBuf>,
    /// Its whole environment: nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// Descriptors it inherits under the same numbers; every other one above 2 is closed.
    pub inherit: Vec<OwnedFd>,
    /// What is kept of its output.
    pub output: OutputBounds,
}

/// What a process is confined to between fork and exec. Everything is prepared beforehand: between fork and
/// exec of a process with threads nothing may be allocated.
#[derive(Debug, Default)]
pub(crate) struct Confinement {
    pub(crate) ruleset: Option<OwnedFd>,
    pub(crate) filter: Option<Vec<Instruction>>,
    pub(crate) limits: Vec<(libc::c_int, u64)>,
    /// Whether it dies with the thread that starts it, which must then wait for it.
    pub(crate) dies_with_thread: bool,
}

impl Confinement {
    pub(crate) fn apply(&self) -> io::Result<()> {
        if self.dies_with_thread {
            sys::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
        }
        for (resource, value) in &self.limits {
            sys::set_limit(*resource, *value)?;
        }
        if self.ruleset.is_some() || self.filter.is_some() {
            sys::no_new_privileges()?;
        }
        if let Some(ruleset) = &self.ruleset {
            sys::landlock_restrict(ruleset.as_raw_fd())?;
        }
        if let Some(filter) = &self.filter {
            seccomp::install_program(filter)?;
        }
        Ok(())
    }
}

/// What a wait ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The process ended. Whatever it left in its group has been killed.
    Ended(ExitStatus),
    /// It still runs.
    Deadline,
    /// It still runs and has passed the output bound; reported once.
    Flooded,
}

/// A running process, leader of its own session and group. Dropping it kills the whole group.
#[derive(Debug)]
pub struct Process {
    child: Child,
    descriptor: Option<OwnedFd>,
    stdout: Drain,
    stderr: Drain,
    flood: Option<OwnedFd>,
    ended: Option<ExitStatus>,
}

/// Starts a process with no standard input, an explicit environment, and drained output.
///
/// # Errors
/// [`SandboxError::Spawn`] if the program cannot be executed.
pub fn spawn(spec: SpawnSpec) -> Result<Process, SandboxError> {
    spawn_confined(spec, Confinement::default())
}

pub(crate) fn spawn_confined(spec: SpawnSpec, confinement: Confinement) -> Result<Process, SandboxError> {
    let kept: Vec<libc::c_int> = spec.inherit.iter().map(AsRawFd::as_raw_fd).collect();
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.args)
        .env_clear()
        .envs(&spec.env)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(cwd) = &spec.cwd {
        command.current_dir(cwd);
    }
    let prepare = move || {
        sys::new_session()?;
        // Descriptors of other libraries may lack the mark; kernels without the call leave them to it.
        let _ = sys::close_from(3, true);
        for fd in &kept {
            sys::keep_on_exec(*fd)?;
        }
        confinement.apply()
    };
    // SAFETY: the closure makes plain system calls on prepared data, allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    let (flood, flooded) = sys::pipe().map_err(SandboxError::system("making a pipe"))?;
    let flooded_too = flooded.try_clone().map_err(SandboxError::system("duplicating a pipe"))?;
    let started = command
        .spawn()
        .map_err(|source| SandboxError::Spawn { program: spec.program.display().to_string(), source });
    drop(command);
    let mut child = started?;
    let pipes = (child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from));
    let (Some(stdout), Some(stderr)) = pipes else {
        return Err(abandon(child, "taking the output", io::ErrorKind::BrokenPipe.into()));
    };
    let drains = Drain::start(stdout, spec.output, flooded, None)
        .and_then(|stdout| Ok((stdout, Drain::start(stderr, spec.output, flooded_too, None)?)));
    let (stdout, stderr) = match drains {
        Ok(drains) => drains,
        Err(error) => return Err(abandon(child, "starting a thread", error)),
    };
    let descriptor = sys::pidfd_open(child.id().cast_signed()).ok();
    Ok(Process { child, descriptor, stdout, stderr, flood: Some(flood), ended: None })
}

fn abandon(mut child: Child, operation: &'static str, source: io::Error) -> SandboxError {
    let _ = control::kill_group(child.id().cast_signed());
    let _ = child.wait();
    SandboxError::System { operation, source }
}

impl Process {
    /// The process id, which is also that of its group and session.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn leader(&self) -> libc::pid_t {
        self.child.id().cast_signed()
    }

    /// Waits until the process ends, the deadline passes, or its output floods.
    ///
    /// # Errors
    /// The system's answer.
    pub fn wait_deadline(&mut self, deadline: Instant) -> Result<Waited, SandboxError> {
        loop {
            if let Some(status) = self.reap_if_ended()? {
                return Ok(Waited::Ended(status));
            }
            if self.flooded_now() {
                return Ok(Waited::Flooded);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Waited::Deadline);
            }
            let mut watched = Vec::new();
            watched.extend(self.descriptor.as_ref().map(AsFd::as_fd));
            watched.extend(self.flood.as_ref().map(AsFd::as_fd));
            let limit = if self.descriptor.is_some() { left } else { left.min(LOOK) };
            sys::poll(&watched, Some(limit)).map_err(SandboxError::system("waiting for a process"))?;
        }
    }

    /// Whether the output has passed its bound since the last question.
    fn flooded_now(&mut self) -> bool {
        let Some(flood) = &self.flood else { return false };
        match sys::poll(&[flood.as_fd()], Some(Duration::ZERO)) {
            Ok(seen) if seen[0] & libc::POLLIN != 0 => {
                self.flood = None;
                true
            }
            Ok(seen) => {
                // Hung up without a byte: both streams ended within the bound.
                if seen[0] != 0 {
                    self.flood = None;
                }
                false
            }
            Err(_) => false,
        }
    }

    fn reap_if_ended(&mut self) -> Result<Option<ExitStatus>, SandboxError> {
        if self.ended.is_none() {
            let ended =
                sys::has_ended(self.leader()).map_err(SandboxError::system("looking at a process"))?;
            if ended {
                // While the leader is a zombie its group's id cannot be reused.
                let _ = control::kill_group(self.leader());
                let status = self.child.wait().map_err(SandboxError::system("reaping a process"))?;
                self.ended = Some(status);
            }
        }
        Ok(self.ended)
    }

    /// Kills the process, its group, and its descendants elsewhere, and reaps it. What has itself been
    /// handed to another parent in another session is not found; in a pid namespace nothing escapes, and
    /// the filter of a build forbids leaving the session.
    ///
    /// # Errors
    /// The system's answer.
    pub fn kill_tree(&mut self) -> Result<ExitStatus, SandboxError> {
        if let Some(status) = self.ended {
            return Ok(status);
        }
        control::kill_tree(self.leader()).map_err(SandboxError::system("killing a process group"))?;
        let status = self.child.wait().map_err(SandboxError::system("reaping a process"))?;
        self.ended = Some(status);
        Ok(status)
    }

    /// Asks it to end, and waits for nothing: a reaper takes everything below it along. Dropping it kills whatever is left then,
    /// and waits.
    pub fn dismiss(&self) {
        if self.ended.is_none() {
            // Whoever waits for it kills it.
            let _ = control::ask_to_end(self.leader());
        }
    }

    /// What it has printed so far: (standard output, standard error).
    #[must_use]
    pub fn output(&self) -> (BoundedCapture, BoundedCapture) {
        (self.stdout.seen(), self.stderr.seen())
    }

    /// All that it printed, once it has ended: waits for the end of both streams, at most a second.
    #[must_use]
    pub fn final_output(&self) -> (BoundedCapture, BoundedCapture) {
        let started = Instant::now();
        while !(self.stdout.is_finished() && self.stderr.is_finished()) && started.elapsed() < OUTPUT_LAG {
            std::thread::sleep(Duration::from_micros(200));
        }
        self.output()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.kill_tree();
    }
}
