//! Messages: what happened, where, what to do.

use crate::context;

#[test]
fn a_mistake_in_the_problem_is_shown_with_its_line() {
    let c = context("rowscale");
    c.edit("problem.toml", "role = \"varying\"", "role = \"vary\"").unwrap();
    let ran = c.run(&["eval", "seed.c"]).unwrap();
    insta::assert_snapshot!(ran.snapshot());
}

#[test]
fn a_mistake_in_a_scenario_is_shown_with_its_line() {
    let c = context("rowscale");
    c.edit("all.jsonl", "\"cols\": 3001", "\"cols\": 0").unwrap();
    let ran = c.run(&["check", "."]).unwrap();
    insta::assert_snapshot!(ran.snapshot());
}

#[test]
fn what_is_missing_is_named_with_the_way_out() {
    let c = context("rowscale");
    let runs = [
        &["eval", "nope.c"][..],
        &["eval", "seed.c", "--scenario", "huge"],
        &["eval", "seed.c", "--set", "other"],
        &["eval", "seed.c", "--cc", "/no/such/cc"],
        &["eval", "--last"],
        &["check", "/no/such/folder"],
        &["inspect", "seed.c"],
    ];
    let mut text = String::new();
    for args in runs {
        text.push_str(&format!("$ kernelseek {}\n{}\n", args.join(" "), c.run(args).unwrap().snapshot()));
    }
    insta::assert_snapshot!(text);
}

#[test]
fn the_header_is_what_candidates_include() {
    let c = context("rowscale");
    let before = c.run(&["header", "."]).unwrap().stdout;
    // It is what seed and reference are written against: there is one before they are.
    for file in ["seed.c", "reference.c", "all.jsonl"] {
        std::fs::remove_file(c.problem().join(file)).unwrap();
    }
    let ran = c.run(&["header", "."]).unwrap();
    assert_eq!((ran.code, &ran.stdout), (0, &before), "{}", ran.snapshot());
    insta::assert_snapshot!(before);
}

#[test]
fn other_languages_are_refused_by_name() {
    let c = context("rowscale");
    for (name, word) in [("k.cu", "cuda"), ("k.rs", "rust")] {
        c.write(name, "").unwrap();
        let ran = c.run(&["eval", name]).unwrap();
        assert_eq!(ran.code, 3, "{}", ran.snapshot());
        assert!(ran.stderr.to_lowercase().contains(word), "{}", ran.stderr);
    }
}

#[test]
fn doctor_and_completions_work_anywhere() {
    let c = context("rowscale");
    let doctor = c.run(&["doctor", "--json"]).unwrap();
    let facts = doctor.json().unwrap();
    assert!(facts["sandbox"]["seccomp"]["state"].is_string(), "{facts:#}");
    assert!(facts["device"]["cores"].as_u64().unwrap() >= 1);
    for shell in ["bash", "zsh", "fish"] {
        assert!(c.run(&["completions", shell]).unwrap().stdout.contains("kernelseek"));
    }
}

#[test]
fn colour_is_used_only_when_asked_for() {
    let c = context("rowscale");
    let plain = c.run(&["doctor"]).unwrap();
    assert!(!plain.stdout.contains('\x1b'));
    let coloured = c.run(&["doctor", "--color", "always"]).unwrap();
    assert!(coloured.stdout.contains('\x1b'));
}
