//! The ring goes on after a recovery: what was redone stays in it, in memory it is committed and
//! not applied, and an apply brings it home later, as after any commit. So a mount behind a cut
//! writes no node, no table and no pack.
//!
//! It is right because:
//! - G1 home is what the pack says: its maps are copied before the first record is redone, and
//!   the NAT keeps its own entries below the changed ones. Live is the state after the chain. The
//!   difference is what the records of the chain say, which is what apply folds (apply-A2). Nodes
//!   and directory pages that were changed are dirty, so they stay in memory (f2fs-journal-I9);
//!   the stamps of nodes say 0, those of directory pages the end of the chain, so that a page
//!   that is dropped and born again is told from it (apply-A7). Every later apply has all of the
//!   chain in it (apply-A1);
//! - G2 wherever memory or the ring differ from what they would be without the cut, a pack ends
//!   the recovery, as it does where this mount has no journal: nodes that left memory while they
//!   were redone, images of blocks, truncations under way, files that nobody has a name of,
//!   counts that do not fit, records that an apply would refuse, an epoch that was left out, a
//!   ring of an older version, without barriers, or with a damaged superblock, and a hole in it;
//! - G3 a flush precedes everything that this mount writes into the ring or home: if the host has
//!   crashed and the device has not, the last transaction and its data may lie in the device's
//!   cache only. Behind the flush the next commit may prove that this one is durable (scan-S4), and
//!   recovery need not compare its data again;
//! - G4 what a cut has left of the transaction of E + 1 stands where the next one will. Blocks of
//!   both would have the same incarnation and epoch, and could together be whole by chance. So an
//!   empty transaction takes the place and the epoch before anything is changed. A cut meanwhile
//!   leaves it, or not: then nothing of it was answered, and it says nothing. Of E + 2 there is
//!   nothing (scan-S6), or a pack ends the recovery (G2);
//! - G5 recovery may compare the data of the last transaction until the next one is durable
//!   (summed-Q1), so its blocks keep their bytes in this mount, too;
//! - G6 a cut before the next commit finds the same pack and the same ring; behind it the chain is
//!   longer by one, and begins at the same place. The superblock of the journal is not written; the
//!   tail that it names lies before the chain as before (scan-S3);
//! - G7 numbers of nodes that the chain freed may have new owners, as behind any commit
//!   (hazards-F62). Their blocks stay held until they are applied (f2fs-journal-I6).

use super::Recovered;
use super::cases::{Chain, Content, Facts, Front, Supers};
use super::scan::Scanned;
use crate::F2fs;
use crate::fault;
use crate::journal::apply::fold::Fold;
use crate::journal::ring::Span;
use crate::journal::summed::BlockSum;
use crate::journal::{CommitReason, Committed, Epoch, Journal, OwnedGroup, Redone, Start};
use crate::options::FsyncMode;
use crate::space::Usage;
use base::BLOCK_BYTES;
use base::cost::journal::BLOCK_COPY;
use fscore::FsResult;
use ondisk::f2fs::journal::{Groups, JournalVersion, Transaction};
use ondisk::f2fs::{BlockAddr, Nid};

/// The chain, as memory keeps epochs that are committed and not applied.
pub(super) struct Unapplied {
    /// Block of the ring where it begins, and the epoch before it.
    head: u32,
    applied: Epoch,
    epochs: Vec<(Committed, Span)>,
    /// Node numbers that it freed.
    pub freed_nids: Vec<Nid>,
    /// Data blocks of which its last transaction has checksums.
    sums: Vec<BlockAddr>,
    /// What follows in the ring has to be overwritten first (G4).
    is_torn: bool,
}

impl Unapplied {
    /// Nothing of the chain yet.
    pub fn new(found: &Scanned, sums: Vec<BlockAddr>) -> Unapplied {
        let head = found.run.as_ref().map_or(found.head, |run| run.at);
        Unapplied {
            head,
            applied: found.applied,
            epochs: Vec::new(),
            freed_nids: Vec::new(),
            sums,
            is_torn: found.seen > found.end || !is_clean(found.facts.front),
        }
    }

    /// Whether an apply will take the records for possible, which a redo is more lenient with.
    pub fn can_be_applied(&self, fs: &F2fs) -> bool {
        let mut fold = Fold::new(fs.geo);
        let home = |seg| fs.segs.home_map(seg);
        let mut epochs = self.epochs.iter();
        epochs.all(|(redone, _)| fold.add(redone.epoch, &redone.groups, home).is_ok())
    }

    /// The next epoch.
    ///
    /// # Errors
    /// Its groups cannot be read.
    pub fn add(&mut self, epoch: Epoch, span: Span, transaction: &Transaction) -> FsResult<()> {
        let mut groups = Vec::new();
        for group in Groups::new(&transaction.payload) {
            let group = group.map_err(fault::corrupt)?;
            groups.push(OwnedGroup {
                ino: group.ino,
                records: group.records,
                bytes: group.bytes.to_vec(),
            });
        }
        let commit = transaction.commit;
        let usage = Usage {
            blocks: commit.valid_blocks,
            nodes: commit.valid_nodes,
            inodes: commit.valid_inodes,
        };
        rt::charge_each(
            BLOCK_COPY,
            transaction.payload.len().div_ceil(BLOCK_BYTES) as u64,
        );
        let redone = Committed {
            epoch,
            usage,
            #[cfg(test)]
            records: groups.clone(),
            groups,
        };
        self.epochs.push((redone, span));
        Ok(())
    }
}

/// Nothing of the next transaction stands behind the chain.
fn is_clean(front: Front) -> bool {
    matches!(front, Front::Unwritten | Front::Stale)
}

/// G2: the ordinary crash.
fn is_ordinary(found: &Scanned) -> bool {
    let Facts {
        supers,
        stamped,
        idle,
        chain,
        front,
        beyond,
        content,
        barrier,
    } = found.facts;
    let whole = supers == Supers::Fit && stamped && !idle && barrier;
    let chain = chain == Chain::Sound && content == Content::Whole && found.torn.is_none();
    let ends = !beyond && front != Front::Impossible && found.seen.0 <= found.end.0 + 1;
    whole && chain && ends && !found.searched
}

impl F2fs {
    /// Whether the ring can go on behind the chain, as far as that is known before the redo (G2).
    pub(super) fn ring_may_go_on(&self, found: &Scanned, recovered: &Recovered) -> bool {
        let options = &self.options;
        let records = options
            .journal
            .is_some_and(|journal| journal.ideas.change_records && journal.redone == Redone::Ring);
        let writes = !options.read_only && options.roll_forward && !options.checkpoint_disabled;
        let volume = !self.cp.is_marked_disabled() && !self.geo.is_sealed();
        let sb = &recovered.sb;
        let ring = sb.version == JournalVersion::default()
            && sb.transaction_max > 0
            && options.fsync != FsyncMode::NoBarrier
            && recovered.notes.is_empty();
        records && writes && volume && ring && is_ordinary(found)
    }

    /// The ring goes on (G3, G5, G7).
    ///
    /// # Errors
    /// I/O.
    pub(super) fn go_on(
        &self,
        recovered: &mut Recovered,
        unapplied: Unapplied,
    ) -> FsResult<Journal> {
        let flushed = self.queue.flush();
        flushed.map_err(fault::device(
            "flushing what the last mount may have left in the device",
        ))?;
        self.nat.nids_committed(&unapplied.freed_nids);
        let options = self.options.journal.expect("asked before the redo");
        let start = Start {
            incarnation: recovered.sb.incarnation,
            head: unapplied.head,
            applied: unapplied.applied,
            epoch: recovered.epoch,
            usage: self.space.usage(),
            sb: recovered.sb,
        };
        let mut journal = Journal::new(recovered.area, options, start);
        journal.is_torn = unapplied.is_torn;
        let sums: Vec<BlockSum> = unapplied
            .sums
            .iter()
            .map(|&addr| BlockSum { addr, sum: 0 })
            .collect();
        journal.summed.note(recovered.epoch, &sums);
        journal.summed.committed(recovered.epoch, !sums.is_empty());
        // G1: looks at all dirty pages, and leaves them dirty.
        self.pages.settle_meta(|dir, page| {
            journal.stamps.set(dir, page, recovered.epoch);
            false
        });
        recovered.report.kept = unapplied.epochs.len() as u64;
        for (redone, span) in unapplied.epochs {
            journal.keep_redone(redone, span);
        }
        Ok(journal)
    }

    /// G4: an empty transaction takes the place of what a cut has left, if it has. The guard is up
    /// (guard-W1), and nothing else was written: orphans and truncations have ended the ring (G2).
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn seal_ring(&self) -> FsResult<()> {
        let Some(journal) = self.journal.as_ref().filter(|journal| journal.is_torn) else {
            return Ok(());
        };
        let closed = journal.plane.close_empty();
        self.commit_for(closed, CommitReason::Settle)
    }
}
