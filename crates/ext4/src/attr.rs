//! Attributes of inodes: what `stat` reports, and how they are changed.

use crate::Ext4;
use crate::inode::{Inode, coarse_now, from_wall, to_wall};
use crate::xattr;
use base::cost::ext4 as cost;
use fscore::{Attr, Errno, FileFlags, FileKind, FsResult, SetAttr, TimeSet};

impl Ext4 {
    /// The attributes that `stat` reports for an inode.
    pub(crate) fn attr_of(&self, inode: &Inode) -> FsResult<Attr> {
        let kind = inode.kind()?;
        let huge = self.has_huge_files();
        let core = inode.core();
        let disk = &core.disk;
        let (major, minor) = match kind {
            FileKind::Char | FileKind::Block => disk.device(),
            _ => (0, 0),
        };
        Ok(Attr {
            ino: inode.ino,
            kind,
            perm: disk.mode() & 0o7777,
            nlink: disk.links().into(),
            uid: disk.uid(),
            gid: disk.gid(),
            rdev: (minor & 0xFF) | (major << 8) | ((minor & 0xF_FF00) << 12),
            size: core.size,
            // Delayed pages count as allocated, as in Linux.
            sectors: disk.sectors(huge, self.geo.block_bytes())
                + self
                    .block_size
                    .sectors_of(core.promise.data - core.promise.owed),
            atime: to_wall(disk.access_time()),
            mtime: to_wall(disk.modify_time()),
            ctime: to_wall(disk.change_time()),
            crtime: to_wall(disk.create_time().unwrap_or_default()),
            generation: disk.generation(),
            flags: FileFlags(disk.flags().0 & crate::chattr::SHOWN),
        })
    }

    pub(crate) fn change_attr(&self, inode: &Inode, set: &SetAttr) -> FsResult<Attr> {
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        rt::charge(cost::SETATTR);
        check_flags(inode, set)?;
        if let Some(size) = set.size {
            match inode.kind()? {
                FileKind::File => self.set_file_size(inode, size)?,
                FileKind::Dir => return Err(Errno::IsDir.into()),
                _ => return Err(Errno::Inval.into()),
            }
        }
        let only_size = SetAttr {
            size: set.size,
            ..SetAttr::default()
        };
        if *set != only_size {
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

/// # Errors
/// EPERM where the flags of the inode forbid the change (Linux `notify_change`): times that the
/// caller names count as a change of attributes, times that the call itself sets count as a write.
fn check_flags(inode: &Inode, set: &SetAttr) -> FsResult<()> {
    let named = |time: Option<TimeSet>| matches!(time, Some(TimeSet::To(_)));
    let attributes = set.perm.is_some() || set.uid.is_some() || set.gid.is_some();
    if attributes || set.size.is_some() || named(set.atime) || named(set.mtime) {
        return inode.check_not_guarded();
    }
    inode.check_not_immutable()
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
