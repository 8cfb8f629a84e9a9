//! Starting an FTL on chips: formatting, and recovery after a power cut.
//!
//! | step | what |
//! |---|---|
//! | 1 | read both map areas; choose the newest checkpoint whose pages are all there and whose root counts (meta-I22) |
//! | 2 | load its block table and map: state at version C |
//! | 3 | read the first tag of every data block: opened since C, or open at C? |
//! | 4 | of those blocks read all tags up to the first erased row, and suspects twice (verify-I21); units behind a hole of the newest group are dropped (group-I11) |
//! | 5 | read the records behind the root: TRIMs, whole batches (remap-I13), owners of moved slots |
//! | 6 | fold: per unit the greatest (birth, program sequence) above C wins over the map; records take part by version (ftl-I4). So a pair whose slot was moved loses to the copy |
//! | 7 | a mapping into a block that was opened after it was written down is lost (remap-I15); rebuild P2L, owners and counts; open blocks are closed for good |
//! | 8 | program the content of suspects anew (verify-I21), then write a fresh checkpoint into the other area, both before the host's first write; a device that can do so no more is mounted read-only |
//!
//! Steps 1 to 7 write nothing; a cut in step 8 leaves the older root valid. The reads are bounded:
//! see [`Ftl::recovery_reads_max`].

use super::owners::Owner;
use super::{Ftl, FtlError, group};
use crate::config::{BLOCK_ENTRY, LOST, NONE};
use crate::pages::{MetaKind, MetaPage, ROOT_BYTES, ROOT_BYTES_1, SEAL_BYTES, decode_block};
use crate::tag::{self, Kind};
use crate::types::State;
use crate::{Config, records};
use base::bytes::{get_le32, get_le64};
use base::{Mutant, Time};
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
    /// Makes an empty device of chips with any content. Use [`Ftl::settle`] to let the time of this
    /// pass.
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
    /// Starts on chips that an FTL of the same configuration has left, in whatever state the power
    /// cut found them. Answers the FTL and the time at which it is ready.
    ///
    /// # Errors
    /// There is no valid map, it is of another layout, or it contradicts itself.
    pub fn mount(nand: Nand, config: Config, now: Time) -> Result<(Ftl, Time), FtlError> {
        Ftl::recover(Ftl::bare(nand, config)?, now)
    }
    /// Does what [`Ftl::mount`] does, with a deliberate mistake.
    ///
    /// # Errors
    /// As of [`Ftl::mount`].
    #[cfg(feature = "mutants")]
    pub fn mount_with(
        nand: Nand,
        config: Config,
        now: Time,
        mutant: Option<Mutant>,
    ) -> Result<(Ftl, Time), FtlError> {
        let mut ftl = Ftl::bare(nand, config)?;
        ftl.set_mutant(mutant);
        Ftl::recover(ftl, now)
    }
    fn recover(mut ftl: Ftl, now: Time) -> Result<(Ftl, Time), FtlError> {
        let (pages, mut ready) = ftl.read_areas(now);
        let (seq, root) = ftl.newest_root(&pages)?;
        let found = &pages[&seq];
        let mut open = BTreeSet::new();
        let checkpoint = ftl.load(found, root, &mut open)?;
        ftl.area
            .found(ftl.number_before_next(seq, &pages), checkpoint);
        let mut opened = vec![u64::MAX; ftl.layout.blocks as usize];
        let (rows, scanned) = ftl.scan(now, checkpoint, &open, &mut opened);
        let suspects = ftl.suspects(&rows, &open);
        ready = ready.max(ftl.read_suspects(scanned, &suspects));
        let log = found.range(root..).map(|(_, p)| p);
        let slots = ftl.layout.blocks * ftl.layout.slots_per_block;
        let log = log.filter(|p| p.kind == MetaKind::Log);
        let mut log = records::Found::read(log, ftl.layout.units, slots)?;
        // hazards-R3
        if !log.partial.is_empty() && ftl.mutant(Mutant::HalfBatch) {
            log.batches.append(&mut log.partial);
        }
        let candidates = ftl.candidates(&rows, checkpoint, &log, &mut opened);
        ftl.fold(candidates, &log, checkpoint, &opened);
        // hazards-R22
        if ftl.numbers.version() > checkpoint && ftl.mutant(Mutant::VersionRegresses) {
            ftl.numbers.restart(checkpoint);
        }
        ftl.rebuild();
        ftl.check_life();
        let moved = ftl.move_suspects(ready, &suspects);
        match moved.and_then(|()| ftl.checkpoint(ready)) {
            // A worn-out device can still be read, so the mount succeeds.
            Ok(()) | Err(FtlError::ReadOnly(_)) => {}
            Err(e) => return Err(e),
        }
        ftl.group.recovered();
        let ready = ftl.area.after_root(ready);
        Ok((ftl, ready))
    }
    /// The maximum of pages that recovery reads on chips of this layout, unless blocks fail between
    /// two checkpoints: both map areas, the first row of each block, and every row of the blocks
    /// that can have been opened since a checkpoint or were open at it.
    pub fn recovery_reads_max(&self) -> u64 {
        let l = &self.layout;
        let pages = u64::from(self.nand.geometry().pages_per_block);
        let areas = 2 * u64::from(l.area) * pages;
        let data = u64::from(l.blocks - 2 * l.area);
        let lanes = self.streams.lanes();
        // Between two checks of the count these are opened: the block of one host row, and those
        // for the copies of one victim. While the host is idle, collection opens blocks until
        // enough are free, at worst one for a gain of a sixteenth of a block; folding empties the
        // area.
        let idle =
            16 * u64::from(self.config.lanes + self.config.gc_slack) + u64::from(l.slc_blocks);
        let since = u64::from(self.checkpoint_every()) + 4 + 2 * lanes as u64 + idle;
        let rows = u64::from(l.rows_per_block) + self.suspect_reads_max();
        areas + (data + since.min(data) * rows) * u64::from(l.pages_per_row)
    }
    /// Step 1: every page of both areas that can be read, by checkpoint number and index.
    fn read_areas(&mut self, now: Time) -> (Pages, Time) {
        let (mut pages, mut end) = (Pages::new(), now);
        for block in (0..2 * self.layout.area).map(BlockId) {
            for page in 0..self.layout.meta_pages {
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
    /// Step 2: block table and map of a checkpoint. Collects the blocks that were open; answers its
    /// version C.
    fn load(
        &mut self,
        pages: &BTreeMap<u32, MetaPage>,
        root: u32,
        open: &mut BTreeSet<u32>,
    ) -> Result<u64, FtlError> {
        let body = &pages[&root].body;
        let format = match body.len() {
            ROOT_BYTES.. => get_le32(body, 40),
            _ => 1,
        };
        if format != self.area.format() {
            return Err(FtlError::NotFormatted(format!(
                "the medium holds a map of format {format}; this version reads format {}",
                self.area.format()
            )));
        }
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
        let version = get_le64(body, 0);
        self.numbers.restart(version);
        let per_table = self.meta_room() / BLOCK_ENTRY as usize;
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
        Ok(version)
    }
    fn load_table(
        &mut self,
        first: usize,
        body: &[u8],
        open: &mut BTreeSet<u32>,
    ) -> Result<(), FtlError> {
        for (block, raw) in (first as u32..).zip(body.chunks_exact(BLOCK_ENTRY as usize)) {
            let entry = decode_block(raw);
            let Some((state, ..)) =
                entry.filter(|(_, filled, erases, _)| self.blocks.load(block, *filled, *erases))
            else {
                return Err(FtlError::Corrupt(format!(
                    "the checkpoint's entry of block {block}"
                )));
            };
            if state == State::Open {
                open.insert(block);
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
            if ppn == LOST && lpn < self.layout.units as usize {
                self.map.point(lpn as u32, LOST);
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
            self.map.point(lpn as u32, ppn);
        }
        Ok(())
    }
    /// Steps 3 and 4: finds the rows that may hold units programmed after version `checkpoint`.
    /// Notes in `opened`, for each block, a program that is as old as any that was read.
    fn scan(
        &mut self,
        now: Time,
        checkpoint: u64,
        open: &BTreeSet<u32>,
        opened: &mut [u64],
    ) -> (Vec<(u32, u32)>, Time) {
        let (mut found, mut end) = (Vec::new(), now);
        for block in 2 * self.layout.area..self.layout.blocks {
            let (erased, read) = self.read_tags(now, block, 0);
            end = end.max(read);
            let filled = self.blocks.get(block).filled;
            let first = self.fetch_tag(block, 0, 0);
            opened[block as usize] = first.map_or(u64::MAX, |t| t.prog);
            let from = match first {
                _ if erased => filled,
                Some(t) if t.prog <= checkpoint && !open.contains(&block) => continue,
                Some(t) if t.prog <= checkpoint => filled,
                _ => 0,
            };
            for row in from..self.layout.rows_in(block) {
                let (erased, read) = match row {
                    0 => (erased, end),
                    _ => self.read_tags(now, block, row),
                };
                end = end.max(read);
                if erased {
                    break;
                }
                self.blocks.found_rows(block, row + 1);
                found.push((block, row));
            }
        }
        (found, end)
    }
    /// Reads the spare areas of a row, or only the first one if the row is erased. Answers whether
    /// it is erased, and when the read ends.
    fn read_tags(&mut self, now: Time, block: u32, row: u32) -> (bool, Time) {
        let first = self.layout.page(block, row);
        let (cell, mut end) = self.nand.read(now, first, tag::TAG_BYTES);
        if matches!(cell, Cell::Erased) {
            return (true, end);
        }
        for i in 1..self.layout.pages_per_row {
            let page = first.page + i;
            end = self
                .nand
                .read(now, PageAddr { page, ..first }, tag::TAG_BYTES)
                .1;
        }
        (false, end)
    }
    /// The newest place of each unit in these rows and in the log, without units that an incomplete
    /// group must not leave.
    fn candidates(
        &mut self,
        rows: &[(u32, u32)],
        checkpoint: u64,
        log: &records::Found,
        opened: &mut [u64],
    ) -> BTreeMap<u32, Candidate> {
        let mut groups = group::Found::default();
        for (block, row) in rows {
            for slot in 0..self.layout.slots_per_row {
                if let Some(tag) = self.fetch_tag(*block, *row, slot) {
                    self.numbers.found(tag.prog.max(tag.birth));
                    self.blocks.found_erases(*block, tag.erases);
                    let opened = &mut opened[*block as usize];
                    *opened = tag.prog.min(*opened);
                    if tag.prog > checkpoint {
                        groups.note(tag.group, tag.mark, tag.prog);
                    }
                }
            }
        }
        self.numbers.found(log.newest);
        log.trims.iter().for_each(|t| groups.note_trim(t.version));
        log.batches.iter().for_each(|b| groups.note_trim(b.version));
        self.group.resume(&groups, self.may_be_unstable());
        let mut found = BTreeMap::new();
        for (block, row) in rows {
            self.scan_row(*block, *row, checkpoint, &groups, &mut found);
        }
        from_records(log, &mut found);
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
            offer(found, tag.lpn, new);
        }
    }
    /// Steps 6 and 7: computes the map. A mapping counts only if its block was opened before the
    /// mapping was written down (remap-I15).
    fn fold(
        &mut self,
        mut candidates: BTreeMap<u32, Candidate>,
        log: &records::Found,
        checkpoint: u64,
        opened: &[u64],
    ) {
        for trim in &log.trims {
            let range = trim.first..trim.first + trim.count;
            for lpn in range.clone() {
                if self.map.at(lpn) != NONE {
                    self.map.point(lpn, NONE);
                }
            }
            let older = candidates
                .range_mut(range)
                .filter(|(_, c)| c.birth < trim.version);
            older.for_each(|(_, c)| c.ppn = NONE);
        }
        let layout = self.layout;
        let there = |ppn: u32, since: u64| opened[layout.place(ppn).0 as usize] <= since;
        let gone = self.map.slots().filter(|(_, ppn)| !there(*ppn, checkpoint));
        let gone: Vec<u32> = gone.map(|(lpn, _)| lpn).collect();
        gone.into_iter().for_each(|lpn| self.map.point(lpn, LOST));
        for (lpn, c) in candidates {
            let lost = c.ppn != NONE && !there(c.ppn, c.prog);
            self.map.point(lpn, if lost { LOST } else { c.ppn });
        }
    }
    /// Step 7: computes what follows from the map. Units that share a slot are its owners
    /// (hazards-R7).
    fn rebuild(&mut self) {
        let mapped: Vec<(u32, u32)> = self.map.slots().collect();
        let mut shared: BTreeMap<u32, Vec<Owner>> = BTreeMap::new();
        let version = self.numbers.version();
        for (lpn, ppn) in mapped {
            let first = self.map.owner(ppn);
            if first != NONE {
                let list = shared.entry(ppn).or_insert_with(|| {
                    vec![Owner {
                        lpn: first,
                        version,
                    }]
                });
                list.push(Owner { lpn, version });
                continue;
            }
            self.map.own(ppn, lpn);
            self.blocks.gain(self.layout.place(ppn).0);
        }
        for (ppn, list) in shared {
            self.owners.set(ppn, list);
        }
        self.owners.recovered();
        self.blocks.recovered(|b| self.nand.is_bad(BlockId(b)));
    }
}

/// Keeps the place with the greater order of two places of a unit (ftl-I4).
fn offer(found: &mut BTreeMap<u32, Candidate>, lpn: u32, new: Candidate) {
    let best = found.entry(lpn).or_insert(new);
    if (new.birth, new.prog) > (best.birth, best.prog) {
        *best = new;
    }
}

/// The places that batches and moved slots name.
fn from_records(log: &records::Found, found: &mut BTreeMap<u32, Candidate>) {
    for batch in &log.batches {
        let (birth, prog) = (batch.version, batch.version);
        for pair in &batch.pairs {
            let ppn = pair.slot;
            offer(found, pair.home, Candidate { birth, prog, ppn });
            if batch.moves {
                let ppn = NONE;
                offer(found, pair.src, Candidate { birth, prog, ppn });
            }
        }
    }
    for (prog, owner) in &log.owners {
        let place = Candidate {
            birth: owner.version,
            prog: *prog,
            ppn: owner.slot,
        };
        offer(found, owner.lpn, place);
    }
}

impl Ftl {
    /// The number to count as the last checkpoint, chosen such that the next one goes into the area
    /// in which the root in use does not lie, and that no page of an earlier attempt has its
    /// number.
    fn number_before_next(&self, used: u64, pages: &Pages) -> u64 {
        let newest = pages.keys().next_back().copied().unwrap_or(used);
        match self.may_be_unstable() && newest > used {
            true => newest + (newest - used) % 2,
            false => used,
        }
    }
    /// True if the root was complete before the cut (meta-I22).
    fn is_sealed(&self, root: &MetaPage) -> bool {
        let Some((body, place)) = root.body.split_last_chunk::<SEAL_BYTES>() else {
            return true;
        };
        // hazards-R18
        if body.len() < ROOT_BYTES || self.mutant(Mutant::TrustLastPage) {
            return true;
        }
        let (block, page) = (get_le32(place, 0), get_le32(place, 4));
        let area = block < 2 * self.layout.area && page < self.layout.meta_pages;
        let block = BlockId(block);
        area && !matches!(self.nand.peek(PageAddr { block, page }), Cell::Erased)
    }
    /// The newest checkpoint number whose pages are all there, and the index of its root.
    fn newest_root(&self, pages: &Pages) -> Result<(u64, u32), FtlError> {
        for (seq, found) in pages.iter().rev() {
            let Some((index, root)) = found.iter().find(|(_, p)| p.kind == MetaKind::Root) else {
                continue;
            };
            let complete = found.range(..*index).count() == *index as usize && self.is_sealed(root);
            if complete && root.body.len() >= ROOT_BYTES_1 && get_le32(&root.body, 8) == *index {
                return Ok((*seq, *index));
            }
        }
        Err(FtlError::NotFormatted(
            "the medium holds no complete map".into(),
        ))
    }
}
