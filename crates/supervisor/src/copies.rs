//! Private copies. What is measured for a led agent is built from files that it cannot write: a compiler reads a file
//! after its hash was taken, and whoever can write the file can show one thing to each.

use crate::attempt::Job;
use crate::error::SupervisorError;
use crate::supervised::{Campaign, fresh_secret};
use kernelseek_evaluator::event::Event;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::Settings;
use kernelseek_inspect::PathClass;
use kernelseek_ledger::entry::KeptFile;
use std::io;
use std::path::{Component, Path, PathBuf};

/// A folder of the campaign that is removed with everything in it.
#[derive(Debug)]
pub(crate) struct Place(pub(crate) PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // What cannot be removed is removed after the next evaluation's start.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How names of places begin; the process id and something random follow.
const PLACES: &str = "work-";

/// The candidate, copied.
pub(crate) enum Copied {
    /// Every file that its build read.
    Whole {
        /// Folder that stands for the campaign's.
        root: PathBuf,
        /// The candidate in it.
        candidate: PathBuf,
    },
    /// It does not compile, so there is nothing to measure; builds of it go to this folder.
    Broken {
        /// A state folder of its own.
        state_dir: PathBuf,
    },
}

impl Campaign {
    /// Makes a place.
    pub(crate) fn place(&self) -> Result<Place, SupervisorError> {
        let tail: String = fresh_secret()?.iter().take(6).map(|b| format!("{b:02x}")).collect();
        let path = self.ledger.folder().join(format!("{PLACES}{}-{tail}", std::process::id()));
        std::fs::create_dir(&path).map_err(|e| SupervisorError::file(&path, e))?;
        Ok(Place(path))
    }

    /// Removes the places of processes that died. The caller holds the evaluation lock, so nobody uses one.
    pub(crate) fn remove_places(&self) {
        let entries = std::fs::read_dir(self.ledger.folder()).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_string_lossy().starts_with(PLACES) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The sealed problem, written into `folder`.
    pub(crate) fn restore_problem(&self, folder: &Path) -> Result<(), SupervisorError> {
        let sealed = self.board.seal().map(|s| s.what.problem.clone()).unwrap_or_default();
        self.restore(&sealed, folder)
    }

    /// Writes kept files into a folder of the state.
    pub(crate) fn restore(&self, files: &[KeptFile], folder: &Path) -> Result<(), SupervisorError> {
        for file in files {
            let unreadable =
                |why: &str| SupervisorError::Unreadable { what: file.path.clone(), why: why.to_owned() };
            let bytes = self.ledger.artefact(&file.hash)?.ok_or_else(|| unreadable("it was dropped"))?;
            write_in(folder, &file.path, &bytes)?;
        }
        Ok(())
    }

    /// The candidate's path, which is that of a regular file inside the campaign's folder and reached without links:
    /// else what is kept and what is measured could differ.
    pub(crate) fn own_candidate(&self) -> Result<PathBuf, SupervisorError> {
        let path = self.site.candidate();
        let fail = |e| SupervisorError::file(&path, e);
        let odd = |why: &str| SupervisorError::file(&path, io::Error::new(io::ErrorKind::InvalidInput, why));
        if !std::fs::metadata(&path).map_err(fail)?.is_file() {
            return Err(odd("the candidate is no regular file"));
        }
        if path.canonicalize().map_err(fail)? != path {
            return Err(odd(
                "the candidate is reached through a symbolic link; it must be a file of its own",
            ));
        }
        Ok(path)
    }

    /// Copies the candidate as it is now into `place`: it is built once, aside, to learn which files the build reads.
    pub(crate) fn copy_candidate(
        &self,
        place: &Path,
        problem: &Path,
        settings: &Settings,
    ) -> Result<Copied, SupervisorError> {
        let candidate = self.own_candidate()?;
        // Nothing of this build is used again, so nothing that was shown to it alone can stay in a cache.
        let state_dir = place.join("aside");
        let aside = Settings { state_dir: state_dir.clone(), ..settings.clone() };
        let mut session = Session::open(problem, Some(&candidate), &aside)?;
        if session.candidate(&mut |_: &Event| {})?.is_err() {
            return Ok(Copied::Broken { state_dir });
        }
        let root = place.join("work");
        let above = Path::new(&self.site.file.candidate).parent().unwrap_or(Path::new(""));
        for file in session.candidate_build().iter().flat_map(|b| &b.sources) {
            // Others are outside the campaign's folder, which the build of the copy finds.
            if file.class != PathClass::Workspace {
                continue;
            }
            let kept = session.candidate_build().map(|b| b.stored_sources.join("workspace").join(&file.name));
            let Some(kept) = kept else { continue };
            let bytes = std::fs::read(&kept).map_err(|e| SupervisorError::file(&kept, e))?;
            write_in(&root, &above.join(&file.name).to_string_lossy(), &bytes)?;
        }
        Ok(Copied::Whole { candidate: root.join(&self.site.file.candidate), root })
    }

    /// A job on kept sources, copied into `place` with the sealed problem.
    pub(crate) fn kept_job(
        &self,
        place: &Path,
        sources: &[KeptFile],
        candidate: &str,
        job: Job,
    ) -> Result<Job, SupervisorError> {
        let (problem, root) = (place.join("problem"), place.join("work"));
        self.restore_problem(&problem)?;
        self.restore(sources, &root)?;
        Ok(Job { problem, candidate: root.join(candidate), root, ..job })
    }
}

/// Writes a file below `folder`; refused if its path leads out of it.
fn write_in(folder: &Path, relative: &str, bytes: &[u8]) -> Result<(), SupervisorError> {
    let inside =
        Path::new(relative).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if !inside || relative.is_empty() {
        return Err(SupervisorError::Unreadable {
            what: relative.to_owned(),
            why: "it lies outside the campaign's folder; keep every source inside it".to_owned(),
        });
    }
    let path = folder.join(relative);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|e| SupervisorError::file(parent, e))?;
    }
    std::fs::write(&path, bytes).map_err(|e| SupervisorError::file(&path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_below_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        write_in(folder.path(), "a/./b.h", b"x").unwrap();
        assert_eq!(std::fs::read(folder.path().join("a/b.h")).unwrap(), b"x");
        for path in ["", "../b.h", "/etc/passwd", "a/../../b.h"] {
            assert!(write_in(folder.path(), path, b"x").is_err(), "{path}");
        }
    }
}
