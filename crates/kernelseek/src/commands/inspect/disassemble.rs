//! The disassembler of the CUDA toolkit, where there is one. It is trusted; what it reads is data.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kernelseek_inspect::sass::{self, Mix};
use serde::Serialize;

/// Program that names the toolkit; the environment's page documents it with `--nvcc`.
const NVCC: &str = "KERNELSEEK_NVCC";
/// Text beyond this is not read: some hundred thousand instructions.
const TEXT: u64 = 256 << 20;

/// Instructions by class, or why there are none.
#[derive(Debug, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum Sass {
    /// There is no GPU code to disassemble.
    Nothing,
    /// There is no disassembler.
    NoTool,
    /// The disassembler did not do it.
    Failed {
        /// The program.
        tool: PathBuf,
        /// What it said.
        said: String,
    },
    /// What it printed, counted.
    Read {
        /// The program.
        tool: PathBuf,
        /// Each function's instructions.
        functions: Vec<Mix>,
    },
}

/// Where disassemblers may be.
#[derive(Debug, Default)]
pub(super) struct Tools {
    folders: Vec<PathBuf>,
}

impl Tools {
    /// Beside nvcc as the environment names it, in the toolkit's folder, on the search path, in the usual place.
    pub(super) fn from_environment() -> Self {
        let value = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        // A link to nvcc lies elsewhere than the toolkit.
        let nvcc = value(NVCC)
            .and_then(|p| Path::new(&p).canonicalize().ok())
            .and_then(|p| p.parent().map(Path::to_owned));
        let home =
            ["CUDA_HOME", "CUDA_PATH"].iter().find_map(|n| value(n)).map(|p| Path::new(&p).join("bin"));
        let path = value("PATH").map(|p| std::env::split_paths(&p).collect::<Vec<_>>()).unwrap_or_default();
        let usual = PathBuf::from("/usr/local/cuda/bin");
        Self { folders: nvcc.into_iter().chain(home).chain(path).chain([usual]).collect() }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        self.folders.iter().map(|f| f.join(name)).find(|p| p.is_file())
    }
}

/// Disassembles `file` and counts. `cuobjdump` reads libraries, object files and cubins alike; `nvdisasm` cubins alone.
pub(super) fn run(tools: &Tools, file: &Path) -> Sass {
    let mut failed = None;
    for (name, option) in [("cuobjdump", "-sass"), ("nvdisasm", "-c")] {
        let Some(tool) = tools.find(name) else { continue };
        match text(&tool, option, file, &tools.folders) {
            Ok(text) => {
                let functions = sass::parse(&text);
                if !functions.is_empty() {
                    return Sass::Read { tool, functions };
                }
                failed.get_or_insert(Sass::Failed { tool, said: "it printed no function".to_owned() });
            }
            Err(said) => {
                failed.get_or_insert(Sass::Failed { tool, said });
            }
        }
    }
    failed.unwrap_or(Sass::NoTool)
}

fn text(tool: &Path, option: &str, file: &Path, folders: &[PathBuf]) -> Result<String, String> {
    let mut command = Command::new(tool);
    // A name that starts with a dash is a file all the same.
    let file = if file.is_absolute() { file.to_owned() } else { Path::new(".").join(file) };
    command.arg(option).arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // cuobjdump calls nvdisasm by its name.
    if let Ok(path) = std::env::join_paths(folders) {
        command.env("PATH", path);
    }
    let mut child = command.spawn().map_err(|e| e.to_string())?;
    let errors = child.stderr.take().map(|pipe| {
        std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut pipe = pipe;
            // What is beyond the first lines still has to be taken, or the tool waits.
            let _ = (&mut pipe).take(1 << 12).read_to_end(&mut said);
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            String::from_utf8_lossy(&said).trim().to_owned()
        })
    });
    let mut out = Vec::new();
    let read = child.stdout.take().map_or(Ok(0), |pipe| pipe.take(TEXT).read_to_end(&mut out));
    let cut = out.len() as u64 == TEXT;
    if cut {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|e| e.to_string())?;
    let said = errors.and_then(|t| t.join().ok()).unwrap_or_default();
    read.map_err(|e| e.to_string())?;
    if cut {
        return Err(format!("it printed more than {} MiB", TEXT >> 20));
    }
    if !status.success() {
        return Err(said.lines().next().map_or_else(|| status.to_string(), str::to_owned));
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn tools(scripts: &[(&str, &str)]) -> (tempfile::TempDir, Tools) {
        let folder = tempfile::tempdir().unwrap();
        for (name, body) in scripts {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let tools = Tools { folders: vec![folder.path().to_owned(), "/usr/bin".into(), "/bin".into()] };
        (folder, tools)
    }

    #[test]
    fn the_first_tool_that_does_it_counts() {
        let function = "echo '  Function : k'; echo '/*0000*/ EXIT ;'";
        for (scripts, state) in [
            (&[][..], "no_tool"),
            (&[("cuobjdump", function)], "read"),
            (&[("cuobjdump", "echo bad >&2; exit 1"), ("nvdisasm", function)], "read"),
            (&[("cuobjdump", "echo bad >&2; exit 1")], "failed"),
            (&[("cuobjdump", "true")], "failed"),
        ] {
            let (_folder, tools) = tools(scripts);
            let sass = run(&tools, Path::new("-x.so"));
            let value = serde_json::to_value(&sass).unwrap();
            assert_eq!(value["state"], state, "{scripts:?} {value}");
            if let Sass::Failed { said, .. } = &sass {
                assert!(said == "bad" || said == "it printed no function", "{said}");
            }
        }
    }

    #[test]
    fn the_file_is_an_argument_and_no_option() {
        let (_folder, tools) = tools(&[("cuobjdump", "echo \"Function : $1:$2\"; echo '/*0000*/ EXIT ;'")]);
        let Sass::Read { functions, .. } = run(&tools, Path::new("-x.so")) else { panic!() };
        assert_eq!(functions[0].name, "-sass:./-x.so");
    }
}
