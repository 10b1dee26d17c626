//! What a defence id says, in a few words.

/// A defence in words, as the end of a sentence that begins with the candidate; `None` for an id of a newer version.
#[must_use]
pub fn in_words(defence: &str) -> Option<&'static str> {
    Some(match defence {
        "allowed.constructor" => "runs code when it is loaded",
        "allowed.cudart" => "brings the CUDA runtime inside of it",
        "allowed.device-arch" => "carries device code for an architecture that was not asked for",
        "allowed.device-code" => "carries device code that its own build did not make",
        "allowed.device-packed" => "carries device code that is compressed",
        "allowed.device-ptx" => "carries PTX that is compiled when it is loaded",
        "allowed.device-setting" => "changes settings that outlive the call",
        "allowed.execstack" => "asks for an executable stack",
        "allowed.export" => "does not export the entry point",
        "allowed.flag" => "chooses a compiler flag that is not on the allowed list",
        "allowed.format" => "is no library that can be read",
        "allowed.header" => "includes a header that is denied",
        "allowed.ifunc" => "chooses functions while it is loaded",
        "allowed.import" => "imports what is not allowed",
        "allowed.local-memory" => "keeps values in local memory",
        "allowed.needed" => "needs a library that is not allowed",
        "allowed.no-kernel" => "holds no kernel of its own",
        "allowed.raw-syscall" => "holds system-call instructions",
        "allowed.rpath" => "brings its own library search path",
        "allowed.static-runtime" => "carries the C++ runtime inside of it",
        "allowed.textrel" => "changes its own code when it is loaded",
        "allowed.type" => "is no shared library for this machine",
        "allowed.wx" => "holds memory that is both writable and executable",
        "audit.clean" => "was audited and stands",
        "audit.status" => "declined a call of the audit",
        "built.compile" | "built.compiler" => "does not compile",
        "built.kernel-file" => "has a kernel file that cannot be read",
        "built.setmaxnreg-ignored" => "asks for registers in vain",
        "built.spills" => "spills registers to local memory",
        "built.wgmma-serialized" => "runs matrix instructions one after the other that should overlap",
        "correct.all-declined" => "declines every scenario",
        "correct.crash" => "crashed",
        "correct.deadline" => "did not return in time",
        "correct.deterministic" => "gives different bits for the same content",
        "correct.error" => "returned an error",
        "correct.exit" => "ended its process",
        "correct.held-out" => "is wrong on held-out scenarios",
        "correct.input-written" => "wrote to its inputs",
        "correct.mixed-status" => "answers calls of one scenario both ways",
        "correct.partner" => "differs from the seed on the same content, and the seed is right",
        "correct.protocol" => "broke the worker's protocol",
        "correct.redzone" => "wrote outside its tensors",
        "correct.remembered" => "gives an answer again that it gave before",
        "correct.reference" => "is outside its error bound",
        "correct.refused" => "could not be loaded",
        "correct.status" => "did not return KS_OK",
        "correct.device-memory" => "leaves no memory on the GPU",
        "correct.device-error" => "made the GPU report an error",
        "correct.unchecked-error" => "returned KS_OK although the runtime reported an error",
        "correct.unwritten" => "left outputs unwritten",
        "harness.device" => "was measured on a device that changed meanwhile",
        "plausible.floor" => "is faster than this machine allows",
        "sandbox.denied" => "tried what the sandbox denies",
        "sandbox.flood" => "flooded its output",
        "sandbox.output" => "printed something",
        "sanitize.initcheck" => "reads device memory that nothing has written",
        "sanitize.memcheck" => "leaves its allocations on the device",
        "sanitize.racecheck" => "has a race in shared memory",
        "sanitize.synccheck" => "uses a barrier that not every thread reaches",
        "sanitizer.report" => "is reported by a sanitizer",
        "stale.changed" => "has changed since",
        "stale.source" => "changed while it was evaluated",
        "timed.busy" => "took less than requests cost on this machine, as on a busy one",
        "timed.foreign" => "was timed while another process used the GPU",
        "timed.synchronises" => "waits for the GPU inside its call",
        "timed.clocks" => "was timed by two clocks that disagree",
        "timed.deferred-work" => "still worked on outputs after it had returned",
        "timed.held-out" => "is not proven on held-out scenarios",
        "timed.held-out-gap" => "gains less on held-out scenarios than on the visible ones",
        "timed.left-running" => "left something running between calls",
        "timed.nothing" => "could not be timed",
        "timed.unresolved" => "has an interval that is too wide to tell",
        "timed.zero-width" => "has an interval without width",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Defence ids that the sources of a crate hold as literals.
    fn literals(folder: &Path, into: &mut BTreeSet<String>) {
        const STAGES: [&str; 10] = [
            "allowed",
            "audit",
            "built",
            "correct",
            "harness",
            "plausible",
            "sanitize",
            "sanitizer",
            "stale",
            "timed",
        ];
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                literals(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                into.extend(text.split('"').filter_map(|literal| {
                    let (stage, rule) = literal.split_once('.')?;
                    let plain = !rule.is_empty() && rule.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                    (STAGES.contains(&stage) && plain).then(|| literal.to_owned())
                }));
            }
        }
    }

    #[test]
    fn every_defence_has_words() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut ids = BTreeSet::new();
        for name in ["evaluator", "inspect"] {
            literals(&crates.join(name).join("src"), &mut ids);
        }
        assert!(ids.len() > 30 && ids.contains("correct.redzone"), "{ids:?}");
        let without: Vec<&String> = ids.iter().filter(|id| in_words(id).is_none()).collect();
        assert!(without.is_empty(), "without words: {without:?}");
        assert_eq!(in_words("correct.of-a-newer-version"), None);
    }
}
