//! A recorded run of a [`SpecDisk`](crate::SpecDisk): every command with its time span, so that all its cuts can be looked at
//! afterwards, in any number of ways.
//!
//! ```text
//! SpecDisk::record --run--> Trace --cursor--> Cursor --seek(at)--> choices(bound) --image(choice)--> Image
//! ```
//!
//! - T1: the states of a cut at `at` are those that the disk itself would have left at `at`.
//! - T2: a cursor only moves forward.

use crate::spec::{Bound, Choice, Ledger, Mode, Write};
use crate::{Caps, Class, Image};
use base::collections::mix;
use base::{BLOCK_BYTES, Bytes, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};

/// What a command did.
#[derive(Clone, Debug)]
pub enum What {
    /// One write or discard.
    Write(Write),
    /// A packed command.
    Pack(Vec<Write>),
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
    /// Why its blocks are written: one entry a piece, in the order of its writes.
    pub classes: Vec<Class>,
}

/// A run as recorded.
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
    /// The moments that differ in what a cut may leave, ascending: ends of commands, and moments inside of them.
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

    /// A cursor before the first command.
    pub fn cursor(&self) -> Cursor<'_> {
        Cursor {
            trace: self,
            next: 0,
            at: Time(0),
            visible: self.start.clone(),
            ledger: Ledger::new(u64::MAX),
        }
    }
}

/// A place in a trace.
pub struct Cursor<'a> {
    trace: &'a Trace,
    /// The first step that has not begun.
    next: usize,
    at: Time,
    /// As reads see it.
    visible: Image,
    ledger: Ledger,
}

impl Cursor<'_> {
    /// Moves on to a cut at `at`.
    ///
    /// # Panics
    /// T2: if `at` lies before the last one.
    pub fn seek(&mut self, at: Time) {
        assert!(at >= self.at, "T2: a cursor moves forward");
        self.at = at;
        while let Some(step) = self.trace.steps.get(self.next).filter(|s| s.start < at) {
            self.enter(step);
            self.next += 1;
        }
    }

    fn enter(&mut self, step: &Step) {
        self.ledger.advance(step.start);
        match &step.what {
            What::Write(write) => {
                apply(&mut self.visible, write);
                self.ledger.write(write.clone());
            }
            What::Pack(writes) => {
                writes.iter().for_each(|w| apply(&mut self.visible, w));
                self.ledger.pack(writes.clone());
            }
            What::Flush => self.ledger.flush(step.start, step.end),
            What::Barrier => self.ledger.barrier(step.start, step.end),
        }
    }

    /// The states of this cut that `bound` asks for.
    pub fn choices(&self, bound: &Bound) -> Vec<Choice> {
        let draws = match bound.mode {
            Mode::Random(n) => n,
            _ => bound.states_max.min(16),
        };
        let seeds = (0..u64::from(draws)).map(|n| Choice::Seed(mix(self.at.0 ^ mix(n))));
        [Choice::Oldest, Choice::Newest]
            .into_iter()
            .chain(seeds)
            .collect()
    }

    /// What the cut leaves by this choice.
    pub fn image(&self, choice: &Choice) -> Image {
        let mut image = self.visible.clone();
        for (n, bytes) in self.blocks(choice) {
            image.set_block(n, bytes);
        }
        image
    }

    fn blocks(&self, choice: &Choice) -> Vec<(u64, Bytes)> {
        let (caps, visible) = (&self.trace.caps, |n| self.visible.block(n));
        match choice {
            Choice::Oldest => self.ledger.lost(self.at, caps, visible),
            Choice::Newest => Vec::new(),
            Choice::Seed(seed) => self.ledger.draw(self.at, *seed, caps, visible),
        }
    }
}

/// Makes a write visible.
fn apply(image: &mut Image, write: &Write) {
    let bytes: Vec<u8> = write.new.iter().flat_map(|b| b.iter().copied()).collect();
    let end = write.lba.0 + write.sectors;
    for block in write.lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK) {
        let first = (block * SECTORS_PER_BLOCK).max(write.lba.0);
        let last = ((block + 1) * SECTORS_PER_BLOCK).min(end);
        let into = (first - block * SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
        let len = (last - first) as usize * SECTOR_BYTES;
        let mut content = match len {
            BLOCK_BYTES => vec![0; BLOCK_BYTES],
            _ => image.block(block).to_vec(),
        };
        match bytes.is_empty() {
            true => content[into..into + len].fill(0),
            false => {
                let from = (first - write.lba.0) as usize * SECTOR_BYTES;
                content[into..into + len].copy_from_slice(&bytes[from..from + len]);
            }
        }
        image.set_block(block, content.into());
    }
}
