//! The CUDA compiler through the real binary, builds sandboxed. Those that need a real one take `KERNELSEEK_NVCC`, else
//! one on PATH, and say that they are skipped without one. No GPU is needed.

#![expect(clippy::print_stderr, reason = "tests say what they skip")]

use crate::context;
use kernelseek_testkit::{Ran, TestContext, findings, toolkit};
use serde_json::Value;
use std::path::PathBuf;

fn nvcc() -> Option<PathBuf> {
    let named = std::env::var_os("KERNELSEEK_NVCC").filter(|v| !v.is_empty()).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| std::env::split_paths(&path).map(|f| f.join("nvcc")).find(|p| p.is_file()));
    if found.is_none() {
        eprintln!("skipped: no nvcc (KERNELSEEK_NVCC, PATH)");
    }
    found
}

fn run(c: &TestContext, args: &[&str], nvcc: &std::path::Path) -> Ran {
    c.run_with(args, &[("KERNELSEEK_NVCC", nvcc.to_str().unwrap())]).unwrap()
}

fn json(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    ran.json().unwrap()
}

const BUILD: [&str; 5] = ["build", "seed.cu", "--arch", "sm_90a", "--json"];

#[test]
fn a_kernel_is_built_once_and_says_what_it_takes() {
    let Some(nvcc) = nvcc() else { return };
    let c = context("cuda_rowscale");
    let first = json(&run(&c, &BUILD, &nvcc));
    let kernel = &first["kernels"][0];
    assert_eq!(first["kernels"].as_array().unwrap().len(), 1, "{first:#}");
    assert!(kernel["readable"].as_str().unwrap().starts_with("scale("), "{kernel:#}");
    assert_eq!((kernel["arch"].as_str(), kernel["entry"].as_bool()), (Some("sm_90a"), Some(true)));
    assert!(kernel["registers"].as_u64().unwrap() > 4, "{kernel:#}");
    assert!(first["compiler"].as_str().unwrap().starts_with("nvcc "), "{first:#}");
    let sources = first["sources"].to_string();
    assert!(
        sources.contains("seed.cu") && sources.contains("tile.h") && sources.contains("rowscale.h"),
        "{sources}"
    );
    assert!(!sources.contains("cuda_runtime.h"), "{sources}");

    let again = json(&run(&c, &BUILD, &nvcc));
    assert_eq!((first["cached"].as_bool(), again["cached"].as_bool()), (Some(false), Some(true)));
    assert_eq!(first["kernels"], again["kernels"]);
    let other = json(&run(&c, &["build", "seed.cu", "--arch", "sm_80", "--json"], &nvcc));
    assert_ne!(other["candidate"], first["candidate"]);
    c.edit("tile.h", "256", "128").unwrap();
    let edited = json(&run(&c, &BUILD, &nvcc));
    assert_ne!(edited["candidate"], first["candidate"]);
    assert_eq!(edited["cached"], false);

    let artifact = edited["artifact"].as_str().unwrap().replace("[FOLDER]", &folder(&c));
    let facts = json(&c.run(&["inspect", &artifact, "--json"]).unwrap());
    let needed: Vec<&str> =
        facts["facts"]["needed"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(needed.iter().any(|n| n.starts_with("libcudart.so.1")), "{needed:?}");
    let imports = facts["facts"]["imports"].to_string();
    assert!(imports.contains("cudaGetLastError") && !imports.contains("dlopen"), "{imports}");
}

fn folder(c: &TestContext) -> String {
    c.problem().parent().unwrap().display().to_string()
}

#[test]
fn an_error_names_its_place() {
    let Some(nvcc) = nvcc() else { return };
    let c = context("cuda_rowscale");
    c.edit("seed.cu", "tanhf(x[at])", "tanhf(z[at])").unwrap();
    let ran = run(&c, &["build", "seed.cu", "--arch", "sm_90a"], &nvcc);
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("seed.cu(6): error: identifier \"z\" is undefined"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("Compiling entry"), "{}", ran.stderr);
}

#[test]
fn libraries_of_the_toolkit_are_denied_as_everywhere() {
    let Some(nvcc) = nvcc() else { return };
    let c = context("cuda_rowscale");
    c.edit("seed.cu", "#include \"tile.h\"", "#include \"tile.h\"\n#include <cub/cub.cuh>").unwrap();
    let built = json(&run(&c, &BUILD, &nvcc));
    assert!(findings(&built).contains(&("allowed.header".into(), "fail".into())), "{built:#}");
}

#[test]
fn what_costs_time_on_the_gpu_is_said() {
    let Some(nvcc) = nvcc() else { return };
    let c = context("cuda_rowscale");
    c.edit(
        "seed.cu",
        "    int64_t at =",
        "    asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\");\n    int64_t at =",
    )
    .unwrap();
    let built = json(&run(&c, &BUILD, &nvcc));
    assert!(findings(&built).contains(&("built.setmaxnreg-ignored".into(), "warning".into())), "{built:#}");
}

#[test]
fn one_compiler_for_each_target() {
    let c = context("cuda_rowscale");
    c.write("k.c", "").unwrap();
    let ran = c.run(&["build", "k.c"]).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("the problem's target is cuda") && ran.stderr.contains(".cu"),
        "{}",
        ran.stderr
    );
    let c = context("rowscale");
    c.write("k.cu", "").unwrap();
    let ran = c.run(&["build", "k.cu"]).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains("the problem's target is cpu"), "{}", ran.stderr);
}

#[test]
fn without_a_compiler_the_way_to_one_is_said() {
    let c = context("cuda_rowscale");
    let ran = c.run(&["build", "seed.cu", "--nvcc", "/no/such/nvcc", "--arch", "sm_90a"]).unwrap();
    assert_eq!(ran.code, 4, "{}", ran.snapshot());
    assert!(ran.stderr.contains("no CUDA compiler found (looked for /no/such/nvcc)"), "{}", ran.stderr);
    assert!(ran.stderr.contains("pip install --no-deps nvidia-cuda-nvcc=="), "{}", ran.stderr);
    // What needs no compiler works.
    let ran = c.run(&["header", "."]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
}

#[test]
fn doctor_says_which_compiler_is_taken() {
    let c = context("cuda_rowscale");
    let home = c.problem().join("toolkit");
    toolkit::fake(&home, "12.6.85").unwrap();
    let env = [("CUDA_HOME", home.to_str().unwrap())];
    let ran = c.run_with(&["doctor", "--json"], &env).unwrap();
    let nvcc = &json(&ran)["nvcc"];
    assert_eq!(
        (nvcc["version"].as_str(), nvcc["found"].as_str()),
        (Some("12.6.85"), Some("by CUDA_HOME")),
        "{nvcc:#}"
    );
    assert!(nvcc["runtime"].as_str().unwrap().ends_with("lib64/libcudart.so.12"), "{nvcc:#}");
    let text = c.run_with(&["doctor"], &env).unwrap().stdout;
    assert!(text.contains("✓ nvcc             12.6.85 ("), "{text}");
    // The contents of every part count.
    std::fs::write(home.join("bin/ptxas"), "another").unwrap();
    let other = json(&c.run_with(&["doctor", "--json"], &env).unwrap());
    assert_ne!(other["nvcc"]["identity"], nvcc["identity"]);
    // What it says when it does not compile is shown.
    let ran = c.run_with(&["build", "seed.cu", "--arch", "sm_90a"], &env).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stderr.contains(toolkit::REFUSAL), "{}", ran.stderr);
    std::fs::remove_file(home.join("lib64/libcudart.so.12")).unwrap();
    let text = c.run_with(&["doctor"], &env).unwrap().stdout;
    assert!(text.contains("! nvcc") && text.contains("libcudart.so.12 is not below"), "{text}");
}

#[test]
fn an_architecture_that_is_none_is_refused() {
    let c = context("cuda_rowscale");
    let home = c.problem().join("toolkit");
    toolkit::fake(&home, "13.0.88").unwrap();
    let env = [("CUDA_HOME", home.to_str().unwrap())];
    let ran = c.run_with(&["build", "seed.cu", "--arch", "90a"], &env).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("`90a` is no GPU architecture") && ran.stderr.contains("hint:"),
        "{}",
        ran.stderr
    );
}
