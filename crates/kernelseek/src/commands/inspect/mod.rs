//! `inspect`.

mod disassemble;
mod render;

use crate::cli::{Inspect, TargetName};
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use disassemble::{Sass, Tools};
use kernelseek_core::finding::Finding;
use kernelseek_inspect::device::{self, DeviceFacts};
use kernelseek_inspect::elf::{self, ElfFacts, FileType};
use kernelseek_inspect::{Closure, Policy, rules};
use serde_json::json;

pub(super) use render::render_findings;

/// What was read of one file.
struct Inspection {
    elf: ElfFacts,
    device: DeviceFacts,
    sass: Sass,
    /// What a rule says of it; `None` for a file that is no library, which nothing is allowed or denied.
    findings: Option<Vec<Finding>>,
}

pub(crate) fn run(args: &Inspect, printer: &mut Printer) -> Result<u8, CommandError> {
    let bytes = std::fs::read(&args.file).map_err(|e| CommandError::file(&args.file, &e))?;
    let elf = elf::facts(&bytes).map_err(|e| {
        CommandError::new(
            Kind::Input,
            format!("{}: {}", args.file.display(), kernelseek_evaluator::fault::chain(&e)),
        )
        .with_hint("inspect takes a shared library as `kernelseek build` makes it, an object file or a cubin")
    })?;
    let device = device::facts(&bytes);
    let sass = if device.kernels().next().is_some() {
        let spinner = printer.spinner();
        if let Some(bar) = &spinner {
            bar.set_message("disassembling");
        }
        let sass = disassemble::run(&Tools::from_environment(), &args.file);
        if let Some(bar) = spinner {
            bar.finish_and_clear();
        }
        sass
    } else {
        Sass::Nothing
    };
    let findings = judge(&elf, &device, args);
    let read = Inspection { elf, device, sass, findings };
    if printer.json {
        printer.json(&json!({
            "file": args.file,
            "facts": read.elf,
            "device": read.device,
            "sass": read.sass,
            "findings": read.findings,
        }))?;
    } else {
        printer.data(&render::render(&read, printer.out, printer.width()));
    }
    Ok(exit::OK)
}

fn judge(elf: &ElfFacts, device: &DeviceFacts, args: &Inspect) -> Option<Vec<Finding>> {
    // Objects and cubins are parts of a library: rules about what is exported and registered are not theirs.
    if elf.file_type == FileType::Relocatable || device.cubin.is_some() {
        return None;
    }
    // Without a name, whatever the library exports first stands for the entry point.
    let entry =
        args.entry.clone().or_else(|| elf.exports.first().map(|e| e.name.clone())).unwrap_or_default();
    let guessed = if device.containers.is_empty() { TargetName::Cpu } else { TargetName::Cuda };
    Some(match args.target.unwrap_or(guessed) {
        TargetName::Cpu => rules::findings(elf, &Closure::default(), &Policy::cpu(&entry)),
        TargetName::Cuda => rules::cuda(elf, device, &Closure::default(), &Policy::cuda(&entry), None),
    })
}
