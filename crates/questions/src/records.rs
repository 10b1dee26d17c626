//! Records that triggers are held against: one of a campaign that goes well, and several with one thing planted.
//!
//! A trigger that is true of the healthy record nags; one that is true of no planted record is never asked.

use crate::signals::{Family, Kind, REGISTRY, Signals};

/// A record with one thing wrong.
#[derive(Debug, Clone)]
pub struct Planted {
    /// What is wrong.
    pub what: &'static str,
    /// The signals.
    pub signals: Signals,
}

/// A campaign in the middle of its course: promoted a while ago, correct, some scenarios still below the goal.
#[must_use]
pub fn healthy() -> Signals {
    let mut s = Signals::new();
    s.int("scenarios", 24).int("evaluations", 40).int("promotions", 6);
    s.int("since_promotion", 2).int("minutes_since_promotion", 18);
    s.int("below_goal", 4)
        .int("fallbacks", 0)
        .int("fallback_rise", 0)
        .int("unresolved", 0)
        .int("unproven", 0);
    s.int("failing", 0).int("fail_streak", 0).int("same_scenario_fails", 0).int("held_out_misses", 0);
    s.int("full_runs", 2)
        .int("stop_attempts", 0)
        .int("reverts", 0)
        .int("claims", 0)
        .int("person_questions", 1);
    s.int("layer_run", 2).int("layers_seen", 5).int("hypotheses", 31).int("edits_without_hypothesis", 1);
    s.int("promotions_without_step_check", 0);
    s.double("geomean", 2.4).double("goal_distance", 0.07).double("worst_ratio", 1.9);
    s.double("worst_over_geomean", 0.79).double("best_over_worst", 1.6).double("mean_over_median", 1.03);
    s.double("top_fifth_shortfall", 0.31).double("small_over_large", 0.97);
    s.double("floor_share_max", 0.81).double("floor_share_median", 0.64);
    s.double("first_over_steady", 1.7).double("prepare_over_call", 0.1);
    s.double("step_gain", 1.03)
        .double("step_gain_max", 1.09)
        .double("rose_share", 0.75)
        .double("slope_10", 0.06);
    s.double("half_width_median", 0.004).double("aa_spread", 0.003);
    s.double("quick_share", 0.5).double("unread_share", 0.4);
    s.double("error_ratio_max", 0.22).double("error_ratio_rise", 1.0).double("duplicate_share", 0.04);
    s.bool("has_incumbent", true).bool("intermittent", false).bool("below_floor", false);
    s.bool("audited", false).bool("audit_flag", false).bool("sealed_changed", false);
    s.bool("limit_words", false).bool("excuse_words", false);
    s.bool("no_cost_model", false).bool("reduced_trust", false).bool("no_held_out", false);
    s
}

/// The part of the healthy record that needs no timed scenario.
#[must_use]
pub fn started() -> Signals {
    let mut s = healthy();
    for signal in REGISTRY {
        let untimed = matches!(signal.family, Family::Conduct | Family::Truth) && signal.kind != Kind::Double;
        if !untimed {
            s.absent(signal.name);
        }
    }
    s
}

type Plant = (&'static str, fn(&mut Signals));

const PLANTS: [Plant; 32] = [
    ("a campaign that has just started", |s| {
        s.bool("has_incumbent", false).int("promotions", 0).int("evaluations", 1).int("since_promotion", 1);
        s.double("geomean", 1.0).double("worst_ratio", 1.0).double("worst_over_geomean", 1.0);
        s.double("best_over_worst", 1.0).int("layers_seen", 0).int("layer_run", 0).int("hypotheses", 0);
        s.absent("step_gain").absent("step_gain_max").absent("rose_share").absent("slope_10");
        s.absent("error_ratio_rise").absent("top_fifth_shortfall").absent("small_over_large");
    }),
    ("a campaign that was sealed and not evaluated", |s| {
        *s = started();
        s.int("promotions", 0)
            .int("evaluations", 0)
            .int("since_promotion", 0)
            .int("minutes_since_promotion", 0);
        s.int("layers_seen", 0).int("layer_run", 0).int("hypotheses", 0);
    }),
    ("a problem without a cost model", |s| {
        s.bool("no_cost_model", true).absent("floor_share_max").absent("floor_share_median");
    }),
    ("a problem that draws nothing held out", |s| {
        s.bool("no_held_out", true);
    }),
    ("a fifth of the scenarios that holds most of the shortfall", |s| {
        s.double("top_fifth_shortfall", 0.83).double("goal_distance", 0.5).double("mean_over_median", 1.1);
    }),
    ("one scenario far behind the others", |s| {
        s.double("worst_ratio", 0.3).double("worst_over_geomean", 0.125).double("best_over_worst", 9.0);
    }),
    ("a gain that small scenarios do not see", |s| {
        s.double("small_over_large", 0.55);
    }),
    ("a gain that large scenarios do not see", |s| {
        s.double("small_over_large", 1.7);
    }),
    ("work moved out of the call", |s| {
        s.double("prepare_over_call", 14.0);
    }),
    ("a first call that is dear", |s| {
        s.double("first_over_steady", 40.0);
    }),
    ("scenarios left to a fallback", |s| {
        s.int("fallbacks", 5).int("fallback_rise", 2);
    }),
    ("nothing read but the quick set", |s| {
        s.double("quick_share", 1.0).double("unread_share", 1.0);
    }),
    ("far from every floor", |s| {
        s.double("floor_share_max", 0.2).double("floor_share_median", 0.06);
    }),
    ("a time below its floor", |s| {
        s.bool("below_floor", true).double("floor_share_max", 1.3).double("step_gain_max", 1.9);
    }),
    ("a measurement that cannot tell", |s| {
        s.double("aa_spread", 0.05).double("half_width_median", 0.06).int("unresolved", 9);
    }),
    ("a jump of everything", |s| {
        s.double("step_gain", 2.6)
            .double("step_gain_max", 3.4)
            .double("rose_share", 1.0)
            .bool("audited", true);
    }),
    ("a jump of one scenario that the aggregate hides", |s| {
        s.double("step_gain", 1.15).double("step_gain_max", 26.0).double("rose_share", 0.04);
        s.double("mean_over_median", 2.2);
    }),
    ("a jump that the audit doubts", |s| {
        s.double("step_gain", 1.8).bool("audited", true).bool("audit_flag", true).int("unproven", 3);
    }),
    ("no promotion for many evaluations", |s| {
        s.int("since_promotion", 13).int("minutes_since_promotion", 75);
    }),
    ("no promotion for hours", |s| {
        s.int("since_promotion", 4).int("minutes_since_promotion", 160);
    }),
    ("a best result that no longer rises", |s| {
        s.double("slope_10", 0.001);
    }),
    ("hypotheses about one layer only", |s| {
        s.int("layer_run", 7).int("layers_seen", 2);
    }),
    ("edits that come back", |s| {
        s.int("reverts", 4).double("duplicate_share", 0.4);
    }),
    ("an attempt to stop", |s| {
        s.int("stop_attempts", 1);
    }),
    ("a claimed limit", |s| {
        s.int("claims", 1).bool("limit_words", true);
    }),
    ("a claimed limit, said in other words", |s| {
        s.int("claims", 2);
    }),
    ("a failing scenario", |s| {
        s.int("failing", 1)
            .int("fail_streak", 1)
            .int("same_scenario_fails", 1)
            .double("error_ratio_max", 3.0);
    }),
    ("the same scenario failing again", |s| {
        s.int("failing", 1)
            .int("fail_streak", 4)
            .int("same_scenario_fails", 4)
            .double("error_ratio_max", 3.0);
    }),
    ("a failing scenario beside fallbacks", |s| {
        s.int("failing", 2).int("fail_streak", 1).int("fallbacks", 3).double("best_over_worst", 4.0);
    }),
    ("a failure that comes and goes", |s| {
        s.bool("intermittent", true).int("failing", 1).int("fail_streak", 1);
    }),
    ("a failure explained away", |s| {
        s.bool("excuse_words", true).int("failing", 1).int("fail_streak", 1);
    }),
    ("something sealed that is no longer what it was", |s| {
        s.bool("sealed_changed", true).int("held_out_misses", 2);
    }),
];

/// The healthy record with one thing planted, for each thing.
#[must_use]
pub fn planted() -> Vec<Planted> {
    PLANTS
        .iter()
        .map(|(what, plant)| {
            let mut signals = healthy();
            plant(&mut signals);
            Planted { what, signals }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_healthy_record_has_every_signal() {
        let healthy = healthy();
        let missing: Vec<_> =
            REGISTRY.iter().filter(|s| healthy.get(s.name).is_none()).map(|s| s.name).collect();
        assert_eq!(missing, Vec::<&str>::new());
        assert_eq!(healthy.iter().count(), REGISTRY.len());
    }

    #[test]
    fn every_plant_changes_the_record() {
        for plant in planted() {
            assert_ne!(plant.signals, healthy(), "{}", plant.what);
        }
    }
}
