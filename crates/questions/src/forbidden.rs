//! The list of what no question may say.

use crate::document::{Faults, Table};
use std::ops::Range;

/// How a term is found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Match {
    /// At the start of words.
    Start,
    /// As whole words.
    Word,
    /// As whole words at the start of a clause.
    Clause,
}

#[derive(Debug, Clone)]
struct Term {
    list: String,
    rule: u8,
    how: Match,
    words: Vec<String>,
}

/// The forbidden terms, in the order of their file.
#[derive(Debug, Clone, Default)]
pub(crate) struct Forbidden(Vec<Term>);

/// A forbidden term in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// The lint rule that forbids it: 2 names things, 3 names solutions.
    pub(crate) rule: u8,
    /// What it is, and what it says.
    pub(crate) message: String,
    /// Byte range in the text.
    pub(crate) at: Range<usize>,
}

impl Forbidden {
    pub(crate) fn read(root: &Table<'_>, faults: &mut Faults) -> Self {
        root.check_keys(&["list"], faults);
        let lists = root.require("list", faults).and_then(|i| i.list(faults)).unwrap_or_default();
        let mut terms = Vec::new();
        for list in lists {
            let Some(t) = list.table("[[list]]", faults) else { continue };
            t.check_keys(&["name", "rule", "match", "terms"], faults);
            let name = t.require("name", faults).and_then(|i| i.string(faults));
            let rule = t.require("rule", faults).and_then(|i| i.int(2..=3, faults));
            let how = t.require("match", faults).and_then(|i| match i.string(faults)? {
                "start" => Some(Match::Start),
                "word" => Some(Match::Word),
                "clause" => Some(Match::Clause),
                other => {
                    let hint = "one of `start`, `word`, `clause`";
                    faults.error_hint(&i.span, format!("`{other}` is no way to match"), hint);
                    None
                }
            });
            let texts = t.require("terms", faults).and_then(|i| i.strings(faults));
            let (Some(name), Some(rule), Some(how), Some(texts)) = (name, rule, how, texts) else { continue };
            terms.extend(texts.iter().map(|text| Term {
                list: name.to_owned(),
                rule: if rule == 2 { 2 } else { 3 },
                how,
                words: words(text).into_iter().map(|w| w.text).collect(),
            }));
        }
        terms.retain(|t| !t.words.is_empty());
        Self(terms)
    }

    /// Every place in `text` where a term stands. Terms that open a clause count only in `sentences`: in a list of
    /// fields, every name opens one.
    pub(crate) fn hits(&self, text: &str, sentences: bool) -> Vec<Hit> {
        let words = words(text);
        let mut hits = Vec::new();
        for term in &self.0 {
            for window in words.windows(term.words.len()) {
                let (Some(first), Some(last)) = (window.first(), window.last()) else { continue };
                if term.how == Match::Clause && !(sentences && first.opens_clause) {
                    continue;
                }
                let matches = window.iter().zip(&term.words).enumerate().all(|(n, (word, wanted))| {
                    // Only the last word of a phrase may go on: "top k" is not in "topmost keys".
                    let open = term.how == Match::Start && n + 1 == term.words.len();
                    if open { word.text.starts_with(wanted.as_str()) } else { word.text == *wanted }
                });
                if matches {
                    let at = first.at.start..last.at.end;
                    let message =
                        format!("\"{}\": {} (\"{}\")", &text[at.clone()], term.list, term.words.join(" "));
                    hits.push(Hit { rule: term.rule, message, at });
                }
            }
        }
        hits.sort_by_key(|h| (h.at.start, h.at.end));
        hits
    }
}

/// A word of a text, in lowercase.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) text: String,
    pub(crate) at: Range<usize>,
    pub(crate) opens_clause: bool,
}

/// Words after which another clause begins.
const JOINS: [&str; 5] = ["and", "or", "but", "then", "please"];

/// The words of a text: runs of letters and digits, so that `a-b` and `a_b` are two.
pub(crate) fn words(text: &str) -> Vec<Word> {
    let mut found: Vec<Word> = Vec::new();
    let mut opens = true;
    let mut rest = 0;
    while let Some(start) = text[rest..].find(char::is_alphanumeric).map(|i| rest + i) {
        opens |= text[rest..start].contains([',', ';', ':', '(', '–', '—', '.', '!']);
        let end = text[start..].find(|c: char| !c.is_alphanumeric()).map_or(text.len(), |i| start + i);
        let word = text[start..end].to_lowercase();
        let joins = JOINS.contains(&word.as_str());
        found.push(Word { text: word, at: start..end, opens_clause: opens });
        opens = joins;
        rest = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document;
    use kernelseek_core::diagnostic::Source;

    fn list() -> Forbidden {
        let text = r#"
            [[list]]
            name = "operator family"
            rule = 2
            match = "start"
            terms = ["attent", "top k"]
            [[list]]
            name = "product"
            rule = 2
            match = "word"
            terms = ["arm"]
            [[list]]
            name = "imperative of change"
            rule = 3
            match = "clause"
            terms = ["use"]
        "#;
        document::parse(&Source::new("f", text), Forbidden::default(), Forbidden::read).unwrap()
    }

    #[test]
    fn terms_match_as_their_list_says() {
        let table: [(&str, &[&str]); 10] = [
            ("How is attention done?", &["attention"]),
            ("How inattentive is it?", &[]),
            ("Which Top-K is it?", &["Top-K"]),
            ("Which top keys are there?", &["top keys"]),
            ("Which topmost keys are there?", &[]),
            ("Which arm is it?", &["arm"]),
            ("Which army is it?", &[]),
            ("Use what?", &["Use"]),
            ("What is in use?", &[]),
            ("When slow, use what or use which?", &["use", "use"]),
        ];
        for (text, expected) in table {
            let hits = list().hits(text, true);
            let found: Vec<_> = hits.iter().map(|h| &text[h.at.clone()]).collect();
            assert_eq!(found, expected, "{text}");
        }
        assert_eq!(list().hits("attention", false)[0].message, "\"attention\": operator family (\"attent\")");
    }

    #[test]
    fn words_are_cut_at_everything_but_letters_and_digits() {
        let found: Vec<_> = words("A-b_c1, Über; x").into_iter().map(|w| (w.text, w.opens_clause)).collect();
        let expected = [("a", true), ("b", false), ("c1", false), ("über", true), ("x", true)];
        assert_eq!(found, expected.map(|(t, o)| (t.to_owned(), o)));
    }
}
