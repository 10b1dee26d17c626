//! A GPU for machines without one: a driver, a runtime library and a compiler that run kernels on the CPU.
//!
//! The libraries are built once, from `gpu/` and `problems/tools/emulate/`, and linked into a folder of each
//! GPU's own. What they show: the order of calls, who sees which memory, errors that stay, what a candidate's calls come
//! to. What they do not: time, caches, what a driver does wrong.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// A GPU of one test's own, with what compiles for it.
#[derive(Debug)]
pub struct StandIn {
    folder: tempfile::TempDir,
}

/// Where the sources of this repository are.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn compile(arguments: &[&str], sources: &[PathBuf], output: &Path) -> io::Result<()> {
    let program = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let ran = Command::new(program)
        .args(["-std=c++17", "-O2", "-w", "-U_FORTIFY_SOURCE", "-ffp-contract=off"])
        .args(arguments)
        .args(sources)
        .arg("-o")
        .arg(output)
        .output()?;
    if ran.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&ran.stderr).into_owned()))
}

/// Builds the libraries and the compiler into `folder`.
fn build(folder: &Path) -> io::Result<()> {
    let (own, emulation) = (root().join("crates/testkit/gpu"), root().join("problems/tools/emulate"));
    let helpers = root().join("crates/device/src/cuda/kernels");
    let include = |folder: &Path| format!("-I{}", folder.display());
    let of = |names: &[&str]| names.iter().map(|name| own.join(name)).collect::<Vec<_>>();
    let (emulated, kernels, here) = (include(&emulation), include(&helpers), include(&own));
    let library = |soname: &str| format!("-Wl,-soname,{soname}");
    let driver = folder.join("libcuda.so.1");
    std::thread::scope(|scope| {
        let nvcc = scope.spawn(|| compile(&[], &[emulation.join("nvcc.cpp")], &folder.join("nvcc")));
        compile(
            &["-shared", "-fPIC", "-DKS_STAND_IN", &emulated, &kernels, "-pthread", &library("libcuda.so.1")],
            &of(&["driver.cpp", "pool.cpp", "helpers.cpp"]),
            &driver,
        )?;
        compile(
            &["-shared", "-fPIC", &emulated, &here, &library("libcudart.so.13"), "-Wl,-rpath,$ORIGIN"],
            &[own.join("runtime.cpp"), driver.clone()],
            &folder.join("libcudart.so.13"),
        )?;
        compile(&["-shared", "-fPIC", "-x", "c"], &of(&["nvml.c"]), &folder.join("libnvidia-ml.so.1"))?;
        nvcc.join().unwrap_or_else(|_| Err(io::Error::other("the compiler's thread")))
    })
}

/// The folder that everything was built into: beside the test program, by the hash of what it was built from.
fn built() -> io::Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = BUILT.get_or_init(|| built_once().map_err(|e| e.to_string()));
    made.as_ref().map(PathBuf::as_path).map_err(|e| io::Error::other(e.clone()))
}

fn built_once() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.parent().unwrap_or(Path::new("/tmp"));
    let folder = beside.join(format!("stand-in-{}", &sources_hash()?[..16]));
    if !folder.exists() {
        // Another test program may be at it too: whoever is first is taken.
        let made = tempfile::tempdir_in(beside)?;
        build(made.path())?;
        if let Err(error) = std::fs::rename(made.path(), &folder)
            && !folder.exists()
        {
            return Err(error);
        }
    }
    Ok(folder)
}

/// One hash of all sources.
fn sources_hash() -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for folder in ["crates/testkit/gpu", "problems/tools/emulate", "crates/device/src/cuda/kernels"] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(root().join(folder))?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<io::Result<_>>()?;
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e != "ptx")) {
            hasher.update(file.as_os_str().as_encoded_bytes());
            hasher.update(&std::fs::read(file)?);
        }
    }
    // Of the flags too, which stand here.
    hasher.update(include_bytes!("stand_in.rs"));
    Ok(hasher.finalize().to_hex().to_string())
}

impl StandIn {
    /// Makes one.
    ///
    /// # Errors
    /// When the C++ compiler or the file system refuses.
    pub fn new() -> io::Result<Self> {
        let built = built()?;
        let folder = tempfile::tempdir()?;
        for part in ["bin", "include", "lib64", "leases", "nvvm/bin", "nvvm/libdevice"] {
            std::fs::create_dir_all(folder.path().join(part))?;
        }
        for library in ["libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1"] {
            std::fs::copy(built.join(library), folder.path().join("lib64").join(library))?;
        }
        std::os::unix::fs::symlink("libcuda.so.1", folder.path().join("lib64/libcuda.so"))?;
        std::fs::copy(built.join("nvcc"), folder.path().join("bin/nvcc"))?;
        for part in ["bin/ptxas", "bin/fatbinary", "bin/nvlink", "bin/cudafe++", "nvvm/bin/cicc"] {
            std::fs::write(folder.path().join(part), part)?;
        }
        std::fs::write(folder.path().join("nvvm/libdevice/libdevice.10.bc"), "")?;
        let include = folder.path().join("include");
        for header in std::fs::read_dir(root().join("problems/tools/emulate"))? {
            let header = header?;
            if header.path().extension().is_some_and(|e| e == "h") {
                std::fs::copy(header.path(), include.join(header.file_name()))?;
            }
        }
        // GPU code that nothing runs, for what inspects libraries.
        std::fs::copy(root().join("crates/inspect/tests/fixtures/one.fatbin"), include.join("one.fatbin"))?;
        Ok(Self { folder })
    }

    /// Its compiler.
    #[must_use]
    pub fn nvcc(&self) -> PathBuf {
        self.folder.path().join("bin/nvcc")
    }

    /// The variables that make it the GPU of a process.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |part: &str| self.folder.path().join(part).display().to_string();
        vec![
            ("KERNELSEEK_NVCC".into(), path("bin/nvcc")),
            ("KERNELSEEK_GPU_LEASES".into(), path("leases")),
            ("LD_LIBRARY_PATH".into(), path("lib64")),
        ]
    }
}

/// Builds the library that stands in for NVML alone, into `folder`.
///
/// # Errors
/// As [`StandIn::new`].
pub fn nvml(folder: &Path) -> io::Result<()> {
    compile(
        &["-shared", "-fPIC", "-x", "c"],
        &[root().join("crates/testkit/gpu/nvml.c")],
        &folder.join("libnvidia-ml.so.1"),
    )
}
