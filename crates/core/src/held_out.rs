//! Held-out scenarios: drawn from the base set by the problem's `[held_out]` rules.

use crate::diagnostic::Diagnostic;
use crate::problem::{Field, Problem, Varied, Vary};
use crate::resolve;
use crate::scenario::Scenario;
use crate::value::Value;
use std::collections::BTreeMap;

/// Draws until a scenario differs from its base, keeps `keep` and resolves, before the base is given up.
const MOST_DRAWS: usize = 200;

/// Why no held-out scenarios could be drawn.
#[derive(Debug, thiserror::Error)]
pub enum HeldOutError {
    /// The problem has no `[held_out]`.
    #[error("problem `{0}` declares no [held_out] rules")]
    NoRules(String),
    /// There is nothing to draw from.
    #[error("no scenario to draw from")]
    EmptyBase,
    /// The share is not a positive finite number.
    #[error("a share of {0} of the base set")]
    Share(f64),
    /// No base scenario yields a new one.
    #[error("drew {drawn} scenarios of {wanted}: the rules rarely yield a new scenario that can be resolved")]
    Exhausted {
        /// Scenarios found.
        drawn: usize,
        /// Scenarios wanted.
        wanted: usize,
        /// Why the last draw was refused, if it was.
        #[source]
        last: Option<Box<Diagnostic>>,
    },
}

/// SplitMix64: small, and the same everywhere for ever.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A uniform index below `n`, which is not 0. The bias of the multiplication is below 2⁻⁴⁰ here.
    fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
    /// A uniform double of [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Draws `ceil(share × base)` scenarios that differ from every base scenario: `held-01`, `held-02`, …. The same
/// arguments give the same scenarios. Each has the tags of its base and the tag `held_out`; every one resolves.
///
/// # Errors
/// If the problem has no rules, the base is empty, or the rules do not yield enough new scenarios.
pub fn draw(
    problem: &Problem,
    base: &[Scenario],
    seed: u64,
    share: f64,
) -> Result<Vec<Scenario>, HeldOutError> {
    let rules = problem.held_out.as_ref().ok_or_else(|| HeldOutError::NoRules(problem.name.clone()))?;
    if base.is_empty() {
        return Err(HeldOutError::EmptyBase);
    }
    if !share.is_finite() || share <= 0.0 {
        return Err(HeldOutError::Share(share));
    }
    // The product of a round share may come out a hair above a whole number.
    let wanted = ((share * base.len() as f64 - 1e-9).ceil() as usize).clamp(1, 10_000);
    let mut random = SplitMix(seed);
    // Bases are taken in a random order without repetition, then again.
    let mut order: Vec<usize> = Vec::new();
    let mut found: Vec<Scenario> = Vec::with_capacity(wanted);
    let mut last = None;
    let mut given_up = 0;
    while found.len() < wanted {
        if order.is_empty() {
            order = (0..base.len()).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, random.below(i as u64 + 1) as usize);
            }
        }
        let Some(model) = order.pop().and_then(|i| base.get(i)) else { continue };
        let known = |s: &Scenario| base.iter().chain(&found).any(|b| b.values == s.values);
        let id = format!("held-{:02}", found.len() + 1);
        match draw_one(problem, &rules.vary, rules.keep.as_ref(), model, &id, &mut random, known, &mut last) {
            Some(scenario) => found.push(scenario),
            None => {
                given_up += 1;
                if given_up > base.len() {
                    return Err(HeldOutError::Exhausted {
                        drawn: found.len(),
                        wanted,
                        last: last.map(Box::new),
                    });
                }
            }
        }
    }
    Ok(found)
}

#[expect(clippy::too_many_arguments, reason = "one loop's body, apart for its length")]
fn draw_one(
    problem: &Problem,
    vary: &[Varied],
    keep: Option<&crate::expression::Expression>,
    model: &Scenario,
    id: &str,
    random: &mut SplitMix,
    known: impl Fn(&Scenario) -> bool,
    last: &mut Option<Diagnostic>,
) -> Option<Scenario> {
    for _ in 0..MOST_DRAWS {
        let mut drawn = model.clone();
        id.clone_into(&mut drawn.id);
        drawn.note = Some(format!("drawn from {}", model.id));
        if !drawn.tags.iter().any(|t| t == "held_out") {
            drawn.tags.push("held_out".to_owned());
        }
        let mut factors: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for rule in vary {
            let length = rule.length.as_ref().and_then(|name| drawn.values.get(name)?.as_int());
            let (Some(field), Some(value)) = (problem.field(&rule.field), drawn.values.get_mut(&rule.field))
            else {
                continue;
            };
            if let (Some(length), Value::List(items)) = (length, &mut *value) {
                resize(items, length);
            }
            let used = varied(value, &rule.vary, field, &factors, random);
            factors.insert(&rule.field, used);
        }
        if known(&drawn) {
            continue;
        }
        match keep.map_or(Ok(true), |k| resolve::keeps(problem, k, &drawn)) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                *last = Some(error);
                continue;
            }
        }
        match resolve::resolve(problem, &drawn) {
            Ok(_) => return Some(drawn),
            Err(error) => *last = Some(error),
        }
    }
    None
}

/// As many elements as `length`: cut, or continued from the beginning.
fn resize(items: &mut Vec<Value>, length: i64) {
    let length = usize::try_from(length).unwrap_or(0);
    let more: Vec<Value> = items.iter().cycle().take(length.saturating_sub(items.len())).cloned().collect();
    items.extend(more);
    items.truncate(length);
}

/// Changes `value` by the rule, within the bounds of the field. Null stays null. The factors of its elements, where it was
/// scaled; `factors` are those of the fields before.
fn varied(
    value: &mut Value,
    rule: &Vary,
    field: &Field,
    factors: &BTreeMap<&str, Vec<f64>>,
    random: &mut SplitMix,
) -> Vec<f64> {
    let elements: &mut [Value] = match value {
        Value::Null => return Vec::new(),
        Value::List(items) => items,
        one => std::slice::from_mut(one),
    };
    let known = match rule {
        Vary::Scale { with: Some(with), .. } => factors.get(with.as_str()),
        _ => None,
    };
    let known = known.filter(|known| known.len() == elements.len());
    let mut used = Vec::new();
    for (index, value) in elements.iter_mut().enumerate() {
        let new = match rule {
            Vary::Choose(values) => values.get(random.below(values.len() as u64) as usize).cloned(),
            Vary::Scale { lo, hi, min, odd, .. } => value.as_int().map(|i| {
                let factor = known.map_or_else(|| lo + (hi - lo) * random.unit(), |known| known[index]);
                used.push(factor);
                // An empty sequence stays empty: it is a case of its own.
                let scaled = (i as f64 * factor).round();
                bounded(if *odd && scaled > 0.0 { to_odd(scaled) } else { scaled }, i, *min, field)
            }),
            Vary::Add { lo, hi, min } => value.as_int().map(|i| {
                let addend = lo + random.below((hi - lo) as u64 + 1) as i64;
                bounded((i.saturating_add(addend)) as f64, i, *min, field)
            }),
        };
        if let Some(new) = new {
            *value = new;
        }
    }
    used
}

/// The odd number at or below `x`, which is whole and above 0.
fn to_odd(x: f64) -> f64 {
    if x % 2.0 == 0.0 { x - 1.0 } else { x }
}

fn bounded(x: f64, from: i64, min: Option<i64>, field: &Field) -> Value {
    let mut x = x;
    if let Some(min) = min.filter(|min| from >= *min) {
        x = x.max(min as f64);
    }
    if let Some(min) = field.min {
        x = x.max(min.ceil());
    }
    if let Some(max) = field.max {
        x = x.min(max.floor());
    }
    Value::Int(x as i64)
}
