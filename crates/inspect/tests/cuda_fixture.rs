//! GPU code without nvcc: `fixtures/one.fatbin` was made from `fixtures/one.cu` by nvcc 13.0, and the system's compiler
//! puts it where attackers would.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::collections::BTreeSet;
use std::process::Command;

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_inspect::device::{self, StrayKind};
use kernelseek_inspect::{Closure, Policy, facts, rules};
use proptest::prelude::*;

const FATBIN: &[u8] = include_bytes!("fixtures/one.fatbin");

fn cubin() -> &'static [u8] {
    let found = device::facts(FATBIN);
    let entry = &found.containers[0].entries[0];
    &FATBIN[entry.offset..entry.offset + entry.size]
}

/// A library of `source`, in whose folder `one.fatbin` and `one.cubin` lie; `None` without a compiler.
fn compile(source: &str) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("one.fatbin"), FATBIN).unwrap();
    std::fs::write(folder.path().join("one.cubin"), cubin()).unwrap();
    std::fs::write(folder.path().join("op.c"), source).unwrap();
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O2", "op.c", "-o", "op.so"])
        .current_dir(folder.path())
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: no `cc`");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(folder.path().join("op.so")).unwrap())
}

fn judged(bytes: &[u8]) -> Vec<Finding> {
    rules::cuda(&facts(bytes).unwrap(), &device::facts(bytes), &Closure::default(), &Policy::cuda("op"), None)
}

fn fails(found: &[Finding]) -> BTreeSet<&str> {
    found.iter().filter(|f| f.severity == Severity::Fail).map(|f| f.defence.as_str()).collect()
}

#[test]
fn a_kernel_is_read() {
    let found = device::facts(FATBIN);
    let kernels: Vec<_> = found.kernels().collect();
    assert_eq!((kernels.len(), found.containers[0].fault.as_deref(), found.stray.len()), (1, None, 0));
    let (arch, kernel) = kernels[0];
    assert_eq!((arch, kernel.readable()), ("sm_90a", "one(float4*, float4 const*)"));
    assert_eq!((kernel.shared_bytes, kernel.barriers, kernel.stack_bytes), (2048, 1, 0));
    assert_eq!((kernel.max_threads, kernel.parameter_bytes), (Some([128, 1, 1]), Some(16)));
    assert!(kernel.registers.is_some_and(|r| (8..=32).contains(&r)) && kernel.code_bytes % 128 == 0);
    // The same kernel alone, with the same identity.
    let bare = device::facts(cubin());
    assert_eq!(bare.objects(), found.objects());
    assert!(bare.cubin.is_some() && bare.containers.is_empty());
}

#[test]
fn hidden_code_is_found() {
    let ptx = "const char *op(void) { return \".version 9.0\\n.target sm_90a\\n.entry k() { ret; }\"; }";
    let hidden = |section: &str, file: &str| {
        format!(
            "__asm__(\".section {section}\\n.balign 8\\nblob: .incbin \\\"{file}\\\"\\n.previous\");\n\
                 extern char blob[] __attribute__((visibility(\"hidden\"))); const char *op(void) {{ return blob; }}"
        )
    };
    for (source, says, kind) in [
        (hidden(".rodata", "one.cubin"), "a cubin lies in the library's data", Some(StrayKind::Cubin)),
        (hidden(".data", "one.cubin"), "a cubin lies in the library's data", Some(StrayKind::Cubin)),
        (ptx.to_owned(), "PTX text lies in the library's data", Some(StrayKind::Ptx)),
        (hidden(".rodata", "one.fatbin"), "lies where the compiler puts none", None),
        (hidden(".nv_fatbin,\\\"a\\\"", "one.fatbin"), "belongs to no record", None),
    ] {
        let Some(bytes) = compile(&source) else { return };
        let found = judged(&bytes);
        assert!(found.iter().any(|f| f.message.contains(says)), "{says}: {found:#?}");
        assert_eq!(fails(&found), BTreeSet::from(["allowed.device-code"]), "{found:#?}");
        assert_eq!(device::facts(&bytes).stray.first().map(|s| s.kind), kind, "{says}");
    }
}

/// What nvcc's start-up code looks like to a linker.
const REGISTERED: &str = "__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.balign 8\\nblob: .incbin \\\"one.fatbin\\\"\\n.previous\");\n\
    extern char blob[] __attribute__((visibility(\"hidden\")));\n\
    static const struct { int magic, version; const void *data, *rest; } record\n\
        __attribute__((section(\".nvFatBinSegment\"), aligned(8))) = { 0x466243b1, 1, blob, 0 };\n\
    void **__cudaRegisterFatBinary(void *);\n\
    __attribute__((constructor)) static void start(void) { __cudaRegisterFatBinary((void *)&record); }\n\
    int op(void) { return 0; }\n";

#[test]
fn registered_code_passes_and_a_second_use_does_not() {
    let Some(bytes) = compile(REGISTERED) else { return };
    let found = judged(&bytes);
    assert!(found.iter().all(|f| f.severity == Severity::Note), "{found:#?}");
    let registration = facts(&bytes).unwrap().registration;
    assert_eq!(registration.wrappers.len(), 1);
    assert_eq!(registration.wrappers[0].names, Some(device::facts(&bytes).containers[0].offset as u64));
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    for more in [
        "void *more(void *p) { return __cudaRegisterFatBinary(p); }",
        "void *more(void *p) { void **(*volatile f)(void *) = __cudaRegisterFatBinary; return f(p); }",
        "void **(*pointer)(void *) = __cudaRegisterFatBinary;",
    ] {
        let bytes = compile(&format!("{REGISTERED}{more}\n")).unwrap();
        let found = judged(&bytes);
        assert_eq!(fails(&found), BTreeSet::from(["allowed.device-code"]), "{more}: {found:#?}");
        assert!(found.iter().any(|f| f.message.contains("__cudaRegisterFatBinary")), "{more}");
    }
}

#[test]
fn a_runtime_inside_is_named() {
    let inside = "__attribute__((visibility(\"hidden\"), noinline)) void **__cudaRegisterFatBinary(void *p) \
                  { __asm__ volatile(\"\" : \"+r\"(p) : : \"memory\"); return p; }\n";
    let source = format!(
        "#include <dlfcn.h>\n{REGISTERED}{inside}void *more(void) {{ return dlopen(\"libcuda.so.1\", 1); }}\n"
    );
    let Some(bytes) = compile(&source) else { return };
    let found = judged(&bytes);
    assert_eq!(fails(&found), BTreeSet::from(["allowed.cudart"]), "{found:#?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn broken_code_never_panics(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        bare in any::<bool>(),
    ) {
        let mut bytes = if bare { cubin().to_vec() } else { FATBIN.to_vec() };
        for (index, value) in &edits {
            let at = index.index(bytes.len());
            bytes[at] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let found = device::facts(&bytes);
        for container in &found.containers {
            prop_assert!(container.entries.iter().all(|e| e.offset + e.size <= bytes.len()));
        }
    }
}
