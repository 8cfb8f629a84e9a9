//! Reads NAT, SIT and summaries as the checkpoint sees them: an entry in the journal of the pack
//! counts before the one in the table, and of a table block's two copies the one that the version
//! bitmap names counts.

use super::finding::{Finding, Findings, Kind};
use super::volume::Volume;
use base::{Bytes, Map};
use ondisk::f2fs::{BlockAddr, Log, NatEntry, Nid, SegNo, SitEntry, bits};

/// Where the summary of a segment comes from.
#[derive(Clone)]
pub(super) enum SegmentSummary {
    /// It is the segment of this log, whose summary lies in the pack, or nowhere.
    Open(Log, Option<Bytes>),
    /// From the summary area; `None` if it cannot be read.
    Closed(Option<Bytes>),
    /// The volume is sealed: it has no summary area, and the summaries of its logs are not written.
    None,
}

/// Tables, with the blocks that were looked at.
pub(super) struct Tables<'v> {
    volume: &'v Volume<'v>,
    nat_journal: Map<u32, NatEntry>,
    sit_journal: Map<u32, SitEntry>,
    nat_blocks: Map<u32, Option<Bytes>>,
    sit_blocks: Map<u32, Option<Bytes>>,
    summaries: Map<u32, SegmentSummary>,
    logs: Vec<(Log, SegNo)>,
}

impl<'v> Tables<'v> {
    pub fn new(volume: &'v Volume<'v>, found: &mut Findings) -> Tables<'v> {
        let pack = &volume.pack;
        let mut tables = Tables {
            volume,
            nat_journal: Map::default(),
            sit_journal: Map::default(),
            nat_blocks: Map::default(),
            sit_blocks: Map::default(),
            summaries: Map::default(),
            logs: volume
                .geo
                .logs()
                .iter()
                .map(|&log| (log, pack.cp.cur_segno(log)))
                .collect(),
        };
        for &(nid, entry) in &pack.nat {
            if nid.0 == 0 || nid.0 >= volume.geo.max_nid {
                found.add(
                    Finding::new(Kind::Journal, "a NAT entry beyond the NAT")
                        .nid(nid)
                        .block(pack.start),
                );
            } else {
                // The first of two counts, as for the kernel.
                tables.nat_journal.entry(nid.0).or_insert(entry);
            }
        }
        for &(seg, entry) in &pack.sit {
            if seg.0 >= volume.geo.segments_main {
                let what = "a SIT entry beyond the main area";
                found.add(
                    Finding::new(Kind::Journal, what)
                        .segment(seg)
                        .block(pack.start),
                );
            } else {
                tables.sit_journal.insert(seg.0, entry);
            }
        }
        tables
    }

    /// Address of the copy of a NAT block that counts.
    pub fn nat_addr(&self, block: u32) -> BlockAddr {
        let second = bits::test_bit(self.volume.pack.cp.nat_bitmap(), block as usize);
        self.volume.geo.nat_addr(block, second)
    }
    /// Address of the copy of a SIT block that counts.
    pub fn sit_addr(&self, block: u32) -> BlockAddr {
        let second = bits::test_bit(self.volume.pack.cp.sit_bitmap(), block as usize);
        self.volume.geo.sit_addr(block, second)
    }

    /// A NAT block, from memory if it was looked at.
    pub fn nat_block(&mut self, block: u32, found: &mut Findings) -> Option<Bytes> {
        if let Some(known) = self.nat_blocks.get(&block) {
            return known.clone();
        }
        self.volume.reader.block(self.nat_addr(block), found)
    }
    /// A SIT block, from memory if it was looked at.
    pub fn sit_block(&mut self, block: u32, found: &mut Findings) -> Option<Bytes> {
        if let Some(known) = self.sit_blocks.get(&block) {
            return known.clone();
        }
        self.volume.reader.block(self.sit_addr(block), found)
    }

    /// What the NAT says of a nid below the limit.
    pub fn nat(&mut self, nid: Nid, found: &mut Findings) -> NatEntry {
        if let Some(entry) = self.nat_journal.get(&nid.0) {
            return *entry;
        }
        let (block, index) = self.volume.geo.nat_block(nid);
        if !self.nat_blocks.contains_key(&block) {
            let bytes = self.volume.reader.block(self.nat_addr(block), found);
            self.nat_blocks.insert(block, bytes);
        }
        match &self.nat_blocks[&block] {
            Some(bytes) => NatEntry::get(bytes, index),
            None => NatEntry::default(),
        }
    }
    /// The entry of a journal, if there is one.
    pub fn journaled_nat(&self, nid: Nid) -> Option<NatEntry> {
        self.nat_journal.get(&nid.0).copied()
    }
    /// The entry of a journal, if there is one.
    pub fn journaled_sit(&self, seg: SegNo) -> Option<&SitEntry> {
        self.sit_journal.get(&seg.0)
    }
    /// The log that writes into a segment.
    pub fn log_of(&self, seg: SegNo) -> Option<Log> {
        let is_at = |&&(_, at): &&(Log, SegNo)| at == seg;
        self.logs.iter().find(is_at).map(|&(log, _)| log)
    }

    /// Summary of a segment.
    pub fn summary(&mut self, seg: SegNo, found: &mut Findings) -> SegmentSummary {
        if let Some(known) = self.summaries.get(&seg.0) {
            return known.clone();
        }
        let summary = match self.log_of(seg) {
            _ if self.volume.geo.is_sealed() => SegmentSummary::None,
            Some(log) => SegmentSummary::Open(log, self.volume.pack.summaries[log.index()].clone()),
            None => SegmentSummary::Closed(
                self.volume
                    .reader
                    .block(self.volume.geo.ssa_block(seg), found),
            ),
        };
        self.summaries.insert(seg.0, summary.clone());
        summary
    }
}
