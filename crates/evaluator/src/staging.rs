//! The supervisor's own copy of what a request is called on: the master that both sides are loaded from and that
//! inputs are compared with afterwards.

use crate::gpu_staging::GpuStaged;
use kernelseek_core::case::{Case, Role};
use kernelseek_device::arena::{Arena, HostArena};
use kernelseek_device::client::DeviceError;
use kernelseek_device::cuda::gpu::Gpu;
use kernelseek_numerics::content::{self, Content, Distribution, SlotBuffers};
use kernelseek_numerics::poison;
use std::rc::Rc;

/// A content and, optionally, a small random subset of its elements changed afterwards: the probe for outputs that
/// are remembered by pointer or by a cheap fingerprint of their inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drawn {
    /// The content.
    pub content: Content,
    /// Seed of the changed subset.
    pub mutation: Option<u64>,
}

/// The nominal content with this seed.
pub(crate) const fn nominal(seed: u64) -> Content {
    Content { distribution: Distribution::Nominal, seed }
}

/// One slot's bytes, or what they are drawn from where a GPU draws them.
#[derive(Debug, Clone)]
pub struct Staged {
    /// Bytes of each storage; none on a GPU.
    pub storages: Vec<Vec<u8>>,
    /// What a GPU draws, instead of bytes.
    pub gpu: Option<GpuStaged>,
    /// What they were drawn from.
    pub drawn: Drawn,
    /// Seed of the poison in storages that the call writes.
    pub poison: u64,
}

/// Which storages of a case hold only inputs, and which are constant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageKinds {
    /// No tensor of the storage is written by the call.
    pub read_only: Vec<bool>,
    /// Some tensor of the storage is a pure output.
    pub poisoned: Vec<bool>,
}

impl StorageKinds {
    /// Classifies the storages of `case`.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        let any = |index: usize, test: &dyn Fn(Role) -> bool| {
            case.tensors.iter().any(|t| t.storage == Some(index) && test(t.role))
        };
        let count = case.storages.len();
        Self {
            read_only: (0..count).map(|i| !any(i, &Role::is_output)).collect(),
            poisoned: (0..count).map(|i| any(i, &|r| r == Role::Output)).collect(),
        }
    }

    /// Whether no call may expect anything in the storage: all of its tensors are pure outputs.
    #[must_use]
    pub fn only_written(&self, case: &Case, storage: usize) -> bool {
        self.poisoned[storage]
            && case.tensors.iter().filter(|t| t.storage == Some(storage)).all(|t| t.role == Role::Output)
    }
}

impl Staged {
    /// Zeroed buffers for `case`; with a GPU, nothing yet.
    #[must_use]
    pub fn new(case: &Case, gpu: Option<&Rc<Gpu>>) -> Self {
        let bytes = |bytes: usize| if gpu.is_some() { Vec::new() } else { vec![0; bytes] };
        Self {
            storages: case.storages.iter().map(|s| bytes(s.bytes())).collect(),
            gpu: gpu.map(|_| GpuStaged::default()),
            drawn: Drawn { content: nominal(0), mutation: None },
            poison: 0,
        }
    }

    /// Draws the content. Storages that the call writes are poisoned first. With `constants`, constant storages
    /// take its bytes instead of the drawn ones.
    ///
    /// # Errors
    /// When a generator cannot produce what the case asks for.
    pub fn fill(
        &mut self,
        case: &Case,
        kinds: &StorageKinds,
        drawn: Drawn,
        poison_seed: u64,
        constants: Option<&Constants>,
    ) -> Result<(), content::ContentError> {
        if let Some(gpu) = &mut self.gpu {
            *gpu = GpuStaged::draw(case, drawn)?.with_constants(constants.and_then(|c| c.gpu.as_ref()));
            self.drawn = drawn;
            self.poison = poison_seed;
            return Ok(());
        }
        for ((bytes, storage), poisoned) in self.storages.iter_mut().zip(&case.storages).zip(&kinds.poisoned)
        {
            if *poisoned {
                poison::fill_poison(storage.dtype, bytes, poison_seed);
            }
        }
        let mut buffers = SlotBuffers::new(self.storages.iter_mut().map(Vec::as_mut_slice).collect());
        content::fill(case, drawn.content, &mut buffers)?;
        if let Some(seed) = drawn.mutation {
            content::mutate_subset(case, &mut buffers, seed)?;
        }
        if let Some(constants) = constants {
            for (storage, bytes) in self.storages.iter_mut().zip(&constants.storages) {
                if let Some(bytes) = bytes {
                    storage.copy_from_slice(bytes);
                }
            }
        }
        self.drawn = drawn;
        self.poison = poison_seed;
        Ok(())
    }

    /// Writes the contents into their slots of an arena. Constant storages are left alone: [`Constants::load`] writes them.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn load(
        all: &[Self],
        slots: &[u32],
        case: &Case,
        kinds: &StorageKinds,
        arena: &mut Arena,
    ) -> Result<(), DeviceError> {
        let each = all.iter().zip(slots).map(|(staged, &slot)| (staged, slot as usize));
        match arena {
            Arena::Host(arena) => {
                let constant = arena.layout().constant.clone();
                for (staged, slot) in each {
                    staged.copy_into(arena, slot, |index| !constant.get(index).copied().unwrap_or(false));
                }
                Ok(())
            }
            Arena::Gpu(arena) => {
                let drawn: Vec<_> = each
                    .filter_map(|(staged, slot)| Some((staged.gpu.as_ref()?, staged.poison, slot)))
                    .collect();
                Ok(GpuStaged::load(&drawn, case, kinds, arena)?)
            }
        }
    }

    /// Writes the content into the first slot of an arena, constant storages too: for the reference.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn load_all(&self, case: &Case, kinds: &StorageKinds, arena: &mut Arena) -> Result<(), DeviceError> {
        match arena {
            Arena::Host(arena) => {
                self.copy_into(arena, 0, |_| true);
                Ok(())
            }
            Arena::Gpu(arena) => {
                let Some(staged) = &self.gpu else { return Ok(()) };
                GpuStaged::load(&[(staged, self.poison, 0)], case, kinds, arena)?;
                Ok(staged.load_constants(case, arena)?)
            }
        }
    }

    fn copy_into(&self, arena: &mut HostArena, slot: usize, wanted: impl Fn(usize) -> bool) {
        for (index, bytes) in self.storages.iter().enumerate().filter(|(index, _)| wanted(*index)) {
            arena.data_mut(slot, index).copy_from_slice(bytes);
        }
    }
}

/// Content of the constant storages, the same for every slot of a pool.
#[derive(Debug, Clone, Default)]
pub struct Constants {
    storages: Vec<Option<Vec<u8>>>,
    gpu: Option<GpuStaged>,
    constant: Vec<bool>,
    /// Seed they were drawn from.
    pub seed: u64,
}

impl Constants {
    /// Draws the constant storages of `case`; `constant` says which they are.
    ///
    /// # Errors
    /// When a generator cannot produce what the case asks for.
    pub fn draw(
        case: &Case,
        constant: &[bool],
        seed: u64,
        gpu: Option<&Rc<Gpu>>,
    ) -> Result<Self, content::ContentError> {
        let none =
            Self { storages: vec![None; constant.len()], gpu: None, constant: constant.to_vec(), seed };
        if !constant.iter().any(|&c| c) {
            return Ok(none);
        }
        if gpu.is_some() {
            let drawn = Drawn { content: nominal(seed), mutation: None };
            return Ok(Self { gpu: Some(GpuStaged::draw(case, drawn)?), ..none });
        }
        let mut staged: Vec<Vec<u8>> = case.storages.iter().map(|s| vec![0; s.bytes()]).collect();
        let mut buffers = SlotBuffers::new(staged.iter_mut().map(Vec::as_mut_slice).collect());
        content::fill(case, nominal(seed), &mut buffers)?;
        let storages = staged.into_iter().zip(constant).map(|(bytes, &c)| c.then_some(bytes)).collect();
        Ok(Self { storages, ..none })
    }
    /// Whether there is anything constant.
    #[must_use]
    pub fn any(&self) -> bool {
        self.constant.iter().any(|&c| c)
    }
    /// Writes them into an arena.
    ///
    /// # Errors
    /// When the GPU fails.
    pub fn load(&self, case: &Case, arena: &mut Arena) -> Result<(), DeviceError> {
        match arena {
            Arena::Host(arena) => {
                for (index, bytes) in self.storages.iter().enumerate() {
                    if let Some(bytes) = bytes {
                        arena.data_mut(0, index).copy_from_slice(bytes);
                    }
                }
                Ok(())
            }
            Arena::Gpu(arena) => {
                self.gpu.as_ref().map_or(Ok(()), |staged| Ok(staged.load_own_constants(case, arena)?))
            }
        }
    }
}
