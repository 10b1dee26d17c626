//! The worker's side of one GPU: its context and stream, and how calls are made behind a gate.
//!
//! Everything here lies in the candidate's reach. The times are advisory, the word that the device writes at the end of
//! the stream is checked by what the supervisor finds in its own memory.

use super::blank::{self, Blank};
use super::library::Function;
use super::mapping::CallStruct;
use crate::control::{ControlPage, GATE_OFFSET, STREAM_DONE_OFFSET};
use crate::cuda::error::CudaError;
use crate::cuda::memory::{self, DeviceMemory, IpcHandle};
use crate::cuda::stream::{Event, Graph, Stream};
use crate::cuda::{Context, error};
use crate::protocol::{Gate, Reply};
use std::ffi::{CStr, c_char};
use std::time::Instant;

/// Bytes that are set to bring this process's context onto the device before a call is timed by the host's clock.
const WAKE_BYTES: usize = 1 << 20;

/// An error of the device, with what was being done.
#[derive(Debug)]
pub(super) struct DeviceFault {
    doing: &'static str,
    error: CudaError,
}

impl DeviceFault {
    pub(super) fn reply(&self) -> Reply {
        match &self.error {
            CudaError::Call { code, name, text, .. } => Reply::DeviceFailed {
                doing: self.doing.to_owned(),
                code: *code,
                name: name.clone(),
                text: text.clone(),
            },
            other => Reply::Failed { message: other.to_string() },
        }
    }
}

type Outcome<T> = Result<T, DeviceFault>;

fn while_(doing: &'static str) -> impl Fn(CudaError) -> DeviceFault {
    move |error| DeviceFault { doing, error }
}

/// What the calls of one request gave.
#[derive(Debug, Default)]
pub(super) struct Called {
    pub(super) codes: Vec<i32>,
    pub(super) nanos: Vec<u64>,
    pub(super) host_nanos: Vec<u64>,
    pub(super) span_nanos: Option<u64>,
}

/// The GPU that this worker was given.
#[derive(Debug)]
pub(super) struct Gpu {
    context: Context,
    stream: Stream,
    /// Address of the control page as the device sees it.
    page: u64,
    events: Vec<Event>,
    opened: Option<(IpcHandle, DeviceMemory)>,
    wake: DeviceMemory,
    /// The last recorded request, kept until the next: it may be running.
    graph: Option<Graph>,
    blank: Option<Blank>,
}

impl Gpu {
    /// Takes the first GPU that the environment shows. Must run before the process is locked down.
    pub(super) fn open(page: &'static ControlPage) -> error::Result<Self> {
        let context = Context::open(None)?;
        let stream = Stream::new()?;
        let page = memory::register(std::ptr::from_ref(page) as usize, size_of::<ControlPage>())?;
        let wake = DeviceMemory::new(WAKE_BYTES)?;
        memory::set(wake.address(), 0, WAKE_BYTES, &stream)?;
        // The pool that `cudaMallocAsync` takes from opens the device again when it is first used, which the lockdown denies.
        memory::start_pool(&stream)?;
        stream.synchronize()?;
        // Compiled here, where many processes do it side by side.
        let blank = Blank::load();
        Ok(Self { context, stream, page, events: Vec::new(), opened: None, wake, graph: None, blank })
    }

    pub(super) const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// What events around a launch of nothing are apart in this process, nanoseconds; `None` where it cannot be told. Good for
    /// something only as long as nothing of the candidate's is loaded.
    pub(super) fn blank_nanos(&mut self, page: &ControlPage) -> Option<f64> {
        // The events that calls will be timed with are among them.
        self.events(2 * blank::LAUNCHES).ok()?;
        self.blank.as_ref()?.time(&self.stream, &self.events, page, self.page).ok()
    }

    /// Opens the arena that `handle` stands for, unless it is open already; its address here.
    pub(super) fn arena(&mut self, handle: &IpcHandle) -> error::Result<u64> {
        if let Some((known, memory)) = &self.opened
            && known == handle
        {
            return Ok(memory.address());
        }
        self.opened = None;
        let memory = DeviceMemory::open(handle)?;
        let address = memory.address();
        self.opened = Some((*handle, memory));
        Ok(address)
    }

    /// Zeroed device memory.
    pub(super) fn zeroed(&self, bytes: usize) -> error::Result<DeviceMemory> {
        let memory = DeviceMemory::new(bytes)?;
        memory::set(memory.address(), 0, bytes, &self.stream)?;
        self.stream.synchronize()?;
        Ok(memory)
    }

    /// Makes the calls of a request without a gate and waits for the device.
    pub(super) fn plainly(&self, function: Function, calls: &[&CallStruct]) -> Outcome<Called> {
        let mut called = Called::default();
        for call in calls {
            let start = Instant::now();
            called.codes.push(function.call(call));
            self.context.synchronize().map_err(while_("in a call"))?;
            called.nanos.push(nanos_since(start));
        }
        Ok(called)
    }

    /// Makes the calls one after the other, each to its end, once the gate is open.
    pub(super) fn by_the_host(
        &self,
        function: Function,
        calls: &[&CallStruct],
        wait: impl FnOnce() -> Result<(), String>,
    ) -> Result<Outcome<Called>, String> {
        wait()?;
        Ok(self.synchronously(function, calls))
    }

    fn synchronously(&self, function: Function, calls: &[&CallStruct]) -> Outcome<Called> {
        // The device may be in the supervisor's hands: changing over is nobody's call.
        let woken = memory::set(self.wake.address(), 1, WAKE_BYTES, &self.stream)
            .and_then(|()| self.stream.synchronize());
        woken.map_err(while_("before a call"))?;
        let mut called = Called::default();
        for call in calls {
            let start = Instant::now();
            called.codes.push(function.call(call));
            called.host_nanos.push(nanos_since(start));
            self.stream.synchronize().map_err(while_("in a call"))?;
            called.nanos.push(nanos_since(start));
        }
        self.context.synchronize().map_err(while_("after the calls"))?;
        Ok(called)
    }

    /// Enqueues the calls behind the gate, tells the supervisor with `armed`, and waits for the device.
    pub(super) fn behind_the_gate(
        &mut self,
        function: Function,
        calls: &[&CallStruct],
        sequence: u32,
        gate: Gate,
        armed: impl FnOnce() -> Result<(), String>,
        finished: impl FnOnce(),
    ) -> Result<Outcome<Called>, String> {
        let enqueued = match gate {
            Gate::Graph => self.enqueue_graph(function, calls, sequence),
            _ => self.enqueue(function, calls, sequence),
        };
        let mut called = match enqueued {
            Ok(called) => called,
            Err(fault) => return Ok(Err(fault)),
        };
        armed()?;
        let idle = self.context.synchronize();
        // What follows is bookkeeping, and no part of what the supervisor times.
        finished();
        Ok(idle
            .map_err(while_("in a call"))
            .and_then(|()| self.read_times(&mut called, gate))
            .map(|()| called))
    }

    fn shut_gate(&self, sequence: u32) -> Outcome<()> {
        self.stream.wait_value(self.page + GATE_OFFSET, sequence).map_err(while_("before a call"))
    }

    fn mark_end(&self, sequence: u32) -> Outcome<()> {
        self.stream.write_value(self.page + STREAM_DONE_OFFSET, sequence).map_err(while_("after the calls"))
    }

    fn events(&mut self, count: usize) -> Outcome<()> {
        while self.events.len() < count {
            self.events.push(Event::new().map_err(while_("before a call"))?);
        }
        Ok(())
    }

    fn enqueue(&mut self, function: Function, calls: &[&CallStruct], sequence: u32) -> Outcome<Called> {
        self.events(2 * calls.len())?;
        self.shut_gate(sequence)?;
        let mut called = Called::default();
        for (call, pair) in calls.iter().zip(self.events.chunks(2)) {
            pair[0].record(&self.stream).map_err(while_("before a call"))?;
            let start = Instant::now();
            called.codes.push(function.call(call));
            called.host_nanos.push(nanos_since(start));
            pair[1].record(&self.stream).map_err(while_("in a call"))?;
        }
        self.mark_end(sequence)?;
        Ok(called)
    }

    fn enqueue_graph(&mut self, function: Function, calls: &[&CallStruct], sequence: u32) -> Outcome<Called> {
        self.events(2)?;
        let mut called = Called::default();
        self.stream.begin_capture().map_err(while_("before a call"))?;
        for call in calls {
            let start = Instant::now();
            called.codes.push(function.call(call));
            called.host_nanos.push(nanos_since(start));
        }
        let graph = self.stream.end_capture().map_err(while_(crate::client::RECORDING))?;
        graph.upload(&self.stream).map_err(while_("before a call"))?;
        self.stream.synchronize().map_err(while_("before a call"))?;
        self.shut_gate(sequence)?;
        self.events[0].record(&self.stream).map_err(while_("before a call"))?;
        graph.launch(&self.stream).map_err(while_("in a call"))?;
        self.events[1].record(&self.stream).map_err(while_("in a call"))?;
        self.mark_end(sequence)?;
        self.graph = Some(graph);
        Ok(called)
    }

    fn read_times(&self, called: &mut Called, gate: Gate) -> Outcome<()> {
        let between = |a: usize, b: usize| -> Outcome<u64> {
            let (Some(first), Some(last)) = (self.events.get(a), self.events.get(b)) else { return Ok(0) };
            last.since(first).map(|d| d.as_nanos() as u64).map_err(while_("while times were read"))
        };
        let count = called.codes.len();
        if gate == Gate::Graph {
            let span = between(0, 1)?;
            called.span_nanos = Some(span);
            called.nanos = vec![span / count.max(1) as u64; count];
        } else {
            called.nanos = (0..count).map(|i| between(2 * i, 2 * i + 1)).collect::<Outcome<_>>()?;
            called.span_nanos = Some(between(0, (2 * count).saturating_sub(1))?);
        }
        Ok(())
    }
}

fn nanos_since(start: Instant) -> u64 {
    start.elapsed().as_nanos() as u64
}

/// The runtime library that came in with the candidate; RTLD_LOCAL, so it is asked for by its own name. To be closed.
#[expect(unsafe_code, reason = "dlopen")]
fn runtime() -> Option<*mut libc::c_void> {
    [c"libcudart.so.13", c"libcudart.so.12"]
        .into_iter()
        // SAFETY: a NUL-terminated name; nothing is loaded that is not loaded already.
        .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) })
        .find(|handle| !handle.is_null())
}

/// Has the runtime library start and load the candidate's kernels now: its first use would otherwise wait for the device
/// in the middle of a call, which the gate holds.
#[expect(unsafe_code, reason = "dlsym and a foreign call")]
pub(super) fn start_runtime() {
    type Free = unsafe extern "C" fn(*mut libc::c_void) -> i32;
    let Some(library) = runtime() else { return };
    // SAFETY: as for `pending_error`; freeing nothing is defined, and what it answers shows at the first call.
    unsafe {
        let free = libc::dlsym(library, c"cudaFree".as_ptr());
        if !free.is_null() {
            std::mem::transmute::<*mut libc::c_void, Free>(free)(std::ptr::null_mut());
        }
        libc::dlclose(library);
    }
}

/// The error that the runtime library of the loaded candidate still holds, and clears it.
#[expect(unsafe_code, reason = "dlsym and foreign calls")]
pub(super) fn pending_error() -> Option<String> {
    type Last = unsafe extern "C" fn() -> i32;
    type Name = unsafe extern "C" fn(i32) -> *const c_char;
    let library = runtime()?;
    // SAFETY: names are NUL-terminated; the runtime library defines these functions so.
    unsafe {
        let last = libc::dlsym(library, c"cudaGetLastError".as_ptr());
        let name = libc::dlsym(library, c"cudaGetErrorName".as_ptr());
        let text = libc::dlsym(library, c"cudaGetErrorString".as_ptr());
        let answer = if last.is_null() || name.is_null() || text.is_null() {
            None
        } else {
            let code = std::mem::transmute::<*mut libc::c_void, Last>(last)();
            let say = |f: *mut libc::c_void| {
                let text = std::mem::transmute::<*mut libc::c_void, Name>(f)(code);
                if text.is_null() {
                    String::new()
                } else {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
            };
            (code != 0).then(|| format!("{} ({})", say(text), say(name)))
        };
        libc::dlclose(library);
        answer
    }
}
