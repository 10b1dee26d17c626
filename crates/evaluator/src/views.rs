//! What `--full` looks at besides: other cache states, and on a GPU other columns.

use crate::evaluate::{EvaluateError, Verdict, measure_all};
use crate::event::Sink;
use crate::judge::{self, Terms};
use crate::measure::Measurer;
use crate::session::Session;
use crate::settings::{Column, Mode};
use kernelseek_core::finding::Severity;
use kernelseek_core::verdict::Word;

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
    measurer.label = "second mode";
    measurer.stream = crate::dice::key(&measurer.settings.secret, &format!("second mode {view}"));
    measurer.mode = mode;
    measurer.column = column;
    let states = measure_all(measurer, session.quick_cases()?, sink)?;
    for state in &states {
        let judged = judge::scenario(state, &Terms { mode, ..terms(&state.case.id) });
        if judged.word == Word::Fail {
            let failures = judged.findings.iter().filter(|f| f.severity == Severity::Fail);
            // Not everything that is right can be recorded; nobody asked for it here.
            let (recording, others): (Vec<_>, Vec<_>) =
                failures.partition(|f| column == Column::Graph && f.defence == "correct.device-error");
            verdict.findings.extend(others.into_iter().cloned());
            if let Some(why) = recording.first().and_then(|f| f.evidence.first()) {
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
