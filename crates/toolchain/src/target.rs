//! `-march=native` and its kin, resolved into flags that mean the same on every machine.

use crate::discover::{Compiler, Family, Toolchain, ToolchainError, question};
use crate::recipe::Language;

/// Whether a flag means "this machine".
pub(crate) fn is_native(flag: &str) -> bool {
    flag.strip_prefix("-m")
        .and_then(|f| f.split_once('='))
        .is_some_and(|(_, value)| value == "native" || value.starts_with("native+"))
}

/// `flags` with every `=native` replaced by what the compiler takes it for here, in place of the first of them.
/// Without one the flags come back as they are and the compiler is not asked.
///
/// # Errors
/// [`ToolchainError`] if the compiler does not say.
pub fn resolve(
    toolchain: &Toolchain,
    compiler: &Compiler,
    language: Language,
    flags: &[String],
) -> Result<Vec<String>, ToolchainError> {
    let Some(first) = flags.iter().position(|f| is_native(f)) else { return Ok(flags.to_vec()) };
    let machine_flags = flags.iter().map(String::as_str).filter(|f| f.starts_with("-m"));
    let mut args: Vec<&str> = machine_flags.collect();
    args.extend(["-###", "-c", "-x", language.x_flag(), "/dev/null", "-o", "/dev/null"]);
    let text = question(&compiler.program, &toolchain.path, &args)?.stderr;
    let resolved = match compiler.family {
        Family::Gcc => from_gcc(&text),
        Family::Clang => from_clang(&text, &compiler.machine),
    };
    if resolved.is_empty() || resolved.iter().any(|f| is_native(f)) {
        return Err(ToolchainError::Answer {
            program: compiler.program.clone(),
            question: "-###".into(),
            answer: "does not say what `native` stands for".into(),
        });
    }
    let mut out: Vec<String> = flags[..first].to_vec();
    out.extend(resolved);
    out.extend(flags[first..].iter().filter(|f| !is_native(f)).cloned());
    Ok(out)
}

/// The machine flags and parameters on the line that starts the compiler proper.
fn from_gcc(text: &str) -> Vec<String> {
    let Some(words) = text.lines().map(words).find(|w| w.first().is_some_and(|p| is_compiler_proper(p)))
    else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let mut words = words.into_iter().skip(1);
    while let Some(word) = words.next() {
        if word == "--param" {
            out.extend(words.next().map(|value| format!("--param={value}")));
        } else if word.starts_with("--param=") || (word.starts_with("-m") && word.len() > 2) {
            out.push(word);
        }
    }
    out
}

fn is_compiler_proper(program: &str) -> bool {
    matches!(program.rsplit('/').next(), Some("cc1" | "cc1plus"))
}

/// Processor and features on the line that starts the compiler proper.
fn from_clang(text: &str, machine: &str) -> Vec<String> {
    let Some(words) = text.lines().map(words).find(|w| w.iter().any(|x| x == "-cc1")) else {
        return Vec::new();
    };
    let processor =
        if machine.starts_with("x86_64") || machine.starts_with("i") { "-march" } else { "-mcpu" };
    let mut out = Vec::new();
    for pair in words.windows(2) {
        let [option, value] = pair else { continue };
        match option.as_str() {
            "-target-cpu" => out.push(format!("{processor}={value}")),
            "-tune-cpu" if !value.is_empty() => out.push(format!("-mtune={value}")),
            "-target-feature" => {
                out.extend(["-Xclang".into(), option.clone(), "-Xclang".into(), value.clone()]);
            }
            _ => {}
        }
    }
    out
}

/// Words of a printed command line: blanks separate, double quotes and backslashes protect.
fn words(line: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            '\\' => word.get_or_insert_default().extend(chars.next()),
            ' ' | '\t' if !quoted => out.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gcc_lines() {
        let text = "Using built-in specs.\nCOLLECT_GCC=gcc\nCOLLECT_GCC_OPTIONS='-march=native' '-c'\n \
            /usr/lib/gcc/x86_64-linux-gnu/12/cc1 -quiet -imultiarch x86_64-linux-gnu /dev/null \"-march=znver3\" -mmmx \
            -mno-sse4a --param \"l1-cache-size=32\" --param=l2-cache-size=512 \"-mtune=znver3\" -quiet -dumpdir /dev/ -o \
            /tmp/x.s\n /usr/bin/as --64 -o /dev/null\n";
        assert_eq!(
            from_gcc(text),
            [
                "-march=znver3",
                "-mmmx",
                "-mno-sse4a",
                "--param=l1-cache-size=32",
                "--param=l2-cache-size=512",
                "-mtune=znver3"
            ]
        );
        assert!(from_gcc("nothing").is_empty());
    }

    #[test]
    fn clang_lines() {
        let text = "clang version 15\n \"/usr/lib/llvm-15/bin/clang\" \"-cc1\" \"-triple\" \"x\" \"-target-cpu\" \
            \"znver3\" \"-target-feature\" \"+avx\" \"-target-feature\" \"-avx512f\" \"-tune-cpu\" \"generic\"\n";
        assert_eq!(
            from_clang(text, "x86_64-pc-linux-gnu"),
            [
                "-march=znver3",
                "-Xclang",
                "-target-feature",
                "-Xclang",
                "+avx",
                "-Xclang",
                "-target-feature",
                "-Xclang",
                "-avx512f",
                "-mtune=generic"
            ]
        );
        assert_eq!(from_clang(text, "aarch64-linux-gnu")[0], "-mcpu=znver3");
    }

    #[test]
    fn native_in_every_spelling() {
        for flag in ["-march=native", "-mtune=native", "-mcpu=native", "-mcpu=native+sve"] {
            assert!(is_native(flag), "{flag}");
        }
        for flag in ["-march=x86-64-v3", "-DX=native", "-mavx2", "native"] {
            assert!(!is_native(flag), "{flag}");
        }
    }

    proptest! {
        #[test]
        fn quoting_comes_undone(args in proptest::collection::vec("[a-z \"\\\\=-]{1,8}", 0..6)) {
            let line: Vec<_> =
                args.iter().map(|a| format!("\"{}\"", a.replace('\\', "\\\\").replace('"', "\\\""))).collect();
            prop_assert_eq!(words(&line.join(" ")), args);
        }
    }
}
