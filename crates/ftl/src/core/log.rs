//! The log behind the map: records that wait in memory, and their way to flash.
//!
//! A record is the evidence for what its operation replaced, so it holds up erases like a unit in a
//! row buffer (ftl-I2) until its page, or a checkpoint that holds its effect, is programmed. A
//! record counts when its page is programmed, a batch when all its pages are (remap-I13). The bytes
//! are in `records`; where the pages go, `meta` decides.

use super::{Ftl, FtlError};
use crate::pages::MetaKind;
use crate::records::{LogBatch, OwnerRecord, TRIM_BYTES, Trim, Writer};
use base::{Mutant, Time};
use std::collections::BTreeMap;

/// Records that are not on flash yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// TRIMs, each with the number of its operation.
    trims: Vec<(Trim, u64)>,
    batches: Vec<LogBatch>,
    /// Owners of moved slots that need a record, with the number of the operation that moved them.
    owners: BTreeMap<u32, u64>,
    /// When the last page that made batches durable has been programmed.
    batch_end: Time,
}

impl Log {
    /// Adds a TRIM that came with operation `accept`; answers how many wait.
    pub fn trim(&mut self, trim: Trim, accept: u64) -> usize {
        self.trims.push((trim, accept));
        self.trims.len()
    }
    /// Adds a batch; answers how many pairs wait.
    pub fn batch(&mut self, batch: LogBatch) -> usize {
        self.batches.push(batch);
        self.batches.iter().map(|b| b.pairs.len()).sum()
    }
    /// Notes that a unit needs a record of its slot, since operation `accept`.
    pub fn owner(&mut self, lpn: u32, accept: u64) {
        self.owners.insert(lpn, accept);
    }
    /// Notes that a unit needs no record of its slot; answers since when it needed one.
    pub fn forget_owner(&mut self, lpn: u32) -> Option<u64> {
        self.owners.remove(&lpn)
    }
    /// The units that need a record of their slots.
    pub fn owners(&self) -> impl Iterator<Item = u32> {
        self.owners.keys().copied()
    }
    /// The batches that wait.
    pub fn batches(&self) -> &[LogBatch] {
        &self.batches
    }
    /// The numbers of the TRIMs that wait.
    pub fn trims_wait(&self) -> impl Iterator<Item = u64> {
        self.trims.iter().map(|(_, accept)| *accept)
    }
    /// The numbers of the batches and of the records of owners that wait.
    pub fn owners_wait(&self) -> impl Iterator<Item = u64> + Clone {
        let batches = self.batches.iter().map(|b| b.accept);
        batches.chain(self.owners.values().copied())
    }
    /// The earliest time at which a tag that shows a part of a batch may be programmed (remap-I13).
    pub fn after_batches(&self, now: Time) -> Time {
        now.max(self.batch_end)
    }
    /// Notes that the page with the batches will be programmed by `end`.
    fn batches_until(&mut self, end: Time) {
        self.batch_end = self.batch_end.max(end);
    }
    /// Notes that a checkpoint, durable at `end`, holds everything that waited.
    pub fn superseded(&mut self, end: Time) {
        if !self.batches.is_empty() {
            self.batches_until(end);
        }
        self.clear();
    }
    fn clear(&mut self) {
        self.trims.clear();
        self.batches.clear();
        self.owners.clear();
    }
}

impl Ftl {
    /// TRIMs that fit into a page of the log.
    pub(crate) fn log_page_records(&self) -> usize {
        self.meta_room() / TRIM_BYTES
    }
    /// Writes pending records into the log, or a new checkpoint if they do not fit there
    /// (hazards-R23). Owners whose slots are in memory stay pending, and so do the slots' old
    /// places (ftl-I2).
    pub(crate) fn write_log(&mut self, now: Time) -> Result<(), FtlError> {
        let owners = self.owners_to_log();
        if self.log.trims.is_empty() && self.log.batches.is_empty() && owners.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::new(self.meta_room());
        writer.trims(self.log.trims.iter().map(|(trim, _)| *trim));
        for batch in &self.log.batches {
            writer.batch(batch);
        }
        if !owners.is_empty() {
            writer.owners(self.numbers.next_version(), &owners);
        }
        let mut start = self.group.after_previous(self.area.after_root(now));
        // ftl-I3: a record names slots whose programs have ended (hazards-R2).
        let names_slots = !self.log.batches.is_empty() || !owners.is_empty();
        if names_slots && !self.mutant(Mutant::PairBeforeSource) {
            start = self.evidence.after_programs(start);
        }
        let fits = writer.pages.len() as u64 <= self.log_room();
        if !fits && self.mutant(Mutant::LogFullDrops) {
            self.log.clear();
            return Ok(());
        }
        for (trims, body) in writer.pages {
            let page = self.area.page(MetaKind::Log, trims, body);
            let Some(end) = fits.then(|| self.append_meta(start, page)).flatten() else {
                return self.checkpoint(now);
            };
            self.evidence.flush_waits(end);
            self.note_evidence(end);
            if names_slots {
                self.log.batches_until(end);
            }
        }
        self.log.trims.clear();
        self.log.batches.clear();
        self.stats.owners(owners.len());
        for owner in owners {
            self.log.forget_owner(owner.lpn);
        }
        Ok(())
    }
    /// Records for the owners whose moved slot is on flash and whose unit the slot's tag does not
    /// name. Owners that the tag names need no record.
    fn owners_to_log(&mut self) -> Vec<OwnerRecord> {
        let mut records = Vec::new();
        let mut done = Vec::new();
        for lpn in self.log.owners() {
            let Some(slot) = self.map.slot_of(lpn) else {
                continue;
            };
            if self.buffered(slot).is_some() {
                continue;
            }
            let listed = self.owners.of(slot).unwrap_or_default();
            match listed.iter().find(|o| o.lpn == lpn) {
                Some(owner) => records.push(OwnerRecord {
                    lpn,
                    slot,
                    version: owner.version,
                }),
                None => done.push(lpn),
            }
        }
        for lpn in done {
            self.log.forget_owner(lpn);
        }
        records
    }
}
