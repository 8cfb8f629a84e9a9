//! A place in a recorded run, and the states that a cut there may leave.

use super::{Step, Trace, What};
use crate::spec::{
    Bound, Change, Choice, ChoiceError, Counted, Cut, Group, Ledger, Pruner, Touched, Write,
    WriteFate, enumerate, new_block, new_run,
};
use crate::{Image, RemapMode};
use base::{BLOCK_BYTES, SECTOR_BYTES, SECTORS_PER_BLOCK, Time};
use std::sync::Arc;

/// A place in a trace.
pub struct Cursor<'a> {
    trace: &'a Trace,
    /// The first step that has not begun.
    next: usize,
    at: Time,
    /// The content as reads see it.
    visible: Image,
    ledger: Ledger,
    touched: Touched,
    pruner: Pruner,
    /// The step of each write, by its number.
    steps: Vec<usize>,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(trace: &'a Trace) -> Cursor<'a> {
        Cursor {
            trace,
            next: 0,
            at: Time(0),
            visible: trace.start.clone(),
            ledger: Ledger::new(u64::MAX),
            touched: Vec::new(),
            pruner: Pruner::default(),
            steps: Vec::new(),
        }
    }

    /// Moves on to a cut at `at`.
    ///
    /// # Panics
    /// trace-T2: if `at` lies before the last one.
    pub fn seek(&mut self, at: Time) {
        assert!(at >= self.at, "trace-T2: a cursor moves forward");
        self.at = at;
        let trace = self.trace;
        while let Some(step) = trace.steps.get(self.next).filter(|s| s.start < at) {
            self.enter(step);
            self.next += 1;
        }
        self.ledger.advance(at);
        self.pruner.forget(self.ledger.kept_ids());
        self.touched = self.ledger.touched();
    }

    fn enter(&mut self, step: &Step) {
        match &step.what {
            What::Flush => self.ledger.flush(step.start, step.end),
            What::Barrier => self.ledger.barrier(step.start, step.end),
            What::Write(_) | What::Pack(_) | What::Remap(_) => {
                let one = matches!(step.what, What::Write(_));
                let group = (!one).then(|| self.ledger.next_id());
                if matches!(&step.what, What::Remap(done) if done.mode == RemapMode::Move) {
                    self.pruner.moved();
                }
                let mut classes = &step.classes[..];
                for (place, write) in step.writes().iter().enumerate() {
                    let prints = apply(&mut self.visible, write);
                    let (mine, others) = classes.split_at(write.new.len().min(classes.len()));
                    classes = others;
                    let id = self.ledger.next_id();
                    self.pruner.enter(id, write, mine, &prints);
                    self.steps.push(self.next);
                    let write = Arc::clone(write);
                    self.ledger
                        .enter(write, group.map(|first| (first, place)), prints);
                }
            }
        }
    }

    /// The place in the trace of the step to which the write with this number belongs, if it has
    /// begun.
    pub fn step_of(&self, write: u64) -> Option<usize> {
        self.steps.get(write as usize).copied()
    }

    /// Calls `each` with the states of this cut that `bound` asks for, those most likely to show a
    /// fault first, until it answers false.
    pub fn each_choice(&self, bound: &Bound, each: &mut dyn FnMut(Choice) -> bool) -> Counted {
        let protected = match bound.prune {
            true => self.pruner.protected(),
            false => Vec::new(),
        };
        let group = |id: u64| -> Option<Group> {
            let place = protected.binary_search_by_key(&id, |p| p.0).ok()?;
            Some(protected[place].1)
        };
        let cut = Cut {
            ledger: &self.ledger,
            at: self.at,
            caps: &self.trace.caps,
            group: &group,
        };
        enumerate(&cut, bound, each)
    }

    /// The states that [`Cursor::each_choice`] names, as a list.
    pub fn choices(&self, bound: &Bound) -> Vec<Choice> {
        let mut all = Vec::new();
        self.each_choice(bound, &mut |choice| {
            all.push(choice);
            true
        });
        all
    }

    /// How many states `bound` names here, and how many it leaves out.
    pub fn counted(&self, bound: &Bound) -> Counted {
        self.each_choice(bound, &mut |_| true)
    }

    /// The state that the cut leaves by this choice.
    ///
    /// # Errors
    /// The choice says more than this cut leaves open, because it is a text of another run.
    pub fn state(&self, choice: &Choice) -> Result<Image, ChoiceError> {
        let mut image = self.visible.clone();
        for change in self.changes(choice)? {
            image.set_known(change.block, change.bytes, change.print);
        }
        Ok(image)
    }

    /// The state that [`Cursor::state`] answers, for a choice that this cut has named.
    ///
    /// # Panics
    /// If the cut has not named it.
    pub fn image(&self, choice: &Choice) -> Image {
        match self.state(choice) {
            Ok(image) => image,
            Err(e) => panic!("legal-E2: {e}"),
        }
    }

    /// [`Image::content_hash`] of the state, without making the state.
    ///
    /// # Errors
    /// See [`Cursor::state`].
    pub fn content_hash(&self, choice: &Choice) -> Result<u64, ChoiceError> {
        let changes = self.changes(choice)?;
        let prints = changes.iter().map(|c| (c.block, c.print));
        Ok(self.visible.hash_with(prints))
    }

    /// The fate of each write that has begun, as (place of its step in the trace, fate), in order;
    /// a pack and a REMAP have one entry for each of their writes.
    ///
    /// # Errors
    /// See [`Cursor::state`].
    pub fn describe(&self, choice: &Choice) -> Result<Vec<(usize, WriteFate)>, ChoiceError> {
        let mut known = self
            .ledger
            .fates(self.at, &self.trace.caps, choice)?
            .into_iter()
            .peekable();
        let fate = |(id, step): (usize, &usize)| {
            let mine = known.next_if(|k| k.0 == id as u64);
            (*step, mine.map_or(WriteFate::Durable, |k| k.1))
        };
        Ok(self.steps.iter().enumerate().map(fate).collect())
    }

    fn changes(&self, choice: &Choice) -> Result<Vec<Change>, ChoiceError> {
        let caps = &self.trace.caps;
        self.ledger
            .changes(self.at, caps, choice, &self.touched, &self.visible)
    }
}

/// Makes a write visible; answers the fingerprints of the blocks it touches, before and after it
/// (none for a discard).
fn apply(image: &mut Image, write: &Write) -> Vec<(u64, u64)> {
    let end = write.lba.0 + write.sectors;
    if write.new.is_empty() {
        for (block, _) in &write.prev {
            let first = (block * SECTORS_PER_BLOCK).max(write.lba.0);
            let last = ((block + 1) * SECTORS_PER_BLOCK).min(end);
            let from = (first - block * SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
            let len = (last - first) as usize * SECTOR_BYTES;
            image.edit_block(*block, |bytes| bytes[from..from + len].fill(0));
        }
        return Vec::new();
    }
    let blocks = write.lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
    let enter = |block: u64| {
        let before = image.print(block);
        let first = block * SECTORS_PER_BLOCK;
        if write.lba.0 <= first && first + SECTORS_PER_BLOCK <= end {
            image.set_block(block, new_block(write, first));
        } else {
            let mut bytes = image.block(block).to_vec();
            for lba in first.max(write.lba.0)..(first + SECTORS_PER_BLOCK).min(end) {
                let from = (lba - first) as usize * SECTOR_BYTES;
                let new = new_run(write, lba, SECTOR_BYTES).expect("pieces are whole sectors");
                bytes[from..from + SECTOR_BYTES].copy_from_slice(&new);
            }
            debug_assert_eq!(bytes.len(), BLOCK_BYTES);
            image.set_block(block, bytes.into());
        }
        (before, image.print(block))
    };
    blocks.map(enter).collect()
}
