//! Seed and reference of a CUDA kernel: device pointers, the call's stream, a result that is an error of the runtime.

use super::comment;
use super::reference::{SPAN, is_written};
use super::seed::{Adapter, features};
use crate::cuda::copy::STREAM;
use crate::plan::{Returned, Tensor};
use crate::widen::Wider;
use kernelseek_core::case::Role;
use kernelseek_core::dtype::DType;
use std::fmt::Write as _;

/// What stands behind the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Behind<'a> {
    /// The function or kernel.
    pub(crate) function: &'a str,
    /// Its file.
    pub(crate) file: &'a str,
    /// The copied code.
    pub(crate) code: &'a str,
    /// A function that launches the kernel, if the file has none that can be called.
    pub(crate) wrapper: Option<&'a str>,
    /// Where among the arguments the stream is passed.
    pub(crate) stream: Option<usize>,
    /// Whether launches without a stream were put on one.
    pub(crate) sets_stream: bool,
    /// Whether it returns an error of the runtime.
    pub(crate) error: bool,
}

/// How elements of a tensor are spelled in CUDA.
fn spelling(t: &Tensor) -> &'static str {
    match t.scalar.dtype {
        DType::F16 => "__half",
        DType::Bf16 => "__nv_bfloat16",
        _ => t.scalar.spelling,
    }
}

fn head(adapter: &Adapter<'_>, behind: &Behind<'_>) -> String {
    let mut out = features(behind.code);
    let _ = writeln!(out, "#include \"{}.h\"\n#include <cuda_runtime.h>", adapter.problem);
    for (dtype, header) in [(DType::F16, "cuda_fp16.h"), (DType::Bf16, "cuda_bf16.h")] {
        if adapter.plan.tensors.iter().any(|t| t.scalar.dtype == dtype) && !behind.code.contains(header) {
            let _ = writeln!(out, "#include <{header}>");
        }
    }
    if behind.sets_stream {
        let _ = writeln!(out, "\nstatic cudaStream_t {STREAM}; /* the call's */");
    }
    let _ = writeln!(out, "\n{}\n", behind.code.trim_matches('\n'));
    if let Some(wrapper) = behind.wrapper {
        let _ = writeln!(out, "/* The launch, as {} has it. */\n{}", comment(behind.file), wrapper);
    }
    out
}

fn begin(adapter: &Adapter<'_>, behind: &Behind<'_>) -> String {
    let problem = adapter.problem;
    let mut out = format!("extern \"C\" ks_status {problem}(const {problem}_call *call) {{\n");
    if behind.sets_stream {
        let _ = writeln!(out, "    {STREAM} = (cudaStream_t)call->stream;");
    }
    out
}

/// The call and what becomes of it; `after` comes between.
fn end(adapter: &Adapter<'_>, behind: &Behind<'_>, after: &str) -> String {
    let mut arguments = adapter.arguments();
    if let Some(at) = behind.stream {
        arguments.insert(at.min(arguments.len()), "(cudaStream_t)call->stream".to_owned());
    }
    let call = adapter.call_with(&arguments);
    let mut out = String::new();
    let mut good = "cudaGetLastError() == cudaSuccess".to_owned();
    if behind.error {
        let _ = writeln!(out, "    const cudaError_t error = {call};");
        good = format!("error == cudaSuccess && {good}");
    } else if adapter.plan.returned == Returned::Status {
        let flag = adapter.prototype.returns.written.contains("bool");
        let (test, why) = if flag { ("", "true is success") } else { (" == 0", "zero is success") };
        let _ = writeln!(out, "    /* CHECK the value that it returns is taken for a status: {why} */");
        let _ = writeln!(out, "    const bool done = {call}{test};");
        good = format!("done && {good}");
    } else {
        let _ = writeln!(out, "    {call};");
    }
    let _ = writeln!(out, "{after}    return {good} ? KS_OK : KS_ERROR;\n}}");
    out
}

/// A source file: header, copy of the code, adapter.
pub(crate) fn seed(adapter: &Adapter<'_>, behind: &Behind<'_>) -> String {
    let mut out = format!(
        "/* `{}` behind the call of `{}`: a copy of {}, and at the end the adapter. The call enqueues on its stream and\n   \
         returns; tensors are device pointers. */\n",
        comment(behind.function),
        adapter.problem,
        comment(behind.file)
    );
    out.push_str(&head(adapter, behind));
    out.push_str(&begin(adapter, behind));
    out.push_str(&adapter.structs());
    out.push_str(&end(adapter, behind, ""));
    out
}

/// Copies of tensors in doubles, on the device and in the stream's order.
const WIDE: &str = "
template <typename T>
__global__ void reference_widen(const T *from, double *to, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
        to[i] = (double)(float)from[i];
}

template <typename T>
static double *reference_wide(const ks_tensor *t, cudaStream_t stream) {
    const size_t n = reference_span(t);
    double *wide = NULL;
    if (cudaMallocAsync((void **)&wide, (n + 1) * sizeof(double), stream) != cudaSuccess)
        return NULL;
    reference_widen<T><<<256, 256, 0, stream>>>((const T *)t->data, wide, n);
    return wide;
}
";

/// Rounds doubles back, those of the tensor only.
const NARROW: &str = "
template <typename T>
__global__ void reference_narrow(ks_tensor t, const double *wide) {
    int64_t elements = 1;
    for (int d = 0; d < t.rank; d++)
        elements *= t.shape[d];
    const int64_t first = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
    for (int64_t e = first; e < elements; e += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = e, at = 0;
        for (int d = t.rank - 1; d >= 0; d--) {
            at += rest % t.shape[d] * t.stride[d];
            rest /= t.shape[d];
        }
        ((T *)t.data)[at] = (T)wide[at];
    }
}
";

/// The code in doubles behind the call, or the code itself where there is nothing to widen.
pub(crate) fn wide(adapter: &Adapter<'_>, behind: &Behind<'_>, wider: Wider) -> String {
    let mut out = String::new();
    if wider == Wider::Same {
        let _ = writeln!(
            out,
            "// CHECK this is your own code once more, from {}: it finds a candidate that differs, not a wrong formula.\n\
             // Nothing in it can be widened on a GPU. Write down here what is right, as plainly as can be.",
            comment(behind.file)
        );
    } else {
        let _ = writeln!(
            out,
            "// CHECK this is your own code in double, from {}: it finds rounding, not a wrong formula.\n\
             // Where you can, write down here what is right, by another way and as plainly as can be.",
            comment(behind.file)
        );
    }
    out.push_str(&head(adapter, behind));
    let floats: Vec<&Tensor> = adapter
        .plan
        .tensors
        .iter()
        .filter(|t| t.leaf.is_some_and(|l| adapter.moved.contains_key(&l)))
        .collect();
    if !floats.is_empty() {
        out.push_str(SPAN);
        out.push_str(WIDE);
        if floats.iter().any(|t| is_written(t)) {
            out.push_str(NARROW);
        }
        out.push('\n');
    }
    out.push_str(&begin(adapter, behind));
    if !floats.is_empty() {
        out.push_str("    const cudaStream_t own = (cudaStream_t)call->stream;\n");
    }
    for t in &floats {
        let _ = writeln!(
            out,
            "    double *{0}_wide = reference_wide<{1}>(&call->{0}, own);",
            t.name,
            spelling(t)
        );
    }
    if !floats.is_empty() {
        let none: Vec<String> = floats.iter().map(|t| format!("!{}_wide", t.name)).collect();
        let _ = writeln!(out, "    if ({})\n        return KS_ERROR;", none.join(" || "));
    }
    out.push_str(&adapter.structs());
    let mut after = String::new();
    for t in floats.iter().filter(|t| is_written(t)) {
        let _ = writeln!(
            after,
            "    reference_narrow<{1}><<<256, 256, 0, own>>>(call->{0}, {0}_wide);",
            t.name,
            spelling(t)
        );
    }
    for t in &floats {
        let _ = writeln!(after, "    cudaFreeAsync({}_wide, own);", t.name);
    }
    out.push_str(&end(adapter, behind, &after));
    out
}

/// A skeleton that does not build before somebody writes it.
pub(crate) fn skeleton(adapter: &Adapter<'_>, file: &str, why: &str) -> String {
    let problem = adapter.problem;
    let mut out = format!(
        "// CHECK there is no reference yet: {}.\n// Compute the outputs in double, as plainly as can be (one thread an element is \
         fine), and take the #error away.\n#include \"{problem}.h\"\n#include <cuda_runtime.h>\n",
        comment(why)
    );
    for (dtype, header) in [(DType::F16, "cuda_fp16.h"), (DType::Bf16, "cuda_bf16.h")] {
        if adapter.plan.tensors.iter().any(|t| t.scalar.dtype == dtype) {
            let _ = writeln!(out, "#include <{header}>");
        }
    }
    let _ = writeln!(out, "\nextern \"C\" ks_status {problem}(const {problem}_call *call) {{");
    for t in &adapter.plan.tensors {
        let constant = if matches!(t.role, Role::Varying | Role::Constant) { "const " } else { "" };
        let shape: Vec<String> = t.shape.iter().map(crate::poly::Polynomial::text).collect();
        let ty = spelling(t);
        let _ = writeln!(
            out,
            "    {constant}{ty} *{0} = ({constant}{ty} *)call->{0}.data; /* on the device: {1} */",
            t.name,
            shape.join(" x ")
        );
    }
    for a in &adapter.plan.attributes {
        let _ = writeln!(
            out,
            "    const {} {} = call->{};",
            if a.real { "double" } else { "int64_t" },
            a.name,
            a.name
        );
    }
    out.push_str("    const cudaStream_t stream = (cudaStream_t)call->stream;\n");
    let _ = writeln!(out, "#error \"write here what `{}` computes\"", file.replace(['"', '\\'], ""));
    out.push_str("    return cudaGetLastError() == cudaSuccess ? KS_OK : KS_ERROR;\n}\n");
    out
}
