//! The turn: which task commits.
//!
//! The commit task commits transactions that have become old, and those requested by a task that
//! cannot run the commit itself. With
//! [`Options::commit_by_caller`](crate::Options::commit_by_caller) an fsync commits in its own
//! thread, which saves two thread switches; so it does where there are fast commits, each of which
//! takes a turn as well. Otherwise the commit task is the only one that commits, and needs no turn.
//!
//! - T1: only the holder of the turn commits: transactions commit one after the other, and only the
//!   holder takes a running one away.
//! - T2: the turn is given back on every path, and all tasks that wait for it are woken: callers by
//!   `progress`, the commit task by `work` if it said that it waits.
//! - T3: a failed commit ends the journal, whichever thread ran it; the commit task sees that and
//!   leaves the reason in the superblock.
//! - T4: a commit does the same steps in the same order in any thread (`commit` knows none). The
//!   caller holds no handle (handle-A1), no page and no lock of the allocator.

use crate::JournalError;
use crate::inner::{Inner, Log};
use crate::state::State;
use crate::tasks::commit_one;
use rt::MutexGuard;

impl Inner {
    /// True if others than the commit task commit.
    pub fn takes_turns(&self) -> bool {
        let fast = self.log.as_ref().is_some_and(|log| log.area.is_some());
        self.options.commit_by_caller || fast
    }

    /// Commits the running transaction in this thread, or waits for the commit that is under way
    /// (T4). The state may have changed in any way when this returns: the caller looks at it again.
    pub fn commit_here<'s>(
        &'s self,
        log: &Log,
        mut state: MutexGuard<'s, State>,
    ) -> Result<MutexGuard<'s, State>, JournalError> {
        if state.turn || state.running.is_none() {
            self.wait_progress(&mut state, "commit");
            self.check(&mut state)?;
            return Ok(state);
        }
        state.turn = true;
        drop(state);
        let done = commit_one(self, log).map_err(|e| self.fail(e, "commit"));
        self.end_turn();
        done?;
        self.lock()
    }

    /// T2.
    pub fn end_turn(&self) {
        let mut state = self.state.lock();
        state.turn = false;
        self.progress.notify_all();
        if std::mem::take(&mut state.task_waits) {
            self.work.notify_all();
        }
    }
}
