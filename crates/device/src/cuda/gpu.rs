//! The supervisor's side of one GPU: its context, stream, kernels, and memory that no worker sees.

use super::GpuIdentity;
use super::device::Context;
use super::error::{CudaError, Result};
use super::helpers::Helpers;
use super::memory::{self, Address, DeviceMemory};
use super::spent::{Chore, Spent};
use super::stream::Stream;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// The supervisor's hold on one GPU.
#[derive(Debug)]
pub struct Gpu {
    // Dropped in this order: everything before the context.
    sweep: RefCell<Option<DeviceMemory>>,
    helpers: Helpers,
    stream: Stream,
    failure: RefCell<Option<CudaError>>,
    /// What is noted here; what the stream knows itself is added when somebody asks.
    spent: Cell<Spent>,
    context: Context,
}

impl Gpu {
    /// Opens the GPU with this UUID or ordinal, or the first.
    ///
    /// # Errors
    /// When there is none, or the driver does not take our kernels.
    pub fn open(which: Option<&str>) -> Result<Rc<Self>> {
        let start = Instant::now();
        let context = Context::open(which)?;
        let stream = Stream::new()?;
        memory::start_pool(&stream)?;
        let helpers = Helpers::load(&context)?;
        let mut spent = Spent::default();
        spent.add(Chore::Open, start.elapsed());
        Ok(Rc::new(Self {
            sweep: RefCell::default(),
            helpers,
            stream,
            failure: RefCell::default(),
            spent: Cell::new(spent),
            context,
        }))
    }

    /// What the GPU is.
    #[must_use]
    pub const fn identity(&self) -> &GpuIdentity {
        self.context.identity()
    }
    /// The context.
    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }
    /// The stream that all of the supervisor's work goes through.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }
    /// The kernels.
    #[must_use]
    pub const fn helpers(&self) -> &Helpers {
        &self.helpers
    }

    /// Keeps the first error and gives `otherwise` in place of what it spoilt: for places that cannot say that the GPU
    /// failed. Whoever drives the measurement asks [`Self::take_failure`] before it believes anything.
    pub fn guard<T>(&self, outcome: Result<T>, otherwise: T) -> T {
        match outcome {
            Ok(value) => value,
            Err(error) => {
                self.failure.borrow_mut().get_or_insert(error);
                otherwise
            }
        }
    }
    /// Takes the first error that [`Self::guard`] kept.
    #[must_use]
    pub fn take_failure(&self) -> Option<CudaError> {
        self.failure.borrow_mut().take()
    }

    /// Memory that may be exported. The pool gives back what nobody uses first where the device has no more.
    pub(super) fn exportable(&self, bytes: usize) -> Result<DeviceMemory> {
        self.retrying(|| DeviceMemory::exportable(bytes))
    }

    /// A block of `bytes` that no worker sees. It comes from the device's pool: asking the driver for memory takes a millisecond
    /// or two, and a scenario asks for tens.
    ///
    /// # Errors
    /// When the device has no such memory.
    pub fn block(self: &Rc<Self>, bytes: usize) -> Result<Block> {
        let address = self.retrying(|| memory::from_pool(bytes, &self.stream))?;
        Ok(Block { gpu: self.clone(), address, bytes })
    }

    /// Flushes as [`Self::flush`] does, after everything before it, and waits for it.
    ///
    /// # Errors
    /// What the driver says.
    pub fn flush_and_wait(&self) -> Result<()> {
        self.stream.synchronize()?;
        let start = Instant::now();
        self.flush()?;
        self.stream.synchronize()?;
        self.note(|spent| spent.flush += start.elapsed());
        Ok(())
    }

    /// Notes a request of a worker: from the opening of its gate until the device was idle.
    pub fn note_request(&self, wall: Duration) {
        self.note(|spent| spent.requests += wall);
    }

    /// Notes time that went into a chore.
    pub(crate) fn note_chore(&self, chore: Chore, time: Duration) {
        self.note(|spent| spent.add(chore, time));
    }

    fn note(&self, what: impl FnOnce(&mut Spent)) {
        let mut spent = self.spent.get();
        what(&mut spent);
        self.spent.set(spent);
    }

    /// Where the time on this GPU went since it was opened.
    #[must_use]
    pub fn spent(&self) -> Spent {
        let mut spent = self.spent.get();
        spent.work = self.stream.waited().saturating_sub(spent.flush);
        spent
    }

    fn retrying<T>(&self, make: impl Fn() -> Result<T>) -> Result<T> {
        match make() {
            Err(error) if error.is_out_of_memory() => {
                self.stream.synchronize()?;
                memory::trim_pool()?;
                make()
            }
            other => other,
        }
    }

    /// Reads a buffer of twice the second-level cache, so that the next call finds nothing of its own there. Ends in reads:
    /// no write-back is left for the call. Not waited for.
    ///
    /// # Errors
    /// What the driver says.
    pub fn flush(&self) -> Result<()> {
        let bytes = 2 * self.identity().l2_bytes.max(16 << 20);
        let mut sweep = self.sweep.borrow_mut();
        if sweep.is_none() {
            let memory = DeviceMemory::new(bytes)?;
            memory::set(memory.address(), 1, bytes, &self.stream)?;
            *sweep = Some(memory);
        }
        let address = sweep.as_ref().map_or(0, DeviceMemory::address);
        self.helpers.flush(address, bytes, None, &self.stream)
    }
}

/// Memory of the supervisor's, given back to the device's pool when dropped. Everything that uses it goes through one stream, so
/// the next user finds it free.
#[derive(Debug)]
pub struct Block {
    gpu: Rc<Gpu>,
    address: Address,
    bytes: usize,
}

impl Block {
    /// First byte.
    #[must_use]
    pub const fn address(&self) -> Address {
        self.address
    }
    /// Bytes that were asked for.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }
    /// Whether no byte was asked for.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
    /// The GPU it lies on.
    #[must_use]
    pub const fn gpu(&self) -> &Rc<Gpu> {
        &self.gpu
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let given_back = memory::to_pool(self.address, &self.gpu.stream);
        self.gpu.guard(given_back, ());
    }
}
