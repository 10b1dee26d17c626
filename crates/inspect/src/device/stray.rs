//! GPU code outside of every container: an image in a data section, PTX in a string.

use serde::{Deserialize, Serialize};

use super::fatbin::Container;

/// More finds than this change nothing.
const FINDS: usize = 64;
/// From `.version` to `.target`, and from there to the architecture: comments and blanks may stand between.
const GAP: usize = 512;

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StrayKind {
    /// An ELF image for a CUDA GPU.
    Cubin,
    /// Text that a driver would compile.
    Ptx,
}

/// One find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// What it is.
    pub kind: StrayKind,
    /// Where it starts in the file.
    pub offset: usize,
    /// The section it lies in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
}

/// What lies between the containers, which are in file order.
pub(super) fn find(
    bytes: &[u8],
    containers: &[Container],
    section: impl Fn(usize) -> Option<String>,
) -> Vec<Stray> {
    let mut out = Vec::new();
    let mut at = 0;
    // What a container that cannot be read to its end holds may be anything: look into it.
    let sound = containers.iter().filter(|c| c.fault.is_none()).map(|c| (c.offset, c.end()));
    for (start, end) in sound.chain([(bytes.len(), bytes.len())]) {
        let Some(gap) = bytes.get(at..start) else { continue };
        for (kind, offset) in finds(gap, at == 0).take(FINDS - out.len().min(FINDS)) {
            let offset = at + offset;
            out.push(Stray { kind, offset, section: section(offset) });
        }
        at = end;
    }
    out
}

fn finds(bytes: &[u8], whole: bool) -> impl Iterator<Item = (StrayKind, usize)> {
    bytes.iter().enumerate().filter_map(move |(at, byte)| {
        let rest = &bytes[at..];
        match byte {
            // Offset 0 of the file is the file.
            0x7f if super::cubin::is_cubin(rest) && !(whole && at == 0) => Some((StrayKind::Cubin, at)),
            b'.' if rest.starts_with(b".version") && is_ptx(&rest[8..]) => Some((StrayKind::Ptx, at)),
            _ => None,
        }
    })
}

/// Whether a `.target` with an architecture follows a `.version`.
fn is_ptx(rest: &[u8]) -> bool {
    // Directives end at blanks; `.version_x` is another name.
    if !rest.first().is_some_and(|b| b.is_ascii_whitespace() || *b == b'/') {
        return false;
    }
    let window = &rest[..rest.len().min(GAP)];
    let Some(target) = window.windows(7).position(|w| w == b".target") else { return false };
    let after = &window[target + 7..];
    after.windows(3).any(|w| w == b"sm_")
        && after.first().is_some_and(|b| b.is_ascii_whitespace() || *b == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_and_text_are_found() {
        let mut bytes = vec![1; 40];
        let mut image = vec![0u8; 64];
        image[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        image[18] = 190;
        bytes.extend(&image);
        bytes.extend(b"\0.version 8.0\n/* x */ .target sm_90, debug\n");
        // An x86-64 file embedded as data, and text about versions.
        image[18] = 62;
        bytes.extend(&image);
        bytes.extend(b".version 1 of the .targets sm_; .versions .target sm_90 .version\n.target x86\0");
        bytes.extend([0; 8]);
        let found = find(&bytes, &[], |_| None);
        let told: Vec<_> = found.iter().map(|s| (s.kind, s.offset)).collect();
        assert_eq!(told, [(StrayKind::Cubin, 40), (StrayKind::Ptx, 105)]);
        let first = find(&bytes[40..], &[], |_| None);
        assert_eq!(first.iter().map(|s| s.kind).collect::<Vec<_>>(), [StrayKind::Ptx]);
    }

    #[test]
    fn a_container_hides_only_what_it_holds() {
        let text = b".version 8.0\n.target sm_90\n";
        let mut bytes = text.to_vec();
        bytes.extend(text);
        bytes.extend(text);
        let container = Container {
            offset: text.len(),
            section: None,
            size: text.len(),
            entries: Vec::new(),
            fault: None,
        };
        let found = find(&bytes, std::slice::from_ref(&container), |_| Some(".rodata".to_owned()));
        assert_eq!(found.iter().map(|s| s.offset).collect::<Vec<_>>(), [0, text.len() * 2]);
        let broken = Container { fault: Some("x".to_owned()), ..container };
        assert_eq!(find(&bytes, &[broken], |_| None).len(), 3);
    }
}
