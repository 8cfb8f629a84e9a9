//! REMAP: units take over the content of other units (JFTL, 3.1).
//!
//! A batch makes its homes owners of the slots that their sources own (see `owners`); if all
//! sources are on flash, only a record is programmed. With [`Mode::Move`] the sources then leave
//! their slots. A home whose source holds nothing reads as zeros afterwards (hazards-R19). Past the
//! cap of owners (hazards-R15) units are copied: each copy gets a number behind the last unit,
//! which no recovery looks at; then the home takes over the copy's slot as it would the source's.
//! So a batch that both shares and copies is all or nothing by one record, and an error while
//! copying leaves nothing behind.
//!
//! # The argument (continues the list of the crate: ftl-I1 to slc-I12)
//!
//! - ftl-I1, with aliases: the owners of a slot are the units that L2P maps to it; P2L names one of
//!   them; valid counts count slots (hazards-R8).
//! - ftl-I2, with aliases: it holds for every unit that *owned* a slot of the block durably. A unit
//!   that leaves a slot takes over the number for which an erase waits
//!   ([`Ftl::leave`](crate::Ftl)); records in memory hold up erases like units in memory
//!   (hazards-R5). So the slot that a pending record names is not erased before the record, and
//!   what replaced the slot's content, are durable.
//! - ftl-I3, with records: a log page that names slots is programmed after every program so far has
//!   ended (hazards-R2). Sources are programmed before their batch takes its version (remap-S8),
//!   those in rows that failed included.
//! - ftl-I4, with records: a pair is a candidate (R, R) for its home, R the batch's version; an
//!   owner's record is (version, its own place in the order of programs). A moved batch is a TRIM
//!   of its sources at R. A copy of a shared slot carries the version of the owner in its tag and
//!   wins over that owner's pair by its program sequence: recovery follows the slot that way.
//! - ftl-I9, with aliases: a slot in a row that failed keeps its owners until it is in another row;
//!   records name it only then.
//! - group-I10, group-I11: a batch ends the group, as a TRIM does: a source that is in a group has
//!   been programmed with all of the group, before anything that names its slot. A copy keeps the
//!   place in its group, whichever owner its tag names.
//! - slc-I12: a slot of the SLC area is shared and folded like any other.
//! - I13 (batch): every piece of a batch in the log names the batch's version, count and checksum;
//!   recovery takes a batch if all pieces are there, and otherwise nothing of it (hazards-R3).
//!   Nothing else shows a part of the batch earlier. Its homes are not in any tag until their slots
//!   are copied; a slot is copied only if its batches are logged, and the copy is programmed when
//!   they are on flash. A checkpoint holds all of a batch or nothing.
//! - I14 (versions of owners): a copy carries for each owner a version that is at least that of the
//!   effect which made it an owner, and below any later effect on it. For owners since the last
//!   checkpoint that is the effect's own; for others the checkpoint's number serves, since tags up
//!   to it are not looked at.
//! - I15 (reuse): recovery believes a mapping only if its block was opened before the mapping was
//!   written down; else the content is lost and reads fail. Given ftl-I2, only a damaged page can
//!   bring this about.
//! - I16 (cap): a batch never brings the owners beyond the first of their slots above the cap;
//!   there may be more only where recovery has found them, left by a device with a greater cap.
//!
//! Claim: after a cut every unit holds the value of an effect not older than the last that a
//! completed flush covers, and of each batch all or nothing is there. Flushed effects are on flash
//! as tags or records; ftl-I2 and ftl-I5 keep the newest evidence of each unit until newer is
//! durable; ftl-I4 picks the newest. A pair's slot is whole by ftl-I3; if it was moved, its owner's
//! copy is durable by ftl-I2 and wins. The checkpoint at the end of recovery is exactly what was
//! found, so the argument holds for cuts in sequence.

use super::owners::Owner;
use super::streams::{Entry, HOST, STREAMS};
use super::{Ftl, FtlError};
use crate::blocks::ORDINARY;
use crate::config::NONE;
use crate::records::{LogBatch, LogPair, PAIR_BYTES};
use base::{Bytes, Mutant, Time};
use thiserror::Error;

/// What happens to the source of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The source keeps its content: both units share one slot.
    #[default]
    Share,
    /// The source reads as trimmed afterwards (JFTL, 3.1: the journal's entry of the map is
    /// cleared).
    Move,
}

/// A run of units and where their new content lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// First unit that takes over the content.
    pub home: u32,
    /// First unit of the content.
    pub src: u32,
    /// Units, at least one.
    pub len: u32,
    /// `base::collections::fingerprint` of the content that the source must have; `None`: any
    /// content.
    pub expect: Option<u64>,
}

/// A batch, which happens as a whole or not at all, at once and after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Batch<'a> {
    /// The pairs; homes are distinct, and none of them is a source.
    pub pairs: &'a [Pair],
    /// What happens to the sources.
    pub mode: Mode,
    /// True if the batch is to be refused rather than carried out with copies.
    pub require_all: bool,
}

/// What a batch did, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Remapped {
    /// Units that share a slot with their source.
    pub aliased: u64,
    /// Units that were copied.
    pub copied: u64,
}

/// Why a batch was refused; nothing has happened.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RemapError {
    /// A unit beyond the end of the device, or a pair without units.
    #[error("pair {index}: units beyond the device, or none")]
    Range {
        /// Place in the batch.
        index: usize,
    },
    /// A home twice, or a unit that is both home and source.
    #[error("pair {index}: its home is another home or a source of the batch")]
    Overlap {
        /// Place in the batch.
        index: usize,
    },
    /// The source holds other content than was expected.
    #[error("pair {index}: the source holds other content than expected")]
    Expect {
        /// Place in the batch.
        index: usize,
    },
    /// More pairs than one batch can hold.
    #[error("a batch of {pairs} pairs; at most {most}")]
    TooBig {
        /// Pairs of the batch.
        pairs: usize,
        /// Most that fit.
        most: usize,
    },
    /// Not all units could share slots, and `require_all` was set.
    #[error("{units} units could only be copied")]
    WouldCopy {
        /// How many.
        units: u64,
    },
    /// More copies at once than there is room for beside the slots that they replace.
    #[error("{units} units would have to be copied at once, and there is room for {most}")]
    NoRoom {
        /// How many.
        units: u64,
        /// Most that there is room for.
        most: u64,
    },
    /// The translation layer cannot write, or a source cannot be read.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}

/// One unit of a batch.
struct Unit {
    home: u32,
    src: u32,
    content: Bytes,
}

impl Ftl {
    /// Most pairs of a batch.
    pub fn remap_pairs_max(&self) -> usize {
        16 * 1024
    }

    /// Carries out a batch; volatile until a flush. Units that cannot share a slot are copied.
    ///
    /// # Errors
    /// [`RemapError`]; then nothing of the batch has happened.
    pub fn remap(&mut self, now: Time, batch: Batch<'_>) -> Result<Remapped, RemapError> {
        let units = self.check_batch(now, &batch)?;
        let Some(last) = units.last() else {
            return Ok(Remapped::default());
        };
        self.writable(last.home)?;
        self.checkpoint_if_due(now)?;
        let now = self.end_group_before_trim(now)?;
        self.program_sources(now, &units)?;
        let copied = self.to_copy(&units, batch.mode);
        if batch.require_all && !copied.is_empty() {
            let units = copied.len() as u64;
            return Err(RemapError::WouldCopy { units });
        }
        let copies = self.make_copies(now, &units, &copied)?;
        let mut slots: Vec<u32> = units.iter().map(|u| self.source_slot(u.src)).collect();
        for (i, slot) in copied.iter().zip(&copies) {
            slots[*i] = self.map.at(*slot);
        }
        let pending = self.take_over(&units, &slots, batch.mode);
        self.drop_copies(&copies);
        let done = Remapped {
            aliased: (units.len() - copied.len()) as u64,
            copied: copied.len() as u64,
        };
        self.stats
            .remap(batch.pairs.len(), done.aliased, done.copied);
        if pending * PAIR_BYTES >= self.meta_room() {
            // The batch has happened already; if the device fails while it writes the record, the
            // flush reports that.
            let _ = self.write_log(now);
        }
        Ok(done)
    }

    /// The slot that holds a unit's content; `NONE`: it has none.
    fn source_slot(&self, src: u32) -> u32 {
        let slot = self.map.slot_of(src).unwrap_or(NONE);
        let (block, row, place) = match slot {
            NONE => return NONE,
            slot => self.layout.place(slot),
        };
        // hazards-R16: slots are shared, not pages.
        match place > 0 && self.mutant(Mutant::AliasWholePage) {
            true => self.layout.ppn(block, row, 0),
            false => slot,
        }
    }
    /// Programs the rows that hold the sources (remap-S8), so that records can name their slots
    /// (ftl-I3).
    fn program_sources(&mut self, now: Time, units: &[Unit]) -> Result<(), FtlError> {
        let waits = |ftl: &Ftl| {
            let slots = units.iter().filter_map(|u| ftl.map.slot_of(u.src));
            slots.filter(|s| ftl.buffered(*s).is_some()).count() > 0
        };
        for stream in 0..STREAMS {
            if waits(self) {
                self.issue(now, stream)?;
            }
        }
        if waits(self) {
            self.empty_buffers(now)?;
        }
        Ok(())
    }
    /// The units that cannot share a slot: those past the cap (hazards-R15).
    fn to_copy(&self, units: &[Unit], mode: Mode) -> Vec<usize> {
        let mut room = self.owners.room();
        let mut first = base::Set::default();
        let mut copied = Vec::new();
        for (i, unit) in units.iter().enumerate() {
            // A source that leaves makes room for its first home. A source that holds nothing needs
            // no room, and neither does a home that shares the slot already (a batch sent again by
            // a recovery).
            let free = mode == Mode::Move && first.insert(unit.src);
            let slot = self.map.slot_of(unit.src);
            if slot.is_none() || free || slot == self.map.slot_of(unit.home) {
                continue;
            }
            if room == 0 && !self.mutant(Mutant::NoAliasCap) {
                copied.push(i);
            }
            room = room.saturating_sub(1);
        }
        copied
    }
    /// The maximum of copies of a batch: they lie beside what they replace until the batch is
    /// whole, and collection must still be possible (ftl-I6, ftl-I7).
    fn copy_room(&self) -> u64 {
        let good = self.blocks.good(ORDINARY);
        let spare = good.saturating_sub(self.layout.data_blocks_needed(&self.config));
        let slots = u64::from(self.layout.slots_per_block);
        u64::from(spare) * slots + slots / 2
    }
    /// Writes copies under numbers behind the last unit, and programs them.
    fn make_copies(
        &mut self,
        now: Time,
        units: &[Unit],
        copied: &[usize],
    ) -> Result<Vec<u32>, RemapError> {
        let (wanted, most) = (copied.len() as u64, self.copy_room());
        if wanted > most {
            return Err(RemapError::NoRoom {
                units: wanted,
                most,
            });
        }
        let numbers: Vec<u32> = (self.layout.units..).take(copied.len()).collect();
        let made = self.write_copies(now, units, copied);
        match made {
            Ok(()) => Ok(numbers),
            Err(e) => {
                self.drop_copies(&numbers);
                Err(e.into())
            }
        }
    }
    fn write_copies(
        &mut self,
        now: Time,
        units: &[Unit],
        copied: &[usize],
    ) -> Result<(), FtlError> {
        for (number, i) in (self.layout.units..).zip(copied) {
            self.background_step(now)?;
            let entry = Entry::host(number, units[*i].content.clone());
            self.put(now, HOST, entry)?;
            self.rescue(now)?;
        }
        if !copied.is_empty() {
            self.empty_buffers(now)?;
        }
        Ok(())
    }
    /// Frees the numbers that the copies had.
    fn drop_copies(&mut self, numbers: &[u32]) {
        for number in numbers {
            self.leave(*number);
            self.map.point(*number, NONE);
        }
    }
    /// Carries the batch out in memory, which cannot fail. Answers how many pairs wait for the log.
    fn take_over(&mut self, units: &[Unit], slots: &[u32], mode: Mode) -> usize {
        let mut accept = self.numbers.accept();
        // The version is taken after the sources were programmed. Writes to the homes that are
        // still in memory have none yet; those are dropped.
        let version = self.numbers.next_version();
        let mut pairs = Vec::with_capacity(units.len());
        for (unit, slot) in units.iter().zip(slots) {
            assert!(
                *slot == NONE || self.buffered(*slot).is_none(),
                "ftl-I3: the source of unit {} is not programmed",
                unit.home
            );
            let (home, src, slot) = (unit.home, unit.src, *slot);
            // hazards-R19
            if slot == NONE && self.mutant(Mutant::UnwrittenKeepsHome) {
                continue;
            }
            accept = self.leave(home).map_or(accept, |waited| waited.min(accept));
            self.map.point(home, NONE);
            if slot != NONE {
                let lpn = home;
                self.share(slot, Owner { lpn, version });
            }
            pairs.push(LogPair { home, src, slot });
        }
        if mode == Mode::Move {
            for unit in units {
                let waited = self.leave(unit.src);
                accept = waited.map_or(accept, |waited| waited.min(accept));
                self.map.point(unit.src, NONE);
            }
        }
        self.log.batch(LogBatch {
            version,
            moves: mode == Mode::Move,
            pairs,
            accept,
        })
    }

    /// The units of a batch with their content, if it is legal.
    fn check_batch(&mut self, now: Time, batch: &Batch<'_>) -> Result<Vec<Unit>, RemapError> {
        let (pairs, most) = (batch.pairs.len(), self.remap_pairs_max());
        if pairs > most {
            return Err(RemapError::TooBig { pairs, most });
        }
        let units = self.layout.units;
        let inside =
            |first: u32, len: u32| len > 0 && first.checked_add(len).is_some_and(|e| e <= units);
        let mut taken = base::Set::default();
        for pair in batch.pairs {
            if inside(pair.src, pair.len) {
                taken.extend(pair.src..pair.src + pair.len);
            }
        }
        let mut all = Vec::new();
        for (index, pair) in batch.pairs.iter().enumerate() {
            if !inside(pair.home, pair.len) || !inside(pair.src, pair.len) {
                return Err(RemapError::Range { index });
            }
            let mut bytes = Vec::with_capacity(pair.len as usize);
            for i in 0..pair.len {
                if !taken.insert(pair.home + i) {
                    return Err(RemapError::Overlap { index });
                }
                bytes.push(self.content(pair.src + i)?);
            }
            if let Some(expect) = pair.expect {
                let _ = self.read(now, pair.src..pair.src + pair.len);
                let differs = expect != base::collections::fingerprint(&bytes.concat());
                // hazards-R11
                if differs && !self.mutant(Mutant::IgnoreExpect) {
                    return Err(RemapError::Expect { index });
                }
            }
            let whole = (pair.home..).zip(pair.src..).zip(bytes);
            all.extend(whole.map(|((home, src), content)| Unit { home, src, content }));
        }
        Ok(all)
    }
}
