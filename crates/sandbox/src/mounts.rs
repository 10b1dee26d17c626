//! A filesystem that holds only what it must: read-only binds on an empty root.
#![expect(unsafe_code, reason = "mount(2) and its kin have no safe wrapper in the standard library")]

use std::collections::BTreeSet;
use std::ffi::{CStr, OsString};
use std::io;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Component, Path, PathBuf};

use crate::error::SandboxError;
use crate::report::LayerState;
use crate::sys::{self, c_path};

/// Where the machine's own tree stands while the new one is filled.
const OLD: &str = "/.old";
/// Links followed at most for one path, as the kernel does.
const LINKS_MAX: usize = 40;
/// Devices without which a C library cannot do.
const DEVICES: &[&str] = &["null", "zero", "urandom", "random"];

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) read: &'a [PathBuf],
    pub(crate) devices: bool,
    pub(crate) private_proc: bool,
    /// Whether the process lives in a pid namespace of its own.
    pub(crate) own_pids: bool,
}

fn mount(
    source: Option<&CStr>,
    target: &Path,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    data: Option<&CStr>,
) -> io::Result<()> {
    let target = c_path(target).map_err(io::Error::other)?;
    let pointer = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: every pointer is null or a C string that outlives the call.
    sys::check(
        unsafe { libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(data).cast()) }
            .into(),
    )
    .map(drop)
}

/// Makes a mount and all beneath it read-only, without setuid.
fn make_read_only(target: &Path, devices: bool) -> io::Result<()> {
    let path = c_path(target).map_err(io::Error::other)?;
    let no_devices = if devices { 0 } else { libc::MOUNT_ATTR_NODEV };
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | no_devices,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: both pointers outlive the call, the size is that of the structure.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path.as_ptr(),
            libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if sys::check(answer).is_ok() {
        return Ok(());
    }
    // Before Linux 5.12: the top mount only, and with the flags that the namespace has locked.
    // SAFETY: an all-zero statvfs is a valid value of this plain C struct.
    let mut facts: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers outlive the call.
    sys::check(unsafe { libc::statvfs(path.as_ptr(), &raw mut facts) }.into())?;
    let kept = [
        (libc::ST_NODEV, libc::MS_NODEV),
        (libc::ST_NOEXEC, libc::MS_NOEXEC),
        (libc::ST_NOATIME, libc::MS_NOATIME),
        (libc::ST_NODIRATIME, libc::MS_NODIRATIME),
        (libc::ST_RELATIME, libc::MS_RELATIME),
    ]
    .into_iter()
    .filter(|(seen, _)| facts.f_flag & *seen != 0)
    .fold(0, |flags, (_, flag)| flags | flag);
    let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID | kept;
    mount(None, target, None, flags, None)
}

fn in_old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

fn bind(real: &Path, devices: bool) -> io::Result<()> {
    let source = in_old(real);
    if source.is_dir() {
        std::fs::create_dir_all(real)?;
    } else {
        std::fs::create_dir_all(real.parent().unwrap_or(Path::new("/")))?;
        std::fs::File::create(real)?;
    }
    let name = c_path(&source).map_err(io::Error::other)?;
    mount(Some(&name), real, None, libc::MS_BIND | libc::MS_REC, None)?;
    make_read_only(real, devices)
}

/// Follows the links of a path in the old tree, rebuilding those that stand outside what is shown, and
/// returns where the path really is. `None` if nothing is there.
fn rebuild_links(path: &Path, shown: &BTreeSet<PathBuf>) -> io::Result<Option<PathBuf>> {
    let mut pending: Vec<OsString> = parts(path);
    pending.reverse();
    let mut real = PathBuf::from("/");
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            real.pop();
            continue;
        }
        real.push(&part);
        let Ok(facts) = std::fs::symlink_metadata(in_old(&real)) else { return Ok(None) };
        if !facts.is_symlink() {
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Ok(None);
        }
        let target = std::fs::read_link(in_old(&real))?;
        if !shown.iter().any(|top| real.starts_with(top)) {
            std::fs::create_dir_all(real.parent().unwrap_or(Path::new("/")))?;
            match symlink(&target, &real) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        } else {
            real.pop();
        }
        let mut next = parts(&target);
        next.reverse();
        pending.extend(next);
    }
    Ok(Some(real))
}

fn parts(path: &Path) -> Vec<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some(OsString::from("..")),
            _ => None,
        })
        .collect()
}

/// Where the listed paths really are, none beneath another.
fn tops(read: &[PathBuf], gaps: &mut Vec<String>) -> BTreeSet<PathBuf> {
    let mut tops: BTreeSet<PathBuf> = BTreeSet::new();
    for path in read {
        match rebuild_links(path, &tops) {
            Ok(Some(real)) => {
                if !tops.iter().any(|top| real.starts_with(top)) {
                    tops.retain(|top| !top.starts_with(&real));
                    tops.insert(real);
                }
            }
            Ok(None) => {}
            Err(error) => gaps.push(format!("{}: {error}", path.display())),
        }
    }
    tops
}

fn new_root() -> Result<(), SandboxError> {
    let root = Path::new("/");
    mount(None, root, None, libc::MS_REC | libc::MS_PRIVATE, None)
        .map_err(SandboxError::system("making mounts private"))?;
    // Any folder that exists will do: what it holds stays visible in the old tree.
    let base = ["/tmp", "/mnt", "/var", "/usr"]
        .map(Path::new)
        .into_iter()
        .find(|path| path.is_dir())
        .unwrap_or(Path::new("/proc"));
    mount(Some(c"tmpfs"), base, Some(c"tmpfs"), libc::MS_NOSUID, Some(c"size=1m,mode=755"))
        .map_err(SandboxError::system("mounting an empty root"))?;
    let old = base.join(&OLD[1..]);
    std::fs::create_dir(&old).map_err(SandboxError::system("making a folder in the new root"))?;
    let (new, old) = (c_path(base)?, c_path(&old)?);
    // SAFETY: both C strings outlive the call.
    sys::check(unsafe { libc::syscall(libc::SYS_pivot_root, new.as_ptr(), old.as_ptr()) })
        .map_err(SandboxError::system("changing the root"))?;
    std::env::set_current_dir("/").map_err(SandboxError::system("entering the new root"))
}

fn device_paths(devices: bool) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = DEVICES.iter().map(|name| Path::new("/dev").join(name)).collect();
    if devices && let Ok(entries) = std::fs::read_dir(in_old(Path::new("/dev"))) {
        paths.extend(
            entries
                .flatten()
                .filter(|entry| entry.file_name().to_string_lossy().starts_with("nvidia"))
                .map(|entry| Path::new("/dev").join(entry.file_name())),
        );
    }
    paths
}

fn bind_device(path: &Path) -> io::Result<()> {
    let Ok(facts) = std::fs::metadata(in_old(path)) else { return Ok(()) };
    if facts.is_dir() {
        return bind(path, true);
    }
    if !facts.file_type().is_char_device() {
        return Ok(());
    }
    std::fs::create_dir_all("/dev")?;
    std::fs::File::create(path)?;
    let source = c_path(&in_old(path)).map_err(io::Error::other)?;
    // Devices keep their write permission: the file's own mode and Landlock decide.
    mount(Some(&source), path, None, libc::MS_BIND, None)
}

fn show_proc(own_pids: bool) -> LayerState {
    let target = Path::new("/proc");
    if let Err(error) = std::fs::create_dir_all(target) {
        return LayerState::Unavailable(error.to_string());
    }
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    let reason = if own_pids {
        match mount(Some(c"proc"), target, Some(c"proc"), flags, None) {
            Ok(()) => return LayerState::Enforced,
            // A container that hides parts of /proc does not let a complete one be mounted.
            Err(error) => error.to_string(),
        }
    } else {
        "no pid namespace".to_owned()
    };
    let source = in_old(target);
    let bound = c_path(&source)
        .map_err(io::Error::other)
        .and_then(|source| mount(Some(&source), target, None, libc::MS_BIND | libc::MS_REC, None));
    match bound {
        Ok(()) => LayerState::Partial(format!("shared with the machine: {reason}")),
        Err(error) => LayerState::Unavailable(format!("{reason}; {error}")),
    }
}

/// Replaces the filesystem that the process sees. Returns what holds, by name; on an early failure the old
/// tree stays.
pub(crate) fn replace_root(view: &View<'_>) -> Vec<(String, LayerState)> {
    if let Err(error) = new_root() {
        let reason = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        return vec![("filesystem".to_owned(), LayerState::Unavailable(reason))];
    }
    let mut gaps = Vec::new();
    // Before the binds: a listed path may stand beneath it.
    let temporary = Path::new("/tmp");
    let made = std::fs::create_dir_all(temporary).and_then(|()| {
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        mount(Some(c"tmpfs"), temporary, Some(c"tmpfs"), flags, Some(c"size=1m"))
    });
    if let Err(error) = made {
        gaps.push(format!("/tmp: {error}"));
    }
    for path in device_paths(view.devices) {
        if let Err(error) = bind_device(&path) {
            gaps.push(format!("{}: {error}", path.display()));
        }
    }
    // Shown apart, or not at all.
    let special = |path: &PathBuf| path.starts_with("/proc") || path.starts_with("/dev");
    let read: Vec<PathBuf> = view.read.iter().filter(|path| !special(path)).cloned().collect();
    for real in tops(&read, &mut gaps) {
        if let Err(error) = bind(&real, false) {
            gaps.push(format!("{}: {error}", real.display()));
        }
    }
    let mut states = Vec::new();
    if view.private_proc {
        states.push(("proc".to_owned(), show_proc(view.own_pids)));
    }
    // SAFETY: the C string is a constant.
    let detached = sys::check(unsafe { libc::umount2(c"/.old".as_ptr(), libc::MNT_DETACH) }.into());
    match detached {
        Ok(_) => {
            let _ = std::fs::remove_dir(OLD);
        }
        Err(error) => gaps.push(format!("the old tree is still reachable: {error}")),
    }
    let flags = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY | libc::MS_NOSUID;
    if let Err(error) = mount(None, Path::new("/"), None, flags, None) {
        gaps.push(format!("the root stays writable: {error}"));
    }
    states.insert(0, ("filesystem".to_owned(), LayerState::from_gaps(&gaps)));
    states
}
