//! The stress families, and changing a subset in place.

use crate::common::*;
use kernelseek_core::case::{Case, Garbage, Generator, Role, Stress};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec::{round_to, smallest_subnormal};
use kernelseek_numerics::content::*;
use std::collections::HashSet;

fn stress_case(dtype: DType, shape: &[i64], generator: Generator, extreme: f64) -> Case {
    let mut t = tensor("t", dtype, shape, generator.clone());
    t.stress = vec![Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes];
    t.extreme = extreme;
    case(vec![t, tensor("calm", dtype, shape, generator)])
}

fn draw(c: &Case, family: Stress, seed: u64) -> Vec<f64> {
    let b = filled(c, stressed(family, seed)).unwrap();
    assert_eq!(
        values(c, &b, "calm"),
        values(c, &filled(c, nominal(seed)).unwrap(), "calm"),
        "tensors that do not list the family stay nominal"
    );
    values(c, &b, "t")
}

const FLOATS: [DType; 6] = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2];

#[test]
fn nothing_overflows_or_passes_its_cap() {
    for dtype in FLOATS {
        for generator in [normal(), Generator::Uniform { lo: -2.0, hi: 2.0 }] {
            for extreme in [0.0, 100.0, f64::INFINITY] {
                let c = stress_case(dtype, &[40, 50], generator.clone(), extreme);
                for family in [Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes] {
                    for seed in 0..12 {
                        let v = draw(&c, family, seed);
                        assert!(v.iter().all(|x| x.is_finite()), "{dtype} {family:?}");
                        let cap = round_to(dtype, extreme.max(7.0)) * (1.0 + dtype.epsilon());
                        assert!(v.iter().all(|x| x.abs() <= cap), "{dtype} {family:?} {extreme}");
                    }
                }
            }
        }
    }
}

#[test]
fn scaled_is_one_power_of_two() {
    for (dtype, extreme) in [(DType::F64, 1e4), (DType::F32, 1e4), (DType::Bf16, 100.0), (DType::F16, 1e4)] {
        let c = stress_case(dtype, &[500], normal(), extreme);
        let mut factors = HashSet::new();
        for seed in 0..200 {
            let v = draw(&c, Stress::Scaled, seed);
            let plain = values(&c, &filled(&c, nominal(seed)).unwrap(), "t");
            let factor = v[0] / plain[0];
            factors.insert(factor.log2().round() as i32);
            assert!(
                v.iter()
                    .zip(&plain)
                    .all(|(a, b)| (a - b * factor).abs() <= 1e-6 + (a * dtype.epsilon()).abs())
            );
        }
        let top = match dtype {
            DType::F16 => 0,
            DType::Bf16 => 3,
            _ => 6,
        };
        assert_eq!(factors, (-6..=top).filter(|&e| e != 0).collect(), "{dtype}");
    }
}

#[test]
fn outliers_are_few_and_far() {
    for n in [1, 10, 999, 1000, 1001, 50_000] {
        let c = stress_case(DType::F32, &[n], Generator::Uniform { lo: 1.0, hi: 2.0 }, 150.0);
        let plain = values(&c, &filled(&c, nominal(7)).unwrap(), "t");
        let v = draw(&c, Stress::Outliers, 7);
        let ratios: Vec<f64> = v.iter().zip(&plain).filter(|(a, b)| a != b).map(|(a, b)| a / b).collect();
        assert_eq!(ratios.len() as i64, (n + 999) / 1000, "{n}");
        assert!(ratios.iter().all(|r| (19.9..100.1).contains(r)));
        assert!(v.iter().all(|&x| x <= 150.0));
    }
}

#[test]
fn a_generator_has_the_outliers_it_asks_for() {
    for (n, cap) in [(1, 1e4), (1001, 1e4), (50_000, 1e4), (50_000, 30.0)] {
        let c = |outliers| {
            let generator = Generator::Normal { mean: 2.0, std: 0.125, outliers };
            stress_case(DType::F64, &[n], generator, cap)
        };
        let of = |outliers| values(&c(outliers), &filled(&c(outliers), nominal(7)).unwrap(), "t");
        let (plain, v) = (of(None), of(Some(20.0)));
        let far: Vec<(&f64, &f64)> = v.iter().zip(&plain).filter(|(a, b)| a != b).collect();
        assert_eq!(far.len() as i64, (n + 999) / 1000, "{n}");
        assert!(far.iter().all(|(a, b)| **a == (**b * 20.0).min(cap)), "{far:?}");
        // A stress family has its own.
        for family in [Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes] {
            assert_eq!(draw(&c(None), family, 7), draw(&c(Some(20.0)), family, 7));
        }
    }
}

#[test]
fn structured_has_five_kinds() {
    let (rows, row) = (64usize, 48usize);
    let c = stress_case(DType::F32, &[rows as i64, row as i64], Generator::Uniform { lo: 0.5, hi: 1.5 }, 0.0);
    let mut kinds = HashSet::new();
    for seed in 0..60 {
        let v = draw(&c, Stress::Structured, seed);
        // Positive inputs stay positive whatever the structure.
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
    let c = stress_case(DType::F32, &[1000], normal(), 0.0);
    let zeros = (0..40).map(|s| draw(&c, Stress::Structured, s).iter().filter(|x| **x == 0.0).count()).max();
    assert!((860..940).contains(&zeros.unwrap()));
}

#[test]
fn extremes_have_zeros_denormals_and_large_values() {
    for dtype in FLOATS {
        let c = stress_case(dtype, &[20_000], normal(), 200.0);
        let v = draw(&c, Stress::Extremes, 3);
        let normal_least = smallest_subnormal(dtype) / dtype.epsilon();
        let share = |f: &dyn Fn(f64) -> bool| v.iter().filter(|x| f(**x)).count() as f64 / v.len() as f64;
        assert!((0.04..0.065).contains(&share(&|x| x == 0.0)) || dtype.size() == 1, "{dtype}");
        assert!(share(&|x| x != 0.0 && x.abs() < normal_least) > 0.012, "{dtype}");
        assert!((0.007..0.014).contains(&share(&|x| x.abs() >= 99.0)), "{dtype}");
        assert!(v.iter().any(|x| *x < -99.0) && v.iter().any(|x| *x > 99.0));
    }
    // A handful of elements has at least one.
    for seed in 0..50 {
        let c = stress_case(DType::F32, &[3], normal(), 200.0);
        assert!(draw(&c, Stress::Extremes, seed).iter().any(|x| x.abs() >= 100.0));
        let c = stress_case(DType::F32, &[3], Generator::Uniform { lo: 0.0, hi: 1.0 }, 200.0);
        assert!(draw(&c, Stress::Extremes, seed).iter().all(|x| *x >= 0.0 && !x.is_sign_negative()));
    }
}

#[test]
fn quantised_tensors_are_stressed_before_their_scales() {
    let generator = Generator::Quantised { scales: "s".into(), scale_axes: vec![0], std: 1.0, fraction: 0.9 };
    let mut x = tensor("x", DType::F8E4m3, &[8, 512], generator);
    x.stress = vec![Stress::Scaled, Stress::Outliers];
    x.extreme = 50.0;
    let c = case(vec![tensor("s", DType::F32, &[8], Generator::FromQuantised), x]);
    let plain = filled(&c, nominal(1)).unwrap();
    let scaled = filled(&c, stressed(Stress::Scaled, 1)).unwrap();
    assert_eq!(values(&c, &plain, "x"), values(&c, &scaled, "x"));
    let (a, b) = (values(&c, &plain, "s"), values(&c, &scaled, "s"));
    assert!(a.iter().zip(&b).all(|(a, b)| b / a == b / a && (b / a).log2().fract().abs() < 1e-6 && a != b));
    let outliers = filled(&c, stressed(Stress::Outliers, 1)).unwrap();
    assert!(values(&c, &outliers, "s").iter().zip(&a).any(|(o, a)| o / a > 3.0));
}

#[test]
fn structural_generators_ignore_stress() {
    let c = stress_case(DType::I32, &[100], Generator::Integers { lo: 0, hi: 9 }, 0.0);
    assert!(stress_families(&c).is_empty());
    for family in [Stress::Scaled, Stress::Outliers, Stress::Structured, Stress::Extremes] {
        let b = filled(&c, stressed(family, 1)).unwrap();
        assert_eq!(b, filled(&c, nominal(1)).unwrap());
    }
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
        let before = filled(&c, nominal(1)).unwrap();
        let mut after = before.clone();
        let changed = mutate_subset(&c, &mut slot(&mut after), 9).unwrap();
        assert_eq!(changed, 100, "{dtype}");
        let (a, b) = (values(&c, &before, "x"), values(&c, &after, "x"));
        let places: Vec<usize> = (0..a.len()).filter(|&i| a[i] != b[i]).collect();
        assert!((85..=100).contains(&places.len()), "{dtype} {}", places.len());
        assert!(places.iter().all(|i| i % 100 < 60), "unused storage stays");
        assert!(b.iter().all(|v| v.is_finite()));
        assert_eq!(before[1..], after[1..]);
        let mut again = before.clone();
        mutate_subset(&c, &mut slot(&mut again), 9).unwrap();
        assert_eq!(again, after);
        mutate_subset(&c, &mut slot(&mut again), 10).unwrap();
        assert_ne!(again, after);
    }
    let c = case(vec![tensor("x", DType::F8E4m3, &[1], normal())]);
    for seed in 0..50 {
        let mut b = filled(&c, nominal(seed)).unwrap();
        let before = b.clone();
        assert_eq!(mutate_subset(&c, &mut slot(&mut b), seed).unwrap(), 1);
        assert_ne!(b, before);
    }
    let generator = Generator::Quantised { scales: "s".into(), scale_axes: vec![0], std: 1.0, fraction: 0.5 };
    let c = case(vec![
        tensor("x", DType::F8E4m3, &[4, 64], generator),
        tensor("s", DType::F32, &[4], Generator::FromQuantised),
    ]);
    let mut b = filled(&c, nominal(1)).unwrap();
    let scales = b[1].clone();
    assert_eq!(mutate_subset(&c, &mut slot(&mut b), 1).unwrap(), 4);
    assert_eq!(b[1], scales);
    assert!(values(&c, &b, "x").iter().all(|v| v.abs() <= 224.0));
}
