//! Tables and diagnostics as text.

use crate::style::Style;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use kernelseek_core::diagnostic::Diagnostic;
pub(crate) use kernelseek_report::words::{count, time};

/// A table without borders: columns separated by two spaces, numbers right-aligned.
pub(crate) fn plain(width: usize, header: &[&str], numeric: &[bool]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    table.set_header(header.to_vec());
    for (index, numeric) in numeric.iter().enumerate() {
        if let Some(column) = table.column_mut(index) {
            column.set_padding((0, 2));
            column.set_cell_alignment(if *numeric { CellAlignment::Right } else { CellAlignment::Left });
        }
    }
    table
}

/// Lines of a table without trailing spaces, indented by two.
pub(crate) fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("  {}\n", line.trim_end())).collect()
}

/// A number of bytes with its unit.
pub(crate) fn bytes(n: f64) -> String {
    match n {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1024.0 * 1024.0 => format!("{:.0} KiB", n / 1024.0),
        n if n < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", n / 1024.0 / 1024.0),
        n => format!("{:.1} GiB", n / 1024.0 / 1024.0 / 1024.0),
    }
}

/// A diagnostic with its line and caret.
pub(crate) fn diagnostic(diagnostic: &Diagnostic, style: Style) -> String {
    if style.colour
        && let Some(text) = drawn(diagnostic)
    {
        return text;
    }
    format!("{} {diagnostic}\n", style.bad("error:"))
}

/// The diagnostic drawn by miette, for terminals with colour.
fn drawn(diagnostic: &Diagnostic) -> Option<String> {
    let span = diagnostic.span.clone();
    let mut report = miette::MietteDiagnostic::new(diagnostic.message.clone()).with_label(
        miette::LabeledSpan::new(diagnostic.label.clone(), span.start, span.end.saturating_sub(span.start)),
    );
    if let Some(hint) = &diagnostic.hint {
        report = report.with_help(hint.clone());
    }
    let source = miette::NamedSource::new(diagnostic.source.name(), diagnostic.source.text().to_owned());
    let report = miette::Report::new(report).with_source_code(source);
    let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::unicode());
    let mut text = String::new();
    handler.render_report(&mut text, report.as_ref()).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_carry_their_unit() {
        for (ns, expected) in [
            (12.0, "12 ns"),
            (1_234.0, "1.23 µs"),
            (123_400.0, "123.4 µs"),
            (2.5e6, "2.50 ms"),
            (3e9, "3.00 s"),
        ] {
            assert_eq!(time(ns), expected);
        }
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(33_554_432.0), "32.0 MiB");
    }
}
