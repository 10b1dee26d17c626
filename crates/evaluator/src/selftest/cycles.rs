//! Runs `problems/tools/cycles.cu`, which reads the GPU's clock counter around the seed's wait and around the shorter one.

use super::CycleCount;
use crate::session::{Session, SessionError};
use kernelseek_sandbox::process::{self, OutputBounds, SpawnSpec, Waited};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long compiling the tool, or running it, may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// The tool, seen from the folder of the problem.
const SOURCE: &str = "../../tools/cycles.cu";

/// Compiles the tool for this gain and counts each of `waits`. A tool that cannot be compiled or does not run is an answer
/// that does not hold.
///
/// # Errors
/// When there is no nvcc, or its folder cannot be made.
pub(super) fn count(
    session: &Session,
    folder: &Path,
    permille: u32,
    waits: &[i64],
) -> Result<CycleCount, SessionError> {
    let nvcc = session.toolchain().nvcc()?;
    let work = session.state_dir().join("cycles");
    std::fs::create_dir_all(&work).map_err(|source| SessionError::File { path: work.clone(), source })?;
    let program = work.join(format!("cycles_{permille}"));
    let mut archs = session.archs();
    let arch = archs.pop().unwrap_or_else(|| "sm_90a".to_owned());
    let text = |p: &Path| p.as_os_str().to_owned();
    let joined = |before: &str, p: &Path| {
        let mut word = OsString::from(before);
        word.push(p);
        word
    };
    let mut build: Vec<OsString> = vec!["-O3".into(), format!("-arch={arch}").into()];
    if let Some(host) = &session.toolchain().cxx {
        build.extend(["-ccbin".into(), text(&host.program)]);
    }
    build.extend([
        joined("-I", session.header_folder()),
        format!("-DKS_TOOL_PERMILLE={permille}").into(),
        // The shared runtime: the static one is not where nvcc comes from Python's packages.
        "--cudart".into(),
        "none".into(),
        text(&folder.join(SOURCE)),
        "-o".into(),
        text(&program),
        joined("-L", nvcc.runtime.folder()),
        "-Xlinker".into(),
        format!("-l:{}", nvcc.runtime.soname()).into(),
    ]);
    let path = std::env::join_paths(&session.toolchain().path).unwrap_or_default();
    let compiled = run(&nvcc.program, build, [("PATH".into(), path)].into());
    if let Err(said) = compiled {
        return Ok(CycleCount { permille, holds: false, printed: said });
    }
    let uuid = session.gpu_identity().map(|gpu| gpu.uuid).unwrap_or_default();
    let env = [
        ("LD_LIBRARY_PATH".into(), text(nvcc.runtime.folder())),
        ("CUDA_VISIBLE_DEVICES".into(), uuid.into()),
    ];
    let waits = waits.iter().map(|w| w.to_string().into()).collect();
    Ok(match run(&program, waits, env.into()) {
        Ok(printed) => CycleCount { permille, holds: !printed.is_empty(), printed },
        Err(printed) => CycleCount { permille, holds: false, printed },
    })
}

/// The lines that a program printed; as an error when it failed, with the reason at the end.
fn run(
    program: &Path,
    args: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
) -> Result<Vec<String>, Vec<String>> {
    let spawned = process::spawn(SpawnSpec {
        program: program.to_owned(),
        args,
        cwd: Some(PathBuf::from("/tmp")),
        env,
        inherit: Vec::new(),
        output: OutputBounds { head: 256 << 10, flood: Some(1 << 20) },
    });
    let mut process = spawned.map_err(|e| vec![format!("{}: {e}", program.display())])?;
    let ended = match process.wait_deadline(Instant::now() + PATIENCE) {
        Ok(Waited::Ended(status)) if status.success() => None,
        Ok(Waited::Ended(status)) => Some(status.to_string()),
        Ok(Waited::Deadline) => Some(format!("no end within {} s", PATIENCE.as_secs())),
        Ok(Waited::Flooded) => Some("it prints without end".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if ended.is_some() {
        // Nobody waits for it any longer.
        let _ = process.kill_tree();
    }
    let output = process.final_output();
    let mut lines: Vec<String> = output.0.text().lines().map(str::to_owned).collect();
    match ended {
        None => Ok(lines),
        Some(why) => {
            lines.extend(output.1.text().lines().take(12).map(str::to_owned));
            lines.push(format!("{}: {why}", program.display()));
            Err(lines)
        }
    }
}

/// The ratio on the tool's line about this wait.
pub(super) fn ratio(line: &str, wait: i64) -> Option<f64> {
    let rest = line.strip_prefix(&format!("{wait} cycles: "))?;
    rest.split_once("ratio ")?.1.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tool_are_read() {
        let line = "10000 cycles: 10060 and 9860, ratio 0.98012, intended 0.980";
        assert_eq!(ratio(line, 10_000), Some(0.980_12));
        assert_eq!(ratio(&format!("{line}  OFF"), 10_000), Some(0.980_12));
        for (line, wait) in [(line, 1_000), (line, 0), ("10000 cycles: ratio x, y", 10_000), ("", 1)] {
            assert_eq!(ratio(line, wait), None, "{line}");
        }
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let missing = run(Path::new("/no/such/program"), Vec::new(), BTreeMap::new()).unwrap_err();
        assert!(missing[0].starts_with("/no/such/program"), "{missing:?}");
        let sh = Path::new("/bin/sh");
        let args = |text: &str| vec!["-c".into(), text.into()];
        assert_eq!(run(sh, args("echo a; echo b"), BTreeMap::new()).unwrap(), ["a", "b"]);
        let failed = run(sh, args("echo a; echo why >&2; exit 1"), BTreeMap::new()).unwrap_err();
        assert_eq!(failed[..2], ["a", "why"]);
        assert!(failed[2].contains('1'), "{failed:?}");
    }
}
