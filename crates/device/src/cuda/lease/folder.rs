//! Files in a folder that others can write to: opened so that nobody can make us write elsewhere.

use super::LeaseError;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A file of a lease.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) fd: OwnedFd,
    pub(super) path: PathBuf,
    pub(super) writable: bool,
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl LockFile {
    pub(super) fn error(&self, operation: &'static str, error: Errno) -> LeaseError {
        system(&self.path, operation, error)
    }
}

fn system(path: &Path, operation: &'static str, error: Errno) -> LeaseError {
    LeaseError::System { path: path.to_owned(), operation, source: error.into() }
}

fn unfit(path: &Path, why: &str) -> LeaseError {
    LeaseError::Unfit { path: path.to_owned(), why: why.to_owned() }
}

/// Makes the folder if it does not exist, for every user, and looks whether it is one.
pub(super) fn prepare(path: &Path) -> Result<(), LeaseError> {
    let everybody = Mode::from_raw_mode(0o1777);
    match rustix::fs::mkdir(path, everybody) {
        // The mask of the process does not count: other users must be able to make files here.
        Ok(()) => rustix::fs::chmod(path, everybody).map_err(|e| system(path, "opening to all users", e))?,
        Err(Errno::EXIST) => {}
        // A folder that nothing may be made in can be there all the same.
        Err(error) if rustix::fs::lstat(path).is_err() => {
            return Err(system(path, "making the folder", error));
        }
        Err(_) => {}
    }
    folder(path).map(drop)
}

fn folder(path: &Path) -> Result<OwnedFd, LeaseError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => unfit(path, "is not a folder of its own (a link or a file)"),
        error => system(path, "opening the folder", error),
    })?;
    let stat = rustix::fs::fstat(&fd).map_err(|e| system(path, "looking at the folder", e))?;
    match judge_folder(stat.st_mode, stat.st_uid, rustix::process::geteuid().as_raw()) {
        Some(why) => Err(unfit(path, why)),
        None => Ok(fd),
    }
}

/// What is wrong with a folder, by its mode and owner.
fn judge_folder(mode: u32, owner: u32, me: u32) -> Option<&'static str> {
    let (world, sticky) = (mode & 0o002 != 0, mode & 0o1000 != 0);
    if world && !sticky {
        return Some("everybody may remove the files of others there: set its mode to 1777");
    }
    // Without write permission for all it is a folder of one user; then it must be ours, or the system's.
    if !world && owner != me && owner != 0 {
        return Some("belongs to another user, who alone may write to it: set its mode to 1777 or remove it");
    }
    None
}

const OPEN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Opens a file that is there.
pub(super) fn open_existing(path: &Path, name: &str) -> Result<Option<LockFile>, LeaseError> {
    existing(&folder(path)?, &path.join(name), name)
}

fn existing(folder: &OwnedFd, path: &Path, name: &str) -> Result<Option<LockFile>, LeaseError> {
    // Without O_CREAT: the kernel refuses it for files of others in such folders (fs.protected_regular).
    let opened = rustix::fs::openat(folder, name, OFlags::RDWR | OPEN, Mode::empty()).map(|fd| (fd, true));
    let opened = match opened {
        // A lock can be taken on a file that can only be read: behind a fence, for instance.
        Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => {
            rustix::fs::openat(folder, name, OFlags::RDONLY | OPEN, Mode::empty()).map(|fd| (fd, false))
        }
        other => other,
    };
    match opened {
        Ok((fd, writable)) => checked(fd, path, writable).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::LOOP) => Err(unfit(path, "is a symbolic link: remove it")),
        Err(Errno::NXIO | Errno::NODEV | Errno::ISDIR) => Err(unfit(path, "is not a plain file: remove it")),
        Err(error) => Err(system(path, "opening", error)),
    }
}

/// Opens a file, and makes it for every user if it is not there.
pub(super) fn open_or_make(path: &Path, name: &str) -> Result<LockFile, LeaseError> {
    let (folder, full) = (folder(path)?, path.join(name));
    let everybody = Mode::from_raw_mode(0o666);
    loop {
        if let Some(file) = existing(&folder, &full, name)? {
            return Ok(file);
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OPEN;
        match rustix::fs::openat(&folder, name, flags, everybody) {
            Ok(fd) => {
                rustix::fs::fchmod(&fd, everybody).map_err(|e| system(&full, "opening to all users", e))?;
                return checked(fd, &full, true);
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(system(&full, "making the file", error)),
        }
    }
}

fn checked(fd: OwnedFd, path: &Path, writable: bool) -> Result<LockFile, LeaseError> {
    let stat = rustix::fs::fstat(&fd).map_err(|e| system(path, "looking at the file", e))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(unfit(path, "is not a plain file: remove it"));
    }
    // What is written here would otherwise be written to a file that has another name elsewhere.
    if stat.st_nlink > 1 {
        return Err(unfit(path, "has a second name somewhere: remove it"));
    }
    let (device, inode) = identity(&stat);
    Ok(LockFile { fd, path: path.to_owned(), writable, device, inode })
}

#[expect(clippy::unnecessary_cast, reason = "the widths differ between architectures")]
const fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// Whether the file is still the one of this name.
pub(super) fn is_current(path: &Path, name: &str, file: &LockFile) -> bool {
    let now = folder(path)
        .ok()
        .and_then(|folder| rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok())
        .map(|stat| identity(&stat));
    now == Some((file.device, file.inode))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_is_shared_safely_or_not_at_all() {
        let rows = [
            (0o41777, 0, 5, true),
            (0o41777, 7, 5, true),
            (0o40777, 0, 5, false),
            (0o40700, 5, 5, true),
            (0o40755, 0, 5, true),
            (0o40755, 7, 5, false),
        ];
        for (mode, owner, me, good) in rows {
            assert_eq!(judge_folder(mode, owner, me).is_none(), good, "{mode:o} {owner} {me}");
        }
    }

    #[test]
    fn the_folder_and_the_file_are_for_all_users() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("leases");
        prepare(&path).unwrap();
        prepare(&path).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o1777);
        let file = open_or_make(&path, "a").unwrap();
        assert_eq!(path.join("a").metadata().unwrap().permissions().mode() & 0o7777, 0o666);
        assert!(is_current(&path, "a", &file));
        std::fs::remove_file(path.join("a")).unwrap();
        assert!(!is_current(&path, "a", &file));
        let _new = open_or_make(&path, "a").unwrap();
        assert!(!is_current(&path, "a", &file), "another file of the same name");
        assert!(open_existing(&path, "b").unwrap().is_none());
    }

    #[test]
    fn planted_files_are_refused_and_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("leases");
        prepare(&path).unwrap();
        let precious = base.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        symlink(&precious, path.join("link")).unwrap();
        symlink(base.path().join("nothing"), path.join("dangling")).unwrap();
        std::fs::hard_link(&precious, path.join("hard")).unwrap();
        std::fs::create_dir(path.join("dir")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            path.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        for name in ["link", "dangling", "hard", "dir", "pipe"] {
            let error = open_or_make(&path, name).unwrap_err();
            assert!(matches!(error, LeaseError::Unfit { .. }), "{name}: {error}");
        }
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
        assert!(!base.path().join("nothing").exists());
        let linked = base.path().join("linked");
        symlink(&path, &linked).unwrap();
        assert!(matches!(prepare(&linked), Err(LeaseError::Unfit { .. })));
        assert!(matches!(prepare(&precious), Err(LeaseError::Unfit { .. })));
    }
}
