//! Verdicts.

use crate::context;
use kernelseek_testkit::{Ran, findings};
use serde_json::Value;

fn has(verdict: &Value, defence: &str) -> bool {
    findings(verdict).iter().any(|(d, _)| d == defence)
}

fn verdict(ran: &Ran) -> Value {
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    ran.json().unwrap()
}

/// A word that says nothing against the candidate: how wide an interval comes out is the machine's business.
fn is_right(verdict: &Value) -> bool {
    matches!(verdict["word"].as_str(), Some("PASS" | "UNRESOLVED"))
}

#[test]
fn an_honest_candidate_passes_every_gate() {
    let c = context("rowscale");
    let evaluate = || verdict(&c.run(&["eval", "faster.c", "--json"]).unwrap());
    // What a busy machine leaves unproven is evaluated again.
    let v = (0..6).map(|_| evaluate()).find(|v| v["word"] != "UNPROVEN").unwrap();
    assert!(is_right(&v), "{v:#}");
    assert_eq!(v["passed"], "plausible");
    assert_eq!(v["scenarios"].as_array().unwrap().len(), 3);
    for s in v["scenarios"].as_array().unwrap() {
        assert!(s["contents"].as_u64().unwrap() > 20, "{s:#}");
        assert!(s["referenced"].as_u64().unwrap() > 0, "{s:#}");
        let ratio = &s["ratio"];
        assert!(ratio["lo"].as_f64() < ratio["hi"].as_f64(), "{s:#}");
        assert_eq!(ratio["instances"], 5);
        assert!(s["floor_ns"].as_f64().unwrap() > 0.0);
    }
    assert!(v["candidate_hash"].as_str().unwrap().len() > 40);
    assert_eq!(v["seed_hash"].as_str().map(str::len), v["candidate_hash"].as_str().map(str::len));
    assert_ne!(v["candidate_hash"], v["seed_hash"]);
}

#[test]
fn a_wrong_tail_fails_and_says_where() {
    let c = context("rowscale");
    let ran = c.run(&["eval", "wrong_tail.c", "--json", "--exit-code"]).unwrap();
    assert_eq!(ran.code, 1, "{}", ran.snapshot());
    let v = ran.json().unwrap();
    assert_eq!(v["word"], "FAIL");
    assert!(has(&v, "correct.reference"), "{v:#}");
    let evidence = v["scenarios"][0]["findings"][0]["evidence"][0].as_str().unwrap();
    assert!(evidence.starts_with("y["), "{evidence}");
    let shown = c.run(&["eval", "wrong_tail.c", "--quick"]).unwrap();
    assert_eq!(shown.code, 0, "the harness worked");
    assert!(shown.stdout.starts_with("FAIL"), "{}", shown.stdout);
    assert!(shown.stdout.contains("next: compare `y["), "{}", shown.stdout);
}

#[test]
fn what_does_not_compile_fails_with_the_compilers_words() {
    let c = context("rowscale");
    c.write(
        "broken.c",
        "#include \"rowscale.h\"\nks_status rowscale(const rowscale_call *c) { return c->nope; }\n",
    )
    .unwrap();
    let v = verdict(&c.run(&["eval", "broken.c", "--json"]).unwrap());
    assert_eq!(v["word"], "FAIL");
    assert!(has(&v, "built.compile"), "{v:#}");
    assert!(v["findings"][0]["evidence"].to_string().contains("broken.c:2"), "{v:#}");
}

#[test]
fn a_missing_entry_point_is_not_allowed() {
    let c = context("rowscale");
    c.write(
        "other.c",
        "#include \"rowscale.h\"\nks_status rowscalee(const rowscale_call *c) { (void)c; return KS_OK; }\n",
    )
    .unwrap();
    let v = verdict(&c.run(&["eval", "other.c", "--json"]).unwrap());
    assert_eq!(v["word"], "FAIL");
    assert!(has(&v, "allowed.export"), "{v:#}");
}

#[test]
fn a_scenario_that_is_declined_is_a_fallback_and_no_win() {
    let c = context("rowscale");
    c.edit("seed.c", "ks_status rowscale(const rowscale_call *call) {", "ks_status rowscale(const rowscale_call *call) {\n    if (call->x.shape[0] == 7) return KS_UNSUPPORTED;").unwrap();
    let declines = std::fs::read_to_string(c.problem().join("seed.c")).unwrap();
    let fresh = context("rowscale");
    fresh.write("declines.c", &declines).unwrap();
    let v = verdict(&fresh.run(&["eval", "declines.c", "--json"]).unwrap());
    assert!(is_right(&v), "{v:#}");
    let wide = v["scenarios"].as_array().unwrap().iter().find(|s| s["id"] == "wide").unwrap();
    assert_eq!(wide["fallback"], true);
    assert!(wide["ratio"].is_null());
    assert_eq!(v["without_ratio"], 1);
}

#[test]
fn full_draws_held_out_scenarios_and_hides_them() {
    let c = context("rowscale");
    let v = verdict(&c.run(&["eval", "faster.c", "--full", "--json"]).unwrap());
    assert!(is_right(&v), "{v:#}");
    assert_eq!(v["held_out"]["drawn"], 2);
    assert_eq!(v["held_out"]["passed"], 2, "{v:#}");
    assert_eq!(v["scenarios"].as_array().unwrap().len(), 3, "held-out cases are not listed");
}

#[test]
fn a_candidate_that_only_knows_the_listed_shapes_fails_held_out() {
    let c = context("rowscale");
    c.edit(
        "seed.c",
        "    return KS_OK;",
        "    if (!((rows == 64 && cols == 129) || (rows == 7 && cols == 3001) || (rows == 999 && cols == 17)))\n        y[0] = 0.0f;\n    return KS_OK;",
    )
    .unwrap();
    let special = std::fs::read_to_string(c.problem().join("seed.c")).unwrap();
    let fresh = context("rowscale");
    fresh.write("special.c", &special).unwrap();
    let v = verdict(&fresh.run(&["eval", "special.c", "--full", "--json"]).unwrap());
    assert_eq!(v["word"], "FAIL", "{v:#}");
    assert!(has(&v, "correct.held-out"), "{v:#}");
    assert!(v["scenarios"].as_array().unwrap().iter().all(|s| s["word"] != "FAIL"));
}

#[test]
fn a_changed_source_makes_the_last_verdict_stale() {
    let c = context("rowscale");
    verdict(&c.run(&["eval", "faster.c", "--quick", "--json"]).unwrap());
    let again = verdict(&c.run(&["eval", "--last", "--json"]).unwrap());
    assert!(is_right(&again), "{again:#}");
    c.edit("faster.c", "9.02f", "9.01f").unwrap();
    let stale = verdict(&c.run(&["eval", "--last", "--json"]).unwrap());
    assert_eq!(stale["word"], "STALE");
    assert!(stale["findings"][0]["evidence"].to_string().contains("faster.c"), "{stale:#}");
    c.edit("faster.c", "9.01f", "9.02f").unwrap();
    assert!(is_right(&verdict(&c.run(&["eval", "--last", "--json"]).unwrap())));
    c.edit("all.jsonl", "64", "63").unwrap();
    let stale = verdict(&c.run(&["eval", "--last", "--json"]).unwrap());
    assert_eq!(stale["word"], "STALE");
}

#[test]
fn an_unchanged_candidate_is_not_built_again() {
    let c = context("rowscale");
    let first = c.run(&["build", "faster.c", "--json"]).unwrap().json().unwrap();
    let second = c.run(&["build", "faster.c", "--json"]).unwrap().json().unwrap();
    assert_eq!((first["cached"].as_bool(), second["cached"].as_bool()), (Some(false), Some(true)));
    assert_eq!(first["candidate"], second["candidate"]);
    assert!(!first["argv"].to_string().contains("native"), "the target is resolved");
}

#[test]
fn a_reference_in_python_serves_like_one_in_c() {
    let c = context("rowscale");
    c.edit("problem.toml", "source = \"reference.c\"", "source = \"reference.py\"").unwrap();
    // Plain Python: works with and without numpy.
    c.write(
        "reference.py",
        "import math\n\ndef op(call):\n    rows, cols = call.x.shape\n    for r in range(rows):\n        for c in range(cols):\n            call.y[r, c] = math.tanh(float(call.x[r, c])) * float(call.w[r])\n",
    )
    .unwrap();
    let v = verdict(&c.run(&["eval", "faster.c", "--quick", "--json"]).unwrap());
    assert!(is_right(&v), "{v:#}");
    c.write("reference.py", "def op(call):\n    raise ValueError('not today')\n").unwrap();
    let ran = c.run(&["eval", "faster.c", "--quick"]).unwrap();
    assert_eq!(ran.code, 5, "{}", ran.snapshot());
    assert!(ran.stderr.contains("reference.py:2: ValueError: not today"), "{}", ran.stderr);
}

#[test]
fn a_record_holds_the_raw_pairs() {
    let c = context("rowscale");
    verdict(&c.run(&["eval", "faster.c", "--quick", "--json", "--record", "record.json"]).unwrap());
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(c.problem().join("record.json")).unwrap()).unwrap();
    let pairs = record["raw"]["small"][0]["pairs"].as_array().unwrap();
    assert!(!pairs.is_empty());
    assert!(pairs.iter().all(|p| p["seed_ns"].as_f64().unwrap() > 0.0));
}

#[test]
fn full_runs_the_sanitizers() {
    let c = context("rowscale");
    c.edit(
        "seed.c",
        "    return KS_OK;",
        "    volatile int big = 2147483647;\n    big = big + 1;\n    return KS_OK;",
    )
    .unwrap();
    let overflows = std::fs::read_to_string(c.problem().join("seed.c")).unwrap();
    let fresh = context("rowscale");
    fresh.write("overflows.c", &overflows).unwrap();
    let v = verdict(&fresh.run(&["eval", "overflows.c", "--full", "--json"]).unwrap());
    let notes = v["notes"].to_string();
    // A machine without the runtime says so; anything else is a report.
    if notes.contains("no sanitizer runtime") {
        return;
    }
    assert_eq!(v["word"], "FAIL", "{v:#}");
    assert!(has(&v, "sanitizer.report"), "{v:#}");
    assert!(v["findings"].to_string().contains("signed integer overflow"), "{v:#}");
}

#[test]
fn a_precision_model_counts_on_every_content() {
    // The seed adds up in double, so its own error is none at all; the model says that single precision will do.
    let c = context("rowscale");
    let sum = |number: &str, start: &str, body: &str| {
        format!(
            "ks_status {start}(const rowsum_call *call) {{\n    const float *x = call->x.data;\n    \
             float *y = call->y.data;\n    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];\n    \
             for (int64_t r = 0; r < rows; r++) {{\n        {number} sum = 0, odd = 0;\n        \
             for (int64_t c = 0; c < cols; c++)\n            {body}\n        y[r] = (float)(sum + odd);\n    }}\n    \
             return KS_OK;\n}}\n"
        )
    };
    let add = "sum += x[r * cols + c];";
    let include = "#include \"rowsum.h\"\n";
    let exact = include.to_owned() + &sum("double", "rowsum", add);
    let model = sum("float", "rowsum_model", add);
    c.write("reference.c", &(exact.clone() + &model)).unwrap();
    c.write("seed.c", &exact).unwrap();
    let two = sum("float", "rowsum", "*(c % 2 ? &odd : &sum) += x[r * cols + c];");
    c.write("two_sums.c", &(include.to_owned() + &two)).unwrap();
    let off = "sum += x[r * cols + c] * 1.0001f;";
    c.write("off.c", &(include.to_owned() + &sum("float", "rowsum", off))).unwrap();
    c.write(
        "problem.toml",
        "format = 1\nname = \"rowsum\"\nsummary = \"sums of rows\"\n\
         [scenarios]\ndefault = \"all\"\nquick = [\"s0\"]\n[scenarios.files]\nall = \"all.jsonl\"\n\
         [fields]\nrows = { type = \"int\" }\ncols = { type = \"int\" }\n\
         [[tensor]]\nname = \"x\"\nrole = \"varying\"\ndtype = \"f32\"\nshape = [\"rows\", \"cols\"]\n\
         generator = { kind = \"normal\", mean = 0.0, std = 1.0 }\n\
         [[tensor]]\nname = \"y\"\nrole = \"output\"\ndtype = \"f32\"\nshape = [\"rows\"]\n\
         [reference]\nsource = \"reference.c\"\nmodel = \"rowsum_model\"\nmodel_reason = \"a test\"\n\
         [seed]\nsource = \"seed.c\"\n",
    )
    .unwrap();
    // Enough scenarios that one of them would find a content beyond the bound if the model did not count there.
    let sizes = [(64, 129), (7, 3001), (99, 170), (5, 1000), (31, 513), (12, 2000), (200, 77), (3, 4001)];
    let lines: String = sizes
        .iter()
        .enumerate()
        .map(|(i, (rows, cols))| format!("{{\"id\": \"s{i}\", \"rows\": {rows}, \"cols\": {cols}}}\n"))
        .collect();
    c.write("all.jsonl", &lines).unwrap();
    let honest = verdict(&c.run(&["eval", "two_sums.c", "--json"]).unwrap());
    assert!(!has(&honest, "correct.reference"), "{honest:#}");
    assert_ne!(honest["word"], "FAIL", "{honest:#}");
    let off = verdict(&c.run(&["eval", "off.c", "--json"]).unwrap());
    assert_eq!(off["word"], "FAIL", "{off:#}");
    assert!(has(&off, "correct.reference"), "{off:#}");
}

#[test]
fn what_only_a_gpu_has_is_refused() {
    let c = context("rowscale");
    for args in [["--column", "graph"], ["--column", "call"], ["--mode", "stream"]] {
        let ran = c.run(&[&["eval", "seed.c", "--quick"][..], &args].concat()).unwrap();
        assert_eq!(ran.code, 3, "{}", ran.snapshot());
        assert!(ran.stderr.contains("this problem's target is cpu"), "{}", ran.snapshot());
    }
}

/// A problem whose reference may be asked for a part: sums of rows, said to cost so much that it is.
fn sampled_sums(c: &kernelseek_testkit::TestContext, reference: &str) {
    let one = |name: &str, also: &str, wanted: &str, tweak: &str| {
        format!(
            "ks_status {name}(const rowsum_call *call{also}) {{\n    const float *x = call->x.data;\n    \
             float *y = call->y.data;\n    const int64_t rows = call->x.shape[0], cols = call->x.shape[1];\n    \
             for (int64_t r = 0; r < rows; r++) {{\n        {wanted}\n        double sum = 0;\n        \
             for (int64_t c = 0; c < cols; c++)\n            sum += x[r * cols + c];\n        y[r] = (float)sum{tweak};\n    }}\n    \
             return KS_OK;\n}}\n"
        )
    };
    let include = "#include \"rowsum.h\"\n";
    let whole = one("rowsum", "", "", "");
    let part = one(reference, ", const ks_sample *s", "if (!ks_wanted(s, (uint64_t)r)) continue;", "");
    c.write("reference.c", &format!("{include}{whole}{part}")).unwrap();
    c.write("seed.c", &format!("{include}{whole}")).unwrap();
    c.write("one_row_off.c", &format!("{include}{}", one("rowsum", "", "", " + (r == 3)"))).unwrap();
    c.write(
        "problem.toml",
        "format = 1\nname = \"rowsum\"\nsummary = \"sums of rows\"\n\
         [scenarios]\ndefault = \"all\"\nquick = [\"s0\"]\n[scenarios.files]\nall = \"all.jsonl\"\n\
         some = { file = \"all.jsonl\", tag = \"some\" }\nnone = { file = \"all.jsonl\", tag = \"other\" }\n\
         [fields]\nrows = { type = \"int\" }\n\
         [[tensor]]\nname = \"x\"\nrole = \"varying\"\ndtype = \"f32\"\nshape = [\"rows\", 50]\n\
         generator = { kind = \"normal\", mean = 0.0, std = 1.0 }\n\
         [[tensor]]\nname = \"y\"\nrole = \"output\"\ndtype = \"f32\"\nshape = [\"rows\"]\n\
         [cost]\nflops = \"1e12\"\nbytes = \"204.0 * double(rows)\"\n\
         [reference]\nsource = \"reference.c\"\nsampled = true\n[seed]\nsource = \"seed.c\"\n",
    )
    .unwrap();
    // The last has fewer rows than one is wanted of, at times: then all of it is asked for.
    let lines = "{\"id\":\"s0\",\"rows\":400,\"tags\":[\"some\"]}\n{\"id\":\"s1\",\"rows\":77}\n{\"id\":\"s2\",\"rows\":5}\n";
    c.write("all.jsonl", lines).unwrap();
}

#[test]
fn a_reference_asked_for_a_part_still_finds_one_wrong_row() {
    let c = context("rowscale");
    sampled_sums(&c, "rowsum_sampled");
    let honest = verdict(&c.run(&["eval", "seed.c", "--untimed", "--json"]).unwrap());
    assert!(!honest.to_string().contains("correct."), "{honest:#}");
    assert!(
        honest["notes"].to_string().contains("a secret part, one unit of its work in up to 16"),
        "{honest:#}"
    );
    // Row 3 is in the sixteenth that is asked for once in a while; the seed's answer is always there.
    let off = verdict(&c.run(&["eval", "one_row_off.c", "--untimed", "--json"]).unwrap());
    assert_eq!(off["word"], "FAIL", "{off:#}");
    for scenario in off["scenarios"].as_array().unwrap() {
        let findings = scenario["findings"].to_string();
        assert!(findings.contains("correct.reference") && findings.contains("y[3]"), "{scenario:#}");
    }
}

#[test]
fn a_reference_that_cannot_be_asked_for_a_part_is_named() {
    let c = context("rowscale");
    sampled_sums(&c, "another_name");
    let ran = c.run(&["eval", "seed.c", "--untimed"]).unwrap();
    assert_eq!(ran.code, 5, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("the library has no `NAME_sampled`, which `sampled = true` asks for"),
        "{}",
        ran.snapshot()
    );
}

#[test]
fn a_set_is_what_has_its_tag() {
    let c = context("rowscale");
    sampled_sums(&c, "rowsum_sampled");
    let ids = |set: &str| {
        let v = verdict(&c.run(&["eval", "seed.c", "--set", set, "--untimed", "--json"]).unwrap());
        v["scenarios"].as_array().unwrap().iter().map(|s| s["id"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids("some"), ["\"s0\""]);
    assert_eq!(ids("all").len(), 3);
    let none = c.run(&["eval", "seed.c", "--set", "none"]).unwrap();
    assert_eq!(none.code, 3, "{}", none.snapshot());
    assert!(none.stderr.contains("the scenario set `none` is empty"), "{}", none.snapshot());
}
