//! Local headers: which ones a file includes, where they are, and under which name their copies lie.

use crate::tokens::{TokenKind, tokens};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// More local files than this belong to a project, not to a kernel.
const MOST_FILES: usize = 64;

/// A copied file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Name of the copy.
    pub name: String,
    /// Where it came from.
    pub path: PathBuf,
    /// Its text, with its own includes pointing to copies.
    pub text: String,
}

/// A file with everything local that it includes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Closure {
    /// The file's text, with its includes pointing to copies.
    pub text: String,
    /// The copies.
    pub headers: Vec<Header>,
    /// Includes in quotes that are not there: name of the file, 1-based line, what is included.
    pub missing: Vec<(String, usize, String)>,
}

/// `#include "…"` of a text: what stands between the quotes, and where.
#[must_use]
pub fn includes(text: &str) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let all = tokens(text);
    for (index, token) in all.iter().enumerate() {
        if token.kind != TokenKind::Quoted || token.span.len() < 3 {
            continue;
        }
        let mut before = all[..index]
            .iter()
            .rev()
            .filter(|t| !text[t.span.clone()].trim().is_empty() || text[t.span.clone()].contains('\n'));
        let words: Vec<&str> = before.by_ref().take(2).map(|t| &text[t.span.clone()]).collect();
        if words.first().is_some_and(|w| *w == "include") && words.get(1) == Some(&"#") {
            let inner = token.span.start + 1..token.span.end - 1;
            found.push((text[inner.clone()].to_owned(), inner));
        }
    }
    found
}

/// Follows the local includes of a file. `read` gives the text of a path, if there is such a file.
pub fn closure(path: &Path, text: &str, read: &mut dyn FnMut(&Path) -> Option<String>) -> Closure {
    let mut out = Closure::default();
    let mut names: BTreeMap<PathBuf, String> = BTreeMap::new();
    let mut queue: Vec<(PathBuf, String)> = Vec::new();
    out.text = rewrite(path, text, &mut names, &mut queue, read, &mut out.missing);
    while let Some((path, text)) = queue.pop() {
        let name = names.get(&path).cloned().unwrap_or_default();
        let text = rewrite(&path, &text, &mut names, &mut queue, read, &mut out.missing);
        out.headers.push(Header { name, path, text });
    }
    out.headers.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn rewrite(
    path: &Path,
    text: &str,
    names: &mut BTreeMap<PathBuf, String>,
    queue: &mut Vec<(PathBuf, String)>,
    read: &mut dyn FnMut(&Path) -> Option<String>,
    missing: &mut Vec<(String, usize, String)>,
) -> String {
    let mut out = text.to_owned();
    for (name, span) in includes(text).into_iter().rev() {
        let target = plain(&path.parent().unwrap_or(Path::new("")).join(&name));
        let known = names.get(&target).cloned();
        let copy = match known {
            Some(copy) => copy,
            None => {
                let Some(text) = (names.len() < MOST_FILES).then(|| read(&target)).flatten() else {
                    let line = 1 + text[..span.start].matches('\n').count();
                    missing.push((path.display().to_string(), line, name));
                    continue;
                };
                let copy = free_name(&target, names);
                names.insert(target.clone(), copy.clone());
                queue.push((target, text));
                copy
            }
        };
        out.replace_range(span, &copy);
    }
    out
}

/// All copies lie in one folder: two files of the same name get different ones.
fn free_name(path: &Path, names: &BTreeMap<PathBuf, String>) -> String {
    let base = path.file_name().map_or_else(|| "header.h".to_owned(), |n| n.to_string_lossy().into_owned());
    let taken = |name: &str| {
        names.values().any(|n| n == name)
            || ["seed", "kernel", "reference"]
                .iter()
                .any(|stem| ["c", "cc", "cu"].iter().any(|e| name == format!("{stem}.{e}")))
    };
    if !taken(&base) {
        return base;
    }
    let mut number = 2;
    loop {
        let name = format!("local{number}_{base}");
        if !taken(&name) {
            return name;
        }
        number += 1;
    }
}

/// A path without `.` and, as far as names alone tell, without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(out.components().next_back(), Some(Component::Normal(_))) => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_includes_are_followed_and_point_to_copies() {
        let files = BTreeMap::from([
            ("src/util/a.h", "#include \"../b.h\"\n#include <math.h>\n"),
            ("src/b.h", "#include \"util/a.h\"\n"),
            ("src/other/a.h", "int other;\n"),
        ]);
        let text = "#include \"util/a.h\"\n#  include \"other/a.h\"\n// #include \"c.h\"\nchar *s = \"d.h\";\n#include \"e.h\"\n";
        let got = closure(Path::new("src/k.c"), text, &mut |p| {
            files.get(p.to_str().unwrap()).map(|t| (*t).to_owned())
        });
        let names: Vec<&str> = got.headers.iter().map(|h| h.name.as_str()).collect();
        assert_eq!(names, ["a.h", "b.h", "local2_a.h"]);
        // The last include is followed first.
        assert!(
            got.text.contains("#include \"local2_a.h\"") && got.text.contains("#  include \"a.h\""),
            "{}",
            got.text
        );
        assert_eq!(got.missing, [("src/k.c".to_owned(), 5, "e.h".to_owned())]);
        let b = got.headers.iter().find(|h| h.name == "b.h").unwrap();
        assert_eq!(b.text, "#include \"local2_a.h\"\n");
    }
}
