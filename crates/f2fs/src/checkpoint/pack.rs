//! Reads checkpoint packs: decides which of the two counts, and decodes it.
//!
//! A pack is whole if its first and its last block are sound and have the same version, because the
//! last block is written only when everything else of the checkpoint is durable. Of two whole packs
//! the newer one counts. The kernel's rules are the same.

use crate::fault;
use crate::segs::OpenLog;
use base::{BLOCK_BYTES, BlockNo, Bytes, Mutant, SECTORS_PER_BLOCK};
use block::Queue;
use fscore::{FsError, FsResult};
use ondisk::Corrupt;
use ondisk::f2fs::{
    AllocType, BLOCKS_PER_SEG, BlockAddr, Checkpoint, CompactSummaries, CpFlags, Geometry,
    JOURNAL_BYTES, Log, NAT_JOURNAL_MAX, NatEntry, Nid, OrphanBlock, SIT_JOURNAL_MAX, SegNo,
    SitEntry, Summary, SummaryBlock, SummaryKind, footer, journal_count, nat_journal, sit_journal,
};

/// The pack that counts.
pub(crate) struct Pack {
    pub cp: Checkpoint,
    /// It lies in the second segment of the checkpoint area.
    pub second: bool,
    /// The highest version that any sound checkpoint block has: the next one has to be later.
    pub newest: u64,
}

/// What a pack holds beside the checkpoint block.
pub(crate) struct Contents {
    pub nat_journal: Vec<(Nid, NatEntry)>,
    pub sit_journal: Vec<(SegNo, SitEntry)>,
    /// The six logs, in the order of [`Log::ALL`].
    pub logs: Vec<OpenLog>,
}

/// A pack that does not count, and why.
struct Refused {
    why: FsError,
    /// Of its first block, if that is sound.
    version: Option<u64>,
}

/// Finds the pack that counts, and notes if the other one was not whole.
///
/// # Errors
/// Neither is whole; the one that counts has impossible content; I/O.
pub(crate) fn choose(queue: &Queue, geo: &Geometry) -> FsResult<(Pack, Option<String>)> {
    let (first, second) = (read_pack(queue, geo, false), read_pack(queue, geo, true));
    let (pack, note) = match (first, second) {
        (Ok(a), Ok(b)) => match newer(b.cp.version(), a.cp.version()) {
            true => (b, None),
            false => (a, None),
        },
        (Ok(mut good), Err(bad)) | (Err(bad), Ok(mut good)) => {
            good.newest = match bad.version {
                Some(seen) if newer(seen, good.newest) => seen,
                Some(_) => good.newest,
                // The damaged pack may have been the next version.
                None => good.newest.wrapping_add(1),
            };
            let note = format!(
                "checkpoint pack {} is not whole ({}); mounted version {} of pack {}",
                u8::from(!good.second),
                bad.why,
                good.cp.version(),
                u8::from(good.second),
            );
            (good, Some(note))
        }
        (Err(a), Err(b)) => {
            let power_lost = |e: &FsError| {
                matches!(
                    e,
                    FsError::Io {
                        power_lost: true,
                        ..
                    }
                )
            };
            if let Some(lost) = [&a.why, &b.why].into_iter().find(|e| power_lost(e)) {
                return Err(lost.clone());
            }
            return Err(FsError::corrupt(format!(
                "neither checkpoint pack is whole; pack 0: {}; pack 1: {}; try fsck.f2fs",
                a.why, b.why
            )));
        }
    };
    let at = BlockNo(geo.cp_pack(pack.second).into());
    pack.cp
        .check(geo)
        .map_err(|e| fault::corrupt(e.at_block(at)))?;
    Ok((pack, note))
}

/// `a` is the later version: they may wrap.
fn newer(a: u64, b: u64) -> bool {
    a.wrapping_sub(b) as i64 > 0
}

fn read_pack(queue: &Queue, geo: &Geometry, second: bool) -> Result<Pack, Refused> {
    let start = geo.cp_pack(second);
    let refuse = |why, version| Refused { why, version };
    let corrupt = |e: Corrupt, at: BlockAddr| fault::corrupt(e.at_block(BlockNo(at.into())));
    let head = read(queue, start, 1 + geo.cp_payload).map_err(|why| refuse(why, None))?;
    let cp =
        Checkpoint::parse(&head, geo.cp_payload).map_err(|e| refuse(corrupt(e, start), None))?;
    let version = Some(cp.version());
    // hazards-F26.
    if rt::mutant(Mutant::F2fsHalfPack) {
        let newest = cp.version();
        return Ok(Pack { cp, second, newest });
    }
    let total = cp.pack_blocks();
    // At least both checkpoint blocks and one of summaries.
    if !(3..=BLOCKS_PER_SEG).contains(&total) {
        let why = FsError::corrupt(format!(
            "f2fs checkpoint at block {start}: cp_pack_total_block_count = {total}: a pack fits into a segment"
        ));
        return Err(refuse(why, version));
    }
    let end = BlockAddr(start.0 + total - 1);
    let tail = read(queue, end, 1).map_err(|why| refuse(why, version))?;
    // The payload does not follow the last block: its own numbers are not looked at.
    let mut whole = tail.to_vec();
    whole.resize(head.len(), 0);
    let last =
        Checkpoint::parse(&whole, geo.cp_payload).map_err(|e| refuse(corrupt(e, end), version))?;
    if last.version() != cp.version() {
        let why = FsError::corrupt(format!(
            "version {} at its first block {start}, {} at its last, {end}",
            cp.version(),
            last.version()
        ));
        return Err(refuse(why, version));
    }
    let newest = cp.version();
    Ok(Pack { cp, second, newest })
}

fn read(queue: &Queue, at: BlockAddr, blocks: u32) -> FsResult<Bytes> {
    let most = (queue.caps().max_transfer_sectors / SECTORS_PER_BLOCK).max(1);
    let (start, end) = (u64::from(at), u64::from(at) + u64::from(blocks));
    let run = |from: u64| {
        let blocks = most.min(end - from);
        (BlockNo(from).lba(), blocks * SECTORS_PER_BLOCK)
    };
    let runs: Vec<_> = (start..end).step_by(most as usize).map(run).collect();
    let during = "reading the checkpoint";
    let mut parts = queue.read_many(&runs);
    if parts.len() == 1 {
        return parts.swap_remove(0).map_err(fault::device(during));
    }
    let mut bytes = Vec::with_capacity(blocks as usize * BLOCK_BYTES);
    for part in parts {
        bytes.extend_from_slice(&part.map_err(fault::device(during))?);
    }
    Ok(bytes.into())
}

/// Reads journals and summaries of the logs.
///
/// # Errors
/// They do not lie within the pack; a journal has more entries than fit; I/O.
pub(crate) fn contents(queue: &Queue, geo: &Geometry, pack: &Pack) -> FsResult<Contents> {
    let cp = &pack.cp;
    let mut logs: Vec<OpenLog> = Log::ALL
        .into_iter()
        .map(|log| open_log(geo, cp, log))
        .collect();
    let (nat, sit) = match cp.flags().has(CpFlags::COMPACT_SUM) {
        true => compact(queue, geo, pack, &mut logs)?,
        false => normal(queue, geo, pack, &mut logs)?,
    };
    for log in Log::NODE {
        let owners = &mut logs[log.index()].owners;
        match cp.has_node_summaries() {
            true => node_summary(owners, &summary_block(queue, geo, pack, log)?),
            false if geo.logs().contains(&log) => rebuild(queue, geo, cp, log, owners)?,
            false => {}
        }
    }
    let start = BlockNo(geo.cp_pack(pack.second).into());
    check_journal("NAT", &nat, NAT_JOURNAL_MAX, start)?;
    check_journal("SIT", &sit, SIT_JOURNAL_MAX, start)?;
    Ok(Contents {
        nat_journal: nat_journal(&nat).collect(),
        sit_journal: sit_journal(&sit).collect(),
        logs,
    })
}

fn check_journal(name: &str, journal: &[u8], most: usize, pack: BlockNo) -> FsResult<()> {
    let count = usize::from(journal_count(journal));
    if count <= most {
        return Ok(());
    }
    Err(FsError::corrupt(format!(
        "checkpoint pack at block {pack}: its {name} journal has {count} entries, there is room for {most}"
    )))
}

/// A log that the volume does not have stays at the first block: what the checkpoint says of it was
/// not checked.
fn open_log(geo: &Geometry, cp: &Checkpoint, log: Log) -> OpenLog {
    let kind = match log.is_node() {
        true => SummaryKind::Node,
        false => SummaryKind::Data,
    };
    let (segno, next, alloc) = match geo.logs().contains(&log) {
        true => (cp.cur_segno(log), cp.cur_blkoff(log), cp.alloc_type(log)),
        false => (SegNo(0), 0, AllocType::Lfs),
    };
    OpenLog {
        log,
        segno,
        next,
        alloc,
        owners: SummaryBlock::blank(kind),
    }
}

type Journals = (Vec<u8>, Vec<u8>);

fn compact(queue: &Queue, geo: &Geometry, pack: &Pack, logs: &mut [OpenLog]) -> FsResult<Journals> {
    let start = pack.cp.pack_start_sum();
    let blocks = CompactSummaries::blocks_of(&pack.cp) as u32;
    if start.saturating_add(blocks) >= pack.cp.pack_blocks() {
        return Err(FsError::corrupt(format!(
            "checkpoint pack at block {}: {blocks} blocks of compact summaries from {start}, of {} in all",
            geo.cp_pack(pack.second),
            pack.cp.pack_blocks()
        )));
    }
    let at = BlockAddr(geo.cp_pack(pack.second).0 + start);
    let bytes = read(queue, at, blocks)?;
    let counts = Log::DATA.map(|log| pack.cp.compact_entries(log));
    let found = CompactSummaries::decode(&bytes, counts)
        .map_err(|e| fault::corrupt(e.at_block(BlockNo(at.into()))))?;
    for (log, owners) in logs.iter_mut().zip(&found.owners) {
        for (n, owner) in owners.iter().enumerate() {
            log.owners.set_entry(n as u32, *owner);
        }
    }
    Ok((found.nat, found.sit))
}

fn normal(queue: &Queue, geo: &Geometry, pack: &Pack, logs: &mut [OpenLog]) -> FsResult<Journals> {
    let mut journals = Vec::new();
    for log in Log::DATA {
        let block = summary_block(queue, geo, pack, log)?;
        for n in 0..BLOCKS_PER_SEG {
            logs[log.index()].owners.set_entry(n, block.entry(n));
        }
        journals.push(block.journal().to_vec());
    }
    let sit = journals.pop().unwrap_or_else(|| vec![0; JOURNAL_BYTES]);
    Ok((journals.swap_remove(0), sit))
}

fn summary_block(queue: &Queue, geo: &Geometry, pack: &Pack, log: Log) -> FsResult<SummaryBlock> {
    let start = geo.cp_pack(pack.second);
    let Some(offset) = pack.cp.summary_offset(log) else {
        return Err(FsError::corrupt(format!(
            "checkpoint pack at block {start}: no summary of the {log} log in {} blocks",
            pack.cp.pack_blocks()
        )));
    };
    let at = BlockAddr(start.0 + offset);
    let bytes = read(queue, at, 1)?;
    SummaryBlock::parse(&bytes).map_err(|e| fault::corrupt(e.at_block(BlockNo(at.into()))))
}

/// Owners in a node log are node numbers alone.
fn node_summary(owners: &mut SummaryBlock, block: &SummaryBlock) {
    for n in 0..BLOCKS_PER_SEG {
        let nid = block.entry(n).nid;
        owners.set_entry(
            n,
            Summary {
                nid,
                ..Summary::default()
            },
        );
    }
}

/// Without summaries in the pack, the footers of the node blocks say whose they are.
fn rebuild(
    queue: &Queue,
    geo: &Geometry,
    cp: &Checkpoint,
    log: Log,
    owners: &mut SummaryBlock,
) -> FsResult<()> {
    let blocks = match cp.alloc_type(log) {
        AllocType::Ssr => BLOCKS_PER_SEG,
        AllocType::Lfs => cp.cur_blkoff(log).into(),
    };
    if blocks == 0 {
        return Ok(());
    }
    let bytes = read(queue, geo.seg_start(cp.cur_segno(log)), blocks)?;
    for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
        let nid = footer(block).nid;
        owners.set_entry(
            n as u32,
            Summary {
                nid,
                ..Summary::default()
            },
        );
    }
    Ok(())
}

/// The inodes without links that the pack lists.
///
/// # Errors
/// A block of them is damaged; I/O.
pub(crate) fn orphans(queue: &Queue, geo: &Geometry, pack: &Pack) -> FsResult<Vec<base::Ino>> {
    let blocks = pack.cp.orphan_blocks();
    if blocks == 0 {
        return Ok(Vec::new());
    }
    let at = BlockAddr(geo.cp_pack(pack.second).0 + 1 + geo.cp_payload);
    let bytes = read(queue, at, blocks)?;
    let mut inos = Vec::new();
    for (n, block) in bytes.chunks_exact(BLOCK_BYTES).enumerate() {
        let at = BlockNo(u64::from(at) + n as u64);
        let found = OrphanBlock::parse(block).map_err(|e| fault::corrupt(e.at_block(at)))?;
        if let Some(odd) = found
            .inos
            .iter()
            .find(|nid| nid.0 < geo.root.0 || nid.0 >= geo.max_nid)
        {
            return Err(FsError::corrupt(format!(
                "orphan block {at} lists inode {odd}; there are {} to {}",
                geo.root.0,
                geo.max_nid - 1
            )));
        }
        inos.extend(found.inos.iter().map(|nid| base::Ino(nid.0)));
    }
    inos.sort_unstable();
    inos.dedup();
    Ok(inos)
}
