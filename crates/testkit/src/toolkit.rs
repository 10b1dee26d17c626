//! A CUDA toolkit that answers questions and compiles nothing.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What the fake says instead of compiling.
pub const REFUSAL: &str = "nvcc fatal   : this is a fake";

/// Writes a toolkit of this version below `root` and returns its `bin/nvcc`: the programs that take part (each a file
/// with its own name in it), a header, the runtime library.
///
/// # Errors
/// When a file cannot be written.
pub fn fake(root: &Path, version: &str) -> io::Result<PathBuf> {
    let (release, major) = (release(version), version.split('.').next().unwrap_or_default());
    let folders = ["bin", "include", "lib64", "nvvm/bin", "nvvm/libdevice"];
    folders.iter().try_for_each(|folder| std::fs::create_dir_all(root.join(folder)))?;
    for part in ["bin/ptxas", "bin/fatbinary", "bin/nvlink", "bin/cudafe++", "nvvm/bin/cicc"] {
        std::fs::write(root.join(part), format!("{part} {version}"))?;
    }
    std::fs::write(root.join("nvvm/libdevice/libdevice.10.bc"), version)?;
    std::fs::write(root.join("include/cuda_runtime.h"), "")?;
    std::fs::write(root.join("lib64").join(format!("libcudart.so.{major}")), "")?;
    let nvcc = root.join("bin/nvcc");
    let root = root.canonicalize()?;
    let root = root.display();
    let script = format!(
        "#!/bin/sh\n\
         case \"$1\" in\n\
         --version) echo 'nvcc: NVIDIA (R) Cuda compiler driver'\n\
         echo 'Cuda compilation tools, release {release}, V{version}';;\n\
         --dryrun) {{ echo '#$ TOP={root}/bin/..'; echo '#$ CICC_PATH={root}/nvvm/bin'\n\
         echo '#$ NVVMIR_LIBRARY_DIR={root}/nvvm/libdevice'; echo '#$ PATH={root}/bin:/usr/bin'\n\
         echo '#$ INCLUDES=\"-I{root}/include\"'; echo '#$ LIBRARIES=  \"-L{root}/lib64\"'; }} >&2;;\n\
         *) echo '{REFUSAL}' >&2; exit 1;;\n\
         esac\n"
    );
    std::fs::write(&nvcc, script)?;
    std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755))?;
    Ok(nvcc)
}

fn release(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}
