//! A plain medium behind a volatile cache, without flash and with small fixed costs. Profile
//! `loop-like` uses it.
//!
//! | area | fault at a power cut | what must survive |
//! |---|---|---|
//! | writes and discards since the last completed flush | `own`: all lost; `spec`: see [`blockdev::spec`] | flushed content, FUA writes |
//!
//! Limit: the ledger remembers 128 MiB of open writes; older ones count as durable.
//!
//! Invariants:
//! - I1: reads see the medium plus every write of the ledger, in order.
//! - I2: commands run one after the other; completion times do not decrease, but for a request that
//!   is refused at once.

use crate::span::{self, Source};
use base::{BLOCK_BYTES, Bytes, CowVec, Fingerprint, Lba, Nanos, SECTORS_PER_BLOCK, Time, fill};
use blockdev::spec::{Kind, Ledger, Write};
use blockdev::{
    Adversary, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Op, Piece, Reply,
    Request,
};
use serde::{Deserialize, Serialize};

/// When open writes keep more than this many bytes of old and new content, the oldest count as
/// durable.
const LEDGER_BYTES: u64 = 128 << 20;

/// What commands cost.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PlainTiming {
    /// Each command, microseconds.
    pub request_us: f64,
    /// Each KiB moved, microseconds.
    pub per_kib_us: f64,
    /// A flush, microseconds, on top of `request_us`.
    pub flush_us: f64,
    /// A flush, for each KiB written since the last one, microseconds.
    pub flush_per_kib_us: f64,
}

impl PlainTiming {
    /// Checks these numbers; the error names the first field that is no sensible time.
    pub(crate) fn check(&self) -> Result<(), String> {
        let fields = [
            ("request_us", self.request_us),
            ("per_kib_us", self.per_kib_us),
            ("flush_us", self.flush_us),
            ("flush_per_kib_us", self.flush_per_kib_us),
        ];
        match fields.iter().find(|(_, v)| !(0.0..1e7).contains(v)) {
            Some((name, value)) => Err(format!("{name} = {value}; it may be 0 to ten seconds")),
            None => Ok(()),
        }
    }
}

/// What survives a power cut of a [`Plain`].
#[derive(Clone)]
pub struct PlainMedia {
    pub(crate) blocks: CowVec<Bytes, 256>,
}

impl PlainMedia {
    /// A digest of the content.
    pub fn content_hash(&self) -> u64 {
        self.blocks.content_hash()
    }
    /// Capacity in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        (self.blocks.len() * BLOCK_BYTES) as u64
    }
}

/// The model.
#[derive(Clone)]
pub struct Plain {
    caps: Caps,
    timing: PlainTiming,
    adversary: Adversary,
    blocks: CowVec<Bytes, 256>,
    ledger: Ledger,
    busy_until: Time,
    dirty_kib: u64,
    stats: DeviceStats,
}

impl Plain {
    /// A device of `blocks` 4 KiB blocks, or one on the medium that a cut left (whose size then
    /// counts).
    pub fn new(caps: Caps, timing: PlainTiming, blocks: u64, media: Option<PlainMedia>) -> Plain {
        let blocks = media.map_or_else(
            || CowVec::new(blocks as usize, fill::zeros(BLOCK_BYTES)),
            |m| m.blocks,
        );
        let caps = Caps {
            sectors: blocks.len() as u64 * SECTORS_PER_BLOCK,
            ..caps
        };
        Plain {
            caps,
            timing,
            adversary: Adversary::default(),
            blocks,
            ledger: Ledger::new(LEDGER_BYTES),
            busy_until: Time(0),
            dirty_kib: 0,
            stats: DeviceStats::default(),
        }
    }
    /// Chooses the adversary, which decides what a power cut leaves.
    pub fn set_adversary(&mut self, adversary: Adversary) {
        self.adversary = adversary;
    }
    /// Open writes of the ledger.
    pub fn backlog(&self) -> usize {
        self.ledger.open_writes()
    }
    /// A 4 KiB block as reads see it (I1), at no cost.
    pub(crate) fn visible(&self, block: u64) -> Bytes {
        self.blocks.get(block as usize).clone()
    }
    /// Calls `f` with every 4 KiB block that is not all zero, ascending. Costs no virtual time.
    pub fn dump_logical(&self, mut f: impl FnMut(Lba, &[u8])) {
        for (block, bytes) in self.blocks.iter_present() {
            if bytes.fingerprint() != 0 {
                f(Lba(block as u64 * SECTORS_PER_BLOCK), bytes);
            }
        }
    }
    /// Stores `bytes` at `lba`, durable at once. Costs no virtual time and changes no counter.
    ///
    /// # Errors
    /// Out of range, or not whole sectors.
    pub fn load_logical(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        let request = Request::write(lba, blockdev::Class::Data, bytes.clone());
        blockdev::check_request(&self.caps, &request)?;
        let pieces = span::keepable(vec![Piece {
            class: blockdev::Class::Data,
            bytes,
        }]);
        self.store(lba, &pieces);
        Ok(())
    }

    fn store(&mut self, lba: Lba, pieces: &[Bytes]) {
        let mut source = Source::new(pieces);
        let sectors =
            pieces.iter().map(|p| p.len() as u64).sum::<u64>() / base::SECTOR_BYTES as u64;
        for part in span::parts(lba, sectors) {
            let new = source.take(part.to - part.from);
            let slot = self.blocks.get_mut(part.block as usize);
            *slot = if part.is_whole() {
                fill::compact(new)
            } else {
                span::merged(slot, part, &new)
            };
        }
    }
    fn read(&self, lba: Lba, sectors: u64) -> Vec<Bytes> {
        let part = |p: span::Part| match p.is_whole() {
            true => self.blocks.get(p.block as usize).clone(),
            false => self.blocks.get(p.block as usize).slice(p.from..p.to),
        };
        span::parts(lba, sectors).map(part).collect()
    }
    /// The blocks of a run as they are now, without those that hold zeros.
    fn snapshot(&self, lba: Lba, sectors: u64) -> Vec<(u64, Bytes)> {
        let blocks =
            span::parts(lba, sectors).map(|p| (p.block, self.blocks.get(p.block as usize)));
        blocks
            .filter(|(_, b)| fill::uniform(b) != Some(0))
            .map(|(n, b)| (n, b.clone()))
            .collect()
    }
    fn cost(&self, sectors: u64) -> Nanos {
        let us = self.timing.request_us + self.timing.per_kib_us * sectors as f64 / 2.0;
        Nanos((us * 1000.0) as u64)
    }
    /// The cost of the part of a flush, or of a FUA write, that brings `kib` to the medium.
    fn flush_cost(&self, kib: u64) -> Nanos {
        let us = self.timing.flush_us + self.timing.flush_per_kib_us * kib as f64;
        Nanos((us * 1000.0) as u64)
    }
    fn open_write(
        &mut self,
        span: (Time, Time),
        kind: Kind,
        lba: Lba,
        sectors: u64,
        new: Vec<Bytes>,
    ) {
        let prev = self.snapshot(lba, sectors);
        self.ledger.write(Write {
            start: span.0,
            end: span.1,
            kind,
            lba,
            sectors,
            new,
            prev,
        });
    }
    /// Runs a legal command from `start` on; answers when it is done and what it brings back.
    fn run(&mut self, start: Time, op: Op) -> (Time, Reply) {
        match op {
            Op::Read { lba, sectors } => {
                self.stats.reads += 1;
                (
                    start + self.cost(sectors),
                    Reply {
                        data: self.read(lba, sectors),
                        ..Reply::default()
                    },
                )
            }
            Op::Write { lba, pieces, fua } => {
                self.stats.writes += 1;
                self.stats.fua_writes += u64::from(fua);
                let pieces = span::keepable(pieces);
                let sectors =
                    pieces.iter().map(|p| p.len() as u64).sum::<u64>() / base::SECTOR_BYTES as u64;
                let kib = sectors.div_ceil(2);
                let (kind, through) = match fua {
                    true => (Kind::Fua, self.flush_cost(kib)),
                    false => (Kind::Normal, Nanos(0)),
                };
                let end = start + self.cost(sectors) + through;
                self.open_write((start, end), kind, lba, sectors, pieces.clone());
                self.store(lba, &pieces);
                self.dirty_kib += if fua { 0 } else { kib };
                (end, Reply::default())
            }
            Op::Discard { lba, sectors } => {
                self.stats.discards += 1;
                let end = start + self.cost(0);
                self.open_write((start, end), Kind::Discard, lba, sectors, Vec::new());
                for part in span::parts(lba, sectors) {
                    let zeros = fill::zeros(part.to - part.from);
                    let old = self.blocks.get(part.block as usize);
                    if fill::uniform(old) != Some(0) {
                        let new = if part.is_whole() {
                            zeros
                        } else {
                            span::merged(old, part, &zeros)
                        };
                        self.blocks.set(part.block as usize, new);
                    }
                }
                (end, Reply::default())
            }
            // Such requests are refused before they come here, because the Caps offer none of them.
            Op::Pack { .. } | Op::Remap(_) | Op::Barrier => (start, Reply::default()),
            Op::Flush => {
                self.stats.flushes += 1;
                let end = start + self.cost(0) + self.flush_cost(self.dirty_kib);
                self.dirty_kib = 0;
                self.ledger.flush(start, end);
                (end, Reply::default())
            }
        }
    }
}

impl Model for Plain {
    type Media = PlainMedia;

    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        self.advance(now);
        let fua = matches!(request.op, Op::Write { fua: true, .. });
        let legal = match fua && !self.caps.fua {
            true => Err(DevError::misuse(
                request.span().map(|s| s.0),
                "this device has no FUA: flush instead",
            )),
            false => blockdev::check_request(&self.caps, &request),
        };
        if let Err(e) = legal {
            return Completion {
                at: now,
                result: Err(e),
            };
        }
        // I2.
        let (end, reply) = self.run(self.busy_until.max(now), request.op);
        self.busy_until = end;
        Completion {
            at: end,
            result: Ok(reply),
        }
    }
    fn advance(&mut self, now: Time) {
        self.ledger.advance(now);
    }
    fn power_off(mut self, at: Time, seed: u64) -> PlainMedia {
        let visible = |block: u64| self.blocks.get(block as usize).clone();
        let state = match self.adversary {
            Adversary::Own => self.ledger.lost(at, &self.caps, visible),
            Adversary::Spec => self.ledger.draw(at, seed, &self.caps, visible),
        };
        for (block, bytes) in state {
            self.blocks.set(block as usize, bytes);
        }
        PlainMedia {
            blocks: self.blocks,
        }
    }
    fn device_stats(&self) -> DeviceStats {
        self.stats
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        None
    }
}
