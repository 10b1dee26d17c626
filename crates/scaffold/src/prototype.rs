//! Which functions a file defines, and the prototype of the chosen one.

use crate::syntax::{Language, Parsed, children, each, field, has_word, text};
use crate::types::{Declared, Types, peel};
use kernelseek_core::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::ops::Range;
use tree_sitter::Node;

/// A function definition that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Name, with its namespaces.
    pub(crate) name: String,
    /// 1-based line.
    pub(crate) line: usize,
    /// Place of its name.
    pub(crate) span: Range<usize>,
    /// Whether other files can see it.
    pub(crate) visible: bool,
    /// Place of the whole definition.
    pub(crate) whole: Range<usize>,
}

/// A parameter of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateParameter {
    /// Name.
    pub(crate) name: String,
    /// Whether it stands for a type.
    pub(crate) is_type: bool,
    /// What it is unless somebody says otherwise.
    pub(crate) default: Option<String>,
}

/// The prototype of a function.
#[derive(Debug, Clone)]
pub(crate) struct Prototype {
    /// Name, with its namespaces.
    pub(crate) name: String,
    /// 1-based line of the name.
    pub(crate) line: usize,
    /// Place of the name.
    pub(crate) span: Range<usize>,
    /// Place of the whole definition.
    pub(crate) whole: Range<usize>,
    /// What it returns.
    pub(crate) returns: Declared,
    /// Its parameters, in order.
    pub(crate) parameters: Vec<Declared>,
    /// Its template parameters with what they stand for, in order; empty if it is no template.
    pub(crate) template: Vec<(TemplateParameter, String)>,
}

impl Prototype {
    /// The name without namespaces.
    #[must_use]
    pub(crate) fn short_name(&self) -> &str {
        self.name.rsplit("::").next().unwrap_or(&self.name)
    }
    /// What template parameters stand for.
    #[must_use]
    pub(crate) fn substituted(&self) -> BTreeMap<String, String> {
        self.template.iter().map(|(p, value)| (p.name.clone(), value.clone())).collect()
    }
}

/// Every function with a body in the file itself, in order.
#[must_use]
pub(crate) fn functions(file: &Parsed) -> Vec<Found> {
    let source = file.text();
    let mut found = Vec::new();
    each(file.root(), &mut |node| {
        if node.kind() == "function_definition" {
            found.extend(describe(file, node, source));
            return false;
        }
        // Methods belong to their class.
        !matches!(node.kind(), "class_specifier" | "struct_specifier" | "union_specifier")
    });
    found
}

fn describe(file: &Parsed, node: Node<'_>, source: &str) -> Option<Found> {
    let declarator = field(node, "declarator")?;
    field(node, "body")?;
    let (name, _, span) = peel(declarator, source);
    if name.is_empty() || name.contains("operator") {
        return None;
    }
    let hidden = children(node).iter().any(|c| {
        c.kind() == "storage_class_specifier"
            && matches!(text(*c, source), "static" | "inline" | "__inline__" | "__inline" | "__forceinline")
    });
    let (mut namespaces, mut anonymous, mut up) = (Vec::new(), false, node.parent());
    while let Some(parent) = up {
        if parent.kind() == "namespace_definition" {
            match field(parent, "name") {
                Some(name) => namespaces.push(text(name, source).to_owned()),
                None => anonymous = true,
            }
        }
        up = parent.parent();
    }
    namespaces.reverse();
    namespaces.push(name.clone());
    let visible = !hidden && !anonymous && name != "main" && !name.contains("::");
    Some(Found {
        name: namespaces.join("::"),
        line: file.line(span.start),
        span,
        visible,
        whole: node.byte_range(),
    })
}

/// Chooses a function: by `NAME` or `NAME:LINE`, or the only one that other files can see. Of several, the only one
/// that no other calls; the names of those that it was preferred to come with it.
///
/// # Errors
/// When there is none, several, or the wanted one is missing; the message lists what there is.
pub(crate) fn choose(
    file: &Parsed,
    wanted: Option<&str>,
) -> Result<(Found, Option<String>), Box<Diagnostic>> {
    let all = functions(file);
    let name = file.source.name();
    if let Some(wanted) = wanted {
        let (function, line) = match wanted.rsplit_once(':') {
            Some((function, line)) if !function.ends_with(':') => (function, line.parse::<usize>().ok()),
            _ => (wanted, None),
        };
        let fits: Vec<&Found> = all
            .iter()
            .filter(|f| f.name == function || f.name.rsplit("::").next() == Some(function))
            .filter(|f| line.is_none_or(|l| l == f.line))
            .collect();
        return match fits.as_slice() {
            [one] => Ok(((*one).clone(), None)),
            [] => {
                Err(Box::new(nothing(file, &all, &format!("no function `{wanted}` with a body in {name}"))))
            }
            [first, ..] => {
                let hint = format!(
                    "choose one by its line: {}",
                    fits.iter()
                        .map(|f| format!("--function {}:{}", f.name, f.line))
                        .collect::<Vec<_>>()
                        .join(", ")
                );
                let message = format!("{} functions are called `{function}`", fits.len());
                Err(Box::new(file.error(first.span.clone(), message).with_hint(hint)))
            }
        };
    }
    let visible: Vec<&Found> = all.iter().filter(|f| f.visible).collect();
    match visible.as_slice() {
        [one] => Ok(((*one).clone(), None)),
        [] => Err(Box::new(nothing(file, &all, &format!("no function that other files can call in {name}")))),
        [first, ..] => {
            let tops: Vec<&Found> = visible.iter().copied().filter(|f| !called(file, &all, f)).collect();
            if let [top] = tops.as_slice() {
                let others: Vec<String> =
                    visible.iter().filter(|f| f != &top).map(|f| format!("`{}`", f.name)).collect();
                return Ok(((*top).clone(), Some(others.join(", "))));
            }
            let message = format!("{} functions could be the kernel: {}", visible.len(), list(&visible));
            let hint = format!("choose one with `--function NAME`, for instance `--function {}`", first.name);
            Err(Box::new(file.error(first.span.clone(), message).with_hint(hint)))
        }
    }
}

/// Whether another function of the file than `main` calls it.
fn called(file: &Parsed, all: &[Found], function: &Found) -> bool {
    let source = file.text();
    let short = function.name.rsplit("::").next().unwrap_or(&function.name);
    let callers = all.iter().filter(|f| f.name != "main" && f.whole != function.whole);
    callers.filter_map(|f| node_of(file, &f.whole)).any(|definition| {
        let mut found = false;
        each(definition, &mut |node| {
            found |= node.kind() == "call_expression"
                && field(node, "function").is_some_and(|f| {
                    let name = text(f, source);
                    let bare = name.split('<').next().unwrap_or(name);
                    bare.rsplit("::").next() == Some(short)
                });
            !found
        });
        found
    })
}

fn list(functions: &[&Found]) -> String {
    let shown: Vec<String> =
        functions.iter().take(12).map(|f| format!("{} (line {})", f.name, f.line)).collect();
    let more = functions.len().saturating_sub(12);
    if more > 0 { format!("{}, and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

fn nothing(file: &Parsed, all: &[Found], message: &str) -> Diagnostic {
    if let Some(span) = Parsed::first_error(file.root())
        && all.is_empty()
    {
        return file
            .error(span, format!("{message}: it has a syntax error"))
            .with_hint("the compiler's own message says more: mend it first");
    }
    let all: Vec<&Found> = all.iter().filter(|f| f.name != "main").collect();
    let hint = if all.is_empty() {
        "name the .c or .cc file that holds the function's body".to_owned()
    } else {
        format!("with a body there are: {}; choose with `--function NAME`", list(&all))
    };
    file.error(0..0, message).with_hint(hint)
}

/// The node of a definition.
pub(crate) fn node_of<'t>(file: &'t Parsed, whole: &Range<usize>) -> Option<Node<'t>> {
    let mut node =
        file.root().descendant_for_byte_range(whole.start, whole.end.saturating_sub(1).max(whole.start))?;
    while node.kind() != "function_definition" || node.byte_range() != *whole {
        node = node.parent()?;
    }
    Some(node)
}

/// The function declarator inside a definition's declarator, and the layers around it (those of the returned type).
pub(crate) fn signature<'t>(definition: Node<'t>) -> Option<Node<'t>> {
    let mut node = field(definition, "declarator")?;
    for _ in 0..32 {
        if node.kind() == "function_declarator" {
            return Some(node);
        }
        node = field(node, "declarator")
            .or_else(|| children(node).into_iter().find(|c| c.kind().ends_with("declarator")))?;
    }
    None
}

/// Reads the prototype of a function that was found. `chosen` says what template parameters stand for.
///
/// # Errors
/// When a template parameter has no value, or the definition holds a syntax error.
pub(crate) fn prototype(
    file: &Parsed,
    found: &Found,
    types: &Types,
    language: Language,
    chosen: &BTreeMap<String, String>,
) -> Result<Prototype, Box<Diagnostic>> {
    let source = file.text();
    let broken = || {
        Box::new(file.error(found.span.clone(), format!("the definition of `{}` cannot be read", found.name)))
    };
    let node = node_of(file, &found.whole).ok_or_else(broken)?;
    if language != Language::Cuda
        && let Some(at) = source.find("__global__").or_else(|| source.find("__device__"))
    {
        return Err(Box::new(
            file.error(at..at + "__global__".len(), "CUDA in a file that is C or C++ by its name")
                .with_hint("end its name in .cu"),
        ));
    }
    if let Some(span) = Parsed::first_error(node) {
        let message = format!("a syntax error in `{}`", found.name);
        return Err(Box::new(
            file.error(span, message)
                .with_hint("mend it, or put macros that are no C by themselves into plain words in a copy"),
        ));
    }
    let template = template(file, node, found, chosen)?;
    if let Some(unknown) = chosen.keys().find(|k| !template.iter().any(|(p, _)| p.name == **k)) {
        let message = format!("`{}` has no template parameter `{unknown}`", found.name);
        return Err(Box::new(file.error(found.span.clone(), message).with_hint("leave `--type` away")));
    }
    if language == Language::C && !template.is_empty() {
        return Err(Box::new(
            file.error(found.span.clone(), "a template in a C file").with_hint("end its name in .cc"),
        ));
    }
    let substituted: BTreeMap<String, String> =
        template.iter().map(|(p, v)| (p.name.clone(), v.clone())).collect();
    let signature = signature(node).ok_or_else(broken)?;
    let mut returns = types.declared(node, field(node, "declarator"), source, &substituted);
    // The layers from the name outwards begin with the function itself.
    if !returns.layers.is_empty() {
        returns.layers.remove(0);
    }
    if field(signature, "parameters").is_some_and(|list| has_word(list, source, "...")) {
        return Err(Box::new(
            file.error(signature.byte_range(), "a function with variable arguments")
                .with_hint("write a function with the arguments that you use, and name it with `--function`"),
        ));
    }
    let mut parameters = Vec::new();
    for (index, parameter) in
        children(field(signature, "parameters").ok_or_else(broken)?).into_iter().enumerate()
    {
        match parameter.kind() {
            "parameter_declaration" | "optional_parameter_declaration" => {
                let mut one = types.declared(parameter, field(parameter, "declarator"), source, &substituted);
                if one.name.is_empty() {
                    if one.base == crate::types::Base::Void && one.layers.is_empty() {
                        continue;
                    }
                    one.name = format!("argument{}", index + 1);
                }
                parameters.push(one);
            }
            _ => {
                let message = format!("a parameter that is not a plain one: `{}`", text(parameter, source));
                return Err(Box::new(file.error(parameter.byte_range(), message).with_hint(
                    "write a function with pointers and sizes that calls this one, and name it with `--function`",
                )));
            }
        }
    }
    Ok(Prototype {
        name: found.name.clone(),
        line: found.line,
        span: found.span.clone(),
        whole: found.whole.clone(),
        returns,
        parameters,
        template,
    })
}

fn template(
    file: &Parsed,
    node: Node<'_>,
    found: &Found,
    chosen: &BTreeMap<String, String>,
) -> Result<Vec<(TemplateParameter, String)>, Box<Diagnostic>> {
    let source = file.text();
    let Some(list) =
        node.parent().filter(|p| p.kind() == "template_declaration").and_then(|p| field(p, "parameters"))
    else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for one in children(list) {
        let kind = one.kind();
        let is_type = matches!(kind, "type_parameter_declaration" | "optional_type_parameter_declaration");
        let name = if is_type {
            field(one, "name").or_else(|| children(one).into_iter().find(|c| c.kind() == "type_identifier"))
        } else {
            field(one, "declarator").filter(|d| d.kind() == "identifier")
        };
        let default = field(one, "default_type").or_else(|| field(one, "default_value"));
        let default = default.map(|d| text(d, source).to_owned());
        let Some(name) = name.map(|n| text(n, source).to_owned()) else {
            let message = format!("a template parameter that cannot be chosen: `{}`", text(one, source));
            return Err(Box::new(file.error(one.byte_range(), message).with_hint(
                "write a plain function that calls the template as you use it, and name it with `--function`",
            )));
        };
        let value = match (chosen.get(&name), &default, is_type) {
            (Some(value), _, _) => value.clone(),
            (None, Some(value), _) => value.clone(),
            (None, None, true) => "float".to_owned(),
            (None, None, false) => {
                let message = format!("`{}` needs a value for its template parameter `{name}`", found.name);
                return Err(Box::new(
                    file.error(one.byte_range(), message).with_hint(format!("say `--type {name}=VALUE`")),
                ));
            }
        };
        all.push((TemplateParameter { name, is_type, default }, value));
    }
    Ok(all)
}
