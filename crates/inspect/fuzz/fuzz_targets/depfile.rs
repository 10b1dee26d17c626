//! Any text: a list of names or an error, and a class for each name.
#![no_main]

use kernelseek_inspect::headers::{Closure, Roots, parse_depfile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(files) = parse_depfile(text) {
        let roots = Roots {
            workspace: "/ws".into(),
            system: vec!["/usr/include".into()],
            toolchain: vec!["/usr/lib/gcc".into()],
            ..Roots::default()
        };
        let count = files.len();
        assert!(Closure::new(files, &roots).files.len() <= count);
    }
});
