//! Raw flash: the FTL behind a host bus, with a write buffer or without, and the command REMAP.
//!
//! | area | fault at a power cut | what must survive |
//! |---|---|---|
//! | write buffer (`buffer_kib` > 0) and row buffers of the FTL | lost | everything flushed, FUA writes, REMAP with `fua` |
//! | write, `buffer_kib = 0`, at completion | none: its programs have ended | the write |
//! | REMAP, not flushed | the whole batch is lost, or nothing of it (remap-S4) | flushed batches; with `buffer_kib = 0` every completed one |
//! | discard, not flushed | the old content comes back | flushed discards, until the next write; with `buffer_kib = 0` every completed one |
//! | unit being programmed | old or new, as a whole | all other units |
//!
//! What the chips and the FTL do at a cut is described at the heads of `nand` and `ftl`. With
//! [`Adversary::Own`] a cut leaves what this model's device leaves; with [`Adversary::Spec`] what
//! its [`Caps`] leave open is drawn by [`blockdev::spec`].
//!
//! Invariants:
//! - R1: all changes of a REMAP are made by one batch of the FTL: aliases, and units that were
//!   copied because they cannot share the mapping unit. Copies are first written to scratch units
//!   behind the exported capacity. Their content is needed only during the batch, so they are
//!   trimmed at power-up and after each batch.
//! - R2: an alias is made when its source is in the FTL (remap-S8): lines of sources are written
//!   back before.
//! - R3: everything that a batch reads is read before it writes anything (remap-S1), and a refused
//!   batch has written nothing that the host can see (remap-S6, remap-S7).
//! - R4: no cached line of a home, nor of a source that has moved, outlives its batch: older
//!   content cannot overtake it.
//! - R5: commands run one after the other; completion times do not decrease, but for a request that
//!   is refused at once. Without a write buffer a completed write, discard or REMAP is durable:
//!   such a device answers [`Caps::volatile_cache`] with false, and hosts send it no flushes.
//!
//! With `transparent = true` the device shares equal content without being asked: see the module
//! `firmware::transparent` and its invariants transparent-T1 to transparent-T4.

use crate::FlashMedia;
use crate::firmware::{Buffering, Firmware, PathTiming, Way, nanos, window};
use crate::span;
use crate::usage::Usage;
use base::{BLOCK_BYTES, Bytes, Lba, Nanos, SECTORS_PER_BLOCK, Time};
use blockdev::{
    Adversary, Caps, Completion, DevError, DeviceStats, FlashStats, Model, Op, PackOrder,
    RemapCaps, Reply, Request,
};
use ftl::{Ftl, FtlError};
use serde::{Deserialize, Serialize};

/// What survives a power cut of a [`Raw`].
pub type RawMedia = FlashMedia;

/// The properties of a device, apart from its chips and its timing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    /// Volatile write buffer, KiB; 0: none, a write completes when its programs have ended.
    pub buffer_kib: u32,
    /// Largest transfer of one command, KiB.
    pub max_transfer_kib: u32,
    /// True if the device takes discards.
    pub discard: bool,
    /// The maximum of pairs of a REMAP; 0: the device has no such command.
    pub remap_pairs: u32,
}

impl RawConfig {
    /// Checks these values; the error names the first impossible field.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, value, min, max) in [
            ("buffer_kib", self.buffer_kib, 0, 1 << 20),
            ("max_transfer_kib", self.max_transfer_kib, 4, 1 << 20),
            ("remap_pairs", self.remap_pairs, 0, 16 * 1024),
        ] {
            if !(min..=max).contains(&value) {
                return Err(format!("{name} = {value}; it may be {min} to {max}"));
            }
        }
        Ok(())
    }
    /// Number of units behind the `units` exported ones that a batch of REMAP copies into (R1): a
    /// 128th of the device, 16 to 1024.
    pub(crate) fn scratch(&self, units: u64) -> u64 {
        match self.remap_pairs {
            0 => 0,
            _ => (units / 128).clamp(16, 1024),
        }
    }
}

/// Costs of the path to the chips, microseconds unless said otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RawTiming {
    /// Host driver, interrupt and firmware, each request.
    pub request_us: f64,
    /// Each KiB over the host bus.
    pub bus_us_per_kib: f64,
    /// Firmware path to the chips, each KiB programmed; one KiB at a time.
    pub program_us_per_kib: f64,
    /// Firmware, each pair of a REMAP.
    pub remap_us_per_pair: f64,
    /// Speed of the chips, if this set has its own; else that of the profile applies.
    pub nand: Option<ftl::nand::Timing>,
}

impl RawTiming {
    /// Checks these numbers; the error names the first field that is no sensible time.
    pub(crate) fn check(&self) -> Result<(), String> {
        let fields = [
            ("request_us", self.request_us),
            ("bus_us_per_kib", self.bus_us_per_kib),
            ("program_us_per_kib", self.program_us_per_kib),
            ("remap_us_per_pair", self.remap_us_per_pair),
        ];
        match fields.iter().find(|(_, v)| !(0.0..1e7).contains(v)) {
            Some((name, value)) => Err(format!("{name} = {value}; it may be 0 to ten seconds")),
            None => match &self.nand {
                Some(nand) => nand.check().map_err(|e| format!("nand.{e}")),
                None => Ok(()),
            },
        }
    }
    fn path(&self) -> PathTiming {
        PathTiming {
            bus_us_per_kib: self.bus_us_per_kib,
            program_us_per_kib: self.program_us_per_kib,
            pair_us: self.remap_us_per_pair,
            pipelined: true,
            ..PathTiming::default()
        }
    }
    fn request(&self) -> Nanos {
        nanos(self.request_us)
    }
}

/// The model.
#[derive(Clone)]
pub struct Raw {
    caps: Caps,
    fw: Firmware,
    timing: RawTiming,
    busy_until: Time,
    usage: Usage,
    stats: DeviceStats,
}

impl Raw {
    /// Puts the controller over a settled FTL of 4 KiB units, of which the host sees the first
    /// `units`. The FTL has [`RawConfig::scratch`] more.
    ///
    /// # Errors
    /// The device is read-only.
    pub(crate) fn new(
        config: &RawConfig,
        timing: RawTiming,
        units: u64,
        mut ftl: Ftl,
    ) -> Result<Raw, FtlError> {
        let quiet = ftl.begin_quiet();
        // R1: what a cut left in the scratch units is not needed.
        let scratch = units as u32..ftl.layout().units;
        if scratch.clone().any(|u| ftl.is_mapped(u)) {
            ftl.trim(Time(0), scratch)?;
        }
        ftl.end_quiet(quiet)?;
        let pairs_max = config.remap_pairs.min(ftl.remap_pairs_max() as u32);
        let caps = Caps {
            sectors: units * SECTORS_PER_BLOCK,
            sector_bytes: base::SECTOR_BYTES as u32,
            volatile_cache: config.buffer_kib > 0,
            fua: true,
            fua_flushes: false,
            // A unit that is being programmed is old or new: it has all its tags or none.
            reliable_granule: Some(BLOCK_BYTES as u32),
            tear_granule: Some(BLOCK_BYTES as u32),
            atomic_write_bytes: BLOCK_BYTES as u32,
            no_collateral: true,
            packed: None,
            cache_fifo: false,
            barrier: false,
            discard: config.discard,
            remap: (pairs_max > 0).then_some(RemapCaps {
                granule: BLOCK_BYTES as u32,
                pairs_max,
            }),
            max_transfer_sectors: u64::from(config.max_transfer_kib) * 2,
        };
        let buffering = Buffering {
            units,
            cache_kib: config.buffer_kib,
            cache_fifo: false,
            cache_in_turn: false,
            pack_order: PackOrder::Prefix,
        };
        let mut fw = Firmware::new(buffering, timing.path(), ftl);
        fw.settle();
        Ok(Raw {
            caps,
            fw,
            timing,
            busy_until: Time(0),
            usage: Usage::default(),
            stats: DeviceStats::default(),
        })
    }
    /// Shares equal content from now on, with an index of what was programmed in the last `mib`
    /// MiB, and copies of the last `copies_mib` MiB in memory.
    pub(crate) fn share_content(&mut self, mib: u32, copies_mib: u32) {
        self.fw.share_content(window(mib), window(copies_mib));
    }
    /// Whether equal content is shared.
    pub(crate) fn shares_content(&self) -> bool {
        self.fw.shares_content()
    }
    /// With `on`, keeps which units are shared from now on.
    pub(crate) fn keep_shared(&mut self, on: bool) {
        if let Some(index) = self.fw.transparent_mut() {
            index.keep_shared(on);
        }
    }
    /// The units that were shared since the last call.
    pub(crate) fn take_shared(&mut self) -> Vec<u32> {
        let index = self.fw.transparent_mut();
        index.map_or_else(Vec::new, |index| index.take_shared())
    }
    /// Makes the content index look at only `bits` bits of its hash, for tests that the comparison
    /// of bytes is needed.
    pub fn shorten_hash(&mut self, bits: u32) {
        if let Some(index) = self.fw.transparent_mut() {
            index.shorten(bits);
        }
    }
    /// Access to the translation layer, for tests that inject faults into it.
    #[cfg(feature = "mutants")]
    pub fn ftl_mut(&mut self) -> &mut Ftl {
        self.fw.ftl_mut()
    }
    /// Chooses the adversary, which decides what a power cut leaves.
    pub fn set_adversary(&mut self, adversary: Adversary) {
        self.fw.set_adversary(adversary);
    }
    /// Number of records kept for a cut, and of places in the write buffer.
    pub fn backlog(&self) -> usize {
        self.fw.backlog()
    }
    /// The firmware inside.
    pub(crate) fn firmware(&self) -> &Firmware {
        &self.fw
    }
    pub(crate) fn firmware_mut(&mut self) -> &mut Firmware {
        &mut self.fw
    }
    /// Calls `f` with every 4 KiB block that is not all zero, ascending, as reads see them.
    pub fn dump_logical(&self, f: impl FnMut(Lba, &[u8])) {
        self.fw.dump(f);
    }
    /// Stores `bytes` at `lba`, durable at once, at no cost.
    ///
    /// # Errors
    /// Out of range, not whole sectors, or the device is read-only.
    pub fn load_logical(&mut self, lba: Lba, bytes: Bytes) -> Result<(), DevError> {
        let request = Request::write(lba, blockdev::Class::Data, bytes.clone());
        blockdev::check_request(&self.caps, &request)?;
        let loaded = self.fw.load(lba, bytes);
        loaded.map_err(|e| DevError::io(lba, e.to_string()))
    }
    /// The kind of a write with this `fua`.
    fn way(&self, fua: bool) -> Way {
        match (fua, self.caps.volatile_cache) {
            (true, _) => Way::Reliable,
            (false, true) => Way::Cached,
            (false, false) => Way::Through,
        }
    }
    /// Runs a legal command from `start` on; answers when it is over.
    fn run(&mut self, start: Time, op: Op) -> Result<(Time, Reply), DevError> {
        let t = start + self.timing.request();
        let done = |at: Time| (at, Reply::default());
        match op {
            Op::Read { lba, sectors } => {
                self.stats.reads += 1;
                self.usage.read(sectors);
                let (data, end) = self.fw.read(t, lba, sectors);
                let data = data.map_err(|e| DevError::io(lba, e.to_string()))?;
                let reply = Reply {
                    data,
                    ..Reply::default()
                };
                Ok((end, reply))
            }
            Op::Write { lba, pieces, fua } => {
                self.stats.writes += 1;
                self.stats.fua_writes += u64::from(fua);
                let way = self.way(fua);
                let written = self.fw.write(t, lba, span::keepable(pieces), way);
                written
                    .map(done)
                    .map_err(|e| DevError::io(lba, e.to_string()))
            }
            Op::Discard { lba, sectors } => {
                self.stats.discards += 1;
                let ended = self.fw.discard(t, lba, sectors, false);
                // R5: to a device without a write buffer comes no flush.
                let ended = ended.and_then(|end| match self.caps.volatile_cache {
                    true => Ok(end),
                    false => self.fw.flush(end),
                });
                ended
                    .map(done)
                    .map_err(|e| DevError::io(lba, e.to_string()))
            }
            Op::Flush => {
                self.stats.flushes += 1;
                let flushed = self.fw.flush(t);
                flushed
                    .map(done)
                    .map_err(|e| DevError::io(Lba(0), e.to_string()))
            }
            Op::Remap(remap) => {
                self.stats.remaps += 1;
                // R5: without a write buffer nothing that has completed is volatile.
                let durable = remap.fua || !self.caps.volatile_cache;
                let (end, remapped) = self.fw.remap(t, &remap, durable)?;
                let reply = Reply {
                    remapped: Some(remapped),
                    ..Reply::default()
                };
                Ok((end, reply))
            }
            // Such requests are refused before they come here, because the Caps offer neither.
            Op::Pack { .. } | Op::Barrier => Ok(done(t)),
        }
    }
}

impl Model for Raw {
    type Media = RawMedia;

    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn execute(&mut self, now: Time, request: Request) -> Completion {
        self.advance(now);
        if let Err(e) = blockdev::check_request(&self.caps, &request) {
            return Completion {
                at: now,
                result: Err(e),
            };
        }
        let start = self.busy_until.max(now);
        let (end, result) = match self.run(start, request.op) {
            Ok((end, reply)) => (end, Ok(reply)),
            Err(e) => (start + self.timing.request(), Err(e)),
        };
        self.busy_until = end;
        self.usage.add(now, end);
        Completion { at: end, result }
    }
    fn advance(&mut self, now: Time) {
        self.fw.advance(now);
    }
    fn power_off(self, at: Time, seed: u64) -> RawMedia {
        self.fw.power_off(at, seed, &self.caps)
    }
    fn device_stats(&self) -> DeviceStats {
        self.usage.over(self.stats)
    }
    fn flash_stats(&self) -> Option<FlashStats> {
        Some(self.fw.flash_stats())
    }
}
