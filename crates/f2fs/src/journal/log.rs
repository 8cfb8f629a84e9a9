//! What the journal knows of the ring, and the epochs that are committed and not applied.

use super::stats::Figures;
use super::{Closed, CommitReason, Epoch, Journal, JournalStats, OwnedGroup, Ring, Span};
use crate::space::Usage;
use base::Time;
use ondisk::f2fs::journal::JournalSuper;
use ondisk::f2fs::{AllocType, Log as DataLog, SegNo};
use std::sync::Arc;

/// Where a log of the main area writes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// Which.
    pub log: DataLog,
    /// Into a free segment, or into holes.
    pub alloc: AllocType,
    /// Its segment.
    pub seg: SegNo,
    /// The next block in it.
    pub next: u16,
}

/// Where a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Start {
    /// Life of the ring.
    pub incarnation: u64,
    /// Block of the ring where the next transaction begins.
    pub head: u32,
    /// Committed and applied: the next epoch is the one behind it.
    pub epoch: Epoch,
    /// What is in use then.
    pub usage: Usage,
    /// The newest copy of the superblock; both are durable.
    pub sb: JournalSuper,
}

/// A committed epoch, until it is applied.
#[derive(Clone, Debug)]
pub(crate) struct Committed {
    /// Which.
    pub epoch: Epoch,
    /// Its records by inode.
    pub groups: Vec<OwnedGroup>,
    /// What is in use after it.
    pub usage: Usage,
}

impl Committed {
    /// Bytes of its records.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(|g| g.bytes.len() as u64).sum()
    }
}

/// State of the log, behind one lock.
pub(crate) struct LogState {
    pub ring: Ring,
    /// What is in use after the newest epoch in the ring.
    pub usage: Usage,
    /// Where logs write, as the newest epoch in the ring says.
    heads: Vec<Head>,
    /// When the newest one was committed: about when the next began.
    pub opened: Time,
    pub stats: JournalStats,
}

impl LogState {
    pub fn new(ring: Ring, usage: Usage) -> LogState {
        LogState {
            ring,
            usage,
            heads: Vec::new(),
            opened: rt::now(),
            stats: JournalStats::default(),
        }
    }

    /// What is in use after the epoch behind the newest one.
    ///
    /// # Panics
    /// If that is less than nothing.
    pub fn usage_after(&self, closed: &Closed) -> Usage {
        let (now, delta) = (self.usage, closed.usage);
        let sum = |now: u64, delta: i64| {
            let after = now.checked_add_signed(delta);
            after.unwrap_or_else(|| panic!("I3: {now} in use, and {delta} with the next epoch"))
        };
        Usage {
            blocks: sum(now.blocks, delta.blocks),
            nodes: sum(now.nodes.into(), delta.nodes) as u32,
            inodes: sum(now.inodes.into(), delta.inodes) as u32,
        }
    }

    /// Those of `heads` that differ from what the ring says.
    pub fn moved(&self, heads: &[Head]) -> Vec<Head> {
        let known = |head: &Head| self.heads.contains(head);
        heads.iter().copied().filter(|head| !known(head)).collect()
    }
}

impl Journal {
    /// The last committed epoch (LC).
    pub fn last_committed(&self) -> Epoch {
        self.group.last()
    }

    /// The last applied one (AP).
    pub fn applied(&self) -> Epoch {
        Epoch(self.log.lock().ring.tail_epoch().0 - 1)
    }

    /// Committed epochs that are not applied, up to `upto`, oldest first.
    pub fn committed_upto(&self, upto: Epoch) -> Vec<Arc<Committed>> {
        let committed = self.committed.lock();
        let wanted = committed.iter().take_while(|c| c.epoch <= upto);
        wanted.cloned().collect()
    }

    /// The pack that contains all epochs up to `applied` is durable: their place in the ring may be used again (I8).
    ///
    /// # Panics
    /// I8: if one of them is not committed.
    pub fn release(&self, applied: Epoch) {
        self.log.lock().ring.release(applied);
        let mut bytes = 0;
        {
            let mut committed = self.committed.lock();
            while let Some(oldest) = committed.front().filter(|c| c.epoch <= applied) {
                bytes += oldest.bytes();
                committed.pop_front();
            }
        }
        self.plane.note_applied(bytes);
        self.plane.note_free(self.ring_room().0);
    }

    /// Blocks of the ring that are free, and all of them.
    pub fn ring_room(&self) -> (u32, u32) {
        let log = self.log.lock();
        (log.ring.free(), log.ring.place().blocks)
    }

    /// An epoch is durable.
    pub(super) fn note_committed(
        &self,
        closed: Closed,
        span: Span,
        heads: Vec<Head>,
        why: CommitReason,
        figures: &Figures,
    ) {
        let callers = self.group.waiting_for(closed.epoch);
        let mut log = self.log.lock();
        let usage = log.usage_after(&closed);
        log.ring.push(closed.epoch, span);
        log.usage = usage;
        log.heads = heads;
        log.opened = rt::now();
        figures.add_to(&mut log.stats, why, callers);
        let committed = Committed {
            epoch: closed.epoch,
            groups: closed.groups,
            usage,
        };
        self.committed.lock().push_back(Arc::new(committed));
        self.plane.note_free(log.ring.free());
    }

    /// What the journal did and cost so far.
    pub(super) fn stats(&self) -> JournalStats {
        let log = self.log.lock();
        let mut stats = log.stats.clone();
        stats.ring_blocks = log.ring.place().blocks;
        stats.ring_used = log.ring.used();
        stats.ring_used_max = log.ring.used_max();
        stats.committed = log.ring.newest().0;
        stats.applied = log.ring.tail_epoch().0 - 1;
        stats
    }
}
