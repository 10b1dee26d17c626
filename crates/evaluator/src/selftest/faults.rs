//! Candidates that fault: a sticky error of the device, a kernel without end, a process that dies. Each costs its own verdict,
//! and the evaluation after it is right.

use super::HostileTrial;
use super::budget::Budget;
use super::expectation::Expectation;
use super::hostile::{Defences, Trial, build_ahead, is_done};
use crate::evaluate::EvaluateError;
use crate::event::Sink;
use crate::session::SessionError;
use crate::settings::{Effort, Settings, Tier};
use crate::stand::Stand;
use kernelseek_core::verdict::Word;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The sources in a folder, in order.
///
/// # Errors
/// When the folder cannot be read, or holds none.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, SessionError> {
    let fail = |source| SessionError::File { path: folder.to_owned(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.extension().is_some_and(|e| e == "cu") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(fail(std::io::Error::other("there is no .cu file in it")));
    }
    files.sort();
    Ok(files)
}

/// Which file is tried in which round, `trials` in all: every file once, then every file again. Fewer trials than files are
/// spread over them.
fn plan(files: usize, trials: usize) -> Vec<(usize, usize)> {
    if files == 0 {
        return Vec::new();
    }
    if trials < files {
        return (0..trials).map(|i| (i * files / trials, 1)).collect();
    }
    (0..trials).map(|i| (i % files, i / files + 1)).collect()
}

/// What one fault is worth: one instance, and enough calls for the faults that come late. Answers are compared with the kept
/// references of the fixed contents and with the seed's; a worker for the reference takes as long to start as the rest.
const fn effort() -> Effort {
    Effort { instances: 1, pairs: 8, max_slots: 16, references: 0, ..Effort::of(Tier::Quick) }
}

/// Runs the faults of `folder` as candidates of `problem` until there are `trials`. What is in `done` is not run again;
/// `kept` is told after every trial.
///
/// # Errors
/// When the folder holds none, or the seed fails.
#[expect(clippy::too_many_arguments, reason = "one call site")]
pub fn run(
    problem: &Path,
    folder: &Path,
    trials: usize,
    settings: &Settings,
    done: &mut Vec<HostileTrial>,
    stand: &mut Stand,
    budget: &mut Budget,
    sink: &mut dyn Sink,
    mut kept: impl FnMut(&[HostileTrial]),
) -> Result<(), EvaluateError> {
    let files = files(folder)?;
    let name = |file: &Path| file.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let todo: Vec<(&PathBuf, usize)> = plan(files.len(), trials)
        .into_iter()
        .filter_map(|(at, round)| Some((files.get(at)?, round)))
        .filter(|(file, round)| !is_done(done, &name(file), *round))
        .collect();
    let mut ahead: Vec<PathBuf> = todo.iter().map(|(file, _)| (*file).clone()).collect();
    ahead.sort();
    ahead.dedup();
    if !ahead.is_empty() {
        build_ahead(problem, &ahead, settings, stand, sink)?;
    }
    for (file, round) in todo {
        if !budget.allows() {
            return Ok(());
        }
        let start = Instant::now();
        let source = std::fs::read_to_string(file)
            .map_err(|source| SessionError::File { path: file.clone(), source })?;
        let expectation = Expectation::parse(&source).ok_or_else(|| SessionError::File {
            path: file.clone(),
            source: std::io::Error::other("its first comment does not say `Expected: WORD by DEFENCE.`"),
        })?;
        let name = name(file);
        let settings = Settings {
            secret: crate::dice::key(&settings.secret, &format!("fault/{round}/{name}")),
            effort: effort(),
            only: Vec::new(),
            ..settings.clone()
        };
        let trial = Trial {
            problem,
            file,
            name: &name,
            round,
            expected: &|word: Word, defences: &Defences| expectation.matches(word, &defences.all),
        };
        done.push(trial.run(settings, stand, sink)?);
        kept(done);
        budget.took(start.elapsed());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_its_turn() {
        assert_eq!(plan(3, 7), [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2), (2, 2), (0, 3)]);
        assert_eq!(plan(8, 4), [(0, 1), (2, 1), (4, 1), (6, 1)]);
        assert_eq!(plan(0, 4), []);
        assert_eq!(plan(4, 0), []);
        for (files, trials) in [(28, 100), (28, 28), (28, 27), (1, 100)] {
            let mut plan = plan(files, trials);
            assert_eq!(plan.len(), trials);
            plan.sort_unstable();
            plan.dedup();
            assert_eq!(plan.len(), trials, "no trial is the same as another: {files} {trials}");
        }
    }

    #[test]
    fn a_folder_without_sources_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert!(files(folder.path()).is_err());
        assert!(files(&folder.path().join("none")).is_err());
        for name in ["b.cu", "a.cu", "honest.cuh"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(files(folder.path()).unwrap(), [folder.path().join("a.cu"), folder.path().join("b.cu")]);
    }
}
