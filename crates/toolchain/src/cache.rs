//! Builds on disk, by candidate hash, and a way to find one without running the compiler.
//!
//! ```text
//! ROOT/builds/CANDIDATE/artifact.so, build.json, sources/…
//! ROOT/keys/KEY.json       what builds of this recipe and these sources read, newest first
//! ROOT/staging/…           builds under way
//! ```
//!
//! Nothing is locked. A build becomes visible by one rename, and what is read back is checked against its own hashes, so
//! that a half-written or damaged entry is a miss. Folders that a killed process left in `staging` are inert.

use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::candidate::{CandidateHash, ProjectFile};
use crate::cuda::{KernelResources, Remark};
use crate::hash;

/// Dependency lists kept for one key: a person who goes back and forth between a few versions of a header still hits.
const LISTS: usize = 16;
/// First line of every record, before its hash.
const RECORD: &str = "kernelseek record 1 ";

/// A folder of builds. Safe to share between threads and processes.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// A file that is not the project's: identified by size and time, because hashing the system's headers on every
/// evaluation would cost more than it finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) path: PathBuf,
    pub(crate) size: u64,
    pub(crate) modified_ns: i128,
}

impl Stamp {
    pub(crate) fn of(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let m = path.metadata()?;
        let modified_ns = i128::from(m.mtime()) * 1_000_000_000 + i128::from(m.mtime_nsec());
        Ok(Self { path: path.to_owned(), size: m.len(), modified_ns })
    }
}

/// What one build read, and what it would have read had it been there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DependencyList {
    pub(crate) candidate: CandidateHash,
    pub(crate) project: Vec<ProjectFile>,
    pub(crate) foreign: Vec<Stamp>,
    /// Names in the workspace that would shadow a header that was read.
    pub(crate) absent: Vec<PathBuf>,
}

/// What is stored of a build beside its files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) candidate: CandidateHash,
    pub(crate) artifact_hash: String,
    pub(crate) project: Vec<ProjectFile>,
    pub(crate) foreign: Vec<Stamp>,
    pub(crate) closure: kernelseek_inspect::Closure,
    pub(crate) diagnostics: String,
    pub(crate) argv: Vec<Vec<String>>,
    pub(crate) flags: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kernels: Vec<KernelResources>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<Remark>,
}

impl Cache {
    /// A cache in `root`, which is created with what it needs.
    ///
    /// # Errors
    /// Those of creating folders.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = std::path::absolute(root.into())?;
        for folder in ["builds", "keys", "staging"] {
            std::fs::create_dir_all(root.join(folder))?;
        }
        Ok(Self { root })
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn folder(&self, candidate: &CandidateHash) -> PathBuf {
        self.root.join("builds").join(candidate.as_str())
    }

    /// A fresh folder on the cache's own filesystem, removed on drop.
    pub(crate) fn staging(&self) -> io::Result<tempfile::TempDir> {
        tempfile::Builder::new().prefix("build-").tempdir_in(self.root.join("staging"))
    }

    pub(crate) fn lists(&self, key: &str) -> Vec<DependencyList> {
        read_record(&self.key_path(key)).unwrap_or_default()
    }

    /// Puts `list` first among those of `key`. Two processes that do so at once keep one of both: a later build more.
    pub(crate) fn remember(&self, key: &str, list: DependencyList) -> io::Result<()> {
        let mut lists = self.lists(key);
        lists.retain(|l| *l != list);
        lists.insert(0, list);
        lists.truncate(LISTS);
        let mut file = tempfile::NamedTempFile::new_in(self.root.join("staging"))?;
        write_record(file.as_file_mut(), &lists)?;
        file.persist(self.key_path(key)).map_err(|e| e.error)?;
        Ok(())
    }

    fn key_path(&self, key: &str) -> PathBuf {
        self.root.join("keys").join(format!("{key}.json"))
    }

    /// A stored build whose every file still has its hash.
    pub(crate) fn load(&self, candidate: &CandidateHash) -> Option<Stored> {
        let folder = self.folder(candidate);
        let stored: Stored = read_record(&folder.join("build.json"))?;
        let intact = stored.candidate == *candidate
            && hash::file(&folder.join("artifact.so")).is_ok_and(|h| h == stored.artifact_hash)
            && stored
                .project
                .iter()
                .all(|f| hash::file(&folder.join("sources").join(stored_name(f))).is_ok_and(|h| h == f.hash));
        intact.then_some(stored)
    }

    /// Makes the finished folder `staged` the build of `candidate`. An intact one that was built from the same files
    /// stays, because somebody may be using it; a damaged one, or one from before the system's headers changed, is
    /// replaced. `staged` is gone afterwards or of no further use.
    pub(crate) fn publish(&self, staged: &Path, ours: Stored) -> io::Result<Stored> {
        let target = self.folder(&ours.candidate);
        // Between moving an entry away and moving ours in, another process may do the same: try again.
        for _ in 0..8 {
            match std::fs::rename(staged, &target) {
                Ok(()) => return Ok(ours),
                Err(e) if e.kind() == io::ErrorKind::NotFound && !staged.exists() => return Err(e),
                // Not empty, not a folder, or gone in this moment: look at what is there.
                Err(_) => {}
            }
            if let Some(stored) = self.load(&ours.candidate)
                && stored.foreign == ours.foreign
            {
                return Ok(stored);
            }
            let away = self.staging()?;
            match std::fs::rename(&target, away.path().join("replaced")) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
        }
        Err(io::Error::other("a stored build is replaced again and again"))
    }
}

/// Where the copy of a project file lies below `sources/`. Absolute names become relative ones.
pub(crate) fn stored_name(file: &ProjectFile) -> PathBuf {
    use kernelseek_inspect::PathClass;
    let root = match file.class {
        PathClass::Workspace => "workspace",
        PathClass::Offered => "offered",
        PathClass::Toolchain | PathClass::System | PathClass::Outside => "outside",
    };
    let name = Path::new(&file.name).components().filter_map(|c| match c {
        std::path::Component::Normal(part) => Some(part),
        _ => None,
    });
    Path::new(root).join(name.collect::<PathBuf>())
}

/// Writes a hash line and JSON: a record that was cut or edited is none.
pub(crate) fn write_record<T: Serialize>(mut to: impl io::Write, value: &T) -> io::Result<()> {
    let json = serde_json::to_vec_pretty(value)?;
    writeln!(to, "{RECORD}{}", hash::bytes(&json))?;
    to.write_all(&json)
}

pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = std::fs::read_to_string(path).ok()?;
    let (head, json) = text.split_once('\n')?;
    let intact = head.strip_prefix(RECORD)? == hash::bytes(json.as_bytes());
    if intact { serde_json::from_str(json).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.json");
        let mut text = Vec::new();
        write_record(&mut text, &vec![1, 2, 3]).unwrap();
        std::fs::write(&path, &text).unwrap();
        assert_eq!(read_record::<Vec<i32>>(&path), Some(vec![1, 2, 3]));
        for cut in 0..text.len() {
            std::fs::write(&path, &text[..cut]).unwrap();
            assert_eq!(read_record::<Vec<i32>>(&path), None, "{cut}");
        }
        for at in 0..text.len() {
            let mut broken = text.clone();
            broken[at] ^= 1;
            std::fs::write(&path, &broken).unwrap();
            assert_eq!(read_record::<Vec<i32>>(&path), None, "{at}");
        }
    }

    #[test]
    fn stored_names_stay_below() {
        use kernelseek_inspect::PathClass;
        for (class, name, expected) in [
            (PathClass::Workspace, "sub/a.c", "workspace/sub/a.c"),
            (PathClass::Outside, "/etc/passwd", "outside/etc/passwd"),
            (PathClass::Outside, "/a/../../b", "outside/a/b"),
        ] {
            let file = ProjectFile { class, name: name.into(), hash: String::new() };
            assert_eq!(stored_name(&file), Path::new(expected));
        }
    }
}
