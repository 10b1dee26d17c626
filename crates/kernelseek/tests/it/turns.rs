//! The outer loop: agents that take turns, are sent back, interrupted and resumed.

use crate::campaign::{Campaigner, MET, UNMET};
use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

/// Writes a recording beside the campaign's state, with the fixture's kernels.
fn recording(c: &Campaigner, steps: &str) -> String {
    let folder = c.context.problem().parent().unwrap().join("recording");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["wrong_tail.c", "faster.c"] {
        std::fs::copy(c.context.problem().join(name), folder.join(name)).unwrap();
    }
    std::fs::write(folder.join("replay.toml"), format!("format = 1\n{steps}")).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn led(c: &Campaigner) -> Vec<Value> {
    let log = c.json(&["log", "--number", "0", "--kind", "led"]);
    log.as_array().unwrap().iter().map(|row| row["entry"].clone()).collect()
}

#[test]
fn whoever_stops_too_early_is_sent_back_until_the_goal_is_met() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    let folder = recording(
        &c,
        r#"
[[step]]
say = "the tail can wait"
hypothesis = "fewer branches"
layer = "instructions"
expect = 1.5
files = { "kernel.c" = "wrong_tail.c" }
eval = "quick"
stop = "done, apart from an edge case"
[[step]]
files = { "kernel.c" = "faster.c" }
eval = "default"
stop = "done"
"#,
    );
    // What a busy machine leaves unproven is played again: the recording is over, so from its second step.
    for _ in 0..8 {
        let ran = c.must(&["run", "--agent", "replay", "--recording", &folder, "--json", "--fresh"]);
        let run = ran.json().unwrap();
        assert!(ran.stderr.contains("stop refused"), "{}", ran.stderr);
        assert!(ran.stderr.contains("turn 2: replay goes on"), "{}", ran.stderr);
        if run["outcome"]["met"] != true {
            continue;
        }
        assert_eq!(run["end"]["why"], "met");
        assert_eq!(run["turns"], 2);
        let rows = led(&c);
        let last = &rows[rows.len() - 2..];
        assert_eq!((&last[0]["agent"], &last[0]["turn"]), (&Value::from("replay"), &Value::from(2)));
        assert_eq!(last[1]["session"], "2");
        // The last evaluation is the supervisor's own.
        let log = c.json(&["log", "--number", "0", "--kind", "evaluated"]);
        assert_eq!(log.as_array().unwrap().last().unwrap()["entry"]["purpose"], "final");
        let again = c.must(&["run", "--agent", "replay", "--recording", &folder, "--json"]).json().unwrap();
        assert_eq!((&again["end"]["why"], &again["turns"]), (&Value::from("met"), &Value::from(0)));
        return;
    }
    panic!("the machine is too busy to prove anything");
}

#[test]
fn a_recording_that_is_over_ends_the_run_and_the_goal_stays_unmet() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let folder = recording(&c, "[[step]]\nfiles = { \"kernel.c\" = \"wrong_tail.c\" }\neval = \"quick\"\n");
    let ran = c.run(&["run", "--agent", "replay", "--recording", &folder, "--exit-code"]);
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    assert!(ran.stdout.contains("UNMET") && ran.stdout.contains("the recording is over"), "{}", ran.stdout);
    assert!(ran.stdout.contains("next:"), "{}", ran.stdout);
    // A wrong candidate needs no evaluation of the supervisor's own.
    assert!(!ran.stderr.contains("the supervisor's own evaluation"), "{}", ran.stderr);
}

#[test]
fn an_agent_that_does_nothing_is_not_started_for_ever() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let agent =
        "echo no model is configured >&2; echo \"$KERNELSEEK_TURN: $KERNELSEEK_PROMPT\" >> prompts.txt";
    let ran = c.must(&["run", "--turns", "10", "--", "sh", "-c", agent]);
    assert!(ran.stdout.contains("in 3 turns"), "{}", ran.stdout);
    assert!(ran.stdout.contains("no model is configured"), "{}", ran.stdout);
    let prompts = std::fs::read_to_string(c.context.problem().join("prompts.txt")).unwrap();
    assert!(prompts.starts_with("1: Make the kernel in `kernel.c` faster."), "{prompts}");
    assert!(prompts.contains("- every speedup >= 900\n"), "{prompts}");
    assert!(prompts.contains("2: You have stopped, and you are not done"), "{prompts}");
    assert!(!prompts.contains("4: "), "{prompts}");
}

#[test]
fn an_interrupted_run_loses_nothing_and_goes_on() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let agent =
        r#"echo '{"session":"s7"}'; echo "$KERNELSEEK_SESSION" >> sessions.txt; touch working; sleep 60"#;
    let problem = c.context.problem();
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_kernelseek"));
    child.args(["run", "--turns", "5", "--json", "--", "sh", "-c", agent]).current_dir(&problem);
    child.env("KERNELSEEK_STATE_DIR", problem.parent().unwrap().join("state")).process_group(0);
    child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let child = child.spawn().unwrap();
    let begun = Instant::now();
    while !problem.join("working").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the agent was never started");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let run: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&run["end"]["why"], &run["outcome"]["met"]),
        (&Value::from("interrupted"), &Value::from(false))
    );
    let rows = led(&c);
    assert_eq!((&rows[1]["ended"], &rows[1]["session"]), (&Value::from("interrupted"), &Value::from("s7")));

    let agent = r#"echo "$KERNELSEEK_SESSION" >> sessions.txt"#;
    c.must(&["run", "--turns", "1", "--", "sh", "-c", agent]);
    c.must(&["run", "--turns", "1", "--fresh", "--", "sh", "-c", agent]);
    assert_eq!(std::fs::read_to_string(problem.join("sessions.txt")).unwrap(), "\ns7\n\n");
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let cases: [(&[&str], i32, &str); 5] = [
        (&["run"], 2, "--agent"),
        (&["run", "--agent", "replay"], 2, "--recording DIR"),
        (&["run", "--recording", ".", "--turns", "1", "--", "true"], 2, "goes with `--agent replay`"),
        (&["run", "--agent", "replay", "--recording", "."], 3, "replay.toml"),
        (&["run", "--turns", "0", "--", "true"], 2, "0"),
    ];
    for (args, code, message) in cases {
        let ran = c.run(args);
        assert_eq!(ran.code, code, "{args:?}\n{}", ran.snapshot());
        assert!(ran.stderr.contains(message), "{args:?}\n{}", ran.stderr);
    }
    let folder = recording(&c, "[[step]]\nfiles = { \"kernel.c\" = \"gone.c\" }\n");
    let ran = c.run(&["run", "--agent", "replay", "--recording", &folder]);
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("step 1: there is no file `gone.c`"), "{}", ran.stderr);
}

#[test]
fn a_campaign_is_recorded_and_played_again() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let nothing = c.run(&["export", "--recording", "../again"]);
    assert!(nothing.code != 0 && nothing.stderr.contains("no evaluation yet"), "{}", nothing.snapshot());
    c.must(&["hypothesis", "the tail can wait", "--layer", "instructions", "--expect", "1.5"]);
    c.put("wrong_tail.c");
    c.must(&["eval", "--quick"]);
    c.put("faster.c");
    c.must(&["eval", "--quick"]);
    c.context.run_input(&["hook-decision"], "{\"words\": \"good enough\"}").unwrap();
    c.must(&["export", "--recording", "../again"]);
    let folder = c.context.problem().parent().unwrap().join("again");
    let text = std::fs::read_to_string(folder.join("replay.toml")).unwrap();
    for part in ["the tail can wait", "expect = 1.5", "eval = \"quick\"", "stop = \"good enough\""] {
        assert!(text.contains(part), "{part}\n{text}");
    }

    let again = Campaigner::new(UNMET);
    again.must(&["seal"]);
    again.must(&["run", "--agent", "replay", "--recording", folder.to_str().unwrap()]);
    let hashes = |c: &Campaigner| -> Vec<Value> {
        let log = c.json(&["log", "--number", "0", "--kind", "evaluated"]);
        let rows = log.as_array().unwrap().iter().map(|r| r["entry"].clone());
        rows.filter(|e| e["purpose"] == "attempt").map(|e| e["candidate_hash"].clone()).collect()
    };
    assert_eq!(hashes(&again), hashes(&c));
    assert_eq!(hashes(&c).len(), 2);
}

#[test]
fn the_tuner_leaves_a_kernel_alone_that_has_nothing_to_gain() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    let ran = c.must(&["run", "--agent", "tuner"]);
    assert!(
        ran.stdout.contains("there is nothing to tune: kernel.toml declares no tunable"),
        "{}",
        ran.snapshot()
    );

    let context = crate::context("tuning/worse");
    let campaign = "format = 1\nname = \"worse\"\nproblem = \".\"\ncandidate = \"kernel.c\"\n[goal]\nclauses = \
                    [\"every scenario correct\", \"every speedup >= 900\"]\n";
    context.write("campaign.toml", campaign).unwrap();
    let before = std::fs::read(context.problem().join("kernel.toml")).unwrap();
    assert_eq!(context.run(&["seal"]).unwrap().code, 0);
    let ran = context.run(&["run", "--agent", "tuner", "--json"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    let run = ran.json().unwrap();
    assert_eq!(run["end"]["why"], "finished", "{}", ran.snapshot());
    let words = run["end"]["words"].as_str().unwrap();
    assert!(words.contains("the kernel is as it was") && !words.contains("faster than before"), "{words}");
    assert_eq!(std::fs::read(context.problem().join("kernel.toml")).unwrap(), before);
    assert!(!context.problem().join("kernel_routes.h").exists());
    // It speaks of the whole grid at the end, so that its leaving can be judged.
    assert!(ran.stderr.contains("stop refused"), "{}", ran.stderr);
}
