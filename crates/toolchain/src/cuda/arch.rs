//! GPU architectures as the compiler names them.

use std::fmt;

/// `sm_90a`: a number, and perhaps the letter of an architecture's own (`a`) or its family's (`f`) instructions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    number: u32,
    letter: Option<char>,
}

/// Text that is no architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no GPU architecture; it looks like sm_80, sm_90a, sm_100a or sm_120")]
pub struct NoArch(pub String);

/// Architectures that this tool knows by name, with what they are found in.
pub const KNOWN: [(&str, &str); 9] = [
    ("sm_80", "A100"),
    ("sm_86", "RTX 30"),
    ("sm_89", "L40S, RTX 40"),
    ("sm_90", "H100, H200, without their own instructions"),
    ("sm_90a", "H100, H200"),
    ("sm_100a", "B200"),
    ("sm_103a", "B300"),
    ("sm_120", "RTX 50, without their own instructions"),
    ("sm_120a", "RTX 50"),
];

impl Arch {
    /// Reads `sm_90a`.
    ///
    /// # Errors
    /// [`NoArch`].
    pub fn parse(text: &str) -> Result<Self, NoArch> {
        let no = || NoArch(text.chars().take(40).filter(|c| !c.is_control()).collect());
        let rest = text.strip_prefix("sm_").ok_or_else(no)?;
        let digits = rest.trim_end_matches(['a', 'f']);
        let letter = rest[digits.len()..].chars().next();
        let plain = matches!(digits.len(), 2 | 3) && digits.bytes().all(|b| b.is_ascii_digit());
        if !plain || rest.len() - digits.len() > 1 || digits.starts_with('0') {
            return Err(no());
        }
        Ok(Self { number: digits.parse().map_err(|_| no())?, letter })
    }

    /// The compiler's flag for machine code of this architecture alone: no PTX, which the driver would translate again
    /// on the machine that runs it.
    #[must_use]
    pub fn flag(&self) -> String {
        let name = self.suffix();
        format!("-gencode=arch=compute_{name},code=sm_{name}")
    }

    fn suffix(&self) -> String {
        format!("{}{}", self.number, self.letter.map(String::from).unwrap_or_default())
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_ones_are_read() {
        for (name, _) in KNOWN {
            assert_eq!(Arch::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(Arch::parse("sm_90a").unwrap().flag(), "-gencode=arch=compute_90a,code=sm_90a");
        assert_eq!(Arch::parse("sm_100f").unwrap().to_string(), "sm_100f");
    }

    #[test]
    fn others_are_refused() {
        for text in [
            "",
            "sm_",
            "sm_9",
            "sm_90aa",
            "sm_90b",
            "sm_af",
            "sm_9000",
            "compute_90",
            "90a",
            "native",
            "sm_09",
        ] {
            assert_eq!(Arch::parse(text), Err(NoArch(text.into())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text(text in "(sm_)?[0-9a-fß ]{0,6}") {
            if let Ok(arch) = Arch::parse(&text) {
                prop_assert_eq!(arch.to_string(), text);
            }
        }
    }
}
