//! The recording while it is generated: it numbers handles, and gives each call its time by the
//! distributions of the table.

use super::deal;
use super::parameters::Table;
use crate::recording::{Call, Handle, Op, Recording};
use base::{Nanos, Rng};

/// The recording while it is generated.
pub struct Phone<'a> {
    table: &'a Table,
    /// The recording so far.
    pub recording: Recording,
    /// Source of all randomness.
    pub rng: Rng,
    handles: u32,
}

/// A thread of the application: its number, and when it makes its next call.
#[derive(Clone, Copy)]
pub struct Thread {
    /// Its number in the recording.
    pub number: u32,
    /// The time of its next call.
    pub now: Nanos,
}

impl<'a> Phone<'a> {
    /// An empty recording.
    pub fn new(table: &'a Table, name: String, rng: Rng) -> Phone<'a> {
        let recording = Recording {
            name,
            ..Recording::default()
        };
        Phone {
            table,
            recording,
            rng,
            handles: 0,
        }
    }

    /// Adds a folder that is there before the first call, and those above it.
    pub fn folder(&mut self, path: &str) {
        let ends = path.match_indices('/').map(|(at, _)| at).skip(1);
        for end in ends.chain([path.len()]) {
            if !self.recording.folders.iter().any(|f| f == &path[..end]) {
                self.recording.folders.push(path[..end].into());
            }
        }
    }

    /// Adds a file that is there before the first call.
    pub fn file(&mut self, path: String, bytes: u64) {
        self.recording.files.push((path, bytes));
    }

    /// Records a call, and moves `thread` on to the time of its next one.
    pub fn call(&mut self, thread: &mut Thread, op: Op) {
        let after = match op.is_sync() {
            true => &self.table.sync,
            false => &self.table.think,
        };
        let gap = deal::time(after, &mut self.rng);
        self.recording.calls.push(Call {
            at: thread.now,
            thread: thread.number,
            op,
        });
        thread.now += gap;
    }

    /// Opens a file, which is made if it is not there.
    pub fn open(&mut self, thread: &mut Thread, path: &str) -> Handle {
        self.open_as(thread, path, false)
    }

    /// Opens a folder.
    pub fn open_folder(&mut self, thread: &mut Thread, path: &str) -> Handle {
        self.open_as(thread, path, true)
    }

    fn open_as(&mut self, thread: &mut Thread, path: &str, directory: bool) -> Handle {
        let handle = Handle(self.handles);
        self.handles += 1;
        let op = Op::Open {
            handle,
            path: path.into(),
            create: !directory,
            truncate: false,
            directory,
        };
        self.call(thread, op);
        handle
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&mut self, thread: &mut Thread, handle: Handle, offset: u64, bytes: u32) {
        let op = Op::Write {
            handle,
            offset,
            bytes,
        };
        self.call(thread, op);
    }

    /// Reads `bytes` at `offset`.
    pub fn read(&mut self, thread: &mut Thread, handle: Handle, offset: u64, bytes: u32) {
        let op = Op::Read {
            handle,
            offset,
            bytes,
        };
        self.call(thread, op);
    }

    /// Syncs by fsync.
    pub fn sync(&mut self, thread: &mut Thread, handle: Handle) {
        let op = Op::Sync {
            handle,
            data_only: false,
        };
        self.call(thread, op);
    }

    /// Closes a handle.
    pub fn close(&mut self, thread: &mut Thread, handle: Handle) {
        self.call(thread, Op::Close { handle });
    }

    /// Removes a name.
    pub fn unlink(&mut self, thread: &mut Thread, path: String) {
        self.call(thread, Op::Unlink { path });
    }

    /// A random number from `least` to below `bound`.
    pub fn between(&mut self, least: u64, bound: u64) -> u64 {
        least + self.rng.below(bound - least)
    }

    /// The finished recording, its calls ordered by time.
    pub fn finish(mut self) -> Recording {
        self.recording.calls.sort_by_key(|call| call.at);
        self.recording
    }
}
