//! Any bytes as a library, a fatbin and a cubin: facts that stay within the bytes, and findings from them.
//!
//! Seeds: a cubin (`nvcc -cubin`), a fatbin (`nvcc -fatbin --compress-mode=none`) and a library of one small kernel.
#![no_main]

use kernelseek_inspect::{Closure, Policy, device, facts, rules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let found = device::facts(bytes);
    for container in &found.containers {
        assert!(container.end() <= bytes.len() + 16);
        for entry in &container.entries {
            assert!(entry.offset + entry.size <= container.end());
        }
    }
    assert!(found.stray.iter().all(|s| s.offset < bytes.len()));
    assert!(found.objects().len() <= found.cubins().map(|c| c.functions.len()).sum());
    if let Ok(elf) = facts(bytes) {
        let policy = Policy::cuda("op").archs(["sm_90a"]);
        let told = rules::cuda(&elf, &found, &Closure::default(), &policy, None);
        assert!(told.iter().all(|f| f.message.len() < 8192));
        // What the library itself holds is expected; nothing more is told than without a list.
        let objects = found.objects();
        assert!(rules::cuda(&elf, &found, &Closure::default(), &policy, Some(&objects)).len() <= told.len());
    }
});
