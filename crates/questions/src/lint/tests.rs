use super::*;
use crate::bank::embedded;

/// An entry without a fault, with parts to be exchanged.
const WHOLE: &str = r#"
[[entry]]
id = "C900"
version = 1
status = "active"
group = "G1"
layer_to = "goal"
decision_points = ["plateau"]
question = "Which scenarios hold the shortfall?"
answer_form = "table"
budget = { max_tool_calls = 4, max_minutes = 10 }
provenance = { kind = "public_case", case_refs = ["QC-001"], added = "2026-11-29" }
applies_to = { arch = ["any"], needs_alternative = false }
trigger = { expr = "layer_run >= 5", signals = ["layer_run"] }
evidence_expected = [{ artifact = "scenario, share", fields = { scenario = "list(string)", share = "list(double)" }, predicate = "size(scenario) > 0 && share.all(s, s > 0.0)" }]
"#;

fn lints(text: &str, root: Option<&Path>) -> Vec<(u8, String)> {
    let bank = Bank::parse("b.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    lint(&bank, root).unwrap().into_iter().map(|l| (l.rule, l.diagnostic.message)).collect()
}

fn changed(from: &str, to: &str) -> String {
    assert!(WHOLE.contains(from), "{from}");
    WHOLE.replacen(from, to, 1)
}

#[test]
fn the_embedded_bank_is_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let found = lint(&embedded().unwrap(), Some(&root)).unwrap();
    let text: Vec<_> = found.iter().map(Lint::to_string).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

#[test]
fn an_entry_without_a_fault_has_no_lint() {
    assert_eq!(lints(WHOLE, None), []);
}

#[test]
fn every_rule_catches_its_fault() {
    const QUESTION: &str = "Which scenarios hold the shortfall?";
    let long = format!("Which {}scenarios hold it?", "of the ".repeat(14));
    let table: Vec<(u8, &str, &str, &str)> = vec![
        (1, QUESTION, &long, "a question of 32 words; at most 30"),
        (1, QUESTION, "It is slow. Which scenario is it?", "a question is one sentence on one line"),
        (1, QUESTION, "which scenario is it?", "a question begins with a capital letter"),
        (1, QUESTION, "The slow scenario?", "nothing is asked: no what, which, how, …"),
        (1, QUESTION, "Which scenario is slow, and how slow is it?", "\"and how\" joins two questions"),
        (1, QUESTION, "Is it slow, or is it wrong?", "\"or is\" joins two questions"),
        (2, QUESTION, "Which part of the softmax is slow?", "\"softmax\": operator family (\"softmax\")"),
        (2, QUESTION, "How fast would cuBLAS be?", "\"cuBLAS\": library (\"cublas\")"),
        (2, QUESTION, "How fast would Intel's be?", "\"Intel\": product (\"intel\")"),
        (2, QUESTION, "What would DeepSeek call it?", "\"DeepSeek\": model (\"deepseek\")"),
        (
            2,
            "\"scenario, share\"",
            "\"scenario, share of the matmul\"",
            "\"matmul\": operator family (\"matmul\")",
        ),
        (3, QUESTION, "How far is each loop unrolled?", "\"unrolled\": technique (\"unroll\")"),
        (3, QUESTION, "When slow, use what?", "\"use\": imperative of change (\"use\")"),
        (3, QUESTION, "Why not store it once?", "\"Why not\": suggestion (\"why not\")"),
        (5, "layer_run >= 5\"", "layer_run >=\"", "not an expression: mismatched input 'the end'"),
        (
            5,
            "\"layer_run >= 5\", signals = [\"layer_run\"]",
            "\"nosuch > 5\", signals = [\"nosuch\"]",
            "no signal is called `nosuch`",
        ),
        (5, "\"layer_run >= 5\"", "\"layer_run >= 5 || reverts > 3\"", "`reverts` is not in `signals`"),
        (5, "[\"layer_run\"]", "[\"layer_run\", \"reverts\"]", "the trigger does not read `reverts`"),
        (
            5,
            "\"layer_run >= 5\", signals = [\"layer_run\"]",
            "\"true\", signals = []",
            "a trigger reads at least one signal",
        ),
        (5, "[\"layer_run\"]", "[\"layer_run\"], suppress_if = [\"nosuch\"]", "no signal is called `nosuch`"),
        (
            5,
            "needs_alternative = false",
            "needs_alternative = false, requires_signals = [\"nosuch\"]",
            "no signal is called `nosuch`",
        ),
        (5, "size(scenario) > 0 &&", "", "the predicate does not read `scenario`"),
        (5, "size(scenario) > 0", "size(scenario) >= 0", "the predicate is true of an empty answer"),
        (5, "size(scenario) > 0", "size(scenario) + size(other) > 0", "`other` is no field of the artefact"),
        (
            5,
            "s > 0.0",
            "s > 'a' + 1",
            "the predicate fails on an answer of ones: `+` does not take string and int",
        ),
        (
            5,
            "size(scenario) > 0 && share.all(s, s > 0.0)",
            "size(scenario) + size(share)",
            "the predicate of C900 yields an int",
        ),
        (5, "\"scenario, share\"", "\"scenario, shares\"", "the artefact's phrase does not name `share`"),
        (6, "layer_run >= 5", "layer_run >= 1", "the trigger is true of a healthy record"),
        (6, "layer_run >= 5", "layer_run >= 5000", "the trigger is true of no planted record"),
        (6, "layer_run >= 5", "layer_run + 5", "the trigger yields no bool, or fails, on a healthy record"),
        (
            6,
            "layer_run >= 5",
            "layer_run >= 5.5 && layer_run * 2.0 > 1.0",
            "the trigger is true of no planted record",
        ),
        (9, ", case_refs = [\"QC-001\"]", "", "`public_case` without `case_refs`"),
        (9, "QC-001", "QC-000", "`QC-000` is no public case"),
        (9, "QC-001", "QC-306", "`QC-306` is no public case"),
        (9, "QC-001", "case 1", "`case 1` is no public case"),
        (
            9,
            "\"public_case\", case_refs = [\"QC-001\"]",
            "\"trace_confirmed\"",
            "`trace_confirmed` without `trace_refs`",
        ),
        (
            9,
            "case_refs = [\"QC-001\"]",
            "case_refs = [\"QC-001\"], trace_refs = [\"results/none.jsonl:1\"]",
            "`results/none.jsonl:1` is no line of a trace",
        ),
        (
            0,
            "answer_form",
            "leak_check = { forbidden_terms_pass = true, no_solution_pass = true, blind_guess_rate = 0.1 }\nanswer_form",
            "`leak_check` without a record",
        ),
        (
            0,
            "answer_form",
            "stats = { asked = 3, record = \"results/none.json\" }\nanswer_form",
            "the record `results/none.json` of `stats` does not exist",
        ),
        (
            0,
            "answer_form",
            "stats = { asked = 3, record = \"../results/none.json\" }\nanswer_form",
            "the record `../results/none.json` of `stats` does not exist",
        ),
    ];
    for (rule, from, to, message) in table {
        let found = lints(&changed(from, to), None);
        assert!(
            found.iter().any(|(r, m)| *r == rule && m.starts_with(message)),
            "rule {rule}: {to}\n  expected {message}\n  found    {found:?}"
        );
    }
}

#[test]
fn entries_asked_alike_are_one_too_many() {
    let again = changed("C900", "C901");
    let found = lints(&format!("{WHOLE}{again}"), None);
    assert_eq!(found, [(8, "the same signals, layer and decision points as C900".to_owned())]);
    for (from, to) in [
        ("[\"plateau\"]", "[\"plateau\", \"campaign_start\"]"),
        ("layer_to = \"goal\"", "layer_to = \"host\""),
        ("\"layer_run >= 5\", signals = [\"layer_run\"]", "\"reverts > 1\", signals = [\"reverts\"]"),
    ] {
        assert_eq!(lints(&format!("{WHOLE}{}", again.replacen(from, to, 1)), None), [], "{to}");
    }
}

#[test]
fn a_record_that_exists_is_enough() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("results")).unwrap();
    std::fs::write(root.path().join("results/leaks.json"), "{}\n{}\n").unwrap();
    let leak = "leak_check = { forbidden_terms_pass = true, no_solution_pass = true, record = \"results/leaks.json\" }\nanswer_form";
    let text = changed("answer_form", leak);
    assert_eq!(lints(&text, Some(root.path())), []);
    assert_eq!(lints(&text, None).len(), 1, "without a root nothing is confirmed");
    for (line, count) in [("2", 0), ("3", 1), ("0", 1)] {
        let trace = format!("trace_refs = [\"results/leaks.json:{line}\"]");
        let text = changed("kind = \"public_case\"", &format!("kind = \"trace_confirmed\", {trace}"));
        assert_eq!(lints(&text, Some(root.path())).len(), count, "{line}");
    }
}

#[test]
fn a_lint_points_into_its_file() {
    let bank = Bank::parse("b.toml", &changed("hold the shortfall", "hold the softmax")).unwrap();
    let shown = lint(&bank, None).unwrap()[0].to_string();
    let expected = "b.toml:9:38: \"softmax\": operator family (\"softmax\")\n  \
        question = \"Which scenarios hold the softmax?\"\n                                       ^^^^^^^ (rule 2, C900)";
    assert_eq!(shown, expected);
}
