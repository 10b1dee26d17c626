//! kill -9 loses nothing. A few moments; many of them are in `cargo xtask prove`.

use crate::led_fixture;
use kernelseek_testkit::crash::{Bench, Tally, Victim};
use std::path::Path;

#[test]
fn kill_loses_no_row_and_changes_no_verdict() {
    // Any seed will do; the moments are different ones in every build.
    let mut bench =
        Bench::new(Path::new(env!("CARGO_BIN_EXE_kernelseek")), &led_fixture(), 0x9e37_79b9_7f4a_7c15)
            .unwrap();
    for victim in Victim::ALL {
        let mut tally = Tally::default();
        let duration = bench.duration(victim).unwrap();
        let rounds = if victim == Victim::Eval { 4 } else { 2 };
        for _ in 0..rounds {
            bench.round(victim, duration, &mut tally).unwrap();
        }
        assert!(tally.faults.is_empty(), "{}: {:#?}", victim.name(), tally.faults);
        assert_eq!((tally.rounds, tally.same), (rounds, rounds), "{}", victim.name());
    }
}
