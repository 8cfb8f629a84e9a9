//! The inside of a controller over the FTL: the cache, the path to the chips, and what a cut
//! leaves.
//!
//! eMMC cards, NVMe devices and raw flash share it; the invariants emmc-E1 to emmc-E7 are defined
//! at the head of [`crate::emmc`], those of REMAP at the head of [`crate::raw`]. Limit: with the
//! adversary `spec` 128 MiB of open writes are remembered; older ones count as durable.

mod idle;
mod landing;
mod media;
mod pack;
mod path;
mod remap;
mod runs;
mod transparent;

pub use media::FlashMedia;
pub(crate) use pack::PackEntry;
pub(crate) use path::{PathTiming, nanos};
pub(crate) use transparent::window;

use crate::cache::{Cache, Line, Next};
use crate::span::{self, Part, Source};
use base::{BLOCK_BYTES, Bytes, Fingerprint, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use blockdev::spec::{Kind, Ledger, Write};
use blockdev::{Adversary, Caps, FlashStats, PackOrder, ProgramsByCause};
use ftl::nand::Operation;
use ftl::{Ftl, FtlError, Quiet};
use landing::Landing;
use transparent::Transparent;

/// When open writes keep more than this many bytes of old and new content, the oldest count as
/// durable.
const LEDGER_BYTES: u64 = 128 << 20;

/// The kind of a write: where it goes and what it promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Into the cache.
    Cached,
    /// To the chips, because the cache is off or the host asked for it (forced programming).
    Through,
    /// To the chips, each sector old or new (reliable write).
    Reliable,
}

/// What a controller keeps in front of its FTL.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Buffering {
    /// 4 KiB units that the host sees.
    pub units: u64,
    /// Size of the cache, KiB.
    pub cache_kib: u32,
    /// True if the cache is written back in the order of arrival, and the device promises that.
    pub cache_fifo: bool,
    /// True if the cache is written back in the order of arrival, but the device does not promise
    /// that.
    pub cache_in_turn: bool,
    /// What a cut inside a packed write leaves.
    pub pack_order: PackOrder,
}

/// Cache, FTL and the path between them.
#[derive(Clone)]
pub(crate) struct Firmware {
    ftl: Ftl,
    /// 4 KiB units that the host sees; the FTL may have more.
    units: u64,
    cache: Cache,
    pack_order: PackOrder,
    /// True if the cache is written back in the order of arrival: then everything that goes to the
    /// chips is one ordered group (emmc-E6).
    fifo: bool,
    /// Lines the cache holds, units on their way to the chips included (emmc-E4).
    capacity: usize,
    timing: PathTiming,
    /// Where writes through the cache ended.
    runs: runs::Runs,
    /// When the path to the chips can take the next unit.
    path_free: Time,
    /// When the newest line arrived: background work on the cached lines begins no earlier.
    last_arrival: Time,
    /// Units handed to the FTL whose row is not programmed yet.
    staged: usize,
    /// Rows being programmed: end, units.
    in_flight: Landing,
    /// True if the card starts background operations by itself.
    auto_bkops: bool,
    /// When the last background operation ended.
    idle_from: Time,
    /// True if there were TRIMs or REMAPs since the last flush.
    unlogged: bool,
    /// The writes of which it is open whether they are durable; `None`: the adversary is `own`.
    ledger: Option<Ledger>,
    /// Recently programmed units by content, for transparent remapping; `None`: it is off.
    transparent: Option<Transparent>,
    /// Counts of units whose home shares a slot by a REMAP, and of units that were copied for one.
    remapped: (u64, u64),
    /// The counters from before the image was loaded, while it is being loaded.
    loading: Option<Quiet>,
}

impl Firmware {
    pub fn new(config: Buffering, timing: PathTiming, mut ftl: Ftl) -> Firmware {
        if config.cache_fifo && ftl.begin_group(Time(0)).is_err() {
            // The device has become read-only, which the next write reports.
        }
        Firmware {
            units: config.units,
            ftl,
            fifo: config.cache_fifo,
            cache: match config.cache_in_turn {
                true => Cache::new(config.cache_fifo).in_turn(),
                false => Cache::new(config.cache_fifo),
            },
            pack_order: config.pack_order,
            capacity: (config.cache_kib as usize / 4).max(1),
            timing,
            runs: runs::Runs::default(),
            path_free: Time(0),
            last_arrival: Time(0),
            staged: 0,
            in_flight: Landing::default(),
            auto_bkops: false,
            idle_from: Time(0),
            unlogged: false,
            ledger: Some(Ledger::new(LEDGER_BYTES)),
            transparent: None,
            remapped: (0, 0),
            loading: None,
        }
    }
    /// The translation layer, for tests that inject faults into it.
    #[cfg(feature = "mutants")]
    pub fn ftl_mut(&mut self) -> &mut Ftl {
        &mut self.ftl
    }
    pub fn set_adversary(&mut self, adversary: Adversary) {
        self.ledger = match adversary {
            Adversary::Own => None,
            Adversary::Spec => Some(
                self.ledger
                    .take()
                    .unwrap_or_else(|| Ledger::new(LEDGER_BYTES)),
            ),
        };
    }
    pub fn units(&self) -> u64 {
        self.units
    }
    /// Ends everything that is under way, and sets the clock to 0.
    pub fn settle(&mut self) {
        self.ftl.settle();
        (self.path_free, self.last_arrival, self.idle_from) = (Time(0), Time(0), Time(0));
        self.in_flight.clear();
    }
    /// Writes back in the background while more than three quarters of the cache are in use, and
    /// drops records of what no cut can undo any more. Work starts when the path is free, not when
    /// this is called.
    pub fn advance(&mut self, now: Time) {
        self.finish_loading();
        self.ftl.advance(now);
        if let Some(ledger) = &mut self.ledger {
            ledger.advance(now);
        }
        self.in_flight.forget(now);
        self.pump(now, self.capacity * 3 / 4);
        self.idle_work(now);
    }
    /// Switches background operations that the card starts by itself on or off.
    pub fn set_auto_bkops(&mut self, on: bool) {
        self.auto_bkops = on;
    }
    /// How urgent background operations are, 0 to 3.
    pub fn bkops_need(&self) -> u8 {
        self.ftl.need()
    }
    /// Does the write-back of [`Firmware::advance`] up to `at`, which may lie ahead of the clock:
    /// the time at which the next data arrives.
    pub fn write_back_until(&mut self, at: Time) {
        self.pump(at, self.capacity / 2);
    }
    /// Starts to write lines back, as long as more than `keep` are dirty and the path is free by
    /// `now`.
    fn pump(&mut self, now: Time, keep: usize) {
        while self.cache.len() > keep && self.path_free.max(self.last_arrival) <= now {
            // An error makes the FTL read-only; the next command that needs it reports that.
            if self.write_back_one(self.last_arrival).is_err() {
                break;
            }
        }
    }

    // Reading.

    /// The content of a block as reads see it (emmc-E2), at no cost. Unreadable blocks show as
    /// zeros.
    pub fn visible(&self, block: u64) -> Bytes {
        let below = || {
            self.ftl
                .content(block as u32)
                .unwrap_or_else(|_| fill::zeros(BLOCK_BYTES))
        };
        match self.cache.get(block) {
            Some(line) if line.is_whole() => line.data.clone(),
            Some(line) => line.over(&below()),
            None => below(),
        }
    }
    /// Reads sectors; the answered time is when the last has crossed the host bus.
    pub fn read(
        &mut self,
        now: Time,
        lba: Lba,
        sectors: u64,
    ) -> (Result<Vec<Bytes>, FtlError>, Time) {
        let (out, ready) = self.fetch(now, lba, sectors);
        if out.is_err() {
            return (out, ready);
        }
        // Blocks cross the bus while the next ones are read.
        let bytes = sectors * SECTOR_BYTES as u64;
        let last = bytes.min(BLOCK_BYTES as u64);
        let end = ready.max(now + self.timing.bus(bytes - last)) + self.timing.bus(last);
        (out, end)
    }
    /// Brings sectors into the controller; the answered time is when the last has left the chips.
    fn fetch(&mut self, now: Time, lba: Lba, sectors: u64) -> (Result<Vec<Bytes>, FtlError>, Time) {
        let mut out = Vec::with_capacity(sectors.div_ceil(SECTORS_PER_BLOCK) as usize);
        let mut ready = now;
        let first = lba.0 / SECTORS_PER_BLOCK;
        let end = (lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
        let mut block = first;
        while block < end {
            let cached = |fw: &Firmware, b: u64| {
                fw.cache
                    .get(b)
                    .filter(|l| l.is_whole())
                    .map(|l| l.data.clone())
            };
            if let Some(data) = cached(self, block) {
                out.push(data);
                block += 1;
                continue;
            }
            let run = (block..end)
                .take_while(|b| cached(self, *b).is_none())
                .count() as u64;
            let (data, read) = self.ftl.read(now, block as u32..(block + run) as u32);
            ready = ready.max(read);
            match data {
                Ok(data) => {
                    for (b, below) in (block..).zip(data) {
                        out.push(
                            self.cache
                                .get(b)
                                .map_or(below.clone(), |line| line.over(&below)),
                        );
                    }
                }
                Err(e) => return (Err(e), ready),
            }
            block += run;
        }
        for (part, data) in span::parts(lba, sectors).zip(&mut out) {
            if !part.is_whole() {
                *data = data.slice(part.from..part.to);
            }
        }
        (Ok(out), ready)
    }

    // Writing.

    /// Takes in a write whose transfer begins at `start`; answers when the card is ready again.
    pub fn write(
        &mut self,
        start: Time,
        lba: Lba,
        pieces: Vec<Bytes>,
        way: Way,
    ) -> Result<Time, FtlError> {
        let sectors = pieces.iter().map(|p| p.len() as u64).sum::<u64>() / SECTOR_BYTES as u64;
        let prev = self.ledger.is_some().then(|| self.before(lba, sectors));
        let end = match way {
            Way::Cached => self.write_cached(start, lba, sectors, &pieces),
            _ => self.write_through(start, lba, sectors, &pieces, way == Way::Reliable),
        };
        if let (Some(ledger), Some(prev)) = (&mut self.ledger, prev) {
            let kind = match way {
                Way::Cached => Kind::Normal,
                Way::Through => Kind::Through,
                Way::Reliable => Kind::Fua,
            };
            let end = *end.as_ref().unwrap_or(&start);
            ledger.write(Write {
                start,
                end,
                kind,
                lba,
                sectors,
                new: pieces,
                prev,
            });
        }
        end
    }
    fn write_cached(
        &mut self,
        start: Time,
        lba: Lba,
        sectors: u64,
        pieces: &[Bytes],
    ) -> Result<Time, FtlError> {
        self.forget_landed(start);
        let accepted = start + self.timing.write() + self.jump(lba, sectors);
        let mut t = accepted.max(self.last_arrival);
        let mut source = Source::new(pieces);
        for part in span::parts(lba, sectors) {
            let bytes = source.take(part.to - part.from);
            t += self.timing.bus(bytes.len() as u64);
            t = self.cache_part(t, part, bytes)?;
        }
        self.last_arrival = t;
        Ok(t)
    }
    /// Drops what has landed by `start`, because one request may consist of many commands, and what
    /// an earlier one wrote takes no room any more.
    fn forget_landed(&mut self, start: Time) {
        self.in_flight.forget(start);
    }
    /// Takes a part of a block into the cache, waiting for room if need be.
    fn cache_part(&mut self, mut t: Time, part: Part, bytes: Bytes) -> Result<Time, FtlError> {
        if !self.cache.has_room_for(part.block) {
            if !part.is_whole() && !self.cache.contains(part.block) {
                // The rest of the block would have to be merged later, so a block that cannot be
                // read is refused now.
                self.ftl.content(part.block as u32)?;
            }
            t = self.wait_for_room(t)?;
        }
        self.cache.put(part, fill::compact(bytes));
        Ok(t)
    }
    /// Waits until one more line fits (emmc-E4).
    fn wait_for_room(&mut self, mut t: Time) -> Result<Time, FtlError> {
        loop {
            self.in_flight.forget(t);
            let moving = self.in_flight.units();
            if self.cache.len() + self.staged + moving < self.capacity {
                return Ok(t);
            }
            if self.cache.len() > 0 && self.path_free <= t {
                self.write_back_one(t)?;
            } else if self.cache.len() == 0 && moving == 0 {
                self.sync(t)?;
            } else {
                let landing = self.in_flight.first();
                let path = (self.cache.len() > 0).then_some(self.path_free);
                t = landing.into_iter().chain(path).min().unwrap_or(t).max(t);
            }
        }
    }
    /// Sends one line to the chips, not before `t`.
    fn write_back_one(&mut self, t: Time) -> Result<(), FtlError> {
        let Some(Next {
            block,
            line,
            behind_barrier,
        }) = self.cache.take_next()
        else {
            return Ok(());
        };
        if behind_barrier && !self.fifo {
            self.path_free = self.path_free.max(self.sync(t)?);
        }
        self.write_back_line(t, block, line)
    }
    fn write_back_line(&mut self, t: Time, block: u64, line: Line) -> Result<(), FtlError> {
        let begin = self.path_free.max(t);
        let data = match self.whole(begin, block, &line) {
            Ok((data, read)) => {
                self.path_free = read;
                data
            }
            Err(_) => line.data.clone(),
        };
        self.program_unit(t, block, data, false).inspect_err(|_| {
            let part = Part {
                block,
                from: 0,
                to: BLOCK_BYTES,
            };
            self.cache.put(part, line.data);
        })
    }
    /// The whole block of a line; sectors that the line lacks are read from the chips.
    fn whole(&mut self, now: Time, block: u64, line: &Line) -> Result<(Bytes, Time), FtlError> {
        if line.is_whole() {
            return Ok((line.data.clone(), now));
        }
        let (below, read) = self.ftl.read(now, block as u32..block as u32 + 1);
        Ok((line.over(&below?[0]), read))
    }
    /// Sends one unit through the firmware path into the FTL.
    fn program_unit(
        &mut self,
        t: Time,
        block: u64,
        data: Bytes,
        reliable: bool,
    ) -> Result<(), FtlError> {
        self.path_free = self.path_free.max(t) + self.timing.program_unit(reliable);
        if block < self.units && self.try_share(self.path_free, block as u32, &data)? {
            return Ok(());
        }
        let programmed = self.ftl.write(self.path_free, block as u32, data)?;
        self.staged += 1;
        if let Some(end) = programmed {
            self.in_flight.push(end, std::mem::take(&mut self.staged));
        }
        Ok(())
    }
    fn write_through(
        &mut self,
        start: Time,
        lba: Lba,
        sectors: u64,
        pieces: &[Bytes],
        rel: bool,
    ) -> Result<Time, FtlError> {
        let mut source = Source::new(pieces);
        let mut t = start + self.timing.write();
        if !self.timing.pipelined {
            t += self.timing.bus(sectors * SECTOR_BYTES as u64);
        }
        if rel {
            t += self.timing.reliable();
        }
        for part in span::parts(lba, sectors) {
            let bytes = source.take(part.to - part.from);
            if self.timing.pipelined {
                t += self.timing.bus(bytes.len() as u64);
            }
            t = self.program_part(t, part, bytes, rel)?;
        }
        self.sync(t)
    }
    /// Programs a part of a block, replacing every cached copy of it (emmc-E3); answers when the
    /// programming could begin.
    fn program_part(
        &mut self,
        mut t: Time,
        part: Part,
        bytes: Bytes,
        rel: bool,
    ) -> Result<Time, FtlError> {
        let data = match part.is_whole() {
            true => bytes,
            // The part is merged with the content of the chips, not of the cache: other cached
            // sectors keep their line.
            false => {
                let (below, read) = self.ftl.read(t, part.block as u32..part.block as u32 + 1);
                t = t.max(read);
                span::merged(&below?[0], part, &bytes)
            }
        };
        self.program_unit(t, part.block, fill::compact(data), rel)?;
        self.cache.remove(part);
        Ok(t)
    }
    /// Makes everything that was handed to the FTL durable.
    fn sync(&mut self, t: Time) -> Result<Time, FtlError> {
        let end = self.ftl.flush(self.path_free.max(t))?;
        if self.staged > 0 {
            self.in_flight.push(end, std::mem::take(&mut self.staged));
        }
        Ok(end)
    }
    /// Writes back all lines; everything accepted before `start` is durable at the end (emmc-E5).
    pub fn flush(&mut self, start: Time) -> Result<Time, FtlError> {
        let idle = self.cache.len() == 0
            && self.staged == 0
            && !self.unlogged
            && self.in_flight.last().is_none_or(|end| end <= start);
        // Lines of commands that are still being transferred are written back with the others, when
        // they have arrived.
        let t = (start + self.timing.flush(idle)).max(match idle {
            true => start,
            false => self.last_arrival,
        });
        while self.cache.len() > 0 {
            self.write_back_one(t)?;
        }
        let end = if idle { t } else { self.sync(t)? };
        self.unlogged = false;
        if let Some(ledger) = &mut self.ledger {
            ledger.flush(start, end);
        }
        Ok(end)
    }
    /// Sets a barrier: lines that are cached now reach the chips before those that come later.
    pub fn barrier(&mut self, start: Time) -> Time {
        let end = start + self.timing.barrier();
        self.cache.barrier();
        if let Some(ledger) = &mut self.ledger {
            ledger.barrier(start, end);
        }
        end
    }
    /// Discards sectors. Whole blocks read as zeros afterwards; of partly covered blocks the
    /// sectors are cleared only with `zero_edges` (TRIM, not DISCARD).
    pub fn discard(
        &mut self,
        start: Time,
        lba: Lba,
        sectors: u64,
        zero_edges: bool,
    ) -> Result<Time, FtlError> {
        let mut end = start + self.timing.erase();
        let prev = self.ledger.is_some().then(|| self.before(lba, sectors));
        let (mut first, mut last) = (None, 0);
        for part in span::parts(lba, sectors) {
            if part.is_whole() {
                self.cache.remove(part);
                first.get_or_insert(part.block);
                last = part.block + 1;
            } else if zero_edges {
                end = self.wait_for_room(end)?;
                self.cache.put(part, fill::zeros(part.to - part.from));
                self.last_arrival = self.last_arrival.max(end);
            }
        }
        if let Some(first) = first {
            self.ftl.trim(end, first as u32..last as u32)?;
            self.forget_content(first as u32..last as u32);
            self.unlogged = true;
        }
        if let (Some(ledger), Some(prev)) = (&mut self.ledger, prev) {
            let (lba, sectors, prev) = match (zero_edges, first) {
                (true, _) => (lba, sectors, prev),
                (false, Some(first)) => {
                    let range = first..last;
                    let whole = prev
                        .into_iter()
                        .filter(|(b, _)| range.contains(b))
                        .collect();
                    (
                        Lba(first * SECTORS_PER_BLOCK),
                        (last - first) * SECTORS_PER_BLOCK,
                        whole,
                    )
                }
                (false, None) => return Ok(end),
            };
            ledger.write(Write {
                start,
                end,
                kind: Kind::Discard,
                lba,
                sectors,
                new: Vec::new(),
                prev,
            });
        }
        Ok(end)
    }

    // Power, images, counters.

    /// The blocks of a run as reads see them, without those that hold zeros.
    fn before(&self, lba: Lba, sectors: u64) -> Vec<(u64, Bytes)> {
        let blocks = lba.0 / SECTORS_PER_BLOCK..(lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
        let present = blocks.filter(|b| self.cache.contains(*b) || self.ftl.is_mapped(*b as u32));
        present.map(|b| (b, self.visible(b))).collect()
    }
    /// Cuts the power. Background work goes on up to the cut; the FTL does nothing at the cut.
    pub fn power_off(mut self, at: Time, seed: u64, caps: &Caps) -> FlashMedia {
        self.advance(at);
        let patch = match &self.ledger {
            Some(ledger) => ledger.draw(at, seed, caps, |block| self.visible(block)),
            None => Vec::new(),
        };
        FlashMedia {
            units: self.units(),
            nand: self.ftl.power_off(at, seed),
            patch,
        }
    }
    /// Stores, before the first command, the blocks whose content an adversary decided.
    pub fn apply(&mut self, patch: Vec<(u64, Bytes)>) -> Result<(), FtlError> {
        for (block, bytes) in patch {
            if self.visible(block) != bytes {
                self.load(Lba(block * SECTORS_PER_BLOCK), bytes)?;
            }
        }
        Ok(())
    }
    pub fn dump(&self, mut f: impl FnMut(Lba, &[u8])) {
        let cached = self.cache.blocks();
        let mut cached = cached.into_iter().peekable();
        let mut show = |block: u64| {
            let bytes = self.visible(block);
            if bytes.fingerprint() != 0 {
                f(Lba(block * SECTORS_PER_BLOCK), &bytes);
            }
        };
        let host = self.ftl.mapped().map(u64::from);
        for block in host.take_while(|block| *block < self.units) {
            while let Some(c) = cached.next_if(|c| *c <= block) {
                if c < block {
                    show(c);
                }
            }
            show(block);
        }
        cached.for_each(show);
    }
    /// Stores bytes durably at no cost; a run of such calls is ended by the next command.
    pub fn load(&mut self, lba: Lba, bytes: Bytes) -> Result<(), FtlError> {
        if self.loading.is_none() {
            self.loading = Some(self.ftl.begin_quiet());
        }
        let pieces = [bytes];
        let mut source = Source::new(&pieces);
        let sectors = pieces[0].len() as u64 / SECTOR_BYTES as u64;
        for part in span::parts(lba, sectors) {
            let new = source.take(part.to - part.from);
            let data = if part.is_whole() {
                // A copy, so that one block does not keep a large buffer alive.
                fill::uniform(&new).map_or_else(
                    || Bytes::copy_from_slice(&new),
                    |byte| fill::filled(byte, BLOCK_BYTES),
                )
            } else {
                span::merged(&self.visible(part.block), part, &new)
            };
            self.cache.remove(Part {
                from: 0,
                to: BLOCK_BYTES,
                ..part
            });
            if self.ftl.is_mapped(part.block as u32) || data.fingerprint() != 0 {
                self.ftl.advance(Time(u64::MAX));
                self.forget_content(part.block as u32..part.block as u32 + 1);
                self.ftl.write(Time(0), part.block as u32, data)?;
            }
        }
        Ok(())
    }
    fn finish_loading(&mut self) {
        if let Some(quiet) = self.loading.take() {
            // A failure here means the device has become read-only, which the next write reports.
            let _ = self.fold_all();
            let _ = self.ftl.end_quiet(quiet);
        }
    }
    /// Keeps the operations of the chips from now on.
    pub fn keep_operations(&mut self, on: bool) {
        self.finish_loading();
        self.ftl.keep_operations(on);
    }
    /// The operations kept since the last call.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.ftl.take_operations()
    }
    pub fn backlog(&self) -> usize {
        let open = self.ledger.as_ref().map_or(0, Ledger::open_writes);
        self.ftl.undo_len() + self.in_flight.len() + self.cache.places() + open
    }
    pub fn flash_stats(&self) -> FlashStats {
        let s = self.ftl.stats();
        let transparent = self.transparent.as_ref().map(Transparent::stats);
        FlashStats {
            host_pages: s.host_units,
            reads: s.reads,
            programs: s.programs,
            erases: s.erases,
            gc_copies: s.gc_units,
            slc_folds: s.fold_units,
            map_programs: s.map_programs,
            page_bytes: self.ftl.page_bytes(),
            remapped_units: self.remapped.0,
            copied_units: self.remapped.1,
            zero_units: s.zero_units,
            programs_by_cause: ProgramsByCause {
                host: s.by_cause.host,
                journal: s.by_cause.journal,
                collection: s.by_cause.collection,
                wear: s.by_cause.wear,
                fold: s.by_cause.fold,
                checkpoint: s.by_cause.checkpoint,
                log: s.by_cause.log,
            },
            transparent: transparent.unwrap_or_default(),
            used: self.blocks_used(),
        }
    }
}
