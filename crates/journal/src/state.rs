//! The state behind the one lock of a journal. The lock is never held over device I/O.

use crate::buffer::{Cache, Refile};
use crate::checkpoint::CheckpointList;
use crate::commit::CommitTime;
use crate::error::Failure;
use crate::fast::FastState;
use crate::logged_data::LoggedData;
use crate::ring::{LogPos, Ring};
use crate::transaction::Running;
use crate::{JournalError, Phase, Stats};
use base::{BlockNo, Tid};
use block::WriteMark;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The transaction that the commit task works on.
#[derive(Clone, Copy)]
pub(crate) struct Committing {
    pub tid: Tid,
    pub start: LogPos,
    pub phase: Phase,
}

/// State of a journal.
pub(crate) struct State {
    pub cache: Cache,
    pub running: Option<Running>,
    pub committing: Option<Committing>,
    pub checkpoints: CheckpointList,
    /// The mark at which the last home writes that may still sit in the device cache had completed;
    /// `None`: there were none.
    pub home_mark: Option<WriteMark>,
    /// Pairs that were remapped, with the transaction that has freed the block since: for
    /// deliberate mistakes only (hazards-R25, hazards-R12).
    pub done: BTreeMap<BlockNo, (LogPos, Option<Tid>)>,
    /// `None` without a log.
    pub ring: Option<Ring>,
    /// The next transaction gets this number.
    pub next_tid: Tid,
    pub committed: Tid,
    /// The commit time of the last transaction that was composed.
    pub commit_time: CommitTime,
    /// The newest transaction that a task waits for.
    pub requested: Option<Tid>,
    /// A commit is under way, by the commit task or a caller (turn-T1).
    pub turn: bool,
    /// The commit task waits for the end of that turn.
    pub task_waits: bool,
    /// File data whose images the log may still hold.
    pub logged_data: LoggedData,
    /// The mark that callers of fsync want flushed: the next commit covers it, if it can.
    pub asked: WriteMark,
    /// What of the area of fast commits is in use.
    pub fast: FastState,
    pub failure: Option<Arc<Failure>>,
    /// No new handles are admitted: the journal is stopping.
    pub stopping: bool,
    /// The tasks have to end.
    pub stopped: bool,
    pub stats: Stats,
}

impl State {
    pub fn check(&self) -> Result<(), JournalError> {
        match &self.failure {
            Some(first) => Err(JournalError::Aborted {
                first: first.clone(),
            }),
            None => Ok(()),
        }
    }

    /// The ring of a journal that has a log.
    pub fn ring(&mut self) -> &mut Ring {
        self.ring
            .as_mut()
            .expect("only journals with a log come here")
    }

    /// Where the tail of the log may go, with the transaction that begins there
    /// (journal-checkpoint-C2).
    pub fn tail_candidate(&mut self) -> (Tid, LogPos) {
        let head = self.ring().head();
        let committing = self.committing.map(|c| (c.tid, c.start));
        let next = self.running.as_ref().map_or(self.next_tid, |r| r.tid);
        self.checkpoints
            .oldest()
            .or(committing)
            .unwrap_or((next, head))
    }

    /// A block changes its place in the checkpoint lists (buffer-U5).
    pub fn refile(&mut self, block: BlockNo, refile: Refile) {
        match (refile.leave, refile.join) {
            (Some(from), Some(to)) => self.checkpoints.refile(block, from, to),
            (Some(from), None) => self.checkpoints.leave(from, block),
            (None, None) => {}
            (None, Some(_)) => {
                unreachable!("journal-checkpoint-C1: only publishing puts a block on a first list")
            }
        }
    }

    /// The log is short of space: less than a quarter of it is free.
    pub fn is_tight(&mut self) -> bool {
        let ring = self.ring();
        ring.free() < ring.len() / 4
    }

    /// True if transaction `tid` begins in the oldest quarter of the log, where it will soon be in
    /// the way.
    pub fn is_old(&mut self, tid: Tid) -> bool {
        let near = LogPos(self.ring().tail().0 + u64::from(self.ring().len() / 4));
        self.checkpoints.start_of(tid) < near
    }

    /// True if `tid` is not durable yet but can become so.
    pub fn is_open(&self, tid: Tid) -> bool {
        let running = self.running.as_ref().is_some_and(|r| r.tid == tid);
        running || self.committing.is_some_and(|c| c.tid == tid)
    }
}
