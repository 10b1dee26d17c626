//! Facts and findings of what the real nvcc makes. Without one (`KERNELSEEK_NVCC`, then the search path) these tests
//! report themselves skipped; the pure parts are tested beside the code, on bytes that they make themselves.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_inspect::device::{self, DeviceFacts, EntryKind};
use kernelseek_inspect::{Closure, ElfFacts, Policy, facts, rules, sass};

const HEAD: &str = "#include <cuda_runtime.h>\n#include <stdio.h>\n";
const SCALE: &str = r#"
template <int N> __global__ void __launch_bounds__(256) scale(float4 *y, const float4 *x, float a) {
    __shared__ float4 s[N];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x % N] = x[i];
    __syncthreads();
    float4 v = s[(threadIdx.x + 1) % N];
    v.x = __expf(v.x) * a; v.y *= a; v.z += a; v.w = __sinf(v.w);
    y[i] = v;
}
__global__ void spill(float *y, int n) {
    float t[64];
    for (int i = 0; i < n; i++) t[i % 64] = y[i];
    for (int i = 0; i < n; i++) y[i] += t[(i * 7) % 64];
}
extern "C" int op(float *y, const float *x, cudaStream_t s) {
    scale<128><<<4, 256, 0, s>>>((float4 *)y, (const float4 *)x, 2.f);
    spill<<<1, 1, 0, s>>>(y, 64);
    return cudaGetLastError();
}
"#;
const TINY: &str = "__global__ void one(int *y) { *y = 1; }\n\
    extern \"C\" int op(int *y, cudaStream_t s) { one<<<1, 1, 0, s>>>(y); return 0; }\n";
const HOPPER: &[&str] = &["-gencode=arch=compute_90a,code=sm_90a"];

struct Nvcc {
    program: PathBuf,
    root: PathBuf,
}

/// The compiler, or `None` with a word about it.
fn nvcc() -> Option<Nvcc> {
    let named = std::env::var_os("KERNELSEEK_NVCC").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = named.or_else(|| std::env::split_paths(&path).map(|p| p.join("nvcc")).find(|p| p.is_file()));
    // A link elsewhere loses nvcc its headers.
    let Some(program) = found.and_then(|p| p.canonicalize().ok()) else {
        eprintln!("skipped: no nvcc");
        return None;
    };
    let root = program.parent().and_then(Path::parent).unwrap().to_owned();
    Some(Nvcc { program, root })
}

impl Nvcc {
    fn run(&self, folder: &Path, args: &[&str]) -> String {
        let output = Command::new(&self.program).args(args).current_dir(folder).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{args:?}: {text}");
        text
    }

    fn cudart(&self) -> (String, String) {
        for folder in ["lib", "lib64"] {
            for name in ["libcudart.so.13", "libcudart.so.12"] {
                if self.root.join(folder).join(name).exists() {
                    return (format!("-L{}", self.root.join(folder).display()), format!("-l:{name}"));
                }
            }
        }
        panic!("no libcudart beside {}", self.program.display());
    }

    /// A library as the harness links it, with `extra` flags.
    fn library(&self, folder: &Path, source: &str, extra: &[&str]) -> (Vec<u8>, String) {
        std::fs::write(folder.join("k.cu"), source).unwrap();
        let (search, library) = self.cudart();
        let mut args =
            vec!["-shared", "-Xcompiler", "-fPIC", "-O3", "-Xptxas", "-v", "k.cu", "-o", "k.so", &search];
        args.extend(extra);
        if !extra.contains(&"--cudart") {
            args.extend(["--cudart", "none", "-Xlinker", &library]);
        }
        if !extra.iter().any(|f| f.starts_with("--compress-mode")) {
            args.push("--compress-mode=none");
        }
        let text = self.run(folder, &args);
        (std::fs::read(folder.join("k.so")).unwrap(), text)
    }

    fn beside(&self, tool: &str) -> Option<PathBuf> {
        let path = self.program.with_file_name(tool);
        if !path.is_file() {
            eprintln!("skipped: no {tool} beside nvcc");
            return None;
        }
        Some(path)
    }
}

struct Built {
    folder: tempfile::TempDir,
    bytes: Vec<u8>,
    elf: ElfFacts,
    device: DeviceFacts,
    said: String,
    nvcc: Nvcc,
}

fn build(source: &str, extra: &[&str]) -> Option<Built> {
    let nvcc = nvcc()?;
    let folder = tempfile::tempdir().unwrap();
    let (bytes, said) = nvcc.library(folder.path(), &format!("{HEAD}{source}"), extra);
    let (elf, device) = (facts(&bytes).unwrap(), device::facts(&bytes));
    Some(Built { folder, bytes, elf, device, said, nvcc })
}

impl Built {
    fn judged(&self, policy: &Policy) -> Vec<Finding> {
        rules::cuda(&self.elf, &self.device, &Closure::default(), policy, None)
    }

    fn failed(&self) -> Vec<Finding> {
        let mut found = self.judged(&Policy::cuda("op").archs(["sm_90a"]));
        found.retain(|f| f.severity >= Severity::Warning);
        found
    }

    fn fails(&self) -> BTreeSet<String> {
        self.failed().into_iter().map(|f| f.defence).collect()
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn an_honest_library_has_notes_at_most() {
    let Some(built) = build(SCALE, HOPPER) else { return };
    assert_eq!(built.failed(), []);
    let notes: BTreeSet<_> = built.judged(&Policy::cuda("op")).into_iter().map(|f| f.defence).collect();
    assert_eq!(notes, set(&["allowed.local-memory"]));
    let registration = &built.elf.registration;
    assert_eq!((registration.wrappers.len(), registration.address_taken), (1, false));
    if cfg!(target_arch = "x86_64") {
        assert_eq!(registration.uses, Some(1));
    }
    assert_eq!(built.device.containers.len(), 1);
    assert_eq!(built.device.containers[0].section.as_deref(), Some(".nv_fatbin"));
    // The cpu target refuses all of it, as before.
    let cpu = rules::findings(&built.elf, &Closure::default(), &Policy::cpu("op"));
    assert!(cpu.iter().any(|f| f.defence == "allowed.device-code" && f.severity == Severity::Fail));
}

#[test]
fn several_architectures() {
    let all = ["sm_80", "sm_90a", "sm_100a", "sm_120"];
    let flags: Vec<String> =
        all.iter().map(|a| format!("-gencode=arch=compute_{0},code=sm_{0}", &a[3..])).collect();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let Some(built) = build(SCALE, &flags) else { return };
    let archs: BTreeSet<String> = built.device.cubins().map(|c| c.arch.clone()).collect();
    assert_eq!(archs, set(&all));
    assert!(built.judged(&Policy::cuda("op").archs(all)).iter().all(|f| f.severity == Severity::Note));
    // Fewer asked for than built.
    assert_eq!(built.fails(), set(&["allowed.device-arch"]));
}

#[test]
fn one_kernel_fewer_is_seen_by_the_objects() {
    let Some(built) = build(SCALE, HOPPER) else { return };
    let objects = built.device.objects();
    assert_eq!(objects.len(), 2);
    let policy = Policy::cuda("op");
    let with =
        |expected| rules::cuda(&built.elf, &built.device, &Closure::default(), &policy, Some(expected));
    assert!(with(&objects).iter().all(|f| f.severity == Severity::Note));
    let found = with(&objects[..1]);
    let finding = found.iter().find(|f| f.severity == Severity::Fail).unwrap();
    assert_eq!(finding.defence, "allowed.device-code");
    assert!(finding.message.contains("did not emit spill(float*, int)"), "{finding:?}");
    // The same source gives the same objects, whatever names nvcc makes up for the rest.
    assert_eq!(build(SCALE, HOPPER).unwrap().device.objects(), objects);
}

/// `Used 17 registers, used 1 barriers, 2048 bytes smem` of `ptxas -v`, by (architecture, kernel).
fn said_by_ptxas(text: &str) -> BTreeMap<(String, String), [u64; 4]> {
    let mut out = BTreeMap::new();
    let (mut key, mut stack) = (None, 0);
    for line in text.lines() {
        let number = |before: &str| -> u64 {
            line.split(before)
                .next()
                .unwrap()
                .split(|c: char| !c.is_ascii_digit())
                .rfind(|w| !w.is_empty())
                .map_or(0, |w| w.parse().unwrap())
        };
        if let Some(rest) = line.split("Compiling entry function '").nth(1) {
            let mut parts = rest.split('\'');
            key = Some((parts.next().unwrap().to_owned(), parts.nth(1).unwrap().to_owned()));
        } else if line.contains(" bytes stack frame") {
            stack = number(" bytes stack frame");
        } else if line.contains("Used ") {
            let of = |what: &str| if line.contains(what) { number(what) } else { 0 };
            let (name, arch) = key.take().unwrap();
            out.insert((arch, name), [of(" registers"), of(" barriers"), of(" bytes smem"), stack]);
        }
    }
    out
}

#[test]
fn resources_are_those_that_ptxas_says() {
    let clusters = "\n#if __CUDA_ARCH__ >= 900 || !defined(__CUDA_ARCH__)\n__global__ void __cluster_dims__(2, 1, 1) \
        __launch_bounds__(128) pair(float *y) { extern __shared__ float d[]; __shared__ float s[7]; \
        asm volatile(\"bar.sync 1, 64;\"); s[threadIdx.x % 7] = *y; __syncthreads(); *y = d[1] + s[2]; }\n#endif\n";
    let source = format!("{SCALE}{clusters}");
    for arch in ["80", "90a", "100a", "120"] {
        let flag = format!("-gencode=arch=compute_{arch},code=sm_{arch}");
        let Some(built) = build(&source, &[&flag]) else { return };
        let said = said_by_ptxas(&built.said);
        assert!(said.len() >= 2, "{}", built.said);
        let read: BTreeMap<_, _> = built
            .device
            .kernels()
            .map(|(arch, f)| {
                let registers = u64::from(f.registers.unwrap());
                let values = [registers, u64::from(f.barriers), f.shared_bytes, f.stack_bytes];
                ((arch.to_owned(), f.name.clone()), values)
            })
            .collect();
        assert_eq!(read, said, "{}", built.said);
        let (_, scale) = built.device.kernels().find(|(_, f)| f.name.contains("scale")).unwrap();
        assert_eq!(scale.max_threads, Some([256, 1, 1]));
        assert_eq!(scale.parameter_bytes, Some(20));
        assert_eq!(scale.readable(), "void scale<128>(float4*, float4 const*, float)");
        if arch != "80" {
            let (_, pair) = built.device.kernels().find(|(_, f)| f.name.contains("pair")).unwrap();
            assert_eq!((pair.cluster, pair.shared_reserved_bytes), (Some([2, 1, 1]), 1024));
        }
    }
}

/// `REG:17 STACK:0 SHARED:3072 …` of `cuobjdump -res-usage`, by function.
#[test]
fn resources_are_those_that_cuobjdump_says() {
    let Some(built) = build(SCALE, HOPPER) else { return };
    let Some(tool) = built.nvcc.beside("cuobjdump") else { return };
    let output = Command::new(tool).arg("-res-usage").arg(built.folder.path().join("k.so")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for (_, function) in built.device.kernels() {
        let line = text.lines().skip_while(|l| !l.contains(&function.name)).nth(1).unwrap();
        let value = |name: &str| -> u64 {
            line.split_whitespace().find_map(|w| w.strip_prefix(name)).unwrap().parse().unwrap()
        };
        assert_eq!(u64::from(function.registers.unwrap()), value("REG:"), "{text}");
        assert_eq!(function.stack_bytes, value("STACK:"), "{text}");
        assert_eq!(function.shared_bytes + function.shared_reserved_bytes, value("SHARED:"), "{text}");
        assert_eq!(function.constant_bytes, value("CONSTANT[0]:"), "{text}");
    }
}

#[test]
fn object_files_and_cubins_are_read() {
    let Some(built) = build(SCALE, HOPPER) else { return };
    let folder = built.folder.path();
    built
        .nvcc
        .run(folder, &["-c", "-Xcompiler", "-fPIC", "--compress-mode=none", HOPPER[0], "k.cu", "-o", "k.o"]);
    built.nvcc.run(folder, &["-cubin", "-arch=sm_90a", "k.cu", "-o", "k.cubin"]);
    built.nvcc.run(folder, &["-fatbin", "--compress-mode=none", HOPPER[0], "k.cu", "-o", "k.fatbin"]);
    let names =
        |d: &DeviceFacts| d.kernels().map(|(a, f)| (a.to_owned(), f.name.clone())).collect::<Vec<_>>();
    for file in ["k.o", "k.cubin", "k.fatbin"] {
        let found = device::facts(&std::fs::read(folder.join(file)).unwrap());
        assert_eq!(names(&found), names(&built.device), "{file}");
        assert_eq!(found.stray, [], "{file}");
    }
}

#[test]
fn packed_code_and_ptx_are_refused() {
    let Some(built) = build(TINY, &[HOPPER[0], "--compress-mode=size"]) else { return };
    assert_eq!(built.fails(), set(&["allowed.device-packed"]));
    assert!(built.failed()[0].next.as_deref().unwrap().contains("--compress-mode=none"));
    let ptx = build(TINY, &["-gencode=arch=compute_90,code=compute_90"]).unwrap();
    assert_eq!(ptx.fails(), set(&["allowed.device-ptx"]));
    assert!(ptx.device.containers[0].entries.iter().any(|e| e.kind == EntryKind::Ptx && !e.empty));
    let both = build(TINY, &["-arch=sm_90a"]).unwrap();
    assert_eq!(both.fails(), set(&["allowed.device-ptx"]));
    assert!(both.judged(&Policy::cuda("op").allow_ptx(true)).iter().all(|f| f.severity == Severity::Note));
}

#[test]
fn relocatable_code_is_read() {
    let source = "__device__ __noinline__ int two() { return 2; }\n\
        __global__ void one(int *y) { *y = two(); }\n\
        extern \"C\" int op(int *y, cudaStream_t s) { one<<<1, 1, 0, s>>>(y); return 0; }\n";
    let Some(built) = build(source, &[HOPPER[0], "-rdc=true"]) else { return };
    // nvcc leaves the device link of a shared library to whoever links it.
    assert_eq!(built.fails(), set(&["allowed.import"]));
    assert!(built.failed()[0].message.contains("relocatable GPU code"), "{:?}", built.failed());
    assert!(built.device.cubins().any(|c| c.functions.iter().any(|f| !f.kernel)));
}

#[test]
fn a_library_without_a_kernel_says_so() {
    let source = "extern \"C\" int op(void *y, cudaStream_t s) { return cudaMemsetAsync(y, 0, 4, s); }\n";
    let Some(built) = build(source, HOPPER) else { return };
    assert_eq!(built.failed(), []);
    assert!(built.judged(&Policy::cuda("op")).iter().any(|f| f.defence == "allowed.no-kernel"));
}

#[test]
fn the_runtime_inside_is_named_with_the_fix() {
    let Some(built) = build(TINY, &[HOPPER[0], "--cudart", "static"]) else { return };
    let found = built.failed();
    let finding =
        found.iter().find(|f| f.defence == "allowed.cudart").unwrap_or_else(|| panic!("{found:#?}"));
    assert!(finding.next.as_deref().unwrap().contains("--cudart none"), "{finding:?}");
    // One thing to mend, not a hundred imports.
    assert!(!found.iter().any(|f| f.defence == "allowed.import"), "{found:#?}");
}

#[test]
fn refused_calls_are_named() {
    for (call, says) in [
        ("cudaLaunchHostFunc(s, [](void *) {}, y)", "host code when the call has returned"),
        ("cudaStreamAddCallback(s, [](cudaStream_t, cudaError_t, void *) {}, y, 0)", "host code"),
        ("cudaGetDriverEntryPoint(\"cuLaunchKernel\", (void **)y, 0, nullptr)", "past the CUDA runtime"),
        ("cudaLibraryLoadData((cudaLibrary_t *)y, y, 0, 0, 0, 0, 0, 0)", "at run time"),
        ("cudaGraphAddHostNode((cudaGraphNode_t *)y, 0, 0, 0, 0)", "host code"),
        ("cudaIpcOpenMemHandle((void **)y, cudaIpcMemHandle_t{}, 1)", "another process"),
        ("cudaDeviceReset()", "context"),
        ("cudaProfilerStart()", "profiler"),
    ] {
        let source = format!(
            "extern \"C\" cudaError_t cudaProfilerStart();\n{TINY}extern \"C\" int more(int *y, cudaStream_t s) {{ return {call}; }}\n"
        );
        let Some(built) = build(&source, HOPPER) else { return };
        assert_eq!(built.fails(), set(&["allowed.import"]), "{call}");
        let found = built.failed();
        assert!(found[0].message.contains(says) && found[0].next.is_some(), "{call}: {found:?}");
    }
    let limit = format!(
        "{TINY}extern \"C\" int more() {{ return cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 1 << 20); }}\n"
    );
    let built = build(&limit, HOPPER).unwrap();
    assert_eq!(built.failed(), []);
    assert!(built.judged(&Policy::cuda("op")).iter().any(|f| f.defence == "allowed.device-setting"));
}

#[test]
fn the_driver_is_refused() {
    let Some(nvcc) = nvcc() else { return };
    // A library named like the driver's, so that the link works without one.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("stub.c"), "int cuInit(unsigned f) { return f; }").unwrap();
    let stub = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "stub.c", "-o", "libcuda.so"])
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(stub.success());
    let source = format!(
        "{HEAD}extern \"C\" int cuInit(unsigned);\n{TINY}extern \"C\" int more() {{ return cuInit(0); }}\n"
    );
    let (bytes, _) = nvcc.library(folder.path(), &source, &[HOPPER[0], "-L.", "-lcuda"]);
    let found = rules::cuda(
        &facts(&bytes).unwrap(),
        &device::facts(&bytes),
        &Closure::default(),
        &Policy::cuda("op"),
        None,
    );
    let fails: BTreeSet<_> =
        found.iter().filter(|f| f.severity == Severity::Fail).map(|f| f.defence.clone()).collect();
    assert_eq!(fails, set(&["allowed.import", "allowed.needed"]));
}

/// `bytes` as a C array.
fn array(name: &str, bytes: &[u8]) -> String {
    let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
    format!("extern \"C\" const unsigned char {name}[{}] = {{{}}};\n", bytes.len(), list.join(","))
}

#[test]
fn code_that_another_build_made_is_found() {
    let Some(other) = build(TINY, HOPPER) else { return };
    let container = &other.device.containers[0];
    let fatbin = &other.bytes[container.offset..container.end()];
    let entry = container.entries.iter().find(|e| !e.empty).unwrap();
    let cubin = &other.bytes[entry.offset..entry.offset + entry.size];
    let ptx = "extern \"C\" const char *hidden() { return \".version 9.0\\n.target sm_90a\\n.visible .entry k() { ret; }\"; }\n";
    for (what, source, says) in [
        ("cubin", array("blob", cubin), "a cubin lies in the library's data"),
        ("fatbin", array("blob", fatbin), "lies where the compiler puts none"),
        ("ptx", ptx.to_owned(), "PTX text lies"),
    ] {
        let built = build(&format!("{TINY}{source}"), HOPPER).unwrap();
        let found = built.failed();
        assert_eq!(built.fails(), set(&["allowed.device-code"]), "{what}: {found:#?}");
        assert!(found.iter().any(|f| f.message.contains(says)), "{what}: {found:#?}");
    }
    // Put into the compiler's own section and registered by hand, as the compiler would have.
    let planted = format!(
        "{TINY}extern \"C\" __attribute__((section(\".nv_fatbin\"), aligned(8))) {}\
         struct record {{ int magic, version; const void *data; void *rest; }};\n\
         static const record own __attribute__((section(\".nvFatBinSegment\"), used)) = {{0x466243b1, 1, blob, 0}};\n\
         extern \"C\" void **__cudaRegisterFatBinary(void *);\n\
         extern \"C\" void *more() {{ return __cudaRegisterFatBinary((void *)&own); }}\n",
        array("blob", fatbin).trim_start_matches("extern \"C\"")
    );
    let built = build(&planted, HOPPER).unwrap();
    assert_eq!(built.fails(), set(&["allowed.device-code"]));
    assert!(built.failed()[0].message.contains("one source file makes one"), "{:#?}", built.failed());
    // What the compiler emitted before the link tells as well.
    let objects = build(TINY.replace("= 1", "= 2").as_str(), HOPPER).unwrap().device.objects();
    let found =
        rules::cuda(&built.elf, &built.device, &Closure::default(), &Policy::cuda("op"), Some(&objects));
    assert!(
        found.iter().any(|f| f.defence == "allowed.device-code" && f.message.contains("did not emit")),
        "{found:#?}"
    );
}

#[test]
fn code_that_is_unpacked_and_registered_by_hand_is_found() {
    if !cfg!(target_arch = "x86_64") {
        return;
    }
    // Nothing in the data looks like GPU code; what registers it does.
    let declare = "extern \"C\" void **__cudaRegisterFatBinary(void *);\n";
    for (how, code) in [
        ("call", "extern \"C\" void *more(void *p) { return __cudaRegisterFatBinary(p); }"),
        (
            "tail call without a stub",
            "__attribute__((optimize(\"no-plt\"))) static void *f(void *p); extern \"C\" void *more(void *p) { void **(*volatile g)(void *) = __cudaRegisterFatBinary; return g(p); }",
        ),
        (
            "pointer in data",
            "extern \"C\" void **(*volatile pointer)(void *) ; void **(*volatile pointer)(void *) = __cudaRegisterFatBinary; extern \"C\" void *more(void *p) { return pointer(p); }",
        ),
    ] {
        let Some(built) = build(&format!("{TINY}{declare}{code}\n"), HOPPER) else { return };
        let found = built.failed();
        assert_eq!(
            built.fails(),
            set(&["allowed.device-code"]),
            "{how}: {:#?} {found:#?}",
            built.elf.registration
        );
        assert!(found[0].message.contains("__cudaRegisterFatBinary"), "{how}: {found:#?}");
    }
}

#[test]
fn disassembly_of_real_kernels_is_counted() {
    let Some(nvcc) = nvcc() else { return };
    let Some(tool) = nvcc.beside("nvdisasm") else { return };
    for arch in ["sm_80", "sm_90a", "sm_100a", "sm_120"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("k.cu"), format!("{HEAD}{SCALE}")).unwrap();
        nvcc.run(folder.path(), &["-cubin", &format!("-arch={arch}"), "k.cu", "-o", "k.cubin"]);
        let output = Command::new(&tool).arg("-c").arg(folder.path().join("k.cubin")).output().unwrap();
        let mixes = sass::parse(&String::from_utf8(output.stdout).unwrap());
        let device = device::facts(&std::fs::read(folder.path().join("k.cubin")).unwrap());
        assert_eq!(mixes.len(), device.kernels().count(), "{arch}");
        for mix in &mixes {
            let (_, kernel) = device.kernels().find(|(_, f)| f.name == mix.name).unwrap();
            // 16 bytes an instruction, padding included.
            assert!(
                mix.total * 16 <= kernel.code_bytes && mix.total * 16 > kernel.code_bytes / 2,
                "{arch} {mix:?}"
            );
            assert_eq!(mix.of(sass::Class::Other), 0, "{arch} {:?}", mix.mnemonics);
        }
        let scale = mixes.iter().find(|m| m.name.contains("scale")).unwrap();
        assert_eq!(scale.global_widths, BTreeMap::from([(128, 2)]), "{arch}");
        assert!(
            scale.of(sass::Class::SpecialFunction) >= 2 && scale.of(sass::Class::Shared) >= 2,
            "{arch} {scale:?}"
        );
        assert!(scale.of(sass::Class::Barrier) >= 1, "{arch} {scale:?}");
        let spill = mixes.iter().find(|m| m.name.contains("spill")).unwrap();
        assert!(spill.of(sass::Class::Local) >= 2, "{arch} {spill:?}");
    }
}
