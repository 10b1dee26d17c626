//! An agent that is led gets no win recorded which it has not earned. A round of the sharpest attacks; all of them, at
//! length, are in `cargo xtask prove`.

use crate::led_fixture;
use kernelseek_testkit::{led, stand};
use std::path::Path;

const SHARPEST: [&str; 11] = [
    "ledger-sql",
    "binary",
    "compiler",
    "memory",
    "signals",
    "requests",
    "restore",
    "race",
    "gone",
    "swap",
    "links",
];

#[test]
fn no_attack_gets_a_win_and_an_honest_candidate_does() {
    if !stand::python_works() {
        eprintln!("skipped: scripted agents need python3 with its sqlite3 module");
        return;
    }
    let mut stand = led::stand(Path::new(env!("CARGO_BIN_EXE_kernelseek")), &led_fixture()).unwrap();
    if !fenced(&stand) {
        eprintln!("skipped: this machine lacks a layer of the fence");
        return;
    }
    for name in SHARPEST {
        let round = led::round(&mut stand, led::named(name).unwrap()).unwrap();
        assert_eq!(round.win, None, "{name}: {:#?}", round.tries);
        assert_eq!(round.fault, None, "{name}: {:#?}", round.tries);
        assert!(!round.tries.is_empty(), "{name}");
    }
    assert!(led::honest(&mut stand).unwrap(), "an honest candidate gets its win");
}

/// Whether every layer of the fence is there: without one of them no win counts at all.
fn fenced(stand: &stand::Stand) -> bool {
    stand.json(&["run", "--", "true"]).unwrap()["fenced"] == true
}
