//! `--sanitize`: the candidate under compute-sanitizer, on the quick scenarios or on those that were named.
//!
//! Outside the timed worker, in a process and in allocations of its own; nothing is timed. What a tool reports is a
//! finding. A tool that cannot run is a note, never a clean answer.

pub mod parse;

use crate::evaluate::Verdict;
use crate::event::{Event, Sink};
use crate::session::{Session, SessionError};
use crate::settings::Settings;
use crate::solo::{self, Calls, Fence, Laid, Ran, SoloBench, SoloRunError};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::problem::Target;
use parse::{Entry, SanitizerReport};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Calls of each scenario: one nominal content and what follows it in the stream.
const CALLS: u64 = 2;
/// How long one tool may take on one scenario. Race detection slows a kernel by some hundred times.
const DEADLINE: Duration = Duration::from_secs(300);
/// Exit code that the tool is asked to give when it has something to report.
const REPORTED: i32 = 86;
/// Bytes of a report that are read.
const REPORT: u64 = 8 << 20;
/// Findings of one tool on one scenario.
const MOST: usize = 8;

/// A tool of compute-sanitizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tool {
    /// Accesses outside allocations, misaligned ones, failed calls.
    Memcheck,
    /// Races in shared memory.
    Racecheck,
    /// Reads of global memory that nobody wrote.
    Initcheck,
    /// Barriers that not every thread reaches.
    Synccheck,
}

impl Tool {
    /// Name on the tool's command line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memcheck => "memcheck",
            Self::Racecheck => "racecheck",
            Self::Initcheck => "initcheck",
            Self::Synccheck => "synccheck",
        }
    }

    const fn defence(self) -> &'static str {
        match self {
            Self::Memcheck => "sanitize.memcheck",
            Self::Racecheck => "sanitize.racecheck",
            Self::Initcheck => "sanitize.initcheck",
            Self::Synccheck => "sanitize.synccheck",
        }
    }

    /// The one next step after an entry of this tool.
    const fn next(self) -> &'static str {
        match self {
            Self::Memcheck => {
                "check the index of this access against the tensor's shape and stride; the evidence names the allocation it left"
            }
            Self::Racecheck => {
                "put a `__syncthreads()` (or `__syncwarp()`) between the two accesses to shared memory"
            }
            Self::Initcheck => {
                "write the element before it is read: an output holds nothing when a call begins"
            }
            Self::Synccheck => {
                "let every thread of the block reach this barrier: no return and no branch around it"
            }
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the tools report.
    pub findings: Vec<Finding>,
    /// What the reader should know: which tools were clean, which could not run.
    pub notes: Vec<String>,
}

/// Runs the tools that the settings name on the session's candidate and writes what they say into the verdict. Does
/// nothing where none is named.
///
/// # Errors
/// When the candidate or the scenarios are not usable.
pub fn extend(
    verdict: &mut Verdict,
    session: &mut Session,
    settings: &Settings,
    sink: &mut dyn Sink,
) -> Result<(), SessionError> {
    if settings.sanitize.is_empty() {
        return Ok(());
    }
    if session.files.problem.target != Target::Cuda {
        verdict.notes.push(
            "--sanitize is for the cuda target: on the cpu target `--full` runs the compiler's sanitizers"
                .to_owned(),
        );
        return Ok(());
    }
    let cases = if settings.only.is_empty() { session.quick_cases()? } else { session.cases()? };
    let Ok(artifact) = session.candidate(sink)? else { return Ok(()) };
    let Some(program) = solo::find_tool(&settings.path, "compute-sanitizer") else {
        verdict.notes.push(
            "compute-sanitizer was not found, so nothing was sanitized: it comes with the CUDA toolkit; put its folder on PATH"
                .to_owned(),
        );
        return Ok(());
    };
    let bench = SoloBench {
        helper: settings.helper.clone(),
        artifact: artifact.path().to_owned(),
        entry: session.files.problem.name.clone(),
        gpu: session.gpu_identity().map(|gpu| gpu.uuid),
        secret: settings.secret,
        libraries: session.cuda_libraries(),
        namespaces: settings.namespaces,
        scratch: settings.state_dir.join("scratch"),
        deadline: DEADLINE,
    };
    let outcome = run(&bench, &program, &settings.sanitize, &cases, sink);
    verdict.findings.extend(outcome.findings);
    verdict.notes.extend(outcome.notes);
    Ok(())
}

/// Runs `tools` of the sanitizer at `program` on every case.
#[must_use]
pub fn run(
    bench: &SoloBench,
    program: &Path,
    tools: &[Tool],
    cases: &[Case],
    sink: &mut dyn Sink,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut open: Option<String> = None;
    for &tool in tools {
        let mut clean = Vec::new();
        for case in cases {
            sink.on(&Event::UnderTool { tool: tool.as_str().to_owned(), scenario: case.id.clone() });
            match one(bench, program, tool, case) {
                Ok((judged, fence)) => {
                    if let Fence::Open(why) = fence {
                        open.get_or_insert(why);
                    }
                    match judged {
                        Judged::Clean => clean.push(case.id.as_str()),
                        Judged::Reported(findings) => outcome.findings.extend(findings),
                        Judged::Absent(why) => {
                            outcome.notes.push(format!(
                                "{} could not run on `{}`: {why}",
                                tool.as_str(),
                                case.id
                            ));
                        }
                    }
                }
                Err(error) => outcome.notes.push(format!(
                    "{} could not run on `{}`: {}",
                    tool.as_str(),
                    case.id,
                    crate::fault::chain(&error)
                )),
            }
        }
        if !clean.is_empty() {
            outcome.notes.push(format!("{}: clean on {}", tool.as_str(), clean.join(", ")));
        }
    }
    if let Some(why) = open {
        outcome.notes.push(format!("the sanitizers ran without namespaces of their own: {why}"));
    }
    outcome
}

fn one(bench: &SoloBench, program: &Path, tool: Tool, case: &Case) -> Result<(Judged, Fence), SoloRunError> {
    let laid = bench.lay(case, Calls::Varied(CALLS), &format!("sanitize/{}", tool.as_str()))?;
    let log = laid.folder().join("report.txt");
    let args = arguments(tool, &log);
    let served = |_: &Ran| parse::parse(&read(&log)).errors.is_some();
    let (ran, fence) = bench.around(program, &args, &laid, &served)?;
    Ok((judge(tool, case, &laid, &ran, &parse::parse(&read(&log))), fence))
}

fn arguments(tool: Tool, log: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![
        "--tool".into(),
        tool.as_str().into(),
        "--error-exitcode".into(),
        REPORTED.to_string().into(),
        "--print-limit".into(),
        "1000".into(),
        "--log-file".into(),
        log.into(),
    ];
    if tool == Tool::Memcheck {
        // Without a gap an access past the end of one tensor can land in the next one and be allowed.
        args.extend(["--padding".into(), "4096".into()]);
    }
    args
}

fn read(log: &PathBuf) -> String {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    // A report that is not there is an empty one.
    if let Ok(file) = std::fs::File::open(log) {
        let _ = file.take(REPORT).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What one run means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Everything ran and nothing was reported.
    Clean,
    /// Something was reported.
    Reported(Vec<Finding>),
    /// It did not come to an answer; why.
    Absent(String),
}

fn judge(tool: Tool, case: &Case, laid: &Laid, ran: &Ran, report: &SanitizerReport) -> Judged {
    let inside = laid.folder().to_string_lossy().into_owned() + "/";
    judgement(tool, &case.id, &inside, ran, report)
}

/// Judges a run from what the tool and the process around the case said. `inside` is left out of paths.
#[must_use]
pub fn judgement(tool: Tool, scenario: &str, inside: &str, ran: &Ran, report: &SanitizerReport) -> Judged {
    let (calls, device): (Vec<&Entry>, Vec<&Entry>) = report.entries.iter().partition(|e| e.api);
    if !device.is_empty() {
        // A failed call after an error on the device is that error once more.
        let mut findings: Vec<Finding> =
            device.iter().take(MOST).map(|entry| finding(tool, scenario, inside, entry)).collect();
        let left = (device.len() - findings.len()) as u64 + report.left_out;
        if let (Some(last), true) = (findings.last_mut(), left > 0) {
            last.evidence.push(format!("and {left} more of other kinds or at other places"));
        }
        return Judged::Reported(findings);
    }
    if ran.cut {
        return Judged::Absent(format!("no end within {} s; take a smaller scenario", DEADLINE.as_secs()));
    }
    let said = ran.report();
    // A device error that the tool has no entry for is still one.
    if let Some(error) = said.as_ref().filter(|s| !s.ok).and_then(|s| s.error.as_ref()) {
        return Judged::Absent(error.clone());
    }
    if report.errors.is_none() {
        let why =
            report.trouble.clone().or_else(|| last_words(&ran.stderr)).or_else(|| last_words(&ran.stdout));
        return Judged::Absent(why.unwrap_or_else(|| "it ended without a summary".to_owned()));
    }
    if said.is_none() {
        return Judged::Absent("the calls did not come to their end".to_owned());
    }
    if !calls.is_empty() {
        return Judged::Reported(
            calls.iter().take(MOST).map(|entry| finding(tool, scenario, inside, entry)).collect(),
        );
    }
    if report.errors != Some(0) {
        return Judged::Reported(vec![
            Finding::new(
                tool.defence(),
                Severity::Fail,
                format!("{} reports errors on scenario `{scenario}`", tool.as_str()),
            )
            .with_evidence("in a form that is not known here")
            .with_next("run the tool yourself and read its report"),
        ]);
    }
    Judged::Clean
}

fn last_words(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|l| !l.is_empty()).map(|l| l.chars().take(200).collect())
}

fn finding(tool: Tool, scenario: &str, inside: &str, entry: &Entry) -> Finding {
    let severity = match (entry.api, entry.warning) {
        // A call that fails and is dealt with breaks nothing; what it breaks shows in the outputs.
        (true, _) => Severity::Warning,
        (false, true) => Severity::Unproven,
        (false, false) => Severity::Fail,
    };
    let title = entry.title.replace(inside, "");
    let mut finding = Finding::new(tool.defence(), severity, format!("{title}, on scenario `{scenario}`"));
    for place in entry.place.iter().chain(&entry.other) {
        finding.evidence.push(format!("at {place}"));
    }
    finding.evidence.extend(entry.thread.iter().map(|t| format!("first by {t}")));
    finding.evidence.extend(entry.address.clone());
    if entry.count > 1 {
        finding.evidence.push(format!("{} times", entry.count));
    }
    let without_line = entry.place.as_ref().is_some_and(|p| p.line.is_none());
    if entry.api {
        finding.with_next("check what this call of the runtime returns")
    } else if without_line {
        finding
            .with_next(format!("add `-lineinfo` to the flags in [build] for the line; then {}", tool.next()))
    } else {
        finding.with_next(tool.next())
    }
}

#[cfg(test)]
mod tests;
