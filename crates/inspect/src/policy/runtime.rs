//! What every candidate of the `cpu` target may import: the C and C++ runtime as far as a computation needs it.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::pattern;

/// Libraries that may be loaded.
pub(super) const NEEDED: &[&str] = &[
    "libc.so.6",
    "libm.so.6",
    "libmvec.so.1",
    "libpthread.so.0",
    "librt.so.1",
    "libgcc_s.so.1",
    "libatomic.so.1",
    "libstdc++.so.6",
    "libgomp.so.1",
    "libomp.so*",
    "libiomp5.so",
    "libc++.so.1",
    "libc++abi.so.1",
    "libunwind.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "ld-linux-riscv64*.so.1",
];

static MATH: LazyLock<HashSet<&str>> = LazyLock::new(|| MATH_NAMES.split_ascii_whitespace().collect());
static EXACT: LazyLock<HashSet<&str>> = LazyLock::new(|| EXACT_NAMES.split_ascii_whitespace().collect());

/// Functions of `math.h` and `complex.h`, double form: every precision, `__NAME_finite` and libmvec follow from it.
const MATH_NAMES: &str = "acos acosh acospi asin asinh asinpi atan atan2 atan2pi atanh atanpi cbrt ceil compoundn copysign \
    cos cosh cospi drem erf erfc exp exp10 exp10m1 exp2 exp2m1 expm1 fabs fadd fdim fdiv ffma floor fma fmax fmaximum \
    fmaximum_num fmin fminimum fminimum_num fmod fmul frexp fromfp fromfpx fsqrt fsub gamma hypot ilogb isinf isnan \
    finite j0 j1 jn ldexp lgamma lgamma_r gamma_r llogb llrint llround log log10 log10p1 log1p log2 log2p1 logb logp1 \
    lrint lround modf nan nearbyint nextafter nextdown nexttoward nextup pow pow10 pown powr remainder remquo rint \
    rootn round roundeven rsqrt scalb scalbln scalbn significand sin sincos sinh sinpi sqrt tan tanh tanpi tgamma \
    trunc ufromfp ufromfpx y0 y1 yn signgam matherr signbit fpclassify issignaling iseqsig canonicalize \
    cabs cacos cacosh carg casin casinh catan catanh ccos ccosh cexp cimag clog clog10 conj cpow cproj creal csin \
    csinh csqrt ctan ctanh \
    feclearexcept fegetenv fegetexceptflag fegetround feholdexcept feraiseexcept fesetenv fesetexceptflag fesetround \
    fetestexcept feupdateenv feenableexcept fedisableexcept fegetexcept fegetmode fesetmode";

/// Other functions and variables by exact name; `__NAME_chk` of each follows.
const EXACT_NAMES: &str = "memcpy memmove memset memcmp memchr memrchr memmem mempcpy memccpy rawmemchr bcmp bcopy bzero \
    explicit_bzero wmemcpy wmemset wmemmove wmemcmp wmemchr wcslen swab \
    strlen strnlen strcmp strncmp strcasecmp strncasecmp strcoll strxfrm strcpy strncpy stpcpy stpncpy strlcpy strlcat \
    strcat strncat strchr strchrnul strrchr strstr strcasestr strpbrk strspn strcspn strtok strtok_r strsep strdup \
    strndup strerror strerror_r __xpg_strerror_r index rindex ffs ffsl ffsll \
    strtol strtoll strtoul strtoull strtod strtof strtold strtoimax strtoumax atoi atol atoll atof sscanf vsscanf \
    isalnum isalpha isblank iscntrl isdigit isgraph islower isprint ispunct isspace isupper isxdigit tolower toupper \
    __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc __ctype_get_mb_cur_max \
    qsort qsort_r bsearch abs labs llabs div ldiv lldiv rand srand rand_r random srandom drand48 lrand48 mrand48 \
    srand48 erand48 nrand48 jrand48 \
    malloc calloc realloc reallocarray free cfree aligned_alloc posix_memalign memalign valloc pvalloc \
    malloc_usable_size mallopt malloc_trim __libc_memalign \
    mmap mmap64 munmap mremap madvise posix_madvise mprotect mlock munlock mincore \
    printf fprintf vprintf vfprintf dprintf vdprintf sprintf snprintf vsprintf vsnprintf asprintf vasprintf puts fputs \
    putchar putc fputc fwrite fflush perror write setvbuf setbuf ferror fileno stdout stderr fputs_unlocked \
    fwrite_unlocked fputc_unlocked putc_unlocked putchar_unlocked \
    abort exit _exit _Exit quick_exit atexit at_quick_exit on_exit __assert_fail __assert_perror_fail __assert \
    __stack_chk_fail __stack_chk_guard __stack_chk_fail_local __chk_fail __fortify_fail \
    setjmp _setjmp sigsetjmp __sigsetjmp longjmp _longjmp siglongjmp \
    sem_init sem_destroy sem_wait sem_trywait sem_timedwait sem_clockwait sem_post sem_getvalue call_once \
    sched_yield sched_getcpu sched_getaffinity __sched_cpucount __sched_cpualloc __sched_cpufree \
    usleep nanosleep clock_nanosleep sleep \
    clock clock_gettime clock_getres gettimeofday time times timespec_get difftime \
    getauxval __getauxval sysconf __sysconf getpagesize get_nprocs get_nprocs_conf __get_nprocs getrusage getpid gettid \
    getcpu getenv secure_getenv gnu_get_libc_version __errno_location __h_errno_location __libc_single_threaded \
    __cpu_model __cpu_features2 __cpu_indicator_init __init_cpu_features __init_cpu_features_resolver \
    __libc_start_main __gmon_start__ __dso_handle __tls_get_addr __cxa_finalize __register_frame_info \
    __deregister_frame_info __gxx_personality_v0 __gcc_personality_v0 __dynamic_cast rust_eh_personality \
    __emutls_get_address __register_atfork dl_iterate_phdr _dl_find_object __libc_early_init \
    setlocale localeconv newlocale freelocale uselocale nl_langinfo";

/// Families.
const GLOBS: &[&str] = &[
    "pthread_*",
    "__pthread_*",
    "thrd_*",
    "mtx_*",
    "cnd_*",
    "tss_*",
    "GOMP_*",
    "omp_*",
    "__kmpc_*",
    "kmp_*",
    "ompc_*",
    "_ITM_*",
    "__cxa_*",
    "_Unwind_*",
    "__atomic_*",
    "__sync_*",
    "__aarch64_*",
    // operator new and delete in all forms
    "_Zn[a-z]*",
    "_Zd[a-z]*",
    // namespace std, by mangled prefix: a demangled one can be forged by a return type
    "_ZSt*",
    "_ZNSt*",
    "_ZNKSt*",
    "_ZNVSt*",
    "_ZNOSt*",
    "_ZNS[a-z]*",
    "_ZNKS[a-z]*",
    "_ZTVSt*",
    "_ZTISt*",
    "_ZTSSt*",
    "_ZTTSt*",
    "_ZTVNSt*",
    "_ZTINSt*",
    "_ZTSNSt*",
    "_ZTTNSt*",
    "_ZGVNSt*",
    "_ZThn*_NSt*",
    "_ZTv0_n*_NSt*",
    "_ZTv0_n*_NS[a-z]*",
    "_ZN9__gnu_cxx*",
    "_ZNK9__gnu_cxx*",
    "_ZTVN9__gnu_cxx*",
    "_ZTIN9__gnu_cxx*",
    "_ZTSN9__gnu_cxx*",
    "_ZN10__cxxabiv1*",
    "_ZNK10__cxxabiv1*",
    "_ZTVN10__cxxabiv1*",
    "_ZTIN10__cxxabiv1*",
    "_ZTSN10__cxxabiv1*",
    // type information of built-in types
    "_ZTI[a-z]",
    "_ZTIP[a-z]",
    "_ZTIPK[a-z]",
    "_ZTS[a-z]",
    // libmvec
    "_ZGV[a-z][A-Z][0-9]*",
];

/// Arithmetic that compilers call instead of emitting, `__OP` + modes: `__divtf3`, `__extendhfsf2`.
const ARITHMETIC: &[&str] = &[
    "absv", "add", "ash", "bswap", "bitrev", "clrsb", "clz", "cmp", "ctz", "div", "eq", "extend", "ffs",
    "fix", "float", "floatun", "ge", "gt", "le", "lshr", "lt", "mod", "mul", "ne", "neg", "parity",
    "popcount", "pow", "sub", "trunc", "ucmp", "udiv", "umod", "unord",
];
/// Machine modes that arithmetic names are made of.
const MODES: &[&str] = &[
    "hf", "bf", "sf", "df", "xf", "tf", "sc", "dc", "xc", "tc", "hc", "qi", "hi", "si", "di", "ti", "l", "r",
    "v", "un", "uns", "mod",
];

/// Whether `name` is on the built-in list.
pub(super) fn allows(name: &str) -> bool {
    EXACT.contains(name)
        || math(name)
        || pattern::first_match(GLOBS, name).is_some()
        || name.strip_prefix("__").and_then(|n| n.strip_suffix("_chk")).is_some_and(|n| EXACT.contains(n))
        || name
            .strip_prefix("__isoc")
            .and_then(|n| n.get(2..)?.strip_prefix('_'))
            .is_some_and(|n| EXACT.contains(n))
        || arithmetic(name)
}

fn math(name: &str) -> bool {
    let base = name.strip_prefix("__").map_or(name, |n| n.strip_suffix("_finite").unwrap_or(n));
    if MATH.contains(base) {
        return true;
    }
    // lgammaf_r: the precision stands before the suffix.
    let (stem, suffix) = base.strip_suffix("_r").map_or((base, ""), |s| (s, "_r"));
    ["f", "l", "f16", "f32", "f64", "f128", "f32x", "f64x", "d", "dl", "f32f64"]
        .iter()
        .filter_map(|precision| stem.strip_suffix(precision))
        .any(|b| MATH.contains(format!("{b}{suffix}").as_str()))
}

fn arithmetic(name: &str) -> bool {
    let Some(name) = name.strip_prefix("__") else { return false };
    ARITHMETIC.iter().filter_map(|op| name.strip_prefix(op)).any(|modes| {
        let modes = modes
            .strip_suffix(['2', '3', '4', 'i'])
            .map_or(modes, |m| if modes.ends_with('i') { modes } else { m });
        let mut rest = modes;
        let mut parts = 0;
        while !rest.is_empty() {
            let Some(after) = MODES.iter().find_map(|m| rest.strip_prefix(m)) else { return false };
            rest = after;
            parts += 1;
        }
        (1..=4).contains(&parts)
    })
}
