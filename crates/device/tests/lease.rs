//! Leases between real processes: this test program starts itself again as the holder.

#![expect(clippy::unwrap_used, reason = "a test program: a panic is a failed test")]

use kernelseek_device::cuda::lease::{Claim, LeaseError, Leases};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "KERNELSEEK_TEST_LEASES";
const ROLE: &str = "KERNELSEEK_TEST_ROLE";
const UUID: &str = "GPU-00000000-0000-0000-0000-000000000001";
/// Long enough for anything, short enough to end a broken test.
const PATIENCE: Duration = Duration::from_secs(60);

fn claim(command: &str) -> Claim {
    Claim { command: command.into(), ..Claim::default() }
}

fn take_now(leases: &Leases, command: &str) -> Result<kernelseek_device::cuda::lease::Lease, LeaseError> {
    leases.acquire(UUID, &claim(command), Some(Duration::ZERO), &mut |_| {})
}

/// What the children do. Without a role there is nothing to do, and nothing is tested.
#[test]
fn child() {
    let (Some(folder), Ok(role)) = (std::env::var_os(FOLDER), std::env::var(ROLE)) else { return };
    let leases = Leases::at(Path::new(&folder)).unwrap();
    let lease = leases.acquire(UUID, &claim(&role), Some(PATIENCE), &mut |_| {}).unwrap();
    let mut left = None;
    if role == "leaves something behind" {
        lease.share_with_children().unwrap();
        left = Some(
            Command::new("sleep").arg("60").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
        );
    }
    // The harness of tests prints words of its own before this line.
    println!("\nholding {}", left.as_ref().map_or(0, Child::id));
    if role != "passes" {
        let _ = std::io::stdin().read(&mut [0]);
    }
    drop(lease);
    if let Some(mut left) = left {
        println!("\ndropped");
        let _ = std::io::stdin().read(&mut [0]);
        left.kill().unwrap();
        left.wait().unwrap();
    }
}

struct Holder {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Holder {
    fn start(folder: &Path, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(FOLDER, folder)
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits for a line that begins so, and returns the number in it.
    fn said(&mut self, word: &str) -> u32 {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the child ended");
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().parse().unwrap_or(0);
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn send_byte(&mut self) {
        use std::io::Write;
        self.child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kill_frees_the_lease_and_its_record_deceives_nobody() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("leases");
    let leases = Leases::at(&folder).unwrap();
    let mut holder = Holder::start(&folder, "holds");
    holder.said("holding");
    let known = leases.holder(UUID).unwrap().unwrap();
    assert_eq!((known.pid, known.command.as_deref()), (Some(holder.child.id()), Some("holds")));
    let refused = take_now(&leases, "x").unwrap_err();
    assert!(matches!(refused, LeaseError::Held(h) if h.pid == Some(holder.child.id())));
    holder.kill();
    let record = std::fs::read_to_string(folder.join(format!("{UUID}.lease"))).unwrap();
    assert!(record.contains("holds"), "killed before it could tidy up: {record}");
    assert_eq!(leases.holder(UUID).unwrap(), None);
    let lease = take_now(&leases, "x").unwrap();
    assert_eq!(leases.holder(UUID).unwrap().unwrap().pid, Some(std::process::id()));
    drop(lease);
}

#[test]
fn two_who_wait_both_get_it_in_the_end() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("leases");
    let leases = Leases::at(&folder).unwrap();
    let first = take_now(&leases, "first").unwrap();
    let mut waiting = [Holder::start(&folder, "passes"), Holder::start(&folder, "passes")];
    drop(first);
    for holder in &mut waiting {
        holder.said("holding");
        assert!(holder.child.wait().unwrap().success());
    }
    assert_eq!(leases.holder(UUID).unwrap(), None);
}

#[test]
fn a_waiter_wakes_when_the_holder_is_killed() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("leases");
    let leases = Leases::at(&folder).unwrap();
    let mut holder = Holder::start(&folder, "holds");
    holder.said("holding");
    let mut killed = false;
    let lease = leases.acquire(UUID, &claim("next"), Some(PATIENCE), &mut |_| {
        if !killed {
            holder.kill();
            killed = true;
        }
    });
    assert!(killed && lease.is_ok());
}

#[test]
fn what_a_killed_holder_left_behind_keeps_a_shared_lease_and_a_dropped_one_is_free() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("leases");
    let leases = Leases::at(&folder).unwrap();
    let mut holder = Holder::start(&folder, "leaves something behind");
    let left = holder.said("holding").to_string();
    holder.kill();
    let known = leases.holder(UUID).unwrap().unwrap();
    assert!(known.orphaned, "{known:?}");
    assert!(known.describe(0).contains("left behind"));
    assert!(Command::new("kill").arg(&left).status().unwrap().success());
    leases.acquire(UUID, &claim("next"), Some(PATIENCE), &mut |_| {}).unwrap();

    let mut holder = Holder::start(&folder, "leaves something behind");
    holder.said("holding");
    holder.send_byte();
    holder.said("dropped");
    assert_eq!(leases.holder(UUID).unwrap(), None, "dropped, whoever still runs");
    holder.send_byte();
    assert!(holder.child.wait().unwrap().success());
}
