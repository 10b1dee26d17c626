//! The supervisor's own copy of what a request is called on: the master that both sides are loaded from and that
//! inputs are compared with afterwards.

use kernelseek_core::case::{Case, Role};
use kernelseek_device::arena::Arena;
use kernelseek_numerics::content::{self, Content, Distribution, SlotBuffers};
use kernelseek_numerics::poison;

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
const fn nominal(seed: u64) -> Content {
    Content { distribution: Distribution::Nominal, seed }
}

/// One slot's bytes.
#[derive(Debug, Clone)]
pub struct Staged {
    /// Bytes of each storage.
    pub storages: Vec<Vec<u8>>,
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
    /// Zeroed buffers for `case`.
    #[must_use]
    pub fn new(case: &Case) -> Self {
        Self {
            storages: case.storages.iter().map(|s| vec![0; s.bytes()]).collect(),
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

    /// Copies the bytes into `slot` of an arena. Constant storages are left alone: [`Constants::load`] writes them.
    pub fn load(&self, arena: &mut Arena, slot: usize) {
        for (index, bytes) in self.storages.iter().enumerate() {
            if !arena.layout().constant.get(index).copied().unwrap_or(false) {
                arena.data_mut(slot, index).copy_from_slice(bytes);
            }
        }
    }
}

/// Content of the constant storages, the same for every slot of a pool.
#[derive(Debug, Clone, Default)]
pub struct Constants {
    storages: Vec<Option<Vec<u8>>>,
    /// Seed they were drawn from.
    pub seed: u64,
}

impl Constants {
    /// Draws the constant storages of `case`; `constant` says which they are.
    ///
    /// # Errors
    /// When a generator cannot produce what the case asks for.
    pub fn draw(case: &Case, constant: &[bool], seed: u64) -> Result<Self, content::ContentError> {
        if !constant.iter().any(|&c| c) {
            return Ok(Self { storages: vec![None; constant.len()], seed });
        }
        let mut staged: Vec<Vec<u8>> = case.storages.iter().map(|s| vec![0; s.bytes()]).collect();
        let mut buffers = SlotBuffers::new(staged.iter_mut().map(Vec::as_mut_slice).collect());
        content::fill(case, nominal(seed), &mut buffers)?;
        let storages = staged.into_iter().zip(constant).map(|(bytes, &c)| c.then_some(bytes)).collect();
        Ok(Self { storages, seed })
    }
    /// Whether there is anything constant.
    #[must_use]
    pub fn any(&self) -> bool {
        self.storages.iter().any(Option::is_some)
    }
    /// Writes them into an arena.
    pub fn load(&self, arena: &mut Arena) {
        for (index, bytes) in self.storages.iter().enumerate() {
            if let Some(bytes) = bytes {
                arena.data_mut(0, index).copy_from_slice(bytes);
            }
        }
    }
}
