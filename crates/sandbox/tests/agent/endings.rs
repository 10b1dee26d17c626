//! Whatever an agent starts is gone once it has left, and nothing else is.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use kernelseek_sandbox::agent::{Waited, start};

use crate::world::{PATIENCE, Stage, anybody_with, eventually, own_binary};

fn fork() -> bool {
    // SAFETY: the roles have a single thread.
    unsafe { libc::fork() == 0 }
}

pub(crate) fn sleeper() -> ExitCode {
    std::thread::sleep(Duration::from_secs(600));
    ExitCode::SUCCESS
}

/// Leaves processes behind in every way there is. The last word is their mark.
pub(crate) fn daemons(words: &[String]) -> ExitCode {
    let mark = words.last().unwrap();
    let sleep = || Command::new(own_binary()).args(["role-sleeper", mark]).spawn().unwrap();
    // A child, one that left the group, and one that left the session twice over, whose parents are gone.
    drop(sleep());
    if fork() {
        unsafe { libc::setpgid(0, 0) };
        drop(sleep());
        return ExitCode::SUCCESS;
    }
    if fork() {
        unsafe { libc::setsid() };
        if fork() {
            unsafe { libc::setsid() };
            drop(sleep());
        }
        return ExitCode::SUCCESS;
    }
    // One that takes in orphans itself, and one that listens to no signal.
    if fork() {
        unsafe {
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            for signal in 1..32 {
                libc::signal(signal, libc::SIG_IGN);
            }
            libc::setsid();
        }
        if fork() {
            drop(sleep());
            return ExitCode::SUCCESS;
        }
        return sleeper();
    }
    // One in a namespace of its own, where the machine allows it.
    if fork() {
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWPID) } == 0 && fork() {
            let mut child = sleep();
            let _ = child.wait();
        }
        return ExitCode::SUCCESS;
    }
    std::thread::sleep(Duration::from_millis(300));
    println!("ready");
    ExitCode::SUCCESS
}

pub(crate) fn daemons_are_found() {
    let stage = Stage::build();
    let mark = format!("daemons-{}", std::process::id());
    let mut agent = start(stage.spec("role-daemons", &[&mark])).unwrap();
    let waited = agent.wait_deadline(Instant::now() + PATIENCE).unwrap();
    assert!(matches!(waited, Waited::Ended(status) if status.success()), "{waited:?}");
    assert!(anybody_with(&mark), "they outlive the agent");
    let alive = agent.leave().unwrap();
    assert!(alive >= 5, "{alive}");
    assert!(!anybody_with(&mark));
}

/// Processes that fork and end faster than they can be looked for.
pub(crate) fn bomb(words: &[String]) -> ExitCode {
    assert!(words.last().unwrap().starts_with("bomb"));
    for _ in 0..16 {
        if fork() {
            loop {
                // SAFETY: as above; the parent ends at once, the child goes on in a session of its own.
                unsafe {
                    match libc::fork() {
                        0 => libc::setsid(),
                        -1 => 0,
                        _ => libc::_exit(0),
                    };
                }
            }
        }
    }
    for _ in 0..100 {
        if fork() {
            return sleeper();
        }
    }
    println!("ready");
    sleeper()
}

pub(crate) fn fork_bombs_end() {
    let stage = Stage::build();
    let mark = format!("bomb-{}", std::process::id());
    let mut agent = start(stage.spec("role-bomb", &[&mark])).unwrap();
    if !agent.layers().leaving.is_enforced() {
        println!("  skipped: {}", agent.layers().summary());
        return;
    }
    let started = Instant::now();
    while agent.output().0.text() != "ready\n" && started.elapsed() < PATIENCE {
        assert_eq!(
            agent.wait_deadline(Instant::now() + Duration::from_millis(20)).unwrap(),
            Waited::Deadline
        );
    }
    let alive = agent.leave().unwrap();
    assert!(alive > 100, "{alive}");
    assert!(!anybody_with(&mark));
}

/// The order to end reaches nobody outside: not our other children, not another agent.
pub(crate) fn other_processes_stay() {
    let stage = Stage::build();
    let (mark, other_mark) = (format!("one-{}", std::process::id()), format!("two-{}", std::process::id()));
    let mut bystander = Command::new("sleep").arg("600").spawn().unwrap();
    let mut other = start(stage.spec("role-daemons", &[&other_mark])).unwrap();
    let mut agent = start(stage.spec("role-daemons", &[&mark])).unwrap();
    for agent in [&mut agent, &mut other] {
        assert!(matches!(agent.wait_deadline(Instant::now() + PATIENCE).unwrap(), Waited::Ended(_)));
    }
    assert!(agent.leave().unwrap() >= 5);
    assert!(!anybody_with(&mark));
    assert!(anybody_with(&other_mark));
    assert!(bystander.try_wait().unwrap().is_none());
    assert!(other.leave().unwrap() >= 5);
    assert!(bystander.try_wait().unwrap().is_none());
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

/// A supervisor that starts an agent and waits to be killed.
pub(crate) fn supervisor() -> ExitCode {
    let stage = Stage::build();
    let mark = format!("orphans-{}", std::process::id());
    let mut agent = start(stage.spec("role-daemons", &[&mark])).unwrap();
    let _ = agent.wait_deadline(Instant::now() + PATIENCE);
    println!("{mark} {}", stage.folder.path().display());
    let _ = std::io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

pub(crate) fn everything_ends_with_the_supervisor() {
    let mut supervisor = Command::new(own_binary())
        .arg("role-supervisor")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(supervisor.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (mark, folder) = line.trim().split_once(' ').unwrap();
    assert!(anybody_with(mark));
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    eventually("what the agent left is gone", || !anybody_with(mark));
    std::fs::remove_dir_all(folder).unwrap();
}
