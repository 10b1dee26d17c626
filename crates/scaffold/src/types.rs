//! What names of types stand for.

use crate::syntax::{children, each, field, has_word, text};
use kernelseek_core::dtype::DType;
use std::collections::BTreeMap;
use std::ops::Range;
use tree_sitter::Node;

/// A scalar type of C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scalar {
    /// How its elements are declared in a problem.
    pub(crate) dtype: DType,
    /// Its plain spelling in C and C++.
    pub(crate) spelling: &'static str,
    /// Whether the dtype has its size but not its sign.
    pub(crate) reinterpreted: bool,
}

const fn scalar(dtype: DType, spelling: &'static str) -> Scalar {
    Scalar { dtype, spelling, reinterpreted: false }
}

const fn unsigned(dtype: DType, spelling: &'static str) -> Scalar {
    Scalar { dtype, spelling, reinterpreted: true }
}

impl Scalar {
    /// A scalar by the name of its type, typedefs aside.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<Self> {
        let mut words: Vec<&str> = name.split_whitespace().collect();
        words.sort_unstable();
        Some(match words.as_slice() {
            ["float" | "float32_t"] => scalar(DType::F32, "float"),
            ["double" | "float64_t"] => scalar(DType::F64, "double"),
            ["_Float16" | "__fp16" | "half" | "float16_t"] => scalar(DType::F16, "_Float16"),
            ["__half"] => scalar(DType::F16, "__half"),
            ["__nv_bfloat16" | "nv_bfloat16"] => scalar(DType::Bf16, "__nv_bfloat16"),
            ["__bf16" | "bfloat16" | "bfloat16_t"] => scalar(DType::Bf16, "__bf16"),
            ["char"] | ["char", "signed"] | ["int8_t"] => scalar(DType::I8, "int8_t"),
            ["char", "unsigned"] | ["uint8_t" | "uchar" | "byte"] => scalar(DType::U8, "uint8_t"),
            ["short"] | ["int", "short"] | ["int16_t"] | ["short", "signed"] => scalar(DType::I16, "int16_t"),
            ["short", "unsigned"] | ["int", "short", "unsigned"] | ["uint16_t" | "ushort"] => {
                unsigned(DType::I16, "uint16_t")
            }
            ["int" | "int32_t" | "signed"] | ["int", "signed"] => scalar(DType::I32, "int32_t"),
            ["unsigned" | "uint32_t" | "uint"] | ["int", "unsigned"] => unsigned(DType::I32, "uint32_t"),
            ["long" | "int64_t" | "ptrdiff_t" | "ssize_t" | "intptr_t"]
            | ["int", "long"]
            | ["long", "long"]
            | ["int", "long", "long"]
            | ["long", "signed"] => scalar(DType::I64, "int64_t"),
            ["size_t" | "uint64_t" | "uintptr_t" | "ulong"]
            | ["long", "unsigned"]
            | ["int", "long", "unsigned"]
            | ["long", "long", "unsigned"]
            | ["int", "long", "long", "unsigned"] => unsigned(DType::I64, "uint64_t"),
            ["bool" | "_Bool"] => scalar(DType::Bool, "bool"),
            _ => return None,
        })
    }
}

/// What a declarator puts around its base type, from the name outwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Layer {
    /// `*`
    Pointer,
    /// `[…]`, with the text of its extent.
    Array(Option<String>),
    /// `&`
    Reference,
    /// `(…)`
    Function,
}

/// A base type with the layers of the typedefs that it was behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Base {
    /// A number.
    Scalar(Scalar),
    /// `void`.
    Void,
    /// A struct whose members are known, by its key in [`Types::structs`].
    Struct(String),
    /// `std::span` of this type; the flag says whether its elements are const.
    Span(Scalar, bool),
    /// Anything else, as it is written.
    Other(String),
}

/// A declared name.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    /// The name; empty if it has none.
    pub(crate) name: String,
    /// Place of the declaration.
    pub(crate) span: Range<usize>,
    /// Type as it is written, without declarator.
    pub(crate) written: String,
    /// What that is.
    pub(crate) base: Base,
    /// What is around it.
    pub(crate) layers: Vec<Layer>,
    /// Whether the base type is const.
    pub(crate) constant: bool,
}

#[derive(Debug, Clone)]
struct Alias {
    written: String,
    layers: Vec<Layer>,
    constant: bool,
}

#[derive(Debug, Clone)]
struct RawMember {
    written: String,
    constant: bool,
    name: String,
    layers: Vec<Layer>,
    span: Range<usize>,
}

/// A macro with parameters.
#[derive(Debug, Clone)]
pub(crate) struct Macro {
    pub(crate) parameters: Vec<String>,
    pub(crate) body: String,
}

/// Typedefs, structs, enumerators and macros of all files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Types {
    aliases: BTreeMap<String, Alias>,
    structs: BTreeMap<String, Vec<RawMember>>,
    /// Names whose value is written down: object-like macros, enumerators, constants at file level.
    pub(crate) values: BTreeMap<String, String>,
    pub(crate) macros: BTreeMap<String, Macro>,
}

impl Types {
    /// Adds everything that a file declares. An earlier file's word goes before a later one's.
    pub(crate) fn read(&mut self, root: Node<'_>, source: &str) {
        each(root, &mut |node| {
            match node.kind() {
                "type_definition" => self.typedef(node, source),
                "alias_declaration" => {
                    if let (Some(name), Some(ty)) = (field(node, "name"), field(node, "type")) {
                        let alias = Alias {
                            written: text(ty, source).to_owned(),
                            layers: Vec::new(),
                            constant: has_word(ty, source, "const"),
                        };
                        self.aliases.entry(text(name, source).to_owned()).or_insert(alias);
                    }
                }
                "struct_specifier" | "class_specifier" => {
                    if let (Some(name), Some(body)) = (field(node, "name"), field(node, "body")) {
                        let members = members(body, source);
                        self.structs.entry(text(name, source).to_owned()).or_insert(members);
                    }
                }
                "preproc_def" => {
                    if let (Some(name), Some(value)) = (field(node, "name"), field(node, "value")) {
                        let value = text(value, source).trim().to_owned();
                        self.values.entry(text(name, source).to_owned()).or_insert(value);
                    }
                }
                "preproc_function_def" => {
                    if let (Some(name), Some(parameters), Some(value)) =
                        (field(node, "name"), field(node, "parameters"), field(node, "value"))
                    {
                        let parameters =
                            children(parameters).into_iter().map(|p| text(p, source).to_owned()).collect();
                        let body = text(value, source).replace("\\\n", " ").trim().to_owned();
                        self.macros
                            .entry(text(name, source).to_owned())
                            .or_insert(Macro { parameters, body });
                    }
                }
                "enumerator" => {
                    if let (Some(name), Some(value)) = (field(node, "name"), field(node, "value")) {
                        self.values
                            .entry(text(name, source).to_owned())
                            .or_insert_with(|| text(value, source).to_owned());
                    }
                }
                "declaration"
                    if node
                        .parent()
                        .is_some_and(|p| matches!(p.kind(), "translation_unit" | "declaration_list")) =>
                {
                    self.constants(node, source);
                }
                "compound_statement" => return false,
                _ => {}
            }
            true
        });
    }

    /// `static const int TILE = 32;`, `constexpr int K = 3;`, in a namespace or not.
    fn constants(&mut self, node: Node<'_>, source: &str) {
        let fixed = children(node)
            .iter()
            .any(|c| c.kind() == "type_qualifier" && matches!(text(*c, source), "const" | "constexpr"));
        if !fixed {
            return;
        }
        for declarator in children(node).into_iter().filter(|c| c.kind() == "init_declarator") {
            if let (Some(name), Some(value)) = (field(declarator, "declarator"), field(declarator, "value"))
                && name.kind() == "identifier"
            {
                self.values
                    .entry(text(name, source).to_owned())
                    .or_insert_with(|| text(value, source).to_owned());
            }
        }
    }

    fn typedef(&mut self, node: Node<'_>, source: &str) {
        let Some(ty) = field(node, "type") else { return };
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            let (name, layers, _) = peel(declarator, source);
            if name.is_empty() {
                continue;
            }
            let mut written = text(ty, source).to_owned();
            if matches!(ty.kind(), "struct_specifier" | "class_specifier") {
                match (field(ty, "name"), field(ty, "body")) {
                    (Some(tag), _) => written = text(tag, source).to_owned(),
                    (None, Some(body)) => {
                        // A struct without a tag is known by the first name that it gets.
                        written = format!("struct {name}");
                        self.structs.entry(name.clone()).or_insert_with(|| members(body, source));
                    }
                    (None, None) => {}
                }
            }
            let alias = Alias { written, layers, constant: has_word(node, source, "const") };
            self.aliases.entry(name).or_insert(alias);
        }
    }

    /// What a type as it is written stands for, with the layers and the const that typedefs add.
    #[must_use]
    pub(crate) fn resolve(
        &self,
        written: &str,
        substituted: &BTreeMap<String, String>,
    ) -> (Base, Vec<Layer>, bool) {
        let (mut name, mut layers, mut constant) = (tidy(written), Vec::new(), false);
        // Typedefs may form a ring in broken code.
        for _ in 0..32 {
            if let Some(by) = substituted.get(&name) {
                let next = tidy(by);
                if next == name {
                    break;
                }
                name = next;
                continue;
            }
            let bare = name.strip_prefix("struct ").unwrap_or(&name).to_owned();
            if name == "void" {
                return (Base::Void, layers, constant);
            }
            if name != bare && self.structs.contains_key(&bare) {
                return (Base::Struct(bare), layers, constant);
            }
            if let Some(scalar) = Scalar::named(&name) {
                return (Base::Scalar(scalar), layers, constant);
            }
            if let Some(alias) = self.aliases.get(&name) {
                layers.extend(alias.layers.clone());
                constant |= alias.constant;
                let next = tidy(&alias.written);
                if next == name {
                    break;
                }
                name = next;
                continue;
            }
            if self.structs.contains_key(&bare) {
                return (Base::Struct(bare), layers, constant);
            }
            if bare.starts_with("enum ") {
                return (Base::Scalar(scalar(DType::I32, "int32_t")), layers, constant);
            }
            if let Some(inner) = name.strip_prefix("span<").and_then(|r| r.strip_suffix('>')) {
                let fixed = inner.split_whitespace().any(|w| w == "const");
                if let (Base::Scalar(scalar), none, _) = self.resolve(inner, substituted)
                    && none.is_empty()
                {
                    return (Base::Span(scalar, fixed), layers, constant);
                }
            }
            break;
        }
        (Base::Other(written.split_whitespace().collect::<Vec<_>>().join(" ")), layers, constant)
    }

    /// A name as it is declared by a type and a declarator.
    pub(crate) fn declared(
        &self,
        node: Node<'_>,
        declarator: Option<Node<'_>>,
        source: &str,
        substituted: &BTreeMap<String, String>,
    ) -> Declared {
        let written = field(node, "type").map_or("", |t| text(t, source)).to_owned();
        let (name, layers, at) = declarator.map_or((String::new(), Vec::new(), None), |d| {
            let (name, layers, at) = peel(d, source);
            (name, layers, Some(at))
        });
        let constant = has_word(node, source, "const") || has_word(node, source, "constexpr");
        let raw =
            RawMember { written, constant, name, layers, span: at.unwrap_or_else(|| node.byte_range()) };
        self.finish(&raw, substituted)
    }

    fn finish(&self, raw: &RawMember, substituted: &BTreeMap<String, String>) -> Declared {
        let (base, more, constant) = self.resolve(&raw.written, substituted);
        Declared {
            name: raw.name.clone(),
            span: raw.span.clone(),
            written: raw.written.clone(),
            base,
            layers: raw.layers.iter().cloned().chain(more).collect(),
            constant: raw.constant || constant,
        }
    }

    /// The members of a struct, in order.
    #[must_use]
    pub(crate) fn members(&self, key: &str, substituted: &BTreeMap<String, String>) -> Vec<Declared> {
        self.structs.get(key).into_iter().flatten().map(|m| self.finish(m, substituted)).collect()
    }
}

/// A type without qualifiers, keywords and the standard namespace.
fn tidy(written: &str) -> String {
    let words: Vec<&str> = written
        .split_whitespace()
        .filter(|w| !matches!(*w, "const" | "volatile" | "typename" | "register" | "constexpr" | "class"))
        .map(|w| w.strip_prefix("std::").or_else(|| w.strip_prefix("::")).unwrap_or(w))
        .collect();
    words.join(" ")
}

/// Name, layers from the name outwards, and place of a declarator.
pub(crate) fn peel(declarator: Node<'_>, source: &str) -> (String, Vec<Layer>, Range<usize>) {
    let (mut node, mut layers) = (declarator, Vec::new());
    for _ in 0..64 {
        match node.kind() {
            "pointer_declarator" | "abstract_pointer_declarator" | "pointer_type_declarator" => {
                layers.push(Layer::Pointer);
            }
            "array_declarator" | "abstract_array_declarator" => {
                layers.push(Layer::Array(field(node, "size").map(|s| text(s, source).to_owned())));
            }
            "reference_declarator" | "abstract_reference_declarator" => layers.push(Layer::Reference),
            "function_declarator" | "abstract_function_declarator" => layers.push(Layer::Function),
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "qualified_identifier"
            | "primitive_type" => {
                layers.reverse();
                return (text(node, source).to_owned(), layers, node.byte_range());
            }
            _ => {}
        }
        // References and parentheses hold their declarator without naming it.
        let inner = field(node, "declarator").or_else(|| {
            children(node)
                .into_iter()
                .find(|c| c.kind().ends_with("declarator") || c.kind().ends_with("identifier"))
        });
        match inner {
            Some(inner) => node = inner,
            None => break,
        }
    }
    layers.reverse();
    (String::new(), layers, declarator.byte_range())
}

fn members(body: Node<'_>, source: &str) -> Vec<RawMember> {
    let mut found = Vec::new();
    for node in children(body).into_iter().filter(|c| c.kind() == "field_declaration") {
        let written = field(node, "type").map_or("", |t| text(t, source)).to_owned();
        let mut cursor = node.walk();
        for declarator in node.children_by_field_name("declarator", &mut cursor) {
            let (name, layers, span) = peel(declarator, source);
            let constant = has_word(node, source, "const");
            found.push(RawMember { written: written.clone(), constant, name, layers, span });
        }
    }
    found
}
