//! The two sides of an instance: their processes started, and given up.

use crate::bench::Started;
use crate::dice::Dice;
use crate::event::Sink;
use crate::fault;
use crate::measure::{MeasureError, Measurer};
use crate::measure_error::seed_error;
use crate::oracle::OracleError;
use crate::scenario_state::ScenarioState;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Worker};

/// Device memory that a worker's context takes, about.
const CONTEXT_BYTES: usize = 700 << 20;

/// The driver's number for a device without memory left.
const OUT_OF_MEMORY: u32 = 2;

/// Both sides of one instance.
pub(crate) struct Sides {
    pub(crate) seed: Worker,
    pub(crate) candidate: Option<Worker>,
}

impl Sides {
    /// Ends both processes at once: a driver takes its time, and two need no longer than one.
    pub(crate) fn end(self) {
        for worker in std::iter::once(&self.seed).chain(&self.candidate) {
            worker.dismiss();
        }
    }
}

/// Both sides of an instance to come: started, and not loaded.
pub(crate) type Ahead = (Started, Started);

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
        alone.column = state.column;
        let candidate = std::mem::replace(&mut self.candidate, self.bench.seed.clone());
        let ahead = std::mem::take(&mut self.ahead);
        let mut dice = Dice::new(&self.settings.secret, &format!("{}/alone/{}", self.label, state.case.id));
        // Not the first instance: what is kept of the reference's answers is not made again.
        let outcome = self.spawn_both(&mut alone).and_then(|mut both| {
            let outcome = self.scenario(1, &mut alone, &mut both, &mut dice, sink);
            outcome.map(|()| both.candidate.is_some())
        });
        self.candidate = candidate;
        self.ahead = ahead;
        let failed = self.bench.gpu.as_ref().and_then(|gpu| gpu.take_failure());
        matches!(outcome, Ok(true)) && failed.is_none() && !alone.is_dead()
    }

    /// Starts the processes of `instances` instances at once where calls run on a GPU, and before anything is timed: a driver
    /// takes half a second to start, most of it on the host, and disturbs what runs on the device meanwhile.
    pub(crate) fn start_ahead(&mut self, instances: usize) {
        let Some(gpu) = &self.bench.gpu else { return };
        let free = gpu.context().free_memory().map_or(0, |(free, _)| free);
        let most = instances.min(free / 2 / (2 * CONTEXT_BYTES));
        self.ahead.clear();
        for _ in 0..most {
            // What does not start is started again when it is needed, and said then.
            let (Ok(seed), Ok(candidate)) =
                (self.bench.start(&self.bench.seed), self.bench.start(&self.candidate))
            else {
                return;
            };
            self.ahead.push_back((seed, candidate));
        }
    }

    /// Starts both sides. Their processes start side by side: a GPU's driver takes half a second for each.
    pub(crate) fn spawn_both(&mut self, state: &mut ScenarioState) -> Result<Sides, MeasureError> {
        let (seed, candidate) = match self.ahead.pop_front() {
            Some((seed, candidate)) => (Ok(seed), Ok(candidate)),
            None => (self.bench.start(&self.bench.seed), self.bench.start(&self.candidate)),
        };
        let seed = seed
            .and_then(|started| self.bench.load(started))
            .map_err(|source| seed_error(state, "while it was loaded", source))?;
        let candidate = self.loaded_candidate(state, candidate.and_then(|started| self.bench.load(started)));
        Ok(Sides { seed, candidate })
    }

    pub(crate) fn spawn_candidate(&mut self, state: &mut ScenarioState) -> Option<Worker> {
        let spawned = self.bench.spawn(&self.candidate);
        self.loaded_candidate(state, spawned)
    }

    fn loaded_candidate(
        &mut self,
        state: &mut ScenarioState,
        loaded: Result<Worker, DeviceError>,
    ) -> Option<Worker> {
        match loaded {
            Ok(worker) => {
                if self.layers.is_none() {
                    self.layers = worker.layers().cloned();
                }
                Some(worker)
            }
            Err(error) => {
                state.find(fault::finding(&error, None, "while it was loaded"));
                None
            }
        }
    }
}
