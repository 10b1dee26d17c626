//! Which system calls a candidate, and a build, may make.
//!
//! A candidate lives under an allow-list: what computing, threads, memory, time and a loader need, and
//! nothing that touches other processes, files for writing, sockets or the machine. A build runs programs,
//! so it lives under a deny-list; Landlock is its fence for files.

use crate::bpf::{Action, Arm, Half, Policy, Rule, Test};
use crate::syscalls::number;

/// Flags of an open that can change a file: access mode, create, truncate, append, temporary file.
pub(crate) const WRITE_FLAGS: u32 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND | O_TMPFILE_BIT) as u32;

// `O_TMPFILE` as libc gives it includes `O_DIRECTORY`, which reading a folder needs.
const O_TMPFILE_BIT: libc::c_int = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// What the policy of a candidate depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// The worker's process id as it sees itself: the only target of its signals.
    pub(crate) own_pid: u32,
    /// Whether it may start threads.
    pub(crate) threads: bool,
    /// Whether it drives devices, which takes all of `ioctl` and code that drivers write at run time.
    pub(crate) devices: bool,
}

/// Calls without a condition, most frequent first.
const ALLOWED: &[&str] = &[
    // What a worker does while it is timed.
    "futex",
    "read",
    "write",
    "sched_yield",
    "clock_gettime",
    "clock_nanosleep",
    "nanosleep",
    "poll",
    "ppoll",
    "recvmsg",
    "sendmsg",
    "recvfrom",
    "readv",
    "writev",
    "select",
    "pselect6",
    // Memory.
    "munmap",
    "madvise",
    "brk",
    "mremap",
    "mincore",
    "msync",
    "mlock",
    "mlock2",
    "munlock",
    "mlockall",
    "munlockall",
    "get_mempolicy",
    "set_mempolicy",
    "set_mempolicy_home_node",
    "mbind",
    "pkey_alloc",
    "pkey_free",
    "map_shadow_stack",
    "mseal",
    // Threads and signals of the process itself.
    "futex_waitv",
    "futex_wake",
    "futex_wait",
    "futex_requeue",
    "set_robust_list",
    "set_tid_address",
    "rseq",
    "membarrier",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    "pause",
    "wait4",
    "waitid",
    // Time, identity and what the machine is like.
    "clock_getres",
    "gettimeofday",
    "time",
    "times",
    "getrusage",
    "getcpu",
    "sched_getaffinity",
    "sched_getparam",
    "sched_getscheduler",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getattr",
    "sched_rr_get_interval",
    "getpriority",
    "getrlimit",
    "sysinfo",
    "uname",
    "getpid",
    "getppid",
    "gettid",
    "getpgrp",
    "getpgid",
    "getsid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "getresuid",
    "getresgid",
    "getgroups",
    "capget",
    "getrandom",
    "arch_prctl",
    "get_thread_area",
    // Descriptors it already has, and what a loader asks of files.
    "close",
    "close_range",
    "fstat",
    "newfstatat",
    "stat",
    "lstat",
    "statx",
    "lseek",
    "pread64",
    "preadv",
    "preadv2",
    "access",
    "faccessat",
    "faccessat2",
    "getdents64",
    "getcwd",
    "dup",
    "dup2",
    "dup3",
    "pipe",
    "pipe2",
    "eventfd2",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "fadvise64",
    "readahead",
];

/// Calls whose path the supervisor judges.
const JUDGED: &[&str] = &["readlink", "readlinkat"];

/// Calls that a C library tries first: they must look absent, not forbidden, or it does not fall back.
const ABSENT: &[&str] = &["clone3", "openat2"];

/// Calls that send a signal, with the argument that names the process.
const SIGNALS: &[(&str, u8)] =
    &[("kill", 0), ("tgkill", 0), ("tkill", 0), ("rt_sigqueueinfo", 0), ("rt_tgsigqueueinfo", 0)];

/// Commands of `fcntl` that neither lock nor name another process.
const FCNTL: &[libc::c_int] = &[
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GET_SEALS,
];

// Thread names, memory names, transparent huge pages, and questions. Nothing that would clear the
// parent-death signal, dumpability (the supervisor reads paths from memory) or add filters.
const PRCTL: &[libc::c_int] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    0x5356_4d41, // PR_SET_VMA
    libc::PR_GET_DUMPABLE,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_GET_THP_DISABLE,
    libc::PR_SET_THP_DISABLE,
    50, // PR_SVE_SET_VL
    51, // PR_SVE_GET_VL
];

/// Requests of `ioctl` that ask about a descriptor: is it a terminal, how much can be read.
const IOCTL_QUESTIONS: &[u32] = &[0x5401, 0x5413, 0x541B, 0x5450, 0x5451];

/// Requests of `ioctl` that stay denied on devices: signals to other processes, input to a terminal.
const IOCTL_NEVER: &[u32] = &[0x5412, 0x541C, 0x5452, 0x8901, 0x8902];

fn low(argument: u8, mask: u32, equals: u32) -> Test {
    Test { argument, half: Half::Low, mask, equals }
}

fn null(argument: u8) -> Vec<Test> {
    [Half::Low, Half::High].map(|half| Test { argument, half, mask: u32::MAX, equals: 0 }).to_vec()
}

fn when(tests: Vec<Test>, action: Action) -> Arm {
    Arm { tests, action }
}

fn rule(name: &str, arms: Vec<Arm>, otherwise: Action) -> Option<Rule> {
    // A call that this architecture does not have needs no rule.
    number(name).map(|number| Rule { number, arms, otherwise })
}

/// The policy of a process that runs a candidate's code.
pub(crate) fn candidate(parameters: Candidate) -> Policy {
    let Candidate { own_pid, threads, devices } = parameters;
    let one_of = |argument: u8, values: &mut dyn Iterator<Item = u32>, action: Action| -> Vec<Arm> {
        values.map(|value| when(vec![low(argument, u32::MAX, value)], action)).collect()
    };

    let mut rules: Vec<Option<Rule>> =
        ALLOWED.iter().map(|name| rule(name, Vec::new(), Action::Allow)).collect();
    rules.extend(JUDGED.iter().map(|name| rule(name, Vec::new(), Action::Judge)));
    rules.extend(ABSENT.iter().map(|name| rule(name, Vec::new(), Action::Fail(libc::ENOSYS as u16))));
    rules.extend(SIGNALS.iter().map(|&(name, argument)| {
        rule(name, vec![when(vec![low(argument, u32::MAX, own_pid)], Action::Allow)], Action::Deny)
    }));
    for (name, flags) in [("open", 1), ("openat", 2)] {
        rules.push(rule(name, vec![when(vec![low(flags, WRITE_FLAGS, 0)], Action::Judge)], Action::Deny));
    }
    rules.push(rule("fcntl", one_of(1, &mut FCNTL.iter().map(|c| *c as u32), Action::Allow), Action::Deny));
    rules.push(rule("prctl", one_of(0, &mut PRCTL.iter().map(|c| *c as u32), Action::Allow), Action::Deny));
    rules.push(if devices {
        rule("ioctl", one_of(1, &mut IOCTL_NEVER.iter().copied(), Action::Deny), Action::Allow)
    } else {
        rule("ioctl", one_of(1, &mut IOCTL_QUESTIONS.iter().copied(), Action::Allow), Action::Deny)
    });
    let executable = libc::PROT_EXEC as u32;
    if devices {
        // Drivers write code of their own.
        rules.extend(["mmap", "mprotect", "pkey_mprotect"].map(|name| rule(name, Vec::new(), Action::Allow)));
    } else {
        // Code comes from files that a loader maps: memory that the process has written is never executed,
        // so what was inspected is what runs.
        let unwritable = executable | libc::PROT_WRITE as u32;
        let from_file = vec![low(2, unwritable, executable), low(3, libc::MAP_ANONYMOUS as u32, 0)];
        let arms = vec![when(vec![low(2, executable, 0)], Action::Allow), when(from_file, Action::Allow)];
        rules.push(rule("mmap", arms, Action::Deny));
        for name in ["mprotect", "pkey_mprotect"] {
            let arms = vec![when(vec![low(2, executable, 0)], Action::Allow)];
            rules.push(rule(name, arms, Action::Deny));
        }
    }
    // A send to a named address would be a way out through a datagram socket.
    rules.push(rule("sendto", vec![when(null(4), Action::Allow)], Action::Deny));
    rules.push(rule("prlimit64", vec![when(null(2), Action::Allow)], Action::Deny));
    if threads {
        // A thread shares memory and thread group and enters no new namespace.
        let wanted = (libc::CLONE_THREAD | libc::CLONE_VM) as u32;
        let namespaces = libc::CLONE_NEWNS
            | libc::CLONE_NEWCGROUP
            | libc::CLONE_NEWUTS
            | libc::CLONE_NEWIPC
            | libc::CLONE_NEWUSER
            | libc::CLONE_NEWPID
            | libc::CLONE_NEWNET;
        let mask = wanted | namespaces as u32;
        rules.push(rule("clone", vec![when(vec![low(0, mask, wanted)], Action::Allow)], Action::Deny));
    }
    Policy { rules: rules.into_iter().flatten().collect(), otherwise: Action::Deny }
}

/// Calls that a build never needs: networks, other processes, the machine, and ways out of its group.
const DENIED_TO_BUILDS: &[&str] = &[
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "process_mrelease",
    "kcmp",
    "pidfd_open",
    "pidfd_getfd",
    "pidfd_send_signal",
    "setsid",
    "setpgid",
    "unshare",
    "setns",
    "mount",
    "umount2",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fsmount",
    "fsconfig",
    "fspick",
    "pivot_root",
    "chroot",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "add_key",
    "request_key",
    "keyctl",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "init_module",
    "finit_module",
    "delete_module",
    "swapon",
    "swapoff",
    "acct",
    "sethostname",
    "setdomainname",
    "clock_settime",
    "clock_adjtime",
    "settimeofday",
    "adjtimex",
    "quotactl",
    "quotactl_fd",
    "name_to_handle_at",
    "open_by_handle_at",
    "fanotify_init",
    "memfd_secret",
    "syslog",
    "vhangup",
    "iopl",
    "ioperm",
    "personality",
];

/// The policy of a build. `signals_fenced`: Landlock keeps signals inside, so `kill` may stay.
pub(crate) fn build(signals_fenced: bool) -> Policy {
    let mut rules: Vec<Option<Rule>> =
        DENIED_TO_BUILDS.iter().map(|name| rule(name, Vec::new(), Action::Deny)).collect();
    if !signals_fenced {
        rules.extend(SIGNALS.iter().map(|(name, _)| match *name {
            // `abort` and `raise` signal the caller's own thread with this one.
            "tgkill" => None,
            name => rule(name, Vec::new(), Action::Deny),
        }));
    }
    // Namespaces in a clone would leave the group; clone3 hides its flags behind a pointer.
    let namespaces = (libc::CLONE_NEWUSER, libc::CLONE_NEWNET, libc::CLONE_NEWPID, libc::CLONE_NEWNS);
    let arms = [namespaces.0, namespaces.1, namespaces.2, namespaces.3]
        .map(|flag| when(vec![low(0, flag as u32, flag as u32)], Action::Deny));
    rules.push(rule("clone", arms.to_vec(), Action::Allow));
    rules.push(rule("clone3", Vec::new(), Action::Fail(libc::ENOSYS as u16)));
    Policy { rules: rules.into_iter().flatten().collect(), otherwise: Action::Allow }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::tests::{Call, interpret};
    use crate::bpf::{Answering, Instruction, compile};

    const OWN: u64 = 77;

    fn code(threads: bool, devices: bool, answering: Answering) -> Vec<Instruction> {
        let own_pid = u32::try_from(OWN).unwrap();
        compile(&candidate(Candidate { own_pid, threads, devices }), answering).unwrap()
    }

    fn run(code: &[Instruction], name: &str, arguments: &[u64]) -> u32 {
        let mut all = [0; 6];
        all[..arguments.len()].copy_from_slice(arguments);
        interpret(code, &Call::new(number(name).unwrap(), all))
    }

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const NOTIFY: u32 = libc::SECCOMP_RET_USER_NOTIF;
    const REFUSE: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    const ABSENT_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

    #[test]
    fn every_name_in_the_lists_exists_somewhere() {
        let lists = [ALLOWED, JUDGED, ABSENT, DENIED_TO_BUILDS];
        for name in lists.into_iter().flatten().chain(SIGNALS.iter().map(|(name, _)| name)) {
            assert!(number(name).is_some() || cfg!(not(target_arch = "x86_64")), "{name}");
        }
    }

    #[test]
    fn no_call_is_listed_twice() {
        let policy = candidate(Candidate { own_pid: 1, threads: true, devices: false });
        let mut numbers: Vec<u32> = policy.rules.iter().map(|rule| rule.number).collect();
        numbers.sort_unstable();
        let count = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
    }

    #[test]
    fn candidate_table() {
        let supervised = code(true, false, Answering::Supervisor);
        let alone = code(true, false, Answering::Kernel);
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM | libc::CLONE_SIGHAND) as u64;
        let at_cwd = libc::AT_FDCWD as u64;
        let cases: &[(&str, &[u64], u32, u32)] = &[
            ("read", &[0, 0, 1], ALLOW, ALLOW),
            ("futex", &[0], ALLOW, ALLOW),
            ("exit_group", &[0], ALLOW, ALLOW),
            ("socket", &[2, 1, 0], NOTIFY, REFUSE),
            ("socketpair", &[1, 1, 0, 0], NOTIFY, REFUSE),
            ("connect", &[3], NOTIFY, REFUSE),
            ("execve", &[1], NOTIFY, REFUSE),
            ("execveat", &[1], NOTIFY, REFUSE),
            ("ptrace", &[16], NOTIFY, REFUSE),
            ("process_vm_readv", &[1], NOTIFY, REFUSE),
            ("clone", &[thread], ALLOW, ALLOW),
            ("clone", &[thread | libc::CLONE_NEWNET as u64], NOTIFY, REFUSE),
            ("clone", &[libc::SIGCHLD as u64], NOTIFY, REFUSE),
            ("clone3", &[0], ABSENT_CALL, ABSENT_CALL),
            ("openat2", &[0], ABSENT_CALL, ABSENT_CALL),
            ("kill", &[OWN, 9], ALLOW, ALLOW),
            ("kill", &[1, 9], NOTIFY, REFUSE),
            ("kill", &[0, 9], NOTIFY, REFUSE),
            ("kill", &[u64::MAX, 9], NOTIFY, REFUSE),
            ("tgkill", &[OWN, 80, 6], ALLOW, ALLOW),
            ("tgkill", &[5, 5, 6], NOTIFY, REFUSE),
            ("pidfd_open", &[OWN], NOTIFY, REFUSE),
            ("openat", &[at_cwd, 1, libc::O_RDONLY as u64], NOTIFY, ALLOW),
            ("openat", &[at_cwd, 1, libc::O_DIRECTORY as u64], NOTIFY, ALLOW),
            ("openat", &[at_cwd, 1, libc::O_WRONLY as u64], NOTIFY, REFUSE),
            ("openat", &[at_cwd, 1, libc::O_RDWR as u64], NOTIFY, REFUSE),
            ("openat", &[at_cwd, 1, libc::O_CREAT as u64], NOTIFY, REFUSE),
            ("openat", &[at_cwd, 1, libc::O_TRUNC as u64], NOTIFY, REFUSE),
            ("openat", &[at_cwd, 1, libc::O_TMPFILE as u64], NOTIFY, REFUSE),
            ("unlinkat", &[at_cwd, 1, 0], NOTIFY, REFUSE),
            ("renameat2", &[at_cwd, 1, 0], NOTIFY, REFUSE),
            ("mkdirat", &[at_cwd, 1, 0], NOTIFY, REFUSE),
            ("ftruncate", &[1, 0], NOTIFY, REFUSE),
            ("truncate", &[1, 0], NOTIFY, REFUSE),
            ("io_uring_setup", &[1, 0], NOTIFY, REFUSE),
            ("memfd_create", &[1, 0], NOTIFY, REFUSE),
            ("bpf", &[1, 0], NOTIFY, REFUSE),
            ("seccomp", &[1, 0], NOTIFY, REFUSE),
            ("landlock_create_ruleset", &[1, 0], NOTIFY, REFUSE),
            ("sched_setaffinity", &[0], NOTIFY, REFUSE),
            ("setpriority", &[0], NOTIFY, REFUSE),
            ("setrlimit", &[0], NOTIFY, REFUSE),
            ("prlimit64", &[0, 7, 0, 1], ALLOW, ALLOW),
            ("prlimit64", &[0, 7, 1 << 32, 1], NOTIFY, REFUSE),
            ("mmap", &[0, 4096, 3, 0x22], ALLOW, ALLOW),
            ("mmap", &[0, 4096, 5, 0x02, 7], ALLOW, ALLOW),
            ("mmap", &[0, 4096, 5, 0x22], NOTIFY, REFUSE),
            ("mmap", &[0, 4096, 7, 0x02, 7], NOTIFY, REFUSE),
            ("mprotect", &[0, 4096, 3], ALLOW, ALLOW),
            ("mprotect", &[0, 4096, 5], NOTIFY, REFUSE),
            ("pkey_mprotect", &[0, 4096, 4, 1], NOTIFY, REFUSE),
            ("prctl", &[libc::PR_SET_NAME as u64], ALLOW, ALLOW),
            ("prctl", &[libc::PR_SET_PDEATHSIG as u64], NOTIFY, REFUSE),
            ("prctl", &[libc::PR_SET_SECCOMP as u64], NOTIFY, REFUSE),
            ("prctl", &[libc::PR_SET_DUMPABLE as u64], NOTIFY, REFUSE),
            ("fcntl", &[1, libc::F_GETFL as u64], ALLOW, ALLOW),
            ("fcntl", &[1, 8], NOTIFY, REFUSE),
            ("ioctl", &[1, 0x5401], ALLOW, ALLOW),
            ("ioctl", &[1, 0x5412], NOTIFY, REFUSE),
            ("ioctl", &[1, 0xc020_4600], NOTIFY, REFUSE),
            ("sendto", &[1, 1, 1, 0, 0, 0], ALLOW, ALLOW),
            ("sendto", &[1, 1, 1, 0, 1 << 40, 16], NOTIFY, REFUSE),
            ("readlinkat", &[at_cwd, 1], NOTIFY, ALLOW),
            ("personality", &[0], NOTIFY, REFUSE),
            ("timer_create", &[0], NOTIFY, REFUSE),
            ("chdir", &[0], NOTIFY, REFUSE),
        ];
        for &(name, arguments, with, without) in cases {
            assert_eq!(run(&supervised, name, arguments), with, "{name} {arguments:?} supervised");
            assert_eq!(run(&alone, name, arguments), without, "{name} {arguments:?} alone");
        }
        // A call that no list knows.
        assert_eq!(interpret(&supervised, &Call::new(9_999, [0; 6])), NOTIFY);
        assert_eq!(interpret(&alone, &Call::new(9_999, [0; 6])), REFUSE);
    }

    #[test]
    fn switches() {
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
        let no_threads = code(false, false, Answering::Supervisor);
        assert_eq!(run(&no_threads, "clone", &[thread]), NOTIFY);
        let devices = code(true, true, Answering::Supervisor);
        assert_eq!(run(&devices, "ioctl", &[1, 0xc020_4600]), ALLOW);
        assert_eq!(run(&devices, "ioctl", &[1, 0x5412]), NOTIFY);
        assert_eq!(run(&devices, "mprotect", &[0, 4096, 5]), ALLOW);
    }

    #[test]
    fn build_table() {
        let code = compile(&build(false), Answering::Kernel).unwrap();
        for name in ["execve", "openat", "unlinkat", "wait4", "pipe2", "tgkill"] {
            assert_eq!(run(&code, name, &[]), ALLOW, "{name}");
        }
        for name in ["socket", "ptrace", "setsid", "setpgid", "io_uring_setup", "kill", "unshare"] {
            assert_eq!(run(&code, name, &[]), REFUSE, "{name}");
        }
        assert_eq!(run(&code, "clone", &[libc::SIGCHLD as u64]), ALLOW);
        assert_eq!(run(&code, "clone", &[libc::CLONE_NEWUSER as u64]), REFUSE);
        assert_eq!(run(&code, "clone3", &[]), ABSENT_CALL);
        let fenced = compile(&build(true), Answering::Kernel).unwrap();
        assert_eq!(run(&fenced, "kill", &[]), ALLOW);
    }
}
