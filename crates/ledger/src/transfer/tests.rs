use super::*;
use crate::entry::{Created, PersonAsked};
use proptest::prelude::*;

fn sample(dir: &Path) -> Ledger {
    let mut ledger = Ledger::create(&dir.join("c-1"), "c-1").unwrap();
    let mut batch = Batch::of(Entry::Created(Created { campaign: "c-1".into(), tool: "0".into() }));
    batch.keep(Artefact::new(Kind::Source, "int x; // ü\n".as_bytes().to_vec()));
    batch.keep(Artefact::new(Kind::Library, vec![0, 159, 146, 150, 255]));
    ledger.append(batch, 1_000).unwrap();
    for i in 0..3 {
        ledger
            .append(Batch::of(Entry::PersonAsked(PersonAsked { question: format!("why {i}?") })), 2_000)
            .unwrap();
    }
    ledger
}

fn exported(ledger: &Ledger, bulk: bool) -> Vec<u8> {
    let mut out = Vec::new();
    export(ledger, !bulk, Path::new("out"), &mut out).unwrap();
    out
}

fn import_bytes(dir: &Path, bytes: &[u8]) -> Result<Imported, LedgerError> {
    let file = dir.join("in.jsonl");
    std::fs::write(&file, bytes).unwrap();
    import(&file, &dir.join("state"), None, "0", 9_000)
}

#[test]
fn a_campaign_travels_whole() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = sample(dir.path());
    let bytes = exported(&ledger, true);
    assert!(bytes.is_ascii() || std::str::from_utf8(&bytes).is_ok());
    let imported = import_bytes(dir.path(), &bytes).unwrap();
    assert_eq!((imported.rows, imported.artefacts), (4, 2));
    let copy = Ledger::open(&imported.folder, crate::Access::Write).unwrap();
    let rows = copy.rows().unwrap();
    assert_eq!(rows[..4], ledger.rows().unwrap()[..]);
    assert!(matches!(rows[4].entry().unwrap(), Entry::ImportedFrom(f) if f.head == imported.head));
    assert_eq!(copy.artefacts().unwrap(), ledger.artefacts().unwrap());
    assert!(
        matches!(import_bytes(dir.path(), &bytes), Err(LedgerError::Exists { .. })),
        "never over another"
    );
    // What was exported twice is the same, and the copy exports too.
    assert_eq!(exported(&ledger, true), bytes);
    exported(&copy, true);
}

#[test]
fn bulk_can_stay_behind() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = sample(dir.path());
    let bytes = exported(&ledger, false);
    let imported = import_bytes(dir.path(), &bytes).unwrap();
    let copy = Ledger::open(&imported.folder, crate::Access::Read).unwrap();
    let library = artefact::hash(&[0, 159, 146, 150, 255]);
    assert_eq!(copy.artefact(&library).unwrap(), None);
}

#[test]
fn the_head_can_be_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = sample(dir.path());
    let file = dir.path().join("in.jsonl");
    std::fs::write(&file, exported(&ledger, true)).unwrap();
    let state = dir.path().join("state");
    assert!(import(&file, &state, Some("00"), "0", 9).unwrap_err().to_string().contains("not with the one"));
    let head = ledger.head().unwrap().1;
    assert_eq!(import(&file, &state, Some(&head), "0", 9).unwrap().head, head);
}

/// Every byte of the file, changed in turn.
#[test]
fn one_changed_byte_anywhere_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = exported(&sample(dir.path()), true);
    for i in 0..bytes.len() {
        for flip in [1u8, 0x20, 0x80] {
            let mut changed = bytes.clone();
            changed[i] ^= flip;
            let found = parse(Path::new("in"), &changed);
            assert!(found.is_err(), "byte {i} ({:?}) flipped by {flip:#x}", bytes[i] as char);
        }
    }
    for cut in 1..bytes.len() {
        assert!(parse(Path::new("in"), &bytes[..bytes.len() - cut]).is_err(), "cut by {cut}");
    }
    let mut longer = bytes;
    longer.push(b'\n');
    assert!(parse(Path::new("in"), &longer).is_err());
}

/// A file whose hash was computed anew after a change is caught by what it says.
#[test]
fn a_consistent_hash_does_not_excuse_a_broken_chain() {
    let dir = tempfile::tempdir().unwrap();
    let text = String::from_utf8(exported(&sample(dir.path()), true)).unwrap();
    let rehash = |text: &str| {
        let start = text.trim_end().rfind('\n').unwrap() + 1;
        let head = text[start..].split('"').nth(5).unwrap().to_owned();
        let hash = blake3::hash(&text.as_bytes()[..start]).to_hex().to_string();
        format!("{}{{\"end\":{{\"head\":\"{head}\",\"hash\":\"{hash}\"}}}}\n", &text[..start])
    };
    assert_eq!(rehash(&text), text);
    let lines: Vec<&str> = text.lines().collect();
    let without = |n: usize| {
        let kept: Vec<&str> = lines.iter().enumerate().filter(|(i, _)| *i != n).map(|(_, l)| *l).collect();
        rehash(&(kept.join("\n") + "\n"))
    };
    for (changed, what) in [
        (rehash(&text.replace("why 1?", "why 9?")), "was changed after it was written"),
        (rehash(&text.replace("int x", "int y")), "was changed after it was written"),
        (
            rehash(&text.replace("\"campaign\":\"c-1\",\"rows\"", "\"campaign\":\"c-2\",\"rows\"")),
            "chain is broken",
        ),
        (
            rehash(&text.replace("\"campaign\":\"c-1\",\"rows\"", "\"campaign\":\"../x\",\"rows\"")),
            "another place",
        ),
        (without(2), "not the next one"),
        (without(4), "no row"),
        (without(5), "missing"),
        (rehash(&text.replacen("\"format\":2", "\"format\":3", 1)), "format 3"),
    ] {
        let error =
            parse(Path::new("in"), changed.as_bytes()).err().unwrap_or_else(|| panic!("{what}: accepted"));
        assert!(error.to_string().contains(what), "{what}: {error}");
    }
}

/// The file that version 1 wrote: artefacts without a kind.
#[test]
fn an_export_of_version_1_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = include_bytes!("../../tests/data/format-1.jsonl");
    let imported = import_bytes(dir.path(), bytes).unwrap();
    assert_eq!((imported.campaign.as_str(), imported.rows, imported.artefacts), ("old-1", 2, 1));
    let ledger = Ledger::open(&imported.folder, crate::Access::Read).unwrap();
    assert_eq!(ledger.artefact(&artefact::hash(b"old bytes")).unwrap().unwrap(), b"old bytes");
}

proptest! {
    #[test]
    fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(Path::new("in"), &bytes);
    }
}
