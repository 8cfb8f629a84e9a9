//! Fast commits: what an fsync needs of the running transaction, written as changes of inodes,
//! names and ranges of blocks into an area behind the ring, instead of a commit of all changed
//! blocks (Linux: `fs/jbd2` with the feature FAST_COMMIT; Shirwadkar et al., USENIX ATC 2024).
//!
//! The journal brings the blocks that the file system composes to the medium. Recovery finds them
//! behind the last full commit and lets the file system replay them (`recover/fast.rs`).
//!
//! T is the transaction that runs.
//!
//! - W1 (whole): the blocks of a fast commit are composed while no handle is open, from all that
//!   handles of T have changed since the last fast commit of T, or since T began. So half an
//!   operation is in none, and what one fast commit lacks no later one needs.
//! - W2 (place in time): one is written only while T runs and the transaction before it is durable;
//!   the turn (turn-T1) keeps full commits and other fast commits away. So for recovery the log
//!   ends before T until T is committed in full, and then the fast commits of T count no more,
//!   because the head of the area names T.
//! - W3 (data): as for a full commit, all ordered data that handles of T have submitted is durable
//!   before the last block is sent (journal-commit-F1, journal-commit-F2), or goes ahead of all
//!   blocks (journal-commit-F7). The blocks commit themselves (journal-commit-F6), because the tail
//!   at the end of the last one holds a checksum of all of them.
//! - W4 (place): the first fast commit of T begins the area; each other one lies behind the one
//!   before, which was durable before the next is sent. None of a running T is overwritten.
//! - W5 (begin of the log): the superblock names the begin of the log and the feature, durably,
//!   before the first block is sent (journal-commit-K2); recovery looks at no area of an empty log.
//! - W6 (what cannot be told): if the file system cannot express a change of T, or the area is
//!   full, T is committed in full, and no fast commit of T is written any more: it would count
//!   although what came before it is missing.
//! - W7 (reuse): a fast commit commits no transaction: [`committed`](crate::Journal::committed)
//!   stays, so that what T has freed is used by nobody (hazards-H18), and no image of T goes home.
//! - W8 (numbers): recovery gives the number of T out to no other transaction (hazards-H7). So no
//!   block that T has left in the area counts for a transaction of a later mount.
//! - W9 (others): the last block of the area stays free ([`Area::of`]).
//! - W10 (room): recovery logs what a replay changes as transaction T, so the ring has room for
//!   that: all of the ring, because recovery brings the full commits home first where the images do
//!   not fit behind them (fast-Z3). It has room for what T itself has changed
//!   (journal-space-S1), and a replay changes more only where it maps a whole file anew, puts a
//!   name elsewhere, or frees a file that was open when its last name went. Of the first two kinds
//!   the file system makes no fast commit with which all of T might need more than
//!   [`FastStart::spare`] beyond T; the third kind its recovery does later, in transactions of its
//!   own, where the ring has no room (fast_commit-U5 of ext4).
//! - W11 (nothing old): before the superblock durably names the begin of a log with fast commits,
//!   the area holds zeros. A scheme without fast commits has these blocks in its ring, so that
//!   content of files may lie there, and an older file system may have left fast commits. Recovery
//!   knows a fast commit by the number of its transaction and by a checksum that anybody can
//!   compute: the content of a file could change what its owner may not.

mod area;

pub(crate) use area::Area;

use crate::commit::{Composed, Job, Parts};
use crate::inner::{Inner, Log};
use crate::state::State;
use crate::tasks::lock_transaction;
use crate::{Journal, JournalError, LogBlock};
use base::{Bytes, Mutant, Tid};
use block::{Class, WriteMark};
use rt::MutexGuard;

/// What of the area is in use.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FastState {
    /// The transaction that the rest is about.
    tid: Tid,
    /// Blocks that its fast commits take.
    used: u32,
    /// It has to be committed in full (W6).
    full_only: bool,
}

impl FastState {
    /// Forgets what it knows of an older transaction.
    fn of(&mut self, tid: Tid) -> &mut FastState {
        if self.tid != tid {
            *self = FastState {
                tid,
                ..FastState::default()
            };
        }
        self
    }
}

/// What a file system has to know to compose a fast commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastStart {
    /// The running transaction.
    pub tid: Tid,
    /// Bytes of a block.
    pub block_bytes: usize,
    /// True for the first one of the transaction, which begins with a head.
    pub head: bool,
    /// Blocks that the area still has.
    pub room: usize,
    /// Images that recovery may log beyond the blocks that the transaction has changed so far, for
    /// all fast commits of the transaction together (W10).
    pub spare: u32,
}

impl Journal {
    /// True if the scheme has fast commits, and the log is one in which everybody looks for them.
    pub fn takes_fast_commits(&self) -> bool {
        let log = self.inner.log.as_ref();
        log.is_some_and(|log| log.area.is_some())
    }

    /// Makes all changes of finished handles up to transaction `tid` durable by a fast commit.
    /// `compose` is called while no handle is open; it answers the blocks, the last with the tail;
    /// none if nothing has changed since the last fast commit; `None` if something cannot be
    /// expressed. `mark` is what the caller also needs flushed, as for
    /// [`commit_covering`](Journal::commit_covering): no promise. The caller holds no handle.
    ///
    /// Answers false if a full commit has to be made instead: the caller asks for it.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn fast_commit(
        &self,
        tid: Tid,
        mark: WriteMark,
        compose: impl FnOnce(FastStart) -> Option<Vec<Bytes>>,
    ) -> Result<bool, JournalError> {
        let inner = &*self.inner;
        let Some(log) = inner.log.as_ref().filter(|log| log.area.is_some()) else {
            return Ok(false);
        };
        let Some(mut state) = wait_for_turn(inner, tid)? else {
            return Ok(true);
        };
        if state.fast.of(tid).full_only {
            return Ok(false);
        }
        state.asked = state.asked.max(mark);
        state.turn = true;
        drop(state);
        let done = write(inner, log, tid, compose).map_err(|e| inner.fail(e, "fast commit"));
        inner.end_turn();
        done
    }
}

/// W2. Waits until `tid` may be committed fast; `None`: it is durable, or had no change.
fn wait_for_turn(inner: &Inner, tid: Tid) -> Result<Option<MutexGuard<'_, State>>, JournalError> {
    let mut state = inner.lock()?;
    loop {
        if state.committed.geq(tid) || !state.is_open(tid) {
            return Ok(None);
        }
        let runs = state
            .running
            .as_ref()
            .is_some_and(|r| r.tid == tid && !r.locked);
        if runs && !state.turn && state.committing.is_none() {
            return Ok(Some(state));
        }
        inner.wait_progress(&mut state, "commit");
        inner.check(&mut state)?;
    }
}

/// The holder of the turn writes one fast commit. False: the transaction has to be committed in
/// full.
fn write(
    inner: &Inner,
    log: &Log,
    tid: Tid,
    compose: impl FnOnce(FastStart) -> Option<Vec<Bytes>>,
) -> Result<bool, JournalError> {
    let area = log.area.expect("looked at before");
    // W1: no handle is open from here on.
    let mut state = lock_transaction(inner)?;
    let used = state.fast.of(tid).used;
    let spare = spare(&mut state, log);
    drop(state);
    let start = FastStart {
        tid,
        block_bytes: inner.block_size.bytes(),
        head: used == 0,
        room: (area.len() - used) as usize,
        spare,
    };
    let blocks = compose(start).filter(|blocks| blocks.len() <= start.room);
    let mut state = inner.lock()?;
    let parts = match &blocks {
        Some(blocks) if !blocks.is_empty() => take_data(&mut state),
        _ => Parts::default(),
    };
    open(inner, &mut state);
    let Some(blocks) = blocks else {
        // W6.
        state.fast.of(tid).full_only = !rt::mutant(Mutant::FastAfterFull);
        state.stats.fast_refused += 1;
        return Ok(false);
    };
    let count = blocks.len() as u32;
    if count == 0 {
        return Ok(true);
    }
    drop(state);
    let bytes = blocks.iter().map(|block| used_bytes(block)).sum::<usize>();
    let at = match rt::mutant(Mutant::FastOverwrite) && used > 0 {
        true => 0,
        false => used,
    };
    let first = LogBlock(area.first() + at);
    Job::fast(inner, log, tid, (first, composed(blocks)), parts).run()?;
    let mut state = inner.lock()?;
    state.fast.of(tid).used += count;
    state.stats.fast_commits += 1;
    state.stats.fast_blocks += u64::from(count);
    state.stats.fast_long += u64::from(count > 1);
    state.stats.fast_bytes += bytes as u64;
    Ok(true)
}

/// Bytes up to the last one that is not zero.
fn used_bytes(block: &[u8]) -> usize {
    block
        .iter()
        .rposition(|&b| b != 0)
        .map_or(0, |last| last + 1)
}

/// W10. What older transactions hold of the ring does not count.
fn spare(state: &mut State, log: &Log) -> u32 {
    let running = state.running.as_ref();
    let running = running.expect("turn-T1: only the turn takes it away");
    let own = (running.images(), running.revokes.len() as u32);
    let ring = state.ring().len();
    (0..=ring)
        .rev()
        .find(|n| log.limits.log_blocks(own.0 + n, own.1) <= ring)
        .unwrap_or(0)
}

/// Handles may join the transaction again.
fn open(inner: &Inner, state: &mut State) {
    let running = state.running.as_mut();
    running
        .expect("turn-T1: only the turn takes it away")
        .locked = false;
    inner.progress.notify_all();
}

/// W3: the data that has been submitted so far.
fn take_data(state: &mut State) -> Parts {
    let running = state.running.as_mut();
    let running = running.expect("turn-T1: only the turn takes it away");
    if running.ordered.is_some() && rt::mutant(Mutant::FastWithoutData) {
        return Parts::default();
    }
    Parts {
        ordered: running.ordered.take(),
        led: running.led.take(),
        ..Parts::default()
    }
}

fn composed(blocks: Vec<Bytes>) -> Composed {
    let class = |bytes| (Class::FastCommit, bytes);
    Composed {
        record: blocks.len() - 1,
        blocks: blocks.into_iter().map(class).collect(),
        commits_itself: true,
        record_bytes: 0,
        plain: Vec::new(),
    }
}
