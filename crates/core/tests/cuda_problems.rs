//! The problems of the CUDA target: every scenario resolves, held-out cases can be drawn, and the files that a problem
//! names are there.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use kernelseek_core::held_out::draw;
use kernelseek_core::problem::{Problem, Target, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::{Scenario, parse_scenarios};
use std::path::{Path, PathBuf};

fn folders() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/cuda");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(all).unwrap().map(|e| e.unwrap().path()).filter(|p| p.is_dir()).collect();
    found.sort();
    found
}

fn read(folder: &Path) -> (Problem, Vec<Scenario>) {
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let problem = parse_problem("problem.toml", &text("problem.toml")).unwrap_or_else(|e| panic!("{e}"));
    let (_, usual) = problem.scenarios.files.iter().find(|(n, _)| *n == problem.scenarios.default).unwrap();
    let scenarios =
        parse_scenarios(&problem, &usual.path, &text(&usual.path)).unwrap_or_else(|e| panic!("{e}"));
    (problem, scenarios)
}

/// Bytes that a slot of a problem may take. Slots of one worker share three gigabytes: a pool of six at least, so that buffers
/// rotate. Caches of keys are what they are: two slots of the largest are both sides of the cache.
fn most(problem: &Problem) -> usize {
    if problem.name == "attention_forward" { 6 << 30 } else { 1 << 29 }
}

#[test]
fn every_scenario_resolves_with_a_cost_and_fits_in_a_pool() {
    let folders = folders();
    assert!(folders.len() >= 5, "{folders:?}");
    for folder in &folders {
        let (problem, scenarios) = read(folder);
        assert_eq!(problem.target, Target::Cuda, "{}", problem.name);
        assert!(folder.ends_with(&problem.name), "{} in {}", problem.name, folder.display());
        assert!(scenarios.len() >= 14, "{} has {} scenarios", problem.name, scenarios.len());
        for name in [&problem.seed.path, &problem.reference.source.path] {
            assert!(folder.join(name).is_file(), "{} of {}", name, problem.name);
        }
        // Sets beside the usual one too.
        let sets = problem.scenarios.files.iter().flat_map(|(_, file)| {
            let text = std::fs::read_to_string(folder.join(&file.path)).unwrap();
            parse_scenarios(&problem, &file.path, &text).unwrap_or_else(|e| panic!("{e}"))
        });
        for scenario in &sets.collect::<Vec<_>>() {
            let case = resolve(&problem, scenario).unwrap_or_else(|e| panic!("{}: {e}", problem.name));
            assert!(case.flops.unwrap() > 0.0 && case.bytes.unwrap() > 0.0, "{}", case.id);
            // What is to be held against a profiler is as large as hides the cache, and rotates between two.
            let usual = scenarios.iter().any(|s| s.id == scenario.id);
            let most = if usual { most(&problem) } else { 1 << 31 };
            assert!(case.slot_bytes() < most, "{} takes {}", case.id, case.slot_bytes());
        }
    }
}

#[test]
fn held_out_cases_are_drawn_from_every_problem() {
    for folder in folders() {
        let (problem, scenarios) = read(&folder);
        for seed in 0..3 {
            let drawn = draw(&problem, &scenarios, seed, 0.5).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(drawn.len(), scenarios.len().div_ceil(2), "{}", problem.name);
            for case in drawn.iter().map(|s| resolve(&problem, s).unwrap()) {
                assert!(case.slot_bytes() < most(&problem), "{} takes {}", case.id, case.slot_bytes());
            }
        }
    }
}
