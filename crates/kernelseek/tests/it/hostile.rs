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
    assert_eq!(report["misses"].as_array().unwrap().len(), 0, "{report:#}");
    assert!(report["hostile"].as_u64().unwrap() > 40, "{report:#}");
    assert_eq!(ran.code, 0);
}
