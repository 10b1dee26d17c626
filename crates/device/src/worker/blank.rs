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
pub(super) const LAUNCHES: usize = 32;
/// Gates. The device's clock ticks every 32 ns: a mean of the launches behind one is good to some five nanoseconds.
const ROUNDS: usize = 12;
/// Launches before those of each gate, the first of which find the device asleep.
const WARM_UP: usize = 16;
/// One of this many of the quickest launches of a gate and as many of the slowest are left out of its mean.
const OUTLIERS: usize = 16;
/// A quarter of the gates are quicker than the one that counts. Where other processes start and end meanwhile, as they do, all
/// launches behind a gate may be slower, and nothing makes them quicker: of 352 processes three were some 70 ns off in the mean over
/// all gates.
const OF_ROUNDS: usize = 4;
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
        let mut rounds = Vec::with_capacity(ROUNDS);
        let pairs = || events.chunks_exact(2).take(LAUNCHES);
        for gate in (0..=GATE).rev().take(ROUNDS) {
            stream.wait_value(address + GATE_OFFSET, gate)?;
            let enqueued = self.enqueue(stream, pairs());
            // In any case: whatever comes after would wait for it.
            page.open(gate);
            stream.synchronize()?;
            enqueued?;
            let times = pairs().map(|pair| Ok(pair[1].since(&pair[0])?.as_nanos() as f64));
            rounds.push(mean_without_outliers(times.collect::<Result<_>>()?));
        }
        Ok(undisturbed(rounds))
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

fn mean_without_outliers(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    let out = times.len() / OUTLIERS;
    let kept = &times[out..times.len() - out];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// The mean behind the gate that counts, in eighths of a nanosecond, which are the same number again after a trip through text.
fn undisturbed(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds.get(rounds.len() / OF_ROUNDS).map_or(0.0, |mean| (8.0 * mean).round() / 8.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_slow_launches_do_not_count() {
        let mut times: Vec<f64> = (0..LAUNCHES).map(|i| if i % 2 == 0 { 3300.0 } else { 3332.0 }).collect();
        assert!((mean_without_outliers(times.clone()) - 3316.0).abs() < 1e-9);
        times[5] = 1e6;
        times[6] = 5000.0;
        assert!((mean_without_outliers(times) - 3316.0).abs() < 3.0);
        assert_eq!(mean_without_outliers(vec![]), 0.0);
        assert_eq!(mean_without_outliers(vec![7.0]), 7.0);
    }

    #[test]
    fn disturbed_gates_do_not_count() {
        let quiet = |round: usize| 3310.0 + (round % 5) as f64;
        for disturbed in 0..=ROUNDS * 2 / 3 {
            let rounds = (0..ROUNDS).map(|r| quiet(r) + if r < disturbed { 200.0 } else { 0.0 });
            let told = undisturbed(rounds.collect());
            assert!((3310.0..=3314.0).contains(&told), "{told} with {disturbed} disturbed");
        }
        assert_eq!(undisturbed(vec![3300.03]), 3300.0);
        assert_eq!(undisturbed(vec![]), 0.0);
    }
}
