//! Stacks of simulated tasks: address space without memory behind it until touched, a guard below,
//! and a pool per OS thread that outlives simulations.
//!
//! The guard is `MADV_GUARD_INSTALL` (Linux 6.13, `madvise(2)`), which does not split the mapping,
//! so that `vm.max_map_count` does not limit the number of tasks; on older kernels `mprotect`.
//!
//! High-water mark: the pages resident below the top [`KEEP_BYTES`] are counted (`mincore(2)`) once
//! per simulation for each stack it used, and given back to the kernel at once, so that the next
//! user starts clean.

use corosensei::stack::{Stack, StackPointer};
use std::cell::RefCell;
use std::ptr;
use std::sync::Arc;

/// Bytes below each stack that fault when touched; no frame of ours or of SQLite's jumps it.
const GUARD_BYTES: usize = 64 * 1024;
/// Bytes at the top of a pooled stack that stay resident between users; marks below it read as this
/// value.
pub(crate) const KEEP_BYTES: usize = 16 * 1024;
/// Stacks kept per OS thread; more are unmapped.
const POOL_LIMIT: usize = 4096;
const PAGE: usize = 4096;
/// `MADV_GUARD_INSTALL` of `linux/mman.h`; not yet in every `libc`.
const MADV_GUARD_INSTALL: libc::c_int = 102;

/// Where a stack lies: `[bottom, bottom + GUARD_BYTES)` is the guard, the stack grows down from
/// `top`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    bottom: usize,
    top: usize,
}

impl Extent {
    /// Usable bytes.
    pub(crate) fn usable(self) -> usize {
        self.top - self.bottom - GUARD_BYTES
    }
    /// True if `addr` lies in the guard.
    pub(crate) fn guards(self, addr: usize) -> bool {
        (self.bottom..self.bottom + GUARD_BYTES).contains(&addr)
    }
    /// Deepest use in bytes (whole pages, at least [`KEEP_BYTES`]).
    ///
    /// Looks downwards in windows of the size of the guard and stops at the first untouched one: a
    /// frame that jumps a whole window would jump the guard too.
    pub(crate) fn high_water(self) -> usize {
        const WINDOW: usize = GUARD_BYTES / PAGE;
        let low = self.bottom + GUARD_BYTES;
        let mut end = self.top - KEEP_BYTES;
        let mut deepest = end;
        while end > low {
            let start = end.saturating_sub(WINDOW * PAGE).max(low);
            let pages = (end - start) / PAGE;
            let mut resident = [0u8; WINDOW];
            // SAFETY: the range is mapped (the extent of a live stack), and the array has a byte
            // for each page.
            let rc = unsafe {
                libc::mincore(
                    start as *mut libc::c_void,
                    pages * PAGE,
                    resident.as_mut_ptr(),
                )
            };
            match resident.iter().position(|r| r & 1 != 0) {
                Some(first) if rc == 0 => deepest = start + first * PAGE,
                _ => break,
            }
            end = start;
        }
        self.top - deepest
    }
    /// Gives everything below the kept part back to the kernel.
    ///
    /// # Safety
    /// No task may be on this stack.
    unsafe fn clean(self) {
        let low = self.bottom + GUARD_BYTES;
        // SAFETY: the caller promises that no task uses these pages; they read as zero afterwards.
        unsafe {
            libc::madvise(
                low as *mut libc::c_void,
                self.top - KEEP_BYTES - low,
                libc::MADV_DONTNEED,
            )
        };
    }
}

/// One mapped stack. Dropping it unmaps it, so a suspended coroutine must be leaked, never dropped.
pub(crate) struct TaskStack {
    extent: Extent,
    /// The simulation that last used it.
    world: u64,
    /// The last task on it.
    last_task: Arc<str>,
}

impl TaskStack {
    fn map(usable: usize, world: u64, task: &Arc<str>) -> std::io::Result<TaskStack> {
        let len = GUARD_BYTES + usable;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_STACK;
        // SAFETY: a fresh anonymous mapping, checked below.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                -1,
                0,
            )
        };
        if at == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let extent = Extent {
            bottom: at as usize,
            top: at as usize + len,
        };
        let stack = TaskStack {
            extent,
            world,
            last_task: task.clone(),
        };
        // SAFETY: all three calls stay inside the new mapping.
        unsafe {
            // Neighbouring stacks may merge into one mapping; a huge page would spoil the
            // high-water mark.
            libc::madvise(at, len, libc::MADV_NOHUGEPAGE);
            if libc::madvise(at, GUARD_BYTES, MADV_GUARD_INSTALL) != 0
                && libc::mprotect(at, GUARD_BYTES, libc::PROT_NONE) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(stack)
    }
    /// Where it lies.
    pub(crate) fn extent(&self) -> Extent {
        self.extent
    }
}

impl Drop for TaskStack {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping, and no coroutine runs on it (a suspended one is
        // leaked).
        unsafe {
            libc::munmap(
                self.extent.bottom as *mut libc::c_void,
                self.extent.top - self.extent.bottom,
            )
        };
    }
}

// SAFETY: `base` is the page-aligned top, `limit` the bottom including the guard, which faults on
// overflow; at least one page is usable (`take` rounds up).
unsafe impl Stack for TaskStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.extent.top).expect("a mapping is not at address zero")
    }
    fn limit(&self) -> StackPointer {
        StackPointer::new(self.extent.bottom).expect("a mapping is not at address zero")
    }
}

thread_local! {
    static POOL: RefCell<Vec<TaskStack>> = const { RefCell::new(Vec::new()) };
}

/// A stack with at least `bytes` usable, for `task` of simulation `world`.
///
/// # Panics
/// If the kernel gives no more address space or mappings.
pub(crate) fn take(bytes: usize, world: u64, task: &Arc<str>) -> TaskStack {
    let usable = bytes.max(2 * KEEP_BYTES).next_multiple_of(PAGE);
    let pooled = POOL.with_borrow_mut(|pool| match pool.last() {
        Some(s) if s.extent.usable() == usable => pool.pop(),
        _ => pool
            .iter()
            .rposition(|s| s.extent.usable() == usable)
            .map(|i| pool.swap_remove(i)),
    });
    match pooled {
        Some(mut stack) => {
            (stack.world, stack.last_task) = (world, task.clone());
            stack
        }
        None => TaskStack::map(usable, world, task).unwrap_or_else(|e| {
            panic!("no mapping for one more task stack of {usable} bytes: {e}; use fewer tasks or raise vm.max_map_count")
        }),
    }
}

/// Gives a stack back to this OS thread's pool.
pub(crate) fn give(stack: TaskStack) {
    POOL.with_borrow_mut(|pool| {
        if pool.len() < POOL_LIMIT {
            pool.push(stack);
        }
    });
}

/// Deepest use of the pooled stacks that simulation `world` used, and the task that ran last on the
/// deepest. Cleans them for the next user. (They are the youngest of the pool: it is last in, first
/// out.)
pub(crate) fn measure(world: u64) -> (usize, Option<Arc<str>>) {
    POOL.with_borrow(|pool| {
        let mut deepest = (KEEP_BYTES, None);
        for stack in pool.iter().rev().take_while(|s| s.world == world) {
            let used = stack.extent.high_water();
            if used > KEEP_BYTES {
                // SAFETY: a stack in the pool carries no task.
                unsafe { stack.extent.clean() };
            }
            if used > deepest.0 {
                deepest = (used, Some(stack.last_task.clone()));
            }
        }
        deepest
    })
}
