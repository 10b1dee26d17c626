//! The command of a CUDA build.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::BuildError;
use super::plan::Arguments;
use crate::cuda::{Arch, Nvcc, arch};
use crate::discover::{Compiler, Family, Toolchain};
use crate::recipe::{Recipe, as_argument};
use crate::target;

/// What nvcc is told beside what every compiler is told.
pub(super) struct Cuda {
    program: PathBuf,
    host: PathBuf,
    /// GNU as can say which files `.incbin` read; the compiler does not know.
    assembler_deps: bool,
    source: PathBuf,
    archs: Vec<Arch>,
    uncompressed: &'static str,
    runtime_folder: PathBuf,
    runtime: String,
}

/// What the shell would take for its own between double quotes, where nvcc puts names, and what splits lists.
const UNSAFE: [char; 6] = ['"', '$', '`', '\\', ',', '\n'];

impl Cuda {
    /// `recipe` has one source, in CUDA.
    pub(super) fn new(toolchain: &Toolchain, recipe: &Recipe, source: &Path) -> Result<Self, BuildError> {
        let mut archs = Vec::new();
        for text in &recipe.archs {
            let arch = Arch::parse(text).map_err(BuildError::Arch)?;
            if !archs.contains(&arch) {
                archs.push(arch);
            }
        }
        if archs.is_empty() {
            return Err(BuildError::NoArch { path: source.to_owned() });
        }
        let mut flags = recipe.flags.iter().chain(&recipe.link).flat_map(|f| f.split([',', ' ']));
        if let Some(flag) = flags.find(|f| refused(f)) {
            return Err(BuildError::Flag { flag: flag.to_owned() });
        }
        let host = toolchain.compiler(crate::Language::Cuda)?;
        let Nvcc { program, runtime, .. } = toolchain.nvcc()?;
        let made = Self {
            program: program.clone(),
            host: host.program.clone(),
            assembler_deps: host.family == Family::Gcc,
            source: as_argument(source),
            archs,
            uncompressed: toolchain.nvcc()?.uncompressed(),
            runtime_folder: runtime.folder().to_owned(),
            runtime: runtime.soname(),
        };
        for path in [&made.program, &made.host, &made.source, &made.runtime_folder] {
            takes(path)?;
        }
        Ok(made)
    }

    /// Identities of what takes part.
    pub(super) fn identities(toolchain: &Toolchain, host: &Compiler) -> Result<Vec<String>, BuildError> {
        Ok(vec![toolchain.nvcc()?.identity.clone(), host.identity.clone()])
    }

    /// The only architecture, if there is but one.
    pub(super) fn only_arch(&self) -> Option<String> {
        match self.archs.as_slice() {
            [one] => Some(one.to_string()),
            _ => None,
        }
    }

    /// The one command, up to where its outputs go: from source to library. `own`: flags, macros and include folders.
    pub(super) fn arguments(&self, own: Arguments, link: &[String], out: &Path) -> (PathBuf, Arguments) {
        let mut args = Arguments::default();
        args.same(["-ccbin"]);
        args.push(self.host.clone().into(), "c++".into());
        args.append(own);
        // After them, because nothing else works, or nothing else can be checked.
        args.same(self.archs.iter().map(Arch::flag));
        args.same([
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-Xcompiler",
            "-fdiagnostics-color=never",
            "--cudart",
            "none",
            self.uncompressed,
            "-Xptxas",
            "-v",
        ]);
        // Intermediate files have names that hold no process number: the same sources make the same bytes.
        args.same(["--keep", "--keep-dir"]);
        args.push(folder(out), ".".into());
        args.path(&self.source);
        args.same(["-MD"]);
        args.output("-MF", out, "0.d");
        if self.assembler_deps {
            args.same([
                "-Xcompiler",
                "-Xassembler",
                "-Xcompiler",
                "--MD",
                "-Xcompiler",
                "-Xassembler",
                "-Xcompiler",
            ]);
            args.push(out.join("0.s.d").into(), "0.s.d".into());
        }
        args.output("-o", out, "artifact.so");
        args.same(link);
        let mut libraries = OsString::from("-L");
        libraries.push(&self.runtime_folder);
        args.push(libraries, "-L{runtime}".into());
        args.same(["-Xlinker"]);
        args.same([format!("-l:{}", self.runtime)]);
        (self.program.clone(), args)
    }
}

fn folder(out: &Path) -> OsString {
    if out.as_os_str().is_empty() { ".".into() } else { out.into() }
}

/// Flags that would undo what the recipe says elsewhere, or that mean something else on every machine.
fn refused(flag: &str) -> bool {
    const STARTS: [&str; 10] = [
        "-arch",
        "--gpu-architecture",
        "-code",
        "--gpu-code",
        "-gencode",
        "--generate-code",
        "-cudart",
        "--cudart",
        "--compress-mode",
        "--compress-all",
    ];
    target::is_native(flag) || STARTS.iter().any(|s| flag.starts_with(s))
}

/// Whether nvcc can be given a path: it puts names into a shell's command line and splits lists at commas.
pub(super) fn takes(path: &Path) -> Result<(), BuildError> {
    let text: &OsStr = path.as_os_str();
    match text.to_string_lossy().chars().find(|c| UNSAFE.contains(c)) {
        Some(character) => Err(BuildError::Character { path: path.to_owned(), character }),
        None => Ok(()),
    }
}

/// The architectures that are known by name, for messages.
pub(super) fn known() -> String {
    arch::KNOWN.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_contradict_the_recipe() {
        for flag in ["-arch=native", "-arch", "-gencode=arch=compute_80", "--cudart=static", "-march=native"]
        {
            assert!(refused(flag), "{flag}");
        }
        for flag in ["-O3", "-lineinfo", "--use_fast_math", "-Xptxas", "-std=c++20", "-maxrregcount=64"] {
            assert!(!refused(flag), "{flag}");
        }
    }

    #[test]
    fn paths_that_a_shell_would_read() {
        for path in ["/a,b", "/a$(x)", "/a`x`", "/a\"b"] {
            assert!(takes(Path::new(path)).is_err(), "{path}");
        }
        for path in ["/a b/c (1).cu", "/ä"] {
            assert!(takes(Path::new(path)).is_ok(), "{path}");
        }
    }
}
