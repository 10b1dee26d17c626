//! Bad days: nothing evaluated, nothing right, sealed again, dropped, ended, come from elsewhere, thousands of rows.

use crate::corpus::Told;
use crate::structure::skeleton;
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_ledger::Entry;
use kernelseek_ledger::entry::{
    Abandoned, Answered, Asked, Ended, Evaluated, Hypothesis, ImportedFrom, Led, NotPromoted, PersonAsked,
    Pruned, Purpose, QuestionFrom, Started, StopAttempted, Workspace,
};
use kernelseek_report::{Chosen, Event, Outcome, Report, markdown};
use std::path::PathBuf;

/// Bytes of the largest report.
const LARGEST: usize = 200 << 10;

fn asked(from: QuestionFrom, question: &str) -> Entry {
    Entry::Asked(Box::new(Asked {
        point: Some(DecisionPoint::Plateau),
        reason: "nothing was promoted".to_owned(),
        from,
        question: question.to_owned(),
        evidence: Vec::new(),
        fields: String::new(),
        probability: 0.5,
        silence: 0.1,
        eligible: Vec::new(),
        draw: 0.5,
        signals: serde_json::Map::new(),
        evaluations: 1,
    }))
}

fn hypothesis(text: &str, expect: Option<f64>) -> Entry {
    Entry::Hypothesis(Hypothesis { text: text.to_owned(), layer: Some(Layer::Memory), expect })
}

/// One of every kind that a report tells.
pub(crate) fn everything() -> Vec<Entry> {
    let bank = QuestionFrom::Bank { entry: "Q-1".into(), version: 1, group: "G1".into() };
    let answered = |accepted| {
        Entry::Answered(Answered {
            question: 1,
            text: "measured".into(),
            artefact: serde_json::Map::new(),
            accepted,
            why: "no number".into(),
        })
    };
    let started =
        Started { candidate: "kernel.c".into(), tier: "default".into(), purpose: Purpose::Attempt, pid: 1 };
    vec![
        Entry::PersonAsked(PersonAsked { question: "why?".into() }),
        asked(bank, "What does the profile say?"),
        answered(Some(false)),
        asked(QuestionFrom::Person { row: 1 }, "why?"),
        asked(QuestionFrom::Nobody, ""),
        hypothesis("one", Some(1.5)),
        hypothesis("two", None),
        Entry::Led(Led::Started {
            command: vec!["agent".into()],
            layers: vec!["landlock".into()],
            fenced: true,
            agent: Some("player".into()),
            turn: Some(2),
        }),
        Entry::Led(Led::Refused { request: "seal".into(), why: "it is a person's".into() }),
        Entry::EvaluationStarted(started),
        Entry::Abandoned(Abandoned { started: 1, why: "it died".into() }),
        Entry::NotPromoted(NotPromoted {
            first: 6,
            why: "scenarios fall".into(),
            fallen: vec!["odd".into()],
        }),
        Entry::StopAttempted(StopAttempted {
            allowed: false,
            reason: "the goal is unmet.\n- `x`: no".into(),
            rule: "unmet".into(),
            words: "I am done.".into(),
        }),
        Entry::Led(Led::Left { ended: "exit 0".into(), killed: 2, session: None }),
        Entry::Pruned(Pruned { artefacts: vec!["a".into()], bytes: 1 << 20 }),
        Entry::Workspace(Workspace {
            path: PathBuf::from("/x"),
            device: 1,
            inode: 1,
            because: "moved".into(),
        }),
        Entry::ImportedFrom(ImportedFrom { head: "ab".repeat(32), tool: "0.1.0".into() }),
        Entry::Ended(Ended { met: false, reason: "5 evaluations are spent".into(), evaluated: None }),
    ]
}

fn checked(told: &Told) -> (Report, String) {
    let report = told.report();
    let text = markdown(&report);
    assert!(text.len() < LARGEST, "{} bytes", text.len());
    (report, text)
}

fn limit<'a>(report: &'a Report, id: &str) -> Option<&'a str> {
    report.limits.iter().find(|l| l.id == id).map(|l| l.text.as_str())
}

fn facts(told: &Told) -> Evaluated {
    let entries = told.rows.iter().rev().filter_map(|r| r.entry().ok());
    let found = entries.into_iter().find_map(|e| match e {
        Entry::Evaluated(e) => Some(*e),
        _ => None,
    });
    found.expect("an evaluation")
}

#[test]
fn nothing_was_evaluated() {
    let (report, text) = checked(&Told::named("campaign_start/fires-sealed-and-nothing-evaluated").at_home());
    assert!(report.subject.is_none() && report.goal.judgement.is_none() && report.course.is_empty());
    assert!(text.starts_with("# Campaign `story`: goal open\n"), "{text}");
    assert!(text.contains("Nothing was evaluated under this seal yet"), "{text}");
    assert!(text.contains("· `every speedup >= 1.3`") && text.contains("Not judged"), "{text}");
    assert!(text.contains("| sealed for | a device, a compiler |"), "{text}");
}

#[test]
fn everything_failed() {
    let (report, text) =
        checked(&Told::named("correctness_break/fires-three-candidates-carry-one-failure").at_home());
    let subject = report.subject.as_ref().unwrap();
    assert_eq!(subject.chosen, Chosen::Confirmation, "a failing one never takes the place of the incumbent");
    let mut failing = Told::named("campaign_start/fires-first-attempt-does-not-build").at_home();
    failing.push(&hypothesis("it will compile", Some(2.0)));
    let (report, other) = checked(&failing);
    assert_eq!(report.subject.as_ref().unwrap().chosen, Chosen::Last);
    assert!(other.contains("does not compile (`built.compiler`)"), "{other}");
    assert!(other.contains("No scenario was measured."), "{other}");
    assert!(other.contains("`memory`: it will compile | 2.000× | | | no attempt |"), "{other}");
    assert!(text.contains("is outside its error bound (`correct.reference`) on 1 of 4: `odd`"), "{text}");
}

#[test]
fn sealed_again_makes_stale() {
    let (report, text) =
        checked(&Told::named("campaign_start/fires-sealed-again-with-another-goal").at_home());
    assert!(report.tally.stale > 0 && limit(&report, "stale").is_some());
    assert!(report.course.is_empty() && report.best().total_cmp(&1.0).is_eq());
    assert!(text.contains("**sealed again**") && text.contains("results before are STALE"), "{text}");
    assert!(text.contains("now STALE") && text.contains("because recorded"), "{text}");
    assert!(report.subject.is_none(), "what is under another seal is not shown as a result");
    let (report, text) =
        checked(&Told::named("campaign_start/silent-sealed-again-with-another-budget").at_home());
    assert_eq!(report.tally.stale, 0);
    assert!(text.contains("results stay"), "{text}");
}

#[test]
fn a_verdict_that_is_gone_leaves_its_row() {
    let mut told = Told::named("claimed_limit/silent-stop-with-the-goal-met").at_home();
    let (report, text) = checked(&told);
    assert!(text.starts_with("# Campaign `story`: goal met\n"), "{text}");
    assert_eq!(report.subject.as_ref().unwrap().chosen, Chosen::Current);
    assert_eq!(report.goal.row, Some(report.subject.as_ref().unwrap().row));
    let verdicts: Vec<String> = report.story.iter().map(|_| facts(&told).verdict).collect();
    for hash in verdicts {
        told.artefacts.remove(&hash);
    }
    let (report, text) = checked(&told);
    assert!(!report.state.met, "what cannot be read meets nothing");
    assert!(!text.contains("goal met\n"), "{text}");
    if let Some(subject) = report.subject.as_ref().filter(|s| s.unreadable.is_some()) {
        assert!(subject.scenarios.is_empty() && subject.geomean.is_some());
        assert!(text.contains("cannot be read"), "{text}");
    }
}

#[test]
fn an_end_is_told() {
    let (report, text) = checked(&Told::named("campaign_start/silent-budget-of-one-attempt-spent").at_home());
    assert_eq!(report.state.word, "OVER", "{text}");
    let mut told = Told::named("claimed_limit/silent-stop-with-the-goal-met").at_home();
    let mut last = facts(&told);
    (last.purpose, last.led) = (Purpose::Final, true);
    told.push(&Entry::Led(Led::Started {
        command: vec!["agent".into(), "--fast".into()],
        layers: vec!["landlock".into(), "seccomp".into()],
        fenced: true,
        agent: None,
        turn: None,
    }));
    told.push(&Entry::Led(Led::Left { ended: "exit 0".into(), killed: 0, session: None }));
    let row = told.push(&Entry::Evaluated(Box::new(last)));
    told.push(&Entry::Ended(Ended {
        met: true,
        reason: format!("the goal is met by the supervisor's own full evaluation, row {row}"),
        evaluated: Some(row),
    }));
    let (report, text) = checked(&told);
    let subject = report.subject.as_ref().unwrap();
    assert_eq!((subject.row, subject.chosen, subject.led), (row, Chosen::Ended, true));
    assert!(report.state.met && report.led());
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains(&format!(
            "The goal is met by row {row}, the supervisor's own full evaluation, made after the agent had left (led, trust full)"
        )),
        "{text}"
    );
    assert!(words.contains("worked behind a fence") && words.contains("`landlock`, `seccomp`"), "{text}");
    assert!(text.contains("**the supervisor's own evaluation**"), "{text}");
    insta::assert_snapshot!("led_and_met", text);
}

#[test]
fn a_met_goal_that_the_sources_have_left_is_said_to_be_past() {
    let mut told = Told::named("claimed_limit/silent-stop-with-the-goal-met").at_home();
    let met = told.report().subject.unwrap().row;
    told.edited_since = true;
    let (report, text) = checked(&told);
    let subject = report.subject.as_ref().unwrap();
    assert_eq!((subject.row, subject.chosen), (met, Chosen::Earlier));
    assert!(!report.state.met && !text.starts_with("# Campaign `story`: goal met"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("The sources in the workspace have changed since."), "{text}");
    assert!(words.contains("`kernelseek goal` says now"), "{text}");
}

#[test]
fn a_ledger_from_elsewhere_says_so() {
    let (report, text) = checked(&Told::named("claimed_limit/silent-no-stop"));
    assert!(limit(&report, "imported").is_some());
    assert!(text.contains("**imported** up to"), "{text}");
}

#[test]
fn a_clock_that_went_back_is_seen() {
    let mut told = Told::named("claimed_limit/silent-no-stop").at_home();
    assert_eq!(limit(&told.report(), "clock"), None);
    let ended = told.rows.iter().position(|r| r.kind == "evaluated").unwrap();
    told.rows[ended].at_ms = told.rows[ended - 1].at_ms;
    told.clock_behind_ms = 3_600_000;
    let (report, _) = checked(&told);
    assert!(limit(&report, "clock").unwrap().contains("1 evaluation"));
    assert!(limit(&report, "clock_now").unwrap().contains("60 min 00 s"));
}

#[test]
fn every_kind_of_row_is_told() {
    let mut told = Told::named("claimed_limit/fires-stop-with-one-scenario-short").at_home();
    for entry in everything() {
        told.push(&entry);
    }
    // One of a newer version, and one that is broken.
    let mut newer = told.rows.last().unwrap().clone();
    (newer.seq, newer.kind, newer.body) = (newer.seq + 1, "rerouted".into(), r#"{"kind":"rerouted"}"#.into());
    told.rows.push(newer.clone());
    (newer.seq, newer.kind, newer.body) = (newer.seq + 1, "evaluated".into(), "{}".into());
    told.rows.push(newer);
    let (report, text) = checked(&told);
    for (id, holds) in
        [("not_understood", "2 rows"), ("pruned", "1 artefact of"), ("silences", "1 question was")]
    {
        assert!(limit(&report, id).is_some_and(|l| l.contains(holds)), "{id}: {:?}", report.limits);
    }
    let kinds: std::collections::BTreeSet<String> = report
        .story
        .iter()
        .map(|l| serde_json::to_value(l).unwrap()["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.len(), 12, "{kinds:?}");
    assert!(report.story.windows(2).all(|w| w[0].row < w[1].row), "rows in order");
    insta::assert_snapshot!("every_kind", text);
}

/// A ledger of thousands of rows with long texts in every script, told within the bound.
fn long(attempts: usize, text: &str) -> Told {
    let mut told = Told::named("claimed_limit/silent-no-stop").at_home();
    let mut last = facts(&told);
    last.candidate_hash = "another".to_owned();
    for i in 0..attempts {
        told.push(&hypothesis(text, Some(1.1)));
        let row = told.push(&Entry::Evaluated(Box::new(last.clone())));
        if i % 10 == 0 {
            told.push(&Entry::NotPromoted(NotPromoted {
                first: row,
                why: text.to_owned(),
                fallen: vec![text.to_owned(); 30],
            }));
            told.push(&asked(QuestionFrom::Person { row: 1 }, text));
            told.push(&Entry::StopAttempted(StopAttempted {
                allowed: false,
                reason: text.to_owned(),
                rule: "unmet".to_owned(),
                words: text.to_owned(),
            }));
        }
    }
    told
}

#[test]
fn thousands_of_rows_stay_a_report() {
    for text in ["plain words ".repeat(40), "𝒳*|`_".repeat(400), "\u{0}".repeat(1000)] {
        let (report, shown) = checked(&long(2_000, &text));
        assert!(report.story.len() > 2_000, "the model holds everything");
        assert!(shown.contains("are left out: "), "the middle is left out");
        let structure = skeleton(&shown);
        assert!(!structure.contains("link") && !structure.contains("html"), "{structure}");
        let first = report.story.first().unwrap().row;
        let last = report.story.last().unwrap().row;
        for row in [first, last] {
            assert!(shown.contains(&format!("\n| {row} | ")), "row {row}");
        }
    }
}

#[test]
fn a_report_comes_back_from_json() {
    let mut told = Told::named("claimed_limit/fires-stop-with-one-scenario-short").at_home();
    everything().iter().for_each(|e| {
        told.push(e);
    });
    let report = told.report();
    let text = serde_json::to_string(&report).unwrap();
    let back: Report = serde_json::from_str(&text).unwrap();
    // Numbers may lose their last bit on the way.
    assert_eq!(markdown(&back), markdown(&report));
    assert_eq!(back.story.len(), report.story.len());
    assert_eq!(report.format, 1);
    assert!(
        report
            .story
            .iter()
            .any(|l| matches!(&l.event, Event::Attempt(a) if matches!(a.outcome, Outcome::Promoted { .. })))
    );
}
