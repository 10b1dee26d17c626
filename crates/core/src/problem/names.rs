//! Which names may be used where.

/// Words that C or C++ keep for themselves, or that the standard headers define as macros.
const KEYWORDS: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "complex",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "linux",
    "long",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "template",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

/// Members of every call struct.
const MEMBERS: &[&str] = &["struct_size", "abi", "workspace", "workspace_bytes", "stream", "device"];

/// Words that expressions keep for themselves.
const RESERVED: &[&str] = &[
    "as",
    "break",
    "const",
    "continue",
    "else",
    "false",
    "for",
    "function",
    "if",
    "import",
    "in",
    "let",
    "loop",
    "namespace",
    "null",
    "package",
    "return",
    "true",
    "var",
    "void",
    "while",
];

const LONGEST: usize = 48;

/// Why `name` cannot be a member of the call struct, if it cannot.
#[must_use]
pub fn refuse_member(name: &str) -> Option<String> {
    refuse_c_identifier(name)
        .or_else(|| MEMBERS.contains(&name).then(|| format!("`{name}` is a member of every call struct")))
}

/// Why `name` cannot be a C identifier of the header, if it cannot.
pub(crate) fn refuse_c_identifier(name: &str) -> Option<String> {
    refuse_identifier(name).or_else(|| {
        if KEYWORDS.contains(&name) {
            Some(format!("`{name}` is a word of C or C++"))
        } else if name.starts_with('_')
            || name.contains("__")
            || name.starts_with("ks_")
            || name.starts_with("KS_")
        {
            Some(format!("`{name}` is reserved: no leading underscore, double underscore or `ks_`"))
        } else {
            None
        }
    })
}

/// Why `name` cannot be the problem's name, if it cannot.
#[must_use]
pub fn refuse_problem(name: &str) -> Option<String> {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !plain {
        return Some(format!("`{name}` is not a lowercase name ([a-z][a-z0-9_]*)"));
    }
    refuse_c_identifier(name)
}

/// Why `name` cannot be a variable of expressions, if it cannot.
#[must_use]
pub fn refuse_variable(name: &str) -> Option<String> {
    refuse_identifier(name).or_else(|| {
        if RESERVED.contains(&name) {
            Some(format!("`{name}` is a word of the expression language"))
        } else if matches!(name, "id" | "tags" | "note") {
            Some(format!("`{name}` is a key of every scenario line"))
        } else {
            crate::expression::is_function(name)
                .then(|| format!("`{name}` is a function of the expression language"))
        }
    })
}

fn refuse_identifier(name: &str) -> Option<String> {
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !valid {
        Some(format!("`{name}` is not an identifier ([A-Za-z_][A-Za-z0-9_]*)"))
    } else if name.len() > LONGEST {
        Some(format!("a name of more than {LONGEST} characters"))
    } else {
        None
    }
}
