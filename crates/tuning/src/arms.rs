//! Assignments: one value for each tunable.

use kernelseek_core::diagnostic::Diagnostic;
use kernelseek_core::kernel_file::{Choice, KernelFile};
use kernelseek_core::value::Value;
use std::collections::BTreeMap;

/// One value for each tunable, by name.
pub type Assignment = BTreeMap<String, Choice>;

/// The assignment with every tunable at its default.
#[must_use]
pub fn defaults(kernel: &KernelFile) -> Assignment {
    kernel.tunables.iter().map(|t| (t.name.clone(), t.default.clone())).collect()
}

/// Every assignment, the defaults first, then in the file's order with the last tunable changing fastest.
#[must_use]
pub fn assignments(kernel: &KernelFile) -> Vec<Assignment> {
    let first = defaults(kernel);
    let mut all = vec![Assignment::new()];
    for tunable in &kernel.tunables {
        all = all
            .into_iter()
            .flat_map(|a| {
                tunable.values.iter().map(move |v| {
                    let mut a = a.clone();
                    a.insert(tunable.name.clone(), v.clone());
                    a
                })
            })
            .collect();
    }
    all.retain(|a| *a != first);
    all.insert(0, first);
    all
}

/// At most `most` assignments: the defaults, those that differ from them in one tunable, then a spread of the others.
#[must_use]
pub fn sample(all: Vec<Assignment>, most: usize) -> Vec<Assignment> {
    if all.len() <= most {
        return all;
    }
    let Some(first) = all.first().cloned() else { return all };
    let differs = |a: &Assignment| a.iter().filter(|(n, v)| first.get(*n) != Some(*v)).count();
    let (near, far): (Vec<_>, Vec<_>) = all.into_iter().partition(|a| differs(a) <= 1);
    let mut chosen = spread(near, most);
    if chosen.first() != Some(&first) {
        chosen.insert(0, first);
    }
    let rest = most.saturating_sub(chosen.len());
    chosen.extend(spread(far, rest));
    chosen.truncate(most.max(1));
    chosen
}

/// `most` of the items, evenly spaced.
fn spread<T>(items: Vec<T>, most: usize) -> Vec<T> {
    let n = items.len();
    if n <= most {
        return items;
    }
    let taken: Vec<usize> = (0..most).map(|i| i * n / most.max(1)).collect();
    items.into_iter().enumerate().filter(|(i, _)| taken.binary_search(i).is_ok()).map(|(_, x)| x).collect()
}

/// Whether `assignment` may be used in a scenario with these field values.
///
/// # Errors
/// When a condition cannot be evaluated there.
pub fn permits(
    kernel: &KernelFile,
    assignment: &Assignment,
    fields: &BTreeMap<String, Value>,
) -> Result<bool, Box<Diagnostic>> {
    for tunable in &kernel.tunables {
        let value = assignment.get(&tunable.name).unwrap_or(&tunable.default);
        if !tunable.permits(&kernel.source, value, fields)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// An assignment in words.
#[must_use]
pub fn words(assignment: &Assignment) -> String {
    let all: Vec<String> = assignment.iter().map(|(n, v)| format!("{n}={v}")).collect();
    if all.is_empty() { "as it is".to_owned() } else { all.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(sizes: &[i64]) -> Vec<Assignment> {
        let mut all = vec![Assignment::new()];
        for (t, n) in sizes.iter().enumerate() {
            all = all
                .iter()
                .flat_map(|a| {
                    (0..*n).map(move |v| {
                        let mut a = a.clone();
                        a.insert(format!("t{t}"), Choice::Int(v));
                        a
                    })
                })
                .collect();
        }
        all
    }

    #[test]
    fn a_sample_holds_the_defaults_and_one_step_from_them() {
        let all = grid(&[8, 8, 8]);
        assert_eq!(sample(all.clone(), 4096).len(), 512);
        let some = sample(all.clone(), 40);
        assert_eq!(some.len(), 40);
        assert_eq!(some[0], all[0]);
        let near = some.iter().filter(|a| a.values().filter(|v| **v != Choice::Int(0)).count() <= 1).count();
        assert_eq!(near, 22, "the defaults and seven other values of three tunables");
        let unique: std::collections::BTreeSet<_> = some.iter().collect();
        assert_eq!(unique.len(), 40);
        assert_eq!(sample(all, 5).len(), 5);
    }
}
