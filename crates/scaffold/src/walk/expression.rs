//! Expressions.

use super::{Binding, Does, Pointer, Target, Value, Walk, inside, literal};
use crate::leaf::Form;
use crate::poly::{Polynomial, Symbol};
use crate::ranges::{End, Range, Ranges};
use crate::syntax::{Parsed, field, text};
use tree_sitter::Node;

/// Calls and macros inside calls and macros.
pub(super) const DEEPEST_CALL: usize = 6;

impl Walk<'_> {
    pub(super) fn expression(&mut self, node: Node<'_>, source: &str) -> Value {
        if !self.step() {
            return Value::Unknown;
        }
        self.depth += 1;
        let value = self.expression_inside(node, source);
        self.depth -= 1;
        value
    }

    fn expression_inside(&mut self, node: Node<'_>, source: &str) -> Value {
        match node.kind() {
            "number_literal" => {
                let written = text(node, source);
                literal(written).map_or(Value::Real, |n| Value::Integer(n.into()))
            }
            "true" => Value::Integer(1.into()),
            "false" => Value::Integer(0.into()),
            "identifier" | "qualified_identifier" => self.name(text(node, source)),
            "parenthesized_expression" | "condition_clause" => {
                let mut last = Value::Unknown;
                for child in inside(node) {
                    last = self.expression(child, source);
                }
                last
            }
            "cast_expression" => {
                let inner = field(node, "value").map_or(Value::Unknown, |v| self.expression(v, source));
                self.cast(field(node, "type").map_or("", |t| text(t, source)), inner)
            }
            "unary_expression" => {
                let value = field(node, "argument").map_or(Value::Unknown, |a| self.expression(a, source));
                match (text(node, source).chars().next(), value) {
                    (Some('-'), Value::Integer(p)) => {
                        p.times(&(-1).into()).map_or(Value::Unknown, Value::Integer)
                    }
                    (Some('+') | Some('-'), value) => value,
                    _ => Value::Unknown,
                }
            }
            "binary_expression" => self.binary(node, source),
            "subscript_expression" | "field_expression" => match self.place(node, source) {
                Value::Pointer(p) if p.rows.is_empty() && node.kind() == "subscript_expression" => {
                    self.record(&p, Does::Read)
                }
                other => other,
            },
            "pointer_expression" => {
                if text(node, source).starts_with('&') {
                    return field(node, "argument").map_or(Value::Unknown, |a| self.place(a, source));
                }
                match self.place(node, source) {
                    Value::Pointer(p) if p.rows.is_empty() => self.record(&p, Does::Read),
                    other => other,
                }
            }
            "assignment_expression" => self.assignment(node, source),
            "update_expression" => {
                let Some(argument) = field(node, "argument") else { return Value::Unknown };
                if argument.kind() == "identifier" {
                    return self.expression(argument, source);
                }
                match self.place(argument, source) {
                    Value::Pointer(p) => self.record(&p, Does::Update),
                    _ => Value::Unknown,
                }
            }
            "conditional_expression" => self.conditional(node, source),
            "comma_expression" => {
                let (left, right) = (field(node, "left"), field(node, "right"));
                if let Some(left) = left {
                    self.expression(left, source);
                }
                right.map_or(Value::Unknown, |r| self.expression(r, source))
            }
            "call_expression" => self.call(node, source),
            // Nothing is read by it.
            "sizeof_expression" | "alignof_expression" | "lambda_expression" | "string_literal"
            | "char_literal" => Value::Unknown,
            _ => {
                for child in inside(node) {
                    self.expression(child, source);
                }
                Value::Unknown
            }
        }
    }

    /// An expression that stands in a string: a macro's body, an extent.
    pub(super) fn snippet(&mut self, written: &str) -> Value {
        if self.calls.len() > DEEPEST_CALL || written.len() > 4000 {
            return Value::Unknown;
        }
        if let Some(n) = literal(written.trim()) {
            return Value::Integer(n.into());
        }
        let whole = format!("int v = ({written});");
        let Ok(parsed) = Parsed::new("", &whole) else { return Value::Unknown };
        if parsed.root().has_error() {
            return Value::Unknown;
        }
        let Some(value) = inside(parsed.root())
            .first()
            .and_then(|d| field(*d, "declarator"))
            .and_then(|d| field(d, "value"))
        else {
            return Value::Unknown;
        };
        self.calls.push(String::new());
        let value = self.expression(value, &whole);
        self.calls.pop();
        value
    }

    fn name(&mut self, name: &str) -> Value {
        if let Some(value) = self.lookup(name) {
            // A reference is its element.
            if let Value::Pointer(p) = &value
                && let Target::Leaf(leaf) = p.target
                && self.is_reference(leaf)
            {
                return self.record(&p.clone(), Does::Read);
            }
            return value;
        }
        let substituted = self.substituted.get(name).cloned();
        match substituted.or_else(|| self.types.values.get(name).cloned()) {
            Some(written) if written != name => self.snippet(&written),
            _ => Value::Unknown,
        }
    }

    fn is_reference(&self, leaf: usize) -> bool {
        matches!(
            self.leaves.all.get(leaf).map(|l| &l.kind),
            Some(crate::leaf::Kind::Elements { passed: crate::leaf::Passed::Reference, .. })
        )
    }

    /// An address cast to another element size is another address; integers stay what they are.
    pub(super) fn cast(&mut self, ty: &str, value: Value) -> Value {
        let substituted = self.substituted.clone();
        match value {
            Value::Integer(p) => {
                let (base, layers, _) = self.types.resolve(ty, &substituted);
                match base {
                    crate::types::Base::Scalar(s) if s.dtype.is_float() && layers.is_empty() => Value::Real,
                    _ => Value::Integer(p),
                }
            }
            Value::Pointer(p) => {
                let bare = ty.replace(['*', '&'], " ").replace("restrict", " ");
                let (base, ..) = self.types.resolve(&bare, &substituted);
                let same = match (&p.target, base) {
                    (Target::Leaf(leaf), crate::types::Base::Scalar(s)) => matches!(
                        self.leaves.all.get(*leaf).map(|l| &l.kind),
                        Some(crate::leaf::Kind::Elements { scalar, .. }) if scalar.dtype.size() == s.dtype.size()
                    ),
                    _ => false,
                };
                Value::Pointer(if same { p } else { Pointer { offset: None, rows: Vec::new(), ..p } })
            }
            other => other,
        }
    }

    fn binary(&mut self, node: Node<'_>, source: &str) -> Value {
        let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) else {
            return Value::Unknown;
        };
        let operator = field(node, "operator").map_or("", |o| text(o, source)).to_owned();
        let (a, b) = (self.expression(left, source), self.expression(right, source));
        if self.quiet == 0
            && matches!(operator.as_str(), "+" | "-" | "*" | "/")
            && (matches!(a, Value::Real) || matches!(b, Value::Real))
        {
            self.seen.operations.push(self.loops.clone());
        }
        match (a, b) {
            (Value::Integer(a), Value::Integer(b)) => self.arithmetic(&operator, &a, &b),
            (Value::Pointer(p), Value::Integer(n)) if operator == "+" || operator == "-" => {
                Value::Pointer(moved(p, &n, operator == "-"))
            }
            (Value::Integer(n), Value::Pointer(p)) if operator == "+" => Value::Pointer(moved(p, &n, false)),
            (Value::Real, _) | (_, Value::Real) if matches!(operator.as_str(), "+" | "-" | "*" | "/") => {
                Value::Real
            }
            _ => Value::Unknown,
        }
    }

    fn arithmetic(&mut self, operator: &str, a: &Polynomial, b: &Polynomial) -> Value {
        let power =
            |n: &Polynomial| n.constant().filter(|n| (0..32).contains(n)).map(|n| Polynomial::from(1 << n));
        let result = match operator {
            "+" => a.plus(b),
            "-" => a.minus(b),
            "*" => a.times(b),
            "<<" => power(b).and_then(|p| a.times(&p)),
            "/" => self.quotient(a, b),
            ">>" => power(b).and_then(|p| self.quotient(a, &p)),
            "%" => b.plus_number(-1).map(|high| self.between(Some(0.into()), Some(high))),
            "&" => match (a.constant(), b.constant()) {
                (_, Some(mask)) | (Some(mask), _) if mask >= 0 => {
                    Some(self.between(Some(0.into()), Some(mask.into())))
                }
                _ => None,
            },
            _ => None,
        };
        match result {
            Some(poly) => Value::Integer(poly),
            None => Value::Integer(self.seen.ranges.unknown(None)),
        }
    }

    fn quotient(&mut self, a: &Polynomial, b: &Polynomial) -> Option<Polynomial> {
        if let Some(exact) = a.divide_exactly(b) {
            return Some(exact);
        }
        if a.constant().is_some() && b.constant().is_some() {
            return Some(a.constant()?.checked_div(b.constant()?)?.into());
        }
        if a.is_known() && b.is_known() {
            return Some(Symbol::Quotient(Box::new(a.clone()), Box::new(b.clone())).into());
        }
        // i / n for i over m * n runs over m.
        let divided = |end| {
            let end = self.seen.ranges.extreme(a, end)?;
            end.divide(b).map(|(quotient, _)| quotient)
        };
        let (low, high) = (divided(End::Low), divided(End::High));
        let rest = high.as_ref().and_then(|h| {
            let whole = h.times(b)?;
            // The division above rounds towards the leading term; what is left over must stay inside.
            let end = self.seen.ranges.extreme(a, End::High)?;
            let rest = end.minus(&whole)?;
            Some(if rest.times(&(-1).into())?.plus_number(-1)?.never_negative() {
                h.plus_number(-1)?
            } else {
                h.clone()
            })
        });
        Some(self.between(low, rest))
    }

    /// A fresh variable between two bounds.
    pub(super) fn between(&mut self, low: Option<Polynomial>, high: Option<Polynomial>) -> Polynomial {
        self.seen.ranges.add(Range { low, high, step: 1, even: None })
    }

    fn conditional(&mut self, node: Node<'_>, source: &str) -> Value {
        if let Some(condition) = field(node, "condition") {
            self.test(condition, source);
        }
        let mut values = Vec::new();
        for (branch, name) in ["consequence", "alternative"].into_iter().enumerate() {
            if let Some(one) = field(node, name) {
                let mut value = Value::Unknown;
                self.under_condition(branch, |walk| value = walk.expression(one, source));
                values.push(value);
            }
        }
        match values.as_slice() {
            [Value::Integer(a), Value::Integer(b)] => {
                let condition = field(node, "condition").map_or("", |c| text(c, source));
                Value::Integer(self.choice(condition, a, b))
            }
            [Value::Real, _] | [_, Value::Real] => Value::Real,
            [Value::Pointer(a), Value::Pointer(b)] if a.target == b.target => {
                Value::Pointer(Pointer { offset: None, ..a.clone() })
            }
            _ => Value::Unknown,
        }
    }

    /// `c ? a : b`. What is compared bounds what is chosen: `i > 0 ? i - 1 : 0` is not below 0, `a < b ? a : b` is neither.
    pub(super) fn choice(&mut self, condition: &str, a: &Polynomial, b: &Polynomial) -> Polynomial {
        let end = |p: &Polynomial, end| self.seen.ranges.extreme(p, end);
        let (a_low, a_high, b_low, b_high) =
            (end(a, End::Low), end(a, End::High), end(b, End::Low), end(b, End::High));
        let guarded = condition.contains('<') || condition.contains('>') || condition.contains("==");
        let (low, high) = if guarded
            && (a.constant().is_some() || b.constant().is_some() || a.is_known() || b.is_known())
        {
            // One side is a border: the other one is clamped to it.
            let low = if is_zero(&a_low) || is_zero(&b_low) {
                Some(0.into())
            } else {
                Ranges::looser(a_low, b_low, End::Low)
            };
            (low, Ranges::tighter_border(a_high, b_high, a, b))
        } else {
            (Ranges::looser(a_low, b_low, End::Low), Ranges::looser(a_high, b_high, End::High))
        };
        self.between(low, high)
    }

    fn assignment(&mut self, node: Node<'_>, source: &str) -> Value {
        let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) else {
            return Value::Unknown;
        };
        let value = self.expression(right, source);
        let operator = field(node, "operator").map_or("=", |o| text(o, source)).to_owned();
        if self.quiet == 0 && operator != "=" && value == Value::Real {
            self.seen.operations.push(self.loops.clone());
        }
        if left.kind() == "identifier" {
            let name = text(left, source);
            let reference = match self.began(name) {
                Some(Value::Pointer(p)) if matches!(p.target, Target::Leaf(l) if self.is_reference(l)) => {
                    Some(p)
                }
                _ => None,
            };
            if let Some(p) = reference {
                self.record(&p, if operator == "=" { Does::Write } else { Does::Update });
                return value;
            }
            // What a changing variable has from here on, as far as the order of the text tells.
            let fresh = if operator == "=" { value.clone() } else { Value::Unknown };
            for scope in self.scopes.iter_mut().rev() {
                if let Some(binding) = scope.get_mut(name) {
                    match (&binding.value, &fresh) {
                        (Value::Real, _) => {}
                        (Value::Pointer(p), Value::Unknown) => {
                            binding.value = Value::Pointer(Pointer { offset: None, ..p.clone() });
                        }
                        _ => binding.value = fresh,
                    }
                    break;
                }
            }
            return value;
        }
        if let Value::Pointer(p) = self.place(left, source) {
            self.record(&p, if operator == "=" { Does::Write } else { Does::Update });
        }
        value
    }

    /// The address that an lvalue names; a number or struct member as its value.
    pub(super) fn place(&mut self, node: Node<'_>, source: &str) -> Value {
        if !self.step() {
            return Value::Unknown;
        }
        self.depth += 1;
        let value = self.place_inside(node, source);
        self.depth -= 1;
        value
    }

    fn place_inside(&mut self, node: Node<'_>, source: &str) -> Value {
        match node.kind() {
            "subscript_expression" => {
                let array = field(node, "argument").map_or(Value::Unknown, |a| match a.kind() {
                    "subscript_expression" => self.place(a, source),
                    _ => self.expression(a, source),
                });
                let mut index = Value::Unknown;
                for one in
                    field(node, "indices").or_else(|| field(node, "index")).map(inside).unwrap_or_default()
                {
                    index = self.expression(one, source);
                }
                let pointer = match array {
                    Value::Pointer(p) => p,
                    Value::Span(leaf) => whole(leaf),
                    _ => return Value::Unknown,
                };
                let Value::Integer(index) = index else {
                    return Value::Pointer(Pointer {
                        offset: None,
                        rows: pointer.rows.into_iter().skip(1).collect(),
                        ..pointer
                    });
                };
                let row = pointer.rows.iter().try_fold(Polynomial::from(1), |p, r| p.times(r));
                let offset = pointer.offset.and_then(|o| o.plus(&index.times(&row?)?));
                Value::Pointer(Pointer {
                    target: pointer.target,
                    offset,
                    rows: pointer.rows.into_iter().skip(1).collect(),
                })
            }
            "pointer_expression" => match field(node, "argument").map(|a| self.expression(a, source)) {
                Some(Value::Pointer(p)) => {
                    Value::Pointer(Pointer { rows: p.rows.iter().skip(1).cloned().collect(), ..p })
                }
                Some(Value::Struct(n)) => Value::Struct(n),
                _ => Value::Unknown,
            },
            "field_expression" => {
                let owner = field(node, "argument").map_or(Value::Unknown, |a| self.place(a, source));
                let member = field(node, "field").map_or("", |f| text(f, source));
                let Value::Struct(parameter) = owner else { return Value::Unknown };
                let Some(Form::Struct { leaves, .. }) = self.leaves.forms.get(parameter) else {
                    return Value::Unknown;
                };
                let found = leaves
                    .iter()
                    .copied()
                    .find(|l| self.leaves.all.get(*l).is_some_and(|l| l.member.as_deref() == Some(member)));
                found.map_or(Value::Unknown, |leaf| self.leaf_value(leaf))
            }
            "parenthesized_expression" => {
                inside(node).first().map_or(Value::Unknown, |c| self.place(*c, source))
            }
            "identifier" => {
                let name = text(node, source);
                self.lookup(name).unwrap_or_else(|| self.name(name))
            }
            "call_expression" => match self.expand(node, source) {
                Some(written) => self.snippet_place(&written),
                None => self.expression(node, source),
            },
            _ => self.expression(node, source),
        }
    }

    fn snippet_place(&mut self, written: &str) -> Value {
        let whole = format!("int v = ({written});");
        if self.calls.len() > DEEPEST_CALL {
            return Value::Unknown;
        }
        let Ok(parsed) = Parsed::new("", &whole) else { return Value::Unknown };
        let value = inside(parsed.root())
            .first()
            .and_then(|d| field(*d, "declarator"))
            .and_then(|d| field(d, "value"));
        let Some(value) = value.filter(|v| !v.has_error()) else { return Value::Unknown };
        self.calls.push(String::new());
        let value = self.place(value, &whole);
        self.calls.pop();
        value
    }

    pub(super) fn bind_fixed(&mut self, name: &str, value: Value) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), Binding { value, changes: false });
        }
    }
}

impl Ranges {
    /// The upper end of a clamped value: that of the side which is a border known beforehand, if it is the larger one.
    fn tighter_border(
        a_high: Option<Polynomial>,
        b_high: Option<Polynomial>,
        a: &Polynomial,
        b: &Polynomial,
    ) -> Option<Polynomial> {
        match (a.is_known(), b.is_known()) {
            // `i + 1 < n ? i + 1 : n - 1`: never above n - 1.
            (true, false) if a.constant().is_none() => a_high,
            (false, true) if b.constant().is_none() => b_high,
            _ => Self::looser(a_high, b_high, End::High),
        }
    }
}

fn is_zero(p: &Option<Polynomial>) -> bool {
    p.as_ref().is_some_and(Polynomial::is_zero)
}

pub(super) fn whole(leaf: usize) -> Pointer {
    Pointer { target: Target::Leaf(leaf), offset: Some(Polynomial::default()), rows: Vec::new() }
}

pub(super) fn moved(p: Pointer, by: &Polynomial, back: bool) -> Pointer {
    let row = p.rows.iter().try_fold(Polynomial::from(1), |product, r| product.times(r));
    let offset = p.offset.as_ref().and_then(|o| {
        let distance = by.times(&row?)?;
        if back { o.minus(&distance) } else { o.plus(&distance) }
    });
    Pointer { offset, ..p }
}
