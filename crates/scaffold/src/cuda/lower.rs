//! A kernel as the loops that its grid stands for. Only read, never compiled: it shows the walk which elements are touched.
//!
//! `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) …` becomes `for (int i = 0; i < n; i++) …`, a loop from
//! `threadIdx.x` in steps of the block becomes one over everything, what one thread does is done once.

use super::{matching, split};
use crate::syntax::{Parsed, children, each, field, text};
use crate::tokens::{Token, TokenKind, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use tree_sitter::Node;

/// Parameters that the loops' ends are passed in.
pub(crate) const EXTENTS: [&str; 6] =
    ["ks_grid_x", "ks_grid_y", "ks_grid_z", "ks_block_x", "ks_block_y", "ks_block_z"];
/// Threads of a block, at most.
const THREADS: i64 = 1024;

/// The kernel with this parameter list and body, as a function called `name`.
#[must_use]
pub(crate) fn lowered(name: &str, parameters: &str, body: &str) -> String {
    let extents = EXTENTS.map(|e| format!("int {e}")).join(", ");
    let comma = if parameters.trim().is_empty() { "" } else { ", " };
    let head = format!("void {name}({parameters}{comma}{extents}) ");
    let flat = format!("{head}{}", flat(body));
    let mut bounds = BTreeMap::new();
    let once = edited(&flat, &mut bounds, loops_and_guards).unwrap_or(flat);
    // The guards are gone: what they said of the indices is kept.
    let twice = edited(&once, &mut bounds, indices).unwrap_or(once);
    wrapped(&twice, head.len())
}

/// Places with what stands there instead.
type Edits = Vec<(Range<usize>, String)>;

/// Applies what `find` wants changed, if the text can be parsed.
fn edited(
    source: &str,
    bounds: &mut BTreeMap<String, String>,
    find: fn(&Kernel<'_>) -> Edits,
) -> Option<String> {
    let parsed = Parsed::new("", source).ok()?;
    let kernel = Kernel::new(&parsed, bounds)?;
    bounds.clone_from(&kernel.bounds);
    let mut edits = find(&kernel);
    edits.sort_by_key(|(span, _)| (span.start, span.end));
    let mut out = String::new();
    let mut at = 0;
    for (span, with) in edits {
        if span.start < at {
            continue;
        }
        out.push_str(source.get(at..span.start)?);
        out.push_str(&with);
        at = span.end;
    }
    out.push_str(source.get(at..)?);
    Some(out)
}

/// Built-in variables as plain names, atomics as updates, cached loads as loads.
pub(crate) fn flat(source: &str) -> String {
    let all = tokens(source);
    let word = |i: usize| all.get(i).map_or("", |t| &source[t.span.clone()]);
    let mut out = String::new();
    let mut index = 0;
    while index < all.len() {
        let here = word(index);
        let axis =
            (word(index + 1) == ".").then(|| word(index + 2)).filter(|a| matches!(*a, "x" | "y" | "z"));
        let plain = match here {
            "threadIdx" => Some("threadIdx_"),
            "blockIdx" => Some("blockIdx_"),
            "blockDim" => Some("ks_block_"),
            "gridDim" => Some("ks_grid_"),
            _ => None,
        };
        if let (Some(plain), Some(axis)) = (plain, axis) {
            out.push_str(plain);
            out.push_str(axis);
            index += 3;
            continue;
        }
        let atomic = here.starts_with("atomic") && all[index].kind == TokenKind::Word;
        if (atomic || here == "__ldg")
            && let Some(open) = super::next(&all, source, index).filter(|o| word(*o) == "(")
            && let Some(close) = matching(source, &all, open)
        {
            let arguments = split(&source[all[open].span.end..all[close].span.start]);
            let first = flat(arguments.first().map_or("", String::as_str));
            let place = match first.strip_prefix('&') {
                Some(element) => format!("({element})"),
                None => format!("(*({first}))"),
            };
            if atomic {
                let value = flat(arguments.get(1).map_or("1", String::as_str));
                out.push_str(&format!("({place} += ({value}))"));
            } else {
                out.push_str(&place);
            }
            index = close + 1;
            continue;
        }
        out.push_str(if here == "warpSize" { "32" } else { here });
        index += 1;
    }
    out
}

/// Words of a text.
fn words(source: &str) -> Vec<String> {
    let all = tokens(source);
    all.iter().filter(|t| t.kind == TokenKind::Word).map(|t| source[t.span.clone()].to_owned()).collect()
}

/// A text with some words replaced by 0.
fn zeroed(source: &str, which: &dyn Fn(&str) -> bool) -> String {
    let part = |t: &Token| {
        let word = &source[t.span.clone()];
        if t.kind == TokenKind::Word && which(word) { "0".to_owned() } else { word.to_owned() }
    };
    tokens(source).iter().map(part).collect()
}

/// What a kernel's variables depend on.
struct Kernel<'p> {
    source: &'p str,
    root: Node<'p>,
    parameters: BTreeSet<String>,
    /// Differ from thread to thread of a block only.
    threads: BTreeSet<String>,
    /// Differ from block to block.
    wide: BTreeSet<String>,
    /// Made of the block's or the grid's size; the flag says the grid's.
    strides: BTreeMap<String, bool>,
    /// Ends of wide variables, from the conditions that guard them.
    bounds: BTreeMap<String, String>,
    values: BTreeMap<String, String>,
}

impl<'p> Kernel<'p> {
    fn new(parsed: &'p Parsed, bounds: &BTreeMap<String, String>) -> Option<Self> {
        let (source, root) = (parsed.text(), parsed.root());
        let definition = children(root).into_iter().find(|n| n.kind() == "function_definition")?;
        let list = field(crate::prototype::signature(definition)?, "parameters")?;
        let parameters = children(list)
            .into_iter()
            .filter_map(|p| field(p, "declarator"))
            .map(|d| crate::types::peel(d, source).0)
            .collect();
        let mut kernel = Self {
            source,
            root: definition,
            parameters,
            threads: BTreeSet::new(),
            wide: BTreeSet::new(),
            strides: BTreeMap::new(),
            bounds: bounds.clone(),
            values: BTreeMap::new(),
        };
        for (_, name, value) in kernel.declared() {
            let used = words(&value);
            if used.iter().any(|w| kernel.is_wide(w)) {
                kernel.wide.insert(name.clone());
            } else if used.iter().any(|w| kernel.is_thread(w)) {
                kernel.threads.insert(name.clone());
            } else if used.iter().any(|w| kernel.is_stride(w).is_some()) {
                let grid = used.iter().any(|w| kernel.is_stride(w) == Some(true));
                kernel.strides.insert(name.clone(), grid);
            }
            kernel.values.insert(name, value);
        }
        kernel.find_bounds();
        Some(kernel)
    }

    fn text(&self, node: Node<'_>) -> &'p str {
        text(node, self.source)
    }
    fn is_wide(&self, word: &str) -> bool {
        word.starts_with("blockIdx_") || self.wide.contains(word)
    }
    fn is_thread(&self, word: &str) -> bool {
        word.starts_with("threadIdx_") || self.threads.contains(word)
    }
    fn is_stride(&self, word: &str) -> Option<bool> {
        if word.starts_with("ks_grid_") {
            return Some(true);
        }
        if word.starts_with("ks_block_") { Some(false) } else { self.strides.get(word).copied() }
    }

    /// Integers that are declared with a value, outside the heads of loops: the declaration, name, value.
    fn declared(&self) -> Vec<(Node<'p>, String, String)> {
        let mut found = Vec::new();
        each(self.root, &mut |node| {
            let in_head = node.parent().is_some_and(|p| p.kind() == "for_statement");
            if node.kind() == "declaration" && !in_head {
                let ty = field(node, "type").map_or("", |t| self.text(t));
                let integer = words(ty).iter().all(|w| {
                    w.starts_with("int")
                        || w.starts_with("uint")
                        || matches!(
                            w.as_str(),
                            "unsigned"
                                | "long"
                                | "size_t"
                                | "auto"
                                | "short"
                                | "signed"
                                | "index_t"
                                | "std"
                                | "ptrdiff_t"
                        )
                });
                let declarators = children(node).into_iter().filter(|c| c.kind() == "init_declarator");
                for one in declarators.filter(|_| integer) {
                    if let (Some(name), Some(value)) = (field(one, "declarator"), field(one, "value"))
                        && name.kind() == "identifier"
                    {
                        found.push((node, self.text(name).to_owned(), self.text(value).to_owned()));
                    }
                }
            }
            true
        });
        found
    }

    /// The terms of a condition, and whether they are joined by "or".
    fn terms(&self, node: Node<'p>, out: &mut Vec<Node<'p>>) {
        match node.kind() {
            "condition_clause" | "parenthesized_expression" => {
                for child in children(node) {
                    self.terms(child, out);
                }
            }
            "binary_expression"
                if matches!(field(node, "operator").map(|o| self.text(o)), Some("&&" | "||")) =>
            {
                for side in ["left", "right"] {
                    if let Some(child) = field(node, side) {
                        self.terms(child, out);
                    }
                }
            }
            _ => out.push(node),
        }
    }

    /// `v < end`: the variable and its end, if the term compares an index with something that no index is in.
    fn guard(&self, term: Node<'p>) -> Option<(String, String)> {
        if term.kind() != "binary_expression" {
            return None;
        }
        let (left, right) = (self.text(field(term, "left")?), self.text(field(term, "right")?));
        let operator = self.text(field(term, "operator")?);
        let bare = |side: &str| {
            let mut all = words(side);
            let only = all.len() == 1 && zeroed(side, &|_| true).trim_matches(['(', ')', ' ']) == "0";
            all.pop().filter(|w| only && (self.is_wide(w) || self.is_thread(w)))
        };
        let (index, end, inclusive) = match (bare(left), bare(right), operator) {
            (Some(v), None, "<" | ">=") => (v, right, false),
            (Some(v), None, "<=" | ">") => (v, right, true),
            (None, Some(v), ">" | "<=") => (v, left, false),
            (None, Some(v), ">=" | "<") => (v, left, true),
            _ => return None,
        };
        let used = words(end);
        if used.iter().any(|w| self.is_wide(w) || self.is_thread(w)) {
            return None;
        }
        // `tid < 32` and `tid < s` are steps of a reduction, `tid < n` is an end.
        if self.is_thread(&index)
            && (used.is_empty() || !used.iter().all(|w| self.parameters.contains(w) && !w.starts_with("ks_")))
        {
            return None;
        }
        // An end that is declared between the index and its guard stands for its value.
        let end = match self.values.get(end.trim()) {
            Some(value) => value.clone(),
            None => end.to_owned(),
        };
        Some((index, if inclusive { format!("({end}) + 1") } else { end }))
    }

    /// `tid == 0`: what one thread does for all.
    fn one_thread(&self, term: Node<'p>) -> bool {
        let plain: String = self.text(term).split_whitespace().collect();
        let plain = plain.trim_start_matches('(').trim_end_matches(')');
        let zero = plain
            .strip_suffix("==0")
            .or_else(|| plain.strip_prefix("0=="))
            .or_else(|| plain.strip_prefix('!'));
        zero.is_some_and(|v| self.is_thread(v))
    }

    fn settled(&self, term: Node<'p>) -> bool {
        self.guard(term).is_some() || self.one_thread(term)
    }

    fn conditions(&self) -> Vec<(Node<'p>, Vec<Node<'p>>)> {
        let mut found = Vec::new();
        each(self.root, &mut |node| {
            if matches!(node.kind(), "if_statement" | "while_statement" | "for_statement")
                && let Some(condition) = field(node, "condition")
                && (node.kind() != "for_statement"
                    || field(node, "initializer").is_none_or(|i| self.text(i).trim() == ";"))
            {
                let mut terms = Vec::new();
                self.terms(condition, &mut terms);
                found.push((node, terms));
            }
            true
        });
        found
    }

    fn find_bounds(&mut self) {
        let mut found = Vec::new();
        for (_, terms) in self.conditions() {
            found.extend(terms.into_iter().filter_map(|t| self.guard(t)));
        }
        for (index, end) in found {
            self.bounds.entry(index).or_insert(end);
        }
    }
}

/// Guards fall away; cooperative loops run over everything.
fn loops_and_guards(kernel: &Kernel<'_>) -> Edits {
    let mut edits: Edits = Vec::new();
    let mut stepped: BTreeSet<String> = BTreeSet::new();
    for (node, terms) in kernel.conditions() {
        let settled: Vec<Node<'_>> = terms.iter().copied().filter(|t| kernel.settled(*t)).collect();
        if settled.is_empty() {
            continue;
        }
        let all = settled.len() == terms.len();
        let body = field(node, if node.kind() == "if_statement" { "consequence" } else { "body" });
        match (node.kind(), body, all) {
            ("if_statement", Some(body), true) => {
                let leaves = kernel.text(body).trim_matches(['{', '}', ' ', '\n', '\t']);
                if leaves.split_whitespace().collect::<String>() == "return;" {
                    edits.push((node.byte_range(), ";".to_owned()));
                } else if field(node, "alternative").is_none() {
                    edits.push((node.start_byte()..body.start_byte(), String::new()));
                }
            }
            ("while_statement" | "for_statement", Some(body), true) => {
                edits.push((node.start_byte()..body.start_byte(), String::new()));
                stepped.extend(settled.iter().filter_map(|t| kernel.guard(*t)).map(|(v, _)| v));
            }
            (_, _, false) => {
                let or = field(node, "condition").is_some_and(|c| kernel.text(c).contains("||"));
                for term in settled {
                    edits.push((term.byte_range(), if or { "0" } else { "1" }.to_owned()));
                }
            }
            _ => {}
        }
    }
    each(kernel.root, &mut |node| {
        if node.kind() == "assignment_expression"
            && field(node, "left").is_some_and(|l| stepped.contains(kernel.text(l)))
        {
            edits.push((node.byte_range(), "0".to_owned()));
        }
        if node.kind() == "for_statement" {
            edits.extend(cooperative(kernel, node).unwrap_or_default());
        }
        true
    });
    edits
}

/// `for (int c = tid; c < cols; c += blockDim.x)`.
fn cooperative(kernel: &Kernel<'_>, node: Node<'_>) -> Option<Edits> {
    let declarator =
        children(field(node, "initializer")?).into_iter().find(|c| c.kind() == "init_declarator")?;
    let (name, value) = (field(declarator, "declarator")?, field(declarator, "value")?);
    let update = field(node, "update")?;
    let begin = text(value, kernel.source);
    let moves = words(text(update, kernel.source));
    let by_threads = words(begin).iter().any(|w| kernel.is_thread(w));
    let by_grid = moves.iter().any(|w| kernel.is_stride(w) == Some(true));
    let by_wide =
        words(begin).iter().any(|w| kernel.is_wide(w)) && moves.iter().any(|w| kernel.is_stride(w).is_some());
    if !by_threads && !by_wide {
        return None;
    }
    let from = zeroed(begin, &|w| kernel.is_thread(w) || ((by_grid || by_wide) && kernel.is_wide(w)));
    // `tid * 4` in steps of four times the block: four elements at a time.
    let step = begin.rsplit_once('*').map_or("", |(_, k)| k.trim());
    let step = if !step.is_empty() && step.bytes().all(|b| b.is_ascii_digit()) { step } else { "1" };
    let name = text(name, kernel.source);
    Some(vec![
        (value.byte_range(), from),
        (update.byte_range(), if step == "1" { format!("{name}++") } else { format!("{name} += {step}") }),
    ])
}

/// Indices become loops, where what they run over is known.
fn indices(kernel: &Kernel<'_>) -> Edits {
    let mut edits = Vec::new();
    let mut done: BTreeSet<usize> = BTreeSet::new();
    for (node, ..) in kernel.declared() {
        if !done.insert(node.id()) {
            continue;
        }
        let here: Vec<(String, String)> = kernel
            .declared()
            .into_iter()
            .filter(|(n, ..)| n.id() == node.id())
            .map(|(_, n, v)| (n, v))
            .collect();
        if !here.iter().any(|(name, _)| kernel.is_wide(name) || kernel.is_thread(name)) {
            continue;
        }
        let Some(block) = node.parent().filter(|p| p.kind() == "compound_statement") else { continue };
        let (mut with, mut closing) = (String::new(), String::new());
        for (name, value) in here {
            let elsewhere = words(kernel.source).iter().filter(|w| **w == name).count() > 1;
            let plain: String = value.split_whitespace().collect();
            let end = kernel.bounds.get(&name).cloned().or_else(|| {
                let axis = |prefix: &str| plain.strip_prefix(prefix).filter(|a| a.len() == 1);
                axis("blockIdx_")
                    .map(|a| kernel.bounds.get(&plain).cloned().unwrap_or_else(|| format!("ks_grid_{a}")))
                    .or_else(|| axis("threadIdx_").map(|a| format!("ks_block_{a}")))
            });
            match end {
                Some(end) if elsewhere && (kernel.is_wide(&name) || kernel.is_thread(&name)) => {
                    with.push_str(&format!("for (int {name} = 0; {name} < ({end}); {name}++) {{ "));
                    closing.push_str(" }");
                }
                _ if elsewhere => with.push_str(&format!("int {name} = {value}; ")),
                _ => {}
            }
        }
        edits.push((node.byte_range(), with));
        if !closing.is_empty() {
            let end = block.end_byte() - 1;
            // Insertions at one place are one edit: later ones would count as overlapping.
            match edits.iter_mut().find(|(span, _): &&mut (Range<usize>, String)| *span == (end..end)) {
                Some((_, known)) => known.push_str(&closing),
                None => edits.push((end..end, closing)),
            }
        }
    }
    edits
}

/// Loops around the body for the indices that are still used by themselves.
fn wrapped(source: &str, body: usize) -> String {
    let (head, rest) = source.split_at(body.min(source.len()));
    let used = words(rest);
    let mut loops = String::new();
    for (index, end) in [("blockIdx_", "ks_grid_"), ("threadIdx_", "ks_block_")] {
        for axis in ["z", "y", "x"] {
            let name = format!("{index}{axis}");
            if used.contains(&name) {
                loops.push_str(&format!("for (int {name} = 0; {name} < {end}{axis}; {name}++) "));
            }
        }
    }
    // What the machine allows at most, in a form that the walk understands.
    let limits = format!("char ks_threads[{THREADS}]; ks_threads[ks_block_x - 1] = 0;");
    format!("{head}{{ {limits} {loops}{rest} }}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn body(parameters: &str, source: &str) -> String {
        let all = lowered("k", parameters, source);
        let rest = all.split_once("= 0;").map_or("", |(_, rest)| rest);
        rest.split_whitespace().collect()
    }

    #[test]
    fn grids_become_loops() {
        for (parameters, source, expected) in [
            (
                "float *y, int n",
                "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; y[i] = 1; }",
                "{ for (int i = 0; i < (n); i++) { ; y[i] = 1; } } }",
            ),
            (
                "float *y, int n",
                "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) { y[i] = 1; } }",
                "{ for (int i = 0; i < (n); i++) { { y[i] = 1; } } } }",
            ),
            (
                "float *y, int n",
                "{ for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = 1; }",
                "{ for (int i = 0 * ks_block_x + 0; i < n; i++) y[i] = 1; } }",
            ),
            (
                "float *y, int cols",
                "{ int row = blockIdx.x, tid = threadIdx.x; for (int c = tid; c < cols; c += blockDim.x) y[row * cols + c] = 1; if (tid == 0) y[row] = 2; }",
                "{ for (int row = 0; row < (ks_grid_x); row++) { for (int c = 0; c < cols; c++) y[row * cols + c] = 1; y[row] = 2; } } }",
            ),
            (
                "int *h, const int *x, int n",
                "{ int i = blockIdx.x * 256 + threadIdx.x; while (i < n) { atomicAdd(&h[__ldg(x + i)], 1); i += 256 * gridDim.x; } }",
                "{ for (int i = 0; i < (n); i++) { { ((h[(*(x + i))]) += (1)); 0; } } } }",
            ),
            (
                "float *y, int n",
                "{ y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }",
                "for (int blockIdx_x = 0; blockIdx_x < ks_grid_x; blockIdx_x++) for (int threadIdx_x = 0; threadIdx_x < ks_block_x; threadIdx_x++) { y[blockIdx_x * ks_block_x + threadIdx_x] = 1; } }",
            ),
        ] {
            let expected: String = expected.split_whitespace().collect();
            assert_eq!(body(parameters, source), expected, "{source}");
        }
    }

    proptest! {
        #[test]
        fn any_body_is_lowered(source in "\\{([a-z]|threadIdx\\.x|blockIdx\\.y|if|for|int|while|atomicAdd|[(){};<>=&!,*+0-9 ]){0,60}\\}") {
            let _ = lowered("k", "float *x, int n", &source);
        }
    }
}
