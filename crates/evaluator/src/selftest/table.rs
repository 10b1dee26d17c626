//! The tables that documents show of a record: Markdown, made from the record alone.

use super::SelftestRecord;
use crate::settings::Tier;
use std::fmt::Write as _;

/// What a record of a GPU says, as a table with the bar beside each figure.
#[must_use]
pub fn markdown(record: &SelftestRecord) -> String {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut row = |what: &str, bar: &str, measured: String| rows.push([what.into(), bar.into(), measured]);
    if !record.aa_runs.is_empty() {
        let worst = record.aa_runs.iter().map(|r| (r.geomean - 1.0).abs()).fold(0.0, f64::max);
        row(
            "seed against itself: geomean of a run",
            "within 0.3 %",
            format!("{} runs, the farthest off by {:.2} %", record.aa_runs.len(), 100.0 * worst),
        );
        let means = record.means();
        row(
            "its interval at 99 % holds 1",
            "all but one, or but 5 %",
            format!("{} of {}; median ±{:.2} %", means.hold, means.of, 100.0 * means.median),
        );
        row(
            "verdicts \"faster\" where nothing is",
            "at most 1 %",
            format!("{} of {}", record.false_faster, record.verdicts),
        );
        row(
            "of these, \"at least 1 % faster\"",
            "at most 1 %",
            format!("{} of {}", record.false_one_percent, record.verdicts),
        );
    }
    for widths in record.widths() {
        row(
            &format!("half of a scenario's interval, calls {}", widths.class.as_str()),
            &format!("±{} %", 100.0 * widths.class.half_width()),
            format!(
                "{} of {}; median ±{:.2} %, widest ±{:.2} %",
                widths.narrow,
                widths.intervals,
                100.0 * widths.median,
                100.0 * widths.widest.0
            ),
        );
    }
    for gain in record.gains() {
        row(
            &format!("planted gain of {} % found ({})", f64::from(gain.permille) / 10.0, gain.class),
            "95 %",
            format!("{} of {}", gain.found, gain.tried),
        );
    }
    if !record.timer_agreement.is_empty() {
        let agree = record.timer_agreement.iter().filter(|t| t.agree).count();
        row(
            "events and the slope of the wall",
            "within 3 % or 2 µs",
            format!("{agree} of {} scenarios", record.timer_agreement.len()),
        );
    }
    if let Some(t) = &record.throughput {
        for run in t.runs.iter().filter(|run| run.tier == Tier::Default) {
            row(
                &format!(
                    "default verdict on {}, {} scenarios, built and calibrated",
                    run.of_what(),
                    run.scenarios
                ),
                "30 s",
                format!("{:.1} s", run.seconds),
            );
            row(
                "share of it that is neither work of the GPU nor a flush",
                "25 %",
                format!(
                    "{:.0} % (GPU {:.0} %, flushes {:.0} %)",
                    100.0 * run.rest_share(),
                    100.0 * run.gpu_share(),
                    100.0 * run.flush_share()
                ),
            );
        }
        row("quick verdict", "3 s", format!("{:.1} s", t.quick_seconds));
        let chores = t.default_run().map(|run| &run.chore_seconds).filter(|all| !all.is_empty());
        if let Some(chores) = chores {
            let each: Vec<String> = chores.iter().map(|(name, s)| format!("{name} {s:.2} s")).collect();
            row("of the first of these, waiting by occasion", "", each.join(", "));
        }
    }
    for (what, trials) in [
        ("faults recovered from, the next verdict right", &record.faults),
        ("hostile and honest candidates as expected", &record.hostile),
    ] {
        if !trials.is_empty() {
            let right = trials.iter().filter(|t| t.is_right()).count();
            row(what, "all", format!("{right} of {}", trials.len()));
        }
    }
    if record.on_gpu() && record.own_seconds().next().is_some() {
        let each: Vec<String> = record.own_seconds().map(|(name, s)| format!("{name} {s:.0} s")).collect();
        row("the whole record", "480 s", format!("{:.0} s ({})", record.whole_seconds(), each.join(", ")));
    }
    let mut text = format!(
        "{}, {}, problem `{}`{}.\n\n| what | bar | measured |\n|---|---|---|\n",
        record.gpu.as_ref().map_or(record.device.model.as_str(), |g| &g.name),
        record.compiler,
        record.problem,
        record.commit.as_ref().map(|c| format!(", commit {c}")).unwrap_or_default()
    );
    for row in rows {
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {} |", row.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    let misses = record.misses();
    if !misses.is_empty() {
        text.push_str("\nWhat misses a bar:\n\n");
        for miss in misses {
            let _ = writeln!(text, "* {miss}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::bars::tests::{record, trial};
    use super::*;

    #[test]
    fn a_table_holds_what_the_record_holds() {
        let mut record = record();
        record.hostile.push(trial("b.cu", 1));
        record.hostile[0].as_expected = false;
        // A record of the hostile candidates is one of its own, whatever it takes.
        record.seconds = [("aa", 300.0), ("hostile", 900.0)].map(|(k, s)| (k.to_owned(), s)).into();
        let text = markdown(&record);
        for expected in [
            "NVIDIA H200, nvcc, problem `softmax`.\n",
            "| seed against itself: geomean of a run | within 0.3 % | 2 runs, the farthest off by 0.20 % |",
            "| half of a scenario's interval, calls 50 µs and longer | ±0.5 % | 2 of 2; median ±0.40 %, widest ±0.40 % |",
            "| planted gain of 2 % found (c20) | 95 % | 19 of 20 |",
            "| quick verdict | 3 s | 2.0 s |",
            "| the whole record | 480 s | 300 s (aa 300 s) |",
            "| default verdict on softmax, 20 scenarios, built and calibrated | 30 s | 20.0 s |",
            "| of the first of these, waiting by occasion |  | start 1.25 s, stop 0.50 s |",
            "| faults recovered from, the next verdict right | all | 1 of 1 |",
            "| hostile and honest candidates as expected | all | 0 of 1 |",
            "\n* b.cu round 1: FAIL",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
        record.aa_runs.clear();
        record.slowdown.clear();
        record.throughput = None;
        record.seconds.clear();
        record.total();
        assert_eq!(markdown(&record).matches("\n| ").count(), 3, "{}", markdown(&record));
    }
}
