//! A mounted ext4, and the [`FileSystem`] interface that `vfs` calls.

use crate::Inode;
use crate::fast_record::FastNotes;
use crate::fault;
use crate::group::{Groups, Window};
use crate::inode::{InodeCache, Pinned};
use crate::longest::Longest;
use crate::options::{DataMode, MountOptions};
use crate::orphan::Orphans;
use crate::space::{Reserve, Space};
use base::{BlockNo, BlockSize, Bytes, Ino, Nanos, Rng, Tid, Time};
use block::Queue;
use fscore::{
    AtomicUnit, Attr, Creds, Errno, Errors, FallocateMode, FileSystem, FsError, FsResult, FsStat,
    Latch, PageCache, SeekMode, SetAttr, SyncTimes,
};
use journal::{Journal, RecoveryReport};
use ondisk::Folding;
use ondisk::ext4 as disk;
use ondisk::ext4::{Compat, FsSeed, Incompat, RoCompat, State, Superblock};
use rt::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

// Why a scheme with fast commits makes full ones on this volume (fast_record-B2, cluster-C6).
const NO_FAST_CLUSTERS: &str = "the volume has clusters (bigalloc), so every commit is a full one";
const NO_FAST_AREA: &str = "the journal is too small for fast commits, so every commit is a full one; 1,280 blocks are enough \
                            (`varve mkfs --journal SIZE`, `tune2fs -J size=`)";
const NO_FAST_DATA: &str = "data=journal puts the content of files into the log, which a fast commit cannot tell, so files that \
                            are made, written or changed are committed in full";
const NO_FAST_MAPS: &str = "the volume has no extents (as an ext3), by which alone a fast commit tells where blocks are, so files \
                            that are made, written or changed are committed in full";

/// A mounted ext4 file system.
pub struct Ext4 {
    pub(crate) queue: Arc<Queue>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) options: MountOptions,
    /// The superblock as it was at mount, for geometry and features.
    pub(crate) geo: Superblock,
    /// Size of a block, and of a page of the cache.
    pub(crate) block_size: BlockSize,
    /// How names fold; `None` without feature `casefold`.
    pub(crate) folding: Option<Arc<Folding>>,
    /// Where checksums start; `None` without metadata checksums.
    pub(crate) seed: Option<FsSeed>,
    /// The current superblock.
    pub(crate) sb: Mutex<Superblock>,
    pub(crate) groups: Groups,
    pub(crate) space: Space,
    pub(crate) reserve: Reserve,
    pub(crate) inodes: InodeCache,
    pub(crate) pages: PageCache,
    pub(crate) orphans: Orphans,
    /// What handles have told for the next fast commit.
    pub(crate) fast: FastNotes,
    /// Guards blocks of extended attributes, which inodes may share (ext4-xattr-X3). Taken inside a
    /// handle.
    pub(crate) xattr_blocks: RwLock<()>,
    /// Free blocks kept for small files.
    pub(crate) small_window: Mutex<Option<Window>>,
    /// Number of searches for the last free blocks that are under way (balloc-A4).
    pub(crate) starving: AtomicU32,
    /// How long a free run can be.
    pub(crate) longest: Longest,
    pub(crate) random: Mutex<Rng>,
    pub(crate) latch: Latch,
    /// True once damage was noted in the superblock.
    pub(crate) damage_noted: AtomicBool,
    pub(crate) sync_times: SyncTimes,
    /// What recovery did at mount.
    pub(crate) recovery: Option<RecoveryReport>,
    /// The primary superblock was damaged at mount (ext4-mount-M2 and ext4-mount-M3).
    pub(crate) was_torn: bool,
}

impl Ext4 {
    /// The options in force.
    pub fn options(&self) -> &MountOptions {
        &self.options
    }

    /// The journal, for its statistics.
    pub fn journal(&self) -> &Arc<Journal> {
        &self.journal
    }

    /// What whoever mounts should know of these options on this volume; none: all is as asked for.
    pub fn remark(&self) -> Option<String> {
        let scheme = self.journal.scheme().filter(|_| !self.options.read_only)?;
        let why = match scheme.is_fast() {
            false => return None,
            true if self.has_clusters() => NO_FAST_CLUSTERS,
            true if !self.journal.takes_fast_commits() => NO_FAST_AREA,
            true if self.options.data == DataMode::Journal => NO_FAST_DATA,
            true if !self.geo.incompat().has(Incompat::EXTENTS) => NO_FAST_MAPS,
            true => return None,
        };
        Some(why.into())
    }

    /// The queue, for its statistics.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Pages of file content in memory. They may exceed the bound of the options
    /// ([`MountOptions::cache_bytes`](crate::MountOptions)) by the pages of the requests under way.
    pub fn cached_pages(&self) -> u64 {
        self.pages.cached_pages()
    }

    /// Time of all fsync and fdatasync calls by part: `fsync-data` (dirty pages), `fsync-commit`
    /// (the journal), `fsync-home` (metadata of a file system without journal), `fsync-flush` (the
    /// flush that the call itself waits for).
    pub fn sync_times(&self) -> BTreeMap<&'static str, Nanos> {
        self.sync_times.sums()
    }

    /// What the recovery of the journal did at mount; `None` if the log was clean.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// True if the mount found the primary superblock damaged and used its backup or the log
    /// instead; a mount for writing has then rewritten it.
    pub fn superblock_was_damaged(&self) -> bool {
        self.was_torn
    }

    /// The first failure, if the mount is latched.
    pub fn failed(&self) -> Option<String> {
        self.latch.failed()
    }

    /// Bytes of a block as an offset.
    pub(crate) fn block(&self) -> u64 {
        self.block_size.bytes() as u64
    }

    pub(crate) fn has_log(&self) -> bool {
        self.journal.scheme().is_some()
    }

    pub(crate) fn has_group_checksums(&self) -> bool {
        let ro = self.geo.ro_compat();
        ro.has(RoCompat::GDT_CSUM) || ro.has(RoCompat::METADATA_CSUM)
    }

    /// The newest transaction: a past change of unknown transaction is in this one or in an older
    /// one.
    pub(crate) fn newest_tid(&self) -> Tid {
        self.journal.newest_tid()
    }

    /// Commits what is in the log and stops the journal there, so that the volume is what a power
    /// cut would leave.
    fn cut_off(&self) -> FsResult<()> {
        let committed = match self.can_write() {
            true => self.journal.commit_all().map_err(fault::journal),
            false => Ok(()),
        };
        self.journal.cut_off(Latch::SHUT_DOWN);
        self.latch.shut_down();
        committed
    }

    pub(crate) fn check_writable(&self) -> FsResult<()> {
        match self.options.read_only {
            true => Err(Errno::RoFs.into()),
            false => self.latch.check_changes(),
        }
    }

    pub(crate) fn can_write(&self) -> bool {
        self.check_writable().is_ok()
    }

    /// Closes the latch for unmounting: no operation is accepted any more.
    pub(crate) fn close_latch(&self) -> FsResult<()> {
        let closed = self.latch.close();
        if let Err(FsError::Aborted { first }) = &closed {
            self.journal.abort(first.clone());
            // The journal's tasks end; the log stays for recovery.
            let _ = self.journal.stop();
        }
        closed
    }

    /// Latches the mount after an operation failed half-way: its changes are in the running
    /// transaction, which must not commit any more.
    pub(crate) fn fail(&self, why: &FsError) {
        self.journal.abort(why.to_string());
        self.latch_failure(why, true);
    }

    /// Acts on a failure as `errors=` says. With `ended` the journal has aborted, so changes are
    /// refused in any case.
    fn latch_failure(&self, why: &FsError, ended: bool) {
        if !self.latch.is_alive() {
            return;
        }
        let first = |flag: &AtomicBool| !flag.swap(true, Ordering::Relaxed);
        if matches!(why, FsError::Corrupt { .. })
            && !self.options.read_only
            && first(&self.damage_noted)
        {
            self.record_damage();
        }
        match self.latch.errors() {
            Errors::Continue if !ended => return,
            Errors::Continue | Errors::RemountRo => {}
            Errors::Panic => self.journal.abort(why.to_string()),
        }
        self.latch.fail(why.to_string());
    }

    /// Latches the mount after a failed flush: what the device had not written yet may be lost,
    /// metadata included, and no later flush would report it. The queue lets no further flush pass.
    pub(crate) fn flush_failed(&self, during: &str, e: block::DevError) -> FsError {
        let error = fault::device(during)(e);
        self.fail(&error);
        error
    }

    /// Notes damage in the superblock, for e2fsck. Where the journal has aborted that is not
    /// possible: the superblock in memory then holds changes that will never be committed, the list
    /// of orphans among them, and the log may hold deltas of the home block (hazards-H9). The next
    /// mount sets the error state instead, because the journal has left its error in the log. The
    /// outcome does not matter, because the mount is latched anyway.
    fn record_damage(&self) {
        let _ = self
            .transact(1, |tx| self.update_superblock(tx, note_damage))
            .and_then(|()| self.journal.commit_all().map_err(fault::journal));
    }
}

/// Sets the error state, and the record of the first and the last error.
fn note_damage(sb: &mut Superblock) {
    /// EFSCORRUPTED among the codes of `s_first_error_errcode` and `s_last_error_errcode`, which
    /// are not errno values: 1 is an unknown error, 2 EIO, 3 ENOMEM, 4 EFSBADCRC.
    const CODE_CORRUPT: u8 = 5;
    let now = rt::wall().secs.max(0) as u64;
    let state = sb.state() | State::ERRORS;
    sb.set_state(state);
    sb.record_error(now, Ino(0), BlockNo(0), "varve", CODE_CORRUPT);
}

impl Ext4 {
    /// Runs an operation if the latch accepts it, and latches the mount if the operation finds
    /// damage or panics.
    pub(crate) fn guarded<T>(&self, operation: impl FnOnce() -> FsResult<T>) -> FsResult<T> {
        if self.latch.errors() == Errors::Panic
            && let Some(first) = self.journal.aborted()
        {
            self.latch.fail(first);
        }
        self.latch.check_open()?;
        let answer = self.watched(operation);
        match &answer {
            Err(e @ FsError::Corrupt { .. }) => self.latch_failure(e, false),
            Err(e @ FsError::Aborted { .. }) => self.latch_failure(e, true),
            _ => {}
        }
        answer
    }

    /// Runs work; if it panics, nothing is accepted or committed any more (latch-P1). Half an
    /// operation is not committed in any case, because its handle says so before the transaction
    /// can go on without it (handle-A1).
    fn watched<T>(&self, work: impl FnOnce() -> T) -> T {
        self.latch.watch(work, || self.journal.break_off())
    }

    fn file(&self, ino: Ino) -> FsResult<Arc<Inode>> {
        let inode = self.inode(ino)?;
        inode.kind()?.check_file()?;
        Ok(inode)
    }

    /// Blocks of the journal inside the volume.
    fn journal_blocks(&self) -> u64 {
        if !self.geo.compat().has(Compat::HAS_JOURNAL) || self.geo.journal_ino().0 == 0 {
            return 0;
        }
        let inode = self.read_inode(self.geo.journal_ino());
        inode.map_or(0, |inode| inode.size() / self.block())
    }

    fn stat_fs(&self) -> FsStat {
        let overhead = match u64::from(self.geo.overhead_clusters()) {
            0 => self.groups.system_blocks() + self.journal_blocks(),
            known => self.cluster_len(1) * known,
        };
        let (free, held_back) = (self.space.free(), self.reserve.blocks);
        let (_, inodes_free) = self.groups.free_counts();
        FsStat {
            block_bytes: self.geo.block_bytes(),
            blocks: self.geo.blocks_count().saturating_sub(overhead),
            blocks_free: self.cluster_len(1) * free,
            blocks_available: self.cluster_len(1) * free.saturating_sub(held_back),
            inodes: self.geo.inodes_count().into(),
            inodes_free,
            name_bytes_max: 255,
        }
    }
}

impl FileSystem for Ext4 {
    fscore::operations!();

    fn root(&self) -> Ino {
        disk::ROOT_INO
    }
    fn ignores_case(&self, dir: Ino) -> Option<bool> {
        self.folding.as_ref()?;
        // What cannot be asked may be so.
        Some(
            self.inode(dir)
                .map_or(true, |dir| self.folding_of(&dir).is_some()),
        )
    }
    fn getattr(&self, ino: Ino) -> FsResult<Attr> {
        self.guarded(|| self.attr_of(&*self.inode(ino)?))
    }
    fn setattr(&self, ino: Ino, set: &SetAttr) -> FsResult<Attr> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.inode(ino)?;
            let changed = self.change_attr(&inode, set)?;
            if set.size.is_some() {
                self.settle_content(&inode)?;
            }
            Ok(changed)
        })
    }
    fn read(&self, ino: Ino, offset: u64, buf: &mut [u8]) -> FsResult<usize> {
        self.guarded(|| self.read_file(&*self.file(ino)?, offset, buf))
    }
    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> FsResult<usize> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.file(ino)?;
            let done = self.write_file(&inode, offset, data)?;
            self.settle_content(&inode).map(|()| done)
        })
    }
    fn has_atomic_writes(&self) -> bool {
        self.has_log() && !self.options.read_only
    }
    fn atomic_unit(&self) -> Option<AtomicUnit> {
        self.has_atomic_writes()
            .then(|| self.atomic_unit_of_volume())
    }
    fn sync_keeps_order(&self) -> bool {
        self.has_log()
    }
    fn write_atomic(&self, ino: Ino, parts: &[(u64, Bytes)]) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.file(ino)?;
            self.write_file_atomic(&inode, parts)?;
            self.settle_content(&inode)
        })
    }
    fn fallocate(&self, ino: Ino, mode: FallocateMode, offset: u64, len: u64) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.file(ino)?;
            self.allocate_file(&inode, mode, offset, len)?;
            self.settle_content(&inode)
        })
    }
    fn tmpfile(&self, dir: Ino, perm: u16, creds: Creds) -> FsResult<Attr> {
        self.guarded(|| self.op_tmpfile(dir, perm, creds))
    }
    fn seek(&self, ino: Ino, offset: u64, mode: SeekMode) -> FsResult<u64> {
        self.guarded(|| self.seek_file(&*self.file(ino)?, offset, mode))
    }
    fn trim(&self, range: Range<u64>, min_bytes: u64) -> FsResult<u64> {
        self.guarded(|| self.trim_free(range, min_bytes))
    }
    fn open_handle(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| match self.is_own_inode(ino) {
            true => Err(Errno::Stale.into()),
            false => self.pin(&*self.inode(ino)?),
        })
    }
    fn release(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| match self.inodes.unpin(ino) {
            Pinned::Here(inode) => self.unpin(&inode),
            Pinned::Taken => Ok(()),
            Pinned::No => Err(Errno::BadF.into()),
        })
    }
    fn writeback(&self, older_than: Time) -> FsResult<()> {
        self.guarded(|| {
            if !self.can_write() {
                return Ok(());
            }
            self.write_old_pages(Some(older_than))
        })
    }
    fn dirty_pages(&self) -> u64 {
        // Limits are counted in 4 KiB of memory.
        let each = self.block_size.bytes().div_ceil(base::BLOCK_BYTES);
        self.pages.dirty_pages() * each as u64
    }
    fn unmount(&self) -> FsResult<()> {
        self.watched(|| self.shut_down())
    }
}

impl Ext4 {
    /// Flushes the device if a write completed since the last flush; called at the end of
    /// operations that must be durable.
    pub(crate) fn flush_device(&self) -> FsResult<()> {
        let mark = self.queue.mark();
        self.queue
            .ensure_flushed(mark)
            .map_err(|e| self.flush_failed("flushing", e))
    }
}
