//! Which compiler flags may be offered to a candidate at all. What is let through changes how the candidate's own code is
//! translated; what names a file, a program, a macro or the linker would change what is read, and what the check sees.

use crate::diagnostic::Collector;
use crate::problem::document::Item;

/// Longest flag in bytes.
const LONGEST: usize = 96;

/// Starts of `-f…` flags that read or write files, load code, or put code of others into the candidate.
const DENIED_F: [&str; 29] = [
    "plugin",
    "profile",
    "no-profile",
    "auto-profile",
    "branch-probabilities",
    "dump",
    "sanitize",
    "no-sanitize",
    "use-ld",
    "file-prefix-map",
    "debug-prefix-map",
    "macro-prefix-map",
    "input-charset",
    "exec-charset",
    "wide-exec-charset",
    "pch",
    "module",
    "save-optimization-record",
    "opt-info",
    "stack-usage",
    "callgraph-info",
    "instrument",
    "patchable",
    "preprocessed",
    "directives-only",
    "test-coverage",
    "embed",
    "lto",
    "pass-plugin",
];

/// Why a flag can be allowed by nobody, if it cannot.
#[must_use]
pub fn refusal(flag: &str) -> Option<String> {
    let shown: String = flag.chars().take(40).filter(|c| !c.is_control()).collect();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '=' | ',' | '+');
    if flag.is_empty() || flag.len() > LONGEST || !flag.chars().all(plain) {
        return Some(format!("`{shown}` is no single flag of up to {LONGEST} letters, digits and `-_.=,+`"));
    }
    let only = "only flags that begin with -O, -f, -m or --param= can be tuned, and some of nvcc's";
    if is_nvcc(flag) {
        return None;
    }
    if let Some(level) = flag.strip_prefix("-O") {
        let known = matches!(level, "" | "0" | "1" | "2" | "3" | "s" | "z" | "g" | "fast");
        return (!known).then(|| format!("`{shown}` is no optimisation level"));
    }
    if let Some(rest) = flag.strip_prefix("-f") {
        let denied = rest.is_empty() || DENIED_F.iter().any(|d| rest.starts_with(d));
        return denied
            .then(|| format!("`{shown}` reads or writes files or loads code, so it cannot be tuned"));
    }
    if let Some(rest) = flag.strip_prefix("-m") {
        // `-mllvm` takes the next argument, whatever it is.
        let denied =
            rest.is_empty() || rest.starts_with("llvm") || rest == "linker" || rest.starts_with("relax-all");
        return denied.then(|| format!("`{shown}` cannot be tuned: {only}"));
    }
    if let Some((name, value)) = flag.strip_prefix("--param=").and_then(|p| p.split_once('=')) {
        let fine = !name.is_empty() && value.parse::<u32>().is_ok();
        return (!fine).then(|| format!("`{shown}` wants the form --param=NAME=NUMBER"));
    }
    Some(format!("`{shown}` cannot be tuned: {only}"))
}

/// Flags of nvcc that change how a kernel is translated. A closed list: its other long options name files, programs and
/// architectures.
fn is_nvcc(flag: &str) -> bool {
    match flag.split_once('=') {
        None => matches!(flag, "--use_fast_math" | "--extra-device-vectorization"),
        Some(("--ftz" | "--prec-div" | "--prec-sqrt" | "--fmad", value)) => matches!(value, "true" | "false"),
        Some(("--maxrregcount", value)) => value.parse::<u8>().is_ok(),
        Some(_) => false,
    }
}

/// Reads a list of flags that candidates may choose from.
pub(crate) fn allowed(item: &Item<'_>, errors: &mut Collector) -> Option<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for item in &item.list(errors)? {
        let flag = item.string(errors)?;
        if let Some(refusal) = refusal(flag) {
            errors.error(&item.span, refusal);
        } else if found.iter().any(|f| f == flag) {
            errors.error(&item.span, format!("`{flag}` stands twice"));
        } else {
            found.push(flag.to_owned());
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_changes_the_code_is_let_through_and_nothing_else() {
        for flag in [
            "-O2",
            "-O3",
            "-Ofast",
            "-funroll-loops",
            "-fno-tree-vectorize",
            "-ffast-math",
            "-mprefer-vector-width=512",
            "-march=native",
            "-mno-avx512f",
            "-mrecip=div,sqrt",
            "--param=max-unroll-times=4",
            "-fvect-cost-model=cheap",
            "--use_fast_math",
            "--ftz=true",
            "--fmad=false",
            "--maxrregcount=128",
        ] {
            assert_eq!(refusal(flag), None, "{flag}");
        }
        for flag in [
            "",
            "-",
            "-f",
            "-m",
            "-DX=1",
            "-DKS_OK=2",
            "-UX",
            "-I.",
            "-I/etc",
            "-include",
            "-imacros",
            "-fplugin=x.so",
            "-fplugin-arg-x",
            "-B.",
            "-B/tmp",
            "-wrapper",
            "-o",
            "-ox.so",
            "@file",
            "--maxrregcount=many",
            "--ftz=x",
            "--keep",
            "--compiler-options=-fplugin",
            "--options-file=x",
            "-Wl,-init=f",
            "-Wa,--x",
            "-Wp,-DX",
            "-lm",
            "-L.",
            "-xc++",
            "-T",
            "-Tx",
            "-shared",
            "-static",
            "-specs=x",
            "--specs=x",
            "-E",
            "-S",
            "-c",
            "-MD",
            "-MF",
            "-save-temps",
            "-fdump-tree-all",
            "-fprofile-use=x",
            "-fsanitize=address",
            "-fuse-ld=gold",
            "-flto",
            "-fopt-info-all=x",
            "-mllvm",
            "--param",
            "--param=x",
            "--param=x=y",
            "-O2 -DX",
            "-O2\n",
            "-O9",
            "-O2,x",
            "-funroll-loops/x",
            "-fembed-bitcode",
            "-Xlinker",
            "-Xassembler",
            "-pthread",
            "-nostdlib",
            "-v",
            "-w",
            "-g",
            "x.c",
            "-isysroot",
            "--sysroot=x",
            "-finstrument-functions",
            "-fmodule-file=x",
            "-ü",
        ] {
            assert!(refusal(flag).is_some(), "{flag}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics_and_what_passes_is_one_plain_argument(text in ".{0,40}") {
            if refusal(&text).is_none() {
                prop_assert!(text.starts_with("-O") || text.starts_with("-f") || text.starts_with("-m")
                    || text.starts_with("--param="));
                prop_assert!(!text.contains(['/', '@', ' ', '\n']));
            }
        }
    }
}
