//! Opening a log, and recovery in three passes: SCAN, REVOKE, REPLAY.
//!
//! A superblock that was only read is not a log that can be used: [`open`] answers
//! [`Opened::Clean`] or [`Opened::NeedsRecovery`], and only a [`CleanLog`] starts a journal.
//!
//! Damage: a torn end of the log is what a cut leaves, and ends the log silently; damage before a
//! commit block that counts is refused with an error, and nothing is written (the case table in
//! `cases.rs` decides). An image whose checksum is wrong, and a coalition log whose deltas do not
//! lead to the blocks that they foretell, are refused in the same way, before anything is written
//! home (images that a REMAP brings home from a log without checksums are not read). A mount may
//! also look at the result of recovery and refuse it before the first write (`foresee.rs`).

mod cases;
mod content;
mod fast;
mod foresee;
mod insure;
mod parts;
mod reader;
mod replay;
mod repoint;
pub(crate) mod scan;

use crate::fast::Area;
use crate::inner::Log;
use crate::log_super::LogSuper;
use crate::ring::Ring;
use crate::space::{Limits, RING_MIN};
use crate::{FastBug, Journal, JournalError, LogPlace, Options, Scheme};
use base::{Nanos, Tid, Time};
use block::Queue;
pub use fast::FastArea;
pub use foresee::Foreseen;
use rt::Mutex;
use std::sync::Arc;

/// The answer of [`open`]: a log whose superblock is right, and whether it must be recovered.
pub enum Opened {
    /// Nothing to replay.
    Clean(CleanLog),
    /// The last user did not stop it.
    NeedsRecovery(DirtyLog),
}

/// A log with nothing to replay.
pub struct CleanLog {
    queue: Arc<Queue>,
    /// Where the log lies: `queue`, or a device of its own.
    log_queue: Arc<Queue>,
    log: LogSuper,
}

/// A log that has to be recovered before anything of the file system is read.
pub struct DirtyLog {
    queue: Arc<Queue>,
    /// Where the log lies: `queue`, or a device of its own.
    log_queue: Arc<Queue>,
    log: LogSuper,
}

/// What a recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Transactions replayed.
    pub transactions: u64,
    /// Of these transactions, those recorded as coalition.
    pub coalitions: u64,
    /// Parts of these coalitions.
    pub coalition_parts: u64,
    /// The oldest transaction that the log could hold.
    pub first: Tid,
    /// The first transaction that was not replayed.
    pub end: Tid,
    /// Blocks brought home, by writing or REMAP.
    pub blocks_replayed: u64,
    /// Of these blocks, those brought home by REMAP.
    pub blocks_remapped: u64,
    /// REMAP commands for these blocks.
    pub remap_commands: u64,
    /// Blocks that needed nothing because their image was moved home before the cut
    /// (`home=remap-move`).
    pub blocks_moved: u64,
    /// Home blocks that had to be read because the log has only changed bytes of them.
    pub home_reads: u64,
    /// Read commands for these blocks.
    pub home_read_commands: u64,
    /// Blocks known by deltas only whose full image was logged first, because a home write on this
    /// device may be torn.
    pub blocks_insured: u64,
    /// Fast commits that were replayed behind the full ones.
    pub fast_commits: u64,
    /// Images and deltas skipped because their block was revoked.
    pub images_revoked: u64,
    /// Revoke records read.
    pub revoke_records: u64,
    /// The commit record of this transaction is damaged: it was being written when the power
    /// failed, or the medium is bad.
    pub failed_commit: Option<Tid>,
    /// The end of the log was recognised by blocks of an older life.
    pub stale_end: bool,
    /// Cases of the table that the scan met, by letter.
    pub cases: String,
    /// Where the time went.
    pub spans: RecoverySpans,
}

/// The time of a recovery by its steps, which follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoverySpans {
    /// Reading and judging the log.
    pub scan: Nanos,
    /// Reading images out of the log.
    pub images: Nanos,
    /// Reading homes of blocks that the log knows by deltas only.
    pub homes: Nanos,
    /// Logging full images on a device that may tear home writes.
    pub insure: Nanos,
    /// Writing home, with the flush of the log before it (journal-replay-P7) and that of the homes
    /// behind it.
    pub write: Nanos,
    /// Marking the log clean.
    pub clean: Nanos,
}

impl RecoverySpans {
    /// All steps by name, in their order.
    pub fn each(&self) -> [(&'static str, Nanos); 6] {
        [
            ("scan", self.scan),
            ("images", self.images),
            ("homes", self.homes),
            ("insure", self.insure),
            ("write", self.write),
            ("clean", self.clean),
        ]
    }
}

/// Reads the superblock of a log and tells whether it needs recovery.
///
/// # Errors
/// The device fails, the superblock is damaged or does not fit its place, or the log has features
/// unknown here.
pub fn open(queue: Arc<Queue>, place: LogPlace) -> Result<Opened, JournalError> {
    open_on(queue.clone(), queue, place)
}

/// As [`open`], for a log on a device of its own, `log_queue` (`devices.rs`).
///
/// # Errors
/// As [`open`].
pub fn open_on(
    queue: Arc<Queue>,
    log_queue: Arc<Queue>,
    place: LogPlace,
) -> Result<Opened, JournalError> {
    let device_blocks = queue.caps().sectors / place.block_size().sectors();
    if place.fs_blocks() > device_blocks {
        let fs = place.fs_blocks();
        return Err(JournalError::Corrupt(format!(
            "the file system claims {fs} blocks, the device has {device_blocks}"
        )));
    }
    // devices-L1: where log and homes are on one device, one queue counts the writes of both.
    let log_queue = match place.is_external() {
        true => log_queue,
        false => queue.clone(),
    };
    let log = LogSuper::read(&log_queue, place)?;
    Ok(match log.sb.is_clean() {
        true => Opened::Clean(CleanLog::of(queue, log_queue, log)),
        false => Opened::NeedsRecovery(DirtyLog {
            queue,
            log_queue,
            log,
        }),
    })
}

impl DirtyLog {
    /// Error that ended the previous life of the journal (`s_errno`): 0 or a negative errno.
    pub fn errno(&self) -> i32 {
        self.log.sb.errno()
    }

    /// Replays the log and marks it clean. May be cut and repeated at any point.
    ///
    /// # Errors
    /// The device fails; or a committed transaction is damaged, or names blocks that no file system
    /// has, or the log holds fast commits: then nothing has been written.
    pub fn recover(self) -> Result<(CleanLog, RecoveryReport), JournalError> {
        self.recover_for(None)
    }

    /// As [`DirtyLog::recover`], for a journal that will run with this scheme: with `home=remap` on
    /// a device that has REMAP, homes are pointed at the log instead of written (JFTL, 3.2).
    ///
    /// # Errors
    /// As [`DirtyLog::recover`].
    pub fn recover_for(
        self,
        scheme: Option<&Scheme>,
    ) -> Result<(CleanLog, RecoveryReport), JournalError> {
        self.foresee(scheme)?.carry_out()
    }

    #[cfg(test)]
    pub(crate) fn recover_with(
        self,
        scheme: Option<&Scheme>,
        revoke_pass: fn(&[scan::Logged]) -> std::collections::BTreeMap<base::BlockNo, Tid>,
    ) -> Result<(CleanLog, RecoveryReport), JournalError> {
        self.foresee_with(scheme, revoke_pass)?.carry_out()
    }
}

/// Time from step to step.
struct Stopwatch(Time);

impl Stopwatch {
    fn start() -> Stopwatch {
        Stopwatch(rt::now())
    }
    /// Since the last call.
    fn lap(&mut self) -> Nanos {
        let now = rt::now();
        now - std::mem::replace(&mut self.0, now)
    }
}

/// journal-replay-P4: where a home write may be torn, blocks that the log knows by deltas only get
/// a full image in the log first. Answers the number of these blocks; refuses where the log has no
/// room for them.
fn insure_room(
    replay: &replay::Replay,
    log: &LogSuper,
    scanned: &scan::Scanned,
    targets: &[replay::Target],
) -> Result<u64, JournalError> {
    let count = targets.iter().filter(|t| t.needs_home()).count();
    if replay.home_is_safe() || count == 0 {
        return Ok(0);
    }
    insure::check_room(log, scanned, count)?;
    Ok(count as u64)
}

impl RecoveryReport {
    fn of_scan(first: Tid, scanned: &scan::Scanned) -> RecoveryReport {
        let revokes = |t: &scan::Logged| t.revokes.len() as u64;
        RecoveryReport {
            transactions: scanned.transactions.len() as u64,
            coalitions: scanned.coalitions,
            coalition_parts: scanned.parts,
            first,
            end: scanned.end,
            revoke_records: scanned.transactions.iter().map(revokes).sum(),
            failed_commit: scanned.failed_commit,
            stale_end: scanned.stale,
            cases: scanned.cases.iter().collect(),
            ..RecoveryReport::default()
        }
    }
}

impl CleanLog {
    fn of(queue: Arc<Queue>, log_queue: Arc<Queue>, log: LogSuper) -> CleanLog {
        CleanLog {
            queue,
            log_queue,
            log,
        }
    }

    /// Error that ended the previous life of the journal (`s_errno`): 0 or a negative errno. It
    /// stays until a journal is stopped whole (devices-L9).
    pub fn errno(&self) -> i32 {
        self.log.sb.errno()
    }

    /// Flushes the device of the log: that the log is empty was read, and may be true only in the
    /// cache of that device (devices-L7). The caller flushes the device of homes.
    ///
    /// # Errors
    /// The device fails.
    pub fn make_durable(&self) -> Result<(), JournalError> {
        match self.log.place.is_external() {
            true => Ok(self.log_queue.flush()?),
            false => Ok(()),
        }
    }

    /// The number of the next transaction.
    pub fn next_tid(&self) -> Tid {
        self.log.sb.sequence()
    }

    /// Refuses a log that is too small for handles of so many credits.
    ///
    /// # Errors
    /// The message names the smallest log that would do.
    pub fn check_credits(&self, scheme: &Scheme, credits: u32) -> Result<(), JournalError> {
        check_credits(&self.log, scheme, credits)
    }

    /// Starts a journal and its tasks. Nothing is written before the first commit.
    ///
    /// # Errors
    /// The preset has no log, or [`JournalError::NoThread`].
    pub fn start(self, options: Options) -> Result<Arc<Journal>, JournalError> {
        Journal::run(self.prepare(options)?)
    }

    pub(crate) fn prepare(self, options: Options) -> Result<crate::inner::Inner, JournalError> {
        let Some(scheme) = options.scheme else {
            let why = "preset none has no log; use Journal::without_log";
            return Err(JournalError::misuse(why));
        };
        scheme
            .check(self.queue.caps())
            .and_then(|()| scheme.check_bug())
            .map_err(JournalError::Incompatible)?;
        if self.log.place.is_external() {
            scheme.check_apart().map_err(JournalError::Incompatible)?;
        }
        let CleanLog {
            queue,
            log_queue,
            mut log,
        } = self;
        // Neither Linux nor e2fsck accepts the feature in a smaller log.
        let fast = scheme.is_fast() && log.has_room_for_fast_commits();
        log.set_features(options.features_64bit, options.checksum_v3, fast);
        let format = log.sb.format();
        let ring = Ring::new(log.sb.first(), log.sb.log_end());
        let limits = Limits::new(&format, ring.len(), scheme.record);
        let area = Area::of(&log.sb, scheme.writes_with(FastBug::FullArea)).filter(|_| fast);
        let (tid, place) = (log.sb.sequence(), log.place.clone());
        let superblock = Mutex::named("journal superblock", log);
        let log = Log {
            format,
            limits,
            area,
            queue: log_queue,
            place,
            superblock,
        };
        Ok(Journal::inner(queue, Some(log), Some(ring), tid, options))
    }
}

fn check_credits(log: &LogSuper, scheme: &Scheme, credits: u32) -> Result<(), JournalError> {
    let sb = &log.sb;
    let ring = log.ring_len(scheme.is_fast() && log.has_room_for_fast_commits());
    let limits = Limits::new(&sb.format(), ring.max(RING_MIN), scheme.record);
    if credits <= limits.credits_max() {
        return Ok(());
    }
    let blocks = sb.blocks_count();
    let least = limits.ring_for(credits) + (blocks - ring);
    Err(JournalError::Incompatible(format!(
        "the log has {blocks} blocks, so that a transaction may change {} at most, and one operation may need {credits}; make a \
             journal of at least {least} blocks (tune2fs -O ^has_journal, then tune2fs -J size=4)",
        limits.credits_max()
    )))
}
