//! Power loss: the undo log, and the tearing of operations in flight at level L1 (see `cut` for the
//! others).

use crate::chip::share_done;
use crate::media::{Block, Frail, Slot};
use crate::{BlockId, Cell, FaultLevel, Geometry, Media, Nand, PageAddr, Span};
use base::collections::mix;
use base::{Rng, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// What an operation changed, in a form with which it can be undone.
#[derive(Clone)]
pub(crate) enum Effect {
    Program {
        at: PageAddr,
        old: Cell,
        frail: Option<Frail>,
        next: u32,
        times: u32,
    },
    Erase {
        block: BlockId,
        old: Slot,
    },
    /// A read that changed something: the page and the counters as they were before.
    Sense {
        at: PageAddr,
        old: Cell,
        frail: Option<Frail>,
        reads: u32,
    },
}

impl Effect {
    fn block(&self) -> BlockId {
        match self {
            Effect::Program { at, .. } | Effect::Sense { at, .. } => at.block,
            Effect::Erase { block, .. } => *block,
        }
    }
}

/// Every operation that ends after the last trim, in the order of issue.
#[derive(Clone, Default)]
pub(crate) struct Undo {
    log: VecDeque<(Span, Effect)>,
    /// True if the programs that ended last are kept, for brown-outs.
    pub keep_last: bool,
    last: VecDeque<(Time, PageAddr)>,
}

impl Undo {
    pub fn push(&mut self, span: Span, effect: Effect) {
        self.log.push_back((span, effect));
    }
    /// Drops operations that ended by `now`. They end in nearly the order of issue, so this stops
    /// at the first that has not ended.
    pub fn trim(&mut self, now: Time) {
        while self.log.front().is_some_and(|(span, _)| span.end <= now) {
            if let Some((span, Effect::Program { at, .. })) = self.log.pop_front()
                && self.keep_last
            {
                self.last.push_back((span.end, at));
            }
        }
        if self.last.len() > 2 {
            self.last.make_contiguous().sort_unstable();
            self.last.drain(..self.last.len() - 2);
        }
    }
    /// Drops all records, after work that counts as over.
    pub fn forget(&mut self) {
        self.log.clear();
        self.last.clear();
    }
    /// The programs that ended last by `at`, at most two.
    fn last_by(&self, at: Time) -> Vec<PageAddr> {
        let log = self.log.iter().filter_map(|(span, effect)| match effect {
            Effect::Program { at, .. } => Some((span.end, *at)),
            _ => None,
        });
        let mut all: Vec<_> = self
            .last
            .iter()
            .copied()
            .chain(log)
            .filter(|(end, _)| *end <= at)
            .collect();
        all.sort_unstable();
        all.iter().rev().take(2).map(|(_, page)| *page).collect()
    }
    /// Notes a mark, so that it survives the undoing of an earlier erase, also of one that was the
    /// first to touch the block.
    pub fn mark_bad(&mut self, block: BlockId, geometry: &Geometry) {
        for (_, effect) in &mut self.log {
            if let Effect::Erase {
                block: b,
                old: Slot(old),
            } = effect
                && *b == block
            {
                let old = old.get_or_insert_with(|| Arc::new(Block::blank(geometry)));
                Arc::make_mut(old).bad = true;
            }
        }
    }
}

impl Nand {
    /// Cuts the power at `at`, which must not lie before the last [`Nand::advance`]: invariant
    /// nand-N5.
    pub fn power_off(mut self, at: Time, seed: u64) -> Media {
        let last = self.undo.last_by(at);
        let log = std::mem::take(&mut self.undo.log);
        for (span, effect) in log.into_iter().rev() {
            if span.start >= at {
                self.undo_one(effect);
            } else if span.end > at {
                // One stream per die (nand-N4) and plane, so that the draw does not depend on how
                // far the log was trimmed.
                let g = &self.media.geometry;
                let (die, plane) = (g.die_of(effect.block()), g.plane_of(effect.block()));
                let place = u64::from(die) | u64::from(plane) << 32;
                let rng = Rng::named(mix(seed ^ mix(at.0)) ^ place, "nand cut");
                match self.cells.level {
                    FaultLevel::L1 => self.tear(effect, share_done(span, at), rng),
                    _ => self.tear_hard(effect, share_done(span, at), rng),
                }
            }
        }
        if self.cells.level >= FaultLevel::L3 {
            let rng = Rng::named(mix(seed ^ mix(at.0)), "nand brown-out");
            self.brown_out(&last, rng);
        }
        self.media.clock = self.media.clock.saturating_add(match self.cells.errors {
            Some(_) => at.0,
            None => 0,
        });
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
                frail,
                next,
                times,
            } => {
                self.media.restore(at, old, frail);
                let block = self.media.block_mut(at.block);
                (block.next, block.times) = (next, times);
                if next == 0 {
                    block.born = 0;
                }
            }
            Effect::Erase { block, old } => self.media.blocks.set(block.0 as usize, old),
            Effect::Sense {
                at,
                old,
                frail,
                reads,
            } => {
                self.media.restore(at, old, frail);
                self.media.block_mut(at.block).reads = reads;
            }
        }
    }
    fn tear(&mut self, effect: Effect, done: f64, mut rng: Rng) {
        match effect {
            Effect::Program { at, old, frail, .. } => {
                let lucky = rng.one_in(2);
                if done < 0.05 && lucky {
                    self.media.restore(at, old, frail);
                } else if done < 0.95 || lucky {
                    self.media.set_cell(at, Cell::Torn);
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
            Effect::Sense { .. } => {}
        }
    }
}
