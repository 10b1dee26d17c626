//! The test bench: how workers are started for this problem on this machine.

use crate::measure_error::MeasureError;
use kernelseek_core::case::Case;
use kernelseek_device::client::{DeviceError, Launch, Program, Worker};
use kernelseek_device::cuda::gpu::Gpu;
use kernelseek_device::layout;
use kernelseek_device::topology::Division;
use kernelseek_device::worker::WorkerSpec;
use kernelseek_sandbox::limits::Limits;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Bytes of standard output and error after which a worker is killed.
const FLOOD: u64 = 16 << 20;
/// Address space that a worker needs beside its buffers: libraries, stacks, arenas of malloc.
const OVERHEAD_BYTES: u64 = 2 << 30;

/// Files that a worker may have open.
const OPEN_FILES: u64 = 64;
/// The same where a GPU's driver has its own.
const GPU_OPEN_FILES: u64 = 1024;

/// A worker whose process has been started and who has loaded nothing yet.
#[derive(Debug)]
pub struct Started {
    worker: Worker,
    path: PathBuf,
    entry: String,
    model: Option<String>,
    read: Vec<PathBuf>,
    patience: Duration,
}

impl Started {
    /// Waits until the worker can be told to load: on a GPU its driver starts first, and disturbs what runs there meanwhile.
    ///
    /// # Errors
    /// When the driver does not start.
    pub fn await_ready(&mut self) -> Result<(), DeviceError> {
        self.worker.await_ready(self.patience)
    }

    /// Ends the process without waiting for it: dropping it does.
    pub fn dismiss(&self) {
        self.worker.dismiss();
    }
}

/// Something that can be loaded by a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Artifact {
    /// A shared library.
    Native {
        /// Its path.
        path: PathBuf,
        /// Identity: the build's candidate hash.
        hash: String,
    },
    /// A Python module that defines `op(call)`.
    Python {
        /// The interpreter.
        interpreter: PathBuf,
        /// The module.
        path: PathBuf,
        /// Identity: hash of the module's text.
        hash: String,
    },
}

impl Artifact {
    /// Identity of the artifact.
    #[must_use]
    pub fn hash(&self) -> &str {
        match self {
            Self::Native { hash, .. } | Self::Python { hash, .. } => hash,
        }
    }
    /// Path of the artifact.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Native { path, .. } | Self::Python { path, .. } => path,
        }
    }
}

/// How workers are started.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The tool's own binary.
    pub helper: PathBuf,
    /// The Python worker, written out.
    pub python_worker: PathBuf,
    /// Entry point.
    pub entry: String,
    /// Entry point of the precision model.
    pub model: Option<String>,
    /// Whether the reference can be asked for a part of an answer.
    pub sampled: bool,
    /// The seed.
    pub seed: Artifact,
    /// The reference.
    pub reference: Artifact,
    /// Who runs on which core.
    pub division: Division,
    /// Cores that a call may use.
    pub threads: usize,
    /// Memory that a call may use beside its tensors, bytes.
    pub memory: u64,
    /// Bytes of the largest arena.
    pub largest_arena: u64,
    /// Bit-equal repeats are required.
    pub deterministic: bool,
    /// Least deadline of anything asked of a worker.
    pub deadline: Duration,
    /// The GPU that calls run on, for a problem whose target it is.
    pub gpu: Option<Rc<Gpu>>,
    /// Folder of the CUDA runtime library that kernels are linked with.
    pub cuda_libraries: Vec<PathBuf>,
    /// Queues that a worker's driver hands work to a GPU through; the driver's own number when `None`.
    pub queues: Option<u32>,
    /// Whether workers enter namespaces.
    pub namespaces: bool,
    /// Whether workers are locked down.
    pub lockdown: bool,
}

/// Has kernels loaded with their library: one that is loaded when it is first launched waits for the device, which the gate
/// holds.
const EAGER: (&str, &str) = ("CUDA_MODULE_LOADING", "EAGER");

/// Says how many queues a driver makes between a process and a GPU. Streams share them; most of the time that a driver takes to
/// start and to end goes into them.
const QUEUES: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Queues of a worker whose library makes no stream: one is held at the gate, and what is put on another stream all the same must
/// not wait behind it.
pub(crate) const FEW_QUEUES: u32 = 2;

impl Bench {
    /// Address space that the arenas of `cases` need at most.
    #[must_use]
    pub fn arena_bytes(cases: &[Case], slots: usize) -> u64 {
        let around = 4 * layout::PAGE + 2 * layout::GUARD;
        cases
            .iter()
            .map(|c| (c.slot_bytes() + c.storages.len() * around) as u64 * slots as u64)
            .max()
            .unwrap_or(0)
    }

    /// Starts a worker and loads `artifact` into it, under the sandbox for native code.
    ///
    /// # Errors
    /// When it does not start or the library cannot be loaded.
    pub fn spawn(&self, artifact: &Artifact) -> Result<Worker, DeviceError> {
        self.load(self.start(artifact)?)
    }

    /// Starts a worker's process without waiting for it to be ready: [`Self::load`] does. Several may be started at once.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(&self, artifact: &Artifact) -> Result<Started, DeviceError> {
        match artifact {
            Artifact::Native { path, .. } => {
                // A driver reserves address space by the terabyte.
                let limit = self.gpu.is_none().then_some(OVERHEAD_BYTES + self.memory + self.largest_arena);
                self.start_locked(path, self.environment(), limit)
            }
            Artifact::Python { interpreter, path, .. } => self.start_python(interpreter, path),
        }
    }

    /// Has a started worker load what it was started for.
    ///
    /// # Errors
    /// When the library cannot be loaded.
    pub fn load(&self, started: Started) -> Result<Worker, DeviceError> {
        let Started { mut worker, path, entry, model, read, patience } = started;
        worker.load(&path.to_string_lossy(), &entry, model.as_deref(), &read, patience)?;
        Ok(worker)
    }

    /// Starts a worker of a build with sanitizers, whose runtime is preloaded. Never timed.
    ///
    /// # Errors
    /// When it does not start or the library cannot be loaded.
    pub fn spawn_sanitized(&self, artifact: &Artifact, runtime: &Path) -> Result<Worker, DeviceError> {
        let mut env = self.environment();
        env.insert("LD_PRELOAD".to_owned(), runtime.to_string_lossy().into_owned());
        env.extend(crate::sanitize::OPTIONS.map(|(k, v)| (k.to_owned(), v.to_owned())));
        // The runtime reserves address space by the terabyte.
        self.load(self.start_locked(artifact.path(), env, None)?)
    }

    fn start_locked(
        &self,
        path: &Path,
        env: BTreeMap<String, String>,
        address_space: Option<u64>,
    ) -> Result<Started, DeviceError> {
        let mut read = kernelseek_sandbox::lockdown::runtime_reads();
        read.extend(path.parent().map(Path::to_owned));
        read.extend(self.cuda_libraries.iter().cloned());
        // What the driver reads while it starts, before the lockdown; after it the candidate may read this, and nothing else.
        let files = if self.gpu.is_some() {
            read.extend(kernelseek_device::cuda::driver_reads());
            GPU_OPEN_FILES
        } else {
            OPEN_FILES
        };
        let spec = WorkerSpec {
            read: read.clone(),
            namespaces: self.namespaces,
            lockdown: self.lockdown,
            limits: Limits { address_space, open_files: Some(files), ..Limits::default() },
            spin: self.division.is_disjoint(),
            cuda: self.gpu.is_some(),
        };
        let launch = Launch {
            program: Program::Native { helper: self.helper.clone(), spec },
            env,
            cpus: Some(self.division.worker.clone()),
            flood_limit: FLOOD,
            gpu: self.gpu.clone(),
        };
        let (entry, patience) = (self.entry.clone(), self.load_patience());
        let worker = Worker::spawn(&launch, self.deadline)?;
        Ok(Started { worker, path: path.to_owned(), entry, model: None, read, patience })
    }

    /// How long loading may take: on a GPU the driver starts first.
    fn load_patience(&self) -> Duration {
        if self.gpu.is_some() { 5 * self.deadline } else { self.deadline }
    }

    fn start_python(&self, interpreter: &Path, path: &Path) -> Result<Started, DeviceError> {
        let mut env = self.environment();
        // An array library brings thousands of kernels; nothing of it is ever held at a gate.
        env.remove(EAGER.0);
        env.remove(QUEUES);
        let launch = Launch {
            program: Program::Python {
                interpreter: interpreter.to_owned(),
                script: self.python_worker.clone(),
            },
            env,
            cpus: None,
            flood_limit: FLOOD,
            gpu: self.gpu.clone(),
        };
        // Importing an array library from a cold disk takes seconds.
        let patience = 15 * self.deadline;
        let worker = Worker::spawn(&launch, patience)?;
        let (entry, model) = ("op".to_owned(), self.model.clone());
        Ok(Started { worker, path: path.to_owned(), entry, model, read: Vec::new(), patience })
    }

    /// Starts the reference's process: trusted, native code without the lockdown so that a model can be asked for.
    /// [`Self::load`] goes on from there.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start_reference(&self) -> Result<Started, DeviceError> {
        let Artifact::Native { path, .. } = &self.reference else { return self.start(&self.reference) };
        let spec = WorkerSpec {
            read: Vec::new(),
            namespaces: false,
            lockdown: false,
            limits: Limits::default(),
            spin: false,
            cuda: self.gpu.is_some(),
        };
        let launch = Launch {
            program: Program::Reference { helper: self.helper.clone(), spec },
            env: self.environment(),
            cpus: None,
            flood_limit: FLOOD,
            gpu: self.gpu.clone(),
        };
        let worker = Worker::spawn(&launch, self.deadline)?;
        let (entry, model, patience) = (self.entry.clone(), self.model.clone(), self.load_patience());
        Ok(Started { worker, path: path.clone(), entry, model, read: Vec::new(), patience })
    }

    /// Whether all of the supervisor's own work on the GPU went well since this was last asked: what failed where nobody
    /// could be told was replaced by nothing, and nothing that was concluded from that may stand.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn gpu_worked(&self, scenario: &str) -> Result<(), MeasureError> {
        match self.gpu.as_ref().and_then(|gpu| gpu.take_failure()) {
            None => Ok(()),
            Some(error) => {
                Err(MeasureError::Gpu { scenario: scenario.to_owned(), source: Box::new(error.into()) })
            }
        }
    }

    /// The whole environment of a worker: the same for every side, and nothing of the caller's.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut env: BTreeMap<String, String> = [
            ("LANG", "C".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("OMP_NUM_THREADS", self.threads.to_string()),
            ("OMP_WAIT_POLICY", "passive".to_owned()),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
        if let Some(gpu) = &self.gpu {
            env.insert(EAGER.0.to_owned(), EAGER.1.to_owned());
            env.insert("CUDA_VISIBLE_DEVICES".to_owned(), gpu.identity().uuid.clone());
            env.extend(self.queues.map(|queues| (QUEUES.to_owned(), queues.to_string())));
            let folders: Vec<_> = self.cuda_libraries.iter().map(|p| p.to_string_lossy()).collect();
            env.insert("LD_LIBRARY_PATH".to_owned(), folders.join(":"));
        }
        env
    }
}
