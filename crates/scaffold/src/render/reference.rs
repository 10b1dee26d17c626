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

const HELPERS: &str = "/* Elements from the first to the last, gaps between rows included. */
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
            "// CHECK this is your own code once more, from {}: integers have nothing to widen. It finds a candidate that\n\
             // differs from it, not a wrong formula: write down here what is right, as plainly as can be.",
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
        out.push_str(HELPERS);
        out.push('\n');
    }
    if adapter.language == Language::Cxx {
        out.push_str("extern \"C\" ");
    }
    let _ = writeln!(out, "ks_status {problem}(const {problem}_call *call) {{");
    for t in &floats {
        let (name, from) = (&t.name, t.scalar.spelling);
        let _ = writeln!(
            out,
            "    const size_t {name}_n = reference_span(&call->{name});\n    \
             {to} *{name}_wide = ({to} *)malloc(({name}_n + 1) * sizeof({to}));\n    \
             if (!{name}_wide)\n        return KS_ERROR;\n    \
             for (size_t i = 0; i < {name}_n; i++)\n        \
             {name}_wide[i] = ({to})((const {from} *)call->{name}.data)[i];"
        );
    }
    out.push_str(&adapter.structs());
    let mut after = String::new();
    for t in &floats {
        if t.role != Role::Varying && t.role != Role::Constant {
            after.push_str(&store(t));
        }
        let _ = writeln!(after, "    free({}_wide);", t.name);
    }
    out.push_str(&adapter.finish(&after));
    out.push_str("}\n");
    out
}

/// Rounds a result back, element by element of the view.
fn store(t: &Tensor) -> String {
    let (name, to) = (&t.name, t.scalar.spelling);
    let mut out = String::new();
    if t.stride.is_none() {
        let _ = writeln!(
            out,
            "    for (size_t i = 0; i < {name}_n; i++)\n        (({to} *)call->{name}.data)[i] = ({to}){name}_wide[i];"
        );
        return out;
    }
    let rank = t.shape.len();
    for d in 0..rank {
        let pad = "    ".repeat(d + 1);
        let _ = writeln!(out, "{pad}for (int64_t i{d} = 0; i{d} < call->{name}.shape[{d}]; i{d}++)");
    }
    let at: Vec<String> = (0..rank).map(|d| format!("i{d} * call->{name}.stride[{d}]")).collect();
    let at = at.join(" + ");
    let pad = "    ".repeat(rank + 1);
    let _ = writeln!(out, "{pad}(({to} *)call->{name}.data)[{at}] =\n{pad}    ({to}){name}_wide[{at}];");
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
