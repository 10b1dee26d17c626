//! The only place that writes to standard output and standard error.

use crate::cli::{Color, Global};
use crate::error::CommandError;
use crate::style::Style;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Hands out the two streams.
#[derive(Debug)]
pub(crate) struct Printer {
    /// Style of standard output.
    pub(crate) out: Style,
    /// Style of standard error.
    pub(crate) err: Style,
    /// Whether data goes out as JSON.
    pub(crate) json: bool,
    quiet: bool,
    progress: bool,
    width: usize,
}

impl Printer {
    pub(crate) fn new(global: &Global) -> Self {
        let no_color = std::env::var_os(crate::env_vars::NO_COLOR).is_some_and(|v| !v.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
        let colour = |terminal: bool| match global.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => terminal && !no_color && !dumb,
        };
        let (out, err) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self {
            out: Style { colour: colour(out) },
            err: Style { colour: colour(err) },
            json: global.json,
            quiet: global.quiet,
            progress: err && !dumb && !global.quiet,
            width: if out { terminal_width() } else { 100 },
        }
    }

    /// Columns that a table may take.
    pub(crate) const fn width(&self) -> usize {
        self.width
    }
    /// A line on standard error that is redrawn, where one may be.
    pub(crate) fn spinner(&self) -> Option<ProgressBar> {
        self.progress.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
                bar.set_style(style);
            }
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        })
    }
    /// Whether nothing but data and errors is wanted.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Writes data to standard output. A reader that went away ends the program quietly.
    pub(crate) fn data(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes data that need not be text.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(bytes).and_then(|()| out.flush());
    }

    /// Writes data as one line of JSON.
    pub(crate) fn json_line<T: Serialize>(&self, value: &T) -> Result<(), CommandError> {
        let mut text = serde_json::to_string(value)?;
        text.push('\n');
        self.data(&text);
        Ok(())
    }

    /// Writes data as one JSON document.
    pub(crate) fn json<T: Serialize>(&self, value: &T) -> Result<(), CommandError> {
        let mut text = serde_json::to_string_pretty(value)?;
        text.push('\n');
        self.data(&text);
        Ok(())
    }

    /// Writes one line of talk to standard error.
    pub(crate) fn talk(&self, line: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{line}");
        }
    }

    /// Writes an error to standard error.
    pub(crate) fn error(&self, error: &CommandError) {
        let mut text = String::new();
        if error.diagnostics.is_empty() {
            text.push_str(&format!("{} {}\n", self.err.bad("error:"), error.message));
        } else {
            for diagnostic in &error.diagnostics {
                text.push_str(&crate::table::diagnostic(diagnostic, self.err));
            }
        }
        if let Some(hint) = &error.hint {
            // Further lines stand below the first.
            let hint = hint.replace('\n', "\n      ");
            text.push_str(&format!("{} {hint}\n", self.err.strong("hint:")));
        }
        let _ = std::io::stderr().lock().write_all(text.as_bytes());
    }
}

fn terminal_width() -> usize {
    // Some terminals do not know their size and say 0.
    rustix::termios::tcgetwinsize(std::io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col))
        .filter(|columns| *columns > 0)
        .map_or(80, |columns| columns.clamp(40, 160))
}
