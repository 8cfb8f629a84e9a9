//! Whose calls are recorded: process and name of a thread of the host.

use crate::call::Who;
use base::Map;
use base::plain::shown;
use std::fs;
use vfs::Requester;

/// Threads that have made calls.
#[derive(Default)]
pub(super) struct Callers {
    /// Processes of threads, by thread and name: a number that is used again belongs to another
    /// program in most cases, and a program that begins with `exec` has another name.
    processes: Map<(u32, String), u32>,
}

impl Callers {
    /// Who made the request that the running task answers. The thread waits for that answer, so it
    /// is there to be asked for.
    pub fn current(&mut self) -> Who {
        let Some(Requester(thread)) = Requester::current().filter(|r| r.0 != 0) else {
            return Who::default();
        };
        let program = fs::read(format!("/proc/{thread}/comm")).unwrap_or_default();
        // A program names itself as it likes.
        let program = shown(program.trim_ascii_end());
        let process = *(self.processes)
            .entry((thread, program.clone()))
            .or_insert_with(|| process_of(thread));
        Who {
            process,
            thread,
            program,
        }
    }
}

/// The process that a thread belongs to; a thread that cannot be asked for counts as its own.
fn process_of(thread: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|id| id.trim().parse().ok()).unwrap_or(thread)
}
