//! The adapter from the call struct to somebody's function.

use super::comment;
use crate::leaf::{Form, Kind, Leaf, Leaves, Passed};
use crate::plan::{Plan, Returned};
use crate::prototype::Prototype;
use crate::syntax::Language;
use crate::types::Scalar;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What an adapter is made of.
pub(crate) struct Adapter<'a> {
    pub(crate) problem: &'a str,
    pub(crate) prototype: &'a Prototype,
    pub(crate) leaves: &'a Leaves,
    pub(crate) plan: &'a Plan,
    pub(crate) language: Language,
    /// Elements that are not where the call has them: the expression for each leaf.
    pub(crate) moved: BTreeMap<usize, String>,
    /// Other spellings of types.
    pub(crate) retyped: &'a dyn Fn(&str) -> String,
}

impl Adapter<'_> {
    /// A type as the copy of the code knows it.
    fn spelled(&self, written: &str, scalar: Scalar) -> String {
        let mut words: Vec<&str> =
            written.split_whitespace().filter(|w| !matches!(*w, "const" | "volatile" | "register")).collect();
        words.retain(|w| !w.is_empty());
        let joined = words.join(" ");
        let substituted = self.prototype.substituted();
        let ty = match substituted.get(&joined) {
            Some(value) => value.clone(),
            // Names of a namespace are not known outside of it.
            None if self.prototype.name.contains("::") => scalar.spelling.to_owned(),
            None => joined,
        };
        (self.retyped)(&ty)
    }

    fn element_type(&self, leaf: &Leaf, scalar: Scalar, constant: bool) -> String {
        let written = self.written_of(leaf);
        let written = if matches!(leaf.kind, Kind::Elements { passed: Passed::Span, .. }) {
            scalar.spelling.to_owned()
        } else {
            written
        };
        let ty = self.spelled(&written, scalar);
        if constant { format!("const {ty}") } else { ty }
    }

    fn written_of(&self, leaf: &Leaf) -> String {
        let parameter = &self.prototype.parameters[leaf.parameter];
        if leaf.member.is_some() {
            // The member's own spelling is not at hand: its plain one is the same type.
            match &leaf.kind {
                Kind::Number(s) | Kind::Elements { scalar: s, .. } => s.spelling.to_owned(),
            }
        } else {
            parameter.written.clone()
        }
    }

    /// What is passed for a leaf.
    fn value(&self, index: usize) -> String {
        let leaf = &self.leaves.all[index];
        match &leaf.kind {
            Kind::Number(scalar) => {
                if leaf.member.is_some() {
                    return format!("call->{}", leaf.name);
                }
                format!("({})call->{}", self.spelled(&self.written_of(leaf), *scalar), leaf.name)
            }
            Kind::Elements { scalar, constant, extents, passed } => {
                let moved = self.moved.get(&index);
                let data = moved.cloned().unwrap_or_else(|| format!("call->{}.data", leaf.name));
                let ty = self.element_type(leaf, *scalar, *constant);
                match passed {
                    Passed::Pointer if leaf.member.is_some() => {
                        if self.language == Language::C {
                            data
                        } else {
                            format!("({ty} *){data}")
                        }
                    }
                    Passed::Pointer if extents.len() > 1 => {
                        if self.language == Language::C && moved.is_none() {
                            return data;
                        }
                        let rows: String = extents[1..]
                            .iter()
                            .map(|e| format!("[{}]", e.as_deref().unwrap_or("1")))
                            .collect();
                        let plain_extents =
                            extents[1..].iter().flatten().all(|e| e.bytes().all(|b| b.is_ascii_digit()));
                        if self.language == Language::C && !plain_extents {
                            // The extents are parameters, whose names mean nothing here; void * becomes any pointer.
                            format!("(void *){data}")
                        } else {
                            format!("({ty} (*){rows}){data}")
                        }
                    }
                    Passed::Pointer if moved.is_some() => data,
                    Passed::Pointer => format!("({ty} *){data}"),
                    Passed::Reference => format!("*({ty} *){data}"),
                    Passed::Span => {
                        format!("std::span<{ty}>(({ty} *){data}, (size_t)call->{}.shape[0])", leaf.name)
                    }
                }
            }
        }
    }

    /// Statements that make the structs.
    pub(crate) fn structs(&self) -> String {
        let mut out = String::new();
        for (form, parameter) in self.leaves.forms.iter().zip(&self.prototype.parameters) {
            let Form::Struct { written, leaves, .. } = form else { continue };
            let ty: Vec<&str> = written.split_whitespace().filter(|w| *w != "const").collect();
            let start = if self.language == Language::C { "= {0}" } else { "{}" };
            let _ = writeln!(out, "    {} {} {start};", ty.join(" "), parameter.name);
            for leaf in leaves {
                let member = self.leaves.all[*leaf].member.as_deref().unwrap_or_default();
                let value = self.value(*leaf);
                let value = match &self.leaves.all[*leaf].kind {
                    Kind::Number(s) if self.language != Language::C => {
                        format!("({}){value}", (self.retyped)(s.spelling))
                    }
                    _ => value,
                };
                let _ = writeln!(out, "    {}.{member} = {value};", parameter.name);
            }
        }
        out
    }

    /// What is passed, in order.
    pub(crate) fn arguments(&self) -> Vec<String> {
        self.leaves
            .forms
            .iter()
            .zip(&self.prototype.parameters)
            .map(|(form, parameter)| match form {
                Form::Leaf(index) => self.value(*index),
                Form::Struct { pointer, .. } => {
                    format!("{}{}", if *pointer { "&" } else { "" }, parameter.name)
                }
            })
            .collect()
    }

    /// The call itself.
    pub(crate) fn call(&self) -> String {
        self.call_with(&self.arguments())
    }

    /// The call with these arguments.
    pub(crate) fn call_with(&self, arguments: &[String]) -> String {
        let template: Vec<String> = self.prototype.template.iter().map(|(_, v)| (self.retyped)(v)).collect();
        let template = if template.is_empty() { String::new() } else { format!("<{}>", template.join(", ")) };
        format!("{}{template}({})", self.prototype.name, arguments.join(", "))
    }

    /// Calls and deals with what is returned; `after` comes between. The result is `rewrap`ped into its tensor.
    pub(crate) fn finish(&self, after: &str) -> String {
        let call = self.call();
        match self.plan.returned {
            Returned::Nothing | Returned::Dropped => format!("    {call};\n{after}    return KS_OK;\n"),
            Returned::Status => {
                let bool_like = self.prototype.returns.written.contains("bool")
                    || self.prototype.returns.written.contains("_Bool");
                let (good, why) =
                    if bool_like { ("", "true is success") } else { (" == 0", "zero is success") };
                format!(
                    "    /* CHECK the value that it returns is taken for a status: {why} */\n    const int good = {call}{good};\n{after}    return good ? KS_OK : KS_ERROR;\n"
                )
            }
            Returned::Element(scalar) => {
                let name = self.plan.tensors.last().map_or("result", |t| t.name.as_str());
                format!(
                    "    *({} *)call->{name}.data = ({}){call};\n{after}    return KS_OK;\n",
                    scalar.spelling, scalar.spelling
                )
            }
        }
    }
}

/// A source file: header, copy of the code, adapter.
pub(crate) fn seed(adapter: &Adapter<'_>, file: &str, code: &str) -> String {
    let problem = adapter.problem;
    let mut out = format!(
        "/* `{}` behind the call of `{problem}`: a copy of {}, and at the end the adapter. */\n{}#include \"{problem}.h\"\n",
        comment(&adapter.prototype.name),
        comment(file),
        features(code),
    );
    if adapter.language == Language::C && code.contains("bool") {
        out.push_str("#include <stdbool.h>\n");
    }
    let _ = writeln!(out, "\n{}\n", code.trim_matches('\n'));
    if adapter.language == Language::Cxx {
        // The header declares it with C linkage already.
        out.push_str("extern \"C\" ");
    }
    let _ = writeln!(out, "ks_status {problem}(const {problem}_call *call) {{");
    out.push_str(&adapter.structs());
    out.push_str(&adapter.finish(""));
    out.push_str("}\n");
    out
}

/// Feature macros must stand before the first header.
pub(crate) fn features(code: &str) -> String {
    let mut out = String::new();
    for line in code.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["#define", name, ..] = words.as_slice()
            && (matches!(*name, "_GNU_SOURCE" | "_DEFAULT_SOURCE" | "_USE_MATH_DEFINES")
                || name.starts_with("_POSIX_C_SOURCE")
                || name.starts_with("_XOPEN_SOURCE"))
        {
            let _ = writeln!(out, "{}", line.trim());
        }
    }
    out
}
