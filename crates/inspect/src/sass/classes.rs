//! Mnemonics → classes. The names are those of NVIDIA's instruction set references, sm_70 to sm_121.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// What an instruction works with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Matrix multiply-accumulate.
    Tensor,
    /// The memory beside the tensor cores (sm_100 and later).
    TensorMemory,
    /// Special functions: exponential, reciprocal, sine.
    SpecialFunction,
    /// 32-bit floating point.
    Fp32,
    /// 64-bit floating point.
    Fp64,
    /// 16-bit floating point.
    Half,
    /// Integer and logic.
    Integer,
    /// Conversion between formats.
    Convert,
    /// Copies between registers, selection, constants.
    Move,
    /// Exchange between the threads of a warp.
    Warp,
    /// Shared memory.
    Shared,
    /// Global memory, also by generic address.
    Global,
    /// Local memory: arrays and spilled registers of a thread.
    Local,
    /// Constant memory.
    Constant,
    /// Copies that go on by themselves.
    AsyncCopy,
    /// Waiting for others: barriers, fences, scoreboards.
    Barrier,
    /// Branches, calls, ends.
    Control,
    /// Textures, surfaces, caches, and names that this table does not know.
    Other,
}

impl Class {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 18] = [
        Self::Tensor,
        Self::TensorMemory,
        Self::SpecialFunction,
        Self::Fp32,
        Self::Fp64,
        Self::Half,
        Self::Integer,
        Self::Convert,
        Self::Move,
        Self::Warp,
        Self::Shared,
        Self::Global,
        Self::Local,
        Self::Constant,
        Self::AsyncCopy,
        Self::Barrier,
        Self::Control,
        Self::Other,
    ];

    /// Its name in a table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensor => "tensor",
            Self::TensorMemory => "tensor memory",
            Self::SpecialFunction => "special function",
            Self::Fp32 => "fp32",
            Self::Fp64 => "fp64",
            Self::Half => "half",
            Self::Integer => "integer",
            Self::Convert => "convert",
            Self::Move => "move",
            Self::Warp => "warp exchange",
            Self::Shared => "shared memory",
            Self::Global => "global memory",
            Self::Local => "local memory",
            Self::Constant => "constant memory",
            Self::AsyncCopy => "async copy",
            Self::Barrier => "barrier",
            Self::Control => "control",
            Self::Other => "other",
        }
    }
}

/// Names before the first dot. Forms for uniform registers (`UIADD3`) follow from these; those with another meaning stand
/// here themselves.
const NAMES: &[(Class, &str)] = &[
    (
        Class::Tensor,
        "HMMA IMMA BMMA DMMA QMMA OMMA HGMMA IGMMA QGMMA BGMMA DGMMA OGMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCBMMA \
         UTCMXQMMA UTCMMA",
    ),
    (Class::TensorMemory, "LDTM STTM LDT STT UTCCP UTCSHIFT UTCATOMSWS UTCLDSWS UTCSTSWS"),
    (Class::SpecialFunction, "MUFU"),
    (
        Class::Fp32,
        "FADD FADD2 FADD32I FCHK FFMA FFMA2 FFMA32I FMNMX FMNMX3 FMUL FMUL2 FMUL32I FSEL FSET FSETP FSWZADD FSWZ FHADD \
         FHFMA FCMP RRO",
    ),
    (Class::Fp64, "DADD DFMA DMUL DSETP DSET DMNMX"),
    (Class::Half, "HADD2 HADD2_32I HFMA2 HFMA2_32I HMUL2 HMUL2_32I HSET2 HSETP2 HMNMX2 HMNMX HADD HFMA HMUL"),
    (
        Class::Integer,
        "BMSK BREV BFE BFI FLO IABS IADD IADD2 IADD3 IADD32I IADD64 ICMP IDP IDP4A IMAD IMAD32I IMNMX IMNMX3 IMUL \
         IMUL32I ISAD ISCADD ISCADD32I ISET ISETP LEA LOP LOP3 LOP32I POPC SHF SHL SHR XMAD VABSDIFF VABSDIFF4 VADD \
         VADDMNMX VADD3 VHMNMX VIADD VIADD2 VIADDMNMX VIMNMX VIMNMX3 VISET VISETP VSETP VMAD VMNMX VSHL VSHR PLOP3 \
         PSET PSETP PRMT SGXT CSET CSETP LEPC GETLMEMBASE",
    ),
    (Class::Convert, "F2F F2I I2F I2I FRND F2FP I2FP I2IP F2IP F2FP2"),
    (
        Class::Move,
        "MOV MOV2 MOV32I MOVM MOV64IUR SEL SEL64 S2R S2UR CS2R CS2UR R2UR UR2R P2R R2P P2UR R2UP UP2UR UR2UP UMOV UMOV32I",
    ),
    (Class::Warp, "SHFL VOTE VOTEU MATCH REDUX CREDUX ELECT QSPC"),
    (Class::Shared, "LDS LDSM STS STSM ATOMS STAS REDAS ATOMST LDSLK STSCUL"),
    (Class::Global, "LD LDG ST STG RED REDG ATOM ATOMG LDGMC STGMC REDUXG"),
    (Class::Local, "LDL STL LDLU"),
    (Class::Constant, "LDC LDCU ULDC"),
    (
        Class::AsyncCopy,
        "LDGSTS LDGDEPBAR ARRIVES UTMALDG UTMASTG UTMAREDG UTMAPF UTMACCTL UTMACMDFLUSH UTMACTL UBLKCP UBLKPF UBLKRED \
         UTMALST UGETNEXTWORKID",
    ),
    (
        Class::Barrier,
        "BAR B2R R2B SYNCS MEMBAR FENCE DEPBAR WARPSYNC WARPGROUP WARPGROUPSET UCGABAR_ARV UCGABAR_WAIT ERRBAR CGAERRBAR \
         CCTLBAR ACQBULK UTCBAR MBAR UBAR UWARPSYNC UMEMSETS SYNCSU",
    ),
    (
        Class::Control,
        "BRA BRX BRXU JMP JMX JMXU CALL CAL JCAL RET EXIT KILL BREAK BRK BMOV BSSY BSYNC YIELD NANOSLEEP BPT RPCMOV RTT \
         COLLECTIVE ENDCOLLECTIVE PREEXIT ACQSHMINIT USETMAXREG USETSHMSZ SETCTAID SETLMEMBASE WARPSPLIT SSY SYNC PBK PCNT \
         CONT IDE RAM SAM LONGJMP PLONGJMP PRET PEXIT BRA_ SETSMEMSIZE SETLMEMBASE",
    ),
    (
        Class::Other,
        "CCTL CCTLL CCTLT TEX TEXS TLD TLDS TLD4 TLD4S TMML TXD TXQ TXA SULD SUST SUATOM SURED SUQUERY PMTRIG GETCRSPTR \
         SETCRSPTR AL2P ALD AST OUT PIXLD IPA ISBERD ISBEWR LDTRAM OUTS DEPC NOP",
    ),
];

static TABLE: LazyLock<HashMap<&str, Class>> = LazyLock::new(|| {
    NAMES.iter().flat_map(|(class, names)| names.split_ascii_whitespace().map(|n| (n, *class))).collect()
});

/// The class of an instruction. Operands are asked where the compiler uses arithmetic to copy a constant.
#[must_use]
pub fn classify(mnemonic: &str, operands: &str) -> Class {
    let (base, modifiers) = mnemonic.split_once('.').unwrap_or((mnemonic, ""));
    // `IMAD.MOV` and `HFMA2 R, -RZ, RZ, …` put a value into a register by the pipe that is free.
    let first = modifiers.split('.').next().unwrap_or_default();
    let copies = match base {
        "IMAD" | "UIMAD" => first == "MOV",
        "HFMA2" => {
            let mut sources = operands.split(',').skip(1).map(str::trim);
            sources.next() == Some("-RZ") && sources.next() == Some("RZ")
        }
        _ => false,
    };
    if copies {
        return Class::Move;
    }
    let known = TABLE.get(base).or_else(|| TABLE.get(base.strip_prefix('U')?));
    known.copied().unwrap_or_else(|| family(base))
}

/// Names of a newer architecture, by the family that its prefix names.
fn family(base: &str) -> Class {
    if base.starts_with("UTC") && base.ends_with("MMA") {
        Class::Tensor
    } else if base.starts_with("UTC") {
        Class::TensorMemory
    } else if base.starts_with("UTMA") || base.starts_with("UBLK") {
        Class::AsyncCopy
    } else if base.ends_with("GMMA") || base.ends_with("MMA") && base.len() <= 5 {
        Class::Tensor
    } else {
        Class::Other
    }
}

/// Bits that one thread moves in an access to global memory; `None` for an instruction that moves none.
pub(super) fn global_width(mnemonic: &str) -> Option<u16> {
    let mut parts = mnemonic.split('.');
    let base = parts.next().unwrap_or_default();
    if !matches!(base, "LD" | "LDG" | "ST" | "STG") {
        return None;
    }
    let mut width = 32;
    for part in parts {
        match part {
            "U8" | "S8" => width = 8,
            "U16" | "S16" => width = 16,
            "64" => width = 64,
            "128" => width = 128,
            "256" | "ENL2" => width = 256,
            _ => {}
        }
    }
    Some(width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_stand_once() {
        let mut seen = HashSet::new();
        for (class, names) in NAMES {
            for name in names.split_ascii_whitespace() {
                assert!(seen.insert(name), "{name} of {class:?} stands twice");
            }
        }
        assert_eq!(Class::ALL.iter().map(|c| c.name()).collect::<HashSet<_>>().len(), Class::ALL.len());
    }

    #[test]
    fn widths() {
        for (mnemonic, width) in [
            ("LDG.E.128.CONSTANT", Some(128)),
            ("LDG.E", Some(32)),
            ("LDG.E.U16", Some(16)),
            ("LDG.E.S8.CONSTANT", Some(8)),
            ("STG.E.64.STRONG.GPU", Some(64)),
            ("LDG.E.ENL2.256", Some(256)),
            ("LD.E", Some(32)),
            ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU", None),
            ("ATOMG.E.ADD", None),
        ] {
            assert_eq!(global_width(mnemonic), width, "{mnemonic}");
        }
    }

    #[test]
    fn copies_in_disguise() {
        for (mnemonic, operands, class) in [
            ("IMAD.MOV.U32", "R1, RZ, RZ, R2", Class::Move),
            ("IMAD.SHL.U32", "R1, R2, 0x4, RZ", Class::Integer),
            ("HFMA2.MMA", "R15, -RZ, RZ, 0, 9.5367431640625e-07", Class::Move),
            ("HFMA2", "R15, R1, R2, R3", Class::Half),
            ("UIMAD", "UR1, UR2, UR3, UR4", Class::Integer),
            ("UTCZZMMA.2CTA", "", Class::Tensor),
            ("UTMANEW", "", Class::AsyncCopy),
            ("WHATEVER", "", Class::Other),
            ("", "", Class::Other),
        ] {
            assert_eq!(classify(mnemonic, operands), class, "{mnemonic}");
        }
    }
}
