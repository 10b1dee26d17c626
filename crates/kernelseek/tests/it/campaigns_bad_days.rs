//! Full disks, read-only folders, clocks that go back, two at once: a clear message, and nothing lost.

use crate::led_fixture;
use kernelseek_ledger::entry::Hypothesis;
use kernelseek_ledger::{Access, Batch, Entry, Ledger};
use kernelseek_testkit::stand::{self, LIMIT, Stand, finish};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

fn sealed() -> Stand {
    let stand = empty();
    stand.json(&["seal"]).unwrap();
    stand
}

fn empty() -> Stand {
    Stand::new(Path::new(env!("CARGO_BIN_EXE_kernelseek")), &led_fixture()).unwrap()
}

/// What a step of a script printed.
struct Step {
    code: i32,
    out: String,
    err: String,
}

/// Runs a shell script in namespaces of its own, where it may mount. Every `step NAME COMMAND…` in it is written down.
/// Nothing where the machine refuses such namespaces.
#[expect(clippy::print_stderr, reason = "whoever reads the output of tests should see what was left out")]
fn in_namespaces(stand: &Stand, script: &str) -> Option<impl Fn(&str) -> Step> {
    let allowed = Command::new("unshare").args(["-rm", "true"]).output();
    if !allowed.is_ok_and(|o| o.status.success()) {
        eprintln!("skipped: this machine lets nobody mount in namespaces of their own");
        return None;
    }
    let steps = stand.path("steps");
    std::fs::create_dir_all(&steps).unwrap();
    std::fs::create_dir_all(stand.state()).unwrap();
    let script = format!(
        "set -u\nstep() {{ n=\"$STEPS/$1\"; shift; \"$@\" >\"$n.out\" 2>\"$n.err\" </dev/null; echo $? >\"$n.code\"; }}\n\
         mount -t tmpfs -o size=8m tmpfs \"$KERNELSEEK_STATE_DIR\" || exit 1\n{script}"
    );
    let mut command = stand.command_of(Path::new("unshare"), &["-rm", "sh", "-c", &script], &[]);
    command.env("STEPS", &steps);
    let done = finish(command, None, LIMIT).unwrap();
    assert_eq!(done.ran.code, 0, "{}", done.ran.snapshot());
    let read = move |name: &str| -> Step {
        let text = |end: &str| std::fs::read_to_string(steps.join(format!("{name}.{end}"))).unwrap();
        Step { code: text("code").trim().parse().unwrap(), out: text("out"), err: text("err") }
    };
    Some(read)
}

fn rows(step: &Step) -> Vec<(u64, String)> {
    assert_eq!(step.code, 0, "{}", step.err);
    let log: Value = serde_json::from_str(&step.out).unwrap();
    let list = log.as_array().unwrap().iter();
    list.map(|r| (r["row"].as_u64().unwrap(), r["hash"].as_str().unwrap().to_owned())).collect()
}

#[test]
fn a_full_disk_is_named_and_loses_nothing() {
    let stand = empty();
    // Full to the last page, and with so little room that the way ends in the middle.
    let script = r#"
        step seal kernelseek seal
        step eval kernelseek eval --quick
        step before kernelseek log --json --number 0
        fill() { dd if=/dev/zero of="$KERNELSEEK_STATE_DIR/filler" bs=4k count=4096 2>/dev/null; }
        fill
        step full-eval kernelseek eval --quick
        step full-hypothesis kernelseek hypothesis "room"
        step full-export kernelseek export "$KERNELSEEK_STATE_DIR/export.jsonl"
        step full-run kernelseek run -- true
        step full-status kernelseek status
        step full-hook kernelseek hook-decision
        step during kernelseek log --json --number 0
        for left in 16 48 96; do
            rm "$KERNELSEEK_STATE_DIR/filler"
            fill
            truncate -s "-${left}k" "$KERNELSEEK_STATE_DIR/filler"
            echo "/* $left */" >> kernel.c
            step "left-$left" kernelseek eval --quick
        done
        rm "$KERNELSEEK_STATE_DIR/filler"
        step freed-eval kernelseek eval --quick
        step freed-export kernelseek export whole.jsonl
        step freed-import kernelseek --state-dir elsewhere import whole.jsonl
        step after kernelseek log --json --number 0
    "#;
    let Some(step) = in_namespaces(&stand, script) else { return };
    let before = rows(&step("before"));
    assert!(before.len() > 3);
    for name in ["full-eval", "full-hypothesis", "full-export", "full-run", "left-16", "left-48"] {
        let step = step(name);
        assert_eq!(step.code, 5, "{name}: {}", step.err);
        assert!(
            step.err.contains("the disk that holds") && step.err.contains("is full"),
            "{name}: {}",
            step.err
        );
        assert!(step.err.contains("hint: free some space"), "{name}: {}", step.err);
    }
    assert_eq!(step("full-status").code, 0, "{}", step("full-status").err);
    let hook: Value = serde_json::from_str(&step("full-hook").out).unwrap();
    assert_eq!(hook["decision"], "block");
    assert_eq!(rows(&step("during")), before, "reading needs no room");
    for name in ["freed-eval", "freed-export", "freed-import"] {
        assert_eq!(step(name).code, 0, "{name}: {}", step(name).err);
    }
    let after = rows(&step("after"));
    assert!(after.starts_with(&before) && after.len() > before.len(), "{before:?}\n{after:?}");
}

#[test]
fn a_read_only_state_folder_is_read_and_says_what_to_do() {
    let stand = empty();
    let script = r#"
        step seal kernelseek seal
        step eval kernelseek eval --quick
        step before kernelseek log --json --number 0
        mount -o remount,ro "$KERNELSEEK_STATE_DIR"
        step status kernelseek status
        step goal kernelseek goal
        step log kernelseek log --json --number 0
        step report kernelseek report
        step hook kernelseek hook-decision
        step export kernelseek export whole.jsonl
        step again kernelseek eval --quick
        step hypothesis kernelseek hypothesis "room"
        step run kernelseek run -- true
    "#;
    let Some(step) = in_namespaces(&stand, script) else { return };
    for name in ["seal", "eval", "status", "goal", "report", "hook", "export"] {
        assert_eq!(step(name).code, 0, "{name}: {}", step(name).err);
    }
    assert_eq!(rows(&step("log")), rows(&step("before")));
    let hook: Value = serde_json::from_str(&step("hook").out).unwrap();
    assert_eq!(hook["decision"], "block", "{hook:#}");
    let reason = hook["reason"].as_str().unwrap();
    assert!(reason.contains("the goal is unmet") && reason.contains("could not be written down"), "{reason}");
    for name in ["again", "hypothesis", "run"] {
        let step = step(name);
        assert_eq!(step.code, 5, "{name}: {}", step.err);
        assert!(step.err.contains("cannot be written: Read-only file system"), "{name}: {}", step.err);
        assert!(step.err.contains("hint: make the folder writable"), "{name}: {}", step.err);
    }
}

fn ledger_folder(stand: &Stand) -> PathBuf {
    std::fs::read_dir(stand.state().join("campaigns")).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn a_clock_that_goes_back_keeps_the_order() {
    let mut stand = sealed();
    let hour_ahead = kernelseek_supervisor::now_ms() + 3_600_000;
    let hypothesis = Hypothesis { text: "written an hour from now".into(), layer: None, expect: None };
    let mut ledger = Ledger::open(&ledger_folder(&stand), Access::Write).unwrap();
    ledger.append(Batch::of(Entry::Hypothesis(hypothesis)), hour_ahead).unwrap();
    drop(ledger);
    for args in [&["status"][..], &["goal"], &["log"], &["eval", "--quick"]] {
        let done = stand.run(args).unwrap();
        assert_eq!(done.ran.code, 0, "{args:?}: {}", done.ran.snapshot());
        let warning = done.ran.stderr.lines().find(|l| l.starts_with("warning: the clock is "));
        assert!(warning.is_some_and(|w| w.contains("behind the last row")), "{args:?}: {}", done.ran.stderr);
    }
    let rows = stand.rows().unwrap();
    let times: Vec<i64> = rows.iter().map(|r| r["at_ms"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    assert_eq!(rows.last().unwrap()["entry"]["kind"], "evaluated");
    assert_eq!(*times.last().unwrap(), hour_ahead, "later rows take the time of the row before");
    stand.travels().unwrap();
}

#[test]
fn two_evaluations_at_once_take_turns() {
    let mut stand = sealed();
    stand.json(&["eval", "--quick"]).unwrap();
    let mut first = stand::start(stand.command(&["eval", "--full"])).unwrap();
    let begun = Instant::now();
    while stand.json(&["status"]).unwrap()["running"].is_null() {
        assert!(
            begun.elapsed() < Duration::from_secs(60) && first.try_wait().unwrap().is_none(),
            "it never ran"
        );
    }
    let refused = stand.run(&["eval", "--quick", "--no-wait"]).unwrap();
    assert_eq!(refused.ran.code, 5, "{}", refused.ran.snapshot());
    let message = &refused.ran.stderr;
    assert!(message.contains("error: an evaluation of kernel.c is running since"), "{message}");
    assert!(
        message.contains(&format!("process {}", first.id())) && message.contains("hint: wait"),
        "{message}"
    );
    let hook = stand.hook().unwrap();
    assert_eq!(hook["rule"], "running", "{hook:#}");
    let second = stand.run(&["eval", "--quick"]).unwrap();
    assert_eq!(second.ran.code, 0, "{}", second.ran.snapshot());
    let waited = format!("waiting: an evaluation of kernel.c is running (process {})", first.id());
    assert!(second.ran.stderr.contains(&waited), "{}", second.ran.stderr);
    assert!(first.wait().unwrap().success());
    let kinds: Vec<String> = stand.rows().unwrap().iter().map(|r| r["entry"]["kind"].to_string()).collect();
    assert_eq!(kinds.iter().filter(|k| k.contains("evaluated")).count(), 3, "{kinds:?}");
    assert!(!kinds.iter().any(|k| k.contains("abandoned")), "{kinds:?}");
}
