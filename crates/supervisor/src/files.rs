//! Reading files of a workspace. Whoever works there may have put a pipe, a device or something endless in their place.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Largest file that is read, in bytes.
const LARGEST: u64 = 64 << 20;

/// Reads a regular file of at most 64 MiB, symbolic links followed; never waits for a writer.
///
/// # Errors
/// That it cannot be read, is no regular file, or is too large.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is larger than 64 MiB"));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read`], and that it is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Words of others as they are kept and shown: at most `longest` characters, and nothing that steers a terminal.
pub(crate) fn plain(text: &str, longest: usize) -> String {
    let plain = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    text.trim().chars().take(longest).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read_text(&file).unwrap(), "text");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("file", &link).unwrap();
        assert_eq!(read(&link).unwrap(), b"text");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for odd in [pipe.as_path(), Path::new("/dev/zero"), folder.path()] {
            assert!(read(odd).is_err(), "{}", odd.display());
        }
    }

    #[test]
    fn words_cannot_steer_a_terminal() {
        assert_eq!(plain("  a\x1b[2Jb\r\n\tc ", 100), "a\u{fffd}[2Jb\u{fffd}\n\tc");
        assert_eq!(plain("äöü", 2), "äö");
    }
}
