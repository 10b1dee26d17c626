//! What standard error shows while the engine works: one redrawn line on a terminal, one line a step elsewhere.

use crate::printer::Printer;
use indicatif::ProgressBar;
use kernelseek_core::wording::counted;
use kernelseek_evaluator::event::{Event, Sink};

/// Consumes events.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    quiet: bool,
    total: u64,
    lines: Vec<String>,
}

impl Progress {
    pub(crate) fn new(printer: &Printer) -> Self {
        let bar = printer.spinner();
        Self { bar, quiet: printer.is_quiet(), total: 0, lines: Vec::new() }
    }

    /// For many evaluations in a row, each of which is told in a line of its own.
    pub(crate) fn silent() -> Self {
        Self { bar: None, quiet: true, total: 0, lines: Vec::new() }
    }

    /// Removes the redrawn line.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn step(&mut self, text: String, worth_a_line: bool) {
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if worth_a_line && !self.quiet => {
                use std::io::Write as _;
                let _ = writeln!(std::io::stderr().lock(), "{text}");
                self.lines.push(text);
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Sink for Progress {
    fn on(&mut self, event: &Event) {
        match event {
            Event::Problem { name, scenarios } => {
                self.total = *scenarios as u64;
                self.step(format!("{name}: {}", counted(*scenarios, "scenario")), true);
            }
            Event::Again { why } => self.step(why.clone(), true),
            Event::Building { side } => self.step(format!("building the {}", side.as_str()), false),
            Event::Built { side, cached, seconds } => {
                let how = if *cached { "cached".to_owned() } else { format!("{seconds:.1} s") };
                self.step(format!("built the {} ({how})", side.as_str()), !cached);
            }
            Event::WaitingForGpu { holder } => self.step(format!("waiting for the GPU: {holder}"), false),
            Event::MeasuringPeaks => self.step("measuring this machine's peaks (once)".into(), true),
            Event::Calibrating { scenarios } => self.step(
                format!("calibrating: the seed against itself on {} (kept; again where a busy machine spoiled it)", counted(*scenarios, "scenario")),
                true,
            ),
            Event::Referencing { scenario } => {
                self.step(format!("reference: {scenario} (kept for next time)"), false);
            }
            Event::Instance { index, of } => self.step(format!("instance {index} of {of}"), true),
            Event::Measured { scenario, instance, ratio } => {
                let ratio = ratio.map_or_else(String::new, |r| format!(" {r:.3}×"));
                self.step(format!("instance {instance}: {scenario}{ratio}"), false);
            }
            Event::Remeasured { scenario, why } => self.step(format!("{scenario}: measured again, {why}"), false),
            Event::Auditing { scenario, ratio } => {
                self.step(format!("auditing {scenario}: {ratio:.2}× is suspicious until shown otherwise"), true);
            }
            Event::UnderTool { tool, scenario } => self.step(format!("{scenario}: under {tool}"), true),
            Event::HeldOut { drawn } => self.step(format!("held out: {} drawn", counted(*drawn, "scenario")), true),
            Event::Scenario(_) => {}
        }
    }
}
