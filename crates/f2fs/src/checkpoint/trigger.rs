//! When a checkpoint is due: at the thresholds of Linux, each of which can be configured, and when
//! no node number is left but those that a checkpoint would make free.
//!
//! As in Linux (6.1, `f2fs_balance_fs`), an operation looks at the thresholds only if many NAT
//! entries are in memory; with fewer the flusher does, when nodes have been dirty for a while.
//! Where a task writes checkpoints at an interval, the thresholds are those that memory and room
//! set ([`F2fs::held_up`]).

use crate::F2fs;
use crate::gc::DIRTY_PART;
use crate::ops::Cause;
use crate::options::CheckpointPolicy;
use base::Nanos;
use fscore::FsResult;
use ondisk::f2fs::BLOCKS_PER_SEG;

impl F2fs {
    /// Writes a checkpoint if a trigger is due. The caller holds no lock.
    ///
    /// # Errors
    /// As [`checkpoint`](Self::checkpoint).
    pub(crate) fn checkpoint_if_due(&self) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        if self.cp.is_disabled() {
            return self.room_without_checkpoints();
        }
        match self.due() {
            Some(cause) => self.checkpoint(cause),
            None => Ok(()),
        }
    }

    /// The trigger that says that a checkpoint is due.
    fn due(&self) -> Option<Cause> {
        if self.nat.starved() {
            return Some(Cause::DirtyNat);
        }
        let CheckpointPolicy {
            triggers,
            background,
        } = &self.options.checkpoint;
        // Where a task writes them in the background. Without tasks nobody else would write one.
        if background.is_some() && self.options.timers {
            return self.held_up();
        }
        let pressing = match self.nat.holds(triggers.cached_nat_max.into()) {
            true => self.pressing(),
            false => self.crowded(),
        };
        if pressing.is_some() {
            return pressing;
        }
        let interval = triggers.interval.filter(|_| self.options.timers)?;
        let last = self.cp.state.lock().last;
        (rt::now() - last >= interval).then_some(Cause::Timer)
    }

    /// So many nodes are dirty that memory runs short: Linux wakes its flusher when a tenth of
    /// memory is dirty.
    fn crowded(&self) -> Option<Cause> {
        let most = (self.nodes.room() / DIRTY_PART).max(self.dirty_nodes_threshold());
        (self.nodes.dirty() >= most).then_some(Cause::DirtyNodes)
    }

    /// The flusher of Linux, when it comes to nodes that have been dirty for a while, writes a
    /// checkpoint if a threshold says so.
    pub(crate) fn flusher_task(&self, interval: Nanos, expire: Nanos) {
        let mut last_visit = rt::now();
        while self.pause(interval) {
            let now = rt::now();
            let Some(since) = self.nodes.dirty_since() else {
                continue;
            };
            if now - since.max(last_visit) < expire {
                continue;
            }
            last_visit = now;
            if let Some(cause) = self.pressing()
                && self.checkpoint(cause).is_err()
            {
                // A failure has latched the mount: then there is nothing left to do.
                return;
            }
        }
    }

    /// The threshold of what is dirty, or waits to be freed, that is reached.
    pub(crate) fn pressing(&self) -> Option<Cause> {
        self.reaches(1, self.dirty_nodes_threshold())
    }

    /// Dirty nodes from which on a checkpoint, or an apply, is due.
    pub(crate) fn dirty_nodes_threshold(&self) -> u64 {
        let segments = self.options.checkpoint.triggers.dirty_node_segments;
        (u64::from(segments) * u64::from(BLOCKS_PER_SEG)).max(1)
    }

    /// The same where so many nodes may be dirty, and of the others `times` what the thresholds
    /// say.
    pub(crate) fn reaches(&self, times: u64, nodes: u64) -> Option<Cause> {
        let triggers = &self.options.checkpoint.triggers;
        let nat = u64::from(self.geo.max_nid) * u64::from(triggers.dirty_nat_percent) / 100;
        let nat = nat.min(triggers.dirty_nat_max.into());
        if self.nat.dirty() >= nat.max(1) * times {
            return Some(Cause::DirtyNat);
        }
        if self.nodes.dirty() >= nodes {
            return Some(Cause::DirtyNodes);
        }
        let main = u64::from(self.geo.segments_main);
        let prefree = (main * u64::from(triggers.prefree_percent) / 100)
            .min(triggers.prefree_segments_max.into());
        (u64::from(self.segs.prefree()) > prefree * times).then_some(Cause::Prefree)
    }
}
