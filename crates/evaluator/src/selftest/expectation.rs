//! What is expected of a faulty candidate, as the first comment of its file says: `Expected: FAIL or UNPROVEN by correct.exit,
//! timed..` The last full stop ends the sentence. Pure.

use kernelseek_core::verdict::Word;

/// What a candidate should come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// Words that are right.
    pub words: Vec<String>,
    /// Defence ids, or the beginnings of some, of which at least one must be found; none for honest candidates.
    pub defences: Vec<String>,
}

impl Expectation {
    /// Reads it from a source; `None` when the source does not say.
    #[must_use]
    pub fn parse(source: &str) -> Option<Self> {
        let comment = source.get(..source.find("*/")?)?;
        let (_, said) = comment.split_once("Expected:")?;
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = said.strip_suffix('.').unwrap_or(&said);
        let (words, defences) = said.split_once(" by ").unwrap_or((said, ""));
        let list = |text: &str, separator: &str| -> Vec<String> {
            text.split(separator).map(str::trim).filter(|w| !w.is_empty()).map(str::to_owned).collect()
        };
        let words = list(words, " or ");
        let known = [Word::Pass, Word::Fail, Word::Unproven, Word::Unresolved];
        let all_known = words.iter().all(|w| known.iter().any(|k| k.as_str() == w));
        (all_known && !words.is_empty()).then(|| Self { words, defences: list(defences, ", ") })
    }

    /// Whether a word with these defence ids is what is expected.
    #[must_use]
    pub fn matches(&self, word: Word, found: &[String]) -> bool {
        self.words.iter().any(|w| w == word.as_str())
            && (self.defences.is_empty()
                || self.defences.iter().any(|wanted| found.iter().any(|f| f.starts_with(wanted.as_str()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    fn parse(comment: &str) -> Option<(String, String)> {
        Expectation::parse(comment).map(|e| (e.words.join("|"), e.defences.join("|")))
    }

    #[test]
    fn headers_are_read() {
        for (source, expected) in [
            ("/* Ends.\n\n   Expected: FAIL by correct.exit. */\nint x;", Some(("FAIL", "correct.exit"))),
            (
                "/* Expected: FAIL or UNPROVEN by correct.,\n   timed.. */",
                Some(("FAIL|UNPROVEN", "correct.|timed.")),
            ),
            ("/* Expected: PASS or UNRESOLVED. */", Some(("PASS|UNRESOLVED", ""))),
            ("/* Expected: perhaps. */", None),
            ("/* Expected: . */", None),
            ("/* nothing */ /* Expected: FAIL. */", None),
            ("Expected: FAIL", None),
            ("", None),
        ] {
            let expected = expected.map(|(w, d)| (w.to_owned(), d.to_owned()));
            assert_eq!(parse(source), expected, "{source}");
        }
    }

    #[test]
    fn word_and_defence_must_both_be_right() {
        let e = Expectation::parse("/* Expected: FAIL by correct.exit, timed.. */").unwrap();
        assert!(e.matches(Word::Fail, &["timed.clocks".into()]));
        assert!(!e.matches(Word::Fail, &["correct.crash".into()]));
        assert!(!e.matches(Word::Unproven, &["correct.exit".into()]));
        assert!(Expectation::parse("/* Expected: PASS. */").unwrap().matches(Word::Pass, &[]));
    }

    #[test]
    fn every_fault_says_what_is_expected() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cheats/cuda/faults");
        let files = super::super::faults::files(&folder).unwrap();
        assert!(files.len() > 20, "{}", files.len());
        for file in files {
            let source = std::fs::read_to_string(&file).unwrap();
            let parsed = Expectation::parse(&source).unwrap_or_else(|| panic!("{}", file.display()));
            assert!(!parsed.defences.is_empty(), "{}", file.display());
        }
    }

    proptest! {
        #[test]
        fn any_source_is_read_without_a_panic(source in ".*", tail in "[A-Z orby.,*/]*") {
            let _ = Expectation::parse(&format!("{source}Expected:{tail}*/"));
        }
    }
}
