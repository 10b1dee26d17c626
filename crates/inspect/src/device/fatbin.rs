//! Fatbin containers: what `nvcc` puts into a host file, one container a source file and in it one entry a target.
//!
//! Header, 16 bytes: magic, version 1, header size 16, size of the entries. Then the entries: a header of its own size
//! (kind 1 PTX, 2 ELF; header size; payload size; packed size; architecture; flags) and the payload.

use serde::{Deserialize, Serialize};

use super::cubin::{self, Cubin};

/// Magic 0xBA55ED50, container version 1, header size 16, all little-endian.
pub(crate) const MAGIC: [u8; 8] = [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0];
/// Bytes of a container's header.
pub(crate) const HEADER: usize = 16;
/// Shortest header of an entry.
const ENTRY_HEADER: usize = 64;
/// Longest: options and names that are passed on stand there, and nothing that could be code.
const ENTRY_HEADER_MOST: usize = 4096;
/// A container with more entries than this is no compiler's.
const ENTRIES: usize = 1024;

/// Entry flag: packed by LZ4.
const LZ4: u64 = 0x2000;
/// Entry flag: packed by Zstandard.
const ZSTD: u64 = 0x8000;
/// Entry flag: features of exactly this architecture (`sm_90a`).
const ARCH_SPECIFIC: u64 = 1 << 20;
/// Entry flag: features of this family of architectures (`sm_100f`).
const FAMILY_SPECIFIC: u64 = 1 << 21;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Text that the driver compiles when the library is loaded.
    Ptx,
    /// Machine code for one architecture.
    Elf,
    /// Anything else, as the entry says.
    Other(u16),
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// `sm_90a`.
    pub arch: String,
    /// Where its payload starts in the file.
    pub offset: usize,
    /// Bytes of the payload as it lies in the file.
    pub size: usize,
    /// Whether the payload is packed: then nothing else is known of it.
    pub compressed: bool,
    /// Whether there is nothing in it: a link step leaves a cubin without a function, or PTX without a declaration.
    pub empty: bool,
    /// The machine code, if it could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cubin: Option<Cubin>,
    /// Why it could not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// One container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Where it starts in the file.
    pub offset: usize,
    /// The section it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// Bytes, with its header.
    pub size: usize,
    /// In file order.
    pub entries: Vec<Entry>,
    /// Why it could not be read to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

impl Container {
    /// Where it ends in the file.
    #[must_use]
    pub fn end(&self) -> usize {
        self.offset.saturating_add(self.size)
    }
}

/// Offset of the first container header in `bytes`.
pub(crate) fn find(bytes: &[u8]) -> Option<usize> {
    bytes.windows(MAGIC.len()).position(|w| w == MAGIC)
}

/// Reads the container whose header starts at `start`.
pub(crate) fn read(bytes: &[u8], start: usize, section: Option<String>) -> Container {
    let mut out = Container { offset: start, section, size: HEADER, entries: Vec::new(), fault: None };
    let Some(size) = u64_at(bytes, start + 8).and_then(|s| usize::try_from(s).ok()) else {
        out.fault = Some("its header is cut off".to_owned());
        return out;
    };
    let body = start + HEADER;
    let Some(end) = body.checked_add(size).filter(|e| *e <= bytes.len()) else {
        out.fault = Some("it is longer than the file".to_owned());
        return out;
    };
    out.size = HEADER + size;
    let mut at = body;
    while at < end {
        // Containers are padded to their alignment.
        if bytes[at..end].iter().all(|b| *b == 0) {
            break;
        }
        if out.entries.len() == ENTRIES {
            out.fault = Some(format!("it has more than {ENTRIES} entries"));
            break;
        }
        match entry(&bytes[..end], at) {
            Ok((entry, next)) => {
                out.entries.push(entry);
                at = next;
            }
            Err(fault) => {
                out.fault = Some(fault.to_owned());
                break;
            }
        }
    }
    out
}

/// The entry at `at` and where the next one starts; always after `at`.
fn entry(bytes: &[u8], at: usize) -> Result<(Entry, usize), &'static str> {
    const CUT: &str = "an entry is cut off";
    let kind = u16_at(bytes, at).ok_or(CUT)?;
    let header = u32_at(bytes, at + 4).ok_or(CUT)? as usize;
    let size = u64_at(bytes, at + 8).and_then(|s| usize::try_from(s).ok()).ok_or(CUT)?;
    if !(ENTRY_HEADER..=ENTRY_HEADER_MOST).contains(&header) {
        return Err("an entry's header has no compiler's size");
    }
    let packed = u32_at(bytes, at + 16).ok_or(CUT)?;
    let number = u32_at(bytes, at + 28).ok_or(CUT)?;
    let flags = u64_at(bytes, at + 40).ok_or(CUT)?;
    let offset = at.checked_add(header).ok_or(CUT)?;
    let end = offset.checked_add(size).filter(|e| *e <= bytes.len()).ok_or(CUT)?;
    let mut entry = Entry {
        kind: match kind {
            1 => EntryKind::Ptx,
            2 => EntryKind::Elf,
            other => EntryKind::Other(other),
        },
        arch: format!("sm_{number}{}", suffix(flags)),
        offset,
        size,
        compressed: packed != 0 || flags & (LZ4 | ZSTD) != 0,
        empty: false,
        cubin: None,
        fault: None,
    };
    let payload = &bytes[offset..end];
    if !entry.compressed {
        match entry.kind {
            EntryKind::Elf => match cubin::read(payload, Some(&entry.arch)) {
                Ok(cubin) => {
                    entry.empty = cubin.functions.is_empty();
                    entry.cubin = Some(cubin);
                }
                Err(fault) => entry.fault = Some(fault.to_string()),
            },
            EntryKind::Ptx => entry.empty = is_blank_ptx(payload),
            EntryKind::Other(_) => {}
        }
    }
    Ok((entry, end))
}

/// Whether PTX text declares nothing: only directives that head a module, comments and blanks.
fn is_blank_ptx(payload: &[u8]) -> bool {
    let text = payload.split(|b| *b == 0).next().unwrap_or_default();
    if text.len() > 4096 || payload[text.len()..].iter().any(|b| *b != 0) {
        return false;
    }
    String::from_utf8_lossy(text).lines().all(|line| {
        let line = line.trim();
        line.is_empty()
            || [".version ", ".target ", ".address_size "].iter().any(|d| line.starts_with(d))
                && !line.contains([';', '{', '/'])
    })
}

fn suffix(flags: u64) -> &'static str {
    if flags & ARCH_SPECIFIC != 0 {
        "a"
    } else if flags & FAMILY_SPECIFIC != 0 {
        "f"
    } else {
        ""
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An entry as the compiler writes it.
    pub(crate) fn made(kind: u16, arch: u32, flags: u64, packed: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(kind.to_le_bytes());
        out.extend(0x0101u16.to_le_bytes());
        out.extend(64u32.to_le_bytes());
        out.extend((payload.len() as u64).to_le_bytes());
        out.extend(packed.to_le_bytes());
        out.extend([0; 8]);
        out.extend(arch.to_le_bytes());
        out.extend([0; 8]);
        out.extend(flags.to_le_bytes());
        out.resize(64, 0);
        out.extend(payload);
        out
    }

    pub(crate) fn contained(entries: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend((entries.len() as u64).to_le_bytes());
        out.extend(entries);
        out
    }

    #[test]
    fn entries_are_walked() {
        let mut entries =
            made(1, 90, 0x10_0011, 0, b".version 9.0\n.target sm_90a\n.visible .entry k() { ret; }\0");
        entries.extend(made(2, 80, 0x8011, 33, &[1; 40]));
        entries.extend(made(2, 100, 0x120_0011, 0, b"not ELF"));
        entries.extend(made(1, 90, 0x11, 0, b".version 9.0\n.target sm_90\n.address_size 64\n\0\0\0"));
        entries.extend(made(64, 90, 0, 0, b""));
        let mut bytes = vec![9; 24];
        bytes.extend(contained(&entries));
        bytes.extend([9; 8]);
        let found = read(&bytes, 24, None);
        assert_eq!(found.fault, None);
        assert_eq!(found.end(), bytes.len() - 8);
        let told: Vec<_> = found
            .entries
            .iter()
            .map(|e| (e.kind, e.arch.as_str(), e.compressed, e.empty, e.fault.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                (EntryKind::Ptx, "sm_90a", false, false, false),
                (EntryKind::Elf, "sm_80", true, false, false),
                (EntryKind::Elf, "sm_100f", false, false, true),
                (EntryKind::Ptx, "sm_90", false, true, false),
                (EntryKind::Other(64), "sm_90", false, false, false),
            ]
        );
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let whole = contained(&made(2, 90, 0, 0, &[1; 40]));
        for cut in [9, 20, 60, 100] {
            assert!(read(&whole[..cut], 0, None).fault.is_some(), "{cut}");
        }
        // A length near the top of the address space, and an entry that is shorter than its own header.
        let mut long = whole.clone();
        long[8..16].fill(0xff);
        assert!(read(&long, 0, None).fault.is_some());
        let mut short = whole.clone();
        short[20] = 8;
        assert_eq!(read(&short, 0, None).fault.as_deref(), Some("an entry's header has no compiler's size"));
        let mut huge = whole;
        huge[24..32].fill(0xff);
        assert_eq!(read(&huge, 0, None).fault.as_deref(), Some("an entry is cut off"));
    }

    #[test]
    fn blank_ptx() {
        for (text, blank) in [
            ("\n.version 9.0\n.target sm_90a\n.address_size 64\n\0", true),
            ("", true),
            (".version 9.0\n.target sm_90a\n.visible .entry k(){ret;}", false),
            (".version 9.0; .entry k(){ret;}", false),
            (".version 9.0\n\0.entry", false),
        ] {
            assert_eq!(is_blank_ptx(text.as_bytes()), blank, "{text:?}");
        }
    }
}
