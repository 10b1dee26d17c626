//! What is right: the reference's outputs, and the error that an honest implementation makes.

use crate::bench::{Bench, Started};
use crate::compare;
use crate::dice::Dice;
use crate::event::{Event, Sink};
use crate::gpu_slots;
use crate::outputs::{Data, Outputs};
use crate::request::{self, Sent, Sweeper};
use crate::scenario_state::{FixedContent, ScenarioState};
use crate::settings::{Column, Mode, Settings, Tier};
use crate::staging::{Constants, Drawn, Staged, StorageKinds};
use kernelseek_core::case::{Case, TensorCase};
use kernelseek_device::arena::Arena;
use kernelseek_device::client::{DeviceError, Worker};
use kernelseek_device::protocol::{Entry, Sample, Status};
use kernelseek_numerics::content::{Content, Distribution};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seed of the constants that fixed contents are computed with.
pub const FIXED_CONSTANTS: u64 = 0x0c05_7a47;
/// Fewest fixed contents of a scenario.
const FIXED: usize = 4;
/// Operations that the reference may take for one content before it is asked for a part of the answer: a millisecond or two of
/// a large GPU. And the smallest part that is asked for: one of so many units of its work.
const WHOLE: f64 = 2e10;
const FEWEST: u32 = 16;
/// How long the reference may take for one call.
const PATIENCE: Duration = Duration::from_secs(300);

/// Why the oracle has no answer.
#[derive(Debug, thiserror::Error)]
pub enum OracleError {
    /// The reference's worker failed.
    #[error("the reference failed on scenario `{scenario}`")]
    Reference {
        /// Scenario id.
        scenario: String,
        /// Why.
        #[source]
        source: DeviceError,
    },
    /// The reference declined or reported an error.
    #[error("the reference answered {status:?} on scenario `{scenario}`")]
    Status {
        /// Scenario id.
        scenario: String,
        /// What it answered.
        status: Status,
    },
    /// The seed failed on a fixed content.
    #[error("the seed failed on a fixed content of scenario `{scenario}`")]
    Seed {
        /// Scenario id.
        scenario: String,
        /// Why.
        #[source]
        source: DeviceError,
    },
    /// A content could not be generated.
    #[error("scenario `{scenario}`: the content cannot be generated")]
    Content {
        /// Scenario id.
        scenario: String,
        /// Why.
        #[source]
        source: kernelseek_numerics::content::ContentError,
    },
}

/// The reference's worker and the cache of its answers.
#[derive(Debug)]
pub struct Oracle {
    bench: Bench,
    cache: PathBuf,
    worker: Option<(Worker, String)>,
    /// The reference's process, started ahead.
    started: Option<Started>,
    sweeper: Sweeper,
    /// Secret that parts of answers are chosen by, where parts may be asked for.
    sampling: Option<[u8; 32]>,
}

impl Oracle {
    /// An oracle of an evaluation with these settings. Nothing is started yet. A full evaluation asks for whole answers.
    #[must_use]
    pub fn new(bench: &Bench, settings: &Settings) -> Self {
        Self {
            bench: bench.clone(),
            cache: settings.reference_cache(),
            worker: None,
            started: None,
            sweeper: Sweeper::default(),
            sampling: (bench.sampled && settings.tier != Tier::Full).then_some(settings.secret),
        }
    }

    /// The part of the answer to `case` that is asked for; `None` asks for all of it. The same `label` chooses the same part.
    #[must_use]
    pub fn sample(&self, case: &Case, label: &str) -> Option<Sample> {
        let secret = self.sampling.as_ref()?;
        let one_in = one_in(case);
        let key = || Dice::new(secret, &format!("sample/{label}/{}", case.id)).bits();
        (one_in > 1).then(|| Sample { key: key(), one_in })
    }

    /// Starts the reference's process, if there is none, without waiting for it.
    pub fn start(&mut self) {
        if self.worker.is_none() && self.started.is_none() {
            // What does not start is started again when it is needed, and said then.
            self.started = self.bench.start_reference().ok();
        }
    }

    /// Computes the fixed contents of a scenario (or finds them in the cache) and the seed's error on them.
    ///
    /// # Errors
    /// When the reference or the seed fails.
    pub fn prepare(
        &mut self,
        state: &mut ScenarioState,
        seed: &mut Worker,
        sink: &mut dyn Sink,
    ) -> Result<(), OracleError> {
        let scenario = state.case.id.clone();
        let failed = |source| OracleError::Seed { scenario: scenario.clone(), source };
        let gpu = self.bench.gpu.clone();
        let constants = Constants::draw(&state.case, &state.constant, FIXED_CONSTANTS, gpu.as_ref())
            .map_err(|source| OracleError::Content { scenario: scenario.clone(), source })?;
        seed.map(&state.case, 2, PATIENCE).map_err(failed)?;
        if let Some(arena) = seed.arena_mut() {
            request::arm_redzones(arena).map_err(failed)?;
            constants.load(&state.case, arena).map_err(failed)?;
        }
        if seed.offers().prepare {
            seed.call(Entry::Prepare, &[0], PATIENCE, |_, _| {}).map_err(failed)?;
        }
        let mut told = false;
        // The same part of all of them, so that one content's answer can stand for another's.
        let sample = self.sample(&state.case, "fixed");
        for content in fixed_contents(&state.case, self.bench.reference.hash()) {
            let drawn = Drawn { content, mutation: None };
            let mut staged = Staged::new(&state.case, gpu.as_ref());
            staged
                .fill(&state.case, &state.kinds, drawn, content.seed, Some(&constants))
                .map_err(|source| OracleError::Content { scenario: scenario.clone(), source })?;
            let file = self.cache_file(&state.case, &content, false);
            let reference = match self.kept(&file, &state.case, sample) {
                Some(outputs) => outputs,
                None => {
                    if !std::mem::replace(&mut told, true) {
                        sink.on(&Event::Referencing { scenario: scenario.clone() });
                    }
                    let outputs = self.compute(&state.case, &staged, false, sample)?;
                    self.keep(&file, &outputs);
                    outputs
                }
            };
            let sent = Sent {
                entry: Entry::Main,
                case: &state.case,
                kinds: &state.kinds,
                staged: std::slice::from_ref(&staged),
                slots: &[0],
                mode: Mode::Warm,
                // Only the outputs count, and a seed that waits for the device inside the call may.
                column: Column::Call,
                deadline: PATIENCE,
            };
            let returned = request::send(seed, &sent, &mut self.sweeper).map_err(failed)?;
            let model = match self.bench.model.is_some() {
                true => Some(self.model(&state.case, &staged, &content, reference.sample)?),
                false => None,
            };
            if let Some(took) = returned.answer.inner.first() {
                // The first call of a process is longer than any other.
                let took = took.as_nanos() as f64;
                state.seed_ns = Some(state.seed_ns.map_or(took, |known| known.min(took)));
            }
            if let Some(outputs) = returned.outputs.first() {
                compare::extend_yardstick(state, &reference, outputs, model.as_ref(), content.distribution);
            }
            state.fixed.push(FixedContent { content, reference });
        }
        Ok(())
    }

    /// The precision model's outputs on a fixed content, from the cache if it has them.
    fn model(
        &mut self,
        case: &Case,
        staged: &Staged,
        content: &Content,
        sample: Option<Sample>,
    ) -> Result<Outputs, OracleError> {
        let file = self.cache_file(case, content, true);
        if let Some(outputs) = self.kept(&file, case, sample) {
            return Ok(outputs);
        }
        let outputs = self.compute(case, staged, true, sample)?;
        self.keep(&file, &outputs);
        Ok(outputs)
    }

    /// Outputs from the cache. What a GPU computes is computed again instead: that is quicker than reading it. A part of an
    /// answer is nobody else's.
    fn kept(&self, file: &Path, case: &Case, sample: Option<Sample>) -> Option<Outputs> {
        if self.bench.gpu.is_some() || sample.is_some() { None } else { read_outputs(file, case) }
    }
    fn keep(&self, file: &Path, outputs: &Outputs) {
        if self.bench.gpu.is_none() && outputs.sample.is_none() {
            write_outputs(file, outputs);
        }
    }

    /// The outputs of the reference (or of the precision model) on one content, or the part of them that is asked for.
    ///
    /// # Errors
    /// When the reference fails.
    pub fn compute(
        &mut self,
        case: &Case,
        staged: &Staged,
        model: bool,
        sample: Option<Sample>,
    ) -> Result<Outputs, OracleError> {
        let failed = |source| OracleError::Reference { scenario: case.id.clone(), source };
        let mut worker = match self.worker.take() {
            Some((worker, mapped)) if mapped == case.id => worker,
            Some((mut worker, _)) => {
                worker.map(case, 1, PATIENCE).map_err(failed)?;
                worker
            }
            None => {
                let started = self.started.take().map_or_else(|| self.bench.start_reference(), Ok);
                let mut worker = started.and_then(|started| self.bench.load(started)).map_err(failed)?;
                worker.map(case, 1, PATIENCE).map_err(failed)?;
                worker
            }
        };
        let mut outputs = Outputs::default();
        if let Some(arena) = worker.arena_mut() {
            let kinds = StorageKinds::of(case);
            staged.load_all(case, &kinds, arena).map_err(failed)?;
            if sample.is_some() {
                leave_open(arena, case, &kinds).map_err(failed)?;
            }
        }
        let entry = match (model, sample) {
            (false, None) => Entry::Main,
            (true, None) => Entry::Model,
            (false, Some(sample)) => Entry::Sampled(sample),
            (true, Some(sample)) => Entry::ModelSampled(sample),
        };
        let answer = worker
            .call(entry, &[0], PATIENCE, |arena, _| {
                outputs = match arena {
                    Arena::Host(arena) => Outputs::gather(case, |storage| arena.data(0, storage)),
                    Arena::Gpu(arena) => gpu_slots::gather(arena, case, 0),
                };
            })
            .map_err(failed)?;
        self.worker = Some((worker, case.id.clone()));
        outputs.sample = sample;
        match answer.statuses.first() {
            // Fewer units of work than one is wanted of.
            Some(Status::Ok) if sample.is_some() && !has_answers(case, &outputs) => {
                self.compute(case, staged, model, None)
            }
            Some(Status::Ok) => Ok(outputs),
            other => Err(OracleError::Status {
                scenario: case.id.clone(),
                status: other.copied().unwrap_or(Status::Unknown(-1)),
            }),
        }
    }

    fn cache_file(&self, case: &Case, content: &Content, model: bool) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        // The generators are part of what the outputs depend on: their name is versioned.
        for part in [
            self.bench.reference.hash(),
            kernelseek_numerics::rng::STREAM,
            &serde_json::to_string(case).unwrap_or_default(),
            &format!("{content:?}"),
            if model { "model" } else { "reference" },
        ] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        self.cache.join(format!("{}.out", hasher.finalize().to_hex()))
    }
}

/// Of how many units of the reference's work one is asked for; 1 is all of them. What is cheap is asked for whole, as are
/// problems that do not say what a call costs, and outputs in which nothing can mark what was left out: no floats, or storage that
/// holds an input too.
#[must_use]
fn one_in(case: &Case) -> u32 {
    let kinds = StorageKinds::of(case);
    let marked = |t: &TensorCase| {
        !t.role.is_output()
            || !t.is_present()
            || t.dtype.is_float() && t.storage.is_some_and(|storage| kinds.only_written(case, storage))
    };
    let flops = case.flops.filter(|_| case.tensors.iter().all(marked)).unwrap_or(0.0);
    ((flops / WHOLE) as u32).clamp(1, FEWEST)
}

/// Makes NaN of the outputs in the first slot of the reference's arena: what it is not asked for stays so. All bits set are NaN
/// in every float type, and one that no arithmetic gives.
fn leave_open(arena: &mut Arena, case: &Case, kinds: &StorageKinds) -> Result<(), DeviceError> {
    for storage in (0..case.storages.len()).filter(|&s| kinds.only_written(case, s)) {
        match arena {
            Arena::Host(arena) => arena.data_mut(0, storage).fill(0xFF),
            Arena::Gpu(arena) => gpu_slots::set(arena, 0, storage, 0xFF)?,
        }
    }
    Ok(())
}

/// Whether every output that holds anything has an answer.
fn has_answers(case: &Case, outputs: &Outputs) -> bool {
    case.tensors.iter().zip(&outputs.tensors).filter(|(_, data)| !data.is_empty()).all(|(tensor, data)| {
        Data::compare_asked(tensor.dtype, data, data, outputs.asked()).is_ok_and(|summary| summary.count > 0)
    })
}

/// The fixed contents of a case: each distribution that any of its tensors knows, nominal ones up to four.
#[must_use]
pub fn fixed_contents(case: &Case, salt: &str) -> Vec<Content> {
    let families = kernelseek_numerics::content::stress_families(case);
    let mut distributions = vec![Distribution::Nominal];
    distributions.extend(families.into_iter().map(Distribution::Stress));
    while distributions.len() < FIXED {
        distributions.push(Distribution::Nominal);
    }
    distributions
        .into_iter()
        .enumerate()
        .map(|(index, distribution)| {
            let mut hasher = blake3::Hasher::new();
            hasher.update(salt.as_bytes()).update(case.id.as_bytes()).update(&[index as u8]);
            let mut seed = [0; 8];
            hasher.finalize_xof().fill(&mut seed);
            Content { distribution, seed: u64::from_le_bytes(seed) }
        })
        .collect()
}

/// Reads cached outputs; anything that does not fit is as good as absent.
fn read_outputs(file: &Path, case: &Case) -> Option<Outputs> {
    let bytes = std::fs::read(file).ok()?;
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(32)?)?;
    if blake3::hash(body).as_bytes() != sum {
        return None;
    }
    let mut rest = body;
    let mut tensors = Vec::new();
    for tensor in &case.tensors {
        let wanted = if tensor.role.is_output() && tensor.is_present() {
            tensor.len() * tensor.dtype.size()
        } else {
            0
        };
        let (bytes, tail) = rest.split_at_checked(wanted)?;
        tensors.push(Data::Host(bytes.to_vec()));
        rest = tail;
    }
    rest.is_empty().then_some(Outputs { tensors, sample: None })
}

/// Writes outputs to the cache. A cache that cannot be written only costs time.
fn write_outputs(file: &Path, outputs: &Outputs) {
    let mut bytes: Vec<u8> = outputs.tensors.iter().flat_map(|data| data.bytes().into_owned()).collect();
    let sum = blake3::hash(&bytes);
    bytes.extend_from_slice(sum.as_bytes());
    let Some(folder) = file.parent() else { return };
    let temporary = file.with_extension(format!("tmp{}", std::process::id()));
    if std::fs::create_dir_all(folder).is_ok() && std::fs::write(&temporary, bytes).is_ok() {
        let _ = std::fs::rename(&temporary, file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::case::{Role, Storage};
    use kernelseek_core::dtype::DType;

    fn case(flops: Option<f64>, outputs: &[(Role, DType)]) -> Case {
        let tensor = |(index, &(role, dtype)): (usize, &(Role, DType))| TensorCase {
            name: format!("y{index}"),
            role,
            dtype,
            shape: vec![4],
            stride: vec![1],
            offset: 0,
            storage: Some(index),
            generator: None,
            stress: vec![],
            extreme: 1.0,
            garbage: None,
        };
        let storage = |(index, &(_, dtype)): (usize, &(Role, DType))| Storage {
            name: format!("y{index}"),
            dtype,
            elements: 4,
            misalign: 0,
        };
        Case {
            id: "s".into(),
            tags: vec![],
            tensors: outputs.iter().enumerate().map(tensor).collect(),
            storages: outputs.iter().enumerate().map(storage).collect(),
            attributes: vec![],
            flops,
            bytes: None,
            tolerance: vec![],
        }
    }

    #[test]
    fn a_part_is_asked_for_where_the_whole_is_dear_and_what_is_missing_can_be_marked() {
        let float = (Role::Output, DType::Bf16);
        for (flops, outputs, expected) in [
            (None, vec![float], 1),
            (Some(1e9), vec![float], 1),
            (Some(3.9e10), vec![float], 1),
            (Some(4e10), vec![float], 2),
            (Some(1e15), vec![float], 16),
            (Some(f64::INFINITY), vec![float, (Role::Output, DType::F8E4m3)], 16),
            (Some(1e15), vec![float, (Role::Output, DType::I32)], 1),
            (Some(1e15), vec![float, (Role::Inout, DType::F32)], 1),
            (Some(1e15), vec![float, (Role::Varying, DType::I32)], 16),
        ] {
            assert_eq!(one_in(&case(flops, &outputs)), expected, "{flops:?} {outputs:?}");
        }
    }

    #[test]
    fn an_answer_to_nothing_is_none() {
        let case = case(Some(1e15), &[(Role::Output, DType::F32)]);
        let answer = |values: [f32; 4]| Outputs {
            tensors: vec![values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>().into()],
            sample: Some(Sample { key: 1, one_in: 16 }),
        };
        let open = f32::from_bits(u32::MAX);
        assert!(!has_answers(&case, &answer([open; 4])));
        assert!(has_answers(&case, &answer([open, open, f32::NEG_INFINITY, open])));
        assert!(has_answers(&case, &answer([open, 0.0, open, open])));
    }
}
