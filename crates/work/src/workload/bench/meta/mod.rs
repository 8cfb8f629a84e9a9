//! One operation on names, many times: the microbenchmarks of the F2FSJ paper (section 5.3;
//! filebench's makedir, removedir, createfile, deletefile, copyfiles), with `width` entries in a
//! directory.
//!
//! Several processes share one set of objects, as the threads of a filebench process share a
//! fileset: each takes the next object when it is done with its last one (filebench's rotor), so
//! they meet in the directories. A single process goes through the objects in order.

mod objects;
mod op;

pub use op::MetaOp;

use super::super::values::{SpecError, number, size, size_text};
use super::super::{Done, Told};
use super::room::Needs;
use super::{Bench, Sync, timed};
use crate::RunError;
use base::{Nanos, Time};
use objects::Objects;
use std::fmt;
use std::sync::Arc;
use vfs::Vfs;

/// Parameters of the program `meta`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetaSpec {
    /// The operation.
    pub op: MetaOp,
    /// Number of objects.
    pub count: u32,
    /// Bytes of a file, which may be 0; without meaning for directories.
    pub size: u64,
    /// Number of entries in a directory.
    pub width: u32,
    /// Number of processes.
    pub processes: u32,
    /// How often the operation is done with all objects. Between two rounds it is undone by
    /// operations that count.
    pub rounds: u32,
}

const COUNT_MAX: u64 = 10_000_000;
const SIZE_MAX: u64 = 16 << 20;
const WIDTH_MAX: u64 = 1_000_000;
const PROCESSES_MAX: u64 = 64;
const ROUNDS_MAX: u64 = 10_000;

impl Default for MetaSpec {
    fn default() -> Self {
        MetaSpec {
            op: MetaOp::Create,
            count: 20_000,
            size: 4 << 10,
            width: 100,
            processes: 1,
            rounds: 1,
        }
    }
}

impl MetaSpec {
    pub(super) const KEYS: &'static str = "op, count, size, width, procs, rounds";

    pub(super) fn set(&mut self, name: &str, value: &str) -> Result<bool, SpecError> {
        match name {
            "op" => self.op = value.parse()?,
            "count" => self.count = number(value, 1..=COUNT_MAX)? as u32,
            "size" => self.size = size(value, 0..=SIZE_MAX)?,
            "width" => self.width = number(value, 2..=WIDTH_MAX)? as u32,
            "procs" => self.processes = number(value, 1..=PROCESSES_MAX)? as u32,
            "rounds" => self.rounds = number(value, 1..=ROUNDS_MAX)? as u32,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The operations in turn, each done with all objects before the next.
    fn passes(&self) -> impl Iterator<Item = MetaOp> + use<> {
        let (op, undo, rounds) = (self.op, self.op.undo(), self.rounds);
        (0..rounds).flat_map(move |round| {
            let last = round + 1 == rounds;
            [Some(op), undo.filter(|_| !last)].into_iter().flatten()
        })
    }

    /// Adds what the program takes at most.
    pub(super) fn needs(&self, needs: Needs) -> Needs {
        let (count, width) = (u64::from(self.count), u64::from(self.width));
        // A copy also needs the files that it is made from.
        let (files, dirs) = match self.op {
            MetaOp::Mkdir | MetaOp::Rmdir => (0, count),
            MetaOp::Copy => (2 * count, 0),
            _ => (count, 0),
        };
        let trees = if self.op == MetaOp::Copy { 2 } else { 1 };
        let above = count.div_ceil(width) * 3 / 2 + 1;
        let needs = needs.files(files, self.size).dirs(dirs, 0);
        needs.dirs(trees * above, width.min(count))
    }

    pub(super) fn operations(&self) -> u64 {
        u64::from(self.count) * self.passes().count() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        let writing = self.passes().filter(|op| op.writes()).count() as u64;
        u64::from(self.count) * self.size * writing
    }
}

impl fmt::Display for MetaSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (op, count, width) = (self.op.word(), self.count, self.width);
        let size = size_text(self.size);
        write!(f, "meta:op={op},count={count},size={size},width={width}")?;
        if self.processes > 1 {
            write!(f, ",procs={}", self.processes)?;
        }
        match self.rounds {
            1 => Ok(()),
            rounds => write!(f, ",rounds={rounds}"),
        }
    }
}

pub(super) struct Meta {
    objects: Arc<Objects>,
}

/// The end of an operation, and its duration.
type Ended = (Time, Nanos);

impl Meta {
    pub(super) fn new(spec: &MetaSpec, vfs: Arc<Vfs>) -> Meta {
        let spec = spec.clone();
        Meta {
            objects: Arc::new(Objects { spec, vfs }),
        }
    }

    fn spec(&self) -> &MetaSpec {
        &self.objects.spec
    }

    fn alone(&self, op: MetaOp, done: &mut Done<'_>) -> Result<(), RunError> {
        (0..self.spec().count)
            .try_for_each(|n| timed(op.word(), done, || self.objects.apply(op, n)))
    }

    fn together(&self, op: MetaOp, done: &mut Done<'_>) -> Result<(), RunError> {
        let next = Arc::new(rt::Mutex::named("bench/meta-next", 0_u32));
        let start = |number| {
            let (objects, next) = (self.objects.clone(), next.clone());
            rt::spawn(&format!("meta {number}"), move || {
                process(&objects, op, &next)
            })
        };
        let running: Vec<_> = (0..self.spec().processes).map(start).collect();
        let (mut all, mut failure) = (Vec::new(), Ok(()));
        for task in running {
            let joined = task.join();
            match joined.map_err(|_| RunError::Check("a process panicked".into()))? {
                Ok(ended) => all.extend(ended),
                Err(e) => failure = failure.and(Err(e)),
            }
        }
        failure?;
        all.sort_unstable();
        for (end, took) in all {
            let kind = op.word();
            done(Told { kind, end, took });
        }
        Ok(())
    }
}

/// Body of one process: takes objects until there are none.
fn process(objects: &Objects, op: MetaOp, next: &rt::Mutex<u32>) -> Result<Vec<Ended>, RunError> {
    let mut ended = Vec::new();
    loop {
        let n = {
            let mut next = next.lock();
            let n = *next;
            *next += u32::from(n < objects.spec.count);
            n
        };
        if n == objects.spec.count {
            return Ok(ended);
        }
        let start = rt::now();
        objects.apply(op, n)?;
        let end = rt::now();
        ended.push((end, end - start));
    }
}

impl Bench for Meta {
    fn prepare(&mut self, sync: &Sync<'_>) -> Result<(), RunError> {
        self.objects.prepare()?;
        sync()
    }

    fn run(&mut self, _: &Sync<'_>, done: &mut Done<'_>) -> Result<(), RunError> {
        for op in self.spec().passes() {
            match self.spec().processes {
                1 => self.alone(op, done)?,
                _ => self.together(op, done)?,
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), RunError> {
        let op = self.spec().op;
        (0..self.spec().count).try_for_each(|n| self.objects.check(op, n))
    }
}
