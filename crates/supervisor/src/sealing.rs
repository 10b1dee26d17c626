//! Gathering the seal: once whole, with builds, when sealing; and quickly, by looking at files, whenever it is checked.

use crate::error::SupervisorError;
use crate::files;
use crate::site::Site;
use crate::supervised::{Campaign, now_ms};
use kernelseek_core::campaign_file::CampaignFile;
use kernelseek_core::goal::{Grid, GridScenario, Metric};
use kernelseek_core::problem::Target;
use kernelseek_device::cuda::kernel_facts;
use kernelseek_device::topology::CpuIdentity;
use kernelseek_evaluator::event::Sink;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::Settings;
use kernelseek_ledger::artefact::{Artefact, Kind, hash};
use kernelseek_ledger::entry::{KeptFile, Sealed, Workspace};
use kernelseek_ledger::seal::{Change, Seal};
use kernelseek_ledger::{Batch, Entry, registry};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What came of sealing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Resealed {
    /// Campaign id.
    pub campaign: String,
    /// Row of the seal in force.
    pub row: u64,
    /// Hash of what results rest on.
    pub seal: String,
    /// What changed since the seal before; empty for the first one, or if nothing did.
    pub changes: Vec<Change>,
    /// Whether there was a seal before.
    pub again: bool,
    /// Whether a row was written.
    pub written: bool,
    /// Earlier results are STALE now.
    pub stale: bool,
    /// Warnings about the goal.
    pub warnings: Vec<String>,
}

/// Sections of problem.toml that are parts of their own, by the start of their header.
const SECTIONS: [(&str, &str); 3] =
    [("tolerance", "tolerance"), ("constraints", "constraints"), ("held_out", "held out")];

/// Lines of problem.toml, by part.
fn problem_parts(text: &str, seal: &mut Seal) {
    let mut parts: Vec<(&str, Vec<String>)> = vec![("problem", Vec::new())];
    parts.extend(SECTIONS.iter().map(|(_, part)| (*part, Vec::new())));
    let mut here = 0;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if let Some(header) = trimmed.strip_prefix('[') {
            let name = header.trim_start_matches('[').trim_start();
            here = SECTIONS.iter().position(|(start, _)| name.starts_with(start)).map_or(0, |i| i + 1);
        }
        if !line.trim().is_empty() {
            parts[here].1.push(line.trim_end().to_owned());
        }
    }
    for (part, lines) in parts {
        seal.set(part, lines);
    }
}

/// Parts that the campaign file decides.
fn campaign_parts(file: &CampaignFile, seal: &mut Seal) {
    let goal = &file.goal;
    let mut lines: Vec<String> = goal.clauses.iter().map(|c| c.text.clone()).collect();
    lines.push(format!("trust: {}", if goal.accept_reduced_trust { "reduced" } else { "full" }));
    lines.push(format!("margin: {}", goal.margin));
    seal.set("goal", lines);
    let t = &file.thresholds;
    seal.set(
        "thresholds",
        [
            format!("suspicious: {}", t.suspicious),
            format!("suspicious scenario: {}", t.suspicious_scenario),
            format!("plateau: {} evaluations", t.plateau_evaluations),
            format!("plateau: {} s", t.plateau_time.as_secs_f64()),
            format!("plateau: gain {}", t.plateau_gain),
            format!("plateau: {} hypotheses about one layer", t.plateau_layer_run),
        ],
    );
    let set = file.set.as_deref().unwrap_or("the problem's default");
    seal.set("candidate", [file.candidate.clone(), format!("scenario set: {set}")]);
    // Without the section the part is absent, as it is in seals of before there was one.
    if let Some(flags) = &file.candidate_flags {
        seal.set("candidate flags", flags.iter().cloned());
    }
    let limit = |n: Option<u64>| n.map_or_else(|| "no limit".to_owned(), |n| n.to_string());
    let b = &file.budget;
    seal.set(
        "budget",
        [
            format!("evaluations: {}", limit(b.evaluations)),
            format!("full evaluations: {}", limit(b.full_evaluations)),
            format!(
                "time: {}",
                b.time.map_or_else(|| "no limit".to_owned(), |t| format!("{} s", t.as_secs_f64()))
            ),
        ],
    );
    let q = &file.questions;
    seal.set(
        "questions",
        [
            format!("enabled: {}", q.enabled),
            format!("silence: {}", q.silence),
            format!("bank: {}", q.bank.as_deref().unwrap_or("embedded")),
        ],
    );
    seal.set(
        "retention",
        [format!("raw: {}", file.retention.raw), format!("builds: {}", file.retention.builds)],
    );
}

fn file_line(folder: &Path, relative: &str) -> String {
    match files::read(&folder.join(relative)) {
        Ok(bytes) => format!("{relative} {}", hash(&bytes)),
        Err(_) => format!("{relative} cannot be read"),
    }
}

/// The path of a line made by [`file_line`].
fn path_of(line: &str) -> &str {
    line.rsplit_once(' ').map_or(line, |(path, _)| path)
}

fn program_line(program: &Path) -> String {
    // Size and time stand for the contents: the contents are hashed whenever something is built.
    match std::fs::metadata(program) {
        Ok(m) => {
            format!("{} {} bytes, modified {}.{:09}", program.display(), m.len(), m.mtime(), m.mtime_nsec())
        }
        Err(_) => format!("{} 0 bytes, gone", program.display()),
    }
}

/// What the ratios hold for. `problem` is the text of problem.toml: one that runs on a GPU rests on its model and driver too.
fn device_lines(problem: &str) -> Vec<String> {
    let d = CpuIdentity::read();
    let mut lines = vec![
        d.model,
        format!("{} cores", d.cores),
        format!("{} bytes of last-level cache", d.last_level_bytes),
        format!("kernel {}", d.kernel),
    ];
    if runs_on_a_gpu(problem) {
        lines.extend(kernel_facts::lines());
    }
    lines
}

/// Whether the text of a problem file says `target = "cuda"` before its first section. The file is parsed where it matters;
/// here it only decides what else is looked at.
pub(crate) fn runs_on_a_gpu(problem: &str) -> bool {
    problem
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once('='))
        .any(|(key, value)| key.trim() == "target" && value.contains("cuda"))
}

fn generator_lines() -> [String; 2] {
    [
        format!("generator {}", kernelseek_numerics::rng::STREAM),
        format!("kernelseek {}", env!("CARGO_PKG_VERSION")),
    ]
}

/// The seal as things are now, by looking at the files that `sealed` names. Builds nothing and starts nothing.
pub(crate) fn quick(sealed: &Seal, site: &Site) -> Seal {
    let folder = site.problem();
    let mut seal = Seal::default();
    let text = files::read_text(&folder.join("problem.toml")).unwrap_or_default();
    problem_parts(&text, &mut seal);
    campaign_parts(&site.file, &mut seal);
    let lines = |part: &str| sealed.parts.get(part).map(|p| p.lines.clone()).unwrap_or_default();
    for part in ["reference", "seed"] {
        seal.set(part, lines(part).iter().map(|l| file_line(&folder, path_of(l))));
    }
    let scenarios = lines("scenarios");
    let set = scenarios.first().cloned().unwrap_or_default();
    let file = set.rsplit_once(" from ").map_or("", |(_, file)| file).to_owned();
    seal.set("scenarios", scenario_lines(&set, &folder.join(file)));
    seal.set("generators", generator_lines());
    let toolchain = lines("toolchain");
    seal.set(
        "toolchain",
        toolchain.iter().map(|line| match line.split_once(" bytes, ") {
            Some((head, _)) => program_line(Path::new(path_of(head))),
            None => line.clone(),
        }),
    );
    seal.set("device", device_lines(&text));
    seal
}

fn scenario_lines(set: &str, file: &Path) -> Vec<String> {
    let text = files::read_text(file).unwrap_or_default();
    std::iter::once(set.to_owned())
        .chain(text.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned))
        .collect()
}

/// The seal as things are now, whole, and the problem's files by their path in its folder.
pub(crate) fn whole(
    site: &Site,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<(Seal, Vec<(String, PathBuf)>), SupervisorError> {
    let mut session = Session::open(&site.problem(), None, settings)?;
    // Cases are resolved here so that a grid that cannot be evaluated is not sealed.
    session.cases()?;
    let scenarios = session.files.scenarios.iter();
    let grid = Grid {
        scenarios: scenarios
            .map(|s| GridScenario { id: s.id.clone(), values: s.values.clone(), tags: s.tags.clone() })
            .collect(),
    };
    let faults = site.file.goal.faults(&grid);
    if !faults.is_empty() {
        return Err(SupervisorError::Goal(faults));
    }
    let seed = session.seed_files(sink)?;
    let reference = session.reference_files(sink)?;
    let folder = session.files.folder.clone();
    let relative = |path: &Path| path.strip_prefix(&folder).unwrap_or(path).to_string_lossy().into_owned();
    let mut seal = Seal::default();
    let problem = folder.join("problem.toml");
    let text = std::fs::read_to_string(&problem).map_err(|e| SupervisorError::file(&problem, e))?;
    problem_parts(&text, &mut seal);
    campaign_parts(&site.file, &mut seal);
    let mut kept = vec![("problem.toml".to_owned(), problem)];
    for (part, files) in [("seed", seed), ("reference", reference)] {
        let mut names: Vec<String> = files.iter().map(|f| relative(f)).collect();
        names.sort();
        names.dedup();
        seal.set(part, names.iter().map(|n| file_line(&folder, n)));
        kept.extend(names.into_iter().map(|n| (n.clone(), folder.join(n))));
    }
    let set = &session.files.set;
    let scenario_file = session
        .files
        .problem
        .scenarios
        .files
        .iter()
        .find(|(name, _)| name == set)
        .map(|(_, file)| file.path.clone())
        .unwrap_or_default();
    seal.set(
        "scenarios",
        scenario_lines(&format!("set {set} from {scenario_file}"), &folder.join(&scenario_file)),
    );
    kept.push((scenario_file.clone(), folder.join(&scenario_file)));
    seal.set("generators", generator_lines());
    let mut programs = Vec::new();
    for compiler in session.toolchain().compilers() {
        programs.push(format!("{} ({})", compiler.version, compiler.machine));
        programs.push(program_line(&compiler.program));
        programs.extend(compiler.parts.iter().map(|p| program_line(p)));
    }
    if session.files.problem.target == Target::Cuda
        && let Ok(nvcc) = session.toolchain().nvcc()
    {
        programs.push(format!("nvcc {}", nvcc.version));
        programs
            .extend(nvcc.parts.iter().chain([&nvcc.program, &nvcc.runtime.path]).map(|p| program_line(p)));
    }
    seal.set("toolchain", programs);
    seal.set("device", device_lines(session.files.problem.source.text()));
    kept.sort();
    kept.dedup();
    Ok((seal, kept))
}

impl Campaign {
    /// Seals the campaign: the first time, or again with a reason. Makes the ledger if there is none.
    ///
    /// # Errors
    /// When the problem cannot be sealed, or a reason is missing.
    pub fn seal(
        site: &Site,
        state_dir: &Path,
        settings: &Settings,
        because: Option<&str>,
        sink: &mut dyn Sink,
    ) -> Result<Resealed, SupervisorError> {
        let mut settings = settings.clone();
        settings.set.clone_from(&site.file.set);
        let (seal, files) = whole(site, &settings, sink)?;
        let mut campaign = Self::open_or_create(site, state_dir)?;
        let before = campaign.sealed.take();
        let changes = before.as_ref().map_or_else(Vec::new, |s| s.seal.changes(&seal));
        let mut warnings = site.file.goal.warnings();
        for clause in &site.file.goal.clauses {
            if let Metric::Speedup { against, .. } = &clause.metric
                && against != "seed"
            {
                warnings.push(format!(
                    "`{}`: nothing measures ratios to `{against}` on this target yet",
                    clause.text
                ));
            }
        }
        if let Some(folder) = &site.file.questions.bank {
            warnings.extend(own_bank(&site.folder.join(folder))?);
        }
        let result = |campaign: &Self, row, written, stale| Resealed {
            campaign: campaign.ledger.campaign().to_owned(),
            row,
            seal: seal.hash(),
            changes: changes.clone(),
            again: before.is_some(),
            written,
            stale,
            warnings: warnings.clone(),
        };
        if let Some(before) = &before {
            if changes.is_empty() {
                return Ok(result(&campaign, before.row, false, false));
            }
            if because.is_none_or(|b| b.trim().is_empty()) {
                return Err(SupervisorError::ReasonNeeded(changes));
            }
        }
        let mut batch = Batch::default();
        let mut problem = Vec::new();
        for (path, file) in &files {
            let bytes = std::fs::read(file).map_err(|e| SupervisorError::file(file, e))?;
            problem
                .push(KeptFile { path: path.clone(), hash: batch.keep(Artefact::new(Kind::Source, bytes)) });
        }
        let text = site.file.source.text().as_bytes().to_vec();
        let kept = KeptFile {
            path: kernelseek_core::campaign_file::FILE.to_owned(),
            hash: batch.keep(Artefact::new(Kind::Source, text)),
        };
        let artefact = batch.keep(Artefact::new(Kind::Seal, serde_json::to_vec(&seal)?));
        batch.push(Entry::Sealed(Sealed {
            seal: seal.hash(),
            artefact,
            because: because.unwrap_or_default().trim().to_owned(),
            changed: changes.iter().map(|c| c.part.clone()).collect(),
            problem,
            campaign: kept,
        }));
        let known = registry::look(&site.folder)?;
        batch.push(Entry::Workspace(Workspace {
            path: known.path.clone(),
            device: known.device,
            inode: known.inode,
            because: "sealed".to_owned(),
        }));
        let rows = campaign.append(batch, now_ms())?;
        registry::register(campaign.ledger.folder(), &known)?;
        campaign.load_seal()?;
        let stale = before.as_ref().is_some_and(|b| b.seal.hash() != seal.hash());
        Ok(result(&campaign, rows.first().map_or(0, |r| r.seq), true, stale))
    }
}

/// Loads a campaign's own questions, so that what is wrong with them is known before anything is asked, and returns what
/// the lint says.
fn own_bank(folder: &Path) -> Result<Vec<String>, SupervisorError> {
    let wrong = |e: &dyn std::fmt::Display| SupervisorError::Bank(e.to_string());
    let bank = kernelseek_questions::Bank::load(folder).map_err(|e| wrong(&e))?;
    let found = kernelseek_questions::lint(&bank, None).map_err(|e| wrong(&e))?;
    Ok(found.iter().map(|l| format!("question {}: {}", l.entry, l.diagnostic)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gpu_problem_rests_on_the_gpus() {
        for (text, gpu) in [
            ("format = 1\ntarget = \"cuda\"\n[seed]\n", true),
            ("format = 1\n  target=\"cuda\" # here\n", true),
            ("format = 1\n[seed]\ntarget = \"cuda\"\n", false),
            ("format = 1\ntarget = \"cpu\"\n", false),
            ("", false),
        ] {
            assert_eq!(runs_on_a_gpu(text), gpu, "{text}");
        }
    }

    #[test]
    fn a_problem_file_is_taken_apart_by_section_and_no_line_is_lost() {
        let text = "name = \"x\"\n\n[tolerance]\nk = 2\n[[tensor]]\nname = \"a\"\n[tolerance.out]\nk = 3\n\
                    [held_out]\nshare = 0.2\n[constraints]\ndeny = []\n";
        let mut seal = Seal::default();
        problem_parts(text, &mut seal);
        assert_eq!(seal.parts["tolerance"].lines, ["[tolerance]", "k = 2", "[tolerance.out]", "k = 3"]);
        assert_eq!(seal.parts["problem"].lines, ["name = \"x\"", "[[tensor]]", "name = \"a\""]);
        assert_eq!(seal.parts["held out"].lines, ["[held_out]", "share = 0.2"]);
        let lines: usize = seal.parts.values().map(|p| p.lines.len()).sum();
        assert_eq!(lines, text.lines().filter(|l| !l.is_empty()).count());
    }

    #[test]
    fn a_look_at_the_files_sees_what_changed() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write(
            "campaign.toml",
            "format = 1\nname = \"a\"\nproblem = \".\"\ncandidate = \"k.c\"\n[goal]\nclauses = [\"every correct\"]\n",
        );
        write("problem.toml", "name = \"x\"\n[tolerance]\nfactor = 2.0\n[constraints]\ndeny_headers = []\n");
        write("all.jsonl", "{\"id\": \"s\"}\n");
        write("reference.c", "int r;");
        write("cc", "a compiler");
        let site = Site::read(dir.path()).unwrap();
        let mut sealed = Seal::default();
        sealed.set("reference", [file_line(dir.path(), "reference.c")]);
        sealed.set("scenarios", scenario_lines("set all from all.jsonl", &dir.path().join("all.jsonl")));
        sealed.set("toolchain", ["some cc 1.0 (machine)".to_owned(), program_line(&dir.path().join("cc"))]);
        let before = quick(&sealed, &site);
        assert!(before.changes(&quick(&before, &site)).is_empty());
        for (file, text, part) in [
            (
                "problem.toml",
                "name = \"x\"\n[tolerance]\nfactor = 9.0\n[constraints]\ndeny_headers = []\n",
                "tolerance",
            ),
            ("all.jsonl", "{\"id\": \"t\"}\n", "scenarios"),
            ("reference.c", "int s;", "reference"),
            ("cc", "another compiler", "toolchain"),
        ] {
            let kept = std::fs::read_to_string(dir.path().join(file)).unwrap();
            write(file, text);
            let changes = before.changes(&quick(&before, &site));
            assert_eq!(changes.iter().map(|c| c.part.as_str()).collect::<Vec<_>>(), [part], "{changes:?}");
            if file == "cc" {
                break;
            }
            write(file, &kept);
        }
        std::fs::remove_file(dir.path().join("reference.c")).unwrap();
        let gone = before.changes(&quick(&before, &site));
        assert!(gone.iter().any(|c| c.to_string().contains("reference.c cannot be read")), "{gone:?}");
    }

    #[test]
    fn a_path_with_spaces_comes_back() {
        assert_eq!(path_of("a b/c.c 00ff"), "a b/c.c");
        let line = program_line(Path::new("/bin/sh"));
        let (head, _) = line.split_once(" bytes, ").unwrap();
        assert_eq!(path_of(head), "/bin/sh");
        assert_eq!(program_line(Path::new("/nonexistent")), "/nonexistent 0 bytes, gone");
    }
}
