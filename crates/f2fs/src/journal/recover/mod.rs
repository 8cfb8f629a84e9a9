//! Recovery at mount: what the ring holds behind the pack is redone in memory; then the ring goes
//! on, or one checkpoint publishes the result and the ring begins anew.
//!
//! The order:
//!
//! 1. The superblock of the journal, the epoch that the pack contains, and the ring decide the
//!    [case](cases). Nothing has changed so far.
//! 2. Every block that the chain calls valid is kept from reuse, and the logs continue where the
//!    chain says (f2fs-mount-M2).
//! 3. The chain is redone, epoch by epoch ([`replay`]).
//! 4. In a mount for writing either the ring goes on as it is, and what was redone goes home later,
//!    as after any commit ([`resume`]); or a checkpoint says that the last epoch is applied, and
//!    then a new, empty life of the ring begins.
//!
//! Invariants:
//! - R1 nothing is changed, in memory or on the device, before the case is known and every record
//!   of the chain was checked against the volume (against the block that it changes, it is checked
//!   when it is redone: f2fs-replay-P1 says what a cut or a refusal then leaves);
//! - R2 until a pack is durable that has what was redone, nothing is overwritten that the previous
//!   pack or the ring refers to: after a cut at any moment recovery begins anew at step 1, and
//!   finds the same, or more where the ring has gone on;
//! - R3 a ring is redone only onto the pack that it was written behind: the pack says so itself
//!   (its applied mark has its own version and the volume's UUID). If other software wrote the
//!   pack, what is in the ring belongs to a state that no longer exists (hazards-F56);
//! - R4 blocks of another life of the ring never count (hazards-F55); a new life begins when the
//!   pack that ends recovery is durable, and before anything is committed.

mod ahead;
pub(crate) mod cases;
#[cfg(test)]
mod forge;
mod mount;
mod records;
mod replay;
mod report;
mod resume;
mod scan;
#[cfg(test)]
mod scan_tests;
mod sums;
pub(crate) mod supers;
mod tables;

use crate::F2fs;
use crate::journal::capture::redo;
use crate::journal::ring::Span;
use crate::journal::{Epoch, Journal};
use crate::ops::Freeze;
use crate::options::FsyncMode;
use crate::space::Usage;
use base::{Ino, Mutant};
use cases::{Decision, Supers};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{JournalArea, JournalSuper, JournalVersion, RingArea};
use ondisk::f2fs::{BlockAddr, Nid, crc};
use records::Check;
use replay::Redo;
pub use report::JournalRecovery;
use resume::Unapplied;
use scan::{Known, Reader, Scanned};
use std::collections::BTreeMap;

/// What a mount knows behind the journal.
pub(crate) struct Recovered {
    pub report: JournalRecovery,
    /// The checkpoint that ends recovery has to be written, whatever changed: what it says is
    /// applied.
    pub publish: bool,
    /// The ring was redone: there is no chain of roll-forward.
    pub replayed: bool,
    /// The last epoch of the ring.
    pub epoch: Epoch,
    /// Ring index where the next transaction begins.
    pub head: u32,
    /// Truncations under way: from which page on.
    pub truncs: BTreeMap<Ino, u64>,
    /// Notes for people.
    pub notes: Vec<String>,
    /// The journal that goes on, once the ring has a new life or goes on itself.
    pub started: Option<Journal>,
    /// What was redone and stays in the ring; `None`: a pack has to publish it.
    unapplied: Option<Unapplied>,
    /// Where it lies.
    area: JournalArea,
    /// The superblock says already what an unused journal says.
    idle: bool,
    /// The superblock that the next ones follow.
    sb: JournalSuper,
}

impl F2fs {
    /// Judges the ring and redoes it in memory. Nothing is written but what f2fs-replay-P1 allows.
    ///
    /// # Errors
    /// The case refuses the mount; a record does not fit what it is about; I/O.
    pub(crate) fn recover_journal(
        &self,
        freeze: &Freeze<'_>,
        area: &JournalArea,
    ) -> FsResult<Recovered> {
        let begun = rt::now();
        let ring = area
            .ring()
            .ok_or_else(|| FsError::corrupt(format!("a journal of {} blocks", area.blocks)))?;
        let mut chosen = supers::choose(&self.queue, area, &ring)?;
        let known = Known {
            ring,
            supers: chosen.supers,
            sb: chosen.sb,
            applied: self.applied_epoch(area, chosen.sb.as_ref()),
            barrier: self.options.fsync != FsyncMode::NoBarrier,
        };
        let owner = |nid: Nid| {
            let entry = self.nat.get(nid)?;
            Ok((entry.addr != BlockAddr::NULL).then_some(entry.ino))
        };
        let version = chosen.sb.map_or(JournalVersion::default(), |sb| sb.version);
        let mut check = Check::new(&self.geo, &owner, version);
        let found = scan::scan(&self.queue, &known, &mut check)?;
        let report = JournalRecovery {
            scan: rt::now() - begun,
            ..self.report(&found)
        };
        let sb = chosen.sb.unwrap_or(JournalSuper {
            uuid: area.uuid,
            ring_blocks: ring.blocks,
            tail_epoch: 1,
            incarnation: u64::from(crc(!0, &area.uuid)) << 32 | u64::from(rt::wall().nanos),
            ..JournalSuper::default()
        });
        let mut recovered = Recovered {
            report,
            publish: false,
            replayed: false,
            epoch: found.end,
            head: found.head,
            truncs: BTreeMap::new(),
            notes: std::mem::take(&mut chosen.notes),
            started: None,
            unapplied: None,
            area: *area,
            idle: found.facts.idle,
            sb: JournalSuper {
                generation: chosen.generation,
                ..sb
            },
        };
        if found.case.is_notable() {
            recovered.notes.push(recovered.report.message.clone());
        }
        // R1.
        match self.decide(&found)? {
            Decision::Nothing if check.taken.is_empty() => {}
            Decision::Restart => {
                recovered.epoch = found.seen;
                recovered.publish = true;
            }
            decision => {
                let redoes = decision != Decision::Nothing;
                if redoes && self.ring_may_go_on(&found, &recovered) {
                    let sums = check.sums.keys().copied().collect();
                    recovered.unapplied = Some(Unapplied::new(&found, sums));
                    // resume-G1: before the logs open segments of other kinds.
                    self.segs.home_is_live();
                }
                self.hold_ring_blocks(freeze, &check)?;
                recovered.publish = true;
                if redoes {
                    self.redo_chain(freeze, &found, &ring, &mut recovered)?;
                }
            }
        }
        Ok(recovered)
    }

    /// Keeps what the chain calls valid from reuse, that of a transaction that does not count, too
    /// (scan-S5), and sets the logs behind it.
    fn hold_ring_blocks(&self, freeze: &Freeze<'_>, check: &Check<'_>) -> FsResult<()> {
        for &(first, count) in &check.taken {
            for n in 0..count {
                self.segs.redo_hold(freeze, BlockAddr(first.0 + n))?;
            }
        }
        self.segs.redo_heads(freeze, &check.heads)
    }

    /// What the pack has, if it was written for this journal (R3).
    fn applied_epoch(&self, area: &JournalArea, sb: Option<&JournalSuper>) -> Option<Epoch> {
        let stamped = self.cp.applied(&area.uuid);
        if stamped.is_none() && rt::mutant(Mutant::F2fsjStampIgnored) {
            // hazards-F56.
            return sb.map(|sb| Epoch(sb.tail_epoch - 1));
        }
        stamped
    }

    fn report(&self, found: &Scanned) -> JournalRecovery {
        JournalRecovery {
            case: found.case.letter,
            message: found.case.message(&found.place),
            applied: found.applied.0,
            end: found.end.0,
            ring_read: found.blocks_read,
            searched: found.searched,
            pending: self.options.read_only,
            ..JournalRecovery::default()
        }
    }

    /// What this mount does about the case.
    fn decide(&self, found: &Scanned) -> FsResult<Decision> {
        let refused = || Err(FsError::corrupt(found.case.message(&found.place)));
        let decision = found.case.decision;
        // `disable_roll_forward` and `norecovery` want the pack and nothing else.
        let give_up = !self.options.roll_forward;
        match decision {
            // The journal will not be used, and nothing is in it.
            Decision::Restart if self.options.journal.is_none() && found.facts.idle => {
                Ok(Decision::Nothing)
            }
            Decision::Nothing if found.facts.supers == Supers::Fit => Ok(Decision::Nothing),
            _ if give_up => Ok(Decision::Restart),
            Decision::Refuse => refused(),
            Decision::RefuseWrite if !self.options.read_only => refused(),
            Decision::RefuseWrite if found.run.is_none() => Ok(Decision::Nothing),
            other => Ok(other),
        }
    }

    fn redo_chain(
        &self,
        freeze: &Freeze<'_>,
        found: &Scanned,
        ring: &RingArea,
        recovered: &mut Recovered,
    ) -> FsResult<()> {
        let begun = rt::now();
        let run = found.run.as_ref().expect("a chain is redone");
        let pack = self.space.usage();
        let mut redo = Redo::new(self, freeze);
        let mut reader = Reader::new(&self.queue, *ring);
        let (mut at, mut epoch) = (run.at, run.first);
        while epoch <= found.end {
            let read = reader.transaction(at, recovered.sb.incarnation, epoch)?;
            let (transaction, blocks) = read.map_err(|fault| {
                FsError::corrupt(format!("epoch {} was whole a moment ago: {fault}", epoch.0))
            })?;
            redo.torn = found.torn;
            redo.epoch(&transaction.payload).map_err(|e| match e {
                FsError::Corrupt { what } => {
                    FsError::corrupt(format!("epoch {} of the journal: {what}", epoch.0))
                }
                other => other,
            })?;
            if let Some(unapplied) = &mut recovered.unapplied {
                let start = at;
                unapplied.add(epoch, Span { start, blocks }, &transaction)?;
            }
            at = ring.step(at, blocks.into());
            epoch.0 += 1;
        }
        let said = Usage {
            blocks: run.commit.valid_blocks,
            nodes: run.commit.valid_nodes,
            inodes: run.commit.valid_inodes,
        };
        let usage = redo.usage(pack, said);
        self.space.set_recovered(usage);
        recovered.truncs = std::mem::take(&mut redo.truncs);
        let done = redo.done;
        // resume-G2.
        let simple = done.spilled == 0 && done.images == 0 && usage == said;
        let finished = recovered.truncs.is_empty() && self.orphans.all().is_empty();
        let goes_on = |chain: &Unapplied| simple && finished && chain.can_be_applied(self);
        recovered.unapplied = recovered.unapplied.take().filter(goes_on);
        if let Some(unapplied) = &mut recovered.unapplied {
            unapplied.freed_nids = redo.freed_nids;
        }
        let report = &mut recovered.report;
        (report.epochs, report.groups, report.records) = (done.epochs, done.groups, done.records);
        (report.nodes_new, report.nodes_freed) = (done.nodes_new, done.nodes_freed);
        (report.node_changes, report.dir_changes) = (done.node_changes, done.dir_changes);
        (report.blocks, report.spilled) = (done.blocks, done.spilled);
        report.truncations = recovered.truncs.len() as u64;
        report.miscounted = usage != said;
        report.redo = rt::now() - begun;
        if usage != said {
            self.cp.need_fsck();
            recovered.notes.push(format!(
                "journal, epoch {}: {usage:?} counted, the transaction says {said:?}; run fsck",
                found.end.0
            ));
        }
        recovered.replayed = true;
        Ok(())
    }
}
