//! Fatal signals: notes where a crash happened before dying of it, so that the verdict can name the tensor.

use crate::control::{ControlPage, Fault};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A region of the worker's address space that belongs to one storage, guard pages included.
#[derive(Debug, Clone, Copy)]
pub(super) struct FaultRegion {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) data: usize,
    pub(super) slot: usize,
    pub(super) storage: usize,
}

static PAGE: AtomicPtr<ControlPage> = AtomicPtr::new(std::ptr::null_mut());
static REGIONS: AtomicPtr<FaultRegion> = AtomicPtr::new(std::ptr::null_mut());
static REGION_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Size of the stack that the handler runs on: a stack overflow must be noted too.
const STACK: usize = 64 << 10;

/// Installs the handlers.
#[expect(unsafe_code, reason = "sigaction")]
pub(super) fn install(page: &'static ControlPage) {
    PAGE.store(std::ptr::from_ref(page).cast_mut(), Ordering::Release);
    let stack = Box::leak(vec![0u8; STACK].into_boxed_slice());
    let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK };
    // SAFETY: the stack lives for ever; the handler only touches atomics and calls async-signal-safe functions.
    unsafe {
        libc::sigaltstack(&raw const stack, std::ptr::null_mut());
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESETHAND;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

/// Makes the regions of a mapping known to the handler. They live until [`forget_regions`].
pub(super) fn remember_regions(regions: &[FaultRegion]) {
    REGIONS.store(regions.as_ptr().cast_mut(), Ordering::Release);
    REGION_COUNT.store(regions.len(), Ordering::Release);
}

/// Must be called before the regions given to [`remember_regions`] go away.
pub(super) fn forget_regions() {
    REGION_COUNT.store(0, Ordering::Release);
}

#[expect(unsafe_code, reason = "signal handler")]
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel passes a live siginfo; the regions and the page outlive every call.
    unsafe {
        let address = if signal == libc::SIGABRT { 0 } else { (*info).si_addr() as usize };
        let count = REGION_COUNT.load(Ordering::Acquire);
        let regions = REGIONS.load(Ordering::Acquire);
        let mut place = None;
        for index in 0..count {
            let region = &*regions.add(index);
            if (region.start..region.end).contains(&address) {
                place = Some((region.slot, region.storage, address as i64 - region.data as i64));
                break;
            }
        }
        let page = PAGE.load(Ordering::Acquire);
        if !page.is_null() {
            (*page).note_fault(Fault { signal, address: address as u64, place });
        }
        // A hardware fault happens again when the handler returns, and `abort` raises its signal again: with the
        // default action restored, either kills now.
    }
}
