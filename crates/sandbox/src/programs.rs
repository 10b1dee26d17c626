//! Programs of the machine, asked what version they are: side by side, with a deadline, their output bounded.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::process::{self, OutputBounds, SpawnSpec, Waited};

/// Bytes of each stream that are kept, and after which a program is stopped.
const OUTPUT: usize = 16 << 10;
/// Characters of a version that are kept.
const LONGEST: usize = 80;

/// A program that was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// What it says about its version: the first line with a digit.
    pub version: Option<String>,
    /// Why there is no version.
    pub silent: Option<String>,
}

/// The first file of this name in `path` that may be executed.
#[must_use]
pub fn find(name: &str, path: &[PathBuf]) -> Option<PathBuf> {
    path.iter().map(|folder| folder.join(name)).find(|file| is_program(file))
}

/// Whether there is a file that may be executed.
#[must_use]
pub fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|facts| facts.is_file() && facts.permissions().mode() & 0o111 != 0)
}

/// Starts each program with `--version`, all at once, and stops those that have not answered by the deadline. `env` is
/// their whole environment.
#[must_use]
pub fn ask(
    programs: Vec<(String, PathBuf)>,
    env: &BTreeMap<OsString, OsString>,
    deadline: Duration,
) -> Vec<Program> {
    let end = Instant::now() + deadline;
    let started: Vec<_> = programs
        .into_iter()
        .map(|(name, path)| {
            let process = process::spawn(SpawnSpec {
                program: path.clone(),
                args: vec!["--version".into()],
                cwd: Some("/".into()),
                env: env.clone(),
                inherit: Vec::new(),
                output: OutputBounds { head: OUTPUT, flood: Some(OUTPUT as u64) },
            });
            (name, path, process)
        })
        .collect();
    started
        .into_iter()
        .map(|(name, path, process)| {
            let answer = process.map_err(|e| e.to_string()).and_then(|mut process| {
                let waited = process.wait_deadline(end).map_err(|e| e.to_string())?;
                let (out, err) = match waited {
                    Waited::Ended(_) => process.final_output(),
                    Waited::Deadline => return Err(format!("no answer within {} s", deadline.as_secs())),
                    Waited::Flooded => process.output(),
                };
                version_in(&out.text())
                    .or_else(|| version_in(&err.text()))
                    .ok_or_else(|| "it names no version".to_owned())
            });
            let (version, silent) = match answer {
                Ok(version) => (Some(version), None),
                Err(why) => (None, Some(why)),
            };
            Program { name, path, version, silent }
        })
        .collect()
}

/// The line of an answer that names the version: the last one that says `release` or `Version`, as compilers' tools
/// print a licence first, or else the first with a number that has a dot.
fn version_in(text: &str) -> Option<String> {
    let numbered = |line: &&str| {
        let bytes = line.as_bytes();
        bytes.windows(3).any(|w| w[0].is_ascii_digit() && w[1] == b'.' && w[2].is_ascii_digit())
    };
    let named = |line: &&str| line.contains("release ") || line.contains("Version ");
    let line = text.lines().rfind(|l| named(l) && numbered(l)).or_else(|| text.lines().find(numbered))?;
    let tame = line.trim().chars().take(LONGEST).map(|c| if c.is_control() { '?' } else { c }).collect();
    Some(tame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_version_is_found_in_what_tools_say() {
        let nvcc = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\nBuilt on \
                    Wed_Aug_20_01:58:59_PM_PDT_2025\nCuda compilation tools, release 13.0, V13.0.88\n\
                    Build cuda_13.0.r13.0/compiler.36424714_0\n";
        let rows = [
            (nvcc, Some("Cuda compilation tools, release 13.0, V13.0.88")),
            ("2.1.5 (Claude Code)\n", Some("2.1.5 (Claude Code)")),
            ("\ncodex-cli 0.63.0", Some("codex-cli 0.63.0")),
            (
                "NVIDIA (R) Nsight Compute\nVersion 2025.3.1.0 (build 1)\n",
                Some("Version 2025.3.1.0 (build 1)"),
            ),
            ("usage: x\n", None),
            ("", None),
            ("\x1b[1m1.2\x1b[0m", Some("?[1m1.2?[0m")),
        ];
        for (text, version) in rows {
            assert_eq!(version_in(text).as_deref(), version, "{text}");
        }
    }

    #[test]
    fn programs_answer_side_by_side_and_the_slow_and_the_loud_are_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, body: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            (name.to_owned(), path)
        };
        let list = vec![
            make("good", "echo good 1.2.3"),
            make("quiet", "exit 3"),
            make("slow", "sleep 600"),
            make("loud", "echo loud 9.9; while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"),
            ("broken".into(), folder.path().join("broken")),
        ];
        let path = std::env::var_os("PATH").unwrap();
        let env = BTreeMap::from([("PATH".into(), path)]);
        let answers = ask(list, &env, Duration::from_secs(5));
        let version = |name: &str| answers.iter().find(|p| p.name == name).unwrap().version.clone();
        assert_eq!(version("good").as_deref(), Some("good 1.2.3"));
        assert_eq!(version("loud").as_deref(), Some("loud 9.9"));
        for name in ["quiet", "slow", "broken"] {
            let program = answers.iter().find(|p| p.name == name).unwrap();
            assert!(program.version.is_none() && program.silent.is_some(), "{program:?}");
        }
        let places = [PathBuf::from("/nonexistent"), folder.path().to_owned()];
        assert_eq!(find("good", &places), Some(folder.path().join("good")));
        std::fs::write(folder.path().join("text"), "x").unwrap();
        assert_eq!(find("text", &places), None, "not executable");
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in ".*") {
            let _ = version_in(&text);
        }
    }
}
