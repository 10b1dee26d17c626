//! One attempt: evaluate, write, and do what the machine says until it waits for the agent again.

use crate::asking::Question;
use crate::copies::Copied;
use crate::error::SupervisorError;
use crate::files;
use crate::supervised::{Campaign, fresh_secret, now_ms};
use kernelseek_campaign::{Action, edit};
use kernelseek_core::finding::Severity;
use kernelseek_core::goal::Judgement;
use kernelseek_core::verdict::Word;
use kernelseek_evaluator::evaluate::{self, Evaluation};
use kernelseek_evaluator::event::{Event, Sink};
use kernelseek_evaluator::kernel_files;
use kernelseek_evaluator::session::Session;
use kernelseek_evaluator::settings::{Column, Effort, Mode, Settings, Tier};
use kernelseek_inspect::PathClass;
use kernelseek_ledger::artefact::{Artefact, Kind};
use kernelseek_ledger::entry::{
    Abandoned, Counts, Edit, Ended, Evaluated, KeptFile, NotPromoted, Promoted, Purpose, Started,
};
use kernelseek_ledger::{Batch, Busy, Entry, EvaluationLock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest library that is kept.
const LARGEST_LIBRARY: usize = 16 << 20;
/// Failing scenarios and defences that a row names.
const NAMED: usize = 16;
/// Evaluations between two looks at what may be dropped.
const PRUNE_EVERY: usize = 25;
/// Edits over which lines that come back are looked for.
const EDITS: usize = 20;

/// What is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Tier.
    pub tier: Tier,
    /// Mode.
    pub mode: Mode,
    /// What of a call is timed, on a GPU.
    #[serde(default)]
    pub column: Column,
    /// Only these scenarios.
    #[serde(default)]
    pub only: Vec<String>,
    /// How long to wait for another evaluation, in seconds.
    #[serde(default)]
    pub patience_s: u64,
}

/// What came of an attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Attempt {
    /// The evaluation.
    pub evaluation: Evaluation,
    /// Campaign id.
    pub campaign: String,
    /// Its row.
    pub row: u64,
    /// Whether it became the incumbent.
    pub promoted: bool,
    /// What was said about promotion, if there was a contest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promotion: Option<String>,
    /// The goal, judged on this evaluation.
    pub goal: Judgement,
    /// The questions that were asked: a person's, one of the bank, or first the one and then the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
    /// Why the campaign ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// What the reader should know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What followed an evaluation.
#[derive(Debug, Default)]
struct Followed {
    /// Row of the confirming evaluation, if there was a promotion.
    promoted: Option<u64>,
    promotion: Option<String>,
    questions: Vec<Question>,
    ended: Option<String>,
}

/// An evaluation to make.
pub(crate) struct Job {
    pub(crate) purpose: Purpose,
    pub(crate) problem: PathBuf,
    pub(crate) candidate: PathBuf,
    /// Folder that source paths are relative to.
    pub(crate) root: PathBuf,
    pub(crate) settings: Settings,
    pub(crate) led: bool,
    /// It did not compile when it was copied, so that there is no copy; if it does now, that proves nothing.
    pub(crate) broken: bool,
}

impl Campaign {
    /// Evaluates the candidate as it is now and does what follows from it.
    ///
    /// # Errors
    /// When the seal is broken, another evaluation does not end, or there can be no verdict.
    pub fn attempt(
        &mut self,
        request: &Request,
        base: &Settings,
        led: bool,
        sink: &mut dyn Sink,
        waiting: &mut dyn FnMut(&Busy),
    ) -> Result<Attempt, SupervisorError> {
        let _lock = self.take_lock(request.patience_s, waiting)?;
        self.recover()?;
        let changes = self.changes()?;
        if !changes.is_empty() {
            return Err(SupervisorError::SealBroken(changes));
        }
        let mut settings = self.settings(base)?;
        settings.tier = request.tier;
        settings.effort = Effort::of(request.tier);
        settings.calibrate = request.tier != Tier::Quick;
        settings.mode = request.mode;
        settings.column = request.column;
        settings.only.clone_from(&request.only);
        let settled = self.settle(&settings, led, sink)?;
        let job = Job {
            purpose: Purpose::Attempt,
            problem: self.site.problem(),
            candidate: self.own_candidate()?,
            root: self.site.folder.clone(),
            settings: settings.clone(),
            led,
            broken: false,
        };
        let (row, evaluation) = self.run(job, sink)?;
        let mut attempt = Attempt {
            goal: self.judge_row(row)?,
            evaluation,
            campaign: self.id().to_owned(),
            row,
            promoted: false,
            promotion: None,
            questions: Vec::new(),
            ended: None,
            notes: settled.into_iter().collect(),
        };
        if let Some(ended) = &self.board.ended {
            let reason = &ended.what.reason;
            attempt.notes.push(format!(
                "the campaign has ended ({reason}): nothing is promoted until it is sealed again"
            ));
        }
        if self.clock_behind_ms > 2_000 {
            attempt.notes.push(format!(
                "the clock is {:.0} s behind the last row; rows keep their order",
                self.clock_behind_ms as f64 / 1000.0
            ));
        }
        let followed = self.follow_up(&settings, led, false, sink)?;
        if let Some(evaluated) = followed.promoted {
            attempt.promoted = true;
            // The goal is judged on the numbers that count: those of the second measurement.
            attempt.goal = self.judge_row(evaluated)?;
        }
        (attempt.promotion, attempt.questions, attempt.ended) =
            (followed.promotion, followed.questions, followed.ended);
        if self.board.evaluations.len().is_multiple_of(PRUNE_EVERY) {
            let rule = self.in_force()?.file.retention;
            self.ledger.prune(rule, now_ms())?;
            self.reread()?;
        }
        Ok(attempt)
    }

    /// Does what the machine says until it waits; with `settling`, only until the contest is settled.
    fn follow_up(
        &mut self,
        settings: &Settings,
        led: bool,
        settling: bool,
        sink: &mut dyn Sink,
    ) -> Result<Followed, SupervisorError> {
        let mut followed = Followed::default();
        while let Some(action) = self.with_scene(|scene| scene.next())? {
            match action {
                Action::Confirm { first } => {
                    let why = "it may become the incumbent: measuring it a second time, independently";
                    sink.on(&Event::Again { why: why.to_owned() });
                    let settings = Settings { secret: fresh_secret()?, ..settings.clone() };
                    self.again(Purpose::Confirm, first, settings, led, sink)?;
                }
                Action::Remeasure { first, scenarios, pairs_factor, confidence } => {
                    let why = format!("{} seem to have fallen: measuring them again", scenarios.join(", "));
                    sink.on(&Event::Again { why });
                    let mut settings =
                        Settings { secret: fresh_secret()?, only: scenarios, ..settings.clone() };
                    settings.tier = Tier::Default;
                    settings.effort.pairs *= pairs_factor;
                    settings.effort.confidence = confidence.max(settings.effort.confidence);
                    self.again(Purpose::Remeasure, first, settings, led, sink)?;
                }
                Action::Promote { first, evaluated, candidate_hash, geomean, before } => {
                    followed.promoted = Some(evaluated);
                    followed.promotion = Some(format!(
                        "promoted: {:.3}× [{:.3}, {:.3}] in an independent second measurement",
                        geomean.point, geomean.lo, geomean.hi
                    ));
                    let entry = Promoted { evaluated, first, candidate_hash, geomean, before };
                    self.append(Batch::of(Entry::Promoted(entry)), now_ms())?;
                }
                Action::NotPromote { first, why, fallen } => {
                    let names =
                        if fallen.is_empty() { String::new() } else { format!(": {}", fallen.join(", ")) };
                    followed.promotion = Some(format!("not promoted: {why}{names}"));
                    self.append(Batch::of(Entry::NotPromoted(NotPromoted { first, why, fallen })), now_ms())?;
                }
                Action::Ask(_) | Action::End { .. } if settling => break,
                Action::Ask(occasion) => followed.questions.extend(self.ask(&occasion)?),
                Action::End { reason } => {
                    followed.ended = Some(reason.clone());
                    let ended = Ended { met: false, reason, evaluated: None };
                    self.append(Batch::of(Entry::Ended(ended)), now_ms())?;
                }
            }
        }
        Ok(followed)
    }

    /// Settles the contest of an earlier attempt that was cut off, and says what came of it.
    fn settle(
        &mut self,
        settings: &Settings,
        led: bool,
        sink: &mut dyn Sink,
    ) -> Result<Option<String>, SupervisorError> {
        let Some(first) = self.with_scene(|scene| scene.unsettled())? else { return Ok(None) };
        let full = self.board.evaluation(first).is_some_and(|e| e.facts.tier == "full");
        let tier = if full { Tier::Full } else { Tier::Default };
        let settings = Settings {
            tier,
            effort: Effort::of(tier),
            calibrate: true,
            mode: Mode::Cold,
            column: Column::Device,
            only: Vec::new(),
            ..settings.clone()
        };
        let why = format!("row {first} was cut off before it was settled; that comes first");
        sink.on(&Event::Again { why });
        let said =
            self.follow_up(&settings, led, true, sink)?.promotion.unwrap_or_else(|| "not settled".to_owned());
        Ok(Some(format!("row {first}, which had been cut off: {said}")))
    }

    /// Evaluates the sources of row `first` once more; a failure of the harness is in the ledger and ends the contest.
    fn again(
        &mut self,
        purpose: Purpose,
        first: u64,
        settings: Settings,
        led: bool,
        sink: &mut dyn Sink,
    ) -> Result<(), SupervisorError> {
        let facts = self.board.evaluation(first).map(|e| e.facts.clone());
        let facts = facts.ok_or_else(|| SupervisorError::Unreadable {
            what: format!("row {first}"),
            why: "it is no evaluation".to_owned(),
        })?;
        // From what was kept: the files may have changed since.
        let place = self.place()?;
        let here = Job {
            purpose,
            problem: self.site.problem(),
            candidate: self.site.candidate(),
            root: self.site.folder.clone(),
            settings,
            led,
            broken: false,
        };
        let job = self.kept_job(&place.0, &facts.sources, &facts.candidate, here)?;
        match self.run_in(job, sink) {
            Err(SupervisorError::Ledger(error)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn settings(&self, base: &Settings) -> Result<Settings, SupervisorError> {
        let sealed = self.in_force()?;
        let mut settings = base.clone();
        settings.set.clone_from(&sealed.file.set);
        settings.secret = fresh_secret()?;
        settings.candidate_flags.clone_from(&sealed.file.candidate_flags);
        // A win is suspicious against what was reached before, not against the seed.
        let incumbent = self.board.incumbent().map_or(1.0, |p| p.what.geomean.point);
        settings.suspicious = sealed.file.thresholds.suspicious * incumbent.max(1.0);
        Ok(settings)
    }

    pub(crate) fn take_lock(
        &self,
        patience_s: u64,
        waiting: &mut dyn FnMut(&Busy),
    ) -> Result<EvaluationLock, SupervisorError> {
        let patience = Duration::from_secs(patience_s);
        let what = &self.site.file.candidate;
        EvaluationLock::wait(&self.state_dir, what, now_ms(), patience, waiting)?.map_err(|busy| {
            let seconds = (now_ms() - busy.since_ms).max(0) / 1000;
            SupervisorError::Busy { busy, seconds }
        })
    }

    pub(crate) fn reread(&mut self) -> Result<(), SupervisorError> {
        let mut board = kernelseek_campaign::Board::default();
        self.ledger.each(|row| board.apply(&row))?;
        self.board = board;
        Ok(())
    }

    /// Evaluates the candidate of an attempt: for a led agent, a copy of it that the agent cannot reach.
    fn run(&mut self, job: Job, sink: &mut dyn Sink) -> Result<(u64, Evaluation), SupervisorError> {
        if !job.led {
            return self.run_in(job, sink);
        }
        let place = self.place()?;
        let problem = place.0.join("problem");
        self.restore_problem(&problem)?;
        match self.copy_candidate(&place.0, &problem, &job.settings)? {
            Copied::Whole { root, candidate } => self.run_in(Job { problem, candidate, root, ..job }, sink),
            Copied::Broken { state_dir } => {
                let settings = Settings { state_dir, ..job.settings };
                self.run_in(Job { problem, settings, broken: true, ..job }, sink)
            }
        }
    }

    /// Ends evaluations that died without an end. The caller holds the evaluation lock, so nobody is running them.
    pub(crate) fn recover(&mut self) -> Result<(), SupervisorError> {
        // What others wrote while this process waited for the lock counts.
        self.reread()?;
        let dead: Vec<(u64, u32)> = self.board.unfinished.values().map(|r| (r.row, r.started.pid)).collect();
        for (started, pid) in dead {
            let why = format!("process {pid} ended before there was a verdict");
            self.append(Batch::of(Entry::Abandoned(Abandoned { started, why })), now_ms())?;
        }
        self.remove_places();
        self.load_seal()
    }

    /// Evaluates and writes both ends of it.
    pub(crate) fn run_in(
        &mut self,
        job: Job,
        sink: &mut dyn Sink,
    ) -> Result<(u64, Evaluation), SupervisorError> {
        let relative =
            job.candidate.strip_prefix(&job.root).unwrap_or(&job.candidate).to_string_lossy().into_owned();
        let started = Started {
            candidate: relative,
            tier: job.settings.tier.as_str().to_owned(),
            purpose: job.purpose,
            pid: std::process::id(),
        };
        let rows = self.append(Batch::of(Entry::EvaluationStarted(started.clone())), now_ms())?;
        let begun = rows.first().map_or(0, |r| r.seq);
        let outcome = Session::open(&job.problem, Some(&job.candidate), &job.settings)
            .map_err(SupervisorError::from)
            .and_then(|mut session| {
                let evaluation = evaluate::evaluate(&mut session, &job.settings, sink)?;
                self.still_sealed(&job, &session)?;
                Ok((session, evaluation))
            });
        let (session, evaluation) = match outcome {
            Ok(done) => done,
            Err(error) => {
                let why = kernelseek_evaluator::fault::chain(&error);
                self.append(Batch::of(Entry::Abandoned(Abandoned { started: begun, why })), now_ms())?;
                return Err(error);
            }
        };
        let batch = self.batch(begun, &job, started, &session, &evaluation)?;
        let rows = self.append(batch, now_ms())?;
        Ok((rows.last().map_or(0, |r| r.seq), evaluation))
    }

    /// What was measured is what the row will say: the sealed problem, and sources that did not change meanwhile.
    fn still_sealed(&self, job: &Job, session: &Session) -> Result<(), SupervisorError> {
        if job.broken && session.candidate_build().is_some() {
            let changed = std::io::Error::other("it changed while it was being built; evaluate again");
            return Err(SupervisorError::file(&job.candidate, changed));
        }
        if job.led {
            return Ok(());
        }
        let changes = self.changes()?;
        if changes.is_empty() { Ok(()) } else { Err(SupervisorError::SealBroken(changes)) }
    }

    fn batch(
        &self,
        begun: u64,
        job: &Job,
        started: Started,
        session: &Session,
        evaluation: &Evaluation,
    ) -> Result<Batch, SupervisorError> {
        let mut batch = Batch::default();
        let verdict = &evaluation.verdict;
        let mut sources = Vec::new();
        let mut main = String::new();
        let mut keep = |path: &Path, bytes: Vec<u8>, batch: &mut Batch| {
            if sources.is_empty() {
                main = String::from_utf8_lossy(&bytes).into_owned();
            }
            let path = path.strip_prefix(&job.root).unwrap_or(path).to_string_lossy().into_owned();
            sources.push(KeptFile { path, hash: batch.keep(Artefact::new(Kind::Source, bytes)) });
        };
        match session.candidate_build() {
            // The copies that the build read, not the files: those may have changed since.
            Some(build) => {
                let folder = job.candidate.parent().unwrap_or(&job.root);
                for file in build.sources.iter().filter(|f| f.class == PathClass::Workspace) {
                    let copy = build.stored_sources.join("workspace").join(&file.name);
                    let bytes = std::fs::read(&copy).map_err(|e| SupervisorError::file(&copy, e))?;
                    keep(&folder.join(&file.name), bytes, &mut batch);
                }
            }
            // What does not compile is still what was evaluated.
            None => {
                keep(&job.candidate, files::read(&job.candidate).unwrap_or_default(), &mut batch);
                if let Ok(Some((path, bytes))) = kernel_files::read(&job.candidate) {
                    keep(&path, bytes, &mut batch);
                }
            }
        }
        let edit = self.edit(&sources, &main);
        let library = session
            .candidate_build()
            .and_then(|b| std::fs::read(&b.artifact).ok())
            .filter(|bytes| bytes.len() <= LARGEST_LIBRARY)
            .map(|bytes| batch.keep(Artefact::new(Kind::Library, bytes)));
        let raw = if evaluation.raw.is_empty() {
            None
        } else {
            Some(batch.keep(Artefact::new(Kind::Raw, serde_json::to_vec(&evaluation.raw)?)))
        };
        let kept = batch.keep(Artefact::new(Kind::Verdict, serde_json::to_vec(verdict)?));
        let sealed = self.in_force()?;
        let seen: BTreeSet<&str> = verdict.scenarios.iter().map(|s| s.id.as_str()).collect();
        let count = |word: Word| verdict.scenarios.iter().filter(|s| s.word == word).count();
        let mut defences: Vec<String> = verdict
            .findings
            .iter()
            .chain(verdict.scenarios.iter().flat_map(|s| &s.findings))
            .filter(|f| f.severity >= Severity::Unproven)
            .map(|f| f.defence.clone())
            .collect();
        defences.sort();
        defences.dedup();
        defences.truncate(NAMED);
        batch.push(Entry::Evaluated(Box::new(Evaluated {
            started: begun,
            purpose: job.purpose,
            tier: started.tier,
            mode: verdict.timed.clone(),
            whole_grid: sealed.grid.scenarios.iter().all(|s| seen.contains(s.id.as_str())),
            seal: sealed.seal.hash(),
            candidate: started.candidate,
            candidate_hash: verdict.candidate_hash.clone(),
            sources,
            word: verdict.word,
            passed: verdict.passed,
            trust: verdict.trust,
            counts: Counts {
                scenarios: verdict.scenarios.len(),
                passed: count(Word::Pass),
                unresolved: count(Word::Unresolved),
                unproven: count(Word::Unproven),
                failing: count(Word::Fail),
                fallbacks: verdict.scenarios.iter().filter(|s| s.fallback).count(),
            },
            failing: verdict
                .scenarios
                .iter()
                .filter(|s| s.word == Word::Fail)
                .map(|s| s.id.clone())
                .take(NAMED)
                .collect(),
            defences,
            geomean: verdict.geomean,
            tunables: verdict.tunables.as_ref().map(ToString::to_string).unwrap_or_default(),
            edit,
            verdict: kept,
            raw,
            library,
            led: job.led,
            seconds: verdict.seconds,
        })));
        Ok(batch)
    }

    /// How the main source differs from the attempt before, and how much of it was there earlier.
    fn edit(&self, sources: &[KeptFile], now: &str) -> Option<Edit> {
        let main = sources.first()?;
        let attempts: Vec<_> = self.board.attempts().collect();
        let recent = &attempts[attempts.len().saturating_sub(EDITS)..];
        let texts: Vec<String> = recent
            .iter()
            .filter_map(|e| {
                let file = e.facts.sources.iter().find(|s| s.path == main.path)?;
                let bytes = self.ledger.artefact(&file.hash).ok()??;
                Some(String::from_utf8_lossy(&bytes).into_owned())
            })
            .collect();
        let mut deleted = BTreeSet::new();
        for pair in texts.windows(2) {
            let _ = edit(&pair[0], &pair[1], &mut deleted);
        }
        Some(edit(texts.last()?, now, &mut deleted))
    }

    pub(crate) fn judge_row(&self, row: u64) -> Result<Judgement, SupervisorError> {
        self.with_scene(|scene| {
            let evaluation = scene.board.evaluation(row).ok_or_else(|| SupervisorError::Unreadable {
                what: format!("row {row}"),
                why: "it is no evaluation".to_owned(),
            })?;
            scene
                .judge(evaluation)
                .map_err(|why| SupervisorError::Unreadable { what: format!("the verdict of row {row}"), why })
        })?
    }
}
