//! Finds where the journal of a volume lies, before anything else on the volume is trusted.

use crate::blockmap::runs_of_map;
use crate::extent::{Source, runs_of};
use crate::fault;
use crate::superblock::{block_size, read_block};
use base::{BlockNo, Lba, SECTORS_PER_BLOCK};
use block::Queue;
use fscore::{FsError, FsResult};
use journal::{LogBlock, LogPlace};
use ondisk::ext4 as disk;
use ondisk::ext4::{Compat, Incompat, JournalDevice, Superblock};

/// Finds the log on a device of its own, and checks that it is the log that the volume names.
pub(crate) fn external_place(log_queue: &Queue, sb: &Superblock) -> FsResult<LogPlace> {
    let size = block_size(sb)?;
    let head = log_queue
        .read(Lba(0), SECTORS_PER_BLOCK)
        .map_err(fault::device(
            "reading the superblock of the external journal",
        ))?;
    let device = JournalDevice::parse(&head[disk::SUPERBLOCK_AT as usize..])
        .map_err(|e| fault::corrupt(e.at_block(BlockNo(0))))?;
    let sector = log_queue.caps().sector_bytes as usize;
    if size.bytes() < sector {
        return Err(FsError::incompatible(format!(
            "blocks of {} bytes with a journal on a device with sectors of {sector}: it cannot write one alone",
            size.bytes()
        )));
    }
    if device.block_bytes as usize != size.bytes() {
        let own = device.block_bytes;
        return Err(FsError::incompatible(format!(
            "the external journal has blocks of {own} bytes, the file system of {}",
            size.bytes()
        )));
    }
    if device.uuid != sb.journal_uuid() {
        return Err(FsError::incompatible(format!(
            "this external journal has the UUID {}, the file system names {}",
            hex(&device.uuid),
            hex(&sb.journal_uuid())
        )));
    }
    let there = log_queue.caps().sectors / size.sectors();
    let blocks = u32::try_from(device.blocks_count.min(there)).unwrap_or(u32::MAX);
    let superblock = device.log_superblock();
    if u64::from(blocks) <= superblock.0 {
        return Err(FsError::corrupt(format!(
            "an external journal of {blocks} blocks"
        )));
    }
    let place = LogPlace::external(superblock, blocks, sb.blocks_count());
    Ok(place.with_block_size(size))
}

/// Refuses a log that volumes other than this one use, because replaying it for one of them would
/// write into the others (devices-L10). Linux only counts the users.
pub(crate) fn check_user(log_queue: &Queue, place: &LogPlace, sb: &Superblock) -> FsResult<()> {
    let log = log_superblock(log_queue, place)?;
    let users: Vec<String> = log.users().iter().map(hex).collect();
    if log.users_count() == 1 && log.users() == [sb.uuid()] {
        return Ok(());
    }
    Err(FsError::incompatible(format!(
        "the external journal is to serve this volume alone, {}, and names {} users [{}]; make another one (mke2fs -O journal_dev), take this \
         one away (tune2fs -O ^has_journal) and give the volume that (tune2fs -J device=), or mount read-only (option `ro`)",
        hex(&sb.uuid()),
        log.users_count(),
        users.join(" ")
    )))
}

/// True if the device holds the log that the volume names, and this log waits for recovery.
pub(crate) fn external_log_waits(log_queue: &Queue, sb: &Superblock) -> bool {
    let log = external_place(log_queue, sb).and_then(|place| log_superblock(log_queue, &place));
    log.is_ok_and(|log| !log.is_clean() && log.users().contains(&sb.uuid()))
}

fn log_superblock(queue: &Queue, place: &LogPlace) -> FsResult<ondisk::jbd2::Superblock> {
    let home = place.block(LogBlock(0));
    let block = read_block(queue, place.block_size(), home)?;
    ondisk::jbd2::Superblock::parse(&block).map_err(|e| fault::corrupt(e.at_block(home)))
}

/// True if the log of this volume lies on another device.
pub(crate) fn has_external_log(sb: &Superblock) -> bool {
    sb.compat().has(Compat::HAS_JOURNAL) && sb.journal_ino().0 == 0
}

pub(crate) fn hex(uuid: &[u8; 16]) -> String {
    uuid.iter().map(|b| format!("{b:02x}")).collect()
}

/// The blocks of the journal file, read straight from the device. They come from the journal's
/// inode; if a cut has torn the descriptor or the table block that leads to it (their images are in
/// the log), they come from the copy in the superblock.
pub(crate) fn journal_place(queue: &Queue, sb: &Superblock) -> FsResult<LogPlace> {
    let by_inode = journal_inode_place(queue, sb);
    let torn = match &by_inode {
        // Without checksums, only the place that it leads to shows whether something was torn.
        Ok(place) => !sb.has_metadata_checksums() && !leads_to_log(queue, place)?,
        Err(e) => matches!(e, FsError::Corrupt { .. } | FsError::Incompatible { .. }),
    };
    match torn.then(|| journal_backup_place(queue, sb)).flatten() {
        Some(place) => Ok(place),
        None => by_inode,
    }
}

/// True if the superblock of a log lies at the place.
fn leads_to_log(queue: &Queue, place: &LogPlace) -> FsResult<bool> {
    if place.blocks_count() == 0 {
        return Ok(false);
    }
    let block = read_block(queue, place.block_size(), place.block(LogBlock(0)))?;
    Ok(ondisk::jbd2::Superblock::parse(&block).is_ok())
}

/// The place of the log as the superblock remembers it (`s_jnl_blocks`); `None` if the superblock
/// does not, or if no log lies there.
pub(crate) fn journal_backup_place(queue: &Queue, sb: &Superblock) -> Option<LogPlace> {
    if sb.journal_backup_type() != 1 {
        return None;
    }
    let size = block_size(sb).ok()?;
    let words = sb.journal_backup();
    let (map, bytes) = words.split_at(disk::BLOCK_AREA_BYTES / 4);
    let area: Vec<u8> = map.iter().flat_map(|w| w.to_le_bytes()).collect();
    let bytes = u64::from(bytes[0]) << 32 | u64::from(bytes[1]);
    let ino = sb.journal_ino();
    let source = Source {
        ino,
        // mke2fs gives the journal's inode generation 0.
        seed: sb.has_metadata_checksums().then(|| sb.seed().inode(ino, 0)),
        read: &|block| match block.0 < sb.blocks_count() {
            true => read_block(queue, size, block),
            false => Err(FsError::corrupt(format!("block {block} is outside"))),
        },
    };
    let blocks = bytes / size.bytes() as u64;
    // The copy does not say whether it holds extents or a block map.
    let mut runs = match sb.incompat().has(Incompat::EXTENTS) && has_tree(&area) {
        true => runs_of(&source, &area).ok()?,
        false => runs_of_map(&source, &area, blocks.min(sb.blocks_count())).ok()?,
    };
    clip(&mut runs, blocks);
    LogPlace::new(&runs, sb.blocks_count())
        .map(|place| place.with_block_size(size))
        .ok()
}

/// True if a block area holds the root of an extent tree.
fn has_tree(area: &[u8]) -> bool {
    disk::ExtentNode::parse(area).is_ok()
}

fn journal_inode_place(queue: &Queue, sb: &Superblock) -> FsResult<LogPlace> {
    let size = block_size(sb)?;
    let ino = sb.journal_ino();
    let place = sb.inode_place(ino).ok_or_else(|| {
        FsError::corrupt(format!(
            "superblock: there is no inode {ino} for the journal"
        ))
    })?;
    let (at, offset) = sb.desc_place(place.group);
    let group = read_block(queue, size, at)?;
    let desc = disk::GroupDesc::parse(&group[offset..], sb.desc_bytes()).map_err(fault::corrupt)?;
    let table = desc.inode_table().0;
    let block = BlockNo(table.saturating_add(place.table_block));
    let inside = |block: BlockNo| {
        if block.0 < sb.blocks_count() {
            return Ok(());
        }
        Err(FsError::corrupt(format!(
            "journal inode {ino}: block {block} lies outside the file system"
        )))
    };
    inside(block)?;
    let bytes = read_block(queue, size, block)?;
    let at_inode = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(ino).at_block(block));
    let inode = disk::Inode::parse(&bytes[place.offset..], sb.inode_bytes()).map_err(at_inode)?;
    let seed = sb.has_metadata_checksums().then(|| sb.seed());
    if let Some(seed) = seed {
        inode.verify_checksum(seed, ino).map_err(at_inode)?;
    }
    let source = Source {
        ino,
        seed: seed.map(|s| s.inode(ino, inode.generation())),
        read: &|block| {
            inside(block)?;
            read_block(queue, size, block)
        },
    };
    let blocks = inode.size() / size.bytes() as u64;
    let mut runs = if inode.flags().has(disk::InodeFlags::EXTENTS) {
        runs_of(&source, inode.block_area())?
    } else {
        runs_of_map(&source, inode.block_area(), blocks.min(sb.blocks_count()))?
    };
    clip(&mut runs, blocks);
    LogPlace::new(&runs, sb.blocks_count())
        .map(|place| place.with_block_size(size))
        .map_err(fault::journal)
}

/// Cuts runs off at the end of the file.
fn clip(runs: &mut Vec<(BlockNo, u32)>, blocks: u64) {
    let mut left = blocks;
    for (_, len) in runs.iter_mut() {
        *len = (*len).min(left.min(u64::from(u32::MAX)) as u32);
        left -= u64::from(*len);
    }
    runs.retain(|(_, len)| *len > 0);
}
