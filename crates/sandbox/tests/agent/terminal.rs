//! An agent that a person watches: the terminal is shared, and comes back as it was.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode};
use std::time::Instant;

use kernelseek_sandbox::agent::{AgentStdio, Waited, start};

use crate::world::{PATIENCE, Stage, own_binary};

fn settings() -> libc::termios {
    // SAFETY: an all-zero termios is a valid value, and outlives the call.
    unsafe {
        let mut settings: libc::termios = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(0, &raw mut settings), 0);
        settings
    }
}

/// Switches echo off, as agents do, takes the foreground, and tries to type.
pub(crate) fn agent(words: &[String]) -> ExitCode {
    let mut changed = settings();
    changed.c_lflag &= !libc::ECHO;
    let typed = unsafe {
        assert_eq!(libc::tcsetattr(0, libc::TCSANOW, &raw const changed), 0);
        if libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()) == 0 { 0 } else { *libc::__errno_location() }
    };
    println!("typed {typed} ready");
    if words.last().unwrap() == "wait" {
        std::thread::sleep(PATIENCE);
    }
    ExitCode::SUCCESS
}

/// Leads an agent at the terminal on standard input.
pub(crate) fn supervisor(words: &[String]) -> ExitCode {
    // SAFETY: plain calls; the binary has a single thread so far.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        assert_eq!(libc::ioctl(0, libc::TIOCSCTTY, 0), 0);
    }
    let stage = Stage::build();
    let mut spec = stage.spec("role-terminal-agent", &[&words[0]]);
    spec.stdio = AgentStdio::Inherit;
    let mut agent = start(spec).unwrap();
    let Waited::Ended(status) = agent.wait_deadline(Instant::now() + PATIENCE).unwrap() else {
        return ExitCode::FAILURE;
    };
    let before = settings().c_lflag & libc::ECHO != 0;
    agent.leave().unwrap();
    let after = settings().c_lflag & libc::ECHO != 0;
    println!("signal {:?} echo {before} then {after} done", status.signal());
    ExitCode::SUCCESS
}

fn terminal() -> Option<(File, OwnedFd)> {
    let (mut master, mut slave) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: the two numbers outlive the call; on success both descriptors are new.
    unsafe {
        if libc::openpty(&raw mut master, &raw mut slave, none, none.cast(), none.cast()) != 0 {
            return None;
        }
        libc::fcntl(master, libc::F_SETFD, libc::FD_CLOEXEC);
        libc::fcntl(slave, libc::F_SETFD, libc::FD_CLOEXEC);
        Some((File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)))
    }
}

fn read_until(master: &mut File, word: &str) -> String {
    let started = Instant::now();
    let mut text = String::new();
    let mut buffer = [0; 1024];
    while !text.contains(word) {
        let mut watched = libc::pollfd { fd: master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry that outlives the call.
        let seen = unsafe { libc::poll(&raw mut watched, 1, 1000) };
        assert!(started.elapsed() < PATIENCE, "{text}");
        if seen == 1 {
            let count = master.read(&mut buffer).unwrap_or(0);
            assert!(count > 0, "{text}");
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
    text
}

pub(crate) fn the_terminal_is_shared() {
    let Some((mut master, slave)) = terminal() else {
        println!("  no terminals: skipped");
        return;
    };
    let mut command = Command::new(own_binary());
    command.args(["role-terminal-supervisor", "wait"]);
    command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
    // SAFETY: one call that allocates nothing.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            Ok(())
        });
    }
    let mut supervisor = command.spawn().unwrap();
    drop(command);
    let text = read_until(&mut master, "ready");
    assert!(text.contains(&format!("typed {} ready", libc::EPERM)), "{text}");
    // Ctrl-C: for the agent, not for the supervisor, which ignores it.
    master.write_all(&[3]).unwrap();
    let text = read_until(&mut master, "done");
    assert!(text.contains("signal Some(2) echo false then true done"), "{text}");
    assert!(supervisor.wait().unwrap().success());
}
