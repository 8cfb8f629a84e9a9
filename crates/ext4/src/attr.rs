//! Attributes of inodes: what `stat` reports, and how they are changed.

use crate::Ext4;
use crate::inode::{Core, Inode, coarse_now, from_wall, to_wall};
use crate::xattr;
use base::cost::ext4 as cost;
use fscore::{Attr, Errno, FileFlags, FileKind, FsResult, SetAttr, TimeSet, rdev};

impl Ext4 {
    /// The attributes that `stat` reports for an inode.
    pub(crate) fn attr_of(&self, inode: &Inode) -> FsResult<Attr> {
        let kind = inode.kind()?;
        let huge = self.has_huge_files();
        let core = inode.core();
        let disk = &core.disk;
        let device = matches!(kind, FileKind::Char | FileKind::Block);
        Ok(Attr {
            ino: inode.ino,
            kind,
            perm: disk.mode() & 0o7777,
            nlink: disk.links().into(),
            uid: disk.uid(),
            gid: disk.gid(),
            rdev: if device { rdev(disk.device()) } else { 0 },
            size: core.size,
            // Delayed pages count as allocated, as in Linux.
            sectors: disk.sectors(huge, self.geo.block_bytes())
                + self.block_size.sectors_of(self.delayed_blocks(&core)),
            atime: to_wall(disk.access_time()),
            mtime: to_wall(disk.modify_time()),
            ctime: to_wall(disk.change_time()),
            crtime: to_wall(disk.create_time().unwrap_or_default()),
            generation: disk.generation(),
            flags: FileFlags(disk.flags().0 & crate::chattr::SHOWN),
        })
    }

    /// Blocks that delayed pages will get.
    fn delayed_blocks(&self, core: &Core) -> u64 {
        match self.has_clusters() {
            true => self.cluster_len(1) * core.promise.clusters.len() as u64,
            false => core.promise.data - core.promise.owed,
        }
    }

    pub(crate) fn change_attr(&self, inode: &Inode, set: &SetAttr) -> FsResult<Attr> {
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        rt::charge(cost::SETATTR);
        match set.is_guarded() {
            _ if set.of_writes => {}
            true => inode.check_not_guarded()?,
            false => inode.check_not_immutable()?,
        }
        if let Some(size) = set.size {
            inode.kind()?.check_file()?;
            self.set_file_size(inode, size)?;
        }
        if set.has_fields() {
            self.change_fields(inode, set)?;
        }
        self.attr_of(inode)
    }

    fn change_fields(&self, inode: &Inode, set: &SetAttr) -> FsResult<()> {
        let acl_follows = match set.perm {
            Some(perm) if self.has_access_acl(inode)? => Some(perm),
            _ => None,
        };
        let Some(perm) = acl_follows else {
            return self.transact(1, |tx| {
                apply(inode, set);
                tx.tell_of(self, inode);
                self.put_inode(tx, inode)
            });
        };
        self.with_room(|| {
            self.transact(1 + xattr::CREDITS, |tx| {
                // Steps that can fail for want of space come first, so that a failure leaves
                // nothing changed.
                self.chmod_acl(tx, inode, perm)?;
                apply(inode, set);
                self.put_inode(tx, inode)
            })
        })
    }
}

fn apply(inode: &Inode, set: &SetAttr) {
    let time = |t: TimeSet| match t {
        TimeSet::Now => coarse_now(),
        TimeSet::To(t) => from_wall(t),
    };
    let mut core = inode.core();
    core.touch(false);
    let disk = &mut core.disk;
    if let Some(perm) = set.perm {
        disk.set_mode(disk.mode() & !0o7777 | perm & 0o7777);
    }
    if let Some(uid) = set.uid {
        disk.set_uid(uid);
    }
    if let Some(gid) = set.gid {
        disk.set_gid(gid);
    }
    if let Some(t) = set.atime {
        disk.set_access_time(time(t));
    }
    if let Some(t) = set.mtime {
        disk.set_modify_time(time(t));
    }
}
