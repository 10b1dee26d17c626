//! A content as a GPU draws it: what to write, not the bytes.

use crate::staging::{Drawn, StorageKinds};
use kernelseek_core::case::Case;
use kernelseek_core::dtype::DType;
use kernelseek_device::cuda::arena::GpuArena;
use kernelseek_device::cuda::error::Result;
use kernelseek_device::cuda::helpers::Range;
use kernelseek_device::cuda::memory::Address;
use kernelseek_numerics::content::ContentError;
use kernelseek_numerics::content::counter::{self, MutationStep, Step};
use std::rc::Rc;

/// What a GPU writes into the inputs of one slot. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct GpuStaged {
    steps: Rc<[Step]>,
    mutations: Rc<[MutationStep]>,
    /// What constant storages are written from, if not from these steps.
    constants: Option<Rc<[Step]>>,
}

impl GpuStaged {
    /// What must be written for this content.
    ///
    /// # Errors
    /// When a generator cannot produce what the case asks for.
    pub fn draw(case: &Case, drawn: Drawn) -> std::result::Result<Self, ContentError> {
        let steps = counter::steps(case, drawn.content, |_| true, |_| None)?;
        let mutations = match drawn.mutation {
            Some(seed) => counter::mutations(case, seed)?,
            None => Vec::new(),
        };
        Ok(Self { steps: steps.into(), mutations: mutations.into(), constants: None })
    }

    /// The same with constant storages written from another draw.
    #[must_use]
    pub fn with_constants(self, other: Option<&Self>) -> Self {
        Self { constants: other.map(|o| o.steps.clone()), ..self }
    }

    /// Writes slots, each from what is staged for it and its poison: the poison of all of them in one go, where the calls write,
    /// then the inputs. Constant storages are left alone.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load(
        all: &[(&Self, u64, usize)],
        case: &Case,
        kinds: &StorageKinds,
        arena: &GpuArena,
    ) -> Result<()> {
        let (gpu, constant) = (arena.gpu(), &arena.layout().constant);
        let mut poisoned: Vec<Range> = Vec::new();
        for &(_, poison, slot) in all {
            let written = case.storages.iter().enumerate().filter(|(index, _)| kinds.poisoned[*index]);
            poisoned.extend(written.map(|(index, storage)| range(arena, slot, index, poison, storage.dtype)));
        }
        if !poisoned.is_empty() {
            gpu.helpers().poison(&poisoned, gpu.stream())?;
        }
        let is_constant = |storage: usize| constant.get(storage).copied().unwrap_or(false);
        for &(staged, _, slot) in all {
            let storages = addresses(arena, slot, case);
            for step in staged.steps.iter().filter(|step| !is_constant(step.storage)) {
                gpu.helpers().fill(std::slice::from_ref(step), &storages, gpu.stream())?;
            }
            if !staged.mutations.is_empty() {
                let changed = gpu.block(8 * staged.mutations.len())?;
                gpu.helpers().mutate(&staged.mutations, &storages, changed.address(), gpu.stream())?;
            }
        }
        Ok(())
    }

    /// Writes the constant storages, which all slots share, from what they were said to be drawn from.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load_constants(&self, case: &Case, arena: &GpuArena) -> Result<()> {
        Self::write_constants(self.constants.as_deref().unwrap_or(&self.steps), case, arena)
    }

    /// Writes the constant storages from this draw itself.
    ///
    /// # Errors
    /// What the driver says.
    pub fn load_own_constants(&self, case: &Case, arena: &GpuArena) -> Result<()> {
        Self::write_constants(&self.steps, case, arena)
    }

    fn write_constants(steps: &[Step], case: &Case, arena: &GpuArena) -> Result<()> {
        let (gpu, constant) = (arena.gpu(), &arena.layout().constant);
        let storages = addresses(arena, 0, case);
        let is_constant = |storage: usize| constant.get(storage).copied().unwrap_or(false);
        for step in steps.iter().filter(|step| is_constant(step.storage)) {
            gpu.helpers().fill(std::slice::from_ref(step), &storages, gpu.stream())?;
        }
        Ok(())
    }
}

/// Addresses of the storages of one slot.
pub(crate) fn addresses(arena: &GpuArena, slot: usize, case: &Case) -> Vec<Address> {
    (0..case.storages.len()).map(|index| arena.data(slot, index).address).collect()
}

/// One storage as a range with a pattern.
pub(crate) fn range(arena: &GpuArena, slot: usize, storage: usize, seed: u64, dtype: DType) -> Range {
    let span = arena.data(slot, storage);
    Range { address: span.address, bytes: span.bytes, seed, dtype }
}
