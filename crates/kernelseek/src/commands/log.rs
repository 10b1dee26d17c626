//! `log`.

use super::campaign;
use crate::cli::{Global, Log};
use crate::error::{CommandError, Kind};
use crate::printer::Printer;
use crate::{exit, log_view};
use kernelseek_ledger::{Entry, Row};
use kernelseek_supervisor::{Openness, now_ms};
use serde_json::{Value, json};

pub(crate) fn run(args: &Log, global: &Global, printer: &mut Printer) -> Result<u8, CommandError> {
    let opened = campaign::open(&args.here, global, Openness::Reading)?;
    campaign::warn(&opened, printer);
    let rows = opened.ledger().rows().map_err(kernelseek_supervisor::SupervisorError::from)?;
    if let Some(seq) = args.row {
        let Some(row) = rows.iter().find(|r| r.seq == seq) else {
            let message = format!("there is no row {seq}; the last one is {}", rows.len());
            return Err(CommandError::new(Kind::Usage, message));
        };
        printer.json(&whole(row))?;
        return Ok(exit::OK);
    }
    let chosen: Vec<&Row> = rows
        .iter()
        .filter(|r| args.kind.as_ref().is_none_or(|k| *k == r.kind))
        .filter(|r| args.silences || !is_silence(r))
        .collect();
    let from = if args.number == 0 { 0 } else { chosen.len().saturating_sub(args.number) };
    if printer.json {
        printer.json(&chosen[from..].iter().map(|r| whole(r)).collect::<Vec<_>>())?;
        return Ok(exit::OK);
    }
    let mut text = String::new();
    if from > 0 {
        let all = "`--number 0` shows all";
        text.push_str(&printer.out.faint(&format!("… {from} earlier rows ({all})\n")));
    }
    for row in &chosen[from..] {
        text.push_str(&log_view::line(row, now_ms(), printer.out, printer.width()));
    }
    printer.data(&text);
    Ok(exit::OK)
}

fn is_silence(row: &Row) -> bool {
    row.kind == "asked" && matches!(row.entry(), Ok(Entry::Asked(a)) if a.is_silence())
}

/// A row with its body as JSON.
fn whole(row: &Row) -> Value {
    let body: Value = serde_json::from_str(&row.body).unwrap_or_else(|_| Value::String(row.body.clone()));
    json!({ "row": row.seq, "at_ms": row.at_ms, "hash": row.hash, "entry": body })
}
