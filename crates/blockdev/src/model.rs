//! The sans-IO device interface: a device as a state machine that knows nothing of tasks.

use crate::{Caps, DevError, Reply, Request};
use base::Time;
use serde::{Deserialize, Serialize};

/// The outcome of a command, which is computed when the command is given.
#[derive(Clone, Debug)]
pub struct Completion {
    /// When the host learns of the completion. Never before the time of the call.
    pub at: Time,
    /// The result that it learns.
    pub result: Result<Reply, DevError>,
}

/// Host commands since the device was made: `device` in `results.json`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeviceStats {
    /// Read commands.
    pub reads: u64,
    /// Write commands, of every kind.
    pub writes: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Writes with the FUA flag of the host.
    pub fua_writes: u64,
    /// Writes sent with the reliable-write bit.
    pub reliable_writes: u64,
    /// Packed commands.
    pub packed_commands: u64,
    /// Remap commands.
    pub remaps: u64,
    /// Discard commands.
    pub discards: u64,
    /// Sectors of 512 bytes read.
    #[serde(default)]
    pub sectors_read: u64,
    /// Time during which a command was under way, microseconds; work behind completed commands is
    /// not included.
    #[serde(default)]
    pub busy_us: u64,
}

impl DeviceStats {
    /// The commands since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &DeviceStats) -> DeviceStats {
        DeviceStats {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            flushes: self.flushes - earlier.flushes,
            fua_writes: self.fua_writes - earlier.fua_writes,
            reliable_writes: self.reliable_writes - earlier.reliable_writes,
            packed_commands: self.packed_commands - earlier.packed_commands,
            remaps: self.remaps - earlier.remaps,
            discards: self.discards - earlier.discards,
            sectors_read: self.sectors_read - earlier.sectors_read,
            busy_us: self.busy_us - earlier.busy_us,
        }
    }
}

/// Counts of operations on the flash: `flash` in `results.json`. Pages are mapping units of 4 KiB
/// unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FlashStats {
    /// 4 KiB units the host wrote to the flash.
    pub host_pages: u64,
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
    /// NAND block erases.
    pub erases: u64,
    /// 4 KiB units copied by garbage collection.
    pub gc_copies: u64,
    /// 4 KiB units copied out of the pseudo-SLC write area.
    pub slc_folds: u64,
    /// NAND page programs that hold the map.
    pub map_programs: u64,
    /// Bytes of data in a NAND page: bytes programmed are `programs` times this, whatever part of a
    /// page was padding.
    pub page_bytes: u32,
    /// 4 KiB units whose home shares a page with its source by a REMAP command.
    pub remapped_units: u64,
    /// 4 KiB units that were copied for a REMAP command.
    pub copied_units: u64,
    /// 4 KiB units of zeros that were not programmed.
    pub zero_units: u64,
    /// NAND page programs by cause.
    pub programs_by_cause: ProgramsByCause,
    /// What transparent remapping did.
    pub transparent: TransparentStats,
    /// Blocks used up.
    pub used: BlocksUsed,
}

impl FlashStats {
    /// The operations since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &FlashStats) -> FlashStats {
        let programs = self.programs_by_cause;
        FlashStats {
            host_pages: self.host_pages - earlier.host_pages,
            reads: self.reads - earlier.reads,
            programs: self.programs - earlier.programs,
            erases: self.erases - earlier.erases,
            gc_copies: self.gc_copies - earlier.gc_copies,
            slc_folds: self.slc_folds - earlier.slc_folds,
            map_programs: self.map_programs - earlier.map_programs,
            page_bytes: self.page_bytes,
            remapped_units: self.remapped_units - earlier.remapped_units,
            copied_units: self.copied_units - earlier.copied_units,
            zero_units: self.zero_units - earlier.zero_units,
            programs_by_cause: programs.since(&earlier.programs_by_cause),
            transparent: self.transparent.since(&earlier.transparent),
            used: self.used.since(&earlier.used),
        }
    }
}

/// Blocks used up, in thousandths of a block: each of them has to be erased once before it can be
/// used again, whether or not that has been done yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct BlocksUsed {
    /// Ordinary blocks.
    pub ordinary: u64,
    /// Blocks of the pseudo-SLC write area.
    pub slc: u64,
    /// Blocks that hold the map.
    pub map: u64,
    /// Blocks of all three kinds that became free. A device that has empty blocks fills these
    /// first, and frees none.
    pub freed: u64,
}

impl BlocksUsed {
    /// The blocks since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &BlocksUsed) -> BlocksUsed {
        BlocksUsed {
            ordinary: self.ordinary.saturating_sub(earlier.ordinary),
            slc: self.slc.saturating_sub(earlier.slc),
            map: self.map.saturating_sub(earlier.map),
            freed: self.freed.saturating_sub(earlier.freed),
        }
    }
}

/// NAND page programs by their cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProgramsByCause {
    /// What the host wrote.
    pub host: u64,
    /// Control blocks of a journal, where they have open blocks of their own.
    pub journal: u64,
    /// Copies of garbage collection.
    pub collection: u64,
    /// Copies of wear levelling.
    pub wear: u64,
    /// Copies out of the pseudo-SLC write area.
    pub fold: u64,
    /// Checkpoints of the map.
    pub checkpoint: u64,
    /// The log behind the map: TRIMs, REMAPs, owners of moved pages.
    pub log: u64,
}

impl ProgramsByCause {
    /// The programs since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &ProgramsByCause) -> ProgramsByCause {
        ProgramsByCause {
            host: self.host - earlier.host,
            journal: self.journal - earlier.journal,
            collection: self.collection - earlier.collection,
            wear: self.wear - earlier.wear,
            fold: self.fold - earlier.fold,
            checkpoint: self.checkpoint - earlier.checkpoint,
            log: self.log - earlier.log,
        }
    }
}

/// Counts of transparent remapping for the units that reached the translation layer, zeros apart.
/// All are 0 where it is off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TransparentStats {
    /// Units whose content was programmed somewhere already: they share that page.
    pub matched: u64,
    /// Units that held this content already: nothing was done.
    pub unchanged: u64,
    /// Units for which the hash found content that turned out to be different.
    pub different: u64,
    /// Units that were programmed, including those among `different`.
    pub programmed: u64,
}

impl TransparentStats {
    /// The counts since `earlier`, a reading of the same device.
    pub fn since(&self, earlier: &TransparentStats) -> TransparentStats {
        TransparentStats {
            matched: self.matched - earlier.matched,
            unchanged: self.unchanged - earlier.unchanged,
            different: self.different - earlier.different,
            programmed: self.programmed - earlier.programmed,
        }
    }
    /// Units that were compared.
    pub fn units(&self) -> u64 {
        self.matched + self.unchanged + self.programmed
    }
}

/// A device model. Calls come with non-decreasing times.
///
/// State runs ahead of `now`: for every medium operation that ends after the last `now` the model
/// keeps start, end and the previous content, so that [`Model::power_off`] can undo or tear it. A
/// completion at exactly the time of the cut counts as delivered.
pub trait Model: Send {
    /// What survives a power cut.
    type Media: Send;

    /// The promises of the device.
    fn caps(&self) -> &Caps;
    /// Accepts a request at `now`.
    fn execute(&mut self, now: Time, request: Request) -> Completion;
    /// Lets background work of an idle device happen up to `now`. `execute` and `power_off` do so
    /// by themselves.
    fn advance(&mut self, now: Time);
    /// Cuts the power at `at`: an operation that starts at or after the cut never happened; one in
    /// flight is torn as the fault table of the medium says, with choices drawn from `seed`.
    fn power_off(self, at: Time, seed: u64) -> Self::Media;
    /// Host commands so far.
    fn device_stats(&self) -> DeviceStats;
    /// Flash operations so far; `None` for a device without flash below.
    fn flash_stats(&self) -> Option<FlashStats>;
}
