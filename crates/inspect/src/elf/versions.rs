//! Which version of which library an import asks for. Versions only word messages, so a broken table costs the
//! wording and not the facts.

use std::collections::HashMap;

use object::elf::{Vernaux, Verneed, Versym};
use object::{Endianness, Pod, StringTable};

use super::image::Image;

/// More than any library declares; keeps a table whose lists overlap from costing more than it is long.
const ENTRIES: usize = 4096;

/// Version needs by index, and the index of each symbol.
#[derive(Default)]
pub(super) struct Versions<'d> {
    symbols: &'d [Versym<Endianness>],
    needs: HashMap<u16, (&'d [u8], &'d [u8])>,
}

impl<'d> Versions<'d> {
    /// Reads `DT_VERSYM` and `DT_VERNEED` at their addresses.
    pub(super) fn read(
        image: &Image<'d>,
        versym: u64,
        symbols: u64,
        verneed: u64,
        strings: StringTable<'d>,
    ) -> Self {
        let mut out = Self { symbols: image.table(versym, symbols), needs: HashMap::new() };
        if let Some(data) = image.at(verneed) {
            out.needs(data, image.endian, strings);
        }
        out
    }

    /// Walks the list of libraries and, for each, its list of versions. Returns early at whatever is broken.
    fn needs(&mut self, data: &'d [u8], endian: Endianness, strings: StringTable<'d>) -> Option<()> {
        let (mut at, mut steps) = (0usize, 0);
        loop {
            let need: &Verneed<Endianness> = entry(data, at)?;
            let library = strings.get(need.vn_file.get(endian)).ok()?;
            let mut aux_at = at.checked_add(need.vn_aux.get(endian) as usize)?;
            loop {
                steps += 1;
                if steps > ENTRIES {
                    return None;
                }
                let aux: &Vernaux<Endianness> = entry(data, aux_at)?;
                let version = strings.get(aux.vna_name.get(endian)).ok()?;
                self.needs.insert(aux.vna_other.get(endian).0, (version, library));
                match aux.vna_next.get(endian) {
                    0 => break,
                    next => aux_at = aux_at.checked_add(next as usize)?,
                }
            }
            match need.vn_next.get(endian) {
                0 => return Some(()),
                next => at = at.checked_add(next as usize)?,
            }
        }
    }

    /// Version and library that the symbol at `index` asks for.
    pub(super) fn of(&self, endian: Endianness, index: usize) -> Option<(&'d [u8], &'d [u8])> {
        let version = self.symbols.get(index)?.0.get(endian).index();
        self.needs.get(&version.0).copied()
    }
}

fn entry<T: Pod>(data: &[u8], at: usize) -> Option<&T> {
    object::pod::from_bytes(data.get(at..)?).ok().map(|(entry, _)| entry)
}
