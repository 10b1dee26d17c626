//! Facts and findings of what the system's own compiler makes. Without a compiler these tests report themselves
//! skipped; the pure parts are tested beside the code.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "helpers of tests fail by panicking and say what they skip"
)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use kernelseek_core::finding::{Finding, Severity};
use kernelseek_inspect::elf::{ExportKind, FileType, Machine, Stack};
use kernelseek_inspect::headers::parse_depfile;
use kernelseek_inspect::{Closure, ElfFacts, Policy, Roots, facts, findings};
use proptest::prelude::*;

/// Compiles `source` (`name` decides the language) with `flags`; `None` if there is no compiler.
fn compile(name: &str, source: &str, flags: &[&str]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, source).unwrap();
    let out = folder.path().join("out.so");
    let compiler = if name.ends_with(".c") { "cc" } else { "c++" };
    let output = match Command::new(compiler)
        .args(["-shared", "-fPIC", "-O2", "-o"])
        .arg(&out)
        .arg(&path)
        .args(flags)
        .output()
    {
        Ok(output) => output,
        Err(_) => {
            eprintln!("skipped: no `{compiler}`");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(std::fs::read(out).unwrap())
}

fn read(name: &str, source: &str, flags: &[&str]) -> Option<ElfFacts> {
    compile(name, source, flags).map(|bytes| facts(&bytes).unwrap())
}

fn judged(facts: &ElfFacts) -> Vec<Finding> {
    findings(facts, &Closure::default(), &Policy::cpu("op"))
}

fn ids(findings: &[Finding]) -> BTreeSet<&str> {
    findings.iter().map(|f| f.defence.as_str()).collect()
}

/// The only finding of this defence.
fn the<'f>(findings: &'f [Finding], defence: &str) -> &'f Finding {
    let mut of = findings.iter().filter(|f| f.defence == defence);
    let first = of.next().unwrap_or_else(|| panic!("no {defence} in {findings:#?}"));
    assert!(of.next().is_none(), "several {defence} in {findings:#?}");
    first
}

const HONEST: &str = r#"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <assert.h>
int op(const float *x, float *y, int n) {
    assert(n >= 0);
    float *tmp = aligned_alloc(64, 4096);
    if (!tmp) { fprintf(stderr, "no memory\n"); abort(); }
    for (int i = 0; i < n; i++) { float s, c; sincosf(x[i], &s, &c); y[i] = expf(s) * tanhf(c) + erff(x[i]); }
    memcpy(tmp, y, n < 1024 ? n : 1024); qsort(tmp, 4, 4, 0); printf("%f\n", tmp[0]); free(tmp);
    return 0;
}
"#;

#[test]
fn an_honest_c_kernel_has_no_findings() {
    for flags in [
        &["-D_GNU_SOURCE", "-lm"][..],
        &["-D_GNU_SOURCE", "-O3", "-march=native", "-fno-math-errno", "-lm"],
        &["-D_GNU_SOURCE", "-D_FORTIFY_SOURCE=2", "-fstack-protector-all", "-lm"],
        &["-D_GNU_SOURCE", "-Wl,--hash-style=sysv", "-lm"],
        &["-D_GNU_SOURCE", "-Wl,-z,now", "-lm"],
    ] {
        let Some(facts) = read("op.c", HONEST, flags) else { return };
        assert_eq!(judged(&facts), [], "{flags:?}");
        assert_eq!(facts.file_type, FileType::Shared);
        assert!(
            facts.needed.contains(&"libc.so.6".to_owned()) && facts.needed.contains(&"libm.so.6".to_owned())
        );
        assert_eq!(facts.stack, Stack::NonExecutable);
        assert!(!facts.text_relocations && facts.writable_code.is_empty() && !facts.ifunc);
        assert!(facts.exports_function("op"));
        assert!(facts.build_id.is_none_or(|id| id.len() >= 16));
        assert!(facts.sections.iter().any(|s| s.name == ".text" && s.executable && s.size > 0));
        let imported = facts.imports.iter().find(|i| i.name == "aligned_alloc").unwrap();
        assert!(!imported.weak);
        assert_eq!(imported.library.as_deref(), Some("libc.so.6"));
        assert!(imported.version.as_deref().unwrap().starts_with("GLIBC_"));
        #[cfg(target_arch = "x86_64")]
        assert_eq!(facts.machine, Machine::X86_64);
        #[cfg(target_arch = "aarch64")]
        assert_eq!(facts.machine, Machine::Aarch64);
    }
}

#[test]
fn an_honest_cxx_kernel_has_notes_at_most() {
    let source = r#"
#include <algorithm>
#include <atomic>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <functional>
#include <sstream>
#include <condition_variable>
struct Base { virtual ~Base() = default; virtual int f() = 0; };
struct Derived : Base { std::vector<float> v; int f() override { return (int)v.size(); } };
static std::mutex lock;
static thread_local std::vector<int> scratch;
extern "C" int op(const float *x, float *y, int n) {
    try {
        std::unique_ptr<Base> b(new Derived);
        if (auto *d = dynamic_cast<Derived *>(b.get())) d->v.resize(n);
        std::map<std::string, std::function<int(int)>> m;
        m["a"] = [](int i) { return i + 1; };
        std::thread t([&] { std::lock_guard<std::mutex> g(lock); std::sort(y, y + n); });
        t.join();
        std::ostringstream s; s << n << 1.5 << "text"; std::cout << s.str() << std::endl;
        std::mt19937_64 r(1); std::normal_distribution<double> d; y[0] = d(r);
        std::condition_variable cv; cv.notify_all();
        scratch.push_back(m.at("a")(b->f()));
        if (x[0] > 1e30f) throw std::runtime_error("too large: " + std::to_string(x[0]));
    } catch (const std::exception &e) { std::cerr << e.what(); return 1; }
    return 0;
}
"#;
    for flags in
        [&["-std=c++17"][..], &["-std=c++17", "-O3", "-march=native", "-D_GLIBCXX_ASSERTIONS"], &["-O0"]]
    {
        let Some(facts) = read("op.cpp", source, flags) else { return };
        let found = judged(&facts);
        assert!(found.iter().all(|f| f.severity == Severity::Note), "{flags:?}: {found:#?}");
        assert_eq!(ids(&found), BTreeSet::from(["allowed.constructor"]));
    }
}

/// A compiler without a shared C++ runtime links the static one, which asks the kernel for waiting threads.
#[test]
fn a_cxx_runtime_inside_is_no_refused_import() {
    let source = "#include <vector>\nstruct T { T(); int x; };\nT::T() : x(std::vector<int>(3).size()) {}\n\
                  extern \"C\" int op(void *) { static T t; return t.x - 3; }\n";
    let Some(facts) = read("k.cc", source, &["-static-libstdc++"]) else { return };
    let found = judged(&facts);
    if facts.imports.iter().any(|i| i.name == "syscall") {
        assert_eq!(the(&found, "allowed.static-runtime").severity, Severity::Note);
    }
    assert!(!ids(&found).contains("allowed.import"), "{found:#?}");
    // The same import without that runtime stays refused.
    let source =
        "#include <unistd.h>\n#include <sys/syscall.h>\nlong op(void *p) { return syscall(SYS_getpid); }\n";
    let Some(facts) = read("k.c", source, &[]) else { return };
    assert_eq!(the(&judged(&facts), "allowed.import").severity, Severity::Fail);
}

#[test]
fn fast_math_passes() {
    // Vectorised libm calls, `__*_finite` names, and in older gcc a start file that sets the floating-point mode.
    let Some(facts) = read("op.c", HONEST, &["-D_GNU_SOURCE", "-O3", "-ffast-math", "-march=native", "-lm"])
    else {
        return;
    };
    assert!(judged(&facts).iter().all(|f| f.defence == "allowed.constructor"));
}

#[test]
fn openmp_is_allowed() {
    let source = "#include <omp.h>\nint op(float*y,int n){\n#pragma omp parallel for schedule(dynamic)\n\
                  for(int i=0;i<n;i++)y[i]+=omp_get_thread_num();return 0;}";
    let Some(facts) = read("op.c", source, &["-fopenmp"]) else { return };
    assert_eq!(judged(&facts), []);
    assert!(facts.needed.contains(&"libgomp.so.1".to_owned()));
}

#[test]
fn refused_imports_are_named() {
    for (name, source, says) in [
        ("dlsym", "#include <dlfcn.h>\nint op(void){return !dlsym(0,\"x\");}", "loads code at run time"),
        ("system", "#include <stdlib.h>\nint op(void){return system(\"true\");}", "starts another process"),
        ("socket", "#include <sys/socket.h>\nint op(void){return socket(1,1,0);}", "network"),
        ("fopen", "#include <stdio.h>\nint op(void){return !fopen(\"x\",\"w\");}", "touches files"),
        ("open", "#include <fcntl.h>\nint op(void){return open(\"x\",0);}", "touches files"),
        ("kill", "#include <signal.h>\nint op(void){return kill(1,9);}", "signals"),
        ("cblas_sgemm", "void cblas_sgemm(void);int op(void){cblas_sgemm();return 0;}", "math library"),
        ("sgemm_", "void sgemm_(void);int op(void){sgemm_();return 0;}", "math library"),
        ("cuInit", "int cuInit(int);int op(void){return cuInit(0);}", "GPU"),
        ("syscall", "long syscall(long,...);int op(void){return syscall(1);}", "kernel"),
    ] {
        let Some(facts) = read("op.c", source, &[]) else { return };
        let found = judged(&facts);
        let finding = the(&found, "allowed.import");
        assert_eq!(finding.severity, Severity::Fail);
        assert!(
            finding.message.contains(&format!("`{name}`")) && finding.message.contains(says),
            "{finding:?}"
        );
        assert!(finding.next.is_some());
    }
}

#[test]
fn a_function_pointer_or_weak_reference_is_an_import_too() {
    let taken = "#include <stdlib.h>\nint (*p)(const char*)=system;int op(void){return p==0;}";
    let weak =
        "extern int system(const char*)__attribute__((weak));int op(void){return system?system(\"x\"):0;}";
    for source in [taken, weak] {
        let Some(facts) = read("op.c", source, &[]) else { return };
        the(&judged(&facts), "allowed.import");
    }
}

#[test]
fn a_missing_source_reads_as_one() {
    let source = "namespace ns { float helper(const float*, int); float other(int); }\n\
                  extern \"C\" int op(const float*x){return (int)(ns::helper(x,1)+ns::other(2));}";
    let Some(facts) = read("op.cpp", source, &[]) else { return };
    let found = judged(&facts);
    let finding = the(&found, "allowed.import");
    assert!(finding.message.starts_with("2 imports") && finding.message.contains("ns::"), "{finding:?}");
    assert!(finding.evidence.iter().any(|e| e.contains("ns::helper(float const*, int)")), "{finding:?}");
    assert!(finding.next.as_deref().unwrap().contains("own sources"));
}

#[test]
fn a_missing_entry_point_is_explained() {
    for (file, source, hint) in [
        ("op.cpp", "int op(const float*x){return (int)x[0];}", "extern \"C\""),
        ("op.c", "int opp(void){return 0;}", "rename `opp`"),
        ("op.c", "static int op(void){return 0;} int unrelated(void){return op();}", "static"),
        ("op.c", "__attribute__((visibility(\"hidden\"))) int op(void){return 0;}", "visibility"),
        ("op.c", "int op=1;", "as a function"),
    ] {
        let Some(facts) = read(file, source, &[]) else { return };
        let found = judged(&facts);
        let finding = the(&found, "allowed.export");
        assert_eq!(finding.severity, Severity::Fail);
        assert!(finding.next.as_deref().unwrap().contains(hint), "{finding:?}");
    }
}

#[test]
fn memory_that_is_written_and_run() {
    let Some(facts) = read("op.c", "int op(void){return 0;}", &["-Wl,-z,execstack"]) else { return };
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.execstack"]));
    assert_eq!(facts.stack, Stack::Executable);
    let source = "__attribute__((section(\".evil,\\\"awx\\\",@progbits#\"))) int code[4]={1};int op(void){return code[0];}";
    let facts = read("op.c", source, &[]).unwrap();
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.wx"]));
    assert_eq!(facts.writable_code.len(), 1);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn text_relocations_and_raw_system_calls() {
    let source = "extern int op(void);asm(\".text\\n.globl op\\n.type op,@function\\nop: movabsq $other, %rax\\nret\\n\
                  .globl other\\nother: ret\\n\");";
    let Some(facts) = read("op.c", source, &["-Wl,-z,notext"]) else { return };
    assert!(ids(&judged(&facts)).contains("allowed.textrel"));
    let source =
        "int op(void){long r;asm volatile(\"syscall\":\"=a\"(r):\"a\"(39):\"rcx\",\"r11\");return (int)r;}";
    let facts = read("op.c", source, &[]).unwrap();
    let found = judged(&facts);
    assert_eq!(the(&found, "allowed.raw-syscall").severity, Severity::Warning);
    assert_eq!((found.len(), facts.raw_syscalls.instructions), (1, 1));
    let constant = read("op.c", "int op(int x){return x^0x0000050f;}", &[]).unwrap();
    assert_eq!(constant.raw_syscalls.instructions, 0);
    assert!(constant.raw_syscalls.byte_patterns > 0);
}

#[test]
fn libraries_and_search_paths() {
    let Some(facts) =
        read("op.c", "int op(void){return 0;}", &["-Wl,-rpath,/somewhere", "-Wl,-soname,libop.so"])
    else {
        return;
    };
    assert_eq!(facts.soname.as_deref(), Some("libop.so"));
    assert!(facts.runpath.is_some() || facts.rpath.is_some());
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.rpath"]));
    let facts =
        read("op.c", "int op(void){return 0;}", &["-Wl,--disable-new-dtags,-rpath,/somewhere"]).unwrap();
    assert_eq!(facts.rpath.as_deref(), Some("/somewhere"));
    for flag in ["-Wl,-f,libx.so", "-Wl,-F,libx.so", "-Wl,--audit,libx.so"] {
        let facts = read("op.c", "int op(void){return 0;}", &[flag]).unwrap();
        assert_eq!(
            (facts.filters.as_slice(), ids(&judged(&facts))),
            (&["libx.so".to_owned()][..], BTreeSet::from(["allowed.needed"])),
            "{flag}"
        );
    }
    // A library of one's own: refused, unless the problem's link flags name it.
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libextra.so");
    std::fs::write(
        &library,
        compile("extra.c", "int extra(void){return 1;}", &["-Wl,-soname,libextra.so"]).unwrap(),
    )
    .unwrap();
    let path = format!("-L{}", folder.path().display());
    let facts = read("op.c", "int extra(void);int op(void){return extra();}", &[&path, "-lextra"]).unwrap();
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.import", "allowed.needed"]));
    let policy = Policy::cpu("op").allow_imports(["extra"]).allow_linked(["-lextra"]);
    assert_eq!(findings(&facts, &Closure::default(), &policy), []);
}

#[test]
fn load_time_code_is_noted() {
    let source =
        "static int x;__attribute__((constructor)) static void c(void){x=1;} int op(void){return x;}";
    let Some(facts) = read("op.c", source, &[]) else { return };
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.constructor"]));
    assert_eq!(facts.init_array, 2);
    let ifunc = "static int a(void){return 1;} static int (*pick(void))(void){return a;} \
                 int op(void) __attribute__((ifunc(\"pick\")));";
    let facts = read("op.c", ifunc, &[]).unwrap();
    assert_eq!(ids(&judged(&facts)), BTreeSet::from(["allowed.ifunc"]));
    assert_eq!(facts.exports.iter().find(|e| e.name == "op").unwrap().kind, ExportKind::IndirectFunction);
    let hidden = "static int a(void){return 1;} static int (*pick(void))(void){return a;} \
                  static int f(void) __attribute__((ifunc(\"pick\")));int op(void){return f();}";
    assert!(read("op.c", hidden, &[]).unwrap().ifunc);
}

#[test]
fn device_code_is_refused() {
    let source = "__attribute__((section(\".nv_fatbin\"))) const unsigned char blob[64]={1};int op(void){return blob[0];}";
    let Some(facts) = read("op.c", source, &[]) else { return };
    assert_eq!(the(&judged(&facts), "allowed.device-code").severity, Severity::Fail);
    let hidden =
        "const unsigned char blob[64]={0x7f,'E','L','F',2,1,1,[18]=190};int op(int i){return blob[i];}";
    let facts = read("op.c", hidden, &[]).unwrap();
    assert_eq!(facts.device_code.images, 1);
    assert!(ids(&judged(&facts)).contains("allowed.device-code"));
}

#[test]
fn facts_survive_a_missing_section_table() {
    let Some(mut bytes) = compile("op.c", "#include <stdlib.h>\nint op(void){return system(\"x\");}", &[])
    else {
        return;
    };
    let before = facts(&bytes).unwrap();
    // e_shoff, e_shnum, e_shstrndx: what `sstrip` clears. The loader never looks at them.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    let after = facts(&bytes).unwrap();
    assert_eq!(
        (&after.imports, &after.exports, &after.needed),
        (&before.imports, &before.exports, &before.needed)
    );
    assert!(after.sections.is_empty());
    the(&judged(&after), "allowed.import");
}

#[test]
fn no_export_still_shows_imports() {
    // An empty GNU hash table does not say how many symbols there are.
    let source = "#include <stdlib.h>\n__attribute__((constructor)) static void c(void){system(\"x\");}";
    let Some(facts) = read("op.c", source, &["-fvisibility=hidden"]) else { return };
    assert!(facts.imports.iter().any(|i| i.name == "system"), "{:?}", facts.imports);
}

#[test]
fn other_files_are_refused() {
    assert!(facts(b"").is_err());
    assert!(facts(b"#!/bin/sh\n").is_err());
    assert!(facts(&[0x7f, b'E', b'L', b'F', 1, 1, 1, 0]).is_err());
    let Some(bytes) = compile("op.c", "int op(void){return 0;}", &[]) else { return };
    assert!(facts(&bytes[..60]).is_err());
    assert!(facts(&bytes[..200]).is_err());
}

#[test]
fn the_closure_is_what_the_compiler_says() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let (workspace, outside) = (root.join("ws"), root.join("out"));
    for dir in [&workspace, &outside] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::create_dir(workspace.join("cub")).unwrap();
    std::fs::write(workspace.join("a b.h"), "").unwrap();
    std::fs::write(workspace.join("cub/x.h"), "").unwrap();
    std::fs::write(outside.join("o.h"), "").unwrap();
    std::fs::write(
        workspace.join("op.c"),
        "#include <math.h>\n#include \"a b.h\"\n#include \"cub/x.h\"\n#include \"../out/o.h\"\n",
    )
    .unwrap();
    let Ok(output) = Command::new("cc").args(["-M", "op.c"]).current_dir(&workspace).output() else { return };
    let files = parse_depfile(&String::from_utf8(output.stdout).unwrap()).unwrap();
    assert!(files.contains(&PathBuf::from("a b.h")));
    let roots =
        Roots { workspace, system: vec!["/usr/include".into(), "/usr/lib".into()], ..Roots::default() };
    let closure = Closure::new(files, &roots);
    let Some(facts) = read("op.c", "int op(void){return 0;}", &[]) else { return };
    let found = findings(&facts, &closure, &Policy::cpu("op"));
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].message.contains(outside.join("o.h").to_str().unwrap()));
    assert!(found[1].message.contains("cub/x.h"));
}

fn sample() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| compile("op.c", HONEST, &["-D_GNU_SOURCE", "-lm"]).unwrap_or_default())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn broken_bytes_never_panic(
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..24),
        near in any::<bool>(),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = sample().to_vec();
        prop_assume!(!bytes.is_empty());
        // Half of the edits hit the headers and dynamic tables, where structure is.
        let range = if near { bytes.len().min(2048) } else { bytes.len() };
        for (index, value) in &edits {
            bytes[index.index(range)] = *value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(facts) = facts(&bytes) {
            let _ = judged(&facts);
        }
    }
}
