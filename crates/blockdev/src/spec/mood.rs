//! How a cut treats the writes it may choose about. This is drawn once per cut, so that the
//! extremes, and a single write out of order, are as likely as mixtures.

use super::draw::unit;
use super::{Entry, Kind, blocks_of};
use crate::Caps;
use base::{BLOCK_BYTES, Rng, SECTORS_PER_BLOCK};

/// The kinds of cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mood {
    /// Every open write is lost.
    Oldest,
    /// Every open write is kept.
    Newest,
    /// Whole writes are kept or lost.
    PerWrite,
    /// Whole 4 KiB blocks are kept or lost.
    PerBlock,
    /// Granules are kept or lost one by one.
    PerGranule,
    /// Granules are kept or lost one by one, and may be garbage.
    Garbage,
    /// One write, block or granule is kept, all others are lost.
    Only(Grain),
    /// One write, block or granule is lost, all others are kept.
    AllBut(Grain),
    /// One write is torn inside one of its blocks; the others are kept, lost, or drawn one by one.
    Tail,
    /// As an [`Exact`](super::Exact) state says; never drawn.
    Exact,
}

/// What a sparse cut singles out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Grain {
    Write,
    Block,
    Granule,
}

const MOODS: [Mood; 16] = [
    Mood::Oldest,
    Mood::Newest,
    Mood::PerWrite,
    Mood::PerWrite,
    Mood::PerBlock,
    Mood::PerGranule,
    Mood::PerGranule,
    Mood::Garbage,
    Mood::Garbage,
    Mood::Only(Grain::Write),
    Mood::Only(Grain::Block),
    Mood::Only(Grain::Granule),
    Mood::AllBut(Grain::Write),
    Mood::AllBut(Grain::Block),
    Mood::AllBut(Grain::Granule),
    Mood::Tail,
];

impl Mood {
    pub fn draw(seed: u64) -> Mood {
        MOODS[Rng::named(seed, "spec mood").below(MOODS.len() as u64) as usize]
    }
}

/// The write, and the sector in it, that a sparse or torn cut singles out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub id: u64,
    pub lba: u64,
    /// Further decisions of the cut: whether the tear concerns only the block or the rest of the
    /// write, and whether the others are kept.
    pub choice: u64,
}

impl Target {
    /// Chooses among the writes that the cut may choose about.
    pub fn choose(free: &[&Entry], pick: impl Fn(u64) -> u64) -> Option<Target> {
        let entry = *free.get((pick(0) % free.len().max(1) as u64) as usize)?;
        let w = &entry.write;
        let blocks: Vec<u64> = match w.kind {
            Kind::Discard => w.prev.iter().map(|(block, _)| *block).collect(),
            _ => blocks_of(w).collect(),
        };
        let block = *blocks.get((pick(1) % blocks.len().max(1) as u64) as usize)?;
        let lba = block * SECTORS_PER_BLOCK + pick(2) % SECTORS_PER_BLOCK;
        Some(Target {
            id: entry.lead,
            lba: lba.clamp(w.lba.0, w.lba.0 + w.sectors - 1),
            choice: pick(3),
        })
    }

    /// True if `lba` of `entry` belongs to what is singled out.
    pub fn hits(&self, caps: &Caps, entry: &Entry, lba: u64, grain: Grain) -> bool {
        let remap = entry.write.kind.is_remap();
        let same = |min| remap || unit(caps, &entry.write, lba, min).contains(&self.lba);
        self.id == entry.lead
            && match grain {
                Grain::Write => true,
                Grain::Block => same(BLOCK_BYTES),
                Grain::Granule => same(0),
            }
    }

    /// True if a write that is torn at the target has brought `lba` to the medium. A granule has
    /// the fate of its first sector.
    pub fn before_the_break(&self, caps: &Caps, entry: &Entry, lba: u64) -> bool {
        let granule = unit(caps, &entry.write, lba, 0);
        let same_block = lba / SECTORS_PER_BLOCK == self.lba / SECTORS_PER_BLOCK;
        if self.choice & 1 == 1 && !same_block {
            let torn = unit(caps, &entry.write, self.lba, 0);
            return granule != torn || granule.start < self.lba;
        }
        granule.start < self.lba
    }
}
