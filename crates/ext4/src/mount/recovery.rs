//! Recovery of the log, both as a step of a mount and without one.

use super::{Ext4, SUPERBLOCK_AT};
use super::{check_features, credits_needed, find_log, read_head, usable_superblock};
use crate::fast_commit::Ending;
use crate::fault;
use crate::options::MountOptions;
use crate::superblock::write_in_place;
use block::Queue;
use fscore::{FsError, FsResult};
use journal::{CleanLog, DirtyLog, FastBug, Foreseen, Opened, RecoveryReport};
use ondisk::ext4 as disk;
use ondisk::ext4::{Incompat, State, Superblock};
use std::sync::Arc;

impl Ext4 {
    /// Carries the log of a volume home without mounting the volume, for a volume that cannot be
    /// mounted (ext4-mount-M5): e2fsck then finds what it would have found after its own replay,
    /// and the superblock says that the volume has errors. Answers `None` if the log does not wait
    /// for recovery. `log_queue` is the device of an external journal. Of the options only `scheme`
    /// counts; orphans stay.
    ///
    /// # Errors
    /// As [`Ext4::mount_with_journal`] for features that cannot even be read, for a missing log and
    /// for a damaged one; nothing has been written then. Errors of the device.
    pub fn recover_log(
        queue: Arc<Queue>,
        log_queue: Option<Arc<Queue>>,
        mut options: MountOptions,
    ) -> FsResult<Option<RecoveryReport>> {
        options.read_only = true;
        let queues = (&queue, log_queue.as_ref());
        let (sb, torn) = usable_superblock(queues, &options)?;
        let Some(Opened::NeedsRecovery(log)) = find_log(queues, &sb, &options, torn)? else {
            return Ok(None);
        };
        let (_, report) = foresee(log, &options)?
            .carry_out()
            .map_err(fault::journal)?;
        settle(&queue, &options)?;
        Ok(Some(report))
    }

    /// Settles a read-only mount: recovery has emptied the log, and nothing will be written to it.
    pub(super) fn settle_read_only(&self, recovered: bool) -> FsResult<()> {
        if !recovered {
            return Ok(());
        }
        let mut sb = self.sb.lock();
        let features = sb.incompat().without(Incompat::RECOVER);
        sb.set_incompat(features);
        // RECOVER is cleared, so nothing would tell any more that the totals are only those of the
        // last unmount.
        self.count_into(&mut sb);
        write_in_place(&self.queue, &mut sb)
    }
}

/// Makes the superblock say that the log is empty and that e2fsck is wanted. A superblock that
/// recovery made unreadable, or one with unknown features, stays as it is.
fn settle(queue: &Arc<Queue>, options: &MountOptions) -> FsResult<()> {
    let block = read_head(queue)?;
    let Ok(mut sb) = Superblock::parse(&block[SUPERBLOCK_AT..]) else {
        return Ok(());
    };
    if check_features(&sb, options).is_err() {
        return Ok(());
    }
    sb.set_incompat(sb.incompat().without(Incompat::RECOVER));
    sb.set_state(sb.state() | State::ERRORS);
    write_in_place(queue, &mut sb)
}

/// Recovers the log of a volume that will be mounted (ext4-mount-M4).
pub(super) fn recover(
    log: DirtyLog,
    options: &MountOptions,
) -> FsResult<(CleanLog, RecoveryReport)> {
    let ahead = foresee(log, options)?;
    rehearse(&ahead, options)?;
    ahead.carry_out().map_err(fault::journal)
}

/// Computes all that recovery will write, fast commits included.
fn foresee(log: DirtyLog, options: &MountOptions) -> FsResult<Foreseen> {
    let ahead = log.foresee(options.scheme.as_ref());
    let mut ahead = ahead.map_err(fault::journal)?;
    foresee_fast_commits(&mut ahead, options)?;
    Ok(ahead)
}

/// Adds to the foreseen state what the fast commits of Linux behind the full commits change.
fn foresee_fast_commits(ahead: &mut Foreseen, options: &MountOptions) -> FsResult<()> {
    let Some(area) = ahead.fast_commits() else {
        return Ok(());
    };
    let found = disk::FastCommits::parse(area.bytes, area.block_bytes, area.tid);
    let found = found.map_err(|e| FsError::incompatible(format!("{e}; run e2fsck -f")))?;
    let makes = |bug| options.scheme.is_some_and(|s| s.recovers_with(bug));
    if makes(FastBug::FullArea) && found.blocks * area.block_bytes == area.bytes.len() {
        let what = "the block behind the log is no fast commit (bug=full-area)";
        return Err(FsError::corrupt(what));
    }
    let queue = match makes(FastBug::UnseenCommit) {
        true => ahead.homes(),
        false => ahead.queue(),
    };
    let (sb, _) = usable_superblock((&queue, None), options)?;
    // cluster-C6.
    if sb.cluster_blocks() > 1 && !found.tags.is_empty() {
        let what = "fast commits that wait on a volume with clusters (bigalloc) are not replayed; \
                    mount it with Linux once, or run e2fsck";
        return Err(FsError::incompatible(what));
    }
    let replay = |tags, ending| crate::fast_commit::replay(&queue, &sb, options, (tags, ending));
    let (tags, commits) = match makes(FastBug::FullDirectory) {
        true => crate::fast_commit::with_room(&queue, &sb, options, &found)?,
        false => (found.tags, found.commits),
    };
    let images = replay(tags.clone(), Ending::Freed)?;
    if ahead.add(images, commits).is_ok() {
        return Ok(());
    }
    // fast_commit-U5: the log has no room for that.
    let images = replay(tags, Ending::Orphan)?;
    ahead.add(images, commits).map_err(fault::journal)
}

/// Does the steps of a mount that change nothing, on the volume that recovery will leave.
fn rehearse(ahead: &Foreseen, options: &MountOptions) -> FsResult<()> {
    let queue = ahead.queue();
    let (sb, _) = usable_superblock((&queue, None), options)?;
    if let Some(scheme) = options.scheme.as_ref().filter(|_| !options.read_only) {
        let credits = credits_needed(&sb, options);
        ahead
            .check_credits(scheme, credits)
            .map_err(fault::journal)?;
    }
    let mut fs = Ext4::without_log(queue, sb, options.clone())?;
    let seen = fs.look().map(drop);
    fs.journal.discard();
    seen
}
