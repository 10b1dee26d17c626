//! Whether what an agent may write reaches what must stay as it is.
//!
//! Landlock judges by path, so the same bytes under a second name would escape it: symbolic links on the way
//! to a protected path, bind mounts, and hard links are all looked for before the agent starts. Once it runs
//! it can make none of them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use crate::error::SandboxError;

/// Symbolic links followed before a path counts as a loop, as in the kernel.
const MOST_LINKS: usize = 40;
/// Entries looked at for hard links; a workspace is smaller.
const MOST_ENTRIES: usize = 1_000_000;

/// The canonical paths beneath which the agent may write, and what could not be looked at.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) write: Vec<PathBuf>,
    pub(crate) gaps: Vec<String>,
}

/// Refuses paths that reach one another. `always` are writable in any case, where they exist.
pub(crate) fn check(
    write: &[PathBuf],
    always: &[&str],
    protect: &[PathBuf],
) -> Result<Checked, SandboxError> {
    let unresolved = |path: &Path| {
        let path = path.to_owned();
        move |source| SandboxError::Path { path, source }
    };
    let mut writable: Vec<(PathBuf, PathBuf)> = Vec::new();
    for path in write {
        writable.push((path.clone(), path.canonicalize().map_err(unresolved(path))?));
    }
    let wanted: Vec<PathBuf> = writable.iter().map(|(_, canonical)| canonical.clone()).collect();
    let present = always.iter().filter_map(|path| Some((PathBuf::from(path), fs::canonicalize(path).ok()?)));
    writable.extend(present);

    let (mounts, mut gaps) = match fs::read("/proc/self/mountinfo") {
        Ok(table) => (parse_mounts(&table), Vec::new()),
        Err(error) => (Vec::new(), vec![format!("bind mounts were not looked for: {error}")]),
    };
    for protected in protect {
        let places = places(protected).map_err(unresolved(protected))?;
        for (given, canonical) in &writable {
            if overlap(canonical, &places, &mounts) {
                return Err(SandboxError::Overlap { write: given.clone(), protect: protected.clone() });
            }
        }
    }
    if let Some(gap) = hard_links(&writable, protect)? {
        gaps.push(gap);
    }
    Ok(Checked { write: wanted, gaps })
}

/// Every place that decides what a path means: the symbolic links on the way, then the file itself.
fn places(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut rest: Vec<OsString> = components(&std::path::absolute(path)?);
    let mut at = PathBuf::from("/");
    let mut found = Vec::new();
    while let Some(name) = rest.pop() {
        if name == ".." {
            at.pop();
            continue;
        }
        at.push(name);
        if fs::symlink_metadata(&at)?.is_symlink() {
            if found.len() == MOST_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            let target = fs::read_link(&at)?;
            found.push(at.clone());
            at.pop();
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            rest.extend(components(&target));
        }
    }
    found.push(at);
    Ok(found)
}

/// The names of a path, last first; `..` stays.
fn components(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}

/// One line of the mount table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mount {
    device: Vec<u8>,
    /// What of the filesystem is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

fn parse_mounts(table: &[u8]) -> Vec<Mount> {
    let lines = table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(|byte| *byte == b' ').skip(2);
        let device = words.next()?.to_vec();
        let root = unescape(words.next()?);
        let point = unescape(words.next()?);
        Some(Mount { device, root, point })
    });
    lines.collect()
}

/// Blanks and backslashes stand in the table as three octal digits.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digits =
            text.get(at + 1..at + 4).filter(|digits| digits.iter().all(|d| (b'0'..b'8').contains(d)));
        match digits {
            Some(digits) if byte == b'\\' => {
                bytes.push(digits.iter().fold(0_u8, |value, d| value.wrapping_mul(8).wrapping_add(d - b'0')));
                at += 4;
            }
            _ => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// A path as its filesystem names it, whatever it is mounted as.
fn inside(path: &Path, mounts: &[Mount]) -> Option<(Vec<u8>, PathBuf)> {
    // A later mount on the same point covers the earlier one, and `max_by_key` returns the last.
    let mount = mounts
        .iter()
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())?;
    Some((mount.device.clone(), mount.root.join(path.strip_prefix(&mount.point).ok()?)))
}

/// Where a path and every mount beneath it lie in their filesystems.
fn extents(path: &Path, mounts: &[Mount]) -> Vec<(Vec<u8>, PathBuf)> {
    let below = mounts
        .iter()
        .filter(|mount| mount.point.starts_with(path))
        .map(|mount| (mount.device.clone(), mount.root.clone()));
    inside(path, mounts).into_iter().chain(below).collect()
}

fn overlap(write: &Path, places: &[PathBuf], mounts: &[Mount]) -> bool {
    let Some(protected) = places.last() else { return false };
    if write.starts_with(protected) || places.iter().any(|place| place.starts_with(write)) {
        return true;
    }
    let written = extents(write, mounts);
    extents(protected, mounts).iter().any(|(device, path)| {
        written.iter().any(|(other, at)| device == other && (path.starts_with(at) || at.starts_with(path)))
    })
}

/// Walks folders without following links or leaving the filesystem; false if there are too many entries.
fn walk(root: &Path, left: &mut usize, visit: &mut impl FnMut(&Path, &Metadata)) -> bool {
    let Ok(first) = fs::symlink_metadata(root) else { return true };
    visit(root, &first);
    let mut pending = if first.is_dir() { vec![root.to_owned()] } else { Vec::new() };
    while let Some(folder) = pending.pop() {
        // What cannot be listed by us cannot be written by the agent, which has no more rights.
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            if *left == 0 {
                return false;
            }
            *left -= 1;
            let path = entry.path();
            let Ok(about) = fs::symlink_metadata(&path) else { continue };
            visit(&path, &about);
            if about.is_dir() && about.dev() == first.dev() {
                pending.push(path);
            }
        }
    }
    true
}

/// Refuses a second name of a protected file beneath what may be written. Answers with a gap if there is too
/// much to look at.
fn hard_links(writable: &[(PathBuf, PathBuf)], protect: &[PathBuf]) -> Result<Option<String>, SandboxError> {
    let too_many = |what: &Path| Some(format!("too many files in {} to look for links", what.display()));
    let mut several: HashMap<(u64, u64), PathBuf> = HashMap::new();
    for protected in protect {
        let mut left = MOST_ENTRIES;
        let canonical = fs::canonicalize(protected)
            .map_err(|source| SandboxError::Path { path: protected.clone(), source })?;
        let whole = walk(&canonical, &mut left, &mut |path, about| {
            if !about.is_dir() && about.nlink() > 1 {
                several.insert((about.dev(), about.ino()), path.to_owned());
            }
        });
        if !whole {
            return Ok(too_many(protected));
        }
    }
    if several.is_empty() {
        return Ok(None);
    }
    for (given, canonical) in writable {
        let mut left = MOST_ENTRIES;
        let mut linked = None;
        let whole = walk(canonical, &mut left, &mut |path, about| {
            if let Some(protected) = several.get(&(about.dev(), about.ino())) {
                linked = Some((path.to_owned(), protected.clone()));
            }
        });
        if let Some((link, protect)) = linked {
            return Err(SandboxError::Linked { link, protect });
        }
        if !whole {
            return Ok(too_many(given));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn overlaps(write: &Path, protect: &Path) -> bool {
        match check(&[write.to_owned()], &[], &[protect.to_owned()]) {
            Ok(_) => false,
            Err(SandboxError::Overlap { write: named, protect: too }) => {
                assert_eq!((named.as_path(), too.as_path()), (write, protect));
                true
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn paths_that_reach_one_another_are_refused() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        for folder in ["work", "work/sub", "state", "state/artefacts", "state-two"] {
            fs::create_dir(at(folder)).unwrap();
        }
        fs::write(at("state/ledger"), "rows").unwrap();
        fs::write(at("work/file"), "text").unwrap();
        symlink(at("state"), at("work/to-state")).unwrap();
        symlink(at("work"), at("to-work")).unwrap();
        // A program on PATH is often a link: who may replace the link replaces the program.
        symlink(at("state/ledger"), at("work/program")).unwrap();
        symlink("../state", at("work/sub/up")).unwrap();
        symlink(at("work/program"), at("outer")).unwrap();

        for (write, protect, expected) in [
            ("work", "state", false),
            ("state", "state-two", false),
            ("state", "state", true),
            ("state/artefacts", "state", true),
            (".", "state", true),
            ("work/to-state", "state", true),
            ("to-work", "work/file", true),
            ("work", "work/program", true),
            ("work/sub", "work/program", false),
            ("work", "outer", true),
            ("work/sub", "outer", false),
            ("state/ledger", "work/program", true),
            ("state/ledger", "outer", true),
        ] {
            assert_eq!(overlaps(&at(write), &at(protect)), expected, "{write} {protect}");
        }
        let missing = check(&[at("missing")], &[], &[]);
        assert!(matches!(missing, Err(SandboxError::Path { path, .. }) if path == at("missing")));
        assert!(matches!(check(&[], &[], &[at("missing")]), Err(SandboxError::Path { .. })));
        // What is always writable counts, and may be missing.
        let always = at("work").to_str().unwrap().to_owned();
        assert!(matches!(
            check(&[], &[&always, "/no/such"], &[at("work/file")]),
            Err(SandboxError::Overlap { .. })
        ));
    }

    #[test]
    fn loops_end() {
        let world = tempfile::tempdir().unwrap();
        symlink("b", world.path().join("a")).unwrap();
        symlink("a", world.path().join("b")).unwrap();
        assert!(places(&world.path().join("a")).is_err());
    }

    #[test]
    fn places_are_the_links_and_the_file() {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real/../real", root.join("folder")).unwrap();
        fs::write(root.join("real/deep/file"), "").unwrap();
        symlink("deep/file", root.join("real/link")).unwrap();
        assert_eq!(
            places(&root.join("folder/link")).unwrap(),
            [root.join("folder"), root.join("real/link"), root.join("real/deep/file")]
        );
    }

    #[test]
    fn hard_links_are_found() {
        let world = tempfile::tempdir().unwrap();
        let at = |name: &str| world.path().join(name);
        fs::create_dir_all(at("work/deep")).unwrap();
        fs::create_dir_all(at("state/inner")).unwrap();
        fs::write(at("state/inner/ledger"), "rows").unwrap();
        let outcome = || check(&[at("work")], &[], &[at("state")]);
        assert!(outcome().unwrap().gaps.is_empty());
        // A second name elsewhere is no concern.
        fs::hard_link(at("state/inner/ledger"), at("state/copy")).unwrap();
        assert!(outcome().is_ok());
        fs::hard_link(at("state/inner/ledger"), at("work/deep/link")).unwrap();
        let Err(SandboxError::Linked { link, protect }) = outcome() else { panic!("not found") };
        assert_eq!(link, at("work/deep/link").canonicalize().unwrap());
        assert!(protect.starts_with(at("state").canonicalize().unwrap()));
    }

    fn table(lines: &[(&str, &str, &str)]) -> Vec<Mount> {
        let text: Vec<String> = lines
            .iter()
            .map(|(device, root, point)| format!("1 2 {device} {root} {point} rw - ext4 /dev/x rw"))
            .collect();
        parse_mounts(text.join("\n").as_bytes())
    }

    #[test]
    fn bind_mounts_are_seen_through() {
        let mounts = table(&[
            ("8:1", "/", "/"),
            ("8:2", "/", "/home"),
            ("8:2", "/me/state", "/made/tree/hidden"),
            ("8:2", "/me/state/artefacts", "/made/part"),
            ("8:2", "/", "/made/whole"),
            ("8:2", "/me/other", "/made/other"),
            ("8:3", "/me/state", "/made/foreign"),
            ("8:1", "/srv/deep", "/home/me/state/mounted"),
            ("8:9", "/", "/covered"),
            ("8:2", "/me/state", "/covered"),
        ]);
        let protected = [PathBuf::from("/home/me/state")];
        for (write, expected) in [
            ("/made/tree", true),
            ("/made/tree/hidden", true),
            ("/made/part", true),
            ("/made/whole/me", true),
            ("/made/whole/you", false),
            ("/made/other", false),
            ("/made/foreign", false),
            ("/srv", true),
            ("/srv/deep/er", true),
            ("/srv/else", false),
            ("/covered", true),
        ] {
            assert_eq!(overlap(Path::new(write), &protected, &mounts), expected, "{write}");
        }
    }

    #[test]
    fn names_in_the_table_are_unescaped() {
        let mounts = table(&[("8:1", "/a\\040b", "/c\\134d\\011")]);
        assert_eq!(mounts[0].root, Path::new("/a b"));
        assert_eq!(mounts[0].point, Path::new("/c\\d\t"));
        assert_eq!(unescape(b"\\04"), Path::new("\\04"));
    }
}
