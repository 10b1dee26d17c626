//! Facts against policy: the *allowed* stage of a verdict.

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_core::problem::Target;

mod device;

use crate::device::{DeviceFacts, DeviceObject};
use crate::elf::{ElfFacts, FileType, Import, Stack};
use crate::headers::{Closure, PathClass};
use crate::policy::{ImportRule, Policy};
use crate::symbol::{self, Resemblance};

/// The same finding is listed with at most this many pieces of evidence.
const EVIDENCE: usize = 20;
/// Initialisers and finalisers that the compiler's own start files add. With `-ffast-math` older gcc adds one more,
/// which sets the loading thread's floating-point mode: worth its note.
const OWN_INITIALISERS: u64 = 1;

/// Every finding about one library built for the `cpu` target and the files it was built from, in a fixed order.
#[must_use]
pub fn findings(facts: &ElfFacts, closure: &Closure, policy: &Policy) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(file_type(facts));
    out.extend(exports(facts, policy));
    out.extend(imports(facts, policy));
    out.extend(needed(facts, policy));
    out.extend(common(facts, closure, policy));
    out.extend(device_code(facts));
    out.extend(raw_syscalls(facts));
    out.extend(load_time_code(facts, OWN_INITIALISERS));
    out
}

/// Every finding about one library built for the `cuda` target, in a fixed order.
///
/// `expected` is what the compiler emitted, function by function, if the builder looked at it before the link: then
/// anything else in the library is refused. Without it the library must hold exactly the code that the compiler's own
/// records register.
#[must_use]
pub fn cuda(
    facts: &ElfFacts,
    device: &DeviceFacts,
    closure: &Closure,
    policy: &Policy,
    expected: Option<&[DeviceObject]>,
) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(file_type(facts));
    out.extend(exports(facts, policy));
    // A runtime inside of the library imports a hundred names: they are its, and it is the one thing to mend.
    match device::static_runtime(facts) {
        Some(finding) => out.push(finding),
        None => out.extend(imports(facts, policy)),
    }
    out.extend(needed(facts, policy));
    out.extend(common(facts, closure, policy));
    out.extend(device::findings(facts, device, policy, expected));
    out.extend(raw_syscalls(facts));
    // Each record of GPU code comes with the start-up function that registers it.
    let records = facts.registration.wrappers.len() as u64;
    out.extend(load_time_code(facts, OWN_INITIALISERS + records));
    out
}

fn common(facts: &ElfFacts, closure: &Closure, policy: &Policy) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(run_path(facts));
    out.extend(headers(closure, policy));
    out.extend(memory(facts));
    out
}

fn with_list(mut finding: Finding, evidence: impl IntoIterator<Item = String>) -> Finding {
    let mut evidence = evidence.into_iter();
    finding.evidence.extend(evidence.by_ref().take(EVIDENCE));
    let more = evidence.count();
    if more > 0 {
        finding.evidence.push(format!("and {more} more"));
    }
    finding
}

fn file_type(facts: &ElfFacts) -> Option<Finding> {
    (facts.file_type != FileType::Shared).then(|| {
        Finding::new("allowed.type", Severity::Fail, "the build did not make a shared library")
            .with_evidence(format!("{:?}", facts.file_type))
            .with_next("remove linker flags that ask for another kind of file")
    })
}

fn exports(facts: &ElfFacts, policy: &Policy) -> Vec<Finding> {
    policy
        .entry_points()
        .iter()
        .filter(|name| !facts.exports_function(name))
        .map(|name| {
            let finding = Finding::new(
                "allowed.export",
                Severity::Fail,
                format!("the entry point `{name}` is not exported"),
            );
            if facts.exports.iter().any(|e| e.name == *name) {
                return finding
                    .with_evidence(format!("`{name}` is exported, but not as a function"))
                    .with_next(format!("define `{name}` as a function"));
            }
            match symbol::resembling(name, facts.exports.iter().map(|e| e.name.as_str())) {
                Some(Resemblance::Mangled(mangled)) => finding
                    .with_evidence(format!("`{}` is exported as `{mangled}`", symbol::readable(&mangled)))
                    .with_next(format!("declare it extern \"C\", or include {name}.h before its definition")),
                Some(Resemblance::Spelling(other)) => finding
                    .with_evidence(format!("`{other}` is exported"))
                    .with_next(format!("rename `{other}` to `{name}`")),
                None => {
                    let next = format!("define `{name}` without `static` and with default visibility");
                    with_list(finding, facts.exports.iter().map(|e| symbol::readable(&e.name)))
                        .with_next(next)
                }
            }
        })
        .collect()
}

/// What a C++ runtime imports that a kernel may not: waiting threads, and randomness read from a device.
const CXX_RUNTIME_IMPORTS: [&str; 2] = ["syscall", "__read_chk"];

/// Whether the C++ runtime was linked into the library: then it is the library that imports what only that runtime asks of
/// the unwinder. Compilers without a shared one do so, and nothing in a candidate's source can help it. What system calls
/// do at run time is the sandbox's business in any case.
fn brings_cxx_runtime(facts: &ElfFacts) -> bool {
    let imports = |name: &str| facts.imports.iter().any(|i| i.name == name);
    !facts.needed.iter().any(|n| n.starts_with("libstdc++"))
        && ["_Unwind_RaiseException", "_Unwind_SetGR", "_Unwind_SetIP"].into_iter().all(imports)
}

fn imports(facts: &ElfFacts, policy: &Policy) -> Vec<Finding> {
    let mut out: Vec<Finding> = Vec::new();
    let mut unlisted = Vec::new();
    for import in &facts.imports {
        match policy.import(&import.name) {
            ImportRule::Allowed => {}
            ImportRule::Denied(_) | ImportRule::Unlisted
                if CXX_RUNTIME_IMPORTS.contains(&import.name.as_str()) && brings_cxx_runtime(facts) =>
            {
                out.push(
                    Finding::new(
                        "allowed.static-runtime",
                        Severity::Note,
                        "the C++ runtime is inside the library, and imports what a kernel may not",
                    )
                    .with_evidence(described(import))
                    .with_next(
                        "install the compiler's shared C++ runtime (libstdc++.so), so that it is linked instead",
                    ),
                );
            }
            ImportRule::Unlisted => unlisted.push(import),
            ImportRule::Denied(refusal) => {
                let message =
                    format!("`{}` is not allowed: it {}", symbol::readable(&import.name), refusal.reason);
                out.push(
                    Finding::new("allowed.import", Severity::Fail, message)
                        .with_evidence(described(import))
                        .with_next(refusal.next),
                );
            }
        }
    }
    match unlisted.as_slice() {
        [] => {}
        [one] => {
            let message = format!("the import `{}` is not on the allow-list", symbol::readable(&one.name));
            out.push(unlisted_finding(message, &unlisted));
        }
        many => {
            let message = format!(
                "{} imports are not on the allow-list, `{}` first",
                many.len(),
                symbol::readable(&many[0].name)
            );
            out.push(unlisted_finding(message, &unlisted));
        }
    }
    out
}

fn unlisted_finding(message: String, imports: &[&Import]) -> Finding {
    let next = if imports.iter().all(|i| i.library.is_none()) {
        "define it in the candidate's own sources (add the file that does), or let the problem allow it with \
         constraints.allow_imports"
    } else {
        "remove the call, or let the problem allow it with constraints.allow_imports"
    };
    with_list(Finding::new("allowed.import", Severity::Fail, message), imports.iter().map(|i| described(i)))
        .with_next(next)
}

/// `cexp` → `cexp@GLIBC_2.2.5 from libm.so.6`, with the mangled name where it differs from the message's.
fn described(import: &Import) -> String {
    let mut out = symbol::shorten(&import.name);
    if let Some(version) = &import.version {
        out = format!("{out}@{version}");
    }
    if let Some(library) = &import.library {
        out = format!("{out} from {library}");
    }
    if import.weak {
        out.push_str(" (weak)");
    }
    if let Some(demangled) = symbol::demangle(&import.name) {
        out = format!("{out}: {demangled}");
    }
    out
}

fn needed(facts: &ElfFacts, policy: &Policy) -> Vec<Finding> {
    let refused: Vec<_> = facts.needed.iter().filter(|n| !policy.needed(n)).cloned().collect();
    let mut out = Vec::new();
    if let Some(first) = refused.first() {
        let message = format!("the library `{first}` is not on the allow-list");
        let finding = Finding::new("allowed.needed", Severity::Fail, message);
        out.push(
            with_list(finding, refused.iter().cloned()).with_next(
                match policy.target() {
                    Target::Cpu => "link only the C and C++ runtime, or let the problem name the library in build.link",
                    Target::Cuda => {
                        "link only libcudart and the C and C++ runtime, or let the problem name the library in build.link"
                    }
                },
            ),
        );
    }
    if let Some(first) = facts.filters.first() {
        let message = format!("the file loads `{first}` as an auditor or filter");
        out.push(
            with_list(Finding::new("allowed.needed", Severity::Fail, message), facts.filters.iter().cloned())
                .with_next("remove the linker flags that ask for it"),
        );
    }
    out
}

fn run_path(facts: &ElfFacts) -> Option<Finding> {
    let paths: Vec<_> = facts.rpath.iter().chain(&facts.runpath).filter(|p| !p.is_empty()).cloned().collect();
    (!paths.is_empty()).then(|| {
        with_list(
            Finding::new("allowed.rpath", Severity::Fail, "the file says where libraries are searched for"),
            paths,
        )
        .with_next("remove -rpath from the link flags")
    })
}

fn headers(closure: &Closure, policy: &Policy) -> Vec<Finding> {
    let mut out = Vec::new();
    let outside: Vec<_> = closure.of(PathClass::Outside).map(|h| h.path.display().to_string()).collect();
    if let Some(first) = outside.first() {
        let message = format!("the build read `{first}`, outside the workspace and the toolchain");
        out.push(
            with_list(Finding::new("allowed.header", Severity::Fail, message), outside.iter().cloned())
                .with_next("copy what the candidate needs into the workspace"),
        );
    }
    for file in &closure.files {
        // The path above the workspace is not the candidate's choice; everywhere else it names the library.
        let name = match file.class {
            PathClass::Workspace | PathClass::Offered => &file.name,
            PathClass::Toolchain | PathClass::System | PathClass::Outside => &file.path,
        };
        if let Some(pattern) = policy.denied_header(&name.to_string_lossy()) {
            let message = format!("the header `{}` is on the deny-list", name.display());
            out.push(
                Finding::new("allowed.header", Severity::Fail, message)
                    .with_evidence(format!("matches `{pattern}`"))
                    .with_next("write the computation without that library"),
            );
            if out.len() >= EVIDENCE {
                break;
            }
        }
    }
    out
}

fn memory(facts: &ElfFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    let stack = match facts.stack {
        Stack::NonExecutable => None,
        Stack::Executable => Some("PT_GNU_STACK is executable"),
        Stack::Unstated => Some("there is no PT_GNU_STACK"),
    };
    if let Some(evidence) = stack {
        out.push(
            Finding::new("allowed.execstack", Severity::Fail, "the file asks for an executable stack")
                .with_evidence(evidence)
                .with_next(
                    "avoid nested functions whose address is taken; end assembly files with a .note.GNU-stack section",
                ),
        );
    }
    if !facts.writable_code.is_empty() {
        let evidence = facts.writable_code.iter().map(|s| format!("{} bytes at {:#x}", s.size, s.address));
        out.push(
            with_list(
                Finding::new("allowed.wx", Severity::Fail, "a segment is writable and executable at once"),
                evidence,
            )
            .with_next("keep code and data in their own sections"),
        );
    }
    if facts.text_relocations {
        out.push(
            Finding::new("allowed.textrel", Severity::Fail, "relocations patch code pages")
                .with_next("write position-independent code"),
        );
    }
    out
}

fn device_code(facts: &ElfFacts) -> Option<Finding> {
    let code = &facts.device_code;
    (!code.is_empty()).then(|| {
        with_list(
            Finding::new(
                "allowed.device-code",
                Severity::Fail,
                "the file carries GPU code that this build did not emit",
            ),
            code.sections
                .iter()
                .cloned()
                .chain((code.fatbins > 0).then(|| format!("{} fatbin containers", code.fatbins)))
                .chain((code.images > 0).then(|| format!("{} GPU images", code.images))),
        )
        .with_next("build for the cpu target without embedded GPU code")
    })
}

fn raw_syscalls(facts: &ElfFacts) -> Option<Finding> {
    let found = facts.raw_syscalls;
    let at = found.first_offset?;
    let message = format!("{} system-call instructions are in the code", found.instructions);
    Some(
        Finding::new("allowed.raw-syscall", Severity::Warning, message)
            .with_evidence(format!("first at file offset {at:#x}"))
            .with_next("call libc, or nothing: the sandbox refuses what a computation does not need"),
    )
}

fn load_time_code(facts: &ElfFacts, own: u64) -> Vec<Finding> {
    let mut out = Vec::new();
    if facts.init_array > own || facts.fini_array > OWN_INITIALISERS {
        out.push(
            Finding::new(
                "allowed.constructor",
                Severity::Note,
                "code runs when the library is loaded or unloaded",
            )
            .with_evidence(format!("{} initialisers, {} finalisers", facts.init_array, facts.fini_array)),
        );
    }
    if facts.ifunc {
        out.push(Finding::new(
            "allowed.ifunc",
            Severity::Note,
            "a function is chosen by a resolver when the library is loaded",
        ));
    }
    out
}
