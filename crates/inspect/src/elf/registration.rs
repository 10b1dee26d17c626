//! Who hands GPU code to the CUDA runtime: the records that the compiler makes, and how often the function that takes
//! them is used.
//!
//! A library that was compiled from one source has one record, and its start-up code calls the function once. A use
//! more is somebody's own: code that was built elsewhere, unpacked and registered by hand.

use std::collections::{HashMap, HashSet};

use object::Endianness;
use object::elf::{self, Rela64};
use object::read::elf::ProgramHeader;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::image::Image;

/// The function that takes a record.
pub(super) const FUNCTION: &[u8] = b"__cudaRegisterFatBinary";
/// Magic of a record, little-endian; a version (1, or 2 for relocatable code) follows, then two pointers.
const MAGIC: [u8; 4] = [0xb1, 0x43, 0x62, 0x46];
const WRAPPER: usize = 24;
/// More records than this are not looked at one by one.
const WRAPPERS: usize = 1024;

// Relocations of x86-64.
const R_64: u32 = 1;
const R_GLOB_DAT: u32 = 6;
const R_JUMP_SLOT: u32 = 7;
const R_RELATIVE: u32 = 8;
// … and of 64-bit ARM.
const R_AARCH64_RELATIVE: u32 = 1027;

/// One record: what the compiler makes for each source file with kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapper {
    /// Where it lies in the file.
    pub offset: u64,
    /// Where in the file the GPU code lies that it names; `None` if that is not told by a relocation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<u64>,
}

/// Who hands GPU code to the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The records.
    pub wrappers: Vec<Wrapper>,
    /// How often code uses `__cudaRegisterFatBinary`; told on x86-64 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u64>,
    /// Whether its address stands in data.
    pub address_taken: bool,
}

pub(super) fn read(
    image: &Image<'_>,
    machine: Machine,
    relocations: &[&Rela64<Endianness>],
    is_function: impl Fn(u32) -> bool,
) -> Registration {
    let endian = image.endian;
    let mut out = Registration { wrappers: wrappers(image, machine, relocations), ..Registration::default() };
    if machine != Machine::X86_64 {
        return out;
    }
    let mut slots = HashSet::new();
    for relocation in relocations {
        let kind = relocation.r_type(endian, false).0;
        if !matches!(kind, R_64 | R_GLOB_DAT | R_JUMP_SLOT) || !is_function(relocation.r_sym(endian, false)) {
            continue;
        }
        if kind == R_64 {
            out.address_taken = true;
        } else {
            slots.insert(relocation.r_offset.get(endian));
        }
    }
    out.uses = Some(if slots.is_empty() { 0 } else { uses(image, &slots) });
    out
}

/// Records in loaded data, aligned as a loader and a compiler align them.
fn wrappers(image: &Image<'_>, machine: Machine, relocations: &[&Rela64<Endianness>]) -> Vec<Wrapper> {
    let endian = image.endian;
    let relative = match machine {
        Machine::X86_64 => R_RELATIVE,
        Machine::Aarch64 => R_AARCH64_RELATIVE,
        Machine::Other(_) => return Vec::new(),
    };
    let mut found = Vec::new();
    for segment in image.loads() {
        let Ok(data) = segment.data(endian, image.bytes) else { continue };
        for at in (0..data.len().saturating_sub(WRAPPER - 1)).step_by(4) {
            if data[at..at + 4] != MAGIC || !matches!(data[at + 4..at + 8], [1 | 2, 0, 0, 0]) {
                continue;
            }
            if found.len() < WRAPPERS {
                let address = segment.p_vaddr(endian).wrapping_add(at as u64);
                found.push((address, segment.p_offset(endian).wrapping_add(at as u64)));
            }
        }
    }
    if found.is_empty() {
        return Vec::new();
    }
    // The pointer behind magic and version.
    let pointers: HashMap<u64, u64> = relocations
        .iter()
        .filter(|r| r.r_type(endian, false).0 == relative)
        .map(|r| (r.r_offset.get(endian), r.r_addend.get(endian) as u64))
        .collect();
    found
        .into_iter()
        .map(|(address, offset)| Wrapper {
            offset,
            names: pointers.get(&address.wrapping_add(8)).and_then(|target| file_offset(image, *target)),
        })
        .collect()
}

fn file_offset(image: &Image<'_>, address: u64) -> Option<u64> {
    image.loads().rev().find_map(|s| {
        let within = address.checked_sub(s.p_vaddr(image.endian))?;
        (within < s.p_filesz(image.endian)).then(|| s.p_offset(image.endian).wrapping_add(within))
    })
}

/// Uses in code: every four bytes that, read as a distance from where they end, reach the function's slot or the stub
/// that jumps through it, behind bytes that make such a distance part of an instruction. Where instructions start need
/// not be known for that.
fn uses(image: &Image<'_>, slots: &HashSet<u64>) -> u64 {
    let mut stubs = HashSet::new();
    let mut jumps_of_stubs = HashSet::new();
    let mut uses = 0;
    each_distance(image, |code, at, here, target| {
        // An operand at a distance from the instruction has its form in the byte before.
        if !slots.contains(&target) || at == 0 || code[at - 1] & 0xc7 != 0x05 {
            return;
        }
        uses += 1;
        // `jmp *slot(%rip)`, with what may stand before it in a stub: `bnd`, `endbr64`.
        if at >= 2 && code[at - 2..at] == [0xff, 0x25] {
            let mut start = at - 2;
            start -= usize::from(start >= 1 && code[start - 1] == 0xf2);
            start -= if start >= 4 && code[start - 4..start] == [0xf3, 0x0f, 0x1e, 0xfa] { 4 } else { 0 };
            let address = here.wrapping_sub((at - start) as u64);
            if address % 8 == 0 {
                jumps_of_stubs.insert(target);
                stubs.extend([address, here.wrapping_sub(2)]);
            }
        }
    });
    // A slot has one stub; its own jump is no use.
    uses -= jumps_of_stubs.len() as u64;
    if !stubs.is_empty() {
        each_distance(image, |code, at, _, target| {
            uses += u64::from(stubs.contains(&target) && reaches_code(&code[..at]));
        });
    }
    uses
}

/// Whether bytes end in what stands before a distance to code: `call`, `jmp`, a conditional jump, `lea` of an address.
fn reaches_code(before: &[u8]) -> bool {
    match before {
        [.., 0xe8 | 0xe9] | [.., 0x0f, 0x80..=0x8f] => true,
        [.., 0x8d, form] => form & 0xc7 == 0x05,
        _ => false,
    }
}

/// Calls `f` with each position of executable code: the segment, the index, its address, and what the four bytes there
/// reach.
fn each_distance<'d>(image: &Image<'d>, mut f: impl FnMut(&'d [u8], usize, u64, u64)) {
    for segment in image.loads().filter(|s| s.p_flags(image.endian).contains(elf::PF_X)) {
        let Ok(data) = segment.data(image.endian, image.bytes) else { continue };
        let base = segment.p_vaddr(image.endian);
        for (at, four) in data.windows(4).enumerate() {
            let &[a, b, c, d] = four else { continue };
            let here = base.wrapping_add(at as u64);
            let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
            f(data, at, here, here.wrapping_add(4).wrapping_add(distance as u64));
        }
    }
}
