//! The FTL itself: the paths of write, read, trim and flush.

use crate::config::{LOST, NONE};
use crate::free::FreeBlocks;
use crate::group::Group;
use crate::meta::{Log, Trim};
use crate::owners::Owners;
use crate::slc::Pool;
use crate::tag::{self, Kind, Tag};
pub use crate::types::{FtlError, FtlStats, Programs, Quiet};
use crate::victim::Victims;
use crate::wear::Levelling;
use crate::{Config, Layout};
use base::{Bytes, CowVec, Mutant, Time, fill};
use nand::{Cell, Media, Nand, Operation, PageAddr};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Free,
    Open,
    Closed,
    Bad,
    Meta,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockInfo {
    pub state: State,
    /// Slots that hold the newest version of a unit.
    pub valid: u32,
    /// Erases so far.
    pub erases: u32,
    /// Rows programmed since the block was opened.
    pub filled: u32,
    /// Number of the accepted operation that took the last valid slot: the block may be erased once
    /// that operation is durable.
    pub freed_at: u64,
    /// True if a program in the block failed: the block is emptied, then retired.
    pub failing: bool,
}

/// A unit in a row buffer.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Unit number; `NONE`: the unit was dropped meanwhile.
    pub lpn: u32,
    pub data: Bytes,
    pub lost: bool,
    /// Version of a copied unit; `None`: a host write, which takes its version when it is
    /// programmed.
    pub birth: Option<u64>,
    /// Number of the operation that brought the unit; 0: not given yet. A unit that is put again
    /// after a failed program keeps the number.
    pub accept: u64,
    /// True if the host wrote the unit: a flush waits for it, in whichever row it is.
    pub host: bool,
    /// Ordered group of the unit, and its place there.
    pub member: Option<(u32, u16)>,
}

/// A row being filled.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub block: u32,
    pub row: u32,
    pub entries: Vec<Entry>,
    /// When the last unit copied into the row has been read.
    pub ready: Time,
}

/// Where units of one kind are appended.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    pub lanes: Vec<Option<u32>>,
    pub turn: usize,
    pub row: Option<Row>,
}

/// Stream of host writes.
pub(crate) const HOST: usize = 0;
/// Stream of garbage collection: cold data.
pub(crate) const GC: usize = 1;
/// Stream of units that leave the SLC area.
pub(crate) const FOLD: usize = 2;
/// Stream of a journal's control blocks; see `streams`.
pub(crate) const JOURNAL: usize = 3;
/// Number of streams.
pub(crate) const STREAMS: usize = 4;

/// A flash translation layer over powered chips.
#[derive(Clone)]
pub struct Ftl {
    pub(crate) nand: Nand,
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    /// Slot of each unit, followed by as many numbers again for the copies of a batch that is being
    /// made.
    pub(crate) l2p: CowVec<u32, 1024>,
    pub(crate) p2l: CowVec<u32, 1024>,
    pub(crate) blocks: Vec<BlockInfo>,
    /// Ordinary blocks, and those of the SLC area.
    pub(crate) pools: [Pool; 2],
    pub(crate) free: FreeBlocks,
    pub(crate) victims: Victims,
    pub(crate) levelling: Levelling,
    pub(crate) streams: [Stream; STREAMS],
    /// The last number that was given out as a version or program sequence.
    pub(crate) version: u64,
    /// Operations accepted so far.
    pub(crate) accepted: u64,
    /// When the last program that may be evidence for an erase ends.
    pub(crate) evidence_end: Time,
    pub(crate) evidence: crate::evidence::Evidence,
    /// When the last program that a flush waits for ends.
    pub(crate) host_end: Time,
    pub(crate) log: Log,
    pub(crate) owners: Owners,
    /// Version of the format of what is written to flash.
    pub(crate) format: u32,
    /// Blocks opened since the last checkpoint.
    pub(crate) opened: u32,
    /// Rows whose program failed and whose units are not in another row yet.
    pub(crate) failed: Vec<Row>,
    /// The ordered group being written, or the last one.
    pub(crate) group: Group,
    /// True while a block is being opened for the cold stream: nothing can be put there now.
    pub(crate) opening_cold: bool,
    pub(crate) read_only: Option<String>,
    pub(crate) stats: FtlStats,
    pub(crate) switch: crate::mutant::Switch,
    /// Rows whose cells will be programmed again (pairs-I20); empty on parts with one bit per cell.
    pub(crate) pairs: Vec<crate::pairs::OpenRow>,
    /// Rows to be scrubbed: block, row.
    pub(crate) scrub: std::collections::BTreeSet<(u32, u32)>,
    /// Blocks to be scrubbed, and from which row on.
    pub(crate) scrub_blocks: std::collections::BTreeMap<u32, u32>,
}

impl Ftl {
    pub(crate) fn bare(mut nand: Nand, config: Config) -> Result<Ftl, FtlError> {
        let layout = Layout::new(&config, nand.geometry()).map_err(FtlError::Config)?;
        if let Some(slc) = &config.slc {
            nand.set_slc(slc.mode(&layout));
        }
        let fresh = |b: u32| BlockInfo {
            state: match layout.is_meta(b) {
                true => State::Meta,
                false if nand.is_bad(nand::BlockId(b)) => State::Bad,
                false => State::Free,
            },
            valid: 0,
            erases: 0,
            filled: 0,
            freed_at: 0,
            failing: false,
        };
        let blocks: Vec<BlockInfo> = (0..layout.blocks).map(fresh).collect();
        let stream = |lanes| Stream {
            lanes: vec![None; lanes],
            turn: 0,
            row: None,
        };
        let (own, slots) = (config.housekeeping, layout.slots_per_block);
        let mut ftl = Ftl {
            free: FreeBlocks::new(nand.geometry().dies()),
            victims: Victims::new(own.policy, own.seed, layout.blocks, slots),
            levelling: Levelling::new(own),
            l2p: CowVec::new(2 * layout.units as usize, NONE),
            p2l: CowVec::new((layout.blocks * layout.slots_per_block) as usize, NONE),
            blocks,
            streams: [
                stream(config.lanes as usize),
                stream(1),
                stream(config.slc.map_or(0, |_| config.lanes as usize)),
                stream(usize::from(own.journal_stream)),
            ],
            pools: [Pool::default(); 2],
            version: 0,
            accepted: 0,
            evidence_end: Time(0),
            evidence: Default::default(),
            host_end: Time(0),
            log: Log::default(),
            owners: Owners::new((layout.units / 4).max(64)),
            format: crate::meta::FORMAT,
            opened: 0,
            failed: Vec::new(),
            group: Group::default(),
            opening_cold: false,
            read_only: None,
            stats: FtlStats::default(),
            switch: Default::default(),
            pairs: Vec::new(),
            scrub: Default::default(),
            scrub_blocks: Default::default(),
            nand,
            config,
            layout,
        };
        ftl.unpair_map_areas();
        ftl.count_pools();
        Ok(ftl)
    }
    /// Sizes and addresses.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Data bytes of a NAND page.
    pub fn page_bytes(&self) -> u32 {
        self.nand.geometry().page_bytes
    }
    /// Counters since the FTL was made.
    pub fn stats(&self) -> FtlStats {
        let nand = self.nand.stats();
        FtlStats {
            reads: nand.reads,
            programs: nand.programs,
            erases: nand.erases,
            ..self.stats
        }
    }
    /// The reason why the device takes no more writes, if it does not.
    pub fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }
    /// Tells that no cut will come before `now`, so that older undo records can be dropped.
    pub fn advance(&mut self, now: Time) {
        self.nand.advance(now);
        self.forget_evidence(now);
    }
    /// Cuts the power and answers what the chips hold then. The FTL does nothing at the cut.
    pub fn power_off(self, at: Time, seed: u64) -> Media {
        self.nand.power_off(at, seed)
    }
    /// With `on`, keeps every program and erase from now on for [`Ftl::take_operations`]; else
    /// stops keeping them.
    pub fn keep_operations(&mut self, on: bool) {
        self.nand.keep_operations(on);
    }
    /// The programs and erases since the last call, in the order of issue.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.nand.take_operations()
    }
    /// Operations on the chips that a cut could still undo or tear.
    pub fn undo_len(&self) -> usize {
        self.nand.undo_len()
    }
    /// Access to the chips, for tests that make them fail.
    pub fn nand_mut(&mut self) -> &mut Nand {
        &mut self.nand
    }

    /// Accepts a unit at `now`; volatile until a flush. At most one bounded step of garbage
    /// collection comes first. If the unit filled a row, answers when the program of that row ends.
    ///
    /// # Errors
    /// Out of range, or the device is read-only.
    pub fn write(&mut self, now: Time, lpn: u32, data: Bytes) -> Result<Option<Time>, FtlError> {
        assert_eq!(
            data.len(),
            self.layout.unit_bytes as usize,
            "a write is one whole unit"
        );
        self.writable(lpn)?;
        self.checkpoint_if_due(now)?;
        self.background_step(now)?;
        self.scrub_step(now)?;
        if self.needs_no_program(&data) {
            self.stats.host_units += 1;
            self.stats.zero_units += 1;
            self.trim(now, lpn..lpn + 1)?;
            return Ok(None);
        }
        self.make_way_in_group(now, lpn)?;
        self.stats.host_units += 1;
        let stream = self.stream_for(&data);
        let entry = Entry {
            lpn,
            data,
            lost: false,
            birth: None,
            accept: 0,
            host: true,
            member: None,
        };
        let programmed = self.put(now, stream, entry)?;
        self.rescue(now)?;
        Ok(programmed)
    }
    /// Reads units, in order; a unit that was never written reads as zeros. Answers when the last
    /// of them has crossed the bus. Neighbours in one row cost one array read.
    ///
    /// # Errors
    /// A unit is unreadable or out of range.
    pub fn read(
        &mut self,
        now: Time,
        lpns: std::ops::Range<u32>,
    ) -> (Result<Vec<Bytes>, FtlError>, Time) {
        let mut out = Vec::with_capacity(lpns.len());
        let mut end = now;
        let mut run: Option<(u32, u32, usize)> = None;
        for lpn in lpns {
            if lpn >= self.layout.units {
                return (Err(FtlError::OutOfRange(lpn.into())), end);
            }
            let ppn = *self.l2p.get(lpn as usize);
            let at = self.on_flash(ppn);
            match (&mut run, at) {
                (Some((block, row, n)), Some((b, r))) if *block == b && *row == r => *n += 1,
                _ => {
                    end = end.max(self.charge_read(now, run));
                    run = at.map(|(b, r)| (b, r, 1));
                }
            }
            match self.content(lpn) {
                Ok(bytes) => out.push(bytes),
                Err(e) => return (Err(e), end.max(self.charge_read(now, run))),
            }
        }
        let end = end.max(self.charge_read(now, run));
        (Ok(out), end)
    }
    /// The content of a unit as a read would answer it, at no cost.
    ///
    /// # Errors
    /// The unit is unreadable.
    pub fn content(&self, lpn: u32) -> Result<Bytes, FtlError> {
        let ppn = *self.l2p.get(lpn as usize);
        if ppn == NONE {
            return Ok(fill::zeros(self.layout.unit_bytes as usize));
        }
        if ppn == LOST {
            return Err(FtlError::Unreadable(lpn));
        }
        if let Some(entry) = self.buffered(ppn) {
            return if entry.lost {
                Err(FtlError::Unreadable(lpn))
            } else {
                Ok(entry.data.clone())
            };
        }
        match self.fetch(ppn) {
            Some((tag, data)) if tag.kind == Kind::Data => Ok(data),
            _ => Err(FtlError::Unreadable(lpn)),
        }
    }
    /// True if the unit was written and not trimmed since.
    pub fn is_mapped(&self, lpn: u32) -> bool {
        *self.l2p.get(lpn as usize) != NONE
    }
    /// The mapped units, ascending.
    pub fn mapped(&self) -> impl Iterator<Item = u32> {
        self.l2p
            .iter_present()
            .filter(|(lpn, ppn)| **ppn != NONE && *lpn < self.layout.units as usize)
            .map(|(lpn, _)| lpn as u32)
    }
    /// Forgets the content of units; they read as zeros at once, durably so after a flush.
    ///
    /// # Errors
    /// Out of range, or the device is read-only.
    pub fn trim(&mut self, now: Time, lpns: std::ops::Range<u32>) -> Result<(), FtlError> {
        if lpns.is_empty() {
            return Ok(());
        }
        self.writable(lpns.end - 1)?;
        let now = self.end_group_before_trim(now)?;
        let mut since = None;
        for lpn in lpns.clone() {
            let ppn = *self.l2p.get(lpn as usize);
            if ppn != NONE {
                if since.is_none() {
                    self.accepted += 1;
                }
                let waited = self.leave(lpn);
                since = since
                    .or(Some(self.accepted))
                    .into_iter()
                    .chain(waited)
                    .min();
                self.l2p.set(lpn as usize, NONE);
            }
        }
        if let Some(accept) = since {
            // The version is taken after buffered writes of these units were dropped, so that those
            // can no longer get a greater one.
            self.version += 1;
            let record = Trim {
                first: lpns.start,
                count: lpns.len() as u32,
                version: self.version,
            };
            self.log.pending.push((record, accept));
            if self.log.pending.len() >= self.log_page_records() {
                self.write_log(now)?;
            }
        }
        Ok(())
    }
    /// Makes everything accepted so far durable; answers when it is.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn flush(&mut self, now: Time) -> Result<Time, FtlError> {
        self.issue_host(now)?;
        loop {
            self.rescue(now)?;
            let cold = self.streams[GC].row.as_ref();
            if cold.is_some_and(|row| row.entries.iter().any(|e| e.host)) {
                self.issue(now, GC)?;
                continue;
            }
            self.close_pairs(now, false)?;
            if self.failed.is_empty() {
                break;
            }
        }
        self.write_log(now)?;
        Ok(self.host_end.max(now))
    }
    /// Remembers the counters before quiet work, which costs no virtual time and changes no
    /// counter.
    pub fn begin_quiet(&self) -> Quiet {
        Quiet {
            stats: self.stats,
            nand: self.nand.stats(),
        }
    }
    /// Ends quiet work: all of it is durable and over, and the clock of the chips starts again at
    /// 0.
    ///
    /// # Errors
    /// The device became read-only.
    pub fn end_quiet(&mut self, quiet: Quiet) -> Result<(), FtlError> {
        let done = self.flush(Time(0));
        self.settle();
        self.stats = quiet.stats;
        self.nand.set_stats(quiet.nand);
        done.map(|_| ())
    }
    /// Ends every operation that is under way, and starts the clock of the chips again at 0.
    pub fn settle(&mut self) {
        self.nand.settle();
        self.settle_evidence();
        (self.host_end, self.log.root_end) = (Time(0), Time(0));
        self.group.not_before = Time(0);
        self.streams
            .iter_mut()
            .filter_map(|s| s.row.as_mut())
            .for_each(|row| row.ready = Time(0));
    }

    pub(crate) fn writable(&self, lpn: u32) -> Result<(), FtlError> {
        if lpn >= self.layout.units {
            return Err(FtlError::OutOfRange(lpn.into()));
        }
        match &self.read_only {
            Some(why) => Err(FtlError::ReadOnly(why.clone())),
            None => Ok(()),
        }
    }
    /// Appends a unit to a stream. The map points to the new place at once.
    pub(crate) fn put(
        &mut self,
        now: Time,
        stream: usize,
        mut entry: Entry,
    ) -> Result<Option<Time>, FtlError> {
        if self.streams[stream].row.is_none() {
            self.open_row(now, stream)?;
        }
        self.accepted += 1;
        if entry.accept == 0 {
            entry.accept = self.accepted;
        }
        let lpn = entry.lpn;
        // A copy that a batch makes is in no group: the group before the batch has ended, and the
        // batch's record says when the copy counts.
        if matches!(stream, HOST | JOURNAL) && lpn < self.layout.units {
            entry.member = self.join_group(lpn);
        }
        let layout = self.layout;
        let row = self.streams[stream].row.as_mut().expect("opened above");
        if entry.member.is_some() {
            row.ready = row.ready.max(self.group.not_before);
        }
        let slot = row.entries.len() as u32;
        let ppn = layout.ppn(row.block, row.row, slot);
        let (block, full) = (row.block, slot + 1 == layout.slots_per_row);
        row.entries.push(entry);
        self.blocks[block as usize].valid += 1;
        self.p2l.set(ppn as usize, lpn);
        let others = match self.slot_of(lpn) {
            Some(old) if matches!(stream, HOST | JOURNAL) => self.other_owners(old, lpn),
            _ => Vec::new(),
        };
        let waited = self.leave(lpn);
        if let Some(accept) = waited
            && let Some(row) = &mut self.streams[stream].row
        {
            let entry = &mut row.entries[slot as usize];
            entry.accept = entry.accept.min(accept);
        }
        self.l2p.set(lpn as usize, ppn);
        // hazards-R20
        if !others.is_empty() && self.mutant(Mutant::WriteThroughAlias) {
            for owner in others {
                self.leave(owner.lpn);
                self.share(ppn, owner);
            }
        }
        if full {
            self.issue(now, stream)
        } else {
            Ok(None)
        }
    }
    fn open_row(&mut self, now: Time, stream: usize) -> Result<(), FtlError> {
        let lane = self.streams[stream].turn;
        let block = match self.streams[stream].lanes[lane] {
            Some(block) => block,
            None => {
                self.opening_cold = stream == GC;
                let opened = self.open_block(now, stream, lane);
                self.opening_cold = false;
                opened?
            }
        };
        let s = &mut self.streams[stream];
        s.lanes[lane] = Some(block);
        s.turn = (lane + 1) % s.lanes.len();
        let row = self.blocks[block as usize].filled;
        s.row = Some(Row {
            block,
            row,
            entries: Vec::with_capacity(self.layout.slots_per_row as usize),
            ready: Time(0),
        });
        Ok(())
    }
    /// Programs the row being filled, if there is one; answers when the program ends. If it fails,
    /// the row is set aside.
    pub(crate) fn issue(&mut self, now: Time, stream: usize) -> Result<Option<Time>, FtlError> {
        let Some(row) = self.streams[stream].row.take() else {
            return Ok(None);
        };
        if row.entries.is_empty() {
            self.streams[stream].row = Some(row);
            return Ok(None);
        }
        let (tags, data) = self.tagged(&row);
        // group-I10: what is programmed now shows that the last group has ended, and so do copies
        // of units that were in it (group-I11).
        let places = row.entries.iter().filter_map(|e| e.member);
        let now = match self.group.open && { places }.all(|(group, _)| self.group.is_open(group)) {
            true => now,
            false => now.max(self.group.not_before),
        };
        let cause = self.cause(stream);
        match self.program_row(now.max(row.ready), &row, &tags, data, cause) {
            Ok(end) => {
                self.stats.padded +=
                    u64::from(self.layout.slots_per_row) - row.entries.len() as u64;
                let info = &mut self.blocks[row.block as usize];
                info.filled += 1;
                let full = info.filled == self.layout.rows_in(row.block);
                self.note_row(&row);
                if full {
                    self.close(stream, row.block);
                }
                self.note_evidence(end);
                if row.entries.iter().any(|e| e.host) {
                    self.host_end = self.host_end.max(end);
                }
                Ok(Some(end))
            }
            Err(_failed) => {
                self.set_aside(stream, row);
                Ok(None)
            }
        }
    }
    /// Notes that the slot no longer holds the newest version of its unit.
    pub(crate) fn invalidate(&mut self, ppn: u32) {
        let (block, ..) = self.layout.place(ppn);
        self.p2l.set(ppn as usize, NONE);
        let info = &mut self.blocks[block as usize];
        info.valid -= 1;
        let (state, valid) = (info.state, info.valid);
        if state == State::Closed {
            match valid {
                0 => self.release(block),
                _ if self.is_victim(block) => {}
                _ => self.victims.shift(block, valid, self.accepted),
            }
        }
    }
    /// Rows whose units are in memory only.
    pub(crate) fn pending_rows(&self) -> impl Iterator<Item = &Row> {
        let open = self.streams.iter().filter_map(|s| s.row.as_ref());
        open.chain(&self.failed)
    }
    /// The row buffer's unit at a slot, if the slot has not been programmed yet.
    pub(crate) fn buffered(&self, ppn: u32) -> Option<&Entry> {
        let (block, r, slot) = self.layout.place(ppn);
        self.pending_rows()
            .filter(|row| row.block == block && row.row == r)
            .find_map(|row| row.entries.get(slot as usize))
    }
    /// Drops a unit that is still in a row buffer: its slot will be programmed as padding, so that
    /// the unit cannot take a version greater than that of a later TRIM. Answers the number of the
    /// operation that brought the unit. What this unit was to be the evidence for (ftl-I2) now
    /// waits for the operation that drops it.
    pub(crate) fn drop_buffered(&mut self, ppn: u32) -> Option<u64> {
        let copied = self.buffered(ppn)?.birth.is_some();
        // hazards-R6
        let stays = copied && self.mutant(Mutant::CopyIsNewer);
        let entry = self.buffered_mut(ppn)?;
        match stays {
            true => entry.birth = None,
            false => entry.lpn = NONE,
        }
        Some(entry.accept)
    }
    /// As [`Ftl::buffered`], for changing the unit.
    pub(crate) fn buffered_mut(&mut self, ppn: u32) -> Option<&mut Entry> {
        let (block, r, slot) = self.layout.place(ppn);
        let rows = self.streams.iter_mut().filter_map(|s| s.row.as_mut());
        rows.chain(&mut self.failed)
            .find(|row| row.block == block && row.row == r)?
            .entries
            .get_mut(slot as usize)
    }
    /// Block and row of a slot that has been programmed.
    fn on_flash(&self, ppn: u32) -> Option<(u32, u32)> {
        if ppn >= LOST || self.buffered(ppn).is_some() {
            return None;
        }
        let (block, row, _) = self.layout.place(ppn);
        Some((block, row))
    }
    /// Lets the chips read `n` units of a row.
    fn charge_read(&mut self, now: Time, run: Option<(u32, u32, usize)>) -> Time {
        let Some((block, row, n)) = run else {
            return now;
        };
        let first = self.layout.page(block, row);
        let bytes = n * self.layout.unit_bytes as usize / self.layout.pages_per_row as usize;
        let pages = 0..self.layout.pages_per_row;
        let mut end = now;
        for i in pages {
            let page = first.page + i;
            let (_, read, said) = self.nand.sense(now, PageAddr { page, ..first }, bytes);
            end = end.max(read);
            if said.refresh {
                self.note_refresh(block, row);
            }
        }
        end
    }
    pub(crate) fn charge_row_read(
        &mut self,
        now: Time,
        block: u32,
        row: u32,
        units: usize,
    ) -> Time {
        self.charge_read(now, Some((block, row, units)))
    }
    /// Tag and content of a programmed slot, at no cost; `None` if it is unreadable or holds no
    /// tag.
    pub(crate) fn fetch(&self, ppn: u32) -> Option<(Tag, Bytes)> {
        let (block, row, slot) = self.layout.place(ppn);
        let first = self.layout.page(block, row);
        let unit = self.layout.unit_bytes as usize;
        if self.layout.pages_per_row == 1 {
            let Cell::Written(page) = self.nand.peek(first) else {
                return None;
            };
            let tag = tag::of_row(&[page.spare()], slot)?;
            return Some((tag, page.slice(slot as usize * unit, unit)));
        }
        let mut pages = Vec::new();
        for i in 0..self.layout.pages_per_row {
            let Cell::Written(page) = self.nand.peek(PageAddr {
                page: first.page + i,
                ..first
            }) else {
                return None;
            };
            pages.push(page.clone());
        }
        let spares: Vec<&[u8]> = pages.iter().map(|p| &p.spare()[..]).collect();
        let tag = tag::of_row(&spares, slot)?;
        let part = unit / pages.len();
        let data: Vec<Bytes> = pages.iter().map(|p| p.slice(0, part)).collect();
        Some((tag, fill::compact(data.concat().into())))
    }
}
