//! Apply: the state after some committed epoch T becomes the one that a mount finds, while
//! operations and commits go on.
//!
//! There are two states in memory. *Live* is what operations see and change. *Home* is what the
//! newest durable pack says (applied epoch AP): the NAT without its live changes, the maps of valid
//! blocks in the SIT, the orphans, the counts. An apply computes home' = home after the records of
//! epochs AP+1..=T ([`fold`]), writes the blocks that differ out of place ([`images`],
//! [`write`](self::write)), then a pack that names them and T, and finally lets the live state take
//! over the new places ([`publish`]). The work of an apply grows with what changed, not with the
//! size of the volume.
//!
//! The order: directory blocks; nodes (whose slots name the new directory blocks); all these writes
//! complete; NAT and SIT blocks into their other copies, summaries, and the pack except for its
//! last block; these writes complete; a flush; the last block, non-volatile; then the tables in
//! memory.
//!
//! A cut at any moment leaves the state after AP or after T, and the live state is never wrong,
//! because:
//! - A1 (f2fs-journal-I2, f2fs-journal-I3) an image is the state after T of its node or page and of
//!   nothing else. If no epoch behind T has touched it (`ll <= T`, checked under the lock under
//!   which a change and its `ll` are made, together with the copy), the live bytes are that state,
//!   whatever happened up to T (fast-forward). Otherwise the image is the block at home, or zeros
//!   if it was created since, with the records up to T redone. Test builds do both and compare;
//! - A2 (f2fs-journal-I3) NAT, SIT, orphans and counts of the pack come from home and the records
//!   up to T, and from the places that the apply itself gave out. Only these come from the live
//!   state: the positions of the logs (home-V10), owners in summaries (home-V11), ages, hints;
//! - A3 the block that a removed node or directory page had at home is looked up at home, never in
//!   a record and never in the live state: the live state may name another place by now (an apply
//!   moves nodes and directory blocks, and nothing else does);
//! - A4 (f2fs-journal-I6) nothing is overwritten that the last durable pack or a record behind it
//!   refers to: new places come from the live table, which holds back every block that is valid in
//!   the live state or at home, or was freed in an epoch that is not applied; NAT, SIT and pack go
//!   to their other copies;
//! - A5 the last block of the pack is sent when the writes of all the others have completed and a
//!   flush has begun and ended since (f2fs-checkpoint-C2, f2fs-checkpoint-C4). A cut before that
//!   leaves the old pack with AP, and the ring still has AP+1 and everything behind it; what the
//!   apply wrote lies in blocks that are free there. A cut after it leaves T, by the same block
//!   that names T: state and mark become durable in one write;
//! - A6 (f2fs-journal-I6, f2fs-journal-I8) only after A5 are the blocks released that epochs up to
//!   T freed or the apply replaced, and only then does the tail of the ring move. Released are the
//!   blocks that home had, or an epoch up to T took, and that home' does not have. Each is released
//!   once, by this rule alone, because a second release would hit the next owner of the block;
//! - A7 the live state takes over the new place of a node or directory page if that node or page
//!   was not removed and created again meanwhile: that is, its live place is the one that home had,
//!   or it has none and was created up to T. Otherwise the live state gives the new place up at
//!   once: the block stays held, as home' has it, until the epoch that freed it is applied. Before
//!   and after the take-over both places hold what a reader may expect, because the old one is held
//!   until A6;
//! - A8 (f2fs-journal-I9) a node or page becomes clean only when the pack is durable and the live
//!   state names the new place, and only if `ll <= T` then;
//! - A9 after a failed write the mount is latched, and no further pack is written
//!   (f2fs-checkpoint-C7).
//!
//! When everything is applied and no operation changes anything, home and live are equal
//! ([`F2fs::assert_home_is_live`]).

pub(super) mod fold;
pub(super) mod images;
mod publish;
mod rewrite;
mod stamps;
mod stats;
mod task;
#[cfg(test)]
mod tests;
mod write;

use fold::Fold;
use images::Images;
use publish::add_phase;
pub(crate) use rewrite::Rewrite;
pub(crate) use stamps::DirStamps;
pub use stats::{ApplyPhase, ApplyStats};

use super::{CommitReason, Committed, Epoch, Journal, OwnedGroup};
use crate::F2fs;
use crate::checkpoint;
use crate::ops::Cause;
use base::{Nanos, Time};
use fscore::FsResult;
use rt::{Mutex, MutexGuard};
use std::sync::Arc;

/// One apply at a time, and what they did.
pub(crate) struct Applier {
    one: Mutex<()>,
    stats: Mutex<ApplyStats>,
}

impl Applier {
    /// Keeps applies out while the guard is held: during an apply two places of a node are valid,
    /// until the new one is published (A6, A7).
    pub fn pause(&self) -> MutexGuard<'_, ()> {
        self.one.lock()
    }

    /// Nothing was applied yet.
    pub fn new() -> Applier {
        Applier {
            one: Mutex::named("f2fs apply", ()),
            stats: Mutex::named("f2fs apply figures", ApplyStats::default()),
        }
    }
}

/// Measures phases.
struct Clock {
    begun: Time,
    since: Time,
    spans: Vec<(ApplyPhase, Nanos)>,
    /// Of the pack.
    pack: checkpoint::Clock,
}

impl Clock {
    fn start() -> Clock {
        let now = rt::now();
        Clock {
            begun: now,
            since: now,
            spans: Vec::with_capacity(ApplyPhase::ALL.len()),
            pack: checkpoint::Clock::start(),
        }
    }
    fn end_of(&mut self, phase: ApplyPhase) {
        let now = rt::now();
        self.spans.push((phase, now - self.since));
        self.since = now;
    }
    fn begin_pack(&mut self) {
        self.pack = checkpoint::Clock::start();
    }
    fn end_of_pack(&mut self) {
        self.end_of(ApplyPhase::Pack);
    }
}

impl F2fs {
    /// Applies all committed epochs. It waits for no commit, so a commit may wait for it. The
    /// caller holds no lock.
    ///
    /// # Errors
    /// I/O, damage: then the mount is latched (A9).
    pub(crate) fn apply(&self, cause: Cause) -> FsResult<()> {
        match &self.journal {
            Some(journal) => self.apply_target(journal, cause, || journal.last_committed()),
            None => Ok(()),
        }
    }

    /// Commits `epoch`, the one behind the last committed: `keep` adds it to the committed ones,
    /// and the pack that contains it is its commit block (f2fs-commit-K8). The caller leads, the
    /// epoch is drained, its data durable. An earlier apply chose its target before that, and no
    /// other task sees the epoch until the pack is durable or the mount latched.
    ///
    /// # Errors
    /// As [`apply`](Self::apply): it may be durable or not.
    pub(super) fn apply_as_commit(
        &self,
        journal: &Journal,
        epoch: Epoch,
        keep: impl FnOnce(),
    ) -> FsResult<()> {
        self.apply_target(journal, Cause::Ring, || {
            keep();
            epoch
        })
    }

    /// Applies what is committed up to the target, which is chosen once no other apply runs.
    fn apply_target(
        &self,
        journal: &Journal,
        cause: Cause,
        target: impl FnOnce() -> Epoch,
    ) -> FsResult<()> {
        let applied = {
            let _one = journal.applier.one.lock();
            self.check_writable()?;
            let target = target();
            let applied = self.apply_upto(journal, target, cause);
            if let Err(e) = &applied {
                self.fail(e);
            }
            applied
        };
        applied?;
        self.discard_soon();
        Ok(())
    }

    /// Commits everything that was logged before the call, and applies it: what a checkpoint is
    /// without a journal.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub(crate) fn apply_all(&self, cause: Cause) -> FsResult<()> {
        self.commit_all(CommitReason::Settle)?;
        self.apply(cause)
    }

    /// With a journal: commits what was logged before the call, and writes it home. Without one: a
    /// checkpoint.
    ///
    /// # Errors
    /// As `sync`.
    pub fn write_home_now(&self) -> FsResult<()> {
        self.checkpoint(Cause::Sync)
    }

    /// With a journal: checks that home agrees with live. For tests, when everything is applied and
    /// no operation changes anything.
    ///
    /// # Panics
    /// f2fs-journal-I3: if they differ.
    pub fn check_home(&self) {
        if self.journal.is_some() {
            self.assert_home_is_live();
        }
    }

    /// True if a pack has something to say that the last one did not.
    fn has_to_apply(&self, journal: &Journal, epochs: &[Arc<Committed>], cause: Cause) -> bool {
        !epochs.is_empty()
            || journal.rewrite.blocks() > 0
            || self.cp.is_forced()
            || cause == Cause::Umount && !self.cp.is_marked_unmounted()
    }

    /// The applier's lock is held.
    fn apply_upto(&self, journal: &Journal, target: Epoch, cause: Cause) -> FsResult<()> {
        let epochs = journal.committed_upto(target);
        if !self.has_to_apply(journal, &epochs, cause) {
            journal.applier.stats.lock().unnecessary += 1;
            return Ok(());
        }
        let mut clock = Clock::start();
        let mut stats = ApplyStats::default();
        let mut fold = Fold::new(self.geo);
        let mut usage = self.cp.usage();
        for epoch in &epochs {
            fold.add(epoch.epoch, &epoch.groups, |seg| self.segs.home_map(seg))?;
            usage = epoch.usage;
        }
        self.add_rewrites(journal, &mut fold)?;
        stats.epochs = epochs.len() as u64;
        stats.records = fold.records;
        clock.end_of(ApplyPhase::Fold);
        let fast = journal.options.ideas.fast_forward;
        let mut images = Images::new(self, target, fold, fast);
        images.read_ahead()?;
        clock.end_of(ApplyPhase::Read);
        let written = self.write_home(&mut images, target)?;
        clock.end_of(ApplyPhase::Write);
        clock.begin_pack();
        stats.fast_forwarded = images.modes.fast_forward;
        stats.patched = images.modes.patched;
        stats.records_saved = images.modes.saved;
        stats.skipped = written.dead;
        stats.node_blocks = written.moved.len() as u64;
        stats.dentry_blocks = written.dentries;
        let goal = publish::Goal {
            cause,
            target,
            usage,
        };
        let durable =
            self.write_home_pack(journal, goal, &images, &written, &mut clock, &mut stats)?;
        self.publish_home(journal, target, durable, images, &written, &mut stats)?;
        clock.end_of(ApplyPhase::Publish);
        journal.applier.account(cause, stats, &clock);
        Ok(())
    }

    /// Runs `work` on the state after `epoch`, which logged `groups` and is the one behind the last
    /// committed: home with the changes of all epochs up to it. No apply runs meanwhile. The caller
    /// leads.
    ///
    /// # Errors
    /// I/O, damage.
    pub(super) fn with_state_after<R>(
        &self,
        journal: &Journal,
        epoch: Epoch,
        groups: &[OwnedGroup],
        work: impl FnOnce(&mut Images<'_, '_>) -> FsResult<R>,
    ) -> FsResult<R> {
        let _one = journal.applier.one.lock();
        let before = journal.committed_upto(Epoch(epoch.0 - 1));
        let mut fold = Fold::new(self.geo);
        for of in &before {
            fold.add(of.epoch, &of.groups, |seg| self.segs.home_map(seg))?;
        }
        fold.add(epoch, groups, |seg| self.segs.home_map(seg))?;
        work(&mut Images::new(self, epoch, fold, true))
    }

    /// Adds the blocks that cleaning wants to have moved. Each is read into memory, and stays there
    /// until it has moved, so that its old place is not read meanwhile.
    fn add_rewrites(&self, journal: &Journal, fold: &mut Fold<'_>) -> FsResult<()> {
        let wanted = journal.rewrite.take();
        for nid in wanted.nodes {
            if self.nat.get(nid)?.addr.is_data() {
                self.keep_node(nid)?;
            }
            fold.touch(nid);
        }
        for (dir, page) in wanted.pages {
            if let Ok(page) = u32::try_from(page) {
                fold.touch_page(dir, page);
            }
        }
        Ok(())
    }

    /// What applies did and cost since the mount.
    pub fn applies(&self) -> ApplyStats {
        let journal = self.journal.as_ref();
        journal.map_or_else(ApplyStats::default, |j| j.applier.stats.lock().clone())
    }
}

impl Applier {
    fn account(&self, cause: Cause, of: ApplyStats, clock: &Clock) {
        let mut stats = self.stats.lock();
        *stats.by_cause.entry(cause).or_default() += 1;
        stats.epochs += of.epochs;
        stats.records += of.records;
        stats.fast_forwarded += of.fast_forwarded;
        stats.patched += of.patched;
        stats.skipped += of.skipped;
        stats.records_saved += of.records_saved;
        stats.node_blocks += of.node_blocks;
        stats.dentry_blocks += of.dentry_blocks;
        stats.nat_blocks += of.nat_blocks;
        stats.sit_blocks += of.sit_blocks;
        stats.ssa_blocks += of.ssa_blocks;
        stats.overtaken += of.overtaken;
        stats.released += of.released;
        for &(phase, span) in &clock.spans {
            add_phase(&mut stats, phase, span);
        }
        stats.longest = stats.longest.max(rt::now() - clock.begun);
    }
}
