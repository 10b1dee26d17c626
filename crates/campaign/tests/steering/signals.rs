//! Signals: each one from some ledger, an example by hand, and nothing that is no number.

use crate::script::Script;
use crate::shot::{GRID, Shot};
use crate::stories::all;
use crate::world::World;
use kernelseek_campaign::{Scene, Verdicts, signals};
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::value::Value;
use kernelseek_core::verdict::Digest;
use kernelseek_questions::Signals;
use kernelseek_questions::signals::REGISTRY;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

fn of(world: &World) -> Signals {
    let scene = world.scene().expect("a seal");
    signals(&scene, &scene.view())
}

/// A quick attempt; a promoted one; three hypotheses; a full attempt with an anomaly; a stop.
fn example() -> Script {
    let quick = Shot::even("q", 0.97).quick("short");
    let full =
        Shot::of("b", [1.8, 1.5, 1.2, 2.0]).audited().unproven("odd", "timed.clocks").full().with(|d| {
            if let Some(h) = &mut d.held_out {
                (h.drawn, h.passed) = (3, 2);
            }
            d.scenarios[0].prepare_ns = Some(500.0);
            if let Some(e) = &mut d.scenarios[3].worst_error {
                e.ratio = 0.5;
            }
        });
    Script::sealed("c")
        .attempt(quick)
        .asked(DecisionPoint::CampaignStart)
        .wins(Shot::of("a", [1.2, 1.5, 1.0, 2.0]))
        .person_asks()
        .states("", Some(Layer::Schedule))
        .states("nothing left to do", Some(Layer::Memory))
        .states("just rounding", Some(Layer::Memory))
        .attempt(full)
        .stops("unmet")
}

#[test]
fn an_example_by_hand() {
    let found = of(&example().world());
    let int = Value::Int;
    let bool = Value::Bool;
    // Ratios of the incumbent, sorted: 1.0 1.2 1.5 2.0; their mean is the fourth root of 3.6. Against it the last
    // attempt rose 1.5, 1, 1.2 and 1 ×.
    let mean = 3.6f64.sqrt().sqrt();
    let short: f64 = [2.0f64, 2.0 / 1.2, 2.0 / 1.5].iter().map(|x| x.ln()).sum();
    let double = |name: &str, expected: f64, tolerance: f64| match found.get(name) {
        Some(Value::Float(x)) => {
            assert!((x - expected).abs() <= tolerance, "{name}: {x}, expected {expected}");
        }
        other => panic!("{name}: {other:?}, expected {expected}"),
    };
    for (name, expected) in [
        ("geomean", mean),
        ("step_gain", 1.8f64.sqrt().sqrt()),
        ("step_gain_max", 1.5),
        ("rose_share", 0.5),
        ("worst_ratio", 1.0),
        ("worst_over_geomean", 1.0 / mean),
        ("best_over_worst", 2.0),
        ("mean_over_median", 5.7 / 4.0 / 1.5),
        ("top_fifth_shortfall", 2.0f64.ln() / short),
        ("small_over_large", 1.2 / 2.0),
        ("goal_distance", 1.0 - 0.99 / 1.3),
        ("floor_share_max", 0.2),
        ("floor_share_median", 0.18),
        ("first_over_steady", 4.0),
        ("prepare_over_call", 0.45),
        ("half_width_median", 0.01),
        ("aa_spread", 0.005),
        ("error_ratio_max", 0.5),
        ("error_ratio_rise", 2.0),
        ("quick_share", 1.0 / 3.0),
        ("unread_share", 1.0 / 3.0),
        ("duplicate_share", 0.25),
    ] {
        // Recorded numbers have four decimals.
        double(name, expected, 1e-4);
    }
    for (name, expected) in [
        ("has_incumbent", bool(true)),
        ("scenarios", int(4)),
        ("below_goal", int(2)),
        ("unresolved", int(0)),
        ("fallbacks", int(0)),
        ("fallback_rise", int(0)),
        ("no_cost_model", bool(false)),
        ("below_floor", bool(false)),
        ("full_runs", int(1)),
        ("reduced_trust", bool(false)),
        ("failing", int(0)),
        ("fail_streak", int(0)),
        ("same_scenario_fails", int(0)),
        ("intermittent", bool(false)),
        ("unproven", int(1)),
        ("held_out_misses", int(1)),
        ("no_held_out", bool(false)),
        ("audited", bool(true)),
        ("audit_flag", bool(false)),
        ("sealed_changed", bool(false)),
        ("evaluations", int(3)),
        ("promotions", int(1)),
        ("since_promotion", int(1)),
        ("minutes_since_promotion", int(5)),
        ("promotions_without_step_check", int(0)),
        ("stop_attempts", int(1)),
        ("reverts", int(0)),
        ("layer_run", int(2)),
        ("layers_seen", int(2)),
        ("hypotheses", int(3)),
        ("edits_without_hypothesis", int(1)),
        ("claims", int(1)),
        ("person_questions", int(1)),
        ("limit_words", bool(true)),
        ("excuse_words", bool(true)),
    ] {
        assert_eq!(found.get(name), Some(&expected), "{name}");
    }
    assert_eq!(found.get("slope_10"), None, "fewer than ten attempts before the last");
    assert_eq!(found.iter().count() + 1, REGISTRY.len(), "one of the registry is not in these tables");
}

#[test]
fn failures_are_counted_until_they_are_seen_to_pass() {
    let broken = || Script::begun("c").attempt(Shot::even("b", 1.0).fails("odd").fails("long"));
    for (what, script, failing, streak, same) in [
        ("two fail", broken(), 2, 1, 1),
        ("one passes alone", broken().attempt(Shot::even("c", 1.0).only("odd")), 1, 0, 0),
        ("others pass", broken().attempt(Shot::even("c", 1.0).quick("short")), 2, 0, 0),
        ("one fails again", broken().attempt(Shot::even("c", 1.0).fails("odd")), 1, 2, 2),
        ("it does not build", broken().attempt(Shot::unbuilt("c")), 2, 0, 0),
        ("all pass", broken().tries(), 0, 0, 0),
    ] {
        let found = of(&script.world());
        let at = |name: &str| found.get(name).cloned();
        let int = |n: i64| Some(Value::Int(n));
        assert_eq!(
            (at("failing"), at("fail_streak"), at("same_scenario_fails")),
            (int(failing), int(streak), int(same)),
            "{what}"
        );
    }
}

#[test]
fn an_audit_that_found_something_is_flagged_and_a_clean_one_is_not() {
    let flag = |shot: Shot| of(&Script::begun("c").attempt(shot).world()).get("audit_flag").cloned();
    assert_eq!(flag(Shot::even("b", 1.9).audited()), Some(Value::Bool(false)));
    assert_eq!(flag(Shot::even("b", 1.9).unproven("odd", "audit.status")), Some(Value::Bool(true)));
}

#[test]
fn every_signal_comes_from_some_ledger() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let worlds = all().map(|(chapter, story)| story.told(chapter.folder).world());
    for world in worlds.chain([example().world()]) {
        seen.extend(of(&world).iter().map(|(name, _)| name.to_owned()));
    }
    let known: BTreeSet<String> = REGISTRY.iter().map(|s| s.name.to_owned()).collect();
    assert_eq!(seen, known);
}

#[test]
fn what_cannot_be_known_is_left_out() {
    let none = of(&Script::sealed("c").world());
    for name in ["geomean", "step_gain", "aa_spread", "floor_share_max", "failing", "quick_share", "slope_10"]
    {
        assert_eq!(none.get(name), None, "{name}: nothing was evaluated");
    }
    let unbuilt = of(&Script::sealed("c").attempt(Shot::unbuilt("a")).world());
    for name in ["step_gain", "worst_ratio", "floor_share_max", "half_width_median", "error_ratio_max"] {
        assert_eq!(unbuilt.get(name), None, "{name}: it was not built");
    }
    assert_eq!(unbuilt.get("evaluations"), Some(&Value::Int(1)));
    let bare = |d: &mut Digest| {
        for s in &mut d.scenarios {
            (s.floor_ns, s.first_call_ns, s.worst_error) = (None, None, None);
        }
    };
    let free = of(&Script::begun("c").attempt(Shot::even("b", 1.1).with(bare)).world());
    assert_eq!(free.get("no_cost_model"), Some(&Value::Bool(true)));
    for name in ["floor_share_max", "floor_share_median", "first_over_steady", "error_ratio_rise"] {
        assert_eq!(free.get(name), None, "{name}");
    }
}

/// Verdicts as they are in memory: a file of JSON holds no NaN.
struct Fixed(BTreeMap<String, Digest>);

impl Verdicts for Fixed {
    fn digest(&self, hash: &str) -> Result<Digest, String> {
        self.0.get(hash).cloned().ok_or_else(|| "missing".to_owned())
    }
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(0.0),
        Just(-1.0),
        Just(f64::MIN_POSITIVE),
        Just(f64::MAX),
        0.5f64..2.0,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Whatever numbers a verdict holds, no signal is anything but a number, and deciding does not fail.
    #[test]
    fn nothing_that_is_no_number_becomes_a_signal(
        numbers in prop::collection::vec(number(), 3 * 8 * GRID.len()),
        absent in prop::collection::vec(any::<bool>(), 3 * GRID.len()),
    ) {
        let world = example().world();
        let mut numbers = numbers.into_iter();
        let mut absent = absent.into_iter();
        let mut fixed = BTreeMap::new();
        for e in &world.board.evaluations {
            let Ok(mut digest) = world.store.digest(&e.facts.verdict) else { continue };
            for s in &mut digest.scenarios {
                let mut next = || numbers.next().unwrap_or(f64::NAN);
                if let Some(r) = &mut s.ratio {
                    (r.point, r.lo, r.hi) = (next(), next(), next());
                }
                (s.seed_ns, s.candidate_ns, s.floor_ns) = (Some(next()), Some(next()), Some(next()));
                s.first_call_ns = Some(next());
                if let Some(w) = &mut s.worst_error {
                    w.ratio = next();
                }
                if absent.next().unwrap_or(true) {
                    (s.ratio, s.worst_error, s.floor_ns) = (None, None, None);
                }
            }
            if let Some(g) = &mut digest.geomean {
                (g.point, g.lo) = (numbers.next().unwrap_or(0.0), f64::NAN);
            }
            fixed.insert(e.facts.verdict.clone(), digest);
        }
        let fixed = Fixed(fixed);
        let scene = world.scene().expect("a seal");
        let scene = Scene { verdicts: &fixed, ..scene };
        let found = signals(&scene, &scene.view());
        for (name, value) in found.iter() {
            if let Value::Float(x) = value {
                prop_assert!(x.is_finite(), "{name} is {x}");
            }
        }
        let json = serde_json::to_string(&found).expect("JSON");
        prop_assert!(!json.contains("null"), "{json}");
        // Reading may move the last bit of a number; what is there is there.
        let back = serde_json::from_str::<Signals>(&json).expect("signals");
        prop_assert!(back.iter().map(|(name, _)| name).eq(found.iter().map(|(name, _)| name)));
        let _ = (scene.next(), scene.occasions());
    }
}
