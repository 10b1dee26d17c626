//! What to build and with which flags.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::build::BuildError;

/// A language with a compiler here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// C.
    C,
    /// C++.
    Cxx,
    /// CUDA: C++ with kernels.
    Cuda,
}

impl Language {
    /// As people write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "C",
            Self::Cxx => "C++",
            Self::Cuda => "CUDA",
        }
    }

    pub(crate) fn x_flag(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::Cxx => "c++",
            Self::Cuda => "cu",
        }
    }

    /// The language of a source file, by its extension.
    ///
    /// # Errors
    /// [`BuildError::Unsupported`] for a language that is known but not built here, and for every other file.
    pub fn of(path: &Path) -> Result<Self, BuildError> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        let (language, reason) = match extension {
            "c" => return Ok(Self::C),
            "cc" | "cpp" | "cxx" | "C" | "c++" => return Ok(Self::Cxx),
            "cu" => return Ok(Self::Cuda),
            "rs" => ("Rust", "not supported yet"),
            "py" => ("Python", "is not compiled; only a reference may be written in it"),
            "s" | "S" | "asm" => ("assembly", "not supported: use inline assembly"),
            "h" | "hpp" | "hh" | "cuh" => ("a header", "name the source file that includes it"),
            _ => ("unknown", "sources end in .c, .cc, .cpp, .cxx or .cu"),
        };
        Err(BuildError::Unsupported { path: path.to_owned(), language, reason })
    }
}

/// How a shared library is made of sources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// Source files, relative to the workspace; the first is the main one.
    pub sources: Vec<PathBuf>,
    /// Folders for `#include`: relative ones in the workspace, absolute ones offered from elsewhere.
    pub include_dirs: Vec<PathBuf>,
    /// Macros, with or without value.
    pub defines: Vec<(String, Option<String>)>,
    /// Compiler flags (`build.flags`). `-march=native` and its kin are resolved before they are used.
    pub flags: Vec<String>,
    /// Linker flags (`build.link`).
    pub link: Vec<String>,
    /// GPU architectures to compile for (`sm_90a`); a CUDA source needs at least one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub archs: Vec<String>,
    /// The workspace's file that a part of this recipe was read from: one more file that the build read.
    pub file: Option<RecipeFile>,
}

/// A file that says a part of a recipe, as it was when it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeFile {
    /// Name relative to the workspace.
    pub name: PathBuf,
    /// Its contents.
    pub contents: Vec<u8>,
}

impl Recipe {
    /// The language of the whole: C++ as soon as one source is, CUDA if the only one is.
    ///
    /// # Errors
    /// As [`Language::of`], [`BuildError::NoSources`], and [`BuildError::Unsupported`] for a CUDA source among others.
    pub fn language(&self) -> Result<Language, BuildError> {
        let mut language = None;
        for source in &self.sources {
            let own = Language::of(source)?;
            if own == Language::Cuda && self.sources.len() > 1 {
                return Err(BuildError::Unsupported {
                    path: source.clone(),
                    language: "CUDA",
                    reason: "is built alone; include the other sources in it",
                });
            }
            language = language.max(Some(own));
        }
        language.ok_or(BuildError::NoSources)
    }

    /// Checks that every source lies in the workspace by name.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        for source in self.sources.iter().chain(self.file.as_ref().map(|f| &f.name)) {
            let inside = source.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
            if !inside || source.file_name().is_none() {
                return Err(BuildError::OutsideWorkspace { path: source.clone() });
            }
        }
        Ok(())
    }

    /// The same recipe with every include folder either relative to `workspace` or outside it, links resolved.
    pub(crate) fn settled(&self, workspace: &Path) -> Self {
        let mut out = self.clone();
        for folder in &mut out.include_dirs {
            let real = workspace.join(&*folder).canonicalize().unwrap_or_else(|_| workspace.join(&*folder));
            *folder = match real.strip_prefix(workspace) {
                Ok(inside) if inside.as_os_str().is_empty() => PathBuf::from("."),
                Ok(inside) => inside.to_owned(),
                Err(_) => real,
            };
        }
        out
    }

    /// The include folders that lie outside the workspace.
    pub(crate) fn offered(&self) -> Vec<PathBuf> {
        self.include_dirs.iter().filter(|d| d.is_absolute()).cloned().collect()
    }
}

/// `path` as an argument that is not taken for an option or a response file.
pub(crate) fn as_argument(path: &Path) -> PathBuf {
    match path.as_os_str().as_encoded_bytes().first() {
        Some(b'-' | b'@') => Path::new(".").join(path),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(sources: &[&str]) -> Recipe {
        Recipe { sources: sources.iter().map(PathBuf::from).collect(), ..Recipe::default() }
    }

    #[test]
    fn languages() {
        assert_eq!(recipe(&["a.c"]).language().unwrap(), Language::C);
        assert_eq!(recipe(&["a.c", "b.cpp", "c.c"]).language().unwrap(), Language::Cxx);
        assert_eq!(recipe(&["k.cu"]).language().unwrap(), Language::Cuda);
        assert!(matches!(recipe(&[]).language(), Err(BuildError::NoSources)));
        for (name, says) in
            [("k.rs", "Rust: not supported yet"), ("k.py", "Python"), ("k.h", "header"), ("k", "unknown")]
        {
            let error = recipe(&[name]).language().unwrap_err().to_string();
            assert!(error.contains(says) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_cuda_source_is_alone() {
        let error = recipe(&["a.c", "k.cu"]).language().unwrap_err().to_string();
        assert!(error.contains("k.cu: CUDA: is built alone"), "{error}");
    }

    #[test]
    fn sources_stay_inside() {
        assert!(recipe(&["a.c", "./sub/b.c"]).check().is_ok());
        for name in ["../a.c", "/a.c", "x/../../a.c", ""] {
            assert!(recipe(&[name]).check().is_err(), "{name}");
        }
    }

    #[test]
    fn names_are_no_options() {
        assert_eq!(as_argument(Path::new("-o.c")), Path::new("./-o.c"));
        assert_eq!(as_argument(Path::new("@x.c")), Path::new("./@x.c"));
        assert_eq!(as_argument(Path::new("a.c")), Path::new("a.c"));
    }
}
