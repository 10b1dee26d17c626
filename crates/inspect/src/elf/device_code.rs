//! GPU code embedded in a host file: by section name, and by the containers' own magic wherever they lie.

use object::Endianness;
use serde::{Deserialize, Serialize};

use super::{Machine, Section};

/// Embedded GPU code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceCode {
    /// Sections that CUDA's or HIP's tools fill.
    pub sections: Vec<String>,
    /// Fatbin containers found by their magic.
    pub fatbins: usize,
    /// CUDA or AMD GPU ELF images found by their magic.
    pub images: usize,
}

impl DeviceCode {
    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty() && self.fatbins == 0 && self.images == 0
    }
}

const SECTIONS: &[&str] =
    &[".nv_fatbin", ".nvFatBinSegment", "__nv_relfatbin", ".hip_fatbin", ".hipFatBinSegment"];
/// Magic 0xBA55ED50, container version 1, header size 16, all little-endian.
const FATBIN: [u8; 8] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
const ELF: [u8; 5] = [0x7f, b'E', b'L', b'F', 2];
/// `e_machine` of CUDA and AMD GPU images.
const GPU_MACHINES: [u16; 2] = [190, 224];

pub(super) fn find(bytes: &[u8], endian: Endianness, machine: Machine, sections: &[Section]) -> DeviceCode {
    let mut out = DeviceCode {
        sections: sections
            .iter()
            .filter(|s| SECTIONS.contains(&s.name.as_str()))
            .map(|s| s.name.clone())
            .collect(),
        ..DeviceCode::default()
    };
    // Offset 0 is the file itself.
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match *byte {
            0x50 if bytes[at..].starts_with(&FATBIN) => out.fatbins += 1,
            0x7f if bytes[at..].starts_with(&ELF)
                && bytes.get(at + 18..at + 20).is_some_and(|m| is_gpu(m, endian)) =>
            {
                out.images += 1;
            }
            _ => {}
        }
    }
    if let Machine::Other(m) = machine
        && GPU_MACHINES.contains(&m)
    {
        out.images += 1;
    }
    out
}

fn is_gpu(machine: &[u8], endian: Endianness) -> bool {
    let [a, b] = machine else { return false };
    let value = match endian {
        Endianness::Little => u16::from_le_bytes([*a, *b]),
        Endianness::Big => u16::from_be_bytes([*a, *b]),
    };
    GPU_MACHINES.contains(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_without_sections() {
        let mut bytes = vec![0u8; 64];
        bytes.extend(FATBIN);
        bytes.extend([0u8; 32]);
        let mut image = vec![0u8; 64];
        image[..5].copy_from_slice(&ELF);
        image[18] = 190;
        bytes.extend(&image);
        image[18] = 62; // an x86-64 file embedded as data is no GPU code
        bytes.extend(&image);
        let found = find(&bytes, Endianness::Little, Machine::X86_64, &[]);
        assert_eq!((found.fatbins, found.images), (1, 1));
        assert!(find(&[], Endianness::Little, Machine::X86_64, &[]).is_empty());
    }
}
