//! Which sizes to try: round ones, odd ones, long ones, the smallest that do something.

use crate::plan::{Field, Plan, Purpose};
use crate::poly::Polynomial;
use kernelseek_core::case::Role;
use std::collections::BTreeMap;

/// Values by field.
pub(crate) type Values = BTreeMap<String, i64>;

/// A scenario line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scenario {
    /// Id.
    pub(crate) id: String,
    /// Whether a call takes hardly any time.
    pub(crate) tiny: bool,
    /// Why it is there.
    pub(crate) note: String,
    /// Fields.
    pub(crate) values: Values,
}

/// Iterations and elements of the usual scenario, at most, on one core.
pub(crate) const WORK: i64 = 1 << 19;
/// The same on a GPU.
pub(crate) const DEVICE_WORK: i64 = 1 << 24;

/// Sizes that are small by what their name says.
const SMALL: &[(&[&str], i64)] = &[
    (&["taps", "ksize", "kernel", "ktaps", "kw", "kh", "kx", "ky", "window", "order", "degree"], 5),
    (&["radius", "pad", "halo", "dilation"], 2),
    (&["channels", "channel", "ch"], 3),
    (&["batch", "batches", "heads"], 4),
    (&["iters", "iterations", "steps", "sweeps", "niter"], 3),
    (&["per_row"], 8),
];

fn small(name: &str) -> Option<i64> {
    let lower = name.to_lowercase();
    let plain = lower.strip_prefix("num_").or_else(|| lower.strip_prefix("n_")).unwrap_or(&lower);
    SMALL.iter().find(|(words, _)| words.contains(&plain)).map(|(_, value)| *value)
}

/// The lines of a scenario file without those of these ids; `None` if hardly any would be left.
#[must_use]
pub fn without(lines: &str, ids: &[&str]) -> Option<String> {
    let is_one = |line: &str| ids.iter().any(|id| line.starts_with(&format!("{{\"id\": \"{id}\",")));
    let kept: Vec<&str> = lines.lines().filter(|l| !is_one(l)).collect();
    (kept.len() >= 3).then(|| kept.join("\n") + "\n")
}

/// The scenarios of a plan; none if no sizes make it work.
#[must_use]
pub(crate) fn scenarios(plan: &Plan, most: i64) -> Vec<Scenario> {
    let big: Vec<&Field> =
        plan.fields.iter().filter(|f| f.purpose == Purpose::Size && small(&f.name).is_none()).collect();
    let maker = Maker { plan, big: &big, most };
    let Some(size) = maker.usual_size() else { return Vec::new() };
    let mut out: Vec<Scenario> = Vec::new();
    let mut add = |id: String, note: String, values: Option<Values>| {
        let Some(values) = values.filter(|v| maker.valid(v)) else { return };
        if out.iter().any(|s| s.values == values || s.id == id) {
            return;
        }
        let tiny = maker.work(&values).is_none_or(|w| w < most / 64);
        out.push(Scenario { id, tiny, note, values });
    };
    let note = "CHECK the sizes: made up so that a call takes about a tenth of a millisecond; put yours here";
    // Sizes that differ: a square hides a swapped axis, and what resizes or copies does nothing between equal ones.
    let apart = |index: usize| size + size / 8 * (index as i64 % 4);
    add("base".to_owned(), note.to_owned(), maker.values(apart, 0));
    let odd = |index: usize| prime_below(size - 3 * index as i64);
    add("odd".to_owned(), "primes: nothing divides".to_owned(), maker.values(odd, 0));
    if plan.fields.iter().any(|f| f.purpose == Purpose::Pitch) {
        add(
            "padded".to_owned(),
            "rows further apart than they are long".to_owned(),
            maker.values(|_| size, 13),
        );
    }
    for flag in plan.fields.iter().filter(|f| f.purpose == Purpose::Flag).take(4) {
        let mut values = maker.values(|_| size, 0);
        if let Some(values) = &mut values {
            values.insert(flag.name.clone(), 0);
        }
        add(
            format!("no_{}", flag.name),
            format!("CHECK {} is 0: a flag by the way it is used", flag.name),
            values,
        );
    }
    // Those with a size of 1 come last: `init` may take them out, and the lines before keep their numbers.
    if big.len() > 1 {
        for (own, field) in big.iter().enumerate().take(4) {
            let long = |index: usize| if index == own { 4 * size + 1 } else { (size / 4).max(1) };
            let note = format!("{} far larger than the rest", field.name);
            add(format!("long_{}", field.name), note, maker.values(long, 0));
        }
        for (own, field) in big.iter().enumerate().take(4) {
            let one = |index: usize| if index == own { 1 } else { size };
            add(format!("one_{}", field.name), format!("{} is 1", field.name), maker.values(one, 0));
        }
    } else if !big.is_empty() {
        add("half".to_owned(), "one more than half".to_owned(), maker.values(|_| size / 2 + 1, 0));
        add("third".to_owned(), "a third, rounded down".to_owned(), maker.values(|_| size / 3, 0));
    }
    add("small".to_owned(), "a few dozen".to_owned(), maker.values(|i| 33 - 4 * (i as i64).min(4), 0));
    if let Some(values) = maker.smallest() {
        let ones = big.iter().all(|f| values.get(&f.name) == Some(&1));
        let (id, note) = if ones {
            ("ones", "every size is 1")
        } else {
            ("smallest", "the smallest sizes that do something")
        };
        add(id.to_owned(), note.to_owned(), Some(values));
    }
    if plan.fields.is_empty() {
        add("only".to_owned(), "nothing about a call varies but its content".to_owned(), Some(Values::new()));
    }
    out
}

struct Maker<'a> {
    plan: &'a Plan,
    /// Iterations and elements of the usual scenario, at most.
    most: i64,
    big: &'a [&'a Field],
}

impl Maker<'_> {
    /// All fields, with `size` of each big one by its index.
    fn values(&self, size: impl Fn(usize) -> i64, pad: i64) -> Option<Values> {
        let mut values = Values::new();
        for field in &self.plan.fields {
            let wanted = match field.purpose {
                Purpose::Size => match self.big.iter().position(|f| f.name == field.name) {
                    Some(index) => size(index),
                    None => small(&field.name).unwrap_or(1),
                },
                Purpose::Pitch | Purpose::Flag | Purpose::Number => 1,
            };
            values.insert(field.name.clone(), fit(field, wanted));
        }
        for (room, used) in &self.plan.needs {
            let name = room.sizes().into_iter().next()?;
            if *room == Polynomial::size(&name)
                && let Some(field) = self.plan.fields.iter().find(|f| f.name == name)
            {
                let least = used.value(&values)?.checked_add(pad)?;
                let current = values.get(&name).copied().unwrap_or(1);
                let wanted = if field.purpose == Purpose::Pitch {
                    least.max(if current > 1 { current } else { 0 })
                } else {
                    least.max(current)
                };
                values.insert(name, fit(field, wanted));
            }
        }
        Some(values)
    }

    /// Elements of all tensors and iterations of the largest loop nest, whichever is more.
    fn work(&self, values: &Values) -> Option<i64> {
        let elements = self
            .plan
            .tensors
            .iter()
            .try_fold(0i64, |sum, t| sum.checked_add(t.elements()?.value(values)?))?;
        let loops = self.plan.work.iter().filter_map(|w| w.value(values)).max().unwrap_or(0);
        Some(elements.max(loops))
    }

    fn valid(&self, values: &Values) -> bool {
        let fields = self.plan.fields.iter().all(|f| {
            values.get(&f.name).is_some_and(|v| {
                *v >= f.min && f.max.is_none_or(|max| *v <= max) && v % f.multiple.max(1) == 0
            })
        });
        let shapes = self.plan.tensors.iter().all(|t| {
            t.shape.iter().all(|e| e.value(values).is_some_and(|v| (1..=1 << 30).contains(&v)))
                && t.elements().and_then(|e| e.value(values)).is_some_and(|n| n <= 1 << 26)
        });
        let needs = self.plan.needs.iter().all(
            |(room, used)| matches!((room.value(values), used.value(values)), (Some(r), Some(u)) if r >= u),
        );
        let runs = self.plan.runs.iter().flatten().flatten().all(|n| n.value(values).is_none_or(|n| n >= 1));
        fields && shapes && needs && runs
    }

    fn usual_size(&self) -> Option<i64> {
        let mut size = self.most;
        while size >= 1 {
            let values = self.values(|_| size, 0)?;
            if self.valid(&values) && self.work(&values).is_some_and(|w| w <= 4 * self.most / 3) {
                return Some(size);
            }
            size /= 2;
        }
        // Too large even at its smallest, or impossible: what is valid is better than nothing.
        [64, 32, 16, 8, 4, 2, 1].into_iter().find(|s| self.values(|_| *s, 0).is_some_and(|v| self.valid(&v)))
    }

    /// The smallest valid sizes: all raised together, then each lowered by itself.
    fn smallest(&self) -> Option<Values> {
        let mut values = (1..=128).find_map(|n| self.values(|_| n, 0).filter(|v| self.valid(v)))?;
        for field in self.big {
            for lower in 1..values.get(&field.name).copied().unwrap_or(1) {
                let mut next = values.clone();
                next.insert(field.name.clone(), lower);
                if self.valid(&next) {
                    values = next;
                    break;
                }
            }
        }
        Some(values)
    }
}

/// `wanted` within the field's bounds and a multiple of what it must be one of.
fn fit(field: &Field, wanted: i64) -> i64 {
    let multiple = field.multiple.max(1);
    let capped = wanted.max(field.min).min(field.max.unwrap_or(i64::MAX));
    (capped / multiple * multiple).max(field.min)
}

fn prime_below(n: i64) -> i64 {
    (2..n.max(4)).rev().find(|p| (2..*p).take_while(|d| d * d <= *p).all(|d| p % d != 0)).unwrap_or(3)
}

/// Bytes that a call must move at least, as an expression; `None` without a tensor.
#[must_use]
pub(crate) fn bytes(plan: &Plan) -> Option<String> {
    let mut terms = Vec::new();
    for t in plan.tensors.iter().filter(|t| t.whole) {
        let size = t.scalar.dtype.size() as i64 * if t.role == Role::Inout { 2 } else { 1 };
        terms.push(t.elements()?.times(&size.into())?);
    }
    let sum = terms.iter().try_fold(Polynomial::default(), |sum, t| sum.plus(t))?;
    (!sum.is_zero()).then(|| sum.text())
}

/// Elements of everything that is touched whole: each takes part in one operation at least.
#[must_use]
pub(crate) fn touched(plan: &Plan) -> Option<String> {
    let whole = plan.tensors.iter().filter(|t| t.whole);
    let sum = whole.into_iter().try_fold(Polynomial::default(), |sum, t| sum.plus(&t.elements()?))?;
    (!sum.is_zero()).then(|| sum.text())
}
