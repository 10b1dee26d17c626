//! Whatever stands in a file, reading it ends with a value or with diagnostics that can be shown.

use kernelseek_core::problem::parse_problem;
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use proptest::prelude::*;

const BASE: &str = include_str!("refusals/base.toml");
const LINES: &str = "{\"id\": \"s1\", \"rows\": 4, \"cols\": 8}\n{\"id\": \"s2\", \"rows\": 2, \"cols\": 3, \"lens\": [1, 6]}\n";

const PIECES: &[&str] = &[
    "\"",
    "'",
    "\"\"\"",
    "[",
    "]",
    "[[",
    "{",
    "}",
    "=",
    ".",
    ",",
    "#",
    "\n",
    "\\",
    "ü",
    "\u{0}",
    "1e999",
    "-1",
    "0x7f",
    "9223372036854775807",
    "nan",
    "1979-05-27",
    "true",
    "rows",
    "width",
    "used",
    "null",
    "[[tensor]]",
    "[let]",
    "kind",
    "page_table",
    "quantised",
    "= \"fill(1000000, 0)\"",
    "range(1000000).map(i, i)",
    "garbage",
    "stride = [1]",
];

/// Edits: a place as a share of the text, how many bytes go, what comes.
fn edits() -> impl Strategy<Value = Vec<(f64, usize, &'static str)>> {
    proptest::collection::vec((0.0f64..1.0, 0usize..12, proptest::sample::select(PIECES)), 1..5)
}

fn edited(text: &str, edits: &[(f64, usize, &str)]) -> String {
    let mut text = text.to_owned();
    for (place, length, piece) in edits {
        let mut from = (*place * text.len() as f64) as usize;
        while !text.is_char_boundary(from) {
            from -= 1;
        }
        let mut to = (from + length).min(text.len());
        while !text.is_char_boundary(to) {
            to += 1;
        }
        text.replace_range(from..to, piece);
    }
    text
}

fn read(problem: &str, scenarios: &str) {
    let problem = match parse_problem("problem.toml", problem) {
        Ok(problem) => problem,
        Err(errors) => {
            assert!(!errors.items.is_empty());
            for item in &errors.items {
                assert!(item.line >= 1 && item.column >= 1 && !item.message.is_empty());
            }
            let _ = errors.to_string();
            return;
        }
    };
    let _ = kernelseek_core::header::header(&problem);
    match parse_scenarios(&problem, "small.jsonl", scenarios) {
        Ok(all) => {
            for s in all {
                match resolve(&problem, &s) {
                    Ok(case) => assert_eq!(case.tensors.len(), problem.tensors.len()),
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
            }
        }
        Err(errors) => assert!(!errors.to_string().is_empty()),
    }
}

#[test]
fn deep_nesting_is_refused_not_followed() {
    const DEEP: usize = 100_000;
    for text in [
        format!("x = {}", "[".repeat(DEEP)),
        format!("x = {}1{}", "[".repeat(DEEP), "]".repeat(DEEP)),
        format!("x = {}", "{a=".repeat(DEEP)),
        format!("{}x = 1", "a.".repeat(DEEP)),
        format!("[{}x]\ny = 1", "a.".repeat(DEEP)),
        format!("[[{}x]]\ny = 1", "a.".repeat(DEEP)),
        BASE.replace("\"cols * 2\"", &format!("\"{}cols\"", "-".repeat(1900))),
        BASE.replace("\"cols * 2\"", &format!("\"{}true\"", "!".repeat(1900))),
        BASE.replace("\"cols * 2\"", &format!("\"cols{}\"", "[0]".repeat(600))),
        BASE.replace("\"cols * 2\"", &format!("\"cols{}\"", ".a".repeat(900))),
        BASE.replace("\"cols * 2\"", &format!("\"{}1\"", "true ? 1 : ".repeat(180))),
        BASE.replace("\"cols * 2\"", &format!("\"{}true\"", "true && ".repeat(240))),
    ] {
        read(&text, LINES);
    }
    for line in [format!("{{\"id\": {}", "[".repeat(DEEP)), "{\"a\":".repeat(DEEP)] {
        read(BASE, &line);
    }
}

#[test]
fn the_deepest_accepted_expression_can_be_evaluated() {
    for deep in [
        vec!["1"; 96].join(" + "),
        format!("{}1{}", "(1 + ".repeat(60), ")".repeat(60)),
        format!("{}rows{}", "max([".repeat(30), "])".repeat(30)),
        format!("{}1", "rows > 9 ? 2 : ".repeat(90)),
    ] {
        let text = BASE.replace("\"cols * 2\"", &format!("\"{deep} + cols\""));
        let problem = parse_problem("problem.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        for scenario in parse_scenarios(&problem, "small.jsonl", LINES).unwrap_or_else(|e| panic!("{e}")) {
            if let Err(error) = resolve(&problem, &scenario) {
                assert!(error.message.contains("garbage"), "{error}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_edited_problem_never_panics(edits in edits()) {
        read(&edited(BASE, &edits), LINES);
    }

    #[test]
    fn edited_scenarios_never_panic(edits in edits()) {
        read(BASE, &edited(LINES, &edits));
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        read(&text, LINES);
        read(BASE, &text);
    }
}
