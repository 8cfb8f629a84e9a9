//! The map on flash: checkpoints in two alternating areas, each followed by its log (see
//! `log` and, for the bytes, `pages`).
//!
//! An area is a stripe over its good blocks. A checkpoint is a sequence of numbered pages: block
//! table, map segments (those that are all unmapped are left out), and last the root. The log pages
//! follow the root. Pages carry checkpoint number and index, so reading them does not depend on
//! which blocks were good when they were written.
//!
//! - I22 (seal): on chips whose pages may read well after a cut and fail later, a second root page,
//!   the seal, follows the root, and a root counts only if the page of its seal is no longer
//!   erased, whatever that page holds, because this shows that the root's own program had ended.
//!   Until then nothing that the older root needs has been erased (ftl-I5), and the older root
//!   counts.

use super::program::broken_rules_panic;
use super::{Ftl, FtlError};
use crate::Layout;
use crate::config::{BLOCK_ENTRY, LOST, META_HEADER, NONE};
use crate::pages::{FORMAT, MetaKind, MetaPage, ROOT_BYTES, encode_block};
use base::bytes::{put_le32, put_le64};
use base::{Bytes, Mutant, Time};
use nand::{BlockId, Cause, Page, PageAddr};

/// The area of the current checkpoint.
#[derive(Clone, Debug)]
pub(crate) struct Area {
    /// Version of the format of what is written to flash.
    format: u32,
    /// Version of the checkpoint.
    version: u64,
    /// Number of the checkpoint.
    seq: u64,
    /// Index of the next page.
    index: u32,
    /// Blocks of the area that were good when the checkpoint began.
    stripe: Vec<BlockId>,
    /// Index of the first page of the log.
    log_from: u32,
    /// When the root of the checkpoint is durable.
    root_end: Time,
    /// Blocks opened since the checkpoint.
    opened: u32,
}

impl Area {
    /// The state before the first checkpoint.
    pub fn none() -> Area {
        Area {
            format: FORMAT,
            version: 0,
            seq: 0,
            index: 0,
            log_from: 0,
            stripe: Vec::new(),
            root_end: Time(0),
            opened: 0,
        }
    }
    /// Takes up the checkpoint that recovery has found, so that the next one has number `seq` + 1.
    pub fn found(&mut self, seq: u64, version: u64) {
        (self.seq, self.version) = (seq, version);
    }
    /// Version of the format of what is written to flash.
    pub fn format(&self) -> u32 {
        self.format
    }
    /// Version of the checkpoint.
    pub fn version(&self) -> u64 {
        self.version
    }
    /// Notes that a data block is opened.
    pub fn block_opened(&mut self) {
        self.opened += 1;
    }
    /// The earliest time at which the checkpoint is durable.
    pub fn after_root(&self, now: Time) -> Time {
        now.max(self.root_end)
    }
    /// Notes that every program is over and the clock is at 0.
    pub fn settle(&mut self) {
        self.root_end = Time(0);
    }
    /// The next page of the area, with this content.
    pub fn page(&self, kind: MetaKind, part: u32, body: Vec<u8>) -> MetaPage {
        MetaPage {
            kind,
            seq: self.seq,
            index: self.index,
            part,
            body: body.into(),
        }
    }
    /// Where a page of the area lies; `None`: beyond its end.
    fn place(&self, index: u32, layout: &Layout) -> Option<PageAddr> {
        let width = self.stripe.len() as u32;
        let page = index.checked_div(width)?;
        (page < layout.meta_pages).then(|| PageAddr {
            block: self.stripe[(index % width) as usize],
            page,
        })
    }
}

#[cfg(test)]
impl Area {
    /// Lets the next checkpoint be of another format.
    pub fn set_format(&mut self, format: u32) {
        self.format = format;
    }
}

impl Ftl {
    /// Bytes of content that a page of an area takes.
    pub(crate) fn meta_room(&self) -> usize {
        self.nand.geometry().page_bytes as usize - META_HEADER as usize
    }
    /// Blocks that may be opened between two checkpoints; large maps are written less often.
    pub(crate) fn checkpoint_every(&self) -> u32 {
        self.config.checkpoint_blocks.max(self.layout.area * 16)
    }
    /// Pages that the log has left.
    pub(crate) fn log_room(&self) -> u64 {
        let width = self.area.stripe.len() as u64;
        let all = width * u64::from(self.nand.geometry().pages_per_block);
        all.saturating_sub(self.area.index.into())
    }
    /// How much of the way to the next checkpoint is gone, 0 to 1: by blocks opened or by pages of
    /// the log, whichever is further.
    pub(crate) fn towards_checkpoint(&self) -> f64 {
        let opened = f64::from(self.area.opened) / f64::from(self.checkpoint_every());
        let log = self.area.index - self.area.log_from;
        let pages = self.area.stripe.len() as u32 * self.layout.meta_pages;
        let room = pages.saturating_sub(self.area.log_from).max(1);
        opened.max(f64::from(log) / f64::from(room)).clamp(0.0, 1.0)
    }
    /// Writes a checkpoint if many blocks were opened since the last one, because their number
    /// bounds recovery.
    pub(crate) fn checkpoint_if_due(&mut self, now: Time) -> Result<(), FtlError> {
        match self.area.opened >= self.checkpoint_every() {
            true => self.checkpoint(now),
            false => Ok(()),
        }
    }
    /// Writes the whole map into the other area. Recovery then need not look at blocks opened, and
    /// TRIMs made, before.
    pub(crate) fn checkpoint(&mut self, now: Time) -> Result<(), FtlError> {
        self.empty_buffers(now)?;
        self.close_pairs(now, true)?;
        let version = self.numbers.version();
        self.stats.checkpoint();
        // The area to write is that of the older checkpoint; the current root is durable before
        // that area is erased (ftl-I5).
        let start = self.area.after_root(now);
        for _ in 0..=self.layout.area {
            if let Some(end) = self.try_checkpoint(start) {
                (self.area.root_end, self.area.version, self.area.opened) = (end, version, 0);
                self.area.log_from = self.area.index;
                self.evidence.flush_waits(end);
                self.note_evidence(end);
                self.log.superseded(end);
                self.owners.prune();
                self.group_after_checkpoint();
                return Ok(());
            }
        }
        Err(self.end_of_life("the blocks that hold the map are worn out"))
    }
    /// One attempt; `None` if a block failed and the area must be started again without it.
    fn try_checkpoint(&mut self, start: Time) -> Option<Time> {
        let old = self.area.clone();
        self.area.seq = old.seq + 1;
        self.area.index = 0;
        self.area.stripe.clear();
        let first = (self.area.seq % 2) as u32 * self.layout.area;
        self.nand.because(Cause::Map);
        for block in (first..first + self.layout.area).map(BlockId) {
            if self.nand.is_bad(block) {
                continue;
            }
            match broken_rules_panic(self.nand.erase(start, block)) {
                Ok(_) => {
                    self.area.stripe.push(block);
                    self.stats.map_erase();
                }
                Err(_) => self.nand.mark_bad(block),
            }
        }
        let done = self.write_pages(start);
        if done.is_none() {
            self.area = old;
        }
        done
    }
    fn write_pages(&mut self, start: Time) -> Option<Time> {
        let mut end = start;
        let per_page = self.meta_room() / BLOCK_ENTRY as usize;
        let table: Vec<Vec<u8>> = self
            .blocks
            .all()
            .chunks(per_page)
            .map(|c| c.iter().flat_map(encode_block).collect())
            .collect();
        for (part, body) in table.into_iter().enumerate() {
            let page = self.area.page(MetaKind::Table, part as u32, body);
            end = end.max(self.append_meta(start, page)?);
        }
        let per_page = self.meta_room() / 4;
        for part in 0..(self.layout.units as usize).div_ceil(per_page) {
            let range = part * per_page..((part + 1) * per_page).min(self.layout.units as usize);
            if let Some(body) = self.segment(range) {
                let page = self.area.page(MetaKind::Segment, part as u32, body);
                end = end.max(self.append_meta(start, page)?);
            }
        }
        let mut root = vec![0; ROOT_BYTES];
        put_le64(&mut root, 0, self.numbers.version());
        put_le32(&mut root, 8, self.area.index);
        put_le32(&mut root, 12, self.layout.units);
        put_le32(&mut root, 16, self.layout.unit_bytes);
        put_le32(&mut root, 20, self.layout.blocks);
        put_le32(&mut root, 24, self.layout.slots_per_block);
        put_le32(&mut root, 28, self.layout.area);
        put_le32(&mut root, 32, self.layout.slc_blocks);
        put_le32(&mut root, 36, self.layout.slc_rows);
        put_le32(&mut root, 40, self.area.format);
        // ftl-I3: the root vouches for every program before it, so its own program starts when they
        // have ended.
        let start = self.evidence.after_programs(end);
        if !self.may_be_unstable() {
            let page = self.area.page(MetaKind::Root, 0, root);
            return self.append_meta(start, page);
        }
        let seal = self.area.place(self.area.index + 1, &self.layout)?;
        root.extend_from_slice(&seal.block.0.to_le_bytes());
        root.extend_from_slice(&seal.page.to_le_bytes());
        let page = self.area.page(MetaKind::Root, 0, root.clone());
        let end = self.append_meta(start, page)?;
        let page = self.area.page(MetaKind::Root, 0, root);
        self.append_meta(end, page)
    }
    /// A part of the map, or `None` if nothing in it is mapped.
    fn segment(&self, range: std::ops::Range<usize>) -> Option<Vec<u8>> {
        let mut body = vec![0; range.len() * 4];
        let mut any = false;
        for (raw, lpn) in body.chunks_exact_mut(4).zip(range) {
            let ppn = self.mapping_to_write(lpn as u32);
            any |= ppn != NONE;
            raw.copy_from_slice(&ppn.to_le_bytes());
        }
        any.then_some(body)
    }
    /// All owners of a slot are written, not just the one that P2L names (hazards-R7).
    fn mapping_to_write(&self, lpn: u32) -> u32 {
        match self.map.at(lpn) {
            ppn if ppn < LOST
                && self.map.owner(ppn) != lpn
                && self.mutant(Mutant::CheckpointOneOwner) =>
            {
                NONE
            }
            ppn => ppn,
        }
    }
    /// Programs the next page of the current area; `None` if it is full or the block failed.
    pub(crate) fn append_meta(&mut self, now: Time, page: MetaPage) -> Option<Time> {
        let at = self.area.place(self.area.index, &self.layout)?;
        let block = at.block;
        // The block failed before, and the checkpoint that was to follow could not be written.
        if self.nand.is_bad(block) {
            return None;
        }
        let cause = match page.kind {
            MetaKind::Log => Cause::Log,
            _ => Cause::Map,
        };
        self.stats.program(cause, 1);
        self.nand.because(cause);
        match broken_rules_panic(self.nand.program(
            now,
            at,
            Page::new(vec![page.encode()], Bytes::new()),
        )) {
            Ok(span) => {
                self.area.index += 1;
                Some(span.end)
            }
            Err(_) => {
                self.nand.mark_bad(block);
                None
            }
        }
    }
}
