//! The folder with campaign.toml, as it is now.

use crate::error::SupervisorError;
use kernelseek_core::campaign_file::{self, CampaignFile};
use std::path::{Path, PathBuf};

/// A campaign's folder and file as they are on the disk.
#[derive(Debug, Clone)]
pub struct Site {
    /// The folder, canonical.
    pub folder: PathBuf,
    /// The file.
    pub file: CampaignFile,
}

impl Site {
    /// Finds campaign.toml in `start` or the nearest folder above it.
    ///
    /// # Errors
    /// When it is malformed or cannot be read. `Ok(None)` when there is none.
    pub fn find(start: &Path) -> Result<Option<Self>, SupervisorError> {
        let start = start.canonicalize().map_err(|e| SupervisorError::file(start, e))?;
        let Some(folder) = start.ancestors().find(|p| p.join(campaign_file::FILE).is_file()) else {
            return Ok(None);
        };
        Self::read(folder).map(Some)
    }

    /// Reads the campaign file of `folder`.
    ///
    /// # Errors
    /// When it is malformed or cannot be read.
    pub fn read(folder: &Path) -> Result<Self, SupervisorError> {
        let path = folder.join(campaign_file::FILE);
        let text = std::fs::read_to_string(&path).map_err(|e| SupervisorError::file(&path, e))?;
        let file = campaign_file::parse_campaign(&path.display().to_string(), &text)
            .map_err(|e| SupervisorError::Malformed(Box::new(e)))?;
        Ok(Self { folder: folder.to_owned(), file })
    }

    /// The problem's folder.
    #[must_use]
    pub fn problem(&self) -> PathBuf {
        self.folder.join(&self.file.problem)
    }

    /// The candidate.
    #[must_use]
    pub fn candidate(&self) -> PathBuf {
        self.folder.join(&self.file.candidate)
    }

    /// A path of this folder as rows hold it; what lies elsewhere keeps its whole path.
    #[must_use]
    pub fn relative(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).to_string_lossy().into_owned()
    }
}
