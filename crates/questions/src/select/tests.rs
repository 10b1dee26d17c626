use super::*;
use crate::bank::embedded;
use crate::records::{healthy, planted, started};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const ASK: Policy = Policy { silence: 0.0 };

fn opportunity<'a>(point: DecisionPoint, signals: &'a Signals, history: &'a [Asked]) -> Opportunity<'a> {
    Opportunity { point, signals, history, evaluations: 40, target: "cpu", alternative: false }
}

fn asked(bank: &Bank, id: &str, at_evaluation: u64, since_promotion: bool, answered: Option<bool>) -> Asked {
    Asked {
        entry: id.to_owned(),
        group: bank.get(id).unwrap().group,
        at_evaluation,
        since_promotion,
        answered,
    }
}

fn ids(selection: &Selection<'_>) -> Vec<String> {
    selection.eligible.iter().map(|(id, _)| id.clone()).collect()
}

fn why<'s>(selection: &'s Selection<'_>, id: &str) -> Option<&'s str> {
    selection.excluded.iter().find(|(e, _)| e == id).map(|(_, why)| *why)
}

/// A plateau at which several groups have something to ask.
fn circling() -> Signals {
    let mut s = healthy();
    s.int("since_promotion", 12)
        .int("layer_run", 6)
        .double("slope_10", 0.001)
        .double("top_fifth_shortfall", 0.9);
    s.int("reverts", 3).double("small_over_large", 0.5);
    s
}

#[test]
fn a_healthy_campaign_is_left_alone() {
    let (bank, signals) = (embedded().unwrap(), healthy());
    for point in DecisionPoint::ALL {
        let s = select(&bank, &opportunity(point, &signals, &[]), &ASK, 0.5);
        assert!(matches!(s.choice, Choice::Silence), "{point}");
        assert_eq!((s.probability, s.silence, s.eligible.len()), (1.0, 1.0, 0), "{point}");
        assert!(s.excluded.iter().all(|(_, why)| *why == "its trigger is false"), "{:?}", s.excluded);
    }
}

#[test]
fn every_planted_record_is_asked_about_at_some_point() {
    let bank = embedded().unwrap();
    for plant in planted() {
        let found = DecisionPoint::ALL
            .iter()
            .any(|p| !select(&bank, &opportunity(*p, &plant.signals, &[]), &ASK, 0.5).eligible.is_empty());
        assert!(found, "{}", plant.what);
    }
}

#[test]
fn every_way_to_a_decision_point_has_a_question() {
    type Set = fn(&mut Signals);
    let ways: [(DecisionPoint, Set); 16] = [
        (DecisionPoint::CampaignStart, |s| {
            s.int("promotions", 0);
        }),
        (DecisionPoint::Plateau, |s| {
            s.int("since_promotion", 8);
        }),
        (DecisionPoint::Plateau, |s| {
            s.int("minutes_since_promotion", 120);
        }),
        (DecisionPoint::Plateau, |s| {
            s.double("slope_10", 0.0049);
        }),
        (DecisionPoint::Plateau, |s| {
            s.int("layer_run", 5);
        }),
        (DecisionPoint::Plateau, |s| {
            s.int("reverts", 2);
        }),
        (DecisionPoint::ClaimedLimit, |s| {
            s.int("stop_attempts", 1);
        }),
        (DecisionPoint::ClaimedLimit, |s| {
            s.int("claims", 1);
        }),
        (DecisionPoint::SuspiciousWin, |s| {
            s.double("step_gain", 1.51).double("step_gain_max", 1.51);
        }),
        (DecisionPoint::SuspiciousWin, |s| {
            s.double("step_gain", 1.01).double("step_gain_max", 2.01);
        }),
        (DecisionPoint::SuspiciousWin, |s| {
            s.bool("below_floor", true).double("floor_share_max", 1.02);
        }),
        (DecisionPoint::SuspiciousWin, |s| {
            s.int("unproven", 1);
        }),
        (DecisionPoint::CorrectnessBreak, |s| {
            s.int("failing", 1);
        }),
        (DecisionPoint::CorrectnessBreak, |s| {
            s.bool("intermittent", true);
        }),
        (DecisionPoint::CorrectnessBreak, |s| {
            s.bool("sealed_changed", true);
        }),
        (DecisionPoint::CorrectnessBreak, |s| {
            s.bool("excuse_words", true);
        }),
    ];
    let bank = embedded().unwrap();
    for (i, (point, set)) in ways.into_iter().enumerate() {
        // Even where nothing could be timed, so that most signals are absent.
        for mut signals in [healthy(), started()] {
            set(&mut signals);
            let s = select(&bank, &opportunity(point, &signals, &[]), &ASK, 0.5);
            assert!(matches!(s.choice, Choice::Entry(_)), "way {i} to {point}: {:?}", s.excluded);
        }
    }
}

#[test]
fn the_draw_decides() {
    let (bank, signals) = (embedded().unwrap(), circling());
    let policy = Policy { silence: 0.25 };
    let o = opportunity(DecisionPoint::Plateau, &signals, &[]);
    let s = select(&bank, &o, &policy, 0.2499);
    assert!(matches!(s.choice, Choice::Silence));
    assert_eq!((s.probability, s.silence), (0.25, 0.25));
    let s = select(&bank, &o, &policy, 0.25);
    let Choice::Entry(entry) = s.choice else { panic!("silence") };
    assert_eq!(entry.id, s.eligible[0].0);
    let groups: BTreeSet<_> = ids(&s).iter().map(|id| bank.get(id).unwrap().group).collect();
    for group in &groups {
        let members: Vec<_> =
            s.eligible.iter().filter(|(id, _)| bank.get(id).unwrap().group == *group).collect();
        for (id, p) in &members {
            let expected = 0.75 / groups.len() as f64 / members.len() as f64;
            assert!((p - expected).abs() < 1e-12, "{id}: {p} {expected}");
        }
    }
    assert!(groups.len() >= 4, "{groups:?}");
    let again = select(&bank, &o, &policy, 0.25);
    assert_eq!(ids(&again), ids(&s));
}

#[test]
fn silence_has_no_share_where_a_wrong_result_could_pass() {
    let bank = embedded().unwrap();
    let mut signals = healthy();
    signals.double("step_gain", 3.0).int("failing", 2);
    for point in [DecisionPoint::SuspiciousWin, DecisionPoint::CorrectnessBreak] {
        let s = select(&bank, &opportunity(point, &signals, &[]), &Policy { silence: 1.0 }, 0.0);
        assert!(matches!(s.choice, Choice::Entry(_)), "{point}");
        assert_eq!(s.silence, 0.0);
    }
    let circling = circling();
    for (share, expected) in [(1.0, 1.0), (7.0, 1.0), (-1.0, 0.0), (f64::NAN, 0.0)] {
        let o = opportunity(DecisionPoint::Plateau, &circling, &[]);
        let s = select(&bank, &o, &Policy { silence: share }, 0.999_999);
        assert_eq!(s.silence, expected);
        assert_eq!(matches!(s.choice, Choice::Silence), expected == 1.0, "{share}");
    }
}

#[test]
fn an_entry_waits_and_is_not_asked_for_ever() {
    let bank = embedded().unwrap();
    let mut signals = healthy();
    signals.int("promotions", 0);
    let point = DecisionPoint::CampaignStart;
    type Asks = &'static [(u64, bool)];
    let table: [(Asks, Option<&str>); 7] = [
        (&[], None),
        (&[(31, true)], Some("asked a short while ago")),
        (&[(30, true)], None),
        (&[(39, false)], None),
        (&[(99, true)], Some("asked a short while ago")),
        (&[(1, false), (2, false)], Some("asked as often as it may be")),
        (&[(1, false), (38, true)], Some("asked as often as it may be")),
    ];
    for (asks, expected) in table {
        let history: Vec<_> =
            asks.iter().map(|(at, since)| asked(&bank, "C050", *at, *since, None)).collect();
        let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
        assert_eq!(why(&s, "C050"), expected, "{asks:?}");
        assert_eq!(ids(&s).contains(&"C050".to_owned()), expected.is_none());
    }
}

#[test]
fn a_plateau_asks_other_groups_first() {
    let (bank, signals) = (embedded().unwrap(), circling());
    let point = DecisionPoint::Plateau;
    let before = select(&bank, &opportunity(point, &signals, &[]), &ASK, 0.5);
    assert!(ids(&before).contains(&"C100".to_owned()) && ids(&before).contains(&"C001".to_owned()));

    let history = [asked(&bank, "C099", 35, true, Some(true))];
    let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
    assert_eq!(why(&s, "C100"), Some("its group was asked since the last promotion"));
    assert!(ids(&s).contains(&"C001".to_owned()));

    let history = [asked(&bank, "C099", 35, false, Some(true))];
    let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
    assert!(ids(&s).contains(&"C100".to_owned()), "a promotion since");

    // One of every group: then all of them may be asked again.
    let history: Vec<_> = ids(&before).iter().map(|id| asked(&bank, id, 20, true, Some(true))).collect();
    let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
    assert_eq!(ids(&s), ids(&before));
}

#[test]
fn a_group_without_evidence_rests_until_a_promotion() {
    let (bank, signals) = (embedded().unwrap(), circling());
    let point = DecisionPoint::Plateau;
    let all = ids(&select(&bank, &opportunity(point, &signals, &[]), &ASK, 0.5));
    let mut history: Vec<_> = all.iter().map(|id| asked(&bank, id, 20, true, Some(true))).collect();
    history.push(asked(&bank, "C099", 21, true, Some(false)));
    history.push(asked(&bank, "C099", 22, true, None));
    let reason = Some("the last answer to its group held no evidence");
    let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
    assert_eq!(why(&s, "C100"), reason);
    assert!(ids(&s).contains(&"C001".to_owned()));
    history.push(asked(&bank, "C100", 23, true, Some(true)));
    let s = select(&bank, &opportunity(point, &signals, &history), &ASK, 0.5);
    assert_ne!(why(&s, "C100"), reason, "a later answer held some");
    let failed = [asked(&bank, "C101", 30, true, Some(false))];
    let mut stopping = healthy();
    stopping.int("stop_attempts", 2);
    let s = select(&bank, &opportunity(DecisionPoint::ClaimedLimit, &stopping, &failed), &ASK, 0.5);
    assert_eq!(ids(&s), ["C101"], "elsewhere the rule does not hold");
}

#[test]
fn what_makes_an_entry_not_eligible() {
    let bank = embedded().unwrap();
    let one = |change: fn(&mut Entry)| {
        let mut entry = bank.get("C023").unwrap().clone();
        change(&mut entry);
        Bank::of(vec![entry])
    };
    let trigger = |text: &str| Formula::new(text, 0..0);
    type Change = fn(&mut Entry);
    let never: [(Change, &str); 9] = [
        (|e| e.status = crate::names::Status::Draft, "not active"),
        (|e| e.status = crate::names::Status::Quarantined, "not active"),
        (|e| e.applies_to.arch = vec!["cuda".into()], "for another target"),
        (|e| e.applies_to.needs_alternative = true, "no other implementation"),
        (|e| e.trigger.min_observations = 41, "too few evaluations"),
        (|e| e.applies_to.requires_signals = vec!["nosuch".into()], "a signal is absent"),
        (|e| e.trigger.signals = vec!["nosuch".into()], "a signal is absent"),
        (|e| e.trigger.suppress_if = vec![Formula::new("hypotheses > 1", 0..0)], "suppressed"),
        (
            |e| e.trigger.suppress_if = vec![Formula::new("hypotheses +", 0..0)],
            "a suppression cannot be evaluated",
        ),
    ];
    let signals = circling();
    let o = opportunity(DecisionPoint::Plateau, &signals, &[]);
    for (change, expected) in never {
        let bank = one(change);
        let s = select(&bank, &o, &ASK, 0.5);
        assert_eq!(s.excluded, [("C023".to_owned(), expected)]);
    }
    for (text, expected) in [
        ("layer_run > 100", "its trigger is false"),
        ("layer_run + 1", "its trigger cannot be evaluated"),
        ("layer_run > 1.0 + 'a'", "its trigger cannot be evaluated"),
        ("layer_run >", "its trigger cannot be evaluated"),
        ("nosuch > 1", "a signal is absent"),
    ] {
        let mut entry = bank.get("C023").unwrap().clone();
        entry.trigger.expr = trigger(text);
        let bank = Bank::of(vec![entry]);
        let s = select(&bank, &o, &ASK, 0.5);
        assert_eq!(s.excluded, [("C023".to_owned(), expected)], "{text}");
    }
    let alternative = Opportunity { alternative: true, ..o };
    let bank = one(|e| e.applies_to.needs_alternative = true);
    assert_eq!(ids(&select(&bank, &alternative, &ASK, 0.5)), ["C023"]);
    let bank = one(|e| e.trigger.suppress_if = vec![Formula::new("nosuch", 0..0)]);
    assert_eq!(ids(&select(&bank, &o, &ASK, 0.5)), ["C023"], "an absent signal suppresses nothing");
}

/// A bank of entries that differ in group, point and trigger.
fn any_bank() -> impl Strategy<Value = Bank> {
    let entry = (0..Group::ALL.len(), prop::collection::btree_set(0..5usize, 1..4), 0..4u8);
    prop::collection::vec(entry, 0..24).prop_map(|specs| {
        let model = embedded().unwrap().get("C023").unwrap().clone();
        let entries = specs.into_iter().enumerate().map(|(i, (group, points, trigger))| {
            let mut entry = model.clone();
            entry.id = format!("C{i:03}");
            entry.group = Group::ALL[group];
            entry.decision_points = points.into_iter().map(|p| DecisionPoint::ALL[p]).collect();
            let text = ["true", "false", "layer_run >= 3", "nosuch > 1"][usize::from(trigger)];
            entry.trigger.expr = Formula::new(text, 0..0);
            entry
        });
        Bank::of(entries.collect())
    })
}

fn any_history() -> impl Strategy<Value = Vec<Asked>> {
    let one = (0..24usize, 0..Group::ALL.len(), 0..60u64, any::<bool>(), any::<Option<bool>>());
    prop::collection::vec(one, 0..12).prop_map(|items| {
        let asked = items.into_iter().map(|(i, group, at_evaluation, since_promotion, answered)| Asked {
            entry: format!("C{i:03}"),
            group: Group::ALL[group],
            at_evaluation,
            since_promotion,
            answered,
        });
        asked.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn probabilities_sum_to_one_and_are_the_frequencies(
        bank in any_bank(),
        history in any_history(),
        point in 0..5usize,
        silence in prop_oneof![Just(0.0), Just(1.0), 0.0..1.0],
        layer_run in 0..6i64,
    ) {
        const GRID: u32 = 400;
        let mut signals = healthy();
        signals.int("layer_run", layer_run);
        let o = opportunity(DecisionPoint::ALL[point], &signals, &history);
        let policy = Policy { silence };
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut stated = None;
        for i in 0..GRID {
            let s = select(&bank, &o, &policy, (f64::from(i) + 0.5) / f64::from(GRID));
            let (id, expected) = match s.choice {
                Choice::Silence => (String::new(), s.silence),
                Choice::Entry(e) => {
                    let of = s.eligible.iter().find(|(id, _)| *id == e.id);
                    (e.id.clone(), of.map(|(_, p)| *p).unwrap())
                }
            };
            prop_assert_eq!(s.probability, expected);
            *seen.entry(id).or_default() += 1;
            stated = Some((s.silence, s.eligible));
        }
        let (silent, eligible) = stated.unwrap();
        let total: f64 = silent + eligible.iter().map(|(_, p)| p).sum::<f64>();
        prop_assert!((total - 1.0).abs() < 1e-9, "{}", total);
        if eligible.is_empty() {
            prop_assert_eq!(silent, 1.0);
        } else {
            prop_assert_eq!(silent, if o.point.always_asks() { 0.0 } else { silence });
        }
        let shares = eligible.into_iter().chain([(String::new(), silent)]);
        for (id, p) in shares {
            let frequency = f64::from(seen.get(&id).copied().unwrap_or(0)) / f64::from(GRID);
            prop_assert!((frequency - p).abs() <= 1.0 / f64::from(GRID) + 1e-9, "{} {} {}", id, frequency, p);
        }
    }

    #[test]
    fn every_entry_for_the_point_is_eligible_or_excluded(bank in any_bank(), history in any_history(), point in 0..5usize, draw: f64) {
        let signals = healthy();
        let o = opportunity(DecisionPoint::ALL[point], &signals, &history);
        let s = select(&bank, &o, &ASK, draw);
        let named: BTreeSet<_> = s.eligible.iter().map(|(id, _)| id).chain(s.excluded.iter().map(|(id, _)| id)).collect();
        let expected: BTreeSet<_> = bank.entries().iter().filter(|e| e.decision_points.contains(&o.point)).map(|e| &e.id).collect();
        prop_assert_eq!(named.len(), s.eligible.len() + s.excluded.len());
        prop_assert_eq!(named, expected);
    }
}
