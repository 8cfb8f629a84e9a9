//! What the journal keeps in memory about the ring, and the epochs that are committed and not
//! applied.

use super::{Ring, Span};
use crate::journal::stats::Figures;
use crate::journal::{Closed, CommitReason, Epoch, Journal, JournalStats, OwnedGroup};
use crate::segs::Head;
use crate::space::Usage;
use base::Time;
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::JournalSuper;
use std::sync::Arc;

/// Where a journal goes on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Start {
    /// Life of the ring.
    pub incarnation: u64,
    /// Block of the ring where the transaction behind that of `applied` begins.
    pub head: u32,
    /// The durable pack has this epoch.
    pub applied: Epoch,
    /// Committed: the next epoch is the one behind it.
    pub epoch: Epoch,
    /// What is in use then.
    pub usage: Usage,
    /// The newest copy of the superblock; it is durable, and so is the other one of a new life.
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
    /// What `groups` would be without images.
    #[cfg(test)]
    pub records: Vec<OwnedGroup>,
}

impl Committed {
    /// Bytes of its records.
    pub fn bytes(&self) -> u64 {
        self.groups.iter().map(|g| g.bytes.len() as u64).sum()
    }
}

/// An epoch that becomes one of the committed ones, and what the log says behind it.
pub(super) struct Kept {
    pub closed: Closed,
    /// What is in use after it.
    pub usage: Usage,
    /// Where logs write.
    pub heads: Vec<Head>,
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
    /// # Errors
    /// f2fs-journal-I3: that is less than nothing, or more than the format can say: the counts were
    /// wrong before.
    pub fn usage_after(&self, closed: &Closed) -> FsResult<Usage> {
        let (now, delta) = (self.usage, closed.usage);
        let odd = |what: &str, now: u64, delta: i64| {
            let epoch = closed.epoch.0;
            FsError::corrupt(format!(
                "f2fs-journal-I3: {now} {what} in use, and {delta:+} with epoch {epoch}: the counts of the volume are wrong; run fsck"
            ))
        };
        let small = |what, now: u32, delta| {
            let after = u64::from(now).checked_add_signed(delta);
            let fits = after.and_then(|after| u32::try_from(after).ok());
            fits.ok_or_else(|| odd(what, now.into(), delta))
        };
        let blocks = now.blocks.checked_add_signed(delta.blocks);
        Ok(Usage {
            blocks: blocks.ok_or_else(|| odd("blocks", now.blocks, delta.blocks))?,
            nodes: small("nodes", now.nodes, delta.nodes)?,
            inodes: small("inodes", now.inodes, delta.inodes)?,
        })
    }

    /// The heads among `heads` that differ from what the ring says.
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

    /// The pack that contains all epochs up to `applied` is durable: their place in the ring may be
    /// used again (f2fs-journal-I8).
    ///
    /// # Panics
    /// f2fs-journal-I8: if one of them is not committed.
    pub fn release(&self, applied: Epoch) {
        self.log.lock().ring.release(applied);
        self.tables.applied(applied);
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

    /// The epoch behind the newest one in the ring was redone at mount, and is not applied.
    pub(in crate::journal) fn keep_redone(&self, redone: Committed, span: Span) {
        let mut log = self.log.lock();
        log.ring.push(redone.epoch, span);
        self.plane.kept_instead(0, redone.bytes());
        self.plane.note_free(log.ring.free());
        self.committed.lock().push_back(Arc::new(redone));
    }

    /// An epoch is durable at `span`; or the pack is about to be that makes it so, and it has no
    /// place in the ring (f2fs-commit-K8).
    pub(super) fn keep(&self, kept: Kept, span: Option<Span>) {
        let Kept {
            closed,
            usage,
            heads,
        } = kept;
        let mut log = self.log.lock();
        match span {
            Some(span) => log.ring.push(closed.epoch, span),
            None => {
                log.ring.push_aside(closed.epoch);
            }
        }
        log.usage = usage;
        log.heads = heads;
        log.opened = rt::now();
        let committed = Committed {
            epoch: closed.epoch,
            groups: closed.groups,
            usage,
            #[cfg(test)]
            records: closed.records,
        };
        self.committed.lock().push_back(Arc::new(committed));
        self.plane.note_free(log.ring.free());
    }

    /// An epoch is committed: what that cost.
    pub(super) fn account(&self, epoch: Epoch, why: CommitReason, figures: &Figures) {
        let callers = self.group.waiting_for(epoch);
        figures.add_to(&mut self.log.lock().stats, why, callers);
    }

    /// What the journal did and cost so far.
    pub(in crate::journal) fn stats(&self) -> JournalStats {
        let log = self.log.lock();
        let mut stats = log.stats.clone();
        stats.ring_blocks = log.ring.place().blocks;
        stats.ring_used = log.ring.used();
        stats.ring_used_max = log.ring.used_max();
        stats.committed = self.last_committed().0;
        stats.applied = log.ring.tail_epoch().0 - 1;
        stats
    }
}
