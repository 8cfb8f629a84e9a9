//! Cleaning (garbage collection): valid blocks are moved out of victim segments, so that a
//! checkpoint can free these segments.
//!
//! A cut in the middle of cleaning, and cleaning beside other tasks' work on the same blocks, are
//! harmless:
//!
//! - K1 a block is moved by rewriting it for its owner: the page or node is made dirty with its
//!   content unchanged, and written elsewhere. The old block is freed like any other (table-V1), so
//!   it keeps its content until a checkpoint with the new address is durable;
//! - K2 nothing is moved on the word of a summary alone. The owner that the summary names must
//!   itself hold the address, in its NAT entry or address slot, at that moment; under the freeze
//!   that cannot change any more. A block that no owner refers to is dead, or damaged, and is left
//!   alone;
//! - K3 the write of a copy has completed before the checkpoint that names the copy begins, and a
//!   copy that could not be written latches the mount: durable content is not lost by being moved;
//! - K4 cleaning never waits for an operation that waits for cleaning: a caller of
//!   [`balance`](crate::F2fs::balance) holds gates at most; a cleaner takes no gate, but its own
//!   lock, then the freeze, and below it only locks that rank below an `Op` (`wb`, `tree`);
//! - K5 each call does a bounded number of rounds, and gives up when they gain nothing: ENOSPC is
//!   reported by the claim that fails. Pinned files, and files whose atomic write is being
//!   committed, are left alone, and their segments are chosen last. Of a file in an open atomic
//!   write the old content moves: the new content is in no cache that cleaning sees (file-D5).

mod beside;
mod foreground;
mod moving;
mod room;
mod task;
mod victim;

use crate::ops::Cause;
use base::Nanos;
pub(crate) use beside::DIRTY_PART;
use rt::Mutex;
use rt::atomic::AtomicBool;
use std::collections::{BTreeMap, BTreeSet};
pub(crate) use victim::Policy;

/// State of cleaning.
pub(crate) struct Gc {
    /// Held by the task that cleans: one at a time.
    one: Mutex<Work>,
    books: Mutex<GcStats>,
    urgent: AtomicBool,
}

/// What a cleaner knows from earlier rounds.
#[derive(Default)]
struct Work {
    /// Sections that could not be emptied, until everything else has been tried.
    stuck: BTreeSet<u32>,
    /// What it was when a call gave up.
    hopeless: Option<Standing>,
}

/// What has to change before another call makes sense after one that gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Standing {
    free: u32,
    /// Blocks ever taken.
    taken: u64,
}

/// What cleaning did.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GcStats {
    /// Sections picked, by cause.
    pub sections: BTreeMap<Cause, u64>,
    /// Data blocks moved.
    pub data_blocks: u64,
    /// Node blocks moved.
    pub node_blocks: u64,
    /// Valid blocks that stayed, because no owner refers to them, or because their file is pinned.
    pub left: u64,
    /// Calls in the foreground that gave up.
    pub gave_up: u64,
    /// Time of calls in the foreground.
    pub foreground: Nanos,
    /// The longest of them.
    pub foreground_max: Nanos,
}

impl Gc {
    /// Nothing was cleaned yet.
    pub fn new() -> Gc {
        Gc {
            one: Mutex::named("f2fs cleaning", Work::default()),
            books: Mutex::named("f2fs cleaned", GcStats::default()),
            urgent: AtomicBool::new(false),
        }
    }
}
