//! A device in memory that takes time, and whose state after a cut is chosen by the `spec`
//! adversary: for crash tests.
//!
//! Commands overlap and overtake each other: each takes a seeded random time of up to 0.62 ms, 5 us
//! more for each block, and a flush 0.15 ms more. Requests that need a promise which the [`Caps`]
//! lack are refused: a FUA write, a pack, a barrier, a discard or a REMAP.
//!
//! - I1: reads see every write that was submitted before them; a snapshot changes nothing.
//! - I2: after the power is off, a completion later than the cut is never delivered; one at exactly
//!   the cut is.

use crate::check::check_request;
use crate::parts::{Part, parts};
use crate::spec::{Kind, Ledger, Write};
use crate::tickets::Tickets;
use crate::trace::{RemapDone, Step, Trace, What};
use crate::{
    BlockDevice, Caps, Class, DevError, Image, Op, PackedWrite, Piece, Remap, RemapMode, Remapped,
    Reply, Request, Ticket,
};
use base::{BLOCK_BYTES, Bytes, Lba, Nanos, Rng, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, fill};
use rt::Mutex;
use std::ops::Range;
use std::sync::Arc;

const COMMAND: Nanos = Nanos(20_000);
const PER_BLOCK: Nanos = Nanos(5_000);
/// The maximum time that a command may take longer than another one of its size, ns.
const JITTER: u64 = 600_000;
const FLUSH: Nanos = Nanos(150_000);

/// The device. It uses the clock of `rt`.
pub struct SpecDisk {
    caps: Caps,
    state: Mutex<State>,
}

struct State {
    /// The content as reads see it.
    image: Image,
    ledger: Ledger,
    rng: Rng,
    done: Tickets<(Time, Result<Reply, DevError>)>,
    cut_at: Option<Time>,
    /// Reads that touch these sectors fail.
    broken_reads: Vec<Range<u64>>,
    /// Writes of this class fail.
    broken_writes: Option<Class>,
    /// Every REMAP fails.
    broken_remaps: bool,
    /// No REMAP makes an alias.
    copied_remaps: bool,
    /// The commands since [`SpecDisk::record`].
    trace: Option<Trace>,
}

impl SpecDisk {
    /// A blank device with these promises. The times of its commands depend on `seed`.
    pub fn new(caps: Caps, seed: u64) -> Arc<SpecDisk> {
        SpecDisk::from_image(caps, Image::new(), seed)
    }

    /// A device with the content of `image`, all of it durable.
    pub fn from_image(caps: Caps, image: Image, seed: u64) -> Arc<SpecDisk> {
        let state = State {
            image,
            ledger: Ledger::new(u64::MAX),
            rng: Rng::named(seed, "spec disk"),
            done: Tickets::default(),
            cut_at: None,
            broken_reads: Vec::new(),
            broken_writes: None,
            broken_remaps: false,
            copied_remaps: false,
            trace: None,
        };
        Arc::new(SpecDisk {
            caps,
            state: Mutex::named("spec disk", state),
        })
    }

    /// Records every command from now on. No write may be open at this moment.
    ///
    /// # Panics
    /// If a write is open.
    pub fn record(&self) {
        let open = self.open_writes();
        assert_eq!(open, 0, "a recording begins with a quiet device");
        let mut state = self.state.lock();
        // trace-T1: a write that the ledger has forgotten has no number.
        state.ledger = Ledger::new(u64::MAX);
        state.trace = Some(Trace {
            start: state.image.clone(),
            caps: self.caps.clone(),
            steps: Vec::new(),
        });
    }

    /// Ends the recording and answers what was recorded.
    pub fn take_trace(&self) -> Option<Trace> {
        self.state.lock().trace.take()
    }

    /// One state that a power cut at this moment may leave; the device runs on. The state depends
    /// only on the device's history, the time and `seed`.
    pub fn snapshot(&self, seed: u64) -> Image {
        self.state
            .lock()
            .at_cut(|ledger, image| ledger.draw(rt::now(), seed, &self.caps, |n| image.block(n)))
    }

    /// The state after a cut at this moment if everything is lost that may be lost.
    pub fn snapshot_lost(&self) -> Image {
        self.state
            .lock()
            .at_cut(|ledger, image| ledger.lost(rt::now(), &self.caps, |n| image.block(n)))
    }

    /// The content as reads see it (I1).
    pub fn visible(&self) -> Image {
        self.state.lock().image.clone()
    }

    /// Number of writes whose durability is open.
    pub fn open_writes(&self) -> usize {
        let mut state = self.state.lock();
        state.ledger.advance(rt::now());
        state.ledger.open_writes()
    }

    /// Cuts the power now: every request that is not complete, and every later one, answers power
    /// loss. The image is that of [`SpecDisk::snapshot`].
    pub fn power_off(&self, seed: u64) -> Image {
        let image = self.snapshot(seed);
        let mut state = self.state.lock();
        state.cut_at.get_or_insert(rt::now());
        image
    }

    /// Makes reads that touch these sectors fail from now on.
    pub fn fail_reads(&self, sectors: Range<u64>) {
        self.state.lock().broken_reads.push(sectors);
    }

    /// Makes writes with a piece of this class fail from now on without any effect. In a pack the
    /// entries before the failing one are executed.
    pub fn fail_writes(&self, class: Option<Class>) {
        self.state.lock().broken_writes = class;
    }

    /// Makes every REMAP fail from now on, when it completes and without any effect.
    pub fn fail_remaps(&self) {
        self.state.lock().broken_remaps = true;
    }

    /// Makes no REMAP alias from now on: everything is copied (remap-S7), or the REMAP is refused
    /// if that is not allowed.
    pub fn copy_remaps(&self) {
        self.state.lock().copied_remaps = true;
    }

    /// Ends all failures.
    pub fn heal(&self) {
        let mut state = self.state.lock();
        state.broken_reads.clear();
        state.broken_writes = None;
        state.broken_remaps = false;
        state.copied_remaps = false;
    }
}

impl State {
    fn at_cut(&self, draw: impl FnOnce(&Ledger, &Image) -> Vec<(u64, Bytes)>) -> Image {
        let mut image = self.image.clone();
        for (n, bytes) in draw(&self.ledger, &self.image) {
            image.set_block(n, bytes);
        }
        image
    }

    fn execute(&mut self, caps: &Caps, request: &Request) -> (Time, Result<Reply, DevError>) {
        let now = rt::now();
        if let Err(e) = self.legal(caps, request) {
            return (now, Err(e));
        }
        self.ledger.advance(now);
        let sectors: u64 = match &request.op {
            Op::Discard { .. } | Op::Remap(_) => 0,
            _ => request.spans().iter().map(|s| s.1).sum(),
        };
        let work = Nanos(PER_BLOCK.0 * sectors.div_ceil(SECTORS_PER_BLOCK));
        let mut end = now + COMMAND + work + Nanos(self.rng.below(JITTER));
        let mut reply = Reply::default();
        match &request.op {
            Op::Read { lba, sectors } => match self.read(*lba, *sectors) {
                Ok(data) => reply.data = data,
                Err(e) => return (end, Err(e)),
            },
            Op::Write { lba, pieces, fua } => {
                if let Err(e) = self.check_broken(*lba, pieces) {
                    return (end, Err(e));
                }
                let write = Arc::new(self.write(caps, (now, end), *lba, pieces, *fua));
                self.keep((now, end), || What::Write(write.clone()), pieces);
                self.ledger.write(write);
            }
            Op::Pack { writes } => {
                if let Err(e) = self.pack(caps, (now, end), writes) {
                    return (end, Err(e));
                }
            }
            Op::Discard { lba, sectors } => self.discard((now, end), *lba, *sectors),
            Op::Remap(remap) => match self.remap(caps, (now, end), remap) {
                Ok(done) => reply.remapped = Some(done),
                Err(e) => return (end, Err(e)),
            },
            Op::Barrier => {
                self.keep((now, end), || What::Barrier, &[]);
                self.ledger.barrier(now, end);
            }
            Op::Flush => {
                end += FLUSH;
                self.keep((now, end), || What::Flush, &[]);
                self.ledger.flush(now, end);
            }
        }
        (end, Ok(reply))
    }

    fn legal(&self, caps: &Caps, request: &Request) -> Result<(), DevError> {
        if self.cut_at.is_some() {
            return Err(DevError::power_lost());
        }
        check_request(caps, request)?;
        if matches!(&request.op, Op::Remap(remap) if remap.fua && !caps.fua) {
            let why = "this device has no FUA: flush instead";
            return Err(DevError::misuse(None, why));
        }
        match request.written().iter().find(|w| w.2 && !caps.fua) {
            Some((lba, _, _)) => Err(DevError::misuse(
                Some(*lba),
                "this device has no FUA: flush instead",
            )),
            None => Ok(()),
        }
    }

    fn check_broken(&self, lba: Lba, pieces: &[Piece]) -> Result<(), DevError> {
        match self.broken_writes {
            Some(class) if pieces.iter().any(|p| p.class == class) => {
                let why = format!("a write of class {} fails", class.word());
                Err(DevError::io(lba, why))
            }
            _ => Ok(()),
        }
    }

    fn read(&self, lba: Lba, sectors: u64) -> Result<Vec<Bytes>, DevError> {
        let broken = self
            .broken_reads
            .iter()
            .find(|bad| bad.start < lba.0 + sectors && lba.0 < bad.end);
        if let Some(bad) = broken {
            let at = Lba(bad.start.max(lba.0));
            return Err(DevError::io(at, "this sector cannot be read"));
        }
        let parts = parts(lba, sectors);
        Ok(parts
            .map(|part| self.image.block(part.block).slice(part.bytes))
            .collect())
    }

    /// Makes a write visible; answers what the ledger needs to know about it.
    fn write(
        &mut self,
        caps: &Caps,
        span: (Time, Time),
        lba: Lba,
        pieces: &[Piece],
        fua: bool,
    ) -> Write {
        let kind = match (fua, caps.volatile_cache) {
            (true, _) => Kind::Fua,
            (false, true) => Kind::Normal,
            (false, false) => Kind::Through,
        };
        let new = pieces.iter().map(|p| p.bytes.clone()).collect();
        self.put_all(span, kind, lba, new)
    }

    /// Makes this content visible.
    fn put_all(
        &mut self,
        (start, end): (Time, Time),
        kind: Kind,
        lba: Lba,
        new: Vec<Bytes>,
    ) -> Write {
        let sectors = new.iter().map(|b| (b.len() / SECTOR_BYTES) as u64).sum();
        let mut prev = Vec::new();
        let mut at = lba;
        for bytes in &new {
            let mut rest = bytes.clone();
            let sectors = (bytes.len() / SECTOR_BYTES) as u64;
            for part in parts(at, sectors) {
                let new = rest.split_to(part.bytes.len());
                self.put(part, new, &mut prev);
            }
            at = at.plus(sectors);
        }
        Write {
            start,
            end,
            kind,
            lba,
            sectors,
            new,
            prev,
        }
    }

    /// Replaces a part of a block; its content before the command goes to `prev`.
    fn put(&mut self, part: Part, bytes: Bytes, prev: &mut Vec<(u64, Bytes)>) {
        let old = self.image.block(part.block);
        if prev.last().is_none_or(|(block, _)| *block != part.block) {
            prev.push((part.block, old.clone()));
        }
        if bytes.len() == BLOCK_BYTES {
            self.image.set_block(part.block, bytes);
        } else {
            let mut new = old.to_vec();
            new[part.bytes].copy_from_slice(&bytes);
            self.image.set_block(part.block, new.into());
        }
    }

    fn pack(
        &mut self,
        caps: &Caps,
        span: (Time, Time),
        writes: &[PackedWrite],
    ) -> Result<(), DevError> {
        let mut entered = Vec::with_capacity(writes.len());
        let mut outcome = Ok(());
        for (i, w) in writes.iter().enumerate() {
            if let Err(e) = self.check_broken(w.lba, &w.pieces) {
                let why = format!("entry {} of {} of the pack: {}", i + 1, writes.len(), e.why);
                outcome = Err(DevError::io(w.lba, why));
                break;
            }
            entered.push(Arc::new(self.write(caps, span, w.lba, &w.pieces, w.fua)));
        }
        let pieces: Vec<Piece> = writes.iter().flat_map(|w| w.pieces.clone()).collect();
        self.keep(span, || What::Pack(entered.clone()), &pieces);
        self.ledger.pack_shared(entered);
        outcome
    }

    /// remap-S1: every home takes over what its source holds now; then the sources of a move are
    /// gone.
    fn remap(
        &mut self,
        caps: &Caps,
        span: (Time, Time),
        remap: &Remap,
    ) -> Result<Remapped, DevError> {
        if self.broken_remaps {
            return Err(DevError::io(remap.pairs[0].home, "every REMAP fails"));
        }
        let granule = match (self.copied_remaps, caps.remap) {
            (false, Some(promise)) => promise.granule,
            // Stands for a granule of which no pair is a multiple.
            _ => u32::MAX,
        };
        let (contents, outcome) = remap.contents(granule, |lba, n| self.read(lba, n))?;
        let kind = Kind::Remap {
            durable: remap.fua || !caps.volatile_cache,
        };
        let mut writes = Vec::with_capacity(remap.pairs.len());
        for (pair, content) in remap.pairs.iter().zip(contents) {
            writes.push(Arc::new(self.put_all(span, kind, pair.home, content)));
        }
        if remap.mode == RemapMode::Move {
            for (lba, sectors) in remap.sources() {
                let write = self.zero(span, kind, lba, sectors);
                writes.push(Arc::new(write));
            }
        }
        let done = || RemapDone {
            pairs: remap.pairs.clone(),
            mode: remap.mode,
            writes: writes.clone(),
        };
        self.keep(span, || What::Remap(Arc::new(done())), &[]);
        self.ledger.remap_shared(writes);
        Ok(outcome)
    }

    fn discard(&mut self, span: (Time, Time), lba: Lba, sectors: u64) {
        let write = Arc::new(self.zero(span, Kind::Discard, lba, sectors));
        self.keep(span, || What::Write(write.clone()), &[]);
        self.ledger.write(write);
    }

    /// Makes zeros visible.
    fn zero(&mut self, (start, end): (Time, Time), kind: Kind, lba: Lba, sectors: u64) -> Write {
        let touched = lba.0 / SECTORS_PER_BLOCK..(lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
        let held: Vec<u64> = self.image.blocks_in(touched).map(|(n, _)| n).collect();
        let mut prev = Vec::new();
        for block in held {
            let first = (block * SECTORS_PER_BLOCK).max(lba.0);
            let last = ((block + 1) * SECTORS_PER_BLOCK).min(lba.0 + sectors);
            for part in parts(Lba(first), last - first) {
                let zeros = fill::zeros(part.bytes.len());
                self.put(part, zeros, &mut prev);
            }
        }
        Write {
            start,
            end,
            kind,
            lba,
            sectors,
            new: Vec::new(),
            prev,
        }
    }

    /// Enters a command in the recording, if there is one.
    fn keep(&mut self, (start, end): (Time, Time), what: impl FnOnce() -> What, pieces: &[Piece]) {
        if let Some(trace) = &mut self.trace {
            trace.steps.push(Step {
                start,
                end,
                what: what(),
                classes: pieces.iter().map(|p| p.class).collect(),
            });
        }
    }
}

impl BlockDevice for SpecDisk {
    fn caps(&self) -> Caps {
        self.caps.clone()
    }
    fn submit(&self, request: Request) -> Ticket {
        let mut state = self.state.lock();
        let done = state.execute(&self.caps, &request);
        state.done.keep(done)
    }
    fn wait(&self, ticket: Ticket) -> Result<Reply, DevError> {
        let ((at, result), cut) = {
            let mut state = self.state.lock();
            (state.done.fetch(ticket)?, state.cut_at)
        };
        if cut.is_some_and(|cut| at > cut) {
            return Err(DevError::power_lost());
        }
        rt::sleep_until(at);
        // I2.
        match self.state.lock().cut_at {
            Some(cut) if at > cut => Err(DevError::power_lost()),
            _ => result,
        }
    }
}
