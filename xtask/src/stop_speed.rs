//! How long a stop decision takes in a ledger of a given length: real campaign, real binary, wall time of the process.
//!
//! The campaign is sealed and evaluated by the binary; then rows of the kinds and sizes that a long campaign has are
//! appended through the ledger, and the hook's command is timed from outside.

use kernelseek_core::decision::Layer;
use kernelseek_ledger::artefact::{Artefact, Kind};
use kernelseek_ledger::entry::{Asked, Evaluated, Hypothesis, QuestionFrom, Started};
use kernelseek_ledger::{Access, Batch, Entry, Ledger};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Decisions that are timed.
const DECISIONS: usize = 100;

const CAMPAIGN: &str = "format = 1\nname = \"stop\"\nproblem = \".\"\ncandidate = \"kernel.c\"\n[goal]\nclauses = \
                        [\"every scenario correct\", \"every speedup >= 900\"]\n";

/// Measures and returns the record.
pub(crate) fn measure(binary: &Path, root: &Path, rows: u64) -> Result<Value, String> {
    let scratch = std::env::temp_dir().join(format!("kernelseek-stop-{}", std::process::id()));
    let done = in_folder(binary, root, rows, &scratch);
    let _ = std::fs::remove_dir_all(&scratch);
    done
}

fn in_folder(binary: &Path, root: &Path, rows: u64, scratch: &Path) -> Result<Value, String> {
    let (work, state) = (scratch.join("work"), scratch.join("state"));
    std::fs::create_dir_all(&work).map_err(text)?;
    let fixture = root.join("crates/kernelseek/tests/fixtures/rowscale");
    for entry in std::fs::read_dir(fixture).map_err(text)? {
        let path = entry.map_err(text)?.path();
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        std::fs::copy(&path, work.join(name)).map_err(text)?;
    }
    std::fs::copy(work.join("faster.c"), work.join("kernel.c")).map_err(text)?;
    std::fs::write(work.join("campaign.toml"), CAMPAIGN).map_err(text)?;
    let run = |args: &[&str], input: &str| -> Result<String, String> {
        let mut child = Command::new(binary)
            .args(args)
            .current_dir(&work)
            .env("KERNELSEEK_STATE_DIR", &state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(text)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(text)?;
        }
        let output = child.wait_with_output().map_err(text)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    run(&["seal"], "")?;
    run(&["eval", "--full", "--quiet"], "")?;
    let campaigns = std::fs::read_dir(state.join("campaigns")).map_err(text)?;
    let folder = campaigns.filter_map(Result::ok).map(|e| e.path()).next().ok_or("no campaign was made")?;
    pad(&folder, rows)?;

    let mut seconds = Vec::new();
    let mut decision = Value::Null;
    for _ in 0..DECISIONS {
        let start = Instant::now();
        let out = run(&["hook-decision"], "{\"words\": \"done\"}")?;
        seconds.push(start.elapsed().as_secs_f64());
        decision = serde_json::from_str(&out).map_err(text)?;
        if decision["rule"] != "unmet" {
            return Err(format!("the decision is another than expected: {decision}"));
        }
    }
    seconds.sort_by(f64::total_cmp);
    let at = |share: f64| seconds[((seconds.len() - 1) as f64 * share).round() as usize];
    let ledger = Ledger::open(&folder, Access::Read).map_err(text)?;
    Ok(json!({
        "what": "wall seconds of `kernelseek hook-decision`, process start to end, the whole chain checked, the attempt \
                 written down and a question chosen",
        "command": "cargo xtask stop-speed",
        "commit": commit(root),
        "processor": processor(),
        "rows": ledger.head().map_err(text)?.0,
        "ledger_bytes": std::fs::metadata(Ledger::file(&folder)).map_err(text)?.len(),
        "decisions": DECISIONS,
        "median_s": at(0.5),
        "p95_s": at(0.95),
        "worst_s": at(1.0),
        "last_decision": decision,
    }))
}

pub(crate) fn commit(root: &Path) -> String {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).current_dir(root).output();
    output.map_or_else(|_| "unknown".to_owned(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

pub(crate) fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let names: Vec<&str> =
        info.lines().filter_map(|l| l.strip_prefix("model name")?.split_once(": ")).map(|(_, n)| n).collect();
    format!("{}, {} cores", names.first().copied().unwrap_or("unknown"), names.len())
}

/// Appends rows until there are `rows` of them.
fn pad(folder: &Path, rows: u64) -> Result<(), String> {
    let mut ledger = Ledger::open(folder, Access::Write).map_err(text)?;
    let known = ledger.rows().map_err(text)?;
    let now = known.last().map_or(0, |r| r.at_ms);
    let model = known.iter().rev().find_map(|r| match r.entry() {
        Ok(Entry::Evaluated(e)) => Some(*e),
        _ => None,
    });
    let model: Evaluated = model.ok_or("the campaign has no evaluation")?;
    let verdict = ledger.artefact(&model.verdict).map_err(text)?.ok_or("the verdict was dropped")?;
    let signals: Value = json!({
        "evaluations": 1, "since_promotion": 1, "geomean": 1.0, "worst_ratio": 0.9, "best_over_worst": 1.3,
        "failing": 0, "half_width_median": 0.02, "aa_spread": 0.01, "quick_share": 0.0, "has_incumbent": false
    });
    let mut seq = known.len() as u64;
    while seq < rows {
        let mut batch = Batch::default();
        for _ in 0..250.min((rows - seq).div_ceil(4)) {
            // Another candidate: its source, its verdict, and what goes with it.
            let mut facts = model.clone();
            let source = batch.keep(Artefact::new(Kind::Source, format!("// {seq}\n").into_bytes()));
            facts.sources[0].hash.clone_from(&source);
            facts.candidate_hash = source;
            let mut bytes = verdict.clone();
            bytes.extend_from_slice(
                format!("\n{}", " ".repeat(usize::try_from(seq % 97).unwrap_or(0))).as_bytes(),
            );
            facts.verdict = batch.keep(Artefact::new(Kind::Verdict, bytes));
            facts.started = seq + 1;
            let started = Started {
                candidate: facts.candidate.clone(),
                tier: facts.tier.clone(),
                purpose: facts.purpose,
                pid: 1,
            };
            batch.push(Entry::EvaluationStarted(started));
            batch.push(Entry::Evaluated(Box::new(facts)));
            batch.push(Entry::Asked(Box::new(Asked {
                point: None,
                reason: "8 evaluations without a promotion".into(),
                from: QuestionFrom::Nobody,
                question: String::new(),
                evidence: Vec::new(),
                fields: String::new(),
                probability: 0.1,
                silence: 0.1,
                eligible: (0..12).map(|i| (format!("C{i:03}"), 0.075)).collect(),
                draw: 0.05,
                signals: signals.as_object().cloned().unwrap_or_default(),
                evaluations: seq / 4,
            })));
            batch.push(Entry::Hypothesis(Hypothesis {
                text: "the inner loop waits for loads: two rows at a time should hide them".into(),
                layer: Layer::ALL.get(usize::try_from(seq / 4 % 10).unwrap_or(0)).copied(),
                expect: Some(1.05),
            }));
            seq += 4;
        }
        ledger.append(batch, now).map_err(text)?;
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
