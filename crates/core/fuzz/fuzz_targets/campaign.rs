//! Any text as a campaign file and as a clause; a goal that is accepted is judged on nothing, which must not meet it.
#![no_main]

use kernelseek_core::campaign_file::parse_campaign;
use kernelseek_core::goal::{Clause, Evidence, Grid, GridScenario};
use kernelseek_core::value::Value;
use kernelseek_core::verdict::{Stage, Trust, Word};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|text: &str| {
    if let Ok(clause) = Clause::parse(text) {
        assert_eq!(Clause::parse(&clause.text).map(|c| c.text), Ok(clause.text));
    }
    let campaign = match parse_campaign("campaign.toml", text) {
        Ok(campaign) => campaign,
        Err(errors) => {
            assert!(!errors.items.is_empty());
            let _ = errors.to_string();
            return;
        }
    };
    let grid = Grid {
        scenarios: vec![GridScenario {
            id: "a".to_owned(),
            values: [("n".to_owned(), Value::Int(3))].into(),
            tags: Vec::new(),
        }],
    };
    let baselines = BTreeMap::new();
    let evidence = Evidence {
        full: true,
        usual: true,
        word: Word::Pass,
        passed: Stage::Plausible,
        trust: Trust::Full,
        findings: &[],
        scenarios: &[],
        held_out: None,
        baselines: &baselines,
    };
    let judged = campaign.goal.judge(&grid, &evidence);
    let about_scenarios = judged.clauses.iter().any(|c| c.clause.contains("correct") || c.clause.contains("speedup"));
    assert!(!(judged.met && about_scenarios), "{judged:?}");
});
