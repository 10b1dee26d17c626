//! Whether every thread of a process stands still, asked thousands of times.
//!
//! A worker is stopped after each request, and a GPU's driver gives it some twenty threads. Opening what the kernel says about each
//! costs more than reading it, so what was opened is kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Most threads whose state is kept open; of the others it is opened each time.
const KEPT: usize = 32;
/// Room for what the kernel says about one thread: fifty numbers and a name.
const ROOM: usize = 2048;

/// The state of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It may run.
    Runs,
    /// It is stopped.
    Stopped,
    /// It has ended, or is ending for good.
    Gone,
}

/// States of a process's threads, kept open. The descriptors name threads, not numbers: one that is used again by
/// another thread reads as gone here.
#[derive(Debug, Default)]
pub(crate) struct Stillness {
    kept: BTreeMap<u32, File>,
}

impl Stillness {
    /// The state of thread `id` of process `pid`.
    pub(crate) fn of(&mut self, pid: libc::pid_t, id: u32) -> Standing {
        if let Some(file) = self.kept.get(&id) {
            let standing = read(file);
            if standing == Standing::Gone {
                self.kept.remove(&id);
                // Another one may have its number by now.
                return self.open(pid, id);
            }
            return standing;
        }
        self.open(pid, id)
    }

    fn open(&mut self, pid: libc::pid_t, id: u32) -> Standing {
        let Ok(file) = File::open(format!("/proc/{pid}/task/{id}/stat")) else { return Standing::Gone };
        let standing = read(&file);
        if standing != Standing::Gone && self.kept.len() < KEPT {
            self.kept.insert(id, file);
        }
        standing
    }

    /// Forgets all threads but these.
    pub(crate) fn keep(&mut self, ids: &[u32]) {
        if self.kept.len() > ids.len() {
            self.kept.retain(|id, _| ids.contains(id));
        }
    }
}

fn read(file: &File) -> Standing {
    let mut room = [0u8; ROOM];
    match file.read_at(&mut room, 0) {
        Ok(length) => standing(&room[..length]),
        Err(_) => Standing::Gone,
    }
}

/// What the line of a thread says. The name in parentheses may hold anything, parentheses included.
fn standing(line: &[u8]) -> Standing {
    let name_ends = line.iter().rposition(|byte| *byte == b')');
    match name_ends.and_then(|at| line.get(at + 2)) {
        Some(b'T' | b't') => Standing::Stopped,
        None | Some(b'Z' | b'X') => Standing::Gone,
        Some(_) => Standing::Runs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read_whatever_the_name() {
        for (line, expected) in [
            (&b"7 (a) T 1 2"[..], Standing::Stopped),
            (b"7 (a) t 1 2", Standing::Stopped),
            (b"7 (R) R) S 1 2", Standing::Runs),
            (b"7 (x) T) R 1 2", Standing::Runs),
            (b"7 (a) D 1 2", Standing::Runs),
            (b"7 (a) Z 1 2", Standing::Gone),
            (b"7 (a", Standing::Gone),
            (b"7 (a)", Standing::Gone),
            (b"", Standing::Gone),
        ] {
            assert_eq!(standing(line), expected, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn threads_that_come_and_go() {
        let pid = std::process::id();
        let id = libc::pid_t::try_from(pid).unwrap();
        let mut stillness = Stillness::default();
        assert_eq!(stillness.of(id, pid), Standing::Runs);
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(own.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            let _ = ended.recv();
        });
        let other = told.recv().unwrap();
        assert_eq!(stillness.of(id, other), Standing::Runs);
        assert_eq!(stillness.kept.len(), 2);
        drop(end);
        thread.join().unwrap();
        // The kernel may take a moment to let go of it.
        let waited = std::time::Instant::now();
        while stillness.of(id, other) != Standing::Gone {
            assert!(waited.elapsed().as_secs() < 10);
        }
        assert_eq!(stillness.kept.len(), 1);
        stillness.keep(&[]);
        assert!(stillness.kept.is_empty());
    }
}
