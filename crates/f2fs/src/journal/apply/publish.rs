//! Writes the pack that names epoch T, and lets the live state take over the places written for it.

use super::Clock;
use super::images::Images;
use super::stats::{ApplyPhase, ApplyStats};
use super::write::Written;
use crate::F2fs;
use crate::checkpoint::Wanted;
use crate::journal::{Epoch, Journal};
use crate::nat::NatToWrite;
use crate::ops::Cause;
use crate::segs::HomeToWrite;
use crate::space::Usage;
use base::{Ino, Mutant};
use fscore::FsResult;
use ondisk::f2fs::BlockAddr;
use std::collections::BTreeSet;

/// What an apply is for.
pub(super) struct Goal {
    /// What caused the apply.
    pub cause: Cause,
    /// T: the last epoch that it applies.
    pub target: Epoch,
    /// What is in use after T.
    pub usage: Usage,
}

/// A pack that is durable.
pub(super) struct Durable {
    nat: NatToWrite,
    segs: HomeToWrite,
}

impl F2fs {
    /// apply-A5: writes NAT, SIT, summaries and the pack.
    pub(super) fn write_home_pack(
        &self,
        journal: &Journal,
        goal: Goal,
        images: &Images<'_, '_>,
        written: &Written,
        clock: &mut Clock,
        stats: &mut ApplyStats,
    ) -> FsResult<Durable> {
        let Goal {
            cause,
            target,
            usage,
        } = goal;
        let mut plug = self.queue.plug();
        let nat = self.nat.flush_home(&written.nat, &mut plug)?;
        let segs = self.segs.flush_home(&images.fold.segs, &mut plug);
        // A pack that says more than it has: recovery would leave that epoch out (hazards-F72).
        let ahead = u64::from(rt::mutant(Mutant::F2fsjPackAhead));
        self.cp
            .set_applied(journal.area.uuid, Epoch(target.0 + ahead));
        let packed = self.build_pack(Wanted {
            cause,
            usage,
            orphans: self.orphans_after(images),
            nat: &nat,
            segs: &segs.segs,
        })?;
        stats.nat_blocks += nat.blocks();
        stats.sit_blocks += segs.sit_blocks;
        stats.ssa_blocks += segs.ssa_blocks();
        if rt::mutant(Mutant::F2fsjTailEarly) {
            // hazards-F73.
            self.move_tail(journal, target);
        }
        let nodes = written.moved.len() as u64;
        self.write_pack(packed, &nat, nodes, plug, &mut clock.pack)?;
        clock.end_of_pack();
        Ok(Durable { nat, segs })
    }

    /// Orphans of home' (apply-A2).
    fn orphans_after(&self, images: &Images<'_, '_>) -> Vec<Ino> {
        let mut orphans: BTreeSet<Ino> = self.cp.listed_orphans().into_iter().collect();
        for (&ino, &is) in &images.fold.orphans {
            match is {
                true => orphans.insert(ino),
                false => orphans.remove(&ino),
            };
        }
        orphans.into_iter().collect()
    }

    /// The pack is durable: apply-A6, apply-A7, apply-A8.
    pub(super) fn publish_home(
        &self,
        journal: &Journal,
        target: Epoch,
        durable: Durable,
        images: Images<'_, '_>,
        written: &Written,
        stats: &mut ApplyStats,
    ) -> FsResult<()> {
        let fold = images.fold;
        self.segs.home_published(&fold.segs, durable.segs);
        stats.overtaken += self.nat.publish(
            durable.nat,
            &written.nat,
            &written.moved,
            target,
            &self.segs,
        )?;
        // apply-A8: everything can be found where it is now.
        self.nodes.applied(target);
        self.pages
            .settle_meta(|dir, page| journal.stamps.last(dir, page) <= target);
        journal.stamps.applied(target);
        // apply-A6.
        stats.released += fold.freed.len() as u64;
        self.release_home(fold.freed);
        if !rt::mutant(Mutant::F2fsjTailEarly) {
            self.move_tail(journal, target);
        }
        self.note_tail(journal)
    }

    /// apply-A6: the ring may be written over up to this epoch.
    ///
    /// # Panics
    /// f2fs-journal-I8: if the newest durable pack does not have it.
    fn move_tail(&self, journal: &Journal, target: Epoch) {
        let durable = self.cp.applied(&journal.area.uuid);
        assert!(
            durable.is_some_and(|durable| durable >= target),
            "f2fs-journal-I8: the tail moves behind {target:?}, and the newest durable pack has {durable:?}"
        );
        journal.release(target);
    }

    fn release_home(&self, mut freed: Vec<BlockAddr>) {
        freed.sort_unstable();
        debug_assert!(
            freed.windows(2).all(|two| two[0] != two[1]),
            "apply-A6: a block is released twice"
        );
        self.segs.release(&freed, self.options.discard);
    }

    /// Checks that home and live are equal. Everything must be applied, and no operation may change
    /// anything.
    ///
    /// # Panics
    /// f2fs-journal-I3: something does.
    pub(crate) fn assert_home_is_live(&self) {
        let nodes = self.nat.ahead_of_home();
        assert!(
            nodes.is_empty(),
            "f2fs-journal-I3: live and not at home: {nodes:?}"
        );
        let blocks = self.segs.ahead_of_home(16);
        assert!(
            blocks.is_empty(),
            "f2fs-journal-I3: valid in one view only, live or home: {:?}",
            blocks
                .iter()
                .map(|&b| (b, self.segs.is_valid(b), self.segs.owner_of(b)))
                .collect::<Vec<_>>()
        );
        assert_eq!(
            self.cp.usage(),
            self.space.usage(),
            "f2fs-journal-I3: counts, home and live"
        );
        assert_eq!(
            self.cp.listed_orphans(),
            self.orphans.all(),
            "f2fs-journal-I3: orphans, home and live"
        );
        let dirty = (self.nodes.dirty(), self.pages.dirty_meta_pages());
        assert_eq!(
            dirty,
            (0, 0),
            "f2fs-journal-I3: dirty nodes and directory pages"
        );
        let deferred = self.segs.deferred();
        assert_eq!(deferred, 0, "apply-A6: blocks that nobody releases");
    }
}

/// Adds a phase.
pub(super) fn add_phase(stats: &mut ApplyStats, phase: ApplyPhase, span: base::Nanos) {
    *stats.time.entry(phase).or_default() += span;
}
