//! What a call costs in this process beyond its kernel: events around a launch that does nothing, timed before anything of the
//! candidate's is there.
//!
//! Two processes time the same call up to some hundred nanoseconds apart, however long it takes (`docs/design/gpu.md`), and the
//! same is seen around a kernel that does nothing. So it can be taken off.

use crate::control::{ControlPage, GATE_OFFSET};
use crate::cuda::error::Result;
use crate::cuda::module::{Args, Kernel, Module};
use crate::cuda::stream::{Event, Stream};

/// Does nothing. Old enough for every GPU that a driver of today knows.
const PTX: &str = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry ks_blank()\n{\nret;\n}\n";
/// Launches that are timed behind one gate. A stream takes about a thousand things, three for each launch, before it waits for the
/// device, which waits for the gate.
pub(super) const LAUNCHES: usize = 96;
/// Gates. The device's clock ticks every 32 ns: a mean of so many launches is good to a few nanoseconds.
const ROUNDS: u32 = 4;
/// Launches before those, which find the device asleep.
const WARM_UP: usize = 16;
/// One of this many of the quickest and as many of the slowest are left out of the mean.
const OUTLIERS: usize = 16;
// More would be safe by too little: see `LAUNCHES`.
const _: () = assert!(WARM_UP + 3 * LAUNCHES < 512);

/// Opens the first gate here, the number before it the next. The supervisor counts its requests from 1, and nobody lives to see
/// this many.
const GATE: u32 = u32::MAX;

/// A kernel that does nothing.
#[derive(Debug)]
pub(super) struct Blank {
    kernel: Kernel,
    _module: Module,
}

impl Blank {
    /// Has the driver compile the kernel; `None` where it does not take PTX.
    pub(super) fn load() -> Option<Self> {
        let module = Module::from_ptx(PTX).ok()?;
        let kernel = module.kernel("ks_blank").ok()?;
        Some(Self { kernel, _module: module })
    }

    /// Nanoseconds that events around a launch of nothing are apart on `stream`, with each two of `events` in turn. The launches
    /// are enqueued behind the gate of `page`, as a request's calls are; `address` is where the device sees it.
    pub(super) fn time(
        &self,
        stream: &Stream,
        events: &[Event],
        page: &ControlPage,
        address: u64,
    ) -> Result<f64> {
        let mut times = Vec::new();
        let pairs = || events.chunks_exact(2).take(LAUNCHES);
        for round in 0..ROUNDS {
            let gate = GATE - round;
            stream.wait_value(address + GATE_OFFSET, gate)?;
            let enqueued = self.enqueue(stream, pairs());
            // In any case: whatever comes after would wait for it.
            page.open(gate);
            stream.synchronize()?;
            enqueued?;
            for pair in pairs() {
                times.push(pair[1].since(&pair[0])?.as_nanos() as f64);
            }
        }
        Ok(mean_without_outliers(times))
    }

    fn enqueue<'e>(&self, stream: &Stream, pairs: impl Iterator<Item = &'e [Event]>) -> Result<()> {
        for _ in 0..WARM_UP {
            self.kernel.launch(1, 32, stream, Args::new())?;
        }
        for pair in pairs {
            pair[0].record(stream)?;
            self.kernel.launch(1, 32, stream, Args::new())?;
            pair[1].record(stream)?;
        }
        Ok(())
    }
}

/// In eighths of a nanosecond, which are the same number again after a trip through text.
fn mean_without_outliers(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let out = times.len() / OUTLIERS;
    let kept = &times[out..times.len() - out];
    (8.0 * kept.iter().sum::<f64>() / kept.len().max(1) as f64).round() / 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_slow_launches_do_not_count() {
        let of_each = LAUNCHES * ROUNDS as usize / 2;
        let mut times = vec![3300.0; of_each];
        times.extend(vec![3332.0; of_each]);
        assert!((mean_without_outliers(times.clone()) - 3316.0).abs() < 1e-9);
        for slow in times.iter_mut().step_by(20) {
            *slow = 1e6;
        }
        assert!((mean_without_outliers(times) - 3316.0).abs() < 2.0);
        assert_eq!(mean_without_outliers(vec![]), 0.0);
        assert_eq!(mean_without_outliers(vec![7.0]), 7.0);
    }
}
