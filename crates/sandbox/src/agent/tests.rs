//! Ends and beginnings on kernels of every interface; the attempts to get out stand in `tests/agent`.

use super::*;

fn shell(script: &str, folder: &std::path::Path) -> AgentSpec {
    AgentSpec {
        program: "sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: folder.to_owned(),
        env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
        write: vec![folder.to_owned()],
        protect: Vec::new(),
        stdio: AgentStdio::Captured(OutputBounds::default()),
        tee: None,
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn status(agent: &mut Agent) -> ExitStatus {
    match agent.wait_deadline(soon()).unwrap() {
        Waited::Ended(status) => status,
        other => panic!("{other:?}"),
    }
}

fn runs(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[test]
fn leftovers_end_on_every_interface() {
    for newest in [0, 1, 5, i64::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let script =
            "sleep 600 & echo $!; setsid sh -c 'sleep 600 & echo $!'; (setsid sleep 600 & echo $!); exit 3";
        let mut agent = start_under(shell(script, folder.path()), newest).unwrap();
        assert_eq!(status(&mut agent).code(), Some(3));
        assert_eq!(agent.layers().landlock.is_unavailable(), newest == 0 || sys::landlock_abi().is_err());
        assert!(newest > 5 || !agent.layers().leaving.is_enforced());
        assert_eq!(agent.leave().unwrap(), 3, "interface {newest}");
        assert_eq!(agent.leave().unwrap(), 3);
        let text = agent.output().0.text();
        let pids: Vec<u32> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert_eq!(pids.len(), 3);
        assert!(pids.iter().all(|pid| !runs(*pid)), "interface {newest}: {pids:?}");
        assert!(!runs(agent.pid()));
    }
}

#[test]
fn dropping_ends_everything() {
    let folder = tempfile::tempdir().unwrap();
    for newest in [0, i64::MAX] {
        let mut agent =
            start_under(shell("setsid sleep 600 & echo $!; exec sleep 600", folder.path()), newest).unwrap();
        let started = Instant::now();
        while agent.output().0.total_bytes == 0 && started.elapsed() < Duration::from_secs(30) {
            assert_eq!(
                agent.wait_deadline(Instant::now() + Duration::from_millis(5)).unwrap(),
                Waited::Deadline
            );
        }
        let (own, sleeper) = (agent.pid(), agent.output().0.text().trim().parse().unwrap());
        assert!(runs(own) && runs(sleeper));
        drop(agent);
        assert!(!runs(own) && !runs(sleeper));
    }
}

#[test]
fn endings_are_mirrored() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = start(shell("kill -TERM $$", folder.path())).unwrap();
    assert_eq!(status(&mut agent).signal(), Some(libc::SIGTERM));
    assert_eq!(agent.leave().unwrap(), 0);
    let mut agent = start(shell("exec sleep 600", folder.path())).unwrap();
    assert_eq!(agent.leave().unwrap(), 1);
    assert_eq!(status(&mut agent).signal(), Some(libc::SIGKILL));
}

#[test]
fn what_cannot_start_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("", folder.path());
    spec.program = "no-such-program".into();
    let Err(SandboxError::Spawn { program, source }) = start(spec) else { panic!("started") };
    assert_eq!((program.as_str(), source.kind()), ("no-such-program", io::ErrorKind::NotFound));
    let mut spec = shell("", folder.path());
    spec.cwd = folder.path().join("missing");
    assert!(matches!(start(spec), Err(SandboxError::Spawn { .. })));
    let mut spec = shell("", folder.path());
    spec.write.push("/no/such/path".into());
    assert!(matches!(start(spec), Err(SandboxError::Path { .. })));
    let mut spec = shell("", folder.path());
    spec.protect.push(folder.path().to_owned());
    assert!(matches!(start(spec), Err(SandboxError::Overlap { .. })));
}

#[test]
fn a_lost_keeper_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = start(shell("exec sleep 600", folder.path())).unwrap();
    sys::kill(agent.keeper.unwrap(), libc::SIGKILL).unwrap();
    assert!(matches!(agent.wait_deadline(soon()), Err(SandboxError::KeeperLost)));
    assert!(matches!(agent.leave(), Err(SandboxError::KeeperLost)));
    // It dies with its keeper all the same.
    let started = Instant::now();
    while control_alive(agent.pid()) && started.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(!control_alive(agent.pid()));
}

fn control_alive(pid: u32) -> bool {
    crate::control::Target::open(pid).is_ok_and(|target| target.is_alive())
}

#[test]
fn who_does_not_leave_in_time_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = start(shell("sleep 600 & exec sleep 600", folder.path())).unwrap();
    let keeper = agent.keeper.unwrap();
    while crate::control::alive_below(keeper).len() < 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // A keeper that stands still ends nobody.
    sys::kill(keeper, libc::SIGSTOP).unwrap();
    let outcome = agent.leave_within(Duration::from_millis(50));
    assert!(matches!(outcome, Err(SandboxError::NotLeft { alive: 2, limit_ms: 50 })), "{outcome:?}");
    sys::kill(keeper, libc::SIGCONT).unwrap();
    assert_eq!(agent.leave().unwrap(), 2);
}

#[test]
fn floods_are_reported_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = shell("yes", folder.path());
    spec.stdio = AgentStdio::Captured(OutputBounds { head: 100, flood: Some(1 << 20) });
    let mut agent = start(spec).unwrap();
    assert_eq!(agent.wait_deadline(soon()).unwrap(), Waited::Flooded);
    let next = Instant::now() + Duration::from_millis(20);
    assert_eq!(agent.wait_deadline(next).unwrap(), Waited::Deadline);
    assert!(agent.leave().unwrap() >= 1);
    assert_eq!(agent.output().0.head.len(), 100);
}
