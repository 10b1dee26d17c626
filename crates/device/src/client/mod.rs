//! The supervisor's handle on one worker.

mod asked;
mod error;
mod launch;

use asked::Walls;
pub use asked::{Answer, Asked, Offers};
pub use error::{DeviceError, Ending, signal_name};
pub use launch::{Launch, Program};

use crate::arena::{Arena, HostArena};
use crate::channel::{Channel, ChannelError};
use crate::control::Control;
use crate::cuda::arena::{Exported, GpuArena};
use crate::cuda::gpu::Gpu;
use crate::cuda::spent::Chore;
use crate::layout::ArenaLayout;
use crate::protocol::{Entry, Gate, Plan, PlanTensor, Reply, Request, VERSION};
use crate::topology::{pin_process, run_queue_wait};
use kernelseek_core::case::Case;
use kernelseek_sandbox::control::Target;
use kernelseek_sandbox::monitor::{Denial, Monitor};
use kernelseek_sandbox::process::BoundedCapture;
use kernelseek_sandbox::report::Layers;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How long a call may take to return while its stream is held. What takes longer waits for the device.
const ENQUEUE_PATIENCE: Duration = Duration::from_millis(1500);

/// What a worker says that it was doing when a call could not be recorded.
pub const RECORDING: &str = "while the calls were recorded into a graph";

/// Whether a worker's process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Runs,
    /// Told to stop; its threads may not all have heard of it.
    Asked,
    Stopped,
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
    gpu: Option<Rc<Gpu>>,
    exported: Option<Rc<Exported>>,
    arena: Option<Arena>,
    workspace_bytes: usize,
    /// What a launch of nothing takes in its process, nanoseconds.
    blank_nanos: Option<f64>,
    sequence: u32,
    standing: Standing,
    spin: bool,
    halts: bool,
    /// Whether its driver is still starting, as far as anybody has looked.
    starting: bool,
}

impl Worker {
    /// Starts a worker. It loads nothing yet.
    ///
    /// # Errors
    /// When the process cannot be started or does not report within `deadline`.
    pub fn spawn(launch: &Launch, deadline: Duration) -> Result<Self, DeviceError> {
        let start = Instant::now();
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
            gpu: launch.gpu.clone(),
            exported: None,
            arena: None,
            workspace_bytes: 0,
            blank_nanos: None,
            sequence: 0,
            standing: Standing::Runs,
            spin: launch.spin(),
            halts: launch.halts(),
            starting: launch.starts_driver(),
        };
        match worker.receive(deadline)? {
            Reply::Pid { pid } => worker.target = Target::open(pid)?,
            other => return Err(DeviceError::unexpected("pid", &other)),
        }
        if let Some(cpus) = &launch.cpus {
            pin_process(worker.target.pid(), cpus);
        }
        worker.note(Chore::Start, start);
        Ok(worker)
    }

    /// Notes what the time since `start` went into, where calls run on a GPU.
    fn note(&self, chore: Chore, start: Instant) {
        if let Some(gpu) = &self.gpu {
            gpu.note_chore(chore, start.elapsed());
        }
    }

    /// Waits until the driver of a GPU has started in this worker, where there is one. [`Self::load`] does so too.
    ///
    /// # Errors
    /// When it does not start within `deadline`.
    pub fn await_ready(&mut self, deadline: Duration) -> Result<(), DeviceError> {
        if self.starting {
            let start = Instant::now();
            match self.receive(deadline)? {
                Reply::Ready => self.starting = false,
                other => return Err(DeviceError::unexpected("ready", &other)),
            }
            self.note(Chore::Start, start);
        }
        Ok(())
    }

    /// Ends the process without waiting for it: dropping the worker does.
    pub fn dismiss(&self) {
        self.process.dismiss();
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
        self.await_ready(deadline)?;
        let start = Instant::now();
        let request = Request::Load {
            version: VERSION,
            artifact: artifact.to_owned(),
            entry: entry.to_owned(),
            model: model.map(str::to_owned),
        };
        self.send(&request, &[])?;
        match self.receive(deadline)? {
            Reply::Locked { layers, blank_nanos } => {
                self.layers = layers.map(|l| *l);
                self.blank_nanos = blank_nanos.filter(|nanos| nanos.is_finite());
            }
            other => return Err(DeviceError::unexpected("locked", &other)),
        }
        if let Some(listener) = self.channel.take_fd() {
            self.monitor = Some(Monitor::start(listener, allowed_reads)?);
        }
        match self.receive(deadline)? {
            Reply::Loaded { workspace, prepare, model } => {
                self.offers = Offers { workspace, prepare, model };
                self.note(Chore::Start, start);
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
        let start = Instant::now();
        self.arena = None;
        let arena = match self.gpu.clone() {
            Some(gpu) => {
                let layout = ArenaLayout::on_device(case, slots);
                let exported = self.export(&gpu, layout.bytes)?;
                let plan = Box::new(plan(case, layout.clone()));
                self.send(&Request::Map { plan, cuda: Some(exported.handle()) }, &[])?;
                Arena::Gpu(GpuArena::new(gpu, exported, layout))
            }
            None => {
                let layout = ArenaLayout::new(case, slots);
                let arena = HostArena::new(layout.clone())?;
                let plan = Box::new(plan(case, layout));
                self.send(&Request::Map { plan, cuda: None }, &[arena.memory().fd()])?;
                Arena::Host(arena)
            }
        };
        match self.receive(deadline)? {
            Reply::Mapped { workspace_bytes } => self.workspace_bytes = workspace_bytes,
            other => return Err(DeviceError::unexpected("mapped", &other)),
        }
        self.note(Chore::Map, start);
        self.halt()?;
        Ok(self.arena.insert(arena))
    }

    /// Gives the worker memory for its arenas instead of having some allocated: on a GPU, before the first is mapped. Nobody
    /// else may open it as long as this worker's process lives, and what was in it is wiped. Arenas that it is too small for
    /// get memory of their own.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn lend(&mut self, memory: &Rc<Exported>) -> Result<(), DeviceError> {
        if let Some(gpu) = &self.gpu {
            memory.wipe(gpu)?;
            self.exported = Some(memory.clone());
        }
        Ok(())
    }

    /// Exported memory of at least `bytes`: what this worker has, or fresh memory if that is too small.
    fn export(&mut self, gpu: &Gpu, bytes: usize) -> Result<Rc<Exported>, DeviceError> {
        if let Some(exported) = self.exported.as_ref().filter(|e| e.len() >= bytes) {
            return Ok(exported.clone());
        }
        self.exported = None;
        let exported = Rc::new(Exported::new(gpu, bytes)?);
        self.exported = Some(exported.clone());
        Ok(exported)
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
    /// On a GPU, how far apart events around a launch of nothing are in this worker's process, nanoseconds, taken before
    /// anything of the candidate's was loaded; `None` where it could not be told.
    #[must_use]
    pub const fn blank_nanos(&self) -> Option<f64> {
        self.blank_nanos
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

    /// Whether the worker is stopped between requests and timed through a gate.
    #[must_use]
    pub const fn halts(&self) -> bool {
        self.halts
    }
    /// Whether the calls run on a GPU.
    #[must_use]
    pub const fn on_gpu(&self) -> bool {
        self.gpu.is_some()
    }

    /// Calls `entry` once for each slot, behind the host's gate if this worker has one; see [`Self::ask`].
    ///
    /// # Errors
    /// As [`Self::ask`].
    pub fn call(
        &mut self,
        entry: Entry,
        slots: &[u32],
        deadline: Duration,
        at_return: impl FnMut(&Arena, bool),
    ) -> Result<Answer, DeviceError> {
        let gate = if self.halts { Gate::Host } else { Gate::None };
        self.ask(&Asked { entry, slots, gate, deadline }, |_| Ok(()), at_return)
    }

    /// Calls an entry point once for each slot and measures the whole request by the supervisor's clock.
    ///
    /// `load` writes the slots: before the worker hears of the request, or, where the stream is held at the gate, once all
    /// calls have been made, so that nothing that ran ahead of the gate has seen the inputs. The worker is told to stop the
    /// moment it says `done`, and without a GPU it has stopped when `at_return` runs, before it can do anything else; on a GPU
    /// `at_return` has the device copy at once. It runs again (with `true`) after the worker had time to settle: a difference
    /// between the two is deferred work. What the first look has taken is what counts.
    ///
    /// # Errors
    /// When the worker dies, misses the deadline, or answers nonsense.
    pub fn ask(
        &mut self,
        asked: &Asked<'_>,
        mut load: impl FnMut(&mut Arena) -> Result<(), DeviceError>,
        mut at_return: impl FnMut(&Arena, bool),
    ) -> Result<Answer, DeviceError> {
        let &Asked { entry, slots, gate, deadline } = asked;
        self.sequence += 1;
        let sequence = self.sequence;
        if !gate.is_on_stream() {
            self.load_slots(&mut load)?;
        }
        self.resume()?;
        self.send(&Request::Call { sequence, entry, slots: slots.to_vec(), gate }, &[])?;
        let mut walls = Walls::default();
        let mut waited = Duration::ZERO;
        if gate != Gate::None {
            let start = Instant::now();
            self.await_armed(sequence, gate, deadline, &mut load)?;
            self.note(Chore::Arm, start);
            if gate.is_on_stream()
                && let Err(error) = self.load_slots(&mut load)
            {
                // Nobody else would open the gate.
                self.control.page().open(sequence);
                self.receive(deadline)?;
                self.halt()?;
                return Err(error);
            }
            // Behind a gate on the stream nobody cares who has the host's core.
            let queued = |pid| if gate.is_on_stream() { Duration::ZERO } else { run_queue_wait(pid) };
            let before = queued(self.target.pid());
            walls = self.pass_gate(sequence, deadline)?;
            // The threads of a GPU's driver are many: they are stopped while the supervisor's own kernels run.
            if self.gpu.is_some() { self.ask_to_stop() } else { self.halt() }?;
            waited = queued(self.target.pid()).saturating_sub(before);
            if let Some(arena) = &self.arena {
                at_return(arena, false);
            }
            self.halt()?;
            self.resume()?;
        }
        let start = Instant::now();
        let reply = self.receive(deadline)?;
        match &self.gpu {
            // Nobody else looked at how long the calls took.
            Some(gpu) if gate == Gate::None => gpu.note_request(start.elapsed()),
            _ => self.note(Chore::Answer, start),
        }
        let mut answer = match reply {
            Reply::Done { sequence: s, statuses, nanos, host_nanos, span_nanos, pending }
                if s == sequence && statuses.len() == slots.len() =>
            {
                let durations = |all: Vec<u64>| all.into_iter().map(Duration::from_nanos).collect();
                Answer {
                    statuses,
                    wall: walls.done,
                    stream_wall: walls.stream,
                    inner: durations(nanos),
                    host: durations(host_nanos),
                    span: span_nanos.map(Duration::from_nanos),
                    pending,
                    waited,
                }
            }
            other => return Err(DeviceError::unexpected("done", &other)),
        };
        // Said by the worker, shown to people: short and of one line.
        answer.pending =
            answer.pending.map(|text| text.chars().filter(|c| !c.is_control()).take(160).collect());
        // As for the first look.
        let meanwhile = self.gpu.is_some() && gate != Gate::None;
        if meanwhile { self.ask_to_stop() } else { self.halt() }?;
        if let Some(arena) = &self.arena {
            at_return(arena, true);
        }
        self.halt()?;
        Ok(answer)
    }

    /// Has the slots written, and waits for that and everything else that the supervisor has the GPU write: a worker's own
    /// work waits for nothing of ours.
    fn load_slots(
        &mut self,
        load: &mut impl FnMut(&mut Arena) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.arena.as_mut().map_or(Ok(()), load)?;
        Ok(self.gpu.as_ref().map_or(Ok(()), |gpu| gpu.stream().synchronize())?)
    }

    /// Waits until the worker stands at the gate. A call that waits for what the gate holds back never would: then the gate
    /// is opened, and the time that comes out is good for nothing. The call still finds its inputs: it may follow them.
    fn await_armed(
        &mut self,
        sequence: u32,
        gate: Gate,
        deadline: Duration,
        load: &mut impl FnMut(&mut Arena) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        // Recording takes what it takes, and waits for nothing that the gate holds.
        let patience = if gate == Gate::Stream { deadline.min(ENQUEUE_PATIENCE) } else { deadline };
        match self.receive(patience) {
            Ok(Reply::Armed { sequence: s }) if s == sequence => Ok(()),
            Ok(other) => Err(DeviceError::unexpected("armed", &other)),
            Err(DeviceError::Deadline(_)) if gate == Gate::Stream => {
                let loaded = self.load_slots(load);
                self.control.page().open(sequence);
                match self.receive(deadline)? {
                    Reply::Armed { sequence: s } if s == sequence => {}
                    other => return Err(DeviceError::unexpected("armed", &other)),
                }
                self.receive(deadline)?;
                self.halt()?;
                loaded.and(Err(DeviceError::Synchronises))
            }
            Err(error) => Err(error),
        }
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

    fn pass_gate(&mut self, sequence: u32, deadline: Duration) -> Result<Walls, DeviceError> {
        match self.spin_for(sequence, deadline)? {
            Some(walls) => Ok(walls),
            None => Err(self.died()),
        }
    }

    /// Opens the gate and waits for `done`; `None` when the worker is gone.
    fn spin_for(&self, sequence: u32, deadline: Duration) -> Result<Option<Walls>, DeviceError> {
        let page = self.control.page();
        let start = Instant::now();
        page.open(sequence);
        let mut looked = start;
        let mut turns = 0u32;
        let mut stream = None;
        loop {
            if stream.is_none() && page.stream_finished() == sequence {
                stream = Some(start.elapsed());
            }
            if page.finished() == sequence {
                let done = start.elapsed();
                // The supervisor may have been without its core from the one word to the other.
                let stream = stream.or_else(|| (page.stream_finished() == sequence).then_some(done));
                return Ok(Some(Walls { done, stream }));
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
            Ok(Reply::DeviceFailed { doing, code, name, text }) => {
                Err(DeviceError::Gpu { doing, code, name, text })
            }
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
        self.ask_to_stop()?;
        if self.standing == Standing::Asked {
            let start = Instant::now();
            let stopped = self.target.await_stop();
            self.note(Chore::Stop, start);
            stopped.map_err(|error| self.lost(error))?;
            self.standing = Standing::Stopped;
        }
        Ok(())
    }

    fn ask_to_stop(&mut self) -> Result<(), DeviceError> {
        if self.halts && self.standing == Standing::Runs {
            if let Err(error) = self.target.ask_to_stop() {
                return Err(self.lost(error));
            }
            self.standing = Standing::Asked;
        }
        Ok(())
    }

    fn resume(&mut self) -> Result<(), DeviceError> {
        if self.standing != Standing::Runs {
            let start = Instant::now();
            let gone_on = self.target.cont();
            self.note(Chore::Stop, start);
            gone_on.map_err(|error| self.lost(error))?;
            self.standing = Standing::Runs;
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let start = Instant::now();
        self.process.end();
        self.note(Chore::End, start);
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
