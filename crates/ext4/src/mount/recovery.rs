//! Recovery, with a mount behind it and without one.

use super::{Ext4, SUPERBLOCK_AT};
use super::{check_features, credits_needed, find_log, read_head, usable_superblock};
use crate::fault;
use crate::options::MountOptions;
use crate::superblock::write_in_place;
use block::Queue;
use fscore::{FsError, FsResult};
use journal::{CleanLog, DirtyLog, Foreseen, Opened, RecoveryReport};
use ondisk::ext4 as disk;
use ondisk::ext4::{Incompat, State, Superblock};
use std::sync::Arc;

impl Ext4 {
    /// Carries the log of a volume home without mounting it, for one that no mount takes (ext4-mount-M5): then e2fsck finds what it
    /// would have found behind its own replay, and the volume says that it has errors. `None` if the log waits for no recovery. `log_queue`: the
    /// device of an external journal. Of the options `scheme` counts; orphans stay.
    ///
    /// # Errors
    /// As of [`Ext4::mount_with_journal`] for features that cannot even be read, for a log that is missing, and for one that is damaged: then nothing
    /// has been written. Of the device.
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
}

/// The superblock says that the log is empty, and e2fsck is wanted; one that the log has made unreadable stays as it is, and one whose features
/// are unknown.
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

/// All that recovery will write, fast commits included.
fn foresee(log: DirtyLog, options: &MountOptions) -> FsResult<Foreseen> {
    let ahead = log.foresee(options.scheme.as_ref());
    let mut ahead = ahead.map_err(fault::journal)?;
    foresee_fast_commits(&mut ahead, options)?;
    Ok(ahead)
}

/// What Linux has left behind the full commits: where it leads becomes part of what is foreseen.
fn foresee_fast_commits(ahead: &mut Foreseen, options: &MountOptions) -> FsResult<()> {
    let Some(area) = ahead.fast_commits() else {
        return Ok(());
    };
    let found = disk::FastCommits::parse(area.bytes, area.block_bytes, area.tid);
    let found = found.map_err(|e| FsError::incompatible(format!("{e}; run e2fsck -f")))?;
    let queue = ahead.queue();
    let (sb, _) = usable_superblock((&queue, None), options)?;
    let images = crate::fast_commit::replay(&queue, &sb, options, found.tags)?;
    ahead.add(images, found.commits).map_err(fault::journal)
}

/// Mounts what the recovery will leave, as far as a mount changes nothing.
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
