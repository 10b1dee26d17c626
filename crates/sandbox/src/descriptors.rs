//! Passing open descriptors over a Unix socket: how the listener reaches the supervisor.
#![expect(unsafe_code, reason = "control messages have no safe wrapper in the standard library")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::sys;

/// The most descriptors one message carries.
const MOST: usize = 16;

/// Room for the control message, aligned as its header demands.
#[repr(align(8))]
struct Control(#[expect(dead_code, reason = "written by the kernel")] [u8; 256]);

/// Sends the bytes (at least one) with the descriptors. Returns how many bytes were taken.
///
/// # Errors
/// More than 16 descriptors, no bytes, or the system's answer.
pub fn send(socket: &UnixStream, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if descriptors.len() > MOST || bytes.is_empty() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut vector = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut control = Control([0; 256]);
    // SAFETY: an all-zero msghdr is a valid value of this plain C struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    let payload = size_of_val(descriptors) as libc::c_uint;
    if !descriptors.is_empty() {
        message.msg_control = (&raw mut control).cast();
        // SAFETY: pure arithmetic; 16 descriptors fit in the 256 bytes.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(payload) } as _;
        // SAFETY: the control buffer is set, zeroed, aligned and large enough for one header and the payload;
        // BorrowedFd has the layout of a C int.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(payload) as _;
            let numbers = libc::CMSG_DATA(header).cast::<libc::c_int>();
            for (index, descriptor) in descriptors.iter().enumerate() {
                numbers.add(index).write_unaligned(descriptor.as_raw_fd());
            }
        }
    }
    // SAFETY: every pointer in `message` outlives the call.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    sys::check(sent as libc::c_long).map(|sent| sent as usize)
}

/// Receives bytes into the buffer, with the descriptors sent along, all close-on-exec. Zero bytes: the
/// peer closed.
///
/// # Errors
/// The system's answer.
pub fn receive(socket: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([0; 256]);
    // SAFETY: an all-zero msghdr is a valid value of this plain C struct.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut vector;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    // SAFETY: every pointer in `message` outlives the call.
    let received = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC) };
    let received = sys::check(received as libc::c_long)? as usize;
    let mut descriptors = Vec::new();
    // SAFETY: the kernel wrote well-formed headers within the control buffer; each number in a rights message
    // is a descriptor that this process now owns and nobody else knows.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let payload = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let numbers = libc::CMSG_DATA(header).cast::<libc::c_int>();
                for index in 0..payload / size_of::<libc::c_int>() {
                    descriptors.push(OwnedFd::from_raw_fd(numbers.add(index).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok((received, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_arrives_open() {
        let (left, right) = UnixStream::pair().unwrap();
        let (read, write) = sys::pipe().unwrap();
        assert_eq!(send(&left, b"two", &[read.as_fd(), write.as_fd()]).unwrap(), 3);
        drop((read, write));
        let mut buffer = [0; 8];
        let (count, mut descriptors) = receive(&right, &mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"two");
        assert_eq!(descriptors.len(), 2);
        let mut write = std::fs::File::from(descriptors.pop().unwrap());
        let mut read = std::fs::File::from(descriptors.pop().unwrap());
        write.write_all(b"through").unwrap();
        drop(write);
        let mut text = String::new();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn plain_bytes_and_the_end() {
        let (left, right) = UnixStream::pair().unwrap();
        send(&left, b"x", &[]).unwrap();
        let mut buffer = [0; 8];
        assert!(matches!(receive(&right, &mut buffer), Ok((1, none)) if none.is_empty()));
        drop(left);
        assert!(matches!(receive(&right, &mut buffer), Ok((0, _))));
        assert!(send(&right, b"", &[]).is_err());
    }
}
