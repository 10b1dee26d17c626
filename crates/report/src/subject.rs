//! Which evaluation a report shows, and what is in it.

use crate::gather::Material;
use crate::model::{Chosen, Subject};
use crate::words;
use kernelseek_campaign::{Evaluation, MODE, Scene};
use kernelseek_core::goal::Judgement;
use kernelseek_core::verdict::{Digest, ScenarioVerdict};
use std::cmp::Ordering;

/// Full evaluations that are looked at for one that met the goal.
const LOOKED_AT: usize = 50;

/// The subject with its judgement.
pub(crate) fn subject(material: &Material<'_>) -> Option<(Subject, Option<Judgement>)> {
    let (evaluation, chosen) = choose(material)?;
    let facts = &evaluation.facts;
    let read = material.scene.verdicts.digest(&facts.verdict);
    let judgement = material.scene.judge(evaluation).ok();
    let setting = (material.setting)(&facts.verdict);
    let (digest, unreadable) = match read {
        Ok(digest) => (Some(digest), None),
        Err(why) => (None, Some(why)),
    };
    let scenarios = digest.as_ref().map(worst_first).unwrap_or_default();
    let subject = Subject {
        row: evaluation.row,
        at_ms: evaluation.at_ms,
        chosen,
        meets: judgement.as_ref().is_some_and(|j| j.met),
        purpose: facts.purpose,
        tier: facts.tier.clone(),
        mode: facts.mode.clone(),
        word: facts.word,
        passed: facts.passed,
        trust: facts.trust,
        led: facts.led,
        candidate_hash: facts.candidate_hash.clone(),
        sources: facts.sources.clone(),
        counts: facts.counts,
        geomean: facts.geomean,
        with_ratio: scenarios.iter().filter(|s| s.ratio.is_some()).count(),
        unreadable,
        seed_hash: digest.as_ref().map(|d| d.seed_hash.clone()).unwrap_or_default(),
        problem_hash: digest.as_ref().map(|d| d.problem_hash.clone()).unwrap_or_default(),
        findings: digest.as_ref().map(|d| d.findings.clone()).unwrap_or_default(),
        held_out: digest.as_ref().and_then(|d| d.held_out.clone()),
        // Nothing measured is written as zero.
        aa_spread: digest.as_ref().map(|d| d.aa_spread).filter(|s| s.is_finite() && *s > 0.0),
        scenarios,
        setting,
    };
    Some((subject, judgement))
}

fn choose<'a>(material: &Material<'a>) -> Option<(&'a Evaluation, Chosen)> {
    let scene = &material.scene;
    let board = scene.board;
    let ended = board.ended.as_ref().filter(|e| e.what.met).and_then(|e| e.what.evaluated);
    if let Some(found) = ended.and_then(|row| board.evaluation(row)) {
        return Some((found, Chosen::Ended));
    }
    if material.decision.met
        && let Some(found) = material.current.and_then(|row| board.evaluation(row))
    {
        return Some((found, Chosen::Current));
    }
    if let Some(found) = met_before(scene) {
        return Some((found, Chosen::Earlier));
    }
    if let Some(promoted) = board.incumbent() {
        let full = board.current().rev().find(|e| {
            e.facts.candidate_hash == promoted.what.candidate_hash
                && is_full(e)
                && words::counts(e.facts.word)
        });
        if let Some(found) = full {
            return Some((found, Chosen::Incumbent));
        }
        if let Some(found) = board.evaluation(promoted.what.evaluated) {
            return Some((found, Chosen::Confirmation));
        }
    }
    let whole = board.attempts().rev().find(|e| e.facts.whole_grid);
    whole.map(|e| (e, Chosen::WholeGrid)).or_else(|| board.attempts().next_back().map(|e| (e, Chosen::Last)))
}

fn is_full(e: &Evaluation) -> bool {
    e.facts.tier == "full" && e.facts.whole_grid && e.facts.mode == MODE
}

/// The newest full evaluation that meets the goal, unless a newer one of the same candidate failed.
fn met_before<'a>(scene: &Scene<'a>) -> Option<&'a Evaluation> {
    let board = scene.board;
    let found = board
        .current()
        .rev()
        .filter(|e| is_full(e) && words::counts(e.facts.word))
        .take(LOOKED_AT)
        .find(|e| scene.judge(e).is_ok_and(|j| j.met))?;
    let refuted = board.current().any(|e| {
        e.row > found.row
            && e.facts.candidate_hash == found.facts.candidate_hash
            && !words::counts(e.facts.word)
    });
    (!refuted).then_some(found)
}

/// What is wrong first, then what gains least, then by name.
fn worst_first(digest: &Digest) -> Vec<ScenarioVerdict> {
    let point = |s: &ScenarioVerdict| s.ratio.map_or(f64::NEG_INFINITY, |r| r.point);
    let order = |a: &ScenarioVerdict, b: &ScenarioVerdict| -> Ordering {
        b.word.cmp(&a.word).then(point(a).total_cmp(&point(b))).then_with(|| a.id.cmp(&b.id))
    };
    let mut scenarios = digest.scenarios.clone();
    scenarios.sort_by(order);
    scenarios
}
