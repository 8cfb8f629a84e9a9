//! The journal's steps in a mount: before roll-forward, after it, and when operations may begin.

use super::Recovered;
use crate::F2fs;
use crate::journal::ring::area;
use crate::journal::{Journal, Start};
use crate::ops::{Cause, Freeze};
use base::{Ino, SECTORS_PER_BLOCK};
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::JournalVersion;
use std::collections::BTreeMap;

impl F2fs {
    /// Judges and redoes the ring of a volume that has one, whether the mount will use it or not:
    /// what was acknowledged is in it.
    ///
    /// # Errors
    /// The options want a journal and there is none; the case of the ring refuses the mount; I/O.
    pub(crate) fn redo_journal(&self) -> FsResult<Option<Recovered>> {
        let device = self.queue.caps().sectors / SECTORS_PER_BLOCK;
        let area = area::find(&self.sb.lock(), &self.geo, device)?;
        let Some(area) = area else {
            return match self.options.journal {
                None => Ok(None),
                Some(_) => Err(FsError::options(
                    "scheme=f2fsj: the volume has no room for a journal; `varve mkfs --fs f2fs -J default` makes one that has",
                )),
            };
        };
        if self.options.read_only && !self.options.roll_forward {
            // `norecovery`: the pack and nothing else.
            return Ok(None);
        }
        self.frozen(Cause::Recovery, |freeze| {
            self.recover_journal(freeze, &area)
        })
        .map(Some)
    }

    /// Lets the ring go on with what was redone, or publishes that and begins a new life of the
    /// ring.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn publish_journal(
        &self,
        freeze: &Freeze<'_>,
        journal: &mut Recovered,
        forced: bool,
    ) -> FsResult<()> {
        let begun = rt::now();
        if let Some(unapplied) = journal.unapplied.take() {
            journal.started = Some(self.go_on(journal, unapplied)?);
            journal.report.publish = rt::now() - begun;
            return Ok(());
        }
        let used = self.options.journal.is_some();
        if forced || used {
            self.cp.set_applied(journal.area.uuid, journal.epoch);
        }
        if forced {
            // Directories without links may have pages to write.
            let orphans = self.load_orphans()?;
            self.cp.force();
            self.checkpoint_frozen(freeze)?;
            drop(orphans);
        }
        if used || forced || !journal.idle {
            let start = self.begin_ring(journal, !used)?;
            let options = self.options.journal;
            let area = journal.area;
            journal.started = options.map(|options| Journal::new(area, options, start));
        }
        journal.report.publish = rt::now() - begun;
        Ok(())
    }

    /// recover-R4: the pack is durable; the ring begins anew, empty. `idle`: nothing will be
    /// committed into it.
    fn begin_ring(&self, recovered: &mut Recovered, idle: bool) -> FsResult<Start> {
        let sb = &mut recovered.sb;
        sb.version = JournalVersion::default();
        sb.clean = idle;
        sb.incarnation = sb.incarnation.wrapping_add(1).max(1);
        (sb.tail, sb.tail_epoch) = (recovered.head, recovered.epoch.0 + 1);
        sb.head_epoch = recovered.epoch.0;
        sb.transaction_max = self.first_transaction_max(sb.ring_blocks);
        sb.checkpoint_version = self.cp.version();
        // Both copies: none of them may bring an old life back.
        for _ in 0..2 {
            sb.generation = sb.generation.wrapping_add(1);
            self.write_super(&recovered.area, sb)?;
        }
        Ok(Start {
            incarnation: sb.incarnation,
            head: recovered.head,
            applied: recovered.epoch,
            epoch: recovered.epoch,
            usage: self.space.usage(),
            sb: *sb,
        })
    }

    /// Truncations that a cut interrupted go on, as new work.
    ///
    /// # Errors
    /// I/O, damage.
    pub(crate) fn continue_truncations(&self, truncs: &BTreeMap<Ino, u64>) -> FsResult<()> {
        if self.options.read_only {
            return Ok(());
        }
        for &ino in truncs.keys() {
            match self.inode(ino) {
                Ok(inode) => self.continue_truncate(&inode)?,
                // Without links by now: it is freed with the other orphans.
                Err(FsError::Posix(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
