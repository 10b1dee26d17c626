//! The folder with campaign.toml, as it is now.

use crate::error::SupervisorError;
use kernelseek_campaign::Board;
use kernelseek_core::campaign_file::{self, CampaignFile};
use kernelseek_ledger::registry::{self, Match};
use kernelseek_ledger::{Access, Ledger};
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

    /// The folder, `start` or one above it, that a campaign which has not ended knows as its workspace although there
    /// is no campaign.toml.
    #[must_use]
    pub fn gone(start: &Path, state_dir: &Path) -> Option<PathBuf> {
        let start = start.canonicalize().ok()?;
        start.ancestors().find(|folder| is_workspace(folder, state_dir)).map(Path::to_owned)
    }

    /// Reads the campaign file of `folder`.
    ///
    /// # Errors
    /// When it is malformed or cannot be read.
    pub fn read(folder: &Path) -> Result<Self, SupervisorError> {
        let path = folder.join(campaign_file::FILE);
        let text = crate::files::read_text(&path).map_err(|e| SupervisorError::file(&path, e))?;
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

/// Whether a campaign that has not ended knows `folder` as its workspace.
fn is_workspace(folder: &Path, state_dir: &Path) -> bool {
    let look = registry::look(folder).and_then(|known| registry::find(state_dir, &known));
    let Ok(Some(found)) = look else { return false };
    if found.matched == Match::Worktree {
        return false;
    }
    let mut board = Board::default();
    let read = Ledger::open(&found.folder, Access::Read).and_then(|l| l.each(|row| board.apply(&row)));
    // A ledger that cannot be read shows no end.
    read.is_err() || board.ended.is_none()
}
