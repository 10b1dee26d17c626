//! What the report does not show, and how to see for oneself.

use super::{heading, item, name, names, paragraph, row, said, table};
use crate::escape::code;
use crate::model::Report;
use crate::words::date;

/// Names that a limit lists.
const NAMED: usize = 16;
/// Limits that are listed: notes of a verdict are as many as it likes.
const MOST: usize = 40;
/// Source files that are listed.
const SOURCES: usize = 20;

pub(super) fn render(report: &Report) -> String {
    let mut text = heading("What this report does not show");
    for limit in report.limits.iter().take(MOST) {
        let about =
            if limit.names.is_empty() { String::new() } else { format!(": {}", names(&limit.names, NAMED)) };
        // A bracket before a colon would name the target of a link.
        let text_of = if about.is_empty() { limit.text.as_str() } else { limit.text.trim_end_matches(']') };
        text.push_str(&item(&format!("{}{about}", said(text_of, 500))));
    }
    text.push('\n');
    text.push_str(&reproduce(report));
    text.push_str(&paragraph(&format!(
        "Made {} by kernelseek {} from rows 1 to {} of {}.",
        date(report.made_ms),
        name(&report.tool),
        report.identity.rows,
        name(&report.identity.campaign)
    )));
    text
}

fn reproduce(report: &Report) -> String {
    let head = &report.identity.head;
    // A hash is hexadecimal; anything else would be somebody's text in a command.
    let head =
        if !head.is_empty() && head.bytes().all(|b| b.is_ascii_hexdigit()) { head.as_str() } else { "HASH" };
    let mut text = heading("To see for yourself");
    text.push_str(&format!(
        "```sh\n\
         # where the ledger is: all rows, verdicts and sources in one file\n\
         kernelseek export campaign.jsonl\n\
         # anywhere else: every byte is checked, and, if no row was added since row {}, that nobody rewrote one\n\
         kernelseek import campaign.jsonl --head {head} --workspace DIR\n",
        report.identity.rows
    ));
    if let Some(s) = &report.subject {
        text.push_str(&format!(
            "# the evaluation that is shown here, then the goal judged on the sources in DIR\n\
             kernelseek log --row {}\n\
             kernelseek goal\n\
             # measured once more, with fresh secrets\n\
             kernelseek eval --full\n",
            s.row
        ));
    }
    text.push_str("```\n\n");
    text.push_str(&paragraph(
        "Keep the head apart from the file: a whole chain proves only that no row was changed by accident. On another \
         machine or with another compiler the seal says what differs; seal again with a reason, and results here count as \
         STALE there.",
    ));
    let Some(s) = report.subject.as_ref().filter(|s| !s.sources.is_empty()) else { return text };
    text.push_str(&paragraph(&format!("Sources of row {}, by BLAKE3:", s.row)));
    text.push_str(&table(&["file", "hash"]));
    for file in s.sources.iter().take(SOURCES) {
        text.push_str(&row(&[name(&file.path), code(&file.hash)]));
    }
    text.push('\n');
    let more = s.sources.len().saturating_sub(SOURCES);
    if more > 0 {
        text.push_str(&paragraph(&format!("and {more} more.")));
    }
    text
}
