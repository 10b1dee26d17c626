//! The audit of a suspicious win: the same candidate under harder questions, at once.
//!
//! Fresh workers, contents that nobody has seen, every output compared with the full reference, the same pointers
//! with a small subset of their elements changed, and the other cache mode. Clean, and the win stands, marked
//! `audited`; otherwise the finding says which question it failed.

use crate::event::Sink;
use crate::fault;
use crate::measure::{MeasureError, Measurer};
use crate::request::{self, Sent};
use crate::scenario_state::ScenarioState;
use crate::settings::Column;
use crate::staging::{Constants, Drawn, Staged};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::verdict::Ratio;
use kernelseek_device::protocol::{Entry, Status};
use kernelseek_numerics::content;

/// Contents that are compared with the full reference.
const CONTENTS: u64 = 3;

/// Audits one scenario: adds findings to its state, and marks it audited if there are none.
///
/// # Errors
/// When the reference or the harness fails.
pub fn audit(
    measurer: &mut Measurer<'_>,
    state: &mut ScenarioState,
    ratio: Ratio,
    _sink: &mut dyn Sink,
) -> Result<(), MeasureError> {
    let before = state.findings.len();
    let mut worker = match measurer.bench.spawn(&measurer.candidate) {
        Ok(worker) => worker,
        Err(error) => {
            state.find(fault::finding(&error, None, "in the audit, while it was loaded"));
            return Ok(());
        }
    };
    if let Err(error) = worker.map(&state.case, 1, measurer.bench.deadline) {
        state.find(fault::finding(&error, Some(&state.case), "in the audit, while its buffers were mapped"));
        return Ok(());
    }
    let content_error = |source| MeasureError::Content { scenario: state.case.id.clone(), source };
    let mut dice = crate::dice::Dice::new(&measurer.settings.secret, &format!("audit/{}", state.case.id));
    let constants = Constants::draw(&state.case, &state.constant, dice.bits(), measurer.bench.gpu.as_ref())
        .map_err(content_error)?;
    if let Some(arena) = worker.arena_mut() {
        let loaded = request::arm_redzones(arena).and_then(|()| constants.load(&state.case, arena));
        loaded.map_err(|e| MeasureError::gpu(state, e))?;
    }
    if worker.offers().prepare
        && let Err(error) = worker.call(Entry::Prepare, &[0], measurer.bench.deadline, |_, _| {})
    {
        state.find(fault::finding(&error, Some(&state.case), "in the audit, during `prepare`"));
        return Ok(());
    }
    let other = measurer.mode.other();
    let stream = crate::dice::key(&measurer.settings.secret, "audit");
    for index in 0..CONTENTS {
        let content = content::content_stream(&stream, &state.case, index);
        // The first and its changed copy share every pointer; they differ in a few elements.
        for (mutation, mode) in [(None, measurer.mode), (Some(dice.bits()), other)] {
            let drawn = Drawn { content, mutation };
            let mut staged = Staged::new(&state.case, measurer.bench.gpu.as_ref());
            staged
                .fill(&state.case, &state.kinds, drawn, dice.bits(), Some(&constants))
                .map_err(|source| MeasureError::Content { scenario: state.case.id.clone(), source })?;
            let slots = [0];
            let sent = Sent {
                entry: Entry::Main,
                case: &state.case,
                kinds: &state.kinds,
                staged: std::slice::from_ref(&staged),
                slots: &slots,
                mode,
                // A fresh worker may set things up in its first call, which waits for the device; nothing here is timed.
                column: Column::Call,
                deadline: measurer.bench.deadline,
            };
            let returned = match request::send(&mut worker, &sent, &mut measurer.sweeper) {
                Ok(returned) => returned,
                Err(error) => {
                    state.find(fault::finding(&error, Some(&state.case), "in the audit"));
                    return Ok(());
                }
            };
            if returned.answer.statuses.iter().any(|s| *s != Status::Ok) {
                state.find(
                    Finding::new(
                        "audit.status",
                        Severity::Fail,
                        "a fresh worker answered differently in the audit",
                    )
                    .with_next("decide KS_UNSUPPORTED by shapes and attributes alone"),
                );
                return Ok(());
            }
            if let Some(arena) = worker.arena_mut() {
                let checked = request::check_memory(
                    arena,
                    &state.case,
                    &state.kinds,
                    std::slice::from_ref(&staged),
                    &slots,
                    &returned.inputs,
                );
                for finding in checked.map_err(|e| MeasureError::gpu(state, e))? {
                    state.find(finding);
                }
            }
            if !returned.deferred.is_empty() {
                state.find(
                    Finding::new(
                        "timed.deferred-work",
                        Severity::Fail,
                        "outputs changed after the call had returned",
                    )
                    .with_next("join every thread and finish every write before returning"),
                );
            }
            let expected = measurer.oracle.compute(&state.case, &staged, false, None)?;
            if let Some(ours) = returned.outputs.first() {
                state.referenced += 1;
                state.contents += 1;
                measurer.compare(state, &expected, ours, None, &staged)?;
            }
        }
    }
    let clean = state.findings[before..].iter().all(|f| f.severity < Severity::Unproven) && !state.is_dead();
    state.audited = clean;
    if clean {
        state.find(
            Finding::new("audit.clean", Severity::Note, format!("a win of {:.2}× was audited and stands", ratio.point))
                .with_evidence(format!(
                    "{} contents with the full reference on a fresh worker, half of them with a few elements changed behind the same pointers",
                    2 * CONTENTS
                )),
        );
    }
    Ok(())
}
