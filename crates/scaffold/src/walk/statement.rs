//! Statements.

use super::{Pointer, Target, Value, Walk, inside};
use crate::poly::Polynomial;
use crate::syntax::{field, text};
use crate::types::Layer;
use std::collections::HashMap;
use tree_sitter::Node;

impl Walk<'_> {
    pub(super) fn statement(&mut self, node: Node<'_>, source: &str) {
        if !self.step() {
            return;
        }
        self.depth += 1;
        match node.kind() {
            "compound_statement" => self.compound(node, source),
            "declaration" => self.declaration(node, source),
            "expression_statement" => {
                for child in inside(node) {
                    self.expression(child, source);
                }
            }
            "for_statement" => self.for_statement(node, source),
            "for_range_loop" => self.range_loop(node, source),
            "while_statement" => self.while_statement(node, source),
            "do_statement" => {
                // Its body runs at least once.
                if let Some(body) = field(node, "body") {
                    self.statement(body, source);
                }
                if let Some(condition) = field(node, "condition") {
                    self.expression(condition, source);
                }
            }
            "if_statement" => self.if_statement(node, source),
            "switch_statement" => {
                if let Some(condition) = field(node, "condition") {
                    self.test(condition, source);
                }
                if let Some(body) = field(node, "body") {
                    self.under_condition(0, |walk| walk.statement(body, source));
                }
            }
            "return_statement" => {
                if let Some(value) = inside(node).first() {
                    let value = self.expression(*value, source);
                    self.seen.returned.push(value);
                }
            }
            "function_definition" | "lambda_expression" | "struct_specifier" | "class_specifier" => {}
            kind if kind.ends_with("expression") || kind == "identifier" => {
                self.expression(node, source);
            }
            _ => {
                for child in inside(node) {
                    self.statement(child, source);
                }
            }
        }
        self.depth -= 1;
    }

    fn compound(&mut self, node: Node<'_>, source: &str) {
        self.scopes.push(HashMap::new());
        let before = self.conditions.len();
        for child in inside(node) {
            self.statement(child, source);
            // What follows `if (…) continue;` runs for some elements only.
            if child.kind() == "if_statement" && !self.loops.is_empty() && leaves_early(child) {
                self.ifs += 1;
                self.conditions.push((self.ifs, 0));
            }
        }
        self.conditions.truncate(before);
        self.scopes.pop();
    }

    pub(super) fn under_condition(&mut self, branch: usize, walk: impl FnOnce(&mut Self)) {
        if branch == 0 {
            self.ifs += 1;
        }
        self.conditions.push((self.ifs, branch));
        walk(self);
        self.conditions.pop();
    }

    fn if_statement(&mut self, node: Node<'_>, source: &str) {
        if let Some(condition) = field(node, "condition") {
            self.test(condition, source);
        }
        self.ifs += 1;
        let number = self.ifs;
        for (branch, name) in ["consequence", "alternative"].into_iter().enumerate() {
            if let Some(body) = field(node, name) {
                self.conditions.push((number, branch));
                self.statement(body, source);
                self.conditions.pop();
            }
        }
    }

    /// A condition: what it reads, and which sizes steer by it.
    pub(super) fn test(&mut self, node: Node<'_>, source: &str) {
        crate::syntax::each(node, &mut |n| {
            if n.kind() == "identifier" {
                self.seen.tested.insert(text(n, source).to_owned());
            }
            true
        });
        self.expression(node, source);
    }

    fn declaration(&mut self, node: Node<'_>, source: &str) {
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            let (inner, value) = match declarator.kind() {
                "init_declarator" => (field(declarator, "declarator"), field(declarator, "value")),
                _ => (Some(declarator), None),
            };
            let Some(inner) = inner else { continue };
            let substituted = self.substituted.clone();
            let declared = self.types.declared(node, Some(inner), source, &substituted);
            if declared.name.is_empty() {
                continue;
            }
            let mut bound = value.map_or(Value::Unknown, |v| self.expression(v, source));
            if matches!(declared.base, crate::types::Base::Scalar(s) if s.dtype.is_float())
                && declared.layers.is_empty()
            {
                bound = Value::Real;
            }
            if let Some(Layer::Array(_)) = declared.layers.first() {
                bound = self.local_array(&declared.layers);
            }
            // A loop variable without a value counts as an integer from nowhere.
            if bound == Value::Unknown
                && declared.layers.is_empty()
                && matches!(declared.base, crate::types::Base::Scalar(s) if !s.dtype.is_float())
            {
                bound = Value::Integer(self.seen.ranges.unknown(None));
            }
            self.bind(&declared.name, bound);
        }
    }

    fn local_array(&mut self, layers: &[Layer]) -> Value {
        let mut extents = Vec::new();
        for layer in layers {
            let Layer::Array(Some(written)) = layer else { return Value::Unknown };
            let Some(extent) = self.number_of(written) else { return Value::Unknown };
            extents.push(extent);
        }
        let total = extents.iter().try_fold(1i64, |product, e| product.checked_mul(e.constant()?));
        Value::Pointer(Pointer {
            target: Target::Local(total),
            offset: Some(Polynomial::default()),
            rows: extents.split_off(1.min(extents.len())),
        })
    }
}

/// Whether a statement may leave the loop or the iteration that it stands in.
fn leaves_early(node: Node<'_>) -> bool {
    let mut found = false;
    crate::syntax::each(node, &mut |n| {
        found |= matches!(n.kind(), "continue_statement" | "break_statement" | "return_statement");
        !matches!(
            n.kind(),
            "for_statement" | "while_statement" | "do_statement" | "switch_statement" | "for_range_loop"
        )
    });
    found
}
