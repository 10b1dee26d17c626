//! Source text as tokens, for rewriting that keeps everything else as it is.

use std::ops::Range;

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: Range<usize>,
}

/// What a token is. White space and punctuation come one character at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Number,
    /// A string or a character, quotes included.
    Quoted,
    Comment,
    Other,
}

/// Splits a text; the spans cover it without gaps.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let first = rest.chars().next().unwrap_or(' ');
        let (kind, length) = if rest.starts_with("//") {
            (TokenKind::Comment, rest.find('\n').unwrap_or(rest.len()))
        } else if let Some(inner) = rest.strip_prefix("/*") {
            (TokenKind::Comment, inner.find("*/").map_or(rest.len(), |e| e + 4))
        } else if first == '"' || first == '\'' {
            (TokenKind::Quoted, quoted(rest, first))
        } else if first.is_ascii_digit()
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            (TokenKind::Number, number(rest))
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            (TokenKind::Word, end)
        } else {
            (TokenKind::Other, first.len_utf8())
        };
        out.push(Token { kind, span: at..at + length });
        at += length;
    }
    out
}

fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (index, c) in rest.char_indices().skip(1) {
        if c == '\n' {
            return index;
        }
        if c == quote && !escaped {
            return index + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    rest.len()
}

fn number(rest: &str) -> usize {
    let mut before = ' ';
    for (index, c) in rest.char_indices() {
        let exponent_sign =
            (c == '+' || c == '-') && matches!(before, 'e' | 'E' | 'p' | 'P') && !rest.starts_with("0x")
                || (c == '+' || c == '-') && matches!(before, 'p' | 'P');
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || exponent_sign) {
            return index;
        }
        before = c;
    }
    rest.len()
}

/// A macro's body with its parameters replaced, each argument in parentheses where it is more than a word.
pub(crate) fn substitute(body: &str, parameters: &[String], arguments: &[&str]) -> String {
    let mut out = String::new();
    for token in tokens(body) {
        let word = &body[token.span];
        match parameters.iter().position(|p| p == word) {
            Some(index) if token.kind == TokenKind::Word => {
                let argument = arguments.get(index).copied().unwrap_or_default();
                let plain = argument.chars().all(|c| c.is_alphanumeric() || c == '_');
                if plain {
                    out.push_str(argument);
                } else {
                    out.push('(');
                    out.push_str(argument);
                    out.push(')');
                }
            }
            _ => out.push_str(word),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_numbers_and_comments() {
        let text = "x1 = 1.5e-3f + \"a\\\"b\" /* c */ // d\n'\\''";
        let kinds: Vec<(TokenKind, &str)> = tokens(text)
            .into_iter()
            .filter(|t| t.kind != TokenKind::Other)
            .map(|t| (t.kind, &text[t.span]))
            .collect();
        assert_eq!(
            kinds,
            [
                (TokenKind::Word, "x1"),
                (TokenKind::Number, "1.5e-3f"),
                (TokenKind::Quoted, "\"a\\\"b\""),
                (TokenKind::Comment, "/* c */"),
                (TokenKind::Comment, "// d"),
                (TokenKind::Quoted, "'\\''"),
            ]
        );
        assert_eq!(
            substitute("((i) * n + j)", &["i".into(), "j".into()], &["a + 1", "b"]),
            "(((a + 1)) * n + b)"
        );
    }

    proptest! {
        #[test]
        fn tokens_cover_every_text(text in "\\PC*|[-/*\"'\\\\\n a0.e+x]*") {
            let whole: String = tokens(&text).into_iter().map(|t| text[t.span].to_owned()).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
