//! The fence around a coding agent: it may do nearly everything, except change what the supervisor owns.
//!
//! An agent is not a candidate. It reads, executes, compiles, debugs, and talks to its model over the
//! network; only what it may *write* is a short list, and only processes outside are out of its reach. The
//! socket of the supervisor may stand in a protected folder: connecting to it is not writing.
//!
//! # What each layer stops
//!
//! | layer | stops |
//! |---|---|
//! | Landlock, files | opening for writing, truncating, making, linking, renaming, removing outside the list; mounting anything anywhere, in a new namespace too; making device files, and writing to disks and memory through those that exist |
//! | Landlock, processes | `ptrace`, `process_vm_*`, `pidfd_getfd`, and under `/proc/PID` of processes outside: `mem`, `fd`, `root`, `cwd`, `environ`; for a root user too |
//! | Landlock, scopes (interface 6) | signals to processes outside, abstract sockets of theirs |
//! | system-call filter | input typed into a terminal (`TIOCSTI`), resource limits of other processes |
//! | privileges | for a root user: modules, kernel programs, clocks, opening files by handle, raw input and output |
//! | keeper | processes that outlive the agent |
//!
//! # What remains
//!
//! * *Metadata.* Mode, owner, times and extended attributes are not covered by Landlock: an agent of the
//!   same user can make a protected file unreadable. Its bytes stay as they are, and the supervisor notices.
//! * *Locks and leases.* A file that can be read can be locked for reading, which makes a writer wait.
//! * *Scheduling.* Priority and processor affinity of other processes of the same user can be changed while
//!   the agent runs, those of workers too (a root user's agent is stopped by what it lacks in privileges).
//!   What counts is measured after it has left.
//! * *Services that act on request.* A process outside that does what it is told over a pathname socket or
//!   the network does it outside the fence: a container daemon, a user's service manager, a terminal
//!   multiplexer, a shell server. Interface 7 cannot tell one such socket from another.
//! * *Reading.* Everything that the user may read is read: secrets belong in memory, not in files,
//!   arguments or the environment of a process that is not [shielded](shield).
//! * *Whatever else lies beneath the list.* A folder for temporary files that the supervisor shares with the
//!   agent is not protected. Give the agent one of its own. Descriptors passed as its standard streams keep
//!   the rights they were opened with.
//! * *Filling the disk, the memory, the process table.*
//!
//! Consequences for the agent: no program gains privileges (`sudo` fails), sandboxes that mount (bubblewrap)
//! fail, those that use Landlock or seccomp work; 32-bit programs are killed; as a root user, tools that need
//! administrator rights (system-wide profilers) fail as they would for any other user.
#![expect(unsafe_code, reason = "fork(2) has no safe wrapper in the standard library")]

mod calls;
mod fence;
mod interrupts;
mod keeper;
mod layers;
mod paths;
mod terminal;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::capture::Drain;
pub use crate::capture::{BoundedCapture, OutputBounds, Tee};
use crate::error::SandboxError;
use crate::process::Confinement;
pub use crate::process::Waited;
use crate::report::LayerState;
use crate::seccomp;
use crate::sys;
use fence::AgentFence;
pub use interrupts::{InterruptWatch, Interrupts};
use keeper::{Plan, Record};
pub use layers::AgentLayers;
use terminal::Terminal;

/// How long [`Agent::leave`] waits for the last process.
pub const LEAVE_LIMIT: Duration = Duration::from_secs(10);
/// How long a start may take.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long the end of the output may lag behind the end of everybody who could write it.
const OUTPUT_LAG: Duration = Duration::from_secs(1);

/// Where an agent's standard streams go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentStdio {
    /// The supervisor's own: a person watches and types. The agent stays in the session and the group in
    /// front of the terminal, so that Ctrl-C reaches it; it reaches the supervisor too, which has to ignore it
    /// meanwhile with [`Interrupts`] (the agent does not inherit that). [`Agent::leave`] puts the terminal back as it was.
    Inherit,
    /// No input, a session of its own, output kept within these bounds.
    Captured(OutputBounds),
}

/// What to start, and what it may change.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    /// The program: a path, or a name that is looked for in the `PATH` of `env`.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<OsString>,
    /// Its folder.
    pub cwd: PathBuf,
    /// Its whole environment: nothing is inherited.
    pub env: BTreeMap<OsString, OsString>,
    /// Paths beneath which it may write: workspace, temporary folder of its own, its configuration, devices
    /// it drives. They must exist. Terminals, `/dev/null` and its like, and `/dev/shm` are added.
    pub write: Vec<PathBuf>,
    /// What must stay as it is: the state folder, the supervisor's program. Nothing in `write` may reach them,
    /// by whatever name.
    pub protect: Vec<PathBuf>,
    /// Where its standard streams go.
    pub stdio: AgentStdio,
    /// Takes its standard output as it comes, in pieces; only where it is captured.
    pub tee: Option<Tee>,
}

/// A running agent with all that it has started. Dropping it ends them, as does the death of the supervisor.
#[derive(Debug)]
pub struct Agent {
    pid: u32,
    /// Absent once it has been reaped.
    keeper: Option<libc::pid_t>,
    layers: AgentLayers,
    orders: File,
    reports: File,
    output: Option<(Drain, Drain)>,
    flood: Option<OwnedFd>,
    ended: Option<ExitStatus>,
    left: Option<usize>,
    terminal: Option<Terminal>,
}

/// Keeps other processes of the same user from reading this one's memory, descriptors and environment and
/// from tracing it, by making it undumpable: for the supervisor, before it holds secrets.
///
/// Landlock stops an agent already. This is for everybody else, and for machines without Landlock. It does
/// *not* stop a root user who may trace others; an agent started here may not, but other processes of root
/// may. The process leaves no core dumps, and a copy of it that enters a user namespace without an exec, as
/// [`probe`](crate::probe::probe) does, is refused: probe first. Programs started later are not affected.
///
/// # Errors
/// The system's answer.
pub fn shield() -> Result<(), SandboxError> {
    sys::prctl(libc::PR_SET_DUMPABLE, 0).map_err(SandboxError::system("making the process undumpable"))
}

/// Starts an agent inside the fence. What the machine lacks is a state in [`Agent::layers`], not an error.
///
/// The calling process is split: it must not hold a lock that allocating needs, and descriptors that must not
/// outlive it have to be close-on-exec, as those of the standard library are.
///
/// # Errors
/// [`SandboxError::Overlap`] and [`SandboxError::Linked`] if a path in `write` reaches a protected one, or the
/// other way round; [`SandboxError::Path`] if one does not exist; [`SandboxError::Spawn`] if the program
/// cannot be executed.
pub fn start(spec: AgentSpec) -> Result<Agent, SandboxError> {
    start_under(spec, i64::MAX)
}

/// Starts it as if the kernel's Landlock interface were no newer than this.
fn start_under(spec: AgentSpec, newest: i64) -> Result<Agent, SandboxError> {
    let checked = paths::check(&spec.write, fence::DEVICES, &spec.protect)?;
    let fence = fence::build(&checked.write, newest)?;
    let filter = seccomp::unsupervised(&calls::policy())?;
    let (filter, seccomp) = match seccomp::available() {
        Ok(()) => (Some(filter), LayerState::Enforced),
        Err(error) => (None, LayerState::Unavailable(error.to_string())),
    };
    let AgentFence { keeper, agent, landlock, ptrace, signals, abstract_sockets } = fence;
    let mut layers = AgentLayers {
        landlock: landlock.with_gaps(&checked.gaps),
        ptrace,
        signals,
        abstract_sockets,
        seccomp,
        // Both are known once the keeper has reported.
        privileges: LayerState::Enforced,
        leaving: LayerState::Enforced,
    };
    let confinement = Confinement { ruleset: agent, filter, limits: Vec::new(), dies_with_thread: true };
    let (command, streams) = command(&spec, confinement)?;
    let terminal = match spec.stdio {
        AgentStdio::Inherit => Terminal::remember(),
        AgentStdio::Captured(_) => None,
    };

    let pipe = || sys::pipe().map_err(SandboxError::system("making a pipe"));
    let ((orders, order), (reports, report)) = (pipe()?, pipe()?);
    let plan = Plan { command, domain: keeper, orders, reports: report, supervisor: sys::own_pid() };
    // SAFETY: the child allocates, which the C library keeps possible after a fork, takes no other lock of
    // this process, and ends without returning.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(SandboxError::last("splitting the process"));
    }
    if child == 0 {
        keeper::run(plan);
    }
    // With it go our copies of the agent's ends of the pipes.
    drop(plan);
    let mut started = Agent {
        pid: 0,
        keeper: Some(child),
        layers: layers.clone(),
        orders: order.into(),
        reports: reports.into(),
        output: None,
        flood: None,
        ended: None,
        left: None,
        terminal,
    };
    started.pid = started.first_records(&mut layers, &spec.program)?;
    started.layers = layers;
    if let (AgentStdio::Captured(bounds), Some((stdout, stderr))) = (spec.stdio, streams) {
        let (flood, flooded) = pipe()?;
        let drains = flooded.try_clone().and_then(|too| {
            Ok((Drain::start(stdout, bounds, flooded, spec.tee)?, Drain::start(stderr, bounds, too, None)?))
        });
        started.output = Some(drains.map_err(SandboxError::system("draining the output"))?);
        started.flood = Some(flood);
    }
    Ok(started)
}

type Streams = Option<(OwnedFd, OwnedFd)>;

/// The agent as the keeper will start it, and our ends of its output.
fn command(spec: &AgentSpec, confinement: Confinement) -> Result<(Command, Streams), SandboxError> {
    let mut command = Command::new(&spec.program);
    command.args(&spec.args).env_clear().envs(&spec.env).current_dir(&spec.cwd);
    let captured = matches!(spec.stdio, AgentStdio::Captured(_));
    let mut streams = None;
    if captured {
        let pipe = || sys::pipe().map_err(SandboxError::system("making a pipe"));
        let ((stdout, out), (stderr, err)) = (pipe()?, pipe()?);
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        streams = Some((stdout, stderr));
    }
    let prepare = move || {
        if captured {
            sys::new_session()?;
        }
        // Descriptors of other libraries may lack the mark; kernels without the call leave them to it.
        let _ = sys::close_from(3, true);
        sys::default_signals();
        confinement.apply()
    };
    // SAFETY: the closure makes plain system calls on prepared data, allocates nothing and takes no lock.
    unsafe { command.pre_exec(prepare) };
    Ok((command, streams))
}

impl Agent {
    /// Reads up to the start of the agent; returns its id.
    fn first_records(
        &mut self,
        layers: &mut AgentLayers,
        program: &std::path::Path,
    ) -> Result<u32, SandboxError> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            match self.record(deadline.saturating_duration_since(Instant::now()))? {
                Some(Record::Confined(true)) => {}
                Some(Record::Confined(false)) => {
                    let gap = "processes are ended one by one, and the agent can end the one that finds them";
                    layers.leaving = LayerState::Partial(gap.to_owned());
                }
                Some(Record::Privileges(0)) => {}
                Some(Record::Privileges(error)) => {
                    let reason = io::Error::from_raw_os_error(error).to_string();
                    layers.privileges = LayerState::Unavailable(reason);
                }
                Some(Record::Started(pid)) => return Ok(pid.unsigned_abs()),
                Some(Record::Failed(error)) => {
                    let source = io::Error::from_raw_os_error(error);
                    return Err(SandboxError::Spawn { program: program.display().to_string(), source });
                }
                Some(Record::Ended(_) | Record::Left(_)) => return Err(SandboxError::KeeperLost),
                None if Instant::now() < deadline => {}
                None => {
                    let source = io::ErrorKind::TimedOut.into();
                    return Err(SandboxError::Spawn { program: program.display().to_string(), source });
                }
            }
        }
    }

    /// The agent's own process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What is in force around it.
    #[must_use]
    pub fn layers(&self) -> &AgentLayers {
        &self.layers
    }

    /// The next record, if one arrives within the limit.
    fn record(&mut self, limit: Duration) -> Result<Option<Record>, SandboxError> {
        let seen = sys::poll(&[self.reports.as_fd()], Some(limit))
            .map_err(SandboxError::system("waiting for an agent"))?;
        if seen[0] == 0 {
            return Ok(None);
        }
        let mut bytes = [0; keeper::RECORD];
        self.reports.read_exact(&mut bytes).map_err(|_| SandboxError::KeeperLost)?;
        Record::decode(bytes).map(Some).ok_or(SandboxError::KeeperLost)
    }

    fn note(&mut self, record: Record) {
        match record {
            Record::Ended(status) => self.ended = Some(ExitStatus::from_raw(status)),
            Record::Left(alive) => self.left = Some(usize::try_from(alive).unwrap_or(0)),
            _ => {}
        }
    }

    /// Waits until the agent itself ends, the deadline passes, or its output floods (reported once). What it
    /// has started may still run then: only [`Agent::leave`] ends that.
    ///
    /// # Errors
    /// [`SandboxError::KeeperLost`], or the system's answer.
    pub fn wait_deadline(&mut self, deadline: Instant) -> Result<Waited, SandboxError> {
        loop {
            if let Some(status) = self.ended {
                return Ok(Waited::Ended(status));
            }
            if self.flooded_now() {
                return Ok(Waited::Flooded);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let mut watched = vec![self.reports.as_fd()];
            watched.extend(self.flood.as_ref().map(AsFd::as_fd));
            let seen =
                sys::poll(&watched, Some(left)).map_err(SandboxError::system("waiting for an agent"))?;
            if seen[0] != 0 {
                if let Some(record) = self.record(Duration::ZERO)? {
                    self.note(record);
                }
            } else if left.is_zero() {
                return Ok(Waited::Deadline);
            }
        }
    }

    /// Whether the output has passed its bound since the last question.
    fn flooded_now(&mut self) -> bool {
        let Some(flood) = &self.flood else { return false };
        match sys::poll(&[flood.as_fd()], Some(Duration::ZERO)) {
            Ok(seen) if seen[0] != 0 => {
                // Hung up without a byte: both streams ended within the bound.
                self.flood = None;
                seen[0] & libc::POLLIN != 0
            }
            _ => false,
        }
    }

    /// Ends the agent and everything that it ever started, and returns once nobody is left: how many were
    /// alive when it was called. A second call returns the same.
    ///
    /// # Errors
    /// [`SandboxError::NotLeft`] if somebody still runs after [`LEAVE_LIMIT`]; it may be called again.
    /// [`SandboxError::KeeperLost`] if the process that finds them has itself been ended. After either, the
    /// agent must be taken to be still at work.
    pub fn leave(&mut self) -> Result<usize, SandboxError> {
        self.leave_within(LEAVE_LIMIT)
    }

    fn leave_within(&mut self, limit: Duration) -> Result<usize, SandboxError> {
        // A keeper that is gone shows when its reports are read.
        let _ = self.orders.write_all(&[1]);
        let deadline = Instant::now() + limit;
        while self.left.is_none() {
            match self.record(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(record)) => self.note(record),
                Ok(None) if Instant::now() < deadline => {}
                Ok(None) => {
                    let alive = self.keeper.map_or(0, |keeper| crate::control::alive_below(keeper).len());
                    let limit_ms = limit.as_millis() as u64;
                    return Err(SandboxError::NotLeft { alive, limit_ms });
                }
                Err(error) => {
                    self.settle();
                    return Err(error);
                }
            }
        }
        self.settle();
        self.left.ok_or(SandboxError::KeeperLost)
    }

    /// Reaps a keeper that has ended, and puts back what the agent may have left in disorder.
    fn settle(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            sys::reap(keeper);
        }
        if let Some(terminal) = self.terminal.take() {
            terminal.restore();
        }
        if let Some((stdout, stderr)) = &self.output {
            let started = Instant::now();
            while !(stdout.is_finished() && stderr.is_finished()) && started.elapsed() < OUTPUT_LAG {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }

    /// What it has printed so far, all of it after [`Agent::leave`]: (standard output, standard error). Empty
    /// where it is not captured.
    #[must_use]
    pub fn output(&self) -> (BoundedCapture, BoundedCapture) {
        self.output.as_ref().map(|(stdout, stderr)| (stdout.seen(), stderr.seen())).unwrap_or_default()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.keeper.is_some() {
            // Nobody is left to tell; the keeper goes on by itself after this.
            let _ = self.leave_within(OUTPUT_LAG);
        }
    }
}

#[cfg(test)]
mod tests;
