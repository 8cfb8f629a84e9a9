//! Reading and writing nodes of an extent tree.

use crate::Ext4;
use crate::fault;
use crate::inode::Inode;
use crate::tx::Tx;
use base::{BlockNo, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{ExtentEntries, ExtentNode, InodeSeed};
use ondisk::ext4::{update_extent_checksum, verify_extent_checksum};

/// Records that a node in a block must have room for. Splitting one that holds two more than fit
/// leaves both halves within this bound.
const MIN_RECORDS: u16 = 2;

/// Parses a node that lies in a block and must have `depth`.
pub(super) fn parse_block(
    ino: Ino,
    block: BlockNo,
    bytes: &[u8],
    seed: Option<InodeSeed>,
    depth: u16,
) -> FsResult<ExtentNode> {
    let at = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(ino).at_block(block));
    let node = ExtentNode::parse(bytes).map_err(at)?;
    if let Some(seed) = seed {
        verify_extent_checksum(seed, bytes).map_err(at)?;
    }
    if node.depth != depth {
        return Err(bad(
            ino,
            block,
            format!("depth {} below a node of depth {}", node.depth, depth + 1),
        ));
    }
    if node.max < MIN_RECORDS {
        let what = format!("eh_max = {}, a split needs room for two", node.max);
        return Err(bad(ino, block, what));
    }
    if node.entries.is_empty() {
        return Err(bad(ino, block, "extent-E2: no records".into()));
    }
    Ok(node)
}

/// Parses the root in the block area of an inode.
pub(crate) fn parse_root(ino: Ino, area: &[u8]) -> FsResult<ExtentNode> {
    ExtentNode::parse(area).map_err(|e| fault::corrupt(e.at_inode(ino)))
}

pub(super) fn bad(ino: Ino, block: BlockNo, what: String) -> FsError {
    FsError::corrupt(format!(
        "extent node of inode {ino} at block {block}: {what}"
    ))
}

/// Logical block of the first record.
pub(super) fn first_key(entries: &ExtentEntries) -> Option<u32> {
    match entries {
        ExtentEntries::Leaf(v) => v.first().map(|e| e.logical),
        ExtentEntries::Index(v) => v.first().map(|e| e.logical),
    }
}

impl Ext4 {
    pub(crate) fn read_root(&self, inode: &Inode) -> FsResult<ExtentNode> {
        let core = inode.core();
        parse_root(inode.ino, core.disk.block_area())
    }

    pub(super) fn read_node(
        &self,
        inode: &Inode,
        block: BlockNo,
        depth: u16,
    ) -> FsResult<ExtentNode> {
        let ino = inode.ino;
        self.check_range(block, 1, format_args!("extent index of inode {ino}"))?;
        let bytes = self.read_meta(block)?;
        parse_block(ino, block, &bytes, self.inode_seed(inode), depth)
    }

    /// Writes a node to its place; the root goes to the inode, which the caller puts.
    pub(super) fn write_node(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        place: Option<BlockNo>,
        node: &ExtentNode,
    ) -> FsResult<()> {
        let Some(block) = place else {
            node.encode(inode.core().disk.block_area_mut());
            return Ok(());
        };
        let old = self.read_meta(block)?;
        let mut new = old.to_vec();
        node.encode(&mut new);
        if let Some(seed) = self.inode_seed(inode) {
            update_extent_checksum(seed, &mut new);
        }
        tx.update(block, 0, &old, &new)
    }

    /// Writes a node to a block that was just allocated.
    pub(super) fn create_node(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        block: BlockNo,
        node: &ExtentNode,
    ) -> FsResult<()> {
        let mut new = vec![0; self.block_size.bytes()];
        node.encode(&mut new);
        if let Some(seed) = self.inode_seed(inode) {
            update_extent_checksum(seed, &mut new);
        }
        tx.create(block, new.into())
    }
}
