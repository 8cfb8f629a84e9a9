//! Exposes parts of operations to the bench `cost`, and to nothing else: what these parts leave
//! behind is no consistent volume.

use crate::F2fs;
pub use crate::journal::capture::measured::compares;
pub use crate::journal::plane::measured::{Unsorted, list_appends, log_epochs, touch_blocks};
use base::Ino;
use fscore::FsResult;
use ondisk::f2fs::{BlockAddr, Log, Nid, Summary};

/// Takes `n` node numbers.
///
/// # Errors
/// ENOSPC.
pub fn nat_take(fs: &F2fs, n: u32) -> FsResult<Vec<u32>> {
    fs.with_op(|op| (0..n).map(|_| Ok(fs.nid_take(op)?.0)).collect())
}

/// Enters nodes of these numbers as new.
///
/// # Errors
/// Of the device.
pub fn nat_set(fs: &F2fs, nids: &[u32]) -> FsResult<()> {
    fs.with_op(|op| {
        let mut nids = nids.iter().map(|nid| Nid(*nid));
        nids.try_for_each(|nid| fs.nat_set(op, nid, nid, BlockAddr::NEW).map(drop))
    })
}

/// Takes `n` blocks from the log of file content.
///
/// # Errors
/// ENOSPC.
pub fn seg_take(fs: &F2fs, n: u32) -> FsResult<Vec<u32>> {
    let owner = |n| Summary {
        nid: Nid(n),
        version: 0,
        ofs_in_node: 0,
    };
    let old = BlockAddr::NULL;
    fs.with_op(|op| {
        let take = |n| Ok(fs.allocate(op, Log::WarmData, old, owner(n))?.addr.0);
        (0..n).map(take).collect()
    })
}

/// Frees these blocks.
///
/// # Errors
/// Damage.
pub fn seg_free(fs: &F2fs, blocks: &[u32]) -> FsResult<()> {
    fs.with_op(|op| {
        let mut blocks = blocks.iter().map(|addr| BlockAddr(*addr));
        blocks.try_for_each(|addr| fs.invalidate(op, addr))
    })
}

/// Changes a few bytes of the node block of each of these inodes.
///
/// # Errors
/// Of the device.
pub fn node_edit(fs: &F2fs, inos: &[Ino]) -> FsResult<()> {
    fs.with_op(|op| {
        let edit = |ino: &Ino| fs.rewrite_node(op, Nid(ino.0), |block| block[64..80].fill(1));
        inos.iter().try_for_each(edit)
    })
}
