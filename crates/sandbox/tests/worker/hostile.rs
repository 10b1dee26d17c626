//! What a candidate may not do, and what it must be able to do.

use std::path::PathBuf;

use kernelseek_sandbox::command::{self, CommandSpec, toolchain_reads};
use kernelseek_sandbox::limits::Limits;
use kernelseek_sandbox::monitor::Denials;

use crate::supervisor::{PATIENCE, Setup, runs, start, write_file};

const REFUSED: i32 = libc::EPERM;
const NO_ACCESS: i32 = libc::EACCES;

fn recorded(denials: &Denials, call: &str, detail: &str) -> bool {
    denials.kinds.iter().any(|kind| kind.syscall == call && kind.detail.contains(detail))
}

fn denied_and_recorded(namespaces: bool) {
    let folder = tempfile::tempdir().unwrap();
    let secret = write_file(&folder.path().join("secret"), "expected values");
    let victim = write_file(&folder.path().join("victim"), "precious");
    let own = std::process::id();
    let parent_status = format!("/proc/{own}/status");
    let parent_memory = format!("/proc/{own}/mem");
    let new_file = folder.path().join("new").to_str().unwrap().to_owned();
    let sneaky = format!("/usr/lib/../..{secret}");
    let at = |name: &str, argument: &dyn std::fmt::Display| format!("{name}:{argument}");
    // Action, error, recorded call, part of the detail. glibc's spelling of a call depends on the
    // architecture, so either is accepted.
    let cases: Vec<(String, i32, &[&str], String)> = vec![
        (at("socket", &""), REFUSED, &["socket"], "AF_INET".into()),
        (at("socket_unix", &""), REFUSED, &["socket"], "AF_UNIX".into()),
        (at("fork", &""), REFUSED, &["clone"], "flags".into()),
        (at("vfork", &""), REFUSED, &["clone"], "flags 0x4111".into()),
        (at("exec", &""), REFUSED, &["execve"], "/bin/true".into()),
        (at("open_write", &new_file), NO_ACCESS, &["open", "openat"], format!("{new_file} for writing")),
        (at("open_append", &victim), NO_ACCESS, &["open", "openat"], format!("{victim} with")),
        (at("creat", &new_file), NO_ACCESS, &["creat", "openat"], new_file.clone()),
        (at("open_read", &secret), NO_ACCESS, &["open", "openat"], secret.clone()),
        (at("open_read", &sneaky), NO_ACCESS, &["open", "openat"], secret.clone()),
        (at("open_read", &"/etc/shadow"), NO_ACCESS, &["open", "openat"], "/etc/shadow".into()),
        (at("open_proc_parent", &parent_status), NO_ACCESS, &["open", "openat"], parent_status.clone()),
        (at("open_proc_parent", &parent_memory), NO_ACCESS, &["open", "openat"], parent_memory.clone()),
        (at("readlink", &format!("/proc/{own}/exe")), NO_ACCESS, &["readlink", "readlinkat"], "exe".into()),
        (at("unlink", &victim), REFUSED, &["unlink", "unlinkat"], victim.clone()),
        (at("rename", &victim), REFUSED, &["rename", "renameat", "renameat2"], victim.clone()),
        (at("mkdir", &new_file), REFUSED, &["mkdir", "mkdirat"], new_file.clone()),
        (at("rmdir", &folder.path().display()), REFUSED, &["rmdir", "unlinkat"], String::new()),
        (at("symlink", &new_file), REFUSED, &["symlink", "symlinkat"], new_file.clone()),
        (at("chmod", &victim), REFUSED, &["chmod", "fchmodat"], victim.clone()),
        (at("truncate", &victim), REFUSED, &["truncate"], victim.clone()),
        (at("kill", &own), REFUSED, &["kill"], format!("pid {own} signal 15")),
        (at("kill_all", &""), REFUSED, &["kill"], "pid -1".into()),
        (at("tgkill", &own), REFUSED, &["tgkill"], format!("pid {own}")),
        (at("pidfd", &own), REFUSED, &["pidfd_open"], format!("pid {own}")),
        (at("ptrace", &own), REFUSED, &["ptrace"], format!("pid {own}")),
        (at("process_vm_readv", &own), REFUSED, &["process_vm_readv"], format!("pid {own}")),
        (at("io_uring", &""), REFUSED, &["io_uring_setup"], String::new()),
        (at("memfd", &""), REFUSED, &["memfd_create"], String::new()),
        (at("unshare", &""), REFUSED, &["unshare"], String::new()),
        (at("mount", &""), REFUSED, &["mount"], String::new()),
        (at("forget_death", &""), REFUSED, &["prctl"], "option 1".into()),
        (at("undumpable", &""), REFUSED, &["prctl"], "option 4".into()),
        (at("affinity", &""), REFUSED, &["sched_setaffinity"], String::new()),
        (at("priority", &""), REFUSED, &["setpriority"], String::new()),
        (at("own_filter", &""), REFUSED, &["seccomp"], String::new()),
        (at("written_code", &""), REFUSED, &["mprotect"], String::new()),
        (at("timer", &""), REFUSED, &["timer_create"], String::new()),
    ];
    let setup = Setup { namespaces, ..Setup::default() };
    let actions: Vec<&str> = cases.iter().map(|(action, ..)| action.as_str()).collect();
    let mut worker = start(&setup, &actions);
    assert_eq!(
        worker.layers.namespaces.iter().any(|(name, state)| name == "mount" && state.is_enforced()),
        namespaces && worker.layers.namespaces.iter().any(|(name, s)| name == "user" && s.is_enforced())
    );
    assert!(worker.layers.seccomp.is_enforced(), "{:?}", worker.layers);
    let outcomes = worker.finish();
    let denials = worker.denials();
    for (action, error, calls, detail) in &cases {
        if worker.layers.denials_recorded.is_enforced() {
            assert_eq!(outcomes[action], *error, "{action}");
            assert!(calls.iter().any(|call| recorded(&denials, call, detail)), "{action}: {denials:#?}");
        } else {
            // Which layer refuses, and with which error, depends on the machine.
            assert_ne!(outcomes[action], 0, "{action}");
        }
    }
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!PathBuf::from(new_file).exists());
}

pub(crate) fn denied_and_recorded_in_namespaces() {
    denied_and_recorded(true);
}

pub(crate) fn denied_and_recorded_without_namespaces() {
    denied_and_recorded(false);
}

pub(crate) fn ordinary_work_is_allowed() {
    let actions = [
        "malloc",
        "threads",
        "thread_frees",
        "dlopen:libm.so.6",
        "dlopen:libresolv.so.2",
        "sleep",
        "time",
        "random",
        "read_zero",
        "raise_own",
        "open_read:/proc/cpuinfo",
        "open_read:/proc/self/maps",
        "open_read:/sys/devices/system/cpu/online",
    ];
    for namespaces in [true, false] {
        let mut worker = start(&Setup { namespaces, ..Setup::default() }, &actions);
        let shown = worker.layers.namespaces.clone();
        let outcomes = worker.finish();
        for action in actions {
            // The view of an own root shows /sys only where it is listed and bound.
            assert_eq!(outcomes[action], 0, "{action} {shown:?} {:#?}", worker.denials());
        }
        assert_eq!(worker.denials(), Denials::default(), "namespaces: {namespaces}");
    }
}

const OPENMP: &str = r"
#include <omp.h>
int entry(void) {
    long sum = 0;
    #pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int i = 0; i < 100000; ++i) sum += i % 7;
    return sum == 299995 ? 0 : 1;
}
";

const CPP: &str = r#"
#include <algorithm>
#include <cmath>
#include <chrono>
#include <iostream>
#include <memory>
#include <mutex>
#include <condition_variable>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
extern "C" int entry() {
    std::vector<double> values(1 << 20);
    std::mt19937_64 generator(std::random_device{}());
    for (double &value : values) value = std::exp(-double(generator() % 1000) / 100.0);
    std::sort(values.begin(), values.end());
    std::mutex lock; std::condition_variable done; int count = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&] { std::lock_guard<std::mutex> hold(lock); ++count; done.notify_all(); });
    { std::unique_lock<std::mutex> hold(lock); done.wait(hold, [&] { return count == 3; }); }
    for (auto &thread : threads) thread.join();
    try { throw std::runtime_error("thrown"); } catch (const std::exception &error) {
        if (std::string(error.what()) != "thrown") return 2;
    }
    std::cerr << "spoken" << std::endl;
    return std::chrono::steady_clock::now().time_since_epoch().count() > 0 ? 0 : 3;
}
"#;

pub(crate) fn compiled_libraries_work() {
    let folder = tempfile::tempdir().unwrap();
    let mut actions = Vec::new();
    for (file, source, compiler, flags) in [
        ("openmp.c", OPENMP, "/usr/bin/cc", vec!["-fopenmp"]),
        ("plain.cpp", CPP, "/usr/bin/c++", vec!["-std=c++17", "-pthread"]),
    ] {
        if !PathBuf::from(compiler).exists() {
            println!("  no {compiler}: skipped");
            continue;
        }
        write_file(&folder.path().join(file), source);
        let library = folder.path().join(file).with_extension("so");
        let mut args = vec!["-shared", "-fPIC", "-O2", file, "-o", library.to_str().unwrap()];
        args.extend(flags);
        let built = command::run(&CommandSpec {
            program: compiler.into(),
            args: args.iter().map(Into::into).collect(),
            cwd: folder.path().to_owned(),
            env: [("PATH".into(), "/usr/bin:/bin".into())].into(),
            read: toolchain_reads(),
            write: vec![folder.path().to_owned()],
            scratch: folder.path().to_owned(),
            deadline: PATIENCE,
            limits: Limits::default(),
            output_cap: 4096,
        })
        .unwrap();
        assert!(built.ended.success(), "{:?} {}", built.ended, built.stderr.text());
        actions.push(format!("call:{}", library.display()));
    }
    let actions: Vec<&str> = actions.iter().map(String::as_str).collect();
    for namespaces in [true, false] {
        let mut setup = Setup { namespaces, ..Setup::default() };
        setup.read.push(folder.path().to_owned());
        let mut worker = start(&setup, &actions);
        let outcomes = worker.finish();
        for action in &actions {
            assert_eq!(outcomes[*action], 0, "{action} {:#?}", worker.denials());
        }
        assert_eq!(worker.denials(), Denials::default(), "namespaces: {namespaces}");
    }
}

pub(crate) fn attempts_are_counted() {
    let mut worker = start(&Setup::default(), &["many_sockets:6000"]);
    if worker.monitor.is_none() {
        return;
    }
    worker.finish();
    let denials = worker.denials();
    assert_eq!(denials.total, 6000);
    assert_eq!(denials.kinds.len(), 1);
    assert_eq!(denials.kinds[0].count, 6000);
    assert_eq!(denials.kinds[0].detail, "AF_INET6");
    let taken = worker.monitor.as_ref().unwrap().take();
    assert_eq!(taken.total, 6000);
    assert_eq!(worker.denials(), Denials::default());
}

pub(crate) fn fork_bomb_is_contained() {
    for namespaces in [true, false] {
        let mut worker = start(&Setup { namespaces, ..Setup::default() }, &["fork_bomb:2000"]);
        worker.finish();
        assert_eq!(worker.denials().total, 2000);
        assert!(!runs(worker.pid));
    }
}

pub(crate) fn threads_can_be_forbidden() {
    let mut worker = start(&Setup { threads: false, ..Setup::default() }, &["threads"]);
    assert_eq!(worker.finish()["threads"], REFUSED);
    assert!(recorded(&worker.denials(), "clone", "flags"));
}

pub(crate) fn memory_is_limited() {
    let setup = Setup { address_space: 1 << 30, ..Setup::default() };
    let mut worker = start(&setup, &["allocate:100", "allocate:4096"]);
    let outcomes = worker.finish();
    assert_eq!(outcomes["allocate:100"], 0);
    assert_eq!(outcomes["allocate:4096"], libc::ENOMEM);
}
