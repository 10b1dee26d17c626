//! Variables that run over ranges, and what a polynomial over them is at most and at least.

use crate::poly::{Polynomial, Symbol};

/// A variable that runs from `low` to `high`, both included.
#[derive(Debug, Clone, Default)]
pub(crate) struct Range {
    pub(crate) low: Option<Polynomial>,
    pub(crate) high: Option<Polynomial>,
    /// Distance between its values.
    pub(crate) step: i64,
    /// It reaches `high` only where the number of iterations comes out even: `(step, range length)`.
    pub(crate) even: Option<(i64, Polynomial)>,
}

/// All of them, by number. A range speaks of earlier numbers only.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranges {
    pub(crate) all: Vec<Range>,
    /// For what is known only at run time: the leaf whose element it is, if it is one.
    pub(crate) opaque: Vec<Option<usize>>,
}

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Low,
    High,
}

impl Ranges {
    pub(crate) fn add(&mut self, range: Range) -> Polynomial {
        self.all.push(range);
        Symbol::Ranging(self.all.len() - 1).into()
    }
    pub(crate) fn unknown(&mut self, origin: Option<usize>) -> Polynomial {
        self.opaque.push(origin);
        Symbol::Opaque(self.opaque.len() - 1).into()
    }

    /// The last ranging symbol that is not in `fixed`.
    fn last(poly: &Polynomial, fixed: &[usize]) -> Option<usize> {
        poly.symbols()
            .into_iter()
            .filter_map(|s| match s {
                Symbol::Ranging(n) if !fixed.contains(&n) => Some(n),
                _ => None,
            })
            .max()
    }

    /// The largest or smallest value of a polynomial over all ranges that are not `fixed`; `None` where that cannot be
    /// told. Ranges that must come out even for this are added to `even`.
    pub(crate) fn end(
        &self,
        poly: &Polynomial,
        end: End,
        fixed: &[usize],
        even: &mut Vec<(i64, Polynomial)>,
    ) -> Option<Polynomial> {
        let mut poly = poly.clone();
        for _ in 0..64 {
            let Some(number) = Self::last(&poly, fixed) else { return Some(poly) };
            let range = self.all.get(number)?;
            let (coefficient, rest) = poly.linear_in(&Symbol::Ranging(number))?;
            let rising = if coefficient.never_negative() {
                true
            } else if coefficient.times(&(-1).into())?.never_negative() {
                false
            } else {
                return None;
            };
            let up = (end == End::High) == rising;
            let bound = if up { range.high.as_ref() } else { range.low.as_ref() }?;
            if up && let Some(needed) = &range.even {
                even.push(needed.clone());
            }
            poly = coefficient.times(bound)?.plus(&rest)?;
        }
        None
    }

    /// The largest or smallest value, whatever that takes.
    pub(crate) fn extreme(&self, poly: &Polynomial, end: End) -> Option<Polynomial> {
        self.end(poly, end, &[], &mut Vec::new())
    }

    /// How often a variable takes a value, at most.
    pub(crate) fn trips(&self, number: usize) -> Option<Polynomial> {
        let range = self.all.get(number)?;
        let length = range.high.as_ref()?.minus(range.low.as_ref()?)?.plus_number(1)?;
        self.extreme(&length, End::High)
    }

    /// Of two bounds the better one: the provably tighter, else the one that is known beforehand.
    pub(crate) fn tighter(a: Option<Polynomial>, b: Option<Polynomial>, end: End) -> Option<Polynomial> {
        match (a, b) {
            (Some(a), Some(b)) => {
                let a_larger = a.at_least(&b);
                let b_larger = b.at_least(&a);
                let first = match (a_larger, b_larger) {
                    (true, false) => end == End::Low,
                    (false, true) => end == End::High,
                    _ => a.is_known() || !b.is_known(),
                };
                Some(if first { a } else { b })
            }
            (a, b) => a.or(b),
        }
    }

    /// Of two bounds the one that holds for both: the provably looser.
    pub(crate) fn looser(a: Option<Polynomial>, b: Option<Polynomial>, end: End) -> Option<Polynomial> {
        let (a, b) = (a?, b?);
        match (a.at_least(&b), b.at_least(&a)) {
            (true, _) => Some(if end == End::High { a } else { b }),
            (_, true) => Some(if end == End::High { b } else { a }),
            _ => None,
        }
    }
}
