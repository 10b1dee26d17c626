//! Where nvcc is looked for, in order, each place told in words.

use std::path::{Path, PathBuf};

use crate::discover::{ToolchainError, is_executable, question};

/// Where to look for nvcc besides the search path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CudaPlaces {
    /// The one to take: a path, or a name to be found in the search path.
    pub nvcc: Option<PathBuf>,
    /// Folders of toolkits that the caller knows of, each with the name it is known by (`CUDA_HOME`).
    pub homes: Vec<(String, PathBuf)>,
    /// Python interpreters whose packages may hold a compiler, before those on the search path.
    pub pythons: Vec<PathBuf>,
    /// Folders whose programs are not to be run: what lies beneath is passed over.
    pub out_of_bounds: Vec<PathBuf>,
}

/// A program and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The program.
    pub program: PathBuf,
    /// Where, in words.
    pub place: String,
}

/// Interpreters on the search path that are asked at most.
const PYTHONS: usize = 4;
/// Where the compiler lies among an interpreter's packages.
const PACKAGE: &str = "nvidia/cu13/bin/nvcc";
/// Prints an interpreter's package folders. Isolated (`-I`): nothing in the current folder is imported.
const ASK: &str = "import site\nfor p in site.getsitepackages() + [site.getusersitepackages()]: print(p)";

/// Finds nvcc: the named one, then those of the homes, the search path, the usual folders under `system` (the root
/// folder, except in tests), and last the packages of Python interpreters, which are asked only then.
///
/// # Errors
/// [`ToolchainError::NotFound`] with every place that was looked at.
pub fn find(places: &CudaPlaces, path: &[PathBuf], system: &Path) -> Result<Found, ToolchainError> {
    let bounds: Vec<PathBuf> = places.out_of_bounds.iter().filter_map(|p| p.canonicalize().ok()).collect();
    let usable = |program: &Path| {
        is_executable(program)
            && program.canonicalize().is_ok_and(|real| {
                let written = std::path::absolute(program).unwrap_or_default();
                !bounds.iter().any(|b| real.starts_with(b) || written.starts_with(b))
            })
    };
    let found = |program: PathBuf, place: String| Found { program, place };
    if let Some(named) = &places.nvcc {
        let candidates: Vec<PathBuf> = if named.components().count() > 1 {
            vec![named.clone()]
        } else {
            path.iter().map(|f| f.join(named)).collect()
        };
        return candidates
            .into_iter()
            .find(|p| usable(p))
            .map(|p| found(p, "as named".into()))
            .ok_or_else(|| not_found(named.display().to_string()));
    }
    let mut looked = Vec::new();
    for (name, home) in &places.homes {
        let program = home.join("bin/nvcc");
        if usable(&program) {
            return Ok(found(program, format!("by {name}")));
        }
        looked.push(format!("{name} ({})", program.display()));
    }
    if let Some(program) = path.iter().map(|f| f.join("nvcc")).find(|p| usable(p)) {
        return Ok(found(program, "on PATH".into()));
    }
    looked.push("PATH".into());
    for folder in usual(system) {
        let program = folder.join("bin/nvcc");
        if usable(&program) {
            return Ok(found(program, format!("in {}", folder.display())));
        }
    }
    looked.extend(["/usr/local/cuda*".to_owned(), "/opt/cuda".to_owned()]);
    let on_path = path.iter().map(|f| f.join("python3")).filter(|p| usable(p)).take(PYTHONS);
    let given = places.pythons.iter().filter(|p| usable(p)).cloned();
    let mut asked: Vec<PathBuf> = Vec::new();
    for python in given.chain(on_path) {
        if asked.contains(&python) {
            continue;
        }
        for folder in packages(&python, path) {
            let program = folder.join(PACKAGE);
            if usable(&program) {
                return Ok(found(program, format!("among the packages of {}", python.display())));
            }
        }
        asked.push(python);
    }
    looked.extend(asked.iter().map(|p| format!("the packages of {}", p.display())));
    Err(not_found(looked.join(", ")))
}

fn not_found(looked_for: String) -> ToolchainError {
    ToolchainError::NotFound {
        language: "CUDA",
        looked_for,
        hint: format!(
            "from PyPI, no toolkit needed: pip install --no-deps {}\nfrom NVIDIA's repository: apt-get install \
             cuda-nvcc-13-0 cuda-cudart-dev-13-0 (https://developer.nvidia.com/cuda-downloads)\nfrom a place of its own: \
             name it with --nvcc FILE",
            super::WHEELS.join(" ")
        ),
    }
}

/// The folders that installers use, the newest version first.
fn usual(system: &Path) -> Vec<PathBuf> {
    let local = system.join("usr/local");
    let mut versions: Vec<(Vec<u32>, PathBuf)> = std::fs::read_dir(&local)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let numbers: Option<Vec<u32>> =
                name.strip_prefix("cuda-")?.split('.').map(|n| n.parse().ok()).collect();
            Some((numbers?, entry.path()))
        })
        .collect();
    versions.sort_by(|a, b| b.cmp(a));
    std::iter::once(local.join("cuda"))
        .chain(versions.into_iter().map(|(_, path)| path))
        .chain([system.join("opt/cuda")])
        .collect()
}

/// The package folders of an interpreter. One that does not answer has none.
fn packages(python: &Path, path: &[PathBuf]) -> Vec<PathBuf> {
    let Ok(answer) = question(python, path, &["-I", "-c", ASK]) else { return Vec::new() };
    answer.stdout.lines().map(PathBuf::from).filter(|p| p.is_absolute()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A folder that stands for the whole machine.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }
        fn at(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }
        fn program(&self, name: &str, text: &str) -> PathBuf {
            let path = self.at(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        }
        fn find(&self, places: &CudaPlaces) -> Result<Found, ToolchainError> {
            find(places, &[self.at("bin")], self.0.path())
        }
        fn place(&self, places: &CudaPlaces) -> (PathBuf, String) {
            let found = self.find(places).unwrap();
            (found.program, found.place)
        }
    }

    const SCRIPT: &str = "#!/bin/sh\n";

    #[test]
    fn the_order_of_places() {
        let machine = Machine::new();
        let none = CudaPlaces::default();
        assert!(machine.find(&none).is_err());
        let packages = machine.at("lib/site-packages");
        let python =
            format!("#!/bin/sh\n: > {}\necho {}\n", machine.at("asked").display(), packages.display());
        machine.program("bin/python3", &python);
        let wheel = machine.program("lib/site-packages/nvidia/cu13/bin/nvcc", SCRIPT);
        let said = format!("among the packages of {}", machine.at("bin/python3").display());
        assert_eq!(machine.place(&none), (wheel, said));
        std::fs::remove_file(machine.at("asked")).unwrap();

        let opt = machine.program("opt/cuda/bin/nvcc", SCRIPT);
        assert_eq!(machine.place(&none).0, opt);
        machine.program("usr/local/cuda-9.2/bin/nvcc", SCRIPT);
        let newest = machine.program("usr/local/cuda-13.0/bin/nvcc", SCRIPT);
        machine.program("usr/local/cuda-12.8/bin/nvcc", SCRIPT);
        machine.program("usr/local/cuda-old/bin/nvcc", SCRIPT);
        assert_eq!(machine.place(&none).0, newest);
        let usual = machine.program("usr/local/cuda/bin/nvcc", SCRIPT);
        assert_eq!(machine.place(&none).0, usual);
        let on_path = machine.program("bin/nvcc", SCRIPT);
        assert_eq!(machine.place(&none), (on_path, "on PATH".into()));
        let home = machine.program("home/bin/nvcc", SCRIPT);
        let homes =
            vec![("CUDA_HOME".to_owned(), machine.at("nowhere")), ("CUDA_PATH".into(), machine.at("home"))];
        let with_homes = CudaPlaces { homes, ..none };
        assert_eq!(machine.place(&with_homes), (home, "by CUDA_PATH".into()));
        let own = machine.program("own/nvcc-x", SCRIPT);
        let named = CudaPlaces { nvcc: Some(own.clone()), ..with_homes.clone() };
        assert_eq!(machine.place(&named), (own, "as named".into()));
        let by_name = CudaPlaces { nvcc: Some("nvcc".into()), ..with_homes };
        assert_eq!(machine.place(&by_name).0, machine.at("bin/nvcc"));
        assert!(!machine.at("asked").exists(), "Python was asked although nvcc was found before");
    }

    #[test]
    fn a_named_one_that_is_missing_is_an_error() {
        let machine = Machine::new();
        machine.program("bin/nvcc", SCRIPT);
        let named = CudaPlaces { nvcc: Some(machine.at("x/nvcc")), ..CudaPlaces::default() };
        let error = machine.find(&named).unwrap_err();
        assert!(error.to_string().contains("x/nvcc"), "{error}");
        let hint = error.hint().unwrap();
        assert!(
            hint.contains("pip install --no-deps nvidia-cuda-nvcc==13.0.88") && hint.contains("apt-get"),
            "{hint}"
        );
    }

    #[test]
    fn what_is_out_of_bounds_is_passed_over() {
        let machine = Machine::new();
        machine.program("bin/nvcc", SCRIPT);
        let usual = machine.program("usr/local/cuda/bin/nvcc", SCRIPT);
        let bounded = CudaPlaces { out_of_bounds: vec![machine.at("bin")], ..CudaPlaces::default() };
        assert_eq!(machine.place(&bounded).0, usual);
        // A link from elsewhere does not help.
        std::fs::create_dir_all(machine.at("home/bin")).unwrap();
        std::os::unix::fs::symlink(machine.at("bin/nvcc"), machine.at("home/bin/nvcc")).unwrap();
        let homes = vec![("CUDA_HOME".to_owned(), machine.at("home"))];
        assert_eq!(machine.place(&CudaPlaces { homes, ..bounded }).0, usual);
    }

    #[test]
    fn an_interpreter_that_fails_has_no_packages() {
        let machine = Machine::new();
        machine.program("bin/python3", "#!/bin/sh\nexit 3\n");
        let error = machine.find(&CudaPlaces::default()).unwrap_err().to_string();
        assert!(error.contains("no CUDA compiler found") && error.contains("python3"), "{error}");
    }
}
