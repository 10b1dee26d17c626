//! Arguments of the commands about campaigns.

use clap::{Args, Subcommand, ValueEnum};
use kernelseek_core::decision::Layer;
use std::ffi::OsString;
use std::path::PathBuf;

/// Where the campaign is.
#[derive(Debug, Clone, Args)]
pub struct Here {
    /// Folder of the campaign, or one below it
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// `seal`.
#[derive(Debug, Args)]
pub struct Seal {
    /// Where.
    #[command(flatten)]
    pub here: Here,
    /// Why it is sealed again; needed if anything changed
    #[arg(long, value_name = "TEXT", alias = "reason")]
    pub because: Option<String>,
}

/// `goal`.
#[derive(Debug, Args)]
pub struct Goal {
    /// Where.
    #[command(flatten)]
    pub here: Here,
    /// Exit 1 unless the goal is met
    #[arg(long)]
    pub exit_code: bool,
}

/// `status`.
#[derive(Debug, Args)]
pub struct Status {
    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `log`.
#[derive(Debug, Args)]
pub struct Log {
    /// Where.
    #[command(flatten)]
    pub here: Here,
    /// Show this many of the last rows; 0 for all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 40)]
    pub number: usize,
    /// Show one row whole
    #[arg(long, value_name = "ROW")]
    pub row: Option<u64>,
    /// Show only rows of this kind (evaluated, promoted, asked, …)
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
    /// Show where questions were not asked too
    #[arg(long)]
    pub silences: bool,
}

/// `report`.
#[derive(Debug, Args)]
pub struct Report {
    /// Where.
    #[command(flatten)]
    pub here: Here,
    /// The file; standard output without one
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `ask`.
#[derive(Debug, Args)]
pub struct Ask {
    /// The question; without it, the one that is open or due is shown
    pub question: Option<String>,
    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// A layer, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum LayerArg {
    /// Which scenarios and which clock.
    Goal,
    /// Whether the measurement measures that.
    Measurement,
    /// The host path and the call boundary.
    Host,
    /// Which code runs for which scenario.
    Dispatch,
    /// How much work there is.
    Formulation,
    /// How it is spread over processors.
    Schedule,
    /// Memory, caches, pages.
    Memory,
    /// Movement and waiting on the chip.
    OnChip,
    /// Instructions, registers, the compiler.
    Instructions,
    /// Correctness, claims, the search itself.
    Conduct,
}

impl From<LayerArg> for Layer {
    fn from(layer: LayerArg) -> Self {
        match layer {
            LayerArg::Goal => Self::Goal,
            LayerArg::Measurement => Self::Measurement,
            LayerArg::Host => Self::Host,
            LayerArg::Dispatch => Self::Dispatch,
            LayerArg::Formulation => Self::Formulation,
            LayerArg::Schedule => Self::Schedule,
            LayerArg::Memory => Self::Memory,
            LayerArg::OnChip => Self::OnChip,
            LayerArg::Instructions => Self::Instructions,
            LayerArg::Conduct => Self::Conduct,
        }
    }
}

/// `hypothesis`.
#[derive(Debug, Args)]
pub struct Hypothesis {
    /// What will change, by how much, and why
    pub text: String,
    /// Layer that it is about
    #[arg(long, value_enum, value_name = "LAYER")]
    pub layer: Option<LayerArg>,
    /// Ratio to the incumbent that is expected, for example 1.15
    #[arg(long, value_name = "RATIO")]
    pub expect: Option<f64>,
    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `answer`.
#[derive(Debug, Args)]
pub struct Answer {
    /// The answer in words
    pub text: String,
    /// A measured value: NAME=NUMBER, NAME=WORD, or NAME=A,B,C for a list
    #[arg(long = "value", value_name = "NAME=VALUE")]
    pub values: Vec<String>,
    /// A JSON object with what was measured
    #[arg(long, value_name = "FILE")]
    pub artefact: Option<PathBuf>,
    /// Row of the question [default: the open one]
    #[arg(long, value_name = "ROW")]
    pub question: Option<u64>,
    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `run`.
#[derive(Debug, Args)]
pub struct Run {
    /// Where.
    #[command(flatten)]
    pub here: Here,
    /// A further folder that the agent may write to, for example its own configuration
    #[arg(long, value_name = "DIR")]
    pub write: Vec<PathBuf>,
    /// An agent that takes turns: it is sent back with a question until the goal is met or a budget is spent
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "command")]
    pub agent: Option<AgentArg>,
    /// Folder with a recording, for the agent `replay`
    #[arg(long, value_name = "DIR")]
    pub recording: Option<PathBuf>,
    /// Turns at most [default: 20; a command is started once and keeps the terminal]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: Option<u32>,
    /// End after this many minutes, all turns together
    #[arg(long, value_name = "N")]
    pub minutes: Option<f64>,
    /// Begin a new session, even if an earlier run left one
    #[arg(long)]
    pub fresh: bool,
    /// Exit 1 unless the goal is met
    #[arg(long)]
    pub exit_code: bool,
    /// The agent's command
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// Lay the campaign out in this folder, which must not exist or be empty [default: a new one in $TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub into: Option<PathBuf>,
    /// Play the recording in this folder instead of the built-in one
    #[arg(long, value_name = "DIR")]
    pub recording: Option<PathBuf>,
}

/// Agents that take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AgentArg {
    /// Plays recorded edits; needs no model.
    Replay,
    /// Searches declared tunables and allowed flags; needs no model.
    Tuner,
}

/// `agent`.
#[derive(Debug, Args)]
pub struct AgentEntry {
    /// Which.
    #[command(subcommand)]
    pub command: AgentCommand,
}

/// Entries of the built-in agents.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Searches tunables and flags
    Tuner {
        /// Evaluations at most
        #[arg(long, value_name = "N")]
        evaluations: usize,
        /// Seconds at most
        #[arg(long, value_name = "S")]
        seconds: f64,
    },
    /// Plays recorded edits
    Replay {
        /// Folder with the recording
        #[arg(long, value_name = "DIR")]
        recording: PathBuf,
        /// Number of the step to begin with, from 0
        #[arg(long, value_name = "N")]
        session: Option<String>,
    },
}

/// `export`.
#[derive(Debug, Args)]
pub struct Export {
    /// The file; standard output without one
    pub file: Option<PathBuf>,
    /// Leave raw pairs and built libraries out
    #[arg(long)]
    pub without_bulk: bool,
    /// Write the edits and words as a recording into this folder instead, for `run --agent replay`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["file", "without_bulk"])]
    pub recording: Option<PathBuf>,
    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `import`.
#[derive(Debug, Args)]
pub struct Import {
    /// The exported file
    pub file: PathBuf,
    /// Hash that its last row must have, kept from when it was exported
    #[arg(long, value_name = "HASH")]
    pub head: Option<String>,
    /// Make this folder the campaign's workspace
    #[arg(long, value_name = "DIR")]
    pub workspace: Option<PathBuf>,
}

/// `hook-decision`.
#[derive(Debug, Args)]
pub struct HookDecision {
    /// Folder that the agent works in, if the JSON does not say `cwd`
    #[command(flatten)]
    pub here: Here,
}
