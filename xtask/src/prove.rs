//! The proofs about campaigns at full length, written down: scripted agents that want an unearned win, and kill -9 at
//! random moments. What is in the record already, of the same binary and as many rounds, is not run again.

use kernelseek_testkit::crash::{self, Victim};
use kernelseek_testkit::led::{self, ATTACKS};
use kernelseek_testkit::stand;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Rounds of each attack.
const LED_ROUNDS: usize = 20;
/// Moments at which an evaluation is killed; the other commands get a quarter of it.
const CRASH_ROUNDS: usize = 200;

/// What to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Section {
    /// Agents that want an unearned win.
    Led,
    /// kill -9.
    Crash,
}

/// What was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct Prove {
    /// The binary, a release build
    #[arg(long, default_value = "target/release/kernelseek")]
    binary: PathBuf,
    /// The record
    #[arg(long, default_value = "results/cpu/campaigns.json")]
    record: PathBuf,
    /// Only this section
    #[arg(long, value_enum)]
    section: Option<Section>,
    /// Only these attacks or commands
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Rounds of each attack [default: 20], or moments of kill -9 [default: 200]
    #[arg(long)]
    rounds: Option<usize>,
}

fn talk(line: &str) {
    // A closed stream stops no proof.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn git(root: &Path, args: &[&str]) -> String {
    let said = Command::new("git").args(args).current_dir(root).output();
    said.map_or_else(|_| String::new(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model =
        cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|(_, m)| m.to_owned()));
    json!({
        "model": model,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
    })
}

/// The record on the disk, as far as it is about this binary.
fn known(record: &Path, identity: &str) -> Map<String, Value> {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) if map.get("binary").and_then(Value::as_str) == Some(identity) => map,
        _ => Map::new(),
    }
}

fn save(record: &Path, map: &Map<String, Value>) -> Result<(), String> {
    let text = serde_json::to_string_pretty(map).map_err(|e| e.to_string())?;
    std::fs::write(record, text + "\n").map_err(|e| format!("{}: {e}", record.display()))
}

/// Entry `name` of a section, if it has as many rounds.
fn has(map: &Map<String, Value>, section: &str, name: &str, rounds: usize) -> bool {
    map.get(section)
        .and_then(|s| s.get(name))
        .and_then(|e| e["rounds"].as_u64())
        .is_some_and(|n| n >= rounds as u64)
}

fn put(map: &mut Map<String, Value>, section: &str, name: &str, value: Value) {
    let section = map.entry(section).or_insert_with(|| json!({}));
    if let Value::Object(section) = section {
        section.insert(name.to_owned(), value);
    }
}

/// Proves and writes the record after every step.
pub(crate) fn prove(args: &Prove, root: &Path) -> Result<(), String> {
    let fixtures = root.join("crates/kernelseek/tests/fixtures/led");
    let identity = stand::identity(&args.binary)?;
    let mut map = known(&args.record, &identity);
    // What the binary is not made of may change.
    let changes =
        git(root, &["status", "--porcelain", "--", "crates", ":!crates/testkit", ":!crates/*/tests"]);
    let dirty = if changes.is_empty() { "" } else { " with changes" };
    map.insert(
        "what".into(),
        json!(
            "attempts to record an unearned win from inside `kernelseek run`, and kill -9 at random moments"
        ),
    );
    map.insert("command".into(), json!("cargo xtask prove --binary target/release/kernelseek"));
    map.insert("commit".into(), json!(format!("{}{dirty}", git(root, &["rev-parse", "HEAD"]))));
    map.insert("binary".into(), json!(identity));
    map.insert("machine".into(), machine());
    let wanted = |name: &str| args.only.is_empty() || args.only.iter().any(|o| o == name);
    let mut bad = 0;
    if args.section != Some(Section::Crash) {
        if !stand::python_works() {
            return Err("scripted agents need python3 with its sqlite3 module".to_owned());
        }
        let rounds = args.rounds.unwrap_or(LED_ROUNDS);
        for attack in ATTACKS.iter().filter(|a| wanted(a.name)) {
            if has(&map, "led", attack.name, rounds) {
                continue;
            }
            let tally = attacked(&args.binary, &fixtures, attack, rounds)?;
            bad += tally.wins.len() + tally.faults.len() + usize::from(tally.honest != Some(true));
            put(&mut map, "led", attack.name, tally.json(attack));
            save(&args.record, &map)?;
        }
    }
    if args.section != Some(Section::Led) {
        for victim in Victim::ALL.into_iter().filter(|v| wanted(v.name())) {
            let all = args.rounds.unwrap_or(CRASH_ROUNDS);
            let rounds = if victim == Victim::Eval { all } else { all.div_ceil(4) };
            if has(&map, "crash", victim.name(), rounds) {
                continue;
            }
            let tally = killed(&args.binary, &fixtures, victim, rounds)?;
            bad += tally.faults.len();
            put(&mut map, "crash", victim.name(), tally.json(victim));
            save(&args.record, &map)?;
        }
    }
    save(&args.record, &map)?;
    if bad == 0 { Ok(()) } else { Err(format!("{bad} wins or faults; {} has them", args.record.display())) }
}

fn attacked(
    binary: &Path,
    fixtures: &Path,
    attack: &led::Attack,
    rounds: usize,
) -> Result<led::Tally, String> {
    let begun = Instant::now();
    let mut stand = led::stand(binary, fixtures)?;
    let mut tally = led::Tally::default();
    for _ in 0..rounds {
        let round = led::round(&mut stand, attack)?;
        for line in round.win.iter().chain(&round.fault) {
            talk(&format!("{}: {line}", attack.name));
        }
        tally.take(round);
    }
    tally.honest = Some(led::honest(&mut stand)?);
    tally.seconds = begun.elapsed().as_secs_f64();
    talk(&format!(
        "{}: {} rounds, {} wins, {} faults, honest win afterwards: {:?}, {:.0} s",
        attack.name,
        tally.rounds,
        tally.wins.len(),
        tally.faults.len(),
        tally.honest,
        tally.seconds
    ));
    Ok(tally)
}

fn killed(binary: &Path, fixtures: &Path, victim: Victim, rounds: usize) -> Result<crash::Tally, String> {
    let begun = Instant::now();
    let seed =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(1, |d| d.as_nanos() as u64);
    let mut bench = crash::Bench::new(binary, fixtures, seed)?;
    let mut tally = crash::Tally::default();
    let duration = bench.duration(victim)?;
    tally.duration = duration.as_secs_f64();
    // A moment after the command's end interrupts nothing and does not count.
    while tally.killed < rounds && tally.rounds < 4 * rounds {
        let before = tally.faults.len();
        bench.round(victim, duration, &mut tally)?;
        for line in &tally.faults[before..] {
            talk(line);
        }
        if tally.rounds.is_multiple_of(25) {
            talk(&format!("{}: {} of {rounds}, {} faults", victim.name(), tally.killed, tally.faults.len()));
        }
    }
    tally.seconds = begun.elapsed().as_secs_f64();
    talk(&format!(
        "{}: {} rounds, {} killed while running, {} faults, {} same verdicts, {:.0} s",
        victim.name(),
        tally.rounds,
        tally.killed,
        tally.faults.len(),
        tally.same,
        tally.seconds
    ));
    Ok(tally)
}
