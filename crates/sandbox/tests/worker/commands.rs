//! Builds and other sandboxed commands.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kernelseek_sandbox::SandboxError;
use kernelseek_sandbox::command::{CommandSpec, Ended, run, toolchain_reads};
use kernelseek_sandbox::limits::Limits;

use crate::supervisor::{PATIENCE, eventually, runs, write_file};

fn shell(folder: &Path, script: &str) -> CommandSpec {
    CommandSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: folder.to_owned(),
        env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        read: toolchain_reads(),
        write: vec![folder.to_owned()],
        scratch: std::env::temp_dir(),
        deadline: PATIENCE,
        limits: Limits::default(),
        output_cap: 4096,
    }
}

fn pids(text: &str) -> Vec<u32> {
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

pub(crate) fn deadline_kills_grandchildren() {
    let folder = tempfile::tempdir().unwrap();
    let script = "sh -c 'sleep 600 & echo $!; wait' & sleep 600 & echo $!; wait";
    let mut spec = shell(folder.path(), script);
    spec.deadline = Duration::from_millis(500);
    let started = Instant::now();
    let output = run(&spec).unwrap();
    assert_eq!(output.ended, Ended::DeadlinePassed);
    assert!(started.elapsed() < PATIENCE);
    let pids = pids(&output.stdout.text());
    assert_eq!(pids.len(), 2);
    eventually("grandchildren are gone", || pids.iter().all(|pid| !runs(*pid)));
}

pub(crate) fn leftovers_are_killed() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(&shell(folder.path(), "sleep 600 & echo $!; (sleep 600 & echo $!) & exit 3")).unwrap();
    assert_eq!(output.ended, Ended::Exited(3));
    let pids = pids(&output.stdout.text());
    assert!(!pids.is_empty());
    eventually("leftovers are gone", || pids.iter().all(|pid| !runs(*pid)));
}

pub(crate) fn command_stays_inside() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let secret = write_file(&outside.path().join("secret"), "secret");
    let script = format!(
        "echo inside > made && cat made
         echo x > {outside}/made 2>/dev/null; echo write outside $?
         cat {secret} 2>/dev/null; echo read outside $?
         echo t > $TMPDIR/t && cat $TMPDIR/t
         setsid true 2>/dev/null; echo session $?
         cat /etc/passwd > /dev/null 2>&1; echo passwd $?
         kill -0 {parent} 2>/dev/null; echo signal $?
         cat /proc/{parent}/environ > /dev/null 2>&1; echo environ $?
         echo ${{HOME-no home}}",
        outside = outside.path().display(),
        parent = std::process::id(),
    );
    let output = run(&shell(folder.path(), &script)).unwrap();
    assert_eq!(output.ended, Ended::Exited(0), "{}", output.stderr.text());
    let text = output.stdout.text();
    if output.layers.landlock.is_enforced() {
        assert!(!outside.path().join("made").exists());
        // dash ends a failed redirection with 2, others with 1.
        let text = text.replace("write outside 2", "write outside 1");
        assert_eq!(
            text,
            "inside\nwrite outside 1\nread outside 1\nt\nsession 1\npasswd 1\nsignal 1\nenviron 1\nno home\n"
        );
    }
    assert!(output.layers.seccomp.is_enforced());
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
    // The temporary folder went with the command.
    let scratch = format!("kernelseek-{}-", std::process::id());
    let left = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    assert_eq!(left.filter(|entry| entry.file_name().to_string_lossy().starts_with(&scratch)).count(), 0);
}

const NETWORK: &str = r#"
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    printf("%d ", socket(AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0);
    printf("%d ", syscall(SYS_io_uring_setup, 1, 0) < 0 ? errno : 0);
    printf("%d\n", setsid() < 0 ? errno : 0);
    return 0;
}
"#;

pub(crate) fn command_compiles() {
    if !PathBuf::from("/usr/bin/cc").exists() {
        println!("  no compiler: skipped");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write_file(&folder.path().join("network.c"), NETWORK);
    // Through a shell and a pipe, with what was built run at once: the filter reaches all of them.
    let output = run(&shell(folder.path(), "cc -O1 -pipe network.c -o network && ./network | cat")).unwrap();
    assert_eq!(output.ended, Ended::Exited(0), "{}", output.stderr.text());
    assert_eq!(output.stdout.text(), "1 1 1\n");

    write_file(&folder.path().join("wrong.c"), "int main(void) { return missing; }");
    let output = run(&shell(folder.path(), "cc wrong.c")).unwrap();
    assert_eq!(output.ended, Ended::Exited(1));
    assert!(output.stderr.text().contains("missing"));
}

pub(crate) fn command_output_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell(folder.path(), "yes");
    spec.output_cap = 100;
    let output = run(&spec).unwrap();
    assert_eq!(output.ended, Ended::Flooded);
    assert_eq!(output.stdout.head.len(), 100);
    assert!(output.stdout.truncated);
}

pub(crate) fn missing_program_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell(folder.path(), "");
    spec.program = "/no/such/program".into();
    assert!(matches!(run(&spec), Err(SandboxError::Spawn { .. })));
    // One that exists, outside what may be executed.
    let copy = folder.path().join("copy");
    std::fs::copy("/bin/true", &copy).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut spec = shell(elsewhere.path(), "");
    spec.program = copy;
    let started = run(&spec);
    if started.as_ref().is_ok_and(|output| output.layers.landlock.is_unavailable()) {
        return;
    }
    assert!(matches!(started, Err(SandboxError::Spawn { .. })));
}
