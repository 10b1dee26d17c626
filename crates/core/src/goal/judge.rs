//! Judging a goal. Pure: the same evidence gives the same judgement, and every miss is named.

use super::{Clause, Goal, Metric, Quantifier, blockers};
use crate::expression::Evaluator;
use crate::finding::{Finding, Severity};
use crate::value::Value;
use crate::verdict::{self, HeldOut, Ratio, ScenarioVerdict, Stage, Trust, Word};
use crate::wording::counted;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a goal is judged from: one evaluation of the current candidate.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// Whether it was a `--full` evaluation; no other satisfies a goal.
    pub full: bool,
    /// Whether it was measured as goals are: caches cold, and on a GPU the device's time alone.
    pub usual: bool,
    /// The verdict's word.
    pub word: Word,
    /// The last stage that the candidate as a whole passed.
    pub passed: Stage,
    /// How much of the trust model held.
    pub trust: Trust,
    /// Findings about the candidate as a whole.
    pub findings: &'a [Finding],
    /// Verdicts on scenarios.
    pub scenarios: &'a [ScenarioVerdict],
    /// Held-out scenarios.
    pub held_out: Option<&'a HeldOut>,
    /// Ratios to baselines, by baseline and scenario.
    pub baselines: &'a BTreeMap<String, BTreeMap<String, Ratio>>,
}

/// One scenario of the sealed grid.
#[derive(Debug, Clone, PartialEq)]
pub struct GridScenario {
    /// Id.
    pub id: String,
    /// Field values, for conditions.
    pub values: BTreeMap<String, Value>,
    /// Tags, for conditions.
    pub tags: Vec<String>,
}

/// The sealed grid: what *every* means.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Grid {
    /// Its scenarios.
    pub scenarios: Vec<GridScenario>,
}

/// Why a scenario misses a clause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MissReason {
    /// There is no verdict on it.
    NotEvaluated,
    /// Its outputs are wrong, or it failed otherwise.
    Failed,
    /// An anomaly is not cleared.
    Unproven,
    /// The fallback ran it.
    Fallback,
    /// It has no ratio.
    NoRatio,
    /// Its numbers are none.
    NotANumber,
    /// The interval is too wide to tell.
    Unresolved,
    /// It is told, and below.
    Below,
    /// The clause's condition cannot be evaluated on it.
    Condition,
}

/// One scenario that misses a clause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Miss {
    /// Scenario id; empty for a miss of the candidate as a whole.
    pub scenario: String,
    /// Why.
    pub reason: MissReason,
    /// Value reached, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
    /// Value needed, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// In words, with how far it is.
    pub message: String,
}

impl Miss {
    fn new(scenario: &str, reason: MissReason, message: impl Into<String>) -> Self {
        Self { scenario: scenario.to_owned(), reason, reached: None, needed: None, message: message.into() }
    }

    /// Share of the needed value that is reached; 0 where nothing was.
    #[must_use]
    pub fn reached_share(&self) -> f64 {
        match (self.reached, self.needed) {
            (Some(r), Some(n)) if n > 0.0 && r.is_finite() => (r / n).clamp(0.0, 1.0),
            _ => 0.0,
        }
    }
}

/// A clause, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClauseJudgement {
    /// The clause as it is written.
    pub clause: String,
    /// Whether it is met.
    pub met: bool,
    /// Value reached: a lower bound, a count, a rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<f64>,
    /// Value needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<f64>,
    /// Scenarios that satisfy it.
    pub satisfied: usize,
    /// Scenarios that it is about.
    pub of: usize,
    /// Scenarios that do not, the farthest first.
    pub misses: Vec<Miss>,
}

/// What stands in the way whatever the clauses say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocker {
    /// What.
    pub message: String,
    /// The one next step.
    pub next: String,
}

impl Blocker {
    pub(super) fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { message: message.into(), next: next.into() }
    }
}

/// A goal, judged.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Whether it is met: no blocker, and every clause met.
    pub met: bool,
    /// What stands in the way whatever the clauses say.
    pub blockers: Vec<Blocker>,
    /// The clauses in order.
    pub clauses: Vec<ClauseJudgement>,
    /// Warnings about the goal itself.
    pub warnings: Vec<String>,
}

impl Judgement {
    /// Clauses that are not met.
    pub fn unmet(&self) -> impl Iterator<Item = &ClauseJudgement> {
        self.clauses.iter().filter(|c| !c.met)
    }

    /// Every scenario that a clause names, the farthest first, each once.
    #[must_use]
    pub fn missing_scenarios(&self) -> Vec<&Miss> {
        let mut seen = BTreeSet::new();
        let mut misses: Vec<&Miss> = self.unmet().flat_map(|c| &c.misses).collect();
        misses.sort_by(|a, b| order(a, b));
        misses.retain(|m| !m.scenario.is_empty() && seen.insert(m.scenario.clone()));
        misses
    }
}

/// Farthest first; then what is worse; then by name, so that two judgements never differ in order.
fn order(a: &Miss, b: &Miss) -> std::cmp::Ordering {
    a.reached_share()
        .total_cmp(&b.reached_share())
        .then(a.reason.cmp(&b.reason))
        .then_with(|| a.scenario.cmp(&b.scenario))
}

impl Goal {
    /// Judges `evidence` on `grid`.
    #[must_use]
    pub fn judge(&self, grid: &Grid, evidence: &Evidence<'_>) -> Judgement {
        let table = Table::of(evidence.scenarios);
        let mut blockers = blockers::of(self, grid, evidence, &table);
        if grid.scenarios.is_empty() {
            blockers.push(Blocker::new("the sealed grid has no scenario", "seal a problem with scenarios"));
        }
        let clauses: Vec<ClauseJudgement> =
            self.clauses.iter().map(|c| self.clause(c, grid, evidence, &table)).collect();
        Judgement {
            met: blockers.is_empty() && !clauses.is_empty() && clauses.iter().all(|c| c.met),
            blockers,
            clauses,
            warnings: self.warnings(),
        }
    }

    /// What keeps clauses from ever being judged on `grid`: conditions that fail or select nothing, more scenarios than
    /// there are. Known before anything is measured, so that it is not found out at the end.
    #[must_use]
    pub fn faults(&self, grid: &Grid) -> Vec<String> {
        let mut faults = Vec::new();
        for clause in &self.clauses {
            let (ids, misses) = scope(clause, grid);
            if let Some(miss) = misses.first() {
                faults.push(format!("`{}`: on scenario `{}` {}", clause.text, miss.scenario, miss.message));
            } else if ids.is_empty() {
                faults.push(format!("`{}`: its condition selects no scenario", clause.text));
            } else if let Quantifier::AtLeast(n) = clause.quantifier
                && n > ids.len()
            {
                faults.push(format!("`{}`: it is about {}", clause.text, counted(ids.len(), "scenario")));
            }
        }
        faults
    }

    fn clause(
        &self,
        clause: &Clause,
        grid: &Grid,
        evidence: &Evidence<'_>,
        table: &Table<'_>,
    ) -> ClauseJudgement {
        let (scope, mut misses) = scope(clause, grid);
        let of = scope.len() + misses.len();
        let mut judged = ClauseJudgement {
            clause: clause.text.clone(),
            met: false,
            reached: None,
            needed: None,
            satisfied: 0,
            of,
            misses: Vec::new(),
        };
        if of == 0 {
            judged.misses.push(Miss::new("", MissReason::Condition, "its condition selects no scenario"));
            return judged;
        }
        match &clause.metric {
            Metric::Constraints => {
                let broken: Vec<&Finding> = evidence
                    .findings
                    .iter()
                    .filter(|f| f.severity >= Severity::Unproven && f.defence.starts_with("allowed."))
                    .collect();
                misses.extend(
                    broken
                        .iter()
                        .map(|f| Miss::new("", MissReason::Failed, format!("{} ({})", f.message, f.defence))),
                );
                if broken.is_empty() && evidence.passed < Stage::Allowed {
                    misses.push(Miss::new("", MissReason::NotEvaluated, "the binary was not inspected"));
                }
                judged.met = misses.is_empty();
                judged.satisfied = if judged.met { of } else { 0 };
            }
            Metric::HeldOutGap { threshold } => {
                judged.needed = Some(*threshold);
                judged.reached = evidence.held_out.and_then(|h| h.gap).filter(|g| g.is_finite());
                match judged.reached {
                    Some(gap) if gap <= *threshold => judged.satisfied = of,
                    Some(gap) => misses.push(Miss::new(
                        "",
                        MissReason::Below,
                        format!("the gap is {:.1} %, at most {:.1} % asked", 100.0 * gap, 100.0 * threshold),
                    )),
                    None => misses.push(Miss::new(
                        "",
                        MissReason::NotEvaluated,
                        "no held-out scenarios were measured",
                    )),
                }
                judged.met = misses.is_empty();
            }
            Metric::FallbackRate { threshold } => {
                judged.needed = Some(*threshold);
                for id in &scope {
                    match table.get(id) {
                        Found::One(s) if s.fallback => {
                            misses.push(Miss::new(id, MissReason::Fallback, "the fallback runs it"));
                        }
                        Found::One(_) => judged.satisfied += 1,
                        other => misses.push(other.absent(id)),
                    }
                }
                let rate = 1.0 - judged.satisfied as f64 / of as f64;
                judged.reached = Some(rate);
                judged.met = rate <= *threshold && misses.iter().all(|m| m.reason == MissReason::Fallback);
            }
            Metric::Correct | Metric::Speedup { .. } => {
                self.scenario_wise(clause, &scope, evidence, table, &mut judged, &mut misses);
            }
        }
        misses.sort_by(order);
        judged.misses = if judged.met { Vec::new() } else { misses };
        judged
    }

    fn scenario_wise(
        &self,
        clause: &Clause,
        scope: &[&str],
        evidence: &Evidence<'_>,
        table: &Table<'_>,
        judged: &mut ClauseJudgement,
        misses: &mut Vec<Miss>,
    ) {
        let mut ratios = Vec::new();
        for id in scope {
            let outcome = match table.get(id) {
                Found::One(s) => match &clause.metric {
                    Metric::Speedup { threshold, against } => {
                        speedup(self, clause, s, *threshold, against, evidence)
                            .inspect(|r| ratios.push(*r))
                            .map(|_| ())
                    }
                    _ => correct(clause, s),
                },
                other => Err(other.absent(id)),
            };
            match outcome {
                Ok(()) => judged.satisfied += 1,
                Err(miss) => misses.push(miss),
            }
        }
        let needed = match clause.quantifier {
            Quantifier::Every => judged.of,
            Quantifier::AtLeast(n) => n,
            Quantifier::AtLeastShare(share) => (share * judged.of as f64 - 1e-9).ceil().max(1.0) as usize,
            Quantifier::Geomean => {
                let Metric::Speedup { threshold, .. } = clause.metric else { return };
                geomean(&ratios, threshold, self.margin, judged, misses);
                return;
            }
        };
        judged.reached = Some(judged.satisfied as f64);
        judged.needed = Some(needed as f64);
        judged.met = judged.satisfied >= needed;
        if needed > judged.of {
            misses.push(Miss::new(
                "",
                MissReason::Condition,
                format!("it asks for {needed} scenarios and is about {}", judged.of),
            ));
        }
    }
}

fn geomean(
    ratios: &[Ratio],
    threshold: f64,
    margin: f64,
    judged: &mut ClauseJudgement,
    misses: &mut Vec<Miss>,
) {
    judged.needed = Some(threshold);
    // A mean over what happens to be there would be met by leaving the slow ones out.
    let whole = misses.is_empty();
    let Some(mean) = verdict::geomean(ratios).filter(sound) else {
        if whole {
            misses.push(Miss::new("", MissReason::NoRatio, "no scenario has a ratio"));
        }
        return;
    };
    judged.reached = Some(mean.lo);
    if mean.lo >= threshold {
        judged.met = whole;
        return;
    }
    let unresolved = mean.hi >= threshold && mean.half_width() > margin;
    let mut miss = Miss::new(
        "",
        if unresolved { MissReason::Unresolved } else { MissReason::Below },
        format!(
            "the lower bound of the mean over {} is {:.3}×, {:.3}× asked ({:.1} % to go)",
            counted(ratios.len(), "scenario"),
            mean.lo,
            threshold,
            100.0 * (threshold / mean.lo - 1.0)
        ),
    );
    (miss.reached, miss.needed) = (Some(mean.lo), Some(threshold));
    misses.push(miss);
}

fn correct(clause: &Clause, s: &ScenarioVerdict) -> Result<(), Miss> {
    if s.fallback && !clause.allow_fallback {
        return Err(Miss::new(
            &s.id,
            MissReason::Fallback,
            "the candidate declines it and the fallback runs",
        ));
    }
    match s.word {
        Word::Pass | Word::Unresolved if s.passed >= Stage::Correct => Ok(()),
        Word::Unproven if s.passed >= Stage::Correct => {
            Err(Miss::new(&s.id, MissReason::Unproven, why(s, "unproven")))
        }
        Word::Unproven => Err(Miss::new(&s.id, MissReason::Unproven, why(s, "not proven correct"))),
        _ => Err(failed(s)),
    }
}

fn failed(s: &ScenarioVerdict) -> Miss {
    let mut message = why(s, "fails");
    let mut miss = Miss::new(&s.id, MissReason::Failed, "");
    if let Some(error) = s.worst_error.as_ref().filter(|e| e.ratio > 1.0) {
        message = if error.ratio < 1e5 {
            format!("{message}; its error is {:.1} × what is allowed", error.ratio)
        } else {
            format!("{message}; its error is {:.0e} × what is allowed", error.ratio)
        };
        (miss.reached, miss.needed) = (Some(1.0 / error.ratio), Some(1.0));
    }
    miss.message = message;
    miss
}

/// The scenario's worst finding in words.
fn why(s: &ScenarioVerdict, otherwise: &str) -> String {
    s.findings
        .iter()
        .rev()
        .max_by_key(|f| f.severity)
        .filter(|f| f.severity >= Severity::Unproven)
        .map_or_else(|| otherwise.to_owned(), |f| format!("{} ({})", f.message, f.defence))
}

/// Ends of an interval that are farther apart than this are no measurement.
const WIDEST: f64 = 1e6;

/// Whether a ratio's numbers are numbers, in order, and an interval that something was measured by.
fn sound(r: &Ratio) -> bool {
    [r.point, r.lo, r.hi].iter().all(|x| x.is_finite() && *x > 0.0)
        && r.lo <= r.point
        && r.point <= r.hi
        && r.hi / r.lo <= WIDEST
}

/// The ratio if the scenario satisfies the clause. For a geomean the threshold is on the mean, so any sound ratio of a
/// correct scenario will do.
fn speedup(
    goal: &Goal,
    clause: &Clause,
    s: &ScenarioVerdict,
    threshold: f64,
    against: &str,
    evidence: &Evidence<'_>,
) -> Result<Ratio, Miss> {
    if s.fallback && !clause.allow_fallback {
        return Err(Miss::new(
            &s.id,
            MissReason::Fallback,
            "the candidate declines it and the fallback runs",
        ));
    }
    match s.word {
        Word::Pass | Word::Unresolved => {}
        Word::Unproven => return Err(Miss::new(&s.id, MissReason::Unproven, why(s, "unproven"))),
        _ => return Err(failed(s)),
    }
    let ratio = if against == "seed" {
        s.ratio
    } else {
        evidence.baselines.get(against).and_then(|b| b.get(&s.id)).copied()
    };
    let Some(ratio) = ratio else {
        return Err(Miss::new(&s.id, MissReason::NoRatio, format!("it has no ratio to `{against}`")));
    };
    if !sound(&ratio) {
        return Err(Miss::new(&s.id, MissReason::NotANumber, "its ratio is not a number"));
    }
    if clause.quantifier == Quantifier::Geomean || ratio.lo >= threshold {
        return Ok(ratio);
    }
    let interval = format!("{:.3}× [{:.3}, {:.3}]", ratio.point, ratio.lo, ratio.hi);
    let unresolved = ratio.hi >= threshold && ratio.half_width() > goal.margin;
    let (reason, message) = if unresolved {
        (MissReason::Unresolved, format!("{interval} is too wide to tell whether it reaches {threshold:.3}×"))
    } else {
        let far = 100.0 * (threshold / ratio.lo - 1.0);
        (
            MissReason::Below,
            format!("{interval}, {threshold:.3}× asked of the lower bound ({far:.1} % to go)"),
        )
    };
    let mut miss = Miss::new(&s.id, reason, message);
    (miss.reached, miss.needed) = (Some(ratio.lo), Some(threshold));
    Err(miss)
}

/// Scenarios of the grid that a clause is about, and those on which its condition fails.
pub(super) fn scope<'g>(clause: &Clause, grid: &'g Grid) -> (Vec<&'g str>, Vec<Miss>) {
    let Some(condition) = &clause.condition else {
        return (grid.scenarios.iter().map(|s| s.id.as_str()).collect(), Vec::new());
    };
    let (mut ids, mut misses) = (Vec::new(), Vec::new());
    for scenario in &grid.scenarios {
        let value = Evaluator::new().and_then(|mut evaluator| {
            for (name, value) in &scenario.values {
                evaluator.set(name, value);
            }
            evaluator.set("id", &Value::String(scenario.id.clone()));
            evaluator.set("tags", &Value::List(scenario.tags.iter().cloned().map(Value::String).collect()));
            evaluator.evaluate(condition)
        });
        match value {
            Ok(Value::Bool(true)) => ids.push(scenario.id.as_str()),
            Ok(Value::Bool(false)) => {}
            Ok(other) => misses.push(Miss::new(
                &scenario.id,
                MissReason::Condition,
                format!("the condition gives {}, not true or false", other.kind()),
            )),
            Err(e) => misses.push(Miss::new(
                &scenario.id,
                MissReason::Condition,
                format!("the condition fails: {e}"),
            )),
        }
    }
    (ids, misses)
}

/// Verdicts by scenario; an id that stands twice is as good as none.
pub(super) struct Table<'a> {
    by_id: BTreeMap<&'a str, &'a ScenarioVerdict>,
    pub(super) twice: BTreeSet<&'a str>,
}

enum Found<'a> {
    One(&'a ScenarioVerdict),
    Twice,
    None,
}

impl Found<'_> {
    fn absent(&self, id: &str) -> Miss {
        let message =
            if matches!(self, Self::Twice) { "it has two verdicts" } else { "it was not evaluated" };
        Miss::new(id, MissReason::NotEvaluated, message)
    }
}

impl<'a> Table<'a> {
    fn of(scenarios: &'a [ScenarioVerdict]) -> Self {
        let mut table = Self { by_id: BTreeMap::new(), twice: BTreeSet::new() };
        for s in scenarios {
            if table.by_id.insert(&s.id, s).is_some() {
                table.twice.insert(&s.id);
            }
        }
        table
    }
    fn get(&self, id: &str) -> Found<'a> {
        if self.twice.contains(id) {
            return Found::Twice;
        }
        self.by_id.get(id).map_or(Found::None, |s| Found::One(s))
    }
}
