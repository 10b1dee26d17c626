//! nvcc: where it is, what exactly it is, and what it says about the kernels it compiles.

pub mod arch;
pub mod places;
pub mod resources;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use arch::Arch;
pub use places::{CudaPlaces, Found};
pub use resources::{KernelResources, Remark};

use crate::discover::{ToolchainError, question};
use crate::hash::{self, FieldHasher};

/// The packages of a compiler without a toolkit, in the versions that were tried together.
pub const WHEELS: [&str; 7] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-cuobjdump==13.2.51",
    "nvidia-cuda-nvdisasm==13.2.51",
];

/// Programs that take part in a compilation besides the driver.
const PARTS: [&str; 5] = ["cicc", "ptxas", "fatbinary", "nvlink", "cudafe++"];

/// The CUDA compiler of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nvcc {
    /// The program, symbolic links followed: called by another name it loses its headers.
    pub program: PathBuf,
    /// Where it was found, in words.
    pub found: String,
    /// `13.0.88`.
    pub version: String,
    /// Folder of the toolkit.
    pub root: PathBuf,
    /// Folders of the toolkit's headers.
    pub include_dirs: Vec<PathBuf>,
    /// The shared runtime library that candidates are linked against.
    pub runtime: RuntimeLibrary,
    /// The other programs and files that take part: `cicc`, `ptxas`, `fatbinary`, `nvlink`, `cudafe++`, `nvcc.profile`,
    /// the device library.
    pub parts: Vec<PathBuf>,
    /// Hash over the contents of the program and every part, and the version, hexadecimal. The host compiler has an
    /// identity of its own.
    pub identity: String,
}

/// `libcudart.so.N`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuntimeLibrary {
    /// The number.
    pub major: u32,
    /// The file, as it is named where the linker finds it.
    pub path: PathBuf,
}

impl RuntimeLibrary {
    /// `libcudart.so.13`.
    #[must_use]
    pub fn soname(&self) -> String {
        format!("libcudart.so.{}", self.major)
    }

    /// Its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }
}

impl Nvcc {
    /// Major and minor version.
    #[must_use]
    pub fn release(&self) -> (u32, u32) {
        release_of(&self.version)
    }

    /// The flag that leaves device code uncompressed: readable without the vendor's tools.
    #[must_use]
    pub fn uncompressed(&self) -> &'static str {
        if self.release() >= (12, 8) { "--compress-mode=none" } else { "-no-compress" }
    }

    /// Asks the program what it is.
    ///
    /// # Errors
    /// [`ToolchainError`] if it does not answer as nvcc does, or has no shared runtime library beside it.
    pub fn ask(program: &Path, found: &str, path: &[PathBuf]) -> Result<Self, ToolchainError> {
        let probe = |source| ToolchainError::Probe { program: program.to_owned(), source };
        let program = program.canonicalize().map_err(probe)?;
        let answer = |question: &str, answer: String| ToolchainError::Answer {
            program: program.clone(),
            question: question.to_owned(),
            answer,
        };
        let text = question(&program, path, &["--version"])?.stdout;
        let version = version_of(&text)
            .ok_or_else(|| answer("--version", "does not say which release of nvcc it is".into()))?;
        // What it would do, without doing it, with the folders it would do it in.
        let dryrun =
            question(&program, path, &["--dryrun", "-x", "cu", "-c", "/dev/null", "-o", "/dev/null"])?;
        let layout = Layout::parse(&dryrun.stderr);
        let root = layout.top.as_deref().and_then(|p| p.canonicalize().ok());
        let (Some(root), false) = (root, layout.includes.is_empty()) else {
            return Err(answer("--dryrun", "does not say where its headers are".into()));
        };
        let real = |p: &PathBuf| p.canonicalize().ok();
        let include_dirs: Vec<PathBuf> = layout.includes.iter().filter_map(real).collect();
        let (major, _) = release_of(&version);
        let runtime = runtime_library(&layout, &root, major).ok_or_else(|| {
            answer(
                "has no shared runtime library",
                format!(
                    "libcudart.so.{major} is not below {}; install nvidia-cuda-runtime (pip) or cuda-cudart (apt)",
                    root.display()
                ),
            )
        })?;
        let places: Vec<&Path> = layout.path.iter().map(PathBuf::as_path).chain(program.parent()).collect();
        let find = |part: &str| places.iter().map(|p| p.join(part)).find(|p| p.is_file());
        let mut parts: Vec<PathBuf> =
            PARTS.into_iter().filter_map(find).filter_map(|p| p.canonicalize().ok()).collect();
        parts.extend(program.parent().map(|p| p.join("nvcc.profile")).filter(|p| p.is_file()));
        parts.extend(layout.device_library.map(|p| p.join("libdevice.10.bc")).as_ref().and_then(real));
        let mut hasher = FieldHasher::new("kernelseek nvcc identity 1");
        let read = |file: &Path| {
            hash::program(file).map_err(|source| ToolchainError::Probe { program: file.to_owned(), source })
        };
        hasher.field(&text).field(read(&program)?);
        for part in &parts {
            let name = part.file_name().unwrap_or_default();
            hasher.field(name.as_encoded_bytes()).field(read(part)?);
        }
        let identity = hasher.hex();
        Ok(Self { program, found: found.to_owned(), version, root, include_dirs, runtime, parts, identity })
    }
}

fn release_of(version: &str) -> (u32, u32) {
    let mut numbers = version.split('.').map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// `Cuda compilation tools, release 13.0, V13.0.88` → `13.0.88`.
fn version_of(text: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with("Cuda compilation tools"))?;
    let version = line.rsplit(", V").next()?.trim();
    let numbers = version.split('.').all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    (numbers && version.contains('.')).then(|| version.to_owned())
}

/// What `--dryrun` says of the folders.
#[derive(Debug, Default, PartialEq, Eq)]
struct Layout {
    top: Option<PathBuf>,
    includes: Vec<PathBuf>,
    libraries: Vec<PathBuf>,
    path: Vec<PathBuf>,
    device_library: Option<PathBuf>,
}

impl Layout {
    fn parse(text: &str) -> Self {
        let mut out = Self::default();
        let variables = text.lines().filter_map(|l| l.strip_prefix("#$ ")?.split_once('='));
        for (name, value) in variables {
            match name {
                "TOP" => out.top = Some(value.trim().into()),
                "INCLUDES" | "SYSTEM_INCLUDES" => out.includes.extend(folders(value, &["-I", "-isystem"])),
                "LIBRARIES" => out.libraries.extend(folders(value, &["-L"])),
                "NVVMIR_LIBRARY_DIR" => out.device_library = Some(value.trim().into()),
                "CICC_PATH" => out.path.push(value.trim().into()),
                "PATH" => out.path.extend(std::env::split_paths(value.trim())),
                _ => {}
            }
        }
        out
    }
}

/// The folders on a line of quoted options: `"-I/a b" "-isystem" "/c"`.
fn folders(line: &str, options: &[&str]) -> Vec<PathBuf> {
    let words = line.split('"').skip(1).step_by(2).filter(|w| !w.is_empty());
    words
        .filter(|w| !options.contains(w))
        .map(|w| options.iter().find_map(|o| w.strip_prefix(o)).unwrap_or(w))
        .map(PathBuf::from)
        .filter(|p| p.is_absolute())
        .collect()
}

/// The shared runtime of the compiler's own major version.
fn runtime_library(layout: &Layout, root: &Path, major: u32) -> Option<RuntimeLibrary> {
    let usual = ["lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"];
    let system = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let places = layout
        .libraries
        .iter()
        .cloned()
        .chain(usual.iter().map(|f| root.join(f)))
        .chain(system.iter().map(PathBuf::from));
    let name = format!("libcudart.so.{major}");
    let path = places.map(|p| p.join(&name)).find(|p| p.is_file())?;
    // The folder's real name; the file's own name is what the linker asks for.
    let folder = path.parent()?.canonicalize().ok()?;
    Some(RuntimeLibrary { major, path: folder.join(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let text = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n\
                    Built on Wed_Aug_20_01:58:59_PM_PDT_2025\nCuda compilation tools, release 13.0, V13.0.88\n\
                    Build cuda_13.0.r13.0/compiler.36424714_0\n";
        assert_eq!(version_of(text).as_deref(), Some("13.0.88"));
        assert_eq!(release_of("13.0.88"), (13, 0));
        for other in ["", "gcc (Debian 12.2.0-14) 12.2.0", "Cuda compilation tools, release x, Vx.y"] {
            assert_eq!(version_of(other), None, "{other}");
        }
    }

    #[test]
    fn layouts() {
        let text = "#$ _HERE_=/w/cu13/bin\n#$ TOP=/w/cu13/bin/..\n#$ CICC_PATH=/w/cu13/bin/../nvvm/bin\n\
                    #$ NVVMIR_LIBRARY_DIR=/w/cu13/bin/../nvvm/libdevice\n#$ PATH=/w/cu13/bin:/usr/bin\n\
                    #$ INCLUDES=\"-I/w/cu 13/include\"  \n#$ SYSTEM_INCLUDES=\"-isystem\" \"/w/cu13/include/cccl\"  \n\
                    #$ LIBRARIES=  \"-L/w/cu13/lib64/stubs\" \"-L/w/cu13/lib64\"\n#$ gcc -E \"x\"\n";
        let layout = Layout::parse(text);
        assert_eq!(layout.top, Some("/w/cu13/bin/..".into()));
        assert_eq!(
            layout.includes,
            [PathBuf::from("/w/cu 13/include"), PathBuf::from("/w/cu13/include/cccl")]
        );
        assert_eq!(layout.libraries, [PathBuf::from("/w/cu13/lib64/stubs"), PathBuf::from("/w/cu13/lib64")]);
        assert_eq!(layout.path[0], PathBuf::from("/w/cu13/bin/../nvvm/bin"));
        assert_eq!(Layout::parse("nothing"), Layout::default());
    }

    #[test]
    fn the_runtime_of_the_same_major_version_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib");
        std::fs::create_dir(&lib).unwrap();
        std::fs::write(lib.join("libcudart.so.12"), "").unwrap();
        let layout = Layout::default();
        assert_eq!(runtime_library(&layout, folder.path(), 1313), None);
        let found = runtime_library(&layout, folder.path(), 12).unwrap();
        assert_eq!(found.soname(), "libcudart.so.12");
        assert_eq!(found.folder(), lib.canonicalize().unwrap());
    }
}
