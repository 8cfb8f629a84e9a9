//! Checks the checkpoint packs: which of the two counts, and what it contains.
//!
//! - P1 the newer of two whole packs counts, where "whole" is decided by checksums and versions
//!   alone, as at a mount. If the content of that pack is impossible, the older pack does not take
//!   its place: the contradiction is a finding, and the check ends there.

use super::Report;
use super::finding::{Findings, Kind};
use base::{BLOCK_BYTES, Bytes};
use fscore::check::Reader;
use ondisk::f2fs::{
    BLOCKS_PER_SEG, BlockAddr, Checkpoint, CompactSummaries, CpFlags, Geometry, JOURNAL_BYTES, Log,
    NAT_JOURNAL_MAX, NatEntry, Nid, OrphanBlock, SIT_JOURNAL_MAX, SegNo, SitEntry, SummaryBlock,
    SummaryKind, journal_count, nat_journal, sit_journal,
};

/// A pack that is sound.
pub(super) struct Pack {
    /// Its first block.
    pub start: BlockAddr,
    pub cp: Checkpoint,
    /// Entries that count more than those of the NAT.
    pub nat: Vec<(Nid, NatEntry)>,
    /// Entries that count more than those of the SIT.
    pub sit: Vec<(SegNo, SitEntry)>,
    /// Summaries of the logs' segments, by [`Log::index`]; `None` where the nodes themselves say
    /// it.
    pub summaries: [Option<Bytes>; 6],
    pub orphans: Vec<Nid>,
}

/// The newer sound pack with all that lies in it; `None`, with a finding, if there is none.
pub(super) fn load(
    reader: &Reader<'_>,
    geo: &Geometry,
    found: &mut Findings,
    report: &mut Report,
) -> Option<Pack> {
    let packs = [false, true].map(|second| checkpoint(reader, geo, geo.cp_pack(second)));
    report.packs = [packs[0].is_ok(), packs[1].is_ok()];
    let (second, cp) = match packs {
        [Ok(first), Ok(second)] if newer(second.version(), first.version()) => (true, second),
        [Ok(first), _] => (false, first),
        [_, Ok(second)] => (true, second),
        [Err(first), Err(second)] => {
            let what = format!("{first}; the second: {second}");
            found.at_block(geo.cp_pack(false), Kind::Checkpoint, what);
            return None;
        }
    };
    let start = geo.cp_pack(second);
    report.version = cp.version();
    // P1.
    if let Err(e) = cp.check(geo) {
        let version = cp.version();
        let what = format!("version {version}, the newest: {e}");
        found.at_block(start, Kind::CheckpointField, what);
        return None;
    }
    let mut pack = Pack {
        start,
        nat: Vec::new(),
        sit: Vec::new(),
        summaries: [const { None }; 6],
        orphans: Vec::new(),
        cp,
    };
    pack.load_summaries(reader, found)?;
    pack.load_orphans(reader, geo, found);
    Some(pack)
}

/// `a` is the later version: they may wrap.
fn newer(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

/// The checkpoint of a pack, if both of its blocks are sound and of one version.
fn checkpoint(reader: &Reader<'_>, geo: &Geometry, start: BlockAddr) -> Result<Checkpoint, String> {
    let mut bytes = Vec::with_capacity((1 + geo.cp_payload as usize) * BLOCK_BYTES);
    for n in 0..=geo.cp_payload {
        bytes.extend_from_slice(&reader.try_block(BlockAddr(start.0 + n))?);
    }
    let cp = Checkpoint::parse(&bytes, geo.cp_payload).map_err(|e| e.to_string())?;
    let total = cp.pack_blocks();
    // At least both checkpoint blocks and one of summaries.
    if !(3..=BLOCKS_PER_SEG).contains(&total) {
        return Err(format!("a pack of {total} blocks: it fits into a segment"));
    }
    let last = reader.try_block(BlockAddr(start.0 + cp.pack_blocks() - 1))?;
    bytes[..BLOCK_BYTES].copy_from_slice(&last);
    let last =
        Checkpoint::parse(&bytes, geo.cp_payload).map_err(|e| format!("the last block: {e}"))?;
    if last.version() != cp.version() {
        return Err(format!(
            "versions {} and {}: it was being written",
            cp.version(),
            last.version()
        ));
    }
    Ok(cp)
}

impl Pack {
    fn at(&self, offset: u32) -> BlockAddr {
        BlockAddr(self.start.0 + offset)
    }

    fn load_summaries(&mut self, reader: &Reader<'_>, found: &mut Findings) -> Option<()> {
        for log in Log::NODE {
            if let Some(offset) = self.cp.summary_offset(log) {
                self.summaries[log.index()] = Some(reader.block(self.at(offset), found)?);
            }
        }
        let (nat, sit) = if self.cp.flags().has(CpFlags::COMPACT_SUM) {
            self.load_compact(reader, found)?
        } else {
            self.load_plain(reader, found)?
        };
        let mut too_many = |what: &str, journal: &[u8], most: usize| {
            let count = journal_count(journal);
            if usize::from(count) > most {
                let what = format!("the {what} journal says {count} entries; {most} fit");
                found.at_block(self.start, Kind::Journal, what);
            }
        };
        too_many("NAT", &nat, NAT_JOURNAL_MAX);
        too_many("SIT", &sit, SIT_JOURNAL_MAX);
        self.nat = nat_journal(&nat).collect();
        self.sit = sit_journal(&sit).collect();
        Some(())
    }

    /// The journals of NAT and SIT.
    fn load_compact(
        &mut self,
        reader: &Reader<'_>,
        found: &mut Findings,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let mut blocks = Vec::new();
        let (start, count) = (
            self.cp.pack_start_sum(),
            CompactSummaries::blocks_of(&self.cp) as u32,
        );
        if start.saturating_add(count) >= self.cp.pack_blocks() {
            let total = self.cp.pack_blocks();
            let what = format!("{count} blocks of compact summaries from {start}, of {total}");
            found.at_block(self.start, Kind::PackSummary, what);
            return None;
        }
        for n in 0..count {
            let at = self.at(start + n);
            blocks.extend_from_slice(&reader.block(at, found)?);
        }
        let counts = Log::DATA.map(|log| self.cp.compact_entries(log));
        let compact = match CompactSummaries::decode(&blocks, counts) {
            Ok(compact) => compact,
            Err(e) => {
                found.at_block(self.start, Kind::PackSummary, e.to_string());
                return None;
            }
        };
        for (log, owners) in Log::DATA.into_iter().zip(&compact.owners) {
            let mut block = SummaryBlock::blank(SummaryKind::Data);
            for (n, owner) in owners.iter().enumerate() {
                block.set_entry(n as u32, *owner);
            }
            self.summaries[log.index()] = Some(Bytes::copy_from_slice(block.bytes()));
        }
        Some((compact.nat, compact.sit))
    }

    fn load_plain(
        &mut self,
        reader: &Reader<'_>,
        found: &mut Findings,
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        for log in Log::DATA {
            let Some(offset) = self.cp.summary_offset(log) else {
                let what = format!("no room for the summary of the {log} log in the pack");
                found.at_block(self.start, Kind::PackSummary, what);
                return None;
            };
            self.summaries[log.index()] = Some(reader.block(self.at(offset), found)?);
        }
        let journal = |log: Log| match &self.summaries[log.index()] {
            Some(block) => match SummaryBlock::parse(block) {
                Ok(block) => block.journal().to_vec(),
                Err(_) => vec![0; JOURNAL_BYTES],
            },
            None => vec![0; JOURNAL_BYTES],
        };
        Some((journal(Log::HotData), journal(Log::ColdData)))
    }

    fn load_orphans(&mut self, reader: &Reader<'_>, geo: &Geometry, found: &mut Findings) {
        let count = self.cp.orphan_blocks();
        for n in 0..count {
            let at = self.at(1 + geo.cp_payload + n);
            let Some(block) = reader.block(at, found) else {
                continue;
            };
            match OrphanBlock::parse(&block) {
                Ok(block) => self.orphans.extend(block.inos),
                Err(e) => found.at_block(at, Kind::Orphans, e.to_string()),
            }
        }
    }
}
