//! Polynomials over sizes: what subscripts, loop bounds and extents are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// A polynomial of more terms than this is given up.
const MOST_TERMS: usize = 64;

/// What a polynomial is over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Symbol {
    /// A size that every call knows: a field of the scenario line.
    Size(String),
    /// A truncating quotient of two polynomials.
    Quotient(Box<Polynomial>, Box<Polynomial>),
    /// A variable that runs over a range, by its number.
    Ranging(usize),
    /// Something that is known only when the kernel runs, by its number.
    Opaque(usize),
}

/// A product of symbols, sorted.
type Monomial = Vec<Symbol>;

/// A sum of products with integer coefficients.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Polynomial(BTreeMap<Monomial, i64>);

impl From<i64> for Polynomial {
    fn from(value: i64) -> Self {
        Self(if value == 0 { BTreeMap::new() } else { BTreeMap::from([(Vec::new(), value)]) })
    }
}

impl From<Symbol> for Polynomial {
    fn from(symbol: Symbol) -> Self {
        Self(BTreeMap::from([(vec![symbol], 1)]))
    }
}

impl Polynomial {
    /// A size by its name.
    #[must_use]
    pub(crate) fn size(name: &str) -> Self {
        Symbol::Size(name.to_owned()).into()
    }
    /// The number, if there are no symbols in it.
    #[must_use]
    pub(crate) fn constant(&self) -> Option<i64> {
        match self.0.len() {
            0 => Some(0),
            1 => self.0.get(&Vec::new()).copied(),
            _ => None,
        }
    }
    /// Whether it is zero.
    #[must_use]
    pub(crate) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }
    /// Every symbol in it, those inside quotients too.
    #[must_use]
    pub(crate) fn symbols(&self) -> BTreeSet<Symbol> {
        let mut all = BTreeSet::new();
        for symbol in self.0.keys().flatten() {
            if let Symbol::Quotient(a, b) = symbol {
                all.extend(a.symbols());
                all.extend(b.symbols());
            }
            all.insert(symbol.clone());
        }
        all
    }
    /// Names of the sizes in it.
    #[must_use]
    pub(crate) fn sizes(&self) -> BTreeSet<String> {
        self.symbols()
            .into_iter()
            .filter_map(|s| match s {
                Symbol::Size(name) => Some(name),
                _ => None,
            })
            .collect()
    }
    /// Whether sizes and numbers are all there is.
    #[must_use]
    pub(crate) fn is_known(&self) -> bool {
        self.symbols().iter().all(|s| matches!(s, Symbol::Size(_) | Symbol::Quotient(..)))
    }

    fn add_term(&mut self, monomial: Monomial, coefficient: i64) -> Option<()> {
        let sum = self.0.get(&monomial).copied().unwrap_or(0).checked_add(coefficient)?;
        if sum == 0 {
            self.0.remove(&monomial);
        } else {
            self.0.insert(monomial, sum);
        }
        (self.0.len() <= MOST_TERMS).then_some(())
    }

    /// The sum; `None` when it gets too large.
    #[must_use]
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        let mut out = self.clone();
        for (monomial, coefficient) in &other.0 {
            out.add_term(monomial.clone(), *coefficient)?;
        }
        Some(out)
    }
    /// The difference; `None` when it gets too large.
    #[must_use]
    pub(crate) fn minus(&self, other: &Self) -> Option<Self> {
        self.plus(&other.times(&Self::from(-1))?)
    }
    /// The product; `None` when it gets too large.
    #[must_use]
    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let mut out = Self::default();
        for (a, ca) in &self.0 {
            for (b, cb) in &other.0 {
                let mut monomial = [a.as_slice(), b.as_slice()].concat();
                if monomial.len() > 12 {
                    return None;
                }
                monomial.sort();
                out.add_term(monomial, ca.checked_mul(*cb)?)?;
            }
        }
        Some(out)
    }
    /// Plus a number.
    #[must_use]
    pub(crate) fn plus_number(&self, n: i64) -> Option<Self> {
        self.plus(&Self::from(n))
    }

    /// `self = quotient * divisor + rest`, by the divisor's term of highest degree. `None` for a divisor of zero.
    #[must_use]
    pub(crate) fn divide(&self, divisor: &Self) -> Option<(Self, Self)> {
        let (lead, lead_coefficient) = divisor.leading()?;
        let (mut quotient, mut rest, mut left) = (Self::default(), Self::default(), self.clone());
        // Every round takes the leading term away; the cap keeps hostile input finite.
        for _ in 0..4 * MOST_TERMS {
            let Some((monomial, coefficient)) = left.leading() else { return Some((quotient, rest)) };
            match without(&monomial, &lead).filter(|_| coefficient.checked_rem(lead_coefficient) == Some(0)) {
                Some(factor) => {
                    let term = Self(BTreeMap::from([(factor, coefficient / lead_coefficient)]));
                    left = left.minus(&term.times(divisor)?)?;
                    quotient = quotient.plus(&term)?;
                }
                None => {
                    let term = Self(BTreeMap::from([(monomial, coefficient)]));
                    left = left.minus(&term)?;
                    rest = rest.plus(&term)?;
                }
            }
        }
        None
    }

    /// The quotient, if nothing is left.
    #[must_use]
    pub(crate) fn divide_exactly(&self, divisor: &Self) -> Option<Self> {
        self.divide(divisor).and_then(|(quotient, rest)| rest.is_zero().then_some(quotient))
    }

    fn leading(&self) -> Option<(Monomial, i64)> {
        self.0
            .iter()
            .max_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| b.cmp(a)))
            .map(|(m, c)| (m.clone(), *c))
    }

    /// The number of factors of its largest product.
    #[must_use]
    pub(crate) fn degree(&self) -> usize {
        self.0.keys().map(Vec::len).max().unwrap_or(0)
    }

    /// `(coefficient, rest)` of a symbol; `None` where it does not stand alone.
    #[must_use]
    pub(crate) fn linear_in(&self, symbol: &Symbol) -> Option<(Self, Self)> {
        let (mut coefficient, mut rest) = (Self::default(), Self::default());
        for (monomial, c) in &self.0 {
            match monomial.iter().filter(|s| *s == symbol).count() {
                0 => rest.add_term(monomial.clone(), *c)?,
                1 => {
                    let others = monomial.iter().filter(|s| *s != symbol).cloned().collect();
                    coefficient.add_term(others, *c)?;
                }
                _ => return None,
            }
        }
        Some((coefficient, rest))
    }

    /// Whether it is never negative as long as every size is at least 1 and everything else at least 0.
    #[must_use]
    pub(crate) fn never_negative(&self) -> bool {
        // Each size is 1 plus something that is not negative: shifted so, no coefficient may be negative.
        let mut shifted = Self::default();
        for (monomial, coefficient) in &self.0 {
            let mut product = Self::from(*coefficient);
            for symbol in monomial {
                let mut factor = Self::from(symbol.clone());
                if matches!(symbol, Symbol::Size(_)) {
                    match factor.plus_number(1) {
                        Some(more) => factor = more,
                        None => return false,
                    }
                }
                match product.times(&factor) {
                    Some(next) => product = next,
                    None => return false,
                }
            }
            match shifted.plus(&product) {
                Some(next) => shifted = next,
                None => return false,
            }
        }
        shifted.0.values().all(|c| *c >= 0)
    }

    /// Whether `self` is at least `other` for all sizes.
    #[must_use]
    pub(crate) fn at_least(&self, other: &Self) -> bool {
        self.minus(other).is_some_and(|d| d.never_negative())
    }

    /// Its value; `None` for an unknown symbol, a division by zero or an overflow.
    #[must_use]
    pub(crate) fn value(&self, sizes: &BTreeMap<String, i64>) -> Option<i64> {
        let mut sum = 0i64;
        for (monomial, coefficient) in &self.0 {
            let mut product = *coefficient;
            for symbol in monomial {
                let factor = match symbol {
                    Symbol::Size(name) => *sizes.get(name)?,
                    Symbol::Quotient(a, b) => a.value(sizes)?.checked_div(b.value(sizes)?)?,
                    _ => return None,
                };
                product = product.checked_mul(factor)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// As an expression of problem files, which is one of C too.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut terms: Vec<_> = self.0.iter().collect();
        terms.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        // A leading minus reads badly where something positive could come first.
        if let Some(first) = terms.iter().position(|(_, c)| **c > 0) {
            let term = terms.remove(first);
            terms.insert(0, term);
        }
        let mut out = String::new();
        for (index, (monomial, coefficient)) in terms.into_iter().enumerate() {
            match (index, *coefficient < 0) {
                (0, true) => out.push('-'),
                (0, false) => {}
                (_, true) => out.push_str(" - "),
                (_, false) => out.push_str(" + "),
            }
            let size = coefficient.unsigned_abs();
            if size != 1 || monomial.is_empty() {
                let _ = write!(out, "{size}");
                if !monomial.is_empty() {
                    out.push_str(" * ");
                }
            }
            let factors: Vec<String> = monomial.iter().map(symbol_text).collect();
            out.push_str(&factors.join(" * "));
        }
        if out.is_empty() { "0".to_owned() } else { out }
    }
}

fn symbol_text(symbol: &Symbol) -> String {
    match symbol {
        Symbol::Size(name) => name.clone(),
        Symbol::Quotient(a, b) => format!("(({}) / ({}))", a.text(), b.text()),
        Symbol::Ranging(n) => format!("r{n}"),
        Symbol::Opaque(n) => format!("o{n}"),
    }
}

/// `all` with the symbols of `some` taken out, if they are all in it. Both are sorted.
fn without(all: &[Symbol], some: &[Symbol]) -> Option<Monomial> {
    let mut left = all.to_vec();
    for symbol in some {
        let at = left.iter().position(|s| s == symbol)?;
        left.remove(at);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn size(name: &str) -> Polynomial {
        Polynomial::size(name)
    }

    #[test]
    fn text_is_what_a_person_would_write() {
        let area = size("h").times(&size("w")).unwrap();
        let all = area.plus(&size("h").times(&2.into()).unwrap()).unwrap().plus_number(-1).unwrap();
        assert_eq!(all.text(), "h * w + 2 * h - 1");
        assert_eq!(Polynomial::default().text(), "0");
        assert_eq!(size("n").times(&(-1).into()).unwrap().plus_number(3).unwrap().text(), "3 - n");
    }

    #[test]
    fn what_is_never_negative() {
        let area = size("h").times(&size("w")).unwrap();
        assert!(area.at_least(&size("w")));
        assert!(area.plus_number(-1).unwrap().never_negative());
        assert!(!area.minus(&size("h").times(&2.into()).unwrap()).unwrap().never_negative());
        assert!(!size("lda").at_least(&size("n")));
    }

    fn small() -> impl Strategy<Value = Polynomial> {
        prop::collection::vec((prop::collection::vec(0usize..3, 0..3), -5i64..6), 0..5).prop_map(|terms| {
            let mut out = Polynomial::default();
            for (symbols, c) in terms {
                let mut product = Polynomial::from(c);
                for s in symbols {
                    product = product.times(&size(["a", "b", "c"][s])).unwrap();
                }
                out = out.plus(&product).unwrap();
            }
            out
        })
    }

    proptest! {
        #[test]
        fn division_gives_back_what_was_divided(a in small(), b in small()) {
            if let Some((q, r)) = a.divide(&b) {
                prop_assert_eq!(q.times(&b).unwrap().plus(&r).unwrap(), a);
            } else {
                prop_assert!(b.is_zero());
            }
        }

        #[test]
        fn a_proof_holds_for_every_size(p in small(), a in 1i64..9, b in 1i64..9, c in 1i64..9) {
            let at = BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b), ("c".to_owned(), c)]);
            if p.never_negative() {
                prop_assert!(p.value(&at).unwrap() >= 0);
            }
        }

        #[test]
        fn exact_division_undoes_a_product(a in small(), b in small()) {
            prop_assume!(!b.is_zero());
            let product = a.times(&b).unwrap();
            prop_assert_eq!(product.divide_exactly(&b), Some(a));
        }
    }
}
