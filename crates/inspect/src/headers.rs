//! What a build read: make-style dependency output → paths → where each of them lies.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Dependency output is not what a compiler writes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DepfileError {
    /// Text without a `target:`.
    #[error("no rule in the dependency output")]
    NoRule,
    /// Prerequisites that stand before any target.
    #[error("line {line}: names without a target")]
    NoTarget {
        /// 1-based line where the rule starts.
        line: usize,
    },
}

/// Parses the output of `-MD`/`-MMD`/`-M` (and of `as --MD`): every prerequisite of every rule, in order of first
/// appearance, without repeats. Understands continuation lines, `\ ` and `\#` escapes, `$$`, several targets, and
/// the empty rules that `-MP` adds.
///
/// # Errors
/// [`DepfileError`] if there is no rule, or names without a target.
pub fn parse_depfile(text: &str) -> Result<Vec<PathBuf>, DepfileError> {
    let mut out: Vec<PathBuf> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut any = false;
    for (line, rule) in logical_lines(text) {
        let Some(rule) = split_rule(&rule) else {
            if rule.trim().is_empty() {
                continue;
            }
            return Err(DepfileError::NoTarget { line });
        };
        any = true;
        for word in words(rule) {
            if seen.insert(word.clone()) {
                out.push(PathBuf::from(word));
            }
        }
    }
    if any { Ok(out) } else { Err(DepfileError::NoRule) }
}

/// Lines with continuations joined, each with the number of its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut out = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let (mut start, mut joined) = open.take().unwrap_or((index + 1, String::new()));
        // An even run of backslashes is a name that ends in one; only an odd one continues the line.
        let backslashes = line.len() - line.trim_end_matches('\\').len();
        if backslashes % 2 == 1 {
            joined.push_str(&line[..line.len() - 1]);
            joined.push(' ');
            open = Some((start, joined));
        } else {
            joined.push_str(line);
            if joined.trim().is_empty() {
                start = index + 1;
            }
            out.push((start, joined));
        }
    }
    out.extend(open);
    out
}

/// What follows the colon that ends the targets: one before a blank or the end, not one inside a name (`C:/x`).
fn split_rule(line: &str) -> Option<&str> {
    let bytes = line.as_bytes();
    (0..bytes.len())
        .find(|&i| bytes[i] == b':' && bytes.get(i + 1).is_none_or(u8::is_ascii_whitespace))
        .map(|i| &line[i + 1..])
}

/// Splits at blanks that are not escaped, and removes the escapes.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(' ' | '\t' | '#' | '\\' | ':')) | ('$', Some('$')) => word.extend(chars.next()),
            (' ' | '\t', _) => {
                if !word.is_empty() {
                    out.push(std::mem::take(&mut word));
                }
            }
            _ => word.push(c),
        }
    }
    if !word.is_empty() {
        out.push(word);
    }
    out
}

/// Where a file that the build read lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathClass {
    /// In the workspace: the candidate's own.
    Workspace,
    /// In a folder that the recipe offers from outside the workspace (the generated call header).
    Offered,
    /// The compiler's own files.
    Toolchain,
    /// Installed for every compiler of the machine.
    System,
    /// Anywhere else.
    Outside,
}

/// The folders that classes are told by. All absolute; the caller resolves symbolic links.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roots {
    /// The workspace: also the folder that relative names start from.
    pub workspace: PathBuf,
    /// Folders that the recipe offers.
    pub offered: Vec<PathBuf>,
    /// Folders of the compiler.
    pub toolchain: Vec<PathBuf>,
    /// System include folders.
    pub system: Vec<PathBuf>,
}

/// `path` made absolute from `base`, with `.` and `..` resolved by name alone.
#[must_use]
pub fn normalise(base: &Path, path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in base.join(path).components() {
        match part {
            Component::CurDir => {}
            // `..` above the root stays at the root, as the kernel has it.
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

impl Roots {
    /// Class of `path` and its name relative to the root that decided (the whole path if `Outside`). The longest
    /// root wins, so a workspace inside a system folder is still a workspace.
    #[must_use]
    pub fn classify(&self, path: &Path) -> (PathClass, PathBuf) {
        let absolute = normalise(&self.workspace, path);
        let roots = std::iter::once((PathClass::Workspace, &self.workspace))
            .chain(self.offered.iter().map(|r| (PathClass::Offered, r)))
            .chain(self.toolchain.iter().map(|r| (PathClass::Toolchain, r)))
            .chain(self.system.iter().map(|r| (PathClass::System, r)));
        let mut best: Option<(usize, PathClass, &Path)> = None;
        for (class, root) in roots {
            if root.as_os_str().is_empty() {
                continue;
            }
            let depth = root.components().count();
            if let Ok(rest) = absolute.strip_prefix(root)
                && best.is_none_or(|(d, ..)| depth > d)
            {
                best = Some((depth, class, rest));
            }
        }
        match best {
            Some((_, class, rest)) => (class, rest.to_owned()),
            None => (PathClass::Outside, absolute),
        }
    }
}

/// One file of the closure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Absolute path.
    pub path: PathBuf,
    /// Where it lies.
    pub class: PathClass,
    /// Name relative to the root of its class; equals `path` if outside.
    pub name: PathBuf,
}

/// Every file that the build read, sources included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closure {
    /// In order of first appearance.
    pub files: Vec<Header>,
}

impl Closure {
    /// Classifies `paths`; the same file under two spellings counts once.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = PathBuf>, roots: &Roots) -> Self {
        let mut seen = std::collections::HashSet::new();
        let files = paths
            .into_iter()
            .filter_map(|path| {
                let (class, name) = roots.classify(&path);
                let path = normalise(&roots.workspace, &path);
                seen.insert(path.clone()).then_some(Header { path, class, name })
            })
            .collect();
        Self { files }
    }

    /// Files of one class.
    pub fn of(&self, class: PathClass) -> impl Iterator<Item = &Header> {
        self.files.iter().filter(move |h| h.class == class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Vec<String> {
        parse_depfile(text).unwrap().into_iter().map(|p| p.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn depfiles() {
        assert_eq!(
            parsed("a.o: a.c /usr/include/stdio.h \\\n  b\\ c.h\n"),
            ["a.c", "/usr/include/stdio.h", "b c.h"]
        );
        assert_eq!(parsed("a.o a.d: x.c\nb.o: x.c y.h"), ["x.c", "y.h"]);
        assert_eq!(parsed("a.o: a.c h.h\n\nh.h:\n"), ["a.c", "h.h"]);
        assert_eq!(parsed("a.o: a\\#b.h c$$d.h C:/e.h"), ["a#b.h", "c$d.h", "C:/e.h"]);
        assert_eq!(parsed("a.o: \\\r\n a.c\r\n"), ["a.c"]);
        assert_eq!(parsed("a.o:"), Vec::<String>::new());
        assert_eq!(parse_depfile(" \n"), Err(DepfileError::NoRule));
        assert_eq!(parse_depfile("a.o: b\nrubbish"), Err(DepfileError::NoTarget { line: 2 }));
    }

    fn roots() -> Roots {
        Roots {
            workspace: "/usr/src/ws".into(),
            offered: vec!["/state/header".into()],
            toolchain: vec!["/usr/lib/gcc/x/12/include".into()],
            system: vec!["/usr/include".into(), "/usr".into()],
        }
    }

    #[test]
    fn classes() {
        for (path, class, name) in [
            ("a.c", PathClass::Workspace, "a.c"),
            ("./sub/../b.h", PathClass::Workspace, "b.h"),
            ("/usr/include/math.h", PathClass::System, "math.h"),
            ("/usr/lib/gcc/x/12/include/immintrin.h", PathClass::Toolchain, "immintrin.h"),
            ("/state/header/call.h", PathClass::Offered, "call.h"),
            ("../../../home/x.h", PathClass::Outside, "/home/x.h"),
            ("../wsx/y.h", PathClass::System, "src/wsx/y.h"),
            ("/usr/include/../../etc/passwd", PathClass::Outside, "/etc/passwd"),
        ] {
            assert_eq!(roots().classify(Path::new(path)), (class, PathBuf::from(name)), "{path}");
        }
    }

    #[test]
    fn closure_names_a_file_once() {
        let c = Closure::new(["a.c".into(), "./a.c".into(), "/usr/src/ws/a.c".into(), "/x".into()], &roots());
        assert_eq!(c.files.len(), 2);
        assert_eq!(c.of(PathClass::Outside).count(), 1);
    }

    proptest! {
        #[test]
        fn what_make_escapes_comes_back(names in proptest::collection::vec("[a-z/._ #$]{0,6}[a-z]", 1..6)) {
            let escaped: Vec<_> =
                names.iter().map(|n| n.replace('$', "$$").replace('#', "\\#").replace(' ', "\\ ")).collect();
            let mut expected = names;
            let mut seen = std::collections::HashSet::new();
            expected.retain(|n| seen.insert(n.clone()));
            prop_assert_eq!(parsed(&format!("t.o: {}\n", escaped.join(" \\\n "))), expected);
        }
        #[test]
        fn anything_is_parsed_or_refused(text in "\\PC{0,40}[\\\\:\n $#a]{0,40}") {
            let _ = parse_depfile(&text);
        }
    }
}
