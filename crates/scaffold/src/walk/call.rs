//! Calls: macros, functions of these files, and what is known of some others.

use super::expression::{DEEPEST_CALL, moved, whole};
use super::{Does, Pointer, Target, Value, Walk, changed, inside};
use crate::poly::Polynomial;
use crate::ranges::{End, Range, Ranges};
use crate::syntax::{Parsed, field, text};
use std::collections::HashMap;
use tree_sitter::Node;

impl Walk<'_> {
    /// A call of a macro with its arguments in place.
    pub(super) fn expand(&self, node: Node<'_>, source: &str) -> Option<String> {
        let name = field(node, "function").map(|f| text(f, source))?;
        let found = self.types.macros.get(name)?;
        let arguments: Vec<&str> =
            field(node, "arguments").map(inside)?.into_iter().map(|a| text(a, source)).collect();
        (arguments.len() == found.parameters.len())
            .then(|| crate::tokens::substitute(&found.body, &found.parameters, &arguments))
            .filter(|t| t.len() < 4000)
    }

    pub(super) fn call(&mut self, node: Node<'_>, source: &str) -> Value {
        if let Some(written) = self.expand(node, source) {
            return self.snippet(&written);
        }
        let Some(function) = field(node, "function") else { return Value::Unknown };
        if function.kind() == "field_expression" {
            return self.method(node, function, source);
        }
        let whole_name = text(function, source);
        let bare = whole_name.split('<').next().unwrap_or(whole_name);
        let name = bare.rsplit("::").next().unwrap_or(bare).to_owned();
        let arguments = field(node, "arguments").map(inside).unwrap_or_default();
        if matches!(whole_name.split('<').next(), Some("static_cast" | "reinterpret_cast" | "const_cast")) {
            let ty = whole_name.split_once('<').map_or("", |(_, t)| t.trim_end_matches('>')).to_owned();
            let inner = arguments.first().map_or(Value::Unknown, |a| self.expression(*a, source));
            return self.cast(&ty, inner);
        }
        let values: Vec<Value> = arguments.iter().map(|a| self.expression(*a, source)).collect();
        match (name.as_str(), values.as_slice()) {
            ("min" | "MIN" | "Min" | "imin", [Value::Integer(a), Value::Integer(b)]) => {
                let (low, high) = (
                    Ranges::looser(self.low(a), self.low(b), End::Low),
                    Ranges::tighter(Some(a.clone()), Some(b.clone()), End::High),
                );
                return Value::Integer(self.between(low, high));
            }
            ("max" | "MAX" | "Max" | "imax", [Value::Integer(a), Value::Integer(b)]) => {
                let (low, high) = (
                    Ranges::tighter(Some(a.clone()), Some(b.clone()), End::Low),
                    Ranges::looser(self.high(a), self.high(b), End::High),
                );
                return Value::Integer(self.between(low, high));
            }
            ("clamp", [Value::Integer(_), Value::Integer(low), Value::Integer(high)]) => {
                let (low, high) = (low.clone(), high.clone());
                return Value::Integer(self.between(Some(low), Some(high)));
            }
            ("memcpy" | "memmove" | "memset", [Value::Pointer(to), from, _]) => {
                let (to, from) = (to.clone(), from.clone());
                let elements = arguments.get(2).and_then(|n| self.elements_of(*n, source));
                if let Value::Pointer(from) = from {
                    self.region(&from, elements.as_ref(), Does::Read);
                }
                self.region(&to, elements.as_ref(), Does::Write);
                return Value::Unknown;
            }
            _ => {}
        }
        if let Some((file, definition)) = self.functions.get(name.as_str()).copied()
            && self.calls.len() < DEEPEST_CALL
            && !self.calls.contains(&name)
        {
            return self.enter(name, file, definition, values);
        }
        let real = values.iter().any(|v| matches!(v, Value::Real));
        for value in values {
            let leaf = match value {
                Value::Pointer(Pointer { target: Target::Leaf(leaf), .. }) | Value::Span(leaf) => leaf,
                _ => continue,
            };
            self.seen.escaped.entry(leaf).or_insert_with(|| name.clone());
        }
        if real { Value::Real } else { Value::Unknown }
    }

    fn low(&self, p: &Polynomial) -> Option<Polynomial> {
        self.seen.ranges.extreme(p, End::Low)
    }
    fn high(&self, p: &Polynomial) -> Option<Polynomial> {
        self.seen.ranges.extreme(p, End::High)
    }

    /// `x.size()`, `x.data()`.
    fn method(&mut self, node: Node<'_>, function: Node<'_>, source: &str) -> Value {
        let owner = field(function, "argument").map_or(Value::Unknown, |a| self.expression(a, source));
        let member = field(function, "field").map_or("", |f| text(f, source));
        for argument in field(node, "arguments").map(inside).unwrap_or_default() {
            self.expression(argument, source);
        }
        match (owner, member) {
            (Value::Span(leaf), "size") => match self.leaves.all.get(leaf) {
                Some(l) => Value::Integer(Polynomial::size(&format!("{}_size", l.name))),
                None => Value::Unknown,
            },
            (Value::Span(leaf), "data" | "begin") => Value::Pointer(whole(leaf)),
            _ => Value::Unknown,
        }
    }

    /// Elements in a number of bytes: `n * sizeof(float)`.
    fn elements_of(&mut self, node: Node<'_>, source: &str) -> Option<Polynomial> {
        let written = text(node, source);
        let at = written.find("sizeof")?;
        let (before, after) = written.split_at(at);
        let end = after.find(')').map_or(after.len(), |e| e + 1);
        let rest = if after.contains('(') { after.get(end..)? } else { "" };
        let others = format!("{before}1{rest}");
        match self.snippet(&others) {
            Value::Integer(p) => Some(p),
            _ => None,
        }
    }

    /// `elements` elements from an address on.
    fn region(&mut self, pointer: &Pointer, elements: Option<&Polynomial>, does: Does) {
        let last = elements.and_then(|n| n.plus_number(-1));
        let range = Range { low: Some(Polynomial::default()), high: last, step: 1, even: None };
        let index = self.seen.ranges.add(range);
        let number = self.seen.ranges.all.len() - 1;
        self.loops.push(number);
        let flat = Pointer { rows: Vec::new(), ..pointer.clone() };
        self.record(&moved(flat, &index, false), does);
        self.loops.pop();
    }

    /// Walks a function of these files with the arguments of a call.
    fn enter(&mut self, name: String, file: &Parsed, definition: Node<'_>, values: Vec<Value>) -> Value {
        let source = file.text();
        let Some(list) = crate::prototype::signature(definition).and_then(|s| field(s, "parameters")) else {
            return Value::Unknown;
        };
        let substituted = self.substituted.clone();
        let parameters: Vec<_> = inside(list)
            .into_iter()
            .map(|p| self.types.declared(p, field(p, "declarator"), source, &substituted))
            .collect();
        let scopes = std::mem::take(&mut self.scopes);
        let returned = std::mem::take(&mut self.seen.returned);
        self.changed.push(changed(definition, source));
        self.calls.push(name);
        self.scopes = vec![HashMap::new()];
        for (parameter, value) in parameters.iter().zip(values) {
            let value = match value {
                // A callee sees rows only if it says so.
                Value::Pointer(p) if parameter.layers.len() < 2 => {
                    Value::Pointer(Pointer { rows: Vec::new(), ..p })
                }
                other => other,
            };
            self.bind(&parameter.name, value);
        }
        if let Some(body) = field(definition, "body") {
            self.statement(body, source);
        }
        self.calls.pop();
        self.changed.pop();
        self.scopes = scopes;
        let own = std::mem::replace(&mut self.seen.returned, returned);
        match own.as_slice() {
            [one] => one.clone(),
            [Value::Integer(a), Value::Integer(b)] => {
                let (a, b) = (a.clone(), b.clone());
                Value::Integer(self.choice("<", &a, &b))
            }
            [first, ..] if *first == Value::Real => Value::Real,
            _ => Value::Unknown,
        }
    }
}
