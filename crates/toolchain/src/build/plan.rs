//! The commands of a build.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::cuda::{self, Cuda};
use super::{BuildError, compiler_of};
use crate::discover::{Family, Toolchain};
use crate::recipe::{Language, Recipe, as_argument};

/// One command.
pub(super) struct Step {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    /// Program and arguments as they are reported and hashed.
    pub(super) canonical: Vec<String>,
}

/// Every command of a build, up to where its outputs go.
pub(super) struct Plan {
    /// Compiler flags with `native` resolved.
    pub(super) flags: Vec<String>,
    /// nvcc goes from source to library in one command.
    cuda: Option<Cuda>,
    units: Vec<Unit>,
    linker: PathBuf,
    linker_name: &'static str,
    link: Vec<String>,
    includes: Vec<Include>,
    defines: Vec<String>,
    identities: Vec<String>,
}

/// One source.
struct Unit {
    program: PathBuf,
    name: &'static str,
    source: PathBuf,
    /// GNU as can say which files `.incbin` read; the compiler does not know.
    assembler_deps: bool,
}

struct Include {
    actual: PathBuf,
    /// Without the machine's paths: relative to the workspace, or the number of an offered folder.
    canonical: String,
}

impl Plan {
    /// `flags`: the recipe's, resolved.
    pub(super) fn new(
        toolchain: &Toolchain,
        recipe: &Recipe,
        flags: Vec<String>,
    ) -> Result<Self, BuildError> {
        let language = recipe.language()?;
        let linker = toolchain.compiler(language)?;
        let (mut units, mut identities) = (Vec::new(), Vec::new());
        let cuda = match (language, recipe.sources.as_slice()) {
            (Language::Cuda, [source]) => Some(Cuda::new(toolchain, recipe, source)?),
            _ => None,
        };
        if cuda.is_some() {
            identities = Cuda::identities(toolchain, linker)?;
            recipe.include_dirs.iter().try_for_each(|folder| cuda::takes(folder))?;
        }
        for source in recipe.sources.iter().filter(|_| cuda.is_none()) {
            let compiler = compiler_of(toolchain, source)?;
            if !identities.contains(&compiler.identity) {
                identities.push(compiler.identity.clone());
            }
            units.push(Unit {
                program: compiler.program.clone(),
                name: Language::of(source)?.name(),
                source: as_argument(source),
                assembler_deps: compiler.family == Family::Gcc,
            });
        }
        if !identities.contains(&linker.identity) {
            identities.push(linker.identity.clone());
        }
        let mut offered = 0;
        let includes = recipe
            .include_dirs
            .iter()
            .map(|folder| {
                if folder.is_absolute() {
                    offered += 1;
                    Include { actual: folder.clone(), canonical: format!("-I{{offered {offered}}}") }
                } else {
                    Include { actual: folder.clone(), canonical: format!("-I{}", folder.display()) }
                }
            })
            .collect();
        let defines = recipe
            .defines
            .iter()
            .map(|(name, value)| match value {
                Some(value) => format!("-D{name}={value}"),
                None => format!("-D{name}"),
            })
            .collect();
        Ok(Self {
            flags,
            cuda,
            units,
            linker: linker.program.clone(),
            linker_name: language.name(),
            link: recipe.link.clone(),
            includes,
            defines,
            identities,
        })
    }

    /// Identities of the compilers that take part.
    pub(super) fn identities(&self) -> Vec<&str> {
        self.identities.iter().map(String::as_str).collect()
    }

    /// The commands with every output in `out`.
    pub(super) fn steps(&self, out: &Path) -> Vec<Step> {
        if let Some(cuda) = &self.cuda {
            let (program, args) = cuda.arguments(self.own(), &self.link, out);
            return vec![args.step(&program, Language::Cuda.name())];
        }
        let mut steps: Vec<Step> =
            self.units.iter().enumerate().map(|(index, unit)| self.compile(index, unit, out)).collect();
        steps.push(self.link(out));
        steps
    }

    /// The commands without the machine's paths.
    pub(super) fn canonical(&self) -> Vec<Vec<String>> {
        self.steps(Path::new("")).into_iter().map(|s| s.canonical).collect()
    }

    pub(super) fn artifact(&self, out: &Path) -> PathBuf {
        out.join("artifact.so")
    }

    /// What the compilers (must have) and the assemblers (may have) written about the files they read.
    pub(super) fn depfiles(&self, out: &Path) -> Vec<(PathBuf, bool)> {
        let units = if self.cuda.is_some() { 1 } else { self.units.len() };
        (0..units)
            .flat_map(|i| [(out.join(format!("{i}.d")), true), (out.join(format!("{i}.s.d")), false)])
            .collect()
    }

    /// Whether the compiler is nvcc, which says what each kernel takes.
    pub(super) fn is_cuda(&self) -> bool {
        self.cuda.is_some()
    }

    /// The GPU architecture that is compiled for, if there is exactly one.
    pub(super) fn only_arch(&self) -> Option<String> {
        self.cuda.as_ref().and_then(Cuda::only_arch)
    }

    /// The recipe's flags, macros and include folders.
    fn own(&self) -> Arguments {
        let mut args = Arguments::default();
        args.same(&self.flags);
        args.same(&self.defines);
        for include in &self.includes {
            let mut actual = OsString::from("-I");
            actual.push(&include.actual);
            args.push(actual, include.canonical.clone());
        }
        args
    }

    fn compile(&self, index: usize, unit: &Unit, out: &Path) -> Step {
        let mut args = Arguments::default();
        // Before the recipe's flags, which may say otherwise.
        args.same(["-fvisibility=default", "-fdiagnostics-color=never"]);
        args.append(self.own());
        // After them, because nothing else works.
        args.same(["-fPIC", "-c"]);
        args.path(&unit.source);
        args.output("-o", out, &format!("{index}.o"));
        args.same(["-MD"]);
        args.output("-MF", out, &format!("{index}.d"));
        if unit.assembler_deps {
            args.same(["-Xassembler", "--MD", "-Xassembler"]);
            let name = format!("{index}.s.d");
            args.push(out.join(&name).into(), name);
        }
        args.step(&unit.program, unit.name)
    }

    fn link(&self, out: &Path) -> Step {
        let mut args = Arguments::default();
        args.same(["-fdiagnostics-color=never"]);
        args.same(&self.flags);
        for index in 0..self.units.len() {
            let name = format!("{index}.o");
            args.push(out.join(&name).into(), name);
        }
        args.same(["-shared", "-fPIC"]);
        args.output("-o", out, "artifact.so");
        args.same(&self.link);
        args.step(&self.linker, self.linker_name)
    }
}

#[derive(Default)]
pub(super) struct Arguments {
    actual: Vec<OsString>,
    canonical: Vec<String>,
}

impl Arguments {
    pub(super) fn append(&mut self, other: Self) {
        self.actual.extend(other.actual);
        self.canonical.extend(other.canonical);
    }

    pub(super) fn push(&mut self, actual: OsString, canonical: String) {
        self.actual.push(actual);
        self.canonical.push(canonical);
    }

    pub(super) fn same<S: AsRef<str>>(&mut self, args: impl IntoIterator<Item = S>) {
        for arg in args {
            self.push(arg.as_ref().into(), arg.as_ref().to_owned());
        }
    }

    pub(super) fn path(&mut self, path: &Path) {
        self.push(path.into(), path.to_string_lossy().into_owned());
    }

    pub(super) fn output(&mut self, option: &str, out: &Path, name: &str) {
        self.same([option]);
        self.push(out.join(name).into(), name.to_owned());
    }

    fn step(self, program: &Path, name: &'static str) -> Step {
        // The compiler stands in its identity, not in its path.
        let shown = match name {
            "C" => "cc",
            "CUDA" => "nvcc",
            _ => "c++",
        };
        let mut canonical = vec![shown.to_owned()];
        canonical.extend(self.canonical);
        Step { program: program.to_owned(), args: self.actual, canonical }
    }
}
