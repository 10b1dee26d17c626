//! An expression of the bank, parsed when it is first needed.

use kernelseek_core::expression::{Expression, SyntaxError};
use std::ops::Range;
use std::sync::OnceLock;

/// An expression with its place in the file.
///
/// It is parsed on first use and then kept: a bank is loaded at every stop, and most of its expressions belong to
/// other decision points than the one at hand.
#[derive(Debug, Clone)]
pub struct Formula {
    text: String,
    span: Range<usize>,
    parsed: OnceLock<Result<Expression, SyntaxError>>,
}

impl Formula {
    /// The expression `text`, which stands at the byte range `span` of its file.
    #[must_use]
    pub fn new(text: impl Into<String>, span: Range<usize>) -> Self {
        Self { text: text.into(), span, parsed: OnceLock::new() }
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The expression.
    ///
    /// # Errors
    /// If the text is none.
    pub fn expression(&self) -> Result<&Expression, &SyntaxError> {
        self.parsed.get_or_init(|| Expression::alone(&self.text)).as_ref()
    }

    /// Its range in the file.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The range in the file of a range of the text: the whole of it if escapes make the two differ.
    pub(crate) fn place(&self, at: &Range<usize>) -> Range<usize> {
        if self.span.len() == self.text.len() {
            self.span.start + at.start..self.span.start + at.end
        } else {
            self.span()
        }
    }
}
