//! One lease a GPU, shared by everything on a machine that asks for it: evaluations and `kernelseek gpu -- CMD`.
//!
//! A lease is a file in a folder that every user may write to, locked with `flock`: the kernel lets go of it however its
//! holder ends. What is written in the file says who holds it, for those who wait; it decides nothing. Leases are kept
//! by those who ask for them and bind nobody else: who does not ask is noticed through NVML.
//!
//! What runs under a lease passes a token to what it starts, so that an evaluation inside `kernelseek gpu -- CMD` does
//! not wait for the command around it. It takes a lease of the next level instead, so that two of them wait for each
//! other.

mod folder;
mod holder;
pub mod run;
mod token;

pub use holder::Holder;
pub use token::VARIABLE;

use folder::LockFile;
use holder::Record;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use token::Token;

/// Longest pause between two looks at a lease that somebody else holds.
const LOOK: Duration = Duration::from_millis(250);
/// First such pause.
const FIRST_LOOK: Duration = Duration::from_millis(10);

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Somebody holds it, and the patience has run out.
    #[error("the GPU is taken: {}", .0.describe(now_ms()))]
    Held(Box<Holder>),
    /// The folder or a file in it is not what leases can be kept in.
    #[error("{}: {why}", path.display())]
    Unfit {
        /// The folder or file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system refused.
    #[error("{}: {operation}", path.display())]
    System {
        /// The folder or file.
        path: PathBuf,
        /// What was tried.
        operation: &'static str,
        /// The answer.
        source: std::io::Error,
    },
}

/// The folder with the leases of a machine.
#[derive(Debug, Clone)]
pub struct Leases {
    path: PathBuf,
}

/// Who asks for a lease, and how.
#[derive(Debug, Clone, Default)]
pub struct Claim {
    /// What it is for, as those who wait read it. Other users can read it.
    pub command: String,
    /// How long it is meant to last. Whoever holds it longer is called overdue, and is left alone.
    pub lasts: Option<Duration>,
    /// The value of [`VARIABLE`] in the caller's environment, if there is one.
    pub within: Option<String>,
}

/// A lease that is held until it is dropped.
#[derive(Debug)]
pub struct Lease {
    file: OwnedFd,
    writable: bool,
    token: Token,
}

/// Milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

impl Leases {
    /// The machine's own folder: the first of `/run/lock/kernelseek` and `/tmp/kernelseek-leases` that is there or can
    /// be made.
    ///
    /// # Errors
    /// When neither can be used.
    pub fn shared() -> Result<Self, LeaseError> {
        let mut refused = None;
        for path in ["/run/lock/kernelseek", "/tmp/kernelseek-leases"] {
            match folder::prepare(Path::new(path)) {
                Ok(()) => return Ok(Self { path: path.into() }),
                Err(error @ LeaseError::Unfit { .. }) => return Err(error),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| LeaseError::Unfit { path: "/".into(), why: "no folder".into() }))
    }

    /// A folder that the caller names, made if it does not exist.
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn at(path: &Path) -> Result<Self, LeaseError> {
        folder::prepare(path)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Where the leases are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.path
    }

    /// Takes the lease of the GPU with this UUID, waiting for it up to `wait`: zero does not wait, `None` waits for
    /// ever. `on_wait` is called with the holder at every look until the lease is there.
    ///
    /// # Errors
    /// [`LeaseError::Held`] when the patience has run out; otherwise that the folder cannot be used.
    pub fn acquire(
        &self,
        uuid: &str,
        claim: &Claim,
        wait: Option<Duration>,
        on_wait: &mut dyn FnMut(&Holder),
    ) -> Result<Lease, LeaseError> {
        let started = Instant::now();
        let mut pause = FIRST_LOOK;
        loop {
            let level = self.level(uuid, claim.within.as_deref());
            let holder = match self.try_take(uuid, level, claim)? {
                Ok(lease) => return Ok(lease),
                Err(holder) => holder,
            };
            if let Some(left) = wait.map(|w| w.saturating_sub(started.elapsed())) {
                if left.is_zero() {
                    return Err(LeaseError::Held(Box::new(holder)));
                }
                pause = pause.min(left);
            }
            on_wait(&holder);
            std::thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }

    /// Who holds the lease of a GPU now, if anybody does.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn holder(&self, uuid: &str) -> Result<Option<Holder>, LeaseError> {
        let Some(file) = folder::open_existing(&self.path, &token::file_name(uuid, 0))? else {
            return Ok(None);
        };
        match rustix::fs::flock(file.fd.as_fd(), FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(None),
            Err(Errno::WOULDBLOCK) => Ok(Some(holder::read(&file))),
            Err(error) => Err(file.error("looking at the lock", error)),
        }
    }

    /// The level to take: one above that of the token, if the token is that of the lease as it is held now.
    fn level(&self, uuid: &str, within: Option<&str>) -> u32 {
        let Some(token) = within.and_then(Token::parse).filter(|t| t.uuid == uuid) else { return 0 };
        let file = folder::open_existing(&self.path, &token::file_name(uuid, token.level));
        let Ok(Some(file)) = file else { return 0 };
        let held = rustix::fs::flock(file.fd.as_fd(), FlockOperation::NonBlockingLockShared)
            == Err(Errno::WOULDBLOCK);
        // A holder that could not write its record cannot be checked: it is believed, as a token is hard to guess and
        // harms nobody but who runs on the GPU.
        let same = holder::record(&file).is_none_or(|r| r.token == token.digest());
        if held && same { token.level + 1 } else { 0 }
    }

    fn try_take(&self, uuid: &str, level: u32, claim: &Claim) -> Result<Result<Lease, Holder>, LeaseError> {
        let name = token::file_name(uuid, level);
        loop {
            let file = folder::open_or_make(&self.path, &name)?;
            match rustix::fs::flock(file.fd.as_fd(), FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Err(holder::read(&file))),
                Err(error) => return Err(file.error("locking", error)),
            }
            // Somebody may have removed the file between opening and locking; another would then lock a new one.
            if !folder::is_current(&self.path, &name, &file) {
                continue;
            }
            let token = Token::new(uuid, level).map_err(|source| LeaseError::System {
                path: "/dev/urandom".into(),
                operation: "making a token",
                source,
            })?;
            if file.writable {
                // Nothing rests on it but what those who wait are told.
                let _ = holder::write(&file, &Record::of_this_process(claim, &token, now_ms()));
            }
            let LockFile { fd, writable, .. } = file;
            return Ok(Ok(Lease { file: fd, writable, token }));
        }
    }
}

impl Lease {
    /// The value of [`VARIABLE`] for what runs under this lease.
    #[must_use]
    pub fn token(&self) -> String {
        self.token.text()
    }

    /// Whether it was taken inside another one.
    #[must_use]
    pub const fn is_inner(&self) -> bool {
        self.token.level > 0
    }

    /// Lets what is started from now on keep the lease, should this process be killed: it is then free when the last
    /// of them has ended. Dropping the lease frees it whoever still runs.
    ///
    /// # Errors
    /// When the descriptor cannot be changed.
    pub fn share_with_children(&self) -> std::io::Result<()> {
        Ok(rustix::io::fcntl_setfd(&self.file, rustix::io::FdFlags::empty())?)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.writable {
            let _ = rustix::fs::ftruncate(&self.file, 0);
        }
        // Closing is not enough where children hold the descriptor too.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests;
