//! The bank as a user meets it: what is embedded, what a folder holds, and what a broken file says.

use kernelseek_core::decision::DecisionPoint;
use kernelseek_questions::{Bank, BankError, Group, embedded};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bank")
}

#[test]
fn the_embedded_bank_covers_what_it_should() {
    let bank = embedded().unwrap();
    assert!((26..=32).contains(&bank.entries().len()), "{}", bank.entries().len());
    let groups: BTreeSet<Group> = bank.entries().iter().map(|e| e.group).collect();
    assert!(groups.len() >= 7, "{groups:?}");
    for point in DecisionPoint::ALL {
        let count = bank.entries().iter().filter(|e| e.decision_points.contains(&point)).count();
        assert!(count >= 4, "{count} for {point}");
    }
    for entry in bank.entries() {
        assert!(entry.leak_check.is_none() && entry.stats.is_none(), "{}: nothing was measured", entry.id);
        assert!(entry.layer_to.is_some() && entry.intent.is_some(), "{}", entry.id);
        assert_eq!(entry.layer_to, entry.group.layer(), "{}", entry.id);
    }
    let questions: BTreeSet<&str> = bank.entries().iter().map(|e| e.question.as_str()).collect();
    assert_eq!(questions.len(), bank.entries().len());
}

#[test]
fn the_folder_is_the_embedded_bank() {
    let (loaded, embedded) = (Bank::load(&folder()).unwrap(), embedded().unwrap());
    let ids = |bank: &Bank| bank.entries().iter().map(|e| e.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&loaded), ids(&embedded), "a file of the folder is not embedded");
}

#[test]
fn one_file_holds_one_group() {
    let mut groups: BTreeMap<String, BTreeSet<Group>> = BTreeMap::new();
    let bank = embedded().unwrap();
    for entry in bank.entries() {
        groups.entry(entry.place().0.to_owned()).or_default().insert(entry.group);
    }
    assert!(groups.values().all(|g| g.len() == 1), "{groups:?}");
}

const WHOLE: &str = r#"[[entry]]
id = "C900"
version = 1
status = "active"
group = "G1"
decision_points = ["plateau"]
question = "Which scenarios hold the shortfall?"
answer_form = "table"
budget = { max_tool_calls = 4, max_minutes = 10 }
provenance = { kind = "untested" }
applies_to = { arch = ["any"], needs_alternative = false }
trigger = { expr = "layer_run >= 5", signals = ["layer_run"] }
evidence_expected = [{ artifact = "n", fields = { n = "int" }, predicate = "n > 0" }]
"#;

#[test]
fn a_broken_entry_says_where() {
    let table = [
        ("id = \"C900\"", "id = \"K900\"", "b.toml:2:6: `K900` is no id of group G1"),
        ("id = \"C900\"\n", "", "b.toml:1:1: [[entry]] has no `id`"),
        ("version = 1", "version = 0", "b.toml:3:11: `version` must be from 1 to 4294967295"),
        ("version = 1", "version = \"1\"", "b.toml:3:11: `version` wants an integer, not a string"),
        ("\"active\"", "\"ready\"", "b.toml:4:10: `ready` is no value of `status`"),
        ("\"G1\"", "\"G11\"", "b.toml:5:9: `G11` is no value of `group`"),
        ("\"G1\"", "\"G1\"\nlayer_to = \"kernel\"", "b.toml:6:12: `kernel` is no value of `layer_to`"),
        ("\"G1\"", "\"G1\"\nintent = \"win\"", "b.toml:6:10: `win` is no value of `intent`"),
        ("\"G1\"", "\"G1\"\nnote = \"x\"", "b.toml:6:1: unknown key `note` in [[entry]]"),
        ("[\"plateau\"]", "[]", "b.toml:6:19: an entry is for at least one decision point"),
        ("[\"plateau\"]", "[\"plateau\", \"plateau\"]", "b.toml:6:31: `plateau` stands twice"),
        ("[\"plateau\"]", "[\"stuck\"]", "b.toml:6:20: `stuck` is no value of `decision_points`"),
        ("shortfall?", "shortfall", "b.toml:7:12: a question has one question mark, at its end"),
        (
            "scenarios hold",
            "scenarios? Who holds",
            "b.toml:7:12: a question has one question mark, at its end",
        ),
        ("shortfall?\"", "shortfall?\" # why", ""),
        ("\"table\"", "\"essay\"", "b.toml:8:15: `essay` is no value of `answer_form`"),
        ("max_tool_calls = 4, ", "", "b.toml:9:10: budget has no `max_tool_calls`"),
        (
            "max_minutes = 10",
            "max_minutes = 10, max_tokens = 5",
            "b.toml:9:50: unknown key `max_tokens` in budget",
        ),
        ("\"untested\"", "\"hearsay\"", "b.toml:10:23: `hearsay` is no value of `kind`"),
        ("\"untested\"", "\"untested\", added = \"2026-13-01\"", "b.toml:10:43: `2026-13-01` is no day"),
        (
            "needs_alternative = false",
            "needs_alternative = 0",
            "b.toml:11:52: `needs_alternative` wants true or false, not an integer",
        ),
        ("[\"any\"], ", "[\"any\"], operator = \"copy\", ", "b.toml:11:43: `copy` is no value of `operator`"),
        (
            "signals = [\"layer_run\"]",
            "signals = [5]",
            "b.toml:12:49: `signals` wants a string, not an integer",
        ),
        ("expr = \"layer_run >= 5\"", "expr = \"\"", "b.toml:12:20: `expr` is empty"),
        (
            "fields = { n = \"int\" }",
            "fields = { n = \"float\" }",
            "b.toml:13:55: `float` is no type of a field",
        ),
        ("fields = { n = \"int\" }", "fields = { N = \"int\" }", "b.toml:13:51: `N` is no name of a field"),
        ("fields = { n = \"int\" }", "fields = {}", "b.toml:13:49: an artefact has at least one field"),
        (", predicate = \"n > 0\"", "", "b.toml:13:22: evidence_expected has no `predicate`"),
        ("[[entry]]", "[entry]", "b.toml:1:1: `entry` wants a list, not a table"),
        ("[[entry]]", "[[question]]", "b.toml:1:3: unknown key `question` in the file"),
        ("[[entry]]", "[[entry]", "b.toml:1:"),
    ];
    let mut wrong = Vec::new();
    for (from, to, expected) in table {
        assert!(WHOLE.contains(from), "{from}");
        let shown = match Bank::parse("b.toml", &WHOLE.replacen(from, to, 1)) {
            Ok(_) => String::new(),
            Err(faults) => faults.to_string(),
        };
        let fits = if expected.is_empty() {
            shown.is_empty()
        } else {
            shown.lines().any(|l| l.starts_with(expected))
        };
        if !fits {
            wrong.push(format!("{to}\n  expected {expected}\n  got      {shown}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_fault_is_shown_with_a_caret() {
    let faults = Bank::parse("b.toml", &WHOLE.replace("\"active\"", "\"ready\"")).unwrap_err();
    let expected = "b.toml:4:10: `ready` is no value of `status`\n  status = \"ready\"\n           ^^^^^^^\n\
        hint: one of `draft`, `active`, `quarantined`, `retired`";
    assert_eq!(faults.to_string(), expected);
}

#[test]
fn ids_are_unique_in_a_file_and_across_files() {
    let twice = Bank::parse("b.toml", &format!("{WHOLE}\n{WHOLE}")).unwrap_err();
    assert!(twice.to_string().starts_with("b.toml:16:6: `C900` stands already at line 2"), "{twice}");
    let one = || Bank::parse("b.toml", WHOLE).unwrap();
    let joined = embedded().unwrap().join(one()).unwrap();
    assert_eq!(joined.entries().len(), embedded().unwrap().entries().len() + 1);
    let error = joined.join(one()).unwrap_err();
    assert!(error.to_string().starts_with("b.toml:2:6: `C900` stands already in b.toml, line 2"), "{error}");
}

#[test]
fn a_folder_is_read_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Bank::load(&dir.path().join("none")), Err(BankError::Read { .. })));
    assert!(matches!(Bank::load(dir.path()), Err(BankError::NoBank { .. })));

    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("b.toml", WHOLE);
    write("notes.txt", "not TOML");
    assert_eq!(Bank::load(dir.path()).unwrap().entries().len(), 1);

    write(
        "c.toml",
        &WHOLE.replace("C900", "C901").replace("n > 0", "m > 0").replace("layer_run >= 5", "layer_run >="),
    );
    write("d.toml", WHOLE);
    write("forbidden.toml", "[[list]]\nname = \"x\"\nrule = 1\nmatch = \"start\"\nterms = [\"y\"]\n");
    let Err(BankError::Wrong(faults)) = Bank::load(dir.path()) else { panic!("loaded") };
    let shown: Vec<_> =
        faults.iter().map(|d| (d.file().rsplit('/').next().unwrap().to_owned(), d.line)).collect();
    let expected = [("d.toml", 2), ("forbidden.toml", 3), ("c.toml", 12), ("c.toml", 13), ("c.toml", 13)];
    assert_eq!(shown, expected.map(|(f, l)| (f.to_owned(), l)), "{faults:?}");
    assert!(faults[2].to_string().contains("mismatched input"), "{}", faults[2]);

    write("c.toml", "\u{feff}");
    std::fs::write(dir.path().join("d.toml"), [0xff, 0xfe]).unwrap();
    assert!(matches!(Bank::load(dir.path()), Err(BankError::Read { .. })));
}

/// The text of an embedded file with a few bytes exchanged.
fn mutated() -> impl Strategy<Value = String> {
    let files = [
        include_str!("../../../bank/g01_goal.toml"),
        include_str!("../../../bank/g02_measurement.toml"),
        include_str!("../../../bank/g10_conduct.toml"),
    ];
    let change = (any::<prop::sample::Index>(), 0..40usize, "[ -~\\n\"'\\[\\]{}=#\\\\é]{0,6}");
    (prop::sample::select(files.to_vec()), prop::collection::vec(change, 1..6)).prop_map(|(file, changes)| {
        let mut text = file.to_owned();
        for (at, length, with) in changes {
            let mut start = at.index(text.len());
            while !text.is_char_boundary(start) {
                start -= 1;
            }
            let mut end = (start + length).min(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.replace_range(start..end.max(start), &with);
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_panic(bytes: Vec<u8>) {
        let _ = Bank::parse("b.toml", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_mutation_panics(text in mutated()) {
        match Bank::parse("b.toml", &text) {
            Err(faults) => {
                prop_assert!(!faults.items.is_empty());
                let _ = faults.to_string();
            }
            Ok(bank) => {
                let found = kernelseek_questions::lint(&bank, None).unwrap();
                let _: Vec<_> = found.iter().map(ToString::to_string).collect();
            }
        }
    }
}
