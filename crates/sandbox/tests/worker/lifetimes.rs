//! Beginnings, ends, and what lies between: mirrored endings, stopping, measuring, output.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use kernelseek_sandbox::SandboxError;
use kernelseek_sandbox::control::Target;
use kernelseek_sandbox::process::{OutputBounds, SpawnSpec, Waited, spawn};

use crate::supervisor::{PATIENCE, Setup, eventually, own_binary, runs, spec, start};

pub(crate) fn endings_are_mirrored() {
    for namespaces in [true, false] {
        let setup = Setup { namespaces, ..Setup::default() };
        for (action, code, signal) in [
            ("exit:0", Some(0), None),
            ("exit:7", Some(7), None),
            ("abort", None, Some(libc::SIGABRT)),
            ("crash", None, Some(libc::SIGSEGV)),
        ] {
            let mut worker = start(&setup, &[action]);
            worker.go();
            let status = worker.wait();
            assert_eq!((status.code(), status.signal()), (code, signal), "{action} {namespaces}");
        }
        let mut worker = start(&setup, &["spin"]);
        worker.go();
        Target::open(worker.pid).unwrap().kill().unwrap();
        assert_eq!(worker.wait().signal(), Some(libc::SIGKILL));
        eventually("the worker is gone", || !runs(worker.pid));
    }
}

pub(crate) fn stop_cont_and_cpu_time() {
    for namespaces in [true, false] {
        let mut worker = start(&Setup { namespaces, ..Setup::default() }, &["spin_two"]);
        let target = Target::open(worker.pid).unwrap();
        let idle = target.cpu_time().unwrap();
        worker.go();
        eventually("two threads spin", || target.threads().unwrap().len() == 2);
        eventually("it uses time", || target.cpu_time().unwrap() > idle + Duration::from_millis(20));

        target.stop().unwrap();
        let before = target.cpu_time().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(target.cpu_time().unwrap(), before, "a stopped process uses no time");

        target.cont().unwrap();
        eventually("it uses time again", || target.cpu_time().unwrap() > before + Duration::from_millis(20));
        // Stopping again and again finds it standing still each time.
        for _ in 0..50 {
            target.stop().unwrap();
            let still = target.cpu_time().unwrap();
            assert_eq!(target.cpu_time().unwrap(), still);
            target.cont().unwrap();
        }
        let status = worker.process.kill_tree().unwrap();
        assert_eq!(status.signal(), Some(libc::SIGKILL), "the reaper ended as its worker did");
        // Reaped, not left as a zombie to whoever is first in this container.
        assert!(!std::path::Path::new(&format!("/proc/{}", worker.pid)).exists());
        assert!(!target.is_alive());
        assert!(matches!(target.stop(), Err(SandboxError::Gone(_))));
        assert!(matches!(target.cpu_time(), Err(SandboxError::Gone(_))));
    }
}

pub(crate) fn a_waiting_call_does_not_block_death() {
    let mut worker = start(&Setup { monitored: false, ..Setup::default() }, &["socket"]);
    if worker.listener.is_none() {
        return;
    }
    worker.go();
    // Nobody answers: the call waits.
    let soon = Instant::now() + Duration::from_millis(50);
    assert_eq!(worker.process.wait_deadline(soon).unwrap(), Waited::Deadline);
    let target = Target::open(worker.pid).unwrap();
    target.stop().unwrap();
    target.cont().unwrap();
    assert_eq!(worker.process.kill_tree().unwrap().signal(), Some(libc::SIGKILL));
    eventually("the worker is gone", || !runs(worker.pid));
    // Serving a dead worker's listener ends by itself.
    let listener = worker.listener.take().unwrap();
    drop(kernelseek_sandbox::monitor::Monitor::start(listener, &[]).unwrap());
}

pub(crate) fn worker_dies_with_supervisor() {
    for namespaces in ["namespaces", "plain"] {
        let supervisor = spawn(spec(vec!["role-supervisor".into(), namespaces.into()], Vec::new())).unwrap();
        eventually("the supervisor reports", || supervisor.output().0.total_bytes > 0);
        eventually("the whole line is there", || supervisor.output().0.text().ends_with('\n'));
        let line = supervisor.output().0.text();
        let ids: Vec<u32> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(ids.iter().all(|pid| runs(*pid)), "{ids:?}");
        // Only the supervisor is killed: its workers live in groups of their own.
        Target::open(supervisor.pid()).unwrap().kill().unwrap();
        eventually("reaper and worker are gone", || ids.iter().all(|pid| !runs(*pid)));
    }
}

pub(crate) fn output_is_bounded() {
    let flood = SpawnSpec {
        output: OutputBounds { head: 1000, flood: Some(1 << 20) },
        ..spec(vec!["role-plain".into(), "flood".into()], Vec::new())
    };
    let mut process = spawn(flood).unwrap();
    assert_eq!(process.wait_deadline(Instant::now() + PATIENCE).unwrap(), Waited::Flooded);
    let soon = Instant::now() + Duration::from_millis(20);
    assert_eq!(process.wait_deadline(soon).unwrap(), Waited::Deadline, "a flood is reported once");
    process.kill_tree().unwrap();
    let (stdout, stderr) = process.final_output();
    assert_eq!(stdout.head.len(), 1000);
    assert!(stdout.truncated && stdout.total_bytes > 1 << 20);
    assert_eq!((stderr.total_bytes, stderr.truncated), (0, false));

    // The same from inside the sandbox.
    let mut worker = start(&Setup::default(), &["print:300000"]);
    worker.go();
    assert!(worker.wait().success());
    let (stdout, _) = worker.process.final_output();
    assert_eq!(stdout.head.len(), 64 << 10);
    assert!(stdout.total_bytes > 300_000);
}

pub(crate) fn environment_is_explicit() {
    let mut process = spawn(SpawnSpec {
        program: own_binary(),
        args: vec!["role-plain".into(), "environment".into()],
        cwd: Some("/".into()),
        env: BTreeMap::from([("ONLY".into(), "this".into())]),
        inherit: Vec::new(),
        output: OutputBounds::default(),
    })
    .unwrap();
    let Waited::Ended(status) = process.wait_deadline(Instant::now() + PATIENCE).unwrap() else {
        panic!("still running");
    };
    assert!(status.success());
    // Three standard streams and the folder being read.
    assert_eq!(process.final_output().0.text(), "ONLY=this\ndescriptors 4\n");
}
