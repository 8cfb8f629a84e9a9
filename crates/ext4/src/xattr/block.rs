//! The block of attributes: reading it, replacing it by another one, releasing it.

use super::Block;
use crate::Ext4;
use crate::fault;
use crate::inode::Inode;
use crate::tx::Tx;
use base::BlockNo;
use base::bytes::put_le32;
use fscore::{FsError, FsResult};
use ondisk::ext4::{XattrBlock, XattrEntry};

/// Where a block counts the inodes that share it.
const REFERENCES_AT: usize = 4;

impl Ext4 {
    /// Reads and checks a block.
    pub(super) fn read_xattr_block(
        &self,
        inode: &Inode,
        at: BlockNo,
    ) -> FsResult<(Block, Vec<XattrEntry>)> {
        self.check_range(at, 1, format_args!("i_file_acl of inode {}", inode.ino))?;
        let bytes = self.read_meta(at)?;
        let place = |e: ondisk::Corrupt| fault::corrupt(e.at_inode(inode.ino).at_block(at));
        let parsed = XattrBlock::parse(&bytes).map_err(place)?;
        if let Some(seed) = self.seed {
            XattrBlock::verify_checksum(seed, at, &bytes).map_err(place)?;
        }
        if parsed.references == 0 {
            return Err(FsError::corrupt(format!(
                "extended attributes of inode {} at block {at}: h_refcount is 0",
                inode.ino
            )));
        }
        let block = Block {
            at,
            bytes,
            references: parsed.references,
        };
        Ok((block, parsed.entries))
    }

    /// Gives the inode a block with `entries` in the place of `old`. The inode is put by the
    /// caller.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed (ext4-xattr-X5).
    pub(super) fn replace_xattr_block(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        old: Option<Block>,
        entries: &[XattrEntry],
    ) -> FsResult<()> {
        if entries.is_empty() {
            return match old {
                Some(old) => self.leave_xattr_block(tx, inode, &old),
                None => Ok(()),
            };
        }
        match old {
            // ext4-xattr-X2: no other inode shares the block.
            Some(old) if old.references == 1 => {
                let new = self.compose_xattr_block(old.at, entries);
                tx.update(old.at, 0, &old.bytes, &new)
            }
            old => self.new_xattr_block(tx, inode, old.as_ref(), entries),
        }
    }

    fn compose_xattr_block(&self, at: BlockNo, entries: &[XattrEntry]) -> Vec<u8> {
        let mut new = XattrBlock::compose(entries.to_vec(), 1, self.block_size.bytes());
        if let Some(seed) = self.seed {
            XattrBlock::update_checksum(seed, at, &mut new);
        }
        new
    }

    fn new_xattr_block(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        shared: Option<&Block>,
        entries: &[XattrEntry],
    ) -> FsResult<()> {
        let goal = self.inode_goal(inode);
        let at = self.alloc_clusters(tx, goal, 1, false)?.start;
        if let Err(e) = self.add_clusters(inode, 1) {
            if matches!(e, FsError::Posix(_)) {
                self.free_clusters(tx, at, 1)?;
            }
            return Err(e);
        }
        let new = self.compose_xattr_block(at, entries);
        tx.create(at, new.into())?;
        if let Some(shared) = shared {
            self.leave_xattr_block(tx, inode, shared)?;
        }
        inode.core().disk.set_xattr_block(at);
        Ok(())
    }

    /// Releases the inode's reference to its block; the last reference frees it (ext4-xattr-X4).
    /// The inode is put by the caller.
    fn leave_xattr_block(&self, tx: &mut Tx<'_>, inode: &Inode, block: &Block) -> FsResult<()> {
        if block.references > 1 {
            let mut new = block.bytes.to_vec();
            put_le32(&mut new, REFERENCES_AT, block.references - 1);
            if let Some(seed) = self.seed {
                XattrBlock::update_checksum(seed, block.at, &mut new);
            }
            tx.update(block.at, 0, &block.bytes, &new)?;
        } else {
            tx.forget(block.at)?;
            self.free_clusters(tx, block.at, 1)?;
        }
        inode.core().disk.set_xattr_block(BlockNo(0));
        self.add_clusters(inode, -1)
    }

    /// Releases the block of an inode that is being freed.
    pub(crate) fn drop_xattr_block(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let at = inode.core().disk.xattr_block();
        if at == BlockNo(0) {
            return Ok(());
        }
        let _blocks = self.xattr_blocks.write();
        let (block, _) = self.read_xattr_block(inode, at)?;
        self.leave_xattr_block(tx, inode, &block)
    }
}
