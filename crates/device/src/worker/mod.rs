//! The worker: a process that loads one library, maps the supervisor's buffers, makes the calls it is told to
//! make, and acknowledges them. It knows no seed, no expected value, no phase and no scenario.

mod blank;
mod cuda;
mod fault;
pub(crate) mod library;
pub(crate) mod mapping;

use crate::channel::{Channel, ChannelError};
use crate::control::ControlPage;
use crate::cuda::memory::IpcHandle;
use crate::protocol::{Entry, Gate, Reply, Request, Status, VERSION};
use cuda::{Called, Gpu};
use kernelseek_sandbox::limits::Limits;
use kernelseek_sandbox::lockdown::LockdownSpec;
use kernelseek_sandbox::namespaces::NamespaceSpec;
use kernelseek_sandbox::report::Layers;
use library::Library;
use mapping::Mapping;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Instant;

/// What the supervisor decides about a worker before it starts; travels on its command line as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WorkerSpec {
    /// Files and folders that may be read.
    pub read: Vec<PathBuf>,
    /// Whether to enter namespaces of its own.
    pub namespaces: bool,
    /// Whether to lock down (Landlock, seccomp) before the library is loaded.
    pub lockdown: bool,
    /// Resource limits.
    pub limits: Limits,
    /// Whether another core is left to the supervisor, so that waiting at the gate may spin.
    pub spin: bool,
    /// Whether the calls run on the first GPU that the environment shows.
    #[serde(default)]
    pub cuda: bool,
}

/// Why the worker had to leave.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The supervisor is gone or talks nonsense.
    #[error("lost the supervisor")]
    Channel(#[from] ChannelError),
    /// The sandbox could not be set up.
    #[error("the sandbox could not be set up")]
    Sandbox(#[from] kernelseek_sandbox::SandboxError),
    /// The control page could not be mapped.
    #[error("the control page could not be mapped")]
    Control(#[source] rustix::io::Errno),
    /// The GPU could not be opened.
    #[error("the GPU could not be opened")]
    Gpu(#[from] crate::cuda::CudaError),
}

/// Runs a worker on descriptors that the supervisor left open for it; see [`run`].
///
/// # Errors
/// As [`run`].
#[expect(unsafe_code, reason = "inherited descriptors")]
pub fn run_inherited(spec: &WorkerSpec, socket: i32, control: i32) -> Result<(), WorkerError> {
    use rustix::fd::FromRawFd;
    for fd in [socket, control] {
        // SAFETY: only a query; a number that is no descriptor is answered with an error.
        if fd < 3 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } != 0 {
            return Err(WorkerError::Control(rustix::io::Errno::BADF));
        }
    }
    // SAFETY: both are open (checked above) and nothing else in this process knows them.
    let (socket, control) = unsafe { (OwnedFd::from_raw_fd(socket), OwnedFd::from_raw_fd(control)) };
    run(spec, socket, &control)
}

/// Runs a worker until the supervisor says goodbye or goes away. `socket` and `control` are inherited.
///
/// # Errors
/// When the supervisor is gone or the sandbox cannot be set up.
pub fn run(spec: &WorkerSpec, socket: OwnedFd, control: &OwnedFd) -> Result<(), WorkerError> {
    let mut channel = Channel::new(socket);
    let rlimits = kernelseek_sandbox::limits::apply(&spec.limits);
    let world = NamespaceSpec {
        read: spec.read.clone(),
        devices: spec.cuda,
        private_proc: true,
        enabled: spec.namespaces,
    };
    let namespaces = kernelseek_sandbox::namespaces::enter(&world, |pid| {
        // Nothing can be reported if this fails; the supervisor notices the missing message.
        let _ = channel.send(&Reply::Pid { pid }, &[]);
    })?;
    let page = mapping::map_control(control).map_err(WorkerError::Control)?;
    fault::install(page);
    // Before the lockdown: the driver does not start behind it.
    let gpu = if spec.cuda { Some(open_gpu(page, &channel)?) } else { None };
    if gpu.is_some() {
        channel.send(&Reply::Ready, &[])?;
    }
    let mut state = State { spec, page, gpu, library: None, mapping: None };
    loop {
        let request = match channel.receive::<Request>(None) {
            Ok(Request::Bye) | Err(ChannelError::Closed) => return Ok(()),
            Ok(request) => request,
            Err(e) => return Err(e.into()),
        };
        if let Request::Load { .. } = request {
            // Said before anything of the candidate's is in this process.
            let blank_nanos = state.gpu.as_mut().and_then(|gpu| gpu.blank_nanos(page));
            let (mut layers, mut listener) = (None, None);
            if spec.lockdown {
                let rules =
                    LockdownSpec { read: spec.read.clone(), threads_allowed: true, devices: spec.cuda };
                let lockdown = kernelseek_sandbox::lockdown::apply(&rules)?;
                layers = Some(Box::new(Layers::of(&namespaces, rlimits.clone(), &lockdown)));
                listener = lockdown.listener;
            }
            let fds: Vec<_> = listener.iter().map(rustix::fd::AsFd::as_fd).collect();
            channel.send(&Reply::Locked { layers, blank_nanos }, &fds)?;
        }
        let reply = state.serve(request, &mut channel);
        channel.send(&reply, &[])?;
    }
}

/// Opens the GPU; the supervisor is told why it cannot be.
fn open_gpu(page: &'static ControlPage, channel: &Channel) -> Result<Gpu, WorkerError> {
    Gpu::open(page).map_err(|error| {
        // Nobody hears it if this fails, and the process ends all the same.
        let _ =
            channel.send(&Reply::Failed { message: format!("the GPU could not be opened: {error}") }, &[]);
        WorkerError::Gpu(error)
    })
}

struct State<'a> {
    spec: &'a WorkerSpec,
    page: &'static ControlPage,
    gpu: Option<Gpu>,
    library: Option<Library>,
    mapping: Option<Mapping>,
}

impl State<'_> {
    fn serve(&mut self, request: Request, channel: &mut Channel) -> Reply {
        let outcome = match request {
            Request::Load { version, artifact, entry, model } => {
                self.load(version, &artifact, &entry, model.as_deref())
            }
            Request::Map { plan, cuda } => self.map(&plan, cuda.as_ref(), channel),
            Request::Call { sequence, entry, slots, gate } => {
                self.call(sequence, entry, &slots, gate, channel)
            }
            Request::Bye => Err("already served".to_owned()),
        };
        outcome.unwrap_or_else(|message| Reply::Failed { message })
    }

    fn load(
        &mut self,
        version: u32,
        artifact: &str,
        entry: &str,
        model: Option<&str>,
    ) -> Result<Reply, String> {
        if version != VERSION {
            return Err(format!("protocol version {version} is not {VERSION}"));
        }
        let library = Library::open(artifact, entry, model)?;
        if self.gpu.is_some() {
            cuda::start_runtime();
        }
        let reply = Reply::Loaded {
            workspace: library.workspace.is_some(),
            prepare: library.prepare.is_some(),
            model: library.model.is_some(),
        };
        self.library = Some(library);
        Ok(reply)
    }

    fn map(
        &mut self,
        plan: &crate::protocol::Plan,
        cuda: Option<&IpcHandle>,
        channel: &mut Channel,
    ) -> Result<Reply, String> {
        fault::forget_regions();
        self.mapping = None;
        let mut mapping = match (&mut self.gpu, cuda) {
            (Some(gpu), Some(handle)) => {
                let base = gpu
                    .arena(handle)
                    .map_err(|e| format!("the supervisor's buffers could not be opened: {e}"))?;
                Mapping::on_device(plan, base, gpu)?
            }
            _ => {
                let fd = channel.take_fd().ok_or("no arena descriptor came with the plan")?;
                Mapping::new(plan, &fd)?
            }
        };
        let library = self.library.as_ref().ok_or("nothing is loaded")?;
        let workspace_bytes = mapping.provide_workspace(library, self.gpu.as_ref())?;
        fault::remember_regions(mapping.regions());
        self.mapping = Some(mapping);
        Ok(Reply::Mapped { workspace_bytes })
    }

    fn call(
        &mut self,
        sequence: u32,
        entry: Entry,
        slots: &[u32],
        gate: Gate,
        channel: &Channel,
    ) -> Result<Reply, String> {
        let library = self.library.as_ref().ok_or("nothing is loaded")?;
        let mapping = self.mapping.as_ref().ok_or("nothing is mapped")?;
        let function = library.entry(entry)?;
        let calls = slots
            .iter()
            .map(|&slot| mapping.call(slot as usize).ok_or_else(|| format!("there is no slot {slot}")))
            .collect::<Result<Vec<_>, _>>()?;
        let (page, spin) = (self.page, self.spec.spin);
        let armed = || channel.send(&Reply::Armed { sequence }, &[]).map_err(|e| e.to_string());
        let wait = || {
            armed()?;
            while page.opened() != sequence {
                if spin {
                    std::hint::spin_loop();
                } else {
                    std::thread::yield_now();
                }
            }
            Ok(())
        };
        let called = match &mut self.gpu {
            None => {
                if gate != Gate::None {
                    wait()?;
                }
                on_the_host(function, &calls, || {
                    if gate != Gate::None {
                        page.finish(sequence);
                    }
                })
            }
            Some(gpu) => {
                let outcome = match gate {
                    Gate::None => gpu.plainly(function, &calls),
                    Gate::Host => gpu.by_the_host(function, &calls, wait)?,
                    Gate::Stream | Gate::Graph => {
                        gpu.behind_the_gate(function, &calls, sequence, gate, armed, || {
                            page.finish(sequence);
                        })?
                    }
                };
                match outcome {
                    Ok(called) => called,
                    Err(fault) => {
                        // The supervisor may be watching the page rather than the socket.
                        page.finish(sequence);
                        return Ok(fault.reply());
                    }
                }
            }
        };
        if gate != Gate::None && self.gpu.is_some() {
            page.finish(sequence);
        }
        let pending = self.gpu.as_ref().and_then(|_| cuda::pending_error());
        Ok(Reply::Done {
            sequence,
            statuses: called.codes.into_iter().map(Status::from_code).collect(),
            nanos: called.nanos,
            host_nanos: called.host_nanos,
            span_nanos: called.span_nanos,
            pending,
        })
    }
}

/// Makes the calls of a request on the CPU; `finished` runs the moment the last has returned.
fn on_the_host(
    function: library::Function,
    calls: &[&mapping::CallStruct],
    finished: impl FnOnce(),
) -> Called {
    let mut ends = Vec::with_capacity(calls.len() + 1);
    let mut codes = vec![0; calls.len()];
    ends.push(Instant::now());
    for (call, code) in calls.iter().zip(&mut codes) {
        *code = function.call(call);
        ends.push(Instant::now());
    }
    finished();
    let nanos = ends.windows(2).map(|w| w[1].saturating_duration_since(w[0]).as_nanos() as u64).collect();
    Called { codes, nanos, ..Called::default() }
}
