//! What a holder passes to what it starts, and the names of the files.

use std::fs::File;
use std::io::Read;

/// Environment variable with the lease that a process runs under: `UUID:LEVEL.SECRET`.
pub const VARIABLE: &str = "KERNELSEEK_GPU_LEASE";

/// Levels that can stand inside each other.
const DEEPEST: u32 = 16;

/// Names one held lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) uuid: String,
    pub(super) level: u32,
    secret: String,
}

impl Token {
    pub(super) fn new(uuid: &str, level: u32) -> std::io::Result<Self> {
        let mut bytes = [0u8; 16];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        let secret = bytes.iter().map(|b| format!("{b:02x}")).collect();
        Ok(Self { uuid: uuid.to_owned(), level, secret })
    }

    pub(super) fn text(&self) -> String {
        format!("{}:{}.{}", self.uuid, self.level, self.secret)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let (uuid, rest) = text.rsplit_once(':')?;
        let (level, secret) = rest.split_once('.')?;
        let level = level.parse().ok().filter(|l| *l < DEEPEST)?;
        let hex = secret.len() == 32 && secret.bytes().all(|b| b.is_ascii_hexdigit());
        (hex && !uuid.is_empty()).then(|| Self { uuid: uuid.to_owned(), level, secret: secret.to_owned() })
    }

    /// What stands in the file, which everybody can read.
    pub(super) fn digest(&self) -> String {
        blake3::hash(self.text().as_bytes()).to_hex().to_string()
    }
}

/// Name of the file of a GPU's lease. Whatever the name of the GPU, it stays in the folder.
pub(super) fn file_name(uuid: &str, level: u32) -> String {
    let safe: String =
        uuid.chars().take(100).map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    match level {
        0 => format!("{safe}.lease"),
        n => format!("{safe}.lease-{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_survives_its_text_and_others_are_refused() {
        let token = Token::new("GPU-1234", 2).unwrap();
        assert_eq!(Token::parse(&token.text()), Some(token.clone()));
        assert_ne!(token.digest(), Token::new("GPU-1234", 2).unwrap().digest());
        let secret = "0".repeat(32);
        for bad in ["", "GPU-1", "GPU-1:0", "GPU-1:0.", ":0.00", "GPU-1:x.00", "GPU-1:0.00"] {
            assert_eq!(Token::parse(bad), None, "{bad}");
        }
        assert_eq!(Token::parse(&format!(":0.{secret}")), None);
        assert_eq!(Token::parse(&format!("GPU-1:16.{secret}")), None);
        assert!(Token::parse(&format!("MIG:a:0.{secret}")).is_some());
    }

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(file_name("GPU-12-ab", 0), "GPU-12-ab.lease");
        assert_eq!(file_name("GPU-12-ab", 3), "GPU-12-ab.lease-3");
        assert_eq!(file_name("../../etc/x", 0), "______etc_x.lease");
        assert!(file_name(&"x".repeat(1000), 1).len() < 120);
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            let _ = Token::parse(&text);
            prop_assert!(!file_name(&text, 0).contains('/'));
        }
    }
}
