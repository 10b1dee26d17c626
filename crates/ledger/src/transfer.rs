//! How a campaign travels: one JSON object a line, readable, and closed by a hash over everything before.
//!
//! ```text
//! {"kernelseek_ledger":{"format":2,"campaign":"softmax-3fa1","rows":7,"artefacts":3}}
//! {"row":{"seq":1,"at_ms":…,"kind":"created","prev":"…","hash":"…","body":{…}}}
//! {"artefact":{"hash":"…","kind":"source","size":812,"text":"…"}}      or "base64", or "dropped":true
//! {"end":{"head":"…","hash":"…"}}
//! ```
//!
//! The last line holds the BLAKE3 hash of all bytes before it, and is compared as bytes: no byte of the file can change
//! unseen. Whoever changes a file on purpose can compute a new hash; who needs to exclude that keeps the head elsewhere
//! and gives it to `import`.

use crate::artefact::{self, Artefact, Kind};
use crate::entry::{Entry, ImportedFrom};
use crate::error::LedgerError;
use crate::row::Row;
use crate::store::{self, Batch, FORMAT, Ledger};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadLine {
    kernelseek_ledger: Head,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    format: u32,
    campaign: String,
    rows: u64,
    artefacts: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowLine {
    row: RowForm,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowForm {
    seq: u64,
    at_ms: i64,
    kind: String,
    prev: String,
    hash: String,
    body: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtefactLine {
    artefact: ArtefactForm,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArtefactForm {
    hash: String,
    /// Absent in format 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dropped: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndLine {
    end: End,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    head: String,
    hash: String,
}

/// Writes through and hashes.
struct Hashing<W> {
    out: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Hashing<W> {
    fn line<T: Serialize>(&mut self, value: &T) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.hasher.update(&text);
        self.out.write_all(&text)
    }
}

/// Writes the ledger to `out`. `without_bulk` leaves raw pairs and built libraries out, as if they had been dropped.
///
/// # Errors
/// When the ledger is damaged, or `out` cannot be written (then `name` is in the message).
pub fn export(ledger: &Ledger, without_bulk: bool, name: &Path, out: impl Write) -> Result<(), LedgerError> {
    let rows = ledger.rows()?;
    let artefacts = ledger.artefacts()?;
    let fail = |e| LedgerError::file(name, e);
    let mut out = Hashing { out, hasher: blake3::Hasher::new() };
    let head = Head {
        format: FORMAT,
        campaign: ledger.campaign().to_owned(),
        rows: rows.len() as u64,
        artefacts: artefacts.len() as u64,
    };
    out.line(&HeadLine { kernelseek_ledger: head }).map_err(fail)?;
    let last = rows.last().map_or_else(|| Row::genesis(ledger.campaign()), |r| r.hash.clone());
    for row in rows {
        let body = RawValue::from_string(row.body)?;
        let row =
            RowForm { seq: row.seq, at_ms: row.at_ms, kind: row.kind, prev: row.prev, hash: row.hash, body };
        out.line(&RowLine { row }).map_err(fail)?;
    }
    for (hash, (kind, size, _)) in artefacts {
        let bulk = without_bulk && matches!(kind, Kind::Raw | Kind::Library);
        let data = if bulk { None } else { ledger.artefact(&hash)? };
        let (text, base64) = match data.clone().map(String::from_utf8) {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(e)) => (None, Some(STANDARD.encode(e.as_bytes()))),
        };
        let artefact = ArtefactForm { hash, kind: Some(kind), size, text, base64, dropped: data.is_none() };
        out.line(&ArtefactLine { artefact }).map_err(fail)?;
    }
    let hash = out.hasher.finalize().to_hex().to_string();
    let mut end = serde_json::to_vec(&EndLine { end: End { head: last, hash } })?;
    end.push(b'\n');
    out.out.write_all(&end).and_then(|()| out.out.flush()).map_err(fail)
}

/// What came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Campaign id.
    pub campaign: String,
    /// Folder of its ledger.
    pub folder: PathBuf,
    /// Rows that came along.
    pub rows: u64,
    /// Artefacts that came along.
    pub artefacts: u64,
    /// Hash of the last row that came along.
    pub head: String,
}

/// An artefact of an exported file; without data if it had been dropped.
struct Kept {
    hash: String,
    kind: Kind,
    size: u64,
    data: Option<Vec<u8>>,
}

/// An exported file, every byte checked.
struct Parsed {
    campaign: String,
    rows: Vec<Row>,
    artefacts: Vec<Kept>,
    head: String,
}

/// Checks an exported file without importing it: every byte, the chain, and that what rows name is there. Returns the
/// campaign id, the number of rows and the hash of the last one. `name` is for messages.
///
/// # Errors
/// Where the file is damaged.
pub fn check_export(name: &Path, bytes: &[u8]) -> Result<(String, u64, String), LedgerError> {
    let parsed = parse(name, bytes)?;
    Ok((parsed.campaign, parsed.rows.len() as u64, parsed.head))
}

/// Reads an exported file into a new ledger in the state folder.
///
/// # Errors
/// Where the file is damaged; that the campaign exists already; that `head` is not the file's.
pub fn import(
    file: &Path,
    state_dir: &Path,
    head: Option<&str>,
    tool: &str,
    now_ms: i64,
) -> Result<Imported, LedgerError> {
    let bytes = std::fs::read(file).map_err(|e| LedgerError::file(file, e))?;
    let parsed = parse(file, &bytes)?;
    if head.is_some_and(|h| h != parsed.head) {
        return Err(LedgerError::OtherHead { path: file.to_owned(), found: parsed.head });
    }
    let folder = crate::registry::campaigns(state_dir).join(&parsed.campaign);
    // Built beside its place: a crash on the way leaves nothing that looks like a ledger.
    let building = folder.with_extension(format!("import{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&building);
    if Ledger::file(&folder).exists() {
        return Err(LedgerError::Exists { path: Ledger::file(&folder) });
    }
    let written = fill(&building, &parsed, tool, now_ms);
    let placed =
        written.and_then(|()| std::fs::rename(&building, &folder).map_err(|e| LedgerError::file(&folder, e)));
    if let Err(error) = placed {
        let _ = std::fs::remove_dir_all(&building);
        return Err(error);
    }
    Ok(Imported {
        campaign: parsed.campaign,
        folder,
        rows: parsed.rows.len() as u64,
        artefacts: parsed.artefacts.len() as u64,
        head: parsed.head,
    })
}

fn fill(folder: &Path, parsed: &Parsed, tool: &str, now_ms: i64) -> Result<(), LedgerError> {
    let mut ledger = Ledger::create(folder, &parsed.campaign)?;
    let path = ledger.path().to_owned();
    let fail = |e| LedgerError::database(&path, e);
    let transaction = ledger.connection.transaction().map_err(fail)?;
    for row in &parsed.rows {
        store::insert(&transaction, row).map_err(fail)?;
    }
    for Kept { hash, kind, size, data } in &parsed.artefacts {
        match data {
            Some(data) => store::keep(&transaction, &Artefact::new(*kind, data.clone())).map_err(fail)?,
            None => transaction
                .execute(
                    "INSERT INTO artefact (hash, kind, size, data) VALUES (?1, ?2, ?3, NULL)",
                    rusqlite::params![hash, kind.as_str(), size.cast_signed()],
                )
                .map(|_| ())
                .map_err(fail)?,
        }
    }
    transaction.commit().map_err(fail)?;
    let entry = ImportedFrom { head: parsed.head.clone(), tool: tool.to_owned() };
    ledger.append(Batch::of(Entry::ImportedFrom(entry)), now_ms)?;
    Ok(())
}

fn parse(file: &Path, bytes: &[u8]) -> Result<Parsed, LedgerError> {
    let damaged = |line: usize, what: String| LedgerError::Damaged { path: file.to_owned(), line, what };
    let whole =
        bytes.strip_suffix(b"\n").ok_or_else(|| damaged(1, "the file does not end with a line".into()))?;
    let last_start = whole.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    let (before, last) = bytes.split_at(last_start);
    let count = before.iter().filter(|b| **b == b'\n').count();
    let end: EndLine = serde_json::from_slice(last)
        .map_err(|e| damaged(count + 1, format!("the file was cut off, or its end was changed: {e}")))?;
    let hash = blake3::hash(before).to_hex().to_string();
    if end.end.hash != hash {
        return Err(damaged(1, "the file was changed after it was exported: its hash does not match".into()));
    }
    // The closing line vouches for everything before it and for nothing in itself: there is one way to write it.
    let mut canonical = serde_json::to_vec(&end)?;
    canonical.push(b'\n');
    if canonical != last {
        return Err(damaged(count + 1, "the closing line was changed after it was exported".into()));
    }
    let mut lines = before.split_inclusive(|b| *b == b'\n').enumerate().map(|(i, l)| (i + 1, l));
    let (_, first) = lines.next().ok_or_else(|| damaged(1, "the file is empty".into()))?;
    let head: HeadLine =
        serde_json::from_slice(first).map_err(|e| damaged(1, format!("this is no exported ledger: {e}")))?;
    let head = head.kernelseek_ledger;
    if head.format > FORMAT {
        return Err(LedgerError::Newer { path: file.to_owned(), format: head.format, known: FORMAT });
    }
    if !name_is_plain(&head.campaign) {
        return Err(damaged(1, "its campaign id could name another place".into()));
    }
    let mut parsed =
        Parsed { campaign: head.campaign, rows: Vec::new(), artefacts: Vec::new(), head: String::new() };
    let (mut seq, mut at_ms, mut chain) = (0, i64::MIN, Row::genesis(&parsed.campaign));
    for (number, line) in lines {
        if parsed.rows.len() as u64 == head.rows {
            let line: ArtefactLine =
                serde_json::from_slice(line).map_err(|e| damaged(number, format!("no artefact: {e}")))?;
            parsed.artefacts.push(take_artefact(line.artefact).map_err(|what| damaged(number, what))?);
            continue;
        }
        let line: RowLine =
            serde_json::from_slice(line).map_err(|e| damaged(number, format!("no row: {e}")))?;
        let r = line.row;
        let row = Row {
            seq: r.seq,
            at_ms: r.at_ms,
            kind: r.kind,
            body: r.body.get().to_owned(),
            prev: r.prev,
            hash: r.hash,
        };
        if let Some(fault) = row.fault(seq, at_ms, &chain) {
            return Err(damaged(number, format!("row {} {fault}", row.seq)));
        }
        (seq, at_ms) = (row.seq, row.at_ms);
        chain.clone_from(&row.hash);
        parsed.rows.push(row);
    }
    if parsed.rows.len() as u64 != head.rows || parsed.artefacts.len() as u64 != head.artefacts {
        return Err(damaged(1, "rows or artefacts are missing".into()));
    }
    if end.end.head != chain {
        return Err(damaged(count + 1, "the closing line names another last row".into()));
    }
    parsed.head = chain;
    check_references(&parsed).map_err(|what| damaged(1, what))?;
    Ok(parsed)
}

fn name_is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 100
        && !name.starts_with('.')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

fn take_artefact(form: ArtefactForm) -> Result<Kept, String> {
    let data = match (form.text, form.base64, form.dropped) {
        (Some(text), None, false) => Some(text.into_bytes()),
        (None, Some(text), false) => Some(STANDARD.decode(text).map_err(|e| format!("no base64: {e}"))?),
        (None, None, true) => None,
        _ => return Err("an artefact is either text, base64 or dropped".to_owned()),
    };
    if let Some(data) = &data
        && (artefact::hash(data) != form.hash || data.len() as u64 != form.size)
    {
        return Err(format!("artefact {} was changed after it was written", form.hash));
    }
    Ok(Kept { hash: form.hash, kind: form.kind.unwrap_or(Kind::Log), size: form.size, data })
}

/// Every artefact that a row names must be there, be it as a name that is left of a dropped one.
fn check_references(parsed: &Parsed) -> Result<(), String> {
    let known: BTreeMap<&str, bool> =
        parsed.artefacts.iter().map(|a| (a.hash.as_str(), a.data.is_some())).collect();
    if known.len() != parsed.artefacts.len() {
        return Err("an artefact stands twice".to_owned());
    }
    let mut missing = BTreeSet::new();
    for row in &parsed.rows {
        let Ok(entry) = row.entry() else { continue };
        let mut need = |hash: &str, bulk: bool| {
            if !known.get(hash).is_some_and(|present| *present || bulk) {
                missing.insert(hash.to_owned());
            }
        };
        match entry {
            Entry::Evaluated(e) => {
                need(&e.verdict, false);
                e.sources.iter().for_each(|s| need(&s.hash, false));
                e.raw.iter().chain(&e.library).for_each(|h| need(h, true));
            }
            Entry::Sealed(s) => {
                need(&s.artefact, false);
                need(&s.campaign.hash, false);
                s.problem.iter().for_each(|f| need(&f.hash, false));
            }
            _ => {}
        }
    }
    match missing.first() {
        None => Ok(()),
        Some(hash) => {
            Err(format!("{} artefacts that rows name are missing, the first is {hash}", missing.len()))
        }
    }
}

#[cfg(test)]
mod tests;
