//! Rule 6: a trigger is false where nothing is wrong, and true where something is.

use super::Lint;
use crate::bank::Bank;
use crate::entry::Entry;
use crate::records::{healthy, planted};
use crate::select::{evaluator, holds};
use crate::signals::Signals;
use kernelseek_core::expression::Evaluator;

pub(super) fn triggers(bank: &Bank, found: &mut Vec<Lint>) {
    let records = |signals: Signals| evaluator(&signals).map(|e| (signals, e));
    let Some(healthy) = records(healthy()) else { return };
    let planted: Vec<_> = planted().into_iter().filter_map(|p| records(p.signals)).collect();
    for entry in bank.entries() {
        trigger(entry, &healthy, &planted, found);
    }
}

type Record = (Signals, Evaluator);

fn trigger(entry: &Entry, healthy: &Record, planted: &[Record], found: &mut Vec<Lint>) {
    let trigger = &entry.trigger;
    let span = trigger.expr.span();
    // What is no expression, or reads what does not exist, is a matter of rule 5.
    let known = |f: &crate::formula::Formula| {
        f.expression().is_ok_and(|e| e.names().all(|n| crate::signals::find(n).is_some()))
    };
    if !known(&trigger.expr) {
        return;
    }
    match holds(&trigger.expr, &healthy.0, &healthy.1) {
        Ok(Some(true)) => {
            found.push(Lint::new(6, entry, span.clone(), "the trigger is true of a healthy record"));
        }
        Ok(_) => {}
        Err(()) => {
            found.push(Lint::new(
                6,
                entry,
                span,
                "the trigger yields no bool, or fails, on a healthy record",
            ));
            return;
        }
    }
    let fires = |record: &&Record| {
        let suppressed = trigger.suppress_if.iter().any(|f| holds(f, &record.0, &record.1) == Ok(Some(true)));
        holds(&trigger.expr, &record.0, &record.1) == Ok(Some(true)) && !suppressed
    };
    if !planted.iter().any(|r| fires(&r)) {
        let lint = Lint::new(6, entry, span, "the trigger is true of no planted record");
        found.push(lint.hint("such an entry would never be asked"));
    }
}
