//! What the ledger drops: raw pairs and built libraries of old evaluations. Rows, verdicts and sources stay.

use crate::entry::{Entry, Pruned};
use crate::error::LedgerError;
use crate::row::Row;
use crate::store::{Batch, Ledger};
use kernelseek_core::campaign_file::Retention;
use std::collections::BTreeSet;

/// Artefacts that the rule drops, given all rows: those of evaluations older than the last `raw` and `builds` ones,
/// unless a promotion or the end of the campaign rests on them.
pub(crate) fn droppable(rows: &[Row], rule: Retention) -> Vec<String> {
    let entries: Vec<(u64, Entry)> = rows.iter().filter_map(|r| Some((r.seq, r.entry().ok()?))).collect();
    let mut pinned = BTreeSet::new();
    for (_, entry) in &entries {
        match entry {
            Entry::Promoted(p) => pinned.extend([p.evaluated, p.first]),
            Entry::Ended(e) => pinned.extend(e.evaluated),
            _ => {}
        }
    }
    let (mut kept, mut dropped) = (BTreeSet::new(), Vec::new());
    let mut seen = 0;
    for (seq, entry) in entries.iter().rev() {
        let Entry::Evaluated(evaluated) = entry else { continue };
        seen += 1;
        for (artefact, limit) in [(&evaluated.raw, rule.raw), (&evaluated.library, rule.builds)] {
            let Some(hash) = artefact else { continue };
            if seen <= limit || pinned.contains(seq) {
                kept.insert(hash.clone());
            } else {
                dropped.push(hash.clone());
            }
        }
    }
    // Two evaluations of one candidate share its library: the younger one keeps it.
    dropped.retain(|hash| !kept.contains(hash));
    dropped.sort();
    dropped.dedup();
    dropped
}

impl Ledger {
    /// Drops what the rule no longer keeps, and says so in a row. Returns the bytes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn prune(&mut self, rule: Retention, now_ms: i64) -> Result<u64, LedgerError> {
        let rows = self.rows()?;
        let known = self.artefacts()?;
        let artefacts: Vec<String> = droppable(&rows, rule)
            .into_iter()
            .filter(|hash| known.get(hash).is_some_and(|(_, _, present)| *present))
            .collect();
        if artefacts.is_empty() {
            return Ok(0);
        }
        let bytes = artefacts.iter().filter_map(|h| known.get(h)).map(|(_, size, _)| *size).sum();
        // The row first: a crash in between leaves bytes too many, never a hole that nothing explains.
        self.append(Batch::of(Entry::Pruned(Pruned { artefacts: artefacts.clone(), bytes })), now_ms)?;
        let path = self.path().to_owned();
        let fail = |e| LedgerError::database(&path, e);
        let transaction = self.connection.transaction().map_err(fail)?;
        for hash in &artefacts {
            transaction.execute("UPDATE artefact SET data = NULL WHERE hash = ?1", [hash]).map_err(fail)?;
        }
        transaction.commit().map_err(fail)?;
        Ok(bytes)
    }
}
