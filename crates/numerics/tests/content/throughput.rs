//! How fast contents, comparisons and fingerprints are. Ignored by default: run in an optimised build with
//! `--release -- --ignored --nocapture throughput`.

use crate::common::*;
use kernelseek_core::case::{Generator, Stress};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::fingerprint::fingerprint;
use kernelseek_numerics::metrics::{compare_bytes, compare_f32};
use kernelseek_numerics::{content, poison};
use std::hint::black_box;
use std::time::Instant;

#[expect(clippy::print_stdout, reason = "the figures are what this is for")]
fn rate(name: &str, bytes: usize, mut work: impl FnMut()) {
    work();
    let best = (0..5)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{name:34} {:8.0} MB/s", bytes as f64 / best / 1e6);
}

fn consume<T>(value: T) {
    black_box(value);
}

#[test]
#[ignore = "measures, decides nothing"]
fn throughput() {
    const N: i64 = 4 << 20;
    let integers = || Generator::Integers { lo: 0, hi: 100 };
    for (dtype, generator) in [
        (DType::F32, normal()),
        (DType::F32, Generator::Uniform { lo: 0.0, hi: 1.0 }),
        (DType::F64, normal()),
        (DType::Bf16, normal()),
        (DType::F16, normal()),
        (DType::F8E4m3, normal()),
        (DType::I64, integers()),
        (DType::I32, integers()),
        (DType::U8, integers()),
    ] {
        let name = format!("fill {dtype} {generator:?}");
        let c = case(vec![tensor("t", dtype, &[1024, N / 1024], generator)]);
        let mut b = buffers(&c);
        rate(&name[..name.len().min(34)], b[0].len(), || {
            content::fill(&c, nominal(1), &mut slot(&mut b)).unwrap();
        });
    }
    for family in [Stress::Outliers, Stress::Structured, Stress::Extremes] {
        let mut t = tensor("t", DType::F32, &[1024, N / 1024], normal());
        (t.stress, t.extreme) = (vec![family], 60.0);
        let c = case(vec![t]);
        let mut b = buffers(&c);
        rate(&format!("fill f32 {family:?}"), b[0].len(), || {
            content::fill(&c, stressed(family, 1), &mut slot(&mut b)).unwrap();
        });
    }
    let mut t = tensor("t", DType::F32, &[1024, N / 1024], normal());
    t.stride = vec![1, 1024];
    let c = case(vec![t]);
    let mut b = buffers(&c);
    rate("fill f32 transposed", b[0].len(), || content::fill(&c, nominal(1), &mut slot(&mut b)).unwrap());

    let bytes = filled(&case(vec![tensor("t", DType::F32, &[N], normal())]), nominal(1)).unwrap().remove(0);
    let floats: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let other: Vec<f32> = floats.iter().map(|x| x * 1.000001).collect();
    rate("compare f32", bytes.len(), || consume(compare_f32(&floats, &other).unwrap()));
    for dtype in [DType::F32, DType::Bf16, DType::F8E4m3, DType::I32] {
        let name = format!("compare bytes {dtype}");
        rate(&name, bytes.len(), || consume(compare_bytes(dtype, &bytes, &bytes).unwrap()));
    }
    rate("fingerprint", bytes.len(), || consume(fingerprint(&bytes)));
    let mut room = bytes;
    rate("fill poison f32", room.len(), || poison::fill_poison(DType::F32, &mut room, 3));
    rate("poison remains f32", room.len(), || consume(poison::poison_remains(DType::F32, &room, 3)));
    rate("fill canary", room.len(), || poison::fill_canary(&mut room, 3));
    rate("check canary", room.len(), || consume(poison::check_canary(&room, 3)));
}
