//! What the caller decides about an evaluation, resolved: no environment, no defaults left to look up.

use crate::cuda_sanitize::Tool;
use kernelseek_core::problem::Target;
use kernelseek_toolchain::CudaPlaces;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// How much work an evaluation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// One or a few scenarios, seconds.
    Quick,
    /// The visible grid.
    Default,
    /// More contents, held-out scenarios, a second mode, a sanitizer. Only this tier satisfies a goal.
    Full,
}

impl Tier {
    /// The tier as records hold it and people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// What the caches hold when a call begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The slot's buffers are evicted from every cache level before the request.
    Cold,
    /// The slot's buffers are where the supervisor's writes left them, in the shared cache level if they fit.
    Warm,
    /// Calls follow each other without a pause, each on other buffers, as in a running pipeline; on a GPU the time from the
    /// first to the last is taken, gaps included.
    Stream,
}

impl Mode {
    /// Its name as records hold it and people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Stream => "stream",
        }
    }
    /// The mode that an audit and `--full` look at besides.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Cold => Self::Warm,
            Self::Warm | Self::Stream => Self::Cold,
        }
    }
}

/// What of a call is timed. On the CPU it is always the whole call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Column {
    /// What the device does: the stream is held until everything has been enqueued.
    #[default]
    Device,
    /// From the host's call to the end of its work on an idle stream.
    Call,
    /// What the device does when the calls are recorded into one graph.
    Graph,
}

impl Column {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Device, Self::Call, Self::Graph];

    /// Its name as records hold it and people read it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Call => "call",
            Self::Graph => "graph",
        }
    }
}

/// Numbers of worker instances, pairs and references. They depend on the tier alone, never on the candidate, so that
/// a candidate cannot make its own measurement shorter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effort {
    /// Worker instances of each side.
    pub instances: usize,
    /// Timed pairs of requests in each instance.
    pub pairs: usize,
    /// Most slots of one request.
    pub max_slots: usize,
    /// Secret contents compared with the full reference.
    pub references: usize,
    /// Interval half-width above which a scenario is UNRESOLVED.
    pub margin: f64,
    /// Confidence of intervals.
    pub confidence: f64,
    /// Time that one request should stay under; fewer slots are drawn for slower kernels.
    pub request_budget: Duration,
    /// Time that the calls of one scenario may take, those of both sides, where they run on a GPU ([`crate::work`]).
    #[serde(default = "ever")]
    pub timed: Duration,
    /// The same of all scenarios together; each has an equal part.
    #[serde(default = "ever")]
    pub timed_in_all: Duration,
}

/// What efforts of records that do not say so had.
const fn ever() -> Duration {
    Duration::from_secs(3600)
}

impl Effort {
    /// The effort of a tier where calls run on a GPU: more instances than on the CPU, since one process times short calls up to
    /// a percent differently from the next, with few long requests each (`requests::calls`, `requests::pairs`).
    #[must_use]
    pub const fn on_gpu(tier: Tier) -> Self {
        let base = Self::of(tier);
        match tier {
            Tier::Quick => base,
            Tier::Default => Self { instances: 8, pairs: 5, ..base },
            Tier::Full => Self { instances: 8, pairs: 8, ..base },
        }
    }

    /// A few contents of every scenario on one worker instance: enough to say what is wrong, and too little for an interval.
    #[must_use]
    pub const fn untimed() -> Self {
        Self { instances: 1, pairs: 2, max_slots: 2, references: 1, ..Self::of(Tier::Default) }
    }

    /// This effort where calls run on a GPU, if it is a tier's, or a multiple of its pairs at another confidence, as for a
    /// second look; `None` if somebody chose it otherwise.
    fn moved_to_gpu(self) -> Option<Self> {
        [Tier::Default, Tier::Full, Tier::Quick].into_iter().find_map(|tier| {
            let usual = Self::of(tier);
            let times = self.pairs / usual.pairs;
            let same = Self { pairs: usual.pairs, confidence: usual.confidence, ..self } == usual;
            (same && times > 0 && self.pairs == times * usual.pairs).then(|| {
                let moved = Self::on_gpu(tier);
                let factor = u32::try_from(times).unwrap_or(u32::MAX);
                Self {
                    pairs: times * moved.pairs,
                    confidence: self.confidence,
                    timed: moved.timed.saturating_mul(factor),
                    timed_in_all: moved.timed_in_all.saturating_mul(factor),
                    ..moved
                }
            })
        })
    }

    /// The effort of a tier.
    #[must_use]
    pub const fn of(tier: Tier) -> Self {
        let base = Self {
            instances: 5,
            pairs: 6,
            max_slots: 16,
            references: 2,
            margin: 0.05,
            confidence: 0.99,
            request_budget: Duration::from_millis(40),
            timed: Duration::from_millis(900),
            timed_in_all: Duration::from_secs(60),
        };
        match tier {
            Tier::Quick => Self {
                instances: 3,
                pairs: 4,
                max_slots: 8,
                references: 1,
                margin: 0.10,
                timed: Duration::from_millis(300),
                timed_in_all: Duration::from_secs(3),
                ..base
            },
            Tier::Default => base,
            Tier::Full => Self {
                instances: 6,
                pairs: 8,
                references: 4,
                timed: Duration::from_secs(2),
                timed_in_all: Duration::from_secs(200),
                ..base
            },
        }
    }
}

/// Settings of one evaluation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where caches and records live; outside every workspace.
    pub state_dir: PathBuf,
    /// The tool's own binary, started again as worker and build helper.
    pub helper: PathBuf,
    /// C compiler, if the caller names one.
    pub cc: Option<PathBuf>,
    /// C++ compiler, if the caller names one.
    pub cxx: Option<PathBuf>,
    /// Where to look for nvcc.
    pub cuda: CudaPlaces,
    /// GPU architectures that CUDA sources are compiled for (`sm_90a`).
    pub archs: Vec<String>,
    /// Python interpreter, if the caller names one.
    pub python: Option<PathBuf>,
    /// Folders to look for programs in.
    pub path: Vec<PathBuf>,
    /// Which GPU: a number, a UUID or the beginning of one; the first when `None`.
    pub gpu: Option<String>,
    /// Folder with the leases of GPUs; the machine's own when `None`.
    pub gpu_leases: Option<PathBuf>,
    /// Token of the lease that this process runs under, if there is one.
    pub gpu_lease: Option<String>,
    /// Tier.
    pub tier: Tier,
    /// Cache state.
    pub mode: Mode,
    /// What of a call is timed, on a GPU.
    pub column: Column,
    /// Effort; `Effort::of(tier)` unless the caller knows better.
    pub effort: Effort,
    /// Scenario set; the problem's default when `None`.
    pub set: Option<String>,
    /// Scenario ids to evaluate; all of the tier's when empty.
    pub only: Vec<String>,
    /// Secret that the contents are drawn from; fresh for every evaluation.
    pub secret: [u8; 32],
    /// Whether workers enter namespaces of their own, where the machine allows.
    pub namespaces: bool,
    /// Whether workers are locked down.
    pub lockdown: bool,
    /// Aggregate ratio above which a win is suspicious, relative to the incumbent's.
    pub suspicious: f64,
    /// Flags that the candidate may choose from; the problem's `candidate_flags` when `None`.
    pub candidate_flags: Option<Vec<String>>,
    /// Calibrate the seed against itself when no record of its spread exists.
    pub calibrate: bool,
    /// Tools of compute-sanitizer to run the candidate under; none when empty.
    pub sanitize: Vec<Tool>,
}

impl Settings {
    /// The same with a tier's effort for this target, unless the caller knew better.
    #[must_use]
    pub fn for_target(&self, target: Target) -> Self {
        let effort = match target {
            Target::Cpu => self.effort,
            Target::Cuda => self.effort.moved_to_gpu().unwrap_or(self.effort),
        };
        Self { effort, ..self.clone() }
    }

    /// Why mode and column together are nothing that can be timed on this target.
    pub(crate) const fn nothing_to_time(&self, target: Target) -> Option<&'static str> {
        match (target, self.mode, self.column) {
            (Target::Cpu, Mode::Stream, _) => {
                Some("a stream of calls is something on a GPU; this problem's target is cpu")
            }
            (Target::Cpu, _, Column::Call | Column::Graph) => Some(
                "columns are something on a GPU; this problem's target is cpu, where the whole call is timed",
            ),
            (Target::Cuda, Mode::Stream, Column::Call) => Some(
                "calls that are waited for one by one make no stream: its columns are `device` and `graph`",
            ),
            _ => None,
        }
    }

    /// What was timed, for records: the mode, and the column where it is not the one that counts.
    #[must_use]
    pub fn mode_and_column(&self) -> String {
        match self.column {
            Column::Device => self.mode.as_str().to_owned(),
            other => format!("{} {}", self.mode.as_str(), other.as_str()),
        }
    }

    /// Folder of the build cache.
    #[must_use]
    pub fn build_cache(&self) -> PathBuf {
        self.state_dir.join("builds")
    }
    /// Folder of cached reference outputs.
    #[must_use]
    pub fn reference_cache(&self) -> PathBuf {
        self.state_dir.join("references")
    }
    /// Folder of generated headers.
    #[must_use]
    pub fn headers(&self) -> PathBuf {
        self.state_dir.join("headers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiers_effort_moves_to_a_gpu_and_somebodys_own_does_not() {
        for tier in [Tier::Quick, Tier::Default, Tier::Full] {
            assert_eq!(Effort::of(tier).moved_to_gpu(), Some(Effort::on_gpu(tier)));
            let again = Effort { pairs: 3 * Effort::of(tier).pairs, confidence: 0.999, ..Effort::of(tier) };
            let moved = again.moved_to_gpu();
            let usual = Effort::on_gpu(tier);
            let (timed, timed_in_all) = (3 * usual.timed, 3 * usual.timed_in_all);
            let thrice = Effort { pairs: 3 * usual.pairs, confidence: 0.999, timed, timed_in_all, ..usual };
            assert_eq!(moved, Some(thrice));
            assert_eq!(Effort { instances: 11, ..Effort::of(tier) }.moved_to_gpu(), None);
        }
        assert_eq!(Effort { pairs: 1, ..Effort::of(Tier::Default) }.moved_to_gpu(), None);
        assert_eq!(Effort::untimed().moved_to_gpu(), None);
    }
}
