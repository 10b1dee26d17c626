//! Kernel files and sweeps. What is faster, and by how much, is the machine's business.

use crate::campaign::Campaigner;
use crate::context;
use kernelseek_testkit::{TestContext, findings};
use serde_json::Value;

fn tiles() -> TestContext {
    context("tuning/tiles")
}

fn verdict(c: &TestContext, args: &[&str]) -> Value {
    let ran = c.run(args).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    ran.json().unwrap()
}

fn read(c: &TestContext, name: &str) -> Option<String> {
    std::fs::read_to_string(c.problem().join(name)).ok()
}

fn built(c: &TestContext) -> Value {
    verdict(c, &["build", "kernel.c", "--json"])
}

#[test]
fn the_assignment_and_the_flags_are_part_of_the_build_and_of_the_verdict() {
    let c = tiles();
    let plain = built(&c);
    assert!(plain["argv"][0].to_string().contains("-DKS_TILE=64"), "{plain:#}");
    assert!(plain["sources"].to_string().contains("kernel.toml"), "{plain:#}");
    c.write(
        "kernel.toml",
        &(read(&c, "kernel.toml").unwrap() + "\n[build]\nset = { tile = 8 }\nflags = [\"-funroll-loops\"]\n"),
    )
    .unwrap();
    let set = built(&c);
    let argv = set["argv"][0].to_string();
    assert!(argv.contains("-DKS_TILE=8") && argv.contains("-funroll-loops"), "{argv}");
    assert_ne!(plain["candidate"], set["candidate"]);
    let v = verdict(&c, &["eval", "kernel.c", "--quick", "--json"]);
    assert_eq!(v["tunables"]["values"]["tile"], 8, "{v:#}");
    assert_eq!(v["tunables"]["flags"][0], "-funroll-loops");
    assert_eq!(v["tunables"]["routable"], true);
    assert_eq!(v["candidate_hash"], set["candidate"]);
    let shown = c.run(&["eval", "kernel.c", "--quick"]).unwrap();
    assert!(shown.stdout.contains("tunables: tile=8 -funroll-loops"), "{}", shown.stdout);
    c.edit("kernel.toml", "tile = 8", "tile = 32").unwrap();
    let stale = verdict(&c, &["eval", "--last", "--json"]);
    assert_eq!(stale["word"], "STALE");
    assert!(stale["findings"][0]["evidence"].to_string().contains("kernel.toml"), "{stale:#}");
}

#[test]
fn without_a_kernel_file_a_build_is_what_it_was() {
    let c = context("rowscale");
    let build = verdict(&c, &["build", "faster.c", "--json"]);
    assert!(!build["argv"].to_string().contains("KS_"), "{build:#}");
    let v = verdict(&c, &["eval", "faster.c", "--quick", "--json"]);
    assert!(v.get("tunables").is_none(), "{v:#}");
}

#[test]
fn a_flag_that_is_not_allowed_fails_with_its_place() {
    let c = tiles();
    let text =
        read(&c, "kernel.toml").unwrap() + "\n[build]\nflags = [\"-funroll-loops\", \"-ffast-math\"]\n";
    c.write("kernel.toml", &text).unwrap();
    let v = verdict(&c, &["eval", "kernel.c", "--quick", "--json"]);
    assert_eq!((v["word"].as_str(), v["passed"].as_str()), (Some("FAIL"), Some("built")));
    assert_eq!(findings(&v), [("allowed.flag".to_owned(), "fail".to_owned())]);
    let evidence = v["findings"][0]["evidence"].to_string();
    assert!(evidence.contains("kernel.toml:12:28: the flag `-ffast-math` is not allowed"), "{evidence}");
}

#[test]
fn what_is_no_kernel_file_is_the_candidates_fault_and_never_waited_for() {
    let c = tiles();
    let path = c.problem().join("kernel.toml");
    let fails = |says: &str| {
        let v = verdict(&c, &["eval", "kernel.c", "--quick", "--json"]);
        assert_eq!(v["word"], "FAIL");
        assert_eq!(findings(&v), [("built.kernel-file".to_owned(), "fail".to_owned())], "{v:#}");
        let evidence = v["findings"][0]["evidence"].to_string();
        assert!(evidence.contains(says), "{says}: {evidence}");
    };
    c.write("kernel.toml", "format = 1\n[[tunable]]\nname = \"tile\"\nvalues = [1]\ndefault = 2\n").unwrap();
    fails("kernel.toml:5:11: the default 2 is not among the values");
    std::fs::write(&path, b"format = 1\n\xff").unwrap();
    fails("kernel.toml:2:1: not UTF-8");
    std::fs::write(&path, vec![b'#'; 300 << 10]).unwrap();
    fails("more than 262144 bytes");
    // A link to what only the supervisor can read would show its lines.
    std::fs::write(c.problem().join("secret"), "hidden words").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("secret", &path).unwrap();
    fails("symbolic link");
    std::fs::remove_file(&path).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    fails("no regular file");
}

#[test]
fn a_campaign_keeps_the_kernel_file_with_the_sources() {
    let c = Campaigner::new(crate::campaign::MET);
    c.campaign_file(crate::campaign::MET, "\n[build]\nflags = [\"-O3\"]\n");
    c.must(&["seal"]);
    let log = |c: &Campaigner| c.json(&["log", "--number", "0"]);
    let last = |c: &Campaigner| -> Value {
        let log = log(c);
        let rows = log.as_array().unwrap();
        rows.iter().rev().find(|r| r["entry"]["kind"] == "evaluated").unwrap()["entry"].clone()
    };
    c.must(&["eval", "--quick"]);
    let current = |c: &Campaigner| c.json(&["status"])["last"]["current"].clone();
    assert_eq!(current(&c), true);
    // A kernel file that appears makes another candidate of the same source.
    c.context.write("kernel.toml", "format = 1\n[build]\nflags = [\"-O3\"]\n").unwrap();
    assert_eq!(current(&c), false);
    c.must(&["eval", "--quick"]);
    let row = last(&c);
    assert!(row.to_string().contains("kernel.toml"), "{row:#}");
    assert!(c.must(&["log"]).stdout.contains("-O3"));
    assert_eq!(c.json(&["status"])["last"]["tunables"], "-O3");
    assert_eq!(current(&c), true);
    c.context.write("kernel.toml", "format = 1\n[build]\nflags = [\"-O2\"]\n").unwrap();
    assert_eq!(current(&c), false);
    c.must(&["eval", "--quick"]);
    let refused = last(&c);
    assert!(refused.to_string().contains("allowed.flag"), "{refused:#}");
    assert!(refused["sources"].to_string().contains("kernel.toml"), "{refused:#}");
    std::fs::remove_file(c.context.problem().join("kernel.toml")).unwrap();
    assert_eq!(current(&c), false, "what was refused speaks for the files that were refused");
}

#[test]
fn a_sweep_writes_only_what_was_gained() {
    let c = tiles();
    let (before, had) = (read(&c, "kernel.toml").unwrap(), read(&c, "kernel_routes.h"));
    assert_eq!(had, None);
    let swept = verdict(&c, &["sweep", "kernel.c", "--seconds", "120", "--json"]);
    let outcome = &swept["outcome"];
    assert!(outcome["arms"].as_array().unwrap().len() == 4, "{swept:#}");
    assert!(outcome["evaluations"].as_u64().unwrap() <= 60);
    if swept["declared_gain"] == true {
        assert!(outcome["words"].as_str().unwrap().contains("faster than before"), "{swept:#}");
        assert_ne!(read(&c, "kernel.toml").unwrap(), before);
        let v = verdict(&c, &["eval", "kernel.c", "--json"]);
        assert_ne!(v["word"], "FAIL", "{v:#}");
        if let Some(routes) = read(&c, "kernel_routes.h") {
            assert!(routes.contains("KS_ROUTE_TILE(call)"), "{routes}");
            assert_eq!(v["tunables"]["routed"][0], "tile", "{v:#}");
        }
    } else {
        assert!(outcome["words"].as_str().unwrap().starts_with("no gain"), "{swept:#}");
        assert_eq!(read(&c, "kernel.toml").unwrap(), before);
        assert_eq!(read(&c, "kernel_routes.h"), None);
    }
}

#[test]
fn a_sweep_without_a_gain_says_so_and_writes_nothing() {
    let c = context("tuning/worse");
    let before = read(&c, "kernel.toml").unwrap();
    let ran = c.run(&["sweep", "kernel.c", "--flags"]).unwrap();
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    assert!(ran.stdout.starts_with("no gain: "), "{}", ran.snapshot());
    assert!(ran.stdout.contains("nothing was written"), "{}", ran.stdout);
    assert_eq!(read(&c, "kernel.toml").unwrap(), before);
    assert!(!c.problem().join("kernel_routes.h").exists());
    let scratch = c.problem().parent().unwrap().join("state/scratch");
    let left = std::fs::read_dir(scratch).unwrap().filter_map(Result::ok);
    let left: Vec<_> =
        left.map(|e| e.file_name()).filter(|n| n.to_string_lossy().starts_with("sweep-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn what_cannot_be_swept_is_refused_with_a_way_out() {
    let c = tiles();
    for (args, code, says) in [
        (&["sweep", "kernel.c", "--seconds", "0"][..], 2, "is no time"),
        (&["sweep"], 2, "no candidate was named"),
        (&["sweep", "none.c"], 3, "none.c"),
    ] {
        let ran = c.run(args).unwrap();
        assert_eq!(ran.code, code, "{}", ran.snapshot());
        assert!(ran.stderr.contains(says), "{}", ran.snapshot());
    }
    c.edit("kernel.toml", "4 * cols", "4 * colz").unwrap();
    let ran = c.run(&["sweep", "kernel.c"]).unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(
        ran.stderr.contains("kernel.toml:9:") && ran.stderr.contains("did you mean `cols`?"),
        "{}",
        ran.stderr
    );
}
