//! The two sides of an instance: their processes started, and given up.

use crate::bench::Started;
use crate::fault;
use crate::measure::{MeasureError, Measurer, seed_error};
use crate::scenario_state::ScenarioState;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_device::client::{DeviceError, Worker};

/// Device memory that a worker's context takes, about.
const CONTEXT_BYTES: usize = 700 << 20;

/// Both sides of one instance.
pub(crate) struct Sides {
    pub(crate) seed: Worker,
    pub(crate) candidate: Option<Worker>,
}

/// Both sides of an instance to come: started, and not loaded.
pub(crate) type Ahead = (Started, Started);

impl Measurer<'_> {
    /// Whether the candidate took the device's memory from under the supervisor, which is then the candidate's failure. Any
    /// other failure of the supervisor's own work stays in `measured`'s place: nothing that was concluded from it may stand.
    pub(crate) fn starved(&self, state: &mut ScenarioState, measured: &Result<(), MeasureError>) -> bool {
        let Some(gpu) = &self.bench.gpu else { return false };
        let kept = gpu.take_failure();
        let error = match (&kept, measured) {
            (Some(error), _) => error,
            (None, Err(MeasureError::Gpu { source, .. })) => match source.as_ref() {
                DeviceError::Supervisor(error) => error,
                _ => return false,
            },
            (None, Err(MeasureError::Seed { source: DeviceError::Supervisor(error), .. })) => error,
            _ => return false,
        };
        let free = gpu.context().free_memory().map_or(0, |(free, _)| free);
        if !error.is_out_of_memory() {
            // Told by whoever looks next.
            gpu.guard(Err::<(), _>(error.clone()), ());
            return false;
        }
        state.find(
            Finding::new(
                "correct.device-memory",
                Severity::Fail,
                "the candidate leaves no memory on the device",
            )
            .with_evidence(format!("{} MiB free", free >> 20))
            .with_next("free what a call allocates, and take scratch memory through `NAME_workspace`"),
        );
        true
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
