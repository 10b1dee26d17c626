//! `inspect`.

use crate::cli::Inspect;
use crate::error::{CommandError, Kind};
use crate::exit;
use crate::printer::Printer;
use crate::style::Style;
use crate::table;
use kernelseek_core::finding::{Finding, Severity};
use kernelseek_inspect::elf::{self, ElfFacts};
use kernelseek_inspect::{Closure, Policy, rules};
use serde_json::json;

pub(crate) fn run(args: &Inspect, printer: &mut Printer) -> Result<u8, CommandError> {
    let bytes = std::fs::read(&args.file).map_err(|e| CommandError::file(&args.file, &e))?;
    let facts = elf::facts(&bytes).map_err(|e| {
        CommandError::new(
            Kind::Input,
            format!("{}: {}", args.file.display(), kernelseek_evaluator::fault::chain(&e)),
        )
        .with_hint("inspect takes an ELF shared library, as `kernelseek build` makes it")
    })?;
    // Without a name, whatever the library exports first stands for the entry point.
    let entry =
        args.entry.clone().or_else(|| facts.exports.first().map(|e| e.name.clone())).unwrap_or_default();
    let findings = rules::findings(&facts, &Closure::default(), &Policy::cpu(&entry));
    if printer.json {
        printer.json(&json!({ "file": args.file, "facts": facts, "findings": findings }))?;
    } else {
        printer.data(&render(&facts, &findings, printer));
    }
    Ok(exit::OK)
}

fn render(facts: &ElfFacts, findings: &[Finding], printer: &Printer) -> String {
    let style = printer.out;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("{} {value}\n", style.faint(&format!("{name:>10}"))));
    };
    line("machine", format!("{:?}", facts.machine).to_lowercase());
    line("needs", join(facts.needed.iter().map(String::as_str)));
    line("exports", join(facts.exports.iter().map(|s| s.name.as_str())));
    line("imports", join(facts.imports.iter().map(|s| s.name.as_str())));
    for section in
        facts.sections.iter().filter(|s| [".text", ".rodata", ".data", ".bss"].contains(&s.name.as_str()))
    {
        line(&section.name, table::bytes(section.size as f64));
    }
    text.push_str(&render_findings(findings, style));
    text
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

/// Findings of a build or a library, or the good news.
pub(super) fn render_findings(findings: &[Finding], style: Style) -> String {
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
        if let (Severity::Warning, Some(next)) = (finding.severity, &finding.next) {
            text.push_str(&format!("    next: {next}\n"));
        }
    }
    if !findings.iter().any(|f| f.severity >= Severity::Warning) {
        text.push_str(&format!("{} nothing breaks the rules\n", style.good("✓")));
    }
    text
}
