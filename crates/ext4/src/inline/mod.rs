//! Content that lies in the inode (feature `inline_data`): the first 60 bytes where other inodes
//! map their blocks, the rest in the attribute `system.data`, which stays in the inode. A directory
//! stores the number of its parent first, then entries in both parts; the last entry of each part
//! fills it up.
//!
//! Invariants:
//! - L1 all of the content is bytes of one inode in its table, and an operation changes them in one
//!   handle: a cut leaves the content as it was before or after the operation, in every data mode,
//!   and an fsync has nothing to wait for but that transaction;
//! - L2 nothing of such a file is in the page cache or on its way: pages come with the first block,
//!   and content moves in only where nothing is mapped, cached or promised;
//! - L3 content of a file leaves the inode in the handle that maps its block, and that transaction
//!   commits after the block holds the content, flushed, in every data mode (fallocate-U2; with
//!   `data=journal` the block is part of the transaction): what was durable in the inode stays
//!   durable;
//! - L4 a directory leaves in the same way; its block is metadata;
//! - L5 the block is allocated first: a full disk changes nothing;
//! - L6 no entry reaches from one part of a directory into the other, so both stay filled whatever
//!   is added or removed; an entry keeps its offset in the block as which the directory is seen,
//!   also when the directory gets a real block (dir-I4).

mod directory;
mod file;

pub(crate) use directory::SEAMS;

use crate::Ext4;
use crate::fault;
use crate::inode::{Core, Inode};
use crate::tx::Tx;
use fscore::{FsError, FsResult};
use ondisk::ext4 as disk;
use ondisk::ext4::{
    BLOCK_AREA_BYTES, ExtentNode, Incompat, InodeFlags, XattrEntry, inode_xattr_room, inode_xattrs,
    set_inode_xattrs, xattr_bytes,
};

/// The attribute with the second part: prefix `system.`, and what follows it.
const DATA: (u8, &[u8]) = (7, b"data");
/// Values are padded to a multiple of this.
const PAD: usize = 4;

impl Inode {
    /// True if the content lies in the inode.
    pub(crate) fn is_inline(&self) -> bool {
        self.core().is_inline()
    }
}

impl Core {
    /// True if the content lies in the inode.
    pub(crate) fn is_inline(&self) -> bool {
        self.disk.flags().has(InodeFlags::INLINE_DATA)
    }
}

impl Ext4 {
    fn may_be_inline(&self) -> bool {
        self.geo.incompat().has(Incompat::INLINE_DATA)
    }

    /// Bytes of content that the inode has room for beside its attributes; `None` if there is no
    /// room even for an empty attribute.
    fn inline_room(&self, inode: &Inode) -> FsResult<Option<usize>> {
        let core = inode.core();
        let others = other_attributes(inode, &core.disk)?;
        let used = xattr_bytes(&others) + record_bytes();
        let room = inode_xattr_room(&core.disk).checked_sub(used);
        Ok(room.map(|room| BLOCK_AREA_BYTES + room / PAD * PAD))
    }

    /// The two parts of the content. The gate is held.
    fn inline_parts(&self, inode: &Inode) -> FsResult<(Vec<u8>, Vec<u8>)> {
        let core = inode.core();
        let list = attributes(inode, &core.disk)?;
        let rest = list.into_iter().find(|e| e.is(DATA.0, DATA.1));
        let rest = rest.map(|e| e.value).unwrap_or_default();
        Ok((core.disk.block_area().to_vec(), rest))
    }

    /// The content that the inode stores; from its end to the size the file reads as zeros. The
    /// gate is held.
    pub(crate) fn inline_content(&self, inode: &Inode) -> FsResult<Vec<u8>> {
        let (mut content, rest) = self.inline_parts(inode)?;
        content.extend(rest);
        let size = inode.core().size.min(content.len() as u64);
        content.truncate(size as usize);
        Ok(content)
    }

    /// Replaces the whole content and the size (L1). The caller has checked that there is
    /// [room](Self::inline_room). The gate is held exclusively.
    fn store_inline(&self, tx: &mut Tx<'_>, inode: &Inode, content: &[u8]) -> FsResult<()> {
        let (area, rest) = content.split_at(content.len().min(BLOCK_AREA_BYTES));
        self.put_inline(tx, inode, area, rest, content.len() as u64)
    }

    /// Stores the content like `store_inline`, given as its two parts.
    fn put_inline(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        area: &[u8],
        rest: &[u8],
        size: u64,
    ) -> FsResult<()> {
        {
            let mut core = inode.core();
            assert!(
                core.promise == crate::inode::Promise::default(),
                "L2: inode {} has delayed pages",
                inode.ino
            );
            let mut list = attributes(inode, &core.disk)?;
            let data = XattrEntry {
                name_index: DATA.0,
                name: DATA.1.to_vec(),
                value: rest.to_vec(),
                value_ino: None,
            };
            match list.iter_mut().find(|e| e.is(DATA.0, DATA.1)) {
                Some(old) => *old = data,
                None => list.push(data),
            }
            replace_attributes(inode.ino, &mut core.disk, &list)?;
            let flags = core.disk.flags().without(InodeFlags::EXTENTS);
            core.disk.set_flags(flags | InodeFlags::INLINE_DATA);
            let block_area = core.disk.block_area_mut();
            block_area.fill(0);
            block_area[..area.len()].copy_from_slice(area);
            core.recent = None;
            core.set_size(size);
            // All of the content is needed to read the data back.
            core.datasync_tid = tx.tid();
            core.sync_tid = tx.tid();
            core.changes.all += 1;
            core.changes.data += 1;
        }
        self.put_inode(tx, inode)
    }

    /// Takes the content out of an inode, which maps nothing then; `place` gives the content a
    /// block. The inode is put.
    ///
    /// # Errors
    /// ENOSPC, with nothing changed (L5).
    fn leave_inode(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        place: impl FnOnce(&mut Tx<'_>) -> FsResult<()>,
    ) -> FsResult<()> {
        let (before, size) = {
            let mut core = inode.core();
            let before = (core.disk.clone(), core.size);
            let others = other_attributes(inode, &core.disk)?;
            replace_attributes(inode.ino, &mut core.disk, &others)?;
            self.map_nothing_yet(&mut core.disk);
            before
        };
        if let Err(e) = place(tx) {
            if matches!(e, FsError::Posix(_)) {
                let mut core = inode.core();
                core.disk = before;
                core.size = size;
            }
            return Err(e);
        }
        {
            let mut core = inode.core();
            core.datasync_tid = tx.tid();
            core.sync_tid = tx.tid();
        }
        self.put_inode(tx, inode)
    }

    /// Drops the content from an inode that is about to be made; it maps nothing then.
    pub(crate) fn drop_inline(&self, ino: base::Ino, disk: &mut disk::Inode) -> FsResult<()> {
        let mut list = inode_xattrs(disk).map_err(|e| fault::corrupt(e.at_inode(ino)))?;
        list.retain(|e| !e.is(DATA.0, DATA.1));
        replace_attributes(ino, disk, &list)?;
        self.map_nothing_yet(disk);
        Ok(())
    }

    fn map_nothing_yet(&self, disk: &mut disk::Inode) {
        let mut flags = disk.flags().without(InodeFlags::INLINE_DATA);
        disk.block_area_mut().fill(0);
        if self.geo.incompat().has(Incompat::EXTENTS) {
            flags = flags | InodeFlags::EXTENTS;
            ExtentNode::inline_root().encode(disk.block_area_mut());
        }
        disk.set_flags(flags);
    }
}

/// Bytes of the attribute's entry, without its value.
fn record_bytes() -> usize {
    let empty = XattrEntry {
        name_index: DATA.0,
        name: DATA.1.to_vec(),
        value: Vec::new(),
        value_ino: None,
    };
    xattr_bytes(&[empty]) - xattr_bytes(&[])
}

fn attributes(inode: &Inode, disk: &disk::Inode) -> FsResult<Vec<XattrEntry>> {
    inode_xattrs(disk).map_err(|e| fault::corrupt(e.at_inode(inode.ino)))
}

fn other_attributes(inode: &Inode, disk: &disk::Inode) -> FsResult<Vec<XattrEntry>> {
    let mut list = attributes(inode, disk)?;
    list.retain(|e| !e.is(DATA.0, DATA.1));
    Ok(list)
}

/// Replaces the attributes in an inode by `list`.
///
/// # Errors
/// `Corrupt`, with nothing changed: damaged attributes may share bytes, so that they take more room
/// when stored apart, or may name inodes for their values.
fn replace_attributes(ino: base::Ino, disk: &mut disk::Inode, list: &[XattrEntry]) -> FsResult<()> {
    let (need, room) = (xattr_bytes(list), inode_xattr_room(disk));
    let elsewhere = list.iter().any(|e| e.value_ino.is_some());
    if elsewhere || (need > room && !list.is_empty()) {
        return Err(FsError::corrupt(format!(
            "inode {ino}: its attributes take {need} bytes of {room}, values in other inodes: {elsewhere}"
        )));
    }
    set_inode_xattrs(disk, list);
    Ok(())
}

fn bad(inode: &Inode, what: String) -> FsError {
    FsError::corrupt(format!("inode {}: content in the inode: {what}", inode.ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(value: usize, value_ino: Option<base::Ino>) -> XattrEntry {
        XattrEntry {
            name_index: DATA.0,
            name: DATA.1.to_vec(),
            value: vec![7; value],
            value_ino,
        }
    }

    /// A case found by flipping bytes: two entries name the same bytes as their values.
    #[test]
    fn attributes_without_room_are_damage_and_change_nothing() {
        let mut inode = disk::Inode::blank(256, 32);
        let room = inode_xattr_room(&inode);
        let before = inode.bytes().to_vec();
        for list in [
            vec![attribute(room / 2, None), attribute(room / 2, None)],
            vec![attribute(4, Some(base::Ino(12)))],
        ] {
            let refused = replace_attributes(base::Ino(11), &mut inode, &list);
            assert!(
                matches!(refused, Err(FsError::Corrupt { .. })),
                "{refused:?}"
            );
            assert_eq!(inode.bytes(), before);
        }
        replace_attributes(base::Ino(11), &mut inode, &[attribute(8, None)]).expect("room");
        assert_ne!(inode.bytes(), before);
    }
}
