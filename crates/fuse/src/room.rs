//! Whether the host has room for a mount. What a mount starts when it is there already, threads
//! that answer requests and tasks of the volume, can tell nobody that the host has no room left:
//! the mount would end behind a caller who was told that it is up. So the room is taken before.

use crate::options::Options;
use rt::{Condvar, JoinHandle, Mutex, try_spawn};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Threads beside those that answer requests: the volume's tasks, the session.
const OTHER_THREADS: usize = 14;
/// Descriptors beside one for each thread that answers requests: images, sockets.
const OTHER_FILES: usize = 8;
/// What can be opened any number of times.
const NOTHING: &str = "/dev/null";

/// Threads and descriptors that wait for nothing but their end.
pub struct Room {
    /// The threads end when this is dropped, and are waited for.
    _threads: Waiting,
    _files: Vec<File>,
}

impl Room {
    /// Takes as much as a mount with these options needs at the same time, without the ring.
    ///
    /// # Errors
    /// The host has no room for it; the text names the limit.
    pub fn take(options: &Options) -> io::Result<Room> {
        let files = options.threads + OTHER_FILES;
        let opened: io::Result<Vec<File>> = (0..files).map(|_| File::open(NOTHING)).collect();
        let opened = opened.map_err(|e| short(&e, files, "open files", "-n"))?;
        let count = options.threads + OTHER_THREADS;
        let threads = Waiting::start(count).map_err(|e| short(&e, count, "threads", "-u"))?;
        Ok(Room {
            _threads: threads,
            _files: opened,
        })
    }
}

fn short(e: &io::Error, count: usize, what: &str, limit: &str) -> io::Error {
    io::Error::other(format!(
        "the host has no room for the {count} {what} of a mount ({e}): `ulimit {limit}` is the limit, threads= takes less"
    ))
}

/// Threads behind a gate.
struct Waiting {
    gate: Arc<Gate>,
    threads: Vec<JoinHandle<()>>,
}

struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }
}

impl Waiting {
    fn start(count: usize) -> io::Result<Waiting> {
        let gate = Arc::new(Gate {
            is_open: Mutex::named("room of a mount", false),
            opened: Condvar::new(),
        });
        // Those that have started end with this value, also where one does not start.
        let mut waiting = Waiting {
            gate,
            threads: Vec::with_capacity(count),
        };
        for _ in 0..count {
            let gate = Arc::clone(&waiting.gate);
            waiting
                .threads
                .push(try_spawn("room", move || gate.pass())?);
        }
        Ok(waiting)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.gate.is_open.lock() = true;
        self.gate.opened.notify_all();
        for thread in self.threads.drain(..) {
            // It does nothing that fails.
            let _ = thread.join();
        }
    }
}
