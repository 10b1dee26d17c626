//! Checks a parsed expression and prepares it for bounded evaluation.

use super::{Fault, functions};
use crate::diagnostic::suggestion;
use cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};
use std::collections::BTreeSet;
use std::ops::Range;

/// Deepest syntax tree. The library evaluates recursively, with large frames in an unoptimised build.
const DEEPEST_TREE: usize = 100;

const OPERATORS: [&str; 17] = [
    operators::CONDITIONAL,
    operators::LOGICAL_AND,
    operators::LOGICAL_OR,
    operators::LOGICAL_NOT,
    operators::SUBSTRACT,
    operators::ADD,
    operators::MULTIPLY,
    operators::DIVIDE,
    operators::MODULO,
    operators::EQUALS,
    operators::NOT_EQUALS,
    operators::GREATER_EQUALS,
    operators::LESS_EQUALS,
    operators::GREATER,
    operators::LESS,
    operators::NEGATE,
    operators::INDEX,
];

pub(super) struct Checked {
    pub(super) tree: IdedExpr,
    pub(super) names: BTreeSet<String>,
}

/// Refuses what the expression language leaves out, collects the variables, and passes every variable and
/// comprehension through the budget.
pub(super) fn check(tree: IdedExpr, text: &str) -> Result<Checked, Fault> {
    if depth(&tree, DEEPEST_TREE).is_none() {
        return Err(Fault::new(0..text.len(), format!("more than {DEEPEST_TREE} operations nested"))
            .with_hint(Some("move parts of it to [let]".into())));
    }
    let mut walk = Walk { text, names: BTreeSet::new(), bound: Vec::new() };
    let tree = walk.node(tree)?;
    Ok(Checked { tree, names: walk.names })
}

/// Height of the tree, or `None` if it is more than `limit`.
fn depth(node: &IdedExpr, limit: usize) -> Option<usize> {
    let limit = limit.checked_sub(1)?;
    let mut deepest = 0;
    for child in children(node) {
        deepest = deepest.max(depth(child, limit)?);
    }
    Some(deepest + 1)
}

fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(c) => {
            vec![&c.iter_range, &c.accu_init, &c.loop_cond, &c.loop_step, &c.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
        Expr::Struct(s) => s.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
    }
}

fn entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn node_count(node: &IdedExpr) -> i64 {
    1 + children(node).into_iter().map(node_count).sum::<i64>()
}

struct Walk<'a> {
    text: &'a str,
    names: BTreeSet<String>,
    bound: Vec<String>,
}

impl Walk<'_> {
    fn whole(&self) -> Range<usize> {
        0..self.text.len()
    }

    fn nodes(&mut self, nodes: Vec<IdedExpr>) -> Result<Vec<IdedExpr>, Fault> {
        nodes.into_iter().map(|n| self.node(n)).collect()
    }

    fn node(&mut self, node: IdedExpr) -> Result<IdedExpr, Fault> {
        let id = node.id;
        let expr = match node.expr {
            Expr::Unspecified => return Err(Fault::new(self.whole(), "an incomplete expression")),
            Expr::Ident(name) if name.starts_with('@') => Expr::Ident(name),
            Expr::Ident(name) => {
                if !self.bound.contains(&name) {
                    self.names.insert(name.clone());
                }
                charged(functions::READ, vec![IdedExpr { id, expr: Expr::Ident(name) }])
            }
            Expr::Call(call) => Expr::Call(self.call(call)?),
            Expr::Comprehension(mut c) => {
                if c.iter_var2.is_some() {
                    return Err(Fault::new(self.whole(), "two loop variables are not supported"));
                }
                let body = node_count(&c.loop_step);
                let range = self.node(c.iter_range)?;
                let body = IdedExpr { id, expr: Expr::Literal(LiteralValue::Int(body.into())) };
                c.iter_range = IdedExpr { id, expr: charged(functions::LOOP, vec![range, body]) };
                c.accu_init = self.node(c.accu_init)?;
                self.bound.push(c.iter_var.clone());
                let inner = self.loop_body(&mut c.loop_cond, &mut c.loop_step, &mut c.result);
                self.bound.pop();
                inner?;
                Expr::Comprehension(c)
            }
            Expr::List(mut list) => {
                list.elements = self.nodes(list.elements)?;
                Expr::List(list)
            }
            Expr::Map(mut map) => {
                for e in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut e.expr {
                        entry.key = self.node(std::mem::take(&mut entry.key))?;
                        entry.value = self.node(std::mem::take(&mut entry.value))?;
                    } else {
                        return Err(Fault::new(self.whole(), "a malformed map"));
                    }
                }
                Expr::Map(map)
            }
            Expr::Literal(LiteralValue::UInt(_) | LiteralValue::Bytes(_)) => {
                return Err(Fault::new(self.whole(), "unsigned and bytes literals are not supported"));
            }
            Expr::Literal(literal) => Expr::Literal(literal),
            Expr::Select(select) => {
                let at = find_name(self.text, &select.field, false);
                return Err(Fault::new(at, format!("`.{}`: values have no fields", select.field)));
            }
            Expr::Struct(s) => {
                let at = find_name(self.text, &s.type_name, false);
                return Err(Fault::new(at, "messages are not supported"));
            }
        };
        Ok(IdedExpr { id, expr })
    }

    fn loop_body(
        &mut self,
        cond: &mut IdedExpr,
        step: &mut IdedExpr,
        result: &mut IdedExpr,
    ) -> Result<(), Fault> {
        for part in [cond, step, result] {
            *part = self.node(std::mem::take(part))?;
        }
        Ok(())
    }

    fn call(&mut self, mut call: CallExpr) -> Result<CallExpr, Fault> {
        let name = call.func_name.as_str();
        let operator =
            OPERATORS.contains(&name) || name == operators::IN || name == operators::NOT_STRICTLY_FALSE;
        if !operator && !functions::is_known(name, call.target.is_some()) {
            let at = find_name(self.text, name, true);
            let fault = if functions::is_known(name, call.target.is_none()) {
                let how = if call.target.is_some() { format!("{name}(x)") } else { format!("x.{name}(y)") };
                Fault::new(at, format!("`{name}` is called as `{how}`"))
            } else {
                Fault::new(at, format!("unknown function `{name}`"))
                    .with_hint(suggestion(name, functions::names()))
            };
            return Err(fault);
        }
        if let Some(target) = call.target.take() {
            call.target = Some(Box::new(self.node(*target)?));
        }
        call.args = self.nodes(call.args)?;
        Ok(call)
    }
}

fn charged(function: &str, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args })
}

/// Byte range of the first identifier `name` outside string literals, called if `called`; everything if there
/// is none.
pub(super) fn find_name(text: &str, name: &str, called: bool) -> Range<usize> {
    let mut quote = None;
    let mut escaped = false;
    let mut skip_until = 0;
    for (i, c) in text.char_indices() {
        if i < skip_until {
            continue;
        }
        match quote {
            Some(q) => {
                if c == q && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped;
            }
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                escaped = false;
            }
            None if c.is_ascii_alphabetic() || c == '_' => {
                let rest = &text[i..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
                let followed = rest[end..].trim_start().starts_with('(');
                if &rest[..end] == name && (!called || followed) {
                    return i..i + end;
                }
                skip_until = i + end;
            }
            None => {}
        }
    }
    0..text.len()
}

/// The parser's message as a fragment.
pub(super) fn plain_syntax_error(message: &str) -> String {
    let message = message.trim().trim_start_matches("Syntax error: ");
    let message: String = message.chars().take(120).collect();
    format!("not an expression: {}", message.replace("<EOF>", "the end"))
}
