//! Allocating and initialising a new inode.

use super::{Core, Inode, coarse_now};
use crate::Ext4;
use crate::ialloc::Placement;
use crate::tx::Tx;
use base::Ino;
use fscore::{FileKind, FsResult, NewInode};
use ondisk::ext4 as disk;
use ondisk::ext4::{ExtentNode, Incompat, InodeFlags};
use std::sync::Arc;

/// Flags a new inode takes over from its directory.
const INHERITED: InodeFlags = InodeFlags(
    InodeFlags::SYNC.0
        | InodeFlags::NO_DUMP.0
        | InodeFlags::NO_ATIME.0
        | InodeFlags::PROJECT_INHERIT.0
        | InodeFlags::JOURNAL_DATA.0,
);

/// Flags that a new directory takes over besides.
const INHERITED_BY_DIRS: InodeFlags = InodeFlags(InodeFlags::DIR_SYNC.0 | InodeFlags::CASEFOLD.0);

/// Blocks that making an inode may change: inode bitmap, block bitmap, descriptor, table.
pub(crate) const CREDITS_NEW_INODE: u32 = 4;

impl Ext4 {
    /// Allocates an inode and writes it: one link (a directory: two), no blocks, an empty extent
    /// tree. The caller adds a name, or undoes this with
    /// [`discard_new_inode`](Self::discard_new_inode) in the same handle. The parent's gate is
    /// held.
    pub(crate) fn new_inode(
        &self,
        tx: &mut Tx<'_>,
        parent: &Inode,
        new: NewInode,
    ) -> FsResult<Arc<Inode>> {
        let is_dir = new.kind == FileKind::Dir;
        let (parent_flags, parent_mode, parent_gid) = {
            let core = parent.core();
            (core.disk.flags(), core.disk.mode(), core.disk.gid())
        };
        let place = Placement {
            parent: self.inode_place(parent.ino)?.group,
            is_dir,
            top_level: parent.ino == disk::ROOT_INO || parent_flags.has(InodeFlags::TOP_DIR),
        };
        let got = self.alloc_ino(tx, place)?;
        let new = new.in_dir(parent_mode, parent_gid);
        let mut inode = self.blank_inode(new);
        let mut flags = InodeFlags(parent_flags.0 & INHERITED.0);
        if is_dir {
            flags = flags | InodeFlags(parent_flags.0 & INHERITED_BY_DIRS.0);
        } else if matches!(new.kind, FileKind::File) {
            flags = flags.without(InodeFlags::PROJECT_INHERIT);
        } else {
            flags = InodeFlags(flags.0 & (InodeFlags::NO_DUMP.0 | InodeFlags::NO_ATIME.0));
        }
        self.map_nothing(&mut inode, new, &mut flags);
        inode.set_flags(flags);
        if parent_flags.has(InodeFlags::PROJECT_INHERIT) {
            inode.set_project(self.project_of(parent));
        }
        self.adopt_new_inode(tx, got.ino, inode, parent.ino)
    }

    fn blank_inode(&self, new: NewInode) -> disk::Inode {
        let bytes = self.geo.inode_bytes();
        let room = (bytes - disk::INODE_BYTES_OLD) as u16;
        let extra = disk::INODE_EXTRA_BYTES_DEFAULT.max(self.geo.want_extra_isize());
        let mut inode = disk::Inode::blank(bytes, extra.min(room) & !3);
        let now = coarse_now();
        inode.set_mode(new.mode());
        inode.set_uid(new.creds.uid);
        inode.set_gid(new.creds.gid);
        inode.set_links(new.links());
        inode.set_access_time(now);
        inode.set_change_time(now);
        inode.set_modify_time(now);
        inode.set_create_time(now);
        inode.set_generation(self.random.lock().next_u64() as u32);
        inode
    }

    fn map_nothing(&self, inode: &mut disk::Inode, new: NewInode, flags: &mut InodeFlags) {
        let maps = matches!(new.kind, FileKind::File | FileKind::Dir | FileKind::Symlink);
        if maps && self.geo.incompat().has(Incompat::EXTENTS) {
            *flags = *flags | InodeFlags::EXTENTS;
            ExtentNode::inline_root().encode(inode.block_area_mut());
        }
        if let Some((major, minor)) = new.device() {
            inode.set_device(major, minor);
        }
    }

    fn adopt_new_inode(
        &self,
        tx: &mut Tx<'_>,
        ino: Ino,
        disk: disk::Inode,
        parent: Ino,
    ) -> FsResult<Arc<Inode>> {
        let mut core = Core::new(disk, tx.tid());
        core.born_in = Some(parent);
        let inode = Arc::new(Inode::new(ino, core));
        // What the cache still holds under this number belongs to a freed inode.
        self.inodes.replace(inode.clone());
        self.put_new_inode(tx, &inode)?;
        Ok(inode)
    }

    /// Undoes [`new_inode`](Self::new_inode) in the same handle: the name could not be added. The
    /// inode has no blocks.
    pub(crate) fn discard_new_inode(&self, tx: &mut Tx<'_>, inode: &Inode) -> FsResult<()> {
        let was_dir = inode.is_dir();
        {
            let mut core = inode.core();
            core.disk.set_links(0);
            core.disk.set_deletion_time(coarse_now().secs as u32);
            core.gone = true;
        }
        self.put_inode(tx, inode)?;
        self.free_ino(tx, inode.ino, was_dir)?;
        self.inodes.remove(inode);
        Ok(())
    }
}
