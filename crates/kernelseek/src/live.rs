//! Lines that stay, over one that is redrawn: how a run is watched.

use crate::printer::Printer;
use indicatif::ProgressBar;
use std::time::Instant;

/// Where lines that stay go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    /// Standard error: they are talk.
    Talk,
    /// Standard output: they are what was asked for.
    Data,
    /// Nowhere.
    Nowhere,
}

/// A display.
#[derive(Debug)]
pub(crate) struct Live {
    bar: Option<ProgressBar>,
    lines: Lines,
    begun: Instant,
    width: usize,
}

impl Live {
    pub(crate) fn new(printer: &Printer, lines: Lines) -> Self {
        let bar = printer.spinner();
        Self { bar, lines, begun: Instant::now(), width: printer.width() }
    }

    /// Time since it began as `m:ss`.
    pub(crate) fn clock(&self) -> String {
        let seconds = self.begun.elapsed().as_secs();
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }

    /// Writes text that stays; it ends with a line break.
    pub(crate) fn keep(&self, text: &str, printer: &Printer) {
        let write = || match self.lines {
            Lines::Talk => printer.talk(text.strip_suffix('\n').unwrap_or(text)),
            Lines::Data => printer.data(text),
            Lines::Nowhere => {}
        };
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Redraws the last line.
    pub(crate) fn status(&self, text: &str) {
        if let Some(bar) = &self.bar {
            let most = self.width.saturating_sub(10).max(20);
            let cut: String = text.chars().take(most).collect();
            bar.set_message(format!("{} {cut}", self.clock()));
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
