//! A report as Markdown: readable as it is, and valid GFM.
//!
//! Whatever agents and people wrote goes through [`crate::escape`]; whatever stands in a cell goes through [`row`].

mod head;
mod picture;
mod scenarios;
mod story;
mod tail;

use crate::escape::{bars, code, cut, inline, wrap};
use crate::model::Report;

/// Characters of a name that are shown.
const NAME: usize = 64;
/// Misses of a clause that are named.
const MISSES: usize = 12;

/// Renders a report.
#[must_use]
pub fn markdown(report: &Report) -> String {
    let mut text = head::render(report);
    text.push_str(&goal(report));
    text.push_str(&scenarios::render(report));
    text.push_str(&picture::render(report));
    text.push_str(&story::render(report));
    text.push_str(&tail::render(report));
    text
}

/// A heading of the project's own words.
fn heading(text: &str) -> String {
    format!("## {text}\n\n")
}

/// A paragraph.
fn paragraph(markdown: &str) -> String {
    format!("{}\n", wrap("", markdown))
}

/// An item of a list.
fn item(markdown: &str) -> String {
    wrap("- ", markdown)
}

/// A row of a table.
fn row(cells: &[String]) -> String {
    let mut text = String::from("|");
    for cell in cells {
        text.push(' ');
        text.push_str(&bars(cell));
        text.push_str(if cell.is_empty() { "|" } else { " |" });
    }
    text.push('\n');
    text
}

/// The head of a table. Columns whose name begins with `>` hold numbers.
fn table(columns: &[&str]) -> String {
    let names: Vec<String> = columns.iter().map(|c| c.trim_start_matches('>').to_owned()).collect();
    let lines = columns.iter().map(|c| if c.starts_with('>') { "---:|" } else { "---|" });
    format!("{}|{}\n", row(&names), lines.collect::<String>())
}

/// A name, short enough, as code.
fn name(text: &str) -> String {
    code(&cut(text, NAME))
}

/// The first few names and how many more there are.
fn names(names: &[String], most: usize) -> String {
    let shown: Vec<String> = names.iter().take(most).map(|n| name(n)).collect();
    let more = names.len().saturating_sub(most);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// A sentence of somebody else's, short enough.
fn said(text: &str, most: usize) -> String {
    inline(&cut(text, most))
}

/// The goal, clause by clause.
fn goal(report: &Report) -> String {
    let mut text = heading("Goal");
    let Some(judgement) = &report.goal.judgement else {
        for clause in &report.goal.clauses {
            text.push_str(&item(&format!("· {}", code(clause))));
        }
        text.push('\n');
        text.push_str(&paragraph("Not judged: there is no verdict to judge it on."));
        return text;
    };
    for clause in &judgement.clauses {
        let mark = if clause.met { "✓" } else { "✗" };
        text.push_str(&item(&format!("{mark} {}: {}", code(&clause.clause), crate::words::reached(clause))));
        for miss in clause.misses.iter().take(MISSES) {
            let scenario =
                if miss.scenario.is_empty() { String::new() } else { format!("{}: ", name(&miss.scenario)) };
            text.push_str(&wrap("  - ", &format!("{scenario}{}", said(&miss.message, 200))));
        }
        if clause.misses.len() > MISSES {
            text.push_str(&format!("  - and {} more\n", clause.misses.len() - MISSES));
        }
    }
    for blocker in judgement.blockers.iter().take(MISSES) {
        text.push_str(&item(&format!(
            "✗ {}; next: {}",
            said(&blocker.message, 400),
            said(&blocker.next, 200)
        )));
    }
    for warning in &report.goal.warnings {
        text.push_str(&item(&format!("! {}", said(warning, 400))));
    }
    text.push('\n');
    if let Some(row) = report.goal.row {
        text.push_str(&paragraph(&format!(
            "Judged on row {row}. A speedup counts by the lower end of its interval, and only a full evaluation satisfies \
             a goal."
        )));
    }
    text
}
