//! One walk over a function's body, in the order of execution as far as the text shows it: which elements of which leaf
//! it reads and writes. Called functions and macros of the same files are walked with their arguments.

use crate::leaf::{Form, Kind, Leaves};
use crate::poly::Polynomial;
use crate::ranges::Ranges;
use crate::syntax::{DEEPEST, Parsed, children, each, field, text};
use crate::types::Types;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tree_sitter::Node;

mod call;
mod expression;
mod loops;
mod statement;

/// Nodes that a walk looks at before it gives up.
const BUDGET: usize = 300_000;

/// What an access does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    Read,
    Write,
    /// Reads and writes the same element: `+=`, `++`.
    Update,
}

/// One access in the text.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) leaf: usize,
    pub(crate) does: Does,
    /// Element, counted from the first one; `None` where it cannot be told.
    pub(crate) at: Option<Polynomial>,
    /// Loops around it, outermost first.
    pub(crate) loops: Vec<usize>,
    /// Conditions around it: which, and which branch.
    pub(crate) conditions: Vec<(usize, usize)>,
}

/// What a walk saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) accesses: Vec<Access>,
    pub(crate) ranges: Ranges,
    /// Leaves that went where the walk could not follow, with the name of the callee.
    pub(crate) escaped: BTreeMap<usize, String>,
    /// Extents of local arrays with what they are indexed by at most.
    pub(crate) limits: Vec<(i64, Polynomial)>,
    /// Numbers of leaves that steer conditions only.
    pub(crate) tested: BTreeSet<String>,
    /// Sizes that bound a loop.
    pub(crate) bounds: BTreeSet<String>,
    /// What `return` gives, one for each.
    pub(crate) returned: Vec<Value>,
    /// Arithmetic operations on elements, with the loops around them.
    pub(crate) operations: Vec<Vec<usize>>,
    /// The walk ended early.
    pub(crate) gave_up: bool,
}

/// What an expression stands for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// An integer.
    Integer(Polynomial),
    /// A floating-point number.
    Real,
    /// An address.
    Pointer(Pointer),
    /// A struct parameter, by its index.
    Struct(usize),
    /// A `std::span` parameter, by its leaf.
    Span(usize),
    /// Nothing that can be followed.
    Unknown,
}

/// An address.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Pointer {
    pub(crate) target: Target,
    /// Elements from the first one.
    pub(crate) offset: Option<Polynomial>,
    /// Extents of the array types that it points to.
    pub(crate) rows: Vec<Polynomial>,
}

/// What an address is in.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Target {
    Leaf(usize),
    /// A local array of this extent, if that is a number.
    Local(Option<i64>),
}

#[derive(Debug, Clone)]
struct Binding {
    value: Value,
    /// Some statement changes it after its declaration.
    changes: bool,
}

pub(crate) struct Walk<'p> {
    functions: HashMap<&'p str, (&'p Parsed, Node<'p>)>,
    types: &'p Types,
    leaves: &'p Leaves,
    substituted: BTreeMap<String, String>,
    seen: Seen,
    scopes: Vec<HashMap<String, Binding>>,
    loops: Vec<usize>,
    conditions: Vec<(usize, usize)>,
    ifs: usize,
    calls: Vec<String>,
    changed: Vec<BTreeSet<String>>,
    depth: usize,
    budget: usize,
    quiet: usize,
}

impl<'p> Walk<'p> {
    /// Walks the body of `definition`, whose parameters are the leaves.
    pub(crate) fn run(
        files: &'p [Parsed],
        main: &'p Parsed,
        definition: Node<'p>,
        types: &'p Types,
        leaves: &'p Leaves,
        substituted: &BTreeMap<String, String>,
        names: &[String],
    ) -> Seen {
        let mut functions = HashMap::new();
        for file in files.iter().chain([main]) {
            each(file.root(), &mut |node| {
                if node.kind() == "function_definition"
                    && let Some(signature) = crate::prototype::signature(node)
                    && let Some(name) = field(signature, "declarator")
                {
                    functions.insert(text(name, file.text()), (file, node));
                    return false;
                }
                true
            });
        }
        let mut walk = Self::empty(types, leaves, substituted);
        walk.functions = functions;
        let source = main.text();
        walk.changed.push(changed(definition, source));
        walk.bind_parameters(names);
        if let Some(body) = field(definition, "body") {
            walk.statement(body, source);
        }
        walk.seen.gave_up = walk.budget == 0;
        walk.seen
    }

    fn empty(types: &'p Types, leaves: &'p Leaves, substituted: &BTreeMap<String, String>) -> Self {
        Self {
            functions: HashMap::new(),
            types,
            leaves,
            substituted: substituted.clone(),
            seen: Seen::default(),
            scopes: vec![HashMap::new()],
            loops: Vec::new(),
            conditions: Vec::new(),
            ifs: 0,
            calls: Vec::new(),
            changed: Vec::new(),
            depth: 0,
            budget: BUDGET,
            quiet: 0,
        }
    }

    fn bind_parameters(&mut self, names: &[String]) {
        for (index, form) in self.leaves.forms.iter().enumerate() {
            let Some(name) = names.get(index) else { continue };
            let value = match form {
                Form::Struct { .. } => Value::Struct(index),
                Form::Leaf(leaf) => self.leaf_value(*leaf),
            };
            self.bind(name, value);
        }
    }

    /// What a leaf is before the body begins.
    fn leaf_value(&mut self, index: usize) -> Value {
        let Some(leaf) = self.leaves.all.get(index) else { return Value::Unknown };
        match &leaf.kind {
            Kind::Number(scalar) if scalar.dtype.is_float() => Value::Real,
            Kind::Number(_) => Value::Integer(Polynomial::size(&leaf.name)),
            Kind::Elements { passed: crate::leaf::Passed::Span, .. } => Value::Span(index),
            Kind::Elements { extents, .. } => {
                let extents = extents.clone();
                let rows = extents
                    .iter()
                    .skip(1)
                    .map(|e| e.as_deref().and_then(|e| self.number_of(e)))
                    .collect::<Option<Vec<_>>>();
                let known = rows.is_some();
                Value::Pointer(Pointer {
                    target: Target::Leaf(index),
                    offset: known.then(Polynomial::default),
                    rows: rows.unwrap_or_default(),
                })
            }
        }
    }

    /// An extent as the declaration writes it. Parameters before it are in scope.
    pub(super) fn number_of(&mut self, written: &str) -> Option<Polynomial> {
        match self.snippet(written) {
            Value::Integer(poly) if poly.is_known() => Some(poly),
            _ => None,
        }
    }

    fn bind(&mut self, name: &str, value: Value) {
        let changes = self.changed.last().is_some_and(|c| c.contains(name));
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), Binding { value, changes });
        }
    }

    fn lookup(&mut self, name: &str) -> Option<Value> {
        let binding = self.scopes.iter().rev().find_map(|s| s.get(name))?.clone();
        if !binding.changes {
            return Some(binding.value);
        }
        Some(match binding.value {
            Value::Integer(_) => Value::Integer(self.seen.ranges.unknown(None)),
            Value::Pointer(p) => Value::Pointer(Pointer { offset: None, ..p }),
            other => other,
        })
    }

    /// The value that a changing variable began with.
    fn began(&self, name: &str) -> Option<Value> {
        self.scopes.iter().rev().find_map(|s| s.get(name)).map(|b| b.value.clone())
    }

    /// Counts a step; false when the walk should end.
    fn step(&mut self) -> bool {
        self.budget = self.budget.saturating_sub(1);
        self.budget > 0 && self.depth < DEEPEST
    }

    fn record(&mut self, pointer: &Pointer, does: Does) -> Value {
        match &pointer.target {
            Target::Leaf(leaf) => {
                let leaf = *leaf;
                if self.quiet == 0 {
                    self.seen.accesses.push(Access {
                        leaf,
                        does,
                        at: pointer.offset.clone(),
                        loops: self.loops.clone(),
                        conditions: self.conditions.clone(),
                    });
                }
                match self.leaves.all.get(leaf).map(|l| &l.kind) {
                    Some(Kind::Elements { scalar, .. }) if !scalar.dtype.is_float() => {
                        Value::Integer(self.seen.ranges.unknown(Some(leaf)))
                    }
                    _ => Value::Real,
                }
            }
            Target::Local(extent) => {
                if let (Some(extent), Some(at)) = (extent, &pointer.offset) {
                    self.seen.limits.push((*extent, at.clone()));
                }
                Value::Unknown
            }
        }
    }
}

/// Names that are assigned, counted up or down, or whose address is taken below `node`.
fn changed(node: Node<'_>, source: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    each(node, &mut |n| {
        let target = match n.kind() {
            "assignment_expression" => field(n, "left"),
            "update_expression" => field(n, "argument"),
            "pointer_expression" if text(n, source).starts_with('&') => field(n, "argument"),
            _ => None,
        };
        if let Some(target) = target.filter(|t| t.kind() == "identifier") {
            names.insert(text(target, source).to_owned());
        }
        true
    });
    names
}

/// The integer that a literal is.
pub(crate) fn literal(written: &str) -> Option<i64> {
    let plain = written.replace('\'', "").to_lowercase();
    let plain = plain.trim_end_matches(['u', 'l', 'z']);
    if let Some(hex) = plain.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16).ok();
    }
    if let Some(binary) = plain.strip_prefix("0b") {
        return i64::from_str_radix(binary, 2).ok();
    }
    if plain.len() > 1 && plain.starts_with('0') {
        return i64::from_str_radix(plain, 8).ok();
    }
    plain.parse().ok()
}

/// Children that matter, for walks that go into everything.
fn inside<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    children(node)
}

impl<'p> Walk<'p> {
    /// An extent of a declaration as a polynomial of the prototype's sizes.
    pub(crate) fn extent(
        written: &str,
        types: &'p Types,
        leaves: &'p Leaves,
        substituted: &BTreeMap<String, String>,
        names: &[String],
    ) -> Option<Polynomial> {
        let mut walk = Self::empty(types, leaves, substituted);
        walk.changed.push(BTreeSet::new());
        walk.bind_parameters(names);
        walk.number_of(written)
    }
}
