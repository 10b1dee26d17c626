//! `profile`: one scenario of a candidate under Nsight Compute, its raw report kept.
//!
//! Outside the timed worker, in a process and in allocations of its own. The profiler replays kernels, flushes caches and
//! reads counters: its durations say where time goes, and are never counted.

pub mod table;

use crate::solo::{Calls, Fence, Ran, SoloBench, SoloRunError};
use kernelseek_core::case::Case;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use table::KernelLaunch;

/// Name of the report, without the ending that the profiler adds.
const REPORT: &str = "report";
/// Metrics that not every set holds.
const METRICS: &str =
    "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,launch__registers_per_thread";

/// The only one where durations are all that is wanted.
const DURATION: &str = "gpu__time_duration.sum";
/// Calls of which durations are the median, and how many of them only bring the clocks up.
const DURATION_CALLS: usize = 15;
const WARM_UP: usize = 6;

/// How much the profiler collects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricSet {
    /// How long every kernel takes, and nothing else: one pass, several calls, the median of the later ones.
    Duration,
    /// A few passes: speed of light, launch, occupancy.
    Basic,
    /// And memory and scheduling.
    Detailed,
    /// Everything.
    Full,
}

impl MetricSet {
    /// Name on the profiler's command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Duration => "duration",
            Self::Basic => "basic",
            Self::Detailed => "detailed",
            Self::Full => "full",
        }
    }
}

/// A profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The raw report, for `ncu-ui` or `ncu --import`.
    pub report: PathBuf,
    /// Scenario.
    pub scenario: String,
    /// The set.
    pub set: MetricSet,
    /// Launches in order.
    pub launches: Vec<KernelLaunch>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

/// Why there is no profile, with the fix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// The counters are for administrators only.
    Counters,
    /// There is no driver or no GPU.
    NoGpu(String),
    /// Another profiler or a monitor holds the counters.
    Busy,
    /// Driver and profiler do not fit.
    Mismatch(String),
    /// The calls launched nothing.
    NoKernels,
    /// The calls failed.
    Calls(String),
    /// No end in time.
    Deadline(u64),
    /// Something else.
    Other(String),
}

impl Trouble {
    /// What happened and what to do.
    #[must_use]
    pub fn advice(&self) -> (String, String) {
        match self {
            Self::Counters => (
                "the GPU's performance counters are for administrators only here (ERR_NVGPUCTRPERM)".to_owned(),
                "run as root, or allow them: write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to \
                 /etc/modprobe.d/nvidia.conf, run `update-initramfs -u`, reboot; a container needs `--cap-add SYS_ADMIN`"
                    .to_owned(),
            ),
            Self::NoGpu(why) => (why.clone(), "profile where the GPU is; `kernelseek doctor` says what is here".to_owned()),
            Self::Busy => (
                "something else holds the GPU's performance counters".to_owned(),
                "end other profilers, and pause monitors that read counters: `dcgmi profile --pause`".to_owned(),
            ),
            Self::Mismatch(why) => {
                (why.clone(), "name an ncu that fits the driver with `--ncu FILE`".to_owned())
            }
            Self::NoKernels => (
                "the call launched no kernel, so there is nothing to profile".to_owned(),
                "take a scenario that the kernel runs itself".to_owned(),
            ),
            Self::Calls(why) => (
                format!("the call failed under the profiler: {why}"),
                "run `kernelseek eval --sanitize memcheck` on the scenario".to_owned(),
            ),
            Self::Deadline(seconds) => (
                format!("the profiler came to no end within {seconds} s"),
                "take a smaller scenario or `--set basic`".to_owned(),
            ),
            Self::Other(why) => (format!("the profiler failed: {why}"), "run the same with ncu itself".to_owned()),
        }
    }
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The profiler gave none.
    #[error("{}", .0.advice().0)]
    Trouble(Trouble),
    /// It could not be started.
    #[error(transparent)]
    Run(#[from] SoloRunError),
    /// A file cannot be written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Profiles one call of `case` and keeps the report in `folder`.
///
/// # Errors
/// When there is no profile.
pub fn run(
    bench: &SoloBench,
    ncu: &Path,
    case: &Case,
    set: MetricSet,
    folder: &Path,
) -> Result<Profile, ProfileError> {
    let file_error = |path: &Path| {
        let path = path.to_owned();
        move |source| ProfileError::File { path, source }
    };
    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
    let calls = if set == MetricSet::Duration { DURATION_CALLS } else { 1 };
    let laid = bench.lay(case, Calls::Alike(calls as u64), "profile")?;
    let made = laid.folder().join(format!("{REPORT}.ncu-rep"));
    let served = |ran: &Ran| made.is_file() && ran.report().is_some();
    let (ran, fence) = bench.around(ncu, &arguments(set, laid.folder()), &laid, &served)?;
    if let Some(trouble) = trouble(&ran, made.is_file(), bench.deadline.as_secs()) {
        return Err(ProfileError::Trouble(trouble));
    }
    let report = folder.join(format!("{REPORT}.ncu-rep"));
    std::fs::copy(&made, &report).map_err(file_error(&report))?;
    let mut command: Vec<OsString> = vec![ncu.into(), "--import".into(), made.into()];
    command.extend(["--csv", "--page", "raw", "--print-units", "base"].map(OsString::from));
    let read = bench.start(command, &laid)?;
    let mut launches = table::launches(&read.stdout);
    let mut notes = Vec::new();
    if set == MetricSet::Duration
        && let Some(typical) = table::typical(&launches, calls, WARM_UP)
    {
        launches = typical;
        notes.push(format!("of {calls} calls on one content, the median of those after the first {WARM_UP}"));
    }
    if launches.is_empty() {
        notes.push("the report could not be read back as a table; open it with ncu-ui".to_owned());
    }
    if let Fence::Open(why) = fence {
        notes.push(format!("the profiler ran without namespaces of its own: {why}"));
    }
    Ok(Profile { report, scenario: case.id.clone(), set, launches, notes })
}

fn arguments(set: MetricSet, folder: &Path) -> Vec<OsString> {
    let mut args = vec!["--clock-control", "none", "--target-processes", "all"];
    match set {
        // More would take more passes, between which kernels are replayed and clocks fall.
        MetricSet::Duration => args.extend(["--metrics", DURATION]),
        other => args.extend(["--set", other.as_str(), "--metrics", METRICS]),
    }
    let mut args: Vec<OsString> = args.into_iter().map(OsString::from).collect();
    args.extend(["-f".into(), "-o".into(), folder.join(REPORT).into()]);
    args
}

/// What went wrong, if anything, from what the profiler and the process around the case said.
#[must_use]
pub fn trouble(ran: &Ran, made: bool, deadline_s: u64) -> Option<Trouble> {
    let said = ran.report();
    let text = format!("{}\n{}", ran.stdout, ran.stderr);
    let first = |signs: &[&str]| text.lines().map(str::trim).find(|l| signs.iter().any(|s| l.contains(s)));
    if ran.cut {
        return Some(Trouble::Deadline(deadline_s));
    }
    if first(&["ERR_NVGPUCTRPERM"]).is_some() {
        return Some(Trouble::Counters);
    }
    if first(&["driver resource was unavailable", "Profiling failed because a driver resource"]).is_some() {
        return Some(Trouble::Busy);
    }
    if let Some(line) =
        first(&["driver is not compatible", "Unsupported driver", "Unsupported GPU", "not supported on this"])
    {
        return Some(Trouble::Mismatch(shortened(line)));
    }
    if let Some(error) = said.as_ref().filter(|s| !s.ok).and_then(|s| s.error.clone()) {
        return Some(
            if error.contains("libcuda") || error.contains("no GPU") || error.contains("NO_DEVICE") {
                Trouble::NoGpu(error)
            } else {
                Trouble::Calls(error)
            },
        );
    }
    if first(&["No kernels were profiled"]).is_some() {
        return Some(Trouble::NoKernels);
    }
    if said.is_some() && made {
        return None;
    }
    let line = first(&["==ERROR=="]).map(str::to_owned).or_else(|| {
        let lines = ran.stderr.lines().chain(ran.stdout.lines());
        lines.map(str::trim).rfind(|l| !l.is_empty()).map(str::to_owned)
    });
    Some(Trouble::Other(line.map_or_else(|| "it said nothing".to_owned(), |l| shortened(&l))))
}

fn shortened(line: &str) -> String {
    line.trim_start_matches("==ERROR==").trim_start_matches("==WARNING==").trim().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: &str = r#"{"ok":true,"prepare":null,"statuses":["ok"],"workspace_bytes":0,"error":null}"#;

    fn ran(stdout: &str, stderr: &str) -> Ran {
        Ran { code: Some(0), cut: false, stdout: stdout.to_owned(), stderr: stderr.to_owned() }
    }

    #[test]
    fn every_trouble_has_its_name() {
        let lost = r#"{"ok":false,"prepare":null,"statuses":[],"workspace_bytes":0,"error":"libcuda.so.1 was not found"}"#;
        let wrong = r#"{"ok":false,"prepare":null,"statuses":["ok"],"workspace_bytes":0,"error":"call 1 ended with a device error"}"#;
        let denied = format!(
            "==PROF== Connected to process 1\n{WELL}\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0."
        );
        for (stdout, stderr, made, expected) in [
            (WELL, "", true, None),
            (denied.as_str(), "", false, Some(Trouble::Counters)),
            (lost, "", false, Some(Trouble::NoGpu("libcuda.so.1 was not found".into()))),
            (wrong, "", true, Some(Trouble::Calls("call 1 ended with a device error".into()))),
            (WELL, "==WARNING== No kernels were profiled.", false, Some(Trouble::NoKernels)),
            (
                WELL,
                "==ERROR== Profiling failed because a driver resource was unavailable.",
                false,
                Some(Trouble::Busy),
            ),
            (
                WELL,
                "==ERROR== Unknown Error on device 0.",
                false,
                Some(Trouble::Other("Unknown Error on device 0.".into())),
            ),
            (
                "",
                "==ERROR== Cuda driver is not compatible with Nsight Compute.",
                false,
                Some(Trouble::Mismatch("Cuda driver is not compatible with Nsight Compute.".into())),
            ),
            ("", "sh: cannot execute", false, Some(Trouble::Other("sh: cannot execute".into()))),
            ("", "", false, Some(Trouble::Other("it said nothing".into()))),
        ] {
            let found = trouble(&ran(stdout, stderr), made, 9);
            assert_eq!(found, expected, "{stdout} {stderr}");
            if let Some(found) = found {
                let (what, fix) = found.advice();
                assert!(!what.is_empty() && !fix.is_empty());
            }
        }
        let cut = Ran { cut: true, ..ran("", "") };
        assert_eq!(trouble(&cut, true, 9), Some(Trouble::Deadline(9)));
    }

    #[test]
    fn clocks_are_left_alone() {
        let of = |set| {
            let args = arguments(set, Path::new("/s"));
            args.iter().map(|a| a.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        let full = of(MetricSet::Full);
        assert!(full.starts_with("--clock-control none --target-processes all --set full --metrics"));
        assert!(full.ends_with(" -f -o /s/report"));
        assert_eq!(
            of(MetricSet::Duration),
            "--clock-control none --target-processes all --metrics gpu__time_duration.sum -f -o /s/report"
        );
    }
}
