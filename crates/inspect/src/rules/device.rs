//! GPU code against policy: what a library of the `cuda` target may hold.

use std::collections::HashSet;

use kernelseek_core::finding::{Finding, Severity};

use super::with_list;
use crate::device::{Container, DeviceFacts, DeviceObject, Entry, EntryKind, Function, StrayKind};
use crate::elf::{ElfFacts, FileType};
use crate::policy::Policy;
use crate::symbol;

/// The function that registers GPU code.
const REGISTER: &str = "__cudaRegisterFatBinary";
/// Sections that the compiler puts containers into; the second one is for relocatable code.
const SECTIONS: &[&str] = &[".nv_fatbin", "__nv_relfatbin"];

/// The CUDA runtime inside of the library instead of beside it.
pub(super) fn static_runtime(facts: &ElfFacts) -> Option<Finding> {
    let registers = !facts.registration.wrappers.is_empty();
    let imports = facts.imports.iter().any(|i| i.name == REGISTER);
    let beside = facts.needed.iter().any(|n| n.starts_with("libcudart.so"));
    (registers && !imports && !beside && facts.file_type == FileType::Shared).then(|| {
        Finding::new(
            "allowed.cudart",
            Severity::Fail,
            "the CUDA runtime is linked into the library, so what the candidate calls cannot be told",
        )
        .with_evidence("libcudart.so is not among the libraries that it needs")
        .with_evidence(format!("`{REGISTER}` is not imported; {} other names are", facts.imports.len()))
        .with_next("link the shared runtime: nvcc --cudart none -Xlinker -l:libcudart.so.13")
    })
}

pub(super) fn findings(
    facts: &ElfFacts,
    device: &DeviceFacts,
    policy: &Policy,
    expected: Option<&[DeviceObject]>,
) -> Vec<Finding> {
    let mut out = Vec::new();
    out.extend(stray(device));
    out.extend(containers(device));
    if expected.is_none() {
        out.extend(several(facts, device));
    }
    out.extend(registration(facts, device));
    out.extend(entries(device, policy));
    out.extend(unexpected(device, expected));
    out.extend(no_kernel(device));
    out.extend(local_memory(device));
    out.extend(settings(facts, policy));
    out
}

fn foreign(message: impl Into<String>) -> Finding {
    Finding::new("allowed.device-code", Severity::Fail, message)
        .with_next("keep every kernel in the candidate's own sources, so that the build makes all GPU code")
}

fn place(offset: usize, section: Option<&str>) -> String {
    match section {
        Some(section) => format!("at {offset:#x}, in {section}"),
        None => format!("at {offset:#x}"),
    }
}

fn stray(device: &DeviceFacts) -> Option<Finding> {
    let first = device.stray.first()?;
    let what = match first.kind {
        StrayKind::Cubin => "a cubin",
        StrayKind::Ptx => "PTX text",
    };
    let message = format!("{what} lies in the library's data, where this build put none");
    Some(with_list(
        foreign(message),
        device.stray.iter().map(|s| {
            let kind = match s.kind {
                StrayKind::Cubin => "cubin",
                StrayKind::Ptx => "PTX",
            };
            format!("{kind} {}", place(s.offset, s.section.as_deref()))
        }),
    ))
}

fn containers(device: &DeviceFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    let at = |c: &Container| place(c.offset, c.section.as_deref());
    let broken: Vec<_> = device
        .containers
        .iter()
        .filter_map(|c| c.fault.as_ref().map(|fault| format!("{}: {fault}", at(c))))
        .chain((device.unread > 0).then(|| format!("and {} more, not read", device.unread)))
        .collect();
    if !broken.is_empty() {
        out.push(with_list(foreign("a fatbin container cannot be read to its end"), broken));
    }
    let elsewhere: Vec<_> = device
        .containers
        .iter()
        .filter(|c| c.section.as_deref().is_some_and(|s| !SECTIONS.contains(&s)))
        .map(at)
        .collect();
    if !elsewhere.is_empty() {
        out.push(with_list(foreign("a fatbin container lies where the compiler puts none"), elsewhere));
    }
    out
}

/// A candidate is one source file. A second container, however well registered, was put there by hand.
fn several(facts: &ElfFacts, device: &DeviceFacts) -> Option<Finding> {
    let count = device.containers.len();
    (facts.file_type == FileType::Shared && count > 1).then(|| {
        with_list(
            foreign(format!("the library holds {count} fatbin containers, where one source file makes one")),
            device.containers.iter().map(|c| place(c.offset, c.section.as_deref())),
        )
    })
}

/// Records and containers belong to each other one by one, and nobody else registers anything.
fn registration(facts: &ElfFacts, device: &DeviceFacts) -> Vec<Finding> {
    let mut out = Vec::new();
    // Object files are not linked yet: what names what stands in relocations of another kind.
    if facts.file_type != FileType::Shared {
        return out;
    }
    let told = &facts.registration;
    let starts: HashSet<u64> = device.containers.iter().map(|c| c.offset as u64).collect();
    let mut named = HashSet::new();
    let loose: Vec<_> = told
        .wrappers
        .iter()
        .filter(|w| !w.names.is_some_and(|n| starts.contains(&n) && named.insert(n)))
        .map(|w| format!("record at {:#x}", w.offset))
        .collect();
    if !loose.is_empty() {
        out.push(with_list(foreign("a record registers GPU code that is no container of its own"), loose));
    }
    let unnamed: Vec<_> = device
        .containers
        .iter()
        .filter(|c| !named.contains(&(c.offset as u64)))
        .map(|c| format!("container {}", place(c.offset, c.section.as_deref())))
        .collect();
    if !unnamed.is_empty() {
        out.push(with_list(foreign("a fatbin container belongs to no record of the compiler's"), unnamed));
    }
    let records = told.wrappers.len() as u64;
    match told.uses {
        Some(uses) if uses > records => out.push(
            foreign(format!("`{REGISTER}` is called by more than the compiler's own start-up code"))
                .with_evidence(format!("{uses} uses, {records} records")),
        ),
        _ => {}
    }
    if told.address_taken {
        out.push(foreign(format!("the address of `{REGISTER}` is kept in data")));
    }
    out
}

fn every_entry(device: &DeviceFacts) -> impl Iterator<Item = (&Container, &Entry)> {
    // What a link step leaves behind is of no consequence.
    device.containers.iter().flat_map(|c| c.entries.iter().filter(|e| !e.empty).map(move |e| (c, e)))
}

fn kind(entry: &Entry) -> &'static str {
    match entry.kind {
        EntryKind::Ptx => "PTX",
        EntryKind::Elf => "cubin",
        EntryKind::Other(_) => "entry of an unknown kind",
    }
}

fn entries(device: &DeviceFacts, policy: &Policy) -> Vec<Finding> {
    let mut out = Vec::new();
    let described = |(c, e): (&Container, &Entry)| {
        let why = e.fault.as_ref().map(|f| format!(": {f}")).unwrap_or_default();
        format!("{} for {} {}{why}", kind(e), e.arch, place(e.offset, c.section.as_deref()))
    };
    let all = |pick: &dyn Fn(&Entry) -> bool| -> Vec<String> {
        every_entry(device).filter(|(_, e)| pick(e)).map(described).collect()
    };
    let packed = all(&|e| e.compressed);
    if !packed.is_empty() {
        let finding = Finding::new(
            "allowed.device-packed",
            Severity::Fail,
            "GPU code in the library is compressed, so it cannot be inspected",
        );
        out.push(with_list(finding, packed).with_next("build with nvcc --compress-mode=none"));
    }
    let unreadable = all(&|e| !e.compressed && (e.fault.is_some() || matches!(e.kind, EntryKind::Other(_))));
    if !unreadable.is_empty() {
        out.push(with_list(foreign("GPU code in the library cannot be read"), unreadable));
    }
    let ptx = if policy.ptx() { Vec::new() } else { all(&|e| e.kind == EntryKind::Ptx) };
    if !ptx.is_empty() {
        let finding = Finding::new(
            "allowed.device-ptx",
            Severity::Fail,
            "the library holds PTX, which the driver would compile when it is loaded",
        );
        out.push(with_list(finding, ptx).with_next(
            "build machine code alone: nvcc -gencode=arch=compute_90a,code=sm_90a for each architecture",
        ));
    }
    let other = all(&|e| e.kind == EntryKind::Elf && !policy.arch(&e.arch));
    if !other.is_empty() {
        let finding = Finding::new(
            "allowed.device-arch",
            Severity::Fail,
            format!(
                "the library holds GPU code for an architecture that was not asked for ({})",
                policy.named_archs().join(", ")
            ),
        );
        out.push(with_list(finding, other).with_next("leave the architectures to the recipe"));
    }
    out
}

fn unexpected(device: &DeviceFacts, expected: Option<&[DeviceObject]>) -> Option<Finding> {
    let expected: HashSet<&DeviceObject> = expected?.iter().collect();
    let objects = device.objects();
    let found: Vec<_> = objects
        .iter()
        .filter(|o| !expected.contains(o))
        .map(|o| format!("{} for {}", symbol::readable(&o.name), o.arch))
        .collect();
    let first = found.first()?;
    Some(with_list(foreign(format!("the compiler did not emit {first}")), found.iter().cloned()))
}

fn no_kernel(device: &DeviceFacts) -> Option<Finding> {
    // Packed code may hold any number.
    let unread = every_entry(device).any(|(_, e)| e.cubin.is_none());
    (!unread && device.kernels().next().is_none())
        .then(|| Finding::new("allowed.no-kernel", Severity::Note, "the library holds no kernel of its own"))
}

fn local_memory(device: &DeviceFacts) -> Option<Finding> {
    let bytes = |f: &Function| f.stack_bytes + f.local_bytes;
    let users: Vec<_> = device.kernels().filter(|(_, f)| bytes(f) > 0).collect();
    (!users.is_empty()).then(|| {
        let message = match users.as_slice() {
            [_] => "a kernel keeps values of its threads in local memory".to_owned(),
            many => format!("{} kernels keep values of their threads in local memory", many.len()),
        };
        with_list(
            Finding::new("allowed.local-memory", Severity::Note, message),
            users.iter().map(|(arch, f)| {
                let name = symbol::shorten(f.readable());
                format!("{} bytes a thread in {name} ({arch})", bytes(f))
            }),
        )
    })
}

fn settings(facts: &ElfFacts, policy: &Policy) -> Vec<Finding> {
    facts
        .imports
        .iter()
        .filter_map(|i| {
            let what = policy.noted(&i.name)?;
            Some(Finding::new("allowed.device-setting", Severity::Note, format!("`{}` {what}", i.name)))
        })
        .collect()
}
