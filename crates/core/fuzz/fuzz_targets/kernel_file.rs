//! Any text as a kernel file; a choice that is written into one that is accepted says what was meant and changes nothing else.
#![no_main]

use kernelseek_core::kernel_file::{Chosen, parse_kernel, with_choice};
use kernelseek_core::problem::parse_problem;
use libfuzzer_sys::fuzz_target;

const PROBLEM: &str = r#"
format = 1
name = "p"
summary = "s"
[scenarios]
default = "cpu"
quick = ["a"]
[scenarios.files]
cpu = "cpu.jsonl"
[fields]
n = { type = "int", min = 1 }
[[tensor]]
name = "x"
role = "varying"
dtype = "f32"
shape = ["n"]
generator = { kind = "normal", mean = 0.0, std = 1.0 }
[[tensor]]
name = "y"
role = "output"
dtype = "f32"
shape = ["n"]
[reference]
source = "r.c"
precision = "f64"
[seed]
source = "s.c"
"#;

fuzz_target!(|text: &str| {
    let problem = parse_problem("problem.toml", PROBLEM).expect("the problem is well formed");
    let kernel = match parse_kernel(&problem, "kernel.toml", text) {
        Ok(kernel) => kernel,
        Err(errors) => {
            assert!(!errors.items.is_empty());
            let _ = errors.to_string();
            return;
        }
    };
    let _ = kernel.defines();
    let _ = kernel.refused_flags(&["-O2".to_owned()]);
    let mut set = kernel.chosen.set.clone();
    if let Some(tunable) = kernel.tunables.first() {
        if let Some(value) = tunable.values.last() {
            set.insert(tunable.name.clone(), value.clone());
        }
    }
    let chosen = Chosen { set, routes: false, flags: vec!["-funroll-loops".to_owned()] };
    if let Ok(edited) = with_choice(&problem, &kernel, &chosen) {
        let back = parse_kernel(&problem, "kernel.toml", &edited).expect("what was written is read");
        assert_eq!(back.tunables.len(), kernel.tunables.len());
        assert_eq!(back.chosen.flags, chosen.flags);
    }
});
