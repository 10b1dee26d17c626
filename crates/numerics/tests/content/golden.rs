//! Contents of today are contents of tomorrow: pinned hashes of what the stream `ks-pcg64-1` gives.

use crate::common::*;
use kernelseek_core::case::{Garbage, Generator, Stress};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::rng::STREAM;

fn hash(buffers: &[Vec<u8>]) -> String {
    let mut hasher = blake3::Hasher::new();
    buffers.iter().for_each(|b| {
        hasher.update(b);
    });
    hasher.finalize().to_hex()[..16].to_owned()
}

fn contents() -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut add = |name: &str, tensors: Vec<_>, content| {
        all.push((name.to_owned(), hash(&filled(&case(tensors), content).unwrap())));
    };
    for dtype in DType::ALL {
        let name = dtype.name();
        if dtype.is_float() {
            add(
                &format!("normal {name}"),
                vec![tensor(
                    "t",
                    dtype,
                    &[9, 333],
                    Generator::Normal { mean: 0.25, std: 1.5, outliers: None },
                )],
                nominal(1),
            );
            add(
                &format!("uniform {name}"),
                vec![tensor("t", dtype, &[9, 333], Generator::Uniform { lo: -0.7, hi: 1.9 })],
                nominal(2),
            );
            for family in [Stress::Scaled, Stress::Outliers, Stress::Extremes] {
                let mut t = tensor("t", dtype, &[9, 333], normal());
                (t.stress, t.extreme) = (vec![family], 60.0);
                add(&format!("{family:?} {name}"), vec![t], stressed(family, 3));
            }
        } else {
            add(
                &format!("integers {name}"),
                vec![tensor("t", dtype, &[999], Generator::Integers { lo: 0, hi: 1 })],
                nominal(4),
            );
        }
    }
    for seed in 0..12 {
        let mut t = tensor("t", DType::F32, &[9, 333], normal());
        t.stress = vec![Stress::Structured];
        add(&format!("structured {seed}"), vec![t], stressed(Stress::Structured, seed));
    }
    add(
        "integers wide",
        vec![tensor("t", DType::I64, &[999], Generator::Integers { lo: -7_000_000_000, hi: 12 })],
        nominal(9),
    );
    add("permutation", vec![tensor("t", DType::I32, &[999], Generator::Permutation)], nominal(5));
    add(
        "lengths",
        vec![tensor("t", DType::I32, &[99], Generator::Lengths { lo: 1, hi: 50, total: Some(2222) })],
        nominal(6),
    );
    let mut k = tensor("k", DType::Bf16, &[20, 4, 3], normal());
    k.garbage = Some(Garbage { value: 1e4, start: vec![0, 1], end: vec![17, 9], table: Some("p".into()) });
    let table = Generator::PageTable { pool: 20, used: vec![5, 3] };
    add("paged", vec![k, tensor("p", DType::I32, &[2, 6], table)], nominal(7));
    let generator = Generator::Quantised { scales: "s".into(), scale_axes: vec![0], std: 1.0, fraction: 0.9 };
    let scales = tensor("s", DType::F32, &[9], Generator::FromQuantised);
    add("quantised", vec![tensor("x", DType::F8E4m3, &[9, 333], generator), scales], nominal(8));
    all
}

#[test]
fn every_content_is_what_it_was() {
    assert_eq!(STREAM, "ks-pcg64-1");
    let got: Vec<String> = contents().into_iter().map(|(name, hash)| format!("{name}: {hash}")).collect();
    let pinned: Vec<&str> = include_str!("golden.txt").lines().collect();
    assert_eq!(got, pinned, "\n{}\n", got.join("\n"));
}
