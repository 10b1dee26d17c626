//! Commands that put somebody else's tool around a candidate.

use clap::{Args, ValueEnum};
use kernelseek_evaluator::cuda_profile::MetricSet;
use kernelseek_evaluator::cuda_sanitize::Tool;
use std::ffi::OsString;
use std::path::PathBuf;

/// A tool of compute-sanitizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SanitizeArg {
    /// Accesses outside allocations, misaligned ones, failed calls
    Memcheck,
    /// Races in shared memory
    Racecheck,
    /// Reads of memory that nothing has written
    Initcheck,
    /// Barriers that not every thread reaches
    Synccheck,
}

impl SanitizeArg {
    /// The tool, as the engine names it.
    #[must_use]
    pub const fn tool(self) -> Tool {
        match self {
            Self::Memcheck => Tool::Memcheck,
            Self::Racecheck => Tool::Racecheck,
            Self::Initcheck => Tool::Initcheck,
            Self::Synccheck => Tool::Synccheck,
        }
    }
}

/// How much a profile collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SetArg {
    /// How long every kernel takes: one pass, the median of several calls
    Duration,
    /// Speed of light, launch, occupancy: a few passes
    Basic,
    /// And memory and scheduling
    Detailed,
    /// Everything
    Full,
}

impl SetArg {
    /// The set, as the engine names it.
    #[must_use]
    pub const fn set(self) -> MetricSet {
        match self {
            Self::Duration => MetricSet::Duration,
            Self::Basic => MetricSet::Basic,
            Self::Detailed => MetricSet::Detailed,
            Self::Full => MetricSet::Full,
        }
    }
}

/// `profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// The candidate: a CUDA source that defines the problem's entry point
    pub candidate: PathBuf,
    /// Folder with problem.toml [default: the folder of the source, or its nearest parent that has one]
    #[arg(long, short, value_name = "DIR")]
    pub problem: Option<PathBuf>,
    /// The scenario [default: the first quick one]
    #[arg(long, short, value_name = "ID")]
    pub scenario: Option<String>,
    /// How much to collect
    #[arg(long, value_enum, default_value_t = SetArg::Detailed, value_name = "SET")]
    pub set: SetArg,
    /// Nsight Compute's command line tool [default: ncu on PATH, or where toolkits are installed]
    #[arg(long, value_name = "FILE")]
    pub ncu: Option<PathBuf>,
    /// Folder for report.ncu-rep
    #[arg(long, short, value_name = "DIR", default_value = "profile")]
    pub output: PathBuf,
}

/// `solo`.
#[derive(Debug, Args)]
pub struct SoloArgs {
    /// What to do, as JSON in a file.
    #[arg(required_unless_present = "apart")]
    pub spec: Option<PathBuf>,
    /// Enter namespaces without network and become the command that follows.
    #[arg(long, requires = "command", conflicts_with = "spec")]
    pub apart: bool,
    /// The command.
    #[arg(last = true)]
    pub command: Vec<OsString>,
}
