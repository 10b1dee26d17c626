//! The process under test: a worker that acts as it is told, or a program of no sandbox at all.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

use kernelseek_sandbox::descriptors;
use kernelseek_sandbox::limits::{self, Limits};
use kernelseek_sandbox::lockdown::{self, LockdownSpec};
use kernelseek_sandbox::namespaces::{self, NamespaceSpec};
use kernelseek_sandbox::report::Layers;

use crate::supervisor::{self, Setup};

/// `role-worker SOCKET namespaces|plain threads|single BYTES READ:READ ACTION…`
pub(crate) fn worker(arguments: &[String]) -> ExitCode {
    let [socket, namespaces, threads, bytes, read, actions @ ..] = arguments else {
        return ExitCode::from(99);
    };
    let socket: i32 = socket.parse().unwrap();
    // SAFETY: the supervisor passed this descriptor for this process alone.
    let socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(socket) });
    let read: Vec<PathBuf> = read.split(':').map(PathBuf::from).collect();
    let spec = NamespaceSpec {
        read: read.clone(),
        devices: false,
        private_proc: true,
        enabled: namespaces == "namespaces",
    };
    let world = namespaces::enter(&spec, |pid| {
        descriptors::send(&socket, &pid.to_le_bytes(), &[]).unwrap();
    })
    .unwrap();
    let bytes: u64 = bytes.parse().unwrap();
    let rlimits = limits::apply(&Limits {
        address_space: (bytes > 0).then_some(bytes),
        open_files: Some(128),
        file_size: Some(0),
        ..Limits::default()
    });
    let locked =
        lockdown::apply(&LockdownSpec { read, threads_allowed: threads == "threads", devices: false })
            .unwrap();
    let layers = Layers::of(&world, rlimits, &locked);
    let text = serde_json::to_vec(&layers).unwrap();
    let listener: Vec<_> = locked.listener.iter().map(AsFd::as_fd).collect();
    descriptors::send(&socket, &text, &listener).unwrap();
    drop(locked.listener);
    (&socket).read_exact(&mut [0]).unwrap();

    for action in actions {
        let outcome = act(action);
        println!("{action}={outcome}");
    }
    io::stdout().flush().unwrap();
    ExitCode::SUCCESS
}

/// A program without a sandbox, for the process tests.
pub(crate) fn plain(arguments: &[String]) -> ExitCode {
    match arguments.first().map(String::as_str) {
        Some("environment") => {
            for (name, value) in std::env::vars() {
                println!("{name}={value}");
            }
            let fds = std::fs::read_dir("/proc/self/fd").unwrap().count();
            println!("descriptors {fds}");
        }
        Some("flood") => {
            let line = [b'x'; 4096];
            let mut out = io::stdout().lock();
            while out.write_all(&line).is_ok() {}
        }
        _ => return ExitCode::from(99),
    }
    ExitCode::SUCCESS
}

/// A supervisor that starts a worker which never ends, prints its ids, and waits to be killed.
pub(crate) fn supervisor(arguments: &[String]) -> ExitCode {
    let setup =
        Setup { namespaces: arguments.first().is_some_and(|word| word == "namespaces"), ..Setup::default() };
    let mut worker = supervisor::start(&setup, &["spin"]);
    worker.go();
    println!("{} {}", worker.process.pid(), worker.pid);
    io::stdout().flush().unwrap();
    loop {
        std::thread::park();
    }
}

fn errno(answer: i64) -> i32 {
    if answer < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(-1) } else { 0 }
}

fn spin() -> ! {
    loop {
        std::hint::spin_loop();
    }
}

/// Makes one call and returns its error number, 0 for success. `name:argument` where a path is needed.
fn act(action: &str) -> i32 {
    let (name, argument) = action.split_once(':').unwrap_or((action, ""));
    let path = CString::new(argument).unwrap();
    let number: i32 = argument.parse().unwrap_or(0);
    let path = path.as_ptr();
    // SAFETY: every pointer is a C string or a buffer that outlives its call; a call that succeeds against
    // expectation fails the test.
    unsafe {
        match name {
            "socket" => errno(libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0).into()),
            "socket_unix" => errno(libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0).into()),
            "many_sockets" => {
                for _ in 0..number {
                    errno(libc::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0).into());
                }
                0
            }
            "fork" => match libc::fork() {
                0 => libc::_exit(0),
                pid => errno(pid.into()),
            },
            "vfork" => {
                errno(libc::syscall(libc::SYS_clone, libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD, 0))
            }
            "fork_bomb" => {
                for _ in 0..number {
                    if libc::fork() == 0 {
                        spin();
                    }
                }
                0
            }
            "exec" => {
                let program = c"/bin/true".as_ptr();
                errno(libc::execv(program, [program, std::ptr::null()].as_ptr()).into())
            }
            "open_write" => errno(libc::open(path, libc::O_WRONLY | libc::O_CREAT, 0o600).into()),
            "open_append" => errno(libc::open(path, libc::O_RDONLY | libc::O_APPEND).into()),
            "open_read" | "open_proc_parent" => errno(libc::open(path, libc::O_RDONLY).into()),
            "creat" => errno(libc::creat(path, 0o600).into()),
            "unlink" => errno(libc::unlink(path).into()),
            "rename" => errno(libc::rename(path, c"/tmp/elsewhere".as_ptr()).into()),
            "mkdir" => errno(libc::mkdir(path, 0o700).into()),
            "rmdir" => errno(libc::rmdir(path).into()),
            "symlink" => errno(libc::symlink(c"/etc/shadow".as_ptr(), path).into()),
            "chmod" => errno(libc::chmod(path, 0o777).into()),
            "truncate" => errno(libc::truncate(path, 0).into()),
            "readlink" => {
                let mut buffer = [0_u8; 64];
                errno(libc::readlink(path, buffer.as_mut_ptr().cast(), 64) as i64)
            }
            "kill" => errno(libc::kill(number, libc::SIGTERM).into()),
            "kill_all" => errno(libc::kill(-1, libc::SIGTERM).into()),
            "tgkill" => errno(libc::syscall(libc::SYS_tgkill, number, number, libc::SIGTERM)),
            "pidfd" => errno(libc::syscall(libc::SYS_pidfd_open, number, 0)),
            "ptrace" => errno(libc::ptrace(libc::PTRACE_ATTACH, number, 0, 0)),
            "process_vm_readv" => errno(libc::syscall(libc::SYS_process_vm_readv, number, 0, 0, 0, 0, 0)),
            "io_uring" => errno(libc::syscall(libc::SYS_io_uring_setup, 1, 0)),
            "memfd" => errno(libc::syscall(libc::SYS_memfd_create, c"name".as_ptr(), 0)),
            "unshare" => errno(libc::unshare(libc::CLONE_NEWUSER).into()),
            "mount" => errno(libc::syscall(libc::SYS_mount, 0, c"/".as_ptr(), 0, libc::MS_PRIVATE, 0)),
            "forget_death" => errno(libc::prctl(libc::PR_SET_PDEATHSIG, 0).into()),
            "undumpable" => errno(libc::prctl(libc::PR_SET_DUMPABLE, 0).into()),
            "affinity" => {
                let set: libc::cpu_set_t = std::mem::zeroed();
                errno(libc::sched_setaffinity(0, size_of_val(&set), &raw const set).into())
            }
            "priority" => errno(libc::setpriority(libc::PRIO_PROCESS, 0, 5).into()),
            "own_filter" => errno(libc::syscall(libc::SYS_seccomp, 1, 0, 0)),
            "hide_fork" => errno(libc::syscall(libc::SYS_clone3, 0, 0)),
            "written_code" => {
                let at =
                    libc::mmap(std::ptr::null_mut(), 4096, 3, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
                errno(libc::mprotect(at, 4096, libc::PROT_READ | libc::PROT_EXEC).into())
            }
            "timer" => errno(libc::syscall(libc::SYS_timer_create, 0, 0, 0)),
            // What must work.
            "malloc" => {
                let block = vec![1_u8; 64 << 20];
                i32::from(block.iter().step_by(4096).map(|b| u64::from(*b)).sum::<u64>() != 16 << 10)
            }
            "allocate" => {
                let at = libc::mmap(
                    std::ptr::null_mut(),
                    (number as usize) << 20,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    -1,
                    0,
                );
                if at == libc::MAP_FAILED { errno(-1) } else { 0 }
            }
            "threads" => {
                let threads: Vec<_> = (0..4).map(|i| std::thread::Builder::new().spawn(move || i)).collect();
                match threads.into_iter().collect::<io::Result<Vec<_>>>() {
                    Ok(threads) => {
                        let sum: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
                        i32::from(sum != 6)
                    }
                    Err(error) => error.raw_os_error().unwrap_or(-1),
                }
            }
            // Blocks below the size that is mapped by itself, in the heap of a thread: given back, the C library shrinks that
            // heap, and first looks how the system commits memory.
            "thread_frees" => {
                let freed = std::thread::spawn(|| {
                    let blocks: Vec<Vec<u8>> = (0..400).map(|_| vec![1; 100 << 10]).collect();
                    blocks.iter().map(|block| usize::from(block[block.len() - 1])).sum::<usize>()
                });
                i32::from(freed.join().unwrap() != 400)
            }
            "dlopen" => i32::from(libc::dlopen(path, libc::RTLD_NOW).is_null()),
            "call" => {
                let library = libc::dlopen(path, libc::RTLD_NOW);
                if library.is_null() {
                    println!("{:?}", std::ffi::CStr::from_ptr(libc::dlerror()));
                    return -1;
                }
                let entry = libc::dlsym(library, c"entry".as_ptr());
                let entry: extern "C" fn() -> i32 = std::mem::transmute(entry);
                entry()
            }
            "sleep" => {
                std::thread::sleep(std::time::Duration::from_millis(5));
                0
            }
            "time" => i32::from(std::time::SystemTime::now().elapsed().is_err()),
            "random" => {
                let mut bytes = [0_u8; 16];
                errno(libc::getrandom(bytes.as_mut_ptr().cast(), 16, 0) as i64)
            }
            "read_zero" => {
                let mut bytes = [1_u8; 16];
                i32::from(File::open("/dev/zero").and_then(|mut f| f.read_exact(&mut bytes)).is_err())
            }
            "raise_own" => {
                libc::signal(libc::SIGUSR1, libc::SIG_IGN);
                errno(libc::raise(libc::SIGUSR1).into())
            }
            "uid_is_mapped" => libc::geteuid() as i32,
            // Ends.
            "exit" => libc::exit(number),
            "abort" => libc::abort(),
            "crash" => {
                std::ptr::null_mut::<u8>().write_volatile(1);
                0
            }
            "spin" => spin(),
            "spin_two" => {
                std::thread::spawn(|| spin());
                spin()
            }
            "print" => {
                let line = [b'x'; 4096];
                let mut left = number;
                while left > 0 {
                    io::stdout().write_all(&line).unwrap();
                    left -= 4096;
                }
                println!();
                0
            }
            other => {
                println!("no action {other}");
                -1
            }
        }
    }
}
