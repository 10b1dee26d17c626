//! `--full`: the candidate once more, built with the address and undefined-behaviour sanitizers, on the quick scenarios.
//!
//! Guard ranges and redzones see what leaves the call's buffers; the sanitizers see what leaves the candidate's own
//! arrays, stack and heap, and arithmetic that C does not define. The worker is locked down as always; nothing here is
//! timed. Where the runtime is missing or does not start, the verdict says so in a note.

use crate::bench::{Artifact, Bench};
use crate::request::{self, Sent, Sweeper};
use crate::settings::{Column, Mode, Settings};
use crate::staging::{Constants, Drawn, Staged, StorageKinds};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Worker};
use kernelseek_device::protocol::{Entry, Status};
use kernelseek_numerics::content;
use std::path::Path;

/// Flags added to the problem's recipe.
pub const FLAGS: [&str; 4] =
    ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"];
/// Options of the runtimes. Symbols would need another process, which the sandbox denies.
pub const OPTIONS: [(&str, &str); 2] = [
    ("ASAN_OPTIONS", "detect_leaks=0:handle_segv=0:symbolize=0:exitcode=77:verify_asan_link_order=0"),
    ("UBSAN_OPTIONS", "print_stacktrace=0:symbolize=0"),
];
/// Contents of each scenario.
const CONTENTS: u64 = 3;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to report.
    Clean,
    /// A sanitizer reported something.
    Report(Finding),
    /// It could not run; why.
    Absent(String),
}

/// Runs the sanitized build of the candidate on `cases`. `runtime` is the address sanitizer's library.
#[must_use]
pub fn run(
    bench: &Bench,
    settings: &Settings,
    artifact: &Artifact,
    runtime: &Path,
    cases: &[Case],
) -> Outcome {
    for case in cases {
        let mut worker = match bench.spawn_sanitized(artifact, runtime) {
            Ok(worker) => worker,
            Err(error) => return Outcome::Absent(crate::fault::chain(&error)),
        };
        match scenario(bench, settings, &mut worker, case) {
            Ok(()) => {}
            Err(error) => return judge(&worker, &error, case),
        }
    }
    Outcome::Clean
}

fn scenario(bench: &Bench, settings: &Settings, worker: &mut Worker, case: &Case) -> Result<(), DeviceError> {
    let kinds = StorageKinds::of(case);
    let constant = kernelseek_device::layout::ArenaLayout::new(case, 1).constant;
    let mut dice = crate::dice::Dice::new(&settings.secret, &format!("sanitize/{}", case.id));
    let patience = 10 * bench.deadline;
    worker.map(case, 1, patience)?;
    // A content that cannot be generated has ended the evaluation long before.
    let constants = Constants::draw(case, &constant, dice.bits(), bench.gpu.as_ref()).unwrap_or_default();
    if let Some(arena) = worker.arena_mut() {
        constants.load(case, arena)?;
    }
    if worker.offers().prepare {
        worker.call(Entry::Prepare, &[0], patience, |_, _| {})?;
    }
    let stream = crate::dice::key(&settings.secret, "sanitize");
    for index in 0..CONTENTS {
        let drawn = Drawn { content: content::content_stream(&stream, case, index), mutation: None };
        let mut staged = Staged::new(case, bench.gpu.as_ref());
        if staged.fill(case, &kinds, drawn, dice.bits(), Some(&constants)).is_err() {
            continue;
        }
        let sent = Sent {
            entry: Entry::Main,
            case,
            kinds: &kinds,
            staged: std::slice::from_ref(&staged),
            slots: &[0],
            mode: Mode::Warm,
            column: Column::Call,
            deadline: patience,
        };
        let returned = request::send(worker, &sent, &mut Sweeper::default())?;
        if returned.answer.statuses.iter().any(|s| *s != Status::Ok) {
            return Ok(());
        }
    }
    Ok(())
}

/// What a worker's death under the sanitizers means.
fn judge(worker: &Worker, error: &DeviceError, case: &Case) -> Outcome {
    let said = worker.output().map(|stream| String::from_utf8_lossy(&stream.head).into_owned()).concat();
    let report: Vec<&str> = said
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("AddressSanitizer") || line.contains("runtime error"))
        .take(3)
        .collect();
    if report.is_empty() {
        return Outcome::Absent(crate::fault::chain(error));
    }
    let mut finding = Finding::new(
        "sanitizer.report",
        Severity::Fail,
        format!("a sanitizer stopped the candidate on scenario `{}`", case.id),
    );
    finding.evidence = report.into_iter().map(str::to_owned).collect();
    Outcome::Report(
        finding.with_next("build with `-g -fsanitize=address,undefined` and run the scenario yourself"),
    )
}
