//! The outcome of a sweep as a person reads it: one sentence, a table of the alternatives, what was written.

use crate::style::Style;
use crate::table;
use crate::wrap::wrap;
use kernelseek_tuning::{ArmReport, Outcome};
use std::path::PathBuf;

/// Scenarios that get a column of their own.
const MOST_COLUMNS: usize = 4;
/// Alternatives that are listed.
const MOST_ROWS: usize = 40;

/// Renders an outcome.
pub(crate) fn render(outcome: &Outcome, written: &[PathBuf], style: Style, width: usize) -> String {
    let mut text = String::new();
    let mut head = wrap(&outcome.words, width).into_iter();
    let first = head.next().unwrap_or_default();
    let painted = if outcome.gain.is_some() { style.good(&first) } else { style.doubtful(&first) };
    text.push_str(&format!("{painted}\n"));
    head.for_each(|line| text.push_str(&format!("{line}\n")));
    text.push('\n');
    text.push_str(&arms(outcome, width));
    for note in &outcome.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text.push('\n');
    for path in written {
        text.push_str(&format!("written: {}\n", path.display()));
    }
    if written.is_empty() {
        text.push_str("nothing was written\n");
    }
    let spent =
        format!("{} in {:.1} s", table::count(outcome.evaluations as u64, "evaluation"), outcome.seconds);
    text.push_str(&format!("{}\n", style.faint(&spent)));
    text
}

fn arms(outcome: &Outcome, width: usize) -> String {
    let mut columns: Vec<&String> = Vec::new();
    for arm in &outcome.arms {
        for id in arm.ratios.keys().filter(|id| !columns.contains(id)).collect::<Vec<_>>() {
            columns.push(id);
        }
    }
    columns.sort();
    let hidden = columns.len().saturating_sub(MOST_COLUMNS);
    columns.truncate(MOST_COLUMNS);
    let mut header = vec!["alternative"];
    header.extend(columns.iter().map(|c| c.as_str()));
    header.extend(["dropped in", "why"]);
    let mut numeric = vec![false];
    numeric.extend(columns.iter().map(|_| true));
    numeric.extend([false, false]);
    let mut shown = table::plain(width.saturating_sub(2), &header, &numeric);
    let all: Vec<&ArmReport> = outcome.arms.iter().chain(&outcome.flags).collect();
    for arm in all.iter().take(MOST_ROWS) {
        let mut row = vec![arm.name.clone()];
        let ratio =
            |c: &&String| arm.ratios.get(*c).map_or_else(|| "-".to_owned(), |e| format!("{:.2}×", e.point()));
        row.extend(columns.iter().map(ratio));
        row.extend([arm.rung.clone().unwrap_or_default(), arm.why.clone()]);
        shown.add_row(row);
    }
    let mut text = table::lines(&shown);
    if all.len() > MOST_ROWS {
        text.push_str(&format!("  … {} more: see --json\n", all.len() - MOST_ROWS));
    }
    if hidden > 0 {
        text.push_str(&format!("  and {} more: see --json\n", table::count(hidden as u64, "scenario")));
    }
    text.push_str("  ratios are to the seed; 1.00× is as fast as the seed\n");
    text
}
