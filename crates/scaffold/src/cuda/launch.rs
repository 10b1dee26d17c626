//! Launches: `name<types><<<grid, block, bytes, stream>>>(arguments)`.

use crate::tokens::{Token, TokenKind, tokens};
use std::ops::Range;

/// One launch of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Name of the kernel, without namespaces.
    pub(crate) kernel: String,
    /// Template arguments.
    pub(crate) types: Vec<String>,
    /// From the name to the closing parenthesis.
    pub(crate) whole: Range<usize>,
    /// `<<<` to `>>>`, both included.
    pub(crate) brackets: Range<usize>,
    /// What stands between them.
    pub(crate) config: Vec<String>,
    /// What is passed.
    pub(crate) arguments: Vec<String>,
}

/// Index of the bracket that closes the one at `open`.
pub(crate) fn matching(text: &str, all: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (index, token) in all.iter().enumerate().skip(open) {
        if token.kind != TokenKind::Other {
            continue;
        }
        match &text[token.span.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(index);
                }
            }
            _ => {}
        }
    }
    None
}

/// Splits a text at the commas that stand in no bracket.
#[must_use]
pub(crate) fn split(text: &str) -> Vec<String> {
    let (mut parts, mut depth, mut begin) = (Vec::new(), 0i32, 0);
    for token in tokens(text).iter().filter(|t| t.kind == TokenKind::Other) {
        match &text[token.span.clone()] {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                parts.push(text[begin..token.span.start].trim().to_owned());
                begin = token.span.end;
            }
            _ => {}
        }
    }
    let last = text[begin..].trim();
    if !last.is_empty() || !parts.is_empty() {
        parts.push(last.to_owned());
    }
    parts
}

/// Every launch in a text, in order.
#[must_use]
pub(crate) fn launches(text: &str) -> Vec<Launch> {
    let all: Vec<Token> = tokens(text)
        .into_iter()
        .filter(|t| t.kind != TokenKind::Comment && !text[t.span.clone()].trim().is_empty())
        .collect();
    let is = |index: usize, what: &str| all.get(index).is_some_and(|t| &text[t.span.clone()] == what);
    let three = |index: usize, what: &str| {
        (0..3).all(|i| is(index + i, what))
            && all.get(index + 2).is_some_and(|last| last.span.end == all[index].span.start + 3)
    };
    let mut found = Vec::new();
    let mut index = 0;
    while index < all.len() {
        if !three(index, "<") || index == 0 {
            index += 1;
            continue;
        }
        let open = index;
        let mut depth = 0i32;
        let mut close = open + 3;
        while close < all.len() && !(depth == 0 && three(close, ">")) {
            if all[close].kind == TokenKind::Other {
                match &text[all[close].span.clone()] {
                    "(" | "[" | "{" => depth += 1,
                    ")" | "]" | "}" => depth -= 1,
                    _ => {}
                }
            }
            close += 1;
        }
        index = open + 3;
        let Some((types, name)) = before(text, &all, open) else { continue };
        let parenthesis = close + 3;
        if !is(parenthesis, "(") {
            continue;
        }
        let Some(end) = matching(text, &all, parenthesis) else { continue };
        found.push(Launch {
            kernel: text[all[name].span.clone()].to_owned(),
            types,
            whole: all[name].span.start..all[end].span.end,
            brackets: all[open].span.start..all[close + 2].span.end,
            config: split(&text[all[open + 2].span.end..all[close].span.start]),
            arguments: split(&text[all[parenthesis].span.end..all[end].span.start]),
        });
        index = parenthesis;
    }
    found
}

/// Template arguments and the token of the name before `<<<`.
fn before(text: &str, all: &[Token], open: usize) -> Option<(Vec<String>, usize)> {
    let mut at = open.checked_sub(1)?;
    let mut types = Vec::new();
    if &text[all[at].span.clone()] == ">" {
        let end = at;
        let mut depth = 0usize;
        loop {
            match &text[all[at].span.clone()] {
                ">" => depth += 1,
                "<" => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            at = at.checked_sub(1)?;
        }
        types = split(&text[all[at].span.end..all[end].span.start]);
        at = at.checked_sub(1)?;
    }
    (all[at].kind == TokenKind::Word).then_some((types, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn launches_are_taken_apart() {
        let text = "ns::k<float, 4><<<dim3((n + 31) / 32, m), 32, n * sizeof(float), s>>>(x, f(a, b), n); a << 3; g<<<1, 2>>>();";
        let found = launches(text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].kernel.as_str(), &found[0].types[..]),
            ("k", &["float".to_owned(), "4".to_owned()][..])
        );
        assert_eq!(found[0].config, ["dim3((n + 31) / 32, m)", "32", "n * sizeof(float)", "s"]);
        assert_eq!(found[0].arguments, ["x", "f(a, b)", "n"]);
        assert_eq!(&text[found[0].brackets.clone()][..3], "<<<");
        assert_eq!((found[1].config.len(), found[1].arguments.len()), (2, 0));
        assert_eq!(split("a, (b, c), d[e, f]"), ["a", "(b, c)", "d[e, f]"]);
        assert_eq!(split(" "), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_text_is_searched(text in "([a-z]|<<<|>>>|[<>(),;{}\\[\\] ]){0,80}") {
            for launch in launches(&text) {
                prop_assert!(text.get(launch.whole).is_some() && text.get(launch.brackets).is_some());
            }
        }
    }
}
