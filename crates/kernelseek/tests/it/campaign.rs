//! Campaigns through the command line: seal, evaluate, promote, ask, answer, stop, travel.

use crate::context;
use kernelseek_testkit::{Ran, TestContext};
use serde_json::Value;
use std::path::PathBuf;

/// A goal that the faster candidate meets on any machine.
pub(crate) const MET: &str = r#"["every scenario correct", "geomean speedup >= 0.2", "constraints hold"]"#;
/// A goal that no candidate meets.
pub(crate) const UNMET: &str = r#"["every scenario correct", "every speedup >= 900"]"#;

/// A campaign's folder with the binary under test.
pub(crate) struct Campaigner {
    pub(crate) context: TestContext,
}

impl Campaigner {
    pub(crate) fn new(clauses: &str) -> Self {
        let context = context("rowscale");
        let c = Self { context };
        c.campaign_file(clauses, "");
        c.put("seed.c");
        c
    }
    pub(crate) fn campaign_file(&self, clauses: &str, more: &str) {
        let text = format!(
            "format = 1\nname = \"rowscale\"\nproblem = \".\"\ncandidate = \"kernel.c\"\n\n[goal]\nclauses = {clauses}\n\
             \n[questions]\nsilence = 0\n{more}"
        );
        self.context.write("campaign.toml", &text).unwrap();
    }
    /// Makes a file of the fixture the candidate.
    pub(crate) fn put(&self, name: &str) {
        let text = std::fs::read_to_string(self.context.problem().join(name)).unwrap();
        self.context.write("kernel.c", &text).unwrap();
    }
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.context.run(args).unwrap()
    }
    pub(crate) fn must(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, 0, "{args:?}\n{}", ran.snapshot());
        ran
    }
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        args.push("--json");
        self.must(&args).json().unwrap()
    }
    /// Evaluates in full until the goal is met: what a busy machine leaves unproven says nothing about the campaign.
    pub(crate) fn meet(&self) -> Value {
        for _ in 0..8 {
            let eval = self.json(&["eval", "--full", "--quiet"]);
            if eval["campaign"]["goal"]["met"] == true {
                return eval;
            }
        }
        panic!("the machine is too busy to prove anything:\n{}", self.must(&["status"]).stdout);
    }
    pub(crate) fn ledger_folder(&self) -> PathBuf {
        let campaigns = self.context.problem().parent().unwrap().join("state/campaigns");
        std::fs::read_dir(campaigns).unwrap().next().unwrap().unwrap().path()
    }
    fn kinds(&self) -> Vec<String> {
        let log = self.json(&["log", "--number", "0", "--silences"]);
        log.as_array().unwrap().iter().map(|r| r["entry"]["kind"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_campaign_from_seal_to_met() {
    let c = Campaigner::new(MET);
    let before = c.run(&["eval"]);
    assert_eq!(before.code, 2, "{}", before.snapshot());
    assert!(
        before.stderr.contains("not sealed") && before.stderr.contains("kernelseek seal"),
        "{}",
        before.stderr
    );

    let sealed = c.json(&["seal"]);
    assert_eq!((sealed["written"].as_bool(), sealed["again"].as_bool()), (Some(true), Some(false)));
    let again = c.json(&["seal"]);
    assert_eq!(again["written"], false, "nothing has changed");

    c.must(&["hypothesis", "fewer transcendental calls", "--layer", "formulation", "--expect", "1.5"]);
    c.put("faster.c");
    let eval = c.meet();
    let campaign = &eval["campaign"];
    assert!(campaign["row"].as_u64().unwrap() > 3);

    let goal = c.json(&["goal", "--exit-code"]);
    assert_eq!((goal["allow"].as_bool(), goal["rule"].as_str()), (Some(true), Some("met")));
    let status = c.json(&["status"]);
    assert_eq!(status["last"]["current"], true);
    assert_eq!(status["scenarios"], 3);
    let kinds = c.kinds();
    assert_eq!(&kinds[..4], ["created", "sealed", "workspace", "hypothesis"]);
    assert!(kinds.contains(&"evaluated".to_owned()));

    // The candidate changes: what was shown is no longer about it.
    c.put("seed.c");
    let goal = c.run(&["goal", "--exit-code", "--json"]);
    assert_eq!(goal.code, 1);
    assert_eq!(goal.json().unwrap()["rule"], "not_evaluated");
}

#[test]
fn a_stop_is_refused_by_name_and_a_question_is_asked() {
    let c = Campaigner::new(UNMET);
    c.must(&["seal"]);
    c.put("faster.c");
    c.must(&["eval", "--quiet"]);
    let decision = c.stop(r#"{"words": "it is as fast as it gets"}"#);
    assert_eq!(decision["decision"], "block", "{decision:#}");
    assert_eq!(decision["rule"], "unmet");
    let named: Vec<&str> =
        decision["scenarios"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(named.len(), 3, "{decision:#}");
    assert!(decision["reason"].as_str().unwrap().contains("every speedup >= 900"));
    let question = &decision["question"];
    assert_eq!(question["point"], "claimed_limit", "{decision:#}");
    assert!(question["question"].as_str().unwrap().ends_with('?'));
    assert!(question.get("probability").is_none(), "the agent is not told what moves the choice");

    let open = c.json(&["ask"]);
    assert_eq!(open["row"], question["row"]);
    let hollow = c.json(&["answer", "nothing to add"]);
    assert_eq!(hollow["accepted"], false);
    let wrong = c.run(&["answer", "42", "--value", "nonsense=1", "--question", &question["row"].to_string()]);
    assert_eq!(wrong.code, 2, "{}", wrong.snapshot());
    let none = c.run(&["answer", "twice", "--question", "1"]);
    assert!(none.stderr.contains("row 1 is no question"), "{}", none.stderr);

    // A person's question comes first, whatever the machine would have asked.
    c.must(&["ask", "What does the profile of one call say?"]);
    let decision = c.stop("{}");
    assert_eq!(decision["question"]["person"], true, "{decision:#}");
    assert_eq!(decision["question"]["question"], "What does the profile of one call say?");
    let log = c.json(&["log", "--kind", "asked"]);
    for asked in log.as_array().unwrap() {
        assert!(asked["entry"]["probability"].as_f64().unwrap() > 0.0, "{asked:#}");
        assert!(asked["entry"]["signals"].as_object().unwrap().len() > 20, "{asked:#}");
    }
}

impl Campaigner {
    pub(crate) fn stop(&self, input: &str) -> Value {
        let ran = self.context.run_input(&["hook-decision"], input).unwrap();
        assert_eq!(ran.code, 0, "{}", ran.snapshot());
        assert_eq!(ran.stdout.lines().count(), 1, "one line of JSON");
        ran.json().unwrap()
    }
}

#[test]
fn a_campaign_begins_with_a_question() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    let question = c.json(&["ask"]);
    assert_eq!(question["point"], "campaign_start", "{question:#}");
    assert!(!question["evidence"].as_array().unwrap().is_empty(), "{question:#}");
    assert_eq!(c.json(&["ask"])["row"], question["row"], "asked once");
    let shown = c.must(&["status"]);
    let words = shown.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(question["question"].as_str().unwrap()), "{}", shown.stdout);
}

#[test]
fn a_hook_always_answers_and_doubts_block() {
    let c = Campaigner::new(MET);
    let nothing = c.stop("{}");
    assert_eq!((nothing["decision"].as_str(), nothing["rule"].as_str()), (Some("block"), Some("not_sealed")));
    for (input, decision) in
        [("not json", "block"), ("[]", "block"), ("", "block"), (r#"{"cwd": "/"}"#, "allow")]
    {
        assert_eq!(c.stop(input)["decision"], decision, "{input}");
    }
    assert_eq!(c.stop(r#"{"cwd": "/nonexistent"}"#)["decision"], "block");
    c.must(&["seal"]);
    assert_eq!(c.stop("{}")["rule"], "not_evaluated");
    c.campaign_file(UNMET, "");
    let stale = c.stop("{}");
    assert_eq!(stale["rule"], "stale");
    assert!(stale["reason"].as_str().unwrap().contains("goal: was"), "{stale:#}");
}

#[test]
fn a_broken_seal_stops_everything_until_it_is_sealed_with_a_reason() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    c.put("faster.c");
    c.meet();
    let line = "[tolerance]\nfactor = 50.0\n";
    let problem = std::fs::read_to_string(c.context.problem().join("problem.toml")).unwrap();
    c.context
        .write("problem.toml", &problem.replace("[held_out]\n", &format!("{line}\n[held_out]\n")))
        .unwrap();
    let refused = c.run(&["eval"]);
    assert_eq!(refused.code, 3, "{}", refused.snapshot());
    assert!(
        refused.stderr.contains("the seal is broken") && refused.stderr.contains("--because"),
        "{}",
        refused.stderr
    );
    assert_eq!(c.json(&["goal"])["rule"], "stale");
    c.context.write("problem.toml", &problem).unwrap();
    assert_eq!(c.json(&["goal"])["rule"], "met", "undone is undone");

    // A budget is sealed too, and changes no result.
    c.campaign_file(MET, "\n[budget]\nevaluations = 50\n");
    assert_eq!(c.json(&["goal"])["rule"], "stale");
    let reason = c.run(&["seal"]);
    assert_eq!(reason.code, 2, "{}", reason.snapshot());
    assert!(
        reason.stderr.contains("needs a reason") && reason.stderr.contains("budget"),
        "{}",
        reason.stderr
    );
    let sealed = c.json(&["seal", "--because", "a limit"]);
    assert_eq!(sealed["stale"], false);
    assert_eq!(c.json(&["goal"])["rule"], "met");

    c.campaign_file(r#"["every scenario correct", "geomean speedup >= 0.1"]"#, "");
    let sealed = c.json(&["seal", "--because", "a lower goal"]);
    assert_eq!(sealed["stale"], true);
    assert_eq!(c.json(&["goal"])["rule"], "not_evaluated", "results under another goal are STALE");
    let log = c.json(&["log", "--kind", "sealed"]);
    assert_eq!(log.as_array().unwrap().len(), 3);
    assert_eq!(log[2]["entry"]["because"], "a lower goal");
}

#[test]
fn a_campaign_travels_and_goes_on_elsewhere() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    c.must(&["eval", "--quick", "--quiet"]);
    let file = c.context.problem().join("campaign.jsonl");
    let name = file.to_str().unwrap();
    let exported = c.json(&["export", name]);
    let head = exported["head"].as_str().unwrap();
    assert_eq!(exported["rows"].as_u64().unwrap(), c.kinds().len() as u64);
    let elsewhere = c.context.problem().parent().unwrap().join("elsewhere");
    let state = elsewhere.to_str().unwrap();
    let wrong = c.run(&["import", name, "--state-dir", state, "--head", "00"]);
    assert_eq!(wrong.code, 3, "{}", wrong.snapshot());
    let imported = c.json(&["import", name, "--state-dir", state, "--head", head, "--workspace", "."]);
    assert_eq!(imported["head"], exported["head"]);
    let status = c.json(&["status", "--state-dir", state]);
    assert_eq!(status["campaign"], exported["campaign"]);
    let twice = c.run(&["import", name, "--state-dir", state]);
    assert_eq!(twice.code, 2, "{}", twice.snapshot());

    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let damaged = c.run(&["import", name, "--state-dir", state]);
    assert_eq!(damaged.code, 3, "{}", damaged.snapshot());
    assert!(damaged.stderr.contains("changed after it was exported"), "{}", damaged.stderr);
}

#[test]
fn a_wrong_campaign_file_is_shown_where_it_is_wrong() {
    let c = Campaigner::new(r#"["every scenario fast"]"#);
    let ran = c.run(&["seal"]);
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("campaign.toml:7:28:") && ran.stderr.contains("^"), "{}", ran.stderr);
    let nowhere = c.context.run(&["status", "--in", "/"]).unwrap();
    assert_eq!(nowhere.code, 2, "{}", nowhere.snapshot());
    assert!(nowhere.stderr.contains("no campaign.toml"), "{}", nowhere.stderr);
}

#[test]
fn the_state_does_not_lie_where_the_kernel_is_edited() {
    let c = Campaigner::new(MET);
    let ran = c.run(&["seal", "--state-dir", "state"]);
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    assert!(ran.stderr.contains("lies inside the campaign's folder"), "{}", ran.stderr);
}

#[test]
fn an_own_bank_is_read_when_it_is_sealed() {
    let c = Campaigner::new(MET);
    c.campaign_file(MET, "bank = \"mine\"\n");
    std::fs::create_dir(c.context.problem().join("mine")).unwrap();
    c.context.write("mine/g01.toml", "[[entry]]\nid = \"C900\"\n").unwrap();
    let ran = c.run(&["seal"]);
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("g01.toml:1:"), "{}", ran.stderr);
}

#[test]
fn a_goal_about_averages_alone_is_warned_about() {
    let c = Campaigner::new(r#"["geomean speedup >= 1.1"]"#);
    let ran = c.must(&["seal"]);
    assert!(ran.stdout.contains("average only"), "{}", ran.stdout);
}

#[test]
fn a_goal_that_can_never_be_judged_is_not_sealed() {
    let c = Campaigner::new(r#"["every speedup >= 1.0 where width > 3"]"#);
    let ran = c.run(&["seal"]);
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("the goal cannot be judged") && ran.stderr.contains("width"),
        "{}",
        ran.stderr
    );
    c.campaign_file(r#"["every correct", "every speedup >= 0.1 against other"]"#, "");
    let ran = c.must(&["seal"]);
    assert!(ran.stdout.contains("nothing measures ratios to `other`"), "{}", ran.stdout);
}

/// The evaluation that meets the goal may be the last that the budget allows.
#[test]
fn a_spent_budget_does_not_hide_a_goal_that_is_met() {
    for _ in 0..8 {
        let c = Campaigner::new(MET);
        c.campaign_file(MET, "\n[budget]\nevaluations = 1\n");
        c.must(&["seal"]);
        c.put("faster.c");
        let eval = c.json(&["eval", "--full"]);
        if eval["campaign"]["goal"]["met"] != true {
            // A busy machine proves nothing, and the one evaluation is spent.
            assert_eq!(eval["campaign"]["ended"], "the one evaluation is spent");
            continue;
        }
        assert!(eval["campaign"]["ended"].is_null(), "{:#}", eval["campaign"]);
        let goal = c.json(&["goal", "--exit-code"]);
        assert_eq!((goal["rule"].as_str(), goal["met"].as_bool()), (Some("met"), Some(true)));
        return;
    }
    panic!("the machine is too busy to prove anything");
}

#[test]
fn warm_caches_meet_no_goal() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    c.put("faster.c");
    c.must(&["eval", "--full", "--mode", "warm", "--quiet"]);
    assert_eq!(c.json(&["goal"])["rule"], "not_evaluated");
}

#[test]
fn a_budget_ends_the_campaign() {
    let c = Campaigner::new(UNMET);
    c.campaign_file(UNMET, "\n[budget]\nevaluations = 1\n");
    c.must(&["seal"]);
    let eval = c.json(&["eval", "--quick"]);
    assert_eq!(eval["campaign"]["ended"], "the one evaluation is spent", "{:#}", eval["campaign"]);
    let decision = c.stop("{}");
    assert_eq!((decision["decision"].as_str(), decision["rule"].as_str()), (Some("allow"), Some("ended")));
    let shown = c.must(&["status"]);
    assert!(
        shown.stdout.contains("OVER") && shown.stdout.contains("the one evaluation is spent"),
        "{}",
        shown.stdout
    );
}

/// An output that is not a number has an infinite error, which JSON cannot say.
#[test]
fn a_candidate_that_writes_nan_fails_and_the_campaign_goes_on() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    let seed = std::fs::read_to_string(c.context.problem().join("faster.c")).unwrap();
    let spoilt = seed.replacen(
        "return KS_OK;",
        "y[0] = 0.0f / (float)(call->struct_size - call->struct_size); return KS_OK;",
        1,
    );
    assert_ne!(spoilt, seed);
    c.context.write("kernel.c", &spoilt).unwrap();
    let eval = c.json(&["eval", "--quick"]);
    assert_eq!(eval["word"], "FAIL", "{eval:#}");
    assert!(eval["scenarios"][0]["worst_error"]["ratio"].is_null(), "an infinite error: {eval:#}");
    assert_eq!(c.json(&["goal"])["rule"], "unmet");
    c.put("faster.c");
    assert_ne!(c.json(&["eval", "--quick"])["word"], "FAIL");
}

#[test]
fn what_does_not_compile_is_an_attempt_too() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    c.context.write("kernel.c", "#include \"rowscale.h\"\nint f( {\n").unwrap();
    let eval = c.json(&["eval", "--quick"]);
    assert_eq!(eval["word"], "FAIL");
    assert_eq!(eval["campaign"]["goal"]["met"], false);
    let decision = c.json(&["goal"]);
    assert_eq!(decision["rule"], "unmet", "{decision:#}");
    assert!(decision["reason"].as_str().unwrap().contains("does not compile"), "{decision:#}");
}
