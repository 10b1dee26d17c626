//! What the layers deny is denied and recorded; what computation needs works. Real processes: this binary starts
//! itself again as a worker, applies the layers, tries one thing, and reports over its exit code.

#![expect(unsafe_code, reason = "the test tries system calls that no safe interface offers")]
#![expect(clippy::print_stdout, clippy::exit, clippy::expect_used, clippy::unwrap_used, reason = "a test program")]

use kernelseek_sandbox::limits::{self, Limits};
use kernelseek_sandbox::lockdown::{self, LockdownSpec};
use kernelseek_sandbox::monitor::Monitor;
use kernelseek_sandbox::namespaces::{self, NamespaceSpec};
use kernelseek_sandbox::process::{self, CapturedChild, Ended, ProcessSpec};
use kernelseek_sandbox::{command, report};
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// What a try came to, as an exit code.
const WORKED: i32 = 10;
const REFUSED: i32 = 11;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("worker") => std::process::exit(worker(&args[1], &args[2], args[3] == "ns")),
        Some("sandbox-exec") => std::process::exit(i32::from(command::sandbox_exec_main(&args[1..]))),
        _ => {}
    }
    let filter = args.iter().find(|a| !a.starts_with('-')).cloned();
    if args.iter().any(|a| a == "--list") {
        for (name, _) in TESTS {
            println!("{name}: test");
        }
        return;
    }
    let mut failed = 0;
    let mut ran = 0;
    for (name, test) in TESTS {
        if filter.as_ref().is_some_and(|f| !name.contains(f.as_str())) {
            continue;
        }
        ran += 1;
        let outcome = std::panic::catch_unwind(test);
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += usize::from(outcome.is_err());
    }
    println!(
        "\ntest result: {}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out",
        if failed == 0 { "ok" } else { "FAILED" },
        ran - failed
    );
    std::process::exit(i32::from(failed > 0));
}

const TESTS: [(&str, fn()); 8] = [
    ("forbidden_things_are_refused_and_recorded", forbidden),
    ("forbidden_things_are_refused_without_namespaces", forbidden_without_namespaces),
    ("allowed_things_work", allowed),
    ("a_deadline_kills_grandchildren", deadline),
    ("a_flood_of_output_is_bounded", flood),
    ("stopping_stops_every_thread", stopping),
    ("builds_cannot_leave_their_folder", build),
    ("the_machine_is_probed", probe),
];

// ---- the worker's side -------------------------------------------------------------------------------------------

fn worker(what: &str, secret: &str, namespaced: bool) -> i32 {
    let socket = unsafe { UnixStream::from_raw_fd(3) };
    limits::apply(&Limits { open_files: Some(64), ..Limits::default() }).unwrap();
    let read = lockdown::system_folders();
    if namespaced {
        let spec = NamespaceSpec { read: read.clone(), devices: true, private_proc: true };
        let namespaces = namespaces::enter(&spec, |_| {}).unwrap();
        assert!(namespaces.state.is_enforced(), "{:?}", namespaces.state);
    }
    let lockdown = lockdown::apply(&LockdownSpec { read, threads_allowed: true }).unwrap();
    let listener = lockdown.listener.expect("this machine records denials");
    send_fd(&socket, &listener);
    drop(listener);
    // The supervisor is ready when it answers.
    let mut byte = [0];
    std::io::Read::read_exact(&mut &socket, &mut byte).unwrap();
    let ok = match what {
        "socket" => unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) >= 0 },
        "fork" => unsafe { libc::fork() >= 0 },
        "exec" => unsafe {
            libc::execve(c"/bin/true".as_ptr(), std::ptr::null(), std::ptr::null());
            false
        },
        "write" => std::fs::write(format!("{secret}.new"), "x").is_ok(),
        "unlink" => std::fs::remove_file(secret).is_ok(),
        // In a pid namespace of one's own the parent is 0, and kill(0) would mean the own group: name another.
        "kill" => unsafe { libc::kill(libc::getppid().max(4_000_000), 0) == 0 },
        "ptrace" => unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) == 0 },
        "secret" => std::fs::read(secret).is_ok(),
        "shadow" => std::fs::read("/etc/shadow").is_ok(),
        "parent" => std::fs::read(format!("/proc/{}/environ", unsafe { libc::getppid() })).is_ok(),
        "jit" => unsafe {
            let page = libc::mmap(
                std::ptr::null_mut(),
                4096,
                libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            page != libc::MAP_FAILED
        },
        "affinity" => unsafe {
            let set: libc::cpu_set_t = std::mem::zeroed();
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set) == 0
        },
        "threads" => std::thread::spawn(|| 7).join().unwrap() == 7,
        "memory" => vec![1u8; 64 << 20].iter().map(|&b| u64::from(b)).sum::<u64>() == 64 << 20,
        "dlopen" => unsafe { !libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW).is_null() },
        "maps" => std::fs::read("/proc/self/maps").is_ok(),
        other => panic!("{other}?"),
    };
    if ok { WORKED } else { REFUSED }
}

fn send_fd(socket: &UnixStream, fd: &OwnedFd) {
    unsafe {
        let mut byte = [1u8];
        let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut space = [0u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as _;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        *libc::CMSG_DATA(header).cast::<i32>() = fd.as_raw_fd();
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), 1);
    }
}

fn receive_fd(socket: &UnixStream) -> OwnedFd {
    unsafe {
        let mut byte = [0u8];
        let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
        let mut space = [0u64; 4];
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&space) as _;
        assert_eq!(libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0), 1);
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        OwnedFd::from_raw_fd(*libc::CMSG_DATA(header).cast::<i32>())
    }
}

// ---- the supervisor's side ---------------------------------------------------------------------------------------

/// Runs one try in a worker; gives its exit code and the denied system calls.
fn attempt(what: &str, secret: &str, namespaced: bool) -> (i32, Vec<String>) {
    use std::os::unix::process::CommandExt;
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.env_remove("LD_LIBRARY_PATH");
    command.args(["worker", what, secret, if namespaced { "ns" } else { "plain" }]);
    unsafe {
        let fd = theirs.as_raw_fd();
        command.pre_exec(move || {
            if fd == 3 { libc::fcntl(3, libc::F_SETFD, 0) } else { libc::dup2(fd, 3) };
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    drop(theirs);
    let listener = receive_fd(&ours);
    let mut allowed = lockdown::system_folders();
    allowed.extend(["/proc/self", "/dev/null"].map(std::path::PathBuf::from));
    let monitor = Monitor::start(listener, allowed);
    std::io::Write::write_all(&mut &ours, &[1]).unwrap();
    let code = child.wait().unwrap().code().unwrap_or(-1);

    (code, monitor.denials().into_iter().map(|d| d.syscall).collect())
}

fn try_all(namespaced: bool) {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "s").unwrap();
    let secret = secret.to_str().unwrap();
    for (what, recorded) in [
        ("socket", "socket"),
        ("fork", "clone"),
        ("exec", "execve"),
        ("write", "openat"),
        ("unlink", "unlink"),
        ("kill", "kill"),
        ("ptrace", "ptrace"),
        ("secret", "openat"),
        ("shadow", "openat"),
        ("parent", "openat"),
        ("jit", "mmap"),
        ("affinity", "sched_setaffinity"),
    ] {
        let (code, denials) = attempt(what, secret, namespaced);
        assert_eq!(code, REFUSED, "{what} (namespaces: {namespaced}), denied: {denials:?}");
        assert!(denials.iter().any(|d| d == recorded), "{what}: {denials:?} lacks {recorded}");
    }
    assert!(std::path::Path::new(secret).exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing was written");
}

fn forbidden() {
    try_all(true);
}

fn forbidden_without_namespaces() {
    try_all(false);
}

fn allowed() {
    for namespaced in [true, false] {
        for what in ["threads", "memory", "dlopen", "maps"] {
            let (code, denials) = attempt(what, "/nowhere", namespaced);
            assert_eq!(code, WORKED, "{what} (namespaces: {namespaced})");
            assert!(denials.is_empty(), "{what}: {denials:?}");
        }
    }
}

fn shell(script: &str, flood_limit: Option<u64>) -> CapturedChild {
    CapturedChild::spawn(&ProcessSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        cwd: None,
        flood_limit,
    })
    .unwrap()
}

fn deadline() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    let mut child = shell(&format!("(sleep 2; touch {}) & sleep 60", alive.display()), None);
    assert_eq!(child.wait(Duration::from_millis(200)), None);
    child.end();
    std::thread::sleep(Duration::from_millis(2300));
    assert!(!alive.exists(), "the grandchild outlived its group");
}

fn flood() {
    let child = shell("yes", Some(1 << 20));
    let ended = child.wait(Duration::from_secs(20));
    assert_eq!(ended, Some(Ended::Killed(libc::SIGKILL)));
    let [out, _] = child.output();
    assert!(out.flooded);
    assert_eq!(out.head.len(), 64 << 10);
}

fn stopping() {
    let child = shell("while :; do :; done", None);
    std::thread::sleep(Duration::from_millis(50));
    process::stop(child.id()).unwrap();
    let before = process::cpu_time(child.id()).unwrap();
    assert!(before > Duration::from_millis(5), "it was running: {before:?}");
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(process::cpu_time(child.id()).unwrap(), before, "a stopped process uses no time");
    process::cont(child.id()).unwrap();
    let start = Instant::now();
    while process::cpu_time(child.id()).unwrap() == before {
        assert!(start.elapsed() < Duration::from_secs(5), "it goes on");
    }
    drop(child);
    assert!(process::stop(u32::MAX).is_err());
}

fn build() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "s").unwrap();
    let run = |script: String| {
        command::run(&command::CommandSpec {
            helper: std::env::current_exe().unwrap(),
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script],
            cwd: folder.path().to_owned(),
            env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            read: vec!["/usr".into(), "/lib".into(), "/lib64".into(), "/bin".into(), "/dev/null".into()],
            write: vec![folder.path().to_owned()],
            deadline: Duration::from_secs(5),
            limits: Limits::default(),
            output_cap: 100,
        })
        .unwrap()
    };
    let ok = run("echo hello > made && cat made".into());
    assert_eq!((ok.ended, ok.stdout.as_slice()), (Some(Ended::Exited(0)), &b"hello\n"[..]), "{}", String::from_utf8_lossy(&ok.stderr));
    assert_ne!(run(format!("cat {}/secret", outside.path().display())).ended, Some(Ended::Exited(0)));
    assert_ne!(run(format!("echo x > {}/made", outside.path().display())).ended, Some(Ended::Exited(0)));
    assert_eq!(run("exit 7".into()).ended, Some(Ended::Exited(7)));
    let slow = Instant::now();
    assert!(run("sleep 60".into()).timed_out);
    assert!(slow.elapsed() < Duration::from_secs(10));
    assert_eq!(run("head -c 1000 /usr/bin/env".into()).stdout.len(), 100);
}

fn probe() {
    let layers = report::probe(&std::env::current_exe().unwrap());
    assert!(layers.seccomp.is_enforced(), "{layers:?}");
    assert_eq!(layers.entries().len(), 4);
}
