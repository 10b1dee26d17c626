//! The two sides of an instance: their processes started, their places in device memory, and given up.

use crate::bench::Started;
use crate::dice::Dice;
use crate::event::Sink;
use crate::fault;
use crate::measure::{MeasureError, Measurer};
use crate::measure_error::seed_error;
use crate::oracle::OracleError;
use crate::requests::pool_size;
use crate::scenario_state::ScenarioState;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Worker};
use kernelseek_device::cuda::arena::Exported;
use kernelseek_device::layout::ArenaLayout;
use std::rc::Rc;

/// Device memory that a worker's context takes, about.
const CONTEXT_BYTES: usize = 700 << 20;

/// The driver's number for a device without memory left.
const OUT_OF_MEMORY: u32 = 2;

/// Both sides of one instance.
#[derive(Debug)]
pub(crate) struct Sides {
    pub(crate) seed: Worker,
    pub(crate) candidate: Option<Worker>,
}

impl Sides {
    /// Tells both processes to end and waits for neither: a driver takes its time. Dropping them waits.
    pub(crate) fn dismiss(&self) {
        for worker in std::iter::once(&self.seed).chain(&self.candidate) {
            worker.dismiss();
        }
    }
}

/// Both sides of an instance to come.
#[derive(Debug)]
pub(crate) struct Ahead {
    seed: Worker,
    /// Whether the seed has its place already.
    placed: bool,
    candidate: Started,
}

/// The two pieces of device memory that the sides have their arenas in, the same ones in all instances, taken in turns. Which
/// part of the memory a call works on decides about up to two percent of its time on an H200: the same kernel comes out so much
/// slower in one allocation than in another, for as long as that lives.
#[derive(Debug)]
pub(crate) struct Places([Rc<Exported>; 2]);

impl Places {
    /// Whether the sides have each other's places in this instance: the one that the other had in the instance before.
    pub(crate) const fn swapped(index: usize) -> bool {
        !index.is_multiple_of(2)
    }

    /// The seed's and the candidate's.
    fn of(&self, index: usize) -> [&Rc<Exported>; 2] {
        let [first, second] = &self.0;
        if Self::swapped(index) { [second, first] } else { [first, second] }
    }
}

/// Whether an error of the seed, the reference or the supervisor may come of too little memory on the device. A kernel that
/// gets none may answer with any status.
fn wants_memory(error: &MeasureError) -> bool {
    let of_device = |error: &DeviceError| match error {
        DeviceError::Supervisor(error) => error.is_out_of_memory(),
        DeviceError::Gpu { code, .. } => *code == OUT_OF_MEMORY,
        DeviceError::Refused(text) => text.contains("out of memory"),
        _ => false,
    };
    match error {
        MeasureError::Gpu { source, .. } => of_device(source),
        MeasureError::Seed { source, .. }
        | MeasureError::Oracle(OracleError::Seed { source, .. } | OracleError::Reference { source, .. }) => {
            of_device(source)
        }
        MeasureError::SeedStatus { .. } | MeasureError::Oracle(OracleError::Status { .. }) => true,
        _ => false,
    }
}

impl Measurer<'_> {
    /// Decides about a scenario that ended for want of memory on the device. If the same scenario works with the seed in the
    /// candidate's place, the candidate took what was missing, and fails for it: `None`, and both processes are given up,
    /// since what the seed's went through is not known. Otherwise `measured` stands, and `sides` with it.
    ///
    /// # Errors
    /// That of `measured`, and what the trial itself ends in.
    pub(crate) fn starved(
        &mut self,
        state: &mut ScenarioState,
        measured: Result<(), MeasureError>,
        sides: Sides,
        sink: &mut dyn Sink,
    ) -> Result<Option<Sides>, MeasureError> {
        let Some(gpu) = self.bench.gpu.clone() else { return measured.map(|()| Some(sides)) };
        let kept = gpu.take_failure();
        let why = match (&kept, &measured) {
            (Some(error), _) if error.is_out_of_memory() => Some(error.to_string()),
            (None, Err(error)) if wants_memory(error) => Some(fault::chain(error)),
            _ => None,
        };
        if let Some(why) = why {
            drop(sides);
            if self.seed_alone_works(state, sink) {
                state.find(
                    Finding::new(
                        "correct.device-memory",
                        Severity::Fail,
                        "the candidate leaves too little memory on the device",
                    )
                    .with_evidence(why)
                    .with_evidence("with the seed in its place there is enough".to_owned())
                    .with_next(
                        "free what a call allocates, and take scratch memory through `NAME_workspace`",
                    ),
                );
                return Ok(None);
            }
            measured?;
            return Err(MeasureError::gpu(state, kept.map_or(DeviceError::Synchronises, Into::into)));
        }
        // Told by whoever looks next.
        if let Some(error) = kept {
            gpu.guard(Err::<(), _>(error), ());
        }
        measured.map(|()| Some(sides))
    }

    /// Whether the scenario can be measured with the seed in the candidate's place.
    fn seed_alone_works(&mut self, state: &ScenarioState, sink: &mut dyn Sink) -> bool {
        let mut alone = ScenarioState::new(state.case.clone());
        (alone.column, alone.work) = (state.column, state.work);
        let candidate = std::mem::replace(&mut self.candidate, self.bench.seed.clone());
        let ahead = std::mem::take(&mut self.ahead);
        let mut dice = Dice::new(&self.settings.secret, &format!("{}/alone/{}", self.label, state.case.id));
        // Not the first instance: what is kept of the reference's answers is not made again.
        let outcome = self.spawn_both(&mut alone, 1).and_then(|mut both| {
            let outcome = self.scenario(1, &mut alone, &mut both, &mut dice, sink);
            outcome.map(|()| both.candidate.is_some())
        });
        self.candidate = candidate;
        self.ahead = ahead;
        let failed = self.bench.gpu.as_ref().and_then(|gpu| gpu.take_failure());
        matches!(outcome, Ok(true)) && failed.is_none() && !alone.is_dead()
    }

    /// Allocates the places of both sides, large enough for every scenario, where calls run on a GPU. Where there is no room for
    /// them, every worker gets memory of its own when it needs it, and what fails then is told.
    pub(crate) fn find_places(&mut self, states: &[ScenarioState]) {
        self.places = None;
        let Some(gpu) = &self.bench.gpu else { return };
        let pool = |state: &ScenarioState| {
            let slots = self.settings.effort.max_slots;
            pool_size(state.case.slot_bytes(), slots, Some(gpu.identity().memory_bytes))
        };
        let largest =
            states.iter().map(|s| ArenaLayout::on_device(&s.case, pool(s)).bytes).max().unwrap_or(0);
        if let (Ok(first), Ok(second)) = (Exported::new(gpu, largest), Exported::new(gpu, largest)) {
            self.places = Some(Places([first, second].map(Rc::new)));
        }
    }

    /// Where calls run on a GPU: starts the processes of `instances` instances ahead, and while their drivers start has the
    /// reference and the first seed answer the fixed contents. Everything has started when this ends, so nothing is timed
    /// beside a driver that starts: that takes half a second, most of it on the host, and disturbs what runs on the device.
    ///
    /// Seeds are loaded here too. Candidates are not: nothing of theirs runs before their turn.
    pub(crate) fn begin(
        &mut self,
        instances: usize,
        states: &mut [ScenarioState],
        sink: &mut dyn Sink,
    ) -> Result<(), MeasureError> {
        self.ahead.clear();
        let Some(gpu) = self.bench.gpu.clone() else { return Ok(()) };
        let Some(first) = states.first() else { return Ok(()) };
        let free = gpu.context().free_memory().map_or(0, |(free, _)| free);
        let most = instances.min(free / 2 / (2 * CONTEXT_BYTES)).max(1);
        let failed = |source| seed_error(first, "while it was loaded", source);
        // Who is needed first does not wait for the drivers of the others.
        let seed = self.bench.start(&self.bench.seed).map_err(failed)?;
        self.oracle.start();
        let candidate = self.bench.start(&self.candidate);
        let mut seed = self.bench.load(seed).map_err(failed)?;
        if let Some(places) = &self.places {
            seed.lend(places.of(0)[0]).map_err(|e| MeasureError::gpu(first, e))?;
        }
        // What does not start here is started again when it is needed, and said then.
        let others: Vec<(Started, Started)> = (1..most)
            .map_while(|_| {
                Some((self.bench.start(&self.bench.seed).ok()?, self.bench.start(&self.candidate).ok()?))
            })
            .collect();
        for state in states.iter_mut().filter(|s| !s.is_dead()) {
            self.oracle.prepare(state, &mut seed, sink)?;
            self.bench.gpu_worked(&state.case.id)?;
        }
        let ready = |mut candidate: Started| candidate.await_ready().is_ok().then_some(candidate);
        if let Some(candidate) = candidate.ok().and_then(ready) {
            self.ahead.push_back(Ahead { seed, placed: true, candidate });
        }
        for (seed, candidate) in others {
            if let (Ok(seed), Some(candidate)) = (self.bench.load(seed), ready(candidate)) {
                self.ahead.push_back(Ahead { seed, placed: false, candidate });
            }
        }
        Ok(())
    }

    /// Ends the processes of the last instance, and of those that will not come to be, all at once: one after the other would take
    /// a second.
    pub(crate) fn give_up_ahead(&mut self) {
        for Ahead { seed, candidate, .. } in &self.ahead {
            seed.dismiss();
            candidate.dismiss();
        }
        self.leaving = None;
        self.ahead.clear();
    }

    /// Starts both sides of an instance. Their processes start side by side: a GPU's driver takes half a second for each.
    pub(crate) fn spawn_both(
        &mut self,
        state: &mut ScenarioState,
        index: usize,
    ) -> Result<Sides, MeasureError> {
        let (seed, placed, candidate) = match self.ahead.pop_front() {
            Some(Ahead { seed, placed, candidate }) => (Ok(seed), placed, Ok(candidate)),
            None => {
                let (seed, candidate) =
                    (self.bench.start(&self.bench.seed), self.bench.start(&self.candidate));
                (seed.and_then(|started| self.bench.load(started)), false, candidate)
            }
        };
        let mut seed = seed.map_err(|source| seed_error(state, "while it was loaded", source))?;
        let candidate = candidate.and_then(|started| self.bench.load(started));
        // Their processes had what is lent now.
        self.leaving = None;
        if let Some(places) = self.places.as_ref().filter(|_| !placed) {
            seed.lend(places.of(index)[0]).map_err(|e| MeasureError::gpu(state, e))?;
        }
        Ok(Sides { seed, candidate: self.loaded_candidate(state, index, candidate)? })
    }

    /// Starts the candidate's side of an instance again, whose process has ended.
    pub(crate) fn spawn_candidate(
        &mut self,
        state: &mut ScenarioState,
        index: usize,
    ) -> Result<Option<Worker>, MeasureError> {
        let spawned = self.bench.spawn(&self.candidate);
        self.loaded_candidate(state, index, spawned)
    }

    fn loaded_candidate(
        &mut self,
        state: &mut ScenarioState,
        index: usize,
        loaded: Result<Worker, DeviceError>,
    ) -> Result<Option<Worker>, MeasureError> {
        match loaded {
            Ok(mut worker) => {
                if let Some(places) = &self.places {
                    worker.lend(places.of(index)[1]).map_err(|e| MeasureError::gpu(state, e))?;
                }
                if self.layers.is_none() {
                    self.layers = worker.layers().cloned();
                }
                Ok(Some(worker))
            }
            Err(error) => {
                state.find(fault::finding(&error, None, "while it was loaded"));
                Ok(None)
            }
        }
    }
}
