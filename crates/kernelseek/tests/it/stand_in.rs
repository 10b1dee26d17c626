//! Evaluations on a GPU that none is there for: the real binary, real worker processes in their sandbox, and a driver that
//! runs kernels on the CPU. Times mean nothing here, so no test looks at one; a verdict of PASS and one that is only not
//! proven in time are the same to it.

mod attention;

use crate::context;
use kernelseek_testkit::stand_in::StandIn;
use kernelseek_testkit::{Ran, TestContext};
use serde_json::Value;

struct Bench {
    context: TestContext,
    gpu: StandIn,
}

/// One small scenario: every thread of a kernel costs here.
const TINY: &str = "{\"id\": \"tiny\", \"rows\": 3, \"cols\": 43}\n";

impl Bench {
    fn new() -> Self {
        let bench = Self { context: context("cuda_rowscale"), gpu: StandIn::new().unwrap() };
        bench.context.write("all.jsonl", TINY).unwrap();
        bench.context.edit("problem.toml", "quick = [\"small\"]", "quick = [\"tiny\"]").unwrap();
        bench.context.edit("problem.toml", "share = 0.34", "share = 1.0").unwrap();
        bench
    }

    /// The seed with a piece of it replaced, as `kernel.cu`.
    fn candidate(&self, from: &str, to: &str) {
        let seed = std::fs::read_to_string(self.context.problem().join("seed.cu")).unwrap();
        assert!(seed.contains(from), "{from}");
        self.context.write("kernel.cu", &seed.replace(from, to)).unwrap();
    }

    fn run(&self, args: &[&str]) -> Ran {
        let env = self.gpu.env();
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        self.context.run_with(args, &env).unwrap()
    }

    fn verdict(&self, args: &[&str]) -> Value {
        let mut all = vec!["eval"];
        all.extend(args);
        all.push("--json");
        let ran = self.run(&all);
        ran.json().unwrap_or_else(|e| panic!("{e}\n{}", ran.snapshot()))
    }

    fn quick(&self, args: &[&str]) -> Value {
        let mut all = vec!["kernel.cu", "--quick"];
        all.extend(args);
        self.verdict(&all)
    }
}

/// Every finding of a verdict and of its scenarios: what checked it, how bad, what it says.
fn found(verdict: &Value) -> Vec<(String, String, String)> {
    let of = |value: &Value| value["findings"].as_array().cloned().unwrap_or_default();
    let scenarios = verdict["scenarios"].as_array().cloned().unwrap_or_default();
    let text = |f: &Value, key: &str| f[key].as_str().unwrap_or_default().to_owned();
    of(verdict)
        .iter()
        .chain(scenarios.iter().flat_map(of).collect::<Vec<_>>().iter())
        .map(|f| {
            (text(f, "defence"), text(f, "severity"), format!("{} {}", text(f, "message"), f["evidence"]))
        })
        .collect()
}

fn defences(verdict: &Value, severity: &str) -> Vec<String> {
    found(verdict).into_iter().filter(|(_, s, _)| s == severity).map(|(d, _, _)| d).collect()
}

/// The candidate is correct, and nothing but its times is in doubt.
fn assert_right(verdict: &Value) {
    assert!(verdict["scenarios"].as_array().is_some_and(|s| !s.is_empty()), "{verdict:#}");
    assert_eq!(defences(verdict, "fail"), Vec::<String>::new(), "{verdict:#}");
    for defence in defences(verdict, "unproven") {
        assert!(defence.starts_with("timed.") || defence.starts_with("plausible."), "{verdict:#}");
    }
}

#[test]
fn every_column_and_mode_gives_a_verdict() {
    let bench = Bench::new();
    bench.candidate("tanhf(x[at])", "tanhf(x[at] + 0.0f)");
    for args in [
        &["--column", "device"][..],
        &["--column", "call"],
        &["--column", "graph"],
        &["--mode", "warm"],
        &["--mode", "stream"],
        &["--mode", "warm", "--column", "graph"],
    ] {
        let verdict = bench.quick(args);
        assert_right(&verdict);
        let split = &verdict["scenarios"][0]["gpu"]["candidate"];
        // Only behind a gate on the stream is it known what the device did and when it idled.
        assert_eq!(split["device_ns"].as_f64().is_some_and(|ns| ns > 0.0), args[1] != "call", "{verdict:#}");
    }
}

/// Inputs of this size take the stand-in a while to write, and the reference reads them first.
#[test]
fn inputs_are_there_before_anybody_reads_them() {
    let bench = Bench::new();
    let scenarios = "{\"id\": \"tiny\", \"rows\": 7, \"cols\": 3001}\n";
    bench.context.write("all.jsonl", scenarios).unwrap();
    for _ in 0..3 {
        assert_right(&bench.verdict(&["seed.cu", "--quick"]));
    }
}

#[test]
fn a_full_verdict_looks_at_every_column() {
    let bench = Bench::new();
    let verdict = bench.verdict(&["seed.cu", "--full"]);
    assert_right(&verdict);
    assert_eq!(verdict["held_out"]["drawn"], 1, "{verdict:#}");
    let notes = verdict["notes"].to_string();
    for view in ["warm device tiny", "cold call tiny", "cold graph tiny", "stream device tiny"] {
        assert!(notes.contains(view), "{view}: {notes}");
    }
}

#[test]
fn a_call_that_waits_is_timed_whole_and_cannot_be_recorded() {
    let bench = Bench::new();
    bench.candidate("return cuda", "cudaStreamSynchronize((cudaStream_t)call->stream);\n    return cuda");
    let verdict = bench.quick(&[]);
    assert_right(&verdict);
    assert!(defences(&verdict, "note").contains(&"timed.synchronises".into()), "{verdict:#}");
    let shown = bench.run(&["eval", "kernel.cu", "--last"]);
    assert!(shown.stdout.contains("whole call"), "{}", shown.snapshot());
    let verdict = bench.quick(&["--column", "graph"]);
    assert!(!defences(&verdict, "fail").is_empty(), "{verdict:#}");
}

#[test]
fn an_error_of_the_device_is_told_and_the_next_evaluation_is_right() {
    let bench = Bench::new();
    for (from, to, defence, says) in [
        ("y[at] =", "y[at + 1000000000] =", "correct.device-error", "illegal memory access"),
        ("(at < rows", "if (at == 3) __trap();\n    if (at < rows", "correct.device-error", "launch failure"),
        ("TILE, 0, (cuda", "TILE, 300 << 10, (cuda", "correct.status", "did not return KS_OK"),
        ("at < rows * cols", "at < rows * cols && at != 5", "correct.unwritten", "of `y`"),
        ("tanhf(x[at])", "tanhf(x[at]) * 1.001f", "correct.reference", "outside its error bound"),
        ("y[at] =", "y[at - 100] =", "", ""),
    ] {
        let from = if from == "(at < rows" { "if (at < rows" } else { from };
        bench.candidate(from, to);
        let verdict = bench.quick(&[]);
        let all = found(&verdict);
        let fits = |(d, s, text): &(String, String, String)| {
            s == "fail" && (defence.is_empty() || d == defence && text.contains(says))
        };
        assert!(all.iter().any(fits), "{to}: {all:#?}");
        assert_right(&bench.verdict(&["seed.cu", "--quick"]));
    }
}

#[test]
fn a_kernel_that_does_not_end_is_ended() {
    let bench = Bench::new();
    bench.candidate("if (at < rows", "while (rows > 0) if (clock64() < 0) return;\n    if (at < rows");
    let verdict = bench.quick(&[]);
    assert!(defences(&verdict, "fail").iter().any(|d| d == "correct.deadline"), "{verdict:#}");
    assert_right(&bench.verdict(&["seed.cu", "--quick"]));
}

/// Takes all memory of the device at its first call, and answers as it should.
const HOG: &str = "static bool took = false;
    for (size_t bytes = 4ull << 30; !took && bytes >= 4096;) {
        void *p;
        if (cudaMalloc(&p, bytes) != cudaSuccess) bytes /= 2;
    }
    took = true;
    cudaGetLastError();
    int64_t rows = call";

#[test]
fn memory_that_a_candidate_keeps_is_its_own_failure() {
    let bench = Bench::new();
    bench.candidate("int64_t rows = call", HOG);
    let verdict = bench.quick(&[]);
    let all = found(&verdict);
    assert!(
        all.iter().any(|(d, s, text)| d == "correct.device-memory"
            && s == "fail"
            && text.contains("with the seed in its place there is enough")),
        "{all:#?}"
    );
}

#[test]
fn a_scenario_that_no_memory_is_enough_for_is_nobodys_failure() {
    let bench = Bench::new();
    bench.context.write("all.jsonl", "{\"id\": \"tiny\", \"rows\": 60000, \"cols\": 20000}\n").unwrap();
    let ran = bench.run(&["eval", "seed.cu", "--quick"]);
    assert!(ran.code > 1 && ran.stdout.is_empty(), "{}", ran.snapshot());
    assert!(ran.stderr.contains("out of memory"), "{}", ran.snapshot());
}

/// What a profiler is asked for need not be in the set that is evaluated.
#[test]
fn a_scenario_of_any_set_is_profiled() {
    let bench = Bench::new();
    bench.context.write("other.jsonl", &TINY.replace("tiny", "elsewhere")).unwrap();
    bench
        .context
        .edit("problem.toml", "[scenarios.files]\n", "[scenarios.files]\nother = \"other.jsonl\"\n")
        .unwrap();
    // No profiler is here: it is enough to see whether one was started.
    bench.context.write("ncu", "#!/bin/sh\necho a profiler was started\nexit 1\n").unwrap();
    let ncu = bench.context.problem().join("ncu");
    std::fs::set_permissions(&ncu, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let profile = |scenario: &str| {
        bench.run(&["profile", "seed.cu", "--ncu", &ncu.display().to_string(), "--scenario", scenario])
    };
    for scenario in ["tiny", "elsewhere"] {
        let ran = profile(scenario);
        assert!(ran.stderr.contains("a profiler was started"), "{}", ran.snapshot());
    }
    let ran = profile("nowhere");
    assert!(ran.stderr.contains("nowhere") && !ran.stderr.contains("was started"), "{}", ran.snapshot());
}

#[test]
fn a_problem_is_checked() {
    let bench = Bench::new();
    let ran = bench.run(&["check", ".", "--json"]);
    let report = ran.json().unwrap_or_else(|e| panic!("{e}\n{}", ran.snapshot()));
    assert_eq!(defences(&report, "fail"), Vec::<String>::new(), "{report:#}");
    assert!(report["scenarios"][0]["seed_error"].as_f64().is_some_and(|e| e < 1e-5), "{report:#}");
}

const CAMPAIGN: &str = "format = 1\nname = \"rowscale\"\nproblem = \".\"\ncandidate = \"kernel.cu\"\n\n[goal]\n\
    clauses = [\"every scenario correct\", \"geomean speedup >= 0.01\"]\n\n[questions]\nsilence = 0\n";

#[test]
fn a_campaign_counts_what_the_device_did_and_nothing_else() {
    let bench = Bench::new();
    bench.context.write("campaign.toml", CAMPAIGN).unwrap();
    bench.candidate("tanhf(x[at])", "tanhf(x[at] + 0.0f)");
    let sealed = bench.run(&["seal"]);
    assert_eq!(sealed.code, 0, "{}", sealed.snapshot());
    for (args, counts) in [(&["--column", "graph"][..], false), (&["--mode", "warm"], false), (&[], true)] {
        let blockers = bench.verdict(args)["campaign"]["goal"]["blockers"].to_string();
        assert_eq!(blockers.contains("measured otherwise"), !counts, "{args:?}: {blockers}");
    }
    let log = bench.run(&["log", "--json"]).stdout;
    assert!(log.contains("cold graph") && log.contains("\"warm\""), "{log}");
    // The same GPU, driver and compiler: the seal holds in another process.
    let status = bench.run(&["status"]);
    assert_eq!(status.code, 0, "{}", status.snapshot());
    assert!(!status.stdout.contains("broken"), "{}", status.snapshot());
}

#[test]
fn tunables_are_swept_one_evaluation_after_the_other() {
    let bench = Bench::new();
    let routed = "#include \"tile.h\"\n#include \"kernel_routes.h\"\n";
    bench.candidate("#include \"tile.h\"\n", routed);
    bench
        .context
        .edit(
            "kernel.cu",
            "unsigned blocks",
            "if (KS_ROUTE_UNROLL(call) < 1) return KS_ERROR;\n    unsigned blocks",
        )
        .unwrap();
    let tunable = "format = 1\n\n[[tunable]]\nname = \"unroll\"\nvalues = [1, 2, 4]\ndefault = 1\n";
    bench.context.write("kernel.toml", tunable).unwrap();
    let ran = bench.run(&["sweep", "kernel.cu", "--budget-evaluations", "4"]);
    assert!(ran.code < 2, "{}", ran.snapshot());
    assert!(!ran.stderr.contains("held"), "{}", ran.snapshot());
}
