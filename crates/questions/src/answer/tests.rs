use super::*;
use crate::bank::{Bank, embedded};
use proptest::prelude::*;
use serde_json::json;

fn map(value: Json) -> Map<String, Json> {
    value.as_object().unwrap().clone()
}

/// An answer that a diligent agent could give, for every entry of the embedded bank.
fn good() -> Vec<(&'static str, Json)> {
    let layers = [
        "goal",
        "measurement",
        "host",
        "dispatch",
        "formulation",
        "schedule",
        "memory",
        "on_chip",
        "instructions",
        "conduct",
    ];
    vec![
        ("C001", json!({"scenario": ["a", "b", "c"], "ratio": [0.4, 0.9, 1.2], "share": [0.8, 0.2, 0]})),
        (
            "C002",
            json!({"worst": "a", "median": "b", "part": ["setup", "loop"], "worst_us": [9.5, 3], "median_us": [0.5, 3.1]}),
        ),
        (
            "C004",
            json!({"work": [1, 2, 4, 8], "candidate_us": [3, 4, 6, 10], "seed_us": [5, 9, 17, 33], "fixed_ratio": 0.5, "unit_ratio": 4}),
        ),
        ("C005", json!({"work": ["table built"], "outside_us": [120.0], "per_calls": [1], "timed_us": 11.0})),
        (
            "C007",
            json!({"scenario": ["a"], "state": ["fallback"], "reason": ["width 48 not served"], "scenarios": 24}),
        ),
        (
            "C009",
            json!({"rose": 3, "fell": 1, "neither": 20, "scenarios": 24, "noise": 0.01, "median_ratio": 1.0}),
        ),
        (
            "C010",
            json!({"scenario": "a", "least_bytes": 4e6, "least_operations": 1e6, "bytes_per_s": 2e10, "operations_per_s": 5e10, "bound_us": 200.0, "time_us": 240.0}),
        ),
        (
            "C011",
            json!({"ratio": [1.0, 0.99, 1.01, 1.0, 1.0], "half_width": [0.01, 0.01, 0.01, 0.01, 0.01], "smallest_gain": 0.02}),
        ),
        ("C020", json!({"scenario": ["a"], "gain": [2.5], "gain_unseen": [2.4], "mismatches": [0]})),
        ("C023", json!({"part": ["in", "out"], "time_us": [6.0, 4.0], "share": [0.6, 0.4], "outside": 0.4})),
        ("C027", json!({"least_us": 1.1, "shortest": "tiny", "shortest_us": 2.3, "calls": 1000})),
        (
            "C031",
            json!({"best": "a", "worst": "b", "symbol": ["f", "g"], "best_share": [0.95, 0.0], "worst_share": [0.1, 0.85], "samples": 4000}),
        ),
        (
            "C038",
            json!({"scenario": "a", "path": ["wide", "narrow"], "error_over_bound": [3.0, 0.2], "failing_elements": [17, 0]}),
        ),
        (
            "C041",
            json!({"scenario": ["a", "b"], "moved_bytes": [9e6, 9e6], "least_bytes": [3e6, 4e6], "executed_operations": [2e6, 2e6], "least_operations": [2e6, 1e6]}),
        ),
        ("C043", json!({"scenario": ["a", "b"], "made": [100, 200], "unused": [0, 40]})),
        (
            "C045",
            json!({"scenario": ["a", "b"], "input_bytes": [100, 100], "read_bytes": [300, 400], "read_beyond_cache_bytes": [100, 200]}),
        ),
        (
            "C050",
            json!({"scenario": ["a", "b"], "call_us": [10.0, 90.0], "working_us": [10.0, 170.0], "processors": 2}),
        ),
        (
            "C052",
            json!({"scenario": ["a", "b"], "processors": [2, 2], "busiest_us": [10.0, 90.0], "average_us": [9.0, 60.0]}),
        ),
        (
            "C059",
            json!({"scenario": ["a", "b"], "bytes": [100, 200], "copy_us": [1.0, 2.0], "call_us": [3.0, 4.0]}),
        ),
        (
            "C065",
            json!({"scenario": ["a", "b"], "first_faults": [120, 900], "later_faults": [0, 0.5], "calls": [100, 100]}),
        ),
        (
            "C084",
            json!({"symbol": "f", "flags": "-O3", "line": [12, 40], "left_as_written": [true, false], "reason": ["call in body", ""]}),
        ),
        ("C087", json!({"scenario": ["a"], "calls": [100], "differing": [86]})),
        (
            "C088",
            json!({"scenario": "a", "axis": ["row", "column"], "extent": [64, 65], "first": [0, 64], "last": [63, 64], "distinct": [64, 1], "wrong": 64, "elements": 4160}),
        ),
        (
            "C090",
            json!({"scenario": "a", "candidate": [1.5, 1.2, 1.1, 1.1, 1.0], "seed": [1.0, 1.0, 1.0, 1.0, 1.0], "precise": [1.0, 1.0, 1.0, 1.0, 1.0], "bound": 0.001}),
        ),
        (
            "C091",
            json!({"changed": "tolerance 1e-4 to 1e-3", "evaluation": [1, 17, 40], "before": ["PASS", "PASS", "FAIL"], "after": ["PASS", "PASS", "PASS"]}),
        ),
        (
            "C092",
            json!({"input": ["one row", "lengths 1 and 900", "largest finite"], "error_over_bound": [0.1, 0.4, 2.0], "non_finite": [0, 0, 3]}),
        ),
        (
            "C095",
            json!({"explanation": "order of the sum", "measurement": "error against a double sum", "unit": "ulp", "if_true": 4.0, "if_false": 900.0, "measured": 5.0, "half_width": 1.0}),
        ),
        (
            "C096",
            json!({"scenario": ["a", "b"], "limit_us": [10.0, 20.0], "time_us": [14.0, 21.0], "rate": ["bytes read"], "per_second": [2e10], "how": ["read of 1 GiB, best of 5"]}),
        ),
        (
            "C098",
            json!({"change": ["one", "two"], "gain_without": [1.1, 1.9], "gain": 2.0, "unexplained": 0.05}),
        ),
        ("C099", json!({"edit": ["wider step"], "evaluation": [12], "ratio": [0.98], "looked_at": 20})),
        (
            "C100",
            json!({"layer": layers, "measurements": [1, 0, 0, 0, 2, 0, 0, 0, 7, 0], "hypotheses": [0, 0, 0, 0, 1, 0, 0, 0, 6, 0]}),
        ),
        (
            "C101",
            json!({"clause": ["every scenario correct", "geomean 2"], "evaluation": [41, 0], "met": [true, false], "margin": [0, -0.2]}),
        ),
    ]
}

/// Answers of the right form without the evidence.
fn hollow() -> Vec<(&'static str, Json)> {
    vec![
        ("C001", json!({"scenario": ["a", "b"], "ratio": [0.4, 0.9], "share": [0.5, 0.1]})),
        (
            "C004",
            json!({"work": [1, 1, 1, 1], "candidate_us": [3, 3, 3, 3], "seed_us": [5, 5, 5, 5], "fixed_ratio": 1, "unit_ratio": 1}),
        ),
        (
            "C009",
            json!({"rose": 3, "fell": 1, "neither": 19, "scenarios": 24, "noise": 0.01, "median_ratio": 1.0}),
        ),
        (
            "C010",
            json!({"scenario": "a", "least_bytes": 4e6, "least_operations": 1e6, "bytes_per_s": 2e10, "operations_per_s": 5e10, "bound_us": 200.0, "time_us": 120.0}),
        ),
        (
            "C010",
            json!({"scenario": "a", "least_bytes": 4e6, "least_operations": 1e6, "bytes_per_s": 2e10, "operations_per_s": 5e10, "bound_us": 20.0, "time_us": 120.0}),
        ),
        (
            "C011",
            json!({"ratio": [1.0, 0.9, 1.01, 1.0, 1.0], "half_width": [0.01, 0.01, 0.01, 0.01, 0.01], "smallest_gain": 0.02}),
        ),
        ("C020", json!({"scenario": ["a"], "gain": [2.5], "gain_unseen": [1.1], "mismatches": [0]})),
        ("C020", json!({"scenario": ["a"], "gain": [2.5], "gain_unseen": [2.5], "mismatches": [4]})),
        (
            "C031",
            json!({"best": "a", "worst": "a", "symbol": ["f"], "best_share": [1], "worst_share": [1], "samples": 4000}),
        ),
        (
            "C038",
            json!({"scenario": "a", "path": ["wide", "narrow"], "error_over_bound": [3.0, 0.2], "failing_elements": [0, 0]}),
        ),
        (
            "C050",
            json!({"scenario": ["a", "b"], "call_us": [10.0, 90.0], "working_us": [10.0, 170.0], "processors": 1}),
        ),
        ("C087", json!({"scenario": ["a"], "calls": [10], "differing": [0]})),
        (
            "C088",
            json!({"scenario": "a", "axis": ["row"], "extent": [64], "first": [0], "last": [64], "distinct": [64], "wrong": 64, "elements": 64}),
        ),
        (
            "C091",
            json!({"changed": "tolerance", "evaluation": [1, 17, 40], "before": ["PASS", "PASS", "bad"], "after": ["PASS", "PASS", "PASS"]}),
        ),
        (
            "C095",
            json!({"explanation": "noise", "measurement": "error", "unit": "ulp", "if_true": 4.0, "if_false": 4.0, "measured": 4.0, "half_width": 1.0}),
        ),
        (
            "C096",
            json!({"scenario": ["a", "b"], "limit_us": [10.0, 20.0], "time_us": [14.0, 12.0], "rate": ["bytes read"], "per_second": [2e10], "how": ["x"]}),
        ),
        (
            "C096",
            json!({"scenario": ["a", "b"], "limit_us": [10.0, 20.0], "time_us": [14.0, 22.0], "rate": [], "per_second": [], "how": []}),
        ),
        ("C098", json!({"change": ["one"], "gain_without": [2.0], "gain": 2.0, "unexplained": 0.0})),
        ("C098", json!({"change": ["one"], "gain_without": [1.8], "gain": 2.0, "unexplained": 0.7})),
        ("C100", json!({"layer": ["host"], "measurements": [1], "hypotheses": [0]})),
        ("C101", json!({"clause": ["geomean 2"], "evaluation": [0], "met": [false], "margin": [0]})),
    ]
}

#[test]
fn every_entry_can_be_answered() {
    let bank = embedded().unwrap();
    let good = good();
    for entry in bank.entries() {
        let (_, answer) =
            good.iter().find(|(id, _)| *id == entry.id).unwrap_or_else(|| panic!("{}", entry.id));
        assert_eq!(judge_answer(entry, &map(answer.clone())), Ok(true), "{}", entry.id);
    }
}

#[test]
fn an_answer_without_the_evidence_is_none() {
    let bank = embedded().unwrap();
    for (id, answer) in hollow() {
        assert_eq!(judge_answer(bank.get(id).unwrap(), &map(answer.clone())), Ok(false), "{id}: {answer}");
    }
}

#[test]
fn no_field_may_be_left_out_or_emptied() {
    let bank = embedded().unwrap();
    for (id, answer) in good() {
        let entry = bank.get(id).unwrap();
        let whole = map(answer);
        for field in entry.fields() {
            let mut without = whole.clone();
            without.remove(&field.name);
            let error = judge_answer(entry, &without).unwrap_err();
            assert!(
                matches!(&error, AnswerError::Missing { field: f, .. } if *f == field.name),
                "{id}: {error}"
            );
        }
        let mut empty = whole.clone();
        for (_, value) in empty.iter_mut().filter(|(_, v)| v.is_array()) {
            *value = json!([]);
        }
        assert_ne!(
            judge_answer(entry, &empty).ok(),
            whole.values().any(Json::is_array).then_some(true),
            "{id}"
        );
    }
}

fn entry_of(fields: &str, predicate: &str) -> Entry {
    let text = format!(
        r#"[[entry]]
        id = "C900"
        version = 1
        status = "active"
        group = "G1"
        decision_points = ["plateau"]
        question = "Which?"
        answer_form = "table"
        budget = {{ max_tool_calls = 4, max_minutes = 10 }}
        provenance = {{ kind = "untested" }}
        applies_to = {{ arch = ["any"], needs_alternative = false }}
        trigger = {{ expr = "layer_run >= 5", signals = ["layer_run"] }}
        evidence_expected = [{{ artifact = "all of it", fields = {fields}, predicate = "{predicate}" }}]"#
    );
    Bank::parse("b.toml", &text).unwrap().entries()[0].clone()
}

#[test]
fn messages_say_what_to_change() {
    let entry = entry_of(
        r#"{ name = "list(string)", us = "list(double)", n = "int", ok = "bool" }"#,
        "size(name) > 0 && us[0] / double(n) > 0.0 && ok && 1 / n > 0",
    );
    let table = [
        (
            json!({}),
            "the answer has no `name`, which is a list of strings, one per row; an answer is {\"name\": [string, …], \"us\": [double, …], \"n\": int, \"ok\": bool}: all of it",
        ),
        (
            json!({"name": "a", "us": [], "n": 1, "ok": true}),
            "`name` wants a list of strings, one per row, not the string \"a\"",
        ),
        (
            json!({"name": ["a", 3], "us": [], "n": 1, "ok": true}),
            "`name` wants a list of strings, one per row, not 3 in row 2",
        ),
        (
            json!({"name": ["a"], "us": ["1.5"], "n": 1, "ok": true}),
            "`us` wants a list of numbers, one per row, not the string \"1.5\" in row 1",
        ),
        (
            json!({"name": ["a"], "us": [[1]], "n": 1, "ok": true}),
            "`us` wants a list of numbers, one per row, not a list of 1 in row 1",
        ),
        (
            json!({"name": ["a"], "us": [1, 2], "n": 1, "ok": true}),
            "`name` has 1 rows and `us` has 2: the lists are columns of one table",
        ),
        (json!({"name": ["a"], "us": [1], "n": 1.5, "ok": true}), "`n` wants an integer, not 1.5"),
        (json!({"name": ["a"], "us": [1], "n": null, "ok": true}), "`n` wants an integer, not null"),
        (json!({"name": ["a"], "us": [1], "n": 1, "ok": 1}), "`ok` wants true or false, not 1"),
        (
            json!({"name": ["a"], "us": [1], "n": 0, "ok": true}),
            "the predicate of C900 could not be worked out from the answer: size(name) > 0 && us[0] / double(n) > 0.0 && ok && 1 / n > 0",
        ),
    ];
    for (answer, expected) in table {
        assert_eq!(judge_answer(&entry, &map(answer)).unwrap_err().to_string(), expected);
    }
    let whole = json!({"name": ["a"], "us": [1], "n": 1.0, "ok": true, "more": {"passed": "over"}});
    assert_eq!(judge_answer(&entry, &map(whole)), Ok(true), "whole numbers are integers and doubles");
}

#[test]
fn an_answer_is_bounded() {
    let entry = entry_of(r#"{ us = "list(int)" }"#, "size(us) > 0");
    let list = |n: usize| map(json!({"us": vec![1; n]}));
    assert_eq!(judge_answer(&entry, &list(LONGEST_LIST)), Ok(true));
    assert!(matches!(
        judge_answer(&entry, &list(LONGEST_LIST + 1)),
        Err(AnswerError::LongList { length: 10_001, .. })
    ));
    let mut long = list(1);
    long.insert("more".into(), Json::String("x".repeat(LONGEST_ANSWER)));
    assert!(matches!(judge_answer(&entry, &long), Err(AnswerError::TooLong { .. })));
}

#[test]
fn a_predicate_that_is_none_is_an_error() {
    let entry = entry_of(r#"{ n = "int" }"#, "n >");
    assert!(matches!(judge_answer(&entry, &map(json!({"n": 1}))), Err(AnswerError::Predicate { .. })));
    let entry = entry_of(r#"{ n = "int" }"#, "n + 1");
    assert!(matches!(
        judge_answer(&entry, &map(json!({"n": 1}))),
        Err(AnswerError::NoBool { found: "an int", .. })
    ));
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        any::<i64>().prop_map(|i| json!(i)),
        any::<u64>().prop_map(|i| json!(i)),
        any::<f64>().prop_map(|x| json!(x)),
        ".{0,6}".prop_map(Json::String),
    ];
    leaf.prop_recursive(2, 16, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::btree_map("[a-z]{1,3}", inner, 0..3).prop_map(|m| json!(m)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_answer_panics(values in prop::collection::vec(any_json(), 10)) {
        let bank = embedded().unwrap();
        for entry in bank.entries() {
            let answer: Map<String, Json> = entry.fields().map(|f| f.name.clone()).zip(values.iter().cloned()).collect();
            let _ = judge_answer(entry, &answer);
        }
        for (id, answer) in good() {
            let entry = bank.get(id).unwrap();
            let whole = map(answer);
            for (field, value) in entry.fields().zip(&values) {
                let mut one = whole.clone();
                one.insert(field.name.clone(), value.clone());
                let _ = judge_answer(entry, &one);
            }
        }
    }
}
