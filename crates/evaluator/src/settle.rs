//! Comparison with the reference, and how a near miss is settled fairly.

use crate::compare;
use crate::dice::Dice;
use crate::measure::{MeasureError, Measurer};
use crate::measure_error::seed_error;
use crate::outputs::Outputs;
use crate::request::{self, Sent};
use crate::scenario_state::ScenarioState;
use crate::settings::{Column, Mode};
use crate::staging::{Constants, Drawn, Staged};
use kernelseek_device::protocol::{Entry, Sample};
use kernelseek_numerics::content::{Content, Distribution};

/// A candidate that is off by no more than this multiple of its bound is measured against a wider yardstick. It is no
/// leniency, since only the seed's errors widen it, but it takes time, which a candidate that is plainly wrong is not worth.
/// Where few elements are sensitive (those that a clamp lets through, on inputs scaled by a thousand), a handful of contents may hold
/// none of them, and the honest error of another order of summation lies a hundred times above what was seen.
const NEAR_MISS: f64 = 1000.0;
/// Contents that widen a yardstick.
const WIDER: usize = 32;
/// Widenings in vain after which no other is made. Each of those scenarios fails by a yardstick that was widened, so the verdict is
/// FAIL whatever the others say; all that a further one could do is take a scenario off the list. Over a large grid they would
/// take longer than everything else.
const FUTILE: usize = 4;

impl Measurer<'_> {
    /// Compares the candidate's outputs on one content with the reference's. A near miss widens the yardstick first:
    /// a candidate meets hundreds of contents, and the largest of its errors over all of them may not be measured
    /// against the largest of the seed's over a handful.
    ///
    /// # Errors
    /// When the seed or the reference fails.
    pub(crate) fn compare(
        &mut self,
        state: &mut ScenarioState,
        expected: &Outputs,
        ours: &Outputs,
        seed: Option<&Outputs>,
        staged: &Staged,
    ) -> Result<(), MeasureError> {
        let distribution = staged.drawn.content.distribution;
        if let Some(seed) = seed {
            compare::extend_yardstick(state, expected, seed, None, distribution);
        }
        let mut worst = compare::worst_ratio(state, expected, ours, distribution);
        // The precision model costs as much as the reference, so it is asked on this content only where that decides.
        if worst > 1.0 && self.bench.model.is_some() {
            let model = self.oracle.compute(&state.case, staged, true, expected.sample)?;
            compare::extend_yardstick(state, expected, &model, None, distribution);
            worst = compare::worst_ratio(state, expected, ours, distribution);
        }
        let near = worst > 1.0 && worst <= NEAR_MISS;
        if near && self.futile < FUTILE && state.widened.insert(distribution) {
            self.widen(state, distribution)?;
            self.futile += usize::from(compare::fails(state, expected, ours, distribution));
        }
        compare::against_reference(state, expected, ours, distribution, &staged.drawn);
        Ok(())
    }

    /// Takes the seed's error on fresh contents of one distribution into its yardstick, and the precision model's.
    fn widen(&mut self, state: &mut ScenarioState, distribution: Distribution) -> Result<(), MeasureError> {
        let content_error =
            |scenario: &str, source| MeasureError::Content { scenario: scenario.to_owned(), source };
        let mut dice = Dice::new(&self.settings.secret, &format!("{}/widen/{}", self.label, state.case.id));
        let constants = Constants::draw(&state.case, &state.constant, dice.bits(), self.bench.gpu.as_ref())
            .map_err(|e| content_error(&state.case.id, e))?;
        let mut worker =
            self.bench.spawn(&self.bench.seed).map_err(|e| seed_error(state, "while it was loaded", e))?;
        let arena = worker
            .map(&state.case, 1, self.bench.deadline)
            .map_err(|e| seed_error(state, "while its buffers were mapped", e))?;
        constants
            .load(&state.case, arena)
            .map_err(|e| seed_error(state, "while its buffers were mapped", e))?;
        if worker.offers().prepare {
            worker
                .call(Entry::Prepare, &[0], self.bench.deadline, |_, _| {})
                .map_err(|e| seed_error(state, "during `prepare`", e))?;
        }
        let patience = 30 * self.bench.deadline;
        let mut staged = Staged::new(&state.case, self.bench.gpu.as_ref());
        for index in 0..WIDER {
            let drawn = Drawn { content: Content { distribution, seed: dice.bits() }, mutation: None };
            staged
                .fill(&state.case, &state.kinds, drawn, dice.bits(), Some(&constants))
                .map_err(|e| content_error(&state.case.id, e))?;
            let sent = Sent {
                entry: Entry::Main,
                case: &state.case,
                kinds: &state.kinds,
                staged: std::slice::from_ref(&staged),
                slots: &[0],
                mode: Mode::Warm,
                column: Column::Call,
                deadline: patience,
            };
            let returned = request::send(&mut worker, &sent, &mut self.sweeper)
                .map_err(|e| seed_error(state, "during a call", e))?;
            let sample = self.oracle.sample(&state.case, &format!("widen/{index}"));
            let expected = self.oracle.compute(&state.case, &staged, false, sample)?;
            let model = match self.bench.model.is_some() {
                true => Some(self.oracle.compute(&state.case, &staged, true, expected.sample)?),
                false => None,
            };
            if let Some(outputs) = returned.outputs.first() {
                compare::extend_yardstick(state, &expected, outputs, model.as_ref(), distribution);
            }
        }
        Ok(())
    }

    /// Has the reference compute one content, or a secret part of the answer to it, and compares both sides with it.
    ///
    /// # Errors
    /// When the seed or the reference fails.
    pub(crate) fn settle(
        &mut self,
        state: &mut ScenarioState,
        staged: &Staged,
        ours: &Outputs,
        theirs: &Outputs,
        sample: Option<Sample>,
    ) -> Result<(), MeasureError> {
        let expected = self.oracle.compute(&state.case, staged, false, sample)?;
        state.referenced += 1;
        self.compare(state, &expected, ours, Some(theirs), staged)
    }
}
