//! What is read out of small kernels: roles, element types, shapes, fields. Every generated problem is one that the
//! problem format accepts, with every scenario of it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use kernelseek_core::campaign_file::parse_campaign;
use kernelseek_core::problem::{Problem, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use kernelseek_scaffold::{Reference, Request, Scaffold, scaffold};
use std::collections::BTreeMap;

fn request<'a>(file: &'a str, text: &'a str) -> Request<'a> {
    Request {
        file,
        text,
        copy: text,
        headers: &[],
        function: None,
        types: BTreeMap::new(),
        launch: None,
        reference: Reference::Native,
        missing: &[],
    }
}

fn file<'a>(made: &'a Scaffold, name: &str) -> &'a str {
    made.files.iter().find(|(path, _)| path == name).map(|(_, text)| text.as_str()).unwrap()
}

/// Everything about a scaffold that the formats can check.
fn sound(made: &Scaffold) -> Problem {
    let toml = file(made, "problem/problem.toml");
    let problem = parse_problem("problem.toml", toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    let lines = file(made, "problem/cpu.jsonl");
    let scenarios = parse_scenarios(&problem, "cpu.jsonl", lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
    assert!(!scenarios.is_empty());
    for scenario in &scenarios {
        let case = resolve(&problem, scenario).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        for tensor in &case.tensors {
            assert!(tensor.shape.iter().all(|e| *e > 0), "{} in {}\n{toml}", tensor.name, scenario.id);
        }
    }
    parse_campaign("campaign.toml", file(made, "campaign.toml")).unwrap();
    problem
}

/// `name role dtype shape`, one a tensor, then the fields.
fn plan(name: &str, text: &str) -> String {
    let made = scaffold(&request(name, text)).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let problem = sound(&made);
    let mut out: Vec<String> = problem
        .tensors
        .iter()
        .map(|t| {
            let stride = t.stride.as_ref().map_or_else(String::new, |s| format!(" by {s}"));
            format!("{} {:?} {} {}{stride}", t.name, t.role, t.dtype.text().trim_matches('\''), t.shape)
                .to_lowercase()
        })
        .collect();
    out.push(problem.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>().join(" "));
    out.join("; ")
}

#[test]
fn shapes_and_roles_from_subscripts_and_loops() {
    for (text, expected) in [
        (
            "void axpby(const float *x, float *y, int n, float a) { for (int i = 0; i < n; i++) y[i] += a * x[i]; }",
            "x varying f32 (n); y inout f32 (n); n",
        ),
        (
            "void mm(const double *a, const double *b, double *c, int m, int n, int k) {
                for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) { c[i * n + j] = 0;
                    for (int p = 0; p < k; p++) c[i * n + j] += a[i * k + p] * b[p * n + j]; } }",
            "a varying f64 (m, k); b varying f64 (k, n); c output f64 (m, n); m n k",
        ),
        // The valid part of a convolution: the width of the output is a difference, and at least 1 where the loops run.
        (
            "void conv(const float *in, const float *w, float *out, int height, int width, int kh, int kw) {
                int oh = height - kh + 1, ow = width - kw + 1;
                for (int y = 0; y < oh; y++) for (int x = 0; x < ow; x++) { float sum = 0;
                    for (int i = 0; i < kh; i++) for (int j = 0; j < kw; j++)
                        sum += in[(y + i) * width + x + j] * w[i * kw + j];
                    out[y * ow + x] = sum; } }",
            "in varying f32 (height, width); w varying f32 (kh, kw); out output f32 (height - kh + 1, width - kw + 1); height width kh kw",
        ),
        // A row pointer, a last row that is read from its end.
        (
            "void rev(const float *x, float *y, long rows, long cols) { for (long r = 0; r < rows; ++r) {
                const float *row = x + r * cols; float *to = &y[r * cols];
                for (long c = 0; c < cols; ++c) to[c] = row[cols - 1 - c]; } }",
            "x varying f32 (rows, cols); y output f32 (rows, cols); rows cols",
        ),
        // Convolution: n + taps - 1 inputs.
        (
            "void conv(const float *x, const float *w, float *y, int n, int taps) { for (int i = 0; i < n; i++) {
                float s = 0; for (int k = 0; k < taps; k++) s += x[i + k] * w[k]; y[i] = s; } }",
            "x varying f32 (n + taps - 1); w varying f32 (taps); y output f32 (n); n taps",
        ),
        // The borders are not written.
        (
            "void inner(const float *a, float *b, int h, int w) { for (int i = 1; i < h - 1; i++)
                for (int j = 1; j < w - 1; j++) b[i * w + j] = a[(i - 1) * w + j] + a[i * w + j + 1]; }",
            "a varying f32 (h, w); b inout f32 (h, w); h w",
        ),
        // One less is written, and that is all that there is of it.
        (
            "void diff(const float *x, float *y, int n) { for (int i = 0; i < n - 1; i++) y[i] = x[i + 1] - x[i]; }",
            "x varying f32 (n); y output f32 (n - 1); n",
        ),
        // A leading dimension.
        (
            "void scale(float *a, int lda, int m, int n) { for (int i = 0; i < m; i++) for (int j = 0; j < n; j++)
                a[i * lda + j] *= 2.0f; }",
            "a inout f32 (m, n) by (lda, 1); lda m n",
        ),
        // Unrolled, with the rest in a loop of its own.
        (
            "void un(const float *x, float *y, int n) { int i = 0; for (; i + 4 <= n; i += 4) { y[i] = x[i];
                y[i + 1] = x[i + 1]; y[i + 2] = x[i + 2]; y[i + 3] = x[i + 3]; } for (; i < n; i++) y[i] = x[i]; }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        // Unrolled without a rest: multiples of 4.
        (
            "void un4(const float *x, float *y, int n) { for (int i = 0; i < n; i += 4) { y[i] = x[i];
                y[i + 1] = x[i + 1]; y[i + 2] = x[i + 2]; y[i + 3] = x[i + 3]; } }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        // Tiles that end at the border.
        (
            "#define T 32\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\nvoid tr(const float *a, float *b, int n, int m) {
                for (int ii = 0; ii < n; ii += T) for (int jj = 0; jj < m; jj += T)
                for (int i = ii; i < MIN(ii + T, n); i++) for (int j = jj; j < MIN(jj + T, m); j++)
                b[j * n + i] = a[i * m + j]; }",
            "a varying f32 (n, m); b output f32 (m, n); n m",
        ),
        // Running sums into another array: each element is written before the next one reads it.
        (
            "void scan(const int *x, int *y, int n) { y[0] = x[0]; for (int i = 1; i < n; i++) y[i] = y[i - 1] + x[i]; }",
            "x varying i32 (n); y output i32 (n); n",
        ),
        // Backwards.
        (
            "void back(const float *x, float *y, int n) { for (int i = n - 1; i >= 0; i--) y[i] = x[i] * 2; }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        (
            "#include <stddef.h>\nvoid down(const float *x, float *y, size_t n) { for (size_t i = n; i-- > 0;) y[i] = x[i]; }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        ("void w(float *y, int n) { int i = 0; while (i < n) { y[i] = 1.0f * i; i++; } }", "y output f32 (n); n"),
        // Both branches write; one branch writes.
        (
            "void relu(const float *x, float *y, int n) { for (int i = 0; i < n; i++) { if (x[i] > 0) y[i] = x[i];
                else y[i] = 0; } }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        (
            "void some(const float *x, float *y, int n) { for (int i = 0; i < n; i++) { if (x[i] < 0) continue; y[i] = x[i]; } }",
            "x varying f32 (n); y inout f32 (n); n",
        ),
        // Through a helper and a macro.
        (
            "#define AT(p, r, c) (p)[(r) * ld + (c)]\nstatic float dot(const float *a, const float *b, int n) { float s = 0;
                for (int i = 0; i < n; i++) s += a[i] * b[i]; return s; }
             void mv(const float *m, const float *v, float *y, int rows, int ld) { for (int r = 0; r < rows; r++) {
                y[r] = dot(&AT(m, r, 0), v, ld); } }",
            "m varying f32 (rows, ld); v varying f32 (ld); y output f32 (rows); rows ld",
        ),
        (
            "#include <string.h>\nvoid cp(const float *x, float *y, int n) { memcpy(y, x, n * sizeof(float)); y[0] += 1.0f; }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        // Declared extents.
        (
            "void m3(const float a[3][3], const float *v, float out[3]) { for (int i = 0; i < 3; i++) { out[i] = 0;
                for (int j = 0; j < 3; j++) out[i] += a[i][j] * v[j]; } }",
            "a varying f32 (3, 3); v varying f32 (3); out output f32 (3); ",
        ),
        (
            "void vla(int m, int n, const float a[m][n], float s[m]) { for (int i = 0; i < m; i++) { s[i] = 0;
                for (int j = 0; j < n; j++) s[i] += a[i][j]; } }",
            "a varying f32 (m, n); s output f32 (m); m n",
        ),
        // Indices, and rows of different lengths.
        (
            "void gather(const float *table, const int *index, float *y, int n, int d, int vocab) {
                for (int i = 0; i < n; i++) for (int j = 0; j < d; j++) y[i * d + j] = table[index[i] * d + j]; }",
            "table varying f32 (vocab, d); index varying i32 (n); y output f32 (n, d); n d vocab",
        ),
        (
            "void spmv(int rows, const int *start, const int *col, const float *val, const float *x, float *y) {
                for (int r = 0; r < rows; r++) { float s = 0; for (int k = start[r]; k < start[r + 1]; k++)
                s += val[k] * x[col[k]]; y[r] = s; } }",
            "start varying i32 (rows + 1); col varying i32 (per_row * rows - per_row * 0); val varying f32 (per_row * rows); \
             x varying f32 (x_rows); y output f32 (rows); rows per_row x_rows",
        ),
        // Structs share what has the same name; two pointers of one name do not.
        (
            "struct img { float *p; int w, h; };\nvoid half(const struct img *in, struct img *out) {
                for (int y = 0; y < in->h; y++) for (int x = 0; x < in->w; x++)
                out->p[y * in->w + x] = 0.5f * in->p[y * in->w + x]; }",
            "in_p varying f32 (h, w); out_p output f32 (h, w); w h",
        ),
        // Other element types, a status, a scalar result.
        (
            "#include <stdint.h>\nint count(const uint8_t *a, const uint32_t *b, unsigned short *c, int64_t n) {
                int k = 0; for (int64_t i = 0; i < n; i++) { c[i] = a[i]; k += b[i] > 3; } return k; }",
            "a varying u8 (n); b varying i32 (n); c output i16 (n); result output i32 (1); n",
        ),
        // Cleared as a whole before anything is counted.
        (
            "#include <string.h>\nvoid hist(const unsigned char *x, int *bins, int n) { memset(bins, 0, 256 * sizeof(int));
                for (int i = 0; i < n; i++) bins[x[i]]++; }",
            "x varying u8 (n); bins output i32 (256); n",
        ),
        // A local array bounds a size, and a pointer that moves has the shape of what is known.
        (
            "void two(const float *x, float *y, int n) { float t[64]; for (int i = 0; i < n; i++) t[i] = *x++;
                for (int i = 0; i < n; i++) y[i] = t[n - 1 - i]; }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        // Clamped at the borders.
        (
            "void blur(const float *x, float *y, int n) { for (int i = 0; i < n; i++) { int l = i > 0 ? i - 1 : 0;
                int r = i + 1 < n ? i + 1 : n - 1; y[i] = x[l] + x[r]; } }",
            "x varying f32 (n); y output f32 (n); n",
        ),
        // Channels last.
        (
            "void gray(const unsigned char *rgb, float *y, int n) { for (int i = 0; i < n; i++)
                y[i] = 0.3f * rgb[3 * i] + 0.6f * rgb[3 * i + 1] + 0.1f * rgb[3 * i + 2]; }",
            "rgb varying u8 (n, 3); y output f32 (n); n",
        ),
    ] {
        let expected = expected.replace("per_row * rows - per_row * 0", "per_row * rows");
        assert_eq!(plan("k.c", text), expected, "{text}");
    }
}

#[test]
fn what_cxx_adds() {
    for (text, expected) in [
        (
            "#include <span>\nvoid add(std::span<const float> x, std::span<float> y) { for (std::size_t i = 0; i < x.size(); ++i)
                y[i] += x[i]; }",
            "x varying f32 (x_size); y inout f32 (x_size); x_size",
        ),
        (
            "void sum(const float *x, int n, float &total) { total = 0; for (int i = 0; i < n; ++i) total += x[i]; }",
            "x varying f32 (n); total output f32 (1); n",
        ),
        (
            "template <typename T, int K = 4> void t(const T *x, T *y, int n) { for (int i = 0; i < n; ++i)
                for (int k = 0; k < K; ++k) y[i * K + k] = x[i] * T(k); }",
            "x varying f32 (n); y output f32 (n, 4); n",
        ),
        (
            "#include <algorithm>\nextern \"C\" void box(const double *a, double *b, int n, int r) { for (int i = 0; i < n; ++i) {
                b[i] = 0; for (int j = std::max(i - r, 0); j <= std::min(i + r, n - 1); ++j) b[i] += a[j]; } }",
            "a varying f64 (n); b output f64 (n); n r",
        ),
    ] {
        assert_eq!(plan("k.cc", text), expected, "{text}");
    }
}

#[test]
fn refusals_say_where_and_what_to_do() {
    for (name, text, says, hint) in [
        ("k.c", "int x;", "no function", "body"),
        ("k.c", "void f(int a);", "no function", "body"),
        ("k.c", "void f(float *x, int n) { for (;", "syntax error", "mend"),
        ("k.c", "void f(float *x) {}\nvoid g(float *x) {}", "f (line 1), g (line 2)", "--function"),
        ("k.c", "void f(float *x, int (*cb)(int)) {}", "function pointer", "takes pointers, sizes"),
        ("k.c", "#include <stdio.h>\nvoid f(FILE *out, float *x) {}", "FILE *", "takes pointers, sizes"),
        ("k.c", "void f(void *x, int n) {}", "void *", "type of its elements"),
        ("k.c", "void f(float **rows, int n) {}", "pointer to pointers", "row length"),
        ("k.c", "void f(struct unknown *s) {}", "struct unknown", "local headers"),
        (
            "k.c",
            "struct s { float w[3]; int n; };\nvoid f(struct s *s) {}",
            "array [3] inside",
            "takes pointers",
        ),
        ("k.c", "void f(float *x, ...) {}", "variable arguments", "--function"),
        ("k.cc", "#include <vector>\nvoid f(std::vector<float> &x) {}", "std::vector", "std::span"),
        ("k.cc", "template <int K> void f(float *x) { x[K] = 0; }", "needs a value", "--type K="),
        ("k.cu", "__global__ void f(float *x) {}", "nothing in k.cu launches `f`", "--launch"),
        ("k.c", "__global__ void f(float *x) {}", "CUDA in a file", ".cu"),
        ("k.py", "def f(): pass", "Python is not supported yet", ".cc"),
        ("k.h", "void f(float *x) {}", "header", ".c or .cc"),
    ] {
        let error = scaffold(&request(name, text)).unwrap_err();
        assert!(error.message.contains(says), "{text}: {error}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{text}: {error}");
    }
}

#[test]
fn a_reference_that_would_be_wrong_is_not_made() {
    let text =
        "#include <immintrin.h>\nvoid f(const float *x, float *y, int n) { for (int i = 0; i < n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_loadu_ps(x + i)); }";
    let made = scaffold(&request("k.c", text)).unwrap();
    sound(&made);
    assert!(!made.derived);
    assert!(file(&made, "problem/reference.c").contains("#error"));
    assert!(made.guesses.iter().any(|g| g.text.contains("_mm256_storeu_ps")), "{:?}", made.guesses);
    let made = scaffold(&Request { reference: Reference::Python, ..request("k.c", text) }).unwrap();
    assert!(file(&made, "problem/reference.py").contains("raise NotImplementedError"));
    sound(&made);
}

#[test]
fn names_that_would_collide_are_others() {
    let text = "void stream(const float *in, float *ks_x, int sum, int id) { for (int i = 0; i < sum; i++) ks_x[i] = in[i] * id; }";
    let made = scaffold(&request("k.c", text)).unwrap();
    let problem = sound(&made);
    assert_eq!(problem.name, "stream_op");
    let names: Vec<&str> = problem.fields.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["sum_arg", "id_arg"]);
    assert!(file(&made, "problem/seed.c").contains("call->sum_arg"));
}

#[test]
fn sizes_that_the_code_relies_on_are_kept() {
    let eight = "void f(const float *x, float *y, int n) { float t[64]; for (int i = 0; i < n; i += 8)
        for (int k = 0; k < 8; k++) { t[0] = x[i + k]; y[i + k] = t[0]; } }";
    let made = scaffold(&request("k.c", eight)).unwrap();
    sound(&made);
    for line in file(&made, "problem/cpu.jsonl").lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["n"].as_i64().unwrap() % 8, 0, "{line}");
    }
    let small =
        "void f(const float *x, float *y, int n) { float t[64]; for (int i = 0; i < n; i++) t[i] = x[i];
        for (int i = 0; i < n; i++) y[i] = t[i]; }";
    let made = scaffold(&request("k.c", small)).unwrap();
    assert_eq!(sound(&made).fields[0].max, Some(64.0));
}

#[test]
fn guesses_have_the_line_they_stand_in() {
    let text = "int f(const float *x, float *y, int n, float eps) { for (int i = 0; i < n; i++) y[i] = x[i] + eps; return 0; }";
    let made = scaffold(&request("k.c", text)).unwrap();
    assert!(made.guesses.len() > 8);
    for guess in &made.guesses {
        let line = file(&made, &guess.file).lines().nth(guess.line - 1).unwrap();
        assert!(line.contains("CHECK") && line.contains(&guess.text), "{guess:?}: {line}");
    }
}
