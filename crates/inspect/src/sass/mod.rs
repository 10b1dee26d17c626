//! Text of a disassembler → what the instructions of each function are.
//!
//! Counts are static: an instruction in a loop counts once, like one that never runs. They say what a kernel is made of,
//! not where its time goes.

mod classes;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use classes::{Class, classify};

use crate::symbol;

/// Functions beyond this many are not told.
const FUNCTIONS: usize = 4096;
/// Different mnemonics of one function; any architecture has fewer.
const MNEMONICS: usize = 1024;
/// A mnemonic with its modifiers is shorter than this.
const MNEMONIC: usize = 96;

/// The instructions of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mix {
    /// Name as in the cubin (mangled).
    pub name: String,
    /// `sm_90a`, if the text says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Instructions, without the padding behind the last one.
    pub total: u64,
    /// Instructions by class; classes without one are absent.
    pub classes: BTreeMap<Class, u64>,
    /// Loads and stores of global memory by the bits that one thread moves: 32 unless the mnemonic says otherwise.
    pub global_widths: BTreeMap<u16, u64>,
    /// Instructions that change a warp's share of registers.
    pub set_max_registers: u64,
    /// Instructions by mnemonic with modifiers.
    pub mnemonics: BTreeMap<String, u64>,
}

impl Mix {
    /// How many instructions are of `class`.
    #[must_use]
    pub fn of(&self, class: Class) -> u64 {
        self.classes.get(&class).copied().unwrap_or(0)
    }

    /// Share of 128-bit (or wider) accesses among those to global memory; `None` without any.
    #[must_use]
    pub fn wide_share(&self) -> Option<f64> {
        let all: u64 = self.global_widths.values().sum();
        let wide: u64 = self.global_widths.range(128..).map(|(_, n)| n).sum();
        #[expect(clippy::cast_precision_loss, reason = "counts of instructions are far below 2^52")]
        (all > 0).then(|| wide as f64 / all as f64)
    }

    fn count(&mut self, instruction: Instruction<'_>) {
        if instruction.mnemonic == "NOP" {
            return;
        }
        let class = classify(instruction.mnemonic, instruction.operands);
        self.total += 1;
        *self.classes.entry(class).or_default() += 1;
        if class == Class::Global
            && let Some(width) = classes::global_width(instruction.mnemonic)
        {
            *self.global_widths.entry(width).or_default() += 1;
        }
        if instruction.mnemonic.starts_with("USETMAXREG") {
            self.set_max_registers += 1;
        }
        if let Some(count) = self.mnemonics.get_mut(instruction.mnemonic) {
            *count += 1;
        } else if self.mnemonics.len() < MNEMONICS {
            self.mnemonics.insert(instruction.mnemonic.to_owned(), 1);
        }
    }
}

/// One instruction, without predicate, address and encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction<'t> {
    /// `LDG.E.128`.
    pub mnemonic: &'t str,
    /// What follows it, up to the semicolon.
    pub operands: &'t str,
}

/// Reads what `cuobjdump -sass` or `nvdisasm -c` print. Lines that are neither the start of a function nor an
/// instruction are passed over, so any text gives an answer.
#[must_use]
pub fn parse(text: &str) -> Vec<Mix> {
    let mut out: Vec<Mix> = Vec::new();
    let mut arch: Option<String> = None;
    // Whether what comes belongs to the last of `out`: sections other than code end a function.
    let mut open = false;
    for line in text.lines() {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix(".target").or_else(|| line.strip_prefix("code for")) {
            arch = rest.split_whitespace().next().filter(|a| is_arch(a)).map(str::to_owned);
        } else if let Some(name) = function(line) {
            open = out.len() < FUNCTIONS;
            if open {
                out.push(Mix { name: symbol::shorten(name), arch: arch.clone(), ..Mix::default() });
            }
        } else if line.starts_with(".section") {
            open = false;
        } else if open
            && let Some(instruction) = instruction(line)
            && let Some(mix) = out.last_mut()
        {
            mix.count(instruction);
        }
    }
    out
}

fn is_arch(word: &str) -> bool {
    word.len() <= 16 && word.strip_prefix("sm_").is_some_and(|n| n.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// The name of the function that starts at this line: `Function : NAME` of cuobjdump, `.text.NAME:` of nvdisasm.
fn function(line: &str) -> Option<&str> {
    let name = match line.strip_prefix("Function :") {
        Some(name) => name.trim(),
        None => line.strip_prefix(".text.")?.strip_suffix(':')?,
    };
    (!name.is_empty() && !name.contains(char::is_whitespace)).then_some(name)
}

/// `/*0010*/  @!P0 LDG.E.128 R4, desc[UR6][R4.64] ;  /* 0x… */` → mnemonic and operands.
#[must_use]
pub fn instruction(line: &str) -> Option<Instruction<'_>> {
    let (address, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    // Encodings are `/* 0x… */` on a line of their own.
    if address.is_empty() || !address.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let (body, _) = rest.split_once(';').unwrap_or((rest, ""));
    let mut body = body.trim();
    // Volta's ancestors print pairs as `{ … }`.
    body = body.trim_start_matches('{').trim_start();
    if body.starts_with('@') {
        body = body.split_once(char::is_whitespace)?.1.trim_start();
    }
    let (mnemonic, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let plausible = mnemonic.len() < MNEMONIC
        && mnemonic.starts_with(|c: char| c.is_ascii_uppercase())
        && mnemonic.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_'));
    plausible.then(|| Instruction { mnemonic, operands: operands.trim() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn instructions_are_read() {
        for (line, mnemonic, operands) in [
            (
                "        /*0010*/                   S2R R0, SR_TID.X ;   /* 0x0000000000007919 */",
                "S2R",
                "R0, SR_TID.X",
            ),
            ("/*01c0*/              @!P0 FMUL R12, R12.reuse, 0.5 ;", "FMUL", "R12, R12.reuse, 0.5"),
            ("/*0040*/  @!UPT UIADD3 URZ, URZ, URZ, URZ ;", "UIADD3", "URZ, URZ, URZ, URZ"),
            ("/*0040*/  @P0 EXIT ;", "EXIT", ""),
            (
                "/*0070*/ LDG.E.128.CONSTANT R4, desc[UR6][R4.64+0x10] ; /* 0x */",
                "LDG.E.128.CONSTANT",
                "R4, desc[UR6][R4.64+0x10]",
            ),
            ("/*0008*/ { MOV R1, R2 ;", "MOV", "R1, R2"),
            (
                "/*1f30*/ HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;",
                "HGMMA.64x128x16.F32.BF16",
                "R24, gdesc[UR4], R24, gsb0",
            ),
            ("/*12340*/ BRA `(.L_x_3) ;", "BRA", "`(.L_x_3)"),
        ] {
            assert_eq!(instruction(line), Some(Instruction { mnemonic, operands }), "{line}");
        }
        for line in [
            "",
            "/* 0x00007919 */",
            "/**/ MOV R1, R2;",
            "/*0010*/",
            "/*0010*/ @P0",
            "/*0010*/ .byte 3",
            "MOV R1, R2 ;",
            "/*zz*/ MOV ;",
        ] {
            assert_eq!(instruction(line), None, "{line}");
        }
    }

    #[test]
    fn both_tools_text_is_read() {
        let cuobjdump = "\nFatbin elf code:\n================\narch = sm_80\n\n\tcode for sm_80\n\t.target\tsm_80\n\n\
            \t\tFunction : _Z1kPf\n\t.headerflags\t@\"EF_CUDA_SM80\"\n\
            \x20 /*0000*/  LDG.E.128 R4, [R4.64] ;  /* 0x1 */\n                /* 0x2 */\n\
            \x20 /*0010*/  @P0 STG.E [R4.64], R2 ;\n  /*0020*/  EXIT ;\n  /*0030*/  NOP;\n\t\t..........\n\
            \t\tFunction : second\n  /*0000*/  USETMAXREG.DEALLOC.CTAPOOL 0x18 ;\n";
        let nvdisasm = "\t.target\tsm_80\n//----- .text._Z1kPf ---\n\t.section\t.text._Z1kPf,\"ax\",@progbits\n\
            \t.align\t128\n_Z1kPf:\n.text._Z1kPf:\n  /*0000*/ LDG.E.128 R4, [R4.64] ;\n.L_x_0:\n\
            \x20 /*0010*/ @P0 STG.E [R4.64], R2 ;\n  /*0020*/ EXIT ;\n  /*0030*/ NOP;\n.L_x_1:\n\
            \t.section\t.nv.info,\"\"\n  /*0000*/ MOV R1, R2 ;\n\
            \t.section\t.text.second,\"ax\"\n.text.second:\n  /*0000*/ USETMAXREG.DEALLOC.CTAPOOL 0x18 ;\n";
        for text in [cuobjdump, nvdisasm] {
            let found = parse(text);
            assert_eq!(found.len(), 2, "{text}");
            let first = &found[0];
            assert_eq!(
                (first.name.as_str(), first.arch.as_deref(), first.total),
                ("_Z1kPf", Some("sm_80"), 3)
            );
            assert_eq!((first.of(Class::Global), first.of(Class::Control), first.of(Class::Move)), (2, 1, 0));
            assert_eq!(first.global_widths, BTreeMap::from([(32, 1), (128, 1)]));
            assert_eq!(first.wide_share(), Some(0.5));
            assert_eq!((found[1].name.as_str(), found[1].set_max_registers), ("second", 1));
            assert_eq!(found[1].wide_share(), None);
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "(Function : k\n|/\\*[0-9a-f]{0,4}\\*/ ?@?[A-Z.0-9]{0,9} [ -~]{0,9};\n|[ -~]{0,20}\n){0,12}") {
            for mix in parse(&text) {
                prop_assert_eq!(mix.total, mix.classes.values().sum::<u64>());
                prop_assert!(mix.mnemonics.values().sum::<u64>() <= mix.total);
                prop_assert!(mix.global_widths.values().sum::<u64>() <= mix.of(Class::Global));
            }
        }
    }
}
