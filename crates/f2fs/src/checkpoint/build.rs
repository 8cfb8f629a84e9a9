//! Builds the blocks of a checkpoint pack in memory.

use super::State;
use crate::nat::NatToWrite;
use crate::segs::{OpenLog, SegsToWrite};
use crate::space::Usage;
use base::{BLOCK_BYTES, Bytes, Ino};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    AllocType, BLOCKS_PER_SEG, Checkpoint, CompactSummaries, CpFlags, Geometry, JOURNAL_BYTES, Log,
    Nid, ORPHANS_PER_BLOCK, OrphanBlock, Summary, put_nat_journal, put_sit_journal,
};

/// More blocks of compact summaries than this are not fewer than whole ones.
const COMPACT_MOST: usize = 2;

/// Orphans that a pack has room for: beside two checkpoint blocks with payload and six summaries.
pub(crate) fn orphans_max(geo: &Geometry) -> usize {
    BLOCKS_PER_SEG.saturating_sub(8 + geo.cp_payload) as usize * ORPHANS_PER_BLOCK
}

/// What goes into a pack beside the last checkpoint.
pub(super) struct Saved<'a> {
    pub usage: Usage,
    pub orphans: &'a [Ino],
    pub nat: &'a NatToWrite,
    pub segs: &'a SegsToWrite,
    pub next_free: Nid,
    pub clock: u64,
    pub umount: bool,
    /// `checkpoint=disable` begins.
    pub disable: bool,
}

/// A pack, built.
pub(super) struct Built {
    pub cp: Checkpoint,
    /// All blocks but the last, which is the first one again.
    pub blocks: Vec<Bytes>,
    pub compact: bool,
}

/// Builds the pack that follows the one in `last`.
///
/// # Errors
/// More orphans than a pack has room for.
pub(super) fn build(last: &State, geo: &Geometry, saved: &Saved<'_>) -> FsResult<Built> {
    let (summaries, compact) = data_summaries(saved);
    let mut nodes = Vec::new();
    if saved.umount {
        let logs = Log::NODE.iter().map(|log| &saved.segs.logs[log.index()]);
        nodes.extend(logs.map(|log| Bytes::copy_from_slice(log.owners.bytes())));
    }
    let orphans = orphan_blocks(saved.orphans);
    let head = 1 + geo.cp_payload;
    let total = u64::from(head) + (orphans.len() + summaries.len() + nodes.len() + 1) as u64;
    if total > u64::from(BLOCKS_PER_SEG) {
        return Err(FsError::corrupt(format!(
            "{} open files without links: a checkpoint pack has no room to list them",
            saved.orphans.len()
        )));
    }
    let mut cp = last.cp.clone();
    // f2fs-checkpoint-C5.
    cp.set_version(last.version.wrapping_add(1));
    cp.set_pack_start_sum(head + orphans.len() as u32);
    cp.set_pack_blocks(total as u32);
    cp.set_flags(flags(last, saved, compact));
    fill(&mut cp, saved);
    if let Some((uuid, epoch)) = &last.applied
        && !cp.set_applied(uuid, epoch.0)
    {
        return Err(FsError::incompatible(
            "the bitmaps of this volume leave no room in a checkpoint for what the journal has to say; mkfs makes one that does",
        ));
    }
    cp.update_checksum();
    let raw = Bytes::copy_from_slice(cp.bytes());
    let own = (0..head as usize).map(|n| raw.slice(n * BLOCK_BYTES..(n + 1) * BLOCK_BYTES));
    let blocks = own.chain(orphans).chain(summaries).chain(nodes).collect();
    Ok(Built {
        cp,
        blocks,
        compact,
    })
}

fn fill(cp: &mut Checkpoint, saved: &Saved<'_>) {
    cp.set_valid_block_count(saved.usage.blocks);
    cp.set_valid_node_count(saved.usage.nodes);
    cp.set_valid_inode_count(saved.usage.inodes);
    cp.set_free_segments(saved.segs.free_segments);
    cp.set_next_free_nid(saved.next_free);
    cp.set_elapsed_time(saved.clock);
    for log in &saved.segs.logs {
        cp.set_cur_segno(log.log, log.segno);
        cp.set_cur_blkoff(log.log, log.next);
        cp.set_alloc_type(log.log, log.alloc);
    }
    cp.nat_bitmap_mut().copy_from_slice(&saved.nat.bitmap);
    cp.sit_bitmap_mut().copy_from_slice(&saved.segs.sit_bitmap);
}

fn flags(last: &State, saved: &Saved<'_>, compact: bool) -> CpFlags {
    let stale = CpFlags::UMOUNT
        | CpFlags::ORPHAN_PRESENT
        | CpFlags::COMPACT_SUM
        | CpFlags::ERROR
        | CpFlags::FASTBOOT
        | CpFlags::NAT_BITS
        | CpFlags::TRIMMED
        | CpFlags::NOCRC_RECOVERY
        | CpFlags::DISABLED
        | CpFlags::DISABLED_QUICK;
    let given = [
        (saved.umount, CpFlags::UMOUNT),
        (!saved.orphans.is_empty(), CpFlags::ORPHAN_PRESENT),
        (compact, CpFlags::COMPACT_SUM),
        (last.need_fsck, CpFlags::FSCK),
        (saved.disable, CpFlags::DISABLED),
    ];
    let kept = last.cp.flags().without(stale) | CpFlags::CRC_RECOVERY;
    let given = given.into_iter().filter(|(on, _)| *on);
    given.fold(kept, |flags, (_, flag)| flags | flag)
}

/// Summaries of the data logs with both journals, and whether they are compact.
fn data_summaries(saved: &Saved<'_>) -> (Vec<Bytes>, bool) {
    let (mut nat, mut sit) = (vec![0; JOURNAL_BYTES], vec![0; JOURNAL_BYTES]);
    put_nat_journal(&mut nat, &saved.nat.journal);
    put_sit_journal(&mut sit, &saved.segs.sit_journal);
    let logs = Log::DATA.map(|log| &saved.segs.logs[log.index()]);
    let owners = logs.map(owners);
    let entries = owners.iter().map(Vec::len).sum();
    if ondisk::f2fs::compact_blocks(entries) <= COMPACT_MOST {
        let bytes = Bytes::from(CompactSummaries { nat, sit, owners }.encode());
        let blocks = (0..bytes.len() / BLOCK_BYTES).map(|n| n * BLOCK_BYTES);
        return (
            blocks.map(|at| bytes.slice(at..at + BLOCK_BYTES)).collect(),
            true,
        );
    }
    let whole = |log: &OpenLog| {
        let mut block = log.owners.clone();
        block.journal_mut().fill(0);
        match log.log {
            Log::HotData => block.journal_mut().copy_from_slice(&nat),
            Log::ColdData => block.journal_mut().copy_from_slice(&sit),
            _ => {}
        }
        Bytes::copy_from_slice(block.bytes())
    };
    (logs.into_iter().map(whole).collect(), false)
}

/// The owners that compact summaries hold: what [`Checkpoint::compact_entries`] counts.
fn owners(log: &OpenLog) -> Vec<Summary> {
    let count = match log.alloc {
        AllocType::Ssr => BLOCKS_PER_SEG,
        AllocType::Lfs => log.next.into(),
    };
    (0..count).map(|n| log.owners.entry(n)).collect()
}

fn orphan_blocks(orphans: &[Ino]) -> Vec<Bytes> {
    let chunks = orphans.chunks(ORPHANS_PER_BLOCK);
    let count = chunks.len() as u16;
    let block = |(n, inos): (usize, &[Ino])| {
        let mut bytes = vec![0; BLOCK_BYTES];
        let block = OrphanBlock {
            inos: inos.iter().map(|ino| Nid(ino.0)).collect(),
            index: n as u16 + 1,
            count,
        };
        block.encode(&mut bytes);
        Bytes::from(bytes)
    };
    chunks.enumerate().map(block).collect()
}
