//! The file as the loader maps it: addresses to bytes.

use object::elf;
use object::read::elf::ProgramHeader;
use object::{Endianness, Pod};

/// A file and its program headers.
pub(super) struct Image<'d> {
    pub(super) bytes: &'d [u8],
    pub(super) endian: Endianness,
    pub(super) segments: &'d [elf::ProgramHeader64<Endianness>],
}

impl<'d> Image<'d> {
    /// The loadable segments.
    pub(super) fn loads(&self) -> impl DoubleEndedIterator<Item = &'d elf::ProgramHeader64<Endianness>> {
        let endian = self.endian;
        self.segments.iter().filter(move |s| s.p_type(endian) == elf::PT_LOAD)
    }

    /// File bytes from `address` to the end of the segment that holds it: the last one, which is mapped over the
    /// others.
    pub(super) fn at(&self, address: u64) -> Option<&'d [u8]> {
        self.loads().rev().find_map(|s| {
            let start = s.p_vaddr(self.endian);
            let data = s.data(self.endian, self.bytes).ok()?;
            let offset = usize::try_from(address.checked_sub(start)?).ok()?;
            (offset < data.len()).then(|| &data[offset..])
        })
    }

    /// `count` entries of a table at `address`, fewer if the file ends before.
    pub(super) fn table<T: Pod>(&self, address: u64, count: u64) -> &'d [T] {
        let Some(data) = self.at(address) else { return &[] };
        let fits = data.len() / size_of::<T>().max(1);
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(fits);
        object::pod::slice_from_bytes(data, count).map(|(slice, _)| slice).unwrap_or_default()
    }
}
