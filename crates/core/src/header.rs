//! The C header of a problem: the call contract that candidates compile against.

use crate::case::Role;
use crate::dtype::DType;
use crate::layout::ABI;
use crate::problem::{AttributeType, Problem, Tensor};
use crate::value::Value;
use std::fmt::Write as _;

/// The part that all problems share. It is guarded on its own: a file may include two problems' headers.
const PRELUDE: &str = r#"#ifndef KS_CALL_CONTRACT_1
#define KS_CALL_CONTRACT_1

/* Version of the call contract; every call struct carries it in `abi`. */
#define KS_ABI 1

typedef enum ks_status {
    KS_OK = 0,          /* every output is written */
    KS_UNSUPPORTED = 1, /* refused; may depend on attributes, dtypes and shapes only */
    KS_ERROR = 2        /* failed */
} ks_status;

/* Values of ks_tensor.dtype. */
enum ks_dtype {
@DTYPES@};

/* 256-byte aligned unless the scenario says otherwise. Absent tensors have data == NULL and rank 0. */
typedef struct ks_tensor {
    void *data;
    int32_t dtype;     /* enum ks_dtype */
    int32_t rank;      /* 0..8 */
    int64_t shape[8];  /* extents; entries from rank on are 0 */
    int64_t stride[8]; /* in elements */
} ks_tensor;

/* For references alone: which part of the answer is wanted, of each `one_in` units of work one. What a unit is, the reference
   decides; the others' outputs stay as they are. */
typedef struct ks_sample {
    uint64_t key;    /* chooses among them */
    uint32_t one_in; /* 1: all of them */
    uint32_t reserved;
} ks_sample;

#ifdef __CUDACC__
__host__ __device__
#endif
static inline int ks_wanted(const ks_sample *sample, uint64_t unit)
{
    uint64_t mixed;
    if (sample->one_in < 2)
        return 1;
    mixed = sample->key + (unit / sample->one_in + 1) * 0x9e3779b97f4a7c15ull;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return unit % sample->one_in == (mixed ^ (mixed >> 31)) % sample->one_in;
}

#endif
"#;

/// The C header for `problem`.
#[must_use]
pub fn header(problem: &Problem) -> String {
    let name = &problem.name;
    let guard = format!("KS_PROBLEM_{}_H", name.to_uppercase());
    let mut dtypes = String::new();
    for d in DType::ALL {
        let last = if d == DType::Bool { "" } else { "," };
        let constant = format!("KS_{} = {}{last}", d.name().to_uppercase(), d as i32);
        let _ = writeln!(dtypes, "    {constant:<16} /* {} */", meaning(d));
    }
    let mut out = String::new();
    let _ = writeln!(out, "/* {name}: {}", comment(&problem.summary));
    let _ = writeln!(out, "   Call contract {ABI}, generated from the problem file; do not edit. */");
    let _ = writeln!(out, "#ifndef {guard}\n#define {guard}\n");
    out.push_str(
        "#include <stddef.h>\n#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    out.push_str(&PRELUDE.replace("@DTYPES@", &dtypes));
    let _ = writeln!(out, "\ntypedef struct {name}_call {{");
    out.push_str(
        "    uint32_t struct_size; /* sizeof this struct */\n    uint32_t abi;         /* KS_ABI */\n\n",
    );
    for tensor in &problem.tensors {
        let _ = writeln!(out, "    /* {} */\n    ks_tensor {};", describe(tensor), tensor.name);
    }
    out.push('\n');
    for attribute in &problem.attributes {
        let ty = match attribute.kind {
            AttributeType::F64 => "double",
            AttributeType::I64 => "int64_t",
        };
        let _ = writeln!(out, "    {ty} {}; /* {} */", attribute.name, comment(attribute.value.text()));
    }
    if !problem.attributes.is_empty() {
        out.push('\n');
    }
    let workspace = if problem.constraints.workspace {
        "zeroed when allocated, then left alone between calls; NULL unless asked for"
    } else {
        "always NULL: the problem grants no workspace"
    };
    let _ = writeln!(out, "    void *workspace;        /* {workspace} */");
    out.push_str("    size_t workspace_bytes;\n");
    out.push_str("    void *stream;           /* cudaStream_t that the call enqueues its work on; NULL on the cpu target */\n");
    out.push_str("    int32_t device;\n");
    let _ = writeln!(out, "}} {name}_call;\n");
    let _ = writeln!(
        out,
        "/* Reads the inputs, writes every output. */\nks_status {name}(const {name}_call *call);\n"
    );
    out.push_str(
        "/* Optional: bytes of workspace this call wants. Asked before the first call of a worker. */\n",
    );
    let _ = writeln!(out, "size_t {name}_workspace(const {name}_call *call);\n");
    out.push_str(
        "/* Optional: called when a constant tensor or a shape has changed; timed apart from the calls. */\n",
    );
    let _ = writeln!(out, "ks_status {name}_prepare(const {name}_call *call);\n");
    let _ = writeln!(out, "#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {guard} */");
    out
}

/// `role, dtype, shape` of a tensor as one line of comment.
fn describe(tensor: &Tensor) -> String {
    let role = match tensor.role {
        Role::Varying => "input",
        Role::Constant => "constant input",
        Role::Inout => "input and output",
        Role::Output => "output",
    };
    let dtype = match tensor.dtype.as_constant() {
        Some(Value::String(name)) => name.clone(),
        _ => tensor.dtype.text().to_owned(),
    };
    let mut text = format!("{role}; {dtype}; {}", tensor.shape);
    if let Some(stride) = &tensor.stride {
        let _ = write!(text, "; strides {stride}");
    }
    if let Some(when) = &tensor.when {
        let _ = write!(text, "; absent unless {}", when.text());
    }
    comment(&text)
}

/// Text that cannot end the comment it stands in, on one line.
fn comment(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("*/", "* /").replace("/*", "/ *")
}

const fn meaning(dtype: DType) -> &'static str {
    match dtype {
        DType::F64 => "IEEE binary64",
        DType::F32 => "IEEE binary32",
        DType::F16 => "IEEE binary16",
        DType::Bf16 => "upper half of a binary32",
        DType::F8E4m3 => "FP8 E4M3: no infinities, largest finite 448",
        DType::F8E5m2 => "FP8 E5M2: largest finite 57344",
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => "two's complement",
        DType::U8 => "unsigned",
        DType::Bool => "one byte, 0 or 1",
    }
}
