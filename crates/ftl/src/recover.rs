//! From chips to a running FTL: formatting, and recovery after a power cut.
//!
//! | step | what |
//! |---|---|
//! | 1 | read both map areas; choose the newest checkpoint whose pages are all there |
//! | 2 | load its block table and map: state at version C |
//! | 3 | read the first tag of every data block: opened since C, or open at C? |
//! | 4 | of those blocks read all tags up to the first erased row; units behind a hole of the newest group are dropped (I11) |
//! | 5 | read the TRIM records behind the root |
//! | 6 | fold: per unit the greatest (birth, program sequence) above C wins over the map; TRIMs take part by version (I4) |
//! | 7 | rebuild P2L and counts; open blocks are closed for good |
//! | 8 | write a fresh checkpoint into the other area before the first write |
//!
//! Steps 1 to 7 write nothing; a cut in step 8 leaves the older root valid.

use crate::config::NONE;
use crate::core::{Ftl, FtlError, State};
use crate::meta::{MetaKind, MetaPage, ROOT_BYTES, Trim, decode_block};
use crate::tag::Kind;
use crate::{Config, group, tag};
use base::Time;
use base::bytes::{get_le32, get_le64};
use nand::{BlockId, Cell, Nand, PageAddr};
use std::collections::{BTreeMap, BTreeSet};

type Pages = BTreeMap<u64, BTreeMap<u32, MetaPage>>;

/// The newest place found for a unit.
#[derive(Clone, Copy)]
struct Candidate {
    birth: u64,
    prog: u64,
    ppn: u32,
}

impl Ftl {
    /// Makes an empty device of whatever the chips hold. Use [`Ftl::settle`] to let its time pass.
    ///
    /// # Errors
    /// The configuration does not fit the chips, or they are worn out.
    pub fn format(nand: Nand, config: Config) -> Result<Ftl, FtlError> {
        let mut ftl = Ftl::bare(nand, config)?;
        for block in (0..2 * ftl.layout.area).map(BlockId) {
            let used = !matches!(ftl.nand.peek(PageAddr { block, page: 0 }), Cell::Erased);
            if used && !ftl.nand.is_bad(block) && ftl.nand.erase(Time(0), block).is_err() {
                ftl.nand.mark_bad(block);
            }
        }
        ftl.check_life();
        ftl.checkpoint(Time(0))?;
        Ok(ftl)
    }
    /// Starts on chips that an FTL of the same configuration has left, in whatever state the power cut found them. Answers with
    /// the FTL and the time at which it is ready.
    ///
    /// # Errors
    /// No valid map, a map of another layout, or one that contradicts itself.
    pub fn mount(nand: Nand, config: Config, now: Time) -> Result<(Ftl, Time), FtlError> {
        let mut ftl = Ftl::bare(nand, config)?;
        let (pages, mut ready) = ftl.read_areas(now);
        let (seq, root) = newest_root(&pages)?;
        let found = &pages[&seq];
        let mut open = BTreeSet::new();
        let checkpoint = ftl.load(found, root, &mut open)?;
        ftl.log.seq = seq;
        let (rows, scanned) = ftl.scan(now, checkpoint, &open);
        ready = ready.max(scanned);
        let log = found.range(root..).filter(|(_, p)| p.kind == MetaKind::Log);
        let trims = log.flat_map(|(_, p)| p.trims());
        let trims: Vec<Trim> = trims.filter(|t| t.version > checkpoint).collect();
        let candidates = ftl.candidates(&rows, checkpoint, &trims);
        ftl.fold(candidates, trims)?;
        ftl.rebuild()?;
        ftl.check_life();
        match ftl.checkpoint(ready) {
            // A worn-out device can still be read.
            Ok(()) | Err(FtlError::ReadOnly(_)) => {}
            Err(e) => return Err(e),
        }
        let ready = ready.max(ftl.log.root_end);
        Ok((ftl, ready))
    }
    /// Step 1: every page of both areas that can be read, by checkpoint number and index.
    fn read_areas(&mut self, now: Time) -> (Pages, Time) {
        let (mut pages, mut end) = (Pages::new(), now);
        for block in (0..2 * self.layout.area).map(BlockId) {
            for page in 0..self.nand.geometry().pages_per_block {
                let (cell, read) = self
                    .nand
                    .read(now, PageAddr { block, page }, self.meta_room());
                end = end.max(read);
                match cell {
                    Cell::Erased => break,
                    Cell::Torn | Cell::SpareOnly(_) => {}
                    Cell::Written(raw) => {
                        if let Some(page) = raw.data().first().and_then(MetaPage::decode) {
                            pages.entry(page.seq).or_default().insert(page.index, page);
                        }
                    }
                }
            }
        }
        (pages, end)
    }
    /// Step 2: block table and map of a checkpoint. Collects the blocks that were open; answers its version C.
    fn load(
        &mut self,
        pages: &BTreeMap<u32, MetaPage>,
        root: u32,
        open: &mut BTreeSet<u32>,
    ) -> Result<u64, FtlError> {
        let body = &pages[&root].body;
        let made_for = [12, 16, 20, 24, 28].map(|at| get_le32(body, at));
        let l = self.layout;
        let slc = [32, 36].map(|at| get_le32(body, at));
        if slc != [l.slc_blocks, l.slc_rows] {
            let what = format!("the SLC area of the medium has {} blocks", slc[0]);
            return Err(FtlError::NotFormatted(what));
        }
        if made_for != [l.units, l.unit_bytes, l.blocks, l.slots_per_block, l.area] {
            let what = format!(
                "the medium has {} units of {} bytes on {} blocks",
                made_for[0], made_for[1], made_for[2]
            );
            return Err(FtlError::NotFormatted(what));
        }
        self.version = get_le64(body, 0);
        let per_table = self.meta_room() / crate::config::BLOCK_ENTRY as usize;
        let per_segment = self.meta_room() / 4;
        for page in pages.range(..root).map(|(_, p)| p) {
            match page.kind {
                MetaKind::Table => {
                    self.load_table(page.part as usize * per_table, &page.body, open)?
                }
                MetaKind::Segment => {
                    self.load_segment(page.part as usize * per_segment, &page.body)?
                }
                MetaKind::Root | MetaKind::Log => {
                    return Err(FtlError::Corrupt("a root inside a checkpoint".into()));
                }
            }
        }
        Ok(self.version)
    }
    fn load_table(
        &mut self,
        first: usize,
        body: &[u8],
        open: &mut BTreeSet<u32>,
    ) -> Result<(), FtlError> {
        for (i, raw) in body
            .chunks_exact(crate::config::BLOCK_ENTRY as usize)
            .enumerate()
        {
            let most = self.layout.rows_in((first + i) as u32);
            let entry = decode_block(raw).filter(|(_, filled, ..)| *filled <= most);
            let (Some((state, filled, erases, _)), Some(info)) =
                (entry, self.blocks.get_mut(first + i))
            else {
                return Err(FtlError::Corrupt(format!(
                    "the checkpoint's entry of block {}",
                    first + i
                )));
            };
            (info.filled, info.erases) = (filled, erases);
            if state == State::Open {
                open.insert((first + i) as u32);
            }
        }
        Ok(())
    }
    fn load_segment(&mut self, first: usize, body: &[u8]) -> Result<(), FtlError> {
        let slots = self.layout.blocks * self.layout.slots_per_block;
        for (i, raw) in body.chunks_exact(4).enumerate() {
            let (lpn, ppn) = (first + i, get_le32(raw, 0));
            if ppn == NONE {
                continue;
            }
            let (block, row, _) = self.layout.place(ppn);
            if lpn >= self.layout.units as usize
                || ppn >= slots
                || self.layout.is_meta(block)
                || row >= self.layout.rows_in(block)
            {
                return Err(FtlError::Corrupt(format!(
                    "the checkpoint maps unit {lpn} to slot {ppn}"
                )));
            }
            self.l2p.set(lpn, ppn);
        }
        Ok(())
    }
    /// Steps 3 and 4: the rows that may hold units programmed after version `checkpoint`.
    fn scan(
        &mut self,
        now: Time,
        checkpoint: u64,
        open: &BTreeSet<u32>,
    ) -> (Vec<(u32, u32)>, Time) {
        let (mut found, mut end) = (Vec::new(), now);
        for block in 2 * self.layout.area..self.layout.blocks {
            let (first, read) = self
                .nand
                .read(now, self.layout.page(block, 0), tag::TAG_BYTES);
            end = end.max(read);
            let info = self.blocks[block as usize];
            let from = match first {
                Cell::Erased => info.filled,
                Cell::Torn | Cell::SpareOnly(_) => 0,
                Cell::Written(_) => match self.fetch_tag(block, 0, 0) {
                    Some(t) if t.prog <= checkpoint && !open.contains(&block) => continue,
                    Some(t) if t.prog <= checkpoint => info.filled,
                    _ => 0,
                },
            };
            for row in from..self.layout.rows_in(block) {
                let (cell, read) =
                    self.nand
                        .read(now, self.layout.page(block, row), tag::TAG_BYTES);
                end = end.max(read);
                if matches!(cell, Cell::Erased) {
                    break;
                }
                self.blocks[block as usize].filled = row + 1;
                found.push((block, row));
            }
        }
        (found, end)
    }
    /// The newest place of each unit in these rows, without what an incomplete group must not leave.
    fn candidates(
        &mut self,
        rows: &[(u32, u32)],
        checkpoint: u64,
        trims: &[Trim],
    ) -> BTreeMap<u32, Candidate> {
        let mut groups = group::Found::default();
        for (block, row) in rows {
            for slot in 0..self.layout.slots_per_row {
                if let Some(tag) = self.fetch_tag(*block, *row, slot) {
                    self.version = self.version.max(tag.prog).max(tag.birth);
                    let info = &mut self.blocks[*block as usize];
                    info.erases = info.erases.max(tag.erases);
                    if tag.prog > checkpoint {
                        groups.note(tag.group, tag.mark, tag.prog);
                    }
                }
            }
        }
        trims.iter().for_each(|t| groups.note_trim(t.version));
        self.group = group::Group::after(groups.newest());
        let mut found = BTreeMap::new();
        for (block, row) in rows {
            self.scan_row(*block, *row, checkpoint, &groups, &mut found);
        }
        found
    }
    fn scan_row(
        &self,
        block: u32,
        row: u32,
        checkpoint: u64,
        groups: &group::Found,
        found: &mut BTreeMap<u32, Candidate>,
    ) {
        for slot in 0..self.layout.slots_per_row {
            let Some(tag) = self.fetch_tag(block, row, slot) else {
                continue;
            };
            let old = tag.prog <= checkpoint || tag.lpn >= self.layout.units;
            if tag.kind == Kind::Pad || old || !groups.counts(tag.group, tag.mark) {
                continue;
            }
            let new = Candidate {
                birth: tag.birth,
                prog: tag.prog,
                ppn: self.layout.ppn(block, row, slot),
            };
            let best = found.entry(tag.lpn).or_insert(new);
            if (new.birth, new.prog) > (best.birth, best.prog) {
                *best = new;
            }
        }
    }
    fn fetch_tag(&self, block: u32, row: u32, slot: u32) -> Option<tag::Tag> {
        self.fetch(self.layout.ppn(block, row, slot))
            .map(|(tag, _)| tag)
    }
    /// Step 6.
    fn fold(
        &mut self,
        mut candidates: BTreeMap<u32, Candidate>,
        trims: Vec<Trim>,
    ) -> Result<(), FtlError> {
        for trim in trims {
            let end = trim
                .first
                .checked_add(trim.count)
                .filter(|end| *end <= self.layout.units);
            let Some(end) = end else {
                return Err(FtlError::Corrupt(format!(
                    "a TRIM of {} units at {}",
                    trim.count, trim.first
                )));
            };
            self.version = self.version.max(trim.version);
            for lpn in trim.first..end {
                if *self.l2p.get(lpn as usize) != NONE {
                    self.l2p.set(lpn as usize, NONE);
                }
            }
            let older = candidates
                .range_mut(trim.first..end)
                .filter(|(_, c)| c.birth < trim.version);
            older.for_each(|(_, c)| c.ppn = NONE);
        }
        for (lpn, candidate) in candidates {
            self.l2p.set(lpn as usize, candidate.ppn);
        }
        Ok(())
    }
    /// Step 7.
    fn rebuild(&mut self) -> Result<(), FtlError> {
        let mapped: Vec<(usize, u32)> = self
            .l2p
            .iter_present()
            .filter(|(_, p)| **p != NONE)
            .map(|(l, p)| (l, *p))
            .collect();
        for (lpn, ppn) in mapped {
            if *self.p2l.get(ppn as usize) != NONE {
                return Err(FtlError::Corrupt(format!(
                    "units {} and {lpn} share a slot",
                    self.p2l.get(ppn as usize)
                )));
            }
            self.p2l.set(ppn as usize, lpn as u32);
            self.blocks[self.layout.place(ppn).0 as usize].valid += 1;
        }
        for (i, info) in self.blocks.iter_mut().enumerate() {
            info.freed_at = 0;
            info.state = match info.state {
                State::Meta => State::Meta,
                _ if info.valid > 0 => State::Closed,
                State::Bad => State::Bad,
                _ => State::Free,
            };
            info.failing = info.state == State::Closed && self.nand.is_bad(BlockId(i as u32));
        }
        self.count_pools();
        Ok(())
    }
}

/// The newest checkpoint number whose pages are all there, and the index of its root.
fn newest_root(pages: &Pages) -> Result<(u64, u32), FtlError> {
    for (seq, found) in pages.iter().rev() {
        let Some((index, root)) = found.iter().find(|(_, p)| p.kind == MetaKind::Root) else {
            continue;
        };
        let complete = found.range(..*index).count() == *index as usize;
        if complete && root.body.len() >= ROOT_BYTES && get_le32(&root.body, 8) == *index {
            return Ok((*seq, *index));
        }
    }
    Err(FtlError::NotFormatted(
        "the medium holds no complete map".into(),
    ))
}
