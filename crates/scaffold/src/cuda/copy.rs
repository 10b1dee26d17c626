//! The code that is copied: kernels and what they need, on the call's stream, without `main` and without bindings.

use super::{Side, bindings, launches, matching, qualifiers, side};
use crate::syntax::{Parsed, children, field, text};
use crate::tokens::{TokenKind, tokens};
use kernelseek_core::diagnostic::Diagnostic;
use std::ops::Range;
use tree_sitter::Node;

/// The variable that launches without a stream of their own are put on.
pub(crate) const STREAM: &str = "kernelseek_stream";

/// A copy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The code.
    pub(crate) text: String,
    /// What is different, and why.
    pub(crate) remarks: Vec<String>,
    /// Whether [`STREAM`] is used.
    pub(crate) stream: bool,
}

/// Copies a file. `launching` says that its own functions launch, so that their launches must follow the call's stream.
///
/// # Errors
/// When what stays cannot be compiled without the bindings' headers.
pub(crate) fn copied(copy: &str, file: &str, launching: bool) -> Result<Copied, Box<Diagnostic>> {
    let parsed = super::parsed(file, copy)?;
    let blank = super::blanked(copy);
    let mut out = Copied::default();
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    remove(parsed.root(), &parsed, &blank, &mut edits, &mut out.remarks);
    let removed: Vec<Range<usize>> = edits.iter().map(|(s, _)| s.clone()).collect();
    if launching {
        let kept = |at: usize| !removed.iter().any(|r| r.contains(&at));
        on_stream(&parsed, &kept, &mut edits, &mut out);
    }
    edits.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
    let mut at = 0;
    for (span, with) in edits {
        if span.start < at {
            continue;
        }
        out.text.push_str(copy.get(at..span.start).unwrap_or_default());
        out.text.push_str(&with);
        at = span.end;
    }
    out.text.push_str(copy.get(at..).unwrap_or_default());
    if let Some((at, word)) = bindings(&out.text) {
        let line: String =
            out.text[at..].lines().next().unwrap_or_default().trim().chars().take(40).collect();
        let place = copy.find(&line).unwrap_or(0);
        return Err(Box::new(
            parsed
                .error(
                    place..place + word.len(),
                    format!("the kernel itself needs `{word}`, whose headers are not here"),
                )
                .with_hint(
                    "write the kernel with CUDA's own types (`__half`, `__nv_bfloat16`) in a file of its own",
                ),
        ));
    }
    Ok(out)
}

/// Top-level things that go: `main`, host functions of bindings, their includes and macros.
fn remove(
    node: Node<'_>,
    parsed: &Parsed,
    blank: &str,
    edits: &mut Vec<(Range<usize>, String)>,
    remarks: &mut Vec<String>,
) {
    let source = parsed.text();
    for child in children(node) {
        let kind = child.kind();
        if kind == "preproc_include" {
            let name = field(child, "path").map_or("", |p| text(p, source)).trim_matches(['<', '>', '"']);
            let own =
                ["torch/", "ATen/", "c10/", "pybind11/", "nanobind/"].iter().any(|p| name.starts_with(p));
            if own || name == "Python.h" {
                remarks.push(format!(
                    "line {}: {name} is left out: bindings are not built here",
                    parsed.line(child.start_byte())
                ));
                edits.push((child.byte_range(), "\n".to_owned()));
            }
            continue;
        }
        let block = matches!(kind, "namespace_definition" | "declaration_list")
            || kind == "linkage_specification"
                && field(child, "body").is_some_and(|b| b.kind() == "declaration_list");
        if block || kind.starts_with("preproc_if") {
            for inner in children(child).into_iter().filter(|c| c.kind() == "declaration_list") {
                remove(inner, parsed, blank, edits, remarks);
            }
            if !block {
                remove(child, parsed, blank, edits, remarks);
            }
            continue;
        }
        let function = match kind {
            "function_definition" => Some(child),
            "template_declaration" | "linkage_specification" => {
                children(child).into_iter().find(|c| c.kind() == "function_definition")
            }
            _ => None,
        };
        let declarator = function.and_then(|f| field(f, "declarator"));
        let name = declarator.map(|d| crate::types::peel(d, source).0).unwrap_or_default();
        if let (Some(function), Some(declarator)) = (function, declarator) {
            let (_, words) = qualifiers(source, blank, function.start_byte(), declarator.start_byte());
            if side(&words) != Side::Host {
                continue;
            }
        }
        let binds = bindings(text(child, source)).is_some();
        if name == "main" || binds {
            let at = child.start_byte();
            let (begin, _) = qualifiers(source, blank, at, at);
            let what = if name.is_empty() { first_words(text(child, source)) } else { name.clone() };
            let why = if name == "main" { "" } else { ": bindings are not built here" };
            remarks.push(format!("line {}: `{what}` is left out of the copies{why}", parsed.line(at)));
            edits.push((begin..child.end_byte(), String::new()));
        }
    }
}

fn first_words(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    line.chars().take(40).collect::<String>().trim_end_matches(['{', ' ', ';']).to_owned()
}

/// Launches, copies and waits as one call on one stream.
fn on_stream(
    parsed: &Parsed,
    kept: &dyn Fn(usize) -> bool,
    edits: &mut Vec<(Range<usize>, String)>,
    out: &mut Copied,
) {
    let source = parsed.text();
    for launch in launches(source).into_iter().filter(|l| kept(l.whole.start)) {
        let free = launch
            .config
            .get(3)
            .is_none_or(|s| matches!(s.as_str(), "0" | "nullptr" | "NULL" | "cudaStreamDefault"));
        if launch.config.len() < 2 || !free {
            continue;
        }
        let bytes = launch.config.get(2).map_or("0", String::as_str);
        edits.push((
            launch.brackets.clone(),
            format!("<<<{}, {}, {bytes}, {STREAM}>>>", launch.config[0], launch.config[1]),
        ));
        out.stream = true;
        out.remarks.push(format!(
            "line {}: the launch of `{}` goes to the call's stream in the copies",
            parsed.line(launch.whole.start),
            launch.kernel
        ));
    }
    let all: Vec<_> = tokens(source)
        .into_iter()
        .filter(|t| t.kind != TokenKind::Comment && !source[t.span.clone()].trim().is_empty())
        .collect();
    for (index, token) in
        all.iter().enumerate().filter(|(_, t)| t.kind == TokenKind::Word && kept(t.span.start))
    {
        let word = &source[token.span.clone()];
        let Some(close) = all
            .get(index + 1)
            .filter(|t| &source[t.span.clone()] == "(")
            .and_then(|_| matching(source, &all, index + 1))
        else {
            continue;
        };
        let line = parsed.line(token.span.start);
        let inside = &source[all[index + 1].span.end..all[close].span.start];
        let arguments = super::split(inside).len();
        match (word, arguments) {
            ("cudaDeviceSynchronize" | "cudaStreamSynchronize" | "cudaThreadSynchronize", _) => {
                edits.push((token.span.start..all[close].span.end, "cudaGetLastError()".to_owned()));
                out.remarks.push(format!(
                    "line {line}: `{word}` is left out of the copies: a call enqueues and does not wait"
                ));
            }
            ("cudaMemset" | "cudaMemsetAsync", 3) | ("cudaMemcpy" | "cudaMemcpyAsync", 4) => {
                let name = word.strip_suffix("Async").unwrap_or(word);
                let call = format!("{name}Async({inside}, {STREAM})");
                edits.push((token.span.start..all[close].span.end, call));
                out.stream = true;
                out.remarks.push(format!("line {line}: `{word}` goes to the call's stream in the copies"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_go_and_launches_follow_the_stream() {
        let text = "__global__ void k(float *x) {}\nvoid f(float *x) {\n    k<<<1, 2>>>(x);\n    cudaMemset(x, 0, 4);\n    \
                    CHECK(cudaDeviceSynchronize());\n}\nint main() { k<<<1, 1>>>(0); }\n";
        let got = copied(text, "k.cu", true).unwrap();
        assert!(got.stream);
        for part in [
            "k<<<1, 2, 0, kernelseek_stream>>>(x);",
            "cudaMemsetAsync(x, 0, 4, kernelseek_stream);",
            "CHECK(cudaGetLastError());",
        ] {
            assert!(got.text.contains(part), "{}", got.text);
        }
        assert!(!got.text.contains("main") && got.text.starts_with("__global__ void k"));
        assert_eq!(got.remarks.len(), 4, "{:?}", got.remarks);
        let plain = copied("__global__ void k(float *x) {}\n", "k.cu", true).unwrap();
        assert!(!plain.stream && plain.remarks.is_empty());
    }

    #[test]
    fn bindings_go_and_kernels_stay() {
        let text = "#include <torch/extension.h>\n#include <cmath>\n__global__ void k(float *x) { x[0] = 1; }\n\
                    torch::Tensor f(torch::Tensor x) { k<<<1, 1>>>(x.data_ptr<float>()); return x; }\n\
                    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def(\"f\", &f); }\n";
        let got = copied(text, "k.cu", false).unwrap();
        assert_eq!(
            got.text.trim(),
            "#include <cmath>\n__global__ void k(float *x) { x[0] = 1; }",
            "{:?}",
            got.remarks
        );
        assert_eq!(got.remarks.len(), 3, "{:?}", got.remarks);
        let error = copied("__global__ void k(at::Half *x) {}\n", "k.cu", false).unwrap_err();
        assert!(error.message.contains("needs `at`"), "{error}");
    }
}
