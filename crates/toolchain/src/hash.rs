//! Hashing of lists of fields without ambiguity.

use std::io;
use std::path::Path;

/// Hashes fields one by one, each with its length, so that no two lists of fields collide by concatenation.
pub(crate) struct FieldHasher(blake3::Hasher);

impl FieldHasher {
    /// `purpose` keeps hashes of different things apart.
    pub(crate) fn new(purpose: &'static str) -> Self {
        Self(blake3::Hasher::new_derive_key(purpose))
    }

    pub(crate) fn field(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        let bytes = bytes.as_ref();
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
        self
    }

    /// A list of fields, with its length.
    pub(crate) fn list<I: AsRef<[u8]>>(&mut self, items: impl IntoIterator<Item = I>) -> &mut Self {
        let items: Vec<I> = items.into_iter().collect();
        self.0.update(&(items.len() as u64).to_le_bytes());
        for item in &items {
            self.field(item);
        }
        self
    }

    pub(crate) fn hex(&self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}

/// Hash of some bytes, hexadecimal.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Hash of a file's contents, hexadecimal.
pub(crate) fn file(path: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    let mut file = std::fs::File::open(path)?;
    io::copy(&mut file, &mut hasher)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_run_together() {
        let of = |fields: &[&str]| {
            let mut h = FieldHasher::new("test");
            for f in fields {
                h.field(f);
            }
            h.hex()
        };
        assert_ne!(of(&["ab", "c"]), of(&["a", "bc"]));
        assert_ne!(of(&["ab", ""]), of(&["ab"]));
        let lists = |a: &[&str], b: &[&str]| FieldHasher::new("test").list(a).list(b).hex();
        assert_ne!(lists(&["a"], &["b"]), lists(&["a", "b"], &[]));
    }
}
