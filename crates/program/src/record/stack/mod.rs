//! The stack of a program at each of its calls.
//!
//! A thread that makes a call on the mount waits in the kernel until the call is answered. While it
//! waits, the host tells its stack pointer and its instruction pointer (`/proc/TID/syscall`), and
//! its memory can be read. From these two registers the frames follow by the tables that compilers
//! make for exceptions (`.eh_frame`) or for debuggers (`.debug_frame`).
//!
//! ```text
//! call -> Stacks::capture -> frames: (program file, address) -> kept once -> names at the end
//! ```
//!
//! - T1: a program is not stopped, traced or changed: it is only read.
//! - T2: reading a program may wait for an answer of the mount itself: a thread of it may hold its
//!   mappings while it waits for one. So no lock that a request needs is held meanwhile, another
//!   thread is told to take requests, and no file of the mount is opened, asked for or read.
//! - T3: a recording keeps at most [`STACKS_MAX`] different stacks of [`FRAMES_MAX`] frames.
//!   Calls behind that have none.

mod memory;
mod module;
mod names;
#[cfg(test)]
mod tests;
mod unwind;

use base::Map;
use memory::{Process, Registers};
use module::Modules;
use rt::Mutex;
use std::path::Path;
use vfs::Requester;

/// Most different stacks of a recording.
const STACKS_MAX: usize = 1 << 16;
/// Most frames of a stack.
const FRAMES_MAX: usize = 48;
/// Most processes whose mappings are remembered.
const PROCESSES_MAX: usize = 256;

/// A place in a program file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
struct Frame {
    /// Index of the file.
    module: u32,
    /// The address by which the file itself calls the place.
    address: u64,
}

/// A stack that is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StackId(u32);

/// All stacks of a recording.
pub(super) struct Stacks {
    /// Device number of the mount.
    mount: u64,
    modules: Mutex<Modules>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    processes: Map<u32, Process>,
    stacks: Vec<Vec<Frame>>,
    ids: Map<Vec<Frame>, u32>,
}

/// Whether stacks can be read on machines of this kind.
///
/// # Errors
/// They cannot, with the reason.
pub fn stacks_can_be_read() -> Result<(), String> {
    match cfg!(target_arch = "x86_64") {
        true => Ok(()),
        false => Err(format!(
            "stacks are read on x86_64 only, not on {}",
            std::env::consts::ARCH
        )),
    }
}

impl Stacks {
    /// None yet. `mount` is the device number of the mount, from which nothing is read (T2).
    pub fn new(mount: u64) -> Stacks {
        Stacks {
            mount,
            modules: Mutex::named("program files", Modules::new(mount)),
            seen: Mutex::named("stacks", Seen::default()),
        }
    }

    /// The stack of the thread that made the request which the running task answers; `None` if it
    /// cannot be read, or there is no room (T3).
    pub fn capture(&self) -> Option<StackId> {
        let thread = Requester::current().filter(|thread| thread.0 != 0)?.0;
        rt::about_to_wait();
        let registers = Registers::of(thread)?;
        // A thread waits in one call at a time, so nobody else looks for its process meanwhile.
        let mut process = self.seen.lock().processes.remove(&thread);
        let known = process.get_or_insert_default();
        known.refresh(thread, registers.instruction)?;
        let frames = unwind::walk(known, self, thread, registers);
        let mut seen = self.seen.lock();
        seen.know(thread, process);
        seen.keep(frames)
    }

    /// The frames of each stack in words, innermost first. Paths below `folder` are told from
    /// there.
    pub fn names(&self, folder: &Path) -> Vec<Vec<String>> {
        let modules = self.modules.lock();
        let seen = self.seen.lock();
        let mut names = names::Names::new(&modules, folder);
        seen.stacks.iter().map(|frames| names.of(frames)).collect()
    }
}

impl Seen {
    fn know(&mut self, thread: u32, process: Option<Process>) {
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        self.processes
            .extend(process.map(|process| (thread, process)));
    }

    fn keep(&mut self, frames: Vec<Frame>) -> Option<StackId> {
        if frames.is_empty() {
            return None;
        }
        if let Some(&id) = self.ids.get(&frames) {
            return Some(StackId(id));
        }
        if self.stacks.len() >= STACKS_MAX {
            return None;
        }
        let id = u32::try_from(self.stacks.len()).ok()?;
        self.stacks.push(frames.clone());
        self.ids.insert(frames, id);
        Some(StackId(id))
    }
}

impl StackId {
    /// Its index in [`Stacks::names`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
