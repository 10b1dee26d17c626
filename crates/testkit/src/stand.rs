//! A campaign in a folder of its own, driven through the real binary, whose ledger is watched: a row that was once
//! read back must be there for ever.

use crate::Ran;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(5);
/// How long a command may take before it counts as hung.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A campaign with its state, gone afterwards.
#[derive(Debug)]
pub struct Stand {
    folder: tempfile::TempDir,
    fixtures: PathBuf,
    binary: PathBuf,
    /// Row hashes that were read back, by row.
    known: BTreeMap<u64, String>,
    python: OsString,
}

/// What became of a command.
#[derive(Debug)]
pub struct Done {
    /// Its code and streams.
    pub ran: Ran,
    /// It was ended because it took too long.
    pub hung: bool,
    /// How long it took.
    pub took: Duration,
}

fn fail(what: &str) -> impl FnOnce(std::io::Error) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

impl Stand {
    /// A stand for the campaign of `fixtures`/problem. `binary` is copied, so that its own file is not at stake.
    ///
    /// # Errors
    /// When a file cannot be copied, in words.
    pub fn new(binary: &Path, fixtures: &Path) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(fail("a temporary folder"))?;
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).map_err(fail("bin"))?;
        let copy = bin.join("kernelseek");
        std::fs::copy(binary, &copy).map_err(fail(&binary.display().to_string()))?;
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755)).map_err(fail("bin"))?;
        std::fs::create_dir(folder.path().join("problem")).map_err(fail("problem"))?;
        let python = real_python();
        let stand =
            Self { folder, fixtures: fixtures.to_owned(), binary: copy, known: BTreeMap::new(), python };
        copy_files(&fixtures.join("attacks"), &stand.path("attacks"))?;
        stand.reset("same.c")?;
        Ok(stand)
    }

    /// A path of the stand's own folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    /// The campaign's folder.
    #[must_use]
    pub fn problem(&self) -> PathBuf {
        self.path("problem")
    }
    /// The state folder.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path("state")
    }
    /// The copy of the binary.
    #[must_use]
    pub fn binary(&self) -> &Path {
        &self.binary
    }
    /// The interpreter for scripted agents.
    #[must_use]
    pub fn python(&self) -> &Path {
        Path::new(&self.python)
    }

    /// Empties the campaign's folder, keeping the folder itself, and fills it anew with `candidate` as the kernel.
    ///
    /// # Errors
    /// When a file cannot be removed or copied, in words.
    pub fn reset(&self, candidate: &str) -> Result<(), String> {
        let problem = self.problem();
        for entry in std::fs::read_dir(&problem).map_err(fail("the campaign's folder"))?.flatten() {
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
            let removed =
                if is_folder { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(fail(&path.display().to_string()))?;
        }
        copy_files(&self.fixtures.join("problem"), &problem)?;
        self.put(candidate)
    }

    /// Makes a file of the fixture the candidate.
    ///
    /// # Errors
    /// When it cannot be copied, in words.
    pub fn put(&self, candidate: &str) -> Result<(), String> {
        let kernel = self.problem().join("kernel.c");
        // Not through a link that an agent may have left.
        let _ = std::fs::remove_file(&kernel);
        let from = self.fixtures.join("problem").join(candidate);
        std::fs::copy(&from, kernel).map(|_| ()).map_err(fail(candidate))
    }

    /// The binary with an environment of its own.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        self.command_of(&self.binary, args, &[])
    }

    /// `program` with an environment of its own; `first` come first on its PATH.
    #[must_use]
    pub fn command_of(&self, program: &Path, args: &[&str], first: &[PathBuf]) -> Command {
        let mut path: Vec<PathBuf> = first.to_vec();
        path.push(self.path("bin"));
        path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.problem())
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap_or_default())
            .env("KERNELSEEK_STATE_DIR", self.state())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        command
    }

    /// Runs the binary to its end.
    ///
    /// # Errors
    /// When it cannot be started, in words.
    pub fn run(&self, args: &[&str]) -> Result<Done, String> {
        finish(self.command(args), None, LIMIT)
    }

    /// Runs the binary, which must succeed, and reads what it prints as JSON.
    ///
    /// # Errors
    /// When it fails or prints something else, in words.
    pub fn json(&self, args: &[&str]) -> Result<Value, String> {
        let mut args = args.to_vec();
        args.insert(0, "--json");
        let done = self.run(&args)?;
        if done.ran.code != 0 || done.hung {
            return Err(format!("{args:?}: {}", done.ran.snapshot()));
        }
        done.ran.json()
    }

    /// What a hook outside is told.
    ///
    /// # Errors
    /// When there is no answer, in words.
    pub fn hook(&self) -> Result<Value, String> {
        let done = finish(self.command(&["hook-decision"]), Some(b"{}"), LIMIT)?;
        done.ran.json()
    }

    /// Every row, after checking that each one that was read before is still what it was.
    ///
    /// # Errors
    /// The first row that is lost or another, or that the ledger cannot be read, in words.
    pub fn rows(&mut self) -> Result<Vec<Value>, String> {
        let log = self.json(&["log", "--number", "0", "--silences"])?;
        let rows = log.as_array().cloned().ok_or("the log is no list")?;
        let mut now = BTreeMap::new();
        for (index, row) in rows.iter().enumerate() {
            let number = row["row"].as_u64().unwrap_or_default();
            if number != index as u64 + 1 {
                return Err(format!("row {} is missing", index + 1));
            }
            now.insert(number, row["hash"].as_str().unwrap_or_default().to_owned());
        }
        for (row, hash) in &self.known {
            if now.get(row) != Some(hash) {
                return Err(format!("row {row} is lost or another"));
            }
        }
        self.known = now;
        Ok(rows)
    }

    /// Rows that were read back so far.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// Exports the ledger and imports it into a state folder of its own.
    ///
    /// # Errors
    /// When either fails, in words.
    pub fn travels(&self) -> Result<(), String> {
        let (file, elsewhere) = (self.path("travel.jsonl"), self.path("elsewhere"));
        let _ = std::fs::remove_dir_all(&elsewhere);
        let file = file.display().to_string();
        self.json(&["export", &file])?;
        self.json(&["--state-dir", &elsewhere.display().to_string(), "import", &file])?;
        let _ = std::fs::remove_dir_all(&elsewhere);
        Ok(())
    }
}

fn copy_files(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::create_dir_all(to).map_err(fail(&to.display().to_string()))?;
    for entry in std::fs::read_dir(from).map_err(fail(&from.display().to_string()))?.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_file()) {
            let target = to.join(entry.file_name());
            std::fs::copy(entry.path(), &target).map_err(fail(&target.display().to_string()))?;
        }
    }
    Ok(())
}

/// The interpreter itself: what PATH names may be a script that looks for it by the folder one is in.
fn real_python() -> OsString {
    let asked = Command::new("python3").args(["-c", "import sys, sqlite3; print(sys.executable)"]).output();
    let said = asked
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    said.filter(|s| !s.is_empty()).map_or_else(|| "python3".into(), OsString::from)
}

/// Whether scripted agents can run: they are Python with its SQLite.
#[must_use]
pub fn python_works() -> bool {
    Path::new(&real_python()).is_absolute()
}

/// Starts a command with its output kept in memory.
///
/// # Errors
/// When it cannot be started, in words.
pub fn start(mut command: Command) -> Result<Child, String> {
    let name = command.get_program().display().to_string();
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fail(&name))
}

/// Runs a command to its end, or ends it after `limit`. The streams are read until nobody holds them or the command has
/// ended for a second.
///
/// # Errors
/// When it cannot be started, in words.
pub fn finish(mut command: Command, input: Option<&[u8]>, limit: Duration) -> Result<Done, String> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let begun = Instant::now();
    let mut child = start(command)?;
    if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
        // Whoever reads nothing has decided already.
        let _ = std::io::Write::write_all(&mut stdin, input);
    }
    let (out, err) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let (code, hung) = wait(&mut child, limit)?;
    let took = begun.elapsed();
    let text = |lines: &std::sync::mpsc::Receiver<Vec<u8>>| {
        let mut bytes = Vec::new();
        while let Ok(more) = lines.recv_timeout(Duration::from_secs(1)) {
            bytes.extend(more);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Done { ran: Ran { code, stdout: text(&out), stderr: text(&err) }, hung, took })
}

fn drain(stream: Option<impl Read + Send + 'static>) -> std::sync::mpsc::Receiver<Vec<u8>> {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut buffer = [0; 8192];
        while let Ok(n @ 1..) = stream.read(&mut buffer) {
            if tell.send(buffer[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    told
}

/// Waits; ends it at the limit. The exit code, -1 for a signal, and whether it was ended.
fn wait(child: &mut Child, limit: Duration) -> Result<(i32, bool), String> {
    let begun = Instant::now();
    let mut hung = false;
    loop {
        if let Some(status) = child.try_wait().map_err(fail("waiting"))? {
            return Ok((status.code().unwrap_or(-1), hung));
        }
        if begun.elapsed() > limit && !hung {
            hung = true;
            child.kill().map_err(fail("ending"))?;
        }
        std::thread::sleep(LOOK);
    }
}

/// Hash of a program's bytes, so that a record names what it is about.
///
/// # Errors
/// When it cannot be read, in words.
pub fn identity(binary: &Path) -> Result<String, String> {
    let bytes = std::fs::read(binary).map_err(fail(&binary.display().to_string()))?;
    Ok(blake3::hash(&bytes).to_hex().to_string())
}
