//! The supervisor's half of the cases.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernelseek_sandbox::descriptors;
use kernelseek_sandbox::lockdown::runtime_reads;
use kernelseek_sandbox::monitor::{Denials, Monitor};
use kernelseek_sandbox::probe::probe;
use kernelseek_sandbox::process::{OutputBounds, Process, SpawnSpec, Waited, spawn};
use kernelseek_sandbox::report::Layers;

/// More than any case takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// How a worker is set up.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) namespaces: bool,
    pub(crate) threads: bool,
    pub(crate) monitored: bool,
    pub(crate) address_space: u64,
    pub(crate) read: Vec<PathBuf>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { namespaces: true, threads: true, monitored: true, address_space: 0, read: runtime_reads() }
    }
}

/// A worker that is locked down and about to act.
pub(crate) struct Worker {
    pub(crate) process: Process,
    pub(crate) socket: UnixStream,
    pub(crate) pid: u32,
    pub(crate) layers: Layers,
    pub(crate) monitor: Option<Monitor>,
    // An unserved listener stays open, so that denied calls wait.
    pub(crate) listener: Option<OwnedFd>,
}

pub(crate) fn own_binary() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub(crate) fn spec(arguments: Vec<OsString>, inherit: Vec<OwnedFd>) -> SpawnSpec {
    SpawnSpec {
        program: own_binary(),
        args: arguments,
        cwd: None,
        env: BTreeMap::new(),
        inherit,
        output: OutputBounds::default(),
    }
}

pub(crate) fn start(setup: &Setup, actions: &[&str]) -> Worker {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let read: Vec<&str> = setup.read.iter().map(|path| path.to_str().unwrap()).collect();
    let mut arguments: Vec<OsString> = vec![
        "role-worker".into(),
        theirs.as_raw_fd().to_string().into(),
        if setup.namespaces { "namespaces" } else { "plain" }.into(),
        if setup.threads { "threads" } else { "single" }.into(),
        setup.address_space.to_string().into(),
        read.join(":").into(),
    ];
    arguments.extend(actions.iter().map(OsString::from));
    let mut process = spawn(spec(arguments, vec![theirs.into()])).unwrap();

    let mut receive = |room: usize| {
        let mut buffer = vec![0; room];
        match descriptors::receive(&ours, &mut buffer) {
            Ok((count, descriptors)) if count > 0 => (buffer[..count].to_vec(), descriptors),
            other => {
                let ended = process.kill_tree();
                panic!("worker did not report: {other:?} {ended:?} {:?}", process.final_output());
            }
        }
    };
    // The stream has no message bounds: the id must not take the report with it.
    let (pid, _) = receive(size_of::<u32>());
    let pid = u32::from_le_bytes(pid.try_into().unwrap());
    let (text, mut descriptors) = receive(16 << 10);
    let layers: Layers = serde_json::from_slice(&text).unwrap();
    let mut listener = descriptors.pop();
    let monitor = match listener.take() {
        Some(listener) if setup.monitored => Some(Monitor::start(listener, &setup.read).unwrap()),
        unserved => {
            listener = unserved;
            None
        }
    };
    Worker { process, socket: ours, pid, layers, monitor, listener }
}

impl Worker {
    pub(crate) fn go(&mut self) {
        self.socket.write_all(&[1]).unwrap();
    }

    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        match self.process.wait_deadline(Instant::now() + PATIENCE).unwrap() {
            Waited::Ended(status) => status,
            other => panic!("{other:?}: {:?}", self.process.output()),
        }
    }

    pub(crate) fn denials(&self) -> Denials {
        self.monitor.as_ref().map(Monitor::denials).unwrap_or_default()
    }

    /// Lets it act until its end; what each action came to, by name.
    pub(crate) fn finish(&mut self) -> BTreeMap<String, i32> {
        self.go();
        let status = self.wait();
        let (stdout, stderr) = self.process.final_output();
        assert!(status.success(), "{status} {} {}", stdout.text(), stderr.text());
        stdout
            .text()
            .lines()
            .map(|line| {
                let (name, value) = line.rsplit_once('=').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }
}

/// Whether a process by this id runs; a zombie does not.
pub(crate) fn runs(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    !stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Waits until the condition holds.
pub(crate) fn eventually(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn write_file(path: &Path, text: &str) -> String {
    std::fs::write(path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

pub(crate) fn probe_reports() {
    let layers = probe().unwrap();
    let own = format!("PPid:\t{}\n", std::process::id());
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        std::fs::read_to_string(entry.path().join("status")).is_ok_and(|status| status.contains(&own))
    });
    assert_eq!(left.count(), 0, "the probe leaves nothing");
    println!("  {}", layers.summary());
    for name in ["user", "mount", "pid", "net", "ipc", "uts", "capabilities"] {
        assert!(layers.namespaces.iter().any(|(known, _)| known == name), "{name}");
    }
    // The probe says what a worker gets.
    let mut worker = start(&Setup::default(), &[]);
    worker.finish();
    assert_eq!(worker.layers, layers);
}
