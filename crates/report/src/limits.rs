//! What a report does not show, and what its numbers rest on.

use crate::gather::Material;
use crate::model::{Questions, Subject, Tally};
use crate::words::{count, lasted, layers};
use kernelseek_core::verdict::{Trust, Word};
use kernelseek_ledger::entry::Led;
use kernelseek_ledger::{Entry, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A clock that is this far behind the last row is worth a word, milliseconds.
const BEHIND: i64 = 2_000;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Stable id.
    pub id: String,
    /// In words.
    pub text: String,
    /// What it is about by name: scenarios, sandbox layers, notes of the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

#[derive(Default)]
struct List(Vec<Limit>);

impl List {
    fn say(&mut self, id: &str, text: impl Into<String>) {
        self.name(id, text, Vec::new());
    }
    fn name(&mut self, id: &str, text: impl Into<String>, names: Vec<String>) {
        self.0.push(Limit { id: id.to_owned(), text: text.into(), names });
    }
}

/// All that apply.
pub(crate) fn limits(
    material: &Material<'_>,
    subject: Option<&Subject>,
    tally: &Tally,
    questions: &Questions,
) -> Vec<Limit> {
    let mut list = List::default();
    if let Some(subject) = subject {
        of_subject(subject, material, &mut list);
    }
    of_ledger(material, tally, questions, &mut list);
    list.say(
        "test",
        "a verdict is a hard test and no proof: on this target the kernel of the machine and the C library under the \
         candidate are trusted",
    );
    list.0
}

fn of_subject(s: &Subject, material: &Material<'_>, list: &mut List) {
    match s.trust {
        Trust::Full => list.name("trust", "trust is full: every sandbox layer held", layers(&s.setting.layers)),
        Trust::Reduced => list.name(
            "trust",
            "trust is reduced: a sandbox layer was missing, so a candidate that tampers with its harness is not ruled out",
            layers(&s.setting.layers),
        ),
    }
    match (s.led, fence(material, s.row)) {
        (true, Some((fenced, held))) => list.name(
            "led",
            if fenced {
                "led: the agent worked behind a fence, and could neither write to the ledger nor reach the supervisor"
            } else {
                "led, but not every layer of the fence held: what the agent could reach is not ruled out"
            },
            layers(&held),
        ),
        (true, None) => list.say("led", "led: the evaluation was made by a supervisor outside the agent's processes"),
        (false, _) => list.say(
            "attached",
            "attached: this evaluation was asked for in a session that nothing fenced in. The ledger shows accidents and \
             careless changes; it does not stop an agent of the same user from rewriting it",
        ),
    }
    if let Some(why) = &s.unreadable {
        list.say(
            "unreadable",
            format!("the verdict of row {} cannot be read ({why}): what is shown is its row", s.row),
        );
    }
    let named = |f: &dyn Fn(&kernelseek_core::verdict::ScenarioVerdict) -> bool| -> Vec<String> {
        s.scenarios.iter().filter(|v| f(v)).map(|v| v.id.clone()).collect()
    };
    for (id, text, names) in [
        (
            "unresolved",
            "UNRESOLVED: the interval holds 1 and is too wide to say faster or slower",
            named(&|v| v.word == Word::Unresolved),
        ),
        ("unproven", "UNPROVEN: an anomaly is not cleared", named(&|v| v.word == Word::Unproven)),
        ("fallback", "the candidate declines these and the fallback runs them", named(&|v| v.fallback)),
        (
            "no_ratio",
            "without a ratio, so that the mean leaves them out",
            named(&|v| v.ratio.is_none() && !v.fallback),
        ),
        (
            "no_floor",
            "without a cost model, so that no time can be called impossible",
            named(&|v| v.floor_ns.is_none() && v.candidate_ns.is_some()),
        ),
    ] {
        if !names.is_empty() {
            list.name(id, text, names);
        }
    }
    if let Some(spread) = s.aa_spread {
        list.say(
            "spread",
            format!(
                "the seed against itself differed by {:.1} % between instances (one standard deviation); every interval \
                 clears that",
                100.0 * spread
            ),
        );
    }
    if s.tier != "full" {
        list.say(
            "tier",
            format!(
                "row {} is a {} evaluation: no held-out scenarios, no sanitizers, one cache mode",
                s.row, s.tier
            ),
        );
    } else if s.held_out.is_none() && s.unreadable.is_none() {
        list.say("held_out", "no held-out scenarios were measured");
    }
    list.say(
        "mode",
        format!(
            "the ratios are of {} caches and of whole calls on one machine; elsewhere they may differ",
            s.mode
        ),
    );
    for note in &s.setting.notes {
        list.say("note", note.clone());
    }
}

/// What held the agent in when row `row` was written.
fn fence(material: &Material<'_>, row: u64) -> Option<(bool, Vec<String>)> {
    material.scene.board.led.iter().rev().filter(|l| l.row < row).find_map(|l| match &l.what {
        Led::Started { layers, fenced, .. } => Some((*fenced, layers.clone())),
        _ => None,
    })
}

fn of_ledger(material: &Material<'_>, tally: &Tally, questions: &Questions, list: &mut List) {
    let board = material.scene.board;
    if tally.led > 0 && tally.led < tally.evaluations {
        list.say(
            "partly_led",
            format!(
                "{} of {} evaluations under the seal were made while an agent was led",
                tally.led, tally.evaluations
            ),
        );
    }
    if tally.stale > 0 {
        list.say(
            "stale",
            format!(
                "{} under an earlier seal: STALE, told in the story and counted nowhere else",
                if tally.stale == 1 {
                    "1 evaluation is".to_owned()
                } else {
                    format!("{} evaluations are", tally.stale)
                }
            ),
        );
    }
    if tally.abandoned > 0 {
        list.say("abandoned", format!("{} ended without a verdict", count(tally.abandoned, "evaluation")));
    }
    if questions.silences > 0 {
        list.say(
            "silences",
            format!(
                "{} held back on purpose, so that what questions do can be measured",
                if questions.silences == 1 {
                    "1 question was".to_owned()
                } else {
                    format!("{} questions were", questions.silences)
                }
            ),
        );
    }
    pruned(material.rows, subject_raw(material), list);
    for row in material.rows.iter().filter(|r| r.kind == "imported_from") {
        if let Ok(Entry::ImportedFrom(i)) = row.entry() {
            list.name(
                "imported",
                format!(
                    "rows up to {} came from elsewhere, with this hash of their last row",
                    row.seq.saturating_sub(1)
                ),
                vec![i.head],
            );
        }
    }
    clock(material, list);
    if board.not_understood > 0 {
        list.say(
            "not_understood",
            format!(
                "{} cannot be read by this version: passed over",
                if board.not_understood == 1 {
                    "1 row".to_owned()
                } else {
                    format!("{} rows", board.not_understood)
                }
            ),
        );
    }
    if !board.unfinished.is_empty() {
        list.say("unfinished", "an evaluation has begun and not ended; it may be running");
    }
}

/// Raw pairs and library of the evaluations that the ledger rests on now.
fn subject_raw(material: &Material<'_>) -> BTreeSet<String> {
    let board = material.scene.board;
    let row = board
        .ended
        .as_ref()
        .and_then(|e| e.what.evaluated)
        .or_else(|| board.incumbent().map(|p| p.what.evaluated));
    let facts = row.and_then(|r| board.evaluation(r)).map(|e| &e.facts);
    facts.into_iter().flat_map(|f| [f.raw.clone(), f.library.clone()]).flatten().collect()
}

fn pruned(rows: &[Row], own: BTreeSet<String>, list: &mut List) {
    let (mut artefacts, mut bytes, mut gone) = (0_u64, 0_u64, false);
    for row in rows.iter().filter(|r| r.kind == "pruned") {
        if let Ok(Entry::Pruned(p)) = row.entry() {
            artefacts += p.artefacts.len() as u64;
            bytes = bytes.saturating_add(p.bytes);
            gone |= p.artefacts.iter().any(|a| own.contains(a));
        }
    }
    if artefacts > 0 {
        let own = if gone { ", the incumbent's among them" } else { "" };
        list.say(
            "pruned",
            format!(
                "the retention rule dropped {} of old evaluations (raw pairs, built libraries; {:.1} MiB){own}; rows, verdicts \
                 and sources stay",
                count(artefacts, "artefact"),
                bytes as f64 / 1048576.0
            ),
        );
    }
}

/// Where wall time and rows disagree: an evaluation cannot have lasted longer than the time between its two rows.
fn clock(material: &Material<'_>, list: &mut List) {
    let began = |row: u64| {
        let index = usize::try_from(row.checked_sub(1)?).ok()?;
        material.rows.get(index).filter(|r| r.seq == row).map(|r| r.at_ms)
    };
    let steps = material
        .scene
        .board
        .evaluations
        .iter()
        .filter(|e| {
            began(e.facts.started).is_some_and(|at| {
                1000.0 * e.facts.seconds > e.at_ms.saturating_sub(at).saturating_add(BEHIND) as f64
            })
        })
        .count() as u64;
    if steps > 0 {
        list.say(
            "clock",
            format!(
                "the machine's clock went back during {}: times of rows are then too short; their order holds",
                count(steps, "evaluation")
            ),
        );
    }
    if material.clock_behind_ms > BEHIND {
        list.say(
            "clock_now",
            format!(
                "the clock is {} behind the last row: times of rows are not to be relied on; their order holds",
                lasted(material.clock_behind_ms)
            ),
        );
    }
}
