//! What a worker is asked, and what it answers.

use crate::protocol::{Entry, Gate, Status};
use std::time::Duration;

/// What a worker's library offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offers {
    /// `NAME_workspace` exists.
    pub workspace: bool,
    /// `NAME_prepare` exists.
    pub prepare: bool,
    /// The precision model's entry point exists.
    pub model: bool,
}

/// Answer to one request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Status of each call.
    pub statuses: Vec<Status>,
    /// From the opening of the gate to the worker's `done`, by the supervisor's clock. Zero without a gate. On a GPU `done`
    /// is said once the whole device is idle.
    pub wall: Duration,
    /// From the opening of the gate until the device was through with the call's stream, by the supervisor's clock; `None`
    /// where no stream was held.
    pub stream_wall: Option<Duration>,
    /// Duration of each call by the worker's clock. Advisory.
    pub inner: Vec<Duration>,
    /// How long the host took to make each call, where that is something else than `inner`. Advisory.
    pub host: Vec<Duration>,
    /// From before the first call to after the last by the device's clock. Advisory.
    pub span: Option<Duration>,
    /// An error that the runtime library held after the calls.
    pub pending: Option<String>,
    /// How long the worker's main thread was runnable but not running.
    pub waited: Duration,
}

/// How long a request took from the opening of its gate.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Walls {
    pub(super) done: Duration,
    pub(super) stream: Option<Duration>,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Entry point.
    pub entry: Entry,
    /// Slots, in the order of the calls.
    pub slots: &'a [u32],
    /// What the calls wait for.
    pub gate: Gate,
    /// How long it may take.
    pub deadline: Duration,
}
