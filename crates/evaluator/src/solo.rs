//! A tool around one case: the case is laid out in a folder, the tool starts, and the tool starts `kernelseek solo`.
//!
//! Where the machine allows, all of it runs in namespaces of its own (no network, a loopback for the tool's two halves).
//! A tool that does not get along with them is started once more without, and the record says so. Nothing is timed.

use crate::staging::{Constants, Drawn, Staged, StorageKinds, nominal};
use kernelseek_core::case::Case;
use kernelseek_device::cuda::solo::{Contents, SoloReport, SoloSpec};
use kernelseek_device::layout::ArenaLayout;
use kernelseek_numerics::content;
use kernelseek_sandbox::process::{self, OutputBounds, SpawnSpec, Waited};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Exit code of `kernelseek solo --apart` where the machine has no namespaces to give.
pub const NOT_APART: u8 = 125;
/// Bytes kept of a tool's output.
const OUTPUT: usize = 1 << 20;

/// Why a tool could not be put around a case.
#[derive(Debug, thiserror::Error)]
pub enum SoloRunError {
    /// A file cannot be written.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The content of a call cannot be drawn.
    #[error("scenario `{scenario}`: the content cannot be generated")]
    Content {
        /// Scenario.
        scenario: String,
        /// Why.
        #[source]
        source: content::ContentError,
    },
    /// The tool does not start.
    #[error("the tool does not start")]
    Start(#[from] kernelseek_sandbox::SandboxError),
}

/// The calls that a tool looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calls {
    /// So many, each on a content of its own, as an evaluation draws them.
    Varied(u64),
    /// So many on one nominal content: what two candidates can be compared on.
    Alike(u64),
}

/// What every run of a tool shares.
#[derive(Debug, Clone)]
pub struct SoloBench {
    /// The tool's own binary.
    pub helper: PathBuf,
    /// The built library.
    pub artifact: PathBuf,
    /// Its entry point.
    pub entry: String,
    /// UUID or ordinal of the GPU; the first without it.
    pub gpu: Option<String>,
    /// Secret that contents are drawn from.
    pub secret: [u8; 32],
    /// Folders in which the loader finds the CUDA runtime.
    pub libraries: Vec<PathBuf>,
    /// Whether to try namespaces.
    pub namespaces: bool,
    /// Where folders for cases are made.
    pub scratch: PathBuf,
    /// How long one run may take.
    pub deadline: Duration,
}

/// A folder that goes when this value does.
#[derive(Debug)]
pub struct Laid {
    folder: PathBuf,
}

impl Laid {
    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// The specification for `kernelseek solo`.
    #[must_use]
    pub fn spec(&self) -> PathBuf {
        self.folder.join("solo.json")
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        // What cannot be removed stays: it is a temporary folder.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a run was in namespaces of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fence {
    /// It was.
    Apart,
    /// It was not, for the reason named.
    Open(String),
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Exit code; `None` for a signal or a passed deadline.
    pub code: Option<i32>,
    /// Whether the deadline passed, or the output had no end.
    pub cut: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// What `kernelseek solo` said, if it came to that.
    #[must_use]
    pub fn report(&self) -> Option<SoloReport> {
        self.stdout.lines().rev().find_map(|line| serde_json::from_str(line.trim()).ok())
    }
}

impl SoloBench {
    /// Lays `case` out in a folder of its own, with a number of calls. The constants are the same for all.
    ///
    /// # Errors
    /// When a content cannot be drawn or a file cannot be written.
    pub fn lay(&self, case: &Case, calls: Calls, label: &str) -> Result<Laid, SoloRunError> {
        let unique =
            crate::dice::Dice::new(&self.secret, &format!("{label}/{}/{}", case.id, std::process::id()))
                .bits();
        let laid = Laid { folder: self.scratch.join(format!("solo-{}-{unique:016x}", std::process::id())) };
        let folder = laid.folder.clone();
        std::fs::create_dir_all(&folder).map_err(|source| SoloRunError::File { path: folder, source })?;
        let content_error = |source| SoloRunError::Content { scenario: case.id.clone(), source };
        let kinds = StorageKinds::of(case);
        let constant = ArenaLayout::new(case, 1).constant;
        let mut dice = crate::dice::Dice::new(&self.secret, &format!("{label}/{}", case.id));
        let constants = Constants::draw(case, &constant, dice.bits(), None).map_err(content_error)?;
        let stream = crate::dice::key(&self.secret, label);
        let mut spec = SoloSpec::new(case, &self.artifact, &self.entry);
        spec.gpu.clone_from(&self.gpu);
        let (fresh, times) = match calls {
            Calls::Varied(calls) => (calls, 1),
            Calls::Alike(calls) => (1, calls),
        };
        for call in 0..fresh {
            let content = match calls {
                Calls::Varied(_) => content::content_stream(&stream, case, call),
                Calls::Alike(_) => nominal(dice.bits()),
            };
            let drawn = Drawn { content, mutation: None };
            let mut staged = Staged::new(case, None);
            staged.fill(case, &kinds, drawn, 0, Some(&constants)).map_err(content_error)?;
            let mut round = Vec::new();
            for (index, bytes) in staged.storages.iter().enumerate() {
                round.push(if kinds.only_written(case, index) || (constant[index] && call > 0) {
                    Contents::Untouched
                } else {
                    let path = laid.folder.join(format!("call-{call}-storage-{index}.bin"));
                    std::fs::write(&path, bytes)
                        .map_err(|source| SoloRunError::File { path: path.clone(), source })?;
                    Contents::File(path)
                });
            }
            spec.rounds.push(round);
        }
        // Constants stay what the first call found.
        let again = spec.rounds.first().map(|round| {
            let constants = round.iter().zip(&constant);
            constants.map(|(of, &c)| if c { Contents::Untouched } else { of.clone() }).collect::<Vec<_>>()
        });
        spec.rounds.extend((1..times).filter_map(|_| again.clone()));
        let text = serde_json::to_vec(&spec).unwrap_or_default();
        std::fs::write(laid.spec(), text)
            .map_err(|source| SoloRunError::File { path: laid.spec(), source })?;
        Ok(laid)
    }

    /// Starts `tool` with `args` around `kernelseek solo` on a case that was laid out, in namespaces where that works.
    /// `served` says whether what came back is an answer; if not, the tool is started once more without namespaces.
    ///
    /// # Errors
    /// When the tool cannot be executed.
    pub fn around(
        &self,
        tool: &Path,
        args: &[OsString],
        laid: &Laid,
        served: &dyn Fn(&Ran) -> bool,
    ) -> Result<(Ran, Fence), SoloRunError> {
        let mut command: Vec<OsString> = vec![tool.into()];
        command.extend(args.iter().cloned());
        command.extend([self.helper.clone().into(), "solo".into(), laid.spec().into()]);
        if !self.namespaces {
            return Ok((self.start(command, laid)?, Fence::Open("switched off".to_owned())));
        }
        let mut apart: Vec<OsString> =
            vec![self.helper.clone().into(), "solo".into(), "--apart".into(), "--".into()];
        apart.extend(command.iter().cloned());
        let first = self.start(apart, laid)?;
        if first.code != Some(i32::from(NOT_APART)) && served(&first) {
            return Ok((first, Fence::Apart));
        }
        let why = if first.code == Some(i32::from(NOT_APART)) {
            last_line(&first.stderr).unwrap_or_else(|| "this machine has none to give".to_owned())
        } else {
            "the tool gives no answer inside them".to_owned()
        };
        Ok((self.start(command, laid)?, Fence::Open(why)))
    }

    /// Starts a command with the environment of a solo run and waits for its end.
    ///
    /// # Errors
    /// When it cannot be executed.
    pub fn start(&self, command: Vec<OsString>, laid: &Laid) -> Result<Ran, SoloRunError> {
        let mut command = command.into_iter();
        let program = PathBuf::from(command.next().unwrap_or_default());
        let mut process = process::spawn(SpawnSpec {
            program,
            args: command.collect(),
            cwd: Some(laid.folder.clone()),
            env: self.environment(laid),
            inherit: Vec::new(),
            output: OutputBounds { head: OUTPUT, ..OutputBounds::default() },
        })?;
        let (code, cut) = match process.wait_deadline(Instant::now() + self.deadline)? {
            Waited::Ended(status) => (status.code(), false),
            Waited::Deadline | Waited::Flooded => {
                process.kill_tree()?;
                (None, true)
            }
        };
        let (stdout, stderr) = process.final_output();
        Ok(Ran { code, cut, stdout: stdout.text(), stderr: stderr.text() })
    }

    /// Nothing of the caller's: the tools write into the case's folder and nowhere else.
    fn environment(&self, laid: &Laid) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        env.insert("LANG".into(), "C".into());
        env.insert("PATH".into(), "/usr/bin:/bin".into());
        env.insert("HOME".into(), laid.folder.clone().into());
        env.insert("TMPDIR".into(), laid.folder.clone().into());
        if let Ok(joined) = std::env::join_paths(&self.libraries)
            && !joined.is_empty()
        {
            env.insert("LD_LIBRARY_PATH".into(), joined);
        }
        env
    }
}

fn last_line(text: &str) -> Option<String> {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
}

/// Where a toolkit's programs lie beside the folders of `path`.
const BESIDE: [&str; 3] = ["/usr/local/cuda/bin", "/usr/local/cuda/compute-sanitizer", "/opt/cuda/bin"];

/// The program `name`: in the folders of `path`, then where toolkits are installed.
#[must_use]
pub fn find_tool(path: &[PathBuf], name: &str) -> Option<PathBuf> {
    let usual = BESIDE.iter().map(PathBuf::from);
    path.iter()
        .cloned()
        .chain(usual)
        .chain(versions("/opt/nvidia/nsight-compute"))
        .map(|f| f.join(name))
        .find(|p| p.is_file())
}

/// The subfolders of `folder`, latest name first.
fn versions(folder: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .map(|entries| entries.flatten().map(|e| e.path()).filter(|p| p.is_dir()).collect())
        .unwrap_or_default();
    found.sort();
    found.reverse();
    found
}

/// Folders that hold a CUDA runtime: beside the toolkits in `path`, then where toolkits are installed.
#[must_use]
pub fn runtime_libraries(path: &[PathBuf]) -> Vec<PathBuf> {
    let beside = path.iter().filter(|folder| folder.join("nvcc").exists()).flat_map(|folder| {
        let real = folder.join("nvcc").canonicalize().unwrap_or_else(|_| folder.join("nvcc"));
        let root = real.parent().and_then(Path::parent).map(Path::to_owned).unwrap_or_default();
        ["lib64", "lib", "targets/x86_64-linux/lib"].map(|name| root.join(name))
    });
    let usual = ["/usr/local/cuda/lib64", "/opt/cuda/lib64"].map(PathBuf::from);
    let holds = |folder: &PathBuf| {
        std::fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("libcudart.so"))
        })
    };
    beside.chain(usual).filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_last_line_that_is_one() {
        let line = r#"{"ok":true,"prepare":null,"statuses":["ok"],"workspace_bytes":0,"error":null}"#;
        let ran = Ran {
            code: Some(0),
            cut: false,
            stdout: format!("talk\n{line}\nmore talk\n"),
            stderr: String::new(),
        };
        assert!(ran.report().unwrap().ok);
        assert_eq!(Ran { stdout: "{}\n".into(), ..ran }.report(), None);
    }

    #[test]
    fn a_runtime_is_found_beside_its_compiler() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["bin", "lib", "lib64"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        std::fs::write(root.path().join("bin/nvcc"), "").unwrap();
        std::fs::write(root.path().join("lib/libcudart.so.13"), "").unwrap();
        let found = runtime_libraries(&[root.path().join("bin")]);
        assert_eq!(found.first(), Some(&root.path().canonicalize().unwrap().join("lib")));
    }
}
