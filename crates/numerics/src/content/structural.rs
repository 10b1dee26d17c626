//! Integers with a meaning: lengths, offsets, page tables, permutations.

use super::{CHUNK, Content, ContentError, Writer};
use crate::codec::integer_range;
use crate::rng::{Pcg64, Purpose};
use kernelseek_core::case::{Generator, TensorCase};

pub(super) fn fill(
    tensor: &TensorCase,
    generator: &Generator,
    content: Content,
    index: usize,
    mut out: Writer<'_, '_>,
) -> Result<(), ContentError> {
    let mut rng = Pcg64::for_tensor(content.seed, index, Purpose::Values);
    let len = tensor.len();
    let values = match generator {
        Generator::Integers { lo, hi } => {
            check_range(tensor, *lo, *hi)?;
            // Wraps to 0 for all of i64, where every 64 bits are a draw.
            let span = (hi.wrapping_sub(*lo) as u64).wrapping_add(1);
            let mut chunk = [0i64; CHUNK];
            let mut left = len;
            while left > 0 {
                let part = &mut chunk[..left.min(CHUNK)];
                if span == 0 {
                    part.iter_mut().for_each(|v| *v = rng.next_u64() as i64);
                } else {
                    part.iter_mut().for_each(|v| *v = lo.wrapping_add(rng.below(span) as i64));
                }
                out.integers(part);
                left -= part.len();
            }
            return Ok(());
        }
        Generator::Lengths { lo, hi, total } => {
            check_range(tensor, *lo, *hi)?;
            lengths(tensor, &mut rng, (*lo, *hi, *total))?
        }
        Generator::RowOffsets { lengths } => row_offsets(tensor, lengths)?,
        Generator::PageTable { pool, used } => page_table(tensor, &mut rng, *pool, used)?,
        Generator::Permutation => {
            check_range(tensor, 0, (len as i64 - 1).max(0))?;
            let mut order: Vec<i64> = (0..len as i64).collect();
            rng.shuffle(&mut order);
            order
        }
        _ => return Err(ContentError::misuse(tensor, "its generator draws no integers")),
    };
    out.integers(&values);
    Ok(())
}

/// `lo..=hi` is not empty and the element type holds it.
fn check_range(tensor: &TensorCase, lo: i64, hi: i64) -> Result<(), ContentError> {
    let (least, most) = integer_range(tensor.dtype);
    // Integers beyond 2/ε are not all values of a float type.
    let exact = if tensor.dtype.is_float() { 2.0 / tensor.dtype.epsilon() } else { f64::INFINITY };
    let exact = exact.min(if tensor.dtype.is_float() { tensor.dtype.max_finite() } else { exact });
    if lo > hi || lo < least || hi > most || lo.unsigned_abs().max(hi.unsigned_abs()) as f64 > exact {
        return Err(ContentError::misuse(
            tensor,
            format!("{} cannot hold integers {lo}..={hi}", tensor.dtype),
        ));
    }
    Ok(())
}

fn lengths(
    tensor: &TensorCase,
    rng: &mut Pcg64,
    (lo, hi, total): (i64, i64, Option<i64>),
) -> Result<Vec<i64>, ContentError> {
    let count = tensor.len();
    let span = (hi.wrapping_sub(lo) as u64).saturating_add(1);
    let mut values: Vec<i64> = (0..count).map(|_| lo.wrapping_add(rng.below(span) as i64)).collect();
    let Some(total) = total else { return Ok(values) };
    let (least, most) = (i128::from(lo) * count as i128, i128::from(hi) * count as i128);
    if !(least..=most).contains(&i128::from(total)) {
        let reason = format!("{count} lengths from {lo}..={hi} cannot add up to {total}");
        return Err(ContentError::misuse(tensor, reason));
    }
    let mut missing = i128::from(total) - values.iter().map(|&v| i128::from(v)).sum::<i128>();
    // Random moves first, then whatever is left in a random order: ends for certain, and favours no place.
    let mut order: Vec<usize> = (0..count).collect();
    rng.shuffle(&mut order);
    for round in 0..8 {
        for &at in &order {
            if missing == 0 {
                return Ok(values);
            }
            let room = if missing > 0 { hi.abs_diff(values[at]) } else { values[at].abs_diff(lo) };
            let most = u128::from(room).min(missing.unsigned_abs()) as u64;
            let moved = if round == 7 { most } else { rng.below(most.saturating_add(1)) };
            if missing > 0 {
                values[at] = values[at].wrapping_add_unsigned(moved);
                missing -= i128::from(moved);
            } else {
                values[at] = values[at].wrapping_sub_unsigned(moved);
                missing += i128::from(moved);
            }
        }
    }
    Ok(values)
}

fn row_offsets(tensor: &TensorCase, lengths: &[i64]) -> Result<Vec<i64>, ContentError> {
    if tensor.len() != lengths.len() + 1 {
        let reason = format!("{} offsets for {} lengths", tensor.len(), lengths.len());
        return Err(ContentError::misuse(tensor, reason));
    }
    let mut sum = 0i64;
    let mut offsets = vec![0];
    for &length in lengths {
        sum = sum
            .checked_add(length)
            .filter(|_| length >= 0)
            .ok_or_else(|| ContentError::misuse(tensor, "its lengths are negative or add up to too much"))?;
        offsets.push(sum);
    }
    check_range(tensor, 0, sum)?;
    Ok(offsets)
}

fn page_table(
    tensor: &TensorCase,
    rng: &mut Pcg64,
    pool: i64,
    used: &[i64],
) -> Result<Vec<i64>, ContentError> {
    let misuse = |reason: String| Err(ContentError::misuse(tensor, reason));
    let &[rows, columns] = tensor.shape.as_slice() else {
        return misuse("a page table has two axes".to_owned());
    };
    if rows != used.len() as i64 {
        return misuse(format!("{rows} rows for {} counts of used pages", used.len()));
    }
    if let Some(&count) = used.iter().find(|u| !(0..=columns).contains(*u)) {
        return misuse(format!("a row of {columns} pages cannot use {count}"));
    }
    let needed = used.iter().map(|&u| i128::from(u)).sum::<i128>();
    if pool < 1 || needed > i128::from(pool) {
        return misuse(format!("{needed} pages are used of a pool of {pool}"));
    }
    check_range(tensor, 0, pool - 1)?;
    let mut pages: Vec<i64> = (0..pool).collect();
    rng.shuffle(&mut pages);
    let (taken, spare) = pages.split_at(needed as usize);
    let mut taken = taken.iter().copied();
    let mut spare = spare.iter().copied().cycle();
    let mut table = Vec::with_capacity(tensor.len());
    for &count in used {
        table.extend(taken.by_ref().take(count as usize));
        let last = if count > 0 { table.last().copied().unwrap_or(0) } else { pages[0] };
        table.extend((count..columns).map(|_| spare.next().unwrap_or(last)));
    }
    Ok(table)
}
