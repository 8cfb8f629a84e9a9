//! The superblock of a mounted file system.
//!
//! While the journal runs, changes go through it (hazards-H22). The superblock is written in place
//! at three moments only, when the log is empty: at mount and at unmount (mount state,
//! needs_recovery), and after a failure (error state).

use crate::Ext4;
use crate::fault;
use crate::tx::Tx;
use base::{BlockNo, BlockSize, Bytes, Mutant};
use block::{Class, Queue};
use fscore::{FsError, FsResult};
use ondisk::ext4::{SUPERBLOCK_BYTES, Superblock};
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
            "blocks of {} bytes cannot be mounted, only those of 1024, 2048 or 4096; format with -b 4096",
            sb.block_bytes()
        ))
    })
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
    queue
        .write_fua(size.lba(home), Class::Home, block.into())
        .map_err(fault::device("writing the superblock"))
}

impl Ext4 {
    /// Changes the superblock inside a handle.
    pub(crate) fn update_superblock(
        &self,
        tx: &mut Tx<'_>,
        change: impl FnOnce(&mut Superblock),
    ) -> FsResult<()> {
        let mut sb = self.sb.lock();
        let old = *sb.bytes();
        change(&mut sb);
        if rt::mutant(Mutant::SuperblockDirect) {
            // hazards-H9: a write in place would bypass the transaction and change the home block
            // under the deltas of the next one.
            return write_in_place(&self.queue, &mut sb);
        }
        let mut new = vec![0; SUPERBLOCK_BYTES];
        sb.encode(&mut new);
        let (home, at) = superblock_place(self.block_size);
        tx.update(home, at, &old, &new)
    }

    /// Copies the totals of free blocks and inodes into the superblock, which has them only lazily.
    pub(crate) fn count_into(&self, sb: &mut Superblock) {
        let (blocks, inodes) = self.groups.free_counts();
        sb.set_free_blocks(blocks);
        sb.set_free_inodes(inodes as u32);
        sb.set_write_time(rt::wall().secs.max(0) as u64);
    }
}
