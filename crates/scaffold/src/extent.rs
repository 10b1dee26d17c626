//! From flat subscripts to axes: `a[i * n + k]` with `i < m`, `k < n` is a matrix of m rows and n columns.

use crate::poly::{Polynomial, Symbol};
use crate::ranges::{End, Ranges};
use crate::walk::Access;
use std::collections::BTreeSet;

/// The axes of a tensor.
#[derive(Debug, Clone, Default)]
pub(crate) struct Axes {
    /// Extent of each axis, outermost first; `None` where the subscripts do not tell.
    pub(crate) extents: Vec<Option<Polynomial>>,
    /// Distance of neighbours along each axis, in elements.
    pub(crate) strides: Vec<Polynomial>,
    /// Whether they leave no gaps.
    pub(crate) dense: bool,
    /// What must hold for it: the first at least the second.
    pub(crate) needs: Vec<(Polynomial, Polynomial)>,
    /// Whether everything is proved from loop bounds.
    pub(crate) sure: bool,
    /// Loops that must come out even: step and length.
    pub(crate) even: Vec<(i64, Polynomial)>,
    /// For each axis the integer leaves whose elements index it.
    pub(crate) indexed_by: Vec<BTreeSet<usize>>,
    /// For each axis the integer leaves whose elements bound a loop over it.
    pub(crate) bounded_by: Vec<BTreeSet<usize>>,
    /// For each access its index along each axis; `None` where it cannot be told.
    pub(crate) indices: Vec<Option<Vec<Polynomial>>>,
}

/// The axes that fit all accesses; `None` when no subscript could be followed.
pub(crate) fn axes(accesses: &[&Access], ranges: &Ranges) -> Option<Axes> {
    let known: Vec<&Polynomial> = accesses.iter().filter_map(|a| a.at.as_ref()).collect();
    if known.is_empty() {
        return None;
    }
    let mut found = grid(accesses, ranges).or_else(|| flat(accesses, ranges))?;
    found.sure &= known.len() == accesses.len();
    Some(found)
}

/// Symbols that vary within a call, with what they are multiplied by.
fn varying(poly: &Polynomial) -> Option<Vec<(Symbol, Polynomial)>> {
    let mut out = Vec::new();
    for symbol in poly.symbols() {
        if matches!(symbol, Symbol::Ranging(_) | Symbol::Opaque(_)) {
            let (coefficient, _) = poly.linear_in(&symbol)?;
            if !coefficient.is_known() {
                return None;
            }
            out.push((symbol, coefficient));
        }
    }
    Some(out)
}

/// Lengths of the loops around the accesses: at least 1 wherever anything is accessed, whatever they are made of.
struct Running(Vec<Polynomial>);

impl Running {
    fn around(accesses: &[&Access], ranges: &Ranges) -> Self {
        let symbols = accesses.iter().filter_map(|a| a.at.as_ref()).flat_map(Polynomial::symbols);
        let trips = symbols.filter_map(|s| match s {
            Symbol::Ranging(n) => ranges.trips(n),
            _ => None,
        });
        Self(trips.filter(|t| t.is_known() && t.constant().is_none()).collect())
    }

    /// Whether the polynomial is never negative, as a product of these lengths and of what is never negative anyway.
    fn never_negative(&self, poly: &Polynomial) -> bool {
        poly.never_negative()
            || self.0.iter().any(|length| {
                poly.divide_exactly(length)
                    .is_some_and(|rest| rest.degree() < poly.degree() && self.never_negative(&rest))
            })
    }

    fn at_least(&self, a: &Polynomial, b: &Polynomial) -> bool {
        a.at_least(b)
            || a.divide_exactly(b).is_some_and(|times| {
                // A whole number that is never negative, and not 0 where the loops run.
                self.0.contains(&times) || (!times.is_zero() && self.never_negative(&times))
            })
    }

    /// Those that the polynomial needs to make sense.
    fn used_in(&self, poly: &Polynomial) -> Vec<Polynomial> {
        self.0.iter().filter(|l| !l.never_negative() && poly.divide_exactly(l).is_some()).cloned().collect()
    }
}

fn positive(poly: &Polynomial, running: &Running) -> Option<Polynomial> {
    if running.never_negative(poly) {
        return Some(poly.clone());
    }
    poly.times(&(-1).into()).filter(|p| running.never_negative(p))
}

fn strides(poly: &Polynomial, running: &Running) -> Option<Vec<Polynomial>> {
    let set: BTreeSet<Polynomial> =
        varying(poly)?.iter().map(|(_, c)| positive(c, running)).collect::<Option<_>>()?;
    let mut all: Vec<Polynomial> = set.into_iter().filter(|s| !s.is_zero()).collect();
    all.sort_by_key(|s| std::cmp::Reverse(s.degree()));
    // An order that cannot be proved is none.
    for i in 0..all.len() {
        for j in i + 1..all.len() {
            if running.at_least(&all[j], &all[i]) && all[j] != all[i] && !running.at_least(&all[i], &all[j]) {
                all.swap(i, j);
            } else if !running.at_least(&all[i], &all[j]) {
                return None;
            }
        }
    }
    Some(all)
}

fn grid(accesses: &[&Access], ranges: &Ranges) -> Option<Axes> {
    let running = Running::around(accesses, ranges);
    let mut steps: Vec<Polynomial> = Vec::new();
    for poly in accesses.iter().filter_map(|a| a.at.as_ref()) {
        let own = strides(poly, &running)?;
        if own.len() > steps.len() {
            steps = own;
        }
    }
    let one = Polynomial::from(1);
    let mut split: Vec<Option<Vec<Polynomial>>> =
        accesses.iter().map(|a| a.at.as_ref().and_then(|p| decompose(p, &steps))).collect();
    let leftover = split.iter().flatten().any(|q| q.last().is_some_and(|rest| !rest.is_zero()));
    if steps.is_empty() || (leftover && steps.last() != Some(&one)) {
        steps.push(one.clone());
    } else {
        // Nothing is ever between two steps of the last axis.
        for indices in split.iter_mut().flatten() {
            indices.pop();
        }
    }
    if steps.len() > 8 {
        return None;
    }
    let rank = steps.len();
    let mut out = Axes {
        sure: true,
        dense: true,
        indexed_by: vec![BTreeSet::new(); rank],
        bounded_by: vec![BTreeSet::new(); rank],
        ..Axes::default()
    };
    let mut highs: Vec<Option<Polynomial>> = vec![None; rank];
    for (access, indices) in accesses.iter().zip(&mut split) {
        if access.at.is_none() {
            continue;
        }
        // A sweep over the whole is no contradiction as long as it stays inside; that is seen below.
        let own = indices.as_mut()?;
        borrow(own, &steps, ranges);
        for (axis, index) in own.iter().enumerate() {
            let unknown = index.symbols().iter().any(|s| matches!(s, Symbol::Opaque(_)));
            if unknown {
                out.indexed_by[axis].extend(origins_of(index, ranges));
                out.sure = false;
                continue;
            }
            if !ranges.extreme(index, End::Low).is_some_and(|low| low.never_negative()) {
                out.sure = false;
            }
            let high = ranges.end(index, End::High, &[], &mut out.even);
            out.bounded_by[axis].extend(high.iter().flat_map(|h| origins_of(h, ranges)));
            match high.filter(Polynomial::is_known) {
                Some(high) => {
                    let high = high.plus_number(1)?;
                    highs[axis] = Some(match highs[axis].take() {
                        None => high,
                        Some(before) => Ranges::looser(Some(before), Some(high), End::High)?,
                    });
                }
                None => out.sure = false,
            }
        }
    }
    for length in steps.iter().flat_map(|s| running.used_in(s)) {
        out.needs.push((length, one.clone()));
    }
    for axis in 1..rank {
        let room = steps[axis - 1].divide_exactly(&steps[axis])?;
        match &highs[axis] {
            None => highs[axis] = Some(room),
            Some(high) if room.at_least(high) => highs[axis] = Some(room),
            Some(high) if high.minus(&room)?.plus_number(-1)?.never_negative() => return None,
            Some(high) => {
                out.needs.push((room, high.clone()));
                out.dense = false;
            }
        }
    }
    out.dense &= steps.last() == Some(&one);
    out.extents = highs;
    out.strides = steps;
    out.indices = split;
    Some(out)
}

/// Leaves whose elements stand in a polynomial.
fn origins_of(poly: &Polynomial, ranges: &Ranges) -> Vec<usize> {
    poly.symbols()
        .iter()
        .filter_map(|s| match s {
            Symbol::Opaque(n) => ranges.opaque.get(*n).copied().flatten(),
            _ => None,
        })
        .collect()
}

/// A flat index as one for each step, and what is left over.
fn decompose(poly: &Polynomial, steps: &[Polynomial]) -> Option<Vec<Polynomial>> {
    let mut indices = vec![Polynomial::default(); steps.len() + 1];
    let mut rest = poly.clone();
    for (symbol, coefficient) in varying(poly)? {
        let term = coefficient.times(&symbol.clone().into())?;
        let (axis, factor) =
            steps.iter().enumerate().find_map(|(axis, s)| Some((axis, coefficient.divide_exactly(s)?)))?;
        indices[axis] = indices[axis].plus(&factor.times(&symbol.into())?)?;
        rest = rest.minus(&term)?;
    }
    for (axis, step) in steps.iter().enumerate() {
        let (quotient, left) = rest.divide(step)?;
        indices[axis] = indices[axis].plus(&quotient)?;
        rest = left;
    }
    indices[steps.len()] = rest;
    Some(indices)
}

/// `w - 1` is the last column of this row, not the column before the first of the next.
fn borrow(indices: &mut [Polynomial], steps: &[Polynomial], ranges: &Ranges) {
    for axis in (1..indices.len().min(steps.len())).rev() {
        let low = ranges.extreme(&indices[axis], End::Low);
        let negative =
            low.and_then(|l| l.times(&(-1).into())?.plus_number(-1)).is_some_and(|l| l.never_negative());
        if !negative {
            continue;
        }
        let room = steps[axis - 1].divide_exactly(&steps[axis]);
        let inner = room.and_then(|r| indices[axis].plus(&r));
        let outer = indices[axis - 1].plus_number(-1);
        if let (Some(inner), Some(outer)) = (inner, outer)
            && ranges.extreme(&outer, End::Low).is_some_and(|l| l.never_negative())
        {
            indices[axis] = inner;
            indices[axis - 1] = outer;
        }
    }
}

/// One axis over everything that is touched.
fn flat(accesses: &[&Access], ranges: &Ranges) -> Option<Axes> {
    let mut out = Axes {
        dense: true,
        sure: true,
        strides: vec![1.into()],
        indexed_by: vec![BTreeSet::new()],
        bounded_by: vec![BTreeSet::new()],
        ..Axes::default()
    };
    let mut high: Option<Polynomial> = None;
    for access in accesses {
        let Some(at) = &access.at else {
            out.indices.push(None);
            continue;
        };
        out.indexed_by[0].extend(origins_of(at, ranges));
        let end = ranges.end(at, End::High, &[], &mut out.even);
        if out.indexed_by[0].is_empty() {
            out.bounded_by[0].extend(end.iter().flat_map(|e| origins_of(e, ranges)));
        }
        match end.filter(Polynomial::is_known) {
            Some(end) => {
                let end = end.plus_number(1)?;
                high = Some(match high {
                    None => end,
                    Some(before) => match Ranges::looser(Some(before.clone()), Some(end), End::High) {
                        Some(end) => end,
                        None => {
                            out.sure = false;
                            before
                        }
                    },
                });
                out.sure &= ranges.extreme(at, End::Low).is_some_and(|l| l.never_negative());
            }
            None => out.sure = false,
        }
        out.indices.push(Some(vec![at.clone()]));
    }
    out.extents = vec![high];
    Some(out)
}
