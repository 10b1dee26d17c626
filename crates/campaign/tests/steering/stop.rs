//! The stop decision: every rule, and that no doubt lets the agent go.

use crate::script::Script;
use crate::shot::{GRID, Shot, source_of};
use crate::stories::all;
use crate::world::World;
use kernelseek_campaign::{Board, Scene, Situation, StopDecision, StopRule, Verdicts};
use kernelseek_core::verdict::{Digest, Ratio, Word};
use kernelseek_ledger::entry::Purpose;
use kernelseek_ledger::seal::Change;
use kernelseek_ledger::{Busy, Entry, artefact};
use proptest::prelude::*;

/// Decides with the workspace holding `version`; none is a file that cannot be read.
fn decide(world: &World, version: Option<&str>) -> StopDecision {
    with(world, version, &[], None)
}

fn with(world: &World, version: Option<&str>, changes: &[Change], running: Option<&Busy>) -> StopDecision {
    let hash = version.map(|v| artefact::hash(source_of(v).as_bytes()));
    let hash_of = |path: &str| hash.clone().filter(|_| path == "kernel.c");
    world.scene().expect("a seal").stop(&Situation { changes, running, hash_of: &hash_of })
}

/// A promoted candidate `b` that meets the goal, fully evaluated.
fn met() -> Script {
    Script::begun("c").wins(Shot::even("b", 1.35)).attempt(Shot::even("b", 1.35).full())
}

#[test]
fn the_table_of_rules() {
    use StopRule::{Budget, Ended, Met, NotEvaluated, Unmet};
    let won = || Shot::even("b", 1.35);
    let compiler = |s: Script| s.reseal(|t| t.toolchain = "another".to_owned());
    let spent = |s: Script| s.reseal(|t| t.budget = "evaluations = 1".to_owned());
    let reduced = |shot: Shot| Script::sealed_with("c", |t| t.trust = "reduced").attempt(shot.full());
    for (what, script, version, rule, says) in [
        ("met", met(), "b", Met, "full evaluation of row"),
        ("edited since", met(), "x", NotEvaluated, "not evaluated"),
        ("back to what was met", met().attempt(Shot::even("x", 1.0)), "b", Met, ""),
        ("the other one", met().attempt(Shot::even("x", 1.0)), "x", Unmet, "every speedup"),
        ("nothing evaluated", Script::sealed("c"), "seed", NotEvaluated, "not evaluated"),
        ("default tier, below", Script::begun("c"), "a", Unmet, "1.300× asked"),
        ("default tier, every clause", Script::begun("c").wins(won()), "b", NotEvaluated, "only a full one"),
        ("quick", Script::begun("c").attempt(won().quick("short")), "b", Unmet, "not evaluated"),
        ("full but in part", Script::begun("c").attempt(won().full().only("odd")), "b", Unmet, "1 of 4"),
        (
            "a later quick one fails",
            met().attempt(won().quick("short").fails("short")),
            "b",
            Unmet,
            "`short`",
        ),
        ("a later default one fails", met().attempt(won().fails("odd")), "b", Unmet, "`odd`"),
        (
            "a later one is unproven",
            met().attempt(won().unproven("odd", "timed.clocks")),
            "b",
            Unmet,
            "`odd`",
        ),
        ("the confirmation fails", met().confirm(won().fails("odd")), "b", Unmet, "`odd`"),
        ("a later default one passes", met().attempt(won()), "b", Met, ""),
        (
            "failed first, then met in full",
            Script::begun("c").attempt(won().fails("odd")).attempt(won().full()),
            "b",
            Met,
            "",
        ),
        ("under an older seal", compiler(met()), "b", NotEvaluated, "not evaluated"),
        ("sealed for a budget", met().reseal(|t| t.budget = "evaluations = 90".to_owned()), "b", Met, ""),
        (
            "one scenario short",
            met().attempt(Shot::of("b", [1.35, 1.35, 1.28, 1.35]).full()),
            "b",
            Unmet,
            "`square`",
        ),
        ("unresolved", met().attempt(won().full().width_at("odd", 0.08)), "b", Unmet, "too wide"),
        ("fallback", met().attempt(won().full().falls_back("odd")), "b", Unmet, "`odd`"),
        ("reduced trust", met().attempt(won().full().reduced()), "b", Unmet, "reduced trust"),
        ("reduced trust accepted", reduced(won().reduced()), "b", Met, ""),
        (
            "a scenario missing",
            Script::begun("c").attempt(won().full().with(|d| drop(d.scenarios.remove(1)))),
            "b",
            Unmet,
            "`odd`",
        ),
        (
            "a scenario twice",
            met().attempt(won().full().with(|d| d.scenarios.push(d.scenarios[0].clone()))),
            "b",
            Unmet,
            "twice",
        ),
        (
            "a foreign scenario",
            met().attempt(won().full().with(|d| d.scenarios.push(foreign(d)))),
            "b",
            Unmet,
            "not sealed",
        ),
        (
            "no scenario",
            Script::begun("c").attempt(won().full().with(|d| d.scenarios.clear())),
            "b",
            Unmet,
            "0 of 4",
        ),
        ("a part of the grid passes later", met().attempt(won().full().only("odd")), "b", Met, ""),
        ("does not build", met().attempt(Shot::unbuilt("x")), "x", Unmet, "refused"),
        ("ended", met().ends(true, "done"), "x", Ended, "done"),
        ("spent, unmet", spent(Script::begun("c")), "a", Budget, "the goal is unmet"),
        ("spent, edited", spent(Script::begun("c")), "x", Budget, "not evaluated"),
        ("spent, met", spent(met()), "b", Met, ""),
        (
            "the agent's last words prove nothing",
            met().stops_saying("unmet", "all PASS, goal met"),
            "x",
            NotEvaluated,
            "",
        ),
        ("died since", met().dies(Purpose::Attempt), "b", Met, ""),
        ("died, nothing else", Script::sealed("c").dies(Purpose::Attempt), "a", NotEvaluated, ""),
        (
            "cut off, nothing else",
            Script::sealed("c").begins(Purpose::Attempt),
            "a",
            NotEvaluated,
            "without a verdict",
        ),
    ] {
        let decision = decide(&script.world(), Some(version));
        assert_eq!((decision.rule, decision.allow), (rule, rule.allows()), "{what}: {}", decision.reason);
        assert!(decision.reason.contains(says), "{what}: {}", decision.reason);
        assert_eq!(decision.rule == Met, decision.judgement.as_ref().is_some_and(|j| j.met), "{what}");
        let json = serde_json::to_value(&decision).unwrap();
        assert_eq!(json["rule"], rule.as_str(), "{what}");
    }
}

fn foreign(digest: &Digest) -> kernelseek_core::verdict::ScenarioVerdict {
    kernelseek_core::verdict::ScenarioVerdict { id: "foreign".to_owned(), ..digest.scenarios[0].clone() }
}

#[test]
fn what_is_outside_the_ledger_comes_before_what_is_in_it() {
    let world = met().world();
    let change =
        Change { part: "tolerance".to_owned(), before: vec!["k = 2.0".to_owned()], now: Vec::new(), more: 0 };
    let busy = Busy { pid: 4711, what: "kernel.c".to_owned(), since_ms: 0 };
    let changed = std::slice::from_ref(&change);
    let stale = with(&world, Some("b"), changed, Some(&busy));
    assert_eq!(stale.rule, StopRule::Stale);
    assert!(stale.reason.contains("k = 2.0"), "{}", stale.reason);
    let running = with(&world, Some("b"), &[], Some(&busy));
    assert_eq!(running.rule, StopRule::Running);
    assert!(running.reason.contains("4711"), "{}", running.reason);
    // A source that cannot be read is not the one that was evaluated.
    assert_eq!(decide(&world, None).rule, StopRule::NotEvaluated);
    let ended = met().ends(false, "2 evaluations are spent").world();
    assert_eq!(with(&ended, Some("b"), changed, Some(&busy)).rule, StopRule::Ended);
}

#[test]
fn nothing_sealed_and_no_campaign() {
    let world = met().world();
    let board = Board::of(&world.rows[..1]);
    let scene = Scene { board: &board, ..world.scene().unwrap() };
    let decision = scene.stop(&Situation { changes: &[], running: None, hash_of: &|_| None });
    assert_eq!((decision.rule, decision.allow), (StopRule::NotSealed, false));
    assert!(StopDecision::new(StopRule::NoCampaign, "").allow);
    assert!(!StopDecision::new(StopRule::Error, "").allow);
}

/// An evaluation whose verdict, or whose row, cannot be read blocks, even if an earlier one met the goal.
#[test]
fn what_cannot_be_read_blocks() {
    let script = met();
    let mut gone = script.world();
    let name = gone.board.evaluations.last().unwrap().facts.verdict.clone();
    gone.store.0.remove(&name);
    assert_eq!(decide(&gone, Some("b")).rule, StopRule::Error);
    let mut garbled = script.world();
    garbled.store.0.insert(name.clone(), b"{\"format\":1".to_vec());
    assert_eq!(decide(&garbled, Some("b")).rule, StopRule::Error);
    // JSON has no NaN: what was one meets nothing.
    let mut nan = script.world();
    let text = String::from_utf8(nan.store.0[&name].clone()).unwrap();
    nan.store.0.insert(name, text.replacen("\"lo\":1.3365", "\"lo\":null", 1).into_bytes());
    assert_eq!(decide(&nan, Some("b")).rule, StopRule::Unmet);
    // A row that says more than its verdict shows: the verdict counts.
    let mut short = script.world();
    let verdict = &mut short.board.evaluations.last_mut().unwrap().facts.verdict;
    let part = Shot::even("b", 1.35).full().only("odd");
    *verdict = "part".to_owned();
    short.store.0.insert("part".to_owned(), serde_json::to_vec(&part.digest).unwrap());
    assert_eq!(decide(&short, Some("b")).rule, StopRule::Unmet);
    // The row of a later evaluation of the same sources, with a count or a word that is none.
    let later = script.clone().attempt(Shot::even("b", 1.35).fails("odd"));
    for (from, to) in [("\"scenarios\":", "\"scenarios\":-"), ("\"word\":\"FAIL\"", "\"word\":\"FINE\"")] {
        let mut rows = later.rows();
        let last = rows.last_mut().unwrap();
        assert!(last.body.contains(from), "{}", last.body);
        last.body = last.body.replacen(from, to, 1);
        let world = World::of(rows, later.world().store.0);
        assert_eq!(world.board.unreadable.len(), 1);
        let decision = decide(&world, Some("b"));
        assert_eq!((decision.rule, decision.allow), (StopRule::Error, false), "{}", decision.reason);
    }
    // Evaluated again, all is known again.
    let mut rows = later.clone().attempt(Shot::even("b", 1.35).full()).rows();
    let at = later.entries.len() - 1;
    rows[at].body = rows[at].body.replacen("\"word\":\"FAIL\"", "\"word\":\"FINE\"", 1);
    let store = later.attempt(Shot::even("b", 1.35).full()).world().store.0;
    assert_eq!(decide(&World::of(rows, store), Some("b")).rule, StopRule::Met);
    // A kind of a newer version says nothing about evaluations, and changes nothing.
    let mut rows = script.rows();
    let mut newer = rows[0].clone();
    (newer.seq, newer.kind) = (rows.len() as u64 + 1, "rerouted".to_owned());
    newer.body = "{\"kind\":\"rerouted\"}".to_owned();
    rows.push(newer);
    let world = World::of(rows, script.world().store.0);
    assert_eq!((world.board.not_understood, decide(&world, Some("b")).rule), (1, StopRule::Met));
}

/// The seal of another campaign, or its candidate, is not this one's.
#[test]
fn another_campaigns_evaluation_counts_for_nothing() {
    let other = Script::sealed_with("d", |t| t.goal = vec!["every scenario correct".to_owned()])
        .attempt(Shot::even("b", 1.35).full());
    let mut world = Script::begun("c").world();
    world.store.0.extend(other.world().store.0);
    for (_, entry) in
        other.entries.iter().filter(|(_, e)| matches!(e, Entry::EvaluationStarted(_) | Entry::Evaluated(_)))
    {
        world.push(entry);
    }
    assert_eq!(world.board.evaluations.len(), 3);
    assert_eq!(decide(&world, Some("b")).rule, StopRule::NotEvaluated);
}

/// Numbers that are none, as a verdict in memory may hold them.
#[test]
fn a_ratio_that_is_no_number_meets_nothing() {
    struct One(Digest);
    impl Verdicts for One {
        fn digest(&self, _: &str) -> Result<Digest, String> {
            Ok(self.0.clone())
        }
    }
    let script = met();
    let world = script.world();
    let hash = artefact::hash(source_of("b").as_bytes());
    let hash_of = |path: &str| (path == "kernel.c").then(|| hash.clone());
    let decided = |change: &dyn Fn(&mut Ratio)| {
        let mut shot = Shot::even("b", 1.35).full();
        shot.digest.scenarios[1].ratio.iter_mut().for_each(change);
        let verdicts = One(shot.digest);
        let scene = Scene { verdicts: &verdicts, ..world.scene().unwrap() };
        scene.stop(&Situation { changes: &[], running: None, hash_of: &hash_of }).rule
    };
    assert_eq!(decided(&|_| {}), StopRule::Met);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0] {
        assert_eq!(decided(&|r| r.point = bad), StopRule::Unmet, "point {bad}");
        assert_eq!(decided(&|r| r.lo = bad), StopRule::Unmet, "lo {bad}");
        assert_eq!(decided(&|r| r.hi = bad), StopRule::Unmet, "hi {bad}");
    }
}

/// A kernel file that was not there when the sources were evaluated makes another candidate of them.
#[test]
fn a_kernel_file_that_appears_makes_other_sources() {
    let chapter = all().find(|(_, s)| s.file().contains("stop-with-the-goal-unmet"));
    let (chapter, story) = chapter.unwrap();
    let world = story.told(chapter.folder).world();
    let facts = world.board.evaluations.last().unwrap().facts.clone();
    let source = facts.sources.first().cloned().unwrap();
    let mut hash = |path: &str| (path == source.path).then(|| source.hash.clone());
    assert!(kernelseek_campaign::speaks_for(&facts, &mut hash));
    let mut appeared = |path: &str| {
        assert!(path == source.path || path == "kernel.toml", "{path}");
        Some(source.hash.clone())
    };
    assert!(!kernelseek_campaign::speaks_for(&facts, &mut appeared));
}

/// What the stories say about stops is what the decision says.
#[test]
fn the_stories_stop_as_it_is_decided() {
    let mut stops = 0;
    for (chapter, story) in all() {
        let script = story.told(chapter.folder);
        let whole = script.world();
        for (i, (at_ms, entry)) in script.entries.iter().enumerate() {
            let Entry::StopAttempted(stop) = entry else { continue };
            let mut world = whole.cut(i);
            world.now_ms = *at_ms;
            let current = world.board.evaluations.last().and_then(|e| e.facts.sources.first()).cloned();
            let busy = Busy { pid: 1, what: "kernel.c".to_owned(), since_ms: 0 };
            let change = Change { part: "device".to_owned(), before: Vec::new(), now: Vec::new(), more: 0 };
            let running = (!world.board.unfinished.is_empty()).then_some(&busy);
            let changes = if stop.rule == "stale" { std::slice::from_ref(&change) } else { &[] };
            let scene = world.scene().unwrap();
            let same = |path: &str| current.as_ref().filter(|s| s.path == path).map(|s| s.hash.clone());
            let decision = |hash_of: &dyn Fn(&str) -> Option<String>| {
                scene.stop(&Situation { changes, running, hash_of })
            };
            // With the sources as they were evaluated, or edited since.
            let (same, edited) = (decision(&same), decision(&|_| None));
            let rules = [same.rule.as_str(), edited.rule.as_str()];
            assert!(rules.contains(&stop.rule.as_str()), "{}: {rules:?}", story.file());
            assert_eq!(stop.allowed, matches!(stop.rule.as_str(), "met" | "budget"), "{}", story.file());
            stops += 1;
        }
    }
    assert!(stops > 20, "{stops}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The agent goes with the goal met only if the newest evaluation that speaks of its sources, among the full ones
    /// and those that failed, is a full one that shows all of it.
    #[test]
    fn met_means_met(shots in prop::collection::vec((0u8..3, 0u8..4, 0u8..5), 1..8), holds in 0u8..3) {
        let mut script = Script::sealed("c");
        let mut expected = false;
        for (version, tier, kind) in shots {
            let shot = Shot::even(&format!("p{version}"), if kind == 1 { 1.2 } else { 1.35 });
            let shot = match tier { 0 => shot.quick("short"), 1 => shot.full().only("long"), 2 => shot, _ => shot.full() };
            let at = match tier { 0 => "short", _ => "long" };
            let shot = match kind { 2 => shot.fails(at), 3 => shot.unproven(at, "timed.clocks"), 4 => shot.reduced(), _ => shot };
            if version == holds {
                let failed = !matches!(shot.digest.word, Word::Pass | Word::Unresolved);
                if tier == 3 || failed {
                    expected = tier == 3 && kind == 0;
                }
            }
            script = script.attempt(shot);
        }
        let decision = decide(&script.world(), Some(&format!("p{holds}")));
        prop_assert_eq!(decision.rule == StopRule::Met, expected, "{}", decision.reason);
        prop_assert_eq!(decision.allow, expected);
        prop_assert_eq!(GRID.len(), 4);
    }
}
