//! Loops: which variable runs from where to where.

use super::{Value, Walk, changed, inside};
use crate::poly::{Polynomial, Symbol};
use crate::ranges::Range;
use crate::syntax::{field, text};
use std::collections::HashMap;
use tree_sitter::Node;

/// How a loop's variable moves.
#[derive(Debug, Clone)]
struct Move {
    name: String,
    /// Elements a round; negative for a loop that counts down. `None`: by a size.
    by: Option<i64>,
    size: Option<Polynomial>,
}

/// A bound that a condition puts on the variable.
struct Bound {
    poly: Polynomial,
    /// It bounds from above.
    upper: bool,
    /// The condition looks ahead (`i + 8 <= n`), so that no iteration reaches past the end.
    ahead: bool,
}

impl Walk<'_> {
    pub(super) fn for_statement(&mut self, node: Node<'_>, source: &str) {
        self.scopes.push(HashMap::new());
        let initializer = field(node, "initializer");
        let mut first: HashMap<String, Value> = HashMap::new();
        if let Some(initializer) = initializer {
            if initializer.kind() == "declaration" {
                self.statement(initializer, source);
            } else {
                self.expression(initializer, source);
            }
        }
        let condition = field(node, "condition");
        let movement = field(node, "update")
            .and_then(|u| self.movement(u, source))
            .or_else(|| condition.and_then(|c| counted_down(c, source)));
        if let Some(movement) = &movement
            && let Some(value) = self.began(&movement.name)
        {
            first.insert(movement.name.clone(), value);
        }
        self.count_loop(node, condition, movement, &first, source);
        self.scopes.pop();
    }

    /// `while (i < n) { …; i++; }`
    pub(super) fn while_statement(&mut self, node: Node<'_>, source: &str) {
        let condition = field(node, "condition");
        let movement = condition.and_then(|c| counted_down(c, source)).or_else(|| {
            let body = field(node, "body")?;
            let names: Vec<String> = {
                let mut names = Vec::new();
                crate::syntax::each(condition?, &mut |n| {
                    if n.kind() == "identifier" {
                        names.push(text(n, source).to_owned());
                    }
                    true
                });
                names
            };
            inside(body)
                .into_iter()
                .filter_map(|s| inside(s).first().copied())
                .filter_map(|e| self.movement(e, source))
                .find(|m| names.contains(&m.name))
        });
        let mut first = HashMap::new();
        if let Some(movement) = &movement
            && let Some(value) = self.began(&movement.name)
        {
            first.insert(movement.name.clone(), value);
        }
        self.scopes.push(HashMap::new());
        self.count_loop(node, condition, movement, &first, source);
        self.scopes.pop();
    }

    /// `for (float v : span)`: it reads them all.
    pub(super) fn range_loop(&mut self, node: Node<'_>, source: &str) {
        let over = field(node, "right").map_or(Value::Unknown, |r| self.expression(r, source));
        self.scopes.push(HashMap::new());
        if let (Value::Span(leaf), Some(l)) = (&over, field(node, "declarator")) {
            let name = self.leaves.all.get(*leaf).map_or(String::new(), |l| format!("{}_size", l.name));
            let high = Polynomial::size(&name).plus_number(-1);
            let index = self.between(Some(0.into()), high);
            self.loops.push(self.seen.ranges.all.len() - 1);
            let pointer =
                super::Pointer { target: super::Target::Leaf(*leaf), offset: Some(index), rows: Vec::new() };
            let value = self.record(&pointer, super::Does::Read);
            self.seen.bounds.insert(name);
            let (name, layers, _) = crate::types::peel(l, source);
            // Through a reference its elements can be written.
            let value = if layers.is_empty() { value } else { Value::Pointer(pointer) };
            self.bind_fixed(&name, value);
            if let Some(body) = field(node, "body") {
                self.statement(body, source);
            }
            self.loops.pop();
        } else if let Some(body) = field(node, "body") {
            self.under_condition(0, |walk| walk.statement(body, source));
        }
        self.scopes.pop();
    }

    fn count_loop(
        &mut self,
        node: Node<'_>,
        condition: Option<Node<'_>>,
        movement: Option<Move>,
        first: &HashMap<String, Value>,
        source: &str,
    ) {
        let body = field(node, "body");
        let moves_inside = |name: &str| {
            node.kind() == "for_statement" && body.is_some_and(|b| changed(b, source).contains(name))
        };
        let movement = movement.filter(|m| !moves_inside(&m.name));
        let range = movement.as_ref().map(|m| self.range(m, condition, first.get(&m.name), source));
        // Whatever the condition reads is read in every round.
        let number = match range {
            Some(range) => {
                self.seen.ranges.add(range);
                self.seen.ranges.all.len() - 1
            }
            None => {
                self.seen.ranges.add(Range::default());
                self.seen.ranges.all.len() - 1
            }
        };
        self.loops.push(number);
        if let Some(m) = &movement {
            self.bind_fixed(&m.name, Value::Integer(Symbol::Ranging(number).into()));
        }
        if let Some(condition) = condition {
            self.expression(condition, source);
        }
        if let Some(body) = body {
            self.statement(body, source);
        }
        if let Some(update) = field(node, "update") {
            self.quiet += 1;
            self.expression(update, source);
            self.quiet -= 1;
        }
        self.loops.pop();
    }

    /// What an update does to which variable.
    fn movement(&mut self, node: Node<'_>, source: &str) -> Option<Move> {
        match node.kind() {
            "update_expression" => {
                let argument = field(node, "argument").filter(|a| a.kind() == "identifier")?;
                let by = if text(node, source).contains("++") { 1 } else { -1 };
                Some(Move { name: text(argument, source).to_owned(), by: Some(by), size: None })
            }
            "comma_expression" => {
                let left = field(node, "left").and_then(|l| self.movement(l, source));
                left.or_else(|| field(node, "right").and_then(|r| self.movement(r, source)))
            }
            "assignment_expression" => {
                let name =
                    field(node, "left").filter(|l| l.kind() == "identifier").map(|l| text(l, source))?;
                let right = field(node, "right")?;
                let operator = field(node, "operator").map(|o| text(o, source))?;
                let (sign, amount) = match operator {
                    "+=" => (1, right),
                    "-=" => (-1, right),
                    "=" if right.kind() == "binary_expression"
                        && field(right, "left").is_some_and(|l| text(l, source) == name) =>
                    {
                        let sign = match field(right, "operator").map(|o| text(o, source)) {
                            Some("+") => 1,
                            Some("-") => -1,
                            _ => return None,
                        };
                        (sign, field(right, "right")?)
                    }
                    _ => return None,
                };
                let Value::Integer(amount) = self.expression(amount, source) else { return None };
                let name = name.to_owned();
                match amount.constant() {
                    Some(n) if n > 0 => Some(Move { name, by: Some(sign * n), size: None }),
                    None if sign > 0 && amount.is_known() => {
                        Some(Move { name, by: None, size: Some(amount) })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn range(
        &mut self,
        movement: &Move,
        condition: Option<Node<'_>>,
        first: Option<&Value>,
        source: &str,
    ) -> Range {
        let first = match first {
            Some(Value::Integer(p)) => Some(p.clone()),
            _ => None,
        };
        let step = movement.by.unwrap_or(1);
        let down = step < 0;
        // The variable stands for itself while the condition is read.
        let number = self.seen.ranges.all.len();
        self.seen.ranges.add(Range { low: Some(0.into()), high: None, step: 1, even: None });
        self.scopes.push(HashMap::new());
        self.bind_fixed(&movement.name, Value::Integer(Symbol::Ranging(number).into()));
        self.quiet += 1;
        let mut bounds = Vec::new();
        if let Some(condition) = condition {
            self.bounds(condition, number, down, source, &mut bounds);
        }
        self.quiet -= 1;
        self.scopes.pop();
        let mut range = Range { step: step.abs(), ..Range::default() };
        let mut bound: Option<Bound> = None;
        for next in bounds.into_iter().filter(|b| b.upper != down) {
            let better = match &bound {
                None => true,
                Some(b) => !b.poly.is_known() && next.poly.is_known(),
            };
            if better {
                bound = Some(next);
            }
        }
        for b in bound.iter().filter(|b| b.poly.is_known()) {
            self.seen.bounds.extend(b.poly.sizes());
        }
        if down {
            // What counts down from `first` (or, if the condition already counts, from one below it).
            let counted = condition.is_some_and(|c| counted_down(c, source).is_some());
            range.high = if counted { first.and_then(|f| f.plus_number(-1)) } else { first };
            // `i-- > 0` compares before it counts.
            let before = condition.is_some_and(|c| counted && counts_after(c, source));
            range.low = bound.map_or_else(
                || Some(Polynomial::default()),
                |b| b.poly.plus_number(if before { -1 } else { 0 }),
            );
            if let Some(high) = &range.high {
                self.seen.bounds.extend(high.sizes());
            }
            return range;
        }
        range.low = first;
        let Some(bound) = bound else { return range };
        let length = range.low.as_ref().and_then(|low| bound.poly.plus_number(1)?.minus(low));
        range.high = match (&movement.size, movement.by) {
            (Some(size), _) => bound.poly.plus_number(1).and_then(|end| end.minus(size)),
            (None, Some(step)) if step > 1 && !bound.ahead => {
                range.even = length.map(|l| (step, l));
                bound.poly.plus_number(1 - step)
            }
            _ => Some(bound.poly),
        };
        range
    }

    /// The bounds that a condition puts on the variable `number`.
    fn bounds(&mut self, node: Node<'_>, number: usize, down: bool, source: &str, found: &mut Vec<Bound>) {
        if !self.step() {
            return;
        }
        match node.kind() {
            "parenthesized_expression" | "condition_clause" => {
                for child in inside(node) {
                    self.bounds(child, number, down, source, found);
                }
            }
            "binary_expression" => {
                let (Some(left), Some(right)) = (field(node, "left"), field(node, "right")) else { return };
                let operator = field(node, "operator").map_or("", |o| text(o, source)).to_owned();
                if operator == "&&" {
                    self.bounds(left, number, down, source, found);
                    self.bounds(right, number, down, source, found);
                    return;
                }
                if !matches!(operator.as_str(), "<" | "<=" | ">" | ">=" | "!=") {
                    return;
                }
                let (Value::Integer(a), Value::Integer(b)) =
                    (self.expression(left, source), self.expression(right, source))
                else {
                    return;
                };
                found.extend(solve(&a, &b, &operator, number, down));
            }
            _ => {}
        }
    }
}

/// Solves `a op b` for a ranging symbol.
fn solve(a: &Polynomial, b: &Polynomial, operator: &str, number: usize, down: bool) -> Option<Bound> {
    let symbol = Symbol::Ranging(number);
    // Everything as `small < large` or `small <= large`.
    let (small, large, strict) = match operator {
        "<" => (a, b, true),
        "<=" => (a, b, false),
        ">" => (b, a, true),
        ">=" => (b, a, false),
        _ if down => (b, a, true),
        _ => (a, b, true),
    };
    let slack = large.minus(small)?.plus_number(if strict { -1 } else { 0 })?;
    let (coefficient, rest) = slack.linear_in(&symbol)?;
    let c = coefficient.constant()?;
    let ahead = a.minus(&symbol.into())?.constant().is_some_and(|k| k > 0);
    match c {
        0 => None,
        -1 => Some(Bound { poly: rest, upper: true, ahead }),
        1 => Some(Bound { poly: rest.times(&(-1).into())?, upper: false, ahead: false }),
        c if c < -1 && rest.is_known() => {
            let quotient = Symbol::Quotient(Box::new(rest), Box::new((-c).into()));
            Some(Bound { poly: quotient.into(), upper: true, ahead })
        }
        _ => None,
    }
}

/// `i-- > 0`, `n--`, `--i >= 0`: a condition that counts down itself.
fn counted_down(condition: Node<'_>, source: &str) -> Option<Move> {
    let mut found = None;
    crate::syntax::each(condition, &mut |n| {
        if n.kind() == "update_expression" && text(n, source).contains("--") {
            found = field(n, "argument").filter(|a| a.kind() == "identifier");
        }
        true
    });
    found.map(|n| Move { name: text(n, source).to_owned(), by: Some(-1), size: None })
}

fn counts_after(condition: Node<'_>, source: &str) -> bool {
    let mut after = false;
    crate::syntax::each(condition, &mut |n| {
        after |= n.kind() == "update_expression" && text(n, source).ends_with("--");
        true
    });
    after
}
