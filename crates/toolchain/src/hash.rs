//! Hashing of lists of fields without ambiguity.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

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

/// What a file is known by while nobody has touched it: device, inode, size, and the two times that a write moves.
type Stamp = (u64, u64, u64, i128, i128);

/// Hashes of programs, for the life of the process. A compiler of CUDA is 190 MB, and is asked for by every session.
static PROGRAMS: Mutex<Option<HashMap<Stamp, String>>> = Mutex::new(None);

fn stamp(path: &Path) -> io::Result<Stamp> {
    use std::os::unix::fs::MetadataExt as _;
    let m = std::fs::metadata(path)?;
    let nanos = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
    // The time of the last change of the inode cannot be set by hand.
    Ok((m.dev(), m.ino(), m.size(), nanos(m.mtime(), m.mtime_nsec()), nanos(m.ctime(), m.ctime_nsec())))
}

/// Hash of a program's contents, read once in the life of this process unless the file is touched. Only for what is trusted:
/// compilers and their parts.
pub(crate) fn program(path: &Path) -> io::Result<String> {
    let before = stamp(path)?;
    let known = || PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(hash) = known().as_ref().and_then(|all| all.get(&before)) {
        return Ok(hash.clone());
    }
    let hash = file(path)?;
    // A file that changed meanwhile is not known by either stamp.
    if stamp(path)? == before {
        known().get_or_insert_default().insert(before, hash.clone());
    }
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_replaced_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cc");
        std::fs::write(&path, "one").unwrap();
        assert_eq!(program(&path).unwrap(), bytes(b"one"));
        assert_eq!(program(&path).unwrap(), bytes(b"one"));
        let next = folder.path().join("next");
        std::fs::write(&next, "two").unwrap();
        std::fs::rename(&next, &path).unwrap();
        assert_eq!(program(&path).unwrap(), bytes(b"two"));
        assert!(program(&folder.path().join("none")).is_err());
    }

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
