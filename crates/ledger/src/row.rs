//! One row and its place in the chain.

use crate::entry::Entry;

/// A row as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Number, from 1, without gaps.
    pub seq: u64,
    /// When it was written, milliseconds since 1970 by the machine's clock; never less than the row before.
    pub at_ms: i64,
    /// Kind of entry, a copy of what the body says.
    pub kind: String,
    /// The entry as JSON, exactly as it was hashed.
    pub body: String,
    /// Hash of the row before.
    pub prev: String,
    /// Hash of this row.
    pub hash: String,
}

impl Row {
    /// The hash that a row with these contents must have.
    #[must_use]
    pub fn hash_of(seq: u64, at_ms: i64, kind: &str, body: &str, prev: &str) -> String {
        let mut hasher = blake3::Hasher::new_derive_key("kernelseek 2026 ledger row");
        hasher.update(&seq.to_le_bytes()).update(&at_ms.to_le_bytes());
        for part in [kind, body, prev] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// What the first row of a campaign's ledger follows.
    #[must_use]
    pub fn genesis(campaign: &str) -> String {
        blake3::Hasher::new_derive_key("kernelseek 2026 ledger genesis")
            .update(campaign.as_bytes())
            .finalize()
            .to_hex()
            .to_string()
    }

    /// What is wrong with this row as the successor of a row with `seq`, `at_ms` and `hash`.
    #[must_use]
    pub fn fault(&self, seq: u64, at_ms: i64, hash: &str) -> Option<&'static str> {
        if self.seq != seq + 1 {
            Some("is not the next one: rows are missing before it")
        } else if self.prev != hash {
            Some("does not follow the row before it: the chain is broken")
        } else if self.hash != Self::hash_of(self.seq, self.at_ms, &self.kind, &self.body, &self.prev) {
            Some("was changed after it was written")
        } else if self.at_ms < at_ms {
            Some("is older than the row before it")
        } else {
            None
        }
    }

    /// The entry.
    ///
    /// # Errors
    /// When the body is not the JSON of an entry.
    pub fn entry(&self) -> Result<Entry, serde_json::Error> {
        Entry::read(&self.kind, &self.body)
    }
}
