//! What a candidate may contain: the built-in lists of a target, plus what the problem adds.

mod cuda;
mod denied;
mod runtime;
mod streams;

use kernelseek_core::problem::Target;

use crate::pattern;
pub use streams::makes_no_stream;

/// Why a name is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What the refused thing does, as the predicate of "X …".
    pub reason: &'static str,
    /// What to do instead.
    pub next: &'static str,
}

/// What the policy says of one import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportRule {
    /// On the built-in list, or added by the problem.
    Allowed,
    /// Refused by name.
    Denied(Refusal),
    /// On no list.
    Unlisted,
}

/// The rules of one target and one problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    target: Target,
    archs: Vec<String>,
    allow_ptx: bool,
    entry_points: Vec<String>,
    allow_imports: Vec<String>,
    allow_needed: Vec<String>,
    deny_headers: Vec<String>,
}

impl Policy {
    /// The rules of the `cpu` target for a library that must export the C function `entry_point`.
    #[must_use]
    pub fn cpu(entry_point: &str) -> Self {
        Self { entry_points: vec![entry_point.to_owned()], ..Self::default() }
    }

    /// The rules of the `cuda` target for a library that must export the C function `entry_point`.
    #[must_use]
    pub fn cuda(entry_point: &str) -> Self {
        Self { target: Target::Cuda, ..Self::cpu(entry_point) }
    }

    /// Names the architectures (`sm_90a`) that the build asked for; GPU code for any other is refused. Without one, any
    /// architecture passes.
    #[must_use]
    pub fn archs<S: Into<String>>(mut self, archs: impl IntoIterator<Item = S>) -> Self {
        self.archs.extend(archs.into_iter().map(Into::into));
        self
    }

    /// Takes from the compiler's own command line what it was asked to emit: architectures, and PTX where a `code` names a
    /// virtual one.
    #[must_use]
    pub fn emitted_by<S: AsRef<str>>(mut self, argv: impl IntoIterator<Item = S>) -> Self {
        for argument in argv {
            // `-gencode=arch=compute_90a,code=[sm_90a,compute_90a]`, or the option and its value as two arguments.
            let Some((_, codes)) = argument.as_ref().rsplit_once("code=") else { continue };
            for code in codes.trim_matches(['[', ']', '"', '\\']).split(',') {
                if code.starts_with("sm_") {
                    self.archs.push(code.to_owned());
                } else if code.starts_with("compute_") {
                    self.allow_ptx = true;
                }
            }
        }
        self
    }

    /// Lets in PTX, which the driver compiles when the library is loaded.
    #[must_use]
    pub const fn allow_ptx(mut self, allow: bool) -> Self {
        self.allow_ptx = allow;
        self
    }

    /// Where the candidate's calls run.
    #[must_use]
    pub const fn target(&self) -> Target {
        self.target
    }

    /// The architectures that GPU code may be for, as they were named.
    #[must_use]
    pub fn named_archs(&self) -> &[String] {
        &self.archs
    }

    /// Whether GPU code for `arch` is what the build asked for.
    #[must_use]
    pub fn arch(&self, arch: &str) -> bool {
        self.archs.is_empty() || self.archs.iter().any(|a| a == arch)
    }

    /// Whether PTX may be in the library.
    #[must_use]
    pub const fn ptx(&self) -> bool {
        self.allow_ptx
    }

    /// What to say of an allowed import whose effect outlives the call.
    #[must_use]
    pub fn noted(&self, name: &str) -> Option<&'static str> {
        match self.target {
            Target::Cpu => None,
            Target::Cuda => cuda::noted(name),
        }
    }

    /// Adds globs to the import allow-list (`constraints.allow_imports`). They win over refusals by name.
    #[must_use]
    pub fn allow_imports<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.allow_imports.extend(globs.into_iter().map(Into::into));
        self
    }

    /// Adds globs to the header deny-list (`constraints.deny_headers`).
    #[must_use]
    pub fn deny_headers<S: Into<String>>(mut self, globs: impl IntoIterator<Item = S>) -> Self {
        self.deny_headers.extend(globs.into_iter().map(Into::into));
        self
    }

    /// Lets in the libraries that the problem's own link flags (`build.link`) name: its author put them there.
    #[must_use]
    pub fn allow_linked<S: AsRef<str>>(mut self, link: impl IntoIterator<Item = S>) -> Self {
        for flag in link {
            let flag = flag.as_ref();
            if let Some(name) = flag.strip_prefix("-l:") {
                self.allow_needed.push(name.to_owned());
            } else if let Some(name) = flag.strip_prefix("-l") {
                self.allow_needed.push(format!("lib{name}.so*"));
            }
        }
        self
    }

    /// The C functions that must be exported.
    #[must_use]
    pub fn entry_points(&self) -> &[String] {
        &self.entry_points
    }

    /// What the policy says of the undefined symbol `name` (mangled).
    #[must_use]
    pub fn import(&self, name: &str) -> ImportRule {
        if pattern::first_match(&self.allow_imports, name).is_some() {
            ImportRule::Allowed
        } else if let Some(refusal) = denied::import(name).or_else(|| self.denied(name)) {
            ImportRule::Denied(refusal)
        } else if runtime::allows(name) || self.target == Target::Cuda && cuda::allows(name) {
            ImportRule::Allowed
        } else {
            ImportRule::Unlisted
        }
    }

    fn denied(&self, name: &str) -> Option<Refusal> {
        match self.target {
            Target::Cpu => denied::cpu(name),
            Target::Cuda => cuda::denied(name),
        }
    }

    /// Whether the library `soname` may be loaded.
    #[must_use]
    pub fn needed(&self, soname: &str) -> bool {
        pattern::first_match(runtime::NEEDED, soname).is_some()
            || self.target == Target::Cuda && pattern::first_match(cuda::NEEDED, soname).is_some()
            || pattern::first_match(&self.allow_needed, soname).is_some()
    }

    /// The deny-list pattern that the header `name` matches. Patterns match from any component of the path on:
    /// `cub/*` refuses `third_party/cub/device.cuh`.
    #[must_use]
    pub fn denied_header(&self, name: &str) -> Option<&str> {
        let starts = std::iter::once(0).chain(name.match_indices('/').map(|(i, _)| i + 1));
        starts.map(|at| &name[at..]).find_map(|tail| {
            let lower = tail.to_ascii_lowercase();
            pattern::first_match(denied::HEADERS, &lower).or_else(|| {
                // The problem's globs are taken as written first: its author may mean case.
                pattern::first_match(&self.deny_headers, tail)
                    .or_else(|| pattern::first_match(&self.deny_headers, &lower))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(policy: &Policy, name: &str) -> char {
        match policy.import(name) {
            ImportRule::Allowed => 'a',
            ImportRule::Denied(_) => 'd',
            ImportRule::Unlisted => 'u',
        }
    }

    #[test]
    fn imports() {
        let policy = Policy::cpu("op");
        for (expected, names) in [
            (
                'a',
                "memcpy memset strlen malloc aligned_alloc posix_memalign mmap sinf sincosf expf tanhf exp2 lgamma_r \
                 __expf_finite fmaf roundevenf _ZGVbN4v_expf _ZGVdN8vv_powf printf puts stderr fwrite abort exit \
                 __assert_fail __stack_chk_fail __memcpy_chk __printf_chk __snprintf_chk pthread_create thrd_join \
                 GOMP_parallel omp_get_thread_num __kmpc_fork_call __cxa_throw _Znwm _ZdlPvm _ZnamSt11align_val_t \
                 _ZSt20__throw_length_errorPKc _ZNSt6thread4joinEv _ZNKSt9exception4whatEv \
                 _ZTVN10__cxxabiv117__class_type_infoE _ZTISt9exception __gxx_personality_v0 _Unwind_Resume \
                 __tls_get_addr _ITM_registerTMCloneTable __gmon_start__ clock_gettime getauxval __cpu_model sysconf \
                 __isoc23_strtol __isoc99_sscanf __errno_location __divtf3 __extendhfsf2 __truncsfbf2 __mulsc3 \
                 __aarch64_ldadd4_relax __atomic_load_16 getenv qsort setjmp sem_wait sched_yield bcmp cexpf",
            ),
            (
                'd',
                "dlopen dlsym dlmopen system popen execve execvp fork vfork posix_spawn posix_spawnp socket connect \
                 ptrace process_vm_readv open open64 openat fopen fopen64 freopen unlink rename remove syscall kill \
                 tgkill cblas_sgemm sgemm_ dgemv_ cuInit cuModuleLoadData cudaMalloc cublasSgemm_v2 cudnnCreate \
                 nvrtcCompileProgram __open_2 __open64_2 __read_chk _ZNSt13basic_fstreamIcSt11char_traitsIcEEC1Ev \
                 _ZNSt10filesystem6removeERKNS_7__cxx114pathE sched_setaffinity pthread_setaffinity_np sigaction \
                 signal prctl shm_open memfd_create dup2 io_uring_setup clone pthread_kill LAPACKE_sgetrf \
                 _ZNSt10filesystem7__cxx114path4rootEv",
            ),
            ('u', "attention_helper _Z3fooi cube_root mystery __secret _ZN3tbb4taskE"),
        ] {
            for name in names.split_whitespace() {
                assert_eq!(kind(&policy, name), expected, "{name}");
            }
        }
    }

    #[test]
    fn the_compilers_command_line_names_the_architectures() {
        let policy = |argv: &str| Policy::cuda("op").emitted_by(argv.split(' '));
        let one =
            policy("nvcc -O3 -gencode=arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=sm_80 k.cu");
        assert_eq!(one.named_archs(), ["sm_90a", "sm_80"]);
        assert!(one.arch("sm_80") && !one.arch("sm_90") && !one.ptx());
        let both = policy("nvcc -gencode=arch=compute_90a,code=[sm_90a,compute_90a]");
        assert!(both.arch("sm_90a") && !both.arch("compute_90a") && both.ptx());
        assert!(policy("nvcc k.cu").arch("sm_120"));
    }

    #[test]
    fn the_problem_adds() {
        let policy =
            Policy::cpu("op").allow_imports(["cblas_*"]).allow_linked(["-lopenblas", "-O2", "-l:libq.so.1"]);
        assert_eq!(policy.import("cblas_sgemm"), ImportRule::Allowed);
        assert!(matches!(policy.import("sgemm_"), ImportRule::Denied(_)));
        assert!(policy.needed("libopenblas.so.0") && policy.needed("libq.so.1"));
        assert!(!policy.needed("libmkl_rt.so.2") && !Policy::cpu("op").needed("libopenblas.so.0"));
    }

    #[test]
    fn libraries() {
        let policy = Policy::cpu("op");
        for name in
            ["libc.so.6", "libm.so.6", "libmvec.so.1", "libstdc++.so.6", "libgomp.so.1", "libgcc_s.so.1"]
        {
            assert!(policy.needed(name), "{name}");
        }
        for name in ["libcuda.so.1", "libcrypto.so.3", "/tmp/libc.so.6", "libcblas.so", "libm_evil.so"] {
            assert!(!policy.needed(name), "{name}");
        }
    }

    #[test]
    fn headers() {
        let policy = Policy::cpu("op").deny_headers(["secret*", "Fancy/*"]);
        for name in [
            "cutlass/gemm.h",
            "x/y/cub/device.cuh",
            "mkl.h",
            "mkl_cblas.h",
            "cblas-openblas.h",
            "Eigen/Dense",
            "eigen3/Eigen/src/Core.h",
            "secret.h",
            "a/Fancy/b.h",
            "cublas_v2.h",
            "MKL.h",
        ] {
            assert!(policy.denied_header(name).is_some(), "{name}");
        }
        for name in ["math.h", "my_cublike.h", "cubic.h", "bits/mathcalls.h", "sub/kernel.h", "immintrin.h"] {
            assert_eq!(policy.denied_header(name), None, "{name}");
        }
    }
}
