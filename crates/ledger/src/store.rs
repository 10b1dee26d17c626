//! The SQLite file: append in one transaction, read with the chain checked.

use crate::anchor::{self, Anchor};
use crate::artefact::{self, Artefact, Kind};
use crate::entry::Entry;
use crate::error::LedgerError;
use crate::place;
use crate::row::Row;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of the file's form. Version 1 had no kinds of artefacts and dropped none.
pub const FORMAT: u32 = 2;
/// How long a writer waits for another.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

const SCHEMA: &str = "
    CREATE TABLE campaign (id TEXT NOT NULL);
    CREATE TABLE row (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
                      prev TEXT NOT NULL, hash TEXT NOT NULL);
    CREATE TABLE artefact (hash TEXT PRIMARY KEY, kind TEXT NOT NULL, size INTEGER NOT NULL, data BLOB) WITHOUT ROWID;
";

/// What a caller wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read only; works on a read-only folder too.
    Read,
    /// Read and append.
    Write,
}

/// Entries and artefacts that are added together or not at all.
#[derive(Debug, Default)]
pub struct Batch {
    pub(crate) entries: Vec<Entry>,
    pub(crate) artefacts: Vec<Artefact>,
}

impl Batch {
    /// A batch of one entry.
    #[must_use]
    pub fn of(entry: Entry) -> Self {
        Self { entries: vec![entry], artefacts: Vec::new() }
    }
    /// Adds an entry.
    pub fn push(&mut self, entry: Entry) -> &mut Self {
        self.entries.push(entry);
        self
    }
    /// Adds an artefact and returns its name.
    pub fn keep(&mut self, artefact: Artefact) -> String {
        let hash = artefact.hash();
        self.artefacts.push(artefact);
        hash
    }
}

/// A campaign's ledger.
#[derive(Debug)]
pub struct Ledger {
    pub(crate) connection: Connection,
    folder: PathBuf,
    path: PathBuf,
    campaign: String,
    format: u32,
}

impl Ledger {
    /// The file of the ledger in a campaign's folder.
    #[must_use]
    pub fn file(folder: &Path) -> PathBuf {
        folder.join("ledger.sqlite")
    }

    /// Makes an empty ledger.
    ///
    /// # Errors
    /// When there is one already, or the folder cannot hold one.
    pub fn create(folder: &Path, campaign: &str) -> Result<Self, LedgerError> {
        std::fs::create_dir_all(folder).map_err(|e| LedgerError::file(folder, e))?;
        place::refuse_network(folder)?;
        let path = Self::file(folder);
        if path.exists() {
            return Err(LedgerError::Exists { path });
        }
        // Made beside its place and renamed: a crash on the way leaves no half-made ledger.
        let building = folder.join(format!("ledger.{}.tmp", std::process::id()));
        let _ = std::fs::remove_file(&building);
        let fail = |e| LedgerError::database(&path, e);
        let made = (|| {
            let connection = Connection::open(&building)?;
            connection.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;")?;
            connection.execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {FORMAT}; COMMIT;"))?;
            connection.execute("INSERT INTO campaign (id) VALUES (?1)", [campaign])?;
            connection.close().map_err(|(_, e)| e)
        })();
        made.map_err(fail)?;
        std::fs::rename(&building, &path).map_err(|e| LedgerError::file(&path, e))?;
        Self::open(folder, Access::Write)
    }

    /// Opens a ledger. For writing, an older form is brought up to date first, rows untouched.
    ///
    /// # Errors
    /// When it is not there, is of a newer form, is damaged, or lies where it must not.
    pub fn open(folder: &Path, access: Access) -> Result<Self, LedgerError> {
        let path = Self::file(folder);
        if !path.is_file() {
            let missing = std::io::Error::new(std::io::ErrorKind::NotFound, "there is no ledger here");
            return Err(LedgerError::File { path, source: missing });
        }
        place::refuse_network(folder)?;
        let fail = |e| LedgerError::database(&path, e);
        let connection = connect(&path, access).map_err(fail)?;
        let format: u32 = connection.query_row("PRAGMA user_version", [], |r| r.get(0)).map_err(fail)?;
        if format == 0 {
            return Err(LedgerError::Broken {
                path,
                seq: 0,
                what: "and what follows: this is no ledger".into(),
            });
        }
        if format > FORMAT {
            return Err(LedgerError::Newer { path, format, known: FORMAT });
        }
        let campaign = connection
            .query_row("SELECT id FROM campaign", [], |r| r.get(0))
            .optional()
            .map_err(fail)?
            .ok_or_else(|| LedgerError::Broken {
                path: path.clone(),
                seq: 0,
                what: "and what follows: the ledger does not say whose it is".into(),
            })?;
        let mut ledger = Self { connection, folder: folder.to_owned(), path, campaign, format };
        if access == Access::Write && format < FORMAT {
            ledger.migrate()?;
        }
        Ok(ledger)
    }

    fn migrate(&mut self) -> Result<(), LedgerError> {
        let path = self.path.clone();
        let fail = |e| LedgerError::database(&path, e);
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        transaction
            .execute_batch(
                "ALTER TABLE artefact RENAME TO artefact_1;
                 CREATE TABLE artefact (hash TEXT PRIMARY KEY, kind TEXT NOT NULL, size INTEGER NOT NULL, data BLOB)
                     WITHOUT ROWID;
                 INSERT INTO artefact (hash, kind, size, data)
                     SELECT hash, 'log', length(data), data FROM artefact_1;
                 DROP TABLE artefact_1;",
            )
            .and_then(|()| transaction.pragma_update(None, "user_version", FORMAT))
            .and_then(|()| transaction.commit())
            .map_err(fail)?;
        self.format = FORMAT;
        Ok(())
    }

    /// Campaign id.
    #[must_use]
    pub fn campaign(&self) -> &str {
        &self.campaign
    }
    /// The campaign's folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn fail(&self, error: rusqlite::Error) -> LedgerError {
        LedgerError::database(&self.path, error)
    }

    /// Number and hash of the last row; 0 and the genesis hash for an empty ledger.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn head(&self) -> Result<(u64, String), LedgerError> {
        last(&self.connection, &self.campaign).map(|l| (l.seq, l.hash)).map_err(|e| self.fail(e))
    }

    /// Adds a batch and returns its rows. Durable when this returns; all of it or nothing.
    ///
    /// `now_ms` is the machine's clock. If it has gone back, the row takes the time of the row before, so that order
    /// and time never disagree; see [`Ledger::clock_behind`].
    ///
    /// # Errors
    /// When there is no room, no right, or another writer does not finish.
    pub fn append(&mut self, batch: Batch, now_ms: i64) -> Result<Vec<Row>, LedgerError> {
        let path = self.path.clone();
        let rows = write(&mut self.connection, &path, &self.campaign, batch, now_ms)?;
        if let Some(row) = rows.last() {
            // The rows are safe; an anchor that cannot be moved only sees less.
            let _ = anchor::advance(&self.folder, &Anchor { seq: row.seq, hash: row.hash.clone() });
        }
        Ok(rows)
    }

    /// By how many milliseconds the clock is behind the last row; 0 if it is not.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn clock_behind(&self, now_ms: i64) -> Result<i64, LedgerError> {
        let last = last(&self.connection, &self.campaign).map_err(|e| self.fail(e))?;
        Ok((last.at_ms - now_ms).max(0))
    }

    /// Every row, the chain checked from the first to the last, and the end against the anchor.
    ///
    /// # Errors
    /// The first row that is wrong.
    pub fn rows(&self) -> Result<Vec<Row>, LedgerError> {
        let mut found = Vec::new();
        self.each(|row| found.push(row))?;
        Ok(found)
    }

    /// Calls `take` with every row in order, the chain checked.
    ///
    /// # Errors
    /// The first row that is wrong.
    pub fn each(&self, mut take: impl FnMut(Row)) -> Result<(), LedgerError> {
        let anchor = anchor::read(&self.folder);
        let mut statement = self
            .connection
            .prepare_cached("SELECT seq, at_ms, kind, body, prev, hash FROM row ORDER BY seq")
            .map_err(|e| self.fail(e))?;
        let mut rows = statement.query([]).map_err(|e| self.fail(e))?;
        let (mut seq, mut at_ms, mut hash) = (0, i64::MIN, Row::genesis(&self.campaign));
        let broken = |seq: u64, what: &str| LedgerError::Broken {
            path: self.path.clone(),
            seq,
            what: what.to_owned(),
        };
        while let Some(found) = rows.next().map_err(|e| self.fail(e))? {
            let row = read(found).map_err(|_| broken(seq + 1, "holds values of a wrong type"))?;
            if let Some(fault) = row.fault(seq, at_ms, &hash) {
                return Err(broken(row.seq, fault));
            }
            if anchor.as_ref().is_some_and(|a| a.seq == row.seq && a.hash != row.hash) {
                return Err(broken(row.seq, "is not the one that was written: the ledger was replaced"));
            }
            (seq, at_ms) = (row.seq, row.at_ms);
            hash.clone_from(&row.hash);
            take(row);
        }
        match anchor {
            Some(anchor) if anchor.seq > seq => {
                Err(broken(seq + 1, &format!("is missing: row {} had been written", anchor.seq)))
            }
            _ => Ok(()),
        }
    }

    /// An artefact's bytes; `None` if it was dropped by the retention rule.
    ///
    /// # Errors
    /// When it was never there, or is not what its name says.
    pub fn artefact(&self, hash: &str) -> Result<Option<Vec<u8>>, LedgerError> {
        let wrong = |what: &str| LedgerError::Artefact {
            path: self.path.clone(),
            hash: hash.to_owned(),
            what: what.to_owned(),
        };
        let found: Option<Option<Vec<u8>>> = self
            .connection
            .query_row("SELECT data FROM artefact WHERE hash = ?1", [hash], |r| r.get(0))
            .optional()
            .map_err(|e| self.fail(e))?;
        match found {
            None => Err(wrong("is missing")),
            Some(None) => Ok(None),
            Some(Some(data)) if artefact::hash(&data) == hash => Ok(Some(data)),
            Some(Some(_)) => Err(wrong("was changed after it was written")),
        }
    }

    /// Names, kinds and sizes of all artefacts, dropped ones with `false`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn artefacts(&self) -> Result<BTreeMap<String, (Kind, u64, bool)>, LedgerError> {
        let sql = if self.format == 1 {
            "SELECT hash, 'log', length(data), 1 FROM artefact"
        } else {
            "SELECT hash, kind, size, data IS NOT NULL FROM artefact"
        };
        let mut statement = self.connection.prepare(sql).map_err(|e| self.fail(e))?;
        let found = statement
            .query_map([], |r| {
                let kind = Kind::of(&r.get::<_, String>(1)?).unwrap_or(Kind::Log);
                Ok((r.get(0)?, (kind, r.get::<_, i64>(2)?.unsigned_abs(), r.get(3)?)))
            })
            .and_then(Iterator::collect)
            .map_err(|e| self.fail(e))?;
        Ok(found)
    }

    /// Bytes that the file takes.
    #[must_use]
    pub fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |m| m.len())
    }

    /// Sets the most pages that the file may have, so that a test can fill the disk.
    #[doc(hidden)]
    pub fn limit_pages(&self, pages: u32) -> Result<(), LedgerError> {
        self.connection.pragma_update(None, "max_page_count", pages).map_err(|e| self.fail(e))
    }
}

fn connect(path: &Path, access: Access) -> rusqlite::Result<Connection> {
    let flags = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(PATIENCE)?;
    if access == Access::Write {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
    } else if connection.query_row("SELECT count(*) FROM sqlite_master", [], |r| r.get::<_, i64>(0)).is_err()
    {
        // A read-only folder cannot hold the index of the write-ahead log. Without writers there is nothing in it.
        let uri = format!(
            "file:{}?immutable=1",
            path.display().to_string().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
        );
        return Connection::open_with_flags(
            uri,
            flags | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI,
        );
    }
    Ok(connection)
}

struct Last {
    seq: u64,
    at_ms: i64,
    hash: String,
}

fn last(connection: &Connection, campaign: &str) -> rusqlite::Result<Last> {
    let found = connection
        .query_row("SELECT seq, at_ms, hash FROM row ORDER BY seq DESC LIMIT 1", [], |r| {
            Ok(Last { seq: r.get::<_, i64>(0)?.unsigned_abs(), at_ms: r.get(1)?, hash: r.get(2)? })
        })
        .optional()?;
    Ok(found.unwrap_or_else(|| Last { seq: 0, at_ms: i64::MIN, hash: Row::genesis(campaign) }))
}

fn write(
    connection: &mut Connection,
    path: &Path,
    campaign: &str,
    batch: Batch,
    now_ms: i64,
) -> Result<Vec<Row>, LedgerError> {
    let fail = |e| LedgerError::database(path, e);
    let bodies = batch
        .entries
        .iter()
        .map(|entry| Ok((entry.kind(), serde_json::to_string(entry)?)))
        .collect::<Result<Vec<_>, serde_json::Error>>()?;
    // Immediate: the last row is read under the lock that the new ones are written under.
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    for artefact in batch.artefacts {
        keep(&transaction, &artefact).map_err(fail)?;
    }
    let mut before = last(&transaction, campaign).map_err(fail)?;
    let mut rows = Vec::new();
    for (kind, body) in bodies {
        let (seq, at_ms) = (before.seq + 1, now_ms.max(before.at_ms));
        let hash = Row::hash_of(seq, at_ms, kind, &body, &before.hash);
        let row = Row { seq, at_ms, kind: kind.to_owned(), body, prev: before.hash, hash };
        insert(&transaction, &row).map_err(fail)?;
        before = Last { seq, at_ms, hash: row.hash.clone() };
        rows.push(row);
    }
    transaction.commit().map_err(fail)?;
    Ok(rows)
}

pub(crate) fn insert(transaction: &Transaction<'_>, row: &Row) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO row (seq, at_ms, kind, body, prev, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![row.seq.cast_signed(), row.at_ms, row.kind, row.body, row.prev, row.hash])
        .map(|_| ())
}

/// Keeps an artefact. One that was dropped before comes back.
pub(crate) fn keep(transaction: &Transaction<'_>, artefact: &Artefact) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO artefact (hash, kind, size, data) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (hash) DO UPDATE SET data = excluded.data WHERE artefact.data IS NULL",
        )?
        .execute(params![artefact.hash(), artefact.kind.as_str(), artefact.data.len() as i64, artefact.data])
        .map(|_| ())
}

fn read(found: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok(Row {
        seq: found.get::<_, i64>(0)?.unsigned_abs(),
        at_ms: found.get(1)?,
        kind: found.get(2)?,
        body: found.get(3)?,
        prev: found.get(4)?,
        hash: found.get(5)?,
    })
}

#[cfg(test)]
mod tests;
