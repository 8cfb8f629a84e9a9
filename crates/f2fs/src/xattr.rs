//! Extended attributes: one list that begins in the inode and continues in an xattr node
//! (`ondisk::f2fs::xattr`).
//!
//! POSIX ACLs are stored, translated ([`fscore::acl`]) and kept in step with the mode
//! ([`acl`](mod@acl)); they are enforced where access is checked, outside this crate.
//!
//! Invariants:
//! - X1 inode and attribute node change in one `Op`, so after a cut an attribute has its old value
//!   or its new one, and an access ACL the mode that goes with it;
//! - X2 after a change there is an attribute node exactly if the list does not fit the inode (Linux
//!   may leave one that is not needed);
//! - X3 the node is made before anything else is changed, so that a full disk changes nothing.

mod acl;

use crate::F2fs;
use crate::fault;
use crate::inode::Inode;
use crate::ops::Op;
use base::{Bytes, Ino};
use fscore::acl::Acl;
use fscore::{Errno, FsError, FsResult, XattrMode, XattrName, xattr_full_name};
use ondisk::f2fs::{InodeFields, Nid};
use ondisk::f2fs::{NodeKind, XATTR_BLOCK_BYTES, XATTR_NODE_OFFSET, XattrBuf, XattrIndex, footer};

/// Longest value that an entry can say.
const VALUE_BYTES_MAX: usize = u16::MAX as usize;

impl F2fs {
    pub(crate) fn op_setxattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> FsResult<()> {
        let name = XattrName::parse(name)?;
        let inode = self.inode(ino)?;
        let value = name.stored(inode.kind()?, value)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Errno::NoSpc.into());
        }
        if name.is_access_acl() {
            return self.set_access_acl(&inode, &Acl::parse_disk(&value)?, mode);
        }
        self.change_xattrs(&inode, |list| {
            put(list, name, &value, mode)?;
            Ok(None)
        })
    }

    pub(crate) fn op_removexattr(&self, ino: Ino, name: &[u8]) -> FsResult<()> {
        let name = XattrName::parse(name)?;
        let inode = self.inode(ino)?;
        name.check_change(inode.kind()?)?;
        let removed = self.change_xattrs(&inode, |list| {
            match list.remove(XattrIndex(name.index), name.rest) {
                true => Ok(None),
                false => Err(Errno::NoData.into()),
            }
        });
        name.removed(removed)
    }

    pub(crate) fn op_getxattr(&self, ino: Ino, name: &[u8]) -> FsResult<Vec<u8>> {
        let name = XattrName::parse(name)?;
        let inode = self.inode(ino)?;
        name.check_get(inode.kind()?)?;
        let list = self.read_xattrs(&inode)?;
        let value = list
            .get(XattrIndex(name.index), name.rest)
            .ok_or(Errno::NoData)?;
        Ok(name.shown(value)?)
    }

    /// In the order of the list. Names with a prefix that is not known here are left out.
    pub(crate) fn op_listxattr(&self, ino: Ino) -> FsResult<Vec<Vec<u8>>> {
        let list = self.read_xattrs(&*self.inode(ino)?)?;
        Ok(list
            .iter()
            .filter_map(|e| xattr_full_name(e.index.0, e.name))
            .collect())
    }

    fn read_xattrs(&self, inode: &Inode) -> FsResult<XattrBuf> {
        let _gate = inode.gate.read();
        self.load_xattrs(inode)
    }

    /// The gate is held.
    fn load_xattrs(&self, inode: &Inode) -> FsResult<XattrBuf> {
        let fields = living_fields(inode)?;
        let node = match fields.xattr_nid {
            Nid(0) => None,
            nid => Some(self.xattr_node(inode, nid)?),
        };
        let range = fields.inline_xattr_range();
        self.with_node(inode.nid(), |block| {
            XattrBuf::parse(&block[range], node.as_deref())
        })?
        .map_err(|e| fault::corrupt(e.at_inode(inode.ino)))
    }

    /// The attribute node of an inode, which says that it is.
    fn xattr_node(&self, inode: &Inode, nid: Nid) -> FsResult<Bytes> {
        let block = self.node(nid)?;
        let footer = footer(&block);
        if footer.ino != inode.nid() || footer.kind() != NodeKind::Xattr {
            return Err(FsError::corrupt(format!(
                "attributes of inode {}: node {nid} is not their node, but number {} of inode {}",
                inode.ino,
                footer.ofs_of_node(),
                footer.ino
            )));
        }
        Ok(block)
    }

    /// Frees the attribute node of an inode, if it has one. The caller puts the inode or frees it.
    pub(crate) fn drop_xattr_node(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        let nid = inode.core().fields.xattr_nid;
        if nid == Nid(0) {
            return Ok(());
        }
        self.xattr_node(inode, nid)?;
        self.free_node(op, nid)?;
        let mut core = inode.core();
        core.fields.xattr_nid = Nid(0);
        core.fields.blocks = core.fields.blocks.saturating_sub(1);
        Ok(())
    }

    /// Changes the list, and the permission bits to what `change` answers.
    fn change_xattrs(
        &self,
        inode: &Inode,
        change: impl FnOnce(&mut XattrBuf) -> FsResult<Option<u16>>,
    ) -> FsResult<()> {
        self.check_writable()?;
        self.balance()?;
        let _gate = inode.gate.write();
        let mut list = self.load_xattrs(inode)?;
        inode.check_attributes()?;
        let bits = change(&mut list)?;
        self.change(|op| self.store_xattrs(op, inode, &list, bits))
    }

    /// Stores the list, and with it permission bits. An error that is no POSIX answer may leave
    /// half of it.
    fn store_xattrs(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        list: &XattrBuf,
        bits: Option<u16>,
    ) -> FsResult<()> {
        let fields = living_fields(inode)?;
        let range = fields.inline_xattr_range();
        let needs_node = list.bytes() > range.len();
        if list.bytes() > range.len() + XATTR_BLOCK_BYTES {
            return Err(Errno::NoSpc.into());
        }
        let nid = match fields.xattr_nid {
            // X3.
            Nid(0) if needs_node => Some(self.make_xattr_node(op, inode)?),
            Nid(0) => None,
            nid if needs_node => Some(nid),
            _ => {
                self.drop_xattr_node(op, inode)?;
                None
            }
        };
        let mut inline = vec![0; range.len()];
        let mut node = vec![0; if needs_node { XATTR_BLOCK_BYTES } else { 0 }];
        assert!(
            list.store(&mut inline, Some(&mut node)),
            "X2: the list fits, that was checked"
        );
        if let Some(nid) = nid {
            self.rewrite_node(op, nid, |block| {
                block[..XATTR_BLOCK_BYTES].copy_from_slice(&node)
            })?;
        }
        self.rewrite_node(op, inode.nid(), |block| {
            block[range].copy_from_slice(&inline)
        })?;
        {
            let mut core = inode.core();
            core.touch(false);
            core.changed();
            if let Some(bits) = bits {
                core.fields.mode = core.fields.mode & !0o777 | bits;
            }
        }
        self.put_inode(op, inode)
    }

    fn make_xattr_node(&self, op: &Op<'_>, inode: &Inode) -> FsResult<Nid> {
        let nid = self.nid_take(op)?;
        let made = self.new_node(
            op,
            nid,
            inode.ino,
            XATTR_NODE_OFFSET,
            !inode.is_dir(),
            |_| {},
        );
        if let Err(e) = made {
            self.nat.give_back(nid);
            return Err(e);
        }
        let mut core = inode.core();
        core.fields.xattr_nid = nid;
        core.fields.blocks += 1;
        Ok(nid)
    }
}

fn living_fields(inode: &Inode) -> FsResult<InodeFields> {
    let core = inode.core();
    match core.gone {
        true => Err(Errno::Stale.into()),
        false => Ok(core.fields.clone()),
    }
}

/// Sets one, if there is none or one already, as `mode` says.
fn put(list: &mut XattrBuf, name: XattrName<'_>, value: &[u8], mode: XattrMode) -> FsResult<()> {
    let there = list.get(XattrIndex(name.index), name.rest).is_some();
    match mode {
        XattrMode::Create if there => return Err(Errno::Exist.into()),
        XattrMode::Replace if !there => return Err(Errno::NoData.into()),
        _ => list.set(XattrIndex(name.index), name.rest, value),
    }
    Ok(())
}
