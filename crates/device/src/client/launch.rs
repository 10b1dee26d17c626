//! Starting a worker's process.

use super::error::{DeviceError, Ending};
use crate::channel::Channel;
use crate::control::Control;
use crate::cuda::gpu::Gpu;
use crate::worker::WorkerSpec;
use kernelseek_sandbox::process::{self, BoundedCapture, OutputBounds, SpawnSpec, Waited};
use rustix::fd::AsRawFd;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What runs in the worker's process.
#[derive(Debug, Clone)]
pub enum Program {
    /// The tool itself, as a worker that is stopped whenever it is not called and timed through the gate.
    Native {
        /// The tool's binary.
        helper: PathBuf,
        /// What the worker is told.
        spec: WorkerSpec,
    },
    /// The tool itself, trusted and untimed: for references.
    Reference {
        /// The tool's binary.
        helper: PathBuf,
        /// What the worker is told.
        spec: WorkerSpec,
    },
    /// A Python interpreter with the Python worker: trusted and untimed.
    Python {
        /// The interpreter.
        interpreter: PathBuf,
        /// The Python worker, written out.
        script: PathBuf,
    },
}

/// How to start a worker.
#[derive(Debug, Clone)]
pub struct Launch {
    /// What runs.
    pub program: Program,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Cores it may use; all when `None`.
    pub cpus: Option<Vec<usize>>,
    /// Bytes of output after which it is killed.
    pub flood_limit: u64,
    /// The GPU that the buffers lie on, for a worker whose calls run there.
    pub gpu: Option<Rc<Gpu>>,
}

/// Bytes of each output stream that are kept.
const HEAD: usize = 64 << 10;

/// A started process.
#[derive(Debug)]
pub(super) struct Process {
    child: process::Process,
    flood_limit: u64,
}

impl Launch {
    /// Whether the supervisor may spin while this worker runs.
    pub(super) fn spin(&self) -> bool {
        matches!(&self.program, Program::Native { spec, .. } if spec.spin)
    }
    /// Whether the worker is stopped between requests and timed through the gate.
    pub(super) const fn halts(&self) -> bool {
        matches!(self.program, Program::Native { .. })
    }

    /// Whether a GPU's driver starts in the worker, which says so once it has.
    pub(super) const fn starts_driver(&self) -> bool {
        matches!(&self.program, Program::Native { spec, .. } | Program::Reference { spec, .. } if spec.cuda)
    }

    /// Starts the process with its end of the socket and the control page inherited.
    pub(super) fn start(&self, control: &Control) -> Result<(Channel, Process), DeviceError> {
        let io = |e: rustix::io::Errno| DeviceError::Start(e.into());
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(io)?;
        let page = rustix::io::fcntl_dupfd_cloexec(control.memory().fd(), 3).map_err(io)?;
        let (program, args) = match &self.program {
            Program::Native { helper, spec } | Program::Reference { helper, spec } => {
                let spec = serde_json::to_string(spec).map_err(|e| DeviceError::Start(e.into()))?;
                let args =
                    vec!["worker".into(), theirs.as_raw_fd().to_string(), page.as_raw_fd().to_string(), spec];
                (helper.clone(), args)
            }
            Program::Python { interpreter, script } => {
                // -E and -s: nothing of the caller's environment or home; -B: no bytecode beside the problem.
                let args = vec![
                    "-E".into(),
                    "-s".into(),
                    "-B".into(),
                    script.to_string_lossy().into_owned(),
                    theirs.as_raw_fd().to_string(),
                ];
                (interpreter.clone(), args)
            }
        };
        let child = process::spawn(SpawnSpec {
            program,
            args: args.into_iter().map(OsString::from).collect(),
            env: self.env.iter().map(|(k, v)| (k.into(), v.into())).collect(),
            cwd: None,
            inherit: vec![theirs, page],
            output: OutputBounds { head: HEAD, flood: Some(self.flood_limit) },
        })?;
        Ok((Channel::new(ours), Process { child, flood_limit: self.flood_limit }))
    }
}

impl Process {
    pub(super) fn id(&self) -> u32 {
        self.child.pid()
    }
    pub(super) fn output(&self) -> [BoundedCapture; 2] {
        let (out, err) = self.child.output();
        [out, err]
    }
    /// Bytes that it has printed, if they are more than it may.
    pub(super) fn flood(&self) -> Option<u64> {
        let printed = self.output().iter().map(|stream| stream.total_bytes).max().unwrap_or(0);
        (printed > self.flood_limit).then_some(printed)
    }
    /// Kills it; whoever ends it waits.
    pub(super) fn dismiss(&self) {
        self.child.dismiss();
    }
    /// Kills it and waits for its end.
    pub(super) fn end(&mut self) {
        // Nobody is left to tell.
        let _ = self.child.kill_tree();
    }
    /// How the process ended; waits a moment for it, since the socket closes a little before the end can be seen.
    pub(super) fn ending(&mut self) -> Ending {
        let deadline = Instant::now() + Duration::from_millis(500);
        loop {
            match self.child.wait_deadline(deadline) {
                Ok(Waited::Ended(status)) => {
                    return match (status.code(), status.signal()) {
                        (Some(code), _) => Ending::Exited(code),
                        (None, signal) => Ending::Killed(signal.unwrap_or(0)),
                    };
                }
                Ok(Waited::Flooded) => {}
                Ok(Waited::Deadline) | Err(_) => return Ending::Silent,
            }
        }
    }
}
