//! A recorded run of a [`SpecDisk`](crate::SpecDisk): every command with its time span, so that all
//! its cuts can be checked afterwards, in any number of ways.
//!
//! ```text
//! SpecDisk::record --run--> Trace --cursor--> Cursor --seek(at)--> each_choice(bound) --image(choice)--> Image
//! ```
//!
//! - T1: the states of a cut at `at` are those that the disk itself would have left at `at`, with
//!   the same seeds too.
//! - T2: a cursor only moves forward.
//! - T3: between two durability transitions (the end of a flush, of a FUA or uncached write, or of
//!   a pack) the legal states of an earlier cut are among those of a later one: what began in
//!   between may be lost completely, and nothing became durable. A REMAP is one write here: in
//!   flight and completed it is there or not, and it ends a window where it is durable at
//!   completion. (One exception counts as a transition: the beginning of a reliable write above a
//!   write that may be garbage, because what lies below a reliable write is whole.) So where
//!   nothing that is promised or allowed changes in between either, the last cut of such a window
//!   stands for all of them, as far as the bound names all states.

use crate::spec::{Kind, Write};
use crate::{Caps, Class, Image, RemapMode, RemapPair};
use base::{Nanos, SECTORS_PER_BLOCK, Set, Time};
use std::sync::Arc;

mod cursor;

pub use cursor::Cursor;

/// A REMAP that was executed.
#[derive(Clone, Debug)]
pub struct RemapDone {
    /// The pairs that were asked for.
    pub pairs: Vec<RemapPair>,
    /// What happened to the sources.
    pub mode: RemapMode,
    /// Its parts, of [`Kind::Remap`]: each home with its new content, in the order of the pairs; of
    /// a move then the sources, which are discarded.
    pub writes: Vec<Arc<Write>>,
}

/// What a command did.
#[derive(Clone, Debug)]
pub enum What {
    /// One write or discard.
    Write(Arc<Write>),
    /// A packed command.
    Pack(Vec<Arc<Write>>),
    /// A batch of remapped addresses: all of it or nothing.
    Remap(Arc<RemapDone>),
    /// A cache flush.
    Flush,
    /// A cache barrier.
    Barrier,
}

/// One recorded command.
#[derive(Clone, Debug)]
pub struct Step {
    /// When the device began with it.
    pub start: Time,
    /// When the host learned of its completion.
    pub end: Time,
    /// What it did.
    pub what: What,
    /// The classes of its blocks: one entry for each piece, in the order of its writes; none for a
    /// REMAP.
    pub classes: Vec<Class>,
}

impl Step {
    /// Its writes, in order: one, several for a pack or a REMAP, none for a flush or a barrier.
    pub fn writes(&self) -> &[Arc<Write>] {
        match &self.what {
            What::Write(write) => std::slice::from_ref(write),
            What::Pack(writes) => writes,
            What::Remap(done) => &done.writes,
            What::Flush | What::Barrier => &[],
        }
    }

    /// True if its end makes something durable.
    fn makes_durable(&self) -> bool {
        match &self.what {
            What::Write(write) => write.kind.is_durable(),
            What::Remap(done) => done.writes.iter().any(|part| part.kind.is_durable()),
            What::Pack(_) | What::Flush => true,
            What::Barrier => false,
        }
    }
}

/// A recorded run.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The content before the first command.
    pub start: Image,
    /// The promises of the device.
    pub caps: Caps,
    /// All commands but reads, in the order in which they became visible to reads.
    pub steps: Vec<Step>,
}

impl Trace {
    /// The moments that differ in what a cut may leave, ascending: ends of commands, and moments
    /// inside of them.
    pub fn cut_points(&self) -> Vec<Time> {
        let mut points: Vec<Time> = Vec::new();
        for step in &self.steps {
            points.push(Time((step.start.0 + 1).min(step.end.0)));
            points.push(step.end);
        }
        points.sort_unstable();
        points.dedup();
        points
    }

    /// T3: the moments of [`Trace::cut_points`] whose states are not among those of a later one.
    /// `changes` are the moments, ascending, at which what is promised or allowed changes (the
    /// operation that is acknowledged, and the operation that begins and so may show).
    pub fn maximal_cut_points(&self, changes: &[Time]) -> Vec<Time> {
        let durable = self.steps.iter().filter(|s| s.makes_durable());
        let mut moments: Vec<Time> = durable.map(|s| s.end).collect();
        moments.extend(changes);
        moments.extend(self.reliable_above_others());
        moments.sort_unstable();
        let points = self.cut_points();
        let stands = |i: &usize| {
            let Some(next) = points.get(i + 1) else {
                return true;
            };
            let passed = moments.partition_point(|t| *t <= points[*i]);
            moments.get(passed).is_some_and(|t| t <= next)
        };
        (0..points.len())
            .filter(stands)
            .map(|i| points[i])
            .collect()
    }

    /// The first moments at which a reliable write keeps garbage away from what an earlier write
    /// left.
    fn reliable_above_others(&self) -> Vec<Time> {
        let mut below: Set<u64> = Set::default();
        let mut moments = Vec::new();
        for step in &self.steps {
            for write in step.writes() {
                let end = (write.lba.0 + write.sectors).div_ceil(SECTORS_PER_BLOCK);
                let mut blocks = write.lba.0 / SECTORS_PER_BLOCK..end;
                match write.kind {
                    Kind::Fua if blocks.any(|b| below.contains(&b)) => {
                        moments.push(step.start + Nanos(1));
                    }
                    Kind::Normal | Kind::Through => below.extend(blocks),
                    Kind::Fua | Kind::Discard | Kind::Remap { .. } => {}
                }
            }
        }
        moments
    }

    /// A cursor before the first command.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor::new(self)
    }
}
