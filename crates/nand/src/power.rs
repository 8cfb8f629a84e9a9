//! Power loss: the undo log, and the tearing of what is in flight.

use crate::chip::share_done;
use crate::media::{Block, Slot};
use crate::{BlockId, Cell, Media, Nand, PageAddr, Span};
use base::collections::mix;
use base::{Rng, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an operation changed: enough to take it back.
#[derive(Clone)]
pub(crate) enum Effect {
    Program {
        at: PageAddr,
        old: Cell,
        next: u32,
        times: u32,
    },
    Erase {
        block: BlockId,
        old: Slot,
    },
}

impl Effect {
    fn block(&self) -> BlockId {
        match self {
            Effect::Program { at, .. } => at.block,
            Effect::Erase { block, .. } => *block,
        }
    }
}

/// Every operation that ends after the last trim, in the order of issue.
#[derive(Clone, Default)]
pub(crate) struct Undo {
    log: VecDeque<(Span, Effect)>,
}

impl Undo {
    pub fn push(&mut self, span: Span, effect: Effect) {
        self.log.push_back((span, effect));
    }
    /// Operations end in nearly the order of issue, so trimming stops at the first that is not over.
    pub fn trim(&mut self, now: Time) {
        while self.log.front().is_some_and(|(span, _)| span.end <= now) {
            self.log.pop_front();
        }
    }
    /// A mark set meanwhile survives the undoing of an earlier erase.
    pub fn mark_bad(&mut self, block: BlockId) {
        for (_, effect) in &mut self.log {
            if let Effect::Erase {
                block: b,
                old: Slot(Some(old)),
            } = effect
                && *b == block
            {
                Arc::make_mut(old).bad = true;
            }
        }
    }
}

impl Nand {
    /// Cuts the power at `at`, which must not lie before the last [`Nand::advance`]: invariant N5.
    pub fn power_off(mut self, at: Time, seed: u64) -> Media {
        let log = std::mem::take(&mut self.undo.log);
        for (span, effect) in log.into_iter().rev() {
            if span.start >= at {
                self.undo_one(effect);
            } else if span.end > at {
                // One stream per die (N4), so that the draw does not depend on how far the log was trimmed.
                let die = u64::from(self.media.geometry.die_of(effect.block()));
                let rng = Rng::named(mix(seed ^ mix(at.0)) ^ die, "nand cut");
                self.tear(effect, share_done(span, at), rng);
            }
        }
        self.media
    }
    /// Operations that a cut could still undo or tear.
    pub fn undo_len(&self) -> usize {
        self.undo.log.len()
    }
    fn undo_one(&mut self, effect: Effect) {
        match effect {
            Effect::Program {
                at,
                old,
                next,
                times,
            } => {
                let block = self.media.block_mut(at.block);
                block.cells[at.page as usize] = old;
                (block.next, block.times) = (next, times);
            }
            Effect::Erase { block, old } => self.media.blocks.set(block.0 as usize, old),
        }
    }
    fn tear(&mut self, effect: Effect, done: f64, mut rng: Rng) {
        match effect {
            Effect::Program { at, old, .. } => {
                let cell = &mut self.media.block_mut(at.block).cells[at.page as usize];
                let lucky = rng.one_in(2);
                if done < 0.05 && lucky {
                    *cell = old;
                } else if done < 0.95 || lucky {
                    *cell = Cell::Torn;
                }
            }
            Effect::Erase { block, old } => {
                if done < 0.05 && rng.one_in(2) {
                    self.media.blocks.set(block.0 as usize, old);
                    return;
                }
                let old = old
                    .0
                    .map_or_else(|| Block::blank(&self.media.geometry), |b| (*b).clone());
                let wear = old.wear + 1;
                let cells = old
                    .cells
                    .into_iter()
                    .map(|cell| match (cell, rng.below(3)) {
                        (Cell::Erased, _) | (_, 0) => Cell::Erased,
                        (_, 1) => Cell::Torn,
                        (cell, _) => cell,
                    });
                let mixed = Block {
                    cells: cells.collect(),
                    wear,
                    weak: true,
                    ..old
                };
                self.media
                    .blocks
                    .set(block.0 as usize, Slot(Some(Arc::new(mixed))));
            }
        }
    }
}
