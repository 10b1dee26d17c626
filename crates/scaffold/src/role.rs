//! Whether a call reads what it finds in a tensor, and whether it writes all of it.

use crate::extent::Axes;
use crate::poly::{Polynomial, Symbol};
use crate::ranges::{End, Ranges};
use crate::walk::{Access, Does};

/// What a body does to a tensor that it may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Reads only.
    Reads,
    /// Writes every element before any read of it.
    Writes,
    /// Reads what was there before.
    ReadsFirst,
    /// Writes some elements only, so that the others keep what was there.
    WritesPart,
    /// Reads of it could not be shown to come after writes.
    MayReadFirst,
    /// Never touched where it could be seen.
    Untouched,
}

/// Judges the accesses of one leaf, in order.
pub(crate) fn role(accesses: &[&Access], axes: Option<&Axes>, ranges: &Ranges) -> Use {
    if accesses.is_empty() {
        return Use::Untouched;
    }
    if accesses.iter().all(|a| a.does == Does::Read) {
        return Use::Reads;
    }
    let settled: Vec<Access> = without_complete_branches(accesses);
    let mut unsure = false;
    for (index, access) in settled.iter().enumerate() {
        if access.does == Does::Write {
            continue;
        }
        let writes: Vec<&Access> = settled.iter().filter(|a| a.does == Does::Write).collect();
        let before = settled[..index].iter().filter(|a| a.does == Does::Write);
        if written_before(access, before.collect::<Vec<_>>().as_slice(), &writes, ranges) {
            continue;
        }
        if axes.is_some_and(|axes| settled[..index].iter().any(|w| fills(w, access, axes, ranges))) {
            continue;
        }
        match (&access.at, settled[..index].iter().any(|a| a.does == Does::Write)) {
            (Some(_), false) => return Use::ReadsFirst,
            _ => unsure = true,
        }
    }
    if unsure {
        return Use::MayReadFirst;
    }
    match axes {
        Some(axes) if covers(accesses, &settled, axes, ranges) => Use::Writes,
        Some(_) if accesses.iter().all(|a| a.at.is_some()) => Use::WritesPart,
        // What cannot be followed is taken for a whole output: a missing write is found by `check`.
        _ => Use::Writes,
    }
}

/// Whether a write, done with before the read, has gone over the whole tensor: `memset` before a histogram.
fn fills(write: &Access, read: &Access, axes: &Axes, ranges: &Ranges) -> bool {
    let apart = write.does == Does::Write
        && write.conditions.is_empty()
        && write.loops.first() != read.loops.first()
        && axes.dense;
    let elements = axes.extents.iter().try_fold(Polynomial::from(1), |p, e| p.times(e.as_ref()?));
    let end = |end| write.at.as_ref().and_then(|at| ranges.extreme(at, end));
    match (apart, elements, end(End::Low), end(End::High).and_then(|h| h.plus_number(1))) {
        (true, Some(elements), Some(low), Some(high)) => low.is_zero() && high.at_least(&elements),
        _ => false,
    }
}

/// Accesses whose both branches write the same element count as unconditional.
fn without_complete_branches(accesses: &[&Access]) -> Vec<Access> {
    let mut all: Vec<Access> = accesses.iter().map(|a| (*a).clone()).collect();
    for _ in 0..4 {
        let mut done = Vec::new();
        for a in all.iter().filter(|a| a.does == Does::Write) {
            let Some(&(number, branch)) = a.conditions.last() else { continue };
            let other = all.iter().any(|b| {
                b.does == Does::Write
                    && b.at == a.at
                    && b.conditions.last() == Some(&(number, 1 - branch.min(1)))
            });
            if other && !done.contains(&number) {
                done.push(number);
            }
        }
        if done.is_empty() {
            break;
        }
        for a in &mut all {
            if a.does == Does::Write {
                while a.conditions.last().is_some_and(|(n, _)| done.contains(n)) {
                    a.conditions.pop();
                }
            }
        }
    }
    all
}

fn written_before(read: &Access, before: &[&Access], all: &[&Access], ranges: &Ranges) -> bool {
    let Some(at) = &read.at else { return false };
    let sure = |w: &&&Access| read.conditions.starts_with(&w.conditions);
    let covered = before.iter().filter(sure).any(|w| {
        let Some(written) = &w.at else { return false };
        let common: Vec<usize> =
            w.loops.iter().zip(&read.loops).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect();
        if written == at && w.loops.len() == common.len() {
            return true;
        }
        let end = |p: &Polynomial, end| ranges.end(p, end, &common, &mut Vec::new());
        match (end(written, End::Low), end(written, End::High), end(at, End::Low), end(at, End::High)) {
            (Some(w_low), Some(w_high), Some(r_low), Some(r_high)) => {
                r_low.at_least(&w_low) && w_high.at_least(&r_high)
            }
            _ => false,
        }
    });
    if covered {
        return true;
    }
    // y[i] = y[i - 1] + …, after y[0] = …: the round before wrote it.
    let one_back = all.iter().filter(sure).any(|w| {
        let behind = w.at.as_ref().and_then(|w| w.minus(at)).and_then(|d| d.constant());
        let rising = w.loops == read.loops
            && w.loops.last().is_some_and(|l| {
                ranges.all.get(*l).is_some_and(|r| r.step == 1) && at.symbols().contains(&Symbol::Ranging(*l))
            });
        behind == Some(1) && rising
    });
    let inner = read.loops.split_last().map_or(&[][..], |(_, outer)| outer);
    one_back
        && ranges
            .end(at, End::Low, inner, &mut Vec::new())
            .is_some_and(|low| before.iter().filter(sure).any(|w| w.at.as_ref() == Some(&low)))
}

/// Whether the unconditional writes span every axis from its first to its last element.
fn covers(accesses: &[&Access], settled: &[Access], axes: &Axes, ranges: &Ranges) -> bool {
    (0..axes.extents.len()).all(|axis| {
        let Some(extent) = &axes.extents[axis] else { return false };
        let mut writes: Vec<Polynomial> = Vec::new();
        for (index, access) in settled.iter().enumerate() {
            if access.does != Does::Write || !access.conditions.is_empty() || index >= accesses.len() {
                continue;
            }
            if let Some(Some(indices)) = axes.indices.get(index)
                && let Some(one) = indices.get(axis)
            {
                writes.push(one.clone());
            }
        }
        let starts = writes
            .iter()
            .any(|w| ranges.extreme(w, End::Low).is_some_and(|low| Polynomial::default().at_least(&low)));
        let ends = writes.iter().any(|w| {
            ranges
                .extreme(w, End::High)
                .and_then(|high| high.plus_number(1))
                .is_some_and(|end| end.at_least(extent))
        });
        let moves = extent.constant() == Some(1)
            || writes.iter().any(|w| w.symbols().iter().any(|s| matches!(s, Symbol::Ranging(_))))
            || extent
                .constant()
                .is_some_and(|n| writes.iter().collect::<std::collections::BTreeSet<_>>().len() as i64 >= n);
        starts && ends && moves
    })
}
