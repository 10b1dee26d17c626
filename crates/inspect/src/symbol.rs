//! Symbol names as people read them, and which known name a missing one resembles.

use std::fmt;

/// Mangled names beyond this many bytes are shown as they are.
const MANGLED_LIMIT: usize = 2048;
/// Demangled text is cut here; back-references can otherwise make it exponential in the input.
const TEXT_LIMIT: usize = 512;

/// The demangled form of an Itanium C++ name, or `None` if `name` is not one or is too large.
#[must_use]
pub fn demangle(name: &str) -> Option<String> {
    if !name.starts_with("_Z") || name.len() > MANGLED_LIMIT {
        return None;
    }
    let symbol = cpp_demangle::Symbol::new(name.as_bytes()).ok()?;
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(128);
    let mut text = Bounded(String::new());
    // A full buffer stops the writer with an error; what fits is still worth showing.
    let complete = symbol.structured_demangle(&mut text, &options).is_ok();
    if complete { Some(text.0) } else { (text.0.len() == TEXT_LIMIT).then(|| text.0 + "...") }
}

/// `name` for a message: demangled if it can be, else as it is; never longer than a line or two.
#[must_use]
pub fn readable(name: &str) -> String {
    demangle(name).unwrap_or_else(|| shorten(name))
}

/// `name` cut to a length that fits in a message.
#[must_use]
pub fn shorten(name: &str) -> String {
    match name.char_indices().nth(TEXT_LIMIT) {
        Some((at, _)) => format!("{}...", &name[..at]),
        None => name.to_owned(),
    }
}

struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            if self.0.len() + c.len_utf8() > TEXT_LIMIT {
                // Exactly full, so that the caller can tell "cut" from "malformed".
                while self.0.len() < TEXT_LIMIT {
                    self.0.push(' ');
                }
                return Err(fmt::Error);
            }
            self.0.push(c);
        }
        Ok(())
    }
}

/// Levenshtein distance, in bytes, of two short names.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// The unqualified function name of a demangled signature: `a::b(int)` → `b`.
fn base_name(demangled: &str) -> &str {
    let head = demangled.split(['(', '<']).next().unwrap_or(demangled);
    let head = head.rsplit("::").next().unwrap_or(head);
    head.rsplit(' ').next().unwrap_or(head)
}

/// Why an entry point that should be there is not, judged from a name that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resemblance {
    /// The same function with C++ linkage: `extern "C"` is missing. Holds the mangled name.
    Mangled(String),
    /// A name that differs by a few letters.
    Spelling(String),
}

/// Which of `names` resembles the missing C name `wanted`; a C++ namesake wins over a near miss in spelling.
#[must_use]
pub fn resembling<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<Resemblance> {
    let mut nearest: Option<(usize, &str)> = None;
    for name in names.filter(|n| n.len() <= MANGLED_LIMIT) {
        if demangle(name).is_some_and(|d| base_name(&d) == wanted) {
            return Some(Resemblance::Mangled(name.to_owned()));
        }
        if name.len().abs_diff(wanted.len()) > 3 {
            continue;
        }
        let d = distance(wanted, name);
        // A third of the letters may differ, one at least and three at most: beyond that the hint misleads.
        if d <= (wanted.len() / 3).clamp(1, 3) && nearest.is_none_or(|(best, _)| d < best) {
            nearest = Some((d, name));
        }
    }
    nearest.map(|(_, n)| Resemblance::Spelling(n.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_read() {
        assert_eq!(demangle("_Z3fooi").as_deref(), Some("foo(int)"));
        assert_eq!(demangle("foo"), None);
        assert_eq!(readable("_Znotaname"), "_Znotaname");
        assert_eq!(readable("memcpy"), "memcpy");
        assert!(readable(&"x".repeat(10_000)).len() < 600);
    }

    #[test]
    fn exponential_names_are_cut() {
        // Each back-reference doubles the previous type.
        let mut name = "_Z1fSt4pairIiiE".to_owned();
        for i in 0..20 {
            let s = if i == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", std::char::from_digit(i - 1, 36).unwrap())
            };
            name += &format!("St4pairI{s}{s}E");
        }
        assert!(readable(&name).len() <= MANGLED_LIMIT);
    }

    #[test]
    fn resemblance() {
        let names = ["_Z8attnPKf", "attention_forwrad", "other"];
        assert_eq!(
            resembling("attention_forward", names.into_iter()),
            Some(Resemblance::Spelling("attention_forwrad".into()))
        );
        assert_eq!(
            resembling("softmax", ["softmaxx", "_Z7softmaxPKi"].into_iter()),
            Some(Resemblance::Mangled("_Z7softmaxPKi".into()))
        );
        assert_eq!(
            resembling("softmax", ["_ZN2ns7softmaxEv"].into_iter()),
            Some(Resemblance::Mangled("_ZN2ns7softmaxEv".into()))
        );
        assert_eq!(resembling("gemm", ["main", "gems2d", "g"].into_iter()), None);
    }

    proptest! {
        #[test]
        fn any_name_is_readable(tail in "[A-Z0-9a-zSIE_]{0,64}") {
            let text = readable(&format!("_Z{tail}"));
            prop_assert!(text.len() <= MANGLED_LIMIT);
        }
        #[test]
        fn distance_is_a_metric(a in "[ab]{0,6}", b in "[ab]{0,6}", c in "[ab]{0,6}") {
            prop_assert_eq!(distance(&a, &b), distance(&b, &a));
            prop_assert_eq!(distance(&a, &b) == 0, a == b);
            prop_assert!(distance(&a, &c) <= distance(&a, &b) + distance(&b, &c));
        }
    }
}
