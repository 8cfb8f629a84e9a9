//! Mount and unmount. A mount takes these steps, in this order:
//!
//! | step of mount | refused if |
//! |---|---|
//! | superblock; a torn one is replaced by its first backup | neither has a good checksum |
//! | features | one is unknown or not supported; it is named |
//! | options, scheme, place of the log | the device cannot do what they ask for; no log, or none of this volume |
//! | journal: foresee what recovery will leave | damage that recovery must not write over; fast commits that contradict the volume |
//! | if the log waits: the three steps below on the foreseen volume, then recovery | as below |
//! | superblock, size of the log, group descriptors | features, checksums or places are wrong; the log is too small |
//! | root directory | it is none |
//! | orphans are read | list or file leads out of the volume, or names an inode twice; the file is damaged |
//! | set needs_recovery, and orphan_present with it, durable before the first commit | |
//! | orphans are ended | |
//!
//! Invariants:
//! - M1 needs_recovery is durable before the first transaction commits, and cleared only when the
//!   log is empty. So an external log that holds transactions beside a volume that was unmounted is
//!   of another time, and is refused (devices-L8);
//! - M2 a superblock whose in-place write was torn (hazards-H22) is rebuilt from its backup: at the
//!   moments of such writes the log is empty, and what was written differs from what lay there in
//!   nothing but counters, times, needs_recovery, orphan_present (orphan-O5) and the mount state.
//!   No backup follows the list of orphans, the state and the features that are set while mounted.
//!   They lie in the first sector, which is whole, old or new, on each device on which the
//!   superblock of the log is safe (log_super-J4): so they are taken from there. Old and new agree
//!   about the list, because no transaction is open while the superblock is written.
//!   A volume of one group has no backup, and is refused then: nothing vouches for its geometry;
//! - M3 a cut in the middle of a home write may have torn what leads to the log: then the
//!   superblock's backup and its copy of the journal's mapping lead there, and recovery mends the
//!   rest. A volume of one group has no backup: there the torn superblock itself is believed as far
//!   as it leads to a log of its UUID that waits for recovery, and must be whole after recovery;
//! - M4 a mount that is refused has written nothing. All reasons to refuse are known when the
//!   orphans have been read, and the first write comes after that: a log to recover is checked as a
//!   whole, through what recovery will leave ([`Foreseen`]), before recovery writes. From the first
//!   write on a mount can only fail, as any operation can: the device fails, or the blocks of an
//!   orphan that is ended (orphan-O6) are damaged; then the journal notes the error (`s_errno`),
//!   and the log stays as it is;
//! - M5 a caller that wants no mount, but the log carried home ([`Ext4::recover_log`]), gets that
//!   for any log that is whole, even if the recovered volume cannot be mounted: it is meant for
//!   e2fsck, which repairs a volume only as its last transaction left it. Nothing of a damaged log
//!   is written here either. The superblock is updated last, when the log is durably empty: a cut
//!   before that leaves a volume that a mount or a second call accepts.

mod recovery;

use crate::Ext4;
use crate::fast_record::FastNotes;
use crate::fault;
use crate::group::Groups;
use crate::inode::InodeCache;
use crate::log_place::{
    check_user, external_log_waits, external_place, has_external_log, hex, journal_backup_place,
    journal_place,
};
use crate::longest::Longest;
use crate::options::{DataMode, MountOptions, errors_of_superblock};
use crate::orphan::{Orphans, Waiting};
use crate::space::{Reserve, Space};
use crate::superblock::{backup_homes, block_size, folding, is_older, read_block, write_in_place};
use base::{BlockNo, BlockSize, Bytes, Lba, Mutant, SECTORS_PER_BLOCK};
use block::Queue;
use fscore::{FsError, FsResult, Latch, PageCache, ReserveOwner, SyncTimes};
use journal::{CleanLog, Journal, LogBlock, Opened};
use ondisk::ext4 as disk;
use ondisk::ext4::{Compat, Incompat, RoCompat, State, Superblock};
use rt::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

pub(crate) const INCOMPAT_SUPPORTED: Incompat = Incompat(
    Incompat::FILETYPE.0
        | Incompat::RECOVER.0
        | Incompat::EXTENTS.0
        | Incompat::WIDE_BLOCKS.0
        | Incompat::FLEX_BG.0
        | Incompat::META_BG.0
        | Incompat::LARGE_DIR.0
        | Incompat::ENCRYPT.0
        | Incompat::CASEFOLD.0
        | Incompat::INLINE_DATA.0
        | Incompat::CSUM_SEED.0,
);
/// The newest known revision of the superblock: the one with features (`s_rev_level`; Linux mounts
/// newer ones read-only).
pub(crate) const REVISION_MAX: u32 = 1;
/// Features with which a volume can be read but not written, each with the reason.
const INCOMPAT_READ_ONLY: [(Incompat, &str); 2] = [
    (
        Incompat::EA_INODE,
        "attribute values in inodes of their own are read, not written",
    ),
    (
        Incompat::MMP,
        "no sign is left for other machines that the volume is in use",
    ),
];
pub(crate) const RO_COMPAT_SUPPORTED: RoCompat = RoCompat(
    RoCompat::SPARSE_SUPER.0
        | RoCompat::LARGE_FILE.0
        | RoCompat::HUGE_FILE.0
        | RoCompat::GDT_CSUM.0
        | RoCompat::DIR_NLINK.0
        | RoCompat::EXTRA_ISIZE.0
        | RoCompat::METADATA_CSUM.0
        | RoCompat::BIGALLOC.0
        | RoCompat::PROJECT.0
        | RoCompat::ORPHAN_PRESENT.0,
);
/// Where the superblock lies in the first 4 KiB of the volume.
const SUPERBLOCK_AT: usize = disk::SUPERBLOCK_AT as usize;
/// The queues of the volume, and of its external journal if it was named.
type Queues<'a> = (&'a Arc<Queue>, Option<&'a Arc<Queue>>);

/// The first 4 KiB of a volume, whatever the size of its blocks.
fn read_head(queue: &Queue) -> FsResult<Bytes> {
    queue
        .read(Lba(0), SECTORS_PER_BLOCK)
        .map_err(fault::device("reading the superblock"))
}
/// A group descriptor begins with the places of its bitmaps and of its table.
const PLACES_BYTES: usize = 12;

/// What the mount found in the log.
#[derive(Clone, Copy)]
struct Found {
    /// True if the log was recovered.
    recovered: bool,
    /// True if an error had ended the previous use of the log (`s_errno`): the volume may be
    /// damaged, and e2fsck should check it.
    failed: bool,
}

impl Ext4 {
    /// Mounts the file system on `queue`.
    ///
    /// # Errors
    /// `Incompatible` for a feature, `Options` for an option, `Corrupt` for damage, I/O errors.
    /// Nothing was written then, unless the device or an orphan failed after the first write (M4
    /// of the module).
    pub fn mount(queue: Arc<Queue>, options: MountOptions) -> FsResult<Arc<Ext4>> {
        Ext4::mount_with_journal(queue, None, options)
    }

    /// Mounts like [`Ext4::mount`], for a volume whose journal may lie on a device of its own,
    /// `log_queue`. That journal is recovered if need be, and used. Nothing else may write to
    /// either device.
    ///
    /// # Errors
    /// As [`Ext4::mount`]; `Incompatible` if the device holds the journal of another volume, or of
    /// several, or transactions of another time, or if the scheme needs log and homes on one
    /// device. `log_queue` is not looked at where the journal lies inside the volume.
    pub fn mount_with_journal(
        queue: Arc<Queue>,
        log_queue: Option<Arc<Queue>>,
        options: MountOptions,
    ) -> FsResult<Arc<Ext4>> {
        let queues = (&queue, log_queue.as_ref());
        let (sb, torn) = usable_superblock(queues, &options)?;
        let (log, recovery) = match find_log(queues, &sb, &options, torn)? {
            None => (None, None),
            Some(Opened::Clean(log)) => {
                // What is read of the volume may not be durable yet; `mark_mounted` flushes the
                // volume for the same reason.
                if sb.incompat().has(Incompat::RECOVER) && !options.read_only {
                    log.make_durable().map_err(fault::journal)?;
                }
                (Some(log), None)
            }
            Some(Opened::NeedsRecovery(log)) => {
                let (log, report) = recovery::recover(log, &options)?;
                (Some(log), Some(report))
            }
        };
        let found = Found {
            recovered: recovery.is_some(),
            failed: log.as_ref().is_some_and(|log| log.errno() != 0),
        };
        let was_torn = torn;
        // Recovery may have brought a newer superblock home, with any content.
        let (sb, torn) = if found.recovered {
            usable_superblock(queues, &options)?
        } else {
            (sb, torn)
        };
        let groups = Groups::load(&queue, &sb)?;
        let journal = start_journal(&queue, log, &sb, &options)?;
        let mut fs = Ext4::assemble(queue, journal, options, sb, groups)?;
        fs.recovery = recovery;
        fs.was_torn = was_torn;
        let waiting = match fs.look() {
            Ok(waiting) => waiting,
            Err(e) => {
                fs.journal.discard();
                return Err(e);
            }
        };
        if let Err(e) = fs.bring_up(waiting, torn, found) {
            fs.journal.abort(format!("mount: {e}"));
            // The journal's tasks end; the log stays as it is.
            let _ = fs.journal.stop();
            return Err(e);
        }
        Ok(Arc::new(fs))
    }

    pub(crate) fn assemble(
        queue: Arc<Queue>,
        journal: Arc<Journal>,
        options: MountOptions,
        sb: Superblock,
        groups: Groups,
    ) -> FsResult<Ext4> {
        let block_size = block_size(&sb)?;
        // cluster-C6.
        let fast = journal.takes_fast_commits() && !options.read_only && sb.cluster_blocks() == 1;
        let geo = sb.clone();
        let reserve = Reserve {
            blocks: geo.reserved_blocks() / u64::from(geo.cluster_blocks()),
            owner: ReserveOwner {
                uid: options.reserve_uid.unwrap_or(geo.reserved_uid()),
                gid: options.reserve_gid.unwrap_or(geo.reserved_gid()),
            },
        };
        let errors = options
            .errors
            .unwrap_or_else(|| errors_of_superblock(geo.errors_behavior()));
        Ok(Ext4 {
            queue,
            journal,
            pages: PageCache::with_page_bytes(options.cache_bytes, block_size.bytes()),
            block_size,
            seed: geo.has_metadata_checksums().then(|| geo.seed()),
            sb: Mutex::named("superblock", sb),
            folding: folding(&geo)?,
            geo,
            space: Space::new(groups.free_counts().0, reserve.blocks),
            groups,
            reserve,
            inodes: InodeCache::new(),
            orphans: Orphans::new(),
            fast: FastNotes::new(fast),
            xattr_blocks: RwLock::named("xattr blocks", ()),
            small_window: Mutex::named("small files", None),
            starving: AtomicU32::new(0),
            longest: Longest::default(),
            random: Mutex::named("ext4 random", rt::rng("ext4")),
            latch: Latch::new(errors),
            damage_noted: AtomicBool::new(false),
            sync_times: SyncTimes::default(),
            recovery: None,
            was_torn: false,
            options,
        })
    }

    /// Makes the last checks for which a mount can be refused (M4). Answers the orphans if this
    /// mount will end them.
    fn look(&mut self) -> FsResult<Option<Waiting>> {
        let root = self.inode(disk::ROOT_INO).map_err(|e| match e {
            FsError::Posix(_) => FsError::corrupt("the root directory (inode 2) is not in use"),
            other => other,
        })?;
        if !root.is_dir() {
            return Err(FsError::corrupt("inode 2, the root, is not a directory"));
        }
        drop(root);
        match self.options.read_only {
            true => Ok(None),
            false => self.read_orphans().map(Some),
        }
    }

    fn bring_up(&self, waiting: Option<Waiting>, torn: bool, found: Found) -> FsResult<()> {
        let Some(waiting) = waiting else {
            return self.settle_read_only(found.recovered);
        };
        self.mark_mounted(torn, found)?;
        self.finish_orphans(waiting)
    }

    /// M1: makes the superblock say, durably, that the volume is mounted.
    fn mark_mounted(&self, torn: bool, found: Found) -> FsResult<()> {
        let now = rt::wall().secs.max(0) as u64;
        let has_log = self.has_log();
        let fast = self.fast.is_on();
        let has_orphan_file = self.orphan_file_ino().is_some();
        let change = |sb: &mut Superblock| {
            sb.set_mount_count(sb.mount_count().saturating_add(1));
            sb.set_mount_time(now);
            sb.set_write_time(now);
            if found.failed {
                sb.set_state(sb.state() | State::ERRORS);
            }
            if fast {
                sb.set_compat(sb.compat() | Compat::FAST_COMMIT);
            }
            if has_log {
                sb.set_incompat(sb.incompat() | Incompat::RECOVER);
                if has_orphan_file {
                    sb.set_ro_compat(sb.ro_compat() | RoCompat::ORPHAN_PRESENT);
                }
            } else {
                sb.set_state(sb.state().without(State::VALID));
            }
        };
        let marked = self.sb.lock().incompat().has(Incompat::RECOVER);
        if has_log && marked && !torn {
            if !found.recovered {
                // The volume was not unmounted, and recovery had nothing to do, so nothing has
                // flushed the device yet. What a process that died has left in the device's cache
                // is read as if it were durable, and the marks of this queue do not know of it
                // (hazards-H19).
                self.queue.flush().map_err(fault::device("flushing"))?;
            }
            // After recovery the mark is set already; a write in place could only tear the
            // superblock.
            return self.transact(1, |tx| self.update_superblock(tx, change));
        }
        let mut sb = self.sb.lock();
        change(&mut sb);
        write_in_place(&self.queue, &mut sb)?;
        self.queue.flush().map_err(fault::device("flushing"))
    }

    /// Writes everything, marks the file system clean, and stops its tasks.
    pub(crate) fn shut_down(&self) -> FsResult<()> {
        self.close_latch()?;
        let outcome = self.wind_down();
        // Tasks must end, whether or not the steps before failed.
        let stopped = self.journal.stop().map_err(fault::journal);
        outcome.and(stopped)?;
        if self.options.read_only {
            return Ok(());
        }
        let mut sb = self.sb.lock();
        let sb = &mut *sb;
        self.count_into(sb);
        let features = sb.incompat().without(Incompat::RECOVER);
        sb.set_incompat(features);
        if self.orphans.file_is_empty() {
            sb.set_ro_compat(sb.ro_compat().without(RoCompat::ORPHAN_PRESENT));
        }
        // What was not clean when it was mounted has not been checked since.
        if self.geo.state().has(State::VALID) {
            sb.set_state(sb.state() | State::VALID);
        }
        write_in_place(&self.queue, sb)?;
        self.queue.flush().map_err(fault::device("flushing"))
    }

    fn wind_down(&self) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.write_everything()?;
        // Files that are unlinked but still open are freed now, because nothing can reach them any
        // more.
        for inode in self.inodes.all() {
            inode.core().pins = 0;
            self.evict_if_unused(&inode)?;
        }
        self.journal.commit_all().map_err(fault::journal)?;
        self.reap_pending()
    }
}

/// The superblock, checked for features and sizes with which the volume can be used; and whether it
/// is torn.
fn usable_superblock(queues: Queues<'_>, options: &MountOptions) -> FsResult<(Superblock, bool)> {
    let (sb, torn) = read_superblock(queues)?;
    check_features(&sb, options)?;
    check_size(queues.0, &sb)?;
    Ok((sb, torn))
}

/// The superblock; if the primary one is damaged, from its backup (M2) or from what is left of it
/// (M3).
fn read_superblock(queues: Queues<'_>) -> FsResult<(Superblock, bool)> {
    let block = read_head(queues.0)?;
    let primary = match Superblock::parse(&block[SUPERBLOCK_AT..]) {
        Ok(sb) => return Ok((sb, false)),
        Err(e) => e,
    };
    // Where the checksum alone is wrong, sectors may be of different times.
    let torn = Superblock::parse_torn(&block[SUPERBLOCK_AT..]);
    let torn = torn.ok().filter(|_| primary.is_checksum());
    let mut found = None;
    for (size, home) in backup_homes(torn.as_ref()) {
        if found.is_none() {
            found = backup_superblock(queues, (size, home), torn.as_ref())?;
        }
    }
    if let Some(torn) = torn.filter(|_| found.is_none()) {
        found = torn_superblock(queues, torn)?;
    }
    match found {
        Some(sb) if !rt::mutant(Mutant::NoSuperblockFallback) => Ok((sb, true)),
        _ => Err(fault::corrupt(primary.at_block(BlockNo(0)))),
    }
}

/// The first backup, if it belongs to this volume. `torn` is the primary superblock, if only its
/// checksum is wrong.
fn backup_superblock(
    queues: Queues<'_>,
    (size, home): (BlockSize, BlockNo),
    torn: Option<&Superblock>,
) -> FsResult<Option<Superblock>> {
    let queue = queues.0;
    if queue.caps().sectors < size.lba(home.plus(1)).0 {
        return Ok(None);
    }
    let block = read_block(queue, size, home)?;
    let Ok(mut sb) = Superblock::parse(&block) else {
        return Ok(None);
    };
    let there = block_size(&sb).is_ok_and(|own| own == size) && sb.group_first_block(1) == home;
    if !there || sb.group_of_copy() != 1 {
        return Ok(None);
    }
    sb.set_group_of_copy(0);
    if let Some(torn) = torn {
        if is_older(&sb, torn, queue.caps().sectors) {
            return Ok(None);
        }
        if torn.uuid() == sb.uuid() {
            follow(&mut sb, torn);
            return Ok(Some(sb));
        }
    }
    // By now this may be another volume, written over the remains of an old ext4.
    let own = has_own_descriptor(queue, &sb)? || has_own_log(queues, &sb)?;
    Ok(own.then_some(sb))
}

/// Takes over what no backup follows, from the first sector of the torn primary superblock (M2).
fn follow(sb: &mut Superblock, torn: &Superblock) {
    sb.set_last_orphan(torn.last_orphan());
    sb.set_state(torn.state());
    if torn.compat().has(Compat::EXT_ATTR) {
        sb.set_compat(sb.compat() | Compat::EXT_ATTR);
    }
}

/// Accepts the primary superblock in spite of its wrong checksum: a cut in its home write leaves
/// some sectors old and some new, and the log, which still has what was being written, mends it
/// (M3). After recovery the log is empty, so no superblock is accepted this way a second time.
fn torn_superblock(queues: Queues<'_>, sb: Superblock) -> FsResult<Option<Superblock>> {
    let fits = check_size(queues.0, &sb).is_ok();
    Ok((fits && has_own_log(queues, &sb)?).then_some(sb))
}

/// True if the group descriptors behind the primary superblock belong to this volume. With
/// checksums, one valid descriptor shows that; without, all of them must have the places of bitmaps
/// and tables that the descriptors behind the backup have.
fn has_own_descriptor(queue: &Queue, sb: &Superblock) -> FsResult<bool> {
    let Ok(size) = block_size(sb) else {
        return Ok(false);
    };
    let (first, _) = sb.desc_place(0);
    let block = read_block(queue, size, first)?;
    let groups = sb.groups_count().min(sb.descs_per_block());
    if !sb.has_metadata_checksums() {
        let behind = first.0 - u64::from(sb.first_data_block());
        let home = sb.group_first_block(1).plus(behind);
        if size.lba(home.plus(1)).0 > queue.caps().sectors {
            return Ok(false);
        }
        let copy = read_block(queue, size, home)?;
        let mut places = (0..groups).map(|group| sb.desc_place(group).1);
        return Ok(places.all(|at| block[at..at + PLACES_BYTES] == copy[at..at + PLACES_BYTES]));
    }
    Ok((0..groups).any(|group| {
        let (_, offset) = sb.desc_place(group);
        let desc = disk::GroupDesc::parse(&block[offset..], sb.desc_bytes());
        desc.is_ok_and(|desc| desc.verify_checksum(sb, group).is_ok())
    }))
}

/// True if the backup leads to a log of this volume that waits for recovery: then one cut has torn
/// the home writes of both superblock and descriptors.
fn has_own_log((queue, log_queue): Queues<'_>, sb: &Superblock) -> FsResult<bool> {
    if has_external_log(sb) {
        return Ok(log_queue.is_some_and(|log| external_log_waits(log, sb)));
    }
    let Some(place) = journal_backup_place(queue, sb) else {
        return Ok(false);
    };
    let block = read_block(queue, place.block_size(), place.block(LogBlock(0)))?;
    let log = ondisk::jbd2::Superblock::parse(&block);
    Ok(log.is_ok_and(|log| !log.is_clean() && log.uuid() == sb.uuid()))
}

fn check_features(sb: &Superblock, options: &MountOptions) -> FsResult<()> {
    let mut unknown = sb.incompat().without(INCOMPAT_SUPPORTED);
    for (feature, why) in INCOMPAT_READ_ONLY {
        if unknown.has(feature) && !options.read_only {
            let what = format!("feature {feature}: {why}; mount read-only (option `ro`)");
            return Err(FsError::incompatible(what));
        }
        unknown = unknown.without(feature);
    }
    if !unknown.is_empty() {
        return Err(FsError::incompatible(format!("feature {unknown}")));
    }
    if sb.incompat().has(Incompat::MMP) && sb.incompat().has(Incompat::RECOVER) {
        let what = "feature mmp and a log that waits for recovery: another machine may be using \
                    the volume; run e2fsck";
        return Err(FsError::incompatible(what));
    }
    if sb.revision() > REVISION_MAX && !options.read_only {
        let what = format!(
            "revision {}: only those up to {REVISION_MAX} are known; mount read-only (option `ro`)",
            sb.revision()
        );
        return Err(FsError::incompatible(what));
    }
    let unknown = sb.ro_compat().without(RO_COMPAT_SUPPORTED);
    if !unknown.is_empty() && !options.read_only {
        let what = format!("feature {unknown} cannot be written; mount read-only (option `ro`)");
        return Err(FsError::incompatible(what));
    }
    block_size(sb)?;
    if !options.read_only {
        crate::cluster::check(sb)?;
    }
    if !sb.inodes_per_group().is_multiple_of(8) {
        let n = sb.inodes_per_group();
        return Err(FsError::corrupt(format!(
            "superblock: {n} inodes per group"
        )));
    }
    if options.scheme.is_none() && options.data == DataMode::Journal {
        let what = "data=journal needs a journal; use data=ordered with scheme=none";
        return Err(FsError::options(what));
    }
    Ok(())
}

fn check_size(queue: &Queue, sb: &Superblock) -> FsResult<()> {
    let size = block_size(sb)?;
    let sector = queue.caps().sector_bytes as usize;
    if size.bytes() < sector {
        return Err(FsError::incompatible(format!(
            "blocks of {} bytes on a device with sectors of {sector}: it cannot write one alone; copy the image to a device with sectors of 512 bytes, or format with -b {sector}",
            size.bytes()
        )));
    }
    let device = queue.caps().sectors / size.sectors();
    if sb.blocks_count() <= device {
        return Ok(());
    }
    Err(FsError::corrupt(format!(
        "the file system has {} blocks of {} bytes, the device {device}: the image is cut off",
        sb.blocks_count(),
        size.bytes()
    )))
}

/// Finds the log that the mount needs, if it needs one.
fn find_log(
    (queue, log_queue): Queues<'_>,
    sb: &Superblock,
    options: &MountOptions,
    torn: bool,
) -> FsResult<Option<Opened>> {
    let dirty = sb.incompat().has(Incompat::RECOVER);
    if !sb.compat().has(Compat::HAS_JOURNAL) {
        if options.scheme.is_some() && !options.read_only {
            let what = "the file system has no journal; mount with scheme=none";
            return Err(FsError::incompatible(what));
        }
        return Ok(None);
    }
    if options.no_recovery {
        return Ok(None);
    }
    if options.scheme.is_none() {
        if dirty || torn {
            let what = "the journal must be recovered first; mount with scheme=jbd2, or run e2fsck";
            return Err(FsError::incompatible(what));
        }
        return Ok(None);
    }
    let sane = options.scheme.map_or(Ok(()), |s| s.check_bug());
    sane.map_err(FsError::options)?;
    if let Some(scheme) = options.scheme.as_ref().filter(|_| !options.read_only) {
        let fits = scheme.check(queue.caps());
        fits.map_err(FsError::options)?;
    }
    let external = has_external_log(sb);
    if let Some(scheme) = options.scheme.filter(|_| external && !options.read_only) {
        scheme.check_apart().map_err(FsError::options)?;
    }
    let opened = match log_queue.filter(|_| external) {
        Some(log_queue) => open_external((queue, log_queue), sb, options, dirty || torn)?,
        None if external && (dirty || torn || !options.read_only) => {
            return Err(log_missing(sb, dirty || torn));
        }
        None if external => return Ok(None),
        None => journal::open(queue.clone(), journal_place(queue, sb)?).map_err(fault::journal)?,
    };
    Ok(Some(opened))
}

/// Opens the log on a device of its own. `waits` is true if the volume says that it may need
/// recovery.
fn open_external(
    (queue, log_queue): (&Arc<Queue>, &Arc<Queue>),
    sb: &Superblock,
    options: &MountOptions,
    waits: bool,
) -> FsResult<Opened> {
    let place = external_place(log_queue, sb)?;
    if !options.read_only {
        check_user(log_queue, &place, sb)?;
    }
    let opened = journal::open_on(queue.clone(), log_queue.clone(), place);
    match opened.map_err(fault::journal)? {
        Opened::NeedsRecovery(_) if !waits => Err(FsError::incompatible(
            "the volume was unmounted, and its external journal holds transactions: the two are of different times (a copy of one that was put \
             back?). Find the right ones; or, if the volume is as you want it, make the journal anew: mke2fs -O journal_dev on its device, and \
             on the volume tune2fs -f -O ^has_journal, then tune2fs -J device=",
        )),
        opened => Ok(opened),
    }
}

/// The error for a volume whose external journal was not named.
fn log_missing(sb: &Superblock, waits: bool) -> FsError {
    let uuid = hex(&sb.journal_uuid());
    let named = "name it (`journal=` of a mount, `varve recover --journal`)";
    FsError::incompatible(match waits {
        true => format!(
            "the journal must be recovered first, and lies on the device with the UUID {uuid}; {named}. If it is lost, so is what \
             was synced last: debugfs -w -R 'feature -needs_recovery -has_journal', then tune2fs -j, then e2fsck -fy"
        ),
        false => format!(
            "the journal lies on the device with the UUID {uuid}; {named}, or mount read-only (option `ro`). If it is lost: tune2fs -f -O \
             ^has_journal, then tune2fs -j or -J device="
        ),
    })
}

fn start_journal(
    queue: &Arc<Queue>,
    log: Option<CleanLog>,
    sb: &Superblock,
    options: &MountOptions,
) -> FsResult<Arc<Journal>> {
    let block_size = block_size(sb)?;
    let mut settings = journal::Options {
        scheme: options.scheme,
        cache_blocks: options.cache_bytes / block_size.bytes(),
        commit_interval: options.commit_interval,
        writeback_expire: options.writeback_expire,
        writeback_interval: options.writeback_interval,
        features_64bit: sb.incompat().has(Incompat::WIDE_BLOCKS),
        checksum_v3: sb.has_metadata_checksums(),
        block_size,
        commit_by_caller: options.commit_by_caller,
    };
    match log {
        Some(log) if !options.read_only => {
            if let Some(scheme) = &options.scheme {
                log.check_credits(scheme, credits_needed(sb, options))
                    .map_err(fault::journal)?;
            }
            log.start(settings).map_err(fault::journal)
        }
        _ => {
            settings.scheme = None;
            if options.read_only {
                // Nothing becomes dirty on a read-only mount, so no task has anything to do.
                settings.writeback_expire = None;
            }
            Journal::without_log(queue.clone(), settings).map_err(fault::journal)
        }
    }
}

/// Blocks that the largest handle may change. A log that cannot hold them is refused at mount, not
/// in the middle of some operation.
fn credits_needed(sb: &Superblock, options: &MountOptions) -> u32 {
    let largest = crate::namei::largest_credits(crate::dirio::index_levels_max(sb));
    match options.data {
        DataMode::Journal => crate::file::JOURNALED_CREDITS.max(largest),
        DataMode::Ordered | DataMode::Writeback => largest,
    }
}

#[cfg(test)]
mod tests;
