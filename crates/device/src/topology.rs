//! Which cores this process may use, and who runs where.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::OnceLock;
use std::time::Duration;

/// Cores that this process was given, ascending. Asked once: afterwards the supervisor pins itself to some of them.
#[must_use]
pub fn allowed_cpus() -> &'static [usize] {
    static GIVEN: OnceLock<Vec<usize>> = OnceLock::new();
    GIVEN.get_or_init(current_cpus)
}

fn current_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return vec![0] };
    let cpus: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect();
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// How the allowed cores are divided between the supervisor and the one worker that runs at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Division {
    /// Cores of the supervisor.
    pub supervisor: Vec<usize>,
    /// Cores of the worker.
    pub worker: Vec<usize>,
}

impl Division {
    /// Gives a call that may use `threads` cores the last ones, and the supervisor the rest. Where nothing would
    /// remain they share, and neither side may spin.
    #[must_use]
    pub fn new(allowed: &[usize], threads: usize) -> Self {
        let threads = threads.clamp(1, allowed.len().max(1));
        let split = allowed.len().saturating_sub(threads);
        let worker = allowed.get(split..).unwrap_or_default().to_vec();
        let supervisor =
            if split == 0 { allowed.to_vec() } else { allowed.get(..split).unwrap_or_default().to_vec() };
        Self { supervisor, worker }
    }
    /// Whether supervisor and worker have cores of their own, so that both may spin at the gate.
    #[must_use]
    pub fn is_disjoint(&self) -> bool {
        !self.supervisor.iter().any(|cpu| self.worker.contains(cpu))
    }
}

fn set_of(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}

/// Pins another process's main thread (threads it starts later inherit it). Best effort: a machine that forbids it
/// only measures with more noise.
pub fn pin_process(pid: u32, cpus: &[usize]) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = sched_setaffinity(Some(pid), &set_of(cpus));
    }
}

/// Pins the calling thread (threads it starts later inherit it). Best effort.
pub fn pin_self(cpus: &[usize]) {
    let _ = sched_setaffinity(None, &set_of(cpus));
}

/// How long the main thread of `pid` has been runnable without running, since it started: the time that somebody
/// else had its core. Zero where the kernel does not keep count.
#[must_use]
pub fn run_queue_wait(pid: u32) -> Duration {
    std::fs::read_to_string(format!("/proc/{pid}/schedstat"))
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse().ok())
        .map_or(Duration::ZERO, Duration::from_nanos)
}

/// What identifies the device that times are measured on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CpuIdentity {
    /// Processor model as the kernel names it.
    pub model: String,
    /// Cores that the tool may use.
    pub cores: usize,
    /// Last-level cache in bytes.
    pub last_level_bytes: usize,
    /// Kernel release.
    pub kernel: String,
}

impl CpuIdentity {
    /// Reads this machine's identity.
    #[must_use]
    pub fn read() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = info
            .lines()
            .find_map(|line| line.strip_prefix("model name").or_else(|| line.strip_prefix("Model")))
            .and_then(|rest| rest.split_once(':'))
            .map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned());
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease")
            .map_or_else(|_| "unknown".into(), |s| s.trim().into());
        Self {
            model,
            cores: allowed_cpus().len(),
            last_level_bytes: crate::cache::last_level_bytes(),
            kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_divided() {
        for (allowed, threads, supervisor, worker, disjoint) in [
            (&[0, 1][..], 1, &[0][..], &[1][..], true),
            (&[0, 1], 2, &[0, 1], &[0, 1], false),
            (&[5], 1, &[5], &[5], false),
            (&[2, 3, 6, 7], 3, &[2], &[3, 6, 7], true),
            (&[0, 1], 0, &[0], &[1], true),
            (&[0, 1], 9, &[0, 1], &[0, 1], false),
        ] {
            let division = Division::new(allowed, threads);
            assert_eq!(division.supervisor, supervisor, "{allowed:?} {threads}");
            assert_eq!(division.worker, worker, "{allowed:?} {threads}");
            assert_eq!(division.is_disjoint(), disjoint);
        }
    }

    #[test]
    fn pinning_does_not_change_what_was_given() {
        let before = allowed_cpus().to_vec();
        pin_self(&before[..1]);
        assert_eq!(allowed_cpus(), before);
        assert_eq!(current_cpus(), before[..1]);
    }

    #[test]
    fn this_machine_has_an_identity() {
        let identity = CpuIdentity::read();
        assert!(identity.cores >= 1);
        assert!(!identity.model.is_empty());
    }
}
