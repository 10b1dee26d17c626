//! Glob patterns over symbol, library and header names.

/// Whether `text` matches `pattern`: `*` any run (also empty), `?` any one byte, `[A-Z]` one byte of a range,
/// everything else itself. An unclosed `[` stands for itself.
///
/// Runs in `O(pattern × text)`: a hostile name cannot make it slow.
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    // Where to resume after the last `*`, and how much text it has swallowed.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
        } else if let Some(width) = one(&pattern[p..], text[t]) {
            p += width;
            t += 1;
        } else if let Some((after, swallowed)) = star {
            p = after;
            t = swallowed + 1;
            star = Some((after, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|b| *b == b'*')
}

/// Width of the pattern item at the start of `pattern` if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', low, b'-', high, b']', ..] => (*low..=*high).contains(&byte).then_some(5),
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// The first of `patterns` that matches `text`.
pub(crate) fn first_match<'p, S: AsRef<str>>(patterns: &'p [S], text: &str) -> Option<&'p str> {
    patterns.iter().map(AsRef::as_ref).find(|p| matches(p, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn table() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "abc", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*gemm_", "sgemm_", true),
            ("*gemm_", "sgemm", false),
            ("?x", "ax", true),
            ("?x", "x", false),
            ("cu[A-Z]*", "cuInit", true),
            ("cu[A-Z]*", "cube_root", false),
            ("a[b", "a[b", true),
            ("**a**", "za", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} / {text}");
        }
    }

    #[test]
    fn many_stars_stay_fast() {
        let text = "a".repeat(4000);
        assert!(!matches(&format!("{}b", "*a".repeat(200)), &text));
    }

    /// The obvious recursive definition, exponential but short.
    fn oracle(p: &[u8], t: &[u8]) -> bool {
        match (p, t) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => oracle(rest, t) || (!t.is_empty() && oracle(p, &t[1..])),
            ([b'?', rest @ ..], [_, more @ ..]) => oracle(rest, more),
            ([a, rest @ ..], [b, more @ ..]) => a == b && oracle(rest, more),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(p in "[ab*?]{0,7}", t in "[ab]{0,7}") {
            prop_assert_eq!(matches(&p, &t), oracle(p.as_bytes(), t.as_bytes()));
        }
    }
}
