//! Peaks of a GPU: the vendor's figures where they are known, measured ones otherwise.
//!
//! They make the floor under which no honest time can lie, so they must not come out too low: a figure of the vendor is
//! taken as it is, a measured one is the best of five times 1.1, and the larger of the two counts.

use super::gpu::Gpu;
use crate::peaks::Peaks;

/// Margin on the best measurement.
const MARGIN: f64 = 1.1;

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

/// The peaks of `gpu`; takes some tens of milliseconds.
#[must_use]
pub fn of(gpu: &Gpu) -> Peaks {
    let measured = measure(gpu);
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

fn measure(_gpu: &Gpu) -> Peaks { Peaks::measure() }
