use super::*;
use crate::finding::{Finding, Severity};
use crate::value::Value;
use crate::verdict::{HeldOut, Ratio, ScenarioVerdict, Stage, Trust, Word, WorstError};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn verdict(id: &str, point: f64, half: f64) -> ScenarioVerdict {
    ScenarioVerdict {
        id: id.into(),
        word: Word::Pass,
        passed: Stage::Plausible,
        findings: Vec::new(),
        ratio: Some(Ratio {
            point,
            lo: point - half,
            hi: point + half,
            instances: 3,
            pairs: 12,
            correlation: None,
        }),
        standing: None,
        seed_ns: Some(100.0),
        candidate_ns: Some(100.0 / point),
        floor_ns: None,
        worst_error: None,
        contents: 10,
        referenced: 4,
        first_call_ns: None,
        prepare_ns: None,
        fallback: false,
        audited: false,
        gpu: None,
    }
}

fn grid(n: usize) -> Grid {
    let scenario = |i: usize| GridScenario {
        id: format!("s{i}"),
        values: [("n".to_owned(), Value::Int(1 << i))].into(),
        tags: if i == 0 { vec!["core".to_owned()] } else { Vec::new() },
    };
    Grid { scenarios: (0..n).map(scenario).collect() }
}

struct Setting {
    scenarios: Vec<ScenarioVerdict>,
    findings: Vec<Finding>,
    full: bool,
    usual: bool,
    trust: Trust,
    word: Word,
    held_out: Option<HeldOut>,
    baselines: BTreeMap<String, BTreeMap<String, Ratio>>,
}

impl Setting {
    fn of(points: &[f64]) -> Self {
        Self {
            scenarios: points.iter().enumerate().map(|(i, p)| verdict(&format!("s{i}"), *p, 0.01)).collect(),
            findings: Vec::new(),
            full: true,
            usual: true,
            trust: Trust::Full,
            word: Word::Pass,
            held_out: None,
            baselines: BTreeMap::new(),
        }
    }
    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            full: self.full,
            usual: self.usual,
            word: self.word,
            passed: Stage::Plausible,
            trust: self.trust,
            findings: &self.findings,
            scenarios: &self.scenarios,
            held_out: self.held_out.as_ref(),
            baselines: &self.baselines,
        }
    }
    fn judge(&self, clauses: &[&str]) -> Judgement {
        goal(clauses).judge(&grid(self.scenarios.len().max(3)), &self.evidence())
    }
}

fn goal(clauses: &[&str]) -> Goal {
    Goal {
        clauses: clauses.iter().map(|c| Clause::parse(c).unwrap()).collect(),
        accept_reduced_trust: false,
        margin: 0.05,
    }
}

#[test]
fn every_form_parses_and_says_what_it_means() {
    let speed = |threshold: f64, against: &str| Metric::Speedup { threshold, against: against.into() };
    for (text, quantifier, metric) in [
        ("every scenario correct", Quantifier::Every, Metric::Correct),
        ("every correct", Quantifier::Every, Metric::Correct),
        ("every speedup >= 1.0", Quantifier::Every, speed(1.0, "seed")),
        ("every  scenario  speedup >= 1.05 against seed", Quantifier::Every, speed(1.05, "seed")),
        ("at least 12 speedup >= 1.1", Quantifier::AtLeast(12), speed(1.1, "seed")),
        ("at least 12 scenarios speedup >= 2", Quantifier::AtLeast(12), speed(2.0, "seed")),
        ("at least 90 % correct", Quantifier::AtLeastShare(0.9), Metric::Correct),
        ("at least 90% correct", Quantifier::AtLeastShare(0.9), Metric::Correct),
        ("geomean speedup >= 1.3 against other", Quantifier::Geomean, speed(1.3, "other")),
        ("fallback rate <= 0.1", Quantifier::Every, Metric::FallbackRate { threshold: 0.1 }),
        ("constraints hold", Quantifier::Every, Metric::Constraints),
        ("held-out gap <= 0.05", Quantifier::Every, Metric::HeldOutGap { threshold: 0.05 }),
    ] {
        let clause = Clause::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!((clause.quantifier, &clause.metric), (quantifier, &metric), "{text}");
        assert!(!clause.allow_fallback && clause.condition.is_none(), "{text}");
        // What is shown can be written back.
        let again = Clause::parse(&clause.text).unwrap();
        assert_eq!((again.text, again.metric), (clause.text, clause.metric));
    }
    let clause =
        Clause::parse("every speedup >= 1.1 allowing fallback where n >= 4 && 'core' in tags").unwrap();
    assert!(clause.allow_fallback);
    assert_eq!(clause.condition.unwrap().text(), "n >= 4 && 'core' in tags");
}

#[test]
fn a_wrong_clause_says_where() {
    for (text, at, message) in [
        ("", 0..0, "no clause"),
        ("be fast", 0..2, "no clause"),
        ("speedup >= 1.1", 0..7, "how many"),
        ("correct", 0..7, "how many"),
        ("geomean correct", 8..15, "how many"),
        ("every speedup 1.1", 14..17, "`>=`"),
        ("every speedup >= fast", 17..21, "not a number"),
        ("every speedup >= NaN", 17..20, "not a number"),
        ("every speedup >= inf", 17..20, "not a number"),
        ("every speedup >= -1", 17..19, "above 0"),
        ("every speedup >=", 16..16, "missing"),
        ("every speedup >= 1.1 against", 28..28, "whom"),
        ("at least 0 correct", 9..10, "no number of scenarios"),
        ("at least 1.5 correct", 9..12, "no number of scenarios"),
        ("at least 120 % correct", 9..12, "at most 100"),
        ("every fallback rate <= 0", 0..5, "as a whole"),
        ("constraints hold allowing fallback", 34..34, "says nothing"),
        ("constraints hold where n > 1", 16..16, "says nothing"),
        ("every correct please", 14..20, "does not belong"),
        ("every correct where n >", 22..23, "expression"),
    ] {
        let error = Clause::parse(text).expect_err(text);
        let shown = format!("{error} / {}", error.hint.as_deref().unwrap_or(""));
        assert!(shown.contains(message) || message == "expression", "{text}: {shown}");
        if message != "expression" {
            assert_eq!(error.at, at, "{text}: {error}");
        }
    }
}

#[test]
fn a_goal_is_met_only_when_everything_is_shown() {
    let all =
        ["every scenario correct", "every speedup >= 1.0", "geomean speedup >= 1.2", "constraints hold"];
    let good = Setting::of(&[1.1, 1.3, 1.5]);
    let judged = good.judge(&all);
    assert!(judged.met, "{judged:#?}");
    assert!(judged.clauses.iter().all(|c| c.misses.is_empty()));

    let mut not_full = Setting::of(&[1.1, 1.3, 1.5]);
    not_full.full = false;
    assert!(!not_full.judge(&all).met);
    let mut warm = Setting::of(&[1.1, 1.3, 1.5]);
    warm.usual = false;
    let judged = warm.judge(&all);
    assert!(!judged.met && judged.blockers[0].next.contains("--mode"), "{judged:?}");
    let mut stale = Setting::of(&[1.1, 1.3, 1.5]);
    stale.word = Word::Stale;
    assert!(!stale.judge(&all).met);
    let mut reduced = Setting::of(&[1.1, 1.3, 1.5]);
    reduced.trust = Trust::Reduced;
    assert!(!reduced.judge(&all).met);
    let mut goal = goal(&all);
    goal.accept_reduced_trust = true;
    assert!(goal.judge(&grid(3), &reduced.evidence()).met);
    assert!(goal.warnings().iter().any(|w| w.contains("reduced")));
    let mut finding = Setting::of(&[1.1, 1.3, 1.5]);
    finding.findings.push(Finding::new("correct.held-out", Severity::Fail, "held-out scenarios fail"));
    let judged = finding.judge(&all);
    assert!(!judged.met && judged.blockers[0].message.contains("correct.held-out"));
    assert!(!Setting::of(&[]).judge(&all).met, "nothing measured meets nothing");
    assert!(!goal_without_clauses().judge(&grid(3), &good.evidence()).met);
    assert!(!goal.judge(&Grid::default(), &good.evidence()).met, "an empty grid shows nothing");
}

fn goal_without_clauses() -> Goal {
    Goal { clauses: Vec::new(), accept_reduced_trust: false, margin: 0.05 }
}

#[test]
fn every_miss_is_named_with_its_reason_and_distance() {
    let mut s = Setting::of(&[1.2, 0.8, 1.0, 1.2, 1.2, 1.2, 1.2]);
    s.scenarios[2] = verdict("s2", 1.0, 0.3); // wide around the threshold
    s.scenarios[3].word = Word::Fail;
    s.scenarios[3].worst_error = Some(WorstError { tensor: "out".into(), rule: "max".into(), ratio: 4.0 });
    s.scenarios[3].findings = vec![Finding::new("correct.error", Severity::Fail, "outputs are wrong")];
    s.scenarios[4].word = Word::Unproven;
    s.scenarios[5].fallback = true;
    s.scenarios[6].ratio = Some(Ratio {
        point: f64::NAN,
        lo: f64::NAN,
        hi: f64::NAN,
        instances: 3,
        pairs: 1,
        correlation: None,
    });
    let judged = goal(&["every speedup >= 1.1"]).judge(&grid(8), &s.evidence());
    let reasons: BTreeMap<&str, MissReason> =
        judged.clauses[0].misses.iter().map(|m| (m.scenario.as_str(), m.reason)).collect();
    assert_eq!(
        reasons,
        [
            ("s1", MissReason::Below),
            ("s2", MissReason::Unresolved),
            ("s3", MissReason::Failed),
            ("s4", MissReason::Unproven),
            ("s5", MissReason::Fallback),
            ("s6", MissReason::NotANumber),
            ("s7", MissReason::NotEvaluated),
        ]
        .into()
    );
    assert_eq!((judged.clauses[0].satisfied, judged.clauses[0].of), (1, 8));
    let below = judged.clauses[0].misses.iter().find(|m| m.scenario == "s1").unwrap();
    assert!(below.message.contains("0.800×") && below.message.contains("39.2 % to go"), "{}", below.message);
    // Farthest first: what nothing is known of, then the error of four times, then 0.79 of 1.1.
    let order: Vec<&str> = judged.missing_scenarios().iter().map(|m| m.scenario.as_str()).collect();
    assert_eq!(order, ["s7", "s4", "s5", "s6", "s3", "s2", "s1"]);
    let failing = judged.clauses[0].misses.iter().find(|m| m.scenario == "s3").unwrap();
    assert!(failing.message.contains("4.0 × what is allowed"), "{}", failing.message);
}

#[test]
fn an_average_is_not_met_by_leaving_scenarios_out() {
    let clause = ["geomean speedup >= 1.2"];
    let good = Setting::of(&[1.5, 1.5, 1.5]);
    assert!(good.judge(&clause).met);
    for spoil in [
        |s: &mut ScenarioVerdict| s.ratio = None,
        |s: &mut ScenarioVerdict| s.ratio.as_mut().unwrap().hi = 1e308,
        |s: &mut ScenarioVerdict| s.fallback = true,
        |s: &mut ScenarioVerdict| s.word = Word::Unproven,
        |s: &mut ScenarioVerdict| s.word = Word::Fail,
        |s: &mut ScenarioVerdict| {
            s.ratio = Some(Ratio {
                point: 9.0,
                lo: f64::INFINITY,
                hi: 9.0,
                instances: 1,
                pairs: 1,
                correlation: None,
            });
        },
        |s: &mut ScenarioVerdict| {
            s.ratio = Some(Ratio { point: 2.0, lo: 3.0, hi: 4.0, instances: 1, pairs: 1, correlation: None });
        },
    ] {
        let mut s = Setting::of(&[1.5, 1.5, 1.5]);
        spoil(&mut s.scenarios[1]);
        let judged = s.judge(&clause);
        assert!(!judged.met && judged.clauses[0].misses.iter().any(|m| m.scenario == "s1"), "{judged:?}");
    }
    let mut missing = Setting::of(&[1.5, 1.5, 1.5]);
    missing.scenarios.pop();
    assert!(!missing.judge(&clause).met);
    let mut foreign = Setting::of(&[1.5, 1.5, 1.5]);
    foreign.scenarios.push(verdict("elsewhere", 9.0, 0.1));
    assert!(!foreign.judge(&clause).met, "a scenario that is not sealed");
    let mut twice = Setting::of(&[1.5, 1.5, 1.5]);
    twice.scenarios.push(verdict("s1", 9.0, 0.1));
    assert!(!twice.judge(&clause).met, "a scenario that stands twice");
    // Three wide scenarios: the mean's interval is narrower than each.
    let wide = Setting {
        scenarios: (0..3).map(|i| verdict(&format!("s{i}"), 1.25, 0.2)).collect(),
        ..Setting::of(&[])
    };
    let judged = wide.judge(&clause);
    assert_eq!(judged.clauses[0].misses[0].reason, MissReason::Unresolved, "{judged:?}");
}

#[test]
fn counts_shares_fallbacks_and_gaps() {
    let s = Setting::of(&[1.2, 1.2, 0.9, 0.9]);
    for (clause, met) in [
        ("at least 2 speedup >= 1.1", true),
        ("at least 3 speedup >= 1.1", false),
        ("at least 50 % speedup >= 1.1", true),
        ("at least 51 % speedup >= 1.1", false),
        ("at least 9 correct", false),
        ("every speedup >= 1.1 where n <= 2", true),
        ("every speedup >= 1.1 where n <= 4", false),
        ("every speedup >= 1.1 where 'core' in tags", true),
        ("every speedup >= 1.1 where id == 's3'", false),
        ("every speedup >= 1.1 where n > 1000", false),
        ("every speedup >= 1.1 where n + 1", false),
        ("every speedup >= 1.1 where width > 3", false),
        ("fallback rate <= 0", true),
        ("held-out gap <= 0.05", false),
        ("every speedup >= 0.5 against other", false),
    ] {
        assert_eq!(s.judge(&[clause]).met, met, "{clause}");
    }
    let mut fallback = Setting::of(&[1.2, 1.2, 1.2, 1.2]);
    fallback.scenarios[0].fallback = true;
    for (clause, met) in [
        ("fallback rate <= 0.25", true),
        ("fallback rate <= 0.2", false),
        ("fallback rate <= 0 where n > 1", true),
        ("every correct", false),
        ("every correct allowing fallback", true),
        ("every speedup >= 1.1 allowing fallback", true),
    ] {
        assert_eq!(fallback.judge(&[clause]).met, met, "{clause}");
    }
    let mut held = Setting::of(&[1.2, 1.2, 1.2]);
    held.held_out = Some(HeldOut { drawn: 4, passed: 4, misses: Vec::new(), geomean: None, gap: Some(0.03) });
    assert!(held.judge(&["held-out gap <= 0.05"]).met);
    assert!(!held.judge(&["held-out gap <= 0.01"]).met);
    held.held_out.as_mut().unwrap().gap = Some(f64::NAN);
    assert!(!held.judge(&["held-out gap <= 0.05"]).met);
    let mut baseline = Setting::of(&[1.2, 1.2, 1.2]);
    let ratio = Ratio { point: 1.4, lo: 1.39, hi: 1.41, instances: 3, pairs: 9, correlation: None };
    baseline.baselines.insert("other".into(), (0..3).map(|i| (format!("s{i}"), ratio)).collect());
    assert!(baseline.judge(&["every speedup >= 1.3 against other"]).met);
    assert!(!baseline.judge(&["every speedup >= 1.3"]).met);
    let mut imported = Setting::of(&[1.2, 1.2, 1.2]);
    imported.findings.push(Finding::new("allowed.import", Severity::Fail, "imports `dlopen`"));
    assert!(!imported.judge(&["constraints hold"]).met);
}

#[test]
fn what_can_never_be_judged_is_known_before() {
    for (clause, fault) in [
        ("every speedup >= 1 where n > 1000", "selects no scenario"),
        ("every speedup >= 1 where n + 1", "not true or false"),
        ("every speedup >= 1 where width > 3", "condition fails"),
        ("at least 9 correct", "about 3 scenarios"),
        ("every correct where n <= 2", ""),
        ("geomean speedup >= 1.1", ""),
    ] {
        let faults = goal(&[clause]).faults(&grid(3));
        assert_eq!(faults.is_empty(), fault.is_empty(), "{clause}: {faults:?}");
        assert!(faults.iter().all(|f| f.contains(fault)), "{faults:?}");
    }
}

#[test]
fn a_failing_scenario_outside_every_clause_blocks() {
    let mut s = Setting::of(&[1.2, 1.2, 1.2]);
    s.scenarios[0].word = Word::Fail;
    assert!(!s.judge(&["every correct where n > 1"]).met);
    assert!(s.judge(&["at least 2 correct"]).met, "the goal looks at it and lets it go");
}

#[test]
fn a_goal_about_averages_alone_is_warned_about() {
    assert!(goal(&["every scenario correct", "every speedup >= 1.0"]).warnings().is_empty());
    let warnings = goal(&["geomean speedup >= 1.3"]).warnings();
    assert!(
        warnings.iter().any(|w| w.contains("average only")) && warnings.iter().any(|w| w.contains("correct"))
    );
    assert_eq!(goal(&["every scenario correct", "geomean speedup >= 1.3"]).warnings().len(), 1);
    assert_eq!(goal(&["every correct where n > 3"]).warnings().len(), 1, "a part is not every scenario");
}

proptest! {
    #[test]
    fn parsing_never_panics(text in ".{0,120}") {
        let _ = Clause::parse(&text);
    }

    #[test]
    fn parsing_words_of_the_grammar_never_panics(words in prop::collection::vec(prop::sample::select(vec![
        "every", "at", "least", "geomean", "scenario", "correct", "speedup", ">=", "<=", "1.1", "90", "%", "against",
        "seed", "where", "n > 1", "allowing", "fallback", "rate", "constraints", "hold", "held-out", "gap", "é",
    ]), 0..9)) {
        let text = words.join(" ");
        if let Ok(clause) = Clause::parse(&text) {
            prop_assert_eq!(Clause::parse(&clause.text).unwrap().text, clause.text);
        }
    }

    /// Whatever is taken from the evidence or made worse, an unmet goal does not become met.
    #[test]
    fn worse_evidence_never_meets_more(points in prop::collection::vec(0.5f64..2.0, 1..8), which in 0usize..8, how in 0usize..6) {
        let clauses = ["every scenario correct", "every speedup >= 1.0", "geomean speedup >= 1.2", "at least 50 % speedup >= 1.3"];
        let before = Setting::of(&points);
        let mut after = Setting::of(&points);
        let i = which % points.len();
        match how {
            0 => { after.scenarios.remove(i); }
            1 => after.scenarios[i].word = Word::Fail,
            2 => after.scenarios[i].word = Word::Unproven,
            3 => after.scenarios[i].fallback = true,
            4 => after.scenarios[i].ratio = None,
            _ => { let r = after.scenarios[i].ratio.as_mut().unwrap(); r.lo *= 0.5; r.point *= 0.9; }
        }
        let g = grid(points.len());
        for clause in clauses {
            let goal = goal(&[clause]);
            let (b, a) = (goal.judge(&g, &before.evidence()), goal.judge(&g, &after.evidence()));
            prop_assert!(b.met || !a.met, "{clause} {how}: {:?}", a);
        }
    }
}
