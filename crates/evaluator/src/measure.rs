//! The measurement: one instance of both sides over all scenarios, pairs of requests on the same contents.
//!
//! There is one kind of request. Its outputs are checked, its time is taken, and nothing in it says which purpose
//! it serves. Only the supervisor knows that the first request of an instance warms up and does not count.

use crate::bench::Bench;
use crate::compare::{self, Bound};
use crate::dice::Dice;
use crate::event::{Event, Side, Sink};
use crate::fault;
pub use crate::measure_error::MeasureError;
use crate::measure_error::seed_error;
use crate::oracle::Oracle;
use crate::outputs::Outputs;
use crate::request::{self, Returned, Sent, Sweeper};
use crate::requests::{
    calls, clock_gap, disturbance, in_cache, median_ratio, pair_times, pool_size, references_in,
    status_finding,
};
use crate::scenario_state::{Instance, Pair, ScenarioState};
use crate::settings::{Column, Mode, Settings};
use crate::sides::{Ahead, Places, Sides};
use crate::staging::{Constants, Drawn, Staged};
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Worker};
use kernelseek_device::protocol::{Entry, Status};
use kernelseek_numerics::content::{self, Content};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// Most times that one pair is measured again because something disturbed it.
const REMEASURES: usize = 2;
/// Share of a request's time that its worker may have waited for a core before the pair is measured again.
const DISTURBED: f64 = 0.02;
/// Share by which the clock of a GPU may differ between the two requests of a pair.
const CLOCK_GAP: f64 = 0.02;
/// Mismatches with the partner that the reference settles for each scenario.
const ARBITRATIONS: usize = 12;
/// How long a worker runs without a request, to see whether it rests.
const IDLE_WINDOW: Duration = Duration::from_millis(4);
/// Times that it is watched where the first look decides and says that it does not rest.
const IDLE_LOOKS: usize = 3;
/// One of this many contents is an earlier one with a small subset of its elements changed.
const MUTATION_ONE_IN: usize = 8;

/// Runs instances.
#[derive(Debug)]
pub struct Measurer<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) settings: &'a Settings,
    pub(crate) oracle: &'a mut Oracle,
    pub(crate) sweeper: Sweeper,
    /// What stands in the candidate's place.
    pub(crate) candidate: crate::bench::Artifact,
    /// Label that separates the random streams of different measurements of one evaluation.
    pub(crate) label: &'static str,
    pub(crate) mode: Mode,
    /// What of a call is timed, on a GPU.
    pub(crate) column: Column,
    /// Key of the secret contents: the evaluation's secret and the label.
    pub(crate) stream: [u8; 32],
    /// Sandbox layers that the candidate's workers reported.
    pub(crate) layers: Option<kernelseek_sandbox::report::Layers>,
    /// Both sides of instances to come, started ahead.
    pub(crate) ahead: VecDeque<Ahead>,
    /// Both sides of the instance before, told to end.
    pub(crate) leaving: Option<Sides>,
    /// Where the two sides have their arenas on a GPU.
    pub(crate) places: Option<Places>,
    /// Times that a yardstick was widened and the candidate was off all the same.
    pub(crate) futile: usize,
}

impl Measurer<'_> {
    /// Measures one instance over all scenarios that are not dead.
    ///
    /// # Errors
    /// When the seed, the reference or the harness fails; the candidate's failures become findings.
    pub fn instance(
        &mut self,
        index: usize,
        states: &mut [ScenarioState],
        sink: &mut dyn Sink,
    ) -> Result<(), MeasureError> {
        let mut dice = Dice::new(&self.settings.secret, &format!("{}/instance/{index}", self.label));
        let wanted = |state: &ScenarioState| !state.is_dead() && index < state.work.instances;
        let mut order: Vec<usize> = (0..states.len()).filter(|&i| wanted(&states[i])).collect();
        dice.shuffle(&mut order);
        let mut sides: Option<Sides> = None;
        for position in order {
            let state = &mut states[position];
            let mut pair = match sides.take() {
                Some(Sides { seed, candidate: Some(candidate) }) => {
                    Sides { seed, candidate: Some(candidate) }
                }
                Some(Sides { seed, candidate: None }) => {
                    Sides { candidate: self.spawn_candidate(state, index)?, seed }
                }
                None => self.spawn_both(state, index)?,
            };
            if pair.candidate.is_some() {
                let measured = self.scenario(index, state, &mut pair, &mut dice, sink);
                match self.starved(state, measured, pair, sink)? {
                    Some(both) => pair = both,
                    None => continue,
                }
                sink.on(&Event::Measured {
                    scenario: state.case.id.clone(),
                    instance: index + 1,
                    ratio: median_ratio(state),
                });
            }
            sides = Some(pair);
            self.bench.gpu_worked(&states[position].case.id)?;
        }
        if let Some(sides) = sides {
            sides.dismiss();
            self.leaving = Some(sides);
        }
        Ok(())
    }

    /// One scenario of one instance. Takes the candidate away from `sides` when it is of no further use.
    pub(crate) fn scenario(
        &mut self,
        index: usize,
        state: &mut ScenarioState,
        sides: &mut Sides,
        dice: &mut Dice,
        sink: &mut dyn Sink,
    ) -> Result<(), MeasureError> {
        let Some(mut candidate) = sides.candidate.take() else { return Ok(()) };
        let effort = &self.settings.effort;
        let memory = self.bench.gpu.as_ref().map(|gpu| gpu.identity().memory_bytes);
        let pool = pool_size(state.case.slot_bytes(), effort.max_slots, memory);
        let gpu = self.bench.gpu.clone();
        let mut constants = self.constants(state, index, dice)?;
        // On a GPU `begin` has done it.
        if index == 0 && state.fixed.is_empty() {
            self.oracle.prepare(state, &mut sides.seed, sink)?;
        }
        sides
            .seed
            .map(&state.case, pool, self.bench.deadline)
            .map_err(|source| seed_error(state, "while its buffers were mapped", source))?;
        if let Err(error) = candidate.map(&state.case, pool, self.bench.deadline) {
            state.find(fault::finding(&error, Some(&state.case), "while its buffers were mapped"));
            self.note_denials(state, &candidate);
            return Ok(());
        }
        for worker in [&mut sides.seed, &mut candidate] {
            if let Some(arena) = worker.arena_mut() {
                let loaded = request::arm_redzones(arena).and_then(|()| constants.load(&state.case, arena));
                loaded.map_err(|e| MeasureError::gpu(state, e))?;
            }
        }
        let swapped = self.places.is_some() && Places::swapped(index);
        let mut instance = Instance { swapped, ..Instance::default() };
        if let Err(error) = self.prepare(state, &mut sides.seed, &mut candidate, &mut instance)? {
            state.find(fault::finding(&error, Some(&state.case), "during `prepare`"));
            self.note_denials(state, &candidate);
            return Ok(());
        }
        let mut pool_staged: Vec<Staged> =
            (0..pool).map(|_| Staged::new(&state.case, gpu.as_ref())).collect();
        let mut last_drawn: Vec<Option<Drawn>> = vec![None; pool];
        let mut referenced: BTreeSet<usize> = dice
            .distinct(references_in(index, state.work.instances, effort.references), state.work.pairs + 1)
            .into_iter()
            .map(|p| p as usize)
            .collect();
        // What is to be found in the shared cache must fit there, all slots of a request together.
        let warm = gpu.as_ref().filter(|_| self.mode == Mode::Warm);
        let widest =
            warm.map_or(pool, |gpu| in_cache(gpu.identity().l2_bytes, state.case.slot_bytes(), pool));
        let mut most = widest.min(state.work.warming());
        let mut alive = true;
        let mut pairs_done = 0;
        let mut attempts = 0;
        while alive && pairs_done <= state.work.pairs {
            // Half-way, constants change behind the same pointers, and `prepare` is told.
            if constants.any() && pairs_done == 1 + state.work.pairs / 2 && attempts == 0 {
                constants = Constants::draw(&state.case, &state.constant, dice.bits(), gpu.as_ref())
                    .map_err(|source| MeasureError::Content { scenario: state.case.id.clone(), source })?;
                for worker in [&mut sides.seed, &mut candidate] {
                    if let Some(arena) = worker.arena_mut() {
                        constants.load(&state.case, arena).map_err(|e| MeasureError::gpu(state, e))?;
                    }
                }
                if let Err(error) = self.prepare(state, &mut sides.seed, &mut candidate, &mut instance)? {
                    state.find(fault::finding(&error, Some(&state.case), "during `prepare`"));
                    alive = false;
                    break;
                }
            }
            let n = if pairs_done == 0 { most } else { calls(most, gpu.is_some(), |n| dice.below(n)) };
            let slots = dice.distinct(n, pool);
            let staged = &mut pool_staged[..n];
            self.stage(state, staged, &slots, &mut last_drawn, &constants, dice)?;
            let seed_first = (pairs_done + index).is_multiple_of(2);
            let outcome = self.pair(
                state,
                &mut sides.seed,
                &mut candidate,
                staged,
                &slots,
                seed_first,
                instance.seed_first_ns,
                // A fresh worker may set things up in its first call, which waits for the device.
                if pairs_done == 0 { Column::Call } else { state.column },
            )?;
            let (seed, returned) = match outcome {
                Ok(both) => both,
                Err(DeviceError::Synchronises) => {
                    // One of the two waits for the device inside the call: then the whole call is timed, on both sides.
                    self.time_whole_calls(state, &mut instance, sink);
                    continue;
                }
                Err(source @ DeviceError::Supervisor(_)) => return Err(MeasureError::gpu(state, source)),
                Err(error) => {
                    state.find(fault::finding(&error, Some(&state.case), "during a call"));
                    alive = false;
                    break;
                }
            };
            let reference = referenced.remove(&pairs_done).then(|| dice.below(n));
            self.judge_pair(state, &mut candidate, staged, &slots, &seed, &returned, reference)?;
            if state.is_dead() {
                break;
            }
            let measured = pair_times(&seed, &returned, n, seed_first, self.mode);
            state.canary.seed.extend(seed.look.map(|look| look.wall_ns));
            state.canary.candidate.extend(returned.look.map(|look| look.wall_ns));
            let why = disturbed(&seed, &returned, &measured);
            if let Some(why) = why.filter(|_| pairs_done > 0 && attempts < REMEASURES) {
                attempts += 1;
                sink.on(&Event::Remeasured { scenario: state.case.id.clone(), why });
                continue;
            }
            attempts = 0;
            if pairs_done == 0 {
                instance.seed_first_ns = measured.seed_ns / n as f64;
                instance.candidate_first_ns = measured.candidate_ns / n as f64;
                // From here on the number of slots follows the seed's time, never the candidate's.
                let affordable = effort.request_budget.as_nanos() as f64 / instance.seed_first_ns.max(1.0);
                most = (affordable as usize).clamp(1, widest.min(state.work.most));
            } else if state.declined == 0 {
                instance.pairs.push(measured);
            }
            pairs_done += 1;
        }
        if alive
            && !state.is_dead()
            && self.probes_idleness(index, state)
            && let Err(error) = self.look_idle(state, &mut candidate)
        {
            state.find(fault::finding(&error, Some(&state.case), "after its last call"));
            alive = false;
        }
        self.note_denials(state, &candidate);
        self.note_output(state, &candidate);
        instance.blank_ns = self.blanks(state, &sides.seed, &candidate);
        state.instances.push(instance);
        if alive && !state.is_dead() {
            sides.candidate = Some(candidate);
        }
        Ok(())
    }

    /// Watches the candidate without a request, and notes the processor time that it takes. On a GPU, where one look would decide,
    /// what seems busy is watched for three times as long: where others want the cores a look is wrong at times.
    fn look_idle(&self, state: &mut ScenarioState, candidate: &mut Worker) -> Result<(), DeviceError> {
        for look in 0..IDLE_LOOKS {
            let used = candidate.idle_probe(IDLE_WINDOW)?;
            state.idle.0 += used.as_secs_f64();
            state.idle.1 += IDLE_WINDOW.as_secs_f64();
            if self.bench.gpu.is_none() || look == 0 && used < IDLE_WINDOW / 4 {
                break;
            }
        }
        Ok(())
    }

    /// What a launch of nothing takes in either process, where each call is timed by events around it.
    fn blanks(&self, state: &ScenarioState, seed: &Worker, candidate: &Worker) -> Option<[f64; 2]> {
        let by_events = state.column == Column::Device && self.mode != Mode::Stream;
        Some([seed.blank_nanos()?, candidate.blank_nanos()?]).filter(|_| by_events)
    }

    /// Whether the candidate is watched without a request after this scenario. On a GPU, where instances are many and requests
    /// short, that is so in one of them, and nobody knows in which.
    fn probes_idleness(&self, index: usize, state: &ScenarioState) -> bool {
        let drawn = || {
            let label = format!("{}/idle/{}", self.label, state.case.id);
            Dice::new(&self.settings.secret, &label).below(state.work.instances.max(1))
        };
        self.bench.gpu.is_none() || drawn() == index
    }

    /// Goes over to the `call` column, and forgets what was timed in the other.
    fn time_whole_calls(&self, state: &mut ScenarioState, instance: &mut Instance, sink: &mut dyn Sink) {
        state.column = Column::Call;
        state.instances.clear();
        instance.pairs.clear();
        sink.on(&Event::Remeasured {
            scenario: state.case.id.clone(),
            why: "a call waits for the device: the whole call is timed".to_owned(),
        });
        state.find(
            Finding::new(
                "timed.synchronises",
                Severity::Note,
                "a call waits for the device, so the whole call is timed on both sides",
            )
            .with_next("enqueue on the call's stream and return; do not synchronise inside the call"),
        );
    }

    /// Constants of this instance: the fixed ones on even instances, so that fixed contents meet the constants
    /// their references were computed with, secret ones on odd instances.
    fn constants(
        &self,
        state: &ScenarioState,
        index: usize,
        dice: &mut Dice,
    ) -> Result<Constants, MeasureError> {
        let seed = if index.is_multiple_of(2) { crate::oracle::FIXED_CONSTANTS } else { dice.bits() };
        Constants::draw(&state.case, &state.constant, seed, self.bench.gpu.as_ref())
            .map_err(|source| MeasureError::Content { scenario: state.case.id.clone(), source })
    }

    /// Calls `prepare` on both sides where constants exist. The inner result is the candidate's failure.
    fn prepare(
        &mut self,
        state: &ScenarioState,
        seed: &mut Worker,
        candidate: &mut Worker,
        instance: &mut Instance,
    ) -> Result<Result<(), DeviceError>, MeasureError> {
        if seed.offers().prepare {
            seed.call(Entry::Prepare, &[0], self.bench.deadline, |_, _| {})
                .map_err(|source| seed_error(state, "during `prepare`", source))?;
        }
        if candidate.offers().prepare {
            match candidate.call(Entry::Prepare, &[0], self.bench.deadline, |_, _| {}) {
                Ok(answer) => instance.prepare_ns = Some(answer.wall.as_nanos() as f64),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }

    /// Draws the contents of one request: fixed ones shuffled among secret ones, and some that differ from what the
    /// same slot held before in a few elements only.
    fn stage(
        &self,
        state: &mut ScenarioState,
        staged: &mut [Staged],
        slots: &[u32],
        last: &mut [Option<Drawn>],
        constants: &Constants,
        dice: &mut Dice,
    ) -> Result<(), MeasureError> {
        let fixed_usable = !constants.any() || constants.seed == crate::oracle::FIXED_CONSTANTS;
        for (staged, &slot) in staged.iter_mut().zip(slots) {
            let slot = slot as usize;
            let roll = dice.below(4 * MUTATION_ONE_IN);
            let drawn = match last[slot] {
                Some(previous) if roll < 4 => Drawn { mutation: Some(dice.bits()), ..previous },
                _ if (4..8).contains(&roll) && fixed_usable && !state.fixed.is_empty() => {
                    let which = dice.below(state.fixed.len());
                    Drawn { content: state.fixed[which].content, mutation: None }
                }
                _ => {
                    state.next_content += 1;
                    let content = content::content_stream(&self.stream, &state.case, state.next_content);
                    Drawn { content, mutation: None }
                }
            };
            staged
                .fill(&state.case, &state.kinds, drawn, dice.bits(), Some(constants))
                .map_err(|source| MeasureError::Content { scenario: state.case.id.clone(), source })?;
            last[slot] = Some(Drawn { content: drawn.content, mutation: None });
        }
        Ok(())
    }

    /// Sends one request to each side. The inner result is the candidate's failure.
    #[expect(clippy::too_many_arguments, reason = "one call site")]
    fn pair(
        &mut self,
        state: &ScenarioState,
        seed: &mut Worker,
        candidate: &mut Worker,
        staged: &[Staged],
        slots: &[u32],
        seed_first: bool,
        seed_call_ns: f64,
        column: Column,
    ) -> Result<Result<(Returned, Returned), DeviceError>, MeasureError> {
        let mode = self.mode;
        let generous = Duration::from_nanos((100.0 * seed_call_ns) as u64) * slots.len() as u32;
        let deadline = generous.clamp(self.bench.deadline, 6 * self.bench.deadline);
        let mut run = |worker: &mut Worker, deadline| {
            let (case, kinds) = (&state.case, &state.kinds);
            let sent = Sent { entry: Entry::Main, case, kinds, staged, slots, mode, column, deadline };
            request::send(worker, &sent, &mut self.sweeper)
        };
        // The seed has no deadline worth the name: it is trusted, and may be slow.
        let patience = 30 * self.bench.deadline;
        let seed_failed = |source| seed_error(state, "during a call", source);
        let (from_seed, from_candidate) = if seed_first {
            let first = run(seed, patience);
            (first, run(candidate, deadline))
        } else {
            let first = run(candidate, deadline);
            (run(seed, patience), first)
        };
        let from_seed = match from_seed {
            Err(DeviceError::Synchronises) => return Ok(Err(DeviceError::Synchronises)),
            other => other.map_err(seed_failed)?,
        };
        if let Some(status) = from_seed.answer.statuses.iter().find(|s| **s != Status::Ok) {
            return Err(MeasureError::SeedStatus { scenario: state.case.id.clone(), status: *status });
        }
        Ok(from_candidate.map(|returned| (from_seed, returned)))
    }

    /// Checks everything that one request to the candidate must satisfy.
    #[expect(clippy::too_many_arguments, reason = "one call site")]
    fn judge_pair(
        &mut self,
        state: &mut ScenarioState,
        candidate: &mut Worker,
        staged: &[Staged],
        slots: &[u32],
        seed: &Returned,
        returned: &Returned,
        reference: Option<usize>,
    ) -> Result<(), MeasureError> {
        let declined = returned.answer.statuses.iter().filter(|s| **s == Status::Unsupported).count();
        state.declined += declined;
        state.answered += returned.answer.statuses.len();
        if let Some(finding) = status_finding(&returned.answer.statuses) {
            state.find(with_pending(finding, &returned.answer));
            return Ok(());
        }
        if let Some(pending) = &returned.answer.pending {
            state.find(
                Finding::new(
                    "correct.unchecked-error",
                    Severity::Fail,
                    "a call returned KS_OK although the runtime reports an error",
                )
                .with_evidence(pending.clone())
                .with_next("check what every launch returns (`cudaGetLastError`), and return KS_ERROR"),
            );
        }
        if declined > 0 {
            return Ok(());
        }
        if let Some(arena) = candidate.arena_mut() {
            let (case, kinds) = (&state.case, &state.kinds);
            let checked = request::check_memory(arena, case, kinds, staged, slots, &returned.inputs);
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
                .with_evidence(format!("{} of {} calls", returned.deferred.len(), slots.len()))
                .with_next("join every thread and finish every write before returning"),
            );
        }
        let fixed: Vec<Option<Outputs>> =
            staged.iter().map(|staged| fixed_reference(state, staged)).collect();
        // A secret part of one content's answer, where the reference is not asked for all of it.
        let sample = self.oracle.sample(&state.case, &format!("{}/{}", self.label, state.contents));
        // What no whole answer is known of is compared with the partner's besides.
        let wanted: Vec<bool> = fixed
            .iter()
            .enumerate()
            .map(|(position, fixed)| match fixed {
                Some(expected) => expected.sample.is_some(),
                None => reference != Some(position) || sample.is_some(),
            })
            .collect();
        let digests = returned.digests.as_deref().zip(seed.digests.as_deref()).map(|(a, b)| [a, b]);
        let beside = compare::beside(&state.case, &returned.outputs, &seed.outputs, digests, &wanted);
        for ((position, staged), fixed) in staged.iter().enumerate().zip(fixed) {
            state.contents += 1;
            let (ours, theirs) = (&returned.outputs[position], &seed.outputs[position]);
            let distribution = staged.drawn.content.distribution;
            let digests = returned.digests.as_ref().map(|all| all[position].as_slice());
            state.remember(ours, digests, staged.drawn);
            if self.bench.deterministic && fixed.is_some() {
                self.check_repeat(state, staged.drawn.content, ours);
            }
            if let Some(expected) = fixed {
                state.referenced += 1;
                // The seed's error on a fixed content is in the yardstick already.
                self.compare(state, &expected, ours, None, staged)?;
            } else if reference == Some(position) {
                self.settle(state, staged, ours, theirs, sample)?;
            }
            if wanted[position] {
                match compare::against_partner(state, &beside[position], distribution) {
                    Bound::Within => {}
                    // The seed may be the one that is off on this content: only the reference can tell.
                    Bound::Beyond if state.arbitrated < ARBITRATIONS => {
                        state.arbitrated += 1;
                        self.settle(state, staged, ours, theirs, None)?;
                    }
                    Bound::Beyond => state.unsettled += 1,
                }
            }
        }
        Ok(())
    }

    fn check_repeat(&self, state: &mut ScenarioState, content: Content, ours: &Outputs) {
        match state.repeats.get(&content.seed) {
            Some(first) if first != ours => state.find(
                Finding::new("correct.deterministic", Severity::Fail, "the same content gave different bits")
                    .with_next("fix the order of every reduction, or drop `deterministic` from the problem"),
            ),
            Some(_) => {}
            None => {
                state.repeats.insert(content.seed, ours.clone());
            }
        }
    }

    fn note_denials(&self, state: &mut ScenarioState, worker: &Worker) {
        for denial in worker.denials() {
            state.find(
                Finding::new(
                    "sandbox.denied",
                    Severity::Warning,
                    "the candidate attempted what its sandbox denies",
                )
                .with_evidence(format!("{} {} ({}×)", denial.syscall, denial.detail, denial.count))
                .with_next("a kernel needs memory, arithmetic and threads: remove the call"),
            );
        }
    }

    fn note_output(&self, state: &mut ScenarioState, worker: &Worker) {
        let bytes: u64 = worker.output().iter().map(|capture| capture.total_bytes).sum();
        if bytes > 0 {
            state.find(
                Finding::new("sandbox.output", Severity::Note, "the candidate printed")
                    .with_evidence(format!("{bytes} bytes on {}", Side::Candidate.as_str())),
            );
        }
    }
}

/// The reference's outputs on a staged content, if it is one of the fixed ones.
fn fixed_reference(state: &ScenarioState, staged: &Staged) -> Option<Outputs> {
    let whole = staged.drawn.mutation.is_none();
    let found = state.fixed.iter().find(|f| whole && f.content == staged.drawn.content)?;
    Some(found.reference.clone())
}

/// A finding with what the runtime library said at the time.
fn with_pending(finding: Finding, answer: &kernelseek_device::client::Answer) -> Finding {
    match &answer.pending {
        Some(pending) => finding.with_evidence(pending.clone()),
        None => finding,
    }
}

/// What makes a pair worth measuring again, in words.
fn disturbed(seed: &Returned, candidate: &Returned, measured: &Pair) -> Option<String> {
    if let Some(gpu) = measured.gpu {
        let gap = clock_gap(measured);
        if gap > CLOCK_GAP {
            return Some(format!("the GPU's clock moved by {:.1} %", 100.0 * gap));
        }
        // Behind a gate on the stream nobody cares who has the host's core.
        if gpu.held() {
            return None;
        }
    }
    let share = disturbance(seed, candidate);
    (share > DISTURBED).then(|| format!("another process took {:.0} % of a request", 100.0 * share))
}
