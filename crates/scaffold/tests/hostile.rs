//! Whatever a file holds, it is answered.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_core::problem::parse_problem;
use kernelseek_scaffold::{LONGEST, Reference, Request, scaffold};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn answered(file: &str, text: &str) {
    for function in [None, Some("f")] {
        let made = scaffold(&Request {
            file,
            text,
            copy: text,
            headers: &[],
            function,
            types: BTreeMap::new(),
            launch: None,
            reference: Reference::Native,
            missing: &[],
        });
        match made {
            Ok(made) => {
                let toml = made.files.iter().find(|(p, _)| p == "problem/problem.toml").unwrap();
                parse_problem("problem.toml", &toml.1).unwrap();
            }
            Err(error) => assert!(!error.message.is_empty()),
        }
    }
}

/// Pieces of kernels in any order: deeper into the walk than any text of random letters.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "for (int i = 0; i < n; i++) ",
        "for (;;) ",
        "while (n--) ",
        "if (x[i] > 0) ",
        "else ",
        "{ ",
        "} ",
        "x[i * n + j] ",
        "y[i] ",
        "= ",
        "+= ",
        "; ",
        "( ",
        ") ",
        "[ ",
        "] ",
        "*p++ ",
        "i ",
        "j ",
        "n ",
        "0 ",
        "9223372036854775807 ",
        "- ",
        "% ",
        "/ ",
        "<< ",
        "int k = ",
        "float *p = x + ",
        "&",
        "s->w ",
        "f(x, y, n) ",
        "M(i, j) ",
        "return ",
        "? ",
        ": ",
        "\n",
        "#define M(a, b) M(b, a)\n",
        "#define n n\n",
        "typedef t t;\n",
        "struct s { int w; float *x; };\n",
        "sizeof(",
        "memcpy(y, x, ",
        "min(",
        "é",
        "\\\n",
        "/* ",
        "\"",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|all| {
        format!(
            "struct s {{ float *p; int w; }};\nvoid f(const float *x, float *y, int n, struct s *s) {{ {} }}\n",
            all.concat()
        )
    })
}

fn device_pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "int i = blockIdx.x * blockDim.x + threadIdx.x; ",
        "int t = threadIdx.x; ",
        "if (i < n) ",
        "if (t == 0) ",
        "if (i >= n || t) return; ",
        "for (int c = t; c < n; c += blockDim.x) ",
        "while (i < n) ",
        "i += gridDim.x * blockDim.x; ",
        "y[i] = x[i]; ",
        "y[blockIdx.y * n + c] += 1; ",
        "atomicAdd(&y[i], x[t]); ",
        "atomicAdd(",
        "__ldg(x + i) ",
        "__shared__ float s[32]; ",
        "__syncthreads(); ",
        "{ ",
        "} ",
        "( ",
        ") ",
        "; ",
        "<<<",
        ">>>",
        "f<<<n, 32>>>(x, y, n); ",
        "} void g(const float *x, float *y, int n, cudaStream_t s) { ",
        "dim3 b(n, 2); ",
        "torch::Tensor z; ",
        "cudaMemsetAsync(y, 0, n * sizeof(float), s); ",
        "é",
        "\n",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|all| {
        format!(
            "__global__ void f(const float *x, float *y, int n) {{ {} }}\nvoid h(const float *x, float *y, int n) {{ f<<<n, 32>>>(x, y, n); }}\n",
            all.concat()
        )
    })
}

proptest! {
    #[test]
    fn any_text_is_answered(text in "\\PC*") {
        answered("k.c", &text);
        answered("k.cc", &text);
        answered("k.cu", &text);
    }

    #[test]
    fn any_pieces_are_answered(text in pieces()) {
        answered("k.c", &text);
        answered("k.cc", &text);
    }

    #[test]
    fn any_pieces_of_device_code_are_answered(text in device_pieces()) {
        answered("k.cu", &text);
    }
}

#[test]
fn deep_and_long_files_are_answered() {
    let deep = |open: &str, close: &str| {
        format!("void f(float *x, int n) {{ x[0] = {}n{}; }}", open.repeat(20_000), close.repeat(20_000))
    };
    answered("k.c", &deep("(", ")"));
    answered("k.c", &deep("x[", "]"));
    answered("k.c", &deep("-", ""));
    answered("k.c", &format!("void f(float *x) {{ {} }}", "{".repeat(50_000)));
    answered("k.c", &format!("void f(float {}x) {{}}", "*".repeat(50_000)));
    answered("k.c", &" ".repeat(LONGEST + 1));
    answered("k.c", "");
}

/// Found among the pieces: every array is only read, and a problem without an output is none.
#[test]
fn a_kernel_that_writes_nothing_is_refused() {
    let text = "__global__ void f(const float *x, float *y, int n) { <<<atomicAdd(<<<atomicAdd(&y[i], x[t]); )  }\n\
                void h(const float *x, float *y, int n) { f<<<n, 32>>>(x, y, n); }\n";
    answered("k.cu", text);
    answered(
        "k.c",
        "int t;\nvoid f(const float *x, float *y, int n) { for (int i = 0; i < n; i++) t += x[i] > y[i]; }\n",
    );
}
