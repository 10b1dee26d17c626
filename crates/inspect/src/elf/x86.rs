//! Length of x86-64 instructions: enough to tell an instruction from bytes inside another one.

/// How an opcode continues after its last opcode byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    /// Nothing.
    None,
    /// ModRM with what it implies, then this many immediate bytes.
    ModRm(Immediate),
    /// Immediate bytes only.
    Immediate(Immediate),
    /// Not an instruction in 64-bit mode, or one this table does not know.
    Invalid,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Immediate {
    Bytes(usize),
    /// 4 bytes, 2 with the operand-size prefix.
    Operand,
    /// 8 bytes with REX.W, else as `Operand`.
    Full,
    /// 8 bytes, 4 with the address-size prefix.
    Address,
    /// One byte if ModRM's reg field is 0 or 1 (`test`), else none.
    TestByte,
    /// `Operand` if ModRM's reg field is 0 or 1 (`test`), else none.
    TestOperand,
}

use Immediate::{Address, Bytes, Full, Operand, TestByte, TestOperand};

/// Instructions are at most this long.
const LIMIT: usize = 15;

/// Number of legacy and REX prefix bytes at the start of `code`.
pub(super) fn legacy_prefixes(code: &[u8]) -> usize {
    let legacy = code
        .iter()
        .take_while(|b| {
            matches!(**b, 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3)
        })
        .count();
    // A REX prefix counts only directly before the opcode.
    legacy + usize::from(code.get(legacy).is_some_and(|b| b & 0xf0 == 0x40))
}

/// Length in bytes of the instruction at the start of `code`; `None` if it is none or is cut off.
pub(super) fn length(code: &[u8]) -> Option<usize> {
    let prefixes = legacy_prefixes(code);
    let rex = prefixes.checked_sub(1).map(|i| code[i]).filter(|b| b & 0xf0 == 0x40).unwrap_or(0);
    let before_rex = prefixes - usize::from(rex != 0);
    let operand16 = code[..before_rex].contains(&0x66);
    let address32 = code[..before_rex].contains(&0x67);
    let (tail, after) = opcode(code, prefixes)?;
    let (mut end, immediate, reg) = match tail {
        Tail::Invalid => return None,
        Tail::None => (after, Bytes(0), 0),
        Tail::Immediate(immediate) => (after, immediate, 0),
        Tail::ModRm(immediate) => {
            let modrm = *code.get(after)?;
            (after + modrm_length(modrm, code.get(after + 1).copied())?, immediate, modrm >> 3 & 7)
        }
    };
    let operand = if operand16 && rex & 8 == 0 { 2 } else { 4 };
    end += match immediate {
        Bytes(n) => n,
        Operand => operand,
        Full => {
            if rex & 8 != 0 {
                8
            } else {
                operand
            }
        }
        Address => {
            if address32 {
                4
            } else {
                8
            }
        }
        TestByte => usize::from(reg < 2),
        TestOperand => {
            if reg < 2 {
                operand
            } else {
                0
            }
        }
    };
    (end <= LIMIT && end <= code.len()).then_some(end)
}

/// Bytes of ModRM, SIB and displacement.
fn modrm_length(modrm: u8, sib: Option<u8>) -> Option<usize> {
    let (mode, rm) = (modrm >> 6, modrm & 7);
    if mode == 3 {
        return Some(1);
    }
    let has_sib = rm == 4;
    let no_base = if has_sib { sib? & 7 == 5 } else { rm == 5 };
    let displacement = match mode {
        0 if no_base => 4,
        0 => 0,
        1 => 1,
        _ => 4,
    };
    Some(1 + usize::from(has_sib) + displacement)
}

/// The opcode at `at`, how it continues, and where.
fn opcode(code: &[u8], at: usize) -> Option<(Tail, usize)> {
    let first = *code.get(at)?;
    match first {
        0x0f => {
            let second = *code.get(at + 1)?;
            match second {
                0x38 => Some((Tail::ModRm(Bytes(0)), at + 3)),
                0x3a => Some((Tail::ModRm(Bytes(1)), at + 3)),
                _ => Some((two_byte(second), at + 2)),
            }
        }
        0xc5 => Some((vector(1, *code.get(at + 2)?), at + 3)),
        0xc4 => Some((vector(*code.get(at + 1)? & 0x1f, *code.get(at + 3)?), at + 4)),
        0x62 => Some((vector(*code.get(at + 1)? & 7, *code.get(at + 4)?), at + 5)),
        // XOP shares its first byte with `pop`, told apart by the map number.
        0x8f if code.get(at + 1).is_some_and(|b| b & 0x1f >= 8) => {
            let tail = match code.get(at + 1)? & 0x1f {
                8 => Tail::ModRm(Bytes(1)),
                9 => Tail::ModRm(Bytes(0)),
                10 => Tail::ModRm(Bytes(4)),
                _ => Tail::Invalid,
            };
            Some((tail, at + 4))
        }
        _ => Some((one_byte(first), at + 1)),
    }
}

fn one_byte(op: u8) -> Tail {
    match op {
        0x00..=0x3f => match op & 7 {
            0..=3 => Tail::ModRm(Bytes(0)),
            4 => Tail::Immediate(Bytes(1)),
            5 => Tail::Immediate(Operand),
            _ => Tail::Invalid,
        },
        0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf => Tail::None,
        0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff => Tail::ModRm(Bytes(0)),
        0x68 | 0xa9 => Tail::Immediate(Operand),
        0x69 | 0x81 | 0xc7 => Tail::ModRm(Operand),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => Tail::ModRm(Bytes(1)),
        0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb => Tail::Immediate(Bytes(1)),
        0xa0..=0xa3 => Tail::Immediate(Address),
        0xb8..=0xbf => Tail::Immediate(Full),
        0xc2 | 0xca => Tail::Immediate(Bytes(2)),
        0xc8 => Tail::Immediate(Bytes(3)),
        0xe8 | 0xe9 => Tail::Immediate(Bytes(4)),
        0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf | 0xd7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xf5 | 0xf8..=0xfd => {
            Tail::None
        }
        0xf6 => Tail::ModRm(TestByte),
        0xf7 => Tail::ModRm(TestOperand),
        _ => Tail::Invalid,
    }
}

fn two_byte(op: u8) -> Tail {
    match op {
        0x05..=0x09 | 0x0b | 0x0e | 0x30..=0x35 | 0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf => {
            Tail::None
        }
        0x80..=0x8f => Tail::Immediate(Bytes(4)),
        0x0f | 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6 => Tail::ModRm(Bytes(1)),
        0x04 | 0x0a | 0x0c | 0x24..=0x27 | 0x36 | 0x38..=0x3f | 0x7a | 0x7b => Tail::Invalid,
        _ => Tail::ModRm(Bytes(0)),
    }
}

/// VEX and EVEX opcodes by map.
fn vector(map: u8, op: u8) -> Tail {
    match (map, op) {
        (1, 0x77) => Tail::None,
        (1, 0x70..=0x73 | 0xc2 | 0xc4..=0xc6) | (3, _) => Tail::ModRm(Bytes(1)),
        (1 | 2 | 5 | 6, _) => Tail::ModRm(Bytes(0)),
        _ => Tail::Invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_lengths() {
        for (code, expected) in [
            (&[0xc3][..], 1),                                     // ret
            (&[0xf3, 0x0f, 0x1e, 0xfa], 4),                       // endbr64
            (&[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8], 10),          // movabs
            (&[0x66, 0xb8, 1, 2], 4),                             // mov ax, imm16
            (&[0x48, 0x8d, 0x05, 1, 2, 3, 4], 7),                 // lea rax, [rip+…]
            (&[0xc5, 0xf8, 0x77], 3),                             // vzeroupper
            (&[0xc4, 0xe2, 0x7d, 0xb8, 0x04, 0x0f], 6),           // vfmadd231ps ymm0, ymm0, [rdi+rcx]
            (&[0xc4, 0xe3, 0x7d, 0x19, 0xc1, 0x01], 6),           // vextractf128
            (&[0x62, 0xf1, 0x7c, 0x48, 0x10, 0x47, 0x01], 7),     // vmovups zmm0, [rdi+64]
            (&[0xf6, 0xc1, 0x01], 3),                             // test cl, 1
            (&[0xf7, 0xd8], 2),                                   // neg eax
            (&[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0], 10), // nop
            (&[0x0f, 0x84, 1, 2, 3, 4], 6),                       // je
            (&[0x8b, 0x04, 0x25, 1, 2, 3, 4], 7),                 // mov eax, [abs]
        ] {
            assert_eq!(length(code), Some(expected), "{code:02x?}");
            assert_eq!(length(&code[..expected - 1]).filter(|n| *n >= expected), None, "{code:02x?} cut");
        }
        assert_eq!(length(&[0x06]), None);
        assert_eq!(length(&[]), None);
    }

    proptest! {
        #[test]
        fn never_beyond_the_bytes(code in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Some(n) = length(&code) {
                prop_assert!(n >= 1 && n <= code.len() && n <= LIMIT);
            }
        }
    }
}
