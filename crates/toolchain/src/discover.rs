//! Which compilers there are, and what exactly they are.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernelseek_inspect::headers::Roots;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

use crate::cuda::{CudaPlaces, Nvcc, places};
use crate::hash::{self, FieldHasher};
use crate::recipe::Language;

/// Where to look for compilers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPlaces {
    /// The C compiler to take: a path, or a name to be found in `path`.
    pub cc: Option<PathBuf>,
    /// The C++ compiler to take: a path, or a name to be found in `path`.
    pub cxx: Option<PathBuf>,
    /// Folders to search, in order.
    pub path: Vec<PathBuf>,
    /// Where to look for nvcc, once it is needed.
    pub cuda: CudaPlaces,
}

/// Whose command line a compiler understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// GCC.
    Gcc,
    /// Clang and its kin.
    Clang,
}

/// One compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiler {
    /// The program as found; not resolved, because its name selects the language.
    pub program: PathBuf,
    /// Whose command line it understands.
    pub family: Family,
    /// First line of `--version`.
    pub version: String,
    /// `-dumpmachine`: `x86_64-linux-gnu`.
    pub machine: String,
    /// Folders of `#include <…>`, in search order.
    pub include_dirs: Vec<PathBuf>,
    /// The compiler's own folder (`lib/gcc/MACHINE/VERSION`, clang's resource folder).
    pub own_dir: Option<PathBuf>,
    /// The other programs that take part: compiler proper, assembler, linker.
    pub parts: Vec<PathBuf>,
    /// Hash over the contents of every program that takes part (driver, compiler proper, assembler, linker), the
    /// version and the machine, hexadecimal. Contents rather than size and time: two machines with the same packages
    /// get the same candidate hashes, and a package that is replaced in place does not.
    pub identity: String,
}

/// The compilers of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// C.
    pub cc: Option<Compiler>,
    /// C++.
    pub cxx: Option<Compiler>,
    /// The folders that were searched; builds find assembler and linker there.
    pub path: Vec<PathBuf>,
    cuda: CudaPlaces,
    /// Found when it is first needed: it takes longer than the others, and most builds do without.
    nvcc: OnceLock<Nvcc>,
}

/// No compiler, or one that does not answer.
#[derive(Debug, thiserror::Error)]
pub enum ToolchainError {
    /// There is none.
    #[error("no {language} compiler found (looked for {looked_for})")]
    NotFound {
        /// `C`, `C++` or `CUDA`.
        language: &'static str,
        /// Names or path that were tried.
        looked_for: String,
        /// How to get one.
        hint: String,
    },
    /// A compiler could not be started, or its files could not be read.
    #[error("{} could not be asked what it is", program.display())]
    Probe {
        /// The compiler.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A compiler answered with an error or with something unexpected.
    #[error("{} {question}: {answer}", program.display())]
    Answer {
        /// The compiler.
        program: PathBuf,
        /// The option it was asked with.
        question: String,
        /// What it said, cut to a line or two.
        answer: String,
    },
}

impl ToolchainError {
    /// The one next step, for errors that have one.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotFound { hint, .. } => Some(hint),
            Self::Probe { .. } | Self::Answer { .. } => None,
        }
    }
}

/// Wrappers that would answer from a cache of their own.
const WRAPPERS: &[&str] = &["ccache", "sccache", "distcc", "icecc", "buildcache"];

/// Finds the C and the C++ compiler and asks them what they are.
///
/// # Errors
/// [`ToolchainError::NotFound`] if there is neither, or if one that was named is missing; the other kinds if a compiler
/// does not answer.
pub fn discover(places: &SearchPlaces) -> Result<Toolchain, ToolchainError> {
    let find = |language: Language, named: Option<&PathBuf>| match named {
        Some(named) => match resolve(named, &places.path) {
            Some(program) => Compiler::ask(program, language, &places.path).map(Some),
            None => Err(not_found(language, &named.display().to_string())),
        },
        None => names(language)
            .iter()
            .find_map(|name| resolve(Path::new(name), &places.path))
            .map(|program| Compiler::ask(program, language, &places.path))
            .transpose(),
    };
    let cc = find(Language::C, places.cc.as_ref())?;
    let cxx = find(Language::Cxx, places.cxx.as_ref())?;
    if cc.is_none() && cxx.is_none() {
        return Err(not_found(Language::C, &names(Language::C).join(", ")));
    }
    Ok(Toolchain { cc, cxx, path: places.path.clone(), cuda: places.cuda.clone(), nvcc: OnceLock::new() })
}

fn names(language: Language) -> &'static [&'static str] {
    match language {
        Language::C => &["cc", "gcc", "clang"],
        // nvcc hands the host part to a C++ compiler.
        Language::Cxx | Language::Cuda => &["c++", "g++", "clang++"],
    }
}

fn not_found(language: Language, looked_for: &str) -> ToolchainError {
    let packages = match language {
        Language::C => ["gcc", "gcc", "gcc"],
        Language::Cxx | Language::Cuda => ["g++", "gcc-c++", "gcc"],
    };
    ToolchainError::NotFound {
        language: language.name(),
        looked_for: looked_for.to_owned(),
        hint: format!(
            "install one: apt-get install {} (Debian, Ubuntu), dnf install {} (Fedora), pacman -S {} (Arch)",
            packages[0], packages[1], packages[2]
        ),
    }
}

/// The first executable of that name that is no caching wrapper.
fn resolve(name: &Path, path: &[PathBuf]) -> Option<PathBuf> {
    let candidates: Vec<PathBuf> = if name.components().count() > 1 {
        vec![name.to_owned()]
    } else {
        path.iter().map(|folder| folder.join(name)).collect()
    };
    candidates.into_iter().find(|p| {
        let wrapper = p
            .canonicalize()
            .is_ok_and(|real| real.file_name().is_some_and(|n| WRAPPERS.iter().any(|w| n == OsStr::new(w))));
        !wrapper && is_executable(p)
    })
}

pub(crate) fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

impl Compiler {
    fn ask(program: PathBuf, language: Language, path: &[PathBuf]) -> Result<Self, ToolchainError> {
        let program = std::path::absolute(&program)
            .map_err(|source| ToolchainError::Probe { program: program.clone(), source })?;
        let ask = |args: &[&str]| question(&program, path, args);
        let version_text = ask(&["--version"])?.stdout;
        let version = version_text.lines().next().unwrap_or_default().trim().to_owned();
        let family = if version_text.contains("clang") { Family::Clang } else { Family::Gcc };
        let machine = ask(&["-dumpmachine"])?.stdout.trim().to_owned();
        let search = ask(&["-E", "-v", "-x", language.x_flag(), "/dev/null"])?.stderr;
        let include_dirs = include_dirs(&search);
        if include_dirs.is_empty() || version.is_empty() {
            return Err(ToolchainError::Answer {
                program,
                question: "-E -v".into(),
                answer: "does not say where it looks for headers".into(),
            });
        }
        let own_dir = match family {
            Family::Gcc => ask(&["-print-libgcc-file-name"])?.stdout,
            Family::Clang => ask(&["-print-resource-dir"])?.stdout + "/lib",
        };
        let own_dir = Path::new(own_dir.trim()).parent().filter(|d| d.is_absolute()).map(Path::to_owned);
        let parts: &[&str] = match (family, language) {
            (Family::Gcc, Language::C) => &["cc1", "as", "ld"],
            (Family::Gcc, Language::Cxx | Language::Cuda) => &["cc1plus", "as", "ld"],
            (Family::Clang, _) => &["ld"],
        };
        let mut hasher = FieldHasher::new("kernelseek compiler identity 1");
        hasher.field(&version_text).field(&machine);
        let read = |file: &Path| {
            hash::program(file).map_err(|source| ToolchainError::Probe { program: program.clone(), source })
        };
        hasher.field(read(&program)?);
        let mut found_parts = Vec::new();
        for part in parts {
            let named = ask(&[&format!("-print-prog-name={part}")])?.stdout;
            // A bare name means that the driver looks for it along PATH.
            let found = resolve(Path::new(named.trim()), path);
            hasher.field(part).field(found.as_deref().map(read).transpose()?.unwrap_or_default());
            found_parts.extend(found);
        }
        let identity = hasher.hex();
        Ok(Self { program, family, version, machine, include_dirs, own_dir, parts: found_parts, identity })
    }
}

pub(crate) struct Answer {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Asks a compiler about itself. It is trusted and reads nothing of a candidate's.
pub(crate) fn question(program: &Path, path: &[PathBuf], args: &[&str]) -> Result<Answer, ToolchainError> {
    let probe = |source| ToolchainError::Probe { program: program.to_owned(), source };
    let search = std::env::join_paths(path).map_err(|e| probe(io::Error::other(e)))?;
    let output = Command::new(program)
        .args(args)
        .env_clear()
        .env("PATH", search)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(probe)?;
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(ToolchainError::Answer {
            program: program.to_owned(),
            question: args.join(" "),
            answer: stderr.lines().next().unwrap_or("failed without a message").chars().take(200).collect(),
        });
    }
    Ok(Answer { stdout: String::from_utf8_lossy(&output.stdout).into_owned(), stderr })
}

/// The list that `-v` prints between its two fixed lines.
fn include_dirs(text: &str) -> Vec<PathBuf> {
    text.lines()
        .skip_while(|l| !l.starts_with("#include <...>"))
        .skip(1)
        .take_while(|l| l.starts_with(' '))
        .map(|l| l.trim().trim_end_matches(" (framework directory)"))
        .map(|l| kernelseek_inspect::headers::normalise(Path::new("/"), Path::new(l)))
        .collect()
}

impl Toolchain {
    /// The compiler of a language; of CUDA the one that the host part is handed to.
    ///
    /// # Errors
    /// [`ToolchainError::NotFound`] if there is none.
    pub fn compiler(&self, language: Language) -> Result<&Compiler, ToolchainError> {
        match language {
            Language::C => self.cc.as_ref(),
            Language::Cxx | Language::Cuda => self.cxx.as_ref(),
        }
        .ok_or_else(|| match language {
            Language::Cuda => not_found(Language::Cxx, "nvcc needs one"),
            other => not_found(other, &names(other).join(", ")),
        })
    }

    /// The CUDA compiler; looked for and asked the first time only.
    ///
    /// # Errors
    /// [`ToolchainError::NotFound`] if there is none; the other kinds if it does not answer.
    pub fn nvcc(&self) -> Result<&Nvcc, ToolchainError> {
        if let Some(nvcc) = self.nvcc.get() {
            return Ok(nvcc);
        }
        let found = places::find(&self.cuda, &self.path, Path::new("/"))?;
        let nvcc = Nvcc::ask(&found.program, &found.place, &self.path)?;
        Ok(self.nvcc.get_or_init(|| nvcc))
    }

    /// Folders of the toolkit's headers, once nvcc was needed.
    pub(crate) fn cuda_include_dirs(&self) -> &[PathBuf] {
        self.nvcc.get().map_or(&[], |nvcc| &nvcc.include_dirs)
    }

    /// The compilers there are.
    pub fn compilers(&self) -> impl Iterator<Item = &Compiler> {
        self.cc.iter().chain(&self.cxx)
    }

    /// The folders that tell toolchain and system headers from the rest; symbolic links resolved.
    #[must_use]
    pub fn roots(&self, workspace: &Path, offered: &[PathBuf]) -> Roots {
        let real = |p: &PathBuf| p.canonicalize().unwrap_or_else(|_| p.clone());
        Roots {
            workspace: workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned()),
            offered: offered.iter().map(real).collect(),
            toolchain: self
                .compilers()
                .filter_map(|c| c.own_dir.as_ref())
                .chain(self.cuda_include_dirs())
                .map(real)
                .collect(),
            system: self.compilers().flat_map(|c| &c.include_dirs).map(real).collect(),
        }
    }

    /// What a compiler has to read besides the workspace: its own files, headers, libraries. Existing paths only. The
    /// folders of the search path are not among them: they may be a person's own.
    #[must_use]
    pub fn readable(&self) -> Vec<PathBuf> {
        const SYSTEM: &[&str] = &[
            "/usr",
            "/bin",
            "/lib",
            "/lib32",
            "/lib64",
            "/libx32",
            "/etc/alternatives",
            "/etc/ld.so.cache",
            "/etc/ld.so.conf",
            "/etc/ld.so.conf.d",
            "/dev/null",
            "/dev/urandom",
        ];
        let mut out: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        for compiler in self.compilers() {
            let real = compiler.program.canonicalize().unwrap_or_else(|_| compiler.program.clone());
            // A compiler outside the system folders brings its own tree: PREFIX/bin/cc.
            for program in [&compiler.program, &real] {
                out.extend(program.parent().and_then(Path::parent).map(Path::to_owned));
            }
            out.extend(compiler.include_dirs.iter().cloned());
            out.extend(compiler.own_dir.clone());
            out.extend(compiler.parts.iter().filter_map(|p| p.parent()).map(Path::to_owned));
        }
        if let Some(nvcc) = self.nvcc.get() {
            out.push(nvcc.root.clone());
            out.extend(nvcc.include_dirs.iter().cloned());
            let files = nvcc.parts.iter().chain([&nvcc.program, &nvcc.runtime.path]);
            out.extend(files.filter_map(|p| p.parent()).map(Path::to_owned));
        }
        let mut kept: Vec<PathBuf> = Vec::new();
        for path in out {
            let covered = kept.iter().any(|k| path.starts_with(k));
            // The root itself would make the list pointless (a compiler called /bin/cc).
            if path.parent().is_some() && path.exists() && !covered {
                kept.push(path);
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn include_lists_are_read() {
        let text = "ignoring nonexistent directory \"/x\"\n#include \"...\" search starts here:\n\
                    #include <...> search starts here:\n /usr/lib/gcc/x/12/include\n /usr/include/../include\n\
                    End of search list.\n /not/this\n";
        assert_eq!(
            include_dirs(text),
            [PathBuf::from("/usr/lib/gcc/x/12/include"), PathBuf::from("/usr/include")]
        );
        assert!(include_dirs("").is_empty());
    }

    #[test]
    fn no_compiler_says_how_to_get_one() {
        let empty = tempfile::tempdir().unwrap();
        let error =
            discover(&SearchPlaces { path: vec![empty.path().into()], ..Default::default() }).unwrap_err();
        assert!(matches!(error, ToolchainError::NotFound { language: "C", .. }), "{error}");
        assert!(error.hint().unwrap().contains("apt-get install gcc"));
        let named = SearchPlaces { cxx: Some("/nowhere/c++".into()), ..Default::default() };
        assert!(discover(&named).unwrap_err().to_string().contains("/nowhere/c++"));
    }

    #[test]
    fn caching_wrappers_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        for dir in [&first, &second] {
            std::fs::create_dir(dir).unwrap();
        }
        let script = |path: &Path| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(path, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        script(&first.join("ccache"));
        std::os::unix::fs::symlink(first.join("ccache"), first.join("cc")).unwrap();
        script(&second.join("cc"));
        std::fs::write(first.join("gcc"), "not executable").unwrap();
        assert_eq!(resolve(Path::new("cc"), &[first.clone(), second.clone()]), Some(second.join("cc")));
        assert_eq!(resolve(Path::new("gcc"), &[first, second]), None);
    }

    #[test]
    fn a_program_that_is_no_compiler_is_refused() {
        let places = SearchPlaces { cc: Some("/bin/true".into()), ..Default::default() };
        assert!(discover(&places).is_err());
    }
}
