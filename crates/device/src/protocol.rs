//! The worker protocol: length-prefixed JSON over a Unix stream socket, file descriptors beside it.
//!
//! A frame is a little-endian `u32` length followed by that many bytes of JSON. The protocol is documented in
//! `docs/reference/worker-protocol.md` and is language-neutral: the Python worker speaks it too. A worker never
//! reports a verdict; the nanoseconds it reports are advisory.

use crate::cuda::memory::IpcHandle;
use crate::layout::ArenaLayout;
use kernelseek_core::case::AttributeValue;
use kernelseek_sandbox::report::Layers;
use serde::{Deserialize, Serialize};

/// Version of the protocol; a worker refuses any other.
pub const VERSION: u32 = 2;

/// Largest frame in bytes. A plan of 16 slots stays far below.
pub const MAX_FRAME: usize = 4 << 20;

/// Which entry point of the loaded library a request calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The problem's entry point.
    Main,
    /// `NAME_prepare`.
    Prepare,
    /// The precision model that the problem names.
    Model,
    /// `NAME_sampled`: the part of the answer that is asked for, of a reference.
    Sampled(Sample),
    /// `MODEL_sampled`, likewise.
    ModelSampled(Sample),
}

/// Which part of an answer is wanted: of each `one_in` units of work one, chosen by `key`. What a unit is, the reference
/// decides (`ks_wanted` in the generated header).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Chooses among the units.
    pub key: u64,
    /// Units of which one is wanted; 1 wants all.
    pub one_in: u32,
}

/// What a request waits for before its first call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gate {
    /// Nothing.
    None,
    /// The worker's thread waits for the word in the control page, then calls: everything that a call does is timed.
    Host,
    /// The calls are made at once, and what they enqueue on the stream waits for the word: only the device's work is timed.
    Stream,
    /// As `Stream`, with the calls recorded into one graph that is launched behind the gate.
    Graph,
}

impl Gate {
    /// Whether the calls have been made before the gate opens, so that the inputs may be written in between.
    #[must_use]
    pub const fn is_on_stream(self) -> bool {
        matches!(self, Self::Stream | Self::Graph)
    }
}

/// One tensor of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanTensor {
    /// Name of the tensor.
    pub name: String,
    /// `ks_dtype` code.
    pub dtype: i32,
    /// Extents.
    pub shape: Vec<i64>,
    /// Strides in elements.
    pub stride: Vec<i64>,
    /// Storage index, `None` when the tensor is absent.
    pub storage: Option<usize>,
    /// Byte offset of the first element from the storage's data.
    pub offset: usize,
    /// Whether the call may write it.
    pub writes: bool,
}

/// Everything a worker needs to build the call structs of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Where the storages lie.
    pub layout: ArenaLayout,
    /// Tensors in the order of the call struct.
    pub tensors: Vec<PlanTensor>,
    /// Attributes in the order of the call struct.
    pub attributes: Vec<(String, AttributeValue)>,
}

/// What the supervisor asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request {
    /// Load the library (or module). The worker locks itself down first.
    Load {
        /// Protocol version.
        version: u32,
        /// The library.
        artifact: String,
        /// Name of the entry point.
        entry: String,
        /// Name of the precision model's entry point.
        model: Option<String>,
    },
    /// Map an arena (one descriptor comes along) and build its call structs; replaces the previous one.
    Map {
        /// The plan.
        plan: Box<Plan>,
        /// Device memory that holds the arena; `None` when a descriptor comes along, and for memory that the worker has
        /// open already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cuda: Option<IpcHandle>,
    },
    /// Call the entry point once for each slot, in this order.
    Call {
        /// Number of the request; the control page's words carry it too.
        sequence: u32,
        /// Entry point.
        entry: Entry,
        /// Slots.
        slots: Vec<u32>,
        /// What to wait for.
        gate: Gate,
    },
    /// Leave.
    Bye,
}

/// Answer of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// `KS_OK`.
    Ok,
    /// `KS_UNSUPPORTED`.
    Unsupported,
    /// `KS_ERROR`.
    Error,
    /// Any other number.
    Unknown(i32),
}

impl Status {
    /// The status that `code` stands for.
    #[must_use]
    pub const fn from_code(code: i32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Unsupported,
            2 => Self::Error,
            other => Self::Unknown(other),
        }
    }
}

/// What the worker answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Reply {
    /// Sent by the outermost worker process: the pid that runs the library, as seen from outside.
    Pid {
        /// Process id.
        pid: u32,
    },
    /// The driver of a GPU has started; sent before anything is asked, by workers whose calls run on one.
    Ready,
    /// The sandbox is in place; the listener descriptor comes along if denials are recorded.
    Locked {
        /// What is in force; `None` for a worker that has no sandbox.
        layers: Option<Box<Layers>>,
        /// On a GPU, how far apart events around a launch of nothing are in this process, nanoseconds, taken before the
        /// library was loaded.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blank_nanos: Option<f64>,
    },
    /// The library is loaded.
    Loaded {
        /// Whether `NAME_workspace` exists.
        workspace: bool,
        /// Whether `NAME_prepare` exists.
        prepare: bool,
        /// Whether the model's entry point exists.
        model: bool,
    },
    /// The arena is mapped.
    Mapped {
        /// Bytes of workspace that were allocated.
        workspace_bytes: usize,
    },
    /// Waiting at the gate.
    Armed {
        /// Number of the request.
        sequence: u32,
    },
    /// The device reports an error; it is lost to this process.
    DeviceFailed {
        /// What was being done.
        doing: String,
        /// The driver's number.
        code: u32,
        /// Its name.
        name: String,
        /// What the driver says about it.
        text: String,
    },
    /// All calls of the request have returned.
    Done {
        /// Number of the request.
        sequence: u32,
        /// Status of each call.
        statuses: Vec<Status>,
        /// Duration of each call in nanoseconds by the worker's clock (the device's, where calls wait on a stream).
        /// Advisory.
        nanos: Vec<u64>,
        /// How long the host took to make each call, nanoseconds, where that is something else. Advisory.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        host_nanos: Vec<u64>,
        /// From before the first call to after the last by the device's clock, nanoseconds. Advisory.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        span_nanos: Option<u64>,
        /// An error that the runtime library still holds: a launch that failed and was not looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending: Option<String>,
    },
    /// The request could not be served.
    Failed {
        /// What went wrong.
        message: String,
    },
}

/// What is wrong with a frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The length word exceeds [`MAX_FRAME`].
    #[error("frame of {0} bytes is longer than the {MAX_FRAME} allowed")]
    TooLong(usize),
    /// The payload is not a message.
    #[error("malformed message")]
    Malformed(#[source] serde_json::Error),
}

/// Encodes a message as one frame.
///
/// # Errors
/// When the message is longer than [`MAX_FRAME`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message).map_err(FrameError::Malformed)?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Takes the first complete frame off `buffer`: `Ok(None)` while it is incomplete.
///
/// # Errors
/// When the length word is too large or the payload is not a `T`; the buffer is then of no further use.
pub fn decode<T: for<'de> Deserialize<'de>>(buffer: &mut Vec<u8>) -> Result<Option<T>, FrameError> {
    let Some((head, rest)) = buffer.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let Some(payload) = rest.get(..length) else { return Ok(None) };
    let message = serde_json::from_slice(payload).map_err(FrameError::Malformed)?;
    buffer.drain(..4 + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_arrive_whole_or_not_at_all() {
        let message = Reply::Done {
            sequence: 7,
            statuses: vec![Status::Ok, Status::Unknown(9)],
            nanos: vec![1, 2],
            host_nanos: vec![],
            span_nanos: None,
            pending: None,
        };
        let frame = encode(&message).unwrap();
        let mut buffer = Vec::new();
        for (i, byte) in frame.iter().enumerate() {
            assert!(decode::<Reply>(&mut buffer).unwrap().is_none(), "incomplete at {i}");
            buffer.push(*byte);
        }
        buffer.extend_from_slice(&frame);
        assert_eq!(decode::<Reply>(&mut buffer).unwrap(), Some(message.clone()));
        assert_eq!(decode::<Reply>(&mut buffer).unwrap(), Some(message));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_huge_length_is_refused_before_anything_is_allocated() {
        let mut buffer = vec![0xff, 0xff, 0xff, 0xff, 1];
        assert!(matches!(decode::<Reply>(&mut buffer), Err(FrameError::TooLong(_))));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
            let mut buffer = bytes.clone();
            let _ = decode::<Reply>(&mut buffer);
            let mut buffer = bytes;
            let _ = decode::<Request>(&mut buffer);
        }
    }
}
