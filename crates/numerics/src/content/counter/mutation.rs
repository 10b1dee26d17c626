//! Same pointer, new content, by counter: the twin of `ks_mutation` in the device crate.

use super::super::{ContentError, view_of};
use super::plan::{Key, Plan, below};
use super::{Placement, element_bits};
use crate::rng::{Pcg64, Purpose};
use kernelseek_core::case::{Case, Generator, Role};
use kernelseek_core::dtype::DType;

/// Draws that are tried until one differs from what is there.
pub(super) const TRIES: u64 = 8;
/// Elements that are looked at where the choice of places changed nothing.
pub(super) const LOOKS: u64 = 4096;

/// Which elements are redrawn, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Mutation {
    pub(super) places: Key,
    pub(super) forced: u64,
    pub(super) unused: Option<u64>,
    pub(super) flat: Option<f64>,
}

impl Mutation {
    /// The structure as the kernels take it: `ks_mutation`.
    #[must_use]
    pub fn words(&self) -> Vec<u64> {
        let [place0, place1] = self.places.0;
        let (unused, flat) = (self.unused, self.flat);
        vec![
            place0,
            place1,
            self.forced,
            u64::from(unused.is_some()),
            unused.unwrap_or(0),
            u64::from(flat.is_some()),
            flat.unwrap_or(0.0).to_bits(),
            0,
        ]
    }

    /// Element number `attempt` to look at where nothing was changed.
    pub(super) const fn look(&self, attempt: u64, count: u64) -> u64 {
        let [a, b] = self.places.0;
        below(Key([b, a]).bits(attempt), count)
    }
}

/// One tensor's mutation.
#[derive(Debug, Clone, PartialEq)]
pub struct MutationStep {
    /// Storage.
    pub storage: usize,
    /// Element type.
    pub dtype: DType,
    /// Elements.
    pub placement: Placement,
    /// The draws.
    pub plan: Plan,
    /// Which elements.
    pub mutation: Mutation,
}

/// What redraws about one element in 64, at least one where the generator can, of every varying float input, in
/// place. Integers and scales keep their values, and so does unused storage.
///
/// # Errors
/// As [`super::steps`].
pub fn mutations(case: &Case, seed: u64) -> Result<Vec<MutationStep>, ContentError> {
    let mut steps = Vec::new();
    for (index, tensor) in case.tensors.iter().enumerate() {
        let Some(storage) = tensor.storage else { continue };
        let (Role::Varying, Some(generator)) = (tensor.role, &tensor.generator) else { continue };
        let flat = match generator {
            Generator::Normal { .. } | Generator::Uniform { .. } => None,
            // What is stored of a quantised tensor is in units of its scale.
            Generator::Quantised { fraction, .. } => Some(fraction * tensor.dtype.max_finite()),
            _ => continue,
        };
        view_of(case, tensor, storage)?;
        let placement = Placement::unique(tensor)?;
        if placement.is_empty() {
            continue;
        }
        let mut choice = Pcg64::for_tensor(!seed, index, Purpose::Mutation);
        steps.push(MutationStep {
            storage,
            dtype: tensor.dtype,
            plan: Plan::nominal(tensor, seed, index, Purpose::Mutation)?,
            mutation: Mutation {
                places: Key::new(!seed, index, Purpose::Mutation),
                forced: choice.below(placement.len() as u64),
                unused: tensor.garbage.as_ref().map(|g| element_bits(tensor.dtype, g.value)),
                flat,
            },
            placement,
        });
    }
    Ok(steps)
}
