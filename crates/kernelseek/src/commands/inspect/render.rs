//! What `inspect` shows to people.

use super::Inspection;
use super::disassemble::Sass;
use crate::style::Style;
use crate::table;
use crate::wrap::wrap;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_inspect::device::{DeviceFacts, Entry, EntryKind, Function};
use kernelseek_inspect::elf::{FileType, Machine};
use kernelseek_inspect::sass::{Class, Mix};
use kernelseek_inspect::symbol;
use kernelseek_report::words::count;

/// Width of names before values.
const LABEL: usize = 10;
/// Widest bar of a share.
const BAR: usize = 24;
/// Kernels whose instructions are shown; `--json` has them all.
const MIXES: usize = 12;

pub(super) fn render(read: &Inspection, style: Style, width: usize) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let mut label = format!("{name:>LABEL$}");
        for part in wrap(&value, width.saturating_sub(LABEL + 1).max(20)) {
            text.push_str(&format!("{} {part}\n", style.faint(&label)));
            label = " ".repeat(LABEL);
        }
    };
    let elf = &read.elf;
    line("machine", machine(elf.machine, elf.file_type));
    if read.device.cubin.is_none() {
        line("needs", join(elf.needed.iter().map(String::as_str)));
        line("exports", join(elf.exports.iter().map(|s| s.name.as_str())));
        line("imports", join(elf.imports.iter().map(|s| s.name.as_str())));
        for section in
            elf.sections.iter().filter(|s| [".text", ".rodata", ".data", ".bss"].contains(&s.name.as_str()))
        {
            line(&section.name, table::bytes(section.size as f64));
        }
    }
    if let Some(summary) = gpu_code(&read.device) {
        line("gpu code", summary);
    }
    text.push_str(&kernels(&read.device, style, width));
    text.push_str(&instructions(&read.sass, style, width));
    if let Some(findings) = &read.findings {
        if !read.device.is_empty() {
            text.push('\n');
        }
        text.push_str(&render_findings(findings, style));
    }
    text
}

fn machine(machine: Machine, file_type: FileType) -> String {
    let kind = match file_type {
        FileType::Relocatable => ", object file",
        FileType::Executable | FileType::Shared | FileType::Other(_) => "",
    };
    match machine {
        Machine::Other(190) => "NVIDIA GPU".to_owned(),
        Machine::Other(n) => format!("ELF machine {n}{kind}"),
        known => format!("{known:?}{kind}").to_lowercase(),
    }
}

fn join<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 24;
    let all: Vec<&str> = names.collect();
    let shown = all.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match all.len() {
        0 => "nothing".to_owned(),
        n if n > MOST => format!("{shown} and {} more", n - MOST),
        _ => shown,
    }
}

/// `sm_90a cubin 10 KiB · sm_90 PTX 5 KiB`.
fn gpu_code(device: &DeviceFacts) -> Option<String> {
    if let Some(cubin) = &device.cubin {
        return Some(format!("cubin for {}", cubin.arch));
    }
    let entries: Vec<String> =
        device.containers.iter().flat_map(|c| &c.entries).filter(|e| !e.empty).map(entry).collect();
    let stray = device.stray.len();
    let outside = (stray > 0).then(|| format!("{} outside of any container", count(stray as u64, "piece")));
    let all: Vec<String> = entries.into_iter().chain(outside).collect();
    (!all.is_empty()).then(|| all.join(" · "))
}

fn entry(entry: &Entry) -> String {
    let kind = match entry.kind {
        EntryKind::Ptx => "PTX",
        EntryKind::Elf => "cubin",
        EntryKind::Other(_) => "unknown",
    };
    let packed = if entry.compressed { " compressed" } else { "" };
    format!("{} {kind} {}{packed}", entry.arch, table::bytes(entry.size as f64))
}

fn kernels(device: &DeviceFacts, style: Style, width: usize) -> String {
    let mut all: Vec<(&str, &Function)> = device.kernels().collect();
    if all.is_empty() {
        return String::new();
    }
    all.sort_by_key(|(arch, f)| (*arch, f.readable()));
    let header = ["kernel", "arch", "regs", "shared", "stack", "bars", "threads", "code"];
    let numeric = [false, false, true, true, true, true, true, true];
    let mut table = table::plain(width.saturating_sub(2), &header, &numeric);
    let number = |n: u64| if n == 0 { "-".to_owned() } else { n.to_string() };
    for (arch, f) in all {
        let threads = f.required_threads.or(f.max_threads).map(|t| t.iter().map(|n| u64::from(*n)).product());
        table.add_row(vec![
            symbol::shorten(f.readable()),
            arch.to_owned(),
            f.registers.map_or_else(|| "?".to_owned(), |r| r.to_string()),
            number(f.shared_bytes),
            number(f.stack_bytes + f.local_bytes),
            number(f.barriers.into()),
            number(threads.unwrap_or(0)),
            table::bytes(f.code_bytes as f64),
        ]);
    }
    let note = "registers and stack bytes of a thread; static shared bytes, barriers and threads of a block";
    let note: String =
        wrap(note, width.saturating_sub(2)).iter().map(|l| format!("  {}\n", style.faint(l))).collect();
    format!("\n{}{note}", table::lines(&table))
}

fn instructions(sass: &Sass, style: Style, width: usize) -> String {
    let hint = |what: String| {
        let lines = wrap(&what, width.saturating_sub(2).max(20));
        format!("\n{}", lines.iter().map(|l| format!("  {}\n", style.faint(l))).collect::<String>())
    };
    match sass {
        Sass::Nothing => String::new(),
        Sass::NoTool => hint(
            "Instructions by class need cuobjdump: put it beside nvcc or on PATH (it comes with the CUDA toolkit, or by \
             pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm)."
                .to_owned(),
        ),
        Sass::Failed { tool, said } => hint(format!("Instructions by class: {} failed: {said}", tool.display())),
        Sass::Read { functions, .. } => {
            let mut text = String::new();
            for mix in functions.iter().take(MIXES) {
                text.push_str(&one(mix, style, width));
            }
            if functions.len() > MIXES {
                text.push_str(&hint(format!("and {} more functions: --json has them all", functions.len() - MIXES)));
            }
            text.push_str(&hint("Counts are static: an instruction in a loop counts once.".to_owned()));
            text
        }
    }
}

/// The instructions of one function, most frequent class first.
fn one(mix: &Mix, style: Style, width: usize) -> String {
    let name = symbol::readable(&mix.name);
    let arch = mix.arch.as_deref().map(|a| format!(" ({a})")).unwrap_or_default();
    let title = format!("{name}{arch}: {} instructions", mix.total);
    let mut text = String::from("\n");
    for part in wrap(&title, width.saturating_sub(2).max(20)) {
        text.push_str(&format!("  {}\n", style.strong(&part)));
    }
    let mut classes: Vec<(Class, u64)> = mix.classes.iter().map(|(c, n)| (*c, *n)).collect();
    classes.sort_by_key(|(c, n)| (std::cmp::Reverse(*n), *c));
    let most = classes.first().map_or(1, |(_, n)| (*n).max(1));
    for (class, n) in classes {
        let share = 100.0 * n as f64 / mix.total.max(1) as f64;
        let cells = ((n as f64 / most as f64) * BAR as f64).ceil() as usize;
        let bar = "█".repeat(cells.clamp(1, BAR));
        let bar = if class == Class::Local { style.doubtful(&bar) } else { style.faint(&bar) };
        text.push_str(&format!("    {:<16} {n:>6} {share:>5.1} % {bar}\n", class.name()));
    }
    let mut remarks = Vec::new();
    if let Some(wide) = mix.wide_share() {
        remarks.push(format!("{:.0} % of loads and stores of global memory move 128 bits", wide * 100.0));
    }
    if mix.set_max_registers > 0 {
        remarks.push(format!("registers move between warps in {}", count(mix.set_max_registers, "place")));
    }
    if !remarks.is_empty() {
        for part in wrap(&remarks.join("; "), width.saturating_sub(4).max(20)) {
            text.push_str(&format!("    {}\n", style.faint(&part)));
        }
    }
    text
}

/// Findings of a build or a library, or the good news.
pub(crate) fn render_findings(findings: &[Finding], style: Style) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.severity {
            Severity::Fail => style.bad("✗"),
            Severity::Unproven | Severity::Warning => style.doubtful("!"),
            Severity::Note => style.faint("·"),
        };
        text.push_str(&format!("{mark} {} ({})\n", finding.message, finding.defence));
        for evidence in &finding.evidence {
            text.push_str(&format!("    {evidence}\n"));
        }
    }
    if !findings.iter().any(|f| f.severity >= Severity::Warning) {
        text.push_str(&format!("{} nothing breaks the rules\n", style.good("✓")));
    }
    text
}
