//! The anchor: how far the ledger had come, kept beside it.
//!
//! A chain shows that no row was changed; it cannot show that rows at its end were taken away, because a shorter chain
//! is as whole as a longer one. The anchor can: a ledger that ends before it, or holds another row there, has lost
//! something, be it a restored copy or a file system that did not keep its promise.

use crate::error::LedgerError;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) seq: u64,
    pub(crate) hash: String,
}

fn file(folder: &Path) -> PathBuf {
    folder.join("head.json")
}

/// The anchor, if there is a readable one. A crash between a row and its anchor leaves an older anchor, which is fine.
pub(crate) fn read(folder: &Path) -> Option<Anchor> {
    serde_json::from_slice(&std::fs::read(file(folder)).ok()?).ok()
}

/// Moves the anchor forward; never back.
pub(crate) fn advance(folder: &Path, anchor: &Anchor) -> Result<(), LedgerError> {
    if read(folder).is_some_and(|known| known.seq >= anchor.seq) {
        return Ok(());
    }
    let target = file(folder);
    let temporary = folder.join(format!("head.{}.tmp", std::process::id()));
    let fail = |e| LedgerError::file(&target, e);
    let mut out = std::fs::File::create(&temporary).map_err(fail)?;
    out.write_all(&serde_json::to_vec(anchor)?).map_err(fail)?;
    // The row is durable already; the anchor may lag, so it need not wait for the disk.
    drop(out);
    std::fs::rename(&temporary, &target).map_err(fail)
}
