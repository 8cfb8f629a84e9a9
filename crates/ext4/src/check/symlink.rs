//! Checks symbolic links: short targets lie in the inode, longer ones in a block.

use super::finding::Kind;
use super::mapping::Mapping;
use super::state::State;
use super::volume::Volume;
use ondisk::ext4::{BLOCK_AREA_BYTES, Inode, InodeFlags, RoCompat};

/// True if the target lies in the inode: the inode owns nothing but the clusters of its attributes.
pub(super) fn is_fast(volume: &Volume<'_>, inode: &Inode, attributes: u64) -> bool {
    let sectors = inode.sectors(false, volume.sb.block_bytes());
    sectors == volume.sectors(attributes) && !inode.flags().has(InodeFlags::EXTENTS)
}

/// Checks the target: as long as the size says, without zero bytes.
pub(super) fn check(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
    mapping: &Mapping,
    attributes: u64,
) {
    debug_assert!(
        volume.sb.ro_compat().0 & RoCompat::REPLICA.0 == 0,
        "refused before"
    );
    let size = inode.size();
    let room = if is_fast(volume, inode, attributes) {
        BLOCK_AREA_BYTES
    } else {
        volume.block_bytes()
    } as u64;
    if size == 0 || size >= room {
        let what = format!("a target of {size} bytes");
        return state.at_inode(ino, Kind::Symlink, what);
    }
    let target = if is_fast(volume, inode, attributes) {
        base::Bytes::copy_from_slice(inode.block_area())
    } else {
        let Some(run) = mapping.runs.first().filter(|run| run.logical == 0) else {
            return state.at_inode(ino, Kind::Symlink, "the target has no block");
        };
        let Some(block) = volume.reader.block(run.start, state.found) else {
            return;
        };
        block
    };
    let len = target.iter().position(|&b| b == 0).unwrap_or(target.len());
    if len as u64 != size {
        let what = format!("a target of {len} bytes, {size} noted");
        state.at_inode(ino, Kind::Symlink, what);
    }
}
