//! Every generator, through dense and strided views.

use crate::common::*;
use kernelseek_core::case::{Case, Garbage, Generator, Role, Storage};
use kernelseek_core::dtype::DType;
use kernelseek_numerics::codec::round_to;
use kernelseek_numerics::content::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn misuse(case: &Case) -> String {
    match filled(case, nominal(1)) {
        Err(e) => e.to_string(),
        Ok(_) => "filled".to_owned(),
    }
}

fn one(dtype: DType, shape: &[i64], generator: Generator, seed: u64) -> Vec<f64> {
    let c = case(vec![tensor("t", dtype, shape, generator)]);
    values(&c, &filled(&c, nominal(seed)).unwrap(), "t")
}

#[test]
fn normals_have_the_asked_moments_in_every_float_type() {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
        let v = one(dtype, &[100_001], Generator::Normal { mean: 0.5, std: 2.0, outliers: None }, 3);
        let n = v.len() as f64;
        let mean = v.iter().sum::<f64>() / n;
        let std = (v.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        assert!((mean - 0.5).abs() < 0.03 && (std - 2.0).abs() < 0.04, "{dtype} {mean} {std}");
        assert!(v.iter().all(|x| x.is_finite()));
        let above = v.iter().filter(|x| **x > 0.5 + 2.0 * 1.96).count() as f64 / n;
        assert!((0.018..0.032).contains(&above), "{dtype} {above}");
    }
    // Draws of f64 are not f32 values, and neighbours are not correlated.
    let v = one(DType::F64, &[10_000], normal(), 3);
    assert!(v.iter().filter(|x| f64::from(**x as f32) != **x).count() > 9_900);
    for dtype in [DType::F32, DType::F64] {
        let v = one(dtype, &[100_000], normal(), 4);
        for lag in [1, 2, 3, 1024] {
            let r = v.windows(lag + 1).map(|w| w[0] * w[lag]).sum::<f64>() / 1e5;
            assert!(r.abs() < 0.015, "{dtype} lag {lag}: {r}");
        }
    }
}

#[test]
fn uniforms_stay_inside_and_fill_their_range() {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_float()) {
        let v = one(dtype, &[50_000], Generator::Uniform { lo: -1.0, hi: 3.0 }, 5);
        assert!(v.iter().all(|x| (-1.0..3.0).contains(x)), "{dtype}");
        let mean = v.iter().sum::<f64>() / 5e4;
        assert!((mean - 1.0).abs() < 0.03, "{dtype} {mean}");
    }
    assert!(one(DType::F16, &[5000], Generator::Uniform { lo: 0.0, hi: 1e-7 }, 5).iter().all(|&x| x < 1e-7));
    assert!(one(DType::F32, &[9], Generator::Uniform { lo: 2.0, hi: 2.0 }, 5).iter().all(|&x| x == 2.0));
}

#[test]
fn integers_reach_both_ends_in_every_type() {
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::Bool) {
        let lo = if dtype == DType::U8 { 0 } else { -3 };
        let v = one(dtype, &[3000], Generator::Integers { lo, hi: 4 }, 6);
        let seen: HashSet<i64> = v.iter().map(|&x| x as i64).collect();
        assert_eq!(seen, (lo..=4).collect(), "{dtype}");
    }
    let v = one(DType::Bool, &[100], Generator::Integers { lo: 0, hi: 1 }, 6);
    assert!((30..70).contains(&v.iter().filter(|&&x| x == 1.0).count()));
    let v = one(DType::I64, &[100], Generator::Integers { lo: i64::MIN, hi: i64::MAX }, 6);
    assert!(v.iter().any(|&x| x > 4e18) && v.iter().any(|&x| x < -4e18));
}

#[test]
fn offsets_values_constants_and_permutations() {
    let v = one(DType::I32, &[4], Generator::RowOffsets { lengths: vec![3, 0, 5] }, 1);
    assert_eq!(v, [0.0, 3.0, 3.0, 8.0]);
    let v = one(DType::I64, &[2, 2], Generator::Values { values: vec![1.0, 2.0, 3.0, 4.0] }, 1);
    assert_eq!(v, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(one(DType::F8E4m3, &[3], Generator::Constant { value: 1e4 }, 1), [448.0; 3]);
    let v = one(DType::I32, &[1000], Generator::Permutation, 1);
    assert_eq!(v.iter().map(|&x| x as i64).collect::<HashSet<_>>(), (0..1000).collect());
    assert_ne!(v, one(DType::I32, &[1000], Generator::Permutation, 2));
    assert_eq!(one(DType::F32, &[], normal(), 1).len(), 1);
    assert!(one(DType::F32, &[3, 0], normal(), 1).is_empty());
}

proptest! {
    #[test]
    fn lengths_keep_range_and_total(n in 1i64..60, lo in 0i64..20, more in 0i64..50, share in 0.0f64..=1.0, seed in any::<u64>()) {
        let hi = lo + more;
        let total = n * lo + ((n * more) as f64 * share) as i64;
        let v = one(DType::I32, &[n], Generator::Lengths { lo, hi, total: Some(total) }, seed);
        prop_assert!(v.iter().all(|&x| (lo as f64..=hi as f64).contains(&x)));
        prop_assert_eq!(v.iter().sum::<f64>(), total as f64);
        let v = one(DType::I32, &[n], Generator::Lengths { lo, hi, total: None }, seed);
        prop_assert!(v.iter().all(|&x| (lo as f64..=hi as f64).contains(&x)));
    }

    #[test]
    fn page_tables_use_distinct_pages(
        (columns, used) in (1i64..9).prop_flat_map(|c| (Just(c), proptest::collection::vec(0..=c, 1..6))),
        spare in 0i64..5, seed in any::<u64>(),
    ) {
        let needed: i64 = used.iter().sum();
        let pool = (needed + spare).max(1);
        let table = one(DType::I32, &[used.len() as i64, columns], Generator::PageTable { pool, used: used.clone() }, seed);
        prop_assert!(table.iter().all(|&p| p >= 0.0 && p < pool as f64));
        let mut taken = HashSet::new();
        for (row, &count) in table.chunks(columns as usize).zip(&used) {
            for &page in &row[..count as usize] {
                prop_assert!(taken.insert(page as i64), "page used twice");
            }
        }
        for (row, &count) in table.chunks(columns as usize).zip(&used) {
            for &page in &row[count as usize..] {
                let last = (count > 0).then(|| row[count as usize - 1]);
                let fallback = pool == needed && (last == Some(page) || last.is_none());
                prop_assert!(!taken.contains(&(page as i64)) || fallback);
            }
        }
    }
}

#[test]
fn page_tables_are_fresh_permutations() {
    let generator = || Generator::PageTable { pool: 500, used: vec![100; 4] };
    let a = one(DType::I32, &[4, 100], generator(), 1);
    assert_ne!(a, one(DType::I32, &[4, 100], generator(), 2));
    let ascending = a.windows(2).filter(|w| w[1] == w[0] + 1.0).count();
    assert!(ascending < 10, "{ascending}");
}

#[test]
fn layout_does_not_change_the_values() {
    let shape = [7, 5, 33];
    for dtype in [DType::F32, DType::F64, DType::Bf16, DType::F8E5m2] {
        let plain = case(vec![tensor("t", dtype, &shape, normal())]);
        let expected = values(&plain, &filled(&plain, nominal(8)).unwrap(), "t");
        for (stride, offset) in
            [(vec![200, 40, 1], 3), (vec![1, 7, 35], 0), (vec![33, 231, 1], 0), (vec![400, 80, 2], 1)]
        {
            let mut t = tensor("t", dtype, &shape, normal());
            (t.stride, t.offset) = (stride, offset);
            let strided = case(vec![t]);
            let b = filled(&strided, nominal(8)).unwrap();
            assert_eq!(values(&strided, &b, "t"), expected);
            assert!(!b[0].windows(8).any(|w| w == [0xEE; 8]), "gaps keep nothing");
        }
    }
}

#[test]
fn views_share_a_storage() {
    // Keys and values interleaved per row in one buffer, with a gap of one element.
    let mut k = tensor("k", DType::F32, &[6, 4], normal());
    let mut v = tensor("v", DType::F32, &[6, 4], Generator::Integers { lo: 5, hi: 9 });
    (k.stride, v.stride) = (vec![9, 1], vec![9, 1]);
    v.offset = 4;
    let mut c = case(vec![k, v]);
    c.storages = vec![Storage { name: "kv".into(), dtype: DType::F32, elements: 54, misalign: 0 }];
    c.tensors.iter_mut().for_each(|t| t.storage = Some(0));
    let b = filled(&c, nominal(3)).unwrap();
    assert!(values(&c, &b, "v").iter().all(|x| (5.0..=9.0).contains(x)));
    assert!(values(&c, &b, "k").iter().all(|x| x.abs() < 5.0 && *x != x.round()));
    let gap = f32::from_le_bytes(b[0][32..36].try_into().unwrap());
    assert_eq!(gap, 1e4);
}

fn quantised_case(dtype: DType, shape: &[i64], axes: &[usize], fraction: f64) -> Case {
    let scale_shape: Vec<i64> = axes.iter().map(|&a| shape[a]).collect();
    let generator =
        Generator::Quantised { scales: "s".into(), scale_axes: axes.to_vec(), std: 3.0, fraction };
    case(vec![
        tensor("s", DType::F32, &scale_shape, Generator::FromQuantised),
        tensor("x", dtype, shape, generator),
    ])
}

#[test]
fn quantised_values_times_scales_are_normals() {
    for dtype in [DType::F8E4m3, DType::F8E5m2, DType::F16] {
        for axes in [vec![0], vec![1], vec![0, 2], vec![2, 0], vec![], vec![0, 1, 2], vec![3]] {
            let shape = [3, 50, 4, 16];
            let c = quantised_case(dtype, &shape, &axes, 0.9);
            let b = filled(&c, nominal(4)).unwrap();
            let (x, s) = (values(&c, &b, "x"), values(&c, &b, "s"));
            let scale_shape: Vec<usize> = axes.iter().map(|&a| shape[a] as usize).collect();
            let mut largest = vec![0.0f64; s.len()];
            let mut squares = 0.0;
            for (i, &q) in x.iter().enumerate() {
                let index = [i / 3200, i / 64 % 50, i / 16 % 4, i % 16];
                let group = axes.iter().zip(&scale_shape).fold(0, |g, (&a, &d)| g * d + index[a]);
                largest[group] = largest[group].max(q.abs());
                squares += (q * s[group]).powi(2);
            }
            let std = (squares / x.len() as f64).sqrt();
            assert!((std - 3.0).abs() < 0.15, "{dtype} {axes:?} {std}");
            let target = round_to(dtype, 0.9 * dtype.max_finite());
            let step = target * dtype.epsilon();
            assert!(largest.iter().all(|l| (l - target).abs() <= step), "{dtype} {axes:?} {largest:?}");
        }
    }
}

#[test]
fn an_absent_scale_tensor_means_scale_one() {
    let mut c = quantised_case(DType::F8E4m3, &[64, 64], &[0], 0.5);
    c.tensors[0].storage = None;
    let b = filled(&c, nominal(4)).unwrap();
    let x = values(&c, &b, "x");
    let std = (x.iter().map(|v| v * v).sum::<f64>() / 4096.0).sqrt();
    assert!((std - 3.0).abs() < 0.15, "{std}");
}

#[test]
fn garbage_covers_what_is_unused_and_nothing_else() {
    let mut t = tensor("x", DType::Bf16, &[3, 10, 4], normal());
    t.stride = vec![64, 6, 1];
    t.garbage = Some(Garbage { value: 1e4, start: vec![0, 2, 5], end: vec![10, 7, 5], table: None });
    let c = case(vec![t]);
    let x = values(&c, &filled(&c, nominal(2)).unwrap(), "x");
    for (i, v) in x.iter().enumerate() {
        let (row, position) = (i / 40, i / 4 % 10);
        let used = [0..10, 2..7, 5..5][row].contains(&position);
        assert_eq!(*v == round_to(DType::Bf16, 1e4), !used, "{row} {position}");
    }
}

fn paged_case() -> Case {
    let mut pages = tensor("k", DType::F16, &[12, 4, 2, 3], normal());
    pages.garbage =
        Some(Garbage { value: 1e4, start: vec![0, 3, 0], end: vec![9, 8, 0], table: Some("table".into()) });
    let table = Generator::PageTable { pool: 12, used: vec![3, 2, 0] };
    case(vec![pages, tensor("table", DType::I32, &[3, 4], table)])
}

#[test]
fn garbage_follows_the_page_table() {
    let c = paged_case();
    for seed in 0..20 {
        let b = filled(&c, nominal(seed)).unwrap();
        let (k, table) = (values(&c, &b, "k"), values(&c, &b, "table"));
        let mut used = HashSet::new();
        for (row, range) in [0..9, 3..8, 0..0].into_iter().enumerate() {
            used.extend(range.map(|p| (table[row * 4 + p / 4] as usize, p % 4)));
        }
        for (i, v) in k.iter().enumerate() {
            assert_eq!(*v != 1e4, used.contains(&(i / 24, i / 6 % 4)), "seed {seed} element {i}");
        }
    }
}

#[test]
fn constants_and_the_rest_can_be_filled_apart() {
    let mut w = tensor("w", DType::F32, &[100], normal());
    w.role = Role::Constant;
    let c = case(vec![tensor("x", DType::F32, &[100], normal()), w, output("y", DType::F32, &[100])]);
    let whole = filled(&c, nominal(1)).unwrap();
    let mut b = buffers(&c);
    fill_selected(&c, nominal(1), &mut slot(&mut b), |t| t.role == Role::Constant).unwrap();
    assert_eq!(b[1], whole[1]);
    assert!(b[0].iter().all(|&x| x == 0xEE));
    fill_selected(&c, nominal(2), &mut slot(&mut b), |t| t.role != Role::Constant).unwrap();
    assert_eq!(b[1], whole[1]);
    assert_ne!(b[0], whole[0]);
    assert!(b[2].iter().all(|&x| x == 0xEE), "outputs are left alone");
    let paged = paged_case();
    let mut b = filled(&paged, nominal(1)).unwrap();
    assert!(fill_selected(&paged, nominal(2), &mut slot(&mut b), |t| t.name == "k").is_ok());
    assert!(fill_selected(&paged, nominal(2), &mut slot(&mut b), |t| t.name == "table").is_err());
}

#[test]
fn misuse_is_refused_with_the_reason() {
    let t = |dtype, shape: &[i64], g| misuse(&case(vec![tensor("t", dtype, shape, g)]));
    for (message, part) in [
        (t(DType::I32, &[4], normal()), "cannot fill i32"),
        (t(DType::F32, &[4], Generator::Normal { mean: 0.0, std: -1.0, outliers: None }), "no distribution"),
        (t(DType::F32, &[4], Generator::Uniform { lo: 1.0, hi: 0.0 }), "no distribution"),
        (t(DType::F32, &[4], Generator::Uniform { lo: f64::NAN, hi: 0.0 }), "no distribution"),
        (t(DType::U8, &[4], Generator::Integers { lo: -1, hi: 3 }), "u8 cannot hold"),
        (t(DType::I32, &[4], Generator::Integers { lo: 4, hi: 3 }), "cannot hold"),
        (t(DType::F16, &[4], Generator::Integers { lo: 0, hi: 4096 }), "f16 cannot hold"),
        (t(DType::I32, &[4], Generator::Lengths { lo: 1, hi: 3, total: Some(13) }), "add up to 13"),
        (t(DType::I32, &[4], Generator::RowOffsets { lengths: vec![1; 4] }), "4 offsets for 4"),
        (t(DType::I8, &[3], Generator::RowOffsets { lengths: vec![100; 2] }), "i8 cannot hold"),
        (t(DType::I32, &[3], Generator::RowOffsets { lengths: vec![1, -1] }), "negative"),
        (t(DType::I32, &[3], Generator::Values { values: vec![1.0] }), "1 values for 3"),
        (t(DType::I32, &[2, 3], Generator::PageTable { pool: 4, used: vec![3, 2] }), "of a pool of 4"),
        (t(DType::I32, &[2, 3], Generator::PageTable { pool: 9, used: vec![4, 2] }), "cannot use 4"),
        (t(DType::I32, &[6], Generator::PageTable { pool: 9, used: vec![4, 2] }), "two axes"),
        (t(DType::I8, &[300], Generator::Permutation), "i8 cannot hold"),
        (t(DType::F32, &[3], Generator::FromQuantised), "no tensor is quantised"),
        (misuse(&quantised_case(DType::F8E4m3, &[4, 4], &[0], 1.5)), "fraction"),
    ] {
        assert!(message.contains(part), "{message}");
    }
    let mut c = quantised_case(DType::F8E4m3, &[4, 4], &[0], 0.5);
    c.tensors[0].shape = vec![3];
    assert!(misuse(&c).contains("shape"), "{}", misuse(&c));
    c.tensors.remove(0);
    assert!(misuse(&c).contains("no scale tensor"));
    let mut c = quantised_case(DType::F8E4m3, &[4, 4], &[0], 0.5);
    if let Some(Generator::Quantised { scale_axes, .. }) = &mut c.tensors[1].generator {
        *scale_axes = vec![0, 0];
    }
    assert!(misuse(&c).contains("distinct axes"));

    let mut c = paged_case();
    c.tensors[0].garbage.as_mut().unwrap().end[0] = 17;
    assert!(misuse(&c).contains("outside 0..16"), "{}", misuse(&c));
    c.tensors[0].garbage.as_mut().unwrap().table = Some("none".into());
    assert!(misuse(&c).contains("bounds for 0 rows"), "{}", misuse(&c));

    let mut c = case(vec![tensor("t", DType::F32, &[4], normal())]);
    c.tensors[0].generator = None;
    assert!(misuse(&c).contains("no generator"));
    let mut c = case(vec![tensor("t", DType::F32, &[4], normal())]);
    c.tensors[0].offset = 1;
    assert!(misuse(&c).contains("storage of 4"));
    c.tensors[0].storage = Some(7);
    assert!(misuse(&c).contains("not a view"));
    let mut short = vec![vec![0; 15]];
    let c = case(vec![tensor("t", DType::F32, &[4], normal())]);
    assert!(matches!(fill(&c, nominal(1), &mut slot(&mut short)), Err(ContentError::BufferSize { .. })));
    assert!(matches!(fill(&c, nominal(1), &mut slot(&mut [])), Err(ContentError::Buffers { .. })));
}
