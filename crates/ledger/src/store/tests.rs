use super::*;
use crate::entry::{Created, PersonAsked, Pruned};
use kernelseek_core::campaign_file::Retention;
use proptest::prelude::*;

/// The form of version 1, as it was written then.
pub(crate) const SCHEMA_1: &str = "
    CREATE TABLE campaign (id TEXT NOT NULL);
    CREATE TABLE row (seq INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
                      prev TEXT NOT NULL, hash TEXT NOT NULL);
    CREATE TABLE artefact (hash TEXT PRIMARY KEY, data BLOB NOT NULL);
    PRAGMA user_version = 1;
";

fn asked(text: &str) -> Entry {
    Entry::PersonAsked(PersonAsked { question: text.to_owned() })
}

fn ledger() -> (tempfile::TempDir, Ledger) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::create(&dir.path().join("c"), "c").unwrap();
    let mut batch = Batch::of(Entry::Created(Created { campaign: "c".into(), tool: "0".into() }));
    batch.keep(Artefact::new(Kind::Source, b"int x;".to_vec()));
    ledger.append(batch, 1_000).unwrap();
    for i in 0..4 {
        ledger.append(Batch::of(asked(&format!("why {i}?"))), 2_000 + i).unwrap();
    }
    (dir, ledger)
}

#[test]
fn rows_come_back_as_they_were_written() {
    let (_dir, ledger) = ledger();
    let rows = ledger.rows().unwrap();
    assert_eq!(rows.iter().map(|r| r.seq).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(rows[4].entry().unwrap(), asked("why 3?"));
    assert_eq!(ledger.head().unwrap(), (5, rows[4].hash.clone()));
    let hash = artefact::hash(b"int x;");
    assert_eq!(ledger.artefact(&hash).unwrap().unwrap(), b"int x;");
    assert!(matches!(ledger.artefact("00"), Err(LedgerError::Artefact { .. })));
    let reader = Ledger::open(ledger.folder(), Access::Read).unwrap();
    assert_eq!(reader.rows().unwrap(), rows);
    assert!(matches!(Ledger::create(ledger.folder(), "c"), Err(LedgerError::Exists { .. })));
}

#[test]
fn a_batch_is_added_whole_or_not_at_all() {
    let (_dir, mut ledger) = ledger();
    ledger.limit_pages(8).unwrap();
    let before = ledger.rows().unwrap();
    let mut batch = Batch::of(asked("small?"));
    let hash = batch.keep(Artefact::new(Kind::Raw, vec![7; 1 << 20]));
    let error = ledger.append(batch, 3_000).unwrap_err();
    assert!(matches!(error, LedgerError::Full { .. }), "{error:?}");
    assert!(error.to_string().contains("nothing was lost") && error.hint().is_some());
    assert_eq!(ledger.rows().unwrap(), before);
    assert!(ledger.artefact(&hash).is_err());
    ledger.limit_pages(100_000).unwrap();
    ledger.append(Batch::of(asked("small?")), 3_000).unwrap();
    assert_eq!(ledger.rows().unwrap().len(), before.len() + 1);
}

#[test]
fn a_clock_that_goes_back_is_seen_and_changes_no_order() {
    let (_dir, mut ledger) = ledger();
    assert_eq!(ledger.clock_behind(2_003).unwrap(), 0);
    assert_eq!(ledger.clock_behind(-500).unwrap(), 2_503);
    let row = ledger.append(Batch::of(asked("late?")), -500).unwrap().remove(0);
    assert_eq!((row.seq, row.at_ms), (6, 2_003));
    assert_eq!(ledger.rows().unwrap().len(), 6);
}

/// Every way to change a row by hand is seen, and named by the row.
#[test]
fn a_changed_row_is_found() {
    for (sql, seq) in [
        ("UPDATE row SET body = replace(body, 'why', 'how') WHERE seq = 3", 3),
        ("UPDATE row SET body = substr(body, 1, length(body) - 3) WHERE seq = 4", 4),
        ("UPDATE row SET at_ms = at_ms + 1 WHERE seq = 3", 3),
        ("UPDATE row SET kind = 'promoted' WHERE seq = 2", 2),
        ("UPDATE row SET hash = prev WHERE seq = 2", 2),
        ("UPDATE row SET body = x'00' WHERE seq = 5", 5),
        ("DELETE FROM row WHERE seq = 3", 4),
        ("DELETE FROM row WHERE seq = 1", 2),
        ("DELETE FROM row WHERE seq = 5", 5),
        ("DELETE FROM row", 1),
        ("UPDATE row SET seq = 9 WHERE seq = 5", 9),
        ("UPDATE campaign SET id = 'other'", 1),
    ] {
        let (_dir, ledger) = ledger();
        ledger.connection.execute(sql, []).unwrap();
        let folder = ledger.folder().to_owned();
        drop(ledger);
        match Ledger::open(&folder, Access::Read).unwrap().rows() {
            Err(LedgerError::Broken { seq: found, .. }) => assert_eq!(found, seq, "{sql}"),
            other => panic!("{sql}: {other:?}"),
        }
    }
}

/// A chain that was computed anew from a changed row on is whole in itself; the anchor knows better.
#[test]
fn a_rewritten_end_is_found_by_the_anchor() {
    let (_dir, ledger) = ledger();
    let rows = ledger.rows().unwrap();
    let mut prev = rows[3].prev.clone();
    for row in &rows[3..] {
        let body = row.body.replace("why", "how");
        let hash = Row::hash_of(row.seq, row.at_ms, &row.kind, &body, &prev);
        ledger
            .connection
            .execute(
                "UPDATE row SET body = ?1, prev = ?2, hash = ?3 WHERE seq = ?4",
                params![body, prev, hash, row.seq.cast_signed()],
            )
            .unwrap();
        prev = hash;
    }
    let error = ledger.rows().unwrap_err();
    assert!(error.to_string().contains("replaced"), "{error}");
}

#[test]
fn a_changed_artefact_is_found() {
    let (_dir, ledger) = ledger();
    ledger.connection.execute("UPDATE artefact SET data = x'00'", []).unwrap();
    let error = ledger.artefact(&artefact::hash(b"int x;")).unwrap_err();
    assert!(error.to_string().contains("was changed"), "{error}");
}

#[test]
fn writers_at_once_lose_nothing() {
    let (dir, ledger) = ledger();
    drop(ledger);
    let folder = dir.path().join("c");
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let folder = &folder;
            scope.spawn(move || {
                let mut ledger = Ledger::open(folder, Access::Write).unwrap();
                for i in 0..20 {
                    ledger.append(Batch::of(asked(&format!("{writer} {i}"))), 5_000).unwrap();
                }
            });
        }
    });
    let rows = Ledger::open(&folder, Access::Read).unwrap().rows().unwrap();
    assert_eq!(rows.len(), 85);
}

#[test]
fn a_ledger_of_version_1_is_read_as_it_is_and_brought_up_to_date_for_writing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("old");
    std::fs::create_dir(&folder).unwrap();
    let connection = Connection::open(Ledger::file(&folder)).unwrap();
    connection.execute_batch(SCHEMA_1).unwrap();
    connection.execute("INSERT INTO campaign (id) VALUES ('old')", []).unwrap();
    let (mut prev, mut hashes) = (Row::genesis("old"), Vec::new());
    for seq in 1..=3u64 {
        let body = format!(r#"{{"kind":"person_asked","question":"why {seq}?"}}"#);
        let hash = Row::hash_of(seq, 10, "person_asked", &body, &prev);
        connection
            .execute(
                "INSERT INTO row VALUES (?1, 10, 'person_asked', ?2, ?3, ?4)",
                params![seq.cast_signed(), body, prev, hash],
            )
            .unwrap();
        hashes.push(hash.clone());
        prev = hash;
    }
    let data = b"old bytes".to_vec();
    connection.execute("INSERT INTO artefact VALUES (?1, ?2)", params![artefact::hash(&data), data]).unwrap();
    drop(connection);

    let reader = Ledger::open(&folder, Access::Read).unwrap();
    assert_eq!(reader.rows().unwrap().len(), 3);
    assert_eq!(reader.artefact(&artefact::hash(&data)).unwrap().unwrap(), data);
    assert_eq!(reader.artefacts().unwrap().len(), 1);
    drop(reader);
    let mut writer = Ledger::open(&folder, Access::Write).unwrap();
    writer.append(Batch::of(asked("new?")), 20).unwrap();
    let rows = writer.rows().unwrap();
    assert_eq!(rows.iter().take(3).map(|r| r.hash.clone()).collect::<Vec<_>>(), hashes, "rows untouched");
    assert_eq!(rows.len(), 4);
    assert_eq!(writer.artefact(&artefact::hash(&data)).unwrap().unwrap(), data);
}

#[test]
fn what_is_no_ledger_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Ledger::open(dir.path(), Access::Read), Err(LedgerError::File { .. })));
    std::fs::write(Ledger::file(dir.path()), "not a database at all, but long enough to be looked at")
        .unwrap();
    assert!(Ledger::open(dir.path(), Access::Write).is_err());
    std::fs::write(Ledger::file(dir.path()), "").unwrap();
    assert!(matches!(Ledger::open(dir.path(), Access::Read), Err(LedgerError::Broken { .. })));
    let (_dir, ledger) = ledger();
    ledger.connection.pragma_update(None, "user_version", FORMAT + 1).unwrap();
    let folder = ledger.folder().to_owned();
    assert!(matches!(Ledger::open(&folder, Access::Write), Err(LedgerError::Newer { .. })));
}

#[test]
fn dropped_bulk_leaves_its_name_and_a_row() {
    let (_dir, mut ledger) = ledger();
    let evaluated = |raw: &str| -> Entry {
        serde_json::from_value(serde_json::json!({
            "kind": "evaluated", "started": 1, "purpose": "attempt", "tier": "default", "mode": "cold",
            "whole_grid": true, "seal": "s", "candidate": "k.c", "candidate_hash": "h", "sources": [],
            "word": "PASS", "passed": "plausible", "trust": "full", "counts": {"scenarios": 1, "passed": 1,
            "unresolved": 0, "unproven": 0, "failing": 0, "fallbacks": 0}, "geomean": null, "verdict": "v",
            "raw": raw, "seconds": 1.0
        }))
        .unwrap()
    };
    let mut hashes = Vec::new();
    for i in 0..6u8 {
        let mut batch = Batch::default();
        let hash = batch.keep(Artefact::new(Kind::Raw, vec![i; 100]));
        batch.push(evaluated(&hash));
        ledger.append(batch, 3_000).unwrap();
        hashes.push(hash);
    }
    // The second evaluation became the incumbent (its row is 7).
    let promoted: Entry = serde_json::from_value(serde_json::json!({
        "kind": "promoted", "evaluated": 7, "first": 7, "candidate_hash": "h",
        "geomean": {"point": 1.2, "lo": 1.1, "hi": 1.3, "instances": 3, "pairs": 9}
    }))
    .unwrap();
    ledger.append(Batch::of(promoted), 3_000).unwrap();
    let rule = Retention { raw: 2, builds: 2 };
    assert_eq!(ledger.prune(rule, 4_000).unwrap(), 300);
    let present: Vec<bool> = hashes.iter().map(|h| ledger.artefact(h).unwrap().is_some()).collect();
    assert_eq!(present, [false, true, false, false, true, true]);
    let last = ledger.rows().unwrap().pop().unwrap().entry().unwrap();
    assert!(matches!(last, Entry::Pruned(Pruned { artefacts, bytes: 300 }) if artefacts.len() == 3));
    assert_eq!(ledger.prune(rule, 4_000).unwrap(), 0, "once");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any text is kept as it is.
    #[test]
    fn any_text_survives(text in ".{0,200}") {
        let dir = tempfile::tempdir().unwrap();
        let mut ledger = Ledger::create(dir.path(), "c").unwrap();
        ledger.append(Batch::of(asked(&text)), 1).unwrap();
        prop_assert_eq!(ledger.rows().unwrap()[0].entry().unwrap(), asked(&text));
    }
}
