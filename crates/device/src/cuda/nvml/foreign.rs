//! Whether somebody else uses a GPU.

use super::{GpuProcess, Processes};
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Foreign {
    /// Nobody else computes on it.
    None,
    /// These processes do.
    Seen(Vec<GpuProcess>),
    /// It cannot be known here, for this reason.
    CannotTell(String),
}

/// What is known about a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// There is no such process.
    Gone,
    /// It exists and its parent is not to be learned.
    Hidden,
    /// It exists and has this parent.
    ChildOf(u32),
}

/// Generations that are looked up before a process counts as nobody's descendant.
const GENERATIONS: usize = 64;

/// Judges a list of processes. A process is foreign if it computes and is neither one of `ours` nor a descendant of
/// one. `sees_all` says that ids mean here what they mean to the driver.
#[must_use]
pub fn judge(seen: &Processes, ours: &[u32], sees_all: bool, life: &dyn Fn(u32) -> Life) -> Foreign {
    let list = match seen {
        Processes::Unknown(why) => return Foreign::CannotTell(why.clone()),
        Processes::Known(list) => list,
    };
    let computing = || list.iter().filter(|p| p.compute);
    if computing().any(|p| p.pid == 0) {
        return Foreign::CannotTell("the driver hides the ids of processes".to_owned());
    }
    // In a pid namespace the driver may list other numbers than ours, or leave out who is outside. Only a list that
    // holds one of ours counts as this namespace does, and even that one says nothing of the world outside.
    let ours_listed = computing().any(|p| ours.contains(&p.pid));
    let foreign: Vec<GpuProcess> =
        computing().filter(|p| life(p.pid) != Life::Gone && !descends(p.pid, ours, life)).cloned().collect();
    match (sees_all, foreign.is_empty()) {
        (true, true) => Foreign::None,
        (true, false) => Foreign::Seen(foreign),
        (false, false) if ours_listed => Foreign::Seen(foreign),
        (false, _) => Foreign::CannotTell(
            "this process is in a pid namespace: who uses the GPU outside it is not visible".to_owned(),
        ),
    }
}

fn descends(pid: u32, ours: &[u32], life: &dyn Fn(u32) -> Life) -> bool {
    let mut at = pid;
    for _ in 0..GENERATIONS {
        if ours.contains(&at) {
            return true;
        }
        match life(at) {
            Life::ChildOf(parent) if parent > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

/// What this machine knows about a process.
#[must_use]
pub fn life_of(pid: u32) -> Life {
    let parent = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| parent_in(&text));
    if let Some(parent) = parent {
        return Life::ChildOf(parent);
    }
    // A /proc that hides the processes of others shows nothing; a signal that may not be sent shows that they exist.
    match i32::try_from(pid).ok().and_then(Pid::from_raw).map(test_kill_process) {
        Some(Ok(()) | Err(rustix::io::Errno::PERM)) => Life::Hidden,
        _ => Life::Gone,
    }
}

/// The parent in a line of `/proc/PID/stat`: the second word after the name, which may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether process ids mean here what they mean to the driver: this is the first pid namespace.
#[must_use]
pub fn sees_every_process() -> bool {
    // The inode of the first one is fixed in the kernel's interface.
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link == Path::new("pid:[4026531836]"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn process(pid: u32, compute: bool) -> GpuProcess {
        GpuProcess { pid, memory: None, name: Some(format!("p{pid}")), compute }
    }

    /// 10 is ours, 11 its child, 12 its grandchild; 20 is somebody's, 30 hidden, 40 gone; 50 and 51 are a circle.
    fn life(pid: u32) -> Life {
        match pid {
            11 => Life::ChildOf(10),
            12 => Life::ChildOf(11),
            10 | 20 => Life::ChildOf(1),
            30 => Life::Hidden,
            50 => Life::ChildOf(51),
            51 => Life::ChildOf(50),
            _ => Life::Gone,
        }
    }

    /// Ids, whether all are seen, and the answer, or a word of why it cannot be told.
    type Expected<'a> = (&'a [u32], bool, Result<Foreign, &'a str>);

    #[test]
    fn foreign_is_who_computes_and_does_not_descend_from_us() {
        let seen = |pids: &[u32]| Foreign::Seen(pids.iter().map(|p| process(*p, true)).collect());
        let rows: [Expected; 12] = [
            (&[], true, Ok(Foreign::None)),
            (&[10], true, Ok(Foreign::None)),
            (&[10, 11, 12], true, Ok(Foreign::None)),
            (&[10, 20], true, Ok(seen(&[20]))),
            (&[20, 30], true, Ok(seen(&[20, 30]))),
            (&[40], true, Ok(Foreign::None)),
            (&[50], true, Ok(seen(&[50]))),
            (&[10, 0], true, Err("hides")),
            (&[], false, Err("namespace")),
            (&[20], false, Err("namespace")),
            (&[10], false, Err("namespace")),
            (&[10, 20], false, Ok(seen(&[20]))),
        ];
        for (pids, sees_all, expected) in rows {
            let list = Processes::Known(pids.iter().map(|p| process(*p, true)).collect());
            let answer = judge(&list, &[10], sees_all, &life);
            match expected {
                Ok(expected) => assert_eq!(answer, expected, "{pids:?} {sees_all}"),
                Err(word) => {
                    assert!(
                        matches!(&answer, Foreign::CannotTell(why) if why.contains(word)),
                        "{pids:?}: {answer:?}"
                    );
                }
            }
        }
        let drawing = Processes::Known(vec![process(20, false), process(0, false)]);
        assert_eq!(judge(&drawing, &[10], true, &life), Foreign::None, "a desktop is no rival");
        let unknown = Processes::Unknown("not supported".into());
        assert_eq!(judge(&unknown, &[10], true, &life), Foreign::CannotTell("not supported".into()));
    }

    #[test]
    fn this_process_descends_from_its_parent() {
        let me = std::process::id();
        let Life::ChildOf(parent) = life_of(me) else { panic!("no parent") };
        let list = Processes::Known(vec![process(me, true)]);
        if parent > 1 {
            assert_eq!(judge(&list, &[parent], true, &life_of), Foreign::None);
        }
        assert_eq!(judge(&list, &[], true, &life_of), Foreign::Seen(vec![process(me, true)]));
        assert_eq!(life_of(u32::MAX), Life::Gone);
    }

    #[test]
    fn a_name_with_brackets_does_not_hide_the_parent() {
        assert_eq!(parent_in("7 (a) R 9 (b)) S 3 7 7"), Some(3));
        assert_eq!(parent_in(""), None);
    }

    proptest! {
        #[test]
        fn any_line_is_read_without_a_panic(text in ".*") {
            let _ = parent_in(&text);
        }
    }
}
