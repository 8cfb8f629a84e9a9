//! Packed writes inside the card.
//!
//! Entries for the cache go there in header order. The others are programmed before the command
//! completes: with [`PackOrder::Prefix`] in header order, as an ordered group of the FTL. With
//! [`PackOrder::AnySubset`] the card does what a real one was seen to do: it keeps the pack in its
//! SRAM, lets a later entry replace an earlier one to the same address, and programs in an order of
//! its own (ascending blocks).

use super::{Firmware, Way};
use crate::span::{self, Part, Source};
use base::{Bytes, Lba, SECTOR_BYTES, Time};
use blockdev::PackOrder;
use blockdev::spec::{Kind, Write};
use ftl::FtlError;
use std::collections::BTreeMap;

/// A write of a packed command.
pub(crate) struct PackEntry {
    pub lba: Lba,
    pub pieces: Vec<Bytes>,
    pub way: Way,
}

impl PackEntry {
    fn sectors(&self) -> u64 {
        self.bytes() / SECTOR_BYTES as u64
    }
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|p| p.len() as u64).sum()
    }
}

/// Parts that wait in the card's SRAM, by block.
type Staged = BTreeMap<u64, Vec<(Part, Bytes, bool)>>;

impl Firmware {
    /// Carries out a pack whose transfer begins at `start`. Answers when the card is ready again,
    /// and which entry failed (from 0 on), if one did: those before it are done, those from it on
    /// are not.
    pub fn write_pack(
        &mut self,
        start: Time,
        header_bytes: usize,
        entries: Vec<PackEntry>,
    ) -> (Time, Option<(usize, FtlError)>) {
        self.forget_landed(start);
        let bytes: u64 = entries.iter().map(PackEntry::bytes).sum();
        let mut t = start + self.timing.write() + self.timing.packed();
        t += self.timing.bus(header_bytes as u64);
        if !self.timing.pipelined {
            t += self.timing.bus(bytes);
        }
        if entries.iter().any(|e| e.way == Way::Reliable) {
            t += self.timing.reliable();
        }
        let mut staged = Staged::new();
        let mut before = Vec::new();
        let mut failed = self.begin_ordered(&mut t).err().map(|e| (0, e));
        for (i, entry) in entries.iter().enumerate() {
            if failed.is_some() {
                break;
            }
            if self.ledger.is_some() {
                before.push(self.before(entry.lba, entry.sectors()));
            }
            match self.pack_entry(t, entry, &mut staged) {
                Ok(then) => t = t.max(then),
                Err(e) => failed = Some((i, e)),
            }
        }
        let done = self.program_staged(t, staged).and_then(|t| {
            if entries.iter().any(|e| e.way != Way::Cached) {
                self.sync(t)
            } else {
                Ok(t)
            }
        });
        let end = done.and_then(|end| self.end_ordered(end));
        let end = end.unwrap_or_else(|e| {
            failed = Some((0, e));
            t
        });
        let count = failed.as_ref().map_or(entries.len(), |(i, _)| *i);
        self.enter_pack(start, end, entries.into_iter().take(count).zip(before));
        (end, failed)
    }
    /// Begins an ordered group, if the card promises a prefix for packs: from here on a cut leaves
    /// a prefix of what is programmed.
    fn begin_ordered(&mut self, t: &mut Time) -> Result<(), FtlError> {
        if self.pack_order == PackOrder::Prefix {
            *t = self.ftl.begin_group(*t)?;
        }
        Ok(())
    }
    fn end_ordered(&mut self, end: Time) -> Result<Time, FtlError> {
        match (self.pack_order, self.fifo) {
            (PackOrder::AnySubset, _) => Ok(end),
            (PackOrder::Prefix, true) => self.ftl.begin_group(end),
            (PackOrder::Prefix, false) => {
                self.ftl.end_group(end);
                Ok(end)
            }
        }
    }
    fn pack_entry(
        &mut self,
        mut t: Time,
        entry: &PackEntry,
        staged: &mut Staged,
    ) -> Result<Time, FtlError> {
        let mut source = Source::new(&entry.pieces);
        let rel = entry.way == Way::Reliable;
        for part in span::parts(entry.lba, entry.sectors()) {
            let bytes = source.take(part.to - part.from);
            if self.timing.pipelined {
                t += self.timing.bus(bytes.len() as u64);
            }
            match (entry.way, self.pack_order) {
                (Way::Cached, _) => {
                    t = self.cache_part(t, part, bytes)?;
                    self.last_arrival = t;
                }
                (_, PackOrder::Prefix) => t = self.program_part(t, part, bytes, rel)?,
                (_, PackOrder::AnySubset) => {
                    if !part.is_whole() {
                        self.ftl.content(part.block as u32)?;
                    }
                    self.cache.remove(part);
                    staged
                        .entry(part.block)
                        .or_default()
                        .push((part, bytes, rel));
                }
            }
        }
        Ok(t)
    }
    /// Programs what is staged, one unit for each block.
    fn program_staged(&mut self, mut t: Time, staged: Staged) -> Result<Time, FtlError> {
        for (block, parts) in staged {
            let rel = parts.iter().any(|(.., rel)| *rel);
            let whole = parts.iter().rposition(|(part, ..)| part.is_whole());
            let mut data = match whole {
                Some(_) => Bytes::new(),
                None => {
                    let (below, read) = self.ftl.read(t, block as u32..block as u32 + 1);
                    t = t.max(read);
                    below?.swap_remove(0)
                }
            };
            for (part, bytes, _) in parts.into_iter().skip(whole.unwrap_or(0)) {
                data = if part.is_whole() {
                    bytes
                } else {
                    span::merged(&data, part, &bytes)
                };
            }
            self.program_unit(t, block, base::fill::compact(data), rel)?;
        }
        Ok(t)
    }
    fn enter_pack(
        &mut self,
        start: Time,
        end: Time,
        entries: impl Iterator<Item = (PackEntry, Vec<(u64, Bytes)>)>,
    ) {
        let Some(ledger) = &mut self.ledger else {
            return;
        };
        let write = |(entry, prev): (PackEntry, _)| Write {
            start,
            end,
            kind: match entry.way {
                Way::Cached => Kind::Normal,
                Way::Through => Kind::Through,
                Way::Reliable => Kind::Fua,
            },
            lba: entry.lba,
            sectors: entry.sectors(),
            new: entry.pieces,
            prev,
        };
        ledger.pack(entries.map(write).collect());
    }
}
