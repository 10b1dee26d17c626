//! CUDA kernels that nobody prepared: what is read out of them, and that what is written compiles where nvcc is.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test program: a panic is a failed test")]

use kernelseek_core::header::header;
use kernelseek_core::problem::{Problem, Target, parse_problem};
use kernelseek_core::resolve::resolve;
use kernelseek_core::scenario::parse_scenarios;
use kernelseek_scaffold::{Reference, Request, Scaffold, scaffold};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const KERNELS: [(&str, &str); 5] = [
    ("axpby.cu", include_str!("kernels/axpby.cu")),
    ("rownorm.cu", include_str!("kernels/rownorm.cu")),
    ("heat.cu", include_str!("kernels/heat.cu")),
    ("histogram.cu", include_str!("kernels/histogram.cu")),
    ("bias_gelu.cu", include_str!("kernels/bias_gelu.cu")),
];

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

fn sound(made: &Scaffold) -> Problem {
    let toml = file(made, "problem/problem.toml");
    let problem = parse_problem("problem.toml", toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
    assert_eq!(problem.target, Target::Cuda);
    let lines = file(made, "problem/cuda.jsonl");
    let scenarios = parse_scenarios(&problem, "cuda.jsonl", lines).unwrap_or_else(|e| panic!("{e}\n{lines}"));
    assert!(scenarios.len() >= 3, "{lines}");
    for scenario in &scenarios {
        let case = resolve(&problem, scenario).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        for tensor in &case.tensors {
            assert!(tensor.shape.iter().all(|e| *e > 0), "{} in {}\n{toml}", tensor.name, scenario.id);
        }
    }
    problem
}

/// `name role dtype shape`, one a tensor, then the fields.
fn told(problem: &Problem) -> String {
    let mut out: Vec<String> = problem
        .tensors
        .iter()
        .map(|t| {
            format!("{} {:?} {} {}", t.name, t.role, t.dtype.text().trim_matches('\''), t.shape)
                .to_lowercase()
        })
        .collect();
    out.push(problem.fields.iter().map(|f| f.name.clone()).collect::<Vec<_>>().join(" "));
    out.join("; ")
}

fn made(name: &str) -> Scaffold {
    let (file, text) = KERNELS.iter().find(|(file, _)| *file == name).unwrap();
    scaffold(&request(file, text)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

#[test]
fn grids_and_guards_give_shapes_and_roles() {
    for (name, function, expected) in [
        ("axpby.cu", "axpby", "x varying f32 (n); y inout f32 (n); n"),
        (
            "rownorm.cu",
            "rownorm",
            "in varying f32 (rows, cols); out output f32 (rows, cols); norms output f32 (rows); rows cols",
        ),
        (
            "heat.cu",
            "heat_step",
            "u varying f32 (height, width); next output f32 (height, width); height width",
        ),
        ("histogram.cu", "stats::histogram", "values varying u8 (n); bins output i32 (256); n"),
        (
            "bias_gelu.cu",
            "bias_gelu_kernel",
            "x varying f32 (rows, cols); bias varying f32 (cols); out output f32 (rows, cols); rows cols",
        ),
    ] {
        let made = made(name);
        assert_eq!(made.function, function);
        assert_eq!(told(&sound(&made)), expected, "{name}\n{}", file(&made, "problem/problem.toml"));
        assert!(made.derived, "{name}: {}", file(&made, "problem/reference.cu"));
    }
}

#[test]
fn what_a_reference_finds_is_said_in_one_line() {
    // `init` lists the lines with CHECK and nothing of those that follow.
    for (name, finds) in
        [("axpby.cu", "it finds rounding"), ("histogram.cu", "it finds a candidate that differs")]
    {
        let made = made(name);
        let guess = made.guesses.iter().find(|g| g.file == "problem/reference.cu").unwrap();
        assert!(guess.text.contains(finds) && guess.text.ends_with("not a wrong formula."), "{guess:?}");
    }
}

#[test]
fn the_call_runs_on_its_own_stream() {
    for (name, parts) in [
        (
            "axpby.cu",
            &[
                "launch_axpby((const float *)call->x.data, (float *)call->y.data, (int)call->n",
                "(cudaStream_t)call->stream)",
            ][..],
        ),
        ("rownorm.cu", &["launch_rownorm<float, 256>(", "rownorm<T, BLOCK><<<grid, block, 0, stream>>>"][..]),
        (
            "heat.cu",
            &[
                "heat_kernel<<<grid, block, 0, kernelseek_stream>>>(",
                "kernelseek_stream = (cudaStream_t)call->stream;",
                "CHECK(cudaGetLastError());\n    CHECK(cudaGetLastError());",
                "const cudaError_t error = heat_step(",
            ][..],
        ),
        ("histogram.cu", &["stats::histogram(", "(cudaStream_t)call->stream)"][..]),
        ("bias_gelu.cu", &["launch_bias_gelu_kernel<float>("][..]),
    ] {
        let made = made(name);
        let seed = file(&made, "problem/seed.cu");
        for part in parts {
            assert!(seed.contains(part), "{name}: {part}\n{seed}");
        }
        assert!(!seed.contains("int main") && !seed.contains("torch::"), "{seed}");
        assert_eq!(seed, file(&made, "kernel.cu"));
    }
}

/// nvcc and the folder of its runtime, where there is one.
fn nvcc() -> Option<(PathBuf, PathBuf)> {
    let named = std::env::var_os("KERNELSEEK_NVCC").map(PathBuf::from);
    let path = std::env::var_os("PATH")?;
    let found =
        named.or_else(|| std::env::split_paths(&path).map(|p| p.join("nvcc")).find(|p| p.is_file()))?;
    let real = found.canonicalize().ok()?;
    let root = real.parent()?.parent()?.to_owned();
    let lib = ["lib", "lib64", "targets/x86_64-linux/lib"].map(|l| root.join(l));
    let lib =
        lib.into_iter().find(|l| l.join("libcudart.so.13").exists() || l.join("libcudart.so.12").exists())?;
    Some((real, lib))
}

#[test]
fn seeds_and_references_compile() {
    let Some((nvcc, lib)) = nvcc() else {
        eprintln!("skipped: no nvcc (KERNELSEEK_NVCC, PATH)");
        return;
    };
    let runtime = ["13", "12"].iter().find(|n| lib.join(format!("libcudart.so.{n}")).exists()).unwrap();
    for (name, _) in KERNELS {
        let made = made(name);
        let folder = tempfile::tempdir().unwrap();
        let problem = sound(&made);
        std::fs::write(folder.path().join(format!("{}.h", made.problem)), header(&problem)).unwrap();
        for source in ["seed.cu", "reference.cu"] {
            std::fs::write(folder.path().join(source), file(&made, &format!("problem/{source}"))).unwrap();
            let ran = Command::new(&nvcc)
                .current_dir(folder.path())
                .args(["-shared", "-Xcompiler", "-fPIC", "-O3", "--cudart", "none", "-I."])
                .args(["-gencode=arch=compute_90a,code=sm_90a", source, "-o", "out.so"])
                .arg(format!("-L{}", lib.display()))
                .args(["-Xlinker", &format!("-l:libcudart.so.{runtime}")])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            assert!(
                ran.status.success(),
                "{name} {source}\n{said}\n{}",
                file(&made, &format!("problem/{source}"))
            );
        }
    }
}

#[test]
fn what_cannot_be_told_is_asked() {
    let alone =
        "__global__ void k(float *x, int n) { int i = blockIdx.x * 64 + threadIdx.x; if (i < n) x[i] = 1; }";
    let error = scaffold(&request("k.cu", alone)).unwrap_err();
    assert!(error.message.contains("nothing in k.cu launches `k`"), "{error}");
    assert!(error.hint.as_ref().unwrap().contains("--launch"), "{error}");
    let made = scaffold(&Request { launch: Some("grid=(n + 63) / 64, block=64"), ..request("k.cu", alone) })
        .unwrap();
    assert_eq!(told(&sound(&made)), "x output f32 (n); n");
    for (launch, says) in
        [("grid=1", "needs grid and block"), ("grid=1, blok=2", "`blok` is none of"), ("n", "has no `=`")]
    {
        let error = scaffold(&Request { launch: Some(launch), ..request("k.cu", alone) }).unwrap_err();
        assert!(error.message.contains(says), "{error}");
    }
    for (text, says) in [
        (
            "__global__ void k(float *x) { x[0] = 1; }\nint main(int argc, char **argv) { int b = atoi(argv[1]); k<<<b * argc, 1>>>(0); }",
            "uses `argv`",
        ),
        (
            "__global__ void a(float *x) { x[0] = 1; }\n__global__ void b(float *x) { x[0] = 1; }",
            "2 kernels, and no function",
        ),
        ("__device__ void f(float *x) { x[0] = 1; }", "no kernel with a body"),
        (
            "__global__ void k(float *x) { x[0] = 1; }\nfloat f(float *x, int n) { k<<<1, n>>>(x); return 2.0f * n; }",
            "it returns a value",
        ),
    ] {
        let error = scaffold(&request("k.cu", text)).unwrap_err();
        assert!(error.message.contains(says), "{error}");
    }
}

#[test]
fn code_for_one_type_gets_a_skeleton() {
    let text = "__global__ void k(const float *x, float *y, int n) { int i = blockIdx.x * 256 + threadIdx.x;\n  if (i < n / 4) \
                reinterpret_cast<float4 *>(y)[i] = reinterpret_cast<const float4 *>(x)[i]; }\n\
                void f(const float *x, float *y, int n, cudaStream_t s) { k<<<(n + 1023) / 1024, 256, 0, s>>>(x, y, n); }";
    let made = scaffold(&request("k.cu", text)).unwrap();
    assert!(!made.derived);
    let reference = file(&made, "problem/reference.cu");
    assert!(reference.contains("k.cu, line 2") && reference.contains("#error"), "{reference}");
    sound(&made);
}

#[test]
fn other_languages_are_named() {
    for (name, says) in [
        ("k.rs", "Rust is not supported yet"),
        ("k.py", "Python is not supported yet"),
        ("k.hip", "HIP is not supported yet"),
        ("k.metal", "Metal is not supported yet"),
        ("k.cl", "OpenCL is not supported yet"),
        ("k.zig", "Zig is not supported yet"),
        ("k.txt", "neither C, C++ nor CUDA"),
    ] {
        let error = scaffold(&request(name, "x")).unwrap_err();
        assert!(error.message.contains(says), "{error}");
        assert!(error.hint.as_ref().unwrap().contains("(.cu, .cuh)"), "{error}");
    }
}
