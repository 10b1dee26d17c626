//! Any text as a recording and as a line of an agent: a recording that is accepted comes back from its file, and nothing that is
//! heard holds a control character.
#![no_main]

use kernelseek_agents::{hear, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(script) = replay::parse("replay.toml", text) {
        let written = script.to_toml().expect("what was read can be written");
        assert_eq!(replay::parse("replay.toml", &written).expect("what was written is read"), script);
    }
    for heard in hear(text) {
        assert!(!format!("{heard:?}").contains('\u{1b}'));
    }
});
