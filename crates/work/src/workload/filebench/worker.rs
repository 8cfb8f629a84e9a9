//! One thread of a model: its loop, its open files, and what it counts. Whether the run is over is
//! looked at between two flowops, so no call is broken off; flowops that only wait end with the
//! run.

use super::aio::{Pending, Queue};
use super::amount::Amount;
use super::engine::{Counters, Shared, Why};
use super::files::Set;
use super::model::{Flowop, Quit, Step};
use super::sync::Sem;
use crate::RunError;
use crate::workload::Told;
use base::{Nanos, Rng, Time};
use rt::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::File;

/// Most flowops in a row in which no virtual time passes: such a loop would never end.
const STUCK_MAX: u64 = 1_000_000;

/// An open file of a thread.
pub struct Open {
    /// The handle, which asynchronous writes share.
    pub file: Arc<File>,
    /// The set of the file.
    pub set: Arc<Set>,
    /// Index of the file in its set.
    pub entry: u32,
    /// The file's generation, which cannot change while the file is open.
    pub generation: u32,
    /// Where the next sequential transfer begins.
    pub position: u64,
}

/// The result of a flowop.
pub enum Did {
    /// It was done, and moved this many bytes.
    Bytes(u64),
    /// There was nothing to do, and Filebench does not count that either.
    Nothing,
    /// It ends the thread.
    End(Why),
}

/// A thread of a model while it runs.
pub struct Worker {
    pub(super) shared: Arc<Shared>,
    /// Counters of its process.
    pub(super) process: Arc<Counters>,
    pub(super) body: Arc<Vec<Step>>,
    pub(super) rng: Rng,
    /// Open files by slot.
    pub(super) open: BTreeMap<u32, Open>,
    /// Where its rotation through the files of each set goes on.
    pub(super) rotors: Vec<u32>,
    /// Where its rotation through the empty directories of each set goes on.
    pub(super) leaf_rotors: Vec<u32>,
    /// Where its rotation through the other directories goes on.
    pub(super) dir_rotor: usize,
    /// The slot that `opennext` uses next.
    pub(super) next_fd: u32,
    /// Its own semaphores, by the flowop that waits.
    pub(super) sems: BTreeMap<String, Arc<Sem>>,
    pub(super) aio: Option<Arc<Queue>>,
    pub(super) pending: Arc<Pending>,
    /// By the line of a flowop that limits a rate: what had been counted when it ran last.
    pub(super) marks: BTreeMap<u32, u64>,
    pub(super) buffer: Vec<u8>,
    /// Operations that count, so far.
    pub(super) done: Vec<Told>,
    pub(super) written: u64,
    pub(super) stuck: u64,
}

/// What a thread leaves when it ends.
pub struct Left {
    /// Its operations that count, in order.
    pub done: Vec<Told>,
    /// Bytes that it wrote.
    pub written: u64,
    /// Why it ended.
    pub why: Result<Why, RunError>,
}

impl Worker {
    /// Runs until the time is over or the thread is done.
    pub fn run(mut self) -> Left {
        let body = self.body.clone();
        let why = loop {
            match self.steps(&body) {
                Ok(None) => {}
                Ok(Some(why)) => break Ok(why),
                Err(e) => break Err(e),
            }
        };
        let first = self.shared.model.quit == Quit::FirstDone;
        if why.is_err() || first {
            self.shared.end();
        }
        self.sems.values().for_each(|sem| sem.close());
        let closed = self.close_all();
        Left {
            done: self.done,
            written: self.written,
            why: why.and_then(|why| closed.map(|()| why)),
        }
    }

    fn steps(&mut self, steps: &[Step]) -> Result<Option<Why>, RunError> {
        for step in steps {
            let end = match step {
                Step::Op(op) => self.repeat(op)?,
                Step::Group { iters, body } => self.group(*iters, body)?,
            };
            if end.is_some() {
                return Ok(end);
            }
        }
        Ok(None)
    }

    fn group(&mut self, iters: u64, body: &[Step]) -> Result<Option<Why>, RunError> {
        for _ in 0..iters {
            if let Some(why) = self.steps(body)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn repeat(&mut self, op: &Flowop) -> Result<Option<Why>, RunError> {
        let iters = op.iters.draw(&mut self.rng);
        for _ in 0..iters {
            if let Some(why) = self.shared.over() {
                return Ok(Some(why));
            }
            let start = rt::now();
            let did = self.once(op).map_err(|e| at(op, e))?;
            self.judge_progress(op, start)?;
            match did {
                Did::Nothing => {}
                Did::End(why) => return Ok(Some(why)),
                Did::Bytes(bytes) => self.count(op, bytes, rt::now() - start),
            }
        }
        if iters == 0 {
            self.judge_progress(op, rt::now())?;
        }
        Ok(None)
    }

    /// Refuses a thread whose loop takes no virtual time.
    fn judge_progress(&mut self, op: &Flowop, start: Time) -> Result<(), RunError> {
        self.stuck = if rt::now() > start { 0 } else { self.stuck + 1 };
        if self.stuck < STUCK_MAX {
            return Ok(());
        }
        let what = format!("{STUCK_MAX} flowops in a row took no time: the loop would never end");
        Err(at(op, RunError::Filebench(what)))
    }

    fn count(&mut self, op: &Flowop, bytes: u64, took: Nanos) {
        self.shared.counted(&op.name, bytes);
        if !op.op.counted() {
            return;
        }
        self.process.ops.fetch_add(1, Ordering::Relaxed);
        self.process.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.done.push(Told::now(op.op.word(), took));
        self.shared.operation();
    }

    /// The open file in a slot.
    pub(super) fn slot(&mut self, fd: u32) -> Result<&mut Open, RunError> {
        let none = || RunError::Filebench(format!("no file is open as fd={fd}"));
        self.open.get_mut(&fd).ok_or_else(none)
    }

    /// The slot that a transfer uses: with `opennext` the next one each time.
    pub(super) fn slot_of(&mut self, op: &Flowop) -> Result<u32, RunError> {
        let mut fd = op.fd;
        if let (true, Some(set)) = (op.opennext, op.fileset) {
            let slots = self.shared.sets[set].files.existing();
            let slots = slots.clamp(1, super::define::FDS as usize) as u32;
            fd = self.next_fd % slots;
            self.next_fd = (self.next_fd + 1) % slots;
        }
        if !self.open.contains_key(&fd) {
            let Some(set) = op.fileset else {
                let what =
                    format!("no file is open as fd={fd}, and no `filesetname` says which to open");
                return Err(RunError::Filebench(what));
            };
            match self.open_existing(op, set, fd)? {
                Did::Bytes(_) => {}
                _ => return Err(RunError::Filebench("there is no file to open".into())),
            }
        }
        Ok(fd)
    }

    /// Closes the file of a slot.
    pub(super) fn close(&mut self, fd: u32) -> Result<(), RunError> {
        self.pending.wait()?;
        let Some(open) = self.open.remove(&fd) else {
            return Err(RunError::Filebench(format!("no file is open as fd={fd}")));
        };
        let file = Arc::into_inner(open.file).expect("asynchronous writes have ended");
        let closed = file.close();
        open.set.files.closed(open.entry);
        Ok(closed?)
    }

    fn close_all(&mut self) -> Result<(), RunError> {
        let mut result = self.pending.wait();
        while let Some((&fd, _)) = self.open.first_key_value() {
            result = result.and(self.close(fd));
        }
        result
    }

    /// Bytes of one transfer of the flowop.
    pub(super) fn iosize(&mut self, op: &Flowop) -> u64 {
        let default = Amount::Fixed(super::resolve::IO_DEFAULT);
        let size = op.iosize.as_ref().unwrap_or(&default).draw(&mut self.rng);
        size.max(1)
    }
}

/// Adds the flowop's name and line to an error.
fn at(op: &Flowop, error: RunError) -> RunError {
    let (name, line, word) = (&op.name, op.line, op.op.word());
    RunError::Filebench(format!("flowop {name} ({word}, line {line}): {error}"))
}
