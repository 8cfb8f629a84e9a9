//! Flags that `chattr` sets, what they forbid, and the project of an inode.
//!
//! | flag | what it does |
//! |---|---|
//! | immutable | EPERM for changes of content, attributes and extended attributes, of names in it, and of its own names |
//! | append | forbids what immutable forbids, but a directory takes new names, and a file is written to; the opener ensures that writes go to the end ([`fscore::Attr::check_open`]) |
//! | sync, dirsync | a write, or a change of names in the directory, returns when it is durable |
//! | noatime | reading leaves the access time alone |
//! | journal_data | content goes through the journal, whatever `data=` says |
//! | topdir | directories below are spread over the volume |
//! | casefold | names in the directory are compared without regard to case (feature `casefold`); only set and cleared while it is empty; inherited by directories |
//! | projinherit | new inodes take over the project (feature `project`), inodes of another project cannot be linked in |
//! | nodump and what else Linux keeps | kept |

use crate::Ext4;
use crate::fault;
use crate::file::Way;
use crate::inode::Inode;
use crate::map::Span;
use base::Ino;
use fscore::{Accepted, Errno, FileFlags, FsResult, OfWrite};
use ondisk::ext4::{INODE_BYTES_OLD, InodeFlags, RoCompat};

/// Flags that `FS_IOC_GETFLAGS` shows (Linux `EXT4_FL_USER_VISIBLE`); Linux gives them the same
/// values.
pub(crate) const SHOWN: u32 = 0x725B_DFFF;
/// Flags that `FS_IOC_SETFLAGS` changes (Linux `EXT4_FL_USER_MODIFIABLE` without DAX); the other
/// flags stay as they are.
const CHANGEABLE: u32 = 0x604B_C0FF;
/// Blocks whose images in the log are revoked in one handle.
const FORGET_BLOCKS: u32 = 256;

impl Inode {
    /// Checks that content may change and that a directory may take names.
    ///
    /// # Errors
    /// EPERM.
    pub(crate) fn check_not_immutable(&self) -> FsResult<()> {
        self.check_none_of(InodeFlags::IMMUTABLE)
    }

    /// Checks that attributes may be changed by name, that the inode may lose its name, and that a
    /// directory may lose names.
    ///
    /// # Errors
    /// EPERM.
    pub(crate) fn check_not_guarded(&self) -> FsResult<()> {
        self.check_none_of(InodeFlags(InodeFlags::IMMUTABLE.0 | InodeFlags::APPEND.0))
    }

    /// Checks that extended attributes may change: by themselves, or as a part of a write, which an
    /// append-only inode takes.
    ///
    /// # Errors
    /// EPERM.
    pub(crate) fn check_attributes(&self) -> FsResult<()> {
        match (OfWrite::here(), Accepted::here()) {
            (false, _) => self.check_not_guarded(),
            (true, false) => self.check_not_immutable(),
            (true, true) => Ok(()),
        }
    }

    fn check_none_of(&self, flags: InodeFlags) -> FsResult<()> {
        match self.core().disk.flags().0 & flags.0 {
            0 => Ok(()),
            _ => Err(Errno::Perm.into()),
        }
    }
}

impl Ext4 {
    /// Makes a change of names in `dir` durable, if the flags of `dir` ask for it.
    pub(crate) fn settle_names(&self, dir: Ino) -> FsResult<()> {
        let Some(dir) = self.inodes.get(dir) else {
            return Ok(());
        };
        let wants = InodeFlags::SYNC.0 | InodeFlags::DIR_SYNC.0;
        if dir.core().disk.flags().0 & wants == 0 {
            return Ok(());
        }
        self.sync_inode(&dir, false)
    }

    /// Makes a change of content durable, if the flags of the inode ask for it.
    pub(crate) fn settle_content(&self, inode: &Inode) -> FsResult<()> {
        let sync = inode.core().disk.flags().has(InodeFlags::SYNC);
        match sync {
            true => self.sync_inode(inode, false),
            false => Ok(()),
        }
    }

    pub(crate) fn change_flags(&self, inode: &Inode, flags: FileFlags) -> FsResult<()> {
        self.check_writable()?;
        let kind = inode.kind()?;
        let _gate = inode.gate.write();
        let old = {
            let core = inode.core();
            if core.gone {
                return Err(Errno::Stale.into());
            }
            core.disk.flags()
        };
        let shown = FileFlags(old.0 & SHOWN);
        let changed = InodeFlags(shown.change(flags, kind, FileFlags(CHANGEABLE))?.0);
        if changed == InodeFlags(0) {
            return Ok(());
        }
        if changed.has(InodeFlags::EXTENTS) {
            // This code does not rewrite the mapping.
            return Err(Errno::NotSup.into());
        }
        if changed.has(InodeFlags::CASEFOLD) {
            self.check_may_fold(inode)?;
        }
        if changed.has(InodeFlags::JOURNAL_DATA) {
            self.switch_journal_data(inode, old.has(InodeFlags::JOURNAL_DATA))?;
        }
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                core.disk.set_flags(InodeFlags(old.0 ^ changed.0));
                core.touch(false);
            }
            self.put_inode(tx, inode)
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

    /// Prepares a file for a change of its journal_data flag, in either direction. Its content
    /// comes home first, so that nothing in the log can be replayed over what is written directly
    /// from now on. The caller holds the gate exclusively.
    fn switch_journal_data(&self, inode: &Inode, was_logged: bool) -> FsResult<()> {
        if !self.has_log() {
            return Err(Errno::NotSup.into());
        }
        if !inode.core().disk.is_regular() {
            return Ok(());
        }
        self.close_window_of(inode);
        self.write_pages(inode, 0..u64::MAX, Way::AWAITED)?;
        let _wb = inode.wb.lock();
        self.land_flights(inode);
        if was_logged {
            self.journal.commit_all().map_err(fault::journal)?;
            self.journal.checkpoint_all().map_err(fault::journal)?;
            self.forget_content(inode)?;
        }
        let dropped = self.pages.drop_range(inode.ino, 0..u64::MAX);
        self.drop_promise(inode, dropped);
        Ok(())
    }

    /// Makes the journal forget all blocks of a file.
    fn forget_content(&self, inode: &Inode) -> FsResult<()> {
        if inode.is_inline() {
            return Ok(());
        }
        let last = inode.core().size.div_ceil(self.block());
        let mut lblk = 0;
        // The loop ends because each turn moves on.
        while lblk < last {
            let want = (last - lblk).min(FORGET_BLOCKS.into()) as u32;
            let span = self.lookup_span(inode, lblk as u32, want)?;
            if let Span::Data { start, len } = span {
                self.transact(1, |tx| {
                    (0..len).try_for_each(|n| tx.forget(start.plus(n.into())))
                })?;
            }
            lblk += u64::from(span.len());
        }
        Ok(())
    }

    fn has_projects(&self) -> bool {
        self.geo.ro_compat().has(RoCompat::PROJECT)
    }

    /// The project of an inode; 0 on volumes without projects.
    pub(crate) fn project_of(&self, inode: &Inode) -> u32 {
        match self.has_projects() {
            true => inode.core().disk.project(),
            false => 0,
        }
    }

    pub(crate) fn change_project(&self, inode: &Inode, project: u32) -> FsResult<()> {
        self.check_writable()?;
        if !self.has_projects() || self.geo.inode_bytes() <= INODE_BYTES_OLD {
            return match project {
                0 => Ok(()),
                _ => Err(Errno::NotSup.into()),
            };
        }
        let _gate = inode.gate.write();
        if inode.core().gone {
            return Err(Errno::Stale.into());
        }
        if inode.core().disk.project() == project {
            return Ok(());
        }
        inode.check_not_immutable()?;
        self.transact(1, |tx| {
            {
                let mut core = inode.core();
                core.disk.set_project(project);
                core.touch(false);
            }
            self.put_inode(tx, inode)
        })
    }

    /// Checks that the projects allow the inode to get a name in `dir`.
    ///
    /// # Errors
    /// EXDEV if the directory gives its project to what is in it, and the inode has another
    /// project.
    pub(crate) fn check_project(&self, inode: &Inode, dir: &Inode) -> FsResult<()> {
        let inherits = dir.core().disk.flags().has(InodeFlags::PROJECT_INHERIT);
        match inherits && self.project_of(inode) != self.project_of(dir) {
            true => Err(Errno::XDev.into()),
            false => Ok(()),
        }
    }
}
