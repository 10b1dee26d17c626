//! How one version of a source differs from the one before, and how much of it is an old line coming back.

use kernelseek_ledger::entry::Edit;
use std::collections::{BTreeMap, BTreeSet};

/// Lines too short to say anything: a lone brace comes back in every edit.
const LEAST: usize = 6;

/// What changed from `before` to `now`, as bags of lines, and how many of the added lines are among `deleted_earlier`.
/// Updates `deleted_earlier` with the lines that this edit deletes.
#[must_use]
pub fn edit(before: &str, now: &str, deleted_earlier: &mut BTreeSet<String>) -> Edit {
    let mut bag: BTreeMap<&str, i64> = BTreeMap::new();
    let lines = |text| str::lines(text).map(str::trim).filter(|l| l.len() >= LEAST);
    for line in lines(now) {
        *bag.entry(line).or_default() += 1;
    }
    for line in lines(before) {
        *bag.entry(line).or_default() -= 1;
    }
    let mut edit = Edit::default();
    for (line, count) in &bag {
        let n = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        match count {
            1.. => {
                edit.added += n;
                edit.repeated += if deleted_earlier.contains(*line) { n } else { 0 };
            }
            0 => {}
            _ => edit.deleted += n,
        }
    }
    deleted_earlier.extend(bag.iter().filter(|(_, c)| **c < 0).map(|(line, _)| (*line).to_owned()));
    edit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_comes_back_is_seen() {
        let (a, b) = ("float x = 1;\nfor (;;) {\n}\nreturn x;\n", "float x = 2;\nfor (;;) {\n}\nreturn x;\n");
        let mut deleted = BTreeSet::new();
        assert_eq!(edit(a, b, &mut deleted), Edit { added: 1, deleted: 1, repeated: 0 });
        assert_eq!(edit(b, a, &mut deleted), Edit { added: 1, deleted: 1, repeated: 1 });
        assert_eq!(edit(a, a, &mut deleted), Edit::default());
        assert_eq!(edit(a, &format!("{a}return x;\n}}\n"), &mut deleted).added, 1, "a brace says nothing");
    }
}
