//! Metrics and judgement on small operators whose errors are known.

#![expect(clippy::unwrap_used, reason = "a helper of a test may fail it")]

use kernelseek_core::case::Tolerance;
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec::{self, encode, round_to};
use kernelseek_numerics::judge::*;
use kernelseek_numerics::metrics::*;
use kernelseek_numerics::rng::Pcg64;

/// `rows` dot products of `depth` terms: operands, exact-enough reference.
struct Dots {
    a: Vec<f32>,
    b: Vec<f32>,
    depth: usize,
}

impl Dots {
    fn new(seed: u128, rows: usize, depth: usize) -> Self {
        let mut rng = Pcg64::new(seed, 1);
        let mut draw = || (0..12).map(|_| rng.unit()).sum::<f64>() as f32 - 6.0;
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..rows * depth {
            a.push(draw());
            b.push(draw());
        }
        Self { a, b, depth }
    }

    fn rows(&self) -> impl Iterator<Item = (&[f32], &[f32])> {
        self.a.chunks(self.depth).zip(self.b.chunks(self.depth))
    }

    fn reference(&self) -> Vec<f64> {
        self.rows().map(|(a, b)| a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()).collect()
    }

    fn sequential(&self) -> Vec<f64> {
        self.rows().map(|(a, b)| a.iter().zip(b).fold(0f32, |s, (x, y)| s + x * y).into()).collect()
    }

    fn reversed(&self) -> Vec<f64> {
        self.rows().map(|(a, b)| a.iter().zip(b).rev().fold(0f32, |s, (x, y)| s + x * y).into()).collect()
    }

    fn lanes(&self, width: usize) -> Vec<f64> {
        self.rows()
            .map(|(a, b)| {
                let mut lanes = vec![0f32; width];
                a.iter()
                    .zip(b)
                    .enumerate()
                    .for_each(|(i, (x, y))| lanes[i % width] = x.mul_add(*y, lanes[i % width]));
                lanes.iter().fold(0f32, |s, x| s + x).into()
            })
            .collect()
    }
}

fn judged(dtype: DType, reference: &[f64], seed: &[f64], candidate: &[f64]) -> Outcome {
    let y = yardstick(&compare(dtype, reference, seed).unwrap(), None).unwrap();
    allowed(&compare(dtype, reference, candidate).unwrap(), &y, &Tolerance::default(), dtype)
}

fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    values.iter().map(|&v| round_to(dtype, v)).collect()
}

#[test]
fn reordered_sums_pass_and_shortcuts_fail() {
    for (rows, depth) in [(3000, 64), (1000, 777), (40, 5000), (7, 33)] {
        let d = Dots::new(rows as u128, rows, depth);
        let (reference, seed) = (d.reference(), d.sequential());
        // The yardstick of one content holds for the next.
        let other = Dots::new(99 + rows as u128, rows, depth);
        let y = yardstick(&compare(DType::F32, &reference, &seed).unwrap(), None).unwrap();
        for (name, values) in [
            ("sequential", other.sequential()),
            ("reversed", other.reversed()),
            ("8 lanes", other.lanes(8)),
            ("3 lanes", other.lanes(3)),
        ] {
            let s = compare(DType::F32, &other.reference(), &values).unwrap();
            let o = allowed(&s, &y, &Tolerance::default(), DType::F32);
            assert!(o.pass, "{name} {rows}×{depth}: {o:?}");
            let s = compare(DType::F32, &other.sequential(), &values).unwrap();
            let o = allowed_partner(&s, &y, &Tolerance::default(), DType::F32);
            assert!(o.pass, "partner {name} {rows}×{depth}: {o:?}");
        }
        for (name, values) in [
            ("zeros", vec![0.0; rows]),
            ("constant", vec![1.0; rows]),
            ("one missing term", {
                let (a, b) = (d.a[depth - 1], d.b[depth - 1]);
                let mut v = seed.clone();
                v[0] -= f64::from(a * b);
                v
            }),
            (
                "first half only",
                seed.iter().enumerate().map(|(i, v)| if i < rows / 2 { *v } else { 0.0 }).collect(),
            ),
            ("f16 result", rounded(DType::F16, &reference)),
            ("bf16 result", rounded(DType::Bf16, &reference)),
            ("scaled by 1.001", reference.iter().map(|v| v * 1.001).collect()),
        ] {
            let o = judged(DType::F32, &reference, &seed, &values);
            assert!(!o.pass && o.ratio > 1.0, "{name} {rows}×{depth}: {o:?}");
        }
    }
}

#[test]
fn half_outputs_allow_their_own_rounding() {
    let d = Dots::new(5, 2000, 64);
    let reference = d.reference();
    for dtype in [DType::F16, DType::Bf16] {
        let seed = rounded(dtype, &d.sequential());
        assert!(judged(dtype, &reference, &seed, &rounded(dtype, &d.reversed())).pass);
        assert!(!judged(dtype, &reference, &seed, &vec![0.0; 2000]).pass);
        let wrong: Vec<f64> = seed.iter().map(|v| v * (1.0 + 10.0 * dtype.epsilon())).collect();
        assert!(!judged(dtype, &reference, &seed, &wrong).pass);
    }
    let seed = rounded(DType::F16, &d.sequential());
    assert!(!judged(DType::F16, &reference, &seed, &rounded(DType::F8E4m3, &reference)).pass);
}

#[test]
fn an_error_that_only_the_small_elements_show() {
    // An element-wise operator: large values dominate every norm.
    let mut rng = Pcg64::new(3, 3);
    let reference: Vec<f64> = (0..5000).map(|_| 2f64.powf(-20.0 * rng.unit())).collect();
    let seed = rounded(DType::F32, &reference);
    let mut candidate = seed.clone();
    candidate.iter_mut().filter(|v| **v < 1e-5).for_each(|v| *v = 0.0);
    let o = judged(DType::F32, &reference, &seed, &candidate);
    assert!(!o.pass && o.rule == Rule::Class(Class::Small), "{o:?}");
    assert!(judged(DType::F32, &reference, &seed, &seed).pass);
}

#[test]
fn a_class_with_few_elements_borrows_the_overall_maximum() {
    // One small element, which the seed has right by luck.
    let mut reference: Vec<f64> = (0..1000).map(|i| 1.0 + f64::from(i) * 1e-3).collect();
    reference[500] = 1e-5;
    let mut seed: Vec<f64> = reference.iter().map(|v| v + 1e-6).collect();
    seed[500] = 1e-5;
    let candidate: Vec<f64> = reference.iter().map(|v| v - 1e-6).collect();
    assert!(judged(DType::F32, &reference, &seed, &candidate).pass);
}

#[test]
fn exact_seeds_leave_a_floor_of_two_ulps() {
    let reference: Vec<f64> = (1..=1000).map(|i| f64::from(i as f32 * 0.37)).collect();
    let off =
        |ulps: f64| reference.iter().map(|v| v + ulps * f64::from(f32::EPSILON) * v).collect::<Vec<_>>();
    assert!(judged(DType::F32, &reference, &reference, &reference).pass);
    assert!(judged(DType::F32, &reference, &reference, &off(1.0)).pass);
    assert!(!judged(DType::F32, &reference, &reference, &off(8.0)).pass);
    assert!(!judged(DType::F32, &reference, &reference, &vec![0.0; 1000]).pass);
}

#[test]
fn non_finite_values() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let mask = Tolerance { nonfinite_matches: true, ..Tolerance::default() };
    let strict = Tolerance::default();
    let y = Yardstick { max_by_rms: 1e9, rms: 1e9, class_by_scale: [1e9; 3], ..Yardstick::default() };
    for (r, c, plain, masked) in [
        (1.0, 1.0, true, true),
        (1.0, nan, false, false),
        (1.0, inf, false, false),
        (inf, inf, false, true),
        (-inf, inf, false, false),
        (nan, nan, false, true),
        (nan, inf, false, false),
        (inf, 1.0, false, false),
        (nan, 1.0, false, false),
    ] {
        let s = compare(DType::F32, &[2.0, r, 3.0], &[2.0, c, 3.0]).unwrap();
        let (a, b) = (allowed(&s, &y, &strict, DType::F32), allowed(&s, &y, &mask, DType::F32));
        assert_eq!((a.pass, b.pass), (plain, masked), "{r} {c}: {a:?} {b:?}");
        if !a.pass {
            assert_eq!((a.rule, a.worst, a.ratio), (Rule::NonFinite, Some(1), inf));
        }
    }
    let s = compare(DType::F32, &[1.0, 2.0], &[nan, 2.0]).unwrap();
    assert_eq!((s.max_err, s.worst, s.rms_err), (inf, Some(0), inf));
    assert_eq!(s.nonfinite.unexpected, 1);
    // A seed that is itself wrong this way is no measure, and neither is NaN in a hand-made one.
    assert!(matches!(yardstick(&s, None), Err(YardstickError::NonFinite { count: 1, first: Some(0) })));
    let fine = compare(DType::F32, &[1.0, 2.0], &[1.0, 2.0]).unwrap();
    assert!(yardstick(&fine, Some(&s)).is_err());
    let broken = Yardstick { rms: nan, class_by_scale: [nan; 3], ..Yardstick::default() };
    let off = compare(DType::F32, &[1.0, 2.0], &[1.5, 2.0]).unwrap();
    assert!(!allowed(&off, &broken, &strict, DType::F32).pass);
}

#[test]
fn integers_are_exact() {
    for dtype in [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8, DType::Bool] {
        let s = compare(dtype, &[1.0, 0.0, 1.0], &[1.0, 1.0, 0.0]).unwrap();
        assert_eq!(s.exact, Some(Mismatch { count: 2, first: Some(1) }));
        let o =
            allowed(&s, &Yardstick::default(), &Tolerance { atol: Some(9.0), ..Tolerance::default() }, dtype);
        assert_eq!((o.pass, o.rule, o.worst), (false, Rule::Exact, Some(1)));
        assert!(matches!(yardstick(&s, None), Err(YardstickError::Mismatch { count: 2, .. })));
        let s = compare(dtype, &[1.0, 0.0], &[1.0, 0.0]).unwrap();
        assert!(allowed(&s, &Yardstick::of(&s).unwrap(), &Tolerance::default(), dtype).pass);
    }
    let (a, b) = (((1i64 << 53) + 1).to_le_bytes(), (1i64 << 53).to_le_bytes());
    assert_eq!(compare_bytes(DType::I64, &a, &b).unwrap().exact, Some(Mismatch { count: 1, first: Some(0) }));
    assert_eq!(compare_bytes(DType::I64, &a, &a).unwrap().count, 1);
}

#[test]
fn overriding_rules() {
    let reference = [1.0, 100.0];
    let s = compare(DType::F32, &reference, &[1.01, 100.0]).unwrap();
    let loose = Yardstick { max_by_rms: 1.0, rms: 1.0, class_by_scale: [1.0; 3], ..Yardstick::default() };
    let t = |f: fn(&mut Tolerance)| {
        let mut t = Tolerance::default();
        f(&mut t);
        t
    };
    let go = |t: &Tolerance, y: &Yardstick| allowed(&s, y, t, DType::F32);
    assert!(go(&t(|_| ()), &loose).pass);
    assert!(!go(&t(|_| ()), &Yardstick::default()).pass);
    assert!(go(&t(|t| t.floor_abs = 0.02), &Yardstick::default()).pass);
    assert!(go(&t(|t| t.atol = Some(0.02)), &Yardstick::default()).pass);
    let o = go(&t(|t| t.atol = Some(0.005)), &loose);
    assert_eq!((o.pass, o.rule, o.worst), (false, Rule::Atol, Some(0)));
    let o = go(&t(|t| t.rel_rms_max = Some(1e-6)), &loose);
    assert_eq!((o.pass, o.rule), (false, Rule::RelRms));
    let o = go(&t(|t| t.k = 0.0), &Yardstick { rms: 1.0, ..Yardstick::default() });
    assert!(!o.pass && o.rule != Rule::Rms && o.rule != Rule::RelRms);
    // The partner form is wider by one yardstick.
    let y = Yardstick::of(&compare(DType::F32, &reference, &[1.0, 100.002]).unwrap()).unwrap();
    let y = Yardstick { samples: 1_000_000, ..y };
    let s = compare(DType::F32, &reference, &[1.0, 100.009]).unwrap();
    let t = Tolerance { rms_k: 4.0, floor_ulps: 0.0, ..Tolerance::default() };
    assert!(!allowed(&s, &y, &t, DType::F32).pass);
    assert!(allowed_partner(&s, &y, &t, DType::F32).pass);
}

#[test]
fn a_reference_of_zeros() {
    let zeros = vec![0.0; 200];
    let exact = compare(DType::F32, &zeros, &zeros).unwrap();
    let noisy = compare(DType::F32, &zeros, &[1e-7; 200]).unwrap();
    let worse = compare(DType::F32, &zeros, &[1e-5; 200]).unwrap();
    let t = Tolerance::default();
    assert!(allowed(&exact, &yardstick(&exact, None).unwrap(), &t, DType::F32).pass);
    assert!(!allowed(&noisy, &yardstick(&exact, None).unwrap(), &t, DType::F32).pass);
    assert!(allowed(&noisy, &yardstick(&noisy, None).unwrap(), &t, DType::F32).pass);
    assert!(!allowed(&worse, &yardstick(&noisy, None).unwrap(), &t, DType::F32).pass);
    assert_eq!(noisy.classes[Class::Small as usize].count, 200);
}

#[test]
fn models_and_seeds_are_joined_and_compared() {
    let d = Dots::new(8, 500, 100);
    let reference = d.reference();
    let seed = Yardstick::of(&compare(DType::F32, &reference, &d.sequential()).unwrap()).unwrap();
    let model_summary = compare(DType::F32, &reference, &rounded(DType::F16, &reference)).unwrap();
    let model = Yardstick::of(&model_summary).unwrap();
    assert!(model.looser_than(&seed) > 4.0);
    assert_eq!(seed.looser_than(&seed), 1.0);
    let both =
        yardstick(&compare(DType::F32, &reference, &d.sequential()).unwrap(), Some(&model_summary)).unwrap();
    assert_eq!(both, seed.larger(&model));
    assert_eq!(both.larger(&seed), both);
    assert!(
        Yardstick::default().looser_than(&seed) == 1.0
            && seed.looser_than(&Yardstick::default()).is_infinite()
    );
}

#[test]
fn summaries_of_extreme_magnitudes_and_of_nothing() {
    for unit in [1e-300, 1e-160, 1.0, 1e160, 1e300] {
        let reference = [3.0 * unit, -4.0 * unit, 0.0, 1e-3 * unit];
        let s = compare(DType::F64, &reference, &[3.0 * unit, -4.5 * unit, 0.0, 1e-3 * unit]).unwrap();
        let rms = (25.000_001f64 / 4.0).sqrt() * unit;
        assert!((s.ref_rms / rms - 1.0).abs() < 1e-9, "{unit:e} {s:?}");
        assert!(
            (s.rms_err / (0.25 * unit) - 1.0).abs() < 1e-9 && (s.max_err / (0.5 * unit) - 1.0).abs() < 1e-9
        );
        assert_eq!(s.classes.map(|c| c.count), [2, 0, 2], "{unit:e}");
        assert_eq!((s.worst, s.classes[0].worst, s.classes[2].worst), (Some(1), Some(1), None));
    }
    let s = compare(DType::F32, &[], &[]).unwrap();
    assert_eq!((s.count, s.max_err, s.rms_err), (0, 0.0, 0.0));
    assert!(allowed(&s, &Yardstick::of(&s).unwrap(), &Tolerance::default(), DType::F32).pass);
    assert!(compare(DType::F32, &[1.0], &[]).is_err());
    assert!(compare_bytes(DType::F32, &[0; 4], &[0; 6]).is_err());
    assert!(compare_bytes(DType::F32, &[0; 4], &[0; 8]).is_err());
}

#[test]
fn every_path_gives_the_same_summary() {
    let d = Dots::new(21, 333, 20);
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2] {
        let (reference, candidate) = (rounded(dtype, &d.reference()), rounded(dtype, &d.lanes(4)));
        let expected = compare(dtype, &reference, &candidate).unwrap();
        let bytes = |v: &[f64]| {
            let mut b = vec![0; v.len() * dtype.size()];
            encode(dtype, v, &mut b).unwrap();
            b
        };
        assert_eq!(compare_bytes(dtype, &bytes(&reference), &bytes(&candidate)).unwrap(), expected);
        assert_eq!(compare_reference(dtype, &reference, &bytes(&candidate)).unwrap(), expected);
        if dtype == DType::F32 {
            let single = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<_>>();
            assert_eq!(compare_f32(&single(&reference), &single(&candidate)).unwrap(), expected);
        }
    }
}

#[test]
fn what_a_reference_was_not_asked_for_is_not_compared() {
    let d = Dots::new(22, 400, 20);
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4m3, DType::F8E5m2] {
        let (reference, mut candidate) = (rounded(dtype, &d.reference()), rounded(dtype, &d.lanes(4)));
        let bytes = |v: &[f64]| {
            let mut b = vec![0; v.len() * dtype.size()];
            encode(dtype, v, &mut b).unwrap();
            b
        };
        // All bits set mark every second element; what the candidate says there does not matter.
        let mut part = bytes(&reference);
        let size = dtype.size();
        part.chunks_mut(2 * size).for_each(|two| two[..size].fill(0xFF));
        candidate.iter_mut().step_by(2).enumerate().for_each(|(i, v)| *v = [1e3, -1.0, 0.0][i % 3]);
        let odd = |v: &[f64]| v.iter().skip(1).step_by(2).copied().collect::<Vec<_>>();
        let mut expected = compare(dtype, &odd(&reference), &odd(&candidate)).unwrap();
        let whole_index = |i: Option<usize>| i.map(|i| 2 * i + 1);
        expected.worst = whole_index(expected.worst);
        expected.classes.iter_mut().for_each(|class| class.worst = whole_index(class.worst));
        let found = compare_asked(dtype, &part, &bytes(&candidate), Asked::Part).unwrap();
        assert_eq!(found, expected, "{dtype:?}");
        assert_eq!(found.count, 200);
        // An infinity in the part that was asked for still counts, and so does a NaN of the candidate.
        candidate[1] = f64::NAN;
        candidate[0] = f64::NAN;
        let mut spoilt = vec![0; candidate.len() * size];
        codec::encode_ieee(dtype, &candidate, &mut spoilt).unwrap();
        let found = compare_asked(dtype, &part, &spoilt, Asked::Part).unwrap();
        assert_eq!((found.nonfinite.unexpected, found.nonfinite.first), (1, Some(1)), "{dtype:?}");
    }
}

#[test]
fn small_outputs_are_not_failed_by_a_lucky_seed() {
    for rows in [1, 3, 16, 100] {
        let mut failed = 0;
        let trials = 1000;
        for trial in 0..trials {
            let content = |n: u128| Dots::new(trial * 10 + n, rows, 100);
            let measure = |d: &Dots| {
                Yardstick::of(&compare(DType::F32, &d.reference(), &d.sequential()).unwrap()).unwrap()
            };
            let y =
                measure(&content(1)).and_content(&measure(&content(2))).and_content(&measure(&content(3)));
            assert_eq!(y.samples, 3 * rows);
            let d = content(4);
            let s = compare(DType::F32, &d.reference(), &d.reversed()).unwrap();
            failed += usize::from(!allowed(&s, &y, &Tolerance::default(), DType::F32).pass);
            let zeros = compare(DType::F32, &d.reference(), &vec![0.0; rows]).unwrap();
            assert!(!allowed(&zeros, &y, &Tolerance::default(), DType::F32).pass, "{rows}");
        }
        println!("{rows} rows: {failed} of {trials}");
        assert!(failed <= 2, "{rows}: {failed}");
    }
}

/// Contents whose rows are all the same: one sum two hundred times, which now and then cancels almost to nothing.
#[test]
fn a_sum_that_repeats_is_measured_as_a_single_one() {
    const ROWS: usize = 200;
    let repeated = |values: Vec<f64>| vec![values[0]; ROWS];
    let of = |seed: u128| {
        let d = Dots::new(seed, 1, 77);
        let mut half = Dots::new(seed, 1, 77);
        half.a.iter_mut().for_each(|x| *x = round_to(DType::Bf16, f64::from(*x)) as f32);
        [d.reference(), d.sequential(), d.lanes(2), half.sequential()].map(repeated)
    };
    let summary = |a: &[f64], b: &[f64]| compare(DType::F32, a, b).unwrap();
    let (mut strict, mut failed, mut passed) = (0, 0, 0);
    for series in 0..30_u128 {
        let mut measure: Option<Yardstick> = None;
        for content in 0..36 {
            let [reference, seed, ..] = of(series * 1000 + content);
            let own = Yardstick::of(&summary(&reference, &seed)).unwrap();
            measure = Some(measure.map_or(own, |m| m.and_content(&own)));
        }
        let (y, t) = (measure.unwrap(), Tolerance::default());
        for content in 100..200 {
            let [reference, _, lanes, half] = of(series * 1000 + content);
            let honest = summary(&reference, &lanes);
            strict += usize::from(!allowed(&honest, &y, &t, DType::F32).pass);
            failed += usize::from(!allowed_repeating(&honest, &y, &t, DType::F32).pass);
            let shortcut = summary(&reference, &half);
            passed += usize::from(allowed_repeating(&shortcut, &y, &t, DType::F32).pass);
        }
    }
    assert!(strict > 5, "{strict}: nothing to mend");
    assert_eq!(failed, 0);
    assert!(passed < 150, "{passed} of 3000 shortcuts pass");
}
