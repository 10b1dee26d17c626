//! A copy of somebody's code in wider floating-point types.

use crate::tokens::{TokenKind, tokens};

/// From which type to which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wider {
    /// `float` and narrower become `double`.
    Double,
    /// `double` becomes `long double`.
    LongDouble,
    /// There are no floating-point types: the copy is the code itself.
    Same,
}

/// Functions of math.h that have a `float` form ending in `f` and a `long double` form ending in `l`.
const MATH: &[&str] = &[
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "frexp",
    "hypot",
    "ldexp",
    "lgamma",
    "llrint",
    "llround",
    "log",
    "log10",
    "log1p",
    "log2",
    "lrint",
    "lround",
    "modf",
    "nearbyint",
    "nextafter",
    "pow",
    "remainder",
    "rcbrt",
    "rint",
    "round",
    "rsqrt",
    "scalbn",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
];

/// Approximations that a GPU has for floats.
const FAST: &[&str] =
    &["__expf", "__exp10f", "__logf", "__log2f", "__log10f", "__powf", "__sinf", "__cosf", "__tanf"];

/// Types that hold fewer bits than a double.
const NARROW: &[&str] = &[
    "float",
    "_Float16",
    "__fp16",
    "half",
    "__half",
    "__nv_bfloat16",
    "nv_bfloat16",
    "float16_t",
    "float32_t",
];

/// The wider types that fit a set of texts.
pub(crate) fn wider(texts: &[&str]) -> Wider {
    let has = |words: &[&str]| {
        texts.iter().any(|text| {
            tokens(text).iter().any(|t| t.kind == TokenKind::Word && words.contains(&&text[t.span.clone()]))
        })
    };
    if has(NARROW) {
        Wider::Double
    } else if has(&["double", "float64_t"]) {
        Wider::LongDouble
    } else {
        Wider::Same
    }
}

/// The text with wider types.
///
/// # Errors
/// Why the copy would not compute the same thing: the 1-based line, and what stands there.
pub(crate) fn widen(text: &str, wider: Wider) -> Result<String, (usize, String)> {
    if let Some((at, what)) = obstacle(text) {
        return Err((1 + text[..at].matches('\n').count(), what));
    }
    if wider == Wider::Same {
        return Ok(text.to_owned());
    }
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut last_word = "";
    for token in tokens(text) {
        let word = &text[token.span.clone()];
        match token.kind {
            TokenKind::Word => {
                out.push_str(&wide_word(word, last_word, wider));
                last_word = word;
            }
            TokenKind::Number if wider == Wider::Double => out.push_str(wide_number(word)),
            _ => out.push_str(word),
        }
    }
    Ok(out)
}

fn wide_word(word: &str, before: &str, wider: Wider) -> String {
    match wider {
        Wider::Double => {
            if NARROW.contains(&word) {
                return "double".to_owned();
            }
            if let Some(rest) = word.strip_prefix("FLT_") {
                return format!("DBL_{rest}");
            }
            match word.strip_suffix('f') {
                Some(plain) if MATH.contains(&plain) => plain.to_owned(),
                _ if word == "HUGE_VALF" => "HUGE_VAL".to_owned(),
                _ if FAST.contains(&word) => word.trim_start_matches('_').trim_end_matches('f').to_owned(),
                _ => word.to_owned(),
            }
        }
        Wider::LongDouble => {
            if (word == "double" || word == "float64_t") && before != "long" {
                return "long double".to_owned();
            }
            if let Some(rest) = word.strip_prefix("DBL_") {
                return format!("LDBL_{rest}");
            }
            // `std::exp` picks its own form.
            if MATH.contains(&word) && before != "std" { format!("{word}l") } else { word.to_owned() }
        }
        Wider::Same => word.to_owned(),
    }
}

fn wide_number(word: &str) -> &str {
    let real = (word.contains('.') || word.contains(['e', 'E']))
        && !word.starts_with("0x")
        && !word.starts_with("0X");
    if real { word.trim_end_matches(['f', 'F']) } else { word }
}

/// Device code that means one type only: vectors, conversions by name, rounding by name, numbers as bits.
pub(crate) fn device_obstacle(text: &str) -> Option<(usize, String)> {
    const PREFIXES: [&str; 13] = [
        "__half",
        "__float",
        "__double",
        "__bfloat",
        "__int_as",
        "__uint_as",
        "__ll",
        "__h",
        "__fadd_",
        "__fmul_",
        "__fmaf_",
        "__fsqrt_",
        "__f2",
    ];
    for token in tokens(text) {
        if token.kind != TokenKind::Word {
            continue;
        }
        let word = &text[token.span.clone()];
        let vector = ["float", "half", "__half", "nv_bfloat16", "__nv_bfloat16"].iter().any(|base| {
            word.strip_prefix(base).is_some_and(|n| {
                matches!(n, "1" | "2" | "3" | "4" | "2_t") || n.starts_with("2_") && n.len() == 3
            })
        }) || word.strip_prefix("make_").is_some_and(|w| w.starts_with("float"))
            || matches!(word, "half2" | "__nv_bfloat162");
        if vector {
            return Some((token.span.start, format!("`{word}` is a vector of one type")));
        }
        let named = PREFIXES.iter().any(|p| word.starts_with(p)) && !matches!(word, "__half" | "__host__");
        let matrix = matches!(
            word,
            "wmma" | "nvcuda" | "reinterpret_cast" | "__fdividef" | "__frcp_rn" | "__saturatef"
        );
        if named || matrix {
            return Some((token.span.start, format!("`{word}` is for one type")));
        }
    }
    None
}

/// Code that takes numbers apart or names instructions does something else with other types.
fn obstacle(text: &str) -> Option<(usize, String)> {
    let mut code = String::new();
    let mut places = Vec::new();
    for token in tokens(text) {
        let word = &text[token.span.clone()];
        if token.kind == TokenKind::Word {
            let vector = [
                "_mm",
                "__m128",
                "__m256",
                "__m512",
                "__builtin_ia32",
                "vld1",
                "vst1",
                "float32x",
                "float16x",
                "svfloat",
            ]
            .iter()
            .any(|p| word.starts_with(p));
            if vector {
                return Some((token.span.start, format!("`{word}` is an instruction for one type")));
            }
            if matches!(word, "asm" | "__asm__" | "__asm" | "union" | "vector_size" | "bit_cast" | "__bf16") {
                return Some((token.span.start, format!("`{word}` looks at bits, not at numbers")));
            }
        }
        if token.kind != TokenKind::Comment && !word.trim().is_empty() {
            places.push((code.len(), token.span.start));
            code.push_str(word);
        }
    }
    for pattern in ["*)&", "memcpy(&", "*>(&"] {
        if let Some(at) = code.find(pattern) {
            let place = places.iter().rev().find(|(start, _)| *start <= at).map_or(0, |(_, place)| *place);
            return Some((place, "a number is looked at as another type".to_owned()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn floats_become_doubles_and_nothing_else_changes() {
        for (from, to) in [
            ("float x = 1.5f * sqrtf(y);", "double x = 1.5 * sqrt(y);"),
            ("\"float 1f\" // float\n0x1f buf", "\"float 1f\" // float\n0x1f buf"),
            ("FLT_MAX 1e-5F 2 leaf", "DBL_MAX 1e-5 2 leaf"),
            ("std::numeric_limits<float>::max()", "std::numeric_limits<double>::max()"),
        ] {
            assert_eq!(widen(from, Wider::Double).unwrap(), to);
        }
    }

    #[test]
    fn doubles_become_long_doubles() {
        assert_eq!(
            widen("double x = sqrt(y) + std::exp(1.0); long double z;", Wider::LongDouble).unwrap(),
            "long double x = sqrtl(y) + std::exp(1.0); long double z;"
        );
        assert_eq!(wider(&["int f(void)", "double x"]), Wider::LongDouble);
        assert_eq!(wider(&["int f(void)"]), Wider::Same);
    }

    #[test]
    fn what_looks_at_bits_is_named_with_its_line() {
        for text in
            ["\n__m256 v;", "\nint i = *(int *)&x;", "\nunion u { float f; };", "\nmemcpy(&i, &f, 4);"]
        {
            let (line, what) = widen(text, Wider::Double).unwrap_err();
            assert_eq!(line, 2, "{text}: {what}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_widened_or_refused(text in "\\PC*") {
            let _ = widen(&text, Wider::Double);
            let _ = widen(&text, Wider::LongDouble);
        }
    }
}
