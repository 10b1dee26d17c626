//! The command line. Types only: commands take resolved settings.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

mod campaign;
mod tools;

pub use tools::{Profile, SanitizeArg, SetArg, SoloArgs};
mod gpu;

pub use campaign::{
    AgentArg, AgentCommand, AgentEntry, Answer, Ask, Demo, Export, Goal, Here, HookDecision, Hypothesis,
    Import, LayerArg, Log, Report, Run, Seal, Status,
};

pub use gpu::{Gpu, GpuTrial};

/// Says what is true about a candidate kernel: built, allowed, correct on every scenario, timed against the seed,
/// plausible.
#[derive(Debug, Parser)]
#[command(name = "kernelseek", version, max_term_width = 100, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 the harness worked · 1 unmet (check, selftest, --exit-code) · 2 usage · 3 your \
                        files · 4 toolchain · 5 machine or harness · 70 bug"
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// Command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Folder for caches and records [default: $XDG_STATE_HOME/kernelseek]
    #[arg(long, global = true, value_name = "DIR", env = crate::env_vars::STATE_DIR, hide_env = true)]
    pub state_dir: Option<PathBuf>,
    /// C compiler
    #[arg(long, global = true, value_name = "PROGRAM", env = crate::env_vars::CC, hide_env = true)]
    pub cc: Option<PathBuf>,
    /// C++ compiler
    #[arg(long, global = true, value_name = "PROGRAM", env = crate::env_vars::CXX, hide_env = true)]
    pub cxx: Option<PathBuf>,
    /// CUDA compiler [default: looked for; `kernelseek doctor` says where]
    #[arg(long, global = true, value_name = "PROGRAM", env = crate::env_vars::NVCC, hide_env = true)]
    pub nvcc: Option<PathBuf>,
    /// GPU: its number in `kernelseek gpu`, its UUID, or the beginning of that [default: the first]
    #[arg(long, global = true, value_name = "GPU", env = crate::env_vars::GPU, hide_env = true)]
    pub gpu: Option<String>,
    /// Print data as JSON on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    pub color: Color,
    /// No progress, no talk: only data and errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
}

/// When to use colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Watch a campaign happen, in under a minute: recorded edits, live verdicts
    Demo(Demo),
    /// Evaluate a candidate against the seed and the reference on every scenario
    Eval(Eval),
    /// Make a campaign's folder for a kernel in C, C++ or CUDA: problem, seed, reference, scenarios
    Init(Init),
    /// Check that a problem can prove anything: trivial answers fail, the seed ties with itself
    Check(Check),
    /// Find the best values of a kernel's tunables, scenario by scenario, and write the routes
    Sweep(Sweep),
    /// Print the C header of a problem's call struct
    Header(Header),
    /// Draw held-out scenarios by the problem's rules and print them, one a line
    Draw(Draw),
    /// Build a source the way `eval` does, and say what was built
    Build(Build),
    /// Say what a built file holds: imports, needed libraries, GPU kernels with what they take, and what breaks
    /// the rules
    Inspect(Inspect),
    /// Run one scenario under Nsight Compute and keep its report; no time of it is ever counted
    Profile(Profile),
    /// Say what this machine offers: compilers, sandbox layers, clocks, GPUs, agents, and what to mend
    Doctor(Doctor),
    /// List the GPUs and who uses them, or hold one while a command runs
    Gpu(Gpu),
    /// Measure the measurement: seed against itself, planted slowdowns, hostile candidates
    Selftest(Selftest),
    /// Seal a campaign: problem, scenarios, goal and everything that results rest on
    Seal(Seal),
    /// Judge the goal on the last verdict of the sources as they are, and name what is missing
    Goal(Goal),
    /// Say where the campaign stands
    Status(Status),
    /// Show what happened in the campaign
    Log(Log),
    /// Write a report of the campaign: Markdown, or JSON with --json
    Report(Report),
    /// Ask the agent a question, or show the one that is open or due
    Ask(Ask),
    /// State what an edit is expected to do, before making it
    Hypothesis(Hypothesis),
    /// Answer the open question with a measurement
    Answer(Answer),
    /// Lead an agent: fence it in, evaluate for it, judge the goal after it has left
    Run(Run),
    /// Write a campaign's ledger as JSON lines
    Export(Export),
    /// Read an exported ledger, every byte checked
    Import(Import),
    /// Decide whether an agent may stop: JSON in, JSON out, for hooks
    HookDecision(HookDecision),
    /// Print a completion script for a shell
    Completions(Completions),
    /// Work as a built-in agent. Started by `run`.
    #[command(hide = true)]
    Agent(AgentEntry),
    /// Try the driver. Started by `doctor`.
    #[command(hide = true)]
    GpuTrial(GpuTrial),
    /// Run as a worker. Started by the tool itself.
    #[command(hide = true)]
    Worker(WorkerArgs),
    /// Call one case by itself, for sanitizers and profilers. Started by the tool itself.
    #[command(hide = true)]
    Solo(SoloArgs),
}

/// Where a problem is and which of its scenarios.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Folder with problem.toml [default: the folder of the source, or its nearest parent that has one]
    #[arg(long, short, value_name = "DIR")]
    pub problem: Option<PathBuf>,
    /// Scenario set [default: the problem's]
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Only these scenarios
    #[arg(long, short, value_name = "ID", value_delimiter = ',')]
    pub scenario: Vec<String>,
}

/// `eval`.
#[derive(Debug, Args)]
pub struct Eval {
    /// The candidate: a C or C++ source that defines the problem's entry point [default: the campaign's]
    pub candidate: Option<PathBuf>,
    /// Problem and scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// One or a few scenarios, for a verdict in about a second
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// More contents, held-out scenarios, a second cache mode
    #[arg(long)]
    pub full: bool,
    /// Every scenario of the set, a few contents each and no time that counts: whether it is right, at once; never a PASS, and
    /// outside the campaign
    #[arg(long, conflicts_with_all = ["quick", "full", "mode", "column"])]
    pub untimed: bool,
    /// Also run the quick scenarios (or the named ones) under these tools of compute-sanitizer; cuda target, outside the
    /// campaign
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TOOL")]
    pub sanitize: Vec<SanitizeArg>,
    /// What the caches hold when a call begins
    #[arg(long, value_enum, default_value_t = ModeArg::Cold, value_name = "MODE")]
    pub mode: ModeArg,
    /// What of a call is timed, on a GPU
    #[arg(long, value_enum, default_value_t = ColumnArg::Device, value_name = "COLUMN")]
    pub column: ColumnArg,
    /// Exit 1 unless the verdict is PASS
    #[arg(long)]
    pub exit_code: bool,
    /// Print the last verdict of the problem again, STALE if anything changed since; evaluates nothing
    #[arg(long)]
    pub last: bool,
    /// Also write the verdict with its raw pairs to this file
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Run the candidate without a sandbox (trust: reduced), for debugging it
    #[arg(long)]
    pub no_sandbox: bool,
    /// Evaluate outside the campaign: nothing is written to its ledger
    #[arg(long)]
    pub no_campaign: bool,
    /// Do not wait for another evaluation on this machine; exit 5
    #[arg(long)]
    pub no_wait: bool,
}

/// `sweep`.
#[derive(Debug, Args)]
pub struct Sweep {
    /// The candidate; its tunables stand in the file of the same name that ends in .toml [default: the campaign's]
    pub candidate: Option<PathBuf>,
    /// Problem and scenarios.
    #[command(flatten)]
    pub selection: Selection,
    /// Evaluations at most
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub budget_evaluations: usize,
    /// Seconds at most
    #[arg(long, value_name = "S", default_value_t = 300.0)]
    pub seconds: f64,
    /// Also try the allowed compiler flags, one at a time and then together
    #[arg(long)]
    pub flags: bool,
    /// Write the routes to this file [default: beside the candidate, NAME_routes.h]
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write nothing, only say what would be written
    #[arg(long)]
    pub dry_run: bool,
}

/// Cache state of timed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Evicted from every cache level.
    Cold,
    /// Where the supervisor's writes left them.
    Warm,
    /// One call after the other on other buffers, gaps included.
    Stream,
}

/// What of a call is timed, on a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColumnArg {
    /// What the device does.
    Device,
    /// The whole call, host and device.
    Call,
    /// What the device does when the calls are one graph.
    Graph,
}

/// `init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The file with the kernel
    pub file: PathBuf,
    /// The function or CUDA kernel, NAME or NAME:LINE [default: the only one that can be meant]
    #[arg(long, short, value_name = "NAME")]
    pub function: Option<String>,
    /// Folder to write [default: ./NAME]
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
    /// Language of the reference
    #[arg(long, value_enum, default_value_t = ReferenceArg::C, value_name = "LANGUAGE")]
    pub reference: ReferenceArg,
    /// What a template parameter stands for, such as T=double [default: float]
    #[arg(long = "type", value_name = "NAME=TYPE")]
    pub types: Vec<String>,
    /// How a CUDA kernel is launched, in its own parameters: "grid=(n + 255) / 256, block=256, smem=0" [default: as
    /// the file does]
    #[arg(long, value_name = "TEXT")]
    pub launch: Option<String>,
    /// Overwrite files that exist
    #[arg(long)]
    pub force: bool,
}

/// Language of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReferenceArg {
    /// The kernel's own language, C, C++ or CUDA: its own code in wider types where that is possible.
    C,
    /// Python, to be written.
    Python,
}

/// `check`.
#[derive(Debug, Args)]
pub struct Check {
    /// Folder with problem.toml [default: the current one, or the campaign's problem]
    pub problem: Option<PathBuf>,
    /// The same, as other commands name it
    #[arg(long = "problem", short, value_name = "DIR", conflicts_with = "problem", hide = true)]
    pub named: Option<PathBuf>,
    /// Scenario set [default: the problem's]
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Only these scenarios
    #[arg(long, short, value_name = "ID", value_delimiter = ',')]
    pub scenario: Vec<String>,
}

/// `header`.
#[derive(Debug, Args)]
pub struct Header {
    /// Folder with problem.toml
    #[arg(default_value = ".")]
    pub problem: PathBuf,
}

/// `draw`.
#[derive(Debug, Args)]
pub struct Draw {
    /// Folder with problem.toml
    #[arg(default_value = ".")]
    pub problem: PathBuf,
    /// Scenario set to draw from [default: the problem's]
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Same seed, same scenarios
    #[arg(long, value_name = "N")]
    pub seed: u64,
    /// How many, as a share of the set [default: the problem's; 1 draws a twin of it]
    #[arg(long, value_name = "SHARE")]
    pub share: Option<f64>,
}

/// `build`.
#[derive(Debug, Args)]
pub struct Build {
    /// The source
    pub source: PathBuf,
    /// Folder with problem.toml [default: the folder of the source, or its nearest parent that has one]
    #[arg(long, short, value_name = "DIR")]
    pub problem: Option<PathBuf>,
    /// GPU architecture to compile a CUDA source for; repeat it for several [default: this machine's GPU, else sm_90a]
    #[arg(long, value_name = "ARCH")]
    pub arch: Vec<String>,
    /// Copy the library here
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The library, object file or cubin
    pub file: PathBuf,
    /// Entry point that it should export
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Whose rules it is judged by; without it, `cuda` if the file holds GPU code
    #[arg(long, value_enum)]
    pub target: Option<TargetName>,
}

/// A target, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TargetName {
    /// Threads of this machine
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Measure the machine's peaks again
    #[arg(long)]
    pub peaks: bool,
}

/// `selftest`.
#[derive(Debug, Args)]
pub struct Selftest {
    /// Folder with the problem that stands for all; its target decides which sections there are
    #[arg(long, short, value_name = "DIR", default_value = "problems/softmax")]
    pub problem: PathBuf,
    /// Write everything, raw pairs included, to this file; what is already in it is not run again [without FILE:
    /// results/cpu/selftest.json, or results/h200/selftest.json on an H200]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub record: Option<Option<PathBuf>>,
    /// Recompute every figure of a record from its raw pairs and compare
    #[arg(long, value_name = "FILE", conflicts_with = "record")]
    pub recompute: Option<PathBuf>,
    /// Only these sections
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    pub section: Vec<Section>,
    /// Folder with the hostile candidates [default: cheats, or cheats/cuda for the cuda target]
    #[arg(long, value_name = "DIR")]
    pub cheats: Option<PathBuf>,
    /// Rounds of the hostile section
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub rounds: usize,
    /// Stop between two trials before this many seconds have passed; the same command goes on from the record
    #[arg(long, value_name = "SECONDS")]
    pub budget: Option<u64>,
    /// Commit to name in the record [default: that of the working folder]
    #[arg(long, value_name = "REVISION")]
    pub commit: Option<String>,
}

/// Sections of the self-test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, ValueEnum)]
pub enum Section {
    /// The seed against itself.
    Aa,
    /// Planted slowdowns (cpu).
    Slowdown,
    /// Planted gains (cuda).
    Gain,
    /// Events and the supervisor's wall, from the pairs of `aa` (cuda).
    Agreement,
    /// How long evaluations take, and where the time goes (cuda).
    Throughput,
    /// Candidates that crash, hang and spoil their context (cuda).
    Faults,
    /// Hostile candidates.
    Hostile,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

/// `worker`.
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Inherited socket.
    pub socket: i32,
    /// Inherited control page.
    pub control: i32,
    /// What the supervisor decided, as JSON.
    pub spec: String,
}
