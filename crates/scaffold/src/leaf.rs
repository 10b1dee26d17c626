//! A prototype taken apart: every pointer and every number that a call passes, those in structs too.

use crate::prototype::Prototype;
use crate::syntax::{Language, Parsed};
use crate::types::{Base, Declared, Layer, Scalar, Types};
use kernelseek_core::diagnostic::Diagnostic;
use kernelseek_core::problem::{refuse_member, refuse_variable};

/// One pointer or number.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    /// Its name in the problem: a valid one, and no other leaf's.
    pub(crate) name: String,
    /// How the source writes it.
    pub(crate) written: String,
    /// Index of its parameter.
    pub(crate) parameter: usize,
    /// Its member, if the parameter is a struct.
    pub(crate) member: Option<String>,
    /// What it is.
    pub(crate) kind: Kind,
    /// The leaf that it is taken to equal: the same member of an earlier struct of the same type.
    pub(crate) same_as: Option<usize>,
}

/// What a leaf is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Points to elements.
    Elements {
        /// Element type.
        scalar: Scalar,
        /// Whether the callee may not write them.
        constant: bool,
        /// Extents that the declaration gives, outermost first; the first may be open.
        extents: Vec<Option<String>>,
        /// How it is passed.
        passed: Passed,
    },
    /// A number by value.
    Number(Scalar),
}

/// How elements are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// As a pointer.
    Pointer,
    /// As a reference to one element.
    Reference,
    /// As a `std::span`.
    Span,
}

/// How a parameter is put together from leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    /// It is a leaf.
    Leaf(usize),
    /// A struct, by its key and its leaves.
    Struct {
        /// Its type as it is written in the prototype.
        written: String,
        /// Key of the struct.
        key: String,
        /// Its leaves, in the order of its members.
        leaves: Vec<usize>,
        /// Whether the callee gets a pointer to it.
        pointer: bool,
    },
}

/// All leaves of a prototype.
#[derive(Debug, Clone, Default)]
pub(crate) struct Leaves {
    /// The leaves.
    pub(crate) all: Vec<Leaf>,
    /// How each parameter is made of them.
    pub(crate) forms: Vec<Form>,
}

const WRAP: &str = "write a function beside it that takes pointers, sizes and numbers and calls this one, and name \
                    that one with `--function`";

/// Takes a prototype apart.
///
/// # Errors
/// At the first parameter that cannot be expressed, with what to do about it.
pub(crate) fn leaves(
    file: &Parsed,
    prototype: &Prototype,
    types: &Types,
    language: Language,
) -> Result<Leaves, Box<Diagnostic>> {
    let substituted = prototype.substituted();
    let mut out = Leaves::default();
    let refuse = |declared: &Declared, message: String, hint: &str| {
        Box::new(
            file.error(declared.span.clone(), format!("parameter `{}`: {message}", declared.name))
                .with_hint(hint),
        )
    };
    for (index, parameter) in prototype.parameters.iter().enumerate() {
        if let Base::Struct(key) = &parameter.base {
            let pointer = match parameter.layers.as_slice() {
                [] | [Layer::Reference] => false,
                [Layer::Pointer] => true,
                _ => return Err(refuse(parameter, "an array of structs".to_owned(), WRAP)),
            };
            let mut indices = Vec::new();
            for member in types.members(key, &substituted) {
                let kind = kind(&member, language).map_err(|(message, hint)| {
                    let message = format!("its member `{}`: {message}", member.name);
                    refuse(parameter, message, hint)
                })?;
                if let Kind::Elements { extents, .. } = &kind
                    && member.layers.iter().any(|l| matches!(l, Layer::Array(_)))
                {
                    let shown: Vec<&str> = extents.iter().flatten().map(String::as_str).collect();
                    let message = format!(
                        "its member `{}` is an array [{}] inside the struct",
                        member.name,
                        shown.join("][")
                    );
                    return Err(refuse(parameter, message, WRAP));
                }
                let same_as = out.all.iter().position(|l: &Leaf| {
                    l.same_as.is_none()
                        && l.member.as_deref() == Some(&member.name)
                        && matches!(kind, Kind::Number(_))
                        && prototype.parameters[l.parameter].base == parameter.base
                });
                indices.push(out.all.len());
                out.all.push(Leaf {
                    name: member.name.clone(),
                    written: format!("{}{}{}", parameter.name, if pointer { "->" } else { "." }, member.name),
                    parameter: index,
                    member: Some(member.name),
                    kind,
                    same_as,
                });
            }
            if indices.is_empty() {
                return Err(refuse(
                    parameter,
                    format!("struct `{key}` has no members that can be read"),
                    WRAP,
                ));
            }
            let written = parameter.written.clone();
            out.forms.push(Form::Struct { written, key: key.clone(), leaves: indices, pointer });
            continue;
        }
        let kind = kind(parameter, language).map_err(|(message, hint)| refuse(parameter, message, hint))?;
        out.forms.push(Form::Leaf(out.all.len()));
        out.all.push(Leaf {
            name: parameter.name.clone(),
            written: parameter.name.clone(),
            parameter: index,
            member: None,
            kind,
            same_as: None,
        });
    }
    name(&mut out, prototype);
    Ok(out)
}

fn kind(declared: &Declared, language: Language) -> Result<Kind, (String, &'static str)> {
    let mut layers = declared.layers.as_slice();
    if layers.contains(&Layer::Function) {
        return Err(("a function pointer has no place in a call".to_owned(), WRAP));
    }
    let scalar = match &declared.base {
        Base::Scalar(scalar) => *scalar,
        Base::Span(scalar, constant) => {
            return match layers {
                [] | [Layer::Reference] => Ok(Kind::Elements {
                    scalar: *scalar,
                    constant: *constant,
                    extents: vec![None],
                    passed: Passed::Span,
                }),
                _ => Err(("a pointer to a std::span".to_owned(), WRAP)),
            };
        }
        Base::Void => {
            return Err((
                "`void *` does not say what it points to".to_owned(),
                "give it the type of its elements, or write a function that does and calls this one",
            ));
        }
        Base::Struct(_) => return Err(("a struct inside a struct".to_owned(), WRAP)),
        Base::Other(other) if other.contains("vector") => {
            return Err((
                format!(
                    "`{other}`: a std::vector owns its elements, and those of a call belong to the evaluator"
                ),
                "take a std::span (or a pointer and a size) instead, here or in a function that calls this one with \
                 copies",
            ));
        }
        Base::Other(other) if other == "FILE" => {
            return Err((
                "a `FILE *` has no place in a call: a kernel reads and writes tensors".to_owned(),
                WRAP,
            ));
        }
        Base::Other(other) if language == Language::Cxx && other == "auto" => {
            return Err(("`auto` is a template in disguise".to_owned(), WRAP));
        }
        Base::Other(other) => {
            return Err((
                format!("the type `{other}` is neither a number nor a struct whose members can be read"),
                "a typedef or struct is found in the file itself and in the local headers that it includes",
            ));
        }
    };
    if matches!(layers, [Layer::Reference]) && declared.constant {
        layers = &[];
    }
    if layers.is_empty() {
        return Ok(Kind::Number(scalar));
    }
    if matches!(layers, [Layer::Reference]) {
        let extents = vec![Some("1".to_owned())];
        return Ok(Kind::Elements { scalar, constant: false, extents, passed: Passed::Reference });
    }
    if layers.first() == Some(&Layer::Reference) {
        layers = &layers[1..];
    }
    let mut extents = Vec::new();
    for (index, layer) in layers.iter().enumerate() {
        match layer {
            Layer::Pointer if index == 0 => extents.push(None),
            Layer::Array(extent) if index == 0 || extent.is_some() => extents.push(extent.clone()),
            Layer::Pointer => {
                return Err((
                    "a pointer to pointers: rows that lie anywhere are no tensor".to_owned(),
                    "take one pointer and a row length, here or in a function that builds the row pointers and calls \
                     this one",
                ));
            }
            _ => return Err(("a declarator that cannot be read".to_owned(), WRAP)),
        }
    }
    Ok(Kind::Elements { scalar, constant: declared.constant, extents, passed: Passed::Pointer })
}

/// Gives every leaf a name that problem files accept and that no other has.
fn name(leaves: &mut Leaves, prototype: &Prototype) {
    let wanted: Vec<String> = leaves.all.iter().map(|l| l.name.clone()).collect();
    let mut taken: Vec<String> = Vec::new();
    for index in 0..leaves.all.len() {
        if leaves.all[index].same_as.is_some() {
            continue;
        }
        let leaf = &leaves.all[index];
        let twice =
            wanted.iter().zip(&leaves.all).filter(|(w, l)| **w == leaf.name && l.same_as.is_none()).count()
                > 1;
        let owner = &prototype.parameters[leaf.parameter].name;
        let base =
            if twice && leaf.member.is_some() { format!("{owner}_{}", leaf.name) } else { leaf.name.clone() };
        let variable = matches!(leaf.kind, Kind::Number(_));
        leaves.all[index].name = fit(&base, variable, &taken);
        taken.push(leaves.all[index].name.clone());
    }
    for index in 0..leaves.all.len() {
        if let Some(first) = leaves.all[index].same_as {
            leaves.all[index].name = leaves.all[first].name.clone();
        }
    }
}

/// `wanted`, or something like it that is allowed and free.
pub(crate) fn fit(wanted: &str, variable: bool, taken: &[String]) -> String {
    let mut plain: String =
        wanted.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').take(40).collect();
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    plain = plain.trim_matches('_').to_owned();
    if !plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
        plain = format!("a{plain}");
    }
    let free = |name: &str| {
        refuse_member(name).is_none()
            && !(variable && refuse_variable(name).is_some())
            && !taken.iter().any(|t| t == name)
    };
    if free(&plain) {
        return plain;
    }
    let stem = if plain.to_lowercase().starts_with("ks_") { format!("a_{plain}") } else { plain.clone() };
    std::iter::once(stem.clone())
        .chain(
            (0..=taken.len()).map(|n| if n == 0 { format!("{stem}_arg") } else { format!("{stem}_arg{n}") }),
        )
        .find(|name| free(name))
        .unwrap_or(plain)
}
