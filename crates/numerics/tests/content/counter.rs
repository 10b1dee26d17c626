//! The stream `ks-counter-1`: the same demands as on `ks-pcg64-1`, and what a counter could get wrong.

use crate::common::*;
use kernelseek_core::case::{Case, Garbage, Generator, Role, Stress, TensorCase};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec::{round_to, smallest_subnormal};
use kernelseek_numerics::content::counter::{self, Plan};
use kernelseek_numerics::content::{Content, ContentError, fill as fill_in_order};
use std::collections::HashSet;

const FLOATS: [DType; 6] = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];
const FAMILIES: [Stress; 4] = [Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes];

fn counted(case: &Case, content: Content) -> Result<Vec<Vec<u8>>, ContentError> {
    let mut b = buffers(case);
    counter::fill(case, content, &mut slot(&mut b))?;
    Ok(b)
}

fn draw(t: TensorCase, content: Content) -> Vec<f64> {
    let c = case(vec![t]);
    values(&c, &counted(&c, content).unwrap(), "t")
}

fn stress_tensor(dtype: DType, shape: &[i64], generator: Generator, extreme: f64) -> TensorCase {
    let mut t = tensor("t", dtype, shape, generator);
    (t.stress, t.extreme) = (FAMILIES.to_vec(), extreme);
    t
}

#[test]
fn normals_and_uniforms_have_their_moments() {
    for dtype in FLOATS {
        let v = draw(
            tensor("t", dtype, &[100_001], Generator::Normal { mean: 0.5, std: 2.0, outliers: None }),
            nominal(3),
        );
        let n = v.len() as f64;
        let mean = v.iter().sum::<f64>() / n;
        let std = (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        assert!((mean - 0.5).abs() < 0.03 && (std - 2.0).abs() < 0.04, "{dtype} {mean} {std}");
        let above = v.iter().filter(|x| **x > 0.5 + 2.0 * 1.96).count() as f64 / n;
        assert!((0.018..0.032).contains(&above), "{dtype} {above}");
        let v = draw(tensor("t", dtype, &[50_000], Generator::Uniform { lo: -1.0, hi: 3.0 }), nominal(5));
        assert!(v.iter().all(|x| (-1.0..3.0).contains(x)), "{dtype}");
        assert!((v.iter().sum::<f64>() / 5e4 - 1.0).abs() < 0.03, "{dtype}");
    }
    let tiny = tensor("t", DType::F16, &[5000], Generator::Uniform { lo: 0.0, hi: 1e-7 });
    assert!(draw(tiny, nominal(5)).iter().all(|&x| x < 1e-7));
}

/// Chi-square of byte counts: mean 255, deviation 22.6.
fn chi_square(counts: &[u32; 256], draws: u32) -> f64 {
    let expected = f64::from(draws) / 256.0;
    counts.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum()
}

#[test]
fn bits_are_uniform_independent_and_without_period() {
    let t = tensor("t", DType::F64, &[4], normal());
    let plan = |seed, index| Plan::new(&t, nominal(seed), index).unwrap();
    let words = |seed: u64, index: usize| {
        let w = plan(seed, index).words();
        counter::Key([w[0], w[1]])
    };
    let draws = 1u32 << 17;
    for (seed, index) in [(0, 0), (1, 0), (0, 1), (u64::MAX, 63)] {
        let key = words(seed, index);
        for byte in 0..8 {
            // Single bytes, and what neighbours at some distances have in common.
            for lag in [0u64, 1, 2, 64, 1024, 1 << 20, 1 << 32, 1 << 39] {
                let mut counts = [0u32; 256];
                for i in 0..u64::from(draws) {
                    let mut bits = key.bits(i);
                    if lag > 0 {
                        bits ^= key.bits(i + lag);
                    }
                    counts[(bits >> (8 * byte)) as usize & 0xFF] += 1;
                }
                let x = chi_square(&counts, draws);
                assert!(
                    (150.0..380.0).contains(&x),
                    "seed {seed}, tensor {index}, byte {byte}, lag {lag}: {x}"
                );
            }
        }
        // No bit follows another bit of the counter: every output bit flips half the time.
        for bit in 0..40 {
            let mut flips = [0u32; 64];
            for i in 0..2048u64 {
                let differ = key.bits(i * 977) ^ key.bits((i * 977) ^ (1 << bit));
                flips.iter_mut().enumerate().for_each(|(b, f)| *f += (differ >> b & 1) as u32);
            }
            assert!(flips.iter().all(|f| (870..1180).contains(f)), "counter bit {bit}: {flips:?}");
        }
    }
    // 2²⁰ words without a repetition: a bijection per key, and keys do not share a stretch.
    let mut seen = HashSet::new();
    for i in 0..1u64 << 19 {
        assert!(seen.insert(words(5, 0).bits(i)));
        assert!(seen.insert(words(5, 1).bits(i)));
    }
}

#[test]
fn values_depend_on_seed_tensor_and_index_alone() {
    for distribution in FAMILIES.map(|f| stressed(f, 9)).into_iter().chain([nominal(9)]) {
        let t = stress_tensor(DType::F32, &[40, 50], normal(), 100.0);
        let first = draw(t.clone(), distribution);
        let mut spread = t.clone();
        (spread.stride, spread.offset) = (vec![3, 128], 5);
        assert_eq!(first, draw(spread, distribution));
        assert_eq!(first, draw(t.clone(), distribution));
        assert_ne!(first, draw(t.clone(), Content { seed: 10, ..distribution }));
        let mut second = t.clone();
        second.name = "u".into();
        let c = case(vec![second, t]);
        let both = counted(&c, distribution).unwrap();
        assert_eq!(first, values(&c, &both, "u"));
        assert_ne!(first, values(&c, &both, "t"));
    }
    // The other stream is another one.
    let c = case(vec![tensor("t", DType::F32, &[100], normal())]);
    let mut ordered = buffers(&c);
    fill_in_order(&c, nominal(1), &mut slot(&mut ordered)).unwrap();
    assert_ne!(ordered, counted(&c, nominal(1)).unwrap());
}

#[test]
fn nothing_overflows_or_passes_its_cap() {
    for dtype in FLOATS {
        for generator in [normal(), Generator::Uniform { lo: -2.0, hi: 2.0 }] {
            for extreme in [0.0, 100.0, f64::INFINITY] {
                let t = stress_tensor(dtype, &[40, 50], generator.clone(), extreme);
                let cap = round_to(dtype, extreme.max(7.0)) * (1.0 + dtype.epsilon());
                for family in FAMILIES {
                    for seed in 0..12 {
                        let v = draw(t.clone(), stressed(family, seed));
                        assert!(v.iter().all(|x| x.is_finite()), "{dtype} {family:?}");
                        assert!(v.iter().all(|x| x.abs() <= cap), "{dtype} {family:?} {extreme}");
                    }
                }
            }
        }
    }
}

#[test]
fn outliers_are_few_and_far() {
    for n in [1, 10, 999, 1000, 1001, 50_000] {
        let t = stress_tensor(DType::F32, &[n], Generator::Uniform { lo: 1.0, hi: 2.0 }, 150.0);
        let (plain, v) = (draw(t.clone(), nominal(7)), draw(t, stressed(Stress::Outliers, 7)));
        let ratios: Vec<f64> = v.iter().zip(&plain).filter(|(a, b)| a != b).map(|(a, b)| a / b).collect();
        assert_eq!(ratios.len() as i64, (n + 999) / 1000, "{n}");
        assert!(ratios.iter().all(|r| (19.9..100.1).contains(r)));
        assert!(v.iter().all(|&x| x <= 150.0));
    }
}

#[test]
fn a_generator_has_the_outliers_it_asks_for() {
    for (n, cap) in [(1, 1e4), (1001, 1e4), (50_000, 1e4), (50_000, 30.0)] {
        let t = |outliers| {
            let generator = Generator::Normal { mean: 2.0, std: 0.125, outliers };
            stress_tensor(DType::F64, &[n], generator, cap)
        };
        let (plain, v) = (draw(t(None), nominal(7)), draw(t(Some(20.0)), nominal(7)));
        let far: Vec<(&f64, &f64)> = v.iter().zip(&plain).filter(|(a, b)| a != b).collect();
        assert_eq!(far.len() as i64, (n + 999) / 1000, "{n}");
        assert!(far.iter().all(|(a, b)| **a == (**b * 20.0).min(cap)), "{far:?}");
        // A stress family has its own.
        for family in FAMILIES {
            assert_eq!(draw(t(None), stressed(family, 7)), draw(t(Some(20.0)), stressed(family, 7)));
        }
    }
}

#[test]
fn structured_has_five_kinds() {
    let (rows, row) = (64usize, 48usize);
    let t = stress_tensor(DType::F32, &[64, 48], Generator::Uniform { lo: 0.5, hi: 1.5 }, 0.0);
    let mut kinds = HashSet::new();
    for seed in 0..60 {
        let v = draw(t.clone(), stressed(Stress::Structured, seed));
        assert!(v.iter().all(|x| (0.5..1.5).contains(x)));
        let distinct: HashSet<u64> = v.iter().map(|x| x.to_bits()).collect();
        let repeated = (1..=4).any(|r| v.iter().zip(&v[r * row..]).all(|(a, b)| a == b));
        let runs = v.windows(2).filter(|w| w[0] == w[1]).count();
        let even =
            v.chunks(row).filter(|r| r.windows(3).all(|w| (w[2] - 2.0 * w[1] + w[0]).abs() < 1e-6)).count();
        let background = v.iter().filter(|x| **x == 0.5).count();
        kinds.insert(if repeated {
            "rows"
        } else if even == rows {
            "ramps"
        } else if background > 2600 && background < 2900 {
            "sparse"
        } else if runs > rows * row / 2 && distinct.len() < 500 {
            // Runs of about 30, none longer than four blocks.
            assert!((50..200).contains(&distinct.len()), "{}", distinct.len());
            "runs"
        } else {
            let mut sorted = v.clone();
            sorted.sort_by(f64::total_cmp);
            let gap = sorted.windows(2).map(|w| w[1] - w[0]).fold(0.0, f64::max);
            let width = sorted[sorted.len() - 1] - sorted[0] - gap;
            assert!(width < 0.11, "clusters: {width} {gap}");
            "clusters"
        });
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}

#[test]
fn extremes_have_zeros_denormals_and_large_values() {
    for dtype in FLOATS {
        let v = draw(stress_tensor(dtype, &[20_000], normal(), 200.0), stressed(Stress::Extremes, 3));
        let normal_least = smallest_subnormal(dtype) / dtype.epsilon();
        let share = |f: &dyn Fn(f64) -> bool| v.iter().filter(|x| f(**x)).count() as f64 / v.len() as f64;
        assert!((0.04..0.065).contains(&share(&|x| x == 0.0)) || dtype.size() == 1, "{dtype}");
        assert!(share(&|x| x != 0.0 && x.abs() < normal_least) > 0.012, "{dtype}");
        assert!((0.007..0.014).contains(&share(&|x| x.abs() >= 99.0)), "{dtype}");
        assert!(v.iter().any(|x| *x < -99.0) && v.iter().any(|x| *x > 99.0));
    }
    for seed in 0..50 {
        let v = draw(stress_tensor(DType::F32, &[3], normal(), 200.0), stressed(Stress::Extremes, seed));
        assert!(v.iter().any(|x| x.abs() >= 100.0));
        let t = stress_tensor(DType::F32, &[3], Generator::Uniform { lo: 0.0, hi: 1.0 }, 200.0);
        let v = draw(t, stressed(Stress::Extremes, seed));
        assert!(v.iter().all(|x| *x >= 0.0 && !x.is_sign_negative()));
    }
}

#[test]
fn scales_fit_their_groups_and_gaps_are_filled() {
    let generator = Generator::Quantised { scales: "s".into(), scale_axes: vec![0], std: 1.0, fraction: 0.9 };
    let mut x = tensor("x", DType::F8E4m3, &[8, 512], generator);
    x.stride = vec![600, 1];
    let c = case(vec![tensor("s", DType::F32, &[8], Generator::FromQuantised), x]);
    let b = counted(&c, nominal(1)).unwrap();
    let (stored, scales) = (values(&c, &b, "x"), values(&c, &b, "s"));
    for (group, scale) in stored.chunks(512).zip(&scales) {
        let largest = group.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        assert_eq!(largest, round_to(DType::F8E4m3, 0.9 * 448.0));
        assert!((largest * scale - 3.2).abs() < 1.2, "{}", largest * scale);
    }
    assert!(b[1][512..600].iter().all(|&byte| byte == b[1][512]), "gaps hold one value");
    // Where the scale tensor is absent, the scale is 1.
    let mut absent = c;
    absent.tensors[0].storage = None;
    absent.storages.remove(0);
    absent.tensors[1].storage = Some(0);
    let plain = values(&absent, &counted(&absent, nominal(1)).unwrap(), "x");
    assert!(plain.iter().all(|v| v.abs() < 7.0) && plain.iter().any(|v| v.abs() > 2.5));
}

#[test]
fn a_mutated_subset_is_small_and_never_structural() {
    for dtype in FLOATS {
        let mut x = tensor("x", dtype, &[64, 100], normal());
        x.stride = vec![128, 1];
        x.garbage = Some(Garbage { value: 100.0, start: vec![0; 64], end: vec![60; 64], table: None });
        let mut w = tensor("w", dtype, &[100], normal());
        w.role = Role::Constant;
        let lengths = Generator::Lengths { lo: 1, hi: 9, total: None };
        let c = case(vec![x, w, tensor("l", DType::I32, &[64], lengths)]);
        let before = counted(&c, nominal(1)).unwrap();
        let mut after = before.clone();
        let changed = counter::mutate_subset(&c, &mut slot(&mut after), 9).unwrap();
        let (a, b) = (values(&c, &before, "x"), values(&c, &after, "x"));
        let places: Vec<usize> = (0..a.len()).filter(|&i| a[i] != b[i]).collect();
        // One in 64 of the 3840 that are used; a zero may become the other zero.
        assert!((35..90).contains(&changed), "{dtype} {changed}");
        assert!(places.len().abs_diff(changed) <= 3, "{dtype}");
        assert!(places.iter().all(|i| i % 100 < 60), "unused storage stays");
        assert!(b.iter().all(|v| v.is_finite()));
        assert_eq!(before[1..], after[1..]);
        let mut other = before.clone();
        counter::mutate_subset(&c, &mut slot(&mut other), 10).unwrap();
        assert_ne!(other, after);
    }
    // A single used element is found however many are not.
    let mut x = tensor("x", DType::Bf16, &[2, 400], normal());
    x.garbage = Some(Garbage { value: 50.0, start: vec![7, 0], end: vec![8, 0], table: None });
    for c in [case(vec![tensor("x", DType::F8E4m3, &[1], normal())]), case(vec![x])] {
        for seed in 0..50 {
            let before = counted(&c, nominal(seed)).unwrap();
            let mut after = before.clone();
            assert_eq!(counter::mutate_subset(&c, &mut slot(&mut after), seed).unwrap(), 1);
            assert_ne!(after, before);
        }
    }
}

#[test]
fn overlapping_elements_are_refused() {
    let mut t = tensor("t", DType::F32, &[4, 4], normal());
    t.stride = vec![1, 1];
    assert!(counted(&case(vec![t]), nominal(1)).unwrap_err().to_string().contains("overlap"));
}

#[test]
fn every_content_is_what_it_was() {
    assert_eq!(counter::STREAM, "ks-counter-1");
    let mut hasher = blake3::Hasher::new();
    for dtype in FLOATS {
        for distribution in FAMILIES.map(|f| stressed(f, 3)).into_iter().chain([nominal(4)]) {
            let t = stress_tensor(
                dtype,
                &[9, 333],
                Generator::Normal { mean: 0.25, std: 1.5, outliers: None },
                60.0,
            );
            let u = stress_tensor(dtype, &[9, 333], Generator::Uniform { lo: -0.7, hi: 1.9 }, 60.0);
            for seed in 0..12 {
                let content = Content { seed, ..distribution };
                counted(&case(vec![t.clone(), u.clone()]), content).unwrap().iter().for_each(|b| {
                    hasher.update(b);
                });
            }
        }
    }
    assert_eq!(&hasher.finalize().to_hex()[..16], "61b16de5031d5be8");
}
