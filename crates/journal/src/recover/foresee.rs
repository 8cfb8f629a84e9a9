//! A recovery that has read and judged the whole log, and has written nothing yet, so that a mount
//! can look at the result first and refuse it.
//!
//! - B1: nothing is written before [`Foreseen::carry_out`]. A mount reads the volume through
//!   [`Foreseen::queue`] as the recovery will leave it, and may refuse it, for a feature that only
//!   the logged superblock has or a log that is too small: then log and homes stay as they were.
//! - B2: what is foreseen is what is written: both use the same targets, put together by the same
//!   code from the same log; both read images again that do not stay in memory (journal-replay-P5).
//! - B3: images of fast commits replace those of full commits, and whether the log has room for
//!   them (fast-Z1) is known before the first write.

use super::fast::{self, FastArea};
use super::replay::{Images, Replay, Target};
use super::repoint::Repoint;
use super::scan::{Logged, Scanned};
use super::{CleanLog, DirtyLog, RecoveryReport, RecoverySpans, Stopwatch, insure_room, scan};
use crate::log_super::LogSuper;
use crate::{JournalError, LogBlock, Scheme};
use base::{BlockNo, Bytes, Lba, Mutant, Tid};
use block::{DevError, Plan, Queue};
use rt::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A recovery that has been read and judged, and not begun (see the head of this file).
pub struct Foreseen {
    queue: Arc<Queue>,
    log_queue: Arc<Queue>,
    log: LogSuper,
    scanned: Scanned,
    /// Blocks that are insured first (journal-replay-P4).
    insured: u64,
    area: Option<Vec<u8>>,
    /// The full commits have to leave the log before the images of fast commits enter it (fast-Z3).
    afresh: bool,
    report: RecoveryReport,
    outlook: Arc<Outlook>,
}

/// What [`Foreseen::queue`] reads, until it is carried out.
struct Outlook(Mutex<Option<Sight>>);

struct Sight {
    replay: Replay,
    targets: Vec<Target>,
    repoint: Repoint,
    /// Of `targets`, ascending, if they are few enough.
    images: Option<Images>,
    fast: Option<(BTreeMap<BlockNo, Bytes>, u32)>,
}

impl Sight {
    fn content(&mut self, block: BlockNo) -> Result<Option<Bytes>, JournalError> {
        if let Some(image) = self.fast.as_ref().and_then(|(fast, _)| fast.get(&block)) {
            return Ok(Some(image.clone()));
        }
        let kept = self.images.as_ref().and_then(|images| {
            let at = images.binary_search_by_key(&block, |(home, _)| *home);
            at.ok().map(|at| images[at].1.clone())
        });
        if kept.is_some() {
            return Ok(kept);
        }
        let target = match self.targets.binary_search_by_key(&block, |t| t.home) {
            Ok(at) => &self.targets[at],
            Err(_) => match self.repoint.pointed(block) {
                Some(target) => target,
                None => return Ok(None),
            },
        };
        self.replay.image(target)
    }
}

impl Plan for Outlook {
    fn content(&self, block: BlockNo) -> Result<Option<Bytes>, DevError> {
        let mut sight = self.0.lock();
        let Some(sight) = &mut *sight else {
            let why = "B1: the recovery was carried out; there is nothing to foresee";
            return Err(DevError::misuse(None, why));
        };
        sight.content(block).map_err(|e| match e {
            JournalError::Device(e) => e,
            other => DevError::io(Lba(0), other.to_string()),
        })
    }
}

impl DirtyLog {
    /// Reads and judges all that a recovery for this scheme needs, and writes nothing (see
    /// [`DirtyLog::recover_for`]).
    ///
    /// # Errors
    /// The device fails; a committed transaction is damaged, or names blocks that no file system
    /// has; a cut during the recovery could not be repaired.
    pub fn foresee(self, scheme: Option<&Scheme>) -> Result<Foreseen, JournalError> {
        self.foresee_with(scheme, super::replay::revoke_table)
    }

    pub(crate) fn foresee_with(
        self,
        scheme: Option<&Scheme>,
        revoke_pass: fn(&[Logged]) -> BTreeMap<BlockNo, Tid>,
    ) -> Result<Foreseen, JournalError> {
        let DirtyLog {
            queue,
            log_queue,
            log,
        } = self;
        let mut step = Stopwatch::start();
        // A home can be pointed at a log block of its own device only.
        let mut repoint = Repoint::new(scheme.filter(|_| !log.place.is_external()), queue.caps());
        let (scanned, reader) = scan::scan(&log_queue, &log, repoint.reads_no_images(&log))?;
        let area = fast::area_of(&log_queue, &log, scanned.end)?;
        let revoked = repoint.revoked(revoke_pass(&scanned.transactions));
        let (mut targets, images_revoked) = super::replay::targets(&scanned.transactions, &revoked);
        let mut replay = Replay::new(&queue, &log, reader);
        let scan_took = step.lap();
        repoint.begin(&log, &mut targets, &mut replay);
        let images = replay.check(&mut targets)?;
        repoint.checked(&log, &mut targets);
        let insured = insure_room(&replay, &log, &scanned, &targets)?;
        let report = RecoveryReport {
            images_revoked,
            home_reads: replay.reads.blocks,
            home_read_commands: replay.reads.commands,
            blocks_insured: insured,
            blocks_replayed: targets.len() as u64 + repoint.pending(),
            blocks_moved: replay.moved(),
            spans: RecoverySpans {
                scan: scan_took,
                images: replay.reads.images_took,
                homes: replay.reads.homes_took,
                ..RecoverySpans::default()
            },
            ..RecoveryReport::of_scan(log.sb.sequence(), &scanned)
        };
        let sight = Sight {
            replay,
            targets,
            repoint,
            images,
            fast: None,
        };
        Ok(Foreseen {
            queue,
            log_queue,
            log,
            scanned,
            insured,
            area,
            afresh: false,
            report,
            outlook: Arc::new(Outlook(Mutex::named("recovery ahead", Some(sight)))),
        })
    }
}

impl Foreseen {
    /// The volume as the recovery will leave it (B2). It only reads, and no longer when the
    /// recovery is carried out.
    pub fn queue(&self) -> Arc<Queue> {
        let size = self.log.place.block_size();
        Queue::ahead(self.queue.clone(), size, self.outlook.clone())
    }

    /// The volume as it lies on the device, without what the recovery of full commits will bring
    /// home: what [`FastBug::UnseenCommit`](crate::FastBug::UnseenCommit) looks at.
    pub fn homes(&self) -> Arc<Queue> {
        self.queue.clone()
    }

    /// What Linux has left behind the full commits: the file system has to say what it leads to, by
    /// [`Foreseen::add`].
    pub fn fast_commits(&self) -> Option<FastArea<'_>> {
        let bytes = self.area.as_deref()?;
        Some(FastArea {
            bytes,
            block_bytes: self.log.place.block_size().bytes(),
            tid: self.scanned.end,
        })
    }

    /// Adds the blocks to which `commits` fast commits lead.
    ///
    /// # Errors
    /// The log has no room for the images, were it empty: then e2fsck has to replay it.
    pub fn add(&mut self, images: Images, commits: u32) -> Result<(), JournalError> {
        let behind = fast::check_room(&self.log, self.scanned.blocks_used, images.len());
        if behind.is_err() {
            fast::check_room(&self.log, 0, images.len())?;
            self.afresh = true;
        }
        let mut sight = self.outlook.0.lock();
        let sight = sight.as_mut().expect("B1: nothing is carried out yet");
        sight.fast = Some((images.into_iter().collect(), commits));
        Ok(())
    }

    /// Refuses a log that is too small for handles of so many credits, as
    /// [`CleanLog::check_credits`].
    ///
    /// # Errors
    /// The message names the smallest log that would do.
    pub fn check_credits(&self, scheme: &Scheme, credits: u32) -> Result<(), JournalError> {
        super::check_credits(&self.log, scheme, credits)
    }

    /// Brings everything home and marks the log clean. May be cut and repeated at any point.
    ///
    /// # Errors
    /// The device fails; or the log holds fast commits, and the caller has not said what they lead
    /// to: then nothing has been written.
    pub fn carry_out(self) -> Result<(CleanLog, RecoveryReport), JournalError> {
        let sight = self.outlook.0.lock().take();
        let sight = sight.expect("B1: it is carried out once");
        if self.area.is_some() && sight.fast.is_none() {
            return Err(unasked_fast_commits(self.scanned.end));
        }
        self.write(sight)
    }

    fn write(self, sight: Sight) -> Result<(CleanLog, RecoveryReport), JournalError> {
        let Foreseen {
            queue,
            log_queue,
            mut log,
            scanned,
            afresh,
            mut report,
            ..
        } = self;
        let Sight {
            mut replay,
            mut targets,
            mut repoint,
            images,
            fast,
        } = sight;
        let mut step = Stopwatch::start();
        let adds = fast.as_ref().is_some_and(|(images, _)| !images.is_empty());
        if !targets.is_empty() || repoint.pending() > 0 || adds {
            keep_log(&log_queue)?;
        }
        report.spans.write = step.lap();
        if self.insured > 0 {
            let images = replay.images_from_home(&targets)?;
            super::insure::insure(&log_queue, &log, &scanned, &images)?;
        }
        report.spans.insure = step.lap();
        // A transaction of ours has used the number of the torn one.
        let used = self.insured > 0 || fast.is_some();
        let torn = if used {
            scanned.end.next()
        } else {
            scanned.end
        };
        // One number is skipped, so that blocks of the torn transaction never look like those of
        // the next one (hazards-H7).
        let next = if rt::mutant(Mutant::ReuseTid) {
            torn
        } else {
            torn.next()
        };
        if rt::mutant(Mutant::CleanBeforeHome) {
            let mut early = LogSuper::read(&log_queue, log.place.clone())?;
            early.write(&log_queue, next, None::<LogBlock>)?;
        }
        let images = repoint.send(&queue, &log, (&mut targets, images), &replay)?;
        (report.blocks_remapped, report.remap_commands) = repoint.done();
        replay.write(&targets, images)?;
        if let Some((images, commits)) = fast {
            let images: Images = images.into_iter().collect();
            if afresh {
                fast::begin_behind(&log_queue, &mut log, &scanned)?;
            }
            fast::write((&queue, &log_queue), &log, &scanned, &images)?;
            report.fast_commits = commits.into();
            report.blocks_replayed += images.len() as u64;
        }
        report.spans.write += step.lap();
        log.write(&log_queue, next, None::<LogBlock>)?;
        report.spans.clean = step.lap();
        Ok((CleanLog::of(queue, log_queue, log), report))
    }
}

/// journal-replay-P7: what was read of the log may be in the cache of its device. Nothing of it
/// goes home before it is durable.
fn keep_log(log_queue: &Queue) -> Result<(), JournalError> {
    match rt::mutant(Mutant::ReplayUnflushedLog) {
        true => Ok(()),
        false => Ok(log_queue.flush()?),
    }
}

/// The error of a caller that did not ask for fast commits where the log holds some; nothing has
/// been written.
fn unasked_fast_commits(end: Tid) -> JournalError {
    JournalError::Incompatible(format!(
        "the log holds fast commits after transaction {}, which the file system has to replay",
        end.prev()
    ))
}
