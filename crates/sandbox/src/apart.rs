//! A lighter world for tools that must see the machine: namespaces without a filesystem of their own.
//!
//! Sanitizers and profilers need their own files, a temporary folder and sockets between their two halves, so the
//! process keeps the machine's files and process ids and loses its network, except a loopback of its own.
#![expect(
    unsafe_code,
    reason = "unshare(2) and the ioctl that starts the loopback have no safe wrapper in the standard library"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::report::LayerState;
use crate::sys;

/// Moves the calling process, which must have a single thread, into user, network, ipc and uts namespaces of its own,
/// with a working loopback. It stays the same process, so whatever it executes next is where it was expected.
///
/// # Errors
/// The system's answer; nothing has changed then, except that some of the namespaces may be new.
pub fn enter() -> io::Result<LayerState> {
    // SAFETY: no arguments.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let all = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    // SAFETY: a plain integer; it changes the world of this process only.
    sys::check(unsafe { libc::unshare(all) }.into())?;
    let mut gaps = Vec::new();
    if let Err(error) = map_ids(user, group) {
        gaps.push(format!("ids are not mapped: {error}"));
    }
    loopback_up()?;
    Ok(if gaps.is_empty() { LayerState::Enforced } else { LayerState::Partial(gaps.join("; ")) })
}

/// Maps the caller's own ids to themselves.
fn map_ids(user: libc::uid_t, group: libc::gid_t) -> io::Result<()> {
    let write = |path: &str, text: &str| {
        use std::io::Write as _;
        std::fs::File::options().write(true).open(path)?.write_all(text.as_bytes())
    };
    write("/proc/self/setgroups", "deny")?;
    write("/proc/self/uid_map", &format!("{user} {user} 1"))?;
    write("/proc/self/gid_map", &format!("{group} {group} 1"))
}

fn loopback_up() -> io::Result<()> {
    // SAFETY: plain integers.
    let fd =
        sys::check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) }.into())?;
    let fd = libc::c_int::try_from(fd).map_err(io::Error::other)?;
    // SAFETY: made just before and known to nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed() as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the structure outlives the call, which only reads it.
    sys::check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) }.into())
        .map(drop)
}
