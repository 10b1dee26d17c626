//! Trying what the cuda target rests on, in processes of their own: a driver that crashes or hangs costs one answer.
//!
//! [`ask`] starts the tool's own binary again with a [`Trial`]; the binary's hidden entry calls [`perform`], which says
//! each step before it takes it. So an answer names the step even when the process dies in it.

use super::device::{self, Context, GpuIdentity};
use super::memory::{self, DeviceMemory, GRANULE, IpcHandle};
use super::module::{Args, Kernel, Module};
use super::stream::Stream;
use kernelseek_sandbox::lockdown::{self, LockdownSpec};
use kernelseek_sandbox::namespaces::{self, NamespaceSpec};
use kernelseek_sandbox::process::{self, OutputBounds, SpawnSpec, Waited};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Name of the hidden command that performs a trial.
pub const COMMAND: &str = "gpu-trial";
/// How long a trial may take. The driver alone needs seconds on a machine with many GPUs.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the memory holds before the kernel.
const FILL: u8 = 0x5a;

/// Adds one to the word at an address. Old enough for every GPU that a driver of today knows.
const PTX: &str = ".version 6.0\n.target sm_50\n.address_size 64\n\
.visible .entry bump(.param .u64 address)\n{\n.reg .u64 %a;\n.reg .u32 %v;\n\
ld.param.u64 %a, [address];\ncvta.to.global.u64 %a, %a;\nld.global.u32 %v, [%a];\n\
add.u32 %v, %v, 1;\nst.global.u32 [%a], %v;\nret;\n}\n";

/// What is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trial {
    /// List the GPUs through the driver.
    List,
    /// Export memory, let a second process open it and run a kernel on it, and look at what it wrote.
    Share {
        /// UUID of the GPU.
        gpu: String,
    },
    /// The second process of `Share`.
    Open {
        /// UUID of the GPU.
        gpu: String,
        /// What was exported.
        handle: IpcHandle,
    },
    /// Start the driver in namespaces of its own, then lock the process down, then allocate and run a kernel.
    Fenced {
        /// UUID of the GPU.
        gpu: String,
    },
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tried {
    /// It works.
    Works,
    /// It does not.
    Fails {
        /// The step in which it failed.
        step: String,
        /// Why.
        why: String,
    },
    /// It was not tried.
    NotTried,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Step(String),
    Failed(String),
    Gpus(Vec<GpuIdentity>),
    Done,
}

/// Lists the GPUs in a process of its own.
///
/// # Errors
/// The step that failed, and why.
pub fn list(helper: &Path, env: &BTreeMap<OsString, OsString>) -> Result<Vec<GpuIdentity>, Tried> {
    let lines = start(helper, env, &Trial::List);
    let gpus = lines.iter().find_map(|line| match line {
        Line::Gpus(gpus) => Some(gpus.clone()),
        _ => None,
    });
    match (judge(&lines), gpus) {
        (Tried::Works, Some(gpus)) => Ok(gpus),
        (Tried::Works, None) => Err(Tried::Fails { step: "list".into(), why: "no answer".into() }),
        (failed, _) => Err(failed),
    }
}

/// Performs a trial in a process of its own.
#[must_use]
pub fn ask(helper: &Path, env: &BTreeMap<OsString, OsString>, trial: &Trial) -> Tried {
    judge(&start(helper, env, trial))
}

fn start(helper: &Path, env: &BTreeMap<OsString, OsString>, trial: &Trial) -> Vec<Line> {
    let failed = |why: String| vec![Line::Step("start a process".to_owned()), Line::Failed(why)];
    let mut env = env.clone();
    // A trial leaves nothing behind.
    env.insert("CUDA_CACHE_DISABLE".into(), "1".into());
    let Ok(text) = serde_json::to_string(trial) else { return failed("the trial cannot be written".into()) };
    let spawned = process::spawn(SpawnSpec {
        program: helper.to_owned(),
        args: vec![COMMAND.into(), text.into()],
        cwd: Some("/".into()),
        env,
        inherit: Vec::new(),
        output: OutputBounds { head: 256 << 10, flood: Some(1 << 20) },
    });
    let mut process = match spawned {
        Ok(process) => process,
        Err(error) => return failed(error.to_string()),
    };
    let ended = match process.wait_deadline(Instant::now() + PATIENCE) {
        Ok(Waited::Ended(status)) if status.success() => None,
        Ok(Waited::Ended(status)) => Some(match status.signal() {
            Some(signal) => format!("the process was ended by signal {signal}"),
            None => format!("the process ended with code {}", status.code().unwrap_or(-1)),
        }),
        Ok(Waited::Deadline) => Some(format!("no end within {} s", PATIENCE.as_secs())),
        Ok(Waited::Flooded) => Some("it prints without end".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if ended.is_some() {
        // Nobody waits for it any longer.
        let _ = process.kill_tree();
    }
    let mut lines = parse(&process.final_output().0.text());
    if let Some(why) = ended
        && !lines.iter().any(|line| matches!(line, Line::Failed(_)))
    {
        lines.push(Line::Failed(why));
    }
    lines
}

/// The lines that are ours. The driver may print others.
fn parse(text: &str) -> Vec<Line> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn judge(lines: &[Line]) -> Tried {
    let mut step = "start the driver".to_owned();
    for line in lines {
        match line {
            Line::Step(next) => step.clone_from(next),
            Line::Failed(why) => return Tried::Fails { step, why: why.clone() },
            Line::Done => return Tried::Works,
            Line::Gpus(_) => {}
        }
    }
    Tried::Fails { step, why: "it ended without an answer".to_owned() }
}

/// Says what happens as JSON lines.
struct Teller<'a> {
    out: &'a mut dyn Write,
    gpus: Option<Vec<GpuIdentity>>,
}

impl Teller<'_> {
    fn line(&mut self, line: &Line) -> io::Result<()> {
        let text = serde_json::to_string(line)?;
        writeln!(self.out, "{text}")?;
        self.out.flush()
    }
    fn step(&mut self, name: &str) -> Result<(), String> {
        self.line(&Line::Step(name.to_owned())).map_err(|e| e.to_string())
    }
}

/// Performs a trial in this process, which must have a single thread and ends afterwards. Tells it on `out`.
///
/// # Errors
/// When `out` cannot be written. That a trial fails is an answer.
pub fn perform(
    trial: &Trial,
    helper: &Path,
    env: &BTreeMap<OsString, OsString>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut teller = Teller { out, gpus: None };
    let outcome = match trial {
        Trial::List => list_here(&mut teller),
        Trial::Share { gpu } => share(gpu, helper, env, &mut teller),
        Trial::Open { gpu, handle } => open(gpu, handle, &mut teller),
        Trial::Fenced { gpu } => fenced(gpu, &mut teller),
    };
    if let Some(gpus) = teller.gpus.take() {
        teller.line(&Line::Gpus(gpus))?;
    }
    teller.line(&match outcome {
        Ok(()) => Line::Done,
        Err(why) => Line::Failed(why),
    })
}

fn said<E: std::fmt::Display>(error: E) -> String {
    error.to_string()
}

fn list_here(teller: &mut Teller<'_>) -> Result<(), String> {
    teller.step("start the driver")?;
    teller.gpus = Some(device::list().map_err(said)?);
    Ok(())
}

/// A kernel ready to be launched.
struct Bump {
    kernel: Kernel,
    _module: Module,
}

impl Bump {
    fn load() -> Result<Self, String> {
        let module = Module::from_ptx(PTX).map_err(said)?;
        Ok(Self { kernel: module.kernel("bump").map_err(said)?, _module: module })
    }
    fn launch(&self, memory: &DeviceMemory, stream: &Stream) -> Result<(), String> {
        self.kernel.launch(1, 1, stream, Args::new().u64(memory.address())).map_err(said)?;
        stream.synchronize().map_err(said)
    }
}

fn fill(memory: &DeviceMemory, stream: &Stream) -> Result<(), String> {
    memory::set(memory.address(), FILL, memory.len(), stream).map_err(said)?;
    stream.synchronize().map_err(said)
}

/// Whether the first word has been counted up and the next one has not.
fn look(memory: &DeviceMemory, stream: &Stream) -> Result<(), String> {
    let mut bytes = [0u8; 8];
    memory::download(&mut bytes, memory.address(), stream).map_err(said)?;
    let mut expected = [FILL; 8];
    expected[..4].copy_from_slice(&(u32::from_le_bytes([FILL; 4]) + 1).to_le_bytes());
    if bytes == expected { Ok(()) } else { Err(format!("the memory holds {bytes:02x?}")) }
}

fn share(
    gpu: &str,
    helper: &Path,
    env: &BTreeMap<OsString, OsString>,
    teller: &mut Teller<'_>,
) -> Result<(), String> {
    teller.step("open the GPU")?;
    let _context = Context::open(Some(gpu)).map_err(said)?;
    let stream = Stream::new().map_err(said)?;
    teller.step("allocate memory")?;
    let memory = DeviceMemory::exportable(GRANULE).map_err(said)?;
    fill(&memory, &stream)?;
    teller.step("export the memory")?;
    let handle = memory.export().map_err(said)?;
    teller.step("open the memory in a second process")?;
    match ask(helper, env, &Trial::Open { gpu: gpu.to_owned(), handle }) {
        Tried::Works => {}
        Tried::Fails { step, why } => return Err(format!("{step}: {why}")),
        Tried::NotTried => return Err("no answer".into()),
    }
    teller.step("read what the second process wrote")?;
    look(&memory, &stream)
}

fn open(gpu: &str, handle: &IpcHandle, teller: &mut Teller<'_>) -> Result<(), String> {
    teller.step("open the GPU")?;
    let _context = Context::open(Some(gpu)).map_err(said)?;
    let stream = Stream::new().map_err(said)?;
    teller.step("open the memory")?;
    let memory = DeviceMemory::open(handle).map_err(said)?;
    teller.step("run a kernel on it")?;
    Bump::load()?.launch(&memory, &stream)
}

fn fenced(gpu: &str, teller: &mut Teller<'_>) -> Result<(), String> {
    teller.step("enter namespaces")?;
    let mut read = lockdown::runtime_reads();
    read.extend(super::driver_reads());
    let world = NamespaceSpec { read: read.clone(), devices: true, private_proc: true, enabled: true };
    namespaces::enter(&world, |_| {}).map_err(said)?;
    teller.step("start the driver in the namespaces")?;
    device::init().map_err(said)?;
    teller.step("open the GPU in the namespaces")?;
    let _context = Context::open(Some(gpu)).map_err(said)?;
    let stream = Stream::new().map_err(said)?;
    let bump = Bump::load()?;
    teller.step("lock the process down")?;
    // Nobody serves the listener here: closed, a denied call fails instead of waiting.
    drop(lockdown::apply(&LockdownSpec { read, threads_allowed: true, devices: true }).map_err(said)?);
    teller.step("allocate memory behind the fence")?;
    let memory = DeviceMemory::new(GRANULE).map_err(said)?;
    fill(&memory, &stream)?;
    teller.step("run a kernel behind the fence")?;
    bump.launch(&memory, &stream)?;
    look(&memory, &stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fails(step: &str, why: &str) -> Tried {
        Tried::Fails { step: step.into(), why: why.into() }
    }

    #[test]
    fn the_last_step_said_is_the_one_that_failed() {
        let step = |name: &str| Line::Step(name.into());
        let rows = [
            (vec![step("a"), step("b"), Line::Done], Tried::Works),
            (vec![step("a"), step("b"), Line::Failed("x".into())], fails("b", "x")),
            (vec![step("a")], fails("a", "it ended without an answer")),
            (vec![], fails("start the driver", "it ended without an answer")),
        ];
        for (lines, expected) in rows {
            assert_eq!(judge(&lines), expected);
            let text: String =
                lines.iter().map(|l| serde_json::to_string(l).unwrap() + "\nnoise\n").collect();
            assert_eq!(parse(&text), lines);
        }
    }

    #[test]
    fn a_helper_that_dies_or_is_not_there_is_an_answer() {
        let env = BTreeMap::new();
        let trial = Trial::Share { gpu: "GPU-1".into() };
        assert!(
            matches!(ask(Path::new("/no/such/file"), &env, &trial), Tried::Fails { step, .. } if step == "start a process")
        );
        let false_program =
            ["/bin/false", "/usr/bin/false"].map(Path::new).into_iter().find(|p| p.exists()).unwrap();
        assert_eq!(
            ask(false_program, &env, &trial),
            fails("start the driver", "the process ended with code 1")
        );
        assert!(list(false_program, &env).is_err());
    }

    #[test]
    fn without_a_driver_every_trial_says_so() {
        if device::present() {
            return;
        }
        let handle = IpcHandle { halves: [[0; 32]; 2], bytes: GRANULE };
        let gpu = "GPU-1".to_owned();
        for trial in [Trial::List, Trial::Share { gpu: gpu.clone() }, Trial::Open { gpu, handle }] {
            let mut out = Vec::new();
            perform(&trial, Path::new("/no/such/file"), &BTreeMap::new(), &mut out).unwrap();
            let told = judge(&parse(&String::from_utf8(out).unwrap()));
            assert!(matches!(&told, Tried::Fails { why, .. } if why.contains("libcuda")), "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn any_output_is_read_without_a_panic(text in ".*") {
            let _ = judge(&parse(&text));
        }
    }
}
