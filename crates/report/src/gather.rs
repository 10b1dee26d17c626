//! From rows, verdicts and the sealed terms to a report.

use crate::limits::limits;
use crate::model::{FORMAT, Goal, Identity, Point, Questions, Report, Setting, State, Tally};
use crate::story::{Event, Line, Outcome, story};
use crate::subject::subject;
use crate::words;
use kernelseek_campaign::{Board, MODE, Scene, StopDecision};
use kernelseek_core::campaign_file::CampaignFile;
use kernelseek_ledger::entry::{Purpose, QuestionFrom};
use kernelseek_ledger::seal::Seal;
use kernelseek_ledger::{Entry, Row};
use std::collections::BTreeSet;

/// Everything that a report is made from.
#[derive(Clone, Copy)]
pub struct Material<'a> {
    /// What deciding reads: the folded rows, the sealed terms, verdicts, the time.
    pub scene: Scene<'a>,
    /// The rows that were folded.
    pub rows: &'a [Row],
    /// The seal in force.
    pub seal: &'a Seal,
    /// May the agent stop? As `kernelseek goal` says it.
    pub decision: &'a StopDecision,
    /// Row of the evaluation that speaks for the workspace's files as they are.
    pub current: Option<u64>,
    /// What the evaluation of a verdict was made on and with.
    pub setting: &'a dyn Fn(&str) -> Setting,
    /// Version of the tool.
    pub tool: &'a str,
    /// By how much the clock is behind the last row, milliseconds.
    pub clock_behind_ms: i64,
}

/// Makes the report.
#[must_use]
pub fn gather(material: &Material<'_>) -> Report {
    let board = material.scene.board;
    let (subject, judgement) = match subject(material) {
        Some((subject, judgement)) => (Some(subject), judgement),
        None => (None, None),
    };
    let seed = subject.as_ref().map_or("", |s| s.seed_hash.as_str());
    let story = story(material.rows, board, seed);
    let tally = tally(board, &story);
    let questions = questions(board);
    let limits = limits(material, subject.as_ref(), &tally, &questions);
    Report {
        format: FORMAT,
        tool: material.tool.to_owned(),
        made_ms: material.scene.now_ms,
        identity: identity(material),
        state: state(material),
        goal: Goal {
            clauses: material.scene.file.goal.clauses.iter().map(|c| c.text.clone()).collect(),
            row: judgement.as_ref().and(subject.as_ref()).map(|s| s.row),
            judgement,
            warnings: material.scene.file.goal.warnings(),
        },
        subject,
        course: course(&story),
        story,
        tally,
        questions,
        limits,
    }
}

fn identity(material: &Material<'_>) -> Identity {
    let board = material.scene.board;
    let file: &CampaignFile = material.scene.file;
    let tool = material.rows.first().and_then(|r| match r.entry() {
        Ok(Entry::Created(created)) => Some(created.tool),
        _ => None,
    });
    let lines = |part: &str| material.seal.parts.get(part).map(|p| p.lines.clone()).unwrap_or_default();
    let mut sealed_for = lines("device");
    // Beside each compiler's version stand its programs: paths say nothing elsewhere.
    sealed_for.extend(lines("toolchain").into_iter().filter(|l| !l.contains(" bytes, ")));
    let mut seen = BTreeSet::new();
    sealed_for.retain(|line| seen.insert(line.clone()));
    let (began_ms, last_ms) = board.span_ms.unwrap_or_default();
    Identity {
        campaign: board.campaign.clone(),
        name: file.name.clone(),
        tool: tool.unwrap_or_default(),
        candidate: file.candidate.clone(),
        seal: board.seal_hash().to_owned(),
        seal_row: board.seal().map_or(0, |s| s.row),
        sealed_for,
        scenarios: material.scene.grid.scenarios.len(),
        rows: board.rows,
        head: material.rows.last().map(|r| r.hash.clone()).unwrap_or_default(),
        began_ms,
        last_ms,
    }
}

fn state(material: &Material<'_>) -> State {
    let decision = material.decision;
    State {
        word: words::state(decision).to_owned(),
        met: decision.met,
        rule: decision.rule.as_str().to_owned(),
        reason: decision.reason.clone(),
        ended: material.scene.board.ended.as_ref().map(|e| e.what.reason.clone()),
    }
}

fn tally(board: &Board, story: &[Line]) -> Tally {
    let number = |n: usize| n as u64;
    let mut tally = Tally {
        attempts: number(board.attempts().count()),
        promotions: number(board.promotions.iter().filter(|p| p.row > board.era()).count()),
        full: number(board.current().filter(|e| e.facts.tier == "full").count()),
        evaluations: number(board.current().count()),
        led: number(board.current().filter(|e| e.facts.led).count()),
        stale: number(board.evaluations.len() - board.current().count()),
        abandoned: number(board.abandoned.len()),
        refused_stops: number(board.stops.iter().filter(|s| !s.what.allowed).count()),
        hypotheses: number(board.hypotheses.len()),
        ..Tally::default()
    };
    for line in story {
        let Event::Attempt(attempt) = &line.event else { continue };
        let expect = attempt.hypothesis.as_ref().and_then(|h| h.expect);
        if let (Some(expect), Some(measured)) = (expect, attempt.measured) {
            tally.measured += 1;
            tally.reached += u64::from(measured >= expect);
        }
    }
    tally
}

fn questions(board: &Board) -> Questions {
    let mut questions = Questions::default();
    for ask in &board.asks {
        if ask.what.is_silence() {
            questions.silences += 1;
            continue;
        }
        questions.asked += 1;
        questions.person += u64::from(matches!(ask.what.from, QuestionFrom::Person { .. }));
    }
    let answered: BTreeSet<u64> = board.answers.iter().map(|a| a.what.question).collect();
    let accepted: BTreeSet<u64> =
        board.answers.iter().filter(|a| a.what.accepted == Some(true)).map(|a| a.what.question).collect();
    (questions.answered, questions.accepted) = (answered.len() as u64, accepted.len() as u64);
    questions
}

fn course(story: &[Line]) -> Vec<Point> {
    let (mut points, mut incumbent) = (Vec::new(), 1.0);
    for line in story {
        match &line.event {
            Event::Sealed { stale: true, .. } => incumbent = 1.0,
            Event::Attempt(a)
                if !a.stale && a.whole_grid && a.mode == MODE && a.purpose == Purpose::Attempt =>
            {
                let promoted = match &a.outcome {
                    Outcome::Promoted { geomean, .. } => {
                        incumbent = geomean.point;
                        true
                    }
                    _ => false,
                };
                let attempt = a.geomean.map(|g| g.point).filter(|p| p.is_finite() && words::counts(a.word));
                points.push(Point { row: line.row, attempt, promoted, incumbent });
            }
            _ => {}
        }
    }
    points
}
