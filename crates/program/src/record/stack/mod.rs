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
//! - T2: no lock of the recording is held while a program is read, and no file of the mount itself
//!   is opened: the host could need an answer of the mount for both.
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
    seen: Mutex<Seen>,
}

struct Seen {
    modules: Modules,
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
    /// None yet. `mount` is the device number of the mount, from which no program file is read
    /// (T2).
    pub fn new(mount: u64) -> Stacks {
        Stacks {
            seen: Mutex::named(
                "stacks",
                Seen {
                    modules: Modules::new(mount),
                    processes: Map::default(),
                    stacks: Vec::new(),
                    ids: Map::default(),
                },
            ),
        }
    }

    /// The stack of the thread that made the request which the running task answers; `None` if it
    /// cannot be read, or there is no room (T3).
    pub fn capture(&self) -> Option<StackId> {
        let thread = Requester::current().filter(|thread| thread.0 != 0)?.0;
        let registers = Registers::of(thread)?;
        let mut seen = self.seen.lock();
        let frames = seen.frames(thread, registers)?;
        if let Some(&id) = seen.ids.get(&frames) {
            return Some(StackId(id));
        }
        if seen.stacks.len() >= STACKS_MAX {
            return None;
        }
        let id = u32::try_from(seen.stacks.len()).ok()?;
        seen.stacks.push(frames.clone());
        seen.ids.insert(frames, id);
        Some(StackId(id))
    }

    /// The frames of each stack in words, innermost first. Paths below `folder` are told from
    /// there.
    pub fn names(&self, folder: &Path) -> Vec<Vec<String>> {
        let seen = self.seen.lock();
        let mut names = names::Names::new(&seen.modules, folder);
        seen.stacks.iter().map(|frames| names.of(frames)).collect()
    }
}

impl Seen {
    fn frames(&mut self, thread: u32, registers: Registers) -> Option<Vec<Frame>> {
        if self.processes.len() >= PROCESSES_MAX {
            self.processes.clear();
        }
        let process = self.processes.entry(thread).or_default();
        process.refresh(thread, registers.instruction)?;
        let frames = unwind::walk(process, &mut self.modules, thread, registers);
        Some(frames).filter(|frames| !frames.is_empty())
    }
}

impl StackId {
    /// Its index in [`Stacks::names`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
