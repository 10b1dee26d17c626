//! The stop decision over a thousand ledgers: one that is met, and what can happen to it.
//!
//! Every change is made to a copy of the ledger of a real campaign whose goal is met. Whoever asks must be held back by
//! all of them but the harmless ones, and a harmless one must not hold anybody back.

use crate::campaign::{Campaigner, MET};
use kernelseek_campaign::StopRule;
use kernelseek_ledger::artefact::{Artefact, Kind};
use kernelseek_ledger::entry::{Evaluated, Hypothesis, Purpose, Sealed, Started};
use kernelseek_ledger::{Access, Batch, Entry, EvaluationLock, Ledger};
use kernelseek_supervisor::Campaign;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const LEDGERS: u64 = 1000;

struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// A copy of the met campaign's ledger, and what can be done to it.
struct Copy {
    state: tempfile::TempDir,
    folder: PathBuf,
    met: Evaluated,
}

const NOW: i64 = 4_000_000_000_000;

impl Copy {
    fn of(campaigns: &Path, met: &Evaluated) -> Self {
        let state = tempfile::tempdir().unwrap();
        let id = std::fs::read_dir(campaigns).unwrap().next().unwrap().unwrap().file_name();
        let folder = state.path().join("campaigns").join(&id);
        std::fs::create_dir_all(&folder).unwrap();
        for entry in std::fs::read_dir(campaigns.join(&id)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_file() {
                std::fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
            }
        }
        Self { state, folder, met: met.clone() }
    }
    fn append(&self, entry: Entry) {
        Ledger::open(&self.folder, Access::Write).unwrap().append(Batch::of(entry), NOW).unwrap();
    }
    fn sql(&self, sql: &str) {
        let connection = rusqlite::Connection::open(Ledger::file(&self.folder)).unwrap();
        assert!(connection.execute(sql, []).unwrap() > 0, "{sql}");
    }
    fn rows(&self) -> u64 {
        Ledger::open(&self.folder, Access::Read).unwrap().head().unwrap().0
    }
    /// Appends a further evaluation of the same sources whose verdict is the met one, changed.
    fn verdict(&self, change: impl FnOnce(&mut Value, &mut Evaluated)) {
        let mut ledger = Ledger::open(&self.folder, Access::Write).unwrap();
        let bytes = ledger.artefact(&self.met.verdict).unwrap().unwrap();
        let mut verdict: Value = serde_json::from_slice(&bytes).unwrap();
        let mut facts = self.met.clone();
        change(&mut verdict, &mut facts);
        let mut batch = Batch::default();
        facts.verdict = batch.keep(Artefact::new(Kind::Verdict, serde_json::to_vec(&verdict).unwrap()));
        batch.push(Entry::Evaluated(Box::new(facts)));
        ledger.append(batch, NOW).unwrap();
    }
}

/// Undoes a change to the workspace.
struct Undo(PathBuf, Vec<u8>);

impl Drop for Undo {
    fn drop(&mut self) {
        std::fs::write(&self.0, &self.1).unwrap();
    }
}

fn change_file(path: PathBuf, dice: &mut Dice) -> Undo {
    let before = std::fs::read(&path).unwrap();
    let mut bytes = before.clone();
    let at = dice.below(bytes.len());
    match dice.below(3) {
        0 => bytes[at] ^= 1 << dice.below(7),
        1 => bytes.truncate(at),
        _ => bytes.extend_from_slice(b"\n// x = 1\n"),
    }
    std::fs::write(&path, bytes).unwrap();
    Undo(path, before)
}

#[test]
fn of_a_thousand_changed_ledgers_none_is_misjudged() {
    let c = Campaigner::new(MET);
    c.must(&["seal"]);
    c.put("faster.c");
    c.meet();
    let work = c.context.problem();
    let ledger = Ledger::open(&c.ledger_folder(), Access::Read).unwrap();
    let met = ledger
        .rows()
        .unwrap()
        .iter()
        .rev()
        .find_map(|r| match r.entry().unwrap() {
            // The one that speaks for the sources: the newest full one, be it the engine's second.
            Entry::Evaluated(e) if e.tier == "full" => Some(*e),
            _ => None,
        })
        .unwrap();
    let rows_before = ledger.rows().unwrap();
    drop(ledger);
    let campaigns = c.ledger_folder().parent().unwrap().to_owned();

    // Another campaign's ledger, to be put in this one's place.
    let other = Campaigner::new(MET);
    other.must(&["seal"]);
    let other_ledger = Ledger::file(&other.ledger_folder());

    let mut dice = Dice(7);
    let mut blocked = 0u64;
    let mut allowed = 0u64;
    for round in 0..LEDGERS {
        let copy = Copy::of(&campaigns, &met);
        let mut undo = None;
        let mut lock = None;
        let mut may_allow = false;
        let mut flipped = false;
        let scenario = dice.below(3);
        let file = Ledger::file(&copy.folder);
        let what = match dice.below(22) {
            0 => {
                undo = Some(change_file(work.join("kernel.c"), &mut dice));
                "the source was changed"
            }
            1 => {
                let name =
                    *dice.pick(&["problem.toml", "all.jsonl", "reference.c", "seed.c", "campaign.toml"]);
                undo = Some(change_file(work.join(name), &mut dice));
                "something sealed was changed"
            }
            2 => {
                copy.verdict(|v, _| {
                    v["scenarios"].as_array_mut().unwrap().remove(scenario);
                });
                "a scenario is missing"
            }
            3 => {
                let field = *dice.pick(&["point", "lo", "hi"]);
                let value =
                    dice.pick(&[json!(null), json!("NaN"), json!(-1.0), json!(1e308), json!(0)]).clone();
                copy.verdict(|v, _| v["scenarios"][scenario]["ratio"][field] = value);
                "a ratio is no number"
            }
            4 => {
                let row = 1 + dice.below(usize::try_from(copy.rows()).unwrap());
                let cut = 1 + dice.below(20);
                copy.sql(&format!(
                    "UPDATE row SET body = substr(body, 1, length(body) - {cut}) WHERE seq = {row}"
                ));
                "a row was cut short"
            }
            5 => {
                let row = 1 + dice.below(usize::try_from(copy.rows()).unwrap());
                let set =
                    *dice.pick(&["prev = hash", "hash = prev", "at_ms = at_ms + 1", "body = body || ' '"]);
                copy.sql(&format!("UPDATE row SET {set} WHERE seq = {row}"));
                "the chain is broken"
            }
            6 => {
                let row = 1 + dice.below(usize::try_from(copy.rows()).unwrap());
                copy.sql(&format!("DELETE FROM row WHERE seq = {row}"));
                "a row is missing"
            }
            7 => {
                let row = 2 + dice.below(usize::try_from(copy.rows()).unwrap() - 1);
                copy.sql(&format!("DELETE FROM row WHERE seq >= {row}"));
                "the end is missing"
            }
            8 => {
                std::fs::copy(&other_ledger, &file).unwrap();
                for side in ["-wal", "-shm"] {
                    let _ = std::fs::remove_file(format!("{}{side}", file.display()));
                }
                "the ledger is another campaign's"
            }
            9 => {
                let started = Started {
                    candidate: "kernel.c".into(),
                    tier: "full".into(),
                    purpose: Purpose::Attempt,
                    pid: 1,
                };
                copy.append(Entry::EvaluationStarted(started));
                lock = Some(EvaluationLock::try_take(copy.state.path(), "kernel.c", NOW).unwrap().unwrap());
                "an evaluation is running"
            }
            10 => {
                let sealed = copy_seal(&copy.folder);
                copy.append(Entry::Sealed(Sealed {
                    seal: "00".into(),
                    changed: vec!["goal".into()],
                    ..sealed
                }));
                "it was sealed anew"
            }
            11 => {
                copy.verdict(|v, e| {
                    e.word = serde_json::from_value(json!("FAIL")).unwrap();
                    v["word"] = json!("FAIL");
                    v["scenarios"][scenario]["word"] = json!("FAIL");
                });
                "it failed later"
            }
            12 => {
                copy.sql("UPDATE artefact SET data = CAST(replace(CAST(data AS TEXT), 'FAIL', 'PASS') || ' ' AS BLOB) \
                          WHERE kind = 'verdict'");
                "the verdict was changed"
            }
            13 => {
                copy.sql("DELETE FROM artefact WHERE kind IN ('verdict', 'seal')");
                "artefacts are missing"
            }
            14 => {
                copy.verdict(|v, _| v["trust"] = json!("reduced"));
                "the trust is reduced"
            }
            15 => {
                let rows = copy.rows();
                std::fs::write(
                    copy.folder.join("head.json"),
                    format!("{{\"seq\":{},\"hash\":\"00\"}}", rows + 1 + dice.next() % 3),
                )
                .unwrap();
                "the ledger had come farther"
            }
            16 => {
                let severity = *dice.pick(&["unproven", "fail"]);
                copy.verdict(|v, _| {
                    v["findings"] = json!([{"defence": "timed.x", "severity": severity, "message": "m"}]);
                });
                "something is unproven"
            }
            17 => {
                copy.verdict(|v, _| {
                    v["scenarios"][scenario]["fallback"] = json!(true);
                });
                "the fallback ran"
            }
            18 => {
                let mut bytes = std::fs::read(&file).unwrap();
                let at = dice.below(bytes.len());
                bytes[at] ^= 1 << dice.below(8);
                std::fs::write(&file, bytes).unwrap();
                flipped = true;
                "a byte of the file was changed"
            }
            19 => {
                may_allow = true;
                copy.append(Entry::Hypothesis(Hypothesis { text: "next".into(), layer: None, expect: None }));
                "a hypothesis was stated"
            }
            20 => {
                may_allow = true;
                copy.verdict(|_, e| e.sources[0].hash = "00".into());
                "other sources were evaluated"
            }
            _ => {
                may_allow = true;
                "nothing happened"
            }
        };
        let stop = Campaign::stop_in(&work, copy.state.path(), "done");
        drop((undo, lock));
        if flipped {
            // A byte that nothing lives in may change. Opening for writing may mend one in the file's header, so this
            // is looked at afterwards.
            let same = Ledger::open(&copy.folder, Access::Read).and_then(|l| {
                Ok(l.rows()?[..rows_before.len()] == rows_before[..] && l.artefact(&met.verdict)?.is_some())
            });
            may_allow = same.unwrap_or(false);
        }
        let harmless =
            matches!(what, "a hypothesis was stated" | "other sources were evaluated" | "nothing happened");
        let decision = &stop.decision;
        if decision.allow {
            assert!(may_allow, "round {round}: {what}, and the agent was let go: {decision:?}");
            assert_eq!(decision.rule, StopRule::Met, "round {round}: {what}: {decision:?}");
            allowed += 1;
        } else {
            assert!(!harmless, "round {round}: {what}, and the agent was held back: {decision:?}");
            assert!(!decision.reason.is_empty() && decision.rule != StopRule::Met);
            blocked += 1;
        }
    }
    assert_eq!(blocked + allowed, LEDGERS);
    assert!(blocked > 700 && allowed > 80, "{blocked} held back, {allowed} let go");
}

fn copy_seal(folder: &Path) -> Sealed {
    let rows = Ledger::open(folder, Access::Read).unwrap().rows().unwrap();
    rows.iter()
        .rev()
        .find_map(|r| match r.entry().unwrap() {
            Entry::Sealed(s) => Some(s),
            _ => None,
        })
        .unwrap()
}
