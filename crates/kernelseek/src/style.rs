//! Colours by meaning, and whether to use them at all.

/// Whether escape codes may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) colour: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
    pub(crate) fn good(self, text: &str) -> String {
        self.paint("32", text)
    }
    pub(crate) fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }
    pub(crate) fn doubtful(self, text: &str) -> String {
        self.paint("33", text)
    }
    pub(crate) fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }
    pub(crate) fn note(self, text: &str) -> String {
        self.paint("35", text)
    }
    pub(crate) fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }
}
