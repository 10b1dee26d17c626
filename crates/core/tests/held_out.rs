//! Held-out scenarios: deterministic, new, inside the fields' bounds, and resolvable.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use kernelseek_core::held_out::{HeldOutError, draw};
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::{Scenario, check_quick, parse_scenarios};
use kernelseek_core::value::Value;

const BASE: &str = include_str!("refusals/base.toml");

fn problem(replacements: &[(&str, &str)]) -> Problem {
    let mut text = BASE.to_owned();
    for (old, new) in replacements {
        assert!(text.contains(old));
        text = text.replace(old, new);
    }
    parse_problem("problem.toml", &text).unwrap_or_else(|e| panic!("{e}"))
}

fn base(problem: &Problem, n: usize) -> Vec<Scenario> {
    let lines: Vec<String> = (1..=n)
        .map(|i| format!("{{\"id\": \"s{i}\", \"tags\": [\"t\"], \"rows\": {}, \"cols\": {i}}}", 10 * i))
        .collect();
    parse_scenarios(problem, "small.jsonl", &lines.join("\n")).unwrap()
}

#[test]
fn draws_are_new_reproducible_and_within_the_rules() {
    let problem = problem(&[]);
    let base = base(&problem, 10);
    let drawn = draw(&problem, &base, 7, 0.25).unwrap();
    assert_eq!(drawn.len(), 3, "a quarter of ten, rounded up");
    let ids: Vec<&str> = drawn.iter().map(|s| s.id.as_str()).collect();
    assert_eq!(ids, ["held-01", "held-02", "held-03"]);
    let again = draw(&problem, &base, 7, 0.25).unwrap();
    assert!(drawn.iter().zip(&again).all(|(a, b)| a.to_line() == b.to_line()));
    let other = draw(&problem, &base, 8, 0.25).unwrap();
    assert!(drawn.iter().zip(&other).any(|(a, b)| a.values != b.values));
    for s in &drawn {
        assert!(!base.iter().any(|b| b.values == s.values));
        assert_eq!(s.tags, ["t", "held_out"]);
        let (Value::Int(rows), Value::Int(cols)) = (&s.values["rows"], &s.values["cols"]) else { panic!() };
        let model = (10 * cols) as f64;
        assert!((model * 0.8 - 0.5..=model * 1.2 + 0.5).contains(&(*rows as f64)), "{rows} from {model}");
        assert!(resolve(&problem, s).is_ok());
        let round = parse_scenarios(&problem, "again.jsonl", &s.to_line()).unwrap();
        assert_eq!((&round[0].values, &round[0].tags), (&s.values, &s.tags), "a line can be read back");
    }
}

#[test]
fn no_two_draws_are_the_same() {
    let problem = problem(&[]);
    let base = base(&problem, 4);
    let drawn = draw(&problem, &base, 1, 3.0).unwrap();
    assert_eq!(drawn.len(), 12);
    for (i, a) in drawn.iter().enumerate() {
        assert!(drawn[..i].iter().all(|b| a.values != b.values));
    }
}

#[test]
fn keep_is_obeyed_in_either_table() {
    for place in
        ["mode = { choose = [\"f32\", \"bf16\"] }\nkeep = \"rows % 2 == 1\"", "mode = { choose = [\"f32\"] }"]
    {
        let before =
            if place.contains("keep") { "share = 0.25" } else { "share = 0.25\nkeep = \"rows % 2 == 1\"" };
        let problem =
            problem(&[("share = 0.25", before), ("mode = { choose = [\"f32\", \"bf16\"] }", place)]);
        let drawn = draw(&problem, &base(&problem, 8), 3, 1.0).unwrap();
        assert!(drawn.iter().all(|s| s.values["rows"].as_int().unwrap() % 2 == 1));
    }
}

#[test]
fn rules_that_yield_nothing_are_an_error() {
    let never = problem(&[("share = 0.25", "share = 0.25\nkeep = \"rows < 0\"")]);
    let error = draw(&never, &base(&never, 3), 1, 0.5).unwrap_err();
    assert!(matches!(error, HeldOutError::Exhausted { drawn: 0, wanted: 2, last: None }), "{error:?}");

    let unresolvable =
        problem(&[("shape = [\"rows\"]", "shape = [\"rows == 10 && mode == 'f32' ? 1 : -1\"]")]);
    let error = draw(&unresolvable, &base(&unresolvable, 1), 1, 1.0).unwrap_err();
    let HeldOutError::Exhausted { last: Some(last), .. } = error else { panic!("{error:?}") };
    assert!(last.message.contains("is negative"), "{last}");

    let held_out = BASE.find("[held_out]").unwrap();
    let none = parse_problem("problem.toml", &BASE[..held_out]).unwrap();
    assert!(matches!(draw(&none, &base(&none, 1), 1, 1.0), Err(HeldOutError::NoRules(_))));
    let some = problem(&[]);
    assert!(matches!(draw(&some, &[], 1, 1.0), Err(HeldOutError::EmptyBase)));
    assert!(matches!(draw(&some, &base(&some, 1), 1, f64::NAN), Err(HeldOutError::Share(_))));
}

#[test]
fn lengths_vary_each_on_its_own_and_nothing_leaves_its_bounds() {
    let problem = problem(&[
        ("mode = { choose = [\"f32\", \"bf16\"] }", "lens = { add = [-3, 3] }"),
        ("rows = { scale = [0.8, 1.2], min = 1 }", "cols = { scale = [1.0, 1.5] }"),
    ]);
    let line = r#"{"id": "a", "rows": 4, "cols": 8, "lens": [0, 1, 8, 15]}"#;
    let base = parse_scenarios(&problem, "small.jsonl", line).unwrap();
    let drawn = draw(&problem, &base, 5, 4.0).unwrap();
    assert_eq!(drawn.len(), 4);
    for s in &drawn {
        let lens = s.values["lens"].as_int_list().unwrap();
        assert_eq!(lens.len(), 4);
        assert!(lens.iter().all(|l| (0..=18).contains(l)));
    }
}

#[test]
fn quick_ids_must_exist() {
    let problem = problem(&[("quick = [\"s1\"]", "quick = [\"s1\", \"s21\"]")]);
    let error = check_quick(&problem, &base(&problem, 2)).unwrap_err().to_string();
    assert_eq!(
        error,
        "problem.toml:7:16: the set `small` has no scenario `s21`\n  quick = [\"s1\", \"s21\"]\n                 ^^^^^\n\
         hint: did you mean `s1`?"
    );
}

#[test]
fn what_was_equal_stays_equal_and_lists_are_as_long_as_they_should() {
    let problem = problem(&[(
        "rows = { scale = [0.8, 1.2], min = 1 }",
        "rows = { scale = [0.8, 1.2], min = 1, odd = true }\n\
         cols = { scale = [0.8, 1.2], min = 1, odd = true, with = \"rows\" }\n\
         lens = { scale = [0.5, 1.0], odd = true, length = \"rows\" }",
    )]);
    // As many lengths as rows, none above twice the columns.
    let lens = |n: usize| {
        (0..n).map(|i| if i == 3 { "0".into() } else { format!("{}", 20 + i) }).collect::<Vec<String>>()
    };
    let line = |id: &str, rows: usize, cols: usize| {
        format!("{{\"id\":\"{id}\",\"rows\":{rows},\"cols\":{cols},\"lens\":[{}]}}", lens(rows).join(","))
    };
    let text = [line("equal", 40, 40), line("unequal", 30, 60)].join("\n");
    let base = parse_scenarios(&problem, "small.jsonl", &text).unwrap();
    let int = |s: &Scenario, name: &str| s.values[name].as_int().unwrap();
    for s in draw(&problem, &base, 5, 20.0).unwrap() {
        let (rows, cols) = (int(&s, "rows"), int(&s, "cols"));
        assert!(rows % 2 == 1 && cols % 2 == 1, "{rows} {cols}");
        if s.note.as_deref() == Some("drawn from equal") {
            assert_eq!(rows, cols);
        } else {
            assert!((cols - 2 * rows).abs() <= 2, "the same factor: {rows} {cols}");
        }
        let lens = s.values["lens"].as_int_list().unwrap();
        assert_eq!(lens.len() as i64, rows);
        for (i, len) in lens.iter().enumerate() {
            // Those beyond the base's are its first ones again.
            let was = if i >= if cols == rows { 40 } else { 30 } { None } else { Some(i == 3) };
            assert!(*len == 0 && was != Some(false) || len % 2 == 1, "{i}: {len}");
        }
    }
}
