//! A recording: steps in order, each an edit with what was said around it.

use kernelseek_core::decision::Layer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// Name of a recording's file, in a folder with the files that its steps name.
pub const FILE: &str = "replay.toml";
/// Version of the format.
const FORMAT: u32 = 1;
/// Most steps.
const MOST_STEPS: usize = 10_000;

/// A recording.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// What it is about, one line.
    pub title: String,
    /// The steps.
    pub steps: Vec<Step>,
}

/// What is said before an edit.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The hypothesis.
    pub text: String,
    /// Layer that it is about.
    pub layer: Option<Layer>,
    /// Ratio to the incumbent that is expected.
    pub expect: Option<f64>,
}

/// How thoroughly a step is evaluated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// A few scenarios.
    Quick,
    /// The visible grid.
    Default,
    /// Held-out scenarios too.
    Full,
}

/// How an evaluation came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameOut {
    /// The candidate became the incumbent.
    Gain,
    /// It is not wrong, and no better.
    NoGain,
    /// It is FAIL.
    Fail,
}

/// An answer to the question that is open, if one is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// In words.
    pub text: String,
    /// What was measured.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One step, played in the order of its fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What the agent thinks.
    pub say: Option<String>,
    /// How the last evaluation must have come out for it to be said; whatever it was without this.
    pub after: Option<CameOut>,
    /// An answer to the open question.
    pub answer: Option<Answer>,
    /// What it expects.
    pub statement: Option<Statement>,
    /// The edit: path in the workspace → file beside the recording.
    pub files: BTreeMap<String, String>,
    /// The evaluation.
    pub eval: Option<Effort>,
    /// Only these scenarios.
    pub only: Vec<String>,
    /// Last words: the agent wants to stop, and the turn ends.
    pub stop: Option<String>,
}

/// Why a recording cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It is no TOML, or not of this form.
    #[error("{file}: {message}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong, with the place.
        message: String,
    },
    /// A step cannot be played.
    #[error("{file}: step {step}: {message}")]
    Step {
        /// The file.
        file: String,
        /// Number of the step, from 1.
        step: usize,
        /// What is wrong.
        message: String,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawScript {
    format: u32,
    #[serde(default)]
    title: String,
    #[serde(default, rename = "step")]
    steps: Vec<RawStep>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStep {
    #[serde(skip_serializing_if = "Option::is_none")]
    say: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<CameOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hypothesis: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    layer: Option<Layer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expect: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval: Option<Effort>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<String>,
    // Tables stand last in TOML.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    files: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

impl Script {
    /// The recording as its file.
    ///
    /// # Errors
    /// When a value of an answer is none that TOML has, in words.
    pub fn to_toml(&self) -> Result<String, String> {
        let steps = self.steps.iter().map(|s| RawStep {
            say: s.say.clone(),
            after: s.after,
            hypothesis: s.statement.as_ref().map(|h| h.text.clone()),
            layer: s.statement.as_ref().and_then(|h| h.layer),
            expect: s.statement.as_ref().and_then(|h| h.expect),
            eval: s.eval,
            only: s.only.clone(),
            stop: s.stop.clone(),
            files: s.files.clone(),
            answer: s.answer.clone(),
        });
        let raw = RawScript { format: FORMAT, title: self.title.clone(), steps: steps.collect() };
        toml::to_string(&raw).map_err(|e| e.to_string())
    }
}

/// Reads a recording; `file` is named in messages.
///
/// # Errors
/// [`ScriptError`], with the place.
pub fn parse(file: &str, text: &str) -> Result<Script, ScriptError> {
    let malformed = |message: String| ScriptError::Malformed { file: file.to_owned(), message };
    let raw: RawScript = toml::from_str(text).map_err(|e| malformed(e.to_string().trim_end().to_owned()))?;
    if raw.format != FORMAT {
        return Err(malformed(format!("format {} is not known; this version reads {FORMAT}", raw.format)));
    }
    if raw.steps.is_empty() {
        return Err(malformed("it has no [[step]]".to_owned()));
    }
    if raw.steps.len() > MOST_STEPS {
        return Err(malformed(format!("it has more than {MOST_STEPS} steps")));
    }
    let steps = raw.steps.into_iter().enumerate().map(|(i, step)| {
        checked(step).map_err(|message| ScriptError::Step { file: file.to_owned(), step: i + 1, message })
    });
    Ok(Script { title: raw.title, steps: steps.collect::<Result<_, _>>()? })
}

fn checked(raw: RawStep) -> Result<Step, String> {
    for path in raw.files.iter().flat_map(|(to, from)| [to, from]) {
        let inside = Path::new(path).components().all(|c| matches!(c, Component::Normal(_)));
        if path.is_empty() || !inside {
            return Err(format!("`{path}` is no path inside the folder"));
        }
    }
    let statement = match raw.hypothesis {
        Some(text) => {
            if raw.expect.is_some_and(|x| !(x.is_finite() && x > 0.0)) {
                return Err("`expect` is a ratio above 0".to_owned());
            }
            Some(Statement { text, layer: raw.layer, expect: raw.expect })
        }
        None if raw.layer.is_some() || raw.expect.is_some() => {
            return Err("`layer` and `expect` belong to a `hypothesis`".to_owned());
        }
        None => None,
    };
    if raw.eval.is_none() && !raw.only.is_empty() {
        return Err("`only` belongs to an `eval`".to_owned());
    }
    if raw.say.is_none() && raw.after.is_some() {
        return Err("`after` belongs to a `say`".to_owned());
    }
    let step = Step {
        say: raw.say,
        after: raw.after,
        answer: raw.answer,
        statement,
        files: raw.files,
        eval: raw.eval,
        only: raw.only,
        stop: raw.stop,
    };
    let empty = step.say.is_none()
        && step.answer.is_none()
        && step.statement.is_none()
        && step.files.is_empty()
        && step.eval.is_none()
        && step.stop.is_none();
    if empty { Err("it does nothing".to_owned()) } else { Ok(step) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: &str = r#"
format = 1
title = "t"
[[step]]
say = "first"
after = "no_gain"
answer = { text = "measured", values = { gain = 1.5, which = ["a", "b"] } }
hypothesis = "fewer bytes"
layer = "memory"
expect = 1.5
files = { "kernel.c" = "01.c" }
eval = "quick"
only = ["odd"]
stop = "done"
"#;

    #[test]
    fn every_part_of_a_step_is_read() {
        let script = parse("replay.toml", WHOLE).unwrap();
        let step = &script.steps[0];
        assert_eq!(step.files["kernel.c"], "01.c");
        assert_eq!(step.after, Some(CameOut::NoGain));
        assert_eq!(step.statement.as_ref().unwrap().layer, Some(Layer::Memory));
        assert_eq!(step.answer.as_ref().unwrap().values["gain"], 1.5);
        assert_eq!((step.eval, step.only.as_slice()), (Some(Effort::Quick), &["odd".to_owned()][..]));
        assert_eq!(step.stop.as_deref(), Some("done"));
    }

    #[test]
    fn what_cannot_be_played_is_refused_with_its_place() {
        let step = |body: &str| format!("format = 1\n[[step]]\n{body}\n");
        let cases = [
            ("format = 2\n".to_owned(), "format 2 is not known"),
            ("format = 1\n".to_owned(), "it has no [[step]]"),
            (step(""), "step 1: it does nothing"),
            (
                step("files = { \"../kernel.c\" = \"a.c\" }"),
                "step 1: `../kernel.c` is no path inside the folder",
            ),
            (step("files = { \"kernel.c\" = \"/etc/passwd\" }"), "`/etc/passwd` is no path inside"),
            (step("say = \"a\"\nlayer = \"memory\""), "`layer` and `expect` belong to a `hypothesis`"),
            (step("hypothesis = \"a\"\nexpect = -1.0"), "`expect` is a ratio above 0"),
            (step("hypothesis = \"a\"\nexpect = nan"), "`expect` is a ratio above 0"),
            (step("say = \"a\"\nonly = [\"x\"]"), "`only` belongs to an `eval`"),
            (step("eval = \"slow\""), "line 3"),
            (step("eval = \"quick\"\nafter = \"fail\""), "`after` belongs to a `say`"),
            (step("verdict = \"PASS\""), "unknown field `verdict`"),
        ];
        for (text, message) in cases {
            let error = parse("replay.toml", &text).unwrap_err().to_string();
            assert!(error.starts_with("replay.toml: ") && error.contains(message), "{message}: {error}");
        }
    }

    #[test]
    fn a_recording_comes_back_from_its_file() {
        let script = parse("replay.toml", WHOLE).unwrap();
        assert_eq!(parse("replay.toml", &script.to_toml().unwrap()).unwrap(), script);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[ -~\n]{0,300}") {
            let _ = parse("replay.toml", &format!("format = 1\n[[step]]\n{text}"));
        }
    }
}
