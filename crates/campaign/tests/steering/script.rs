//! Scripts: what happens in a campaign, said in a few words, as the rows and artefacts of a ledger.
//!
//! Nothing here asks the machine: a script is what happened, and the tests ask whether the machine sees it.

use crate::shot::{GRID, Shot, hash_of, source_of};
use crate::world::World;
use kernelseek_core::decision::{DecisionPoint, Layer};
use kernelseek_core::finding::Severity;
use kernelseek_core::verdict::{Ratio, Word};
use kernelseek_ledger::artefact::{Artefact, Kind};
use kernelseek_ledger::entry::{
    Abandoned, Answered, Asked, Counts, Created, Edit, Ended, Evaluated, Hypothesis, KeptFile, NotPromoted,
    PersonAsked, Promoted, Purpose, QuestionFrom, Sealed, Started, StopAttempted, Workspace,
};
use kernelseek_ledger::seal::Seal;
use kernelseek_ledger::{Batch, Entry, Ledger, Row, export};
use std::collections::BTreeMap;
use std::path::Path;

/// When every script begins: the first of January 2026.
pub(crate) const START_MS: i64 = 1_767_225_600_000;
/// Work between two evaluations, in minutes.
const WORK: f64 = 4.0;
/// Duration of an evaluation, in minutes.
pub(crate) const EVALUATING: f64 = 1.0;

/// What a seal rests on, as far as stories change it.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) goal: Vec<String>,
    pub(crate) trust: &'static str,
    pub(crate) thresholds: String,
    pub(crate) budget: String,
    pub(crate) questions: String,
    pub(crate) tolerance: String,
    pub(crate) device: String,
    pub(crate) seed: String,
    pub(crate) toolchain: String,
    pub(crate) tagged: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            goal: vec!["every scenario correct".to_owned(), "every speedup >= 1.3".to_owned()],
            trust: "full",
            thresholds: String::new(),
            budget: String::new(),
            questions: String::new(),
            tolerance: "k = 2.0".to_owned(),
            device: "a device".to_owned(),
            seed: "int seed;".to_owned(),
            toolchain: "a compiler".to_owned(),
            tagged: false,
        }
    }
}

impl Terms {
    /// campaign.toml
    fn campaign(&self) -> String {
        let clauses: Vec<String> = self.goal.iter().map(|c| format!("\"{c}\"")).collect();
        let section = |name: &str, lines: &str| {
            if lines.is_empty() { String::new() } else { format!("[{name}]\n{lines}\n") }
        };
        format!(
            "format = 1\nname = \"story\"\nproblem = \"problem\"\ncandidate = \"kernel.c\"\n[goal]\nclauses = [{}]\n\
             trust = \"{}\"\n{}{}{}",
            clauses.join(", "),
            self.trust,
            section("thresholds", &self.thresholds),
            section("budget", &self.budget),
            section("questions", &self.questions),
        )
    }

    /// The problem's files.
    fn problem(&self) -> [(&'static str, String); 4] {
        let toml = format!(
            "format = 1\nname = \"scale\"\nsummary = \"y = 2 x\"\n[scenarios]\ndefault = \"all\"\nquick = [\"short\"]\n\
             [scenarios.files]\nall = \"all.jsonl\"\n[fields]\nn = {{ type = \"int\", min = 1 }}\n[[tensor]]\n\
             name = \"x\"\nrole = \"varying\"\ndtype = \"f32\"\nshape = [\"n\"]\n\
             generator = {{ kind = \"normal\", mean = 0.0, std = 1.0 }}\n[[tensor]]\nname = \"y\"\nrole = \"output\"\n\
             dtype = \"f32\"\nshape = [\"n\"]\n[reference]\nsource = \"reference.c\"\n[seed]\nsource = \"seed.c\"\n\
             [tolerance]\n{}\n",
            self.tolerance
        );
        let tags = if self.tagged { "\"tags\":[\"kept\"]," } else { "" };
        let grid =
            GRID.iter().map(|(id, ns)| format!("{{\"id\":\"{id}\",{tags}\"n\":{}}}\n", *ns as u64)).collect();
        [
            ("all.jsonl", grid),
            ("problem.toml", toml),
            ("reference.c", "int reference;\n".to_owned()),
            ("seed.c", format!("{}\n", self.seed)),
        ]
    }

    fn seal(&self) -> Seal {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let mut seal = Seal::default();
        let [(_, grid), (_, toml), (_, reference), (_, seed)] = self.problem();
        let mut goal = self.goal.clone();
        goal.push(format!("trust: {}", self.trust));
        seal.set("goal", goal);
        seal.set("thresholds", lines(&self.thresholds));
        seal.set("budget", lines(&self.budget));
        seal.set("questions", lines(&self.questions));
        seal.set("problem", lines(toml.split_once("[tolerance]").map_or("", |(head, _)| head)));
        seal.set("tolerance", lines(&self.tolerance));
        seal.set("scenarios", lines(&grid));
        seal.set("reference", lines(&reference));
        seal.set("seed", lines(&seed));
        seal.set("device", lines(&self.device));
        seal.set("toolchain", lines(&self.toolchain));
        seal
    }
}

/// A campaign in the making.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) name: String,
    pub(crate) now_ms: i64,
    /// Entries in order with their times: row `n` is the one at index `n - 1`.
    pub(crate) entries: Vec<(i64, Entry)>,
    pub(crate) artefacts: BTreeMap<String, Artefact>,
    pub(crate) terms: Terms,
    pub(crate) seal: String,
    version: String,
    versions: usize,
    incumbent: String,
    first: u64,
    confirmed: (u64, Option<Ratio>),
}

impl Script {
    /// A campaign that has just been sealed.
    pub(crate) fn sealed(name: &str) -> Self {
        Self::sealed_with(name, |_| {})
    }

    pub(crate) fn sealed_with(name: &str, change: impl FnOnce(&mut Terms)) -> Self {
        let mut terms = Terms::default();
        change(&mut terms);
        let mut script = Self {
            name: name.to_owned(),
            now_ms: START_MS,
            entries: Vec::new(),
            artefacts: BTreeMap::new(),
            terms,
            seal: String::new(),
            version: "seed".to_owned(),
            versions: 0,
            incumbent: String::new(),
            first: 0,
            confirmed: (0, None),
        };
        script.push(Entry::Created(Created { campaign: name.to_owned(), tool: "0.1.0".to_owned() }));
        script.write_seal("", Vec::new());
        script.push(Entry::Workspace(Workspace {
            path: "/campaign".into(),
            device: 1,
            inode: 2,
            because: "sealed".to_owned(),
        }));
        script
    }

    /// A campaign whose first attempt was promoted: 1.2 × everywhere.
    pub(crate) fn begun(name: &str) -> Self {
        Self::sealed(name).wins(Shot::even("a", 1.2))
    }

    fn push(&mut self, entry: Entry) -> u64 {
        self.entries.push((self.now_ms, entry));
        self.entries.len() as u64
    }

    fn keep(&mut self, kind: Kind, data: Vec<u8>) -> String {
        let artefact = Artefact::new(kind, data);
        let hash = artefact.hash();
        self.artefacts.insert(hash.clone(), artefact);
        hash
    }

    fn write_seal(&mut self, because: &str, changed: Vec<String>) {
        let seal = self.terms.seal();
        let artefact = self.keep(Kind::Seal, serde_json::to_vec(&seal).unwrap());
        let problem = self
            .terms
            .problem()
            .into_iter()
            .map(|(path, text)| KeptFile {
                path: path.to_owned(),
                hash: self.keep(Kind::Source, text.into()),
            })
            .collect();
        let campaign = self.terms.campaign();
        let campaign =
            KeptFile { path: "campaign.toml".to_owned(), hash: self.keep(Kind::Source, campaign.into()) };
        self.seal = seal.hash();
        self.push(Entry::Sealed(Sealed {
            seal: self.seal.clone(),
            artefact,
            because: because.to_owned(),
            changed,
            problem,
            campaign,
        }));
    }

    /// Sealed again with other terms; what changed follows from them.
    pub(crate) fn reseal(mut self, change: impl FnOnce(&mut Terms)) -> Self {
        let (before, hash) = (self.terms.seal(), self.seal.clone());
        change(&mut self.terms);
        let changed: Vec<String> = before.changes(&self.terms.seal()).into_iter().map(|c| c.part).collect();
        assert!(!changed.is_empty(), "{}: nothing was changed", self.name);
        self.now_ms += 60_000;
        self.write_seal("recorded", changed);
        if self.seal != hash {
            self.incumbent.clear();
        }
        self
    }

    /// Time passes.
    pub(crate) fn minutes(mut self, minutes: f64) -> Self {
        self.now_ms += (minutes * 60_000.0) as i64;
        self
    }

    /// A name for a version that was not there yet.
    fn fresh(&mut self) -> String {
        self.versions += 1;
        format!("v{}", self.versions)
    }

    fn start(&mut self, tier: &str, purpose: Purpose) -> u64 {
        self.push(Entry::EvaluationStarted(Started {
            candidate: "kernel.c".to_owned(),
            tier: tier.to_owned(),
            purpose,
            pid: 4711,
        }))
    }

    /// Both ends of an evaluation, right away; returns the row of its end.
    fn evaluate(&mut self, shot: &Shot, purpose: Purpose) -> u64 {
        let started = self.start(shot.tier, purpose);
        self.now_ms += (EVALUATING * 60_000.0) as i64;
        let source = source_of(&shot.version);
        let hash = self.keep(Kind::Source, source.into());
        let sources = vec![KeptFile { path: "kernel.c".to_owned(), hash }];
        let verdict = self.keep(Kind::Verdict, serde_json::to_vec(&shot.digest).unwrap());
        let edited = purpose == Purpose::Attempt && shot.version != self.version;
        self.version.clone_from(&shot.version);
        let facts = facts(shot, started, purpose, &self.seal, sources, verdict, edited);
        self.push(Entry::Evaluated(Box::new(facts)))
    }

    /// The agent evaluates something, after a while.
    pub(crate) fn attempt(self, shot: Shot) -> Self {
        let mut script = self.minutes(WORK);
        script.first = script.evaluate(&shot, Purpose::Attempt);
        script
    }

    /// The engine measures a second time.
    pub(crate) fn confirm(mut self, shot: Shot) -> Self {
        self.confirmed = (self.evaluate(&shot, Purpose::Confirm), shot.digest.geomean);
        self
    }

    /// The engine measures again what seems to have fallen.
    pub(crate) fn remeasure(mut self, shot: Shot) -> Self {
        self.evaluate(&shot, Purpose::Remeasure);
        self
    }

    /// The supervisor evaluates after the agent has left.
    pub(crate) fn last(mut self, shot: Shot) -> Self {
        self.evaluate(&shot, Purpose::Final);
        self
    }

    /// The last attempt becomes the incumbent.
    pub(crate) fn promote(mut self) -> Self {
        let (evaluated, geomean) = self.confirmed;
        let candidate_hash = hash_of(&self.version);
        let before = std::mem::replace(&mut self.incumbent, candidate_hash.clone());
        let geomean = geomean.expect("a confirmed mean");
        self.push(Entry::Promoted(Promoted {
            evaluated,
            first: self.first,
            candidate_hash,
            geomean,
            before,
        }));
        self
    }

    pub(crate) fn not_promote(mut self, why: &str, fallen: &[&str]) -> Self {
        let fallen = fallen.iter().map(|f| (*f).to_owned()).collect();
        self.push(Entry::NotPromoted(NotPromoted { first: self.first, why: why.to_owned(), fallen }));
        self
    }

    /// An attempt that is confirmed with the same numbers and promoted.
    pub(crate) fn wins(self, shot: Shot) -> Self {
        self.attempt(shot.clone()).confirm(shot).promote()
    }

    /// An attempt with a new version that is nowhere better than 1.19 ×.
    pub(crate) fn tries(mut self) -> Self {
        let version = self.fresh();
        self.attempt(Shot::even(&version, 1.19))
    }

    pub(crate) fn tries_times(mut self, n: usize) -> Self {
        for _ in 0..n {
            self = self.tries();
        }
        self
    }

    /// An attempt with a new version that is slower than the seed.
    pub(crate) fn slower(mut self) -> Self {
        let version = self.fresh();
        self.attempt(Shot::even(&version, 0.97))
    }

    /// An evaluation begins and has not ended.
    pub(crate) fn begins(mut self, purpose: Purpose) -> Self {
        self.start("default", purpose);
        self
    }

    /// An evaluation ends without a verdict.
    pub(crate) fn dies(self, purpose: Purpose) -> Self {
        let mut script = if purpose == Purpose::Attempt { self.minutes(WORK) } else { self };
        let started = script.start("default", purpose);
        script.now_ms += 10_000;
        script
            .push(Entry::Abandoned(Abandoned { started, why: "the worker's machine went away".to_owned() }));
        script
    }

    fn asks(mut self, point: Option<DecisionPoint>, from: QuestionFrom, question: &str) -> Self {
        let evaluations = self.entries.iter().filter(|(_, e)| is_attempt(e)).count() as u64;
        let silent = from == QuestionFrom::Nobody;
        self.push(Entry::Asked(Box::new(Asked {
            point,
            reason: point.map_or("a person asks", DecisionPoint::words).to_owned(),
            from,
            question: question.to_owned(),
            evidence: Vec::new(),
            fields: String::new(),
            probability: if silent { 0.1 } else { 1.0 },
            silence: 0.1,
            eligible: Vec::new(),
            draw: 0.5,
            signals: serde_json::Map::new(),
            evaluations,
        })));
        self
    }

    /// A question of the bank was asked.
    pub(crate) fn asked(self, point: DecisionPoint) -> Self {
        let from = QuestionFrom::Bank { entry: "Q-1".to_owned(), version: 1, group: "G1".to_owned() };
        self.asks(Some(point), from, "What does the measurement say?")
    }

    /// A question could have been asked, and none was.
    pub(crate) fn silent(self, point: DecisionPoint) -> Self {
        self.asks(Some(point), QuestionFrom::Nobody, "")
    }

    /// A person's question was passed on.
    pub(crate) fn passed_on(self, row: u64) -> Self {
        self.asks(None, QuestionFrom::Person { row }, "And the long one?")
    }

    pub(crate) fn person_asks(mut self) -> Self {
        self.push(Entry::PersonAsked(PersonAsked { question: "And the long one?".to_owned() }));
        self
    }

    pub(crate) fn states(mut self, text: &str, layer: Option<Layer>) -> Self {
        self.push(Entry::Hypothesis(Hypothesis { text: text.to_owned(), layer, expect: None }));
        self
    }

    /// Answers the question of the last ask.
    pub(crate) fn answers(mut self, text: &str) -> Self {
        let asked = |e: &Entry| matches!(e, Entry::Asked(_));
        let question = self.entries.iter().rposition(|(_, e)| asked(e)).map_or(0, |i| i as u64 + 1);
        self.push(Entry::Answered(Answered {
            question,
            text: text.to_owned(),
            artefact: serde_json::Map::new(),
            accepted: None,
            why: String::new(),
        }));
        self
    }

    /// The agent wants to stop, and what decides about it.
    pub(crate) fn stops(self, rule: &str) -> Self {
        self.stops_saying(rule, "")
    }

    pub(crate) fn stops_saying(mut self, rule: &str, words: &str) -> Self {
        self.now_ms += 30_000;
        self.push(Entry::StopAttempted(StopAttempted {
            allowed: matches!(rule, "met" | "ended" | "budget"),
            reason: String::new(),
            rule: rule.to_owned(),
            words: words.to_owned(),
        }));
        self
    }

    pub(crate) fn ends(mut self, met: bool, reason: &str) -> Self {
        self.push(Entry::Ended(Ended { met, reason: reason.to_owned(), evaluated: None }));
        self
    }

    /// A row that somebody else wrote.
    pub(crate) fn takes(&mut self, at_ms: i64, entry: Entry) {
        self.now_ms = self.now_ms.max(at_ms);
        if let Entry::Promoted(p) = &entry {
            self.incumbent.clone_from(&p.candidate_hash);
        }
        self.push(entry);
    }

    pub(crate) fn takes_artefact(&mut self, hash: &str, bytes: &[u8]) {
        self.artefacts.entry(hash.to_owned()).or_insert_with(|| Artefact::new(Kind::Verdict, bytes.to_vec()));
    }

    /// The rows without a file.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let row = |(i, (at_ms, entry)): (usize, &(i64, Entry))| Row {
            seq: i as u64 + 1,
            at_ms: *at_ms,
            kind: entry.kind().to_owned(),
            body: serde_json::to_string(entry).unwrap(),
            prev: String::new(),
            hash: String::new(),
        };
        self.entries.iter().enumerate().map(row).collect()
    }

    pub(crate) fn world(&self) -> World {
        let artefacts = self.artefacts.iter().map(|(hash, a)| (hash.clone(), a.data.clone())).collect();
        World::of(self.rows(), artefacts)
    }

    /// The file that the ledger of this campaign exports.
    pub(crate) fn exported(&self, scratch: &Path) -> Vec<u8> {
        let mut ledger = Ledger::create(&scratch.join(&self.name), &self.name).unwrap();
        let mut artefacts = Some(self.artefacts.values().cloned().collect::<Vec<_>>());
        let mut rest = self.entries.as_slice();
        while let Some((at_ms, _)) = rest.first() {
            let same = rest.iter().take_while(|(t, _)| t == at_ms).count();
            let mut batch = Batch::default();
            for artefact in artefacts.take().unwrap_or_default() {
                batch.keep(artefact);
            }
            for (_, entry) in &rest[..same] {
                batch.push(entry.clone());
            }
            ledger.append(batch, *at_ms).unwrap();
            rest = &rest[same..];
        }
        let mut out = Vec::new();
        export(&ledger, false, Path::new(&self.name), &mut out).unwrap();
        out
    }
}

pub(crate) fn is_attempt(entry: &Entry) -> bool {
    matches!(entry, Entry::Evaluated(e) if e.purpose == Purpose::Attempt)
}

/// The row of an evaluation, from its verdict, by the same rules as the driver's.
pub(crate) fn facts(
    shot: &Shot,
    started: u64,
    purpose: Purpose,
    seal: &str,
    sources: Vec<KeptFile>,
    verdict: String,
    edited: bool,
) -> Evaluated {
    let digest = &shot.digest;
    let count = |word: Word| digest.scenarios.iter().filter(|s| s.word == word).count();
    let mut defences: Vec<String> = digest
        .findings
        .iter()
        .chain(digest.scenarios.iter().flat_map(|s| &s.findings))
        .filter(|f| f.severity >= Severity::Unproven)
        .map(|f| f.defence.clone())
        .collect();
    defences.sort();
    defences.dedup();
    Evaluated {
        started,
        purpose,
        tier: shot.tier.to_owned(),
        mode: "cold".to_owned(),
        whole_grid: GRID.iter().all(|(id, _)| digest.scenario(id).is_some()),
        seal: seal.to_owned(),
        candidate: "kernel.c".to_owned(),
        candidate_hash: digest.candidate_hash.clone(),
        sources,
        word: digest.word,
        passed: digest.passed,
        trust: digest.trust,
        counts: Counts {
            scenarios: digest.scenarios.len(),
            passed: count(Word::Pass),
            unresolved: count(Word::Unresolved),
            unproven: count(Word::Unproven),
            failing: count(Word::Fail),
            fallbacks: digest.scenarios.iter().filter(|s| s.fallback).count(),
        },
        failing: digest.scenarios.iter().filter(|s| s.word == Word::Fail).map(|s| s.id.clone()).collect(),
        defences,
        geomean: digest.geomean,
        tunables: String::new(),
        edit: edited.then_some(Edit { added: 4, deleted: 2, repeated: 1 }),
        verdict,
        raw: None,
        library: None,
        led: false,
        seconds: 60.0 * EVALUATING,
    }
}
