//! fsync, fdatasync, sync.
//!
//! - F4 (hazards-H17) an fsync returns only after a flush of the device that *started* after the
//!   last cached data write of the file had completed.
//!
//! Whether such a flush has ended is decided by the queue's marks, because a commit that was under
//! way may or may not have sent it. The mark of a file rises with every cached write of its data
//! that lands, write-back in the background included (hazards-H19); data that went out with FUA
//! does not raise it, so an fsync of such data sends no flush. Data that was held back to travel
//! with the log is landed after the commit: by then the commit has sent it, or landing sends it.

use crate::Ext4;
use crate::fault;
use crate::file::writeback::Way;
use crate::inode::Inode;
use crate::options::DataMode;
use base::{BlockNo, Mutant};
use fscore::{Errno, FsResult};
use journal::{DataNeed, DataPath, Syncing};
use std::sync::Arc;

/// The maximum of directories above a new file that an fsync without journal writes as well.
const PARENTS_MAX: usize = 64;

impl Ext4 {
    /// Makes an inode durable.
    pub(crate) fn sync_inode(&self, inode: &Inode, data_only: bool) -> FsResult<()> {
        if inode.is_dir() && self.has_log() {
            return self.sync_directory();
        }
        let errors = inode.core().write_errors.count();
        let small = self.is_small(inode, data_only);
        let (path, held, _syncing) = self.sync_times.part("fsync-data", || {
            let (path, syncing) = match small {
                true => (DataPath::Cached, None),
                false => self.data_path(inode, data_only),
            };
            let way = Way {
                path,
                small,
                ..Way::AWAITED
            };
            let written = self.write_pages(inode, 0..u64::MAX, way);
            if path != DataPath::WithLog || written.is_err() {
                self.land_flights(inode);
            }
            written.map(|held| (path, held, syncing))
        })?;
        let landed = || {
            let mut core = inode.core();
            match core.write_errors.report(errors) {
                Some(e) => Err(e),
                None => Ok((core.tid_for(data_only), core.data_mark)),
            }
        };
        // After an error, too, no data may stay held back.
        let lands = |e| {
            if path == DataPath::WithLog {
                self.land_flights(inode);
            }
            e
        };
        let (tid, mut mark) = landed().map_err(lands)?;
        let mut committed = false;
        if self.has_log() {
            if !self.journal.committed().geq(tid) {
                held.into_iter().for_each(|h| self.journal.lead(tid, h));
                self.sync_times
                    .part("fsync-commit", || self.commit_for_sync(tid, mark))
                    .map_err(lands)?;
                committed = true;
            }
            if path == DataPath::WithLog {
                self.sync_times
                    .part("fsync-data", || self.land_flights(inode));
                mark = landed()?.1;
            }
        } else {
            self.sync_times
                .part("fsync-home", || self.sync_without_log(inode, data_only))?;
            mark = self.queue.mark();
        }
        // F4, hazards-H17: the flush of that commit may have begun before the data had completed,
        // or the commit sent none.
        if self.queue.is_flushed(mark) || committed && rt::mutant(Mutant::AckAtCommit) {
            return Ok(());
        }
        self.sync_times
            .part("fsync-flush", || self.queue.ensure_flushed(mark))
            .map_err(|e| self.flush_failed("flushing", e))
    }

    /// By which path the dirty pages of an fsync go to the device, as the journal's scheme decides.
    /// What comes with it is kept until the fsync ends.
    fn data_path(&self, inode: &Inode, data_only: bool) -> (DataPath, Option<Syncing<'_>>) {
        if !self.journal.chooses_data_path() {
            return (DataPath::Cached, None);
        }
        // Data that is on its way already may need a flush, which is known only after it has
        // landed.
        self.land_flights(inode);
        let (blocks, runs) = self.pages.dirty_runs(inode.ino);
        let (tid, mark) = {
            let core = inode.core();
            (core.tid_for(data_only), core.data_mark)
        };
        let maps = self.pages.delayed(inode.ino) > 0;
        let syncing = self.journal.data_path(DataNeed {
            blocks,
            runs,
            commits: maps || !self.journal.committed().geq(tid),
            flush_anyway: !self.queue.is_flushed(mark),
        });
        let path = match syncing.path {
            // Only ordered data travels with its transaction.
            DataPath::WithLog if self.options.data != DataMode::Ordered => DataPath::Direct,
            path => path,
        };
        (path, Some(syncing))
    }

    /// Makes a directory durable. A directory has no data of its own: all of it is in the journal.
    /// So this makes the running transaction durable if there is one and sends nothing otherwise,
    /// as Linux does (`ext4_force_commit` for whatever is no regular file).
    fn sync_directory(&self) -> FsResult<()> {
        self.sync_times
            .part("fsync-commit", || self.commit_for_directory())
    }

    /// Makes an inode durable without a journal: inode and mapping are written home, and so are the
    /// directories through which a new file is reached. As in Linux the inode is not written if
    /// nothing has changed since it was written last, or, with `data_only`, nothing but its times:
    /// its table block may be dirty because of other inodes.
    fn sync_without_log(&self, inode: &Inode, data_only: bool) -> FsResult<()> {
        let (changes, home) = {
            let core = inode.core();
            (core.changes, core.changes_home)
        };
        let mut blocks = self.own_blocks(inode)?;
        let is_home = match data_only && !inode.is_dir() {
            true => home.data == changes.data,
            false => home.all == changes.all,
        };
        if is_home {
            let table = self.inode_home(inode.ino)?.0;
            blocks.retain(|block| *block != table);
        }
        let mut reached = Vec::new();
        let mut parent = inode.core().born_in;
        for _ in 0..PARENTS_MAX {
            let Some(ino) = parent else { break };
            let dir = match self.inode(ino) {
                Ok(dir) => dir,
                // The directory was removed meanwhile, and with it what was in it.
                Err(e) if e.errno() == Errno::Stale => break,
                Err(e) => return Err(e),
            };
            blocks.extend(self.own_blocks(&dir)?);
            blocks.extend(self.directory_blocks(&dir)?);
            parent = dir.core().born_in;
            reached.push((ino, dir));
        }
        self.journal.sync_home(&blocks).map_err(fault::journal)?;
        // This must not be noted earlier: a concurrent fsync of the same file has to write these
        // blocks or to find them written.
        if !is_home {
            let home = &mut inode.core().changes_home;
            (home.all, home.data) = (home.all.max(changes.all), home.data.max(changes.data));
        }
        let mut child = inode;
        for (ino, dir) in &reached {
            child.core().born_in.take_if(|born| born == ino);
            child = dir;
        }
        Ok(())
    }

    /// The table block of an inode and the blocks of its mapping.
    fn own_blocks(&self, inode: &Inode) -> FsResult<Vec<BlockNo>> {
        let mut blocks = vec![self.inode_home(inode.ino)?.0];
        let (extents, maps, xattrs) = {
            let core = inode.core();
            (
                core.has_extents(),
                core.maps_blocks() && !core.is_fast_symlink(),
                core.disk.xattr_block(),
            )
        };
        if xattrs != BlockNo(0) {
            self.check_range(xattrs, 1, format_args!("i_file_acl of inode {}", inode.ino))?;
            blocks.push(xattrs);
        }
        {
            let _tree = inode.tree.read();
            match (extents, maps) {
                (true, _) => blocks.extend(self.tree_blocks_of(inode)?),
                (false, true) => blocks.extend(self.pointer_blocks_of(inode)?),
                (false, false) => {}
            }
        }
        if inode.is_dir() {
            blocks.extend(self.directory_blocks(inode)?);
        }
        Ok(blocks)
    }

    fn directory_blocks(&self, dir: &Inode) -> FsResult<Vec<BlockNo>> {
        let mut blocks = Vec::new();
        if dir.is_inline() {
            return Ok(blocks);
        }
        let count = (dir.core().disk.size() / self.block()) as u32;
        let mut lblk = 0;
        while lblk < count {
            let span = self.lookup_span(dir, lblk, count - lblk)?;
            if let crate::map::Span::Data { start, len } = span {
                blocks.extend((0..len).map(|n| start.plus(n.into())));
            }
            lblk += span.len();
        }
        Ok(blocks)
    }

    /// Makes everything durable.
    pub(crate) fn sync_all(&self) -> FsResult<()> {
        self.write_everything()?;
        self.journal.commit_all().map_err(fault::journal)?;
        self.flush_device()
    }

    /// Writes all dirty pages and waits for them.
    pub(crate) fn write_everything(&self) -> FsResult<()> {
        let inodes: Vec<Arc<Inode>> = self.inodes.all();
        for inode in &inodes {
            // Files without dirty pages count, too: another task may have taken their pages and not
            // mapped them yet; it holds `wb` until then (F4).
            self.write_pages(inode, 0..u64::MAX, Way::AWAITED)?;
        }
        for inode in &inodes {
            self.land_flights(inode);
            if let Some(e) = inode.core().write_errors.unreported() {
                return Err(e.clone());
            }
        }
        Ok(())
    }
}
