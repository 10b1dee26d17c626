//! The five decision points, seen in the ledger alone. Words of the agent are one more sign and never needed.

use crate::board::{Board, Evaluation};
use crate::machine::{Scene, View};
use crate::words;
use kernelseek_core::decision::DecisionPoint;
use kernelseek_core::verdict::{Digest, Stage, Word};
use kernelseek_ledger::entry::Purpose;
use kernelseek_ledger::entry::QuestionFrom;
use std::collections::{BTreeMap, BTreeSet};

/// Questions at the start of a campaign, at most.
const AT_START: usize = 2;
/// Attempts in which a campaign still counts as starting.
const STARTING: usize = 5;
/// Attempts between two questions at one plateau, at least.
const PLATEAU_PAUSE: usize = 4;
/// Attempts over which the slope and the repetitions are looked at.
const WINDOW: usize = 10;
/// Attempts that go back to an earlier version before a search counts as circling.
const REVERTS: usize = 2;
/// Longest gap between rows that still counts as work, milliseconds.
const IDLE_MS: i64 = 15 * 60 * 1000;
/// Candidates in a row that carry the same failing scenario along.
const CARRIED: usize = 3;
/// Attempts that leave a failing scenario out.
const AVOIDED: usize = 2;
/// Evaluations whose verdicts are looked into, the last ones: a stop must not wait for thousands to be read.
const LOOKED_INTO: usize = 50;
/// Parts of the seal that decide what counts as correct.
pub(crate) const JUDGING: [&str; 7] =
    ["tolerance", "scenarios", "reference", "generators", "problem", "constraints", "held out"];
/// Parts of the seal whose change is a new beginning.
const BEGINNING: [&str; 5] = ["goal", "device", "seed", "scenarios", "problem"];

/// A decision point that was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Occasion {
    /// Which; none for a person's question between two of them.
    pub point: Option<DecisionPoint>,
    /// What showed it, in words.
    pub reason: String,
    /// Row that showed it.
    pub row: u64,
}

fn occasion(point: DecisionPoint, row: u64, reason: impl Into<String>) -> Option<Occasion> {
    Some(Occasion { point: Some(point), reason: reason.into(), row })
}

/// The occasion to serve now: the first in precedence that was not served since it was reached. One for each row:
/// nothing is asked again before something new has happened.
pub(crate) fn next(scene: &Scene<'_>, view: &View) -> Option<Occasion> {
    let board = scene.board;
    let last_event = last_event(board)?;
    let served = board.asks.last().filter(|a| a.row > last_event);
    match (board.waiting.front(), served) {
        // A person is not kept waiting for a decision point.
        (Some((row, _)), None) => {
            return Some(Occasion { point: None, reason: "a person asks".to_owned(), row: *row });
        }
        (_, Some(ask)) if !matches!(ask.what.from, QuestionFrom::Person { .. }) => return None,
        _ => {}
    }
    if !scene.file.questions.enabled {
        return None;
    }
    // Beside a person's question only that is asked which must not wait.
    all(scene, view).into_iter().find(|o| served.is_none() || o.point.is_some_and(DecisionPoint::always_asks))
}

/// The last row after which something may be asked: a seal, an attempt, a stop, what the agent stated.
fn last_event(board: &Board) -> Option<u64> {
    [
        board.seal().map(|s| s.row),
        board.attempts().next_back().map(|e| e.row),
        board.stops.last().map(|s| s.row),
        board.hypotheses.last().map(|h| h.row),
        board.answers.last().map(|a| a.row),
    ]
    .into_iter()
    .flatten()
    .max()
}

/// Every decision point that is reached and was not served since.
pub(crate) fn all(scene: &Scene<'_>, view: &View) -> Vec<Occasion> {
    let found = [
        correctness_break(scene),
        suspicious_win(scene, view),
        claimed_limit(scene),
        plateau(scene),
        campaign_start(scene.board),
    ];
    found.into_iter().flatten().collect()
}

fn last_ask(board: &Board, point: DecisionPoint) -> u64 {
    board.asks.iter().rev().find(|a| a.what.point == Some(point)).map_or(0, |a| a.row)
}

fn campaign_start(board: &Board) -> Option<Occasion> {
    let point = DecisionPoint::CampaignStart;
    let era = board.era();
    let seal = board.seals.iter().find(|s| s.row == era)?;
    let first = board.seals.first().is_some_and(|s| s.row == era);
    let changed = seal.what.changed.iter().find(|c| BEGINNING.contains(&c.as_str()));
    if !first && changed.is_none() {
        return None;
    }
    let attempts = board.attempts().filter(|e| e.row > seal.row).count();
    if board.incumbent().is_some() || attempts > STARTING {
        return None;
    }
    let asked = board.asks.iter().filter(|a| a.row > seal.row && a.what.point == Some(point)).count();
    if asked == 0 && attempts == 0 {
        let what = match changed.filter(|_| !first) {
            None => "the campaign is sealed".to_owned(),
            Some(part) => format!("it was sealed again with another {part}"),
        };
        return occasion(point, seal.row, format!("{what} and nothing was evaluated yet"));
    }
    let last = board.attempts().next_back()?;
    if asked < AT_START && last.row > last_ask(board, point) {
        return occasion(point, last.row, "nothing was promoted yet");
    }
    None
}

fn plateau(scene: &Scene<'_>) -> Option<Occasion> {
    let point = DecisionPoint::Plateau;
    let (board, thresholds) = (scene.board, &scene.file.thresholds);
    let last = board.attempts().next_back()?;
    let asked = last_ask(board, point);
    let since_ask = board.attempts().filter(|e| e.row > asked).count();
    if asked > board.last_step() && since_ask < PLATEAU_PAUSE {
        return None;
    }
    let since = board.attempts().filter(|e| e.row > board.last_step()).count() as u64;
    if since >= thresholds.plateau_evaluations {
        return occasion(point, last.row, format!("{since} evaluations without a promotion"));
    }
    // What follows looks at the search as a whole; served once, it must see a new window before it says so again.
    if asked > 0 && since_ask < WINDOW {
        return None;
    }
    let active = active_ms(board, board.last_step_ms());
    if active >= i64::try_from(thresholds.plateau_time.as_millis()).unwrap_or(i64::MAX) && since > 0 {
        return occasion(point, last.row, format!("{} minutes of work without a promotion", active / 60_000));
    }
    let reverts = reverts(board);
    if reverts >= REVERTS {
        return occasion(
            point,
            last.row,
            format!("{reverts} of the last {WINDOW} attempts go back to an earlier version"),
        );
    }
    let run = layer_run(board) as u64;
    if run >= thresholds.plateau_layer_run {
        return occasion(point, last.row, format!("the last {run} hypotheses are about one layer"));
    }
    let gain = slope(board)?;
    if gain < thresholds.plateau_gain {
        return occasion(
            point,
            last.row,
            format!("the best aggregate rose by {:.1} % over the last {WINDOW} evaluations", 100.0 * gain),
        );
    }
    None
}

/// Time between rows since `from_ms` that counts as work.
pub(crate) fn active_ms(board: &Board, from_ms: i64) -> i64 {
    let mut times: Vec<i64> =
        board.evaluations.iter().map(|e| e.at_ms).chain(board.hypotheses.iter().map(|h| h.at_ms)).collect();
    times.push(from_ms);
    times.retain(|t| *t >= from_ms);
    times.sort_unstable();
    times.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap <= IDLE_MS).sum()
}

/// Of the last attempts, those whose candidate had been left and is evaluated again.
pub(crate) fn reverts(board: &Board) -> usize {
    let hashes: Vec<&str> = board.attempts().map(|e| e.facts.candidate_hash.as_str()).collect();
    let from = hashes.len().saturating_sub(WINDOW);
    (from.max(1)..hashes.len())
        .filter(|i| {
            let (here, before) = (hashes[*i], hashes[*i - 1]);
            !here.is_empty() && here != before && hashes[..*i - 1].contains(&here)
        })
        .count()
}

/// Hypotheses in a row, up to the last one, that are about the same layer.
pub(crate) fn layer_run(board: &Board) -> usize {
    let mut layers = board.hypotheses.iter().rev().map(|h| h.what.layer);
    let Some(Some(layer)) = layers.next() else { return 0 };
    1 + layers.take_while(|l| *l == Some(layer)).count()
}

/// Gain of the best aggregate of correct attempts over the last window; `None` before there was one to compare with.
pub(crate) fn slope(board: &Board) -> Option<f64> {
    let attempts: Vec<&Evaluation> = board.attempts().filter(|e| e.facts.tier != "quick").collect();
    if attempts.len() <= WINDOW {
        return None;
    }
    let best = |part: &[&Evaluation]| {
        part.iter()
            .filter(|e| matches!(e.facts.word, Word::Pass | Word::Unresolved))
            .filter_map(|e| e.facts.geomean)
            .map(|g| g.point)
            .fold(1.0, f64::max)
    };
    let cut = attempts.len() - WINDOW;
    Some(best(&attempts) / best(&attempts[..cut]) - 1.0)
}

fn claimed_limit(scene: &Scene<'_>) -> Option<Occasion> {
    let found = limit_claimed(scene.board)?;
    // A goal that is met needs no more; while it is not, a limit is a claim.
    (!goal_met(scene)).then_some(found)
}

/// Whether the last attempt was the evaluation that counts, and meets the goal.
pub(crate) fn goal_met(scene: &Scene<'_>) -> bool {
    scene
        .board
        .attempts()
        .next_back()
        .filter(|e| e.facts.tier == "full" && e.facts.whole_grid)
        .is_some_and(|e| scene.judge(e).is_ok_and(|judgement| judgement.met))
}

fn limit_claimed(board: &Board) -> Option<Occasion> {
    let point = DecisionPoint::ClaimedLimit;
    let asked = last_ask(board, point).max(board.era());
    if let Some(stop) =
        board.stops.iter().rev().find(|s| s.row > asked && !s.what.allowed && s.what.rule == "unmet")
    {
        return occasion(point, stop.row, "a stop was attempted and the goal is unmet");
    }
    let stops: BTreeSet<u64> = board.stops.iter().map(|s| s.row).collect();
    let said =
        board.words().find(|(row, text)| *row > asked && !stops.contains(row) && words::limits(text))?;
    occasion(point, said.0, "a limit was claimed and the goal is unmet")
}

fn suspicious_win(scene: &Scene<'_>, view: &View) -> Option<Occasion> {
    let point = DecisionPoint::SuspiciousWin;
    let (board, thresholds) = (scene.board, &scene.file.thresholds);
    let last = board.attempts().next_back()?;
    if last.row < last_ask(board, point) {
        return None;
    }
    let digest = view.last.as_ref()?;
    if let Some(defence) = last.facts.defences.iter().find(|d| d.starts_with("plausible.")) {
        return occasion(point, last.row, format!("its times are not plausible ({defence})"));
    }
    if let Some(id) = below_floor(digest) {
        return occasion(point, last.row, format!("`{id}` is faster than its floor"));
    }
    let (aggregate, largest) = gains(digest, view.before.as_ref());
    if aggregate.is_some_and(|g| g > thresholds.suspicious) {
        let gain = aggregate.unwrap_or_default();
        return occasion(point, last.row, format!("the aggregate rose {gain:.2} × in one step"));
    }
    match largest {
        Some((id, gain)) if gain > thresholds.suspicious_scenario => {
            occasion(point, last.row, format!("`{id}` rose {gain:.2} × in one step"))
        }
        _ => None,
    }
}

/// A scenario whose time lies below the least possible one.
pub(crate) fn below_floor(digest: &Digest) -> Option<&str> {
    digest
        .scenarios
        .iter()
        .find(|s| matches!((s.floor_ns, s.candidate_ns), (Some(f), Some(c)) if c < f))
        .map(|s| s.id.as_str())
}

/// Ratio of an evaluation to the incumbent before it, over the scenarios that it covers: the mean, and the largest.
pub(crate) fn gains<'d>(
    digest: &'d Digest,
    before: Option<&Digest>,
) -> (Option<f64>, Option<(&'d str, f64)>) {
    let steps: Vec<(&str, f64)> = digest
        .scenarios
        .iter()
        .filter_map(|s| {
            let now = s.ratio?.point;
            let then = match before {
                None => 1.0,
                Some(d) => d.scenario(&s.id)?.ratio?.point,
            };
            let step = now / then;
            (step.is_finite() && step > 0.0).then_some((s.id.as_str(), step))
        })
        .collect();
    if steps.is_empty() {
        return (None, None);
    }
    let mean = (steps.iter().map(|(_, s)| s.ln()).sum::<f64>() / steps.len() as f64).exp();
    (Some(mean), steps.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)))
}

fn correctness_break(scene: &Scene<'_>) -> Option<Occasion> {
    let (point, board) = (DecisionPoint::CorrectnessBreak, scene.board);
    let asked = last_ask(board, point);
    if let Some((row, reason)) = resealed_while_broken(scene, asked) {
        return occasion(point, row, reason);
    }
    if let Some(row) = intermittent(board).filter(|row| *row > asked) {
        return occasion(point, row, "one and the same candidate passed and failed");
    }
    let (broken, failing) = open_break(scene)?;
    let names: Vec<&str> = failing.iter().map(String::as_str).collect();
    let which = names.first().copied().unwrap_or("a scenario");
    if let Some(stop) = board.stops.iter().rev().find(|s| s.row > broken.max(asked) && !s.what.allowed) {
        return occasion(point, stop.row, format!("a stop was attempted while `{which}` fails"));
    }
    let avoided: Vec<u64> = board
        .attempts()
        .rev()
        .take(LOOKED_INTO)
        .filter(|e| e.row > broken.max(asked) && leaves_out(scene, e, &failing))
        .map(|e| e.row)
        .collect();
    if avoided.len() >= AVOIDED {
        return occasion(
            point,
            *avoided.first()?,
            format!("`{which}` fails and was left out of the last {} evaluations", avoided.len()),
        );
    }
    if let Some(row) = carried(board, asked) {
        return occasion(point, row, format!("`{which}` fails in {CARRIED} candidates in a row"));
    }
    let said = board.words().find(|(row, text)| *row > broken.max(asked) && words::excuses(text))?;
    occasion(point, said.0, format!("the failure of `{which}` was explained without a new measurement"))
}

/// Whether something was evaluated, and none of `failing`.
fn leaves_out(scene: &Scene<'_>, evaluation: &Evaluation, failing: &[String]) -> bool {
    let facts = &evaluation.facts;
    // What does not build covers nothing, and avoids nothing.
    !facts.whole_grid
        && facts.failing.is_empty()
        && facts.counts.scenarios > 0
        && scene
            .verdicts
            .digest(&facts.verdict)
            .is_ok_and(|digest| failing.iter().all(|id| digest.scenario(id).is_none()))
}

/// Scenarios that failed and were not seen to pass since, with the row of the last failure.
pub(crate) fn open_break(scene: &Scene<'_>) -> Option<(u64, Vec<String>)> {
    let attempts: Vec<&Evaluation> = scene.board.attempts().collect();
    open_in(scene, &attempts)
}

fn open_in(scene: &Scene<'_>, attempts: &[&Evaluation]) -> Option<(u64, Vec<String>)> {
    let whole = |e: &Evaluation| e.facts.whole_grid && e.facts.counts.scenarios > 0;
    // An evaluation of the whole grid speaks of every scenario: what came before it counts no more.
    let from = attempts.iter().rposition(|e| whole(e)).unwrap_or(0);
    let (mut row, mut failing, mut all_named) = (0, Vec::<String>::new(), true);
    for (i, e) in attempts.iter().enumerate().skip(from) {
        let facts = &e.facts;
        if !failing.is_empty()
            && all_named
            && i + LOOKED_INTO >= attempts.len()
            && facts.counts.scenarios > 0
            && let Ok(digest) = scene.verdicts.digest(&facts.verdict)
        {
            let passes = |id: &String| {
                digest.scenario(id).is_some_and(|s| {
                    matches!(s.word, Word::Pass | Word::Unresolved) && s.passed >= Stage::Correct
                })
            };
            failing.retain(|id| !passes(id));
        }
        if !facts.failing.is_empty() {
            row = e.row;
            // A row names the first few; while others are not named, only the whole grid shows that all pass.
            all_named &= facts.counts.failing <= facts.failing.len();
            failing
                .extend(facts.failing.iter().filter(|id| !failing.contains(id)).cloned().collect::<Vec<_>>());
        }
    }
    (!failing.is_empty()).then_some((row, failing))
}

/// The last evaluation of a candidate that passed the whole grid and failed, in whichever order.
pub(crate) fn intermittent(board: &Board) -> Option<u64> {
    let mut seen: BTreeMap<&str, (bool, bool)> = BTreeMap::new();
    let mut found = None;
    for e in board.current().filter(|e| !e.facts.candidate_hash.is_empty()) {
        let fails = !e.facts.failing.is_empty();
        let passes = e.facts.whole_grid && matches!(e.facts.word, Word::Pass | Word::Unresolved);
        let (passed, failed) = seen.entry(&e.facts.candidate_hash).or_default();
        if (fails && *passed) || (passes && *failed) {
            found = Some(e.row);
        }
        *passed |= passes;
        *failed |= fails;
    }
    found
}

/// The last attempt, if it and the ones before it are different candidates that fail in one same scenario.
fn carried(board: &Board, asked: u64) -> Option<u64> {
    let last: Vec<&Evaluation> = board.attempts().rev().take(CARRIED).collect();
    if last.len() < CARRIED || last.iter().any(|e| e.row < asked) {
        return None;
    }
    let hashes: BTreeSet<&str> = last.iter().map(|e| e.facts.candidate_hash.as_str()).collect();
    let common = last[0].facts.failing.iter().any(|id| last.iter().all(|e| e.facts.failing.contains(id)));
    (hashes.len() == CARRIED && common).then_some(last[0].row)
}

/// The last seal after `asked` that changed what counts as correct while a scenario was failing under the seal before.
fn resealed_while_broken(scene: &Scene<'_>, asked: u64) -> Option<(u64, String)> {
    let board = scene.board;
    board.seals.windows(2).rev().take_while(|pair| pair[1].row > asked).find_map(|pair| {
        let (before, now) = (&pair[0], &pair[1]);
        let part = now.what.changed.iter().find(|c| JUDGING.contains(&c.as_str()))?;
        let earlier: Vec<&Evaluation> = board
            .evaluations
            .iter()
            .filter(|e| e.row < now.row && e.facts.seal == before.what.seal)
            .filter(|e| e.facts.purpose == Purpose::Attempt)
            .collect();
        let (_, failing) = open_in(scene, &earlier)?;
        let which = failing.first()?;
        Some((now.row, format!("{part} was sealed anew while `{which}` was failing")))
    })
}
