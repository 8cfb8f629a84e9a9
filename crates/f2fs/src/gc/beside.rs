//! Cleaning on a volume with a journal: it freezes nothing, and the space that a victim section
//! held becomes free with an apply.
//!
//! - K6 each run of pages moves in an operation of its own, which checks once more, under `wb`,
//!   that the pages still lie there;
//! - K7 nodes and directory blocks are only listed here: the next apply writes them to new places,
//!   as it does with changed ones;
//! - K8 from the choice of a section until its former content is freed, or until cleaning gives the
//!   section up, no log fills the blocks that were emptied.

use super::foreground::BATCH_SECTIONS;
use super::moving::{Beside, Moved, Place};
use super::{Policy, Work};
use crate::F2fs;
use crate::file::Why;
use crate::inode::Inode;
use crate::journal::Journal;
use crate::ops::Cause;
use fscore::{Errno, FsError, FsResult};

use super::moving::Page;

/// Bytes of an operation's room in the journal for each page that it moves: where it is now, and
/// what it has left, are up to 72.
const ROOM_PER_PAGE: usize = 512;

/// Where a task applies, or writes checkpoints, in the background: how many times over a threshold
/// is passed before operations wait for it.
const HARD_TIMES: u64 = 4;

/// The part of the node cache that may be dirty before operations wait.
pub(crate) const DIRTY_PART: u64 = 2;

/// Blocks of the main area that wait for an apply until one is due.
const DEFERRED_PERCENT: u64 = 10;

impl F2fs {
    /// [`balance`](Self::balance) with a journal: room in the ring and in memory, then in segments;
    /// node numbers that wait for a commit. Where it has not come to that, a pause.
    pub(super) fn balance_journal(&self, journal: &Journal) -> FsResult<()> {
        self.make_room_before(journal)?;
        self.pace(journal);
        Ok(())
    }

    /// The same without a pause.
    pub(super) fn make_room_before(&self, journal: &Journal) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        self.reserve_journal(journal)?;
        if self.nat.starved() {
            self.free_deferred(Cause::DirtyNat)?;
        }
        if self.is_low() {
            self.clean_foreground()?;
        }
        self.ring_for_tasks(journal);
        match self.overdue() {
            None => Ok(()),
            Some(cause) if !self.options.timers => self.free_deferred(cause),
            // A background task does it in time; if that does not keep up, the caller does it.
            Some(_) => match self.held_up() {
                Some(cause) => self.free_deferred(cause),
                None => {
                    self.ring(&journal.apply_bell);
                    Ok(())
                }
            },
        }
    }

    /// Tells the tasks in the background what has filled up.
    fn ring_for_tasks(&self, journal: &Journal) {
        if !self.options.timers {
            return;
        }
        if journal.plane.is_half_full() || journal.plane.is_behind() {
            self.ring(&journal.commit_bell);
        }
        if journal.is_apply_due() {
            self.ring(&journal.apply_bell);
        }
    }

    /// Much is dirty, or waits for an apply: one should begin.
    pub(crate) fn overdue(&self) -> Option<Cause> {
        let dirt = match self.options.timers {
            // Before operations have to wait.
            true => self.dirt().is_half(),
            false => self.is_full_of_dirt(),
        };
        match () {
            () if self.segs.deferred() > self.deferred_max() => Some(Cause::Prefree),
            () if dirt => Some(Cause::DirtyNodes),
            () => self.pressing(),
        }
    }

    /// So much that operations wait for the apply, or for the checkpoint where a task writes it:
    /// [`HARD_TIMES`] what makes one due, of what takes room from the volume twice. Nodes may be
    /// dirty as far as they have room in memory.
    pub(crate) fn held_up(&self) -> Option<Cause> {
        match () {
            () if self.segs.deferred() > 2 * self.deferred_max() => Some(Cause::Prefree),
            () if self.is_full_of_dirt() => Some(Cause::DirtyNodes),
            () => self.reaches(HARD_TIMES, self.dirty_nodes_max()),
        }
    }

    fn deferred_max(&self) -> u64 {
        u64::from(self.geo.main_blocks()) * DEFERRED_PERCENT / 100
    }

    /// Dirty nodes at which operations wait for an apply or a checkpoint, where a task makes these
    /// in the background.
    pub(crate) fn dirty_nodes_max(&self) -> u64 {
        let times = HARD_TIMES * self.dirty_nodes_threshold();
        times.max(self.nodes.room() / DIRTY_PART)
    }

    /// One round: what only waits for an apply; or else blocks move out of some sections. Then
    /// commit and apply.
    pub(super) fn clean_round_beside(&self, journal: &Journal, work: &mut Work) -> FsResult<()> {
        let waiting = self.segs.prefree() > 0 || self.room().is_for_apply();
        let result = match waiting {
            true => Ok(()),
            false => self.clean_sections_beside(journal, work),
        };
        let result = result.and_then(|()| self.free_deferred(Cause::ForegroundGc));
        // K8: until here no log fills what was emptied.
        self.segs.end_cleaning();
        result
    }

    /// Everything logged so far is committed and applied: what it has freed may be used again.
    pub(super) fn free_deferred(&self, cause: Cause) -> FsResult<()> {
        let start = rt::now();
        self.apply_all(cause)?;
        self.ops.note_wait(cause, rt::now() - start);
        Ok(())
    }

    pub(super) fn reserve_journal(&self, journal: &Journal) -> FsResult<()> {
        self.wait_for_room(journal)
    }

    fn clean_sections_beside(&self, journal: &Journal, work: &mut Work) -> FsResult<()> {
        let wanted = self.room().sections_wanted();
        for cleaned in 0..wanted.clamp(1, BATCH_SECTIONS) {
            // The copies need room themselves.
            let short = cleaned > 0 && self.segs.free_sections() <= self.segs.reserved_sections / 2;
            let cause = Cause::ForegroundGc;
            if short || !self.clean_section_beside(journal, work, Policy::Greedy, cause)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves what is valid out of one section; false if there is none worth it. It stays out of the
    /// logs' reach.
    pub(super) fn clean_section_beside(
        &self,
        journal: &Journal,
        work: &mut Work,
        policy: Policy,
        cause: Cause,
    ) -> FsResult<bool> {
        let Some(section) = self.pick(work, policy) else {
            return Ok(false);
        };
        self.segs.begin_cleaning(section);
        let mut place = Place::start_of(section, &self.geo);
        let moved = self.move_blocks(Beside::Anybody(journal), &mut place, u32::MAX);
        let moved = moved.inspect_err(|e| self.fail(e))?;
        if self.account(cause, &moved, true) {
            work.stuck.insert(section);
        }
        Ok(true)
    }

    /// Moves pages of one file, sorted: some in each operation.
    pub(super) fn move_pages_beside(
        &self,
        inode: &Inode,
        pages: &[Page],
        moved: &mut Moved,
    ) -> FsResult<()> {
        for run in pages.chunk_by(|a, b| a.index + 1 == b.index) {
            for run in run.chunks(self.op_max() / ROOM_PER_PAGE) {
                match self.move_run_beside(inode, run) {
                    Ok(pages) => moved.data += pages,
                    // Freed in the middle of it.
                    Err(FsError::Posix(Errno::Stale)) => {}
                    Err(e) => return Err(e),
                }
            }
            // Bounds the writes that are under way. The commit waits for them too, and gets a
            // failure (f2fs-journal-I1).
            let _ = self.land(inode);
        }
        Ok(())
    }

    /// K6. Answers how many pages moved.
    fn move_run_beside(&self, inode: &Inode, run: &[Page]) -> FsResult<u64> {
        let (first, end) = (run[0].index, run[run.len() - 1].index + 1);
        // Reading waits for the device: before the `Op`, as far as the cache keeps it.
        self.read_pages_ahead(inode, first..end)?;
        self.with_op(|op| {
            let wb = inode.wb.lock();
            if inode.core().gone {
                return Ok(0);
            }
            // gc-K2: under `wb` no slot of a page that has a block changes.
            let mut here = Vec::with_capacity(run.len());
            for page in run {
                if self.says(inode, page.index, page.addr)?
                    && !super::moving::stays(inode)
                    && self.unsettle_page(inode, page.index)?
                {
                    here.push(page.index);
                }
            }
            for part in here.chunk_by(|a, b| a + 1 == *b) {
                let pages = part[0]..part[part.len() - 1] + 1;
                self.write_pages_within(op, inode, pages, Why::Clean, &wb)?;
            }
            Ok(here.len() as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::journal::capture::hooks_tests::mounted_over;
    use base::Nanos;
    use fscore::{Creds, FileKind, FileSystem};
    use rt::{Sim, SimConfig};

    const FILES: u32 = 4000;

    fn many_files(fs: &F2fs) {
        for n in 0..FILES {
            let name = format!("{n}");
            let made = fs.create(
                fs.root(),
                name.as_bytes(),
                FileKind::File,
                0o644,
                0,
                Creds::default(),
            );
            made.expect("made");
        }
    }

    /// The bound of dirty nodes holds against an apply that does not come.
    fn nobody_applies() {
        let mut options = MountOptions::parse("scheme=f2fsj,cache=1").expect("options");
        options.checkpoint.triggers.dirty_node_segments = 1;
        let (_, fs) = mounted_over(options);
        let most = fs.dirty_nodes_max();
        assert!(most < u64::from(FILES), "{most} nodes may be dirty");
        let journal = fs.journal.as_ref().expect("a journal");
        let no_apply = journal.applier.pause();
        let maker = fs.clone();
        let maker = rt::spawn("maker", move || many_files(&maker));
        rt::sleep(Nanos::from_secs(100));
        let dirty = fs.nodes.dirty();
        assert!(
            (most..=most + 2).contains(&dirty),
            "{dirty} dirty nodes, {most} allowed"
        );
        drop(no_apply);
        maker.join().expect("it goes on");
        fs.unmount().expect("unmounted");
    }

    #[test]
    fn operations_wait_when_too_many_nodes_are_dirty() {
        let outcome = Sim::new(SimConfig::seeded(3)).run(nobody_applies);
        if let Some(failure) = outcome.first_failure {
            panic!("{failure} {}", outcome.replay);
        }
    }
}
