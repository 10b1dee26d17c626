//! What tests of the command line share: hermetic folders, the real binary, its output.
//!
//! Duty: run the binary that was built for the test with an environment of its own, on a copy of a fixture.

pub mod crash;
pub mod led;
pub mod stand;
pub mod stand_in;
pub mod toolkit;

use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a copy of a fixture and a state folder, both gone afterwards.
#[derive(Debug)]
pub struct TestContext {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

/// What the binary did.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code; -1 for a signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Ran {
    /// Standard output as JSON.
    ///
    /// # Errors
    /// When it is not JSON; the message holds both streams.
    pub fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.stdout)
            .map_err(|e| format!("{e}\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr))
    }
    /// Everything as one text, for snapshots.
    #[must_use]
    pub fn snapshot(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }
}

impl TestContext {
    /// Copies the files of `fixture` into a fresh folder. `binary` is the program under test.
    ///
    /// # Errors
    /// When the fixture cannot be copied.
    pub fn new(binary: &str, fixture: &Path) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let problem = folder.path().join("problem");
        std::fs::create_dir(&problem)?;
        for entry in std::fs::read_dir(fixture)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), problem.join(entry.file_name()))?;
            }
        }
        Ok(Self { folder, binary: binary.into() })
    }

    /// The folder with the fixture.
    #[must_use]
    pub fn problem(&self) -> PathBuf {
        self.folder.path().join("problem")
    }

    /// Writes a file of the fixture.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        std::fs::write(self.problem().join(name), text)
    }

    /// Replaces `from` by `to` in a file of the fixture.
    ///
    /// # Errors
    /// When the file cannot be read or written, or holds no `from`.
    pub fn edit(&self, name: &str, from: &str, to: &str) -> io::Result<()> {
        let text = std::fs::read_to_string(self.problem().join(name))?;
        if !text.contains(from) {
            return Err(io::Error::other(format!("{name} holds no `{from}`")));
        }
        self.write(name, &text.replace(from, to))
    }

    /// Runs the binary in the fixture's folder.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run(&self, args: &[&str]) -> io::Result<Ran> {
        self.run_with(args, &[])
    }

    /// Runs the binary in the fixture's folder with more environment variables.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_with(&self, args: &[&str], env: &[(&str, &str)]) -> io::Result<Ran> {
        self.run_all(args, env, None)
    }

    /// Runs the binary in the fixture's folder with a text on standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn run_input(&self, args: &[&str], input: &str) -> io::Result<Ran> {
        self.run_all(args, &[], Some(input))
    }

    fn run_all(&self, args: &[&str], env: &[(&str, &str)], input: Option<&str>) -> io::Result<Ran> {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .current_dir(self.problem())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KERNELSEEK_STATE_DIR", self.folder.path().join("state"))
            .envs(env.iter().copied());
        if let Some(python) = std::env::var_os("KERNELSEEK_PYTHON") {
            command.env("KERNELSEEK_PYTHON", python);
        }
        let output = match input {
            None => command.stdin(Stdio::null()).output()?,
            Some(text) => {
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn()?;
                if let Some(mut stdin) = child.stdin.take() {
                    stdin.write_all(text.as_bytes())?;
                }
                child.wait_with_output()?
            }
        };
        let tidy = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(&*self.folder.path().to_string_lossy(), "[FOLDER]")
        };
        Ok(Ran {
            code: output.status.code().unwrap_or(-1),
            stdout: tidy(&output.stdout),
            stderr: tidy(&output.stderr),
        })
    }
}

/// Defence ids of everything that a verdict in JSON found, with their severities.
#[must_use]
pub fn findings(verdict: &Value) -> Vec<(String, String)> {
    let list = |value: &Value| -> Vec<(String, String)> {
        value["findings"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|f| {
                let text = |key: &str| f[key].as_str().unwrap_or_default().to_owned();
                (text("defence"), text("severity"))
            })
            .collect()
    };
    let mut all = list(verdict);
    for scenario in verdict["scenarios"].as_array().into_iter().flatten() {
        all.extend(list(scenario));
    }
    all.sort();
    all.dedup();
    all
}
