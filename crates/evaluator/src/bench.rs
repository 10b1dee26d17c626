//! The test bench: how workers are started for this problem on this machine.

use kernelseek_core::case::Case;
use kernelseek_device::client::{DeviceError, Launch, Program, Worker};
use kernelseek_device::layout;
use kernelseek_device::topology::Division;
use kernelseek_device::worker::WorkerSpec;
use kernelseek_sandbox::limits::Limits;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes of standard output and error after which a worker is killed.
const FLOOD: u64 = 16 << 20;
/// Address space that a worker needs beside its buffers: libraries, stacks, arenas of malloc.
const OVERHEAD_BYTES: u64 = 2 << 30;

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
    /// Whether workers enter namespaces.
    pub namespaces: bool,
    /// Whether workers are locked down.
    pub lockdown: bool,
}

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
        match artifact {
            Artifact::Native { path, .. } => self.spawn_native(path),
            Artifact::Python { interpreter, path, .. } => self.spawn_python(interpreter, path),
        }
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
        self.spawn_locked(artifact.path(), env, None)
    }

    fn spawn_native(&self, path: &Path) -> Result<Worker, DeviceError> {
        let limit = OVERHEAD_BYTES + self.memory + self.largest_arena;
        self.spawn_locked(path, self.environment(), Some(limit))
    }

    fn spawn_locked(
        &self,
        path: &Path,
        env: BTreeMap<String, String>,
        address_space: Option<u64>,
    ) -> Result<Worker, DeviceError> {
        let mut read = kernelseek_sandbox::lockdown::runtime_reads();
        read.extend(path.parent().map(Path::to_owned));
        let spec = WorkerSpec {
            read: read.clone(),
            namespaces: self.namespaces,
            lockdown: self.lockdown,
            limits: Limits { address_space, open_files: Some(64), ..Limits::default() },
            spin: self.division.is_disjoint(),
        };
        let launch = Launch {
            program: Program::Native { helper: self.helper.clone(), spec },
            env,
            cpus: Some(self.division.worker.clone()),
            flood_limit: FLOOD,
        };
        let mut worker = Worker::spawn(&launch, self.deadline)?;
        worker.load(&path.to_string_lossy(), &self.entry, None, &read, self.deadline)?;
        Ok(worker)
    }

    fn spawn_python(&self, interpreter: &Path, path: &Path) -> Result<Worker, DeviceError> {
        let launch = Launch {
            program: Program::Python {
                interpreter: interpreter.to_owned(),
                script: self.python_worker.clone(),
            },
            env: self.environment(),
            cpus: None,
            flood_limit: FLOOD,
        };
        // Importing an array library from a cold disk takes seconds.
        let patience = 15 * self.deadline;
        let mut worker = Worker::spawn(&launch, patience)?;
        worker.load(&path.to_string_lossy(), "op", self.model.as_deref(), &[], patience)?;
        Ok(worker)
    }

    /// Starts the reference's worker: trusted, native code without the lockdown so that a model can be asked for.
    ///
    /// # Errors
    /// When it does not start or cannot be loaded.
    pub fn spawn_reference(&self) -> Result<Worker, DeviceError> {
        let Artifact::Native { path, .. } = &self.reference else { return self.spawn(&self.reference) };
        let spec = WorkerSpec {
            read: Vec::new(),
            namespaces: false,
            lockdown: false,
            limits: Limits::default(),
            spin: false,
        };
        let launch = Launch {
            program: Program::Reference { helper: self.helper.clone(), spec },
            env: self.environment(),
            cpus: None,
            flood_limit: FLOOD,
        };
        let mut worker = Worker::spawn(&launch, self.deadline)?;
        worker.load(&path.to_string_lossy(), &self.entry, self.model.as_deref(), &[], self.deadline)?;
        Ok(worker)
    }

    /// The whole environment of a worker: the same for every side, and nothing of the caller's.
    fn environment(&self) -> BTreeMap<String, String> {
        [
            ("LANG", "C".to_owned()),
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("OMP_NUM_THREADS", self.threads.to_string()),
            ("OMP_WAIT_POLICY", "passive".to_owned()),
        ]
        .into_iter()
        .map(|(k, v)| (k.to_owned(), v))
        .collect()
    }
}
