//! When the seed is compared with itself, and what is kept of it.

use crate::bench::Bench;
use crate::calibration::Calibration;
use crate::evaluate;
use crate::event::{Event, Sink};
use crate::session::{Session, SessionError};
use kernelseek_core::case::Case;
use kernelseek_device::topology::CpuIdentity;
use std::path::PathBuf;

impl Session {
    /// The seed's spread against itself: kept from before, measured now, or assumed for a quick evaluation.
    ///
    /// # Errors
    /// When the seed fails.
    pub fn calibration(
        &self,
        bench: &Bench,
        cases: &[Case],
        sink: &mut dyn Sink,
    ) -> Result<Calibration, SessionError> {
        let kept = Calibration::load(&self.calibration_file(bench));
        if let Some(kept) = kept
            && (!self.settings.calibrate
                || (kept.covers(cases.iter().map(|c| c.id.as_str())) && !kept.is_worth_another()))
        {
            return Ok(kept);
        }
        if !self.settings.calibrate {
            return Ok(Calibration {
                pooled: crate::calibration::PRIOR,
                geomean: 1.0,
                ..Calibration::default()
            });
        }
        self.recalibrate(bench, cases, sink)
    }

    /// Measures the seed against itself and keeps the result.
    ///
    /// # Errors
    /// When the seed fails.
    pub fn recalibrate(
        &self,
        bench: &Bench,
        cases: &[Case],
        sink: &mut dyn Sink,
    ) -> Result<Calibration, SessionError> {
        sink.on(&Event::Calibrating { scenarios: cases.len() });
        let file = self.calibration_file(bench);
        let mut calibration = evaluate::calibrate(bench, &self.settings, cases.to_vec(), sink)
            .map_err(|e| SessionError::Calibration(Box::new(e)))?;
        if let Some(kept) = Calibration::load(&file) {
            let covers = kept.covers(cases.iter().map(|c| c.id.as_str()));
            calibration = calibration.beside(kept, covers);
        }
        calibration.save(&file);
        Ok(calibration)
    }

    fn calibration_file(&self, bench: &Bench) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        for part in [
            self.files.hash.as_str(),
            bench.seed.hash(),
            &serde_json::to_string(&self.settings.mode).unwrap_or_default(),
            &serde_json::to_string(&CpuIdentity::read()).unwrap_or_default(),
            &self.gpu_identity().map_or_else(String::new, |gpu| {
                format!(
                    "{} {}",
                    self.settings.column.as_str(),
                    serde_json::to_string(&gpu).unwrap_or_default()
                )
            }),
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        Calibration::file(&self.settings.state_dir, &hasher.finalize().to_hex()[..24])
    }
}
