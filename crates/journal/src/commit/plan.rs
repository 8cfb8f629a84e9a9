//! Commit plans: the order of a commit as data.
//!
//! A plan is a list of named steps, run by one short loop (`Job::run`). The name of a step is a crash point, a line of the
//! report, and a row of the test table. What is inside a step is ordinary code; order and waiting stand here alone.

use crate::Preset;

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

/// States of a transaction that is being committed; `Running` and `Locked` come before, see `transaction.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Ordered data is being waited for.
    Flush,
    /// Log blocks are being written.
    Commit,
    /// Device flush and commit record.
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
    /// Write revoke blocks, descriptors and images.
    LogBlocks,
    /// Flush the device cache, unless it holds nothing that the commit vouches for (H19).
    Flush,
    /// Write the commit record, non-volatile at completion.
    CommitRecord,
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

/// `jbd2`: D -> descriptor+metadata -> flush -> FUA commit.
const JBD2: &[Step] = &[
    arrow("data", Phase::Flush, Action::OrderedData),
    arrow("log-start", Phase::Commit, Action::LogStart),
    arrow("log", Phase::Commit, Action::LogBlocks),
    arrow("flush", Phase::CommitFlush, Action::Flush),
    arrow("commit-record", Phase::CommitFlush, Action::CommitRecord),
    arrow("tail", Phase::Callback, Action::Tail),
];

/// The plan of a preset; empty without a log.
pub fn plan_of(preset: Preset) -> &'static [Step] {
    match preset {
        Preset::Jbd2 => JBD2,
        Preset::None => &[],
    }
}
