//! Every candidate of `cheats/` ends as the catalogue says, and the evaluation after it is right.

use crate::context;
use std::path::Path;

#[test]
fn every_candidate_of_the_catalogue_ends_as_it_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let c = context("rowscale");
    let problem = root.join("problems/softmax").display().to_string();
    let cheats = root.join("cheats").display().to_string();
    let ran = c
        .run(&["selftest", "--section", "hostile", "--problem", &problem, "--cheats", &cheats, "--json"])
        .unwrap();
    let report = ran.json().unwrap();
    // How long each took is a bar of the record, not of a test beside others: what is only late is passed over here.
    let misses: Vec<&str> = report["misses"].as_array().unwrap().iter().filter_map(|m| m.as_str()).collect();
    let (late, wrong): (Vec<&str>, Vec<&str>) =
        misses.into_iter().partition(|m| m.ends_with(", late") && !m.contains("not expected"));
    assert!(wrong.is_empty(), "{report:#}");
    assert!(report["hostile"].as_u64().unwrap() > 40, "{report:#}");
    assert_eq!(ran.code, i32::from(!late.is_empty()));
}
