//! A contest that a crash cut off between its two measurements is settled before anything else, from what was kept.

use crate::led_fixture;
use kernelseek_testkit::stand::{LIMIT, Stand, start};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

fn entries(stand: &Stand) -> Vec<Value> {
    let log = stand.json(&["log", "--number", "0", "--silences"]).unwrap();
    log.as_array().unwrap().iter().map(|row| row["entry"].clone()).collect()
}

#[test]
fn a_promotion_that_was_cut_off_is_settled_first() {
    let stand = Stand::new(Path::new(env!("CARGO_BIN_EXE_kernelseek")), &led_fixture()).unwrap();
    stand.json(&["seal"]).unwrap();
    stand.put("better.c").unwrap();
    let mut child = start(stand.command(&["eval", "--quiet"])).unwrap();
    let mut tries = 1;
    let deadline = Instant::now() + LIMIT;
    let confirming = |e: &Value| e["kind"] == "evaluation_started" && e["purpose"] == "confirm";
    while !entries(&stand).iter().any(confirming) {
        assert!(Instant::now() < deadline, "{:#?}", entries(&stand));
        if child.try_wait().unwrap().is_some() {
            // A busy machine proved nothing, so there was nothing to confirm.
            tries += 1;
            assert!(tries <= 8, "it ends before it can be cut off: {:#?}", entries(&stand));
            child = start(stand.command(&["eval", "--quiet"])).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = entries(&stand);
    assert!(!before.iter().any(|e| e["kind"] == "promoted"), "{before:#?}");
    let better = before.iter().rev().find(|e| e["kind"] == "evaluated").unwrap()["candidate_hash"].clone();

    // The workspace holds something else by now.
    stand.put("same.c").unwrap();
    let eval = stand.json(&["eval", "--quick"]).unwrap();
    let notes = eval["campaign"]["notes"].as_array().unwrap();
    assert!(notes.iter().any(|n| n.as_str().unwrap().contains("had been cut off:")), "{notes:?}");
    let after = entries(&stand);
    // Settled either way: the second measurement decides, and it is of the kept sources.
    let settled = after.iter().find(|e| e["kind"] == "promoted" || e["kind"] == "not_promoted").unwrap();
    let confirmed = |e: &&Value| e["kind"] == "evaluated" && e["purpose"] == "confirm";
    assert_eq!(after.iter().find(confirmed).unwrap()["candidate_hash"], better, "{settled:#}");
    assert!(after.iter().any(|e| e["kind"] == "abandoned"), "the cut-off measurement is in the ledger");
}
