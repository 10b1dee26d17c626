//! The recorded ledgers: each is what its story says, whole, and one that the driver could have written.

use crate::script::Script;
use crate::stories::{Chapter, Story, all};
use crate::world::World;
use kernelseek_campaign::Action;
use kernelseek_core::decision::DecisionPoint;
use kernelseek_ledger::Entry;
use kernelseek_ledger::entry::Purpose;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Largest file.
const LARGEST: u64 = 60_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ledgers")
}

fn path(chapter: &Chapter, story: &Story) -> PathBuf {
    folder().join(chapter.folder).join(format!("{}.jsonl", story.file()))
}

/// Every fault of every story, so that one run shows all that is wrong.
fn each(mut check: impl FnMut(&Chapter, &Story) -> Vec<String>) {
    let faults: Vec<String> = all()
        .flat_map(|(chapter, story)| {
            let name = format!("{}/{}", chapter.folder, story.file());
            check(chapter, story).into_iter().map(move |fault| format!("{name}: {fault}")).collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// What is reached, and what is served of it.
fn seen(world: &World) -> (BTreeSet<DecisionPoint>, Option<Action>) {
    let scene = world.scene().expect("a seal");
    (scene.occasions().into_iter().filter_map(|o| o.point).collect(), scene.next())
}

fn check_reached(world: &World, chapter: &Chapter, story: &Story) -> Vec<String> {
    let mut faults = Vec::new();
    let mut expected: BTreeSet<DecisionPoint> = story.also.iter().copied().collect();
    if story.fires {
        expected.insert(chapter.point);
    }
    let (reached, next) = seen(world);
    if reached != expected {
        faults.push(format!("reaches {reached:?}, expected {expected:?}"));
    }
    let served = match next {
        Some(Action::Ask(occasion)) => occasion.point,
        // A spent budget ends what nothing is left to ask about.
        Some(Action::End { .. }) | None => None,
        Some(other) => {
            faults.push(format!("is not at rest: {other:?}"));
            None
        }
    };
    if served != expected.first().copied() {
        faults.push(format!("serves {served:?} of {expected:?}"));
    }
    faults
}

#[test]
fn every_file_is_whole_and_shows_what_its_name_says() {
    let scratch = tempfile::tempdir().unwrap();
    each(|chapter, story| {
        let path = path(chapter, story);
        let mut faults = Vec::new();
        match World::import(&path, scratch.path()) {
            Ok(world) => faults.extend(check_reached(&world, chapter, story)),
            Err(why) => faults.push(why),
        }
        let size = std::fs::metadata(&path).map_or(0, |m| m.len());
        if size > LARGEST {
            faults.push(format!("{size} bytes"));
        }
        faults
    });
}

#[test]
fn every_file_is_what_its_script_writes() {
    let scratch = tempfile::tempdir().unwrap();
    each(|chapter, story| {
        let written = story.told(chapter.folder).exported(scratch.path());
        let known = std::fs::read(path(chapter, story)).unwrap_or_default();
        if known == written { Vec::new() } else { vec!["differs from its script: write it anew".to_owned()] }
    });
}

#[test]
#[ignore = "writes the files"]
fn write_every_file() {
    let scratch = tempfile::tempdir().unwrap();
    for (chapter, story) in all() {
        let path = path(chapter, story);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, story.told(chapter.folder).exported(scratch.path())).unwrap();
    }
}

#[test]
fn no_file_is_without_a_story() {
    let known: BTreeSet<PathBuf> = all().map(|(chapter, story)| path(chapter, story)).collect();
    let mut found = BTreeSet::new();
    let mut folders = vec![folder()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    assert_eq!(found, known);
    assert_eq!(known.len(), all().count(), "two stories of one name");
}

#[test]
fn every_point_has_enough_of_both() {
    let mut count: BTreeMap<(DecisionPoint, bool), usize> = BTreeMap::new();
    for (chapter, story) in all().filter(|(chapter, _)| !chapter.words) {
        *count.entry((chapter.point, story.fires)).or_default() += 1;
    }
    assert!(count.len() == 10 && count.values().all(|n| *n >= 5), "{count:?}");
}

/// Of what the agent says: hypotheses, answers and last words.
fn words(script: &Script) -> Vec<&str> {
    fn of(entry: &Entry) -> Option<&str> {
        match entry {
            Entry::Hypothesis(h) => Some(h.text.as_str()),
            Entry::Answered(a) => Some(a.text.as_str()),
            Entry::StopAttempted(s) => Some(s.words.as_str()),
            _ => None,
        }
    }
    script.entries.iter().filter_map(|(_, entry)| of(entry)).filter(|text| !text.is_empty()).collect()
}

#[test]
fn no_detector_needs_the_agents_words() {
    each(|chapter, story| {
        let script = story.told(chapter.folder);
        if chapter.words || words(&script).is_empty() { Vec::new() } else { vec!["holds words".to_owned()] }
    });
}

/// Where only words make it fire, it does not fire without them.
#[test]
fn what_fires_by_words_is_silent_without_them() {
    for (chapter, story) in all().filter(|(chapter, story)| chapter.words && story.fires) {
        let mut script = story.told(chapter.folder);
        for (_, entry) in &mut script.entries {
            match entry {
                Entry::Hypothesis(h) => h.text.clear(),
                Entry::Answered(a) => a.text.clear(),
                Entry::StopAttempted(s) => s.words.clear(),
                _ => {}
            }
        }
        let (reached, _) = seen(&script.world());
        // A stop is an act, whatever is said with it.
        let stopped = script.entries.iter().any(|(_, e)| matches!(e, Entry::StopAttempted(_)));
        assert!(stopped || !reached.contains(&chapter.point), "{}: {reached:?}", story.file());
    }
}

/// Whether a row is what an action leads to.
fn follows(action: &Action, entry: &Entry) -> bool {
    match (action, entry) {
        (Action::Confirm { .. }, Entry::EvaluationStarted(s)) => s.purpose == Purpose::Confirm,
        (Action::Remeasure { .. }, Entry::EvaluationStarted(s)) => s.purpose == Purpose::Remeasure,
        (Action::Promote { first, evaluated, candidate_hash, geomean, before }, Entry::Promoted(p)) => {
            (*first, *evaluated, candidate_hash, *geomean, before)
                == (p.first, p.evaluated, &p.candidate_hash, p.geomean, &p.before)
        }
        (Action::NotPromote { first, why, fallen }, Entry::NotPromoted(n)) => {
            (*first, why, fallen) == (n.first, &n.why, &n.fallen)
        }
        (Action::Ask(occasion), Entry::Asked(asked)) => occasion.point == asked.point,
        (Action::End { reason }, Entry::Ended(ended)) => *reason == ended.reason,
        _ => false,
    }
}

/// Every story is one that the driver could have written: after an attempt, and after a stop that was refused, comes
/// what the machine asks for, as long as it asks for something.
#[test]
fn every_script_goes_as_the_machine_says() {
    each(|chapter, story| {
        let script = story.told(chapter.folder);
        let world = script.world();
        let mut faults = Vec::new();
        let mut driven = false;
        for (i, (_, entry)) in script.entries.iter().enumerate() {
            let Some((_, then)) = script.entries.get(i + 1) else { break };
            driven = match entry {
                Entry::Evaluated(_) | Entry::Promoted(_) | Entry::NotPromoted(_) => true,
                Entry::Asked(_) => driven,
                Entry::StopAttempted(stop) => !stop.allowed,
                _ => false,
            };
            let cut = world.cut(i + 1);
            let Some(scene) = cut.scene().filter(|_| driven) else { continue };
            let stop = matches!(entry, Entry::StopAttempted(_));
            match scene.next() {
                Some(action) if stop && !matches!(action, Action::Ask(_)) => {}
                Some(action) if !follows(&action, then) => {
                    faults.push(format!("row {}: {action:?}, but then {then:?}", i + 1));
                }
                None if matches!(then, Entry::Promoted(_) | Entry::NotPromoted(_) | Entry::Asked(_)) => {
                    faults.push(format!("row {}: nothing is asked for, but then {then:?}", i + 1));
                }
                _ => {}
            }
        }
        faults
    });
}
