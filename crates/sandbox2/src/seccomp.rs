//! System call filters.
//!
//! The worker's filter is an allow-list: what computation, memory, threads and time need. Everything else goes to the
//! supervisor (`SECCOMP_RET_USER_NOTIF`), which records and refuses it. Opening a file for reading goes there too, to
//! be judged by its path.

use crate::SandboxError;
use crate::report::LayerState;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};
use std::collections::BTreeMap;
use std::os::fd::{FromRawFd, OwnedFd};

/// Stands for "notify" until the program is patched: seccompiler has no such action.
const PLACEHOLDER: u32 = 0x4b53;
const RET: u16 = 0x06;
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;
const RET_ERRNO: u32 = 0x0005_0000;
const FLAG_NEW_LISTENER: u64 = 1 << 3;
const MODE_FILTER: u64 = 1;

fn arch() -> Result<TargetArch, SandboxError> {
    std::env::consts::ARCH.try_into().map_err(SandboxError::Filter)
}

/// System calls that a worker may make with any arguments.
fn free_calls() -> Vec<i64> {
    let mut calls = vec![
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_readv,
        libc::SYS_writev,
        libc::SYS_pread64,
        libc::SYS_lseek,
        libc::SYS_close,
        libc::SYS_fstat,
        libc::SYS_newfstatat,
        libc::SYS_statx,
        libc::SYS_faccessat,
        libc::SYS_readlinkat,
        libc::SYS_getcwd,
        libc::SYS_fcntl,
        libc::SYS_dup,
        libc::SYS_ppoll,
        libc::SYS_pselect6,
        libc::SYS_eventfd2,
        libc::SYS_pipe2,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_recvfrom,
        libc::SYS_munmap,
        libc::SYS_mremap,
        libc::SYS_madvise,
        libc::SYS_brk,
        libc::SYS_mlock,
        libc::SYS_munlock,
        libc::SYS_mincore,
        libc::SYS_msync,
        libc::SYS_membarrier,
        libc::SYS_get_mempolicy,
        libc::SYS_rt_sigaction,
        libc::SYS_rt_sigprocmask,
        libc::SYS_rt_sigreturn,
        libc::SYS_rt_sigpending,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_rt_sigsuspend,
        libc::SYS_sigaltstack,
        libc::SYS_restart_syscall,
        libc::SYS_futex,
        libc::SYS_set_robust_list,
        libc::SYS_get_robust_list,
        libc::SYS_set_tid_address,
        libc::SYS_rseq,
        libc::SYS_sched_yield,
        libc::SYS_sched_getaffinity,
        libc::SYS_sched_getparam,
        libc::SYS_sched_getscheduler,
        libc::SYS_sched_get_priority_max,
        libc::SYS_sched_get_priority_min,
        libc::SYS_getcpu,
        libc::SYS_clock_gettime,
        libc::SYS_clock_getres,
        libc::SYS_clock_nanosleep,
        libc::SYS_nanosleep,
        libc::SYS_gettimeofday,
        libc::SYS_times,
        libc::SYS_getrusage,
        libc::SYS_getrlimit,
        libc::SYS_getpid,
        libc::SYS_getppid,
        libc::SYS_gettid,
        libc::SYS_getuid,
        libc::SYS_geteuid,
        libc::SYS_getgid,
        libc::SYS_getegid,
        libc::SYS_getpgid,
        libc::SYS_getsid,
        libc::SYS_uname,
        libc::SYS_sysinfo,
        libc::SYS_getrandom,
        libc::SYS_exit,
        libc::SYS_exit_group,
        libc::SYS_memfd_create,
    ];
    #[cfg(target_arch = "x86_64")]
    calls.extend([
        libc::SYS_stat,
        libc::SYS_lstat,
        libc::SYS_access,
        libc::SYS_readlink,
        libc::SYS_poll,
        libc::SYS_arch_prctl,
        libc::SYS_time,
        libc::SYS_pipe,
        libc::SYS_dup2,
        libc::SYS_getpgrp,
    ]);
    calls
}

fn when(argument: u8, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, SandboxError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value).map_err(SandboxError::Filter)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, SandboxError> {
    SeccompRule::new(conditions).map_err(SandboxError::Filter)
}

/// System calls that a worker may make with some arguments.
fn bound_calls(own_pid: u64, threads: bool) -> Result<Vec<(i64, Vec<SeccompRule>)>, SandboxError> {
    use SeccompCmpOp::{Eq, MaskedEq};
    const CLONE_THREAD: u64 = 0x0001_0000;
    let exec = libc::PROT_EXEC as u64;
    let anonymous = libc::MAP_ANONYMOUS as u64;
    let own = |argument| -> Result<Vec<SeccompRule>, SandboxError> { Ok(vec![rule(vec![when(argument, Eq, own_pid)?])?]) };
    let mut calls = vec![
        // Code comes from files that the loader maps; memory that a program has written is never executed.
        (libc::SYS_mmap, vec![rule(vec![when(2, MaskedEq(exec), 0)?])?, rule(vec![when(3, MaskedEq(anonymous), 0)?])?]),
        (libc::SYS_mprotect, vec![rule(vec![when(2, MaskedEq(exec), 0)?])?]),
        (libc::SYS_kill, own(0)?),
        (libc::SYS_tgkill, own(0)?),
        (libc::SYS_tkill, own(0)?),
        // Reading limits, not setting them.
        (libc::SYS_prlimit64, vec![rule(vec![
            SeccompCondition::new(2, SeccompCmpArgLen::Qword, Eq, 0).map_err(SandboxError::Filter)?,
        ])?]),
        (libc::SYS_ioctl, [libc::TCGETS, libc::TIOCGWINSZ, libc::FIONREAD]
            .into_iter()
            .map(|request| rule(vec![when(1, Eq, request as u64)?]))
            .collect::<Result<_, _>>()?),
        (libc::SYS_prctl, [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_GET_DUMPABLE, 0x5356_4d41]
            .into_iter()
            .map(|option| rule(vec![when(0, Eq, option as u64)?]))
            .collect::<Result<_, _>>()?),
    ];
    if threads {
        calls.push((libc::SYS_clone, vec![rule(vec![when(0, MaskedEq(CLONE_THREAD), CLONE_THREAD)?])?]));
    }
    Ok(calls)
}

/// Installs the worker's filter. Says what holds, and hands out the descriptor for denied calls if there is one.
pub(crate) fn install_worker_filter(threads: bool) -> Result<(LayerState, Option<OwnedFd>), SandboxError> {
    // Calls whose arguments lie in memory cannot be judged by a filter: pretend they do not exist, so that the C
    // library falls back to their older forms.
    let absent = [libc::SYS_clone3, libc::SYS_openat2, libc::SYS_faccessat2];
    let absent: BTreeMap<i64, Vec<SeccompRule>> = absent.into_iter().map(|nr| (nr, Vec::new())).collect();
    let absent = program(absent, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    let mut allowed: BTreeMap<i64, Vec<SeccompRule>> = free_calls().into_iter().map(|nr| (nr, Vec::new())).collect();
    // seccompiler forbids mixing: a call is free or bound.
    allowed.extend(bound_calls(u64::from(std::process::id()), threads)?);
    let mut filter = program(allowed, SeccompAction::Trace(PLACEHOLDER), SeccompAction::Allow)?;
    if let Err(error) = install(&absent, 0) {
        return Ok((LayerState::Unavailable(error.to_string()), None));
    }
    patch(&mut filter, RET_USER_NOTIF);
    match install(&filter, FLAG_NEW_LISTENER) {
        Ok(fd) => {
            #[expect(unsafe_code, reason = "a descriptor fresh from the kernel")]
            // SAFETY: the kernel has just made this descriptor for us and nobody else knows it.
            let listener = unsafe { OwnedFd::from_raw_fd(fd as i32) };
            Ok((LayerState::Enforced, Some(listener)))
        }
        Err(_) => {
            for instruction in filter.iter_mut().filter(|i| i.code == RET && i.k == RET_USER_NOTIF) {
                instruction.k = RET_ERRNO | libc::EPERM as u32;
            }
            match install(&filter, 0) {
                Ok(_) => Ok((LayerState::Partial("opening files is refused altogether".into()), None)),
                Err(error) => Ok((LayerState::Unavailable(error.to_string()), None)),
            }
        }
    }
}

/// Installs the filter of build tools: no network, no tracing of other processes, no kernel keyrings.
pub(crate) fn install_build_filter() -> Result<LayerState, SandboxError> {
    let denied = [
        libc::SYS_socket,
        libc::SYS_socketpair,
        libc::SYS_connect,
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_io_uring_setup,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
    ];
    let rules = denied.into_iter().map(|nr| (nr, Vec::new())).collect();
    let filter = program(rules, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    Ok(match install(&filter, 0) {
        Ok(_) => LayerState::Enforced,
        Err(error) => LayerState::Unavailable(error.to_string()),
    })
}

fn program(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    mismatch: SeccompAction,
    matching: SeccompAction,
) -> Result<BpfProgram, SandboxError> {
    SeccompFilter::new(rules, mismatch, matching, arch()?)
        .and_then(TryInto::try_into)
        .map_err(SandboxError::Filter)
}

/// Replaces the placeholder action.
fn patch(program: &mut BpfProgram, action: u32) {
    for instruction in program.iter_mut().filter(|i| i.code == RET && i.k == RET_TRACE | PLACEHOLDER) {
        instruction.k = action;
    }
}

#[expect(unsafe_code, reason = "seccomp(2)")]
fn install(program: &BpfProgram, flags: u64) -> Result<i64, std::io::Error> {
    #[repr(C)]
    struct Prog {
        len: u16,
        filter: *const seccompiler::sock_filter,
    }
    let prog = Prog { len: program.len() as u16, filter: program.as_ptr() };
    // SAFETY: the program outlives the call, and its length is that of the slice.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, MODE_FILTER, flags, &raw const prog) };
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}

/// Names of system calls that show up in reports.
pub(crate) fn name(nr: i64) -> String {
    let known = [
        (libc::SYS_socket, "socket"),
        (libc::SYS_socketpair, "socketpair"),
        (libc::SYS_connect, "connect"),
        (libc::SYS_bind, "bind"),
        (libc::SYS_listen, "listen"),
        (libc::SYS_sendto, "sendto"),
        (libc::SYS_ptrace, "ptrace"),
        (libc::SYS_process_vm_readv, "process_vm_readv"),
        (libc::SYS_process_vm_writev, "process_vm_writev"),
        (libc::SYS_execve, "execve"),
        (libc::SYS_execveat, "execveat"),
        (libc::SYS_clone, "clone"),
        (libc::SYS_kill, "kill"),
        (libc::SYS_tkill, "tkill"),
        (libc::SYS_tgkill, "tgkill"),
        (libc::SYS_unlinkat, "unlinkat"),
        (libc::SYS_renameat2, "renameat2"),
        (libc::SYS_mkdirat, "mkdirat"),
        (libc::SYS_linkat, "linkat"),
        (libc::SYS_symlinkat, "symlinkat"),
        (libc::SYS_fchmodat, "fchmodat"),
        (libc::SYS_fchownat, "fchownat"),
        (libc::SYS_truncate, "truncate"),
        (libc::SYS_ftruncate, "ftruncate"),
        (libc::SYS_openat, "openat"),
        (libc::SYS_mmap, "mmap"),
        (libc::SYS_mprotect, "mprotect"),
        (libc::SYS_io_uring_setup, "io_uring_setup"),
        (libc::SYS_mount, "mount"),
        (libc::SYS_unshare, "unshare"),
        (libc::SYS_setns, "setns"),
        (libc::SYS_bpf, "bpf"),
        (libc::SYS_perf_event_open, "perf_event_open"),
        (libc::SYS_userfaultfd, "userfaultfd"),
        (libc::SYS_sched_setaffinity, "sched_setaffinity"),
        (libc::SYS_sched_setscheduler, "sched_setscheduler"),
        (libc::SYS_setpriority, "setpriority"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_setrlimit, "setrlimit"),
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_prctl, "prctl"),
        (libc::SYS_pidfd_open, "pidfd_open"),
        (libc::SYS_pidfd_send_signal, "pidfd_send_signal"),
        (libc::SYS_getdents64, "getdents64"),
        (libc::SYS_chdir, "chdir"),
        (libc::SYS_setsid, "setsid"),
    ];
    #[cfg(target_arch = "x86_64")]
    let old = [
        (libc::SYS_open, "open"),
        (libc::SYS_creat, "creat"),
        (libc::SYS_unlink, "unlink"),
        (libc::SYS_rmdir, "rmdir"),
        (libc::SYS_rename, "rename"),
        (libc::SYS_mkdir, "mkdir"),
        (libc::SYS_fork, "fork"),
        (libc::SYS_vfork, "vfork"),
        (libc::SYS_chmod, "chmod"),
        (libc::SYS_link, "link"),
        (libc::SYS_symlink, "symlink"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let old: [(i64, &str); 0] = [];
    known
        .iter()
        .chain(&old)
        .find(|(known, _)| *known == nr)
        .map_or_else(|| format!("system call {nr}"), |(_, name)| (*name).to_owned())
}
