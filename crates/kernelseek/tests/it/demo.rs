//! The demo is a true campaign: another edit in the recording makes another story and another end.

use crate::context;
use kernelseek_testkit::{Ran, TestContext};
use std::path::{Path, PathBuf};

fn demo() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo")
}

/// A recording of one edit and a wish to stop.
fn recording(context: &TestContext, kernel: &Path) -> String {
    let folder = context.problem().parent().unwrap().join("recording");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(kernel, folder.join("edit.c")).unwrap();
    let steps = "format = 1\n[[step]]\nhypothesis = \"it is faster\"\nlayer = \"formulation\"\nexpect = 3.0\nfiles = { \
                 \"kernel.c\" = \"edit.c\" }\neval = \"default\"\nstop = \"done\"\n";
    std::fs::write(folder.join("replay.toml"), steps).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// Plays the demo with one edit until `told` says that the machine was quiet enough to tell.
fn play(kernel: &Path, told: impl Fn(&Ran) -> bool) -> Ran {
    let mut last = None;
    for round in 0..5 {
        let context = context("rowscale");
        let recording = recording(&context, kernel);
        let into = context.problem().parent().unwrap().join(format!("demo-{round}"));
        let ran =
            context.run(&["demo", "--recording", &recording, "--into", into.to_str().unwrap()]).unwrap();
        let report = std::fs::read_to_string(into.join("report.md")).unwrap();
        assert!(report.starts_with("# "), "{report}");
        if told(&ran) {
            return ran;
        }
        last = Some(ran);
    }
    panic!("the machine is too busy to tell:\n{}", last.unwrap().snapshot());
}

#[test]
fn another_edit_makes_another_story() {
    let remembered = "is, bit for bit, what was answered to an earlier call";
    // The recorded edit: an output cache.
    let ran = play(&demo().join("replay/03_output_cache.c"), |_| true);
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    for part in [remembered, "[correct.remembered]", "Caught: every timed call", "stop refused", "UNMET"] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.snapshot());
    }
    assert!(!ran.stdout.contains("▲ promoted"), "{}", ran.snapshot());

    let wrong = play(&demo().join("replay/swaps/wrong.c"), |_| true);
    assert_eq!(wrong.code, 1, "{}", wrong.snapshot());
    assert!(wrong.stdout.contains("[correct.reference]"), "{}", wrong.snapshot());
    assert!(!wrong.stdout.contains("Caught") && !wrong.stdout.contains("▲ promoted"), "{}", wrong.snapshot());

    // Correct, but slower: nothing fails, nothing is promoted, and every scenario is named as missing.
    let slower = play(&demo().join("replay/swaps/slower.c"), |ran| !ran.stdout.contains("UNPROVEN"));
    assert_eq!(slower.code, 1, "{}", slower.snapshot());
    assert!(
        !slower.stdout.contains("FAIL") && !slower.stdout.contains("▲ promoted"),
        "{}",
        slower.snapshot()
    );
    assert!(slower.stdout.contains("`geomean speedup >= 2`"), "{}", slower.snapshot());
    let said = ["is out of reach of these edits on this processor", "could not be told"];
    assert!(said.iter().any(|s| slower.stdout.contains(s)), "{}", slower.snapshot());

    let honest = play(&demo().join("replay/swaps/honest.c"), |ran| ran.stdout.contains("▲ promoted"));
    assert!(!honest.stdout.contains("FAIL") && !honest.stdout.contains("Caught"), "{}", honest.snapshot());
    for part in ["suspicious win", "audited"] {
        assert!(honest.stdout.contains(part), "{part}\n{}", honest.snapshot());
    }
}

#[test]
fn without_a_compiler_it_says_how_to_get_one() {
    let context = context("rowscale");
    let into = context.problem().parent().unwrap().join("demo");
    let ran =
        context.run_with(&["demo", "--into", into.to_str().unwrap()], &[("PATH", "/nonexistent")]).unwrap();
    assert_eq!(ran.code, 4, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("no C compiler found") && ran.stderr.contains("apt-get install"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.stdout, "");
}

#[test]
fn it_never_writes_over_something() {
    let context = context("rowscale");
    let ran = context.run(&["demo", "--into", "."]).unwrap();
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    assert!(ran.stderr.contains("is not empty"), "{}", ran.stderr);
}
