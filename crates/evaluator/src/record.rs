//! The last evaluation of each problem, kept so that it can be shown again, STALE if anything changed since.

use crate::evaluate::Evaluation;
use crate::session::{Session, has_hash};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::Word;
use kernelseek_device::cuda::kernel_facts;
use kernelseek_device::topology::CpuIdentity;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What is kept.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    format: u32,
    evaluation: Evaluation,
    /// Candidate sources with their hashes.
    sources: Vec<(PathBuf, String)>,
}

fn file(state_dir: &Path, session: &Session) -> PathBuf {
    let key = blake3::hash(session.files.folder.to_string_lossy().as_bytes()).to_hex();
    state_dir.join("last").join(format!("{}.json", &key.as_str()[..24]))
}

/// Keeps an evaluation as the last one of its problem.
///
/// # Errors
/// When the file cannot be written; the path comes along.
pub fn save(
    state_dir: &Path,
    session: &Session,
    evaluation: &Evaluation,
) -> Result<(), (PathBuf, std::io::Error)> {
    let file = file(state_dir, session);
    let sources = session.candidate_sources();
    let record = Record { format: kernelseek_core::verdict::FORMAT, evaluation: evaluation.clone(), sources };
    let fail = |e| (file.clone(), e);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(fail)?;
    }
    let text = serde_json::to_vec(&record).map_err(|e| fail(e.into()))?;
    let temporary = file.with_extension(format!("tmp{}", std::process::id()));
    std::fs::write(&temporary, text).map_err(fail)?;
    std::fs::rename(&temporary, &file).map_err(fail)
}

/// The last evaluation of the session's problem. Its word is STALE if sources, problem, compiler or device differ from
/// what it was made with.
#[must_use]
pub fn load(state_dir: &Path, session: &Session) -> Option<Evaluation> {
    let record: Record = serde_json::from_slice(&std::fs::read(file(state_dir, session)).ok()?).ok()?;
    if record.format > kernelseek_core::verdict::FORMAT {
        return None;
    }
    let mut evaluation = record.evaluation;
    let mut changes: Vec<String> = record
        .sources
        .iter()
        .filter(|(path, hash)| !has_hash(path, hash))
        .map(|(path, _)| format!("source {}", path.display()))
        .collect();
    let verdict = &mut evaluation.verdict;
    if verdict.problem_hash != session.files.hash {
        changes.push("the problem, its scenarios, its seed or its reference".into());
    }
    if verdict.compiler != session.compiler() {
        changes.push(format!("compiler: now {}", session.compiler()));
    }
    if verdict.device != CpuIdentity::read() {
        changes.push("device".into());
    }
    if let Some(gpu) = &verdict.gpu
        && !kernel_facts::lines().iter().any(|line| line.ends_with(&gpu.name))
    {
        changes.push(format!("device: no {} here", gpu.name));
    }
    if !changes.is_empty() {
        verdict.word = Word::Stale;
        let mut finding =
            Finding::new("stale.changed", Severity::Warning, "something changed since this verdict was made");
        finding.evidence = changes;
        verdict.findings.insert(0, finding);
        verdict.next = Some("evaluate again".into());
    }
    Some(evaluation)
}
