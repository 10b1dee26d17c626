//! Starting, watching, stopping and ending processes.

use crate::SandboxError;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of each stream that are kept.
const HEAD: usize = 64 << 10;
/// How long a stop may take.
const STOP_PATIENCE: Duration = Duration::from_millis(500);

/// What a stream carried.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BoundedCapture {
    /// Its beginning, at most 64 KiB.
    pub head: Vec<u8>,
    /// Everything it carried, bytes.
    pub total_bytes: u64,
    /// Whether the process was killed for printing too much.
    pub flooded: bool,
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct ProcessSpec {
    /// Program.
    pub program: PathBuf,
    /// Arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Folder it starts in; the caller's if `None`.
    pub cwd: Option<PathBuf>,
    /// Bytes of output after which it is killed.
    pub flood_limit: Option<u64>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Killed(i32),
}

/// A child in a process group of its own, with its output drained into bounded buffers. Killed with its whole group
/// when dropped.
#[derive(Debug)]
pub struct CapturedChild {
    child: Mutex<Child>,
    pid: u32,
    streams: [Arc<Mutex<BoundedCapture>>; 2],
    drains: Vec<std::thread::JoinHandle<()>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl CapturedChild {
    /// Starts a process.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(spec: &ProcessSpec) -> Result<Self, SandboxError> {
        let mut command = Command::new(&spec.program);
        command
            .args(&spec.args)
            .env_clear()
            .envs(&spec.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(folder) = &spec.cwd {
            command.current_dir(folder);
        }
        let start_error =
            |source| SandboxError::Start { program: spec.program.display().to_string(), source };
        let mut child = command.spawn().map_err(start_error)?;
        let pid = child.id();
        let streams = [Arc::default(), Arc::default()];
        let mut drains = Vec::new();
        let pipes: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
            child.stderr.take().map(|s| Box::new(s) as Box<dyn Read + Send>),
        ];
        for (pipe, stream) in pipes.into_iter().zip(&streams) {
            let (Some(pipe), stream, limit) = (pipe, Arc::clone(stream), spec.flood_limit) else { continue };
            let thread = std::thread::Builder::new()
                .name("drain".into())
                .spawn(move || drain(pipe, &stream, limit, pid))
                .map_err(start_error)?;
            drains.push(thread);
        }
        Ok(Self { child: Mutex::new(child), pid, streams, drains })
    }

    /// Process id.
    #[must_use]
    pub const fn id(&self) -> u32 {
        self.pid
    }

    /// What standard output and standard error carried so far.
    #[must_use]
    pub fn output(&self) -> [BoundedCapture; 2] {
        [lock(&self.streams[0]).clone(), lock(&self.streams[1]).clone()]
    }

    /// Waits at most `limit` for the end.
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Option<Ended> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            if let Ok(Some(status)) = lock(&self.child).try_wait() {
                return Some(match (status.code(), status.signal()) {
                    (Some(code), _) => Ended::Exited(code),
                    (None, signal) => Ended::Killed(signal.unwrap_or(0)),
                });
            }
            if start.elapsed() >= limit {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Kills the whole group and waits for the end and for the last output.
    pub fn end(&mut self) {
        kill_group(self.pid);
        let _ = lock(&self.child).wait();
        for thread in self.drains.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for CapturedChild {
    fn drop(&mut self) {
        self.end();
    }
}

fn drain(mut pipe: Box<dyn Read + Send>, stream: &Mutex<BoundedCapture>, limit: Option<u64>, pid: u32) {
    let mut chunk = vec![0; 64 << 10];
    while let Ok(n) = pipe.read(&mut chunk) {
        if n == 0 {
            return;
        }
        let mut capture = lock(stream);
        let free = HEAD.saturating_sub(capture.head.len()).min(n);
        capture.head.extend_from_slice(&chunk[..free]);
        capture.total_bytes += n as u64;
        if limit.is_some_and(|limit| capture.total_bytes > limit) && !capture.flooded {
            capture.flooded = true;
            kill_group(pid);
        }
    }
}

/// Kills a process group. The members of a pid namespace die with its first process, which dies with its parent.
#[expect(unsafe_code, reason = "kill")]
fn kill_group(pid: u32) {
    if let Ok(pid) = i32::try_from(pid)
        && pid > 1
    {
        // SAFETY: no pointers; a group of a child of ours that has not been waited for, or nobody.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
    }
}

#[expect(unsafe_code, reason = "kill")]
fn signal(pid: u32, signal: i32) -> Result<(), SandboxError> {
    let target = i32::try_from(pid).map_err(|_| SandboxError::Gone(pid))?;
    // SAFETY: no pointers.
    if unsafe { libc::kill(target, signal) } == 0 { Ok(()) } else { Err(SandboxError::Gone(pid)) }
}

/// Stops a process and waits until all its threads have stopped.
///
/// # Errors
/// When it is gone or does not stop.
pub fn stop(pid: u32) -> Result<(), SandboxError> {
    signal(pid, libc::SIGSTOP)?;
    let start = Instant::now();
    loop {
        match stopped(pid) {
            Some(true) => return Ok(()),
            Some(false) if start.elapsed() < STOP_PATIENCE => std::hint::spin_loop(),
            _ => return Err(SandboxError::Gone(pid)),
        }
    }
}

/// Lets a stopped process go on.
///
/// # Errors
/// When it is gone.
pub fn cont(pid: u32) -> Result<(), SandboxError> {
    signal(pid, libc::SIGCONT)
}

/// Whether every thread of a process is stopped; `None` when it is gone.
fn stopped(pid: u32) -> Option<bool> {
    let state = |path: &str| -> Option<u8> {
        let text = std::fs::read(path).ok()?;
        // The command's name, in parentheses, may hold anything.
        let end = text.iter().rposition(|&b| b == b')')?;
        text.get(end + 2).copied()
    };
    match state(&format!("/proc/{pid}/stat"))? {
        b'T' | b't' => {}
        b'Z' | b'X' => return None,
        _ => return Some(false),
    }
    let threads: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten().collect();
    if threads.len() == 1 {
        return Some(true);
    }
    Some(threads.iter().all(|thread| {
        state(&thread.path().join("stat").to_string_lossy()).is_none_or(|s| matches!(s, b'T' | b't' | b'Z' | b'X'))
    }))
}

/// Processor time that a process has used with all its threads.
///
/// # Errors
/// When it is gone.
#[expect(unsafe_code, reason = "process clocks")]
pub fn cpu_time(pid: u32) -> Result<Duration, SandboxError> {
    let target = i32::try_from(pid).map_err(|_| SandboxError::Gone(pid))?;
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: two live variables.
    unsafe {
        if libc::clock_getcpuclockid(target, &raw mut clock) != 0 || libc::clock_gettime(clock, &raw mut time) != 0 {
            return Err(SandboxError::Gone(pid));
        }
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}
