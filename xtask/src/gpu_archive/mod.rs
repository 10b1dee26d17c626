//! The GPU tests as an archive for a machine without cargo: the release binary, the test executables, problems, cheats, and
//! a script that runs them. `docs/guides/gpu-tests.md` says how it is used.

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What marks a test that only a GPU can run.
const MARK: &str = "#[ignore = \"needs a GPU";
/// The script that runs everything there.
const SCRIPT: &str = include_str!("run.sh");
/// What travels beside the executables: tracked files below these.
const FOLDERS: [&str; 2] = ["problems", "cheats"];

/// What was asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct GpuArchive {
    /// Folder of the archive; emptied first. The packed one stands beside it
    #[arg(long, default_value = "target/gpu-archive")]
    output: PathBuf,
    /// A binary that was built already, in place of a release build
    #[arg(long)]
    binary: Option<PathBuf>,
}

/// Builds and packs.
pub(crate) fn make(args: &GpuArchive, root: &Path) -> Result<(), String> {
    let output = root.join(&args.output);
    if output.exists() {
        if !output.join("run.sh").is_file() {
            return Err(format!("{} is there and is no archive of this task", output.display()));
        }
        std::fs::remove_dir_all(&output).map_err(|e| format!("{}: {e}", output.display()))?;
    }
    let binary = match &args.binary {
        Some(file) => file.clone(),
        None => executable(
            &cargo(root, &["build", "--release", "-p", "kernelseek", "--bin", "kernelseek"])?,
            "kernelseek",
        )?,
    };
    copy(&binary, &output.join("kernelseek"))?;
    for (package, test) in tests(root)? {
        let built = cargo(root, &["test", "--no-run", "-p", &package, "--test", &test])?;
        copy(&executable(&built, &test)?, &output.join("tests").join(&test))?;
    }
    for file in tracked(root)? {
        copy(&root.join(&file), &output.join(&file))?;
    }
    let script = output.join("run.sh");
    write(&script, SCRIPT)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))
        .map_err(|e| format!("{}: {e}", script.display()))?;
    write(&output.join("COMMIT"), &format!("{}\n", commit(root)?))?;
    let packed = output.with_extension("tar.gz");
    let (folder, name) = (output.parent().unwrap_or(root), output.file_name().unwrap_or_default());
    let packing = Command::new("tar").arg("-C").arg(folder).arg("-czf").arg(&packed).arg(name).status();
    match packing {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("tar: {status}")),
        Err(error) => return Err(format!("tar: {error}")),
    }
    crate::talk(&format!("{} and {}", output.display(), packed.display()));
    Ok(())
}

/// Test executables with tests that need a GPU: `(package, test)`.
fn tests(root: &Path) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for file in said(root, "git", &["ls-files", "crates/*/tests/*.rs"])?.lines() {
        let path = Path::new(file);
        let parts: Vec<&str> = path.iter().filter_map(|p| p.to_str()).collect();
        // Modules of a test lie deeper.
        let [_, krate, _, name] = parts.as_slice() else { continue };
        let text = std::fs::read_to_string(root.join(file)).map_err(|e| format!("{file}: {e}"))?;
        if text.contains(MARK) {
            found.push((format!("kernelseek-{krate}"), name.trim_end_matches(".rs").to_owned()));
        }
    }
    if found.is_empty() { Err(format!("no test is marked {MARK}…")) } else { Ok(found) }
}

/// The commit, and whether the archive has more than it.
fn commit(root: &Path) -> Result<String, String> {
    let changes = said(root, "git", &["status", "--porcelain", "--", "crates", "problems", "cheats"])?;
    let commit = said(root, "git", &["rev-parse", "--short=12", "HEAD"])?;
    Ok(format!("{}{}", commit.trim(), if changes.is_empty() { "" } else { "-changed" }))
}

fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let args: Vec<&str> = ["ls-files", "--"].into_iter().chain(FOLDERS).collect();
    Ok(said(root, "git", &args)?.lines().map(str::to_owned).collect())
}

/// The messages of a build.
fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let args: Vec<&str> = args.iter().copied().chain(["--message-format=json-render-diagnostics"]).collect();
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(&args)
        .current_dir(root)
        // Nobody debugs there, and the archive has to travel.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", args.join(" "), output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The executable of this target among a build's messages.
fn executable(messages: &str, target: &str) -> Result<PathBuf, String> {
    let found = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|m| {
        let path = m["executable"].as_str()?;
        (m["target"]["name"] == target).then(|| PathBuf::from(path))
    });
    found.ok_or_else(|| format!("cargo names no executable of `{target}`"))
}

fn said(root: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(args).current_dir(root).output();
    let output = output.map_err(|e| format!("{program}: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "{program} {}: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    folder_of(to)?;
    std::fs::copy(from, to).map(drop).map_err(|e| format!("{}: {e}", from.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    folder_of(path)?;
    std::fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn folder_of(path: &Path) -> Result<(), String> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_messages() {
        let messages = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"serde\"},\"executable\":null}\nnoise\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"gpu_helpers\"},\"executable\":\"/t/gpu_helpers-1\"}\n\
            {\"reason\":\"build-finished\",\"success\":true}\n";
        assert_eq!(executable(messages, "gpu_helpers"), Ok(PathBuf::from("/t/gpu_helpers-1")));
        assert!(executable(messages, "serde").is_err() && executable("", "x").is_err());
    }

    #[test]
    fn the_gpu_tests_are_found_and_the_script_knows_them() {
        let root = crate::root();
        let found = super::tests(&root).unwrap();
        assert!(found.contains(&("kernelseek-device".into(), "gpu_helpers".into())), "{found:?}");
        assert!(found.iter().all(|(_, test)| test.starts_with("gpu_")), "{found:?}");
        let guide = std::fs::read_to_string(root.join("docs/guides/gpu-tests.md")).unwrap();
        for part in ["helpers", "isolation", "check", "cheats", "selftest"] {
            assert!(SCRIPT.contains(&format!("\n  {part})")), "{part}");
            assert!(guide.contains(&format!("| `{part}` |")), "{part}");
        }
    }

    #[test]
    fn the_script_is_one_that_a_shell_reads() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("run.sh");
        std::fs::write(&script, SCRIPT).unwrap();
        let checked = Command::new("bash").arg("-n").arg(&script).output().unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        let output = Command::new("bash").arg(&script).arg("nonsense").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("helpers"), "{output:?}");
    }
}
