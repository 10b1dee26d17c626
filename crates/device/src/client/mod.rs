//! The supervisor's handle on one worker.

mod error;
mod launch;

pub use error::{DeviceError, Ending, signal_name};
pub use launch::{Launch, Program};

use crate::arena::Arena;
use crate::channel::{Channel, ChannelError};
use crate::control::Control;
use crate::layout::ArenaLayout;
use crate::protocol::{Entry, Plan, PlanTensor, Reply, Request, Status, VERSION};
use kernelseek_core::case::Case;
use kernelseek_sandbox::control::Target;
use kernelseek_sandbox::monitor::{Denial, Monitor};
use kernelseek_sandbox::process::BoundedCapture;
use kernelseek_sandbox::report::Layers;
use std::time::{Duration, Instant};

/// What a worker's library offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// `NAME_workspace` exists.
    pub workspace: bool,
    /// `NAME_prepare` exists.
    pub prepare: bool,
    /// The precision model's entry point exists.
    pub model: bool,
}

/// Answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Status of each call.
    pub statuses: Vec<Status>,
    /// From the opening of the gate to the worker's `done`, by the supervisor's clock. Zero without a gate.
    pub wall: Duration,
    /// Duration of each call by the worker's clock. Advisory.
    pub inner: Vec<Duration>,
    /// How long the worker's main thread was runnable but not running.
    pub waited: Duration,
}

/// A worker process.
#[derive(Debug)]
pub struct Worker {
    channel: Channel,
    control: Control,
    process: launch::Process,
    /// The process that runs the library.
    target: Target,
    monitor: Option<Monitor>,
    layers: Option<Layers>,
    offers: Offers,
    arena: Option<Arena>,
    workspace_bytes: usize,
    sequence: u32,
    halted: bool,
    spin: bool,
    halts: bool,
}

impl Worker {
    /// Starts a worker. It loads nothing yet.
    ///
    /// # Errors
    /// When the process cannot be started or does not report within `deadline`.
    pub fn spawn(launch: &Launch, deadline: Duration) -> Result<Self, DeviceError> {
        let control = Control::new()?;
        let (channel, process) = launch.start(&control)?;
        let mut worker = Self {
            channel,
            control,
            target: Target::open(process.id())?,
            process,
            monitor: None,
            layers: None,
            offers: Offers::default(),
            arena: None,
            workspace_bytes: 0,
            sequence: 0,
            halted: false,
            spin: launch.spin(),
            halts: launch.halts(),
        };
        match worker.receive(deadline)? {
            Reply::Pid { pid } => worker.target = Target::open(pid)?,
            other => return Err(DeviceError::unexpected("pid", &other)),
        }
        if let Some(cpus) = &launch.cpus {
            crate::topology::pin_process(worker.target.pid(), cpus);
        }
        Ok(worker)
    }

    /// Locks the worker down and loads `artifact`.
    ///
    /// # Errors
    /// When the worker dies (constructors run here), is too slow, or refuses the library.
    pub fn load(
        &mut self,
        artifact: &str,
        entry: &str,
        model: Option<&str>,
        allowed_reads: &[std::path::PathBuf],
        deadline: Duration,
    ) -> Result<Offers, DeviceError> {
        let request = Request::Load {
            version: VERSION,
            artifact: artifact.to_owned(),
            entry: entry.to_owned(),
            model: model.map(str::to_owned),
        };
        self.send(&request, &[])?;
        match self.receive(deadline)? {
            Reply::Locked { layers } => self.layers = layers.map(|l| *l),
            other => return Err(DeviceError::unexpected("locked", &other)),
        }
        if let Some(listener) = self.channel.take_fd() {
            self.monitor = Some(Monitor::start(listener, allowed_reads)?);
        }
        match self.receive(deadline)? {
            Reply::Loaded { workspace, prepare, model } => {
                self.offers = Offers { workspace, prepare, model };
                self.halt()?;
                Ok(self.offers)
            }
            other => Err(DeviceError::unexpected("loaded", &other)),
        }
    }

    /// Allocates an arena for `slots` slots of `case` and has the worker map it. Redzones and data are the
    /// caller's to fill.
    ///
    /// # Errors
    /// When memory is refused or the worker dies (its workspace function runs here).
    pub fn map(&mut self, case: &Case, slots: usize, deadline: Duration) -> Result<&mut Arena, DeviceError> {
        self.resume()?;
        self.arena = None;
        let layout = ArenaLayout::new(case, slots);
        let arena = Arena::new(layout.clone())?;
        let plan = Box::new(plan(case, layout));
        self.send(&Request::Map { plan }, &[arena.memory().fd()])?;
        match self.receive(deadline)? {
            Reply::Mapped { workspace_bytes } => self.workspace_bytes = workspace_bytes,
            other => return Err(DeviceError::unexpected("mapped", &other)),
        }
        self.halt()?;
        Ok(self.arena.insert(arena))
    }

    /// The arena, if one is mapped.
    #[must_use]
    pub const fn arena(&self) -> Option<&Arena> {
        self.arena.as_ref()
    }
    /// The arena for writing.
    #[must_use]
    pub const fn arena_mut(&mut self) -> Option<&mut Arena> {
        self.arena.as_mut()
    }
    /// What the library offers.
    #[must_use]
    pub const fn offers(&self) -> Offers {
        self.offers
    }
    /// Which sandbox layers hold; `None` for a trusted worker that has none.
    #[must_use]
    pub const fn layers(&self) -> Option<&Layers> {
        self.layers.as_ref()
    }
    /// Bytes of workspace that the library asked for.
    #[must_use]
    pub const fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }
    /// Denied attempts since the worker was loaded.
    #[must_use]
    pub fn denials(&self) -> Vec<Denial> {
        self.monitor.as_ref().map(|m| m.denials().kinds).unwrap_or_default()
    }
    /// What the worker has printed, standard output then standard error.
    #[must_use]
    pub fn output(&self) -> [BoundedCapture; 2] {
        self.process.output()
    }

    /// Calls `entry` once for each slot and measures the whole request by the supervisor's clock.
    ///
    /// The worker is stopped the moment it says `done`; `at_return` runs then, before the worker can do anything
    /// else, and again (with `true`) after it had time to settle: a difference between the two is deferred work.
    ///
    /// # Errors
    /// When the worker dies, misses the deadline, or answers nonsense.
    pub fn call(
        &mut self,
        entry: Entry,
        slots: &[u32],
        deadline: Duration,
        mut at_return: impl FnMut(&Arena, bool),
    ) -> Result<Answer, DeviceError> {
        let gate = self.halts;
        self.sequence += 1;
        let sequence = self.sequence;
        self.resume()?;
        self.send(&Request::Call { sequence, entry, slots: slots.to_vec(), gate }, &[])?;
        let mut wall = Duration::ZERO;
        let mut waited = Duration::ZERO;
        if gate {
            match self.receive(deadline)? {
                Reply::Armed { sequence: s } if s == sequence => {}
                other => return Err(DeviceError::unexpected("armed", &other)),
            }
            let waited_before = crate::topology::run_queue_wait(self.target.pid());
            wall = self.pass_gate(sequence, deadline)?;
            self.halt()?;
            waited = crate::topology::run_queue_wait(self.target.pid()).saturating_sub(waited_before);
            if let Some(arena) = &self.arena {
                at_return(arena, false);
            }
            self.resume()?;
        }
        let (statuses, nanos) = match self.receive(deadline)? {
            Reply::Done { sequence: s, statuses, nanos }
                if s == sequence && statuses.len() == slots.len() =>
            {
                (statuses, nanos)
            }
            other => return Err(DeviceError::unexpected("done", &other)),
        };
        self.halt()?;
        if let Some(arena) = &self.arena {
            at_return(arena, true);
        }
        Ok(Answer { statuses, wall, inner: nanos.into_iter().map(Duration::from_nanos).collect(), waited })
    }

    /// Lets the worker run without a request for `window` and says how much processor time it used: work that a
    /// call left behind shows here.
    ///
    /// # Errors
    /// When the worker dies meanwhile.
    pub fn idle_probe(&mut self, window: Duration) -> Result<Duration, DeviceError> {
        // Read while it is stopped: the count of a running process lags behind.
        let before = self.target.cpu_time()?;
        self.resume()?;
        std::thread::sleep(window);
        self.halt()?;
        let after = self.target.cpu_time()?;
        Ok(after.saturating_sub(before))
    }

    fn pass_gate(&mut self, sequence: u32, deadline: Duration) -> Result<Duration, DeviceError> {
        match self.spin_for(sequence, deadline)? {
            Some(wall) => Ok(wall),
            None => Err(self.died()),
        }
    }

    /// Opens the gate and waits for `done`; `None` when the worker is gone.
    fn spin_for(&self, sequence: u32, deadline: Duration) -> Result<Option<Duration>, DeviceError> {
        let page = self.control.page();
        let start = Instant::now();
        page.open(sequence);
        let mut looked = start;
        let mut turns = 0u32;
        loop {
            if page.finished() == sequence {
                return Ok(Some(start.elapsed()));
            }
            if self.spin {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(64) {
                let now = Instant::now();
                if now.duration_since(looked) > Duration::from_millis(1) {
                    looked = now;
                    if now.duration_since(start) > deadline {
                        return Err(DeviceError::Deadline(deadline));
                    }
                    // A message before `done` can only be bad news.
                    if self.channel.wait_readable(Duration::ZERO)? && page.finished() != sequence {
                        return Ok(None);
                    }
                    if let Some(bytes) = self.process.flood() {
                        return Err(DeviceError::Flood(bytes));
                    }
                }
            }
        }
    }

    fn send(&mut self, request: &Request, fds: &[rustix::fd::BorrowedFd<'_>]) -> Result<(), DeviceError> {
        match self.channel.send(request, fds) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.explain(e)),
        }
    }

    fn receive(&mut self, deadline: Duration) -> Result<Reply, DeviceError> {
        match self.channel.receive::<Reply>(Some(deadline)) {
            Ok(Reply::Failed { message }) => Err(DeviceError::Refused(message)),
            Ok(reply) => Ok(reply),
            Err(e) => Err(self.explain(e)),
        }
    }

    fn explain(&mut self, error: ChannelError) -> DeviceError {
        match error {
            ChannelError::Closed => self.died(),
            ChannelError::TimedOut(limit) => DeviceError::Deadline(limit),
            other => DeviceError::Channel(other),
        }
    }

    /// A process that cannot be stopped or continued: mostly because it is gone.
    fn lost(&mut self, error: kernelseek_sandbox::SandboxError) -> DeviceError {
        if self.target.is_alive() { DeviceError::Control(error) } else { self.died() }
    }

    fn died(&mut self) -> DeviceError {
        DeviceError::Died { ending: self.process.ending(), fault: self.control.page().fault() }
    }

    fn halt(&mut self) -> Result<(), DeviceError> {
        if self.halts && !self.halted {
            if let Err(error) = self.target.stop() {
                return Err(self.lost(error));
            }
            self.halted = true;
        }
        Ok(())
    }

    fn resume(&mut self) -> Result<(), DeviceError> {
        if self.halted {
            if let Err(error) = self.target.cont() {
                return Err(self.lost(error));
            }
            self.halted = false;
        }
        Ok(())
    }
}

/// The plan that tells a worker how to build the call structs of `case`.
pub(crate) fn plan(case: &Case, layout: ArenaLayout) -> Plan {
    let tensors = case
        .tensors
        .iter()
        .map(|t| PlanTensor {
            name: t.name.clone(),
            dtype: t.dtype as i32,
            shape: t.shape.clone(),
            stride: t.stride.clone(),
            storage: t.storage,
            offset: t.offset.max(0) as usize * t.dtype.size(),
            writes: t.role.is_output(),
        })
        .collect();
    Plan { layout, tensors, attributes: case.attributes.clone() }
}
