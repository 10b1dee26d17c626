//! What `--full` looks at besides: other cache states, and on a GPU other columns.

use crate::evaluate::{EvaluateError, Verdict, measure_all};
use crate::event::{Event, Sink};
use crate::fault;
use crate::judge::{self, Terms};
use crate::measure::{MeasureError, Measurer};
use crate::session::Session;
use crate::settings::{Column, Mode};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::Word;
use kernelseek_device::client::{DeviceError, RECORDING};

/// The other modes and columns that `--full` looks at on a GPU: together they say what is the host's and what the device's.
pub(crate) fn others(mode: Mode, column: Column) -> Vec<(Mode, Column)> {
    let all = [
        (mode.other(), Column::Device),
        (mode, Column::Call),
        (mode, Column::Graph),
        (Mode::Stream, Column::Device),
    ];
    all.into_iter().filter(|view| *view != (mode, column)).collect()
}

/// Whether a candidate failed because its call is recorded into a graph. Not everything that is right can be, and nobody asked
/// for it here: a call that waits for the device breaks the recording, or answers that it could not work. What is wrong with
/// it otherwise shows in the other views too.
fn is_about_recording(finding: &Finding) -> bool {
    let recorded = |text: &String| text.contains(RECORDING);
    finding.defence == "correct.status"
        || finding.defence == "correct.device-error"
            && (recorded(&finding.message) || finding.evidence.iter().any(recorded))
}

/// The same of the seed.
fn seed_is_not_recorded(error: &MeasureError) -> bool {
    match error {
        MeasureError::Seed { source: DeviceError::Gpu { doing, .. }, .. } => doing.contains(RECORDING),
        MeasureError::SeedStatus { .. } => true,
        _ => false,
    }
}

/// Measures the quick scenarios in another mode or column: failures count, times become notes.
pub(crate) fn look_again(
    verdict: &mut Verdict,
    measurer: &mut Measurer<'_>,
    session: &Session,
    (mode, column): (Mode, Column),
    terms: &dyn Fn(&str) -> Terms,
    sink: &mut dyn Sink,
) -> Result<(), EvaluateError> {
    let on_gpu = measurer.bench.gpu.is_some();
    let view =
        if on_gpu { format!("{} {}", mode.as_str(), column.as_str()) } else { mode.as_str().to_owned() };
    sink.on(&Event::Again { why: format!("looking again at the quick scenarios: {view}") });
    measurer.label = "second mode";
    measurer.stream = crate::dice::key(&measurer.settings.secret, &format!("second mode {view}"));
    measurer.mode = mode;
    measurer.column = column;
    let states = match measure_all(measurer, session.quick_cases()?, None, sink) {
        Ok(states) => states,
        Err(error) if column == Column::Graph && seed_is_not_recorded(&error) => {
            verdict
                .notes
                .push(format!("{view}: the seed cannot be recorded into a graph: {}", fault::chain(&error)));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    for state in &states {
        let judged = judge::scenario(state, &Terms { mode, ..terms(&state.case.id) });
        // A call that waits for the device is timed whole, whatever was asked for.
        let view = if on_gpu && state.column != column {
            format!("{} {} (not {})", mode.as_str(), state.column.as_str(), column.as_str())
        } else {
            view.clone()
        };
        if judged.word == Word::Fail {
            let failures = judged.findings.iter().filter(|f| f.severity == Severity::Fail);
            let (recording, others): (Vec<_>, Vec<_>) =
                failures.partition(|f| column == Column::Graph && is_about_recording(f));
            verdict.findings.extend(others.into_iter().cloned());
            if let Some(finding) = recording.first() {
                let why = finding.evidence.first().unwrap_or(&finding.message);
                verdict.notes.push(format!("{view} {}: cannot be recorded into a graph: {why}", judged.id));
            }
        }
        if let Some(ratio) = judged.ratio {
            let times = match (judged.seed_ns, judged.candidate_ns) {
                (Some(seed), Some(ours)) if on_gpu => {
                    format!(", {:.2} µs against {:.2} µs", ours / 1e3, seed / 1e3)
                }
                _ => String::new(),
            };
            verdict.notes.push(format!(
                "{view} {}: {:.3}× [{:.3}, {:.3}]{times}",
                judged.id, ratio.point, ratio.lo, ratio.hi
            ));
        }
    }
    Ok(())
}
