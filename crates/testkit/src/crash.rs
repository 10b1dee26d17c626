//! kill -9 at random moments: nothing that was read back may be lost, and the next evaluation says the same.

use crate::stand::{LIMIT, Stand, finish, start};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long workers may outlive their supervisor.
const STRAY: Duration = Duration::from_secs(2);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Victim {
    /// An evaluation.
    Eval,
    /// Sealing again.
    Seal,
    /// A statement.
    Hypothesis,
    /// An export.
    Export,
    /// Leading an agent that evaluates.
    Run,
}

impl Victim {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Eval, Self::Seal, Self::Hypothesis, Self::Export, Self::Run];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eval => "eval",
            Self::Seal => "seal",
            Self::Hypothesis => "hypothesis",
            Self::Export => "export",
            Self::Run => "run",
        }
    }

    fn args(self, stand: &Stand) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Eval => &["eval"],
            Self::Seal => &["seal", "--because", "the scenarios changed"],
            Self::Hypothesis => &["hypothesis", "fewer calls", "--expect", "1.2"],
            Self::Export => &["export"],
            Self::Run => &["run", "--", "kernelseek", "eval", "--quick"],
        };
        let mut args: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
        if self == Self::Export {
            args.push(stand.path("cut.jsonl").display().to_string());
        }
        args
    }
}

/// What came of the rounds.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Rounds.
    pub rounds: usize,
    /// Rounds in which the process was still running when it was killed.
    pub killed: usize,
    /// What must not be, in words.
    pub faults: Vec<String>,
    /// Rounds after which the verdict has the same words.
    pub same: usize,
    /// Rounds after which a second look was needed: the first said UNRESOLVED where it had said PASS, or the reverse.
    pub second_look: usize,
    /// Evaluations that were marked as ended without a verdict.
    pub abandoned: usize,
    /// Longest that a process outlived its supervisor, in milliseconds.
    pub longest_stray_ms: u128,
    /// How long the command takes undisturbed, in seconds.
    pub duration: f64,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl Tally {
    /// For the record.
    #[must_use]
    pub fn json(&self, victim: Victim) -> Value {
        json!({
            "command": victim.name(), "rounds": self.rounds, "killed_while_running": self.killed,
            "faults": self.faults, "same_verdict_afterwards": self.same, "second_look": self.second_look,
            "abandoned_rows": self.abandoned, "longest_stray_ms": self.longest_stray_ms,
            "undisturbed_s": self.duration, "seconds": (self.seconds * 10.0).round() / 10.0,
        })
    }
}

/// A campaign to be interrupted, with the words of its candidate's verdict.
#[derive(Debug)]
pub struct Bench {
    /// The stand.
    pub stand: Stand,
    words: BTreeMap<String, String>,
    dice: u64,
}

/// The verdict's word, under the empty name, and each scenario's.
fn words(verdict: &Value) -> BTreeMap<String, String> {
    let word = |v: &Value| v["word"].as_str().unwrap_or_default().to_owned();
    let scenarios = verdict["scenarios"].as_array().into_iter().flatten();
    let mut words: BTreeMap<String, String> =
        scenarios.map(|s| (s["id"].as_str().unwrap_or_default().to_owned(), word(s))).collect();
    words.insert(String::new(), word(verdict));
    words
}

impl Bench {
    /// A sealed campaign with a first verdict. `dice` seeds the moments.
    ///
    /// # Errors
    /// When it cannot be made, in words.
    pub fn new(binary: &Path, fixtures: &Path, dice: u64) -> Result<Self, String> {
        let mut stand = Stand::new(binary, fixtures)?;
        stand.json(&["seal"])?;
        stand.put("better.c")?;
        let words = words(&stand.json(&["eval"])?);
        stand.rows()?;
        Ok(Self { stand, words, dice: dice | 1 })
    }

    /// A number from 0 to 1.
    fn draw(&mut self) -> f64 {
        // Marsaglia's xorshift: moments need no better dice.
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// How long the command takes undisturbed, the longest of three.
    ///
    /// # Errors
    /// When it fails, in words.
    pub fn duration(&mut self, victim: Victim) -> Result<Duration, String> {
        let mut longest = Duration::ZERO;
        for _ in 0..3 {
            self.prepare(victim)?;
            let args = victim.args(&self.stand);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let done = self.stand.run(&args)?;
            if done.ran.code != 0 {
                return Err(format!("{}: {}", victim.name(), done.ran.snapshot()));
            }
            longest = longest.max(done.took);
        }
        self.settle(victim)?;
        self.stand.rows()?;
        Ok(longest)
    }

    /// Makes something to seal again; makes a source that was not built yet, so that building is interrupted too.
    fn prepare(&mut self, victim: Victim) -> Result<(), String> {
        let mark = (self.draw() * 1e15) as u64;
        let problem = self.stand.problem();
        let edit = |name: &str, line: &str| -> Result<(), String> {
            let path = problem.join(name);
            let text = std::fs::read_to_string(&path).map_err(|e| format!("{name}: {e}"))?;
            std::fs::write(&path, format!("{text}{line}\n")).map_err(|e| format!("{name}: {e}"))
        };
        match victim {
            Victim::Seal => edit("reference.c", &format!("/* {mark} */")),
            Victim::Eval | Victim::Run => {
                self.stand.put("better.c")?;
                edit("kernel.c", &format!("/* {mark} */"))
            }
            Victim::Hypothesis | Victim::Export => Ok(()),
        }
    }

    /// Brings the campaign to where it was: sealed on the files as they are.
    fn settle(&self, victim: Victim) -> Result<(), String> {
        if victim != Victim::Seal {
            return Ok(());
        }
        self.stand.reset("better.c")?;
        self.stand.json(&["seal", "--because", "back"]).map(|_| ())
    }

    /// One round: starts, kills at a moment within `duration`, and looks.
    ///
    /// # Errors
    /// When the round could not be made, in words. What it shows goes to `tally`.
    pub fn round(&mut self, victim: Victim, duration: Duration, tally: &mut Tally) -> Result<(), String> {
        self.prepare(victim)?;
        let moment = duration.mul_f64(self.draw());
        let args = victim.args(&self.stand);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut child = start(self.stand.command(&args))?;
        std::thread::sleep(moment);
        let running = child.try_wait().map_err(|e| e.to_string())?.is_none();
        let below = descendants(child.id());
        child.kill().map_err(|e| e.to_string())?;
        let killed_at = Instant::now();
        child.wait().map_err(|e| e.to_string())?;
        tally.rounds += 1;
        tally.killed += usize::from(running);
        let at = format!("{} after {:.3} s", victim.name(), moment.as_secs_f64());
        let mut fault = |what: String| tally.faults.push(format!("{at}: {what}"));
        match strays(&below, &self.stand, killed_at) {
            Ok(took) => tally.longest_stray_ms = tally.longest_stray_ms.max(took.as_millis()),
            Err(left) => fault(format!("still running after {} s: {left}", STRAY.as_secs())),
        }
        if let Err(why) = self.stand.rows() {
            fault(why);
        }
        if let Err(why) = self.settle(victim) {
            fault(why);
        }
        match self.same_words() {
            Ok(looks) => {
                tally.same += 1;
                tally.second_look += usize::from(looks > 1);
            }
            Err(why) => fault(why),
        }
        match self.stand.rows() {
            Ok(rows) => match open_evaluations(&rows) {
                Ok(abandoned) => tally.abandoned = tally.abandoned.max(abandoned),
                Err(why) => fault(why),
            },
            Err(why) => fault(why),
        }
        if let Some(left) = leftovers(&self.stand) {
            fault(left);
        }
        if let Err(why) = self.stand.travels() {
            fault(why);
        }
        Ok(())
    }

    /// Evaluates until the words are those of the first verdict, at most three times; how many it took. Only how wide
    /// an interval comes out may differ: that is the machine's business.
    fn same_words(&self) -> Result<usize, String> {
        self.stand.put("better.c")?;
        let mut last = String::new();
        for look in 1..=3 {
            let now = words(&self.stand.json(&["eval"])?);
            if now == self.words {
                return Ok(look);
            }
            let narrow = |w: &String| matches!(w.as_str(), "PASS" | "UNRESOLVED");
            last = format!("the verdict was {:?} and is {now:?}", self.words);
            if !now.values().all(narrow) || !self.words.values().all(narrow) {
                break;
            }
        }
        Err(last)
    }
}

/// Folders that an interrupted command left in the campaign's and that the evaluation after it did not remove.
fn leftovers(stand: &Stand) -> Option<String> {
    let campaigns = std::fs::read_dir(stand.state().join("campaigns")).into_iter().flatten().flatten();
    let inside = campaigns.flat_map(|c| std::fs::read_dir(c.path()).into_iter().flatten().flatten());
    let folders = inside.filter(|e| e.file_type().is_ok_and(|t| t.is_dir()));
    // A supervisor's own folder is removed by the next one that leads.
    let names: Vec<String> = folders.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    let names: Vec<String> = names.into_iter().filter(|n| !n.starts_with("led-")).collect();
    (!names.is_empty()).then(|| format!("left in the campaign's folder: {}", names.join(", ")))
}

/// How many evaluations were marked as ended without a verdict; an error if one has no end at all.
fn open_evaluations(rows: &[Value]) -> Result<usize, String> {
    let mut open = BTreeSet::new();
    let mut abandoned = 0;
    for row in rows {
        let entry = &row["entry"];
        match entry["kind"].as_str().unwrap_or_default() {
            "evaluation_started" => {
                open.insert(row["row"].as_u64().unwrap_or_default());
            }
            kind @ ("evaluated" | "abandoned") => {
                abandoned += usize::from(kind == "abandoned");
                if !open.remove(&entry["started"].as_u64().unwrap_or_default()) {
                    return Err(format!("row {} ends what did not begin, or a second time", row["row"]));
                }
            }
            _ => {}
        }
    }
    if open.is_empty() { Ok(abandoned) } else { Err(format!("evaluations without an end: rows {open:?}")) }
}

/// A process: its id and when it started, so that a second one of the same id is not taken for it.
type Process = (u32, u64);

fn stat(pid: u32) -> Option<(u32, u64, char)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?, fields.first()?.chars().next()?))
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().to_str()?.parse().ok())
}

/// Everything below a process.
fn descendants(top: u32) -> Vec<Process> {
    let all: BTreeMap<u32, (u32, u64)> =
        processes().filter_map(|p| stat(p).map(|(parent, began, _)| (p, (parent, began)))).collect();
    let is_below = |mut pid: u32| {
        while let Some((parent, _)) = all.get(&pid) {
            if *parent == top {
                return true;
            }
            pid = *parent;
        }
        false
    };
    all.iter().filter(|(pid, _)| is_below(**pid)).map(|(pid, (_, began))| (*pid, *began)).collect()
}

/// Waits until those processes, and any that names the stand's folder, are gone; who is left, otherwise.
fn strays(known: &[Process], stand: &Stand, since: Instant) -> Result<Duration, String> {
    let mark = stand.path("").display().to_string();
    loop {
        let named = processes().filter(|p| {
            let line = std::fs::read(format!("/proc/{p}/cmdline")).unwrap_or_default();
            *p != std::process::id() && String::from_utf8_lossy(&line).contains(&mark)
        });
        let mut left: Vec<u32> = named.collect();
        left.extend(
            known
                .iter()
                .filter(|(p, began)| stat(*p).is_some_and(|s| s.1 == *began && s.2 != 'Z'))
                .map(|k| k.0),
        );
        if left.is_empty() {
            return Ok(since.elapsed());
        }
        if since.elapsed() > STRAY {
            let name = |p: &u32| {
                std::fs::read_to_string(format!("/proc/{p}/comm")).unwrap_or_default().trim().to_owned()
            };
            return Err(left.iter().map(|p| format!("{p} {}", name(p))).collect::<Vec<_>>().join(", "));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Kills an import half-way and looks whether the state folder is still usable.
///
/// # Errors
/// What must not be, in words.
pub fn half_import(bench: &mut Bench) -> Result<(), String> {
    let file = bench.stand.path("whole.jsonl").display().to_string();
    bench.stand.json(&["export", &file])?;
    let elsewhere = bench.stand.path("half").display().to_string();
    let args = ["--state-dir", &elsewhere, "import", &file];
    let whole = finish(bench.stand.command(&args), None, LIMIT)?.took;
    for _ in 0..10 {
        let _ = std::fs::remove_dir_all(&elsewhere);
        let mut child = start(bench.stand.command(&args))?;
        std::thread::sleep(whole.mul_f64(bench.draw()));
        child.kill().and_then(|()| child.wait()).map_err(|e| e.to_string())?;
        let done = finish(bench.stand.command(&args), None, LIMIT)?;
        // Either the first one had finished, or nothing stands in the second one's way.
        if done.ran.code != 0 && !done.ran.stderr.contains("exists already") {
            return Err(done.ran.snapshot());
        }
        let log = ["--state-dir", &elsewhere, "import", &file, "--workspace", "."];
        let _ = finish(bench.stand.command(&log), None, LIMIT)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(kinds: &[(&str, u64)]) -> Vec<Value> {
        let row = |(i, (kind, started)): (usize, &(&str, u64))| json!({"row": i + 1, "entry": {"kind": kind, "started": started}});
        kinds.iter().enumerate().map(row).collect()
    }

    #[test]
    fn every_evaluation_ends_once() {
        let begins = ("evaluation_started", 0);
        assert_eq!(open_evaluations(&rows(&[begins, ("evaluated", 1), begins, ("abandoned", 3)])), Ok(1));
        assert!(open_evaluations(&rows(&[begins])).is_err());
        assert!(open_evaluations(&rows(&[begins, ("abandoned", 1), ("evaluated", 1)])).is_err());
        assert!(open_evaluations(&rows(&[("evaluated", 7)])).is_err());
    }

    #[test]
    fn a_process_is_found_below_another() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().unwrap();
        let found = descendants(std::process::id());
        child.kill().and_then(|()| child.wait()).unwrap();
        assert!(found.iter().any(|(pid, _)| *pid == child.id()));
    }
}
