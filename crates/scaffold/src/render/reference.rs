//! The reference: somebody's own code in wider types where that is honest, a skeleton that does not build where not.

use super::comment;
use super::seed::{Adapter, features};
use crate::leaf::Kind;
use crate::plan::{Plan, Tensor};
use crate::syntax::Language;
use crate::widen::Wider;
use kernelseek_core::case::Role;
use kernelseek_core::dtype::DType;
use std::fmt::Write as _;

pub(super) const SPAN: &str = "/* Elements from the first to the last, gaps between rows included. */
static size_t reference_span(const ks_tensor *t) {
    size_t n = 1;
    for (int32_t d = 0; d < t->rank; d++) {
        if (t->shape[d] == 0)
            return 0;
        n += (size_t)((t->shape[d] - 1) * t->stride[d]);
    }
    return n;
}
";

/// Copies a tensor into wider elements.
const WIDE: &str = "
static @TO@ *wide_@KEY@(const ks_tensor *t) {
    const size_t n = reference_span(t);
    @TO@ *wide = (@TO@ *)malloc((n + 1) * sizeof(@TO@));
    for (size_t i = 0; wide && i < n; i++)
        wide[i] = (@TO@)((const @FROM@ *)t->data)[i];
    return wide;
}
";

/// Rounds wider elements back, those of the tensor only.
const NARROW: &str = "
static void narrow_@KEY@(const ks_tensor *t, const @TO@ *wide) {
    int64_t elements = 1;
    for (int32_t d = 0; d < t->rank; d++)
        elements *= t->shape[d];
    for (int64_t e = 0; e < elements; e++) {
        int64_t rest = e, at = 0;
        for (int32_t d = t->rank - 1; d >= 0; d--) {
            at += rest % t->shape[d] * t->stride[d];
            rest /= t->shape[d];
        }
        ((@FROM@ *)t->data)[at] = (@FROM@)wide[at];
    }
}
";

/// The helpers for each element type that is widened.
fn helpers(floats: &[&Tensor], to: &str) -> String {
    let mut out = SPAN.to_owned();
    for (template, outputs_only) in [(WIDE, false), (NARROW, true)] {
        let mut done: Vec<&str> = Vec::new();
        for t in floats.iter().filter(|t| !outputs_only || is_written(t)) {
            let from = t.scalar.spelling;
            if !done.contains(&from) {
                done.push(from);
                let key = from.trim_start_matches('_').to_lowercase();
                out.push_str(&template.replace("@TO@", to).replace("@FROM@", from).replace("@KEY@", &key));
            }
        }
    }
    out.push('\n');
    out
}

pub(super) fn is_written(t: &Tensor) -> bool {
    matches!(t.role, Role::Output | Role::Inout)
}

fn key(t: &Tensor) -> String {
    t.scalar.spelling.trim_start_matches('_').to_lowercase()
}

/// The code in wider types behind the call.
pub(crate) fn wide(adapter: &Adapter<'_>, file: &str, code: &str, wider: Wider) -> String {
    let problem = adapter.problem;
    let to = match wider {
        Wider::Double => "double",
        Wider::LongDouble => "long double",
        Wider::Same => "",
    };
    let mut out = String::new();
    if wider == Wider::Same {
        let _ = writeln!(
            out,
            "// CHECK this is your own code once more, from {}: it finds a candidate that differs, not a wrong formula.\n\
             // Integers have nothing to widen. Write down here what is right, as plainly as can be.",
            comment(file)
        );
    } else {
        let _ = writeln!(
            out,
            "// CHECK this is your own code in {to}, from {}: it finds rounding, not a wrong formula.\n\
             // Where you can, write down here what is right, by another way and as plainly as can be.",
            comment(file)
        );
    }
    let _ = writeln!(out, "{}#include \"{problem}.h\"\n#include <stdlib.h>", features(code));
    if adapter.language == Language::C && code.contains("bool") {
        out.push_str("#include <stdbool.h>\n");
    }
    let _ = writeln!(out, "\n{}\n", code.trim_matches('\n'));
    let floats: Vec<&Tensor> = adapter
        .plan
        .tensors
        .iter()
        .filter(|t| t.leaf.is_some_and(|l| adapter.moved.contains_key(&l)))
        .collect();
    if !floats.is_empty() {
        out.push_str(&helpers(&floats, to));
    }
    if adapter.language == Language::Cxx {
        out.push_str("extern \"C\" ");
    }
    let _ = writeln!(out, "ks_status {problem}(const {problem}_call *call) {{");
    for t in &floats {
        let _ = writeln!(out, "    {to} *{0}_wide = wide_{1}(&call->{0});", t.name, key(t));
    }
    if !floats.is_empty() {
        let none: Vec<String> = floats.iter().map(|t| format!("!{}_wide", t.name)).collect();
        let _ = writeln!(out, "    if ({})\n        return KS_ERROR;", none.join(" || "));
    }
    out.push_str(&adapter.structs());
    let mut after = String::new();
    for t in &floats {
        if is_written(t) {
            let _ = writeln!(after, "    narrow_{1}(&call->{0}, {0}_wide);", t.name, key(t));
        }
        let _ = writeln!(after, "    free({}_wide);", t.name);
    }
    out.push_str(&adapter.finish(&after));
    out.push_str("}\n");
    out
}

/// Leaves whose elements must be widened, with the name of the wide copy.
pub(crate) fn widened(
    adapter_leaves: &crate::leaf::Leaves,
    plan: &Plan,
    wider: Wider,
) -> Vec<(usize, String)> {
    if wider == Wider::Same {
        return Vec::new();
    }
    plan.tensors
        .iter()
        .filter_map(|t| Some((t.leaf?, t)))
        .filter(|(leaf, t)| {
            let Kind::Elements { scalar, .. } = &adapter_leaves.all[*leaf].kind else { return false };
            match wider {
                // The doubles of a mixed kernel are wide enough.
                Wider::Double => scalar.dtype.is_float() && t.scalar.dtype != DType::F64,
                Wider::LongDouble => scalar.dtype == DType::F64,
                Wider::Same => false,
            }
        })
        .map(|(leaf, t)| (leaf, format!("{}_wide", t.name)))
        .collect()
}

/// A skeleton in C or C++ that does not build before somebody writes it.
pub(crate) fn skeleton(problem: &str, plan: &Plan, file: &str, why: &str, language: Language) -> String {
    let mut out = format!(
        "// CHECK there is no reference yet: {}.\n// Compute the outputs in double, as plainly as can be, and take the #error away.\n#include \"{problem}.h\"\n\n#include <math.h>\n\n",
        comment(why)
    );
    if language == Language::Cxx {
        out.push_str("extern \"C\" ");
    }
    let _ = writeln!(out, "ks_status {problem}(const {problem}_call *call) {{");
    for t in &plan.tensors {
        let constant = if matches!(t.role, Role::Varying | Role::Constant) { "const " } else { "" };
        let shape: Vec<String> = t.shape.iter().map(crate::poly::Polynomial::text).collect();
        let ty = t.scalar.spelling;
        let _ = writeln!(
            out,
            "    {constant}{ty} *{} = ({constant}{ty} *)call->{}.data; /* {} */",
            t.name,
            t.name,
            shape.join(" x ")
        );
    }
    for a in &plan.attributes {
        let _ = writeln!(
            out,
            "    const {} {} = call->{};",
            if a.real { "double" } else { "int64_t" },
            a.name,
            a.name
        );
    }
    let _ = writeln!(out, "#error \"write here what `{}` computes\"", file.replace(['"', '\\'], ""));
    out.push_str("    return KS_OK;\n}\n");
    out
}

/// A skeleton in Python that fails before somebody writes it.
pub(crate) fn python(problem: &str, plan: &Plan) -> String {
    let mut out = format!(
        "\"\"\"Reference of {problem}: the outputs in double precision, as plainly as can be.\n\nTensors are numpy arrays (views of the evaluator's buffers; nested memoryviews without numpy), numbers are int or\nfloat. Write into the outputs: `call.y[...] = …`.\n\"\"\"\n\n\ndef op(call):\n"
    );
    for t in &plan.tensors {
        let role = match t.role {
            Role::Output => "output",
            Role::Inout => "input and output",
            _ => "input",
        };
        let shape: Vec<String> = t.shape.iter().map(crate::poly::Polynomial::text).collect();
        let _ = writeln!(out, "    # call.{}: {role}, {}, ({})", t.name, t.scalar.dtype, shape.join(", "));
    }
    for a in &plan.attributes {
        let _ = writeln!(out, "    # call.{}: {}", a.name, if a.real { "float" } else { "int" });
    }
    out.push_str("    # CHECK there is no reference yet: write it here and take the next line away\n");
    out.push_str("    raise NotImplementedError(\"reference.py: write the formula here\")\n");
    out
}
