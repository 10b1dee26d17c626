//! Any text as a kernel's file: it is refused, or the problem that comes out is one that the format accepts.
#![no_main]

use kernelseek_core::problem::parse_problem;
use kernelseek_core::scenario::parse_scenarios;
use kernelseek_scaffold::{Reference, Request, scaffold};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|text: &str| {
    for file in ["k.c", "k.cc", "k.cu"] {
        let made = scaffold(&Request {
            file,
            text,
            copy: text,
            headers: &[],
            function: None,
            types: BTreeMap::new(),
            launch: None,
            reference: Reference::Native,
            missing: &[],
        });
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                let _ = error.to_string();
                continue;
            }
        };
        let text = |name: &str| made.files.iter().find(|(path, _)| path == name).map_or("", |(_, text)| text);
        let problem = parse_problem("problem.toml", text("problem/problem.toml"));
        let problem = problem.unwrap_or_else(|e| panic!("{e}"));
        let set = if file == "k.cu" { "problem/cuda.jsonl" } else { "problem/cpu.jsonl" };
        let lines = parse_scenarios(&problem, set, text(set));
        assert!(lines.is_ok(), "{lines:?}");
    }
});
