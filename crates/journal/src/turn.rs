//! Whose turn it is to commit.
//!
//! The commit task commits what has become old, and what somebody asks for who cannot wait for it in a commit of his own. With
//! [`Options::commit_by_caller`](crate::Options::commit_by_caller) an fsync needs nobody else: two changes of threads less.
//!
//! - T1: who has the turn commits, nobody else: transactions commit one after the other, and only the turn takes a running one away.
//! - T2: the turn is given back on every path, and everybody who waits for it is woken: callers by `progress`, the task by `work` if it said that
//!   it waits.
//! - T3: a failed commit ends the journal, whoever ran it; the task sees that and leaves the reason in the superblock.
//! - T4: what a commit does and in which order is the same (`commit`): it knows no thread. The caller holds no handle (handle-A1), no page and no lock
//!   of the allocator.

use crate::JournalError;
use crate::inner::{Inner, Log};
use crate::state::State;
use crate::tasks::commit_one;
use rt::MutexGuard;

impl Inner {
    /// Commits the running transaction in this thread, or waits for who is at one (T4). The state may be any afterwards: the caller looks again.
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
