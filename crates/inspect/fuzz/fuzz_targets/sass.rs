//! Any text as a disassembler's: counts that add up.
#![no_main]

use kernelseek_inspect::sass;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let lines = text.lines().count() as u64;
    let mixes = sass::parse(text);
    assert!(mixes.iter().map(|m| m.total).sum::<u64>() <= lines);
    for mix in &mixes {
        assert_eq!(mix.total, mix.classes.values().sum::<u64>());
        assert!(mix.mnemonics.values().sum::<u64>() <= mix.total);
        assert!(mix.wide_share().is_none_or(|s| (0.0..=1.0).contains(&s)));
    }
});
