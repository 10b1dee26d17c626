//! Any text as a scenario file of a small problem; what is accepted is resolved.
#![no_main]

use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static PROBLEM: LazyLock<Option<Problem>> =
    LazyLock::new(|| parse_problem("problem.toml", include_str!("../../tests/refusals/base.toml")).ok());

fuzz_target!(|text: &str| {
    let Some(problem) = PROBLEM.as_ref() else { return };
    match parse_scenarios(problem, "small.jsonl", text) {
        Err(errors) => assert!(!errors.to_string().is_empty()),
        Ok(scenarios) => {
            for scenario in &scenarios {
                let _ = resolve(problem, scenario).map_err(|e| e.to_string());
                assert!(parse_scenarios(problem, "again.jsonl", &scenario.to_line()).is_ok());
            }
        }
    }
});
