//! Builds with a real nvcc: `KERNELSEEK_NVCC`, else one on PATH; skipped without one.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use kernelseek_inspect::{PathClass, facts};
use kernelseek_toolchain::cuda::resources::Concern;
use kernelseek_toolchain::{
    Build, BuildCommand, BuildError, Builder, Cache, CommandOutput, CudaPlaces, Exit, Job, Recipe,
    RunnerError, SearchPlaces, Toolchain, discover,
};

fn toolchain() -> Option<&'static Toolchain> {
    static FOUND: OnceLock<Option<Toolchain>> = OnceLock::new();
    FOUND
        .get_or_init(|| {
            let path = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
            let nvcc = std::env::var_os("KERNELSEEK_NVCC").map(PathBuf::from);
            let cuda = CudaPlaces { nvcc, ..CudaPlaces::default() };
            let found = discover(&SearchPlaces { path, cuda, ..SearchPlaces::default() });
            let found = found.and_then(|t| t.nvcc().map(|_| t.clone()));
            if let Err(error) = &found {
                eprintln!("skipped: {error}");
            }
            found.ok()
        })
        .as_ref()
}

/// Runs commands as they are, for tests only.
fn unconfined(command: &BuildCommand) -> Result<CommandOutput, RunnerError> {
    let output = Command::new(&command.program)
        .args(&command.args)
        .current_dir(&command.cwd)
        .env_clear()
        .envs(command.env.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .map_err(|e| RunnerError(e.into()))?;
    let exit = Exit::Code(output.status.code().unwrap_or(-1));
    Ok(CommandOutput { exit, stdout: output.stdout, stderr: output.stderr })
}

struct Bench {
    folder: tempfile::TempDir,
    toolchain: &'static Toolchain,
}

impl Bench {
    fn new(files: &[(&str, &str)]) -> Option<Self> {
        let bench = Self { toolchain: toolchain()?, folder: tempfile::tempdir().unwrap() };
        std::fs::create_dir(bench.workspace()).unwrap();
        for (name, text) in files {
            std::fs::write(bench.workspace().join(name), text).unwrap();
        }
        Some(bench)
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("ws")
    }

    fn cache(&self, name: &str) -> Cache {
        Cache::open(self.folder.path().join(name)).unwrap()
    }

    fn build(&self, recipe: &Recipe, cache: &str) -> Result<Build, BuildError> {
        Builder::new(unconfined).build(self.toolchain, recipe, &self.workspace(), &self.cache(cache))
    }
}

fn recipe(archs: &[&str]) -> Recipe {
    Recipe {
        sources: vec!["k.cu".into()],
        flags: vec!["-O3".into()],
        archs: archs.iter().map(ToString::to_string).collect(),
        ..Recipe::default()
    }
}

const KERNEL: &str = r#"
#include "k.h"
#ifdef __CUDA_ARCH__
#include "device_only.h"
#endif
static __global__ void scale(const float *x, float *y, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    if (i < n) y[i] = K * tile[127 - threadIdx.x];
}
extern "C" int op(const float *x, float *y, int n, cudaStream_t stream) {
    scale<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
    return cudaGetLastError();
}
"#;
const FILES: [(&str, &str); 3] = [("k.cu", KERNEL), ("k.h", "#define K 2.0f\n"), ("device_only.h", "\n")];

#[test]
fn a_shared_library_with_machine_code_alone() {
    let Some(bench) = Bench::new(&FILES) else { return };
    let nvcc = bench.toolchain.nvcc().unwrap();
    let build = bench.build(&recipe(&["sm_90a"]), "cache").unwrap();
    let bytes = std::fs::read(&build.artifact).unwrap();
    let facts = facts(&bytes).unwrap();
    assert!(facts.needed.contains(&nvcc.runtime.soname()), "{:?}", facts.needed);
    assert!(facts.exports_function("op"));
    let imports: Vec<_> = facts.imports.iter().map(|i| i.name.as_str()).collect();
    assert!(imports.contains(&"cudaGetLastError") && !imports.contains(&"dlopen"), "{imports:?}");
    assert!(!contains(&bytes, b".target sm_90a"), "the library holds PTX");

    let [kernel] = build.kernels.as_slice() else { panic!("{:?}", build.kernels) };
    assert_eq!((kernel.arch.as_str(), kernel.shared_bytes, kernel.barriers), ("sm_90a", 512, 1));
    assert!(kernel.entry && kernel.registers.is_some_and(|r| r > 0));
    assert!(kernel.readable.starts_with("scale("), "{}", kernel.readable);
    assert_eq!(build.diagnostics, "");

    let own: Vec<_> = build.sources.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(own, ["k.cu", "k.h", "device_only.h"]);
    let toolkit = build.closure.files.iter().find(|f| f.path.ends_with("cuda_runtime.h")).unwrap();
    assert!(matches!(toolkit.class, PathClass::Toolchain | PathClass::System), "{toolkit:?}");
    assert_eq!(build.closure.of(PathClass::Outside).count(), 0);
    assert_eq!(build.argv.len(), 1);
    assert!(
        !build.argv[0].join(" ").contains(&bench.folder.path().display().to_string()),
        "{:?}",
        build.argv
    );
}

fn contains(bytes: &[u8], what: &[u8]) -> bool {
    bytes.windows(what.len()).any(|w| w == what)
}

#[test]
fn the_same_sources_make_the_same_bytes_once() {
    let Some(bench) = Bench::new(&FILES) else { return };
    let first = bench.build(&recipe(&["sm_90a"]), "a").unwrap();
    let again = bench.build(&recipe(&["sm_90a"]), "a").unwrap();
    assert_eq!((first.cached, again.cached), (false, true));
    assert_eq!(first.kernels, again.kernels);
    let anew = bench.build(&recipe(&["sm_90a"]), "b").unwrap();
    assert!(!anew.cached);
    assert_eq!(first.candidate, anew.candidate);
    assert_eq!(first.artifact_hash, anew.artifact_hash);
    // A header that only the device's part reads counts.
    std::fs::write(bench.workspace().join("device_only.h"), "// changed\n").unwrap();
    let changed = bench.build(&recipe(&["sm_90a"]), "a").unwrap();
    assert!(!changed.cached);
    assert_ne!(changed.candidate, first.candidate);
    let other = bench.build(&recipe(&["sm_80", "sm_90a"]), "a").unwrap();
    assert_ne!(other.candidate, changed.candidate);
    let archs: Vec<_> = other.kernels.iter().map(|k| k.arch.as_str()).collect();
    assert_eq!(archs, ["sm_80", "sm_90a"]);
}

#[test]
fn errors_name_the_place() {
    let Some(bench) = Bench::new(&[
        ("k.cu", "#include \"x.h\"\n__global__ void k(float *x) { x[0] = y; }\n"),
        ("x.h", "\n"),
    ]) else {
        return;
    };
    let error = bench.build(&recipe(&["sm_90a"]), "cache").unwrap_err();
    assert_eq!(error.to_string(), "k.cu:2: identifier \"y\" is undefined");
    std::fs::write(bench.workspace().join("k.cu"), "#include \"none.h\"\n").unwrap();
    let error = bench.build(&recipe(&["sm_90a"]), "cache").unwrap_err().to_string();
    assert!(error.starts_with("k.cu:1:") && error.contains("none.h"), "{error}");
    let bogus = "__global__ void k(float *x) { asm(\"bogus.f32 %0;\" : \"=f\"(x[0])); }\n";
    std::fs::write(bench.workspace().join("k.cu"), bogus).unwrap();
    let error = bench.build(&recipe(&["sm_90a"]), "cache").unwrap_err().to_string();
    assert!(error.contains("Not a name of any known instruction"), "{error}");
}

#[test]
fn recipes_that_make_no_sense_are_refused() {
    let Some(bench) = Bench::new(&FILES) else { return };
    let says = |recipe: Recipe, text: &str| {
        let error = bench.build(&recipe, "cache").unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    says(recipe(&[]), "k.cu: no GPU architecture is named; known: sm_80");
    says(recipe(&["90a"]), "`90a` is no GPU architecture");
    says(Recipe { flags: vec!["-arch=native".into()], ..recipe(&["sm_90a"]) }, "`-arch=native`");
    says(
        Recipe { flags: vec!["-Xcompiler".into(), "-march=native".into()], ..recipe(&["sm_90a"]) },
        "-march=native",
    );
    let folder = bench.workspace().join("a,b");
    std::fs::create_dir(&folder).unwrap();
    says(Recipe { include_dirs: vec!["a,b".into()], ..recipe(&["sm_90a"]) }, "a path that holds `,`");
}

#[test]
fn lost_performance_is_heard() {
    let text = "__global__ void k(float *o) { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 240;\"); o[0] = o[1]; }\n";
    let Some(bench) = Bench::new(&[("k.cu", text)]) else { return };
    let build = bench.build(&recipe(&["sm_90a"]), "cache").unwrap();
    assert!(build.remarks.iter().any(|r| r.concern == Concern::SetmaxnregIgnored), "{:?}", build.remarks);
}

#[test]
fn several_at_once_are_what_they_are_alone() {
    let files =
        [("k.cu", KERNEL), ("k.h", "#define K 2.0f\n"), ("device_only.h", "\n"), ("bad.cu", "int f( {\n")];
    let Some(bench) = Bench::new(&files) else { return };
    let cache = bench.cache("many");
    let job = |recipe| Job { recipe, workspace: bench.workspace() };
    let bad = Recipe { sources: vec!["bad.cu".into()], ..recipe(&["sm_90a"]) };
    let jobs = [job(recipe(&["sm_90a"])), job(bad), job(recipe(&["sm_80"]))];
    let done = Builder::new(unconfined).build_many(bench.toolchain, &jobs, &cache);
    assert_eq!(done.len(), 3);
    let alone = bench.build(&recipe(&["sm_90a"]), "alone").unwrap();
    let first = done[0].result.as_ref().unwrap();
    assert_eq!((&first.candidate, &first.artifact_hash), (&alone.candidate, &alone.artifact_hash));
    assert!(matches!(done[1].result, Err(BuildError::Compile { .. })), "{:?}", done[1].result);
    assert_eq!(done[2].result.as_ref().unwrap().kernels[0].arch, "sm_80");
}

#[test]
fn a_compiler_reached_by_a_link_keeps_its_headers() {
    let Some(bench) = Bench::new(&FILES) else { return };
    let link = bench.folder.path().join("nvcc");
    std::os::unix::fs::symlink(&bench.toolchain.nvcc().unwrap().program, &link).unwrap();
    let places = SearchPlaces {
        path: bench.toolchain.path.clone(),
        cuda: CudaPlaces { nvcc: Some(link), ..CudaPlaces::default() },
        ..SearchPlaces::default()
    };
    let linked = discover(&places).unwrap();
    assert_eq!(linked.nvcc().unwrap().identity, bench.toolchain.nvcc().unwrap().identity);
    let cache = bench.cache("cache");
    let build = Builder::new(unconfined).build(&linked, &recipe(&["sm_90a"]), &bench.workspace(), &cache);
    assert!(build.is_ok(), "{build:?}");
    assert!(linked.readable().iter().any(|r| Path::new(&linked.nvcc().unwrap().runtime.path).starts_with(r)));
}
