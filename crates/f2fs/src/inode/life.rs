//! Creates and frees inodes, and frees at mount those that a cut left without a name.

use super::attr::coarse_now;
use super::{Change, Core, Inode};
use crate::F2fs;
use crate::journal::capture::Edit;
use crate::map::Tree;
use crate::ops::Op;
use base::cost::f2fs as cost;
use base::{Ino, Mutant};
use block::WriteMark;
use fscore::{Errno, FileKind, FsError, FsResult, NewInode};
use ondisk::f2fs::journal::Record;
use ondisk::f2fs::{
    Features, INLINE_XATTR_WORDS_DEFAULT, INODE_EXTRA_BYTES_MAX, Inline, InodeFields, InodeFlags,
    InodeName, Nid, set_device,
};
use std::sync::Arc;

/// Flags a new inode takes over from its directory: a directory all, a file the first three, others
/// the first two.
const INHERITED: InodeFlags = InodeFlags(
    InodeFlags::NO_DUMP.0
        | InodeFlags::NO_ATIME.0
        | InodeFlags::SYNC.0
        | InodeFlags::DIR_SYNC.0
        | InodeFlags::CASEFOLD.0
        | InodeFlags::PROJECT_INHERIT.0,
);

/// Sets change time, and with `modify` the modification time, to now.
pub(super) fn touch(fields: &mut InodeFields, modify: bool) {
    let now = coarse_now();
    fields.ctime = now;
    if modify {
        fields.mtime = now;
    }
}

impl F2fs {
    /// Makes an inode in `dir`: one link (a directory: two), no content but what `fill` puts into
    /// its block behind the attributes, to which `shape` adds. The caller adds its name, or undoes
    /// it with [`discard_inode`](Self::discard_inode) in the same `Op`. The directory's gate is
    /// held.
    ///
    /// # Errors
    /// ENOSPC; then nothing is made.
    pub(crate) fn new_inode(
        &self,
        op: &Op<'_>,
        dir: &Inode,
        name: &[u8],
        new: NewInode,
        shape: impl FnOnce(&mut InodeFields),
        fill: impl FnOnce(Ino, &InodeFields, &mut Edit<'_>),
    ) -> FsResult<Arc<Inode>> {
        let mut fields = self.blank_fields(dir, name, new);
        shape(&mut fields);
        let nid = self.nid_take(op)?;
        let made = self.new_node(op, nid, Ino(nid.0), 0, new.kind != FileKind::Dir, |edit| {
            edit.new_inode(&fields);
            if let Some((major, minor)) = new.device() {
                edit.by_comparing(|block| set_device(block, &fields, major, minor));
            }
            fill(Ino(nid.0), &fields, edit);
        });
        if let Err(e) = made {
            self.nat.give_back(nid);
            return Err(e);
        }
        let mut core = Core::new(fields);
        core.change = Change::Data;
        let inode = Inode::new(Ino(nid.0), core, Tree::default(), WriteMark::NONE);
        let inode = Arc::new(inode);
        // What the cache still holds under this number belongs to a freed inode.
        if self.inodes.replace(inode.clone()) {
            self.prune_inodes();
        }
        Ok(inode)
    }

    fn blank_fields(&self, dir: &Inode, name: &[u8], new: NewInode) -> InodeFields {
        let now = coarse_now();
        let is_dir = new.kind == FileKind::Dir;
        let (parent_mode, parent_gid, parent_flags, parent_project) = {
            let f = &dir.core().fields;
            (f.mode, f.gid, f.flags, f.projid)
        };
        let new = new.in_dir(parent_mode, parent_gid);
        let mut f = InodeFields {
            mode: new.mode(),
            uid: new.creds.uid,
            gid: new.creds.gid,
            links: new.links().into(),
            blocks: 1,
            atime: now,
            ctime: now,
            mtime: now,
            crtime: now,
            generation: self.inodes.generation(),
            current_depth: u32::from(is_dir),
            flags: inherited(parent_flags, new.kind),
            pino: Nid(dir.ino.0),
            name: InodeName::new(name).unwrap_or_default(),
            ..InodeFields::default()
        };
        if f.flags.has(InodeFlags::PROJECT_INHERIT) || parent_flags.has(InodeFlags::PROJECT_INHERIT)
        {
            f.projid = parent_project;
        }
        if new.kind == FileKind::File {
            f.advise = self.inodes.extensions.advise(name);
        }
        self.lay_out(&mut f, new.kind);
        f
    }

    /// What lies where in a new inode.
    fn lay_out(&self, f: &mut InodeFields, kind: FileKind) {
        if self.features.has(Features::EXTRA_ATTR) {
            f.inline = f.inline | Inline::EXTRA_ATTR;
            f.extra_isize = INODE_EXTRA_BYTES_MAX;
        }
        if self.options.inline_xattr {
            f.inline = f.inline | Inline::XATTR;
        }
        match kind {
            FileKind::Dir if self.options.inline_dentry => f.inline = f.inline | Inline::DENTRY,
            FileKind::File if self.options.inline_data => f.inline = f.inline | Inline::DATA,
            _ => {}
        }
        // Without flexible sizes inline dentries keep the room of the attributes free too.
        let flexible = self.features.has(Features::FLEXIBLE_INLINE_XATTR);
        if f.inline.has(Inline::XATTR) || f.inline.has(Inline::DENTRY) && !flexible {
            f.inline_xattr_size = INLINE_XATTR_WORDS_DEFAULT;
        }
    }

    /// Undoes [`new_inode`](Self::new_inode) in the same `Op`: the name could not be added.
    pub(crate) fn discard_inode(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        inode.core().fields.links = 0;
        self.free_inode(op, inode)
    }

    /// Pins an inode.
    pub(crate) fn pin(&self, inode: &Inode) -> FsResult<()> {
        let mut core = inode.core();
        if core.gone || core.leaving {
            return Err(Errno::Stale.into());
        }
        core.pins += 1;
        Ok(())
    }

    /// Unpins it; the last one out frees an inode without links.
    pub(crate) fn unpin(&self, inode: &Inode) -> FsResult<()> {
        let last = {
            let mut core = inode.core();
            core.pins = core.pins.checked_sub(1).ok_or(Errno::BadF)?;
            core.pins == 0
        };
        if last {
            // No task is left that could commit an atomic write.
            self.forget_pending(inode);
        }
        let last = last && inode.core().fields.links == 0;
        match last {
            true => self.evict_if_unused(inode),
            false => Ok(()),
        }
    }

    /// An inode has lost its last link, in this `Op`: until it is freed a checkpoint has to know.
    pub(crate) fn make_orphan(&self, op: &Op<'_>, inode: &Inode) {
        inode.core().orphan = true;
        // namei-R2 (hazards-H37).
        if !rt::mutant(Mutant::F2fsForgetOrphan) {
            self.orphans.add(inode.ino);
            if let Some(tx) = op.tx() {
                tx.log(inode.nid(), &Record::OrphanAdd);
            }
        }
    }

    /// Frees an inode that has no links and is not open. The caller holds no lock.
    pub(crate) fn evict_if_unused(&self, inode: &Inode) -> FsResult<()> {
        let _gate = inode.gate.write();
        {
            let core = inode.core();
            if core.pins > 0 || core.fields.links > 0 || core.gone {
                return Ok(());
            }
        }
        rt::charge(cost::EVICT);
        loop {
            let freed = self.with_op(|op| self.free_inode_step(op, inode));
            if let Err(e) = &freed {
                // Half of it may be free: no checkpoint may say so.
                self.fail(e);
            }
            match freed? {
                true => self.balance()?,
                false => return Ok(()),
            }
        }
    }

    /// As [`free_inode`](Self::free_inode), no more than one operation may log (truncate-Z3); true
    /// if there is more. Until the last one the inode is on the list of orphans.
    fn free_inode_step(&self, op: &Op<'_>, inode: &Inode) -> FsResult<bool> {
        match self.drop_content(op, inode, true)? {
            true => Ok(true),
            false => self.free_emptied(op, inode).map(|()| false),
        }
    }

    /// Frees content, attributes and the inode itself.
    pub(crate) fn free_inode(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        self.drop_content(op, inode, false)?;
        self.free_emptied(op, inode)
    }

    /// Frees an inode without content, and its attributes.
    pub(crate) fn free_emptied(&self, op: &Op<'_>, inode: &Inode) -> FsResult<()> {
        self.drop_xattr_node(op, inode)?;
        {
            let mut core = inode.core();
            core.gone = true;
            core.orphan = false;
        }
        self.free_node(op, inode.nid())?;
        if self.orphans.remove(inode.ino)
            && let Some(tx) = op.tx()
        {
            tx.log(inode.nid(), &Record::OrphanDel);
        }
        self.inodes.remove(inode);
        Ok(())
    }

    /// The orphans, in memory: recovery may have left pages of theirs that a checkpoint has to
    /// write.
    pub(crate) fn load_orphans(&self) -> FsResult<Vec<Arc<Inode>>> {
        let mut loaded = Vec::new();
        for ino in self.orphans.all() {
            match self.load_inode(ino, true) {
                Ok(inode) => loaded.push(inode),
                Err(FsError::Posix(Errno::Stale)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(loaded)
    }

    /// Frees what the checkpoint lists as orphans. At mount, before operations begin. Answers how
    /// many there were.
    ///
    /// An inode on the list that has links is damage, and stays: freeing it would make its names
    /// point to nothing.
    pub(crate) fn free_orphans(&self, listed: &[Ino]) -> FsResult<u64> {
        let mut freed = 0;
        for &ino in listed {
            let inode = match self.load_inode(ino, true) {
                Ok(inode) => inode,
                // Freed after the list was written, and fsynced since.
                Err(FsError::Posix(Errno::Stale)) => {
                    self.orphans.remove(ino);
                    continue;
                }
                Err(e) => return Err(e),
            };
            if inode.core().fields.links > 0 {
                self.cp.need_fsck();
                self.orphans.remove(ino);
                continue;
            }
            inode.core().orphan = true;
            self.orphans.add(ino);
            self.evict_if_unused(&inode)?;
            freed += 1;
        }
        Ok(freed)
    }
}

fn inherited(parent: InodeFlags, kind: FileKind) -> InodeFlags {
    let others = InodeFlags::NO_DUMP | InodeFlags::NO_ATIME;
    let mask = match kind {
        FileKind::Dir => INHERITED,
        FileKind::File => others | InodeFlags::SYNC,
        _ => others,
    };
    InodeFlags(parent.0 & mask.0)
}
