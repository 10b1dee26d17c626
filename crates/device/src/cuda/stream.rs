//! Streams, events, gates and graphs.

use super::error::{Result, check};
use super::memory::Address;
use cudarc::driver::sys::{
    self, CUevent, CUevent_flags, CUgraphExec, CUresult, CUstream, CUstream_flags, CUstreamCaptureMode,
    CUstreamWaitValue_flags, CUstreamWriteValue_flags,
};
use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// A stream of its own, which does not wait for the legacy default stream.
#[derive(Debug)]
pub struct Stream {
    stream: CUstream,
    waited: Cell<Duration>,
}

impl Stream {
    /// Makes one.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn new() -> Result<Self> {
        let mut stream: CUstream = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check("cuStreamCreate", unsafe {
            sys::cuStreamCreate(&raw mut stream, CUstream_flags::CU_STREAM_NON_BLOCKING as u32)
        })?;
        Ok(Self { stream, waited: Cell::new(Duration::ZERO) })
    }
    pub(crate) const fn raw(&self) -> CUstream {
        self.stream
    }
    /// The handle as the runtime API knows it (`cudaStream_t`).
    #[must_use]
    pub const fn as_ptr(&self) -> *mut c_void {
        self.stream.cast()
    }
    /// Waits for everything in it.
    ///
    /// # Errors
    /// What went wrong on the device.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn synchronize(&self) -> Result<()> {
        let start = Instant::now();
        // SAFETY: a live stream.
        let answer = unsafe { sys::cuStreamSynchronize(self.stream) };
        self.waited.set(self.waited.get() + start.elapsed());
        check("cuStreamSynchronize", answer)
    }
    /// Notes a wait for this stream that was made elsewhere.
    pub(crate) fn note_wait(&self, waited: Duration) {
        self.waited.set(self.waited.get() + waited);
    }
    /// How long this thread has waited for this stream in all.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited.get()
    }
    /// Whether everything in it is done.
    ///
    /// # Errors
    /// What went wrong on the device.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn is_done(&self) -> Result<bool> {
        // SAFETY: a live stream.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            answer => check("cuStreamQuery", answer).map(|()| true),
        }
    }
    /// Everything enqueued from now on waits until the word at `address` equals `value`.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn wait_value(&self, address: Address, value: u32) -> Result<()> {
        let flags = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_EQ as u32;
        // SAFETY: a live stream; the driver checks the address.
        check("cuStreamWaitValue32_v2", unsafe {
            sys::cuStreamWaitValue32_v2(self.stream, address, value, flags)
        })
    }
    /// Writes `value` to the word at `address` once everything before it is done and visible.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn write_value(&self, address: Address, value: u32) -> Result<()> {
        let flags = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT as u32;
        // SAFETY: a live stream; the driver checks the address.
        check("cuStreamWriteValue32_v2", unsafe {
            sys::cuStreamWriteValue32_v2(self.stream, address, value, flags)
        })
    }
    /// Begins to record what is enqueued instead of doing it.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn begin_capture(&self) -> Result<()> {
        // SAFETY: a live stream.
        check("cuStreamBeginCapture_v2", unsafe {
            sys::cuStreamBeginCapture_v2(self.stream, CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
        })
    }
    /// Ends the recording and makes it runnable.
    ///
    /// # Errors
    /// When something that was called cannot be part of a graph.
    #[expect(unsafe_code, reason = "driver calls")]
    pub fn end_capture(&self) -> Result<Graph> {
        let mut graph = std::ptr::null_mut();
        let mut exec: CUgraphExec = std::ptr::null_mut();
        // SAFETY: a live stream; each call writes one handle, and the recording is destroyed once it is made runnable.
        unsafe {
            check("cuStreamEndCapture", sys::cuStreamEndCapture(self.stream, &raw mut graph))?;
            let made = check(
                "cuGraphInstantiateWithFlags",
                sys::cuGraphInstantiateWithFlags(&raw mut exec, graph, 0),
            );
            let _ = sys::cuGraphDestroy(graph);
            made?;
        }
        Ok(Graph { exec })
    }
}

impl Drop for Stream {
    #[expect(unsafe_code, reason = "driver call")]
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        let _ = unsafe { sys::cuStreamDestroy_v2(self.stream) };
    }
}

/// A recorded sequence of work.
#[derive(Debug)]
pub struct Graph {
    exec: CUgraphExec,
}

impl Graph {
    /// Moves it to the device, so that the first launch costs what every launch costs.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn upload(&self, stream: &Stream) -> Result<()> {
        // SAFETY: live handles.
        check("cuGraphUpload", unsafe { sys::cuGraphUpload(self.exec, stream.raw()) })
    }
    /// Enqueues it.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn launch(&self, stream: &Stream) -> Result<()> {
        // SAFETY: live handles.
        check("cuGraphLaunch", unsafe { sys::cuGraphLaunch(self.exec, stream.raw()) })
    }
}

impl Drop for Graph {
    #[expect(unsafe_code, reason = "driver call")]
    fn drop(&mut self) {
        // SAFETY: made by `end_capture`.
        let _ = unsafe { sys::cuGraphExecDestroy(self.exec) };
    }
}

/// A point in a stream with the time at which the device passed it.
#[derive(Debug)]
pub struct Event {
    event: CUevent,
}

impl Event {
    /// Makes one.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn new() -> Result<Self> {
        let mut event: CUevent = std::ptr::null_mut();
        // SAFETY: writes one handle.
        check("cuEventCreate", unsafe {
            sys::cuEventCreate(&raw mut event, CUevent_flags::CU_EVENT_DEFAULT as u32)
        })?;
        Ok(Self { event })
    }
    /// Records it in `stream`.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn record(&self, stream: &Stream) -> Result<()> {
        // SAFETY: live handles.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.event, stream.raw()) })
    }
    /// Device time from `earlier` to this one.
    ///
    /// # Errors
    /// When one of them has not been passed.
    #[expect(unsafe_code, reason = "driver call")]
    pub fn since(&self, earlier: &Self) -> Result<Duration> {
        let mut milliseconds = 0.0f32;
        // SAFETY: writes one number; live handles.
        check("cuEventElapsedTime", unsafe {
            sys::cuEventElapsedTime(&raw mut milliseconds, earlier.event, self.event)
        })?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) * 1e-3))
    }
}

impl Drop for Event {
    #[expect(unsafe_code, reason = "driver call")]
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        let _ = unsafe { sys::cuEventDestroy_v2(self.event) };
    }
}
