//! Fills, scales, garbage, mutations, views.

use crate::cases::*;
use crate::emulator::{Job, words_of};
use kernelseek_core::case::{Case, Garbage, Generator};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec;
use kernelseek_numerics::content::counter::{self, MutationStep, Placement, Step, What};
use kernelseek_numerics::content::{Content, Distribution};
use proptest::prelude::*;

/// The calls that `Helpers::fill` makes for one step.
fn add(job: &mut Job, step: &Step, bases: &[u64], table: u64) {
    let view = step.placement.words(bases[step.storage]);
    let (dtype, size) = (step.dtype as u64, step.dtype.size() as u64);
    match &step.what {
        What::Constant(element) => job.call(2, [view, vec![*element, size]]),
        What::Values(values) => {
            let dense = job.buffer(values.clone());
            job.call(9, [view, vec![dense, size]]);
        }
        What::Drawn(plan) => job.call(1, [view, plan.words(), vec![table, dtype]]),
        What::Quantised(q) => {
            let scales = job.words(&vec![0; q.groups.count()]);
            job.call(4, [q.plan.words(), q.groups.words(), vec![table, scales]]);
            let scale_view = q.scale_placement.words(bases[q.scale_storage]);
            job.call(5, [scale_view, vec![scales, q.target.to_bits(), q.scale_dtype as u64]]);
            job.call(6, [view, q.plan.words(), q.groups.words(), vec![table, scales, dtype]]);
        }
        What::Ranges { ranges, element } => {
            let words: Vec<u64> = ranges.iter().flat_map(|&(a, b)| [a, b]).collect();
            let list = job.words(&words);
            job.call(3, [view, vec![list, ranges.len() as u64, *element, size]]);
        }
    }
}

/// The storages of a case.
type Storages = Vec<Vec<u8>>;

/// Fills a case both ways.
fn both(case: &Case, content: Content) -> Option<(Storages, Storages)> {
    let steps = counter::steps(case, content, |_| true, |_| None).unwrap();
    let mut job = Job::default();
    let table = job.table();
    let bases: Vec<u64> = buffers(case).into_iter().map(|b| job.buffer(b)).collect();
    steps.iter().for_each(|step| add(&mut job, step, &bases, table));
    let kernels = job.run()?[1..=bases.len()].to_vec();
    let mut twin = buffers(case);
    counter::fill(case, content, &mut slot(&mut twin)).unwrap();
    Some((kernels, twin))
}

fn shapes() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        prop::collection::vec(1i64..9, 0..5),
        (1i64..40, 1i64..9).prop_map(|(a, b)| vec![a, 8 * b]),
        (1i64..5000).prop_map(|n| vec![n]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn fills_are_the_twins(shape in shapes(), seed in any::<u64>(), layout in 0u64..1000, which in 0usize..3) {
        for dtype in FLOATS {
            for distribution in DISTRIBUTIONS {
                let generator = [normal(), uniform(), with_outliers()][which].clone();
                let c = case(vec![strided(tensor(dtype, &shape, generator), layout)]);
                let Some((kernels, twin)) = both(&c, content(distribution, seed)) else { return Ok(()) };
                prop_assert!(kernels == twin, "{} {:?} {:?}", dtype, distribution, c.tensors[0]);
            }
        }
    }

    #[test]
    fn mutations_are_the_twins(shape in shapes(), seed in any::<u64>(), layout in 0u64..1000) {
        for dtype in FLOATS {
            let mut t = strided(tensor(dtype, &shape, normal()), layout);
            if shape.len() >= 2 && !t.stride.contains(&0) {
                let rows = shape[0] as usize;
                t.garbage = Some(Garbage {
                    value: 77.0, start: vec![0; rows], end: vec![shape[1] / 2; rows], table: None,
                });
            }
            let c = case(vec![t]);
            let mut twin = buffers(&c);
            counter::fill(&c, content(Distribution::Nominal, seed), &mut slot(&mut twin)).unwrap();
            let mut job = Job::default();
            let (table, base, changed) = (job.table(), job.buffer(twin[0].clone()), job.words(&[0]));
            let steps = counter::mutations(&c, !seed).unwrap();
            for MutationStep { dtype, placement, plan, mutation, .. } in &steps {
                let rest = vec![table, *dtype as u64, changed];
                job.call(7, [placement.words(base), plan.words(), mutation.words(), rest]);
            }
            let Some(after) = job.run() else { return Ok(()) };
            let counted = counter::mutate_subset(&c, &mut slot(&mut twin), !seed).unwrap();
            prop_assert!(after[1] == twin[0], "{} {:?}", dtype, c.tensors[0]);
            prop_assert_eq!(words_of(&after[2]), vec![counted as u64]);
        }
    }

    #[test]
    fn gather_and_scatter_are_pack_and_unpack(shape in shapes(), layout in 0u64..1000) {
        for dtype in [DType::F64, DType::I32, DType::Bf16, DType::U8] {
            let t = strided(tensor(dtype, &shape, normal()), layout);
            let c = case(vec![t.clone()]);
            let size = dtype.size() as u64;
            let storage: Vec<u8> = (0..c.storages[0].bytes()).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut packed = Vec::new();
            kernelseek_numerics::view::pack(&t, &storage, &mut packed).unwrap();
            let mut unpacked = vec![0; storage.len()];
            kernelseek_numerics::view::unpack(&t, &packed, &mut unpacked).unwrap();
            let mut job = Job::default();
            let base = job.buffer(storage.clone());
            let to = job.buffer(vec![0; packed.len()]);
            let (back, dense) = (job.buffer(vec![0; storage.len()]), job.buffer(packed.clone()));
            job.call(8, [Placement::all(&t).words(base), vec![to, size]]);
            job.call(9, [Placement::unique(&t).unwrap().words(back), vec![dense, size]]);
            let Some(after) = job.run() else { return Ok(()) };
            prop_assert!(after[1] == packed, "{:?}", t);
            prop_assert!(after[2] == unpacked, "{:?}", t);
        }
    }
}

#[test]
fn every_form_of_structure_is_the_twins() {
    for dtype in FLOATS {
        for seed in 0..24 {
            let c = case(vec![tensor(dtype, &[37, 48], if seed % 2 == 0 { normal() } else { uniform() })]);
            let distribution = Distribution::Stress(kernelseek_core::case::Stress::Structured);
            let Some((kernels, twin)) = both(&c, content(distribution, seed)) else { return };
            assert!(kernels == twin, "{dtype} {seed}");
        }
    }
}

#[test]
fn quantised_tensors_are_the_twins() {
    for dtype in [DType::F8E4m3, DType::F8E5m2, DType::F16, DType::F32] {
        for (shape, axes) in [
            (vec![4, 6, 40], vec![0]),
            (vec![4, 6, 40], vec![0, 2]),
            (vec![4, 6, 40], vec![2, 0]),
            (vec![3, 16], vec![]),
            (vec![5, 7, 3], vec![0, 1, 2]),
            (vec![16, 32], vec![1]),
        ] {
            for (number, distribution) in DISTRIBUTIONS.into_iter().enumerate() {
                let scale_dtype = [DType::F32, DType::Bf16, DType::F64][number % 3];
                let mut tensors = quantised(dtype, &shape, axes.clone(), scale_dtype);
                if number == 2 {
                    tensors[0].stride[0] += 16;
                }
                let c = case(tensors);
                let Some((kernels, twin)) = both(&c, content(distribution, 5)) else { return };
                assert!(kernels == twin, "{dtype} {shape:?} {axes:?} {distribution:?}");
            }
        }
    }
}

#[test]
fn garbage_and_structural_inputs_are_the_twins() {
    for dtype in FLOATS {
        let Some((kernels, twin)) = both(&paged(dtype), content(Distribution::Nominal, 3)) else { return };
        assert_eq!(kernels, twin, "{dtype}");
        let mut t = strided(tensor(dtype, &[6, 10, 4], normal()), 1);
        t.garbage = Some(Garbage {
            value: 1e4,
            start: vec![0, 1, 2, 3, 4, 0],
            end: vec![10, 9, 2, 5, 10, 0],
            table: None,
        });
        let c = case(vec![t, tensor(DType::I64, &[33], Generator::Permutation)]);
        let Some((kernels, twin)) = both(&c, content(Distribution::Nominal, 3)) else { return };
        assert_eq!(kernels, twin, "{dtype}");
    }
    for dtype in DType::ALL {
        let c = case(vec![strided(tensor(dtype, &[9, 5], Generator::Constant { value: 1.0 }), 1)]);
        let Some((kernels, twin)) = both(&c, content(Distribution::Nominal, 3)) else { return };
        assert_eq!(kernels, twin, "{dtype}");
    }
}

#[test]
fn elements_are_coded_as_the_codec_does() {
    let mut values = vec![0.0, -0.0, 1.0, f64::MAX, -f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)];
    let mut state = 1u64;
    for i in 0..20_000u64 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(i);
        let exponent = 1023 + (state >> 40) % 300 - 170;
        values.push(f64::from_bits(state << 12 >> 12 | exponent << 52 | (state & 1) << 63));
        // Ties: few mantissa bits.
        values.push(f64::from_bits(values[values.len() - 1].to_bits() & !((1 << 40) - 1)));
        values.push(f64::from_bits(state & !(0x7FF << 52) | ((state >> 20) % 2047) << 52));
    }
    let bits: Vec<u64> = values.iter().map(|v| v.to_bits()).collect();
    for dtype in DType::ALL {
        let mut job = Job::default();
        let size = dtype.size();
        let from = job.words(&bits);
        let to = job.buffer(vec![0; values.len() * size]);
        let patterns: Vec<u8> = if size == 1 {
            (0..=255).collect()
        } else if size == 2 {
            (0..=u16::MAX).flat_map(u16::to_le_bytes).collect()
        } else {
            bits.iter().flat_map(|b| (b.rotate_left(7)).to_le_bytes()[..size].to_vec()).collect()
        };
        let (coded, count) = (job.buffer(patterns.clone()), patterns.len() / size);
        let decoded = job.words(&vec![0; count]);
        if dtype.is_float() {
            job.call(18, [vec![dtype as u64, from, to, values.len() as u64]]);
        }
        job.call(19, [vec![dtype as u64, coded, decoded, count as u64]]);
        let Some(after) = job.run() else { return };
        if dtype.is_float() {
            let mut expected = vec![0; values.len() * size];
            codec::encode(dtype, &values, &mut expected).unwrap();
            for (i, (a, b)) in after[1].chunks(size).zip(expected.chunks(size)).enumerate() {
                assert_eq!(a, b, "{dtype} {}", values[i]);
            }
        }
        let mut expected = Vec::new();
        codec::decode(dtype, &patterns, &mut expected).unwrap();
        for (a, b) in words_of(&after[3]).into_iter().map(f64::from_bits).zip(expected) {
            assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{dtype} {a} {b}");
        }
    }
}
