//! The superblock of a mounted file system.
//!
//! While the journal runs, changes go through it (hazards-H22). The superblock is written in place
//! only when the log is empty: at mount (before the first transaction, or after recovery), at
//! unmount and when a log was recovered without a mount (mount state, needs_recovery).

use crate::fault;
use crate::mkfs::common_shapes;
use base::{BlockNo, BlockSize, Bytes};
use block::{Class, Queue};
use fscore::{FsError, FsResult};
use ondisk::Folding;
use ondisk::ext4::{Incompat, Superblock};
use std::sync::Arc;

/// Where the superblock lies: its block, and its first byte in that block.
pub(crate) const fn superblock_place(size: BlockSize) -> (BlockNo, usize) {
    let at = ondisk::ext4::SUPERBLOCK_AT as usize;
    (BlockNo((at / size.bytes()) as u64), at % size.bytes())
}

/// The size of the blocks of a volume.
pub(crate) fn block_size(sb: &Superblock) -> FsResult<BlockSize> {
    BlockSize::new(sb.block_bytes()).ok_or_else(|| {
        FsError::incompatible(format!(
            "blocks of {} bytes cannot be mounted, only those of 1 to 64 KiB; format with -b 4096",
            sb.block_bytes()
        ))
    })
}

/// Where the first backup of the superblock lies: at the start of group 1, if each group has so
/// many blocks.
fn backup_home(size: BlockSize, per_group: u32) -> BlockNo {
    BlockNo(u64::from(per_group) + u64::from(size.bytes() == 1024))
}

/// Where a backup is looked for: where the torn superblock has its first one, whose groups may be
/// smaller, and then in the common shapes.
pub(crate) fn backup_homes(torn: Option<&Superblock>) -> Vec<(BlockSize, BlockNo)> {
    let own = |sb: &Superblock| {
        let size = BlockSize::new(sb.block_bytes())?;
        (sb.groups_count() > 1).then(|| (size, sb.group_first_block(1)))
    };
    let common = common_shapes().map(|(size, group)| (size, backup_home(size, group)));
    torn.and_then(own).into_iter().chain(common).collect()
}

/// True if a torn superblock, which the device of `sectors` sectors of 512 bytes can hold, has
/// other sizes than a backup that was found. Then the backup is that of an older volume, though the
/// descriptors of that may be left as well: they lie within the first block of a volume whose
/// blocks are larger.
pub(crate) fn is_older(backup: &Superblock, torn: &Superblock, sectors: u64) -> bool {
    let shape = |sb: &Superblock| (sb.block_bytes(), sb.blocks_per_group());
    let held = sectors / u64::from(torn.block_bytes() / 512) >= torn.blocks_count();
    held && shape(torn) != shape(backup)
}

/// How the volume compares names in directories without regard to case; `None` without feature
/// `casefold`.
///
/// # Errors
/// Incompatible: an encoding that is not known, as in Linux.
pub(crate) fn folding(sb: &Superblock) -> FsResult<Option<Arc<Folding>>> {
    if !sb.incompat().has(Incompat::CASEFOLD) {
        return Ok(None);
    }
    let fields = sb.name_encoding();
    match Folding::new(fields) {
        Some(folding) => Ok(Some(Arc::new(folding))),
        None => Err(FsError::incompatible(format!(
            "feature casefold with encoding {}: only 1 (utf8-12.1) is known",
            u16::from_le_bytes([fields[0], fields[1]])
        ))),
    }
}

/// Reads a block straight from the device.
pub(crate) fn read_block(queue: &Queue, size: BlockSize, block: BlockNo) -> FsResult<Bytes> {
    queue
        .read(size.lba(block), size.sectors())
        .map_err(fault::device(&format!("reading block {block}")))
}

/// Writes the superblock in place, non-volatile on return.
pub(crate) fn write_in_place(queue: &Arc<Queue>, sb: &mut Superblock) -> FsResult<()> {
    let size = block_size(sb)?;
    let (home, at) = superblock_place(size);
    let mut block = read_block(queue, size, home)?.to_vec();
    sb.encode(&mut block[at..]);
    // The rest of a large block is the same: a device may promise no more than this for one write.
    block.truncate(base::BLOCK_BYTES);
    queue
        .write_fua(size.lba(home), Class::Home, block.into())
        .map_err(fault::device("writing the superblock"))
}
