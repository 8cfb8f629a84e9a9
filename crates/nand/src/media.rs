//! The cells: what a chip set consists of without power.

use crate::{BlockId, Geometry, PageAddr};
use base::collections::mix;
use base::{Bytes, CowVec, Fingerprint, fill};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A programmed page.
#[derive(Debug)]
pub struct Page {
    data: Box<[Bytes]>,
    spare: Bytes,
    /// Hash of the content; 0: not computed yet.
    digest: AtomicU64,
}

impl Page {
    /// A page of these data pieces (what is missing up to the page size stays erased) and spare bytes.
    pub fn new(data: Vec<Bytes>, spare: Bytes) -> Page {
        let data = data.into_iter().map(fill::compact).collect();
        Page {
            data,
            spare,
            digest: AtomicU64::new(0),
        }
    }
    /// The data pieces, in order.
    pub fn data(&self) -> &[Bytes] {
        &self.data
    }
    /// The spare bytes.
    pub fn spare(&self) -> &Bytes {
        &self.spare
    }
    /// Data bytes that were given; the rest of the page is erased.
    pub fn data_len(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
    /// `len` data bytes from `offset`, without copying where one piece holds them; erased bytes read as 0xFF.
    pub fn slice(&self, offset: usize, len: usize) -> Bytes {
        let mut at = 0;
        for piece in &self.data {
            if offset >= at && offset + len <= at + piece.len() {
                return piece.slice(offset - at..offset - at + len);
            }
            at += piece.len();
        }
        let mut all: Vec<u8> = self.data.concat();
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
    /// Uncorrectable.
    Torn,
}

impl Cell {
    fn digest(&self) -> u64 {
        match self {
            Cell::Erased => 0,
            Cell::Written(page) => page.digest(),
            Cell::Torn => 0x7042,
        }
    }
}

/// An erase block that was ever touched.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub cells: Vec<Cell>,
    /// Programs of the page programmed last.
    pub times: u32,
    /// Lowest page that has not been programmed since the last erase.
    pub next: u32,
    /// Erases so far.
    pub wear: u32,
    /// The last erase was interrupted.
    pub weak: bool,
    /// Marked bad, from the factory or grown.
    pub bad: bool,
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
        let h = mix(flags | u64::from(block.weak) << 1 | u64::from(block.bad));
        block
            .cells
            .iter()
            .fold(h, |h, cell| mix(h.rotate_left(5) ^ cell.digest()))
            .max(1)
    }
}

/// A chip set without power. Cloning forks it; what is not changed afterwards stays shared.
#[derive(Clone)]
pub struct Media {
    pub(crate) geometry: Geometry,
    pub(crate) blocks: CowVec<Slot, 16>,
}

impl Media {
    /// Chips from the factory: all erased, without bad blocks.
    pub fn blank(geometry: Geometry) -> Media {
        Media {
            geometry,
            blocks: CowVec::new(geometry.blocks() as usize, Slot::default()),
        }
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
    /// Makes a page unreadable: for tests of what lies above.
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
