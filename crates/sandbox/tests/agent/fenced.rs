//! Every attempt twice: without a fence, where it has to succeed, and inside, where it must not.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::atomic::Ordering;
use std::time::Instant;

use kernelseek_sandbox::SandboxError;
use kernelseek_sandbox::agent::{Waited, start};

use crate::attempts::{ATTEMPTS, Attempt, REMAINING, Unfenced, bind, in_child, private_mounts};
use crate::ordinary::ORDINARY;
use crate::world::{PATIENCE, SECRET, Stage, Victim, WORD, World, own_binary};

fn all() -> impl Iterator<Item = &'static Attempt> {
    ATTEMPTS.iter().chain(REMAINING).chain(ORDINARY)
}

/// The agent: makes the attempts named, in order, and says what came of each.
pub(crate) fn attempts(words: &[String]) -> ExitCode {
    let (world, names) = words.split_at(5);
    let world = World::parse(world);
    for name in names {
        assert_eq!(all().filter(|(known, ..)| known == name).count(), 1, "{name}");
        let (_, _, attempt) = all().find(|(known, ..)| known == name).unwrap();
        match attempt(&world) {
            Ok(()) => println!("{name} 0"),
            Err(error) => println!("{name} {} {error}", error.raw_os_error().unwrap_or(-1)),
        }
    }
    ExitCode::SUCCESS
}

/// Name to error number; 0 for success, -1 for an error without a number.
fn outcomes(text: &str) -> BTreeMap<String, i32> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap().to_owned(), words.next().unwrap().parse().unwrap())
        })
        .collect()
}

fn root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Runs an agent with these attempts inside the fence; `None` where the machine has none.
fn inside(stage: &Stage, attempts: &[Attempt]) -> Option<BTreeMap<String, i32>> {
    let names: Vec<&str> = attempts.iter().map(|(name, ..)| *name).collect();
    let mut agent = start(stage.spec("role-attempts", &names)).unwrap();
    if !agent.layers().complete() {
        println!("  fence: {}", agent.layers().summary());
    }
    let fenced = agent.layers().landlock.is_enforced() && agent.layers().signals.is_enforced();
    let waited = agent.wait_deadline(Instant::now() + PATIENCE).unwrap();
    agent.leave().unwrap();
    let (stdout, stderr) = agent.output();
    assert!(matches!(waited, Waited::Ended(status) if status.success()), "{waited:?} {}", stderr.text());
    let outcomes = outcomes(&stdout.text());
    assert_eq!(outcomes.len(), names.len(), "{}", stdout.text());
    fenced.then_some(outcomes)
}

/// Runs one attempt without a fence against a victim that may be lost.
fn outside(world: &World, name: &str) -> i32 {
    let output =
        Command::new(own_binary()).arg("role-attempts").args(world.arguments()).arg(name).output().unwrap();
    *outcomes(std::str::from_utf8(&output.stdout).unwrap()).get(name).unwrap_or(&-2)
}

fn tracing_is_free() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").map_or(true, |text| text.trim() == "0")
}

pub(crate) fn attempts_succeed_without_a_fence() {
    for (name, unfenced, _) in ATTEMPTS.iter().chain(REMAINING) {
        let expected = match unfenced {
            Unfenced::Anybody => true,
            Unfenced::Tracers => tracing_is_free(),
            Unfenced::Root => root(),
            Unfenced::Untried => false,
        };
        if !expected {
            continue;
        }
        let stage = Stage::build();
        let victim = Victim::start(&stage, false);
        assert_eq!(outside(&victim.world, name), 0, "{name}");
    }
}

pub(crate) fn attempts_fail_inside() {
    let stage = Stage::build();
    let before = stage.protected();
    // Where an attempt would not be refused, this very process would be its victim.
    let Some(outcomes) = inside(&stage, ATTEMPTS) else { return };
    for (name, error) in &outcomes {
        assert!(*error > 0, "{name}: {error}");
    }
    for refused in ["open_for_writing", "symlink_then_write", "make_file", "descriptor_for_reading"] {
        assert_eq!(outcomes[refused], libc::EACCES, "{refused}");
    }
    for refused in ["kill", "kill_group", "kill_keeper", "attach", "vm_write", "type_into_terminal"] {
        assert_eq!(outcomes[refused], libc::EPERM, "{refused}");
    }
    for refused in ["set_clock", "limit_file_size", "bind_mount_over", "abstract_socket"] {
        assert_eq!(outcomes[refused], libc::EPERM, "{refused}");
    }
    assert_eq!(stage.protected(), before);
    assert_eq!(WORD.load(Ordering::Relaxed), SECRET);
    // Nothing was spoilt on the way: it goes on answering.
    assert_eq!(inside(&stage, ORDINARY).unwrap()["ask_supervisor"], 0);
}

pub(crate) fn ordinary_work_is_allowed() {
    let stage = Stage::build();
    let before = stage.protected();
    let Some(outcomes) = inside(&stage, ORDINARY) else { return };
    assert!(outcomes.values().all(|error| *error == 0), "{outcomes:?}");
    assert_eq!(stage.protected(), before);
}

pub(crate) fn what_remains_changes_no_bytes() {
    let stage = Stage::build();
    let before = stage.protected();
    let Some(outcomes) = inside(&stage, REMAINING) else { return };
    // A kernel that stops one of these makes the documentation wrong.
    for (name, error) in &outcomes {
        let stopped = match name.as_str() {
            "attribute" => *error == libc::EOPNOTSUPP,
            // A root supervisor has privileges that its agent lacks, and is out of reach for that.
            "affinity" | "priority" => root() && *error == libc::EPERM,
            _ => false,
        };
        assert!(*error == 0 || stopped, "{name} is stopped with {error}");
    }
    assert_eq!(stage.protected(), before);
}

pub(crate) fn a_shield_keeps_others_out() {
    let stage = Stage::build();
    let victim = Victim::start(&stage, true);
    for (name, unfenced, _) in ATTEMPTS {
        if *unfenced == Unfenced::Tracers && *name != "seize" && *name != "attach" {
            let outcome = outside(&victim.world, name);
            // What the shield does not do for a root user is in its documentation.
            assert!(
                if root() { !tracing_is_free() || outcome == 0 } else { outcome > 0 },
                "{name}: {outcome}"
            );
        }
    }
}

/// The ledger beneath the workspace under another name, made before the agent starts.
pub(crate) fn second_names_are_refused() {
    let stage = Stage::build();
    let world = stage.world();
    std::fs::create_dir(world.work("view")).unwrap();
    let mounted = in_child(|| {
        private_mounts(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        bind(&world.state().join("artefacts"), &world.work("view"))?;
        match start(stage.spec("role-attempts", &[])) {
            Err(SandboxError::Overlap { .. }) => Ok(()),
            _ => Err(std::io::Error::from_raw_os_error(254)),
        }
    });
    match mounted {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(254) => panic!("a bind mount was not seen"),
        Err(error) => println!("  no mounts here: {error}"),
    }
    std::fs::hard_link(world.ledger(), world.work("linked")).unwrap();
    let linked = start(stage.spec("role-attempts", &[]));
    assert!(matches!(linked, Err(SandboxError::Linked { link, .. }) if link == world.work("linked")));
}

/// The whole binary again as a user without privileges.
pub(crate) fn the_same_as_an_ordinary_user() {
    const NOBODY: u32 = 65_534;
    if !root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("agent");
    std::fs::copy(own_binary(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let output = Command::new(&program)
        .env("TMPDIR", folder.path())
        .current_dir(folder.path())
        .gid(NOBODY)
        .uid(NOBODY)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("test attempts_fail_inside ... ok"), "{text}");
    text.lines().filter(|line| !line.is_empty()).for_each(|line| println!("  {line}"));
}
