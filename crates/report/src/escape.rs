//! Other people's words inside Markdown: they may say anything and form nothing.
//!
//! Hypotheses, answers, last words, names and paths come from agents. What they write is shown as written, but never as
//! a heading, a table, a link, an image, HTML, a mention or a formula. Text that looks like any of these, or like an
//! identifier, goes into a code span, where nothing is interpreted; the rest is escaped sign by sign.

/// Columns at which prose is wrapped.
const WIDTH: usize = 100;

/// One line of text: runs of white space become one space; what cannot be seen or turns the reading direction becomes
/// `�`.
#[must_use]
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            if !out.is_empty() && !out.ends_with(' ') {
                out.push(' ');
            }
        } else if unseen(c) {
            out.push('\u{FFFD}');
        } else {
            out.push(c);
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// Controls, direction marks, signs without width, tags, private and unassigned ends of planes.
fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{00AD}' | '\u{061C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}' | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}'
            | '\u{FFFE}'..='\u{FFFF}' | '\u{E000}'..='\u{F8FF}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{10FFFF}')
}

/// At most `most` characters, with `…` where something is left out.
#[must_use]
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some(_) => {
            let end = text.char_indices().nth(most.saturating_sub(1)).map_or(0, |(i, _)| i);
            format!("{}…", text[..end].trim_end())
        }
    }
}

/// A text as a code span; nothing for a text of white space.
#[must_use]
pub fn code(text: &str) -> String {
    span(&clean(text))
}

fn span(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let room = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{room}{text}{room}{fence}")
}

/// A text as running text. Pairs of backticks stay code.
#[must_use]
pub fn inline(text: &str) -> String {
    let text = clean(text);
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.as_str();
    while let Some(open) = rest.find('`') {
        let close = rest[open + 1..].find('`').map(|n| open + 1 + n);
        let Some(close) = close.filter(|c| !rest[open + 1..*c].trim().is_empty()) else {
            prose(&rest[..=open], false, &mut out);
            rest = &rest[open + 1..];
            continue;
        };
        prose(&rest[..open], true, &mut out);
        join(&mut out, &span(rest[open + 1..close].trim()));
        rest = &rest[close + 1..];
    }
    prose(rest, false, &mut out);
    out
}

/// A text in a cell of a table: a bar is no border.
#[must_use]
pub fn cell(text: &str) -> String {
    bars(&inline(text))
}

/// Escapes the bars in code spans; those in prose are escaped already. A bar that follows a backslash inside code could
/// be read as escaped by one reader and as a border by another, so it becomes one that is no border for anybody.
pub(crate) fn bars(markdown: &str) -> String {
    let mut out = String::with_capacity(markdown.len() + 8);
    let (mut fence, mut before) = (0_usize, ' ');
    let mut signs = markdown.chars().peekable();
    while let Some(c) = signs.next() {
        match c {
            // An escaped sign of prose, whole.
            '\\' if fence == 0 => {
                out.push(c);
                out.extend(signs.next());
            }
            '`' => {
                let mut run = 1;
                while signs.next_if_eq(&'`').is_some() {
                    run += 1;
                }
                out.push_str(&"`".repeat(run));
                fence = match fence {
                    0 => run,
                    open if open == run => 0,
                    open => open,
                };
            }
            '|' if before == '\\' => out.push('¦'),
            '|' => out.push_str("\\|"),
            _ => out.push(c),
        }
        before = c;
    }
    out
}

/// Appends a code span; two in a row would become one, or none.
fn join(out: &mut String, span: &str) {
    if out.ends_with('`') {
        out.push(' ');
    }
    out.push_str(span);
}

/// Appends running text; `code_follows` if a code span does.
fn prose(text: &str, code_follows: bool, out: &mut String) {
    for token in text.split_inclusive(' ') {
        let before_code = code_follows && !token.ends_with(' ');
        let (word, space) = token.strip_suffix(' ').map_or((token, ""), |w| (w, " "));
        if word.is_empty() {
            out.push_str(space);
            continue;
        }
        let inner = word.trim_start_matches(['(', '[', '{', '"', '\'', '<', '*', '~']);
        let head = &word[..word.len() - inner.len()];
        let core =
            inner.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '"', '\'', '>', '*', '~']);
        let tail = &inner[core.len()..];
        if !core.is_empty() && is_code(core) {
            escape(head, true, out);
            join(out, &span(core));
            escape(tail, before_code, out);
        } else {
            escape(word, before_code, out);
        }
        out.push_str(space);
    }
}

/// Whether a word is an identifier, an address, a mention, a reference or a formula.
fn is_code(word: &str) -> bool {
    let lower = word.to_lowercase();
    let numbered = |mark: &str| {
        lower.match_indices(mark).any(|(i, m)| lower[i + m.len()..].starts_with(|c: char| c.is_ascii_digit()))
    };
    word.contains(['_', '@', '$', '^', '\\'])
        || word.matches(':').count() > 1
        || lower.contains("://")
        || lower.contains("www.")
        || numbered("#")
        || numbered("gh-")
}

/// Escapes a word where a sign means something, and leaves it where it does not: what is read as text should be readable
/// as text. In a word that a code span follows every `<` does: a backtick may stand in an address, so ``<`a@b.c>` `` is one.
fn escape(text: &str, before_code: bool, out: &mut String) {
    // What begins a block does so only where a line begins, and `wrap` begins lines with nothing that does.
    let first = out.is_empty();
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let mut signs = text.chars().enumerate().peekable();
    while let Some((i, c)) = signs.next() {
        let next = signs.peek().map(|(_, c)| *c);
        let means = match c {
            '\\' | '`' | '*' | '_' | '|' | '~' | '$' | '^' => true,
            // An interval is no link; and none is closed by a bracket that nothing follows.
            '[' => !next.is_some_and(|n| n.is_ascii_digit()),
            ']' => next.is_some_and(|n| matches!(n, '(' | '[' | ':')),
            '<' => before_code || next.is_some_and(|n| n.is_alphabetic() || matches!(n, '/' | '!' | '?')),
            '&' => next.is_some_and(|n| n.is_alphanumeric() || n == '#'),
            '#' | '+' | '-' | '=' | ':' | '!' | '>' => first && i == 0,
            '.' | ')' => first && i > 0 && i == digits && next.is_none(),
            _ => false,
        };
        if means {
            out.push('\\');
        }
        out.push(c);
    }
}

/// Whether a line may begin with this word: with a letter, with an opening bracket, or with a letter or digit behind an
/// own mark of emphasis or one backtick of a code span.
fn begins_line(word: &str) -> bool {
    let marked = |rest: &str| rest.starts_with(char::is_alphanumeric);
    match word.chars().next() {
        Some('`') => marked(&word[1..]),
        Some('*') => marked(word.trim_start_matches('*')),
        Some(c) => c == '(' || c.is_alphabetic(),
        None => false,
    }
}

/// Breaks Markdown at spaces, with `first` before the first line and as many spaces before the others. Lines begin as
/// [`begins_line`] allows, so that none begins a block.
pub(crate) fn wrap(first: &str, markdown: &str) -> String {
    let margin = first.chars().count();
    let mut out = String::from(first);
    let mut column = margin;
    for (i, word) in markdown.split(' ').enumerate() {
        let length = word.chars().count();
        if i > 0 && column + 1 + length > WIDTH && begins_line(word) {
            out.push('\n');
            out.push_str(&" ".repeat(margin));
            column = margin;
        } else if i > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_shown_as_written() {
        for (text, shown) in [
            ("half the time, by 2 x", "half the time, by 2 x"),
            ("# no heading", "\\# no heading"),
            ("1. no list", "1\\. no list"),
            ("12) no list", "12\\) no list"),
            ("1.5 x", "1.5 x"),
            ("- no list - none", "\\- no list - none"),
            ("a | b", "a \\| b"),
            ("*no* <b>html</b> &amp;", "\\*no\\* \\<b>html\\</b> \\&amp;"),
            ("2 * 3 < 7 & 8 > 1 in [0.9, 1.1]", "2 \\* 3 < 7 & 8 > 1 in [0.9, 1.1]"),
            ("[3](x) [^1] [x]: y", "[3\\](x) \\[`^1`] \\[x\\]: y"),
            ("> no quote", "\\> no quote"),
            ("[no](https://x.y) ![no](z)", "\\[`no](https://x.y`) !\\[no\\](z)"),
            ("see http://x.y/?a=b, please", "see `http://x.y/?a=b`, please"),
            ("@somebody fixes #12", "`@somebody` fixes `#12`"),
            ("row_max (in `softmax`)", "`row_max` (in `softmax`)"),
            ("`a``b`", "`a` `b`"),
            ("a lone ` here", "a lone \\` here"),
            ("`` ` ``", "\\`\\` \\` \\`\\`"),
            // Addresses, were it not for the backslash.
            ("<a@b.c>_", "\\<`a@b.c>_`"),
            ("<`a@b.c>`", "\\<`a@b.c>`"),
            ("<1`a@b.c>`", "\\<1`a@b.c>`"),
            ("x_y<`a@b.c>`", "`x_y<` `a@b.c>`"),
            ("1 <`x`<2`a@b.c>` <3", "1 \\<`x`\\<2`a@b.c>` <3"),
            ("< `a@b.c>`", "< `a@b.c>`"),
            ("costs $5 $", "costs `$5` `$`"),
            ("\u{1b}[31mred\u{202e}\n\nnext\tline ", "�[31mred� next line"),
            ("", ""),
        ] {
            assert_eq!(inline(text), shown, "{text:?}");
        }
    }

    #[test]
    fn code_holds_anything() {
        for (text, shown) in [
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("```", "```` ``` ````"),
            (" \n", ""),
            ("a  b\nc", "`a b c`"),
        ] {
            assert_eq!(code(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_bar_is_no_border() {
        assert_eq!(cell("a | `b|c` d_|e"), "a \\| `b\\|c` `d_\\|e`");
        assert_eq!(cell(r"`a\|b` \| c\"), r"`a\¦b` `\¦` `c\`");
        assert_eq!(bars(&code("``|`")), "``` ``\\|` ```");
    }

    #[test]
    fn long_texts_are_cut_and_wrapped() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("ab cd", 4), "ab…");
        assert_eq!(cut("äöüß", 3), "äö…");
        let words = "word ".repeat(30);
        let wrapped = wrap("- ", words.trim_end());
        assert_eq!(wrapped.lines().count(), 2);
        assert!(wrapped.lines().nth(1).unwrap().starts_with("  word"));
        let signs = "- ".repeat(80);
        assert_eq!(wrap("", signs.trim_end()).lines().count(), 1, "no line begins with a sign");
    }
}
