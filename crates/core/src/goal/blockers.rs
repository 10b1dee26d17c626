//! What stands in the way of a goal whatever its clauses say.

use super::judge::{Blocker, Evidence, Grid, Table, scope};
use super::{Goal, Metric};
use crate::finding::Severity;
use crate::verdict::{Trust, Word};
use std::collections::BTreeSet;

pub(super) fn of(goal: &Goal, grid: &Grid, evidence: &Evidence<'_>, table: &Table<'_>) -> Vec<Blocker> {
    let mut blockers = Vec::new();
    if evidence.word == Word::Stale {
        blockers.push(Blocker::new(
            "the verdict is STALE: something changed since it was made",
            "evaluate again",
        ));
    }
    for finding in evidence.findings.iter().filter(|f| f.severity >= Severity::Unproven) {
        blockers.push(Blocker::new(
            format!("{} ({})", finding.message, finding.defence),
            finding.next.clone().unwrap_or_else(|| "clear the finding and evaluate again".to_owned()),
        ));
    }
    if evidence.trust == Trust::Reduced && !goal.accept_reduced_trust {
        blockers.push(Blocker::new(
            "the verdict is of reduced trust and the goal asks for full trust",
            "evaluate where every sandbox layer holds (`kernelseek doctor`), or say `trust = \"reduced\"` in the goal",
        ));
    }
    // A FAIL that no clause happens to look at is still one.
    let looked_at: BTreeSet<&str> =
        goal.clauses.iter().filter(|c| c.metric == Metric::Correct).flat_map(|c| scope(c, grid).0).collect();
    let failing: Vec<&str> = evidence
        .scenarios
        .iter()
        .filter(|s| matches!(s.word, Word::Fail | Word::Stale) && !looked_at.contains(s.id.as_str()))
        .map(|s| s.id.as_str())
        .collect();
    if !failing.is_empty() {
        blockers.push(Blocker::new(
            format!("{} of {} scenarios fail: {}", failing.len(), evidence.scenarios.len(), list(&failing)),
            "make the candidate correct there first",
        ));
    }
    if !table.twice.is_empty() {
        let twice: Vec<&str> = table.twice.iter().copied().collect();
        blockers.push(Blocker::new(
            format!("the verdict names scenarios twice: {}", list(&twice)),
            "evaluate again",
        ));
    }
    let known: BTreeSet<&str> = grid.scenarios.iter().map(|s| s.id.as_str()).collect();
    let foreign: Vec<&str> =
        evidence.scenarios.iter().map(|s| s.id.as_str()).filter(|id| !known.contains(id)).collect();
    if !foreign.is_empty() {
        blockers.push(Blocker::new(
            format!("the verdict names scenarios that are not sealed: {}", list(&foreign)),
            "evaluate the sealed grid",
        ));
    }
    if !evidence.usual {
        blockers.push(Blocker::new(
            "goals are judged with cold caches, on a GPU in the device column, and this was measured otherwise",
            "evaluate again without --mode and --column",
        ));
    }
    if !evidence.full {
        blockers.push(Blocker::new(
            "only a `--full` evaluation satisfies a goal",
            "run `kernelseek eval --full`",
        ));
    }
    blockers
}

/// The first few of a list and how many more there are.
fn list(items: &[&str]) -> String {
    let mut text = items.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    if items.len() > 5 {
        text.push_str(&format!(" and {} more", items.len() - 5));
    }
    text
}
