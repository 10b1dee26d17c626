//! Signals: what the triggers of questions read, all of it from the ledger.
//!
//! A signal that cannot be known (no floor without a cost model, no ratio without a correct run) is left out, and a
//! question that needs it is not asked.

use crate::board::{Board, Evaluation};
use crate::detect;
use crate::machine::{Scene, View};
use crate::words;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::goal::{Evidence, Metric};
use kernelseek_core::verdict::{Digest, ScenarioVerdict, Trust, Word};
use kernelseek_questions::Signals;
use std::collections::{BTreeMap, BTreeSet};

const WINDOW: usize = 10;
const EDITS: usize = 20;

/// Every signal that can be known.
#[must_use]
pub fn signals(scene: &Scene<'_>, view: &View) -> Signals {
    let mut out = Signals::default();
    conduct(scene, &mut out);
    truth(scene, view, &mut out);
    if let Some(last) = &view.last {
        score(scene, view, last, &mut out);
        physics(last, &mut out);
    }
    hygiene(scene.board, view, &mut out);
    out
}

fn int(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn conduct(scene: &Scene<'_>, out: &mut Signals) {
    let board = scene.board;
    let step = board.last_step();
    let attempts: Vec<&Evaluation> = board.attempts().collect();
    out.int("evaluations", int(attempts.len()));
    out.int("since_promotion", int(attempts.iter().filter(|e| e.row > step).count()));
    let era = board.era();
    out.int("promotions", int(board.promotions.iter().filter(|p| p.row > era).count()));
    out.int("stop_attempts", int(board.stops.iter().filter(|s| s.row > step && !s.what.allowed).count()));
    out.int("reverts", int(detect::reverts(board)));
    out.int("layer_run", int(detect::layer_run(board)));
    let layers: BTreeSet<_> =
        board.hypotheses.iter().rev().take(WINDOW).filter_map(|h| h.what.layer).collect();
    out.int("layers_seen", int(layers.len()));
    out.int("hypotheses", int(board.hypotheses.len()));
    let stated = board.hypotheses.last().map_or(0, |h| h.row);
    out.int("edits_without_hypothesis", int(attempts.iter().filter(|e| e.row > stated).count()));
    out.int("person_questions", i64::try_from(board.person_questions).unwrap_or(i64::MAX));
    out.int("minutes_since_promotion", detect::active_ms(board, board.last_step_ms()) / 60_000);
    let texts: Vec<&str> = board.words().filter(|(row, _)| *row > step).map(|(_, text)| text).collect();
    out.int("claims", int(texts.iter().filter(|t| words::limits(t)).count()));
    out.bool("limit_words", texts.iter().any(|t| words::limits(t)));
    out.bool("excuse_words", texts.iter().any(|t| words::excuses(t)));
    let recent = &attempts[attempts.len().saturating_sub(WINDOW)..];
    if !recent.is_empty() {
        let n = recent.len() as f64;
        out.double("quick_share", recent.iter().filter(|e| e.facts.tier == "quick").count() as f64 / n);
        out.double("unread_share", recent.iter().filter(|e| !e.facts.whole_grid).count() as f64 / n);
    }
    let edits = attempts.iter().rev().take(EDITS).filter_map(|e| e.facts.edit);
    let (added, repeated) = edits.fold((0, 0), |(a, r), e| (a + e.added, r + e.repeated));
    if added > 0 {
        out.double("duplicate_share", repeated as f64 / added as f64);
    }
    if let Some(gain) = detect::slope(board) {
        out.double("slope_10", gain);
    }
}

fn truth(scene: &Scene<'_>, view: &View, out: &mut Signals) {
    let board = scene.board;
    let last = board.attempts().next_back();
    if let Some(last) = last {
        out.int("unproven", int(last.facts.counts.unproven));
        out.int("unresolved", int(last.facts.counts.unresolved));
        out.int("fallbacks", int(last.facts.counts.fallbacks));
        out.bool("reduced_trust", last.facts.trust == Trust::Reduced);
    }
    // A scenario that failed goes on failing until it is seen to pass, however many evaluations leave it out.
    let open = detect::open_break(scene).map_or(0, |(_, failing)| failing.len());
    if last.is_some() {
        out.int("failing", int(open));
    }
    let streak: Vec<&Evaluation> =
        board.attempts().rev().take_while(|e| !e.facts.failing.is_empty()).collect();
    out.int("fail_streak", int(streak.len()));
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for e in streak {
        for id in &e.facts.failing {
            seen.entry(id).or_default().insert(&e.facts.candidate_hash);
        }
    }
    out.int("same_scenario_fails", int(seen.values().map(BTreeSet::len).max().unwrap_or(0)));
    out.bool("intermittent", detect::intermittent(board).is_some());
    out.int("full_runs", int(board.current().filter(|e| e.facts.tier == "full").count()));
    let resealed = board.seals.len() > 1
        && board.seal().is_some_and(|s| s.what.changed.iter().any(|c| detect::JUDGING.contains(&c.as_str())));
    out.bool("sealed_changed", resealed);
    let held_out = view.last.as_ref().and_then(|d| d.held_out.as_ref());
    out.int("held_out_misses", held_out.map_or(0, |h| int(h.drawn.saturating_sub(h.passed))));
    out.bool("no_held_out", view.last.as_ref().is_some_and(|d| d.tier == "full") && held_out.is_none());
    if let Some(digest) = &view.last {
        out.bool("audited", digest.scenarios.iter().any(|s| s.audited));
        // A clean audit leaves a note.
        let flagged = |f: &Finding| f.defence.starts_with("audit.") && f.severity >= Severity::Unproven;
        out.bool(
            "audit_flag",
            digest.findings.iter().any(flagged)
                || digest.scenarios.iter().any(|s| s.findings.iter().any(flagged)),
        );
        let worst = |d: &Digest| {
            d.scenarios
                .iter()
                .filter_map(|s| s.worst_error.as_ref())
                .map(|e| e.ratio)
                .fold(f64::NAN, f64::max)
        };
        out.double("error_ratio_max", worst(digest));
        if let Some(before) = &view.before {
            out.double("error_ratio_rise", worst(digest) / worst(before));
            let fallbacks = |d: &Digest| d.scenarios.iter().filter(|s| s.fallback).count();
            out.int("fallback_rise", int(fallbacks(digest)) - int(fallbacks(before)));
        }
    }
}

/// Ratios of scenarios that have one, with their seed times.
fn ratios(digest: &Digest) -> Vec<(&ScenarioVerdict, f64)> {
    digest
        .scenarios
        .iter()
        .filter_map(|s| Some((s, s.ratio?.point)))
        .filter(|(_, r)| r.is_finite() && *r > 0.0)
        .collect()
}

fn geomean(values: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    if logs.is_empty() { f64::NAN } else { (logs.iter().sum::<f64>() / logs.len() as f64).exp() }
}

fn score(scene: &Scene<'_>, view: &View, last: &Digest, out: &mut Signals) {
    out.int("scenarios", int(scene.grid.scenarios.len()));
    out.bool("has_incumbent", view.incumbent.is_some());
    let incumbent = view.incumbent.as_ref().and_then(|d| d.geomean).map_or(1.0, |g| g.point);
    out.double("geomean", incumbent);
    let (aggregate, largest) = detect::gains(last, view.before.as_ref());
    out.double("step_gain", aggregate.unwrap_or(f64::NAN));
    out.double("step_gain_max", largest.map_or(f64::NAN, |(_, g)| g));
    let (mut rose, mut compared) = (0usize, 0usize);
    for (s, now) in ratios(last) {
        let then = match &view.before {
            None => Some(1.0),
            Some(d) => d.scenario(&s.id).and_then(|b| b.ratio).map(|r| r.point),
        };
        if let Some(then) = then {
            compared += 1;
            rose += usize::from(now > then);
        }
    }
    if compared > 0 {
        out.double("rose_share", rose as f64 / compared as f64);
    }
    // The distribution is that of what stands: the incumbent, or the last attempt while there is none.
    let standing = view.incumbent.as_ref().unwrap_or(last);
    distribution(standing, out);
    goal(scene, standing, out);
}

fn distribution(digest: &Digest, out: &mut Signals) {
    let mut all = ratios(digest);
    if all.len() < 2 {
        return;
    }
    all.sort_by(|a, b| a.1.total_cmp(&b.1));
    let points: Vec<f64> = all.iter().map(|(_, r)| *r).collect();
    let (worst, best) = (points[0], points[points.len() - 1]);
    let mean = geomean(points.iter().copied());
    out.double("worst_ratio", worst);
    out.double("worst_over_geomean", worst / mean);
    out.double("best_over_worst", best / worst);
    let arithmetic = points.iter().sum::<f64>() / points.len() as f64;
    out.double("mean_over_median", arithmetic / points[points.len() / 2]);
    // Shortfall: how far each scenario stays behind the best one, on the logarithm.
    let short: Vec<f64> = points.iter().map(|p| (best / p).ln()).collect();
    let total: f64 = short.iter().sum();
    let fifth = points.len().div_ceil(5);
    if total > 0.0 {
        out.double("top_fifth_shortfall", short[..fifth].iter().sum::<f64>() / total);
    }
    let mut by_time: Vec<(f64, f64)> = all.iter().filter_map(|(s, r)| Some((s.seed_ns?, *r))).collect();
    by_time.sort_by(|a, b| a.0.total_cmp(&b.0));
    let quarter = by_time.len() / 4;
    if quarter > 0 {
        let small = geomean(by_time[..quarter].iter().map(|(_, r)| *r));
        let large = geomean(by_time[by_time.len() - quarter..].iter().map(|(_, r)| *r));
        out.double("small_over_large", small / large);
    }
}

fn goal(scene: &Scene<'_>, digest: &Digest, out: &mut Signals) {
    let baselines = BTreeMap::new();
    // The tier is not what is asked about here, only what is reached.
    let evidence = Evidence { full: true, ..digest.evidence(&baselines) };
    let judgement = scene.file.goal.judge(scene.grid, &evidence);
    out.int("below_goal", int(judgement.missing_scenarios().len()));
    let speed = scene.file.goal.clauses.iter().zip(&judgement.clauses);
    let distance = speed
        .filter(|(clause, judged)| matches!(clause.metric, Metric::Speedup { .. }) && !judged.met)
        .flat_map(|(_, judged)| judged.misses.iter().map(|m| 1.0 - m.reached_share()))
        .fold(0.0, f64::max);
    out.double("goal_distance", distance);
}

fn physics(last: &Digest, out: &mut Signals) {
    let mut shares: Vec<f64> = last
        .scenarios
        .iter()
        .filter_map(|s| Some(s.floor_ns? / s.candidate_ns?))
        .filter(|x| x.is_finite() && *x > 0.0)
        .collect();
    shares.sort_by(f64::total_cmp);
    out.bool("no_cost_model", shares.is_empty());
    out.bool("below_floor", detect::below_floor(last).is_some());
    if let Some(max) = shares.last() {
        out.double("floor_share_max", *max);
        out.double("floor_share_median", shares[shares.len() / 2]);
    }
    let largest = |value: &dyn Fn(&ScenarioVerdict) -> Option<f64>| {
        last.scenarios
            .iter()
            .filter_map(|s| Some(value(s)? / s.candidate_ns.filter(|c| *c > 0.0)?))
            .fold(f64::NAN, f64::max)
    };
    out.double("first_over_steady", largest(&|s| s.first_call_ns));
    out.double("prepare_over_call", largest(&|s| s.prepare_ns));
}

fn hygiene(board: &Board, view: &View, out: &mut Signals) {
    if let Some(digest) = &view.last {
        out.double("aa_spread", digest.aa_spread);
        let mut widths: Vec<f64> =
            digest.scenarios.iter().filter_map(|s| Some(s.ratio?.half_width())).collect();
        widths.retain(|w| w.is_finite());
        widths.sort_by(f64::total_cmp);
        if !widths.is_empty() {
            out.double("half_width_median", widths[widths.len() / 2]);
        }
    }
    // Promotions after which no step was checked: the confirming evaluation stands alone.
    let unchecked = board
        .promotions
        .iter()
        .rev()
        .take_while(|p| board.evaluation(p.what.evaluated).is_some_and(|e| e.facts.word != Word::Pass))
        .count();
    out.int("promotions_without_step_check", int(unchecked));
}
