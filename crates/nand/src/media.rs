//! The cells: the state of a chip set, which it keeps without power.

use crate::piece::Piece;
use crate::{BlockId, Geometry, PageAddr};
use base::collections::mix;
use base::{Bytes, CowVec, Fingerprint, Nanos, Rng};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A programmed page.
#[derive(Debug)]
pub struct Page {
    data: Box<[Piece]>,
    spare: Bytes,
    /// Hash of the content; 0: not computed yet.
    digest: AtomicU64,
}

impl Page {
    /// A page of these data pieces (what is missing up to the page size stays erased) and spare
    /// bytes.
    pub fn new(data: Vec<Bytes>, spare: Bytes) -> Page {
        let data = data.into_iter().map(Piece::new).collect();
        Page {
            data,
            spare,
            digest: AtomicU64::new(0),
        }
    }
    /// The data pieces, in order.
    pub fn data(&self) -> Vec<Bytes> {
        self.data.iter().map(Piece::bytes).collect()
    }
    /// The spare bytes.
    pub fn spare(&self) -> &Bytes {
        &self.spare
    }
    /// Data bytes that were given; the rest of the page is erased.
    pub fn data_len(&self) -> usize {
        self.data.iter().map(Piece::len).sum()
    }
    /// `len` data bytes from `offset`, without copying where one piece holds them; erased bytes
    /// read as 0xFF.
    pub fn slice(&self, offset: usize, len: usize) -> Bytes {
        let mut at = 0;
        for piece in &self.data {
            if offset >= at && offset + len <= at + piece.len() {
                return piece.bytes().slice(offset - at..offset - at + len);
            }
            at += piece.len();
        }
        let mut all: Vec<u8> = self.data().concat();
        all.resize(all.len().max(offset + len), 0xFF);
        Bytes::from(all).slice(offset..offset + len)
    }
    fn digest(&self) -> u64 {
        match self.digest.load(Ordering::Relaxed) {
            0 => {
                let pieces = self.data.iter().map(Fingerprint::fingerprint);
                let h = pieces
                    .fold(self.spare.fingerprint(), |h, p| {
                        mix(h ^ p.rotate_left(7)).wrapping_add(1)
                    })
                    .max(1);
                self.digest.store(h, Ordering::Relaxed);
                h
            }
            known => known,
        }
    }
}

/// What a page holds.
#[derive(Clone, Debug, Default)]
pub enum Cell {
    /// All ones.
    #[default]
    Erased,
    /// Programmed and readable.
    Written(Arc<Page>),
    /// The data are uncorrectable, but the spare area reads well, as if the page were intact.
    SpareOnly(Arc<Page>),
    /// Uncorrectable.
    Torn,
}

impl Cell {
    fn digest(&self) -> u64 {
        match self {
            Cell::Erased => 0,
            Cell::Written(page) => page.digest(),
            Cell::SpareOnly(page) => page.digest() ^ 0x5A5A,
            Cell::Torn => 0x7042,
        }
    }
}

/// A page that reads well at present but not for long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frail {
    /// Reads that still succeed.
    pub reads: u32,
    /// Power-ups after which the page cannot be read; [`Frail::FOREVER`]: only reads count.
    pub power_ups: u8,
}

impl Frail {
    pub const FOREVER: u8 = u8::MAX;
}

/// An erase block that was ever touched.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub cells: Vec<Cell>,
    /// Programs of the page programmed last.
    pub times: u32,
    /// Lowest page that has not been programmed since the last erase.
    pub next: u32,
    /// Number of erases.
    pub wear: u32,
    /// True if the last erase was interrupted.
    pub weak: bool,
    /// True if the block is marked bad, by the factory or later.
    pub bad: bool,
    /// True if the mark is the factory's.
    pub factory: bool,
    /// Reads since the last erase; counted only where they have an effect.
    pub reads: u32,
    /// Time of the first program since the last erase, on the clock of [`Media::clock`]; kept only
    /// where it has an effect.
    pub born: u64,
    /// Pages that will not read well for long.
    pub frail: BTreeMap<u32, Frail>,
}

impl Block {
    pub fn blank(geometry: &Geometry) -> Block {
        let cells = vec![Cell::Erased; geometry.pages_per_block as usize];
        Block {
            cells,
            times: 0,
            next: 0,
            wear: 0,
            weak: false,
            bad: false,
            factory: false,
            reads: 0,
            born: 0,
            frail: BTreeMap::new(),
        }
    }
}

/// A slot of the block table; `None`: never touched.
#[derive(Clone, Default)]
pub(crate) struct Slot(pub Option<Arc<Block>>);

impl Fingerprint for Slot {
    fn fingerprint(&self) -> u64 {
        let Some(block) = &self.0 else { return 0 };
        let untouched = block.wear == 0 && block.next == 0 && !block.weak && !block.bad;
        if untouched && block.cells.iter().all(|c| matches!(c, Cell::Erased)) {
            return 0;
        }
        let flags = u64::from(block.wear) << 32 | u64::from(block.next) << 2;
        let mut h = mix(flags | u64::from(block.weak) << 1 | u64::from(block.bad));
        if block.reads != 0 || block.born != 0 {
            h = mix(h ^ u64::from(block.reads) << 32 ^ block.born);
        }
        for (page, frail) in &block.frail {
            let left = u64::from(frail.reads) << 8 | u64::from(frail.power_ups);
            h = mix(h ^ u64::from(*page) << 40 ^ left);
        }
        block
            .cells
            .iter()
            .fold(h, |h, cell| mix(h.rotate_left(5) ^ cell.digest()))
            .max(1)
    }
}

/// A chip set without power. Cloning forks it; the clones share what neither changes.
#[derive(Clone)]
pub struct Media {
    pub(crate) geometry: Geometry,
    pub(crate) blocks: CowVec<Slot, 16>,
    /// Blocks that may hold frail pages; nearly always empty.
    pub(crate) frail: BTreeSet<u32>,
    /// Time before the last power-up, shelf time included, nanoseconds, for retention.
    pub(crate) clock: u64,
}

impl Media {
    /// Chips from the factory: all erased, without bad blocks.
    pub fn blank(geometry: Geometry) -> Media {
        Media {
            geometry,
            blocks: CowVec::new(geometry.blocks() as usize, Slot::default()),
            frail: BTreeSet::new(),
            clock: 0,
        }
    }
    /// Chips from the factory of which a share of `bad` blocks (at most 2 %, as data sheets allow)
    /// is marked bad, drawn from `seed`. Block 0 is good, as data sheets promise.
    ///
    /// The mark (nand-N3) is a byte other than 0xFF in the spare area of the block's first page, in
    /// the part that the layer above does not get: see [`Geometry::mark_at`].
    ///
    /// # Errors
    /// The share is not within 0 to 0.02.
    pub fn factory(geometry: Geometry, seed: u64, bad: f64) -> Result<Media, String> {
        if !(0.0..=0.02).contains(&bad) {
            return Err(format!(
                "factory_bad = {bad}; it may be 0 to 0.02 (nand-N3)"
            ));
        }
        let mut media = Media::blank(geometry);
        let most = (f64::from(geometry.blocks()) * bad) as u64;
        let mut rng = Rng::named(seed, "factory bad blocks");
        let mut left = if most == 0 { 0 } else { rng.below(most + 1) };
        while left > 0 {
            let block = BlockId(1 + rng.below(u64::from(geometry.blocks()) - 1) as u32);
            if !media.is_bad(block) {
                let block = media.block_mut(block);
                (block.bad, block.factory) = (true, true);
                left -= 1;
            }
        }
        Ok(media)
    }
    /// True if the factory marked the block bad.
    pub fn is_factory_bad(&self, block: BlockId) -> bool {
        self.block(block).is_some_and(|b| b.factory)
    }
    /// Numbers of blocks marked bad: by the factory, and later.
    pub fn bad_blocks(&self) -> (u32, u32) {
        let marked = self
            .blocks
            .iter_present()
            .filter_map(|(_, slot)| slot.0.as_ref());
        marked
            .filter(|b| b.bad)
            .fold((0, 0), |(factory, grown), b| match b.factory {
                true => (factory + 1, grown),
                false => (factory, grown + 1),
            })
    }
    /// Lets time pass without power: charge leaks (retention).
    pub fn shelve(&mut self, time: Nanos) {
        self.clock = self.clock.saturating_add(time.0);
    }
    /// Switches the power on: pages that were to last until this power-up are lost.
    pub(crate) fn power_up(&mut self) {
        let blocks = &mut self.blocks;
        self.frail.retain(|number| {
            let Some(block) = &mut blocks.get_mut(*number as usize).0 else {
                return false;
            };
            let block = Arc::make_mut(block);
            let Block { frail, cells, .. } = block;
            frail.retain(|page, left| {
                if left.power_ups != Frail::FOREVER {
                    left.power_ups = left.power_ups.saturating_sub(1);
                }
                if left.power_ups == 0 {
                    cells[*page as usize] = Cell::Torn;
                }
                left.power_ups > 0
            });
            !frail.is_empty()
        });
    }
    /// Notes that a page reads well only for a while.
    pub(crate) fn weaken(&mut self, at: PageAddr, frail: Frail) {
        self.frail.insert(at.block.0);
        let block = self.block_mut(at.block);
        block.frail.insert(at.page, frail);
    }
    /// Shape of the chips.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }
    /// A digest of every cell, wear counter and mark.
    pub fn content_hash(&self) -> u64 {
        self.blocks.content_hash()
    }
    /// What a page holds.
    pub fn cell(&self, at: PageAddr) -> Cell {
        match &self.blocks.get(at.block.0 as usize).0 {
            Some(block) => block.cells[at.page as usize].clone(),
            None => Cell::Erased,
        }
    }
    /// Erases that a block has behind it.
    pub fn wear(&self, block: BlockId) -> u32 {
        self.blocks
            .get(block.0 as usize)
            .0
            .as_ref()
            .map_or(0, |b| b.wear)
    }
    /// True if the block carries the bad-block mark.
    pub fn is_bad(&self, block: BlockId) -> bool {
        self.blocks
            .get(block.0 as usize)
            .0
            .as_ref()
            .is_some_and(|b| b.bad)
    }
    /// Sets the bad-block mark, as the factory does.
    pub fn mark_bad(&mut self, block: BlockId) {
        self.block_mut(block).bad = true;
    }
    /// Makes a page unreadable, for tests of the layers above.
    pub fn damage(&mut self, at: PageAddr) {
        self.block_mut(at.block).cells[at.page as usize] = Cell::Torn;
    }
    pub(crate) fn block(&self, block: BlockId) -> Option<&Block> {
        self.blocks.get(block.0 as usize).0.as_deref()
    }
    pub(crate) fn block_mut(&mut self, block: BlockId) -> &mut Block {
        let slot = self.blocks.get_mut(block.0 as usize);
        Arc::make_mut(
            slot.0
                .get_or_insert_with(|| Arc::new(Block::blank(&self.geometry))),
        )
    }
}
