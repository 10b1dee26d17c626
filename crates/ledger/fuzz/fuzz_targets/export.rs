//! Any bytes as an exported ledger, once as they are and once with the closing line that would fit them, so that what lies
//! behind the hash is reached too.
#![no_main]

use kernelseek_ledger::check_export;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let _ = check_export(Path::new("in"), bytes);
    let mut text = bytes.to_vec();
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    let hash = blake3::hash(&text).to_hex();
    text.extend_from_slice(format!("{{\"end\":{{\"head\":\"\",\"hash\":\"{hash}\"}}}}\n").as_bytes());
    let _ = check_export(Path::new("in"), &text);
});
