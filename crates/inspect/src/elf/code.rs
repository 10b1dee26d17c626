//! Instructions that enter the kernel directly. A heuristic: code can be written at run time, reached in the middle
//! of an instruction, or simply be in another library. The sandbox is what stops system calls.

use object::elf;
use object::read::elf::ProgramHeader;
use serde::{Deserialize, Serialize};

use super::Machine;
use super::image::Image;
use super::x86;

/// System-call instructions in executable segments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawSyscalls {
    /// Found at an instruction boundary of a sweep from the segment's start.
    pub instructions: u64,
    /// File offset of the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_offset: Option<u64>,
    /// Found inside other instructions: immediates and displacements look like this by chance.
    pub byte_patterns: u64,
}

impl RawSyscalls {
    fn hit(&mut self, offset: u64) {
        self.instructions += 1;
        self.first_offset.get_or_insert(offset);
    }
}

pub(super) fn raw_syscalls(image: &Image<'_>, machine: Machine) -> RawSyscalls {
    let mut found = RawSyscalls::default();
    for segment in image.loads().filter(|s| s.p_flags(image.endian).contains(elf::PF_X)) {
        let Ok(data) = segment.data(image.endian, image.bytes) else { continue };
        let base = segment.p_offset(image.endian);
        match machine {
            Machine::X86_64 => sweep_x86(data, base, &mut found),
            Machine::Aarch64 => sweep_aarch64(data, base, &mut found),
            Machine::Other(_) => {}
        }
    }
    found
}

/// `syscall`, `sysenter`, `int 0x80`.
fn enters_kernel(code: &[u8]) -> bool {
    matches!(code, [0x0f, 0x05 | 0x34, ..] | [0xcd, 0x80, ..])
}

fn sweep_x86(data: &[u8], base: u64, found: &mut RawSyscalls) {
    let mut at = 0;
    while at < data.len() {
        let code = &data[at..];
        // Bytes that are no instruction (padding, data) are stepped over one by one; the sweep falls back into step
        // within a few instructions.
        let length = x86::length(code).unwrap_or(1).min(code.len());
        let opcode = x86::legacy_prefixes(&code[..length]);
        for inside in 0..length {
            if enters_kernel(&code[inside..]) {
                // A prefix before it does not make it another instruction.
                if inside <= opcode {
                    found.hit(base + (at + inside) as u64);
                } else {
                    found.byte_patterns += 1;
                }
            }
        }
        at += length;
    }
}

fn sweep_aarch64(data: &[u8], base: u64, found: &mut RawSyscalls) {
    for (index, word) in data.chunks_exact(4).enumerate() {
        let word = word.iter().rev().fold(0u32, |w, b| w << 8 | u32::from(*b));
        // svc #imm16; instructions are little-endian whatever the data order.
        if word & 0xffe0_001f == 0xd400_0001 {
            found.hit(base + index as u64 * 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instructions_count_as_instructions() {
        let mut found = RawSyscalls::default();
        // mov eax, 0x0000050f; add rax, [rip+0x50f]; ret
        sweep_x86(&[0xb8, 0x0f, 0x05, 0, 0, 0x48, 0x03, 0x05, 0x0f, 0x05, 0, 0, 0xc3], 0x1000, &mut found);
        assert_eq!(found, RawSyscalls { instructions: 0, first_offset: None, byte_patterns: 2 });
        // mov eax, 1; syscall; int 0x80; rex.w syscall
        sweep_x86(&[0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0xcd, 0x80, 0x48, 0x0f, 0x05], 0x1000, &mut found);
        assert_eq!(found, RawSyscalls { instructions: 3, first_offset: Some(0x1005), byte_patterns: 2 });
    }

    #[test]
    fn aarch64_svc() {
        let mut found = RawSyscalls::default();
        sweep_aarch64(&[0x1f, 0x20, 0x03, 0xd5, 0x01, 0x00, 0x00, 0xd4], 0, &mut found);
        assert_eq!(found, RawSyscalls { instructions: 1, first_offset: Some(4), byte_patterns: 0 });
    }
}
