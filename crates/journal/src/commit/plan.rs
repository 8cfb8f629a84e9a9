//! Commit plans: the order of a commit as data.
//!
//! A plan is a list of named steps, run by one short loop (`Job::run`). The name of a step is a
//! crash point, a line of the report, and a row of the test table. Order of the steps and waiting
//! between them are decided only by the plan. Inside a step that sends body and record in order
//! ([`Action::LogInOrder`]) the ordered plug decides.

use crate::{CommitBlock, Order, Scheme};

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its name, everywhere.
    pub name: &'static str,
    /// The state of the transaction from here on.
    pub phase: Phase,
    /// What to start.
    pub action: Action,
    /// When to go on.
    pub wait: Wait,
}

/// States of a transaction that is being committed; `Running` and `Locked` come before, see
/// `transaction.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Ordered data is being waited for.
    Flush,
    /// Log blocks are being composed or written; a flush that goes ahead is under way.
    Commit,
    /// The flush, if it has not gone ahead, and what ends with the record.
    CommitFlush,
    /// Durable, not yet announced.
    Callback,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wait for the ordered data that the file system submitted.
    OrderedData,
    /// Name the log's beginning in the superblock, if it still says "empty" or lacks a feature bit.
    LogStart,
    /// Compose the log blocks in memory. A step that needs them does it if it has not been done.
    Compose,
    /// Write the log blocks but the one that makes the transaction recognisable (the record),
    /// through the cache.
    LogBody,
    /// Write the record, non-volatile at completion.
    CommitRecord,
    /// Write all log blocks, the record included, non-volatile at completion: only where checksums
    /// say that the transaction is complete.
    LogWhole,
    /// Write the body, then the record, non-volatile and in this order: one packed command where a
    /// cut keeps a prefix of it, otherwise one after the other (hazards-H20).
    LogInOrder,
    /// Flush the device cache, unless it holds nothing that the commit vouches for (hazards-H19).
    Flush,
    /// Go on with an ending that depends on what was composed: [`ending_of`].
    Choose,
    /// Move the tail, if that frees as much as a largest transaction needs (as in Linux).
    Tail,
}

/// When the next step may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// An arrow: when everything started so far is complete.
    Complete,
    /// At once; the next arrow waits for this step too.
    Overlap,
}

const fn arrow(name: &'static str, phase: Phase, action: Action) -> Step {
    Step {
        name,
        phase,
        action,
        wait: Wait::Complete,
    }
}

const fn beside(name: &'static str, phase: Phase, action: Action) -> Step {
    Step {
        name,
        phase,
        action,
        wait: Wait::Overlap,
    }
}

const DATA: Step = arrow("data", Phase::Flush, Action::OrderedData);
const LOG_START: Step = arrow("log-start", Phase::Commit, Action::LogStart);
const COMPOSE: Step = arrow("compose", Phase::Commit, Action::Compose);
const CHOOSE: Step = arrow("choose", Phase::Commit, Action::Choose);
const FLUSH: Step = arrow("flush", Phase::CommitFlush, Action::Flush);
const EARLY_FLUSH: Step = beside("flush", Phase::Commit, Action::Flush);
const RECORD: Step = arrow("commit-record", Phase::CommitFlush, Action::CommitRecord);
const TAIL: Step = arrow("tail", Phase::Callback, Action::Tail);
const BODY: Step = arrow("log", Phase::Commit, Action::LogBody);
const WHOLE: Step = arrow("log", Phase::CommitFlush, Action::LogWhole);
const IN_ORDER: Step = arrow("log", Phase::CommitFlush, Action::LogInOrder);

/// Full records, or coalition with a commit block, flushed at the end: D -> log -> flush -> FUA
/// record.
const BODY_FLUSH_RECORD: &[Step] = &[DATA, LOG_START, BODY, FLUSH, RECORD, TAIL];
/// `flush-ahead`: D -> flush, composing meanwhile -> body, record in order.
const AHEAD_IN_ORDER: &[Step] = &[DATA, LOG_START, EARLY_FLUSH, COMPOSE, IN_ORDER, TAIL];
/// `coalition`: D -> compose -> flush -> FUA coalition.
const FLUSH_WHOLE: &[Step] = &[DATA, LOG_START, COMPOSE, FLUSH, WHOLE, TAIL];
/// `emmc`: D -> flush, composing meanwhile -> FUA coalition.
const AHEAD_WHOLE: &[Step] = &[DATA, LOG_START, EARLY_FLUSH, COMPOSE, WHOLE, TAIL];

/// A fast commit in the order of Linux: D -> all but the last block -> flush -> FUA last block.
const FAST_BODY_FLUSH_TAIL: &[Step] = &[DATA, LOG_START, BODY, FLUSH, RECORD];
/// A fast commit whose blocks commit themselves: D -> flush -> FUA blocks.
const FAST_FLUSH_WHOLE: &[Step] = &[DATA, LOG_START, FLUSH, WHOLE];

/// Plans that end in a choice, as far as all choices share them: the log blocks are counted before
/// anything is chosen. Composing takes microseconds, so that little is lost by not overlapping it.
const COMPOSE_CHOOSE: &[Step] = &[DATA, LOG_START, COMPOSE, CHOOSE];
const AHEAD_CHOOSE: &[Step] = &[DATA, LOG_START, EARLY_FLUSH, COMPOSE, CHOOSE];
/// Endings of `COMPOSE_CHOOSE`; the step `flush` has nothing to do if data went out with FUA or is
/// flushed already.
const REST_WHOLE: &[Step] = &[FLUSH, WHOLE, TAIL];
const REST_IN_ORDER: &[Step] = &[FLUSH, IN_ORDER, TAIL];
const REST_END: &[Step] = &[BODY, FLUSH, RECORD, TAIL];
/// Endings of `AHEAD_CHOOSE`, behind its flush.
const FLUSHED_WHOLE: &[Step] = &[WHOLE, TAIL];
const FLUSHED_IN_ORDER: &[Step] = &[IN_ORDER, TAIL];

/// The plan of a scheme. It ends in a choice between endings ([`ending_of`]) with
/// `Order::Adaptive`, and where only the composed transaction says whether it has a commit block.
pub fn plan_of(scheme: &Scheme) -> &'static [Step] {
    match (scheme.order, scheme.record.commit_block()) {
        (Order::FlushEnd, None | Some(CommitBlock::Always)) => BODY_FLUSH_RECORD,
        (Order::FlushEnd, Some(CommitBlock::Never)) => FLUSH_WHOLE,
        (Order::FlushAhead, None | Some(CommitBlock::Always)) => AHEAD_IN_ORDER,
        (Order::FlushAhead, Some(CommitBlock::Never)) => AHEAD_WHOLE,
        (Order::FlushAhead, Some(CommitBlock::IfMore)) => AHEAD_CHOOSE,
        (Order::FlushEnd, Some(CommitBlock::IfMore)) | (Order::Adaptive, _) => COMPOSE_CHOOSE,
    }
}

/// The plan of a fast commit: in the order of Linux; or all of its blocks non-volatile behind a
/// flush, if one is needed; or as the cost model chooses.
pub(crate) fn fast_plan_of(scheme: &Scheme) -> &'static [Step] {
    match scheme.order {
        Order::FlushEnd => FAST_BODY_FLUSH_TAIL,
        Order::FlushAhead => FAST_FLUSH_WHOLE,
        Order::Adaptive => COMPOSE_CHOOSE,
    }
}

/// How an adaptive commit may end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// Flush if something vouched for needs it, then all log blocks non-volatile.
    Ahead,
    /// The log but its record through the cache, flush, then the record non-volatile.
    End,
}

/// The steps of an ending. `commits_itself`: checksums in the record say that the transaction is
/// complete (journal-commit-F6).
pub fn ending_of(scheme: &Scheme, ending: Ending, commits_itself: bool) -> &'static [Step] {
    match (scheme.order, ending, commits_itself) {
        (Order::FlushAhead, _, true) => FLUSHED_WHOLE,
        (Order::FlushAhead, _, false) => FLUSHED_IN_ORDER,
        // Nothing of a record that commits itself may go ahead of the flush.
        (Order::FlushEnd, _, true) | (Order::Adaptive, Ending::Ahead, true) => REST_WHOLE,
        (Order::Adaptive, Ending::Ahead, false) => REST_IN_ORDER,
        (Order::FlushEnd, _, false) | (Order::Adaptive, Ending::End, _) => REST_END,
    }
}

/// True if each transaction of the scheme commits itself (journal-commit-F6).
pub(crate) fn self_committing(scheme: &Scheme) -> bool {
    scheme.record.commit_block() == Some(CommitBlock::Never)
}
