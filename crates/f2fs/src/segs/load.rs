//! Loads the table at mount: from the SIT, its journal, and what the checkpoint says of the logs.
//!
//! Everything is checked before it is used: a contradiction is an error that names its place.

use super::table::{State, Table};
use crate::fault;
use base::{BlockNo, SECTORS_PER_BLOCK};
use block::Queue;
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    AllocType, BLOCKS_PER_SEG, Checkpoint, Geometry, Log, SIT_PER_BLOCK, SegNo, SitEntry,
    SummaryBlock, bits,
};
use std::collections::BTreeMap;

/// A log as a checkpoint sees it.
#[derive(Clone, Debug)]
pub(crate) struct OpenLog {
    /// Which log it is.
    pub log: Log,
    /// Its segment.
    pub segno: SegNo,
    /// The next block it takes, counted in the segment, below 512.
    pub next: u16,
    /// How it takes blocks.
    pub alloc: AllocType,
    /// Owners of the blocks of its segment; the journal in this summary block is not used.
    pub owners: SummaryBlock,
}

/// What the checkpoint that is mounted says of segments.
pub(crate) struct SegsOnDisk<'a> {
    /// Counts and the version bitmap of the SIT; its numbers are checked ([`Checkpoint::check`]).
    pub cp: &'a Checkpoint,
    /// Entries that count before those in the SIT. Segment numbers are not checked.
    pub sit_journal: Vec<(SegNo, SitEntry)>,
    /// The six logs, in the order of [`Log::ALL`].
    pub logs: Vec<OpenLog>,
}

/// All entries: those of the journal count more than those of the copies that the bitmap names.
pub(super) fn table(queue: &Queue, geo: &Geometry, from: &SegsOnDisk<'_>) -> FsResult<Table> {
    let mut table = Table::new(*geo);
    let journal = journal(geo, &from.sit_journal)?;
    let place = |block: u32| {
        let second = bits::test_bit(from.cp.sit_bitmap(), block as usize);
        let at = BlockNo(geo.sit_addr(block, second).into());
        (at.lba(), SECTORS_PER_BLOCK)
    };
    let places: Vec<_> = (0..geo.sit_blocks_used()).map(place).collect();
    let mut segs = (0..geo.segments_main).map(SegNo);
    for answer in queue.read_many(&places) {
        let bytes = answer.map_err(fault::device("reading the SIT"))?;
        for (seg, index) in segs.by_ref().take(SIT_PER_BLOCK).zip(0..) {
            match journal.get(&seg) {
                Some(entry) => table.load(seg, entry)?,
                None => table.load(seg, &SitEntry::parse(&bytes, index))?,
            }
        }
    }
    Ok(table)
}

fn journal(geo: &Geometry, entries: &[(SegNo, SitEntry)]) -> FsResult<BTreeMap<SegNo, SitEntry>> {
    if let Some((seg, _)) = entries.iter().find(|(seg, _)| seg.0 >= geo.segments_main) {
        let n = geo.segments_main;
        return Err(FsError::corrupt(format!(
            "SIT journal: segment {seg}, and the main area has {n}; run fsck.f2fs"
        )));
    }
    Ok(entries.iter().copied().collect())
}

/// The counts of the checkpoint against those of the SIT. Reserved blocks count in the former only.
pub(super) fn check_totals(table: &Table, cp: &Checkpoint) -> FsResult<()> {
    let (data, nodes) = table.totals();
    if nodes != u64::from(cp.valid_node_count()) {
        let said = cp.valid_node_count();
        return Err(FsError::corrupt(format!(
            "{nodes} valid node blocks in the SIT, {said} in the checkpoint; run fsck.f2fs"
        )));
    }
    if data + nodes > cp.valid_block_count() {
        let said = cp.valid_block_count();
        return Err(FsError::corrupt(format!(
            "{} valid blocks in the SIT, {said} in the checkpoint; run fsck.f2fs",
            data + nodes
        )));
    }
    Ok(())
}

/// Opens the segments of the logs that the volume has.
pub(super) fn logs(table: &mut Table, mut logs: Vec<OpenLog>) -> FsResult<Vec<OpenLog>> {
    let known = logs.iter().map(|log| log.log).eq(Log::ALL);
    assert!(known, "whoever mounts knows all six logs");
    let used = table.geo().logs();
    for open in logs.iter_mut().filter(|open| used.contains(&open.log)) {
        let OpenLog {
            log, segno, next, ..
        } = *open;
        let bad = |what: String| {
            let text = format!("{log} log, segment {segno}, block {next}: {what}; run fsck.f2fs");
            Err(FsError::corrupt(text))
        };
        let next = u32::from(next);
        if segno.0 >= table.geo().segments_main || next >= BLOCKS_PER_SEG {
            return bad("there is no such block".into());
        }
        if table.state(segno) == State::Open {
            return bad("another log has the segment".into());
        }
        if table.valid_in(segno) > 0 && table.kind(segno).is_node() != log.is_node() {
            return bad(format!(
                "the SIT says that the segment is of the {} log",
                table.kind(segno)
            ));
        }
        let valid = table.valid_map(segno);
        if valid.has(next) {
            return bad("its next block is in use".into());
        }
        if open.alloc == AllocType::Lfs && valid.next_set(next).is_some() {
            return bad("a block behind its next one is in use".into());
        }
        open.owners.journal_mut().fill(0);
        table.open(segno, log);
    }
    Ok(logs)
}
