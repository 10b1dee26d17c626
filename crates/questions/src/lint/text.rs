//! Rules 1 to 3: what a question says.

use super::Lint;
use crate::entry::Entry;
use crate::forbidden::{Forbidden, Word, words};

/// Most words of a question.
const MOST_WORDS: usize = 30;

/// Words that join sentences.
const CONJUNCTIONS: [&str; 3] = ["and", "or", "but"];
/// Words that a question begins with.
const INTERROGATIVES: [&str; 9] = ["what", "which", "how", "why", "where", "when", "who", "whose", "whether"];
/// Verbs that a question without such a word begins with.
const AUXILIARIES: [&str; 16] = [
    "does", "do", "did", "is", "are", "was", "were", "can", "could", "would", "will", "has", "have", "had",
    "may", "must",
];

/// Rule 1: one sentence, one question, at most 30 words. Its question mark and its characters are a matter of form.
pub(super) fn sentence(entry: &Entry, found: &mut Vec<Lint>) {
    let question = &entry.question;
    let whole = entry.place.question.clone();
    let words = words(question);
    // A hyphenated word is one to a reader.
    let count = question.split_whitespace().filter(|w| w.contains(char::is_alphanumeric)).count();
    if count > MOST_WORDS {
        found.push(Lint::new(
            1,
            entry,
            whole.clone(),
            format!("a question of {count} words; at most {MOST_WORDS}"),
        ));
    }
    let ends = |(i, c): (usize, char)| {
        matches!(c, '.' | '!' | ';') && question[i + c.len_utf8()..].starts_with(char::is_whitespace)
    };
    if question.char_indices().any(ends) || question.contains(['\n', '\r']) {
        found.push(Lint::new(1, entry, whole.clone(), "a question is one sentence on one line"));
    }
    if !question.starts_with(char::is_uppercase) {
        found.push(Lint::new(1, entry, whole.clone(), "a question begins with a capital letter"));
    }
    if !words.iter().any(asks) {
        found.push(Lint::new(1, entry, whole.clone(), "nothing is asked: no what, which, how, …"));
    }
    if let Some(window) = words.windows(2).find(|w| joins(w)) {
        let text: Vec<_> = window.iter().map(|w| w.text.as_str()).collect();
        let message = format!("\"{}\" joins two questions", text.join(" "));
        found.push(Lint::new(1, entry, whole, message).hint("one question; the other may be another entry"));
    }
}

fn asks(word: &Word) -> bool {
    INTERROGATIVES.contains(&word.text.as_str())
        || (word.opens_clause && AUXILIARIES.contains(&word.text.as_str()))
}

/// "… and how", "…, or is …".
fn joins(window: &[Word]) -> bool {
    let [a, b] = window else { return false };
    CONJUNCTIONS.contains(&a.text.as_str())
        && (INTERROGATIVES.contains(&b.text.as_str())
            || (a.opens_clause && AUXILIARIES.contains(&b.text.as_str())))
}

/// Rules 2 and 3: what neither the question nor the phrase that asks for an artefact may say.
pub(super) fn terms(entry: &Entry, forbidden: &Forbidden, found: &mut Vec<Lint>) {
    let question = (&entry.question, &entry.place.question, true);
    let artefacts = entry.evidence_expected.iter().map(|e| (&e.artifact, &e.artifact_span, false));
    for (text, span, sentences) in std::iter::once(question).chain(artefacts) {
        for hit in forbidden.hits(text, sentences) {
            // Escapes would put the carets elsewhere than under the term.
            let at = if span.len() == text.len() {
                span.start + hit.at.start..span.start + hit.at.end
            } else {
                span.clone()
            };
            found.push(Lint::new(hit.rule, entry, at, hit.message));
        }
    }
}
