//! The first layer: user, mount, pid, net, ipc and uts namespaces with a root that holds a few read-only folders.
//!
//! Entered by the worker itself, before anything else and while it has one thread. A pid namespace begins with a new
//! process, so the process that was started stays behind as a reaper: it says which pid the new one has, waits for
//! it, and ends the way it ended.

use crate::SandboxError;
use crate::report::LayerState;
use serde::{Deserialize, Serialize};
use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What to enter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamespaceSpec {
    /// Files and folders that stay visible, read-only, at the same path.
    pub read: Vec<PathBuf>,
    /// Whether the harmless devices (null, zero, random) stay visible.
    pub devices: bool,
    /// Whether to mount a /proc of its own, which shows the new pid namespace only.
    pub private_proc: bool,
}

/// What was achieved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespaces {
    /// Whether it holds.
    pub state: LayerState,
}

fn c_path(path: &Path) -> CString {
    // A path of the operating system holds no NUL byte; an impossible one becomes a path that does not exist.
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// Enters the namespaces. Returns in the process that is to run the candidate; `report_pid` is called with its pid as
/// seen from outside, before it goes on.
///
/// # Errors
/// When something fails half-way that cannot be undone. Namespaces that the machine refuses are reported instead.
#[expect(unsafe_code, reason = "unshare, fork, prctl")]
pub fn enter(spec: &NamespaceSpec, report_pid: impl FnOnce(u32)) -> Result<Namespaces, SandboxError> {
    die_with_parent();
    // SAFETY: no pointers.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let all = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS;
    // SAFETY: no pointers; the process has one thread.
    if unsafe { libc::unshare(all) } != 0 {
        let why = format!("unshare: {}", std::io::Error::last_os_error());
        report_pid(std::process::id());
        return Ok(Namespaces { state: LayerState::Unavailable(why) });
    }
    let _ = fs::write("/proc/self/setgroups", "deny");
    let map = |file: &str, id: u32| {
        fs::write(file, format!("0 {id} 1")).map_err(|source| SandboxError::System { what: "mapping a user id", source })
    };
    map("/proc/self/uid_map", uid)?;
    map("/proc/self/gid_map", gid)?;
    let mut barrier = [0; 2];
    // SAFETY: an array of two, as asked.
    if unsafe { libc::pipe2(barrier.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(SandboxError::last("pipe2"));
    }
    // SAFETY: the process has one thread, so the child may go on with ordinary code.
    match unsafe { libc::fork() } {
        -1 => Err(SandboxError::last("fork")),
        0 => {
            die_with_parent();
            let mut byte = 0u8;
            // SAFETY: one byte into a live variable. End of file means that the reaper died.
            let read = unsafe { libc::read(barrier[0], (&raw mut byte).cast(), 1) };
            if read != 1 {
                return Err(SandboxError::last("waiting for the reaper"));
            }
            // SAFETY: both ends belong to this process alone now.
            unsafe {
                libc::close(barrier[0]);
                libc::close(barrier[1]);
            }
            let state = match private_root(spec) {
                Ok(None) => LayerState::Enforced,
                Ok(Some(missing)) => LayerState::Partial(missing),
                Err(error) => LayerState::Partial(error.to_string()),
            };
            drop_capabilities();
            Ok(Namespaces { state })
        }
        child => {
            report_pid(child as u32);
            // SAFETY: one byte from a live variable.
            unsafe { libc::write(barrier[1], [1u8].as_ptr().cast(), 1) };
            reap(child)
        }
    }
}

/// Dies when the parent does, so that nothing outlives the supervisor.
#[expect(unsafe_code, reason = "prctl")]
fn die_with_parent() {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
}

/// The reaper: closes everything but the standard streams (so that the supervisor sees the socket close when the
/// worker does), waits, and ends as the child ended.
#[expect(unsafe_code, reason = "waitpid, kill, _exit")]
fn reap(child: i32) -> ! {
    // SAFETY: this process touches none of its descriptors again.
    unsafe {
        libc::close_range(3, u32::MAX, 0);
        let mut status = 0;
        loop {
            let waited = libc::waitpid(child, &raw mut status, 0);
            if waited == child {
                break;
            }
            if waited < 0 && *libc::__errno_location() != libc::EINTR {
                libc::_exit(125);
            }
        }
        if libc::WIFEXITED(status) {
            libc::_exit(libc::WEXITSTATUS(status));
        }
        let signal = libc::WTERMSIG(status);
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
        libc::_exit(128 + signal)
    }
}

#[expect(unsafe_code, reason = "mount")]
fn mount(source: Option<&Path>, target: &Path, kind: Option<&str>, flags: u64) -> Result<(), SandboxError> {
    let source = source.map(c_path);
    let target = c_path(target);
    let kind = kind.and_then(|k| CString::new(k).ok());
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    // SAFETY: every pointer is null or a live NUL-terminated string.
    let result =
        unsafe { libc::mount(pointer(&source), target.as_ptr(), pointer(&kind), flags, std::ptr::null()) };
    if result == 0 { Ok(()) } else { Err(SandboxError::last("mount")) }
}

/// Builds a root of read-only binds and moves into it. Says what is missing, if anything.
#[expect(unsafe_code, reason = "pivot_root, umount2")]
fn private_root(spec: &NamespaceSpec) -> Result<Option<String>, SandboxError> {
    let none = |what: &'static str| move |source| SandboxError::System { what, source };
    mount(None, Path::new("/"), None, libc::MS_REC | libc::MS_PRIVATE)?;
    // Sources are opened before the new root covers its mount point, and reached through their descriptors.
    let mut binds: Vec<(PathBuf, fs::File, bool)> = Vec::new();
    let mut links: Vec<(PathBuf, PathBuf)> = Vec::new();
    let devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"].map(PathBuf::from);
    let wanted = spec.read.iter().chain(devices.iter().filter(|_| spec.devices));
    for path in wanted {
        let Ok(kind) = fs::symlink_metadata(path) else { continue };
        if kind.file_type().is_symlink()
            && let Ok(target) = fs::read_link(path)
        {
            links.push((path.clone(), target));
            continue;
        }
        if let Ok(file) = open_path(path) {
            binds.push((path.clone(), file, kind.is_dir()));
        }
    }
    let base = ["/tmp", "/var/tmp", "/mnt"].iter().map(Path::new).find(|p| p.is_dir()).unwrap_or(Path::new("/"));
    mount(Some(Path::new("tmpfs")), base, Some("tmpfs"), libc::MS_NOSUID | libc::MS_NODEV)?;
    let inside = |path: &Path| base.join(path.strip_prefix("/").unwrap_or(path));
    let mut missing = Vec::new();
    for (path, file, folder) in &binds {
        let target = inside(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(none("building the private root"))?;
        }
        if *folder {
            fs::create_dir_all(&target).map_err(none("building the private root"))?;
        } else {
            fs::write(&target, "").map_err(none("building the private root"))?;
        }
        let source = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        if mount(Some(&source), &target, None, libc::MS_BIND | libc::MS_REC).is_err() {
            missing.push(format!("{} could not be bound", path.display()));
        } else if remount_read_only(&target, path.starts_with("/dev")).is_err() {
            missing.push(format!("{} is not read-only", path.display()));
        }
    }
    for (path, target) in &links {
        let link = inside(path);
        if let Some(parent) = link.parent() {
            fs::create_dir_all(parent).map_err(none("building the private root"))?;
        }
        let _ = std::os::unix::fs::symlink(target, link);
    }
    if spec.private_proc {
        let proc = inside(Path::new("/proc"));
        fs::create_dir_all(&proc).map_err(none("building the private root"))?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        if mount(Some(Path::new("proc")), &proc, Some("proc"), flags).is_err() {
            missing.push("no /proc of its own".to_owned());
        }
    }
    let old = base.join(".old");
    fs::create_dir_all(&old).map_err(none("building the private root"))?;
    let (new_root, put_old) = (c_path(base), c_path(&old));
    // SAFETY: live NUL-terminated strings.
    unsafe {
        if libc::syscall(libc::SYS_pivot_root, new_root.as_ptr(), put_old.as_ptr()) != 0 {
            return Err(SandboxError::last("pivot_root"));
        }
        if libc::chdir(c"/".as_ptr()) != 0 {
            return Err(SandboxError::last("chdir"));
        }
        if libc::umount2(c"/.old".as_ptr(), libc::MNT_DETACH) != 0 {
            return Err(SandboxError::last("umount2"));
        }
    }
    let _ = fs::remove_dir("/.old");
    let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NODEV;
    if mount(None, Path::new("/"), None, flags).is_err() {
        missing.push("the private root is writable".to_owned());
    }
    Ok((!missing.is_empty()).then(|| missing.join(", ")))
}

fn open_path(path: &Path) -> std::io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path)
}

/// Makes a bind read-only. A namespace may not drop flags that its mount was locked with, so those are kept.
#[expect(unsafe_code, reason = "statvfs")]
fn remount_read_only(target: &Path, device: bool) -> Result<(), SandboxError> {
    let path = c_path(target);
    // SAFETY: a live path and a live struct, zeroed as C expects.
    let known = unsafe {
        let mut info: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &raw mut info) == 0 { info.f_flag } else { 0 }
    };
    let mut flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID;
    for (known_flag, mount_flag) in [
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ] {
        if known & known_flag != 0 {
            flags |= mount_flag;
        }
    }
    // A device node on a `nodev` mount cannot be opened; where it is bound from stays as it is.
    if !device {
        flags |= libc::MS_NODEV;
    }
    mount(None, target, None, flags)
}

/// Gives up every capability, for good.
#[expect(unsafe_code, reason = "prctl, capset")]
fn drop_capabilities() {
    #[repr(C)]
    struct Header {
        version: u32,
        pid: i32,
    }
    const VERSION_3: u32 = 0x2008_0522;
    // SAFETY: no pointers in prctl; capset takes a live header and two live, zeroed sets.
    unsafe {
        for capability in 0..64 {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        let header = Header { version: VERSION_3, pid: 0 };
        let sets = [[0u32; 3]; 2];
        libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr());
    }
}
