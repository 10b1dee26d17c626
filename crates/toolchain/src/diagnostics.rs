//! The compiler's messages, cut to size, and the one a person should see first.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Text of diagnostics is kept up to this many bytes.
pub const TEXT_LIMIT: usize = 64 * 1024;

/// One message with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// File as the compiler names it: relative to the workspace for the candidate's own.
    pub file: String,
    /// 1-based line.
    pub line: u32,
    /// 1-based column; 0 if the compiler gave none.
    pub column: u32,
    /// The message without its place and kind.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            0 => write!(f, "{}:{}: {}", self.file, self.line, self.message),
            column => write!(f, "{}:{}:{column}: {}", self.file, self.line, self.message),
        }
    }
}

/// The first error in the candidate's own files, else the first error with a place at all.
#[must_use]
pub fn first_error(text: &str) -> Option<Diagnostic> {
    let errors: Vec<Diagnostic> = text.lines().filter_map(parse_error).collect();
    // The compiler is started in the workspace with relative names: an absolute one is somebody else's header.
    errors.iter().find(|d| !d.file.starts_with('/')).or(errors.first()).cloned()
}

/// `file:line[:column]: [fatal ]error: message`, or `file(line): error: message` as nvcc writes it.
fn parse_error(line: &str) -> Option<Diagnostic> {
    if let Some(found) = parse_nvcc_error(line) {
        return Some(found);
    }
    let (place, message) = [": fatal error: ", ": error: "].iter().find_map(|kind| line.split_once(kind))?;
    let (rest, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    let (file, line, column) = match rest.rsplit_once(':').map(|(file, number)| (file, number.parse::<u32>()))
    {
        Some((file, Ok(line))) => (file, line, last),
        _ => (rest, last, 0),
    };
    Some(Diagnostic { file: file.to_owned(), line, column, message: message.trim().to_owned() })
}

/// `file(line): [catastrophic ]error[ #NUMBER[-D]]: message`.
fn parse_nvcc_error(line: &str) -> Option<Diagnostic> {
    let (place, rest) = line.split_once("): ")?;
    let rest = rest.strip_prefix("catastrophic ").unwrap_or(rest);
    let (number, message) = rest.strip_prefix("error")?.split_once(": ")?;
    let numbered = number.strip_prefix(" #").is_some_and(|n| n.trim_end_matches("-D").parse::<u32>().is_ok());
    if !number.is_empty() && !numbered {
        return None;
    }
    let (file, line) = place.rsplit_once('(')?;
    let line = line.parse().ok()?;
    Some(Diagnostic { file: file.to_owned(), line, column: 0, message: message.trim().to_owned() })
}

/// Bytes as text of at most [`TEXT_LIMIT`] bytes, with a last line that says what is missing.
#[must_use]
pub fn bounded(bytes: &[u8]) -> String {
    if bytes.len() <= TEXT_LIMIT {
        let text = String::from_utf8_lossy(bytes);
        if text.len() <= TEXT_LIMIT {
            return text.into_owned();
        }
    }
    let room = TEXT_LIMIT - 64;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(room)]).into_owned();
    // Replacement characters are longer than the bytes they replace.
    while text.len() > room {
        text.pop();
    }
    text.push_str(&format!("\n[{} bytes in all; the rest is not shown]\n", bytes.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn errors_are_found() {
        let text = "In file included from op.c:1:\n/usr/include/x.h:3:1: error: in a header\n\
                    op.c:12:5: warning: unused\nop.c:14:9: error: 'y' undeclared\nop.c:20: error: later\n";
        assert_eq!(first_error(text).unwrap().to_string(), "op.c:14:9: 'y' undeclared");
        let only = first_error("/usr/include/x.h:3:1: error: in a header").unwrap();
        assert_eq!((only.line, only.column), (3, 1));
        assert_eq!(
            first_error("a.c:1:10: fatal error: z.h: No such file").unwrap().message,
            "z.h: No such file"
        );
        assert_eq!(first_error("a:b.c:7: error: m").unwrap().to_string(), "a:b.c:7: m");
        assert_eq!(first_error("/usr/bin/ld: cannot find -lx"), None);
        assert_eq!(first_error("collect2: error: ld returned 1 exit status"), None);
    }

    #[test]
    fn errors_of_nvcc() {
        for (line, shown) in [
            (
                "bad.cu(9): error: identifier \"NOPE\" is undefined",
                "bad.cu:9: identifier \"NOPE\" is undefined",
            ),
            (
                "k (1).cu(9): error #20: identifier \"x\" is undefined",
                "k (1).cu:9: identifier \"x\" is undefined",
            ),
            (
                "k.cu(1): catastrophic error: cannot open source file \"x.h\"",
                "k.cu:1: cannot open source file \"x.h\"",
            ),
            ("bad2.cu:1:10: fatal error: nope.h: No such file", "bad2.cu:1:10: nope.h: No such file"),
        ] {
            assert_eq!(first_error(line).unwrap().to_string(), shown);
        }
        for line in [
            "k.cu(9): warning #177-D: x",
            "k.cu(x): error: y",
            "ptxas fatal   : Ptx assembly aborted",
            "k.cu(1): errors: x",
        ] {
            assert_eq!(first_error(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn text_is_bounded(byte in any::<u8>(), n in 0usize..200_000) {
            prop_assert!(bounded(&vec![byte; n]).len() <= TEXT_LIMIT);
        }
        #[test]
        fn any_text(text in "[a:0-9 \n]{0,40}(: error: )?[:0-9]{0,9}") {
            let _ = first_error(&text);
        }
    }
}
