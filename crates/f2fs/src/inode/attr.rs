//! Attributes of inodes: what `stat` reports, and `setattr`.

use super::flags::CHANGEABLE;
use super::{Core, Inode};
use crate::F2fs;
use base::cost::f2fs as cost;
use fscore::{Attr, Errno, FileFlags, FileKind, FsResult, SetAttr, TimeSet, rdev};
use ondisk::f2fs::{Inline, InodeFields, Timestamp, device};
use rt::WallTime;

/// Granule of time stamps: Linux takes the time of the last tick (CONFIG_HZ=250).
const TICK_NANOS: u32 = 4_000_000;

/// The time of the last tick.
pub(super) fn coarse_now() -> Timestamp {
    let WallTime { secs, nanos } = rt::wall();
    Timestamp {
        secs,
        nanos: nanos - nanos % TICK_NANOS,
    }
}

pub(super) fn to_wall(t: Timestamp) -> WallTime {
    WallTime {
        secs: t.secs,
        nanos: t.nanos,
    }
}

fn from_wall(t: WallTime) -> Timestamp {
    Timestamp {
        secs: t.secs,
        nanos: t.nanos,
    }
}

impl F2fs {
    /// What `stat` tells of an inode.
    pub(crate) fn attr_of(&self, inode: &Inode) -> FsResult<Attr> {
        let mut attr = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            attr_in(inode, &core)?
        };
        if matches!(attr.kind, FileKind::Char | FileKind::Block) {
            attr.rdev = self.rdev_of(inode)?;
        }
        Ok(attr)
    }

    fn rdev_of(&self, inode: &Inode) -> FsResult<u32> {
        let fields = inode.core().fields.clone();
        self.with_node(inode.nid(), |block| rdev(device(block, &fields)))
    }

    /// `setattr`. The caller holds no lock.
    pub(crate) fn change_attr(&self, inode: &Inode, set: &SetAttr) -> FsResult<Attr> {
        self.balance()?;
        let _gate = inode.gate.write();
        rt::charge(cost::SETATTR);
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        match set.is_guarded() {
            _ if set.of_writes => {}
            true => inode.check_not_guarded()?,
            false => inode.check_not_immutable()?,
        }
        if let Some(size) = set.size {
            inode.kind()?.check_file()?;
            self.set_size(inode, size)?;
        }
        if set.has_fields() {
            let list = match set.perm {
                Some(perm) => self.chmod_xattrs(inode, perm)?,
                None => None,
            };
            self.change(|op| {
                // What can fail for want of space comes first.
                if let Some(list) = &list {
                    self.store_chmod(op, inode, list)?;
                }
                apply(inode, set);
                self.put_inode(op, inode)
            })?;
        }
        self.attr_of(inode)
    }
}

/// The attributes, without the number of a device.
fn attr_in(inode: &Inode, core: &Core) -> FsResult<Attr> {
    let f = &core.fields;
    let kind = FileKind::from_mode(f.mode).ok_or_else(|| inode.no_kind(f.mode))?;
    Ok(Attr {
        ino: inode.ino,
        kind,
        perm: f.mode & 0o7777,
        nlink: f.links,
        uid: f.uid,
        gid: f.gid,
        rdev: 0,
        size: core.atomic_size.unwrap_or(f.size),
        // The inode itself does not count, as in Linux; what it holds inline does.
        sectors: f
            .blocks
            .saturating_sub(1)
            .saturating_mul(base::SECTORS_PER_BLOCK)
            .saturating_add(inline_sectors(kind, f)),
        atime: to_wall(f.atime),
        mtime: to_wall(f.mtime),
        ctime: to_wall(f.ctime),
        crtime: to_wall(f.crtime),
        generation: f.generation,
        flags: FileFlags(f.flags.0 & CHANGEABLE.0),
    })
}

fn apply(inode: &Inode, set: &SetAttr) {
    let time = |t: TimeSet| match t {
        TimeSet::Now => coarse_now(),
        TimeSet::To(t) => from_wall(t),
    };
    let mut core = inode.core();
    core.touch(false);
    if set.perm.is_some() || set.uid.is_some() || set.gid.is_some() {
        core.changed();
    }
    let f = &mut core.fields;
    if let Some(perm) = set.perm {
        f.mode = f.mode & !0o7777 | perm & 0o7777;
    }
    f.uid = set.uid.unwrap_or(f.uid);
    f.gid = set.gid.unwrap_or(f.gid);
    f.atime = set.atime.map_or(f.atime, time);
    f.mtime = set.mtime.map_or(f.mtime, time);
}

/// Sectors that `stat` shows for content in the inode: of files and directories, not of symbolic
/// links.
fn inline_sectors(kind: FileKind, f: &InodeFields) -> u64 {
    let inline = match kind {
        FileKind::File => f.inline.has(Inline::DATA),
        _ => f.inline.has(Inline::DENTRY),
    };
    if inline {
        f.size.div_ceil(base::SECTOR_BYTES as u64)
    } else {
        0
    }
}
