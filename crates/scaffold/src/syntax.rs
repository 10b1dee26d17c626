//! Source text as a syntax tree. One grammar, that of C++, serves both languages.

use kernelseek_core::diagnostic::{Diagnostic, Source};
use std::ops::Range;
use std::sync::Arc;
use tree_sitter::{Node, Parser, Tree};

/// Longer files are refused: no kernel is that long, and whatever reads it next would only be slow.
pub const LONGEST: usize = 8 << 20;
/// Deeper nested syntax is not looked into.
pub(crate) const DEEPEST: usize = 200;

/// Languages that kernels are read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
    /// CUDA C++.
    Cuda,
}

impl Language {
    /// The language of a file by its name; an error in words for one that cannot be read here.
    ///
    /// # Errors
    /// What is in the way, and what to do about it.
    pub fn of(file: &str) -> Result<Self, (String, String)> {
        let extension = file.rsplit_once('.').map_or("", |(_, e)| e);
        match extension {
            "c" => Ok(Self::C),
            "cc" | "cpp" | "cxx" | "c++" | "C" | "hpp" | "hh" | "hxx" => Ok(Self::Cxx),
            "cu" | "cuh" => Ok(Self::Cuda),
            "h" => Err((
                "a header: whether it is C or C++ cannot be told".to_owned(),
                "name the .c or .cc file that holds the function's body".to_owned(),
            )),
            _ => {
                let known =
                    "a kernel in C (.c), C++ (.cc, .cpp, .cxx, .hpp) or CUDA (.cu, .cuh) can be taken today";
                Err(match other_language(extension) {
                    Some(name) => (format!("{name} is not supported yet"), known.to_owned()),
                    None => ("neither C, C++ nor CUDA by its name".to_owned(), known.to_owned()),
                })
            }
        }
    }
    /// Ending of generated files.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "cc",
            Self::Cuda => "cu",
        }
    }
}

/// A language that kernels are written in and that is not read here.
fn other_language(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "py" => "Python",
        "rs" => "Rust",
        "hip" => "HIP",
        "metal" | "air" => "Metal",
        "cl" | "clcpp" => "OpenCL",
        "zig" => "Zig",
        "jl" => "Julia",
        "f" | "f90" | "f95" | "f03" | "f08" | "for" | "cuf" => "Fortran",
        "mojo" => "Mojo",
        "wgsl" => "WGSL",
        "glsl" | "comp" => "GLSL",
        "hlsl" => "HLSL",
        "ispc" => "ISPC",
        "ptx" => "PTX",
        "s" | "S" | "asm" => "assembly",
        "swift" => "Swift",
        "go" => "Go",
        _ => return None,
    })
}

/// A file with its syntax tree.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The text.
    pub(crate) source: Arc<Source>,
    pub(crate) tree: Tree,
}

impl Parsed {
    /// Parses a file. Broken code gives a tree too, with its errors in it.
    ///
    /// # Errors
    /// When the file is too long.
    pub(crate) fn new(name: &str, text: &str) -> Result<Self, Box<Diagnostic>> {
        if text.len() > LONGEST {
            let source = Source::new(name, text.chars().take(200).collect::<String>());
            let message = format!("the file has {} bytes; at most {LONGEST} are read", text.len());
            return Err(Box::new(Diagnostic::new(&source, 0..0, message).with_hint(
                "take the kernel's own source, without generated tables, into a file of its own",
            )));
        }
        Self::shown_as(name, text, text)
    }

    /// Parses `shown` in place of `text`, of the same length: places are those of `text`.
    ///
    /// # Errors
    /// When it cannot be parsed.
    pub(crate) fn shown_as(name: &str, text: &str, shown: &str) -> Result<Self, Box<Diagnostic>> {
        let source = Source::new(name, text);
        let mut parser = Parser::new();
        let tree = parser
            .set_language(&tree_sitter_cpp::LANGUAGE.into())
            .ok()
            .and_then(|()| parser.parse(shown, None));
        match tree {
            Some(tree) => Ok(Self { source, tree }),
            None => Err(Box::new(Diagnostic::new(&source, 0..0, "the file cannot be parsed"))),
        }
    }
    pub(crate) fn text(&self) -> &str {
        self.source.text()
    }
    pub(crate) fn root(&self) -> Node<'_> {
        self.tree.root_node()
    }
    /// 1-based line of an offset.
    #[must_use]
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.source.position(offset).0
    }
    pub(crate) fn error(&self, span: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(&self.source, span, message)
    }
    /// Place of the first syntax error at or below `node`.
    pub(crate) fn first_error(node: Node<'_>) -> Option<Range<usize>> {
        if !node.has_error() {
            return None;
        }
        let mut cursor = node.walk();
        loop {
            let here = cursor.node();
            if here.is_error() || here.is_missing() {
                return Some(here.byte_range());
            }
            if here.has_error() && cursor.goto_first_child() {
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return Some(node.byte_range());
                }
            }
        }
    }
}

/// The text of a node.
pub(crate) fn text<'s>(node: Node<'_>, source: &'s str) -> &'s str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// Named children, comments left out.
pub(crate) fn children<'t>(node: Node<'t>) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|c| c.kind() != "comment").collect()
}

/// The child under a field.
pub(crate) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}

/// Whether a direct child is this word.
pub(crate) fn has_word(node: Node<'_>, source: &str, word: &str) -> bool {
    let mut cursor = node.walk();
    node.children(&mut cursor).any(|c| text(c, source) == word)
}

/// Calls `visit` for every node below `node`, itself included, in order; `visit` says whether to look inside.
pub(crate) fn each<'t>(node: Node<'t>, visit: &mut dyn FnMut(Node<'t>) -> bool) {
    let mut cursor = node.walk();
    loop {
        let inside = visit(cursor.node());
        if inside && cursor.goto_first_child() {
            continue;
        }
        loop {
            if cursor.node().id() == node.id() {
                return;
            }
            if cursor.goto_next_sibling() {
                break;
            }
            if !cursor.goto_parent() {
                return;
            }
        }
    }
}
