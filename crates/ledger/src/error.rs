//! What can go wrong with a ledger, in words that say what is lost (nothing) and what to do.

use std::path::{Path, PathBuf};

/// Why the ledger cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The operating system refuses.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// SQLite refuses.
    #[error("the ledger {path} cannot be used")]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// There is no room for another row.
    #[error("the disk that holds {path} is full; nothing was lost, and nothing was added")]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The folder cannot be written.
    #[error("{path} cannot be written: {why}; nothing was lost, and nothing was added")]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another process holds the ledger for too long.
    #[error("another process has been writing to {path} for {seconds} s")]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long was waited.
        seconds: u64,
    },
    /// Another version wrote it.
    #[error("{path} has format {format}; this version reads up to {known}")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
        /// The largest that is known.
        known: u32,
    },
    /// The chain does not hold.
    #[error("row {seq} of {path} {what}")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The first row that is wrong.
        seq: u64,
        /// What is wrong with it.
        what: String,
    },
    /// An artefact is missing or is not what its name says.
    #[error("artefact {hash} of {path} {what}")]
    Artefact {
        /// The file.
        path: PathBuf,
        /// Its hash.
        hash: String,
        /// What is wrong with it.
        what: String,
    },
    /// The file holds another campaign.
    #[error("{path} belongs to campaign `{found}`, not `{expected}`")]
    OtherCampaign {
        /// The file.
        path: PathBuf,
        /// Whose it is.
        found: String,
        /// Whose it should be.
        expected: String,
    },
    /// An exported file is damaged.
    #[error("{path}:{line}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// The state would lie on a network.
    #[error(
        "{path} lies on a network file system ({kind}), where locks and the order of writes cannot be relied on"
    )]
    Network {
        /// The folder.
        path: PathBuf,
        /// What kind.
        kind: &'static str,
    },
    /// An exported file is whole, and not the one that was asked for.
    #[error("{path} ends with row {found}, not with the one that was asked for")]
    OtherHead {
        /// The file.
        path: PathBuf,
        /// Hash of its last row.
        found: String,
    },
    /// There is a ledger already.
    #[error("{path} exists already")]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A row cannot be written as JSON.
    #[error("a row cannot be written as JSON")]
    Json(#[from] serde_json::Error),
}

impl LedgerError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Full { .. } => Some("free some space and run the same command again"),
            Self::ReadOnly { .. } => Some("make the folder writable, or name another with `--state-dir DIR`"),
            Self::Busy { .. } => Some("wait for the other command, or end it"),
            Self::Newer { .. } => Some("use the newer version, or export there and import here"),
            Self::Broken { .. } | Self::Artefact { .. } => Some(
                "restore the state folder from a copy, or `kernelseek import` the last export; the rows before are intact",
            ),
            Self::Damaged { .. } => Some("export again from the original ledger"),
            Self::OtherHead { .. } => Some(
                "it is another export, or somebody rewrote it: the head is what `kernelseek export` printed",
            ),
            Self::Network { .. } => Some("name a folder on a local disk with `--state-dir DIR`"),
            Self::Exists { .. } => Some(
                "give `--workspace DIR` to go on with it there, or import into another state folder with `--state-dir DIR`",
            ),
            Self::OtherCampaign { .. } => Some("name the right state folder with `--state-dir DIR`"),
            Self::File { .. } | Self::Database { .. } | Self::Json(_) => None,
        }
    }

    pub(crate) fn file(path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Self::Full { path },
            ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
                Self::ReadOnly { path, why: source.to_string() }
            }
            _ => Self::File { path, source },
        }
    }

    pub(crate) fn database(path: &Path, source: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        // The index of the write-ahead log could not grow, which SQLite does not count as a full disk.
        if source.sqlite_error().is_some_and(|e| e.extended_code == rusqlite::ffi::SQLITE_IOERR_SHMSIZE) {
            return Self::Full { path };
        }
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                // The system's word for it, where it has one: SQLite only says that it cannot.
                let folder = path.parent().unwrap_or(&path);
                let refused = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).err();
                let why = refused.map_or_else(|| source.to_string(), |e| std::io::Error::from(e).to_string());
                Self::ReadOnly { path, why }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                Self::Busy { path, seconds: crate::store::PATIENCE.as_secs() }
            }
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Broken { path, seq: 0, what: "and what follows: the file is damaged".to_owned() }
            }
            _ => Self::Database { path, source },
        }
    }
}
