//! The two tasks of a journal: one commits, the other writes images home once the oldest of them
//! has waited long. The steps of a commit before and behind its plan stand here, too: lock, switch,
//! publish.

use crate::commit::{Job, Parts};
use crate::inner::{Inner, Log};
use crate::state::{Committing, State};
use crate::track::Logged;
use crate::transaction::{Image, Kind};
use crate::words::WordMap;
use crate::{JournalError, Phase};
use base::{BlockNo, Mutant, Nanos, Time};
use rt::MutexGuard;
use std::collections::{BTreeMap, BTreeSet};

/// How often the drain looks for handles that were dropped: their `Drop` cannot wake a task.
const DRAIN_LOOK: Nanos = Nanos::from_millis(10);
/// `s_errno` of an aborted journal: EIO.
const ERRNO_IO: i32 = -5;

/// Commits transactions until the journal stops or fails.
pub(crate) fn commit_task(inner: &Inner) {
    let log = inner
        .log
        .as_ref()
        .expect("the commit task runs above a log");
    while wait_for_work(inner) {
        if let Err(e) = commit_one(inner, log) {
            inner.fail(e, "commit");
        }
        if inner.takes_turns() {
            inner.end_turn();
        }
    }
    wait_out_ordered(inner);
    record_error(inner, log);
}

/// Waits until the running transaction has to be committed; false at the end.
fn wait_for_work(inner: &Inner) -> bool {
    let Ok(mut state) = inner.lock() else {
        return false;
    };
    loop {
        if state.turn {
            // turn-T2.
            state.task_waits = true;
            inner.sleep(&inner.work, &mut state);
            if inner.check(&mut state).is_err() {
                return false;
            }
            continue;
        }
        // Without a running transaction one look per interval is enough: a transaction that starts
        // meanwhile is seen before it is older than the interval.
        let interval = inner.options.commit_interval;
        let mut deadline = interval.map(|i| rt::now() + i);
        if let Some(running) = &state.running {
            deadline = interval.map(|i| running.started + i);
            let requested = state.requested.is_some_and(|r| r.geq(running.tid));
            if requested || deadline.is_some_and(|d| d <= rt::now()) {
                state.turn = inner.takes_turns();
                return true;
            }
        }
        if state.stopped {
            return false;
        }
        match deadline {
            Some(at) => drop(inner.work.wait_until(&mut state, at)),
            None => inner.sleep(&inner.work, &mut state),
        }
        if inner.check(&mut state).is_err() {
            return false;
        }
    }
}

/// Commits the running transaction. Only the holder of the turn calls this (turn-T1).
pub(crate) fn commit_one(inner: &Inner, log: &Log) -> Result<(), JournalError> {
    let state = lock_transaction(inner)?;
    let Some(mut job) = switch(inner, log, state) else {
        return Ok(());
    };
    job.run()?;
    let remap = publish(inner, job)?;
    inner.remap_committed(log, &remap)
}

/// `Running -> Locked`: no new handles, those that run end.
pub(crate) fn lock_transaction(inner: &Inner) -> Result<MutexGuard<'_, State>, JournalError> {
    let mut state = inner.lock()?;
    let running = state
        .running
        .as_mut()
        .expect("turn-T1: only the turn takes it away");
    running.locked = true;
    let shared = running.shared.clone();
    let start = rt::now();
    while shared.updates() > 0 {
        inner.work.wait_until(&mut state, rt::now() + DRAIN_LOOK);
        inner.check(&mut state)?;
    }
    // A handle that was dropped half-way said so before it left (handle-A1).
    inner.check(&mut state)?;
    state.stats.waited("updates", rt::now() - start);
    Ok(state)
}

/// `Locked -> Flush`: takes the images and the log space; the next transaction may run. `None`:
/// nothing had changed.
fn switch<'a>(inner: &'a Inner, log: &'a Log, mut guard: MutexGuard<'_, State>) -> Option<Job<'a>> {
    let state = &mut *guard;
    let running = state.running.take().expect("locked above");
    inner.progress.notify_all();
    if running.is_empty() {
        // The number is used again: a request for it must not pass for one of the next transaction,
        // which would then neither be committed nor wake this task when it is asked for.
        state.next_tid = running.tid;
        state.requested = state.requested.filter(|r| *r != running.tid);
        return None;
    }
    let images = take_images(state, &running.blocks);
    let revokes: Vec<_> = running.revokes.into_iter().collect();
    // hazards-H6.
    let revokes = if !revokes.is_empty() && rt::mutant(Mutant::NoRevoke) {
        Vec::new()
    } else {
        revokes
    };
    let blocks = log
        .limits
        .log_blocks(images.len() as u32, revokes.len() as u32);
    let start = state.ring().take(blocks);
    let tid = running.tid;
    state.committing = Some(Committing {
        tid,
        start,
        phase: Phase::Flush,
    });
    let (forgotten, ordered, led) = (running.forgotten, running.ordered, running.led);
    let parts = Parts {
        images,
        revokes,
        forgotten,
        ordered,
        led,
    };
    Some(Job::new(inner, log, tid, (start, blocks), parts))
}

fn take_images(state: &mut State, blocks: &BTreeMap<BlockNo, Kind>) -> Vec<Image> {
    let tight = state.is_tight();
    let mut take = |(&block, &kind): (&BlockNo, &Kind)| {
        let (bytes, mut basis) = state.cache.take_image(block);
        if let Some(basis) = &mut basis {
            basis.pinned = tight && basis.rec.is_some_and(|rec| state.is_old(rec));
        }
        Image {
            block,
            kind,
            bytes,
            basis,
            logged: Logged::Full,
            changed: WordMap::ALL,
        }
    };
    blocks.iter().map(&mut take).collect()
}

/// `Callback -> finished`: the transaction is durable; its images may go home, what it freed may be
/// used again. Answers the blocks that the device can point at the log.
fn publish(inner: &Inner, job: Job<'_>) -> Result<Vec<BlockNo>, JournalError> {
    let mut guard = inner.lock()?;
    // An older image that is on its way home must have arrived before the block gets a new owner.
    while job.forgotten.iter().any(|b| guard.cache.is_writing(*b)) {
        inner.sleep(&inner.buffers, &mut guard);
        inner.check(&mut guard)?;
    }
    let state = &mut *guard;
    let now = rt::now();
    let sources = inner.remappable(state, &job);
    let mut waiting = BTreeSet::new();
    state.stats.transactions += 1;
    state.stats.revokes_logged += job.revokes.len() as u64;
    state.stats.transaction_blocks_max = state.stats.transaction_blocks_max.max(job.blocks);
    for image in job.images {
        let record = (image.kind, image.logged, &image.changed);
        state.stats.logged(image.logged);
        let cache = &mut state.cache;
        let refile = cache.committed(image.block, image.bytes, job.tid, record, now);
        if let Some(older) = refile.leave {
            state.checkpoints.leave(older, image.block);
        }
        if refile.join.is_some() {
            waiting.insert(image.block);
        }
    }
    for &block in &job.forgotten {
        // hazards-H6: a late home write would hit the block's next owner.
        if state.cache.has_pending(block) && rt::mutant(Mutant::KeepFreedPending) {
            continue;
        }
        let refile = state.cache.drop_pending(block);
        state.refile(block, refile);
    }
    for &(block, source) in &sources {
        state.cache.set_source(block, Some(source));
    }
    inner.note_freed(state, job.tid, &job.forgotten);
    state.checkpoints.push(job.tid, job.start, waiting);
    state.committed = job.tid;
    state.committing = None;
    inner.progress.notify_all();
    Ok(sources.into_iter().map(|(block, _)| block).collect())
}

/// After a failure: waits for the ordered data of the transaction that will never be committed.
fn wait_out_ordered(inner: &Inner) {
    let batch = {
        let mut state = inner.state.lock();
        state.running.as_mut().and_then(|r| r.ordered.take())
    };
    if let Some(batch) = batch {
        // The journal has failed already; the outcome changes nothing.
        let _ = batch.wait();
    }
}

/// Leaves the reason of an abort in the superblock, for the next mount and for e2fsck.
fn record_error(inner: &Inner, log: &Log) {
    let failed = {
        let state = inner.state.lock();
        state.failure.as_ref().is_some_and(|f| !f.power_lost)
    };
    if failed {
        let mut superblock = log.superblock.lock();
        let (tid, start) = (superblock.sb.sequence(), superblock.sb.start());
        superblock.sb.set_errno(ERRNO_IO);
        // If this fails too, the file system's own error flag has to do.
        let _ = superblock.write(
            &log.queue,
            tid,
            (start != 0).then_some(crate::LogBlock(start)),
        );
    }
}

/// The first moment at or after `at` when the flusher looks; it looks all the time without an
/// interval.
fn at_tick(at: Time, interval: Option<Nanos>) -> Time {
    match interval {
        Some(Nanos(span)) => Time(at.0.div_ceil(span.max(1)).saturating_mul(span.max(1))),
        None => at,
    }
}

/// Writes everything home once its oldest block has waited for `expire`; no flush: the next tail
/// update sends one.
pub(crate) fn writeback_task(inner: &Inner, expire: Nanos) {
    loop {
        {
            let Ok(mut state) = inner.lock() else { return };
            loop {
                let now = rt::now();
                let old = state.cache.oldest_pending().map_or(now, |t| t) + expire;
                let due = at_tick(old, inner.options.writeback_interval);
                if state.stopped {
                    return;
                }
                if due <= now {
                    break;
                }
                inner.writeback.wait_until(&mut state, due);
                if inner.check(&mut state).is_err() {
                    return;
                }
            }
        }
        let _home = inner.home.lock();
        if inner.write_home_all(true).is_err() {
            return;
        }
    }
}
