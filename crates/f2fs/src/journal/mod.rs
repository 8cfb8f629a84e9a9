//! F2FSJ: a journal of metadata changes with per-inode logs, epochs, a commit that blocks no
//! operation, and an apply that freezes none (Cui, Wang, Chen, Shao: "Decentralized, Epoch-based
//! F2FS Journaling with Fine-grained Crash Recovery", OSDI 2025).
//!
//! An operation logs absolute values into the lists of the inodes it changes, all in one epoch
//! ([`Tx`]). Commit writes an epoch into the ring (`commit`). Apply writes the committed state home
//! and publishes it by a checkpoint pack that names the last epoch in it (`apply`). Recovery redoes
//! the epochs behind the one that the pack names (`recover`).
//!
//! LC is the last committed epoch; AP is the last applied one, as the newest durable pack says.
//! Invariants:
//! - I1 the transaction of epoch e counts only when that of e - 1 is durable, and every data block
//!   that records up to e map is on the medium: either that was so before the transaction was
//!   sent, or recovery compares the data with checksums in it ([`summed`]);
//! - I2 no block of metadata at home (node, directory block, NAT, SIT, SSA, pack) contains an
//!   effect of an epoch behind LC;
//! - I3 a pack with `applied_epoch` = T is the state after all epochs up to T;
//! - I4 the records of one operation are all in one epoch; of two operations that change one thing
//!   the later one is in the same or a later epoch;
//! - I5 redo is idempotent;
//! - I6 a block is written only if neither the last pack nor a record behind it refers to what it
//!   holds;
//! - I7 recovery gives the state after some whole epoch, which is no older than the last one that
//!   was acknowledged;
//! - I8 tail <= AP + 1 <= LC + 1 <= running; what lies between tail and head of the ring is not
//!   overwritten;
//! - I9 nothing in memory that changed behind AP is evicted.

pub(crate) mod apply;
pub(crate) mod capture;
mod epoch;
mod options;
pub(crate) mod pages;
pub(crate) mod plane;
pub(crate) mod recover;
pub(crate) mod ring;
mod stats;
pub(crate) mod summed;

use crate::bell::Bell;
use apply::{Applier, DirStamps, Rewrite};
pub use apply::{ApplyPhase, ApplyStats};
pub use epoch::Epoch;
pub(crate) use epoch::{OP_MAX, UsageDelta};
pub use options::{Guard, JournalOptions, Redone, Rounds};
pub use pages::PagesLogged;
pub(crate) use plane::{Closed, DataSent, EpochData, Load, OfVolume, OwnedGroup, Plane, Tx};
pub use plane::{Ideas, PlaneStats};
pub use recover::JournalRecovery;
pub(crate) use ring::{Committed, Start};
use ring::{Group, LogState, Reserve, Ring, RingPlace};
pub use stats::{CommitPhase, CommitReason, JournalStats, WaitCause, Waits};
use summed::Summed;

use base::{BLOCK_BYTES, BlockNo, Bytes};
pub(crate) use ondisk::f2fs::journal::JournalArea;
use ondisk::f2fs::journal::{JournalSuper, RING_AT};
use rt::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// The journal of a mounted volume.
pub(crate) struct Journal {
    /// How it works.
    pub options: JournalOptions,
    /// Where it lies.
    pub area: JournalArea,
    /// Epochs, and the operations in them.
    pub plane: Plane,
    /// Operations that waited for room.
    pub reserve: Reserve,
    /// An epoch is to be committed, for the task.
    pub commit_bell: Bell,
    /// What is committed should go home, for the task.
    pub apply_bell: Bell,
    /// Tasks that wait for an epoch to be committed.
    group: Group,
    /// The ring.
    log: Mutex<LogState>,
    /// What the newest copy of the superblock says.
    sb: Mutex<JournalSuper>,
    /// Committed epochs that are not applied, oldest first.
    pub committed: Mutex<VecDeque<Arc<Committed>>>,
    /// What cleaning wants apply to write elsewhere.
    pub rewrite: Rewrite,
    /// Data blocks of which transactions have checksums.
    pub summed: Summed,
    /// Directory pages that epochs have changed.
    pub stamps: DirStamps,
    /// Lets one task at a time apply.
    pub applier: Applier,
    /// What follows in the ring has to be overwritten before anything is written (resume-G4).
    is_torn: bool,
    /// With `records=pages`: NAT and SIT of epochs that are not home.
    tables: pages::Tables,
}

/// A block of zeros.
fn zero_block() -> Bytes {
    Bytes::from_static(&[0; BLOCK_BYTES])
}

impl Journal {
    /// Calls of fsync that have begun and not returned.
    pub fn syncing(&self) -> u64 {
        self.group.syncing()
    }

    /// Bytes of the records of epochs that are not collected, and of those that are committed and
    /// not applied.
    pub fn memory(&self) -> (u64, u64) {
        let kept = self.committed.lock().iter().map(|c| c.bytes()).sum();
        (self.plane.memory(), kept)
    }

    /// A journal that goes on from `start`; what is not applied yet is added behind
    /// ([`keep_redone`](Self::keep_redone)).
    pub fn new(area: JournalArea, options: JournalOptions, start: Start) -> Journal {
        let place = RingPlace {
            first: BlockNo(area.start + u64::from(RING_AT)),
            blocks: area.blocks - RING_AT,
            incarnation: start.incarnation,
        };
        let ring = Ring::empty(place, start.head, start.applied);
        let log = LogState::new(ring, start.usage);
        Journal {
            options,
            area,
            plane: Plane::new(start.epoch, place.blocks, options.ideas),
            reserve: Reserve::new(),
            commit_bell: Bell::new(),
            apply_bell: Bell::new(),
            group: Group::new(start.epoch),
            log: Mutex::named("f2fs journal", log),
            sb: Mutex::named("f2fs journal superblock", start.sb),
            committed: Mutex::named("f2fs committed epochs", VecDeque::new()),
            rewrite: Rewrite::new(),
            summed: Summed::new(),
            stamps: DirStamps::new(),
            applier: Applier::new(),
            is_torn: false,
            tables: pages::Tables::new(),
        }
    }

    /// What one operation logs at most: [`OP_MAX`], in a small ring an eighth of it.
    pub fn op_max(&self) -> usize {
        OP_MAX.min(self.area.blocks as usize * BLOCK_BYTES / 8)
    }
}
