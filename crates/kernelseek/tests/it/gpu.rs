//! `gpu` and the GPU part of `doctor`. A library that stands in for NVML shows two GPUs; leases are real.

use crate::context;
use kernelseek_testkit::{Ran, TestContext, stand_in};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const FIRST: &str = "GPU-11111111-0000-4000-8000-000000000001";
const SECOND: &str = "GPU-22222222-0000-4000-8000-000000000002";
const BINARY: &str = env!("CARGO_BIN_EXE_kernelseek");

struct Bench {
    context: TestContext,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        stand_in::nvml(folder.path()).unwrap();
        Self { context: context("rowscale"), folder }
    }

    fn leases(&self) -> PathBuf {
        self.folder.path().join("leases")
    }

    fn run_with(&self, args: &[&str], more: &[(&str, &str)]) -> Ran {
        let library = self.folder.path().display().to_string();
        let leases = self.leases().display().to_string();
        let mut env = vec![("LD_LIBRARY_PATH", library.as_str()), ("KERNELSEEK_GPU_LEASES", leases.as_str())];
        env.extend(more);
        self.context.run_with(args, &env).unwrap()
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_with(args, &[])
    }

    fn list(&self) -> serde_json::Value {
        self.run(&["gpu", "--json"]).json().unwrap()
    }

    /// A command under a lease that has said its first line.
    fn start(&self, script: &str) -> Child {
        let mut child = Command::new(BINARY)
            .args(["gpu", "--lasts", "1h", "--", "sh", "-c", script])
            .env("LD_LIBRARY_PATH", self.folder.path())
            .env("KERNELSEEK_GPU_LEASES", self.leases())
            .env_remove("CUDA_VISIBLE_DEVICES")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        child
    }
}

fn send(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_list_names_gpus_their_users_and_who_holds_them() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.run(&["gpu"]).snapshot());
    let me = std::process::id();
    let list = bench.run_with(&["gpu", "--json"], &[("FAKE_NVML_PID", &me.to_string())]).json().unwrap();
    assert_eq!((&list["driver"], &list["cuda"]), (&"580.159.04".into(), &serde_json::json!([13, 0])));
    assert_eq!(list["gpus"][0]["processes"]["known"][0]["pid"], me);
    assert_eq!(list["gpus"][1]["compute_mode"], "exclusive_process");
    assert_eq!(list["gpus"][1]["lease"], serde_json::Value::Null);
    let text = bench.run_with(&["gpu", "--gpu", "0"], &[("FAKE_NVML_PID", &me.to_string())]).stdout;
    assert!(
        text.contains(&format!("{me} (")) && text.contains("1.0 GiB") && !text.contains(SECOND),
        "{text}"
    );
}

#[test]
fn a_command_sees_its_gpu_and_its_exit_code_is_passed_on() {
    let bench = Bench::new();
    let script = "echo $CUDA_VISIBLE_DEVICES $KERNELSEEK_GPU; exit 7";
    let ran = bench.run(&["gpu", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.stdout), (7, format!("{FIRST} {FIRST}\n")));
    for gpu in ["1", SECOND, "GPU-2222"] {
        let ran = bench.run(&["gpu", "--gpu", gpu, "--", "sh", "-c", script]);
        assert_eq!((ran.code, ran.stdout), (7, format!("{SECOND} {SECOND}\n")));
    }
    let ran = bench.run_with(&["gpu", "--", "sh", "-c", script], &[("CUDA_VISIBLE_DEVICES", SECOND)]);
    assert_eq!(ran.stdout, format!("{SECOND} {SECOND}\n"));
    assert_eq!(bench.run(&["gpu", "--", "sh", "-c", "kill -9 $$"]).code, 137);
    let masked = bench.run(&["gpu", "--", "grep", "SigBlk", "/proc/self/status"]);
    assert!(masked.stdout.contains("0000000000000000"), "no signal is held back from it: {}", masked.stdout);
    assert_eq!(bench.list()["gpus"][0]["lease"], serde_json::Value::Null, "released");
}

#[test]
fn refusals_name_the_way_out() {
    let bench = Bench::new();
    bench.context.write("not_executable", "x").unwrap();
    let runs = [
        &["gpu", "--gpu", "GPU-none", "--", "true"][..],
        &["gpu", "--gpu", "7"],
        &["gpu", "--wait", "soon", "--", "true"],
        &["gpu", "--lasts", "1h"],
        &["gpu", "--", "no-such-program"],
        &["gpu", "--", "./not_executable"],
    ];
    let mut text = String::new();
    for args in runs {
        text.push_str(&format!("$ kernelseek {}\n{}\n", args.join(" "), bench.run(args).snapshot()));
    }
    insta::assert_snapshot!(text);
    let leases = bench.folder.path().join("file");
    std::fs::write(&leases, "x").unwrap();
    let ran =
        bench.run_with(&["gpu", "--", "true"], &[("KERNELSEEK_GPU_LEASES", &leases.display().to_string())]);
    assert_eq!(ran.code, 5);
    assert!(ran.stderr.contains("is not a folder") && ran.stderr.contains("hint:"), "{}", ran.stderr);
}

#[test]
fn an_inner_command_does_not_wait_for_the_one_around_it() {
    let bench = Bench::new();
    let ran = bench.run(&[
        "gpu", "--", BINARY, "gpu", "--wait", "0", "--", BINARY, "gpu", "--wait", "0", "--", "echo", "in",
    ]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (0, "in\n", ""));
    // The token is passed on, and nothing else of the lease: without it the command waits like anybody.
    let ran = bench.run(&[
        "gpu",
        "--",
        "env",
        "-u",
        "KERNELSEEK_GPU_LEASE",
        BINARY,
        "gpu",
        "--wait",
        "0",
        "--",
        "true",
    ]);
    assert_eq!(ran.code, 5, "{}", ran.snapshot());
}

#[test]
fn others_wait_and_are_told_for_whom() {
    let bench = Bench::new();
    let mut holder = bench.start("echo ready; read line; exit 3");
    let refused = bench.run(&["gpu", "--wait", "0", "--", "true"]);
    assert_eq!(refused.code, 5);
    let pid = holder.id().to_string();
    for word in [pid.as_str(), "sh -c echo ready", "--wait 2h"] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    let waited = bench.run(&["gpu", "--wait", "1", "--", "true"]);
    assert_eq!(waited.code, 5);
    assert_eq!(waited.stderr.matches("waiting for GPU 0: process").count(), 1, "{}", waited.stderr);
    assert_eq!(bench.list()["gpus"][0]["lease"]["pid"].to_string(), pid);
    assert_eq!(
        bench.run(&["gpu", "--gpu", "1", "--wait", "0", "--", "true"]).code,
        0,
        "the other GPU is free"
    );
    drop(holder.stdin.take());
    assert_eq!(holder.wait().unwrap().code(), Some(3));
    assert_eq!(bench.run(&["gpu", "--wait", "0", "--", "true"]).code, 0);
}

#[test]
fn signals_go_on_to_the_command_and_kill_leaves_the_lease_to_it() {
    let bench = Bench::new();
    let mut holder = bench.start("trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done");
    send(&holder, "-TERM");
    assert_eq!(holder.wait().unwrap().code(), Some(9));

    let mut holder = bench.start("echo ready; read line");
    let stdin = holder.stdin.take();
    send(&holder, "-KILL");
    holder.wait().unwrap();
    let lease = &bench.list()["gpus"][0]["lease"];
    assert_eq!(lease["orphaned"], true, "the command still runs: {lease}");
    drop(stdin);
    assert_eq!(bench.run(&["gpu", "--wait", "60", "--", "true"]).code, 0, "and then it is free");
}

#[test]
fn a_machine_without_a_gpu_refuses_and_says_why() {
    let c = context("rowscale");
    let list = c.run(&["gpu", "--json"]).unwrap();
    assert_eq!(list.code, 0);
    if list.json().unwrap()["why"].is_null() {
        return;
    }
    for args in [&["gpu", "--gpu", FIRST][..], &["gpu", "--gpu", FIRST, "--", "true"], &["gpu", "--", "true"]]
    {
        let ran = c.run(args).unwrap();
        assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{}", ran.snapshot());
        assert!(ran.stderr.contains("no GPU can be used") && ran.stderr.contains("doctor"), "{}", ran.stderr);
    }
    assert!(c.run(&["gpu"]).unwrap().stdout.starts_with("! no GPU: "));
}

#[test]
fn doctor_names_the_driver_and_the_agents_with_a_fix_for_what_is_amiss() {
    let bench = Bench::new();
    let tools = bench.folder.path().join("bin");
    std::fs::create_dir(&tools).unwrap();
    for (name, body) in
        [("claude", "echo '9.9.9 (Claude Code)'"), ("codex", "echo codex-cli 1.2.3"), ("aider", "exit 1")]
    {
        let path = tools.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", tools.display());
    let facts = bench.run_with(&["doctor", "--json"], &[("PATH", &path)]).json().unwrap();
    let rows = facts["gpu"]["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(row["good"].as_bool().unwrap(), row["fix"].is_null(), "{row}");
    }
    assert_eq!(rows[0]["name"], "driver");
    let agents: Vec<&str> =
        rows.iter().filter(|r| r["name"] == "agent").filter_map(|r| r["value"].as_str()).collect();
    assert_eq!(agents, ["claude 9.9.9 (Claude Code)", "codex-cli 1.2.3", "aider: it names no version"]);
    assert!(facts["gpu"]["surroundings"]["gpus"].as_array().unwrap().len() >= 2, "both of the library's");

    let text = bench.run_with(&["doctor"], &[("PATH", &path)]).stdout;
    let part: String =
        text.lines().skip_while(|l| !l.contains("driver ")).map(|l| format!("{l}\n")).collect();
    for line in part.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    assert!(part.contains("✓ agent            claude 9.9.9"), "{part}");
    assert!(part.contains("! agent            aider") && part.contains("fix: see what"), "{part}");
}
