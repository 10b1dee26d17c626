//! Where every storage of every slot lies in an arena.
//!
//! An arena is one memfd. Each storage has a page-aligned region of its own: a redzone, the data, a redzone up
//! to the page's end. The worker maps every region between two inaccessible guard ranges, so a write just past
//! a tensor lands in a redzone (found by its canary) and a write far past it kills the worker.

use kernelseek_core::case::{Case, Role};
use serde::{Deserialize, Serialize};

/// Size of a page; also the smallest redzone on each side of the data.
pub const PAGE: usize = 4096;

/// Inaccessible address space on each side of a region in the worker. A stride that is wrong by rows rather than by
/// elements should still end there and not in the next buffer.
pub const GUARD: usize = 1 << 20;

/// Redzone on each side of the data in device memory: what a write that is wrong by a row or a tile hits.
pub const DEVICE_REDZONE: usize = 64 << 10;

/// Alignment of a storage's data, unless the scenario asks for a misalignment.
pub const ALIGN: usize = 256;

/// One storage's place in the arena file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Page-aligned offset of the region in the file.
    pub offset: usize,
    /// Whole size of the region, a multiple of the page size.
    pub size: usize,
    /// Offset of the data within the region.
    pub data: usize,
    /// Size of the data in bytes.
    pub bytes: usize,
}

impl Region {
    /// Range of the redzone before the data, in file offsets.
    #[must_use]
    pub const fn before(&self) -> (usize, usize) {
        (self.offset, self.offset + self.data)
    }
    /// Range of the data, in file offsets.
    #[must_use]
    pub const fn data_range(&self) -> (usize, usize) {
        (self.offset + self.data, self.offset + self.data + self.bytes)
    }
    /// Range of the redzone after the data, in file offsets.
    #[must_use]
    pub const fn after(&self) -> (usize, usize) {
        (self.offset + self.data + self.bytes, self.offset + self.size)
    }
}

/// Layout of an arena for one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArenaLayout {
    /// Number of slots.
    pub slots: usize,
    /// `regions[slot][storage]`. A constant storage has the same region in every slot.
    pub regions: Vec<Vec<Region>>,
    /// Whether each storage is shared by all slots.
    pub constant: Vec<bool>,
    /// File size in bytes.
    pub bytes: usize,
}

impl ArenaLayout {
    /// Lays `slots` slots of `case` out in pages of this machine.
    #[must_use]
    pub fn new(case: &Case, slots: usize) -> Self {
        Self::with_redzones(case, slots, PAGE)
    }

    /// Lays `slots` slots of `case` out in device memory, which has no guard pages: wide redzones stand in for them.
    #[must_use]
    pub fn on_device(case: &Case, slots: usize) -> Self {
        Self::with_redzones(case, slots, DEVICE_REDZONE)
    }

    fn with_redzones(case: &Case, slots: usize, redzone: usize) -> Self {
        let constant: Vec<bool> = (0..case.storages.len())
            .map(|index| {
                let mut views = case.tensors.iter().filter(|t| t.storage == Some(index)).peekable();
                views.peek().is_some() && views.all(|t| t.role == Role::Constant)
            })
            .collect();
        let mut cursor = 0;
        let mut place = |bytes: usize, misalign: usize| {
            let data = redzone + misalign;
            let size = (data + bytes).next_multiple_of(PAGE) + redzone;
            let region = Region { offset: cursor, size, data, bytes };
            cursor += size;
            region
        };
        let shared: Vec<Option<Region>> = case
            .storages
            .iter()
            .zip(&constant)
            .map(|(s, &constant)| constant.then(|| place(s.bytes(), s.misalign)))
            .collect();
        let regions = (0..slots)
            .map(|_| {
                case.storages
                    .iter()
                    .zip(&shared)
                    .map(|(s, shared)| shared.unwrap_or_else(|| place(s.bytes(), s.misalign)))
                    .collect()
            })
            .collect();
        Self { slots, regions, constant, bytes: cursor.max(PAGE) }
    }

    /// Every region once: constant storages first, then slot by slot.
    pub fn unique_regions(&self) -> impl Iterator<Item = (usize, usize, Region)> + '_ {
        self.regions.iter().enumerate().flat_map(move |(slot, regions)| {
            regions
                .iter()
                .enumerate()
                .filter(move |(storage, _)| slot == 0 || !self.constant[*storage])
                .map(move |(storage, region)| (slot, storage, *region))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::case::{Storage, TensorCase};
    use kernelseek_core::dtype::DType;

    fn case() -> Case {
        let tensor = |name: &str, role, storage| TensorCase {
            name: name.into(),
            role,
            dtype: DType::F32,
            shape: vec![3],
            stride: vec![1],
            offset: 0,
            storage: Some(storage),
            generator: None,
            stress: vec![],
            extreme: 1.0,
            garbage: None,
        };
        let storage =
            |name: &str, misalign| Storage { name: name.into(), dtype: DType::F32, elements: 3, misalign };
        Case {
            id: "s".into(),
            tags: vec![],
            tensors: vec![
                tensor("x", Role::Varying, 0),
                tensor("w", Role::Constant, 1),
                tensor("y", Role::Output, 2),
            ],
            storages: vec![storage("x", 4), storage("w", 0), storage("y", 0)],
            attributes: vec![],
            flops: None,
            bytes: None,
            tolerance: vec![None, None, None],
        }
    }

    #[test]
    fn regions_never_overlap_and_constants_are_shared() {
        let layout = ArenaLayout::new(&case(), 4);
        assert_eq!(layout.constant, [false, true, false]);
        let mut all: Vec<Region> = layout.unique_regions().map(|(_, _, r)| r).collect();
        assert_eq!(all.len(), 1 + 2 * 4);
        all.sort_by_key(|r| r.offset);
        for pair in all.windows(2) {
            assert!(pair[0].offset + pair[0].size <= pair[1].offset);
        }
        for r in &all {
            assert_eq!(r.offset % PAGE, 0);
            assert_eq!(r.size % PAGE, 0);
            assert!(r.before().1 - r.before().0 >= PAGE);
            assert!(r.after().1 - r.after().0 >= PAGE, "at least a page of redzone follows the data");
        }
        assert_eq!(layout.regions[0][1], layout.regions[3][1]);
        assert_eq!((layout.regions[2][0].offset + layout.regions[2][0].data) % ALIGN, 4);
        assert!(layout.bytes >= all.last().map(|r| r.offset + r.size).unwrap());
    }
}
