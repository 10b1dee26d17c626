//! One end of the socket between supervisor and worker.

use crate::protocol::{FrameError, decode, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// Most descriptors that may come with one message.
const MAX_FDS: usize = 4;

/// Why a message could not be exchanged.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The other side is gone.
    #[error("the other side closed the connection")]
    Closed,
    /// Nothing arrived in time.
    #[error("no answer within {0:.1?}")]
    TimedOut(Duration),
    /// The socket failed.
    #[error("the socket failed")]
    Socket(#[source] rustix::io::Errno),
    /// The message is not one.
    #[error("protocol violation")]
    Frame(#[from] FrameError),
}

/// One end of a Unix stream socket carrying frames.
#[derive(Debug)]
pub struct Channel {
    fd: OwnedFd,
    buffer: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    /// Wraps a connected socket.
    #[must_use]
    pub const fn new(fd: OwnedFd) -> Self {
        Self { fd, buffer: Vec::new(), descriptors: VecDeque::new() }
    }

    /// The socket.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Sends one message and the descriptors that belong to it.
    ///
    /// # Errors
    /// When the other side is gone or the message is too long.
    pub fn send<T: Serialize>(&self, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        let frame = encode(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(fds));
        }
        let mut sent = 0;
        while sent < frame.len() {
            let slice = IoSlice::new(&frame[sent..]);
            match sendmsg(&self.fd, &[slice], &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(n) => {
                    sent += n;
                    ancillary.clear();
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                    return Err(ChannelError::Closed);
                }
                Err(e) => return Err(ChannelError::Socket(e)),
            }
        }
        Ok(())
    }

    /// Receives one message; waits at most `deadline` (for ever without one).
    ///
    /// # Errors
    /// When nothing arrives in time, the other side is gone, or the bytes are no message.
    pub fn receive<T: for<'de> Deserialize<'de>>(
        &mut self,
        deadline: Option<Duration>,
    ) -> Result<T, ChannelError> {
        let start = Instant::now();
        loop {
            if let Some(message) = decode(&mut self.buffer)? {
                return Ok(message);
            }
            if let Some(limit) = deadline {
                let left = limit.checked_sub(start.elapsed()).ok_or(ChannelError::TimedOut(limit))?;
                if !self.wait_readable(left)? {
                    return Err(ChannelError::TimedOut(limit));
                }
            }
            self.read_some()?;
        }
    }

    /// The oldest descriptor received and not taken yet.
    pub fn take_fd(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    /// Waits until something can be read or the other side is gone.
    ///
    /// # Errors
    /// When polling fails.
    pub fn wait_readable(&self, limit: Duration) -> Result<bool, ChannelError> {
        let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
        let mut fds = [PollFd::new(&self.fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(n) => Ok(n > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(ChannelError::Socket(e)),
        }
    }

    fn read_some(&mut self) -> Result<(), ChannelError> {
        let mut chunk = [0; 65536];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut chunk)];
        let received = loop {
            match recvmsg(&self.fd, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other,
            }
        };
        let received = match received {
            Ok(r) => r,
            Err(rustix::io::Errno::CONNRESET) => return Err(ChannelError::Closed),
            Err(e) => return Err(ChannelError::Socket(e)),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                // A worker that sends descriptors nobody asked for must not exhaust the supervisor's table.
                self.descriptors.extend(fds);
                self.descriptors.truncate(2 * MAX_FDS);
            }
        }
        if received.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        self.buffer.extend_from_slice(&chunk[..received.bytes]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Reply, Status};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Channel, Channel) {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn messages_and_descriptors_arrive_in_order() {
        let (a, mut b) = pair();
        let memory = crate::arena::SharedMemory::new("t", 10).unwrap();
        a.send(&Reply::Armed { sequence: 1 }, &[memory.fd()]).unwrap();
        let many = Reply::Done {
            sequence: 2,
            statuses: vec![Status::Ok; 3000],
            nanos: vec![5; 3000],
            host_nanos: vec![],
            span_nanos: Some(7),
            pending: None,
        };
        a.send(&many, &[]).unwrap();
        assert_eq!(b.receive::<Reply>(None).unwrap(), Reply::Armed { sequence: 1 });
        assert!(b.take_fd().is_some());
        assert!(b.take_fd().is_none());
        assert_eq!(b.receive::<Reply>(Some(Duration::from_secs(5))).unwrap(), many);
    }

    #[test]
    fn silence_and_death_are_told_apart() {
        let (a, mut b) = pair();
        assert!(matches!(b.receive::<Reply>(Some(Duration::from_millis(5))), Err(ChannelError::TimedOut(_))));
        drop(a);
        assert!(matches!(b.receive::<Reply>(None), Err(ChannelError::Closed)));
        assert!(matches!(b.send(&Reply::Armed { sequence: 1 }, &[]), Err(ChannelError::Closed)));
    }
}
