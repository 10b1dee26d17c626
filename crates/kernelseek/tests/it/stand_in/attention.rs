//! The attention problem on the GPU that is none: the files of `problems/cuda/attention_forward` on scenarios of a few dozen rows.

use super::{Bench, found};
use std::path::Path;

/// Every layout and dtype, sinks, windows, a soft cap, a left pad, groups of three. The first has sixteen units of the reference's
/// work, so that one of them is in every part.
const SCENARIOS: &str = r#"{"id":"square","B":8,"Hq":2,"Hkv":2,"Sq":20,"Skv":20,"D":8,"causal":true}
{"id":"longer","B":1,"Hq":3,"Hkv":1,"Sq":9,"Skv":70,"D":16,"dtype":"f16","causal":true,"window":[30,0],"softcap":8.0}
{"id":"ragged","B":3,"Hq":2,"Hkv":2,"Sq":33,"Skv":33,"D":8,"layout":"varlen","q_lens":[33,0,5],"kv_lens":[33,4,5],"sink":true}
{"id":"pages","B":2,"Hq":4,"Hkv":2,"Sq":1,"Skv":40,"D":16,"dtype":"f8e4m3","layout":"paged","page_size":8,"kv_lens":[40,13],"leftpad":[3,0]}
"#;

fn bench() -> Bench {
    let bench = Bench::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/cuda/attention_forward");
    for name in ["problem.toml", "reference.cu", "seed.cu"] {
        bench.context.write(name, &std::fs::read_to_string(folder.join(name)).unwrap()).unwrap();
    }
    bench.context.write("hopper182.jsonl", SCENARIOS).unwrap();
    bench.context.edit("problem.toml", "quick = [\"H074\"", "quick = [\"square\", \"H074\"").unwrap();
    // As dear as what is asked for in parts.
    bench.context.edit("problem.toml", "flops = \"2.0 *", "flops = \"1e12 + 2.0 *").unwrap();
    bench
}

/// One evaluation shows both: the other scenarios are right, with the same reference, seed and harness.
#[test]
fn attention_is_right_and_a_planted_bug_shows_where_it_should() {
    let bench = bench();
    bench.candidate("i + k_count - q_count + right + 1)", "i + right + 1)");
    let wrong = bench.verdict(&["kernel.cu", "--untimed"]);
    assert!(wrong["notes"].to_string().contains("the reference answered a secret part"), "{wrong:#}");
    let failed = wrong["scenarios"].as_array().unwrap().iter().filter(|s| s["word"] == "FAIL");
    let failed: Vec<&str> = failed.map(|s| s["id"].as_str().unwrap()).collect();
    // Two are causal, and one of them has as many keys as queries.
    assert_eq!(failed, ["longer"], "{:?}", found(&wrong));
}
