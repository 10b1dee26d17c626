//! Any text as a problem file; what is accepted is taken through header and resolution.
#![no_main]

use kernelseek_core::header::header;
use kernelseek_core::held_out::draw;
use kernelseek_core::problem::parse_problem;
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use libfuzzer_sys::fuzz_target;

const LINES: &str = "{\"id\": \"s1\", \"rows\": 4, \"cols\": 8}\n{\"id\": \"s2\", \"rows\": 2, \"cols\": 3, \"lens\": [1, 6]}\n";

fuzz_target!(|text: &str| {
    let problem = match parse_problem("problem.toml", text) {
        Ok(problem) => problem,
        Err(errors) => {
            assert!(!errors.items.is_empty());
            let _ = errors.to_string();
            return;
        }
    };
    assert!(header(&problem).contains(&problem.name));
    if let Ok(scenarios) = parse_scenarios(&problem, "small.jsonl", LINES) {
        for scenario in &scenarios {
            let _ = resolve(&problem, scenario).map_err(|e| e.to_string());
        }
        let _ = draw(&problem, &scenarios[..1], 1, 0.5);
    }
});
