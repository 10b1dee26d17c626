//! The report of a campaign: everything that it is made from, read once.

use crate::error::SupervisorError;
use crate::supervised::Campaign;
use kernelseek_report::{Material, Report, Setting};

impl Campaign {
    /// The report, as of the rows that are known here. Writes nothing.
    ///
    /// # Errors
    /// When nothing is sealed, or the ledger cannot be read.
    pub fn report(&self) -> Result<Report, SupervisorError> {
        let sealed = self.in_force()?;
        let decision = self.decide()?;
        // What was written since the campaign was opened is not folded yet.
        let mut rows = self.ledger.rows()?;
        rows.truncate(usize::try_from(self.board.rows).unwrap_or(usize::MAX));
        let hash_of = |path: &str| self.hash_of(path);
        let setting = |hash: &str| -> Setting {
            let bytes = self.ledger.artefact(hash).ok().flatten();
            bytes.and_then(|b| serde_json::from_slice(&b).ok()).unwrap_or_default()
        };
        self.with_scene(|scene| {
            kernelseek_report::gather(&Material {
                scene: *scene,
                rows: &rows,
                seal: &sealed.seal,
                decision: &decision,
                current: scene.of_current_sources(&hash_of).map(|e| e.row),
                setting: &setting,
                tool: env!("CARGO_PKG_VERSION"),
                clock_behind_ms: self.clock_behind_ms,
            })
        })
    }
}
