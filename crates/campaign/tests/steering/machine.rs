//! The machine: promotion, resuming after a cut anywhere, budgets, and that it always comes to rest.

use crate::driver::{MOST_ACTIONS, OUTCOMES, Outcome, cut};
use crate::script::{Script, Terms};
use crate::shot::{Shot, hash_of};
use crate::stories::all;
use crate::world::World;
use kernelseek_campaign::{Action, CONFIDENCE, PAIRS_FACTOR, Spent};
use kernelseek_core::decision::DecisionPoint;
use kernelseek_ledger::Entry;
use kernelseek_ledger::entry::Purpose;
use proptest::prelude::*;
use std::time::Duration;

/// A short name for what is asked for.
fn name(action: Option<&Action>) -> String {
    match action {
        None => "rest".to_owned(),
        Some(Action::Confirm { .. }) => "confirm".to_owned(),
        Some(Action::Remeasure { scenarios, .. }) => format!("remeasure {}", scenarios.join(" ")),
        Some(Action::Promote { .. }) => "promote".to_owned(),
        Some(Action::NotPromote { why, fallen, .. }) => format!("not: {why} {}", fallen.join(" ")),
        Some(Action::Ask(o)) => format!("ask {}", o.point.map_or("a person's", DecisionPoint::as_str)),
        Some(Action::End { reason }) => format!("end: {reason}"),
    }
}

fn next(script: &Script) -> String {
    name(script.world().next().as_ref())
}

#[test]
fn promotion_goes_step_by_step() {
    let attempt = || Script::begun("c").attempt(Shot::even("b", 1.3));
    let fell = |version| Shot::of(version, [1.1, 1.5, 1.5, 1.5]);
    let uneven = || Script::begun("c").attempt(fell("b")).confirm(fell("b"));
    for (what, script, expected) in [
        ("better", attempt(), "confirm"),
        ("being measured", attempt().begins(Purpose::Confirm), "confirm"),
        ("died once", attempt().dies(Purpose::Confirm), "confirm"),
        (
            "died twice",
            attempt().dies(Purpose::Confirm).dies(Purpose::Confirm),
            "not: the second measurement ended without a verdict, twice",
        ),
        ("died, then measured", attempt().dies(Purpose::Confirm).confirm(Shot::even("b", 1.3)), "promote"),
        ("confirmed", attempt().confirm(Shot::even("b", 1.25)), "promote"),
        ("promoted", attempt().confirm(Shot::even("b", 1.25)).promote(), "rest"),
        (
            "flattered by being picked",
            attempt().confirm(Shot::even("b", 1.2)),
            "not: the second measurement's lower bound is",
        ),
        ("edited meanwhile", attempt().confirm(Shot::even("x", 1.3)), "not: the sources changed"),
        ("wrong the second time", attempt().confirm(Shot::even("b", 1.3).fails("odd")), "not: the second"),
        ("within the incumbent's interval", Script::begun("c").attempt(Shot::even("b", 1.205)), "rest"),
        ("no better", Script::begun("c").attempt(Shot::even("b", 1.19)), "rest"),
        ("the incumbent itself", Script::begun("c").attempt(Shot::even("a", 1.3)), "rest"),
        (
            "the seed itself",
            Script::sealed("c").slower().attempt(Shot::even("seed", 1.3)),
            "ask campaign_start",
        ),
        ("quick", Script::begun("c").attempt(Shot::even("b", 1.3).quick("short")), "rest"),
        ("part of the grid", Script::begun("c").attempt(Shot::even("b", 1.3).only("short")), "rest"),
        ("wrong somewhere", Script::begun("c").attempt(Shot::even("b", 1.3).fails("odd")), "rest"),
        (
            "unproven",
            Script::begun("c").attempt(Shot::even("b", 1.3).unproven("odd", "timed.clocks")),
            "rest",
        ),
        ("not built", Script::begun("c").attempt(Shot::unbuilt("b")), "rest"),
        ("one scenario fell", uneven(), "remeasure short"),
        ("fell, and the second look died", uneven().dies(Purpose::Remeasure), "remeasure short"),
        (
            "fell, and the second look died twice",
            uneven().dies(Purpose::Remeasure).dies(Purpose::Remeasure),
            "not: the second measurement ended without a verdict, twice",
        ),
        ("fell, and had not", uneven().remeasure(Shot::even("b", 1.19).only("short")), "promote"),
        (
            "fell indeed",
            uneven().remeasure(Shot::even("b", 1.1).only("short")),
            "not: the mean rises, but scenarios fall short",
        ),
        (
            "fell, and another one was looked at",
            uneven().remeasure(Shot::even("b", 1.3).only("long")),
            "not: the mean rises, but scenarios fall short",
        ),
        ("the next attempt takes over", attempt().tries(), "rest"),
        ("sealed anew meanwhile", attempt().reseal(|t| t.toolchain = "another".to_owned()), "rest"),
    ] {
        let found = next(&script);
        assert!(found.starts_with(expected), "{what}: {found}, expected {expected}");
    }
}

#[test]
fn what_is_promoted_is_the_second_measurement() {
    let script = Script::begun("c").attempt(Shot::even("b", 1.3)).confirm(Shot::even("b", 1.26));
    let world = script.world();
    let rows: Vec<u64> = world.board.evaluations.iter().map(|e| e.row).collect();
    match world.next() {
        Some(Action::Promote { first, evaluated, candidate_hash, geomean, before }) => {
            assert_eq!((first, evaluated), (rows[2], rows[3]));
            assert_eq!((candidate_hash, before), (hash_of("b"), hash_of("a")));
            assert!((geomean.point - 1.26).abs() < 1e-9, "{geomean:?}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_intervals_together_are_wrong_in_one_promotion_of_twenty() {
    let two = || Shot::of("b", [1.1, 1.1, 2.0, 2.0]);
    let one = || Shot::of("b", [1.1, 1.5, 1.5, 1.5]);
    for (shot, n) in [(one(), 1.0), (two(), 2.0)] {
        match Script::begun("c").attempt(shot.clone()).confirm(shot).world().next() {
            Some(Action::Remeasure { scenarios, pairs_factor, confidence, .. }) => {
                assert_eq!((scenarios.len() as f64, pairs_factor), (n, PAIRS_FACTOR));
                assert!((confidence - (1.0 - CONFIDENCE / n)).abs() < 1e-12, "{confidence}");
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A verdict that is there and cannot be read must not be waited for, nor be taken for the seed's.
#[test]
fn an_unreadable_verdict_promotes_nothing_and_is_not_waited_for() {
    let lose = |world: &mut World, row: usize| {
        let name = world.board.evaluations[row].facts.verdict.clone();
        world.store.0.remove(&name).expect("a verdict");
    };
    let script = Script::begun("c").attempt(Shot::even("b", 1.3));
    let mut first = script.world();
    lose(&mut first, 2);
    assert_eq!(name(first.next().as_ref()), "rest");
    let mut second = script.confirm(Shot::even("b", 1.31)).world();
    lose(&mut second, 3);
    assert!(name(second.next().as_ref()).starts_with("not: the verdict of the second measurement"));
    // Between the seed and the incumbent: with the incumbent's verdict gone it must not pass for a gain.
    let mut incumbent = Script::begun("c")
        .wins(Shot::even("b", 1.7))
        .asked(DecisionPoint::SuspiciousWin)
        .attempt(Shot::even("c", 1.4))
        .world();
    lose(&mut incumbent, 3);
    assert!(name(incumbent.next().as_ref()).starts_with("not: the incumbent's verdict"));
}

/// Cut after every row: the machine asks for what is missing, and then comes to rest, whatever comes of it.
#[test]
fn every_prefix_of_every_ledger_goes_on_and_comes_to_rest() {
    let mut longest = 0;
    for (chapter, story) in all() {
        let script = story.told(chapter.folder);
        let whole = script.world();
        for n in 0..=script.entries.len() {
            for outcome in OUTCOMES {
                let mut world = whole.cut(n);
                let settled = world.settle(|| outcome);
                let done = settled.unwrap_or_else(|e| panic!("{} row {n}, {outcome:?}: {e}", story.file()));
                longest = longest.max(done.len());
                assert_eq!(world.next(), None);
                assert!(n > 1 || done.is_empty(), "nothing is done before there is a seal");
                // None of the measurements matters: the others would do the same.
                if !done.iter().any(|a| matches!(a, Action::Confirm { .. } | Action::Remeasure { .. })) {
                    break;
                }
            }
        }
    }
    assert!((3..=MOST_ACTIONS).contains(&longest), "{longest}");
}

/// Between the halves of a promotion exactly the missing half is asked for, as often as it is cut off.
#[test]
fn a_promotion_that_was_cut_anywhere_is_finished_as_if_it_had_not_been() {
    let uneven = Shot::of("b", [1.1, 1.5, 1.5, 1.5]);
    let script = Script::begun("c")
        .attempt(uneven.clone())
        .confirm(uneven)
        .remeasure(Shot::even("b", 1.19).only("short"))
        .promote();
    let begun = Script::begun("c").entries.len();
    let expected = [
        (2, "confirm"),
        (3, "confirm"),
        (4, "remeasure short"),
        (5, "remeasure short"),
        (6, "promote"),
        (7, "rest"),
    ];
    for (rows, asked) in expected {
        let world = cut(&script, begun + rows);
        assert_eq!(name(world.next().as_ref()), asked, "after {rows} rows");
        // Asking changes nothing.
        assert_eq!(world.next(), world.next());
    }
    assert_eq!(script.entries.len(), begun + 7);
    let finished = |n: usize| {
        let mut world = cut(&script, begun + n);
        world.settle(|| Outcome::Same).unwrap();
        world.board.incumbent().expect("an incumbent").what.candidate_hash.clone()
    };
    // Measured anew the scenario is as low as at first, and then nothing is promoted; from the last half on it is.
    assert_eq!((finished(4), finished(6), finished(7)), (hash_of("a"), hash_of("b"), hash_of("b")));
    // And never a second time.
    let mut world = script.world();
    assert_eq!(world.settle(|| Outcome::Same), Ok(Vec::new()));
}

#[test]
fn a_question_is_asked_once_for_each_row() {
    let script = Script::begun("c").stops("unmet");
    assert_eq!(next(&script), "ask claimed_limit");
    let asked = script.asked(DecisionPoint::ClaimedLimit);
    assert_eq!(next(&asked), "rest");
    // Two points at one row: the second waits for the next row.
    let both = Script::begun("c").attempt(Shot::even("b", 1.19).fails("odd")).stops("unmet");
    assert_eq!(next(&both), "ask correctness_break");
    let first = both.asked(DecisionPoint::CorrectnessBreak);
    assert_eq!(next(&first), "rest");
    assert_eq!(next(&first.tries()), "ask claimed_limit");
}

#[test]
fn a_person_is_not_kept_waiting() {
    let script = Script::begun("c").person_asks();
    let row = script.entries.len() as u64;
    assert_eq!(next(&script), "ask a person's");
    assert_eq!(next(&script.clone().stops("unmet")), "ask a person's", "before any other");
    let passed = script.passed_on(row);
    assert_eq!(next(&passed), "rest");
    assert!(passed.world().board.waiting.is_empty());
    assert_eq!(next(&Script::begun("c").tries().person_asks().person_asks()), "ask a person's");
    let off = |t: &mut Terms| t.questions = "enabled = false".to_owned();
    let switched_off = Script::sealed_with("c", off).slower();
    assert_eq!(next(&switched_off), "rest");
    assert_eq!(next(&switched_off.person_asks()), "ask a person's", "the switch is the bank's");
    // What must not wait is asked beside a person's question, what can waits.
    let stopped = Script::begun("c").stops("unmet").person_asks();
    let row = stopped.entries.len() as u64;
    assert_eq!(next(&stopped.passed_on(row)), "rest");
    let broken = Script::begun("c").attempt(Shot::even("b", 1.19).fails("odd")).stops("unmet").person_asks();
    let row = broken.entries.len() as u64;
    assert_eq!(next(&broken), "ask a person's");
    assert_eq!(next(&broken.passed_on(row)), "ask correctness_break");
}

#[test]
fn a_spent_budget_ends_the_campaign_after_the_last_question() {
    let with = |budget: &str| {
        let budget = budget.to_owned();
        Script::sealed_with("c", |t| t.budget = budget).wins(Shot::even("a", 1.2))
    };
    let full = |s: Script| s.attempt(Shot::even("a", 1.2).full());
    for (what, script, expected) in [
        ("two of three", with("evaluations = 3").tries(), "rest"),
        ("three of three", with("evaluations = 3").tries().tries(), "end: 3 evaluations are spent"),
        ("the engine's own do not count", with("evaluations = 2"), "rest"),
        ("a dead one does not count", with("evaluations = 2").dies(Purpose::Attempt), "rest"),
        ("one full of two", full(with("full_evaluations = 2")), "rest"),
        ("two full of two", full(full(with("full_evaluations = 2"))), "end: 2 full evaluations are spent"),
        (
            "the supervisor's own full one",
            full(with("full_evaluations = 2")).last(Shot::even("a", 1.2).full()),
            "rest",
        ),
        ("less than an hour", with("hours = 1").minutes(40.0).tries(), "rest"),
        ("an hour", with("hours = 1").minutes(60.0).tries(), "end: 1.0 hours have passed"),
        ("a contest comes first", with("evaluations = 2").attempt(Shot::even("b", 1.4)), "confirm"),
        (
            "a question comes first",
            with("evaluations = 2").attempt(Shot::even("b", 1.4).unproven("odd", "plausible.floor")),
            "ask suspicious_win",
        ),
        (
            "sealed again with more",
            with("evaluations = 2")
                .tries()
                .ends(false, "2 evaluations are spent")
                .reseal(|t| t.budget = "evaluations = 9".to_owned()),
            "rest",
        ),
        ("ended", with("evaluations = 2").tries().ends(false, "2 evaluations are spent"), "rest"),
    ] {
        assert_eq!(next(&script), expected, "{what}");
    }
}

#[test]
fn a_clock_that_went_back_has_spent_no_time() {
    let script = Script::sealed_with("c", |t| t.budget = "hours = 1".to_owned()).wins(Shot::even("a", 1.2));
    let mut world = script.world();
    let start = world.board.seals[0].at_ms;
    for (now, spent, over) in [
        (start - 10_000_000, 0, false),
        (i64::MIN / 4, 0, false),
        (start, 0, false),
        (start + 3_599_999, 3_599_999, false),
        (start + 3_600_000, 3_600_000, true),
        (i64::MAX, i64::MAX - start, true),
    ] {
        world.now_ms = now;
        let scene = world.scene().unwrap();
        let seen = Spent::of(&world.board, now);
        assert_eq!((seen.time_ms, seen.over(&scene.file.budget).is_some()), (spent, over), "{now}");
        assert_eq!(matches!(scene.next(), Some(Action::End { .. })), over, "{now}");
    }
    assert_eq!(world.scene().unwrap().file.budget.time, Some(Duration::from_secs(3600)));
}

/// What may happen in a campaign, as far as the machine can see it.
#[derive(Debug, Clone, Copy)]
enum Event {
    Attempt { version: u8, ratio: u8, fails: bool, tier: u8 },
    Unbuilt,
    Dies,
    Stop(u8),
    States(u8),
    Answers,
    Person,
    Reseal(u8),
    Pause(u16),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0u8..6, 0u8..12, prop::bool::weighted(0.2), 0u8..4)
            .prop_map(|(version, ratio, fails, tier)| Event::Attempt { version, ratio, fails, tier }),
        1 => Just(Event::Unbuilt),
        1 => Just(Event::Dies),
        1 => (0u8..4).prop_map(Event::Stop),
        1 => (0u8..4).prop_map(Event::States),
        1 => Just(Event::Answers),
        1 => Just(Event::Person),
        1 => (0u8..4).prop_map(Event::Reseal),
        1 => (0u16..200).prop_map(Event::Pause),
    ]
}

fn happens(script: Script, event: Event) -> Script {
    match event {
        Event::Attempt { version, ratio, fails, tier } => {
            let shot = Shot::even(&format!("p{version}"), 0.8 + 0.15 * f64::from(ratio));
            let shot = if fails { shot.fails("odd") } else { shot };
            script.attempt(match tier {
                0 => shot.quick("short"),
                1 => shot.only("odd"),
                2 => shot.full(),
                _ => shot,
            })
        }
        Event::Unbuilt => script.attempt(Shot::unbuilt("u")),
        Event::Dies => script.dies(Purpose::Attempt),
        Event::Stop(rule) => script.stops(["unmet", "running", "not_evaluated", "stale"][usize::from(rule)]),
        Event::States(n) => {
            script.states(["", "nothing left to do", "just rounding", "tile"][usize::from(n)], None)
        }
        Event::Answers => script.answers("good enough"),
        Event::Person => script.person_asks(),
        Event::Pause(minutes) => script.minutes(f64::from(minutes)),
        Event::Reseal(part) => {
            let more = |text: &mut String| text.push('1');
            script.reseal(|t| match part {
                0 if t.budget.is_empty() => t.budget = "evaluations = 10".to_owned(),
                0 => more(&mut t.budget),
                1 => more(&mut t.tolerance),
                2 => more(&mut t.device),
                _ => more(&mut t.goal[1]),
            })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever happens and whatever comes of the measurements: the machine comes to rest, asks once for each row,
    /// and promotes only what two measurements show.
    #[test]
    fn whatever_happens_the_machine_comes_to_rest(
        events in prop::collection::vec(event(), 1..14),
        outcomes in prop::collection::vec(0..OUTCOMES.len(), 1..20),
    ) {
        let mut script = Script::sealed("c");
        let mut outcomes = outcomes.iter().cycle().map(|i| OUTCOMES[*i]);
        for event in events {
            if script.terms.tolerance.len() > 12 || script.terms.budget.len() > 20 {
                break;
            }
            script = happens(script, event);
            let mut world = script.world();
            let before = world.rows.len();
            let done = world.settle(|| outcomes.next().unwrap_or(Outcome::Same));
            prop_assert!(done.is_ok(), "{done:?}");
            let done = done.unwrap_or_default();
            let asks = |person: bool| {
                let of = |a: &&Action| matches!(a, Action::Ask(o) if o.point.is_none() == person);
                done.iter().filter(of).count()
            };
            prop_assert!(asks(true) <= 1 && asks(false) <= 1, "{done:?}");
            for action in &done {
                if let Action::Promote { first, evaluated, geomean, .. } = action {
                    let (one, two) = (world.board.evaluation(*first), world.board.evaluation(*evaluated));
                    let (one, two) = (&one.expect("a row").facts, &two.expect("a row").facts);
                    prop_assert_eq!(&one.candidate_hash, &two.candidate_hash);
                    prop_assert_eq!((one.purpose, two.purpose), (Purpose::Attempt, Purpose::Confirm));
                    prop_assert!(one.whole_grid && two.whole_grid && one.failing.is_empty() && two.failing.is_empty());
                    prop_assert_eq!(two.geomean, Some(*geomean));
                    prop_assert!(geomean.lo > 1.0);
                }
            }
            // What was done is part of what happened.
            for row in &world.rows[before..] {
                let entry = row.entry().expect("an entry");
                script.takes(row.at_ms, entry);
            }
            for (hash, bytes) in &world.store.0 {
                script.takes_artefact(hash, bytes);
            }
            let mut firsts: Vec<u64> = world.board.promotions.iter().map(|p| p.what.first).collect();
            firsts.dedup();
            prop_assert_eq!(firsts.len(), world.board.promotions.len(), "promoted twice");
            let scene = world.scene().expect("a seal");
            let json = serde_json::to_string(&kernelseek_campaign::signals(&scene, &scene.view())).expect("JSON");
            prop_assert!(!json.contains("null"), "{json}");
            let ended = script.entries.iter().any(|(_, e)| matches!(e, Entry::Ended(_)));
            if ended { break; }
        }
    }
}
