//! CUDA in the eyes of a grammar that knows C++: qualifiers and launches are blanked out, character by character, so that
//! every place still is a place of the file. What a launch says is kept beside it.

pub(crate) mod copy;
pub(crate) mod entry;
mod launch;
pub(crate) mod lower;
pub(crate) mod scaffold;

pub(crate) use launch::{Launch, launches, matching, split};

use crate::syntax::Parsed;
use crate::tokens::{Token, TokenKind, tokens};
use kernelseek_core::diagnostic::Diagnostic;

/// Words that only nvcc knows, and that change nothing about which elements are touched.
const QUALIFIERS: &[&str] = &[
    "__global__",
    "__device__",
    "__host__",
    "__forceinline__",
    "__noinline__",
    "__shared__",
    "__constant__",
    "__managed__",
    "__grid_constant__",
];

/// The text with everything that is not C++ replaced by as many spaces.
#[must_use]
pub(crate) fn blanked(text: &str) -> String {
    let all = tokens(text);
    let mut out = text.as_bytes().to_vec();
    let mut wipe = |range: std::ops::Range<usize>| {
        for byte in &mut out[range] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    for (index, token) in all.iter().enumerate() {
        if token.kind != TokenKind::Word {
            continue;
        }
        let word = &text[token.span.clone()];
        if QUALIFIERS.contains(&word) {
            wipe(token.span.clone());
        } else if word == "__launch_bounds__" {
            let end = next(&all, text, index)
                .filter(|open| &text[all[*open].span.clone()] == "(")
                .and_then(|open| matching(text, &all, open))
                .map_or(token.span.end, |close| all[close].span.end);
            wipe(token.span.start..end);
        }
    }
    for launch in launches(text) {
        wipe(launch.brackets);
    }
    // Only whole characters were replaced, by ASCII.
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

/// Index of the next token that is neither white space nor a comment.
fn next(all: &[Token], text: &str, index: usize) -> Option<usize> {
    (index + 1..all.len())
        .find(|i| all[*i].kind != TokenKind::Comment && !text[all[*i].span.clone()].trim().is_empty())
}

/// A CUDA file with its syntax tree; places are those of `text`.
///
/// # Errors
/// When the file is too long.
pub(crate) fn parsed(name: &str, text: &str) -> Result<Parsed, Box<Diagnostic>> {
    if text.len() > crate::syntax::LONGEST {
        return Parsed::new(name, text);
    }
    Parsed::shown_as(name, text, &blanked(text))
}

/// Where a definition begins with its qualifiers, and those qualifiers.
pub(crate) fn qualifiers(text: &str, blanked: &str, start: usize, name: usize) -> (usize, String) {
    let before = blanked.get(..start).map_or(0, |b| b.trim_end().len());
    let rest = text.get(before..name).unwrap_or_default();
    let begin = before + (rest.len() - rest.trim_start().len());
    (begin.min(start), text.get(before..name).unwrap_or_default().to_owned())
}

/// What a function definition is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// `__global__`.
    Kernel,
    /// `__device__` and nothing else.
    Device,
    /// Called by the host.
    Host,
}

/// The side of a definition, from its qualifiers.
pub(crate) fn side(qualifiers: &str) -> Side {
    if qualifiers.contains("__global__") {
        Side::Kernel
    } else if qualifiers.contains("__device__") && !qualifiers.contains("__host__") {
        Side::Device
    } else {
        Side::Host
    }
}

/// The first word that belongs to bindings for Python, outside comments and strings, if there is one.
#[must_use]
pub(crate) fn bindings(text: &str) -> Option<(usize, String)> {
    let all = tokens(text);
    for (index, token) in all.iter().enumerate() {
        if token.kind != TokenKind::Word {
            continue;
        }
        let word = &text[token.span.clone()];
        let scoped = text[token.span.end..].trim_start().starts_with("::");
        let own = ["TORCH_", "AT_DISPATCH", "AT_CUDA", "C10_", "PYBIND11", "NB_MODULE"]
            .iter()
            .any(|p| word.starts_with(p))
            || matches!(word, "PyObject" | "pybind11" | "nanobind")
            || scoped && matches!(word, "torch" | "at" | "c10" | "py" | "nb");
        if own {
            return Some((all[index].span.start, word.to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_cpp_becomes_blanks_of_the_same_length() {
        let text = "template <class T> __global__ void __launch_bounds__(256, 2) k(T *x) { __shared__ T s[4]; }\n\
                    void f(float *x) { k<float><<<dim3(1, 2),\n 256>>>(x); } // __global__ \u{e4}";
        let plain = blanked(text);
        assert_eq!(plain.len(), text.len());
        assert_eq!(plain.find("(T *x)"), text.find("(T *x)"));
        assert!(
            !plain.contains("launch_bounds")
                && !plain.contains("<<<")
                && plain.contains("// __global__ \u{e4}")
        );
        assert!(!Parsed::new("k.cc", &plain).unwrap().root().has_error(), "{plain}");
    }

    #[test]
    fn bindings_are_words_of_code() {
        for (text, found) in [
            ("torch::Tensor f();", Some("torch")),
            ("int at = 3; x.at(2); // torch::Tensor", None),
            ("at::Half x;", Some("at")),
            ("\"py::x\"", None),
            ("PYBIND11_MODULE(a, m) {}", Some("PYBIND11_MODULE")),
        ] {
            assert_eq!(bindings(text).map(|(_, w)| w).as_deref(), found, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_text_keeps_its_length(text in "(__global__|__launch_bounds__|<<<|>>>|[(){},<>a-z ä\n\"/]){0,60}") {
            prop_assert_eq!(blanked(&text).len(), text.len());
        }
    }
}
