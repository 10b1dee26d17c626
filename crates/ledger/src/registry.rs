//! Which campaign a folder belongs to. Found by canonical path, by inode if it was moved, and through git if it is
//! another worktree of the same repository.

use crate::error::LedgerError;
use crate::place::refuse_network;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Longest text that is read of git's small files, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// A folder that belongs to a campaign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Canonical path.
    pub path: PathBuf,
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Folder that all worktrees of its repository share, and the folder's path in the worktree.
    #[serde(default)]
    pub git: Option<(PathBuf, PathBuf)>,
}

/// How a folder was recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// By its path.
    Path,
    /// By its inode: it was moved or renamed.
    Moved,
    /// As another worktree of a known repository.
    Worktree,
}

impl Match {
    /// In words, as rows hold it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Moved => "moved",
            Self::Worktree => "git worktree",
        }
    }
}

/// A campaign's folder in the state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Campaign id.
    pub campaign: String,
    /// Its folder.
    pub folder: PathBuf,
    /// How the workspace was recognised.
    pub matched: Match,
}

/// Folder that holds all campaigns.
#[must_use]
pub fn campaigns(state_dir: &Path) -> PathBuf {
    state_dir.join("campaigns")
}

/// Looks at a workspace's folder.
///
/// # Errors
/// When it does not exist.
pub fn look(workspace: &Path) -> Result<Known, LedgerError> {
    let fail = |e| LedgerError::file(workspace, e);
    let path = workspace.canonicalize().map_err(fail)?;
    let meta = std::fs::metadata(&path).map_err(fail)?;
    Ok(Known { git: git(&path), device: meta.dev(), inode: meta.ino(), path })
}

/// The common folder of the repository that holds `path`, and `path` within its worktree.
fn git(path: &Path) -> Option<(PathBuf, PathBuf)> {
    let top = path.ancestors().find(|p| p.join(".git").exists())?;
    let inner = path.strip_prefix(top).ok()?.to_owned();
    let dot = top.join(".git");
    if dot.is_dir() {
        return Some((dot.canonicalize().ok()?, inner));
    }
    // A worktree has a file that points at its own folder, which points at the common one.
    let text = line(&dot)?;
    let own = top.join(text.trim().strip_prefix("gitdir:")?.trim());
    let common = line(&own.join("commondir"))?;
    Some((own.join(common.trim()).canonicalize().ok()?, inner))
}

/// The text of a small regular file. Anybody may have put a pipe or a device in its place.
fn line(path: &Path) -> Option<String> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    std::fs::File::open(path).ok()?.take(LONGEST_LINE).read_to_string(&mut text).ok()?;
    Some(text)
}

fn file(folder: &Path) -> PathBuf {
    folder.join("workspaces.json")
}

/// Workspaces of a campaign.
#[must_use]
pub fn workspaces(folder: &Path) -> Vec<Known> {
    std::fs::read(file(folder)).ok().and_then(|t| serde_json::from_slice(&t).ok()).unwrap_or_default()
}

/// Makes `workspace` one of the campaign's.
///
/// # Errors
/// When the list cannot be written.
pub fn register(folder: &Path, workspace: &Known) -> Result<(), LedgerError> {
    let mut known = workspaces(folder);
    known.retain(|k| k.path != workspace.path);
    known.push(workspace.clone());
    let target = file(folder);
    let fail = |e| LedgerError::file(&target, e);
    let temporary = folder.join(format!("workspaces.{}.tmp", std::process::id()));
    std::fs::write(&temporary, serde_json::to_vec_pretty(&known)?).map_err(fail)?;
    std::fs::rename(&temporary, &target).map_err(fail)
}

/// The campaign that `workspace` belongs to.
///
/// # Errors
/// When the state folder lies on a network, or cannot be read.
pub fn find(state_dir: &Path, workspace: &Known) -> Result<Option<Found>, LedgerError> {
    let all = campaigns(state_dir);
    if !all.is_dir() {
        return Ok(None);
    }
    refuse_network(state_dir)?;
    let fail = |e| LedgerError::file(&all, e);
    let mut best: Option<(u8, Found)> = None;
    let mut folders: Vec<PathBuf> = std::fs::read_dir(&all)
        .map_err(fail)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|p| crate::Ledger::file(p).is_file())
        .collect();
    folders.sort();
    for folder in folders {
        let Some(campaign) = folder.file_name().map(|n| n.to_string_lossy().into_owned()) else { continue };
        for known in workspaces(&folder) {
            let same_place = known.path == workspace.path;
            let same_inode = known.inode == workspace.inode && known.device == workspace.device;
            let (rank, matched) = match (same_place, same_inode) {
                (true, true) => (3, Match::Path),
                (true, false) => (2, Match::Path),
                (false, true) if !known.path.exists() => (1, Match::Moved),
                _ if workspace.git.is_some() && known.git == workspace.git => (0, Match::Worktree),
                _ => continue,
            };
            if best.as_ref().is_none_or(|(r, _)| rank > *r) {
                let found = Found { campaign: campaign.clone(), folder: folder.clone(), matched };
                best = Some((rank, found));
            }
        }
    }
    Ok(best.map(|(_, found)| found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ledger;
    use std::process::Command;

    fn campaign(state: &Path, id: &str) -> PathBuf {
        let folder = campaigns(state).join(id);
        Ledger::create(&folder, id).unwrap();
        folder
    }

    #[test]
    fn a_folder_is_found_by_path_and_after_a_move() {
        let dir = tempfile::tempdir().unwrap();
        let (state, work) = (dir.path().join("state"), dir.path().join("work"));
        std::fs::create_dir_all(&work).unwrap();
        let known = look(&work).unwrap();
        assert_eq!(find(&state, &known).unwrap(), None, "no state at all");
        let folder = campaign(&state, "one");
        assert_eq!(find(&state, &known).unwrap(), None);
        register(&folder, &known).unwrap();
        register(&folder, &known).unwrap();
        assert_eq!(workspaces(&folder).len(), 1);
        assert_eq!(find(&state, &known).unwrap().unwrap().matched, Match::Path);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&work, &link).unwrap();
        assert_eq!(find(&state, &look(&link).unwrap()).unwrap().unwrap().matched, Match::Path);

        let moved = dir.path().join("moved");
        std::fs::rename(&work, &moved).unwrap();
        let found = find(&state, &look(&moved).unwrap()).unwrap().unwrap();
        assert_eq!((found.matched, found.campaign.as_str()), (Match::Moved, "one"));
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        assert_eq!(find(&state, &look(&other).unwrap()).unwrap(), None);
    }

    #[test]
    fn a_git_worktree_registers_itself() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("main");
        std::fs::create_dir_all(main.join("kernel")).unwrap();
        std::fs::write(main.join("kernel/k.c"), "int x;").unwrap();
        let git = |args: &[&str]| {
            let done = Command::new("git")
                .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
                .args(args)
                .current_dir(&main)
                .output()
                .expect("git is installed");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        git(&["init", "-q"]);
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "one"]);
        git(&["worktree", "add", "-q", "../second"]);
        let state = dir.path().join("state");
        let folder = campaign(&state, "one");
        register(&folder, &look(&main.join("kernel")).unwrap()).unwrap();
        let second = look(&dir.path().join("second/kernel")).unwrap();
        assert_eq!(find(&state, &second).unwrap().unwrap().matched, Match::Worktree);
        let top = look(&dir.path().join("second")).unwrap();
        assert_eq!(find(&state, &top).unwrap(), None, "another folder of the same repository");
    }
}
