//! One thread of a model: its loop, its open files, what it counts.

use super::aio::{Pending, Queue};
use super::amount::Amount;
use super::engine::{Counters, Shared, Why};
use super::files::Set;
use super::model::{Flowop, Quit, Step};
use super::sync::Sem;
use crate::RunError;
use base::{Nanos, Rng, Time};
use rt::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use vfs::File;

/// Flowops in a row in which no time passes: a loop that would never end.
const STUCK_MAX: u64 = 1_000_000;

/// An open file of a thread.
pub struct Open {
    /// Shared with asynchronous writes.
    pub file: Arc<File>,
    /// Of this set.
    pub set: Arc<Set>,
    /// This one.
    pub entry: u32,
    /// Its generation when it was opened; it cannot change while it is open.
    pub generation: u32,
    /// Where the next sequential transfer begins.
    pub position: u64,
}

/// What a flowop came to.
pub enum Did {
    /// It was done, and moved so many bytes.
    Bytes(u64),
    /// There was nothing to do; Filebench does not count it either.
    Nothing,
    /// The thread is done.
    End(Why),
}

/// A thread.
pub struct Worker {
    pub(super) shared: Arc<Shared>,
    /// What its process counted.
    pub(super) process: Arc<Counters>,
    pub(super) body: Arc<Vec<Step>>,
    pub(super) rng: Rng,
    /// Open files by slot.
    pub(super) open: BTreeMap<u32, Open>,
    /// Where the rotations of files go on, by set.
    pub(super) rotors: Vec<u32>,
    /// Of directories without entries.
    pub(super) leaf_rotors: Vec<u32>,
    /// Of the other directories.
    pub(super) dir_rotor: usize,
    /// Of slots.
    pub(super) next_fd: u32,
    /// Its own semaphores.
    pub(super) sems: BTreeMap<String, Arc<Sem>>,
    pub(super) aio: Option<Arc<Queue>>,
    pub(super) pending: Arc<Pending>,
    /// What was counted when a flowop that limits a rate was last done, by its line.
    pub(super) marks: BTreeMap<u32, u64>,
    pub(super) buffer: Vec<u8>,
    /// Operations that count.
    pub(super) done: Vec<Operation>,
    pub(super) written: u64,
    pub(super) stuck: u64,
}

/// An operation that counts.
pub struct Operation {
    /// Its flowop's word.
    pub kind: &'static str,
    /// When it ended.
    pub ended: Time,
    /// How long it took.
    pub took: Nanos,
}

/// What a thread leaves.
pub struct Left {
    /// Operations that count, in order.
    pub done: Vec<Operation>,
    /// Bytes written.
    pub written: u64,
    /// Why it ended.
    pub why: Result<Why, RunError>,
}

impl Worker {
    /// Runs until its time is over or it is done.
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

    /// Refuses a thread that goes round without any time passing.
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
        self.done.push(Operation {
            kind: op.op.word(),
            ended: rt::now(),
            took,
        });
        self.shared.operation();
    }

    /// The open file of a slot.
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

    /// Closes a slot.
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

    /// Bytes of one transfer.
    pub(super) fn iosize(&mut self, op: &Flowop) -> u64 {
        let default = Amount::Fixed(super::resolve::IO_DEFAULT);
        let size = op.iosize.as_ref().unwrap_or(&default).draw(&mut self.rng);
        size.max(1)
    }
}

/// Says where something went wrong.
fn at(op: &Flowop, error: RunError) -> RunError {
    let (name, line, word) = (&op.name, op.line, op.op.word());
    RunError::Filebench(format!("flowop {name} ({word}, line {line}): {error}"))
}
