//! Broken problem and scenario files, and exactly what is said about them.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use kernelseek_core::problem::parse_problem;
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use std::fmt::Write as _;

const BASE: &str = include_str!("refusals/base.toml");

struct Case {
    name: String,
    /// The case as it stands in the file, up to the expectation.
    head: String,
    problem: String,
    scenarios: Option<String>,
    expected: String,
}

impl Case {
    fn parse(section: &str) -> Self {
        let (head, expected) = section.split_once("\n---\n").unwrap_or((section, ""));
        let mut lines = head.trim_end_matches('\n').lines();
        let name = lines.next().unwrap().to_owned();
        let mut problem = BASE.to_owned();
        let mut scenarios: Option<String> = None;
        let mut old = None;
        for line in lines {
            let text = line.get(2..).unwrap_or_default();
            match line.get(..2) {
                Some("- ") => old = Some(text.replace("\\n", "\n")),
                Some("+ ") => {
                    let old: String = old.take().unwrap();
                    assert!(problem.contains(&old), "{name}: base.toml has no {old}");
                    problem = problem.replacen(&old, &text.replace("\\n", "\n"), 1);
                }
                Some("| ") => {
                    let all = scenarios.get_or_insert_default();
                    all.push_str(text);
                    all.push('\n');
                }
                _ => panic!("{name}: {line}"),
            }
        }
        let head = head.trim_end_matches('\n').to_owned();
        Self { name, head, problem, scenarios, expected: expected.trim_end().to_owned() }
    }

    fn said(&self) -> String {
        let problem = match parse_problem("problem.toml", &self.problem) {
            Ok(problem) => problem,
            Err(errors) => return errors.to_string(),
        };
        let Some(text) = &self.scenarios else { return "accepted".to_owned() };
        let scenarios = match parse_scenarios(&problem, "small.jsonl", text) {
            Ok(scenarios) => scenarios,
            Err(errors) => return errors.to_string(),
        };
        let refused = scenarios.iter().find_map(|s| resolve(&problem, s).err());
        refused.map_or_else(|| "accepted".to_owned(), |e| e.to_string())
    }
}

/// The text before the first case, and the cases.
fn cases(file: &str) -> (String, Vec<Case>) {
    let mut sections = file.split("\n=== ");
    let preamble = sections.next().unwrap_or_default().trim_end().to_owned();
    (preamble, sections.map(Case::parse).collect())
}

fn check(file: &str, at_least: usize) {
    let (_, cases) = cases(file);
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter(|c| c.said() != c.expected)
        .map(|c| format!("=== {}\nsaid:\n{}\nexpected:\n{}", c.name, c.said(), c.expected))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_base_is_sound() {
    parse_problem("problem.toml", BASE).unwrap();
}

#[test]
fn every_broken_problem_is_refused_in_these_words() {
    check(include_str!("refusals/problems.txt"), 50);
}

#[test]
fn every_broken_scenario_is_refused_in_these_words() {
    check(include_str!("refusals/scenarios.txt"), 50);
}

/// Writes what is said now into the files: run it after a change of words, and read the difference.
#[test]
#[ignore = "rewrites the expectations"]
fn rewrite() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refusals");
    for name in ["problems.txt", "scenarios.txt"] {
        let (mut out, cases) = cases(&std::fs::read_to_string(folder.join(name)).unwrap());
        for case in cases {
            let _ = write!(out, "\n\n=== {}\n---\n{}", case.head, case.said());
        }
        out.push('\n');
        std::fs::write(folder.join(name), out).unwrap();
    }
}
