//! Who holds a lease, in a file that other users may have written.

use super::folder::LockFile;
use super::token::Token;
use super::{Claim, now_ms};
use crate::cuda::plain::plain;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bytes of a record that are read at most.
const LONGEST: usize = 4096;
/// Characters of a command that are kept.
const COMMAND: usize = 120;

/// What stands in the file of a lease.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) pid: u32,
    /// When the process started, in ticks since the machine did: ids are used again.
    pub(super) started: Option<u64>,
    /// The pid namespace in which the id counts.
    pub(super) namespace: Option<String>,
    pub(super) host: String,
    pub(super) command: String,
    pub(super) since_ms: u64,
    pub(super) expires_ms: Option<u64>,
    /// Digest of the token.
    pub(super) token: String,
}

/// Who holds a lease, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Its process id.
    pub pid: Option<u32>,
    /// The machine or container that it runs in.
    pub host: Option<String>,
    /// What the lease is for.
    pub command: Option<String>,
    /// Since when, milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// Until when it was announced, milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// Whether the process that took it has ended, and something that it started holds it still.
    pub orphaned: bool,
}

impl Record {
    pub(super) fn of_this_process(claim: &Claim, token: &Token, now_ms: u64) -> Self {
        let pid = std::process::id();
        let lasts = claim.lasts.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
        Self {
            pid,
            started: start_of(pid),
            namespace: namespace(),
            host: host(),
            command: plain(&claim.command, COMMAND),
            since_ms: now_ms,
            expires_ms: lasts.map(|ms| now_ms.saturating_add(ms)),
            token: token.digest(),
        }
    }

    /// Whether its process is known to have ended.
    fn is_dead(&self) -> bool {
        let comparable = self.namespace.is_some() && self.namespace == namespace() && self.host == host();
        comparable && self.started.is_some() && start_of(self.pid) != self.started
    }
}

impl Holder {
    const UNKNOWN: Self =
        Self { pid: None, host: None, command: None, since_ms: None, expires_ms: None, orphaned: false };

    /// How long it has held the lease beyond what it announced.
    #[must_use]
    pub fn overdue(&self, now_ms: u64) -> Option<Duration> {
        let late = now_ms.checked_sub(self.expires_ms?)?;
        (late > 0).then(|| Duration::from_millis(late))
    }

    /// One line: who, what, since when, and whether it is late.
    #[must_use]
    pub fn describe(&self, now_ms: u64) -> String {
        let mut text = match (self.pid, self.orphaned) {
            (Some(pid), false) => format!("process {pid}"),
            (Some(pid), true) => format!("something that process {pid} left behind"),
            (None, _) => "another process".to_owned(),
        };
        if let Some(command) = &self.command {
            text.push_str(&format!(" ({command})"));
        }
        if let Some(host) = self.host.as_ref().filter(|h| **h != host()) {
            text.push_str(&format!(" on {host}"));
        }
        if let Some(since) = self.since_ms {
            text.push_str(&format!(", for {}", span(now_ms.saturating_sub(since))));
        }
        if let Some(late) = self.overdue(now_ms) {
            let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
            text.push_str(&format!(", {} longer than it said", span(late)));
        }
        text
    }
}

/// A length of time in its largest unit.
fn span(ms: u64) -> String {
    match ms / 1000 {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min", s / 60),
        s if s < 172_800 => format!("{} h", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

/// Who holds the lock on this file, which is locked.
pub(super) fn read(file: &LockFile) -> Holder {
    // A lock that was taken by a process belongs to its descriptor: the system names who took it.
    let locker =
        || locker(&std::fs::read_to_string("/proc/locks").unwrap_or_default(), file.device, file.inode);
    match record(file) {
        Some(record) => {
            let orphaned = record.is_dead();
            // A record that a dead holder left is not the one of whoever has locked the file since.
            if orphaned && let Some(pid) = locker().filter(|pid| *pid != record.pid) {
                return Holder { pid: Some(pid), ..Holder::UNKNOWN };
            }
            Holder {
                pid: Some(record.pid),
                host: Some(plain(&record.host, 64)),
                command: Some(plain(&record.command, COMMAND)),
                since_ms: Some(record.since_ms.min(now_ms())),
                expires_ms: record.expires_ms,
                orphaned,
            }
        }
        None => Holder { pid: locker(), ..Holder::UNKNOWN },
    }
}

/// The record in a file, if it is one.
pub(super) fn record(file: &LockFile) -> Option<Record> {
    let mut bytes = vec![0; LONGEST];
    let read = rustix::io::pread(&file.fd, &mut bytes, 0).ok()?;
    bytes.get(..read).and_then(parse)
}

fn parse(bytes: &[u8]) -> Option<Record> {
    serde_json::from_slice(bytes).ok()
}

/// Writes the record. A reader may see half of it, and then sees none.
pub(super) fn write(file: &LockFile, record: &Record) -> std::io::Result<()> {
    let text = serde_json::to_vec(record)?;
    rustix::fs::ftruncate(&file.fd, 0)?;
    let mut done = 0;
    while let Some(rest) = text.get(done..).filter(|r| !r.is_empty()) {
        done += rustix::io::pwrite(&file.fd, rest, done as u64)?;
    }
    Ok(())
}

/// Who has locked a file, in the words of `/proc/locks`: `1: FLOCK ADVISORY WRITE 123 fd:00:456 0 EOF`.
fn locker(locks: &str, device: u64, inode: u64) -> Option<u32> {
    let wanted = format!("{:02x}:{:02x}:{inode}", rustix::fs::major(device), rustix::fs::minor(device));
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, place, ..] = words.as_slice() else { return None };
        (*place == wanted).then(|| pid.parse().ok())?.filter(|pid| *pid > 0)
    })
}

/// When a process started, in ticks since the machine did.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything; the twentieth word after it is the start.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn namespace() -> Option<String> {
    Some(std::fs::read_link("/proc/self/ns/pid").ok()?.to_string_lossy().into_owned())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn who_has_locked_a_file_is_read_from_the_system() {
        let text = "1: POSIX  ADVISORY  WRITE 11 fe:00:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 13 fe:00:77 0 EOF\n3: FLOCK ADVISORY READ 0 fe:00:78 0 EOF\n";
        let device = rustix::fs::makedev(0xfe, 0);
        assert_eq!(locker(text, device, 77), Some(12));
        assert_eq!(locker(text, device, 78), None, "hidden by a namespace");
        assert_eq!(locker(text, device, 79), None);
    }

    #[test]
    fn holders_are_described_in_one_line() {
        let now = 1_000_000_000;
        let mut holder = Holder {
            pid: Some(7),
            host: Some(host()),
            command: Some("kernelseek eval k.cu".into()),
            since_ms: Some(now - 125_000),
            expires_ms: Some(now + 1),
            orphaned: false,
        };
        assert_eq!(holder.describe(now), "process 7 (kernelseek eval k.cu), for 2 min");
        assert_eq!(holder.overdue(now), None);
        holder.expires_ms = Some(now - 7_200_000);
        holder.orphaned = true;
        holder.host = Some("elsewhere".into());
        assert_eq!(
            holder.describe(now),
            "something that process 7 left behind (kernelseek eval k.cu) on elsewhere, for 2 min, 2 h longer than it said"
        );
        assert_eq!(Holder::UNKNOWN.describe(now), "another process");
        for (ms, text) in
            [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (3_600_000, "1 h"), (200_000_000, "2 days")]
        {
            assert_eq!(span(ms), text);
        }
    }

    #[test]
    fn this_process_is_alive_and_one_that_started_at_another_time_is_not() {
        let token = Token::new("GPU-1", 0).unwrap();
        let claim = Claim { command: "x\x1b[31m".repeat(100), lasts: Some(Duration::MAX), within: None };
        let mut record = Record::of_this_process(&claim, &token, 5);
        assert!(!record.is_dead());
        assert_eq!(record.expires_ms, Some(u64::MAX));
        assert!(record.command.chars().count() <= COMMAND + 1 && !record.command.contains('\x1b'));
        assert_eq!(parse(&serde_json::to_vec(&record).unwrap()), Some(record.clone()));
        record.started = record.started.map(|s| s + 1);
        assert!(record.is_dead());
        record.namespace = Some("pid:[1]".into());
        assert!(!record.is_dead(), "cannot be told from here");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".*") {
            let _ = parse(&bytes);
            let _ = locker(&text, 1, 2);
        }
    }
}
