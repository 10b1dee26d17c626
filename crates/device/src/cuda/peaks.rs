//! Peaks of a GPU: the vendor's figures where they are known, measured ones otherwise.
//!
//! They make the floor under which no honest time can lie, so they must not come out too low: a figure of the vendor is
//! taken as it is, a measured one is the best of five times 1.1, and the larger of the two counts.

use super::error::Result;
use super::gpu::Gpu;
use super::memory::DeviceMemory;
use super::stream::Event;
use crate::peaks::Peaks;

/// Margin on the best measurement.
const MARGIN: f64 = 1.1;

/// Measurements of which the best counts.
const ROUNDS: usize = 5;

/// What a vendor says of one model: dense rates.
struct Sheet {
    /// Part of the name that the driver gives.
    name: &'static str,
    /// Memory, bytes per second.
    memory: f64,
    /// Single precision, operations per second.
    f32: f64,
    /// Tensor units on tf32, 16-bit and 8-bit elements, operations per second.
    tensor: [f64; 3],
}

/// Longer names first where one contains the other.
const SHEETS: &[Sheet] = &[
    Sheet { name: "B300", memory: 8.0e12, f32: 77e12, tensor: [1.2e15, 2.5e15, 5.0e15] },
    Sheet { name: "GB200", memory: 8.0e12, f32: 80e12, tensor: [1.25e15, 2.5e15, 5.0e15] },
    Sheet { name: "B200", memory: 8.0e12, f32: 80e12, tensor: [1.2e15, 2.5e15, 5.0e15] },
    Sheet { name: "GH200", memory: 4.9e12, f32: 67e12, tensor: [495e12, 990e12, 1979e12] },
    Sheet { name: "H200", memory: 4.8e12, f32: 67e12, tensor: [495e12, 990e12, 1979e12] },
    Sheet { name: "H100 NVL", memory: 3.9e12, f32: 67e12, tensor: [495e12, 990e12, 1979e12] },
    Sheet { name: "H100", memory: 3.35e12, f32: 67e12, tensor: [495e12, 990e12, 1979e12] },
    Sheet { name: "A100", memory: 2.04e12, f32: 19.5e12, tensor: [156e12, 312e12, 624e12] },
    Sheet { name: "L40S", memory: 0.864e12, f32: 91.6e12, tensor: [183e12, 366e12, 733e12] },
    Sheet { name: "L4", memory: 0.3e12, f32: 30.3e12, tensor: [60e12, 121e12, 242e12] },
];

/// Tensor units of a model that is not listed, as multiples of its single-precision rate: above anything built so far.
const UNKNOWN: [f64; 3] = [64.0, 32.0, 16.0];

/// The peaks of `gpu`; takes some tens of milliseconds. A rate that nobody knows is infinite: it sets no floor.
#[must_use]
pub fn of(gpu: &Gpu) -> Peaks {
    let measured = measure(gpu);
    let peaks = listed(gpu, measured);
    let known = |rate: f64| if rate > 0.0 { rate } else { f64::INFINITY };
    Peaks {
        f32_flops: known(peaks.f32_flops),
        memory_bytes: known(peaks.memory_bytes),
        cache_bytes: known(peaks.cache_bytes),
        narrow: peaks.narrow,
    }
}

/// With the vendor's figures, where they are known.
fn listed(gpu: &Gpu, measured: Peaks) -> Peaks {
    match SHEETS.iter().find(|s| gpu.identity().name.contains(s.name)) {
        Some(sheet) => {
            let f32_flops = sheet.f32.max(measured.f32_flops);
            Peaks {
                f32_flops,
                memory_bytes: sheet.memory.max(measured.memory_bytes),
                cache_bytes: measured.cache_bytes.max(2.0 * sheet.memory),
                narrow: [sheet.tensor[2], sheet.tensor[1], sheet.tensor[0]].map(|rate| rate / f32_flops),
            }
        }
        None => Peaks { narrow: UNKNOWN, ..measured },
    }
}

/// Rounds of the multiply-add kernel: some milliseconds on a large GPU.
const FMA_ROUNDS: u32 = 20_000;
/// Times that the cache-resident buffer is read in one launch.
const CACHE_READS: u32 = 50;

/// What our own kernels reach. A rate that could not be measured is 0, and never the larger.
fn measure(gpu: &Gpu) -> Peaks {
    let best = |work: &dyn Fn() -> Result<f64>| {
        (0..ROUNDS).map(|_| gpu.guard(rate(gpu, work), 0.0)).fold(0.0, f64::max) * MARGIN
    };
    let helpers = gpu.helpers();
    let l2 = gpu.identity().l2_bytes.max(4 << 20);
    let far = DeviceMemory::new(8 * l2);
    let near = DeviceMemory::new(l2 / 4);
    let read = |memory: &Result<DeviceMemory>, times: u32| match memory {
        Ok(memory) => {
            helpers.read(memory.address(), memory.len(), times, gpu.stream())?;
            Ok(memory.len() as f64 * f64::from(times))
        }
        Err(error) => Err(error.clone()),
    };
    Peaks {
        f32_flops: best(&|| helpers.fma(FMA_ROUNDS, gpu.stream()).map(|n| 2.0 * n as f64)),
        memory_bytes: best(&|| read(&far, 4)),
        cache_bytes: best(&|| read(&near, CACHE_READS)),
        narrow: UNKNOWN,
    }
}

/// What one piece of work does in a second, by events.
fn rate(gpu: &Gpu, work: &dyn Fn() -> Result<f64>) -> Result<f64> {
    let (start, end) = (Event::new()?, Event::new()?);
    start.record(gpu.stream())?;
    let amount = work()?;
    end.record(gpu.stream())?;
    gpu.stream().synchronize()?;
    Ok(amount / end.since(&start)?.as_secs_f64().max(1e-9))
}
