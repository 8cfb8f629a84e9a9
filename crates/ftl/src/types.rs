//! Errors and counters of the FTL, and what is known of a block.

use thiserror::Error;

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

/// Why the FTL refuses an operation.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FtlError {
    /// The numbers do not make a device.
    #[error("translation layer: {0}")]
    Config(String),
    /// The medium holds no map of this layout.
    #[error("translation layer: {0}")]
    NotFormatted(String),
    /// The map on the medium contradicts itself.
    #[error("translation layer: {0}")]
    Corrupt(String),
    /// End of life: the device takes no more writes.
    #[error("the device is read-only: {0}")]
    ReadOnly(String),
    /// The unit's content is lost.
    #[error("unit {0} is unreadable")]
    Unreadable(u32),
    /// No such unit.
    #[error("unit {0} lies beyond the end of the device")]
    OutOfRange(u64),
}

/// Counters since the FTL was made. Units are mapping units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FtlStats {
    /// Units accepted from the host.
    pub host_units: u64,
    /// Units copied by garbage collection.
    pub gc_units: u64,
    /// Units copied out of the SLC area.
    pub fold_units: u64,
    /// NAND page reads.
    pub reads: u64,
    /// NAND page programs.
    pub programs: u64,
    /// NAND page programs that hold the map (checkpoint and log).
    pub map_programs: u64,
    /// NAND page programs that hold the log: TRIMs, REMAP batches, owners of moved slots. They are
    /// part of `map_programs`.
    pub log_programs: u64,
    /// Pairs of REMAP batches.
    pub remap_pairs: u64,
    /// Units that REMAP made share a slot with their source.
    pub remap_aliased: u64,
    /// Units that REMAP copied.
    pub remap_copied: u64,
    /// Records of owners of moved slots.
    pub owner_records: u64,
    /// NAND block erases.
    pub erases: u64,
    /// Erases of blocks of the map areas; they are part of `erases`.
    pub map_erases: u64,
    /// Slots programmed empty because a row had to be closed early.
    pub padded: u64,
    /// Units written anew because their page could only just be read.
    pub scrubbed: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Units of the host that held a journal's control blocks and went into their own stream.
    pub journal_units: u64,
    /// Units of zeros from the host that were not programmed.
    pub zero_units: u64,
    /// Units copied by static wear levelling.
    pub wear_units: u64,
    /// Blocks that static wear levelling began to move.
    pub wear_moves: u64,
    /// NAND page programs by cause.
    pub by_cause: Programs,
    /// Victims of garbage collection by their share of valid slots when they were chosen, in
    /// sixteenths, rounded down.
    pub valid_at_gc: [u64; 17],
}

/// NAND page programs by cause; a row with copies for both collection and wear counts for the later
/// cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Programs {
    /// What the host wrote.
    pub host: u64,
    /// Control blocks of a journal, in their own stream.
    pub journal: u64,
    /// Copies of garbage collection.
    pub collection: u64,
    /// Copies of static wear levelling.
    pub wear: u64,
    /// Copies out of the SLC area.
    pub fold: u64,
    /// Checkpoints of the map.
    pub checkpoint: u64,
    /// The log behind the map.
    pub log: u64,
}

impl Programs {
    /// Counts programs for a cause.
    pub(crate) fn add(&mut self, cause: nand::Cause, pages: u64) {
        use nand::Cause;
        let counter = match cause {
            Cause::Host => &mut self.host,
            Cause::Control => &mut self.journal,
            Cause::Collection => &mut self.collection,
            Cause::Wear => &mut self.wear,
            Cause::Fold => &mut self.fold,
            Cause::Map => &mut self.checkpoint,
            Cause::Log => &mut self.log,
        };
        *counter += pages;
    }
    /// All of them.
    pub fn total(&self) -> u64 {
        let data = self.host + self.journal + self.collection + self.wear + self.fold;
        data + self.checkpoint + self.log
    }
}

impl FtlStats {
    /// Counts a unit from the host.
    pub(crate) fn host_unit(&mut self) {
        self.host_units += 1;
    }
    /// Counts a unit of zeros from the host that is not programmed.
    pub(crate) fn zero_unit(&mut self) {
        self.host_units += 1;
        self.zero_units += 1;
    }
    /// Counts a unit of the host that goes into the journal's stream.
    pub(crate) fn journal_unit(&mut self) {
        self.journal_units += 1;
    }
    /// Counts slots programmed empty.
    pub(crate) fn pad(&mut self, slots: u32) {
        self.padded += u64::from(slots);
    }
    /// Counts a victim of collection.
    pub(crate) fn victim(&mut self, valid: u32, slots: u32) {
        self.valid_at_gc[(u64::from(valid) * 16 / u64::from(slots)).min(16) as usize] += 1;
    }
    /// Counts copied units by what they are copied for.
    pub(crate) fn copied(&mut self, cause: nand::Cause, units: u32) {
        *match cause {
            nand::Cause::Fold => &mut self.fold_units,
            nand::Cause::Wear => &mut self.wear_units,
            _ => &mut self.gc_units,
        } += u64::from(units);
    }
    /// Counts a block that static levelling begins to move.
    pub(crate) fn wear_move(&mut self) {
        self.wear_moves += 1;
    }
    /// Counts units written anew because their page could only just be read.
    pub(crate) fn scrub(&mut self, units: usize) {
        self.scrubbed += units as u64;
    }
    /// Counts a checkpoint that is begun.
    pub(crate) fn checkpoint(&mut self) {
        self.checkpoints += 1;
    }
    /// Counts the erase of a block of a map area.
    pub(crate) fn map_erase(&mut self) {
        self.map_erases += 1;
    }
    /// Counts programs of pages for a cause.
    pub(crate) fn program(&mut self, cause: nand::Cause, pages: u64) {
        self.by_cause.add(cause, pages);
        self.log_programs += if cause == nand::Cause::Log { pages } else { 0 };
        if matches!(cause, nand::Cause::Log | nand::Cause::Map) {
            self.map_programs += pages;
        }
    }
    /// Counts records of owners.
    pub(crate) fn owners(&mut self, records: usize) {
        self.owner_records += records as u64;
    }
    /// Counts a REMAP batch.
    pub(crate) fn remap(&mut self, pairs: usize, aliased: u64, copied: u64) {
        self.remap_pairs += pairs as u64;
        self.remap_aliased += aliased;
        self.remap_copied += copied;
    }
    /// Units programmed per unit that the host wrote; `None` if it wrote none. The map is not
    /// counted.
    pub fn amplification(&self) -> Option<f64> {
        let copies = self.gc_units + self.wear_units + self.fold_units;
        let programmed = self.host_units - self.zero_units + copies + self.padded;
        (self.host_units > 0).then(|| programmed as f64 / self.host_units as f64)
    }
}

/// Counters from before quiet work: see `Ftl::begin_quiet`.
#[derive(Clone, Copy, Debug)]
pub struct Quiet {
    pub(crate) stats: FtlStats,
    pub(crate) nand: nand::NandStats,
    pub(crate) map_share: i64,
}
