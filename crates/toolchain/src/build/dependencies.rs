//! What a build read, as it is on disk now.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use kernelseek_inspect::headers::{self, Closure, Header, PathClass, Roots};

use super::{BuildError, at, is_project};
use crate::cache::{DependencyList, Stamp};
use crate::candidate::ProjectFile;
use crate::discover::Toolchain;
use crate::hash;
use crate::recipe::{Recipe, RecipeFile};

/// A project file that was read, with what was in it.
pub(super) struct ReadFile {
    pub(super) path: PathBuf,
    pub(super) contents: Vec<u8>,
    pub(super) hash: String,
    class: PathClass,
    name: String,
    modified_ns: i128,
}

impl ReadFile {
    pub(super) fn read(path: &Path) -> Result<Self, BuildError> {
        let stamp = Stamp::of(path).map_err(|source| at(path, source))?;
        let contents = std::fs::read(path).map_err(|source| at(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            hash: hash::bytes(&contents),
            contents,
            class: PathClass::Workspace,
            name: String::new(),
            modified_ns: stamp.modified_ns,
        })
    }

    pub(super) fn project(&self) -> ProjectFile {
        ProjectFile { class: self.class, name: self.name.clone(), hash: self.hash.clone() }
    }

    /// Whether the compiler certainly read what was read here: the same as before it started, or older than its start.
    pub(super) fn settled(&self, known: &HashMap<PathBuf, String>, started_ns: i128) -> bool {
        match known.get(&self.path) {
            Some(before) => *before == self.hash,
            None => self.modified_ns <= started_ns,
        }
    }
}

/// The folders of one build.
pub(super) struct Snapshot {
    roots: Roots,
    /// Every folder that a header can be found in.
    search: Vec<PathBuf>,
}

impl Snapshot {
    pub(super) fn new(toolchain: &Toolchain, recipe: &Recipe, workspace: &Path) -> Self {
        let roots = toolchain.roots(workspace, &recipe.offered());
        let mut search: Vec<PathBuf> = recipe.include_dirs.iter().map(|d| workspace.join(d)).collect();
        search.extend(roots.toolchain.iter().chain(&roots.system).cloned());
        search.extend(toolchain.compilers().flat_map(|c| c.include_dirs.iter().cloned()));
        search.extend(toolchain.cuda_include_dirs().iter().cloned());
        Self { roots, search }
    }

    pub(super) fn workspace(&self) -> &Path {
        &self.roots.workspace
    }

    /// The file that a part of the recipe was read from. Its contents are those that were read, whatever is on the disk.
    pub(super) fn recipe_file(&self, file: &RecipeFile) -> ReadFile {
        ReadFile {
            path: self.workspace().join(&file.name),
            hash: hash::bytes(&file.contents),
            contents: file.contents.clone(),
            class: PathClass::Workspace,
            name: file.name.to_string_lossy().into_owned(),
            modified_ns: 0,
        }
    }

    /// The filesystem's idea of now.
    pub(super) fn now(&self, folder: &Path) -> Result<i128, BuildError> {
        let path = folder.join("started");
        std::fs::write(&path, [])
            .and_then(|()| Stamp::of(&path))
            .map(|s| s.modified_ns)
            .map_err(|e| at(&path, e))
    }

    pub(super) fn hashes(
        &self,
        paths: impl Iterator<Item = PathBuf>,
    ) -> Result<HashMap<PathBuf, String>, BuildError> {
        paths
            .map(|path| {
                let path = path.canonicalize().map_err(|source| at(&path, source))?;
                let hash = hash::file(&path).map_err(|source| at(&path, source))?;
                Ok((path, hash))
            })
            .collect()
    }

    /// The closure that the dependency output tells, and the project's files in it. Symbolic links are followed before a
    /// file is classified: a link in the workspace does not make its target the candidate's own.
    pub(super) fn read(
        &self,
        depfiles: Vec<(PathBuf, bool)>,
    ) -> Result<(Closure, Vec<ReadFile>), BuildError> {
        let mut paths = Vec::new();
        for (depfile, from_compiler) in depfiles {
            let bytes = match std::fs::read(&depfile) {
                Ok(bytes) => bytes,
                Err(e) if !from_compiler && e.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(at(&depfile, source)),
            };
            // A name that is not UTF-8 is not found below: an error rather than a gap.
            for path in headers::parse_depfile(&String::from_utf8_lossy(&bytes))? {
                let absolute = self.roots.workspace.join(path);
                // The assembler's input and other temporary files.
                if depfile.parent().is_some_and(|staging| absolute.starts_with(staging)) {
                    continue;
                }
                match absolute.canonicalize() {
                    Ok(real) => paths.push(real),
                    // The assembler also lists what `.file` directives claim.
                    Err(e) if !from_compiler && e.kind() == io::ErrorKind::NotFound => {}
                    Err(source) => return Err(at(&absolute, source)),
                }
            }
        }
        let closure = Closure::new(paths, &self.roots);
        let files = closure
            .files
            .iter()
            .filter(|h| is_project(h.class))
            .map(|h| {
                let name = self.project_name(h);
                ReadFile::read(&h.path).map(|f| ReadFile { class: h.class, name, ..f })
            })
            .collect::<Result<_, _>>()?;
        Ok((closure, files))
    }

    /// Name of a project file that does not depend on where the workspace lies, and keeps offered folders apart.
    fn project_name(&self, header: &Header) -> String {
        let name = header.name.to_string_lossy();
        match self.roots.offered.iter().position(|root| header.path == root.join(&header.name)) {
            Some(index) if header.class == PathClass::Offered => format!("{}/{name}", index + 1),
            _ => name.into_owned(),
        }
    }

    /// Stamps of the files that are not the project's.
    pub(super) fn foreign(&self, closure: &Closure) -> Result<Vec<Stamp>, BuildError> {
        closure
            .files
            .iter()
            .filter(|h| !is_project(h.class))
            .map(|h| Stamp::of(&h.path).map_err(|source| at(&h.path, source)))
            .collect()
    }

    /// Names in the workspace that do not exist, and that an `#include` would take before what it took. More than
    /// needed: a name too many costs a build at worst.
    pub(super) fn absent(&self, recipe: &Recipe, closure: &Closure) -> Vec<PathBuf> {
        let workspace = &self.roots.workspace;
        let mut folders: BTreeSet<PathBuf> =
            recipe.include_dirs.iter().filter(|d| d.is_relative()).map(|d| workspace.join(d)).collect();
        folders.extend(closure.of(PathClass::Workspace).filter_map(|h| h.path.parent().map(Path::to_owned)));
        let mut out = BTreeSet::new();
        for file in &closure.files {
            for name in self.spellings(file, &folders) {
                for folder in &folders {
                    let path = folder.join(&name);
                    if path != file.path && !path.exists() {
                        out.insert(path.strip_prefix(workspace).map(Path::to_owned).unwrap_or(path));
                    }
                }
            }
        }
        out.into_iter().collect()
    }

    /// The names by which an `#include` may have meant `file`.
    fn spellings(&self, file: &Header, folders: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
        self.search
            .iter()
            .chain(folders)
            .filter_map(|folder| file.path.strip_prefix(folder).ok())
            .filter(|name| !name.as_os_str().is_empty())
            .map(Path::to_owned)
            .collect()
    }

    /// Whether everything in `list` is as it was.
    pub(super) fn matches(&self, list: &DependencyList) -> bool {
        list.project.iter().all(|f| self.locate(f).is_some_and(|p| hash::file(&p).is_ok_and(|h| h == f.hash)))
            && list.foreign.iter().all(|s| Stamp::of(&s.path).is_ok_and(|now| now == *s))
            && list.absent.iter().all(|p| !self.roots.workspace.join(p).exists())
    }

    /// Where a project file of a list is in this workspace.
    fn locate(&self, file: &ProjectFile) -> Option<PathBuf> {
        match file.class {
            PathClass::Workspace => Some(self.roots.workspace.join(&file.name)),
            PathClass::Offered => {
                let (index, name) = file.name.split_once('/')?;
                let index: usize = index.parse().ok()?;
                Some(self.roots.offered.get(index.checked_sub(1)?)?.join(name))
            }
            PathClass::Outside => Some(PathBuf::from(&file.name)),
            PathClass::Toolchain | PathClass::System => None,
        }
    }
}
