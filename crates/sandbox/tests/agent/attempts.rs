//! What an agent may try. Each attempt answers like a system call: done, or the error.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::world::World;

/// Who succeeds with an attempt where there is no fence: the proof that it is a real one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfenced {
    /// Everybody.
    Anybody,
    /// Everybody, unless the machine restricts tracing by itself.
    Tracers,
    /// A root user.
    Root,
    /// Not tried without a fence: it would do harm, or there is nothing to see.
    Untried,
}

pub(crate) type Attempt = (&'static str, Unfenced, fn(&World) -> io::Result<()>);

pub(crate) const ATTEMPTS: &[Attempt] = &[
    ("open_for_writing", Unfenced::Anybody, |w| write_into(&w.ledger())),
    ("append", Unfenced::Anybody, |w| {
        File::options().append(true).open(w.ledger())?.write_all(b"row three\n")
    }),
    ("open_truncating", Unfenced::Anybody, |w| File::create(w.ledger()).map(drop)),
    ("truncate", Unfenced::Anybody, |w| check(unsafe { libc::truncate(c(&w.ledger()).as_ptr(), 0) })),
    ("reopen_for_writing", Unfenced::Anybody, reopen),
    ("remove", Unfenced::Anybody, |w| fs::remove_file(w.ledger())),
    ("rename_away", Unfenced::Anybody, |w| fs::rename(w.ledger(), w.work("away"))),
    ("rename_onto", Unfenced::Anybody, |w| fs::rename(forged(w)?, w.ledger())),
    ("exchange", Unfenced::Anybody, exchange),
    ("rename_folder", Unfenced::Anybody, |w| fs::rename(w.state(), w.root.join("state-away"))),
    ("rename_folder_inside", Unfenced::Anybody, |w| fs::rename(w.state(), w.work("state"))),
    ("remove_folder", Unfenced::Anybody, |w| fs::remove_dir_all(w.state())),
    ("hard_link_then_write", Unfenced::Anybody, |w| {
        fs::hard_link(w.ledger(), w.work("linked"))?;
        write_into(&w.work("linked"))
    }),
    ("hard_link_inside", Unfenced::Anybody, |w| fs::hard_link(w.ledger(), w.state().join("second"))),
    ("hard_link_into", Unfenced::Anybody, |w| fs::hard_link(forged(w)?, w.state().join("forged"))),
    ("symlink_then_write", Unfenced::Anybody, |w| {
        symlink(w.ledger(), w.work("pointer"))?;
        write_into(&w.work("pointer"))
    }),
    ("symlink_folder_then_write", Unfenced::Anybody, |w| {
        symlink(w.state(), w.work("folder"))?;
        write_into(&w.work("folder/ledger"))
    }),
    ("dots_then_write", Unfenced::Anybody, |w| write_into(&w.work("../state/ledger"))),
    ("make_file", Unfenced::Anybody, |w| File::create_new(w.state().join("new")).map(drop)),
    ("make_wal", Unfenced::Anybody, |w| File::create_new(w.state().join("ledger-wal")).map(drop)),
    ("make_folder", Unfenced::Anybody, |w| fs::create_dir(w.state().join("new"))),
    ("make_symlink", Unfenced::Anybody, |w| symlink("ledger", w.state().join("new"))),
    ("make_fifo", Unfenced::Anybody, |w| fifo(&w.state().join("new"))),
    ("make_socket", Unfenced::Anybody, |w| UnixListener::bind(w.state().join("new")).map(drop)),
    ("replace_socket", Unfenced::Anybody, |w| {
        fs::remove_file(w.socket())?;
        UnixListener::bind(w.socket()).map(drop)
    }),
    ("change_problem", Unfenced::Anybody, |w| fs::write(w.state().join("problem.toml"), "tolerance = 1000")),
    ("change_artefact", Unfenced::Anybody, |w| fs::write(w.state().join("artefacts/source"), "forged")),
    ("unnamed_file_then_link", Unfenced::Anybody, unnamed),
    ("replace_program", Unfenced::Anybody, |w| fs::rename(forged(w)?, w.program())),
    ("remove_program", Unfenced::Anybody, |w| fs::remove_file(w.program())),
    ("write_program", Unfenced::Anybody, |w| write_into(&w.program())),
    ("rename_program_folder", Unfenced::Anybody, |w| fs::rename(w.root.join("bin"), w.root.join("bin-away"))),
    ("user_namespace_then_write", Unfenced::Root, |w| {
        in_child(|| {
            check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
            write_into(&w.ledger())
        })
    }),
    ("other_root_then_write", Unfenced::Root, |w| {
        in_child(|| {
            check(unsafe { libc::unshare(libc::CLONE_NEWUSER) })?;
            check(unsafe { libc::chroot(c(&w.state()).as_ptr()) })?;
            write_into(Path::new("/ledger"))
        })
    }),
    ("bind_mount_over", Unfenced::Root, |w| mount_over(w, libc::CLONE_NEWUSER | libc::CLONE_NEWNS)),
    ("bind_mount_in_place", Unfenced::Root, |w| mount_over(w, libc::CLONE_NEWNS)),
    ("bind_mount_into_workspace", Unfenced::Root, mount_into),
    ("disk_device", Unfenced::Root, |w| {
        let disk = fs::metadata(w.ledger())?.dev();
        device(&w.work("disk"), libc::S_IFBLK, disk)
    }),
    ("memory_device", Unfenced::Root, |w| device(&w.work("mem"), libc::S_IFCHR, libc::makedev(1, 1))),
    ("existing_devices", Unfenced::Untried, existing_devices),
    ("kernel_settings", Unfenced::Root, |_| open_for_writing(Path::new("/proc/sys/kernel/core_pattern"))),
    ("open_by_handle", Unfenced::Root, by_handle),
    ("descriptor_for_writing", Unfenced::Tracers, |w| {
        write_into(Path::new(&format!("/proc/{}/fd/{}", w.victim, w.descriptor)))
    }),
    ("descriptor_for_reading", Unfenced::Tracers, |w| {
        File::open(format!("/proc/{}/fd/{}", w.victim, w.descriptor)).map(drop)
    }),
    ("root_of_process", Unfenced::Tracers, |w| {
        write_into(Path::new(&format!("/proc/{}/root{}", w.victim, w.ledger().display())))
    }),
    ("folder_of_process", Unfenced::Tracers, |w| fs::read_link(format!("/proc/{}/cwd", w.victim)).map(drop)),
    ("environment_of_process", Unfenced::Tracers, |w| {
        fs::read(format!("/proc/{}/environ", w.victim)).map(drop)
    }),
    ("memory_for_writing", Unfenced::Tracers, |w| memory(w, true)),
    ("memory_for_reading", Unfenced::Tracers, |w| memory(w, false)),
    ("attach", Unfenced::Tracers, attach),
    ("seize", Unfenced::Tracers, |w| {
        let none = std::ptr::null_mut::<libc::c_void>();
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, w.victim, none, none) })
    }),
    ("vm_write", Unfenced::Tracers, |w| vm(w, true)),
    ("vm_read", Unfenced::Tracers, |w| vm(w, false)),
    ("take_descriptor", Unfenced::Tracers, |w| {
        let victim = pidfd(w.victim)?;
        check(unsafe { libc::syscall(libc::SYS_pidfd_getfd, victim.as_raw_fd(), w.descriptor, 0) })
    }),
    ("stop", Unfenced::Anybody, |w| check(unsafe { libc::kill(w.victim, libc::SIGSTOP) })),
    ("kill", Unfenced::Anybody, |w| check(unsafe { libc::kill(w.victim, libc::SIGKILL) })),
    ("kill_group", Unfenced::Anybody, |w| {
        check(unsafe { libc::kill(-libc::getpgid(w.victim), libc::SIGKILL) })
    }),
    ("kill_thread", Unfenced::Anybody, |w| {
        check(unsafe { libc::syscall(libc::SYS_tgkill, w.victim, w.victim, libc::SIGKILL) })
    }),
    ("kill_by_descriptor", Unfenced::Anybody, |w| {
        let victim = pidfd(w.victim)?;
        let none = std::ptr::null::<libc::siginfo_t>();
        check(unsafe {
            libc::syscall(libc::SYS_pidfd_send_signal, victim.as_raw_fd(), libc::SIGKILL, none, 0)
        })
    }),
    ("kill_keeper", Unfenced::Untried, |_| check(unsafe { libc::kill(libc::getppid(), libc::SIGKILL) })),
    ("trace_keeper", Unfenced::Untried, |_| {
        let none = std::ptr::null_mut::<libc::c_void>();
        check(unsafe { libc::ptrace(libc::PTRACE_SEIZE, libc::getppid(), none, none) })
    }),
    ("orders_of_keeper", Unfenced::Untried, |_| {
        open_for_writing(Path::new(&format!("/proc/{}/fd/1", unsafe { libc::getppid() })))
    }),
    ("limit_file_size", Unfenced::Anybody, |w| {
        let limit = libc::rlimit { rlim_cur: 0, rlim_max: libc::RLIM_INFINITY };
        check(unsafe { libc::prlimit(w.victim, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) })
    }),
    ("abstract_socket", Unfenced::Anybody, |w| UnixStream::connect_addr(&w.abstract_name()).map(drop)),
    // Nothing to type into: without a fence the error is another one.
    ("type_into_terminal", Unfenced::Untried, |_| {
        let nowhere = File::open("/dev/null")?;
        check(unsafe { libc::ioctl(nowhere.as_raw_fd(), libc::TIOCSTI, c"x".as_ptr()) })
    }),
    ("load_module", Unfenced::Untried, |_| {
        check(unsafe { libc::syscall(libc::SYS_finit_module, -1, c"".as_ptr(), 0) })
    }),
    ("set_clock", Unfenced::Untried, |_| {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        check(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) })?;
        check(unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const now) })
    }),
];

/// What the fence does not stop, and what the documentation therefore lists.
pub(crate) const REMAINING: &[Attempt] = &[
    ("mode", Unfenced::Anybody, |w| check(unsafe { libc::chmod(c(&w.ledger()).as_ptr(), 0o604) })),
    ("owner", Unfenced::Anybody, |w| {
        check(unsafe { libc::chown(c(&w.ledger()).as_ptr(), libc::getuid(), libc::getgid()) })
    }),
    ("times", Unfenced::Anybody, |w| {
        check(unsafe { libc::utimensat(libc::AT_FDCWD, c(&w.ledger()).as_ptr(), std::ptr::null(), 0) })
    }),
    ("attribute", Unfenced::Anybody, |w| {
        check(unsafe {
            libc::setxattr(c(&w.ledger()).as_ptr(), c"user.note".as_ptr(), c"x".as_ptr().cast(), 1, 0)
        })
    }),
    ("lock", Unfenced::Anybody, |w| {
        check(unsafe { libc::flock(File::open(w.ledger())?.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) })
    }),
    ("priority", Unfenced::Anybody, |w| {
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, w.victim as libc::id_t, 0) })
    }),
    ("affinity", Unfenced::Anybody, |w| unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        check(libc::sched_getaffinity(w.victim, size_of_val(&cores), &raw mut cores))?;
        check(libc::sched_setaffinity(w.victim, size_of_val(&cores), &raw const cores))
    }),
    ("read", Unfenced::Anybody, |w| fs::read(w.ledger()).map(drop)),
];

pub(crate) fn check(answer: impl Into<i64>) -> io::Result<()> {
    if answer.into() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(crate) fn c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

fn open_for_writing(path: &Path) -> io::Result<()> {
    File::options().write(true).open(path).map(drop)
}

fn write_into(path: &Path) -> io::Result<()> {
    File::options().write(true).open(path)?.write_all(b"forged")
}

fn forged(world: &World) -> io::Result<std::path::PathBuf> {
    let path = world.work("forged");
    fs::write(&path, "forged")?;
    Ok(path)
}

pub(crate) fn fifo(path: &Path) -> io::Result<()> {
    check(unsafe { libc::mkfifo(c(path).as_ptr(), 0o600) })
}

fn device(path: &Path, kind: libc::mode_t, number: libc::dev_t) -> io::Result<()> {
    check(unsafe { libc::mknod(c(path).as_ptr(), kind | 0o600, number) })
}

fn reopen(world: &World) -> io::Result<()> {
    let open = File::open(world.ledger())?;
    write_into(Path::new(&format!("/proc/self/fd/{}", open.as_raw_fd())))
}

fn exchange(world: &World) -> io::Result<()> {
    let (from, to) = (c(&forged(world)?), c(&world.ledger()));
    let here = libc::AT_FDCWD;
    check(unsafe {
        libc::syscall(libc::SYS_renameat2, here, from.as_ptr(), here, to.as_ptr(), libc::RENAME_EXCHANGE)
    })
}

fn unnamed(world: &World) -> io::Result<()> {
    let folder = c(&world.work(""));
    let fd = unsafe { libc::open(folder.as_ptr(), libc::O_TMPFILE | libc::O_WRONLY, 0o600) };
    check(fd)?;
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(b"forged")?;
    let from = CString::new(format!("/proc/self/fd/{fd}")).unwrap();
    let to = c(&world.state().join("new"));
    let here = libc::AT_FDCWD;
    check(unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), libc::AT_SYMLINK_FOLLOW) })
}

/// In a process of its own, whose namespaces end with it.
pub(crate) fn in_child(action: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let child = unsafe { libc::fork() };
    check(child)?;
    if child == 0 {
        let code = action().map_or_else(|error| error.raw_os_error().unwrap_or(255), |()| 0);
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    check(unsafe { libc::waitpid(child, &raw mut status, 0) })?;
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

pub(crate) fn private_mounts(namespaces: libc::c_int) -> io::Result<()> {
    check(unsafe { libc::unshare(namespaces) })?;
    let none = std::ptr::null();
    let private = libc::MS_REC | libc::MS_PRIVATE;
    check(unsafe { libc::mount(none, c"/".as_ptr(), none, private, none.cast()) })
}

pub(crate) fn bind(from: &Path, to: &Path) -> io::Result<()> {
    let none = std::ptr::null();
    check(unsafe { libc::mount(c(from).as_ptr(), c(to).as_ptr(), none, libc::MS_BIND, none.cast()) })
}

fn mount_over(world: &World, namespaces: libc::c_int) -> io::Result<()> {
    let from = forged(world)?;
    in_child(|| {
        private_mounts(namespaces)?;
        bind(&from, &world.ledger())
    })
}

fn mount_into(world: &World) -> io::Result<()> {
    fs::create_dir_all(world.work("view"))?;
    in_child(|| {
        private_mounts(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)?;
        bind(&world.state(), &world.work("view"))?;
        write_into(&world.work("view/ledger"))
    })
}

/// Every disk, and the memory of the machine.
fn existing_devices(_: &World) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for entry in fs::read_dir("/dev")?.flatten() {
        let memory = ["mem", "kmem", "port", "kvm", "fuse"].iter().any(|name| entry.file_name() == *name);
        if memory || entry.file_type()?.is_block_device() {
            match open_for_writing(&entry.path()) {
                Ok(()) => return Ok(()),
                Err(error) => refused = error,
            }
        }
    }
    Err(refused)
}

#[repr(C)]
struct Handle {
    bytes: u32,
    kind: i32,
    handle: [u8; 128],
}

fn by_handle(world: &World) -> io::Result<()> {
    let mut handle = Handle { bytes: 128, kind: 0, handle: [0; 128] };
    let mut mount = 0_i32;
    let path = c(&world.ledger());
    let here = libc::AT_FDCWD;
    check(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            here,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            libc::AT_SYMLINK_FOLLOW,
        )
    })?;
    let beside = File::open(world.work(""))?;
    let fd = unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, beside.as_raw_fd(), &raw mut handle, libc::O_RDWR)
    };
    check(fd)?;
    unsafe { File::from_raw_fd(fd as i32) }.write_all(b"forged")
}

fn memory(world: &World, write: bool) -> io::Result<()> {
    use std::os::unix::fs::FileExt;
    let path = format!("/proc/{}/mem", world.victim);
    let mut bytes = [0; 8];
    if write {
        File::options().write(true).open(path)?.write_all_at(&bytes, world.address as u64)
    } else {
        File::open(path)?.read_exact_at(&mut bytes, world.address as u64)
    }
}

fn vm(world: &World, write: bool) -> io::Result<()> {
    let mut bytes = [0_u8; 8];
    let own = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
    let other = libc::iovec { iov_base: world.address as *mut libc::c_void, iov_len: 8 };
    let moved = if write {
        unsafe { libc::process_vm_writev(world.victim, &raw const own, 1, &raw const other, 1, 0) }
    } else {
        unsafe { libc::process_vm_readv(world.victim, &raw const own, 1, &raw const other, 1, 0) }
    };
    check(moved as i64)
}

fn attach(world: &World) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    check(unsafe { libc::ptrace(libc::PTRACE_ATTACH, world.victim, none, none) })
}

fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    check(fd)?;
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// The question every `eval` asks.
pub(crate) fn ask(world: &World) -> io::Result<()> {
    let mut supervisor = UnixStream::connect(world.socket())?;
    supervisor.write_all(b"eval")?;
    let mut answer = [0; 4];
    supervisor.read_exact(&mut answer)?;
    if answer == *b"PASS" { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}
