//! The seal: everything that results rest on, part by part, so that a change can be named.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the seal's form.
pub const FORMAT: u32 = 1;
/// Parts that steer the campaign and that no result rests on: a change must be sealed, and makes nothing STALE.
pub const STEERING: [&str; 3] = ["budget", "questions", "retention"];
/// Lines of a part that a change shows.
const SHOWN: usize = 6;

/// One part, as lines that a person can compare.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Part {
    /// Its lines, in an order that does not depend on the machine.
    pub lines: Vec<String>,
}

/// A seal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Version of the form.
    pub format: u32,
    /// Its parts: problem, scenarios, generators, reference, seed, tolerance, constraints, held out, candidate, goal,
    /// thresholds, toolchain, device; and those of [`STEERING`].
    pub parts: BTreeMap<String, Part>,
}

/// A part that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The part.
    pub part: String,
    /// Lines that were sealed and are gone, the first few.
    pub before: Vec<String>,
    /// Lines that were not sealed, the first few.
    pub now: Vec<String>,
    /// Further lines that differ.
    pub more: usize,
}

impl Change {
    /// Whether nothing that results rest on is among these.
    #[must_use]
    pub fn only_steering(changes: &[Self]) -> bool {
        changes.iter().all(|c| STEERING.contains(&c.part.as_str()))
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.part)?;
        match (self.before.first(), self.now.first()) {
            (Some(before), Some(now)) => write!(f, ": was `{before}`, is `{now}`")?,
            (Some(before), None) => write!(f, ": `{before}` is gone")?,
            (None, Some(now)) => write!(f, ": `{now}` is new")?,
            (None, None) => {}
        }
        let further = self.before.len().max(self.now.len()).saturating_sub(1) + self.more;
        if further > 0 {
            write!(f, " (and {further} more)")?;
        }
        Ok(())
    }
}

impl Default for Seal {
    fn default() -> Self {
        Self { format: FORMAT, parts: BTreeMap::new() }
    }
}

impl Seal {
    /// Adds or replaces a part.
    pub fn set(&mut self, part: &str, lines: impl IntoIterator<Item = String>) {
        self.parts.insert(part.to_owned(), Part { lines: lines.into_iter().collect() });
    }

    /// Hash of the parts that results rest on. Results are comparable while it stays.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("kernelseek 2026 seal");
        let mut feed = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        feed(&self.format.to_string());
        for (name, part) in self.parts.iter().filter(|(name, _)| !STEERING.contains(&name.as_str())) {
            feed(name);
            feed(&part.lines.len().to_string());
            part.lines.iter().for_each(|line| feed(line));
        }
        hasher.finalize().to_hex().to_string()
    }

    /// What differs in `now`, part by part.
    #[must_use]
    pub fn changes(&self, now: &Self) -> Vec<Change> {
        let empty = Part::default();
        let names = self.parts.keys().chain(now.parts.keys().filter(|n| !self.parts.contains_key(*n)));
        let mut changes: Vec<Change> = names
            .filter_map(|name| {
                let before = self.parts.get(name).unwrap_or(&empty);
                let after = now.parts.get(name).unwrap_or(&empty);
                (before != after).then(|| change(name, before, after))
            })
            .collect();
        changes.sort_by(|a, b| a.part.cmp(&b.part));
        changes
    }
}

fn change(name: &str, before: &Part, now: &Part) -> Change {
    let gone: Vec<&String> = before.lines.iter().filter(|l| !now.lines.contains(l)).collect();
    let new: Vec<&String> = now.lines.iter().filter(|l| !before.lines.contains(l)).collect();
    let more = gone.len().max(new.len()).saturating_sub(SHOWN);
    let first = |lines: Vec<&String>| lines.into_iter().take(SHOWN).cloned().collect::<Vec<_>>();
    let (mut gone, new) = (first(gone), first(new));
    if gone.is_empty() && new.is_empty() {
        gone.push("the order of its lines".to_owned());
    }
    Change { part: name.to_owned(), before: gone, now: new, more }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seal(tolerance: &str, scenarios: &[&str]) -> Seal {
        let mut seal = Seal::default();
        seal.set("tolerance", [tolerance.to_owned()]);
        seal.set("scenarios", scenarios.iter().map(|s| (*s).to_owned()));
        seal
    }

    #[test]
    fn a_change_is_named() {
        let before = seal("max 2 x", &["a", "b"]);
        assert!(before.changes(&before).is_empty());
        let changes = before.changes(&seal("max 4 x", &["a", "c"]));
        let shown: Vec<String> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["scenarios: was `b`, is `c`", "tolerance: was `max 2 x`, is `max 4 x`"]);
        let gone = before.changes(&seal("max 2 x", &["a"]));
        assert_eq!(gone[0].to_string(), "scenarios: `b` is gone");
        let order = before.changes(&seal("max 2 x", &["b", "a"]));
        assert_eq!(order[0].to_string(), "scenarios: `the order of its lines` is gone");
        let mut more = before.clone();
        more.set("device", ["x".to_owned()]);
        assert_eq!(before.changes(&more)[0].to_string(), "device: `x` is new");
    }

    #[test]
    fn many_lines_are_counted() {
        let lines: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        let mut before = Seal::default();
        before.set("scenarios", lines);
        let change = &before.changes(&Seal::default())[0];
        assert_eq!((change.before.len(), change.more), (SHOWN, 14));
        assert_eq!(change.to_string(), "scenarios: `0` is gone (and 19 more)");
    }

    #[test]
    fn steering_is_sealed_but_no_result_rests_on_it() {
        let before = seal("max 2 x", &["a"]);
        let mut now = before.clone();
        now.set("budget", ["100 evaluations".to_owned()]);
        assert_eq!(before.hash(), now.hash());
        assert_eq!(before.changes(&now).len(), 1);
    }

    proptest! {
        /// The hash and the list of changes agree, and no line can move between parts unseen.
        #[test]
        fn hash_and_changes_agree(a in prop::collection::btree_map("[a-c]", prop::collection::vec("[x-z]{0,2}", 0..3), 0..4),
                                  b in prop::collection::btree_map("[a-c]", prop::collection::vec("[x-z]{0,2}", 0..3), 0..4)) {
            let build = |parts: &BTreeMap<String, Vec<String>>| {
                let mut seal = Seal::default();
                parts.iter().for_each(|(name, lines)| seal.set(name, lines.clone()));
                seal
            };
            let (a, b) = (build(&a), build(&b));
            prop_assert_eq!(a == b, a.hash() == b.hash());
            if a == b { prop_assert!(a.changes(&b).is_empty()); }
            if !a.changes(&b).is_empty() { prop_assert_ne!(a.hash(), b.hash()); }
        }
    }
}
