//! Held-out scenarios of `--full`: drawn, measured, and told of as classes and counts.

use crate::alike;
use crate::evaluate::{EvaluateError, Verdict, measure_all};
use crate::event::{Event, Sink};
use crate::judge::{self, Terms};
use crate::measure::Measurer;
use crate::session::{Session, SessionError};
use kernelseek_core::case::Case;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::scenario::Scenario;
use kernelseek_core::verdict::{self, HeldOut, Ratio, ScenarioVerdict, Word};
use kernelseek_device::peaks::Peaks;
use std::collections::BTreeMap;

/// What was drawn.
#[derive(Debug)]
pub struct HeldOutCases {
    /// The cases.
    pub cases: Vec<Case>,
    /// For each of them, by id, the id of the listed scenario that it was drawn from.
    pub bases: BTreeMap<String, String>,
}

impl Session {
    /// Freshly drawn held-out cases, if the problem has a rule for them.
    ///
    /// # Errors
    /// When the rule cannot be satisfied.
    pub fn held_out(&self) -> Result<Option<HeldOutCases>, SessionError> {
        let Some(rule) = &self.files.problem.held_out else { return Ok(None) };
        let mut dice = crate::dice::Dice::new(&self.settings.secret, "held-out");
        let drawn = kernelseek_core::held_out::draw(
            &self.files.problem,
            &self.files.scenarios,
            dice.bits(),
            rule.share,
        )
        .map_err(|e| SessionError::HeldOut(e.to_string()))?;
        // A drawn scenario keeps the line of the one that it was drawn from.
        let base = |of: &Scenario| {
            let same = |s: &&Scenario| s.line == of.line && s.source.name() == of.source.name();
            self.files.scenarios.iter().find(same).map(|s| s.id.clone()).unwrap_or_default()
        };
        let bases = drawn.iter().map(|s| (s.id.clone(), base(s))).collect();
        Ok(Some(HeldOutCases { cases: self.files.resolve(&drawn)?, bases }))
    }
}

/// Draws and measures them, and adds what they say to the verdict.
pub(crate) fn look(
    verdict: &mut Verdict,
    measurer: &mut Measurer<'_>,
    session: &Session,
    terms: &dyn Fn(&str) -> Terms,
    sink: &mut dyn Sink,
) -> Result<(), EvaluateError> {
    let Some(HeldOutCases { cases, bases }) = session.held_out()? else {
        verdict.notes.push("the problem declares no held-out scenarios".to_owned());
        return Ok(());
    };
    sink.on(&Event::HeldOut { drawn: cases.len() });
    measurer.label = "held-out";
    measurer.stream = crate::dice::key(&measurer.settings.secret, "held-out");
    let states = measure_all(measurer, cases, None, sink)?;
    let judge = |peaks: Option<Peaks>| -> Vec<ScenarioVerdict> {
        let with = |terms: Terms| Terms { peaks: peaks.unwrap_or(terms.peaks), ..terms };
        let mut judged: Vec<_> =
            states.iter().map(|s| judge::scenario(s, &with(terms(&s.case.id)))).collect();
        alike::relate(&states, &mut judged, measurer.settings.effort.confidence);
        judged
    };
    let mut judged = judge(None);
    // A machine that was busy when its peaks were taken must not condemn here either.
    if judged.iter().any(|s| s.findings.iter().any(|f| f.defence == "plausible.floor")) {
        judged = judge(Some(session.measure_peaks(sink)));
    }
    let held_out = summarise(&judged, &bases, &verdict.scenarios);
    verdict.findings.extend(missed(&held_out, &judged));
    if let (Some(gap), Some(rule)) = (held_out.gap, session.files.problem.held_out.as_ref())
        && gap > rule.max_gap
    {
        verdict.findings.push(
            Finding::new(
                "timed.held-out-gap",
                Severity::Unproven,
                "held-out scenarios gain less than those that they were drawn from",
            )
            .with_evidence(format!("gap {:.1} %, allowed {:.1} %", 100.0 * gap, 100.0 * rule.max_gap))
            .with_next("find the special case that the listed shapes hit and the others miss"),
        );
    }
    verdict.held_out = Some(held_out);
    Ok(())
}

/// A finding where some did not pass.
fn missed(held_out: &HeldOut, judged: &[ScenarioVerdict]) -> Option<Finding> {
    if held_out.passed >= held_out.drawn {
        return None;
    }
    let finding = if judged.iter().any(|s| s.word == Word::Fail) {
        Finding::new("correct.held-out", Severity::Fail, "held-out scenarios fail")
    } else {
        Finding::new("timed.held-out", Severity::Unproven, "held-out scenarios are not proven")
    };
    let classes: Vec<String> = held_out.misses.iter().map(|(id, n)| format!("{id}: {n}")).collect();
    let missed = held_out.drawn - held_out.passed;
    Some(
        finding
            .with_evidence(format!("{missed} of {} drawn; {}", held_out.drawn, classes.join(", ")))
            .with_next(if held_out.misses.iter().all(|(id, _)| !id.starts_with("correct.")) {
                "evaluate again when the machine is quieter; if it stays, look at shapes beside the listed ones"
            } else {
                "do not tune to the listed shapes: test lengths between and beside them"
            }),
    )
}

/// What is told of held-out scenarios: classes and counts, and how much more the scenarios gain that they were drawn from. Not
/// all visible ones: what a kernel gains differs from shape to shape by more than any special case would show.
fn summarise(
    judged: &[ScenarioVerdict],
    bases: &BTreeMap<String, String>,
    visible: &[ScenarioVerdict],
) -> HeldOut {
    let mut misses: BTreeMap<String, usize> = BTreeMap::new();
    for scenario in judged.iter().filter(|s| matches!(s.word, Word::Fail | Word::Unproven)) {
        let class = scenario.findings.first().map_or("unknown", |f| f.defence.as_str());
        *misses.entry(class.to_owned()).or_default() += 1;
    }
    let ratios: Vec<Ratio> = judged.iter().filter_map(|s| s.ratio).collect();
    let ratio_of = |id: &String| visible.iter().find(|s| s.id == *id).and_then(|s| s.ratio);
    let both = |s: &ScenarioVerdict| Some((ratio_of(bases.get(&s.id)?)?, s.ratio?));
    let (origins, drawn): (Vec<Ratio>, Vec<Ratio>) = judged.iter().filter_map(both).unzip();
    let gap = match (verdict::geomean(&origins), verdict::geomean(&drawn)) {
        (Some(origins), Some(drawn)) => Some(origins.point / drawn.point - 1.0),
        _ => None,
    };
    HeldOut {
        drawn: judged.len(),
        passed: judged.iter().filter(|s| matches!(s.word, Word::Pass | Word::Unresolved)).count(),
        misses: misses.into_iter().collect(),
        geomean: verdict::geomean(&ratios),
        gap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernelseek_core::verdict::Stage;

    fn scenario(id: &str, ratio: Option<f64>) -> ScenarioVerdict {
        ScenarioVerdict {
            id: id.into(),
            word: if ratio.is_some() { Word::Pass } else { Word::Fail },
            passed: Stage::Plausible,
            ratio: ratio.map(|point| Ratio {
                point,
                lo: point * 0.99,
                hi: point * 1.01,
                instances: 3,
                pairs: 9,
                correlation: None,
            }),
            standing: None,
            seed_ns: None,
            candidate_ns: None,
            floor_ns: None,
            worst_error: None,
            contents: 0,
            referenced: 0,
            first_call_ns: None,
            prepare_ns: None,
            fallback: false,
            audited: false,
            gpu: None,
            findings: if ratio.is_some() {
                Vec::new()
            } else {
                vec![Finding::new("correct.reference", Severity::Fail, "x")]
            },
        }
    }

    #[test]
    fn held_out_scenarios_are_held_against_those_they_were_drawn_from() {
        // One visible scenario gains fifty times, and nothing was drawn from it.
        let visible = [scenario("a", Some(1.2)), scenario("b", Some(2.0)), scenario("c", Some(50.0))];
        let bases: BTreeMap<String, String> =
            [("held-01", "a"), ("held-02", "b"), ("held-03", "a")].map(|(h, b)| (h.into(), b.into())).into();
        let judged =
            [scenario("held-01", Some(1.2)), scenario("held-02", Some(1.0)), scenario("held-03", None)];
        let told = summarise(&judged, &bases, &visible);
        assert_eq!((told.drawn, told.passed), (3, 2));
        assert_eq!(told.misses, [("correct.reference".to_owned(), 1)]);
        // √(1.2 × 2.0) over √(1.2 × 1.0): the one that failed has no ratio to compare.
        assert!((told.gap.unwrap() - (2f64.sqrt() - 1.0)).abs() < 1e-12, "{told:?}");
        assert_eq!(summarise(&judged, &BTreeMap::new(), &visible).gap, None);
        let finding = missed(&told, &judged).unwrap();
        assert_eq!((finding.defence.as_str(), finding.severity), ("correct.held-out", Severity::Fail));
        assert!(missed(&summarise(&judged[..2], &bases, &visible), &judged[..2]).is_none());
    }
}
