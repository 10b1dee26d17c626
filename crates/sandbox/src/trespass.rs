//! Denied system calls in words: what was tried, on what, and the error it gets.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use crate::policy::WRITE_FLAGS;
use crate::syscalls;

/// The longest path the kernel takes, in bytes.
const PATH_MAX: usize = 4096;
/// The longest detail kept, in characters.
const DETAIL_MAX: usize = 240;

/// One call that a filter handed to the supervisor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// The thread, as the supervisor sees it.
    pub(crate) thread: u32,
    pub(crate) number: u32,
    pub(crate) arguments: [u64; 6],
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Request {
    /// Reading a path, absolute and normalised.
    Read { call: String, path: PathBuf },
    /// Anything else: never granted.
    Trespass { call: String, detail: String, errno: i32 },
}

/// Where a call keeps a path: the argument of the folder it is relative to, if any, and its own.
struct PathArgument {
    folder: Option<usize>,
    path: usize,
}

fn path_arguments(call: &str) -> &'static [PathArgument] {
    const fn plain(path: usize) -> PathArgument {
        PathArgument { folder: None, path }
    }
    const fn at(folder: usize, path: usize) -> PathArgument {
        PathArgument { folder: Some(folder), path }
    }
    const FIRST: &[PathArgument] = &[plain(0)];
    const FIRST_TWO: &[PathArgument] = &[plain(0), plain(1)];
    const AT: &[PathArgument] = &[at(0, 1)];
    const AT_TWICE: &[PathArgument] = &[at(0, 1), at(2, 3)];
    const TARGET_AT: &[PathArgument] = &[plain(0), at(1, 2)];
    match call {
        "open" | "creat" | "unlink" | "rmdir" | "mkdir" | "mknod" | "chmod" | "chown" | "lchown"
        | "truncate" | "utime" | "utimes" | "chdir" | "chroot" | "acct" | "swapon" | "swapoff" | "execve"
        | "readlink" | "statfs" | "setxattr" | "lsetxattr" | "removexattr" | "getxattr" | "listxattr"
        | "shm_open" | "mq_open" | "mq_unlink" | "memfd_create" | "umount2" => FIRST,
        "link" | "symlink" | "rename" | "mount" | "pivot_root" => FIRST_TWO,
        "openat" | "unlinkat" | "mkdirat" | "mknodat" | "fchmodat" | "fchmodat2" | "fchownat"
        | "utimensat" | "futimesat" | "execveat" | "readlinkat" | "name_to_handle_at" | "open_tree" => AT,
        "linkat" | "renameat" | "renameat2" => AT_TWICE,
        "symlinkat" => TARGET_AT,
        _ => &[],
    }
}

/// Reads what the process keeps at an address; short at the end of a mapping, empty if unreadable.
fn read_memory(memory: &File, address: u64, most: usize) -> Vec<u8> {
    const PAGE: u64 = 4096;
    let mut bytes = Vec::new();
    while bytes.len() < most {
        let at = address.wrapping_add(bytes.len() as u64);
        // Never across a page at once: the next one may not exist.
        let room = (PAGE - at % PAGE) as usize;
        let mut chunk = vec![0; room.min(most - bytes.len())];
        match memory.read_at(&mut chunk, at) {
            Ok(count) if count > 0 => bytes.extend_from_slice(&chunk[..count]),
            _ => break,
        }
        if most == PATH_MAX && bytes.contains(&0) {
            break;
        }
    }
    bytes
}

fn read_path(memory: Option<&File>, address: u64) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = read_memory(memory?, address, PATH_MAX);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    bytes.truncate(end);
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Resolves `.` and `..` without looking at the disk.
pub(crate) fn normalise(path: &Path) -> PathBuf {
    let mut result = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => result.push(name),
            Component::ParentDir => {
                result.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    result
}

fn absolute(attempt: &Attempt, folder: Option<u64>, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return normalise(path);
    }
    let process = attempt.thread;
    let base = match folder.map(|folder| folder as i32) {
        None | Some(libc::AT_FDCWD) => format!("/proc/{process}/cwd"),
        Some(fd) => format!("/proc/{process}/fd/{fd}"),
    };
    // An unknown base gives a path that no rule allows.
    let base = std::fs::read_link(base).unwrap_or_else(|_| PathBuf::from("/unknown folder"));
    normalise(&base.join(path))
}

fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(DETAIL_MAX).collect()
}

fn open_words(flags: u32) -> &'static str {
    match flags as i32 & libc::O_ACCMODE {
        libc::O_WRONLY => "for writing",
        libc::O_RDWR => "for reading and writing",
        _ if flags & WRITE_FLAGS != 0 => "with creation, truncation or appending",
        _ => "for reading",
    }
}

fn family(number: u64) -> String {
    match number as i32 {
        libc::AF_UNIX => "AF_UNIX".to_owned(),
        libc::AF_INET => "AF_INET".to_owned(),
        libc::AF_INET6 => "AF_INET6".to_owned(),
        libc::AF_NETLINK => "AF_NETLINK".to_owned(),
        other => format!("family {other}"),
    }
}

fn address_words(memory: Option<&File>, address: u64) -> String {
    let bytes = memory.map(|memory| read_memory(memory, address, 28)).unwrap_or_default();
    let Some([low, high]) = bytes.first_chunk::<2>() else {
        return "unreadable address".to_owned();
    };
    let number = u64::from(u16::from_le_bytes([*low, *high]));
    match (number as i32, bytes.get(2..8)) {
        (libc::AF_INET, Some(&[p1, p2, a, b, c, d])) => {
            format!("AF_INET {a}.{b}.{c}.{d}:{}", u16::from_be_bytes([p1, p2]))
        }
        _ => family(number),
    }
}

/// Reads what an attempt asks for. `memory` is the process's memory, if it could be opened.
pub(crate) fn read(attempt: &Attempt, memory: Option<&File>) -> Request {
    let Attempt { number, arguments, .. } = *attempt;
    let call = if number >= syscalls::X32_FIRST {
        format!("x32:{}", number - syscalls::X32_FIRST)
    } else {
        syscalls::name(number).map_or_else(|| format!("call {number}"), str::to_owned)
    };
    let paths: Vec<Option<PathBuf>> = path_arguments(&call)
        .iter()
        .map(|place| {
            let path = read_path(memory, arguments[place.path])?;
            Some(absolute(attempt, place.folder.map(|folder| arguments[folder]), &path))
        })
        .collect();
    let open_flags = match call.as_str() {
        "open" => Some(arguments[1] as u32),
        "openat" => Some(arguments[2] as u32),
        _ => None,
    };
    let reads = matches!(call.as_str(), "readlink" | "readlinkat")
        || open_flags.is_some_and(|flags| flags & WRITE_FLAGS == 0);
    if reads && let [Some(path)] = paths.as_slice() {
        return Request::Read { call, path: path.clone() };
    }

    let errno = if open_flags.is_some() || reads || call == "creat" { libc::EACCES } else { libc::EPERM };
    let mut words: Vec<String> = paths
        .iter()
        .map(|path| path.as_ref().map_or_else(|| "unreadable path".to_owned(), |p| p.display().to_string()))
        .collect();
    words.extend(open_flags.map(|flags| open_words(flags).to_owned()));
    words.extend(argument_words(&call, &arguments, memory));
    Request::Trespass { detail: shorten(&words.join(" ")), call, errno }
}

/// What the numbers of a call mean, for the calls where they say something.
fn argument_words(call: &str, arguments: &[u64; 6], memory: Option<&File>) -> Option<String> {
    let int = |index: usize| arguments[index] as i32;
    Some(match call {
        "socket" | "socketpair" => family(arguments[0]),
        "connect" | "bind" => address_words(memory, arguments[1]),
        "sendto" => address_words(memory, arguments[4]),
        "kill" | "tkill" => format!("pid {} signal {}", int(0), int(1)),
        "rt_sigqueueinfo" => format!("pid {} signal {}", int(0), int(1)),
        "tgkill" | "rt_tgsigqueueinfo" => format!("pid {} thread {} signal {}", int(0), int(1), int(2)),
        "pidfd_open" | "sched_setaffinity" | "sched_setscheduler" | "process_vm_readv"
        | "process_vm_writev" | "prlimit64" => format!("pid {}", int(0)),
        "ptrace" => format!("request {} pid {}", int(0), int(1)),
        "clone" => format!("flags {:#x}", arguments[0]),
        "ioctl" => format!("request {:#x}", arguments[1]),
        "fcntl" => format!("command {}", int(1)),
        "prctl" => format!("option {}", int(0)),
        _ => return None,
    })
}

/// How a refused read is recorded.
pub(crate) fn refused_read(path: &Path) -> String {
    shorten(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(call: &str, arguments: [u64; 6]) -> Attempt {
        Attempt { thread: std::process::id(), number: syscalls::number(call).unwrap(), arguments }
    }

    fn own_memory() -> File {
        File::open("/proc/self/mem").unwrap()
    }

    #[test]
    fn paths_are_normalised() {
        for (path, expected) in [
            ("/usr/lib/../lib/x.so", "/usr/lib/x.so"),
            ("/usr/../../etc/./shadow", "/etc/shadow"),
            ("//usr//lib/", "/usr/lib"),
            ("/..", "/"),
        ] {
            assert_eq!(normalise(Path::new(path)), Path::new(expected), "{path}");
        }
    }

    #[test]
    fn opens_are_told_apart() {
        let memory = own_memory();
        let path = c"/etc/../etc/hostname";
        let address = path.as_ptr() as u64;
        let at_cwd = libc::AT_FDCWD as u64;
        let read_only = attempt("openat", [at_cwd, address, libc::O_CLOEXEC as u64, 0, 0, 0]);
        assert_eq!(
            read(&read_only, Some(&memory)),
            Request::Read { call: "openat".to_owned(), path: PathBuf::from("/etc/hostname") }
        );
        let writing = attempt("openat", [at_cwd, address, (libc::O_WRONLY | libc::O_CREAT) as u64, 0, 0, 0]);
        assert_eq!(
            read(&writing, Some(&memory)),
            Request::Trespass {
                call: "openat".to_owned(),
                detail: "/etc/hostname for writing".to_owned(),
                errno: libc::EACCES
            }
        );
        let nowhere = attempt("openat", [at_cwd, 8, 0, 0, 0, 0]);
        assert_eq!(
            read(&nowhere, Some(&memory)),
            Request::Trespass {
                call: "openat".to_owned(),
                detail: "unreadable path for reading".to_owned(),
                errno: libc::EACCES
            }
        );
    }

    #[test]
    fn relative_paths_start_at_the_folder() {
        let memory = own_memory();
        let folder = File::open("/usr").unwrap();
        let path = c"lib/x";
        let fd = std::os::fd::AsRawFd::as_raw_fd(&folder) as u64;
        let request = read(&attempt("openat", [fd, path.as_ptr() as u64, 0, 0, 0, 0]), Some(&memory));
        assert_eq!(request, Request::Read { call: "openat".to_owned(), path: PathBuf::from("/usr/lib/x") });
    }

    #[test]
    fn words_of_other_calls() {
        let memory = own_memory();
        let mut address = [0_u8; 28];
        address[..8].copy_from_slice(&[2, 0, 0x1f, 0x90, 10, 0, 0, 7]);
        let cases: &[(&str, [u64; 6], &str)] = &[
            ("socket", [libc::AF_INET as u64, 1, 0, 0, 0, 0], "AF_INET"),
            ("connect", [3, address.as_ptr() as u64, 16, 0, 0, 0], "AF_INET 10.0.0.7:8080"),
            ("kill", [1, 9, 0, 0, 0, 0], "pid 1 signal 9"),
            ("kill", [u64::MAX, 9, 0, 0, 0, 0], "pid -1 signal 9"),
            ("clone", [0x11, 0, 0, 0, 0, 0], "flags 0x11"),
            ("execve", [c"/bin/sh".as_ptr() as u64, 0, 0, 0, 0, 0], "/bin/sh"),
            ("unlinkat", [0, c"/a\x1bb".as_ptr() as u64, 0, 0, 0, 0], "/a\u{fffd}b"),
        ];
        for (call, arguments, expected) in cases {
            let Request::Trespass { detail, errno, .. } = read(&attempt(call, *arguments), Some(&memory))
            else {
                panic!("{call} judged as a read");
            };
            assert_eq!(detail, *expected, "{call}");
            assert_eq!(errno, libc::EPERM);
        }
        let unknown = Attempt { thread: 1, number: 9_999, arguments: [0; 6] };
        assert!(matches!(read(&unknown, None), Request::Trespass { call, .. } if call == "call 9999"));
    }
}
