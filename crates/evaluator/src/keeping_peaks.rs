//! The machine's peaks: when they are measured, and where they are kept.

use crate::event::{Event, Sink};
use crate::session::Session;
use kernelseek_device::peaks::Peaks;
use kernelseek_device::topology::CpuIdentity;
use std::path::PathBuf;

impl Session {
    /// The machine's peaks: measured once and kept with the machine's identity.
    pub fn peaks(&self, sink: &mut dyn Sink) -> Peaks {
        match self.kept_peaks() {
            Some(peaks) => peaks,
            None => self.measure_peaks(sink),
        }
    }

    /// Measures the peaks again and keeps the higher of old and new: a machine that was busy the first time must not
    /// condemn honest candidates for ever.
    pub fn measure_peaks(&self, sink: &mut dyn Sink) -> Peaks {
        sink.on(&Event::MeasuringPeaks);
        let mut peaks = match &self.gpu {
            Some(hold) => {
                let peaks = kernelseek_device::cuda::peaks::of(hold.gpu());
                if hold.gpu().take_failure().is_some() {
                    // A busy device may be measured better next time; what is not known sets no floor.
                    return self.kept_peaks().unwrap_or(peaks);
                }
                peaks
            }
            None => Peaks::measure(),
        };
        if let Some(kept) = self.kept_peaks() {
            peaks = peaks.higher(&kept);
        }
        if let Ok(text) = serde_json::to_vec_pretty(&peaks) {
            // A file that cannot be kept only costs the measurement again.
            let _ = std::fs::write(self.peaks_file(), text);
        }
        peaks
    }

    fn kept_peaks(&self) -> Option<Peaks> {
        serde_json::from_slice(&std::fs::read(self.peaks_file()).ok()?).ok()
    }

    fn peaks_file(&self) -> PathBuf {
        let identity = match self.gpu_identity() {
            Some(gpu) => serde_json::to_string(&gpu),
            None => serde_json::to_string(&CpuIdentity::read()),
        }
        .unwrap_or_default();
        let key = blake3::hash(identity.as_bytes()).to_hex();
        self.settings.state_dir.join(format!("peaks-{}.json", &key.as_str()[..16]))
    }
}
