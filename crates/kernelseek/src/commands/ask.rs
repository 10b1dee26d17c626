//! `ask`, `hypothesis` and `answer`: what is said between a person, the campaign and the agent.

use super::campaign;
use crate::cli::{Answer, Ask, Global, Hypothesis};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{exit, goal_view};
use kernelseek_core::decision::Layer;
use kernelseek_ledger::entry::Answered;
use kernelseek_supervisor::protocol::{AskKind, Reply};
use kernelseek_supervisor::{Openness, client};
use serde_json::{Map, Value, json};

/// Longest question or statement in characters.
const LONGEST: usize = 2_000;

pub(crate) fn ask(args: &Ask, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let Some(question) = &args.question else {
        let open = match campaign::supervisor() {
            Some(socket) => match client::ask(&socket, AskKind::Open, &mut |_: &_| {}, &mut |_| {})? {
                Reply::Open(open) => open,
                _ => None,
            },
            None => campaign::open(&args.here, global, Openness::Writing)?.question_now()?,
        };
        if printer.json {
            printer.json(&open)?;
        } else {
            match &open {
                Some(question) => printer.data(&goal_view::question(question, printer.out, printer.width())),
                None => printer.data("no question is open\n"),
            }
        }
        return Ok(exit::OK);
    };
    text(question, "a question")?;
    if campaign::supervisor().is_some() {
        return Err(CommandError::new(
            Kind::Usage,
            "a person's question is asked from outside the led agent's shell",
        ));
    }
    let mut opened = campaign::open(&args.here, global, Openness::Writing)?;
    let row = opened.person_asks(question)?;
    written(printer, row, "it is asked at the next evaluation or attempt to stop, before any other")
}

pub(crate) fn hypothesis(
    args: &Hypothesis,
    global: &Global,
    printer: &mut Printer,
) -> Result<u8, CommandError> {
    text(&args.text, "a hypothesis")?;
    if args.expect.is_some_and(|x| !(x.is_finite() && x > 0.0)) {
        return Err(CommandError::new(Kind::Usage, "`--expect` is a ratio above 0, for example 1.15"));
    }
    let layer: Option<Layer> = args.layer.map(Into::into);
    let row = match campaign::supervisor() {
        Some(socket) => {
            let kind = AskKind::Hypothesis { text: args.text.clone(), layer, expect: args.expect };
            match client::ask(&socket, kind, &mut |_: &_| {}, &mut |_| {})? {
                Reply::Row(row) => row,
                _ => return Err(confused()),
            }
        }
        None => {
            campaign::open(&args.here, global, Openness::Writing)?.state(&args.text, layer, args.expect)?
        }
    };
    written(printer, row, "edit, then `kernelseek eval`")
}

pub(crate) fn answer(args: &Answer, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    text(&args.text, "an answer")?;
    let artefact = artefact(args)?;
    let answered = match campaign::supervisor() {
        Some(socket) => {
            let kind = AskKind::Answer { question: args.question, text: args.text.clone(), artefact };
            match client::ask(&socket, kind, &mut |_: &_| {}, &mut |_| {})? {
                Reply::Answered(answered) => answered,
                _ => return Err(confused()),
            }
        }
        None => campaign::open(&args.here, global, Openness::Writing)?.answer(
            args.question,
            &args.text,
            artefact,
        )?,
    };
    if printer.json {
        printer.json(&answered)?;
    } else {
        printer.data(&outcome(&answered, printer));
    }
    Ok(exit::OK)
}

fn outcome(answered: &Answered, printer: &Printer) -> String {
    let style = printer.out;
    match answered.accepted {
        Some(true) => format!(
            "{} the evidence holds; state what follows with `kernelseek hypothesis`\n",
            style.good("✓")
        ),
        Some(false) => format!("{} written down, not accepted: {}\n", style.doubtful("?"), answered.why),
        None => format!("{} written down\n", style.good("✓")),
    }
}

fn confused() -> CommandError {
    CommandError::new(Kind::Harness, "the supervisor answers something else than was asked")
}

fn text(text: &str, what: &str) -> Result<(), CommandError> {
    let length = text.trim().chars().count();
    if length == 0 {
        return Err(CommandError::new(Kind::Usage, format!("{what} needs words")));
    }
    if length > LONGEST {
        return Err(CommandError::new(
            Kind::Usage,
            format!("{what} of {length} characters; at most {LONGEST}"),
        ));
    }
    Ok(())
}

fn written(printer: &Printer, row: u64, next: &str) -> Result<u8, CommandError> {
    if printer.json {
        printer.json(&json!({ "row": row }))?;
    } else {
        printer.data(&format!("{} row {row}; {next}\n", printer.out.good("✓")));
    }
    Ok(exit::OK)
}

/// What is handed in: the file's object, with the values added.
fn artefact(args: &Answer) -> Result<Map<String, Value>, CommandError> {
    let mut map = match &args.artefact {
        None => Map::new(),
        Some(file) => {
            let text = std::fs::read_to_string(file).map_err(|e| CommandError::file(file, &e))?;
            match serde_json::from_str(&text) {
                Ok(Value::Object(map)) => map,
                Ok(_) => {
                    return Err(CommandError::new(
                        Kind::Input,
                        format!("{}: not a JSON object", file.display()),
                    ));
                }
                Err(e) => {
                    return Err(CommandError::new(
                        Kind::Input,
                        format!("{}:{}: {e}", file.display(), e.line()),
                    ));
                }
            }
        }
    };
    for pair in &args.values {
        let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(CommandError::new(Kind::Usage, format!("`{pair}` is not NAME=VALUE")));
        };
        map.insert(name.to_owned(), value_of(value));
    }
    Ok(map)
}

/// A number, `true`, `false`, a list with commas, or a word.
fn value_of(text: &str) -> Value {
    if text.contains(',') {
        return Value::Array(text.split(',').filter(|t| !t.is_empty()).map(|t| value_of(t.trim())).collect());
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_look_like() {
        for (text, value) in [
            ("3", json!(3)),
            ("1.5e-3", json!(0.0015)),
            ("true", json!(true)),
            ("fast", json!("fast")),
            ("1,2.5,x", json!([1, 2.5, "x"])),
            ("7,", json!([7])),
            ("{}", json!("{}")),
        ] {
            assert_eq!(value_of(text), value, "{text}");
        }
    }
}
