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
    let deadline = Instant::now() + LIMIT;
    let confirming = |e: &Value| e["kind"] == "evaluation_started" && e["purpose"] == "confirm";
    while !entries(&stand).iter().any(confirming) {
        assert!(Instant::now() < deadline, "{:#?}", entries(&stand));
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it was cut off: {:#?}",
            entries(&stand)
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = entries(&stand);
    assert!(!before.iter().any(|e| e["kind"] == "promoted"), "{before:#?}");
    let better = before.iter().find(|e| e["kind"] == "evaluated").unwrap()["candidate_hash"].clone();

    // The workspace holds something else by now.
    stand.put("same.c").unwrap();
    let eval = stand.json(&["eval", "--quick"]).unwrap();
    let notes = eval["campaign"]["notes"].as_array().unwrap();
    assert!(notes.iter().any(|n| n.as_str().unwrap().contains("had been cut off: promoted")), "{notes:?}");
    let after = entries(&stand);
    let promoted = after.iter().find(|e| e["kind"] == "promoted").unwrap();
    assert_eq!(promoted["candidate_hash"], better);
    assert!(after.iter().any(|e| e["kind"] == "abandoned"), "the cut-off measurement is in the ledger");
}
