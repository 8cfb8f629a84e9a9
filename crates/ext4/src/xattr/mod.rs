//! Extended attributes: in the inode behind its extra fields, and in one block (`i_file_acl`) that
//! inodes with equal attributes may share. New attributes go to the inode if they fit there, else
//! to the block, as in Linux.
//!
//! POSIX ACLs are stored, translated ([`fscore::acl`]) and kept in step with the mode (`acl`); the
//! code that checks access enforces them.
//!
//! Invariants:
//! - X1 inode and block change in one handle, so after a cut an attribute has its old value or its
//!   new one, in one place;
//! - X2 the content of a shared block (reference count above 1) never changes: an inode that needs
//!   other content gets a block of its own;
//! - X3 a task that reads a block holds `xattr_blocks` shared; a task that changes content or count
//!   of one holds it exclusively from reading to writing (two inodes may reach one block; their
//!   gates do not exclude each other);
//! - X4 a block that loses its last reference is revoked (hazards-H6) and freed (hazards-H18) in
//!   the handle that clears `i_file_acl`;
//! - X5 a block is allocated before anything is changed: a full disk changes nothing.

mod acl;
mod block;
mod place;

pub(crate) use acl::acl_credits;

use crate::Ext4;
use crate::fault;
use crate::inode::Inode;
use crate::tx::Tx;
use base::{BlockNo, Bytes, Ino};
use fscore::acl::Acl;
use fscore::{Errno, FsError, FsResult, XattrMode, XattrName as Name};
use ondisk::ext4::{
    Compat, Incompat, InodeFlags, XattrBlock, XattrEntry, inode_xattr_room, inode_xattrs,
    set_inode_xattrs,
};
use place::{Change, Lists};

/// Blocks that changing an attribute may change: inode; old block with its bitmap and descriptor
/// and a revoke record; new block with its bitmap and descriptor; superblock.
pub(crate) const CREDITS: u32 = 9;

/// The longest value that an inode of its own can hold (Linux `EXT4_XATTR_SIZE_MAX`).
const VALUE_INODE_BYTES_MAX: u64 = 1 << 24;

/// The block of attributes of an inode.
struct Block {
    at: BlockNo,
    bytes: Bytes,
    references: u32,
}

/// All attributes of an inode.
struct Found {
    lists: Lists,
    block: Option<Block>,
}

impl Ext4 {
    pub(crate) fn op_setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> FsResult<()> {
        let name = Name::parse(name)?;
        let inode = self.inode(ino)?;
        let value = name.stored(inode.kind()?, value)?;
        if name.is_access_acl() {
            return self.set_access_acl(&inode, &Acl::parse_disk(&value)?, mode);
        }
        self.change_xattr(&inode, &Change::set(name, value, mode))
    }

    pub(crate) fn op_removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        let name = Name::parse(name)?;
        let inode = self.inode(ino)?;
        name.check_change(inode.kind()?)?;
        name.removed(self.change_xattr(&inode, &Change::remove(name)))
    }

    pub(crate) fn op_getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let name = Name::parse(name)?;
        let inode = self.inode(ino)?;
        name.check_get(inode.kind()?)?;
        let found = self.read_xattrs(&inode)?;
        let entry = found.lists.find(name).ok_or(Errno::NoData)?;
        if let Some(value) = entry.value_ino {
            // Volumes that may have values in inodes are mounted read-only.
            return self.read_value_inode(&inode, value);
        }
        Ok(name.shown(&entry.value)?)
    }

    /// Lists the attributes in the inode first, then those in the block. Names with an unknown
    /// prefix are left out.
    pub(crate) fn op_listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        let found = self.read_xattrs(&*self.inode(ino)?)?;
        let all = found.lists.inode.iter().chain(&found.lists.block);
        Ok(all
            .filter_map(|e| fscore::xattr_full_name(e.name_index, &e.name))
            .collect())
    }

    fn read_xattrs(&self, inode: &Inode) -> FsResult<Found> {
        let _gate = inode.gate.read();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        let _blocks = self.xattr_blocks.read();
        self.find_xattrs(inode)
    }

    /// Reads the attributes. X3: `xattr_blocks` is held.
    fn find_xattrs(&self, inode: &Inode) -> FsResult<Found> {
        let (list, at) = {
            let core = inode.core();
            (inode_xattrs(&core.disk), core.disk.xattr_block())
        };
        let list = list.map_err(|e| fault::corrupt(e.at_inode(inode.ino)))?;
        let mut found = Found {
            lists: Lists {
                inode: list,
                block: Vec::new(),
            },
            block: None,
        };
        if at != BlockNo(0) {
            let (block, entries) = self.read_xattr_block(inode, at)?;
            found.lists.block = entries;
            found.block = Some(block);
        }
        let mut all = found.lists.inode.iter().chain(&found.lists.block);
        if let Some(value) = all.find_map(|e| e.value_ino)
            && !self.geo.incompat().has(Incompat::EA_INODE)
        {
            return Err(FsError::corrupt(format!(
                "extended attributes of inode {}: a value in inode {value}, without feature ea_inode",
                inode.ino
            )));
        }
        Ok(found)
    }

    /// An attribute's value that lies in an inode of its own.
    fn read_value_inode(&self, of: &Inode, value: Ino) -> FsResult<Vec<u8>> {
        let inode = self.inode(value)?;
        let size = inode.core().size;
        if !inode.core().disk.flags().has(InodeFlags::EA_INODE) || size > VALUE_INODE_BYTES_MAX {
            return Err(FsError::corrupt(format!(
                "extended attributes of inode {}: inode {value} with {size} bytes holds no value",
                of.ino
            )));
        }
        let mut bytes = vec![0; size as usize];
        self.read_file(&inode, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn change_xattr(&self, inode: &Inode, change: &Change) -> FsResult<()> {
        self.with_xattrs(inode, |tx| self.change_xattr_in(tx, inode, change))
    }

    /// Runs a change of attributes in one handle (X1).
    fn with_xattrs<'f>(
        &'f self,
        inode: &Inode,
        change: impl Fn(&mut Tx<'f>) -> FsResult<()>,
    ) -> FsResult<()> {
        self.check_writable()?;
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        inode.check_attributes()?;
        self.with_room(|| self.transact(CREDITS, |tx| change(tx)))
    }

    fn change_xattr_in(&self, tx: &mut Tx<'_>, inode: &Inode, change: &Change) -> FsResult<()> {
        let _blocks = self.xattr_blocks.write();
        let found = self.find_xattrs(inode)?;
        let room = inode_xattr_room(&inode.core().disk);
        let lists = change.apply(
            &found.lists,
            room,
            XattrBlock::room(self.block_size.bytes()),
        )?;
        if lists.block != found.lists.block {
            // X5: this is the first step, and the only one that can fail on a full disk.
            self.replace_xattr_block(tx, inode, found.block, &lists.block)?;
        }
        {
            let mut core = inode.core();
            if lists.inode != found.lists.inode {
                set_inode_xattrs(&mut core.disk, &lists.inode);
            }
            core.touch(false);
            // Within one tick of the clock no byte of the inode may change, but an fsync has to
            // commit the block.
            core.sync_tid = tx.tid();
            core.changes.all += 1;
        }
        self.put_inode(tx, inode)?;
        self.mark_feature(tx)
    }

    /// Sets feature `ext_attr`, which says that there may be blocks of attributes.
    fn mark_feature(&self, tx: &mut Tx<'_>) -> FsResult<()> {
        if self.sb.lock().compat().has(Compat::EXT_ATTR) {
            return Ok(());
        }
        self.update_superblock(tx, |sb| sb.set_compat(sb.compat() | Compat::EXT_ATTR))
    }
}

impl Lists {
    fn find(&self, name: Name<'_>) -> Option<&XattrEntry> {
        let mut all = self.inode.iter().chain(&self.block);
        all.find(|e| e.is(name.index, name.rest))
    }
}
