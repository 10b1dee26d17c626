//! GPU code in a file: fatbin containers and their entries, the kernels of each cubin, and what lies where no
//! compiler puts it.
//!
//! Bytes count, not section names: a container is found by its header wherever it lies. What is packed or encrypted
//! cannot be found this way; the rules look at who registers code with the runtime as well.

pub mod cubin;
pub mod fatbin;
mod stray;

use serde::{Deserialize, Serialize};

pub use cubin::{Cubin, Function};
pub use fatbin::{Container, Entry, EntryKind};
pub use stray::{Stray, StrayKind};

use crate::elf::{self, SectionPlace};

/// More containers than this are not read one by one; a build makes one per source file.
const CONTAINERS: usize = 256;

/// The GPU code of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Fatbin containers, in file order.
    pub containers: Vec<Container>,
    /// The file itself, if it is a cubin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cubin: Option<Cubin>,
    /// GPU code outside of every container.
    pub stray: Vec<Stray>,
    /// Containers that were found but not read, because there are too many.
    #[serde(default)]
    pub unread: usize,
}

/// One function of GPU code as a compiler emitted it: what a linked library is compared with.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DeviceObject {
    /// `sm_90a`.
    pub arch: String,
    /// Name as in the cubin (mangled).
    pub name: String,
    /// Hash of its instructions, hexadecimal.
    pub code: String,
}

impl DeviceFacts {
    /// Whether there is no GPU code at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containers.is_empty() && self.cubin.is_none() && self.stray.is_empty()
    }

    /// Every cubin that could be read, also those without a kernel.
    pub fn cubins(&self) -> impl Iterator<Item = &Cubin> {
        self.containers
            .iter()
            .flat_map(|c| &c.entries)
            .filter_map(|e| e.cubin.as_ref())
            .chain(self.cubin.as_ref())
    }

    /// Every kernel with its architecture, in file order.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, &Function)> {
        self.cubins().flat_map(|c| c.functions.iter().filter(|f| f.kernel).map(|f| (c.arch.as_str(), f)))
    }

    /// What a compile emitted, to be compared with what a linked library holds: sorted, each once.
    #[must_use]
    pub fn objects(&self) -> Vec<DeviceObject> {
        let mut out: Vec<DeviceObject> =
            self.cubins().flat_map(|c| c.functions.iter().map(|f| c.object(f))).collect();
        out.sort();
        out.dedup();
        out
    }
}

/// The GPU code of an ELF file (library, object file or cubin) or of a bare fatbin. Never fails: what cannot be read
/// is told in [`Container::fault`] and [`Entry::fault`].
#[must_use]
pub fn facts(bytes: &[u8]) -> DeviceFacts {
    let mut out = DeviceFacts::default();
    if cubin::is_cubin(bytes) {
        // What lies inside of a cubin is its own business: debug sections hold PTX text, for one.
        out.cubin = cubin::read(bytes, None).ok();
        if out.cubin.is_some() {
            return out;
        }
    }
    let places = elf::section_places(bytes);
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(fatbin::find) {
        let start = at + found;
        if out.containers.len() == CONTAINERS {
            out.unread += 1;
            at = start + fatbin::HEADER;
            continue;
        }
        let container = fatbin::read(bytes, start, section_at(&places, start));
        // A container that says more than the file has must not hide what follows its header.
        at = if container.fault.is_some() { start + fatbin::HEADER } else { container.end() };
        out.containers.push(container);
    }
    out.stray = stray::find(bytes, &out.containers, |at| section_at(&places, at));
    out
}

fn section_at(places: &[SectionPlace], offset: usize) -> Option<String> {
    let offset = offset as u64;
    places.iter().find(|p| p.offset <= offset && offset - p.offset < p.size).map(|p| p.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_nothing() {
        assert!(facts(&[]).is_empty());
        assert!(facts(b"\x7fELF").is_empty());
        assert_eq!(facts(&[]).objects(), []);
    }

    proptest! {
        #[test]
        fn any_bytes_after_a_magic(tail in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut bytes = vec![7; 13];
            bytes.extend(fatbin::MAGIC);
            bytes.extend(&tail);
            let found = facts(&bytes);
            prop_assert_eq!(found.containers.len() + found.unread >= 1, true);
            prop_assert!(found.containers[0].offset == 13);
        }
    }
}
