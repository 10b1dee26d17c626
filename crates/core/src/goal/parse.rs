//! The one line that a clause is written as.

use super::{Clause, Metric, Quantifier};
use crate::expression::Expression;
use std::ops::Range;

/// Longest clause in bytes.
const LONGEST: usize = 1000;

/// Why a text is no clause, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ClauseError {
    /// Byte range in the text.
    pub at: Range<usize>,
    /// What is wrong, a lowercase fragment.
    pub message: String,
    /// What to write instead.
    pub hint: Option<String>,
}

const FORMS: &str = "clauses are `every scenario correct`, `every speedup >= 1.0`, `at least 12 speedup >= 1.1`, \
                     `geomean speedup >= 1.3`, `fallback rate <= 0`, `constraints hold`, `held-out gap <= 0.05`";

#[derive(Debug, Clone)]
struct Word<'a> {
    text: &'a str,
    at: Range<usize>,
}

/// The words of a clause, read from the left.
struct Words<'a> {
    words: Vec<Word<'a>>,
    next: usize,
    end: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str, end: usize) -> Self {
        let mut words = Vec::new();
        let mut start = None;
        for (i, c) in text[..end].char_indices().chain([(end, ' ')]) {
            match (c.is_whitespace(), start) {
                (true, Some(from)) => {
                    words.push(Word { text: &text[from..i], at: from..i });
                    start = None;
                }
                (false, None) => start = Some(i),
                _ => {}
            }
        }
        Self { words, next: 0, end }
    }
    fn peek(&self) -> Option<&Word<'a>> {
        self.words.get(self.next)
    }
    fn take(&mut self) -> Option<Word<'a>> {
        let word = self.words.get(self.next).cloned();
        self.next += usize::from(word.is_some());
        word
    }
    /// Takes these words if they come next.
    fn eat(&mut self, expected: &[&str]) -> bool {
        let here = self.words.get(self.next..self.next + expected.len());
        let found = here.is_some_and(|h| h.iter().zip(expected).all(|(w, e)| w.text == *e));
        if found {
            self.next += expected.len();
        }
        found
    }
    fn fail<T>(&self, message: impl Into<String>, hint: &str) -> Result<T, ClauseError> {
        let at = self.peek().map_or(self.end..self.end, |w| w.at.clone());
        Err(ClauseError { at, message: message.into(), hint: Some(hint.to_owned()) })
    }
    fn number(&mut self, what: &str) -> Result<f64, ClauseError> {
        let Some(word) = self.take() else {
            return self.fail(format!("{what} is missing"), "write a number");
        };
        match word.text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(x),
            _ => Err(ClauseError {
                at: word.at,
                message: format!("`{}` is not a number", word.text),
                hint: Some(format!("{what} is a plain number such as 1.05")),
            }),
        }
    }
    fn comparison(&mut self, sign: &str) -> Result<(), ClauseError> {
        if self.eat(&[sign]) {
            return Ok(());
        }
        self.fail(format!("`{sign}` is expected here"), &format!("write `{sign}` and a number, with spaces"))
    }
}

impl Clause {
    /// Parses one clause.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, ClauseError> {
        if text.len() > LONGEST {
            return Err(ClauseError {
                at: 0..text.len(),
                message: format!("a clause of {} bytes", text.len()),
                hint: Some(format!("at most {LONGEST}")),
            });
        }
        // The condition is an expression and ends the clause: it is cut off first.
        let (end, condition) = match text.find(" where ") {
            None => (text.len(), None),
            Some(at) => {
                let from = at + " where ".len();
                let expression = Expression::alone(&text[from..]).map_err(|e| ClauseError {
                    at: from + e.at.start..from + e.at.end,
                    message: e.message,
                    hint: e.hint,
                })?;
                (at, Some(expression))
            }
        };
        let mut words = Words::of(text, end);
        let quantifier = quantifier(&mut words)?;
        let (quantifier, metric) = metric(&mut words, quantifier)?;
        let allow_fallback = words.eat(&["allowing", "fallback"]);
        if words.peek().is_some() {
            return words.fail("this does not belong to the clause", FORMS);
        }
        let scenario_wise = matches!(metric, Metric::Correct | Metric::Speedup { .. });
        if allow_fallback && !scenario_wise {
            return words
                .fail("`allowing fallback` says nothing here", "it goes with `correct` and `speedup`");
        }
        if condition.is_some() && !scenario_wise && !matches!(metric, Metric::FallbackRate { .. }) {
            return words
                .fail("`where` says nothing here", "it goes with `correct`, `speedup` and `fallback rate`");
        }
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Ok(Self { text, quantifier, metric, condition, allow_fallback })
    }
}

fn quantifier(words: &mut Words<'_>) -> Result<Option<Quantifier>, ClauseError> {
    if words.eat(&["every"]) {
        return Ok(Some(Quantifier::Every));
    }
    if words.eat(&["geomean"]) {
        return Ok(Some(Quantifier::Geomean));
    }
    if !words.eat(&["at", "least"]) {
        return Ok(None);
    }
    let place = words.peek().map_or(words.end..words.end, |w| w.at.clone());
    let fail = |message: String, hint: &str| {
        Err(ClauseError { at: place.clone(), message, hint: Some(hint.to_owned()) })
    };
    let number = match words.peek().and_then(|w| w.text.strip_suffix('%')) {
        Some(digits) if !digits.is_empty() => {
            let share = digits.parse::<f64>().ok();
            words.take();
            share.map(|x| (x, true))
        }
        _ => {
            let number = words.number("how many scenarios")?;
            Some((number, words.eat(&["%"])))
        }
    };
    match number {
        Some((x, true)) if x > 0.0 && x <= 100.0 => Ok(Some(Quantifier::AtLeastShare(x / 100.0))),
        Some((_, true)) | None => {
            fail("a share must be above 0 % and at most 100 %".to_owned(), "write `at least 90 %`")
        }
        Some((x, false)) if x >= 1.0 && x.fract() == 0.0 && x <= 1e6 => {
            Ok(Some(Quantifier::AtLeast(x as usize)))
        }
        Some((x, false)) => {
            fail(format!("{x} is no number of scenarios"), "write a whole number from 1, or a share with `%`")
        }
    }
}

fn metric(
    words: &mut Words<'_>,
    quantifier: Option<Quantifier>,
) -> Result<(Quantifier, Metric), ClauseError> {
    let _ = quantifier.is_some() && (words.eat(&["scenario"]) || words.eat(&["scenarios"]));
    if words.eat(&["correct"]) {
        return match quantifier {
            Some(Quantifier::Geomean) | None => {
                words.next -= 1;
                words.fail("`correct` needs to know how many scenarios", "write `every scenario correct`")
            }
            Some(q) => Ok((q, Metric::Correct)),
        };
    }
    if words.eat(&["speedup"]) {
        let Some(quantifier) = quantifier else {
            words.next -= 1;
            return words.fail(
                "`speedup` needs to know of how many scenarios",
                "write `every speedup >= …` or `geomean speedup >= …`",
            );
        };
        words.comparison(">=")?;
        let at = words.peek().map(|w| w.at.clone());
        let threshold = words.number("the least speedup")?;
        if threshold <= 0.0 {
            return Err(ClauseError {
                at: at.unwrap_or(0..0),
                message: "a speedup is above 0".to_owned(),
                hint: Some("1.0 is as fast as the seed".to_owned()),
            });
        }
        let against = if words.eat(&["against"]) {
            match words.take() {
                Some(name) => name.text.to_owned(),
                None => {
                    return words
                        .fail("`against` whom is missing", "write `against seed` or a baseline's name");
                }
            }
        } else {
            "seed".to_owned()
        };
        return Ok((quantifier, Metric::Speedup { threshold, against }));
    }
    let whole = |words: &Words<'_>, metric| match quantifier {
        None => Ok((Quantifier::Every, metric)),
        Some(_) => {
            let at = 0..words.words.first().map_or(0, |w| w.at.end);
            Err(ClauseError {
                at,
                message: "this clause is about the candidate as a whole".to_owned(),
                hint: Some("leave the quantifier out".to_owned()),
            })
        }
    };
    if words.eat(&["fallback", "rate"]) {
        words.comparison("<=")?;
        let threshold = words.number("the largest rate")?;
        return whole(words, Metric::FallbackRate { threshold });
    }
    if words.eat(&["constraints", "hold"]) {
        return whole(words, Metric::Constraints);
    }
    if words.eat(&["held-out", "gap"]) {
        words.comparison("<=")?;
        let threshold = words.number("the largest gap")?;
        return whole(words, Metric::HeldOutGap { threshold });
    }
    words.fail("this is no clause that can be judged", FORMS)
}
