//! Cleaning for operations that run out of free segments, and one section at a time for callers
//! that ask for it. Operations wait for the former, so it is bounded (gc-K5).

use super::moving::{Beside, Moved, Place};
use super::{GcStats, Policy, Standing, Work};
use crate::F2fs;
use crate::ops::{Cause, Freeze};
use base::Mutant;
use fscore::FsResult;
use ondisk::f2fs::BLOCKS_PER_SEG;

/// Rounds of one call in the foreground.
const ROUNDS_MAX: u32 = 64;
/// Rounds without gain after which a call gives up.
const STALLED_MAX: u32 = 3;
/// Sections that one freeze cleans at most.
pub(super) const BATCH_SECTIONS: u32 = 4;

impl F2fs {
    /// Called before an operation that changes anything, with no lock but gates (gc-K4): cleans in
    /// the foreground if free segments run out, writes a checkpoint if one is due.
    ///
    /// # Errors
    /// ENOSPC never: that is for the claim that fails. I/O, damage.
    pub(crate) fn balance(&self) -> FsResult<()> {
        self.ring_for_nids();
        if let Some(journal) = &self.journal {
            return self.balance_journal(journal);
        }
        if self.is_low() && !self.options.read_only && !self.cp.is_disabled() {
            self.clean_foreground()?;
        }
        self.checkpoint_if_due()
    }

    /// The same for write-back, which does not pause (pace-L5).
    ///
    /// # Errors
    /// As [`balance`](Self::balance).
    pub(crate) fn balance_writeback(&self) -> FsResult<()> {
        if rt::mutant(Mutant::F2fsWriteUnbalanced) {
            return Ok(());
        }
        match &self.journal {
            Some(journal) => self.make_room_before(journal),
            None => self.balance(),
        }
    }

    /// Between two operations of one call, the gate held (gc-K4): with a journal each of them needs
    /// room in the ring.
    ///
    /// # Errors
    /// As [`balance`](Self::balance).
    pub(crate) fn balance_between(&self) -> FsResult<()> {
        match self.journal {
            Some(_) => self.balance(),
            None => Ok(()),
        }
    }

    /// What cleaning did so far.
    pub fn gc_stats(&self) -> GcStats {
        self.gc.books.lock().clone()
    }

    /// Cleans one section and writes a checkpoint (`F2FS_IOC_GARBAGE_COLLECT`; with `sync` by the
    /// policy of foreground cleaning, otherwise by that of background cleaning). False if there is
    /// nothing to gain.
    ///
    /// # Errors
    /// I/O, damage; the mount is latched or read-only.
    pub fn garbage_collect(&self, sync: bool) -> FsResult<bool> {
        self.check_writable()?;
        let policy = if sync {
            Policy::Greedy
        } else {
            Policy::CostBenefit
        };
        let mut work = self.gc.one.lock();
        if let Some(journal) = &self.journal {
            self.reserve_journal(journal)?;
            let cause = Cause::BackgroundGc;
            let cleaned = self.clean_section_beside(journal, &mut work, policy, cause);
            let cleaned = cleaned.and_then(|c| self.free_deferred(cause).map(|()| c));
            self.segs.end_cleaning();
            return cleaned;
        }
        self.frozen(Cause::BackgroundGc, |freeze| {
            let cleaned = self.clean_section(freeze, &mut work, policy)?;
            if cleaned {
                self.checkpoint_frozen(freeze)?;
            }
            Ok(cleaned)
        })
    }

    pub(super) fn clean_foreground(&self) -> FsResult<()> {
        self.check_writable()?;
        let start = rt::now();
        let mut work = self.gc.one.lock();
        if self.is_hopeless(&work) {
            return Ok(());
        }
        let result = self.clean_until_enough(&mut work);
        drop(work);
        let took = rt::now() - start;
        self.ops.note_wait(Cause::ForegroundGc, took);
        let mut books = self.gc.books.lock();
        books.foreground += took;
        books.foreground_max = books.foreground_max.max(took);
        result
    }

    /// A call has given up, and not much has happened since: gc-K5.
    fn is_hopeless(&self, work: &Work) -> bool {
        let now = self.standing();
        let enough = u64::from(self.geo.segs_per_sec * BLOCKS_PER_SEG) / 2;
        let then = work.hopeless;
        then.is_some_and(|then| now.free >= then.free && now.taken < then.taken + enough)
            && self.segs.prefree() == 0
    }

    fn standing(&self) -> Standing {
        Standing {
            free: self.segs.free_sections(),
            taken: self.segs.ever_taken(),
        }
    }

    fn clean_until_enough(&self, work: &mut Work) -> FsResult<()> {
        let mut stalled = 0;
        work.hopeless = None;
        for _ in 0..ROUNDS_MAX {
            if !self.is_low() {
                return Ok(());
            }
            let before = (self.segs.free_sections(), self.segs.usable());
            match &self.journal {
                Some(journal) => self.clean_round_beside(journal, work)?,
                None => self.frozen(Cause::ForegroundGc, |f| self.clean_round(f, work))?,
            }
            stalled = match (self.segs.free_sections(), self.segs.usable()) > before {
                true => 0,
                false => stalled + 1,
            };
            if stalled == STALLED_MAX {
                break;
            }
        }
        self.gc.books.lock().gave_up += 1;
        work.hopeless = Some(self.standing());
        Ok(())
    }

    /// One freeze: frees what only waits for a checkpoint; or else moves the blocks of some
    /// sections and writes a checkpoint.
    fn clean_round(&self, freeze: &Freeze<'_>, work: &mut Work) -> FsResult<()> {
        if self.segs.prefree() == 0 {
            let wanted = self.room().sections_wanted();
            for cleaned in 0..wanted.clamp(1, BATCH_SECTIONS) {
                // The copies need room themselves.
                let short =
                    cleaned > 0 && self.segs.free_sections() <= self.segs.reserved_sections / 2;
                if short || !self.clean_section(freeze, work, Policy::Greedy)? {
                    break;
                }
            }
        }
        self.checkpoint_frozen(freeze)
    }

    /// Moves the valid blocks of one section; false if there is none worth it.
    fn clean_section(
        &self,
        freeze: &Freeze<'_>,
        work: &mut Work,
        policy: Policy,
    ) -> FsResult<bool> {
        let Some(section) = self.pick(work, policy) else {
            return Ok(false);
        };
        self.segs.begin_cleaning(section);
        let mut place = Place::start_of(section, &self.geo);
        let moved = self.move_blocks(Beside::Nobody(freeze.op()), &mut place, u32::MAX);
        self.segs.end_cleaning();
        let moved = moved.inspect_err(|e| self.fail(e))?;
        if self.account(freeze.cause(), &moved, true) {
            work.stuck.insert(section);
        }
        Ok(true)
    }

    /// Counts what was moved; true if something stayed.
    pub(super) fn account(&self, cause: Cause, moved: &Moved, whole: bool) -> bool {
        let mut books = self.gc.books.lock();
        *books.sections.entry(cause).or_default() += u64::from(whole);
        books.data_blocks += moved.data;
        books.node_blocks += moved.nodes;
        books.left += moved.left;
        moved.left > 0
    }

    /// The next victim. Those that could not be emptied come last, and then once more.
    pub(super) fn pick(&self, work: &mut Work, policy: Policy) -> Option<u32> {
        let found = self.segs.victim(policy, &work.stuck);
        if found.is_none() {
            work.stuck.clear();
        }
        found
    }
}
