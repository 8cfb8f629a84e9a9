//! Flags that `chattr` sets, what they forbid, and the project of an inode.
//!
//! | flag | what it does |
//! |---|---|
//! | immutable | EPERM for changes of content, attributes and extended attributes, of names in it, and of its own names |
//! | append | forbids what immutable forbids, but a directory takes new names, and a file is written to; the opener ensures that writes go to the end ([`fscore::Attr::check_open`]) |
//! | sync, dirsync | a write, or a change of names in the directory, returns when it is durable |
//! | noatime | reading leaves the access time alone |
//! | projinherit | new inodes take over the project (feature `project_quota`), inodes of another project get no name in it |
//! | casefold | names in the directory are compared without regard to case (feature `casefold`); only set and cleared while it is empty; inherited by directories |
//! | nodump | kept |

use super::Inode;
use crate::F2fs;
use base::Ino;
use fscore::{Accepted, Errno, FileFlags, FsResult, OfWrite};
use ondisk::f2fs::{Features, Inline, InodeFlags};

/// Flags that `FS_IOC_GETFLAGS` shows and `FS_IOC_SETFLAGS` takes, with the same meaning and value:
/// those of Linux that need no feature which is missing here.
pub(super) const CHANGEABLE: InodeFlags = InodeFlags(
    InodeFlags::SYNC.0
        | InodeFlags::IMMUTABLE.0
        | InodeFlags::APPEND.0
        | InodeFlags::NO_DUMP.0
        | InodeFlags::NO_ATIME.0
        | InodeFlags::DIR_SYNC.0
        | InodeFlags::CASEFOLD.0
        | InodeFlags::PROJECT_INHERIT.0,
);

impl Inode {
    /// Content may change, a directory may take names.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_not_immutable(&self) -> FsResult<()> {
        self.check_none_of(InodeFlags::IMMUTABLE)
    }

    /// Attributes may be changed by name, the inode may lose its name, a directory may lose names.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_not_guarded(&self) -> FsResult<()> {
        self.check_none_of(InodeFlags::IMMUTABLE | InodeFlags::APPEND)
    }

    /// Checks that extended attributes may change: by themselves, or as a part of a write, which an
    /// append-only inode takes.
    ///
    /// # Errors
    /// EPERM.
    pub fn check_attributes(&self) -> FsResult<()> {
        match (OfWrite::here(), Accepted::here()) {
            (false, _) => self.check_not_guarded(),
            (true, false) => self.check_not_immutable(),
            (true, true) => Ok(()),
        }
    }

    /// Names in it are compared without regard to case.
    pub fn ignores_case(&self) -> bool {
        self.core().fields.flags.has(InodeFlags::CASEFOLD)
    }

    fn check_none_of(&self, flags: InodeFlags) -> FsResult<()> {
        match self.core().fields.flags.0 & flags.0 {
            0 => Ok(()),
            _ => Err(Errno::Perm.into()),
        }
    }
}

impl F2fs {
    /// Makes what was done to names in `dir` durable, if its flags ask for it.
    pub(crate) fn settle_names(&self, dir: Ino) -> FsResult<()> {
        self.sync_flagged(dir, InodeFlags::SYNC | InodeFlags::DIR_SYNC)
    }

    /// The same for content.
    pub(crate) fn settle_content(&self, ino: Ino) -> FsResult<()> {
        self.sync_flagged(ino, InodeFlags::SYNC)
    }

    fn sync_flagged(&self, ino: Ino, flags: InodeFlags) -> FsResult<()> {
        let Some(inode) = self.inodes.get(ino) else {
            return Ok(());
        };
        let wanted = inode.core().fields.flags.0 & flags.0;
        match wanted {
            0 => Ok(()),
            _ => self.sync_inode(&inode, false),
        }
    }

    /// `FS_IOC_SETFLAGS`. The caller holds no lock.
    pub(crate) fn change_flags(&self, inode: &Inode, flags: FileFlags) -> FsResult<()> {
        self.check_writable()?;
        let kind = inode.kind()?;
        self.balance()?;
        let _gate = inode.gate.write();
        let old = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            core.fields.flags
        };
        let shown = FileFlags(old.0 & CHANGEABLE.0);
        let changed = shown.change(flags, kind, FileFlags(CHANGEABLE.0))?;
        if changed == FileFlags::default() {
            return Ok(());
        }
        if changed.has(FileFlags::CASEFOLD) {
            self.check_may_fold(inode)?;
        }
        self.with_op(|op| {
            if changed.has(FileFlags::CASEFOLD) {
                self.note_folding(inode.ino);
            }
            {
                let mut core = inode.core();
                core.fields.flags = InodeFlags(old.0 ^ changed.0);
                core.touch(false);
                core.changed();
            }
            self.put_inode(op, inode)
        })
    }

    /// Checks that a directory may begin, or cease, to compare names without regard to case: only
    /// an empty one may, because its names would have other hashes. The gate is held exclusively.
    fn check_may_fold(&self, dir: &Inode) -> FsResult<()> {
        match self.folding {
            Some(_) => self.check_empty(dir),
            None => Err(Errno::NotSup.into()),
        }
    }

    /// Whether an inode says what project it belongs to.
    fn has_project(&self, inode: &Inode) -> bool {
        let extra = inode.core().fields.inline.has(Inline::EXTRA_ATTR);
        extra && self.features.has(Features::PRJQUOTA)
    }

    /// The project of an inode; 0 on volumes without.
    pub(crate) fn project_of(&self, inode: &Inode) -> u32 {
        match self.has_project(inode) {
            true => inode.core().fields.projid,
            false => 0,
        }
    }

    /// Gives an inode to a project. The caller holds no lock.
    pub(crate) fn change_project(&self, inode: &Inode, project: u32) -> FsResult<()> {
        self.check_writable()?;
        if !self.has_project(inode) {
            return match project {
                0 => Ok(()),
                _ => Err(Errno::NotSup.into()),
            };
        }
        self.balance()?;
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        if self.project_of(inode) == project {
            return Ok(());
        }
        inode.check_not_immutable()?;
        self.with_op(|op| {
            {
                let mut core = inode.core();
                core.fields.projid = project;
                core.touch(false);
                core.changed();
            }
            self.put_inode(op, inode)
        })
    }

    /// An inode can get a name in `dir` as far as projects go.
    ///
    /// # Errors
    /// EXDEV if the directory gives its project to what is in it, and that of the inode is another
    /// one.
    pub(crate) fn check_project(&self, inode: &Inode, dir: &Inode) -> FsResult<()> {
        let inherits = dir.core().fields.flags.has(InodeFlags::PROJECT_INHERIT);
        match inherits && self.project_of(inode) != self.project_of(dir) {
            true => Err(Errno::XDev.into()),
            false => Ok(()),
        }
    }
}
