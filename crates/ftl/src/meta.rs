//! The map on flash: checkpoints in two alternating areas, each followed by its log (see
//! `records`).
//!
//! An area is a stripe over its good blocks. A checkpoint is a sequence of numbered pages: block
//! table, map segments (those that are all unmapped are left out), and last the root. The log pages
//! follow the root. Pages carry checkpoint number and index, so reading them does not depend on
//! which blocks were good when they were written.
//!
//! - I22 (seal): on chips whose pages may read well after a cut and fail later, a root counts only
//!   if the page behind it is no longer erased, whatever it holds, because that shows that the
//!   root's own program had ended. Until then nothing that the older root needs has been erased
//!   (ftl-I5), and the older root counts.

use crate::config::{BLOCK_ENTRY, LOST, META_HEADER, NONE};
use crate::core::{BlockInfo, Ftl, FtlError, State};
use crate::program::broken_rules_panic;
use crate::records::{LogBatch, OwnerRecord, TRIM_BYTES, Writer};
use base::bytes::{get_le32, get_le64, put_le32, put_le64};
use base::checksum::crc32c;
use base::{Bytes, Mutant, Time};
use nand::{BlockId, Cause, Page, PageAddr};
use std::collections::BTreeMap;

const MAGIC: u32 = 0x4C54_4656;
/// Version of what this crate writes to flash (docs/format/ftl.md); the root carries it.
pub(crate) const FORMAT: u32 = 2;
/// Bytes behind the root's content with the place of its seal (I22): a second root page, programmed
/// when the first is complete.
pub(crate) const SEAL_BYTES: usize = 8;
/// Bytes of the root's content.
pub(crate) const ROOT_BYTES: usize = 44;
/// Bytes of the root's content in format 1, which names no version.
pub(crate) const ROOT_BYTES_1: usize = 40;

/// A record that a run of units holds nothing, with its place in the order of all writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Trim {
    pub first: u32,
    pub count: u32,
    pub version: u64,
}

/// The log in memory: records that are not on flash yet, and where the next page goes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// TRIMs not logged yet, each with the number of its operation.
    pub pending: Vec<(Trim, u64)>,
    /// Batches not logged yet.
    pub batches: Vec<LogBatch>,
    /// Owners of moved slots that need a record, with the number of the operation that moved them.
    pub owners: BTreeMap<u32, u64>,
    /// When the last page that made batches durable has been programmed.
    pub batch_end: Time,
    /// Version of the current checkpoint.
    pub version: u64,
    /// Number of the current checkpoint.
    pub seq: u64,
    /// Next page index in the current area.
    pub index: u32,
    /// Blocks of the current area that were good when its checkpoint began.
    pub stripe: Vec<u32>,
    /// When the root of the current checkpoint is durable.
    pub root_end: Time,
}

/// What a page of an area holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MetaKind {
    Table,
    Segment,
    Root,
    Log,
}

/// A decoded page of an area.
#[derive(Clone, Debug)]
pub(crate) struct MetaPage {
    pub kind: MetaKind,
    pub seq: u64,
    pub index: u32,
    /// Number of the table part or of the map segment.
    pub part: u32,
    pub body: Bytes,
}

impl MetaPage {
    fn encode(&self) -> Bytes {
        let mut raw = vec![0; META_HEADER as usize + self.body.len()];
        put_le32(&mut raw, 0, MAGIC);
        raw[4] = match self.kind {
            MetaKind::Table => 1,
            MetaKind::Segment => 2,
            MetaKind::Root => 3,
            MetaKind::Log => 4,
        };
        put_le64(&mut raw, 8, self.seq);
        put_le32(&mut raw, 16, self.index);
        put_le32(&mut raw, 20, self.part);
        put_le32(&mut raw, 24, self.body.len() as u32);
        raw[META_HEADER as usize..].copy_from_slice(&self.body);
        let crc = crc32c(crc32c(!0, &raw[..28]), &self.body);
        put_le32(&mut raw, 28, crc);
        raw.into()
    }
    /// The page, or `None` if these bytes are not one.
    pub fn decode(raw: &Bytes) -> Option<MetaPage> {
        let header = META_HEADER as usize;
        if raw.len() < header || get_le32(raw, 0) != MAGIC {
            return None;
        }
        let len = get_le32(raw, 24) as usize;
        let body = raw.get(header..header.checked_add(len)?)?;
        if get_le32(raw, 28) != crc32c(crc32c(!0, &raw[..28]), body) {
            return None;
        }
        let kind = match raw[4] {
            1 => MetaKind::Table,
            2 => MetaKind::Segment,
            3 => MetaKind::Root,
            4 => MetaKind::Log,
            _ => return None,
        };
        let body = raw.slice(header..header + len);
        Some(MetaPage {
            kind,
            seq: get_le64(raw, 8),
            index: get_le32(raw, 16),
            part: get_le32(raw, 20),
            body,
        })
    }
}

fn encode_block(info: &BlockInfo) -> [u8; BLOCK_ENTRY as usize] {
    let mut raw = [0; BLOCK_ENTRY as usize];
    raw[0] = match info.state {
        State::Free => 0,
        State::Open => 1,
        State::Closed => 2,
        State::Bad => 3,
        State::Meta => 4,
    };
    raw[1] = u8::from(info.failing);
    put_le32(&mut raw, 4, info.filled);
    put_le32(&mut raw, 8, info.erases);
    raw
}

/// State, rows filled, erases and the failing mark in a block's entry of the table.
pub(crate) fn decode_block(raw: &[u8]) -> Option<(State, u32, u32, bool)> {
    let state = match raw[0] {
        0 => State::Free,
        1 => State::Open,
        2 => State::Closed,
        3 => State::Bad,
        4 => State::Meta,
        _ => return None,
    };
    Some((state, get_le32(raw, 4), get_le32(raw, 8), raw[1] != 0))
}

impl Ftl {
    /// Bytes of content that a page of an area takes.
    pub(crate) fn meta_room(&self) -> usize {
        self.nand.geometry().page_bytes as usize - META_HEADER as usize
    }
    pub(crate) fn log_page_records(&self) -> usize {
        self.meta_room() / TRIM_BYTES
    }
    /// Blocks that may be opened between two checkpoints; large maps are written less often.
    pub(crate) fn checkpoint_every(&self) -> u32 {
        self.config.checkpoint_blocks.max(self.layout.area * 16)
    }
    /// The blocks of an area, 0 or 1.
    pub(crate) fn area(&self, which: u32) -> std::ops::Range<u32> {
        which * self.layout.area..(which + 1) * self.layout.area
    }
    /// Writes pending records into the log, or a new checkpoint if they do not fit there
    /// (hazards-R23). Owners whose slots are in memory stay pending, and so do the slots' old
    /// places (ftl-I2).
    pub(crate) fn write_log(&mut self, now: Time) -> Result<(), FtlError> {
        let owners = self.owners_to_log();
        if self.log.pending.is_empty() && self.log.batches.is_empty() && owners.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::new(self.meta_room());
        writer.trims(self.log.pending.iter().map(|(trim, _)| *trim));
        for batch in &self.log.batches {
            writer.batch(batch);
        }
        if !owners.is_empty() {
            self.version += 1;
            writer.owners(self.version, &owners);
        }
        let mut start = now.max(self.log.root_end).max(self.group.not_before);
        // ftl-I3: a record names slots whose programs have ended (hazards-R2).
        let names_slots = !self.log.batches.is_empty() || !owners.is_empty();
        if names_slots && !self.mutant(Mutant::PairBeforeSource) {
            start = start.max(self.evidence_end);
        }
        let fits = writer.pages.len() as u64 <= self.log_room();
        if !fits && self.mutant(Mutant::LogFullDrops) {
            self.clear_pending();
            return Ok(());
        }
        for (trims, body) in writer.pages {
            let page = self.meta_page(MetaKind::Log, trims, body);
            let Some(end) = fits.then(|| self.append_meta(start, page)).flatten() else {
                return self.checkpoint(now);
            };
            self.host_end = self.host_end.max(end);
            self.note_evidence(end);
            if names_slots {
                self.log.batch_end = self.log.batch_end.max(end);
            }
        }
        self.log.pending.clear();
        self.log.batches.clear();
        self.stats.owner_records += owners.len() as u64;
        for owner in owners {
            self.log.owners.remove(&owner.lpn);
        }
        Ok(())
    }
    /// Records for the owners whose moved slot is on flash and whose unit the slot's tag does not
    /// name. Owners that the tag names need no record.
    fn owners_to_log(&mut self) -> Vec<OwnerRecord> {
        let mut records = Vec::new();
        let mut done = Vec::new();
        for lpn in self.log.owners.keys().copied() {
            let Some(slot) = self.slot_of(lpn) else {
                continue;
            };
            if self.buffered(slot).is_some() {
                continue;
            }
            let listed = self.owners.of(slot).unwrap_or_default();
            match listed.iter().find(|o| o.lpn == lpn) {
                Some(owner) => records.push(OwnerRecord {
                    lpn,
                    slot,
                    version: owner.version,
                }),
                None => done.push(lpn),
            }
        }
        for lpn in done {
            self.log.owners.remove(&lpn);
        }
        records
    }
    fn clear_pending(&mut self) {
        self.log.pending.clear();
        self.log.batches.clear();
        self.log.owners.clear();
    }
    /// Pages that the log has left.
    fn log_room(&self) -> u64 {
        let width = self.log.stripe.len() as u64;
        let all = width * u64::from(self.nand.geometry().pages_per_block);
        all.saturating_sub(self.log.index.into())
    }
    /// Writes a checkpoint if many blocks were opened since the last one, because their number
    /// bounds recovery.
    pub(crate) fn checkpoint_if_due(&mut self, now: Time) -> Result<(), FtlError> {
        match self.opened >= self.checkpoint_every() {
            true => self.checkpoint(now),
            false => Ok(()),
        }
    }
    /// Writes the whole map into the other area. Recovery then need not look at blocks opened, and
    /// TRIMs made, before.
    pub(crate) fn checkpoint(&mut self, now: Time) -> Result<(), FtlError> {
        self.empty_buffers(now)?;
        self.close_pairs(now, true)?;
        let version = self.version;
        let batches = !self.log.batches.is_empty();
        self.stats.checkpoints += 1;
        // The area to write is that of the older checkpoint; the current root is durable before
        // that area is erased (ftl-I5).
        let start = now.max(self.log.root_end);
        for _ in 0..=self.layout.area {
            if let Some(end) = self.try_checkpoint(start) {
                self.log.root_end = end;
                self.host_end = self.host_end.max(end);
                self.note_evidence(end);
                self.opened = 0;
                // Everything that was pending is in the map, including the owners of slots.
                self.clear_pending();
                if batches {
                    self.log.batch_end = self.log.batch_end.max(end);
                }
                self.log.version = version;
                self.owners.prune();
                self.group_after_checkpoint();
                return Ok(());
            }
        }
        Err(self.end_of_life("the blocks that hold the map are worn out"))
    }
    /// One attempt; `None` if a block failed and the area must be started again without it.
    fn try_checkpoint(&mut self, start: Time) -> Option<Time> {
        let old = self.log.clone();
        self.log.seq = old.seq + 1;
        self.log.index = 0;
        self.log.stripe.clear();
        let area = self.area((self.log.seq % 2) as u32);
        self.nand.because(Cause::Map);
        for block in area
            .filter(|b| !self.nand.is_bad(BlockId(*b)))
            .collect::<Vec<_>>()
        {
            match broken_rules_panic(self.nand.erase(start, BlockId(block))) {
                Ok(_) => self.log.stripe.push(block),
                Err(_) => self.nand.mark_bad(BlockId(block)),
            }
        }
        let done = self.write_pages(start);
        if done.is_none() {
            self.log = old;
        }
        done
    }
    fn write_pages(&mut self, start: Time) -> Option<Time> {
        let mut end = start;
        let per_page = self.meta_room() / BLOCK_ENTRY as usize;
        let table: Vec<Vec<u8>> = self
            .blocks
            .chunks(per_page)
            .map(|c| c.iter().flat_map(encode_block).collect())
            .collect();
        for (part, body) in table.into_iter().enumerate() {
            let page = self.meta_page(MetaKind::Table, part as u32, body);
            end = end.max(self.append_meta(start, page)?);
        }
        let per_page = self.meta_room() / 4;
        for part in 0..(self.layout.units as usize).div_ceil(per_page) {
            let range = part * per_page..((part + 1) * per_page).min(self.layout.units as usize);
            if let Some(body) = self.segment(range) {
                let page = self.meta_page(MetaKind::Segment, part as u32, body);
                end = end.max(self.append_meta(start, page)?);
            }
        }
        let mut root = vec![0; ROOT_BYTES];
        put_le64(&mut root, 0, self.version);
        put_le32(&mut root, 8, self.log.index);
        put_le32(&mut root, 12, self.layout.units);
        put_le32(&mut root, 16, self.layout.unit_bytes);
        put_le32(&mut root, 20, self.layout.blocks);
        put_le32(&mut root, 24, self.layout.slots_per_block);
        put_le32(&mut root, 28, self.layout.area);
        put_le32(&mut root, 32, self.layout.slc_blocks);
        put_le32(&mut root, 36, self.layout.slc_rows);
        put_le32(&mut root, 40, self.format);
        // ftl-I3: the root vouches for every program before it, so its own program starts when they
        // have ended.
        let start = end.max(self.evidence_end);
        if !self.may_be_unstable() {
            let page = self.meta_page(MetaKind::Root, 0, root);
            return self.append_meta(start, page);
        }
        let seal = self.meta_place(self.log.index + 1)?;
        root.extend_from_slice(&seal.block.0.to_le_bytes());
        root.extend_from_slice(&seal.page.to_le_bytes());
        let page = self.meta_page(MetaKind::Root, 0, root.clone());
        let end = self.append_meta(start, page)?;
        let page = self.meta_page(MetaKind::Root, 0, root);
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
        match *self.l2p.get(lpn as usize) {
            ppn if ppn < LOST
                && *self.p2l.get(ppn as usize) != lpn
                && self.mutant(Mutant::CheckpointOneOwner) =>
            {
                NONE
            }
            ppn => ppn,
        }
    }
    fn meta_page(&self, kind: MetaKind, part: u32, body: Vec<u8>) -> MetaPage {
        MetaPage {
            kind,
            seq: self.log.seq,
            index: self.log.index,
            part,
            body: body.into(),
        }
    }
    /// Where a page of the current area lies; `None`: beyond its end.
    fn meta_place(&self, index: u32) -> Option<PageAddr> {
        let width = self.log.stripe.len() as u32;
        let page = index.checked_div(width)?;
        (page < self.layout.meta_pages).then(|| PageAddr {
            block: BlockId(self.log.stripe[(index % width) as usize]),
            page,
        })
    }
    /// Programs the next page of the current area; `None` if it is full or the block failed.
    fn append_meta(&mut self, now: Time, page: MetaPage) -> Option<Time> {
        let at = self.meta_place(self.log.index)?;
        let block = at.block;
        // The block failed before, and the checkpoint that was to follow could not be written.
        if self.nand.is_bad(block) {
            return None;
        }
        self.stats.map_programs += 1;
        self.stats.log_programs += u64::from(page.kind == MetaKind::Log);
        let cause = match page.kind {
            MetaKind::Log => Cause::Log,
            _ => Cause::Map,
        };
        self.stats.by_cause.add(cause, 1);
        self.nand.because(cause);
        match broken_rules_panic(self.nand.program(
            now,
            at,
            Page::new(vec![page.encode()], Bytes::new()),
        )) {
            Ok(span) => {
                self.log.index += 1;
                Some(span.end)
            }
            Err(_) => {
                self.nand.mark_bad(block);
                None
            }
        }
    }
}
