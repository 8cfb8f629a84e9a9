//! Recovery by REMAP (JFTL, 3.2): homes are pointed at the images in the log again, instead of
//! being overwritten with copies.
//!
//! - Y1: the targets are those of recovery by copying: of each block the newest committed image,
//!   after the revoke pass (journal-replay-P1: a revoked block has none, hazards-R12). Escaped
//!   images, images flagged as zeros, images of a coalition, blocks known by deltas, and pairs that
//!   are not aligned to the device's granule are copied (hazards-R9).
//! - Y2: what the log has checksums for is read and checked before the first REMAP
//!   (journal-replay-P2), and each pair says what was read there (`expect`): so a log write of the
//!   previous life that lands only now cannot slip in (hazards-R25). In a log without checksums,
//!   unless it is one of `move` (Y5), there is nothing to check an image by: images that are
//!   pointed at are not read, and their pairs expect nothing.
//! - Y3: the log keeps its images (`share`, in a log of `move` as well) until it is marked clean,
//!   after a flush that follows all REMAPs (journal-replay-P3). So a cut anywhere leaves a log that
//!   leads to the same blocks; a batch done twice changes nothing.
//! - Y4: a batch that the device refuses has done nothing; its blocks are copied.
//! - Y5: every recovery reads a log of `move` whole: a log block of a plain image that reads as
//!   zeros was moved home, and its target is done (home_remap-X7).

use super::replay::{Images, Replay, Target};
use crate::home_remap::is_aligned;
use crate::log_super::LogSuper;
use crate::{Home, JournalError, Scheme};
use base::{BlockNo, Mutant, Tid};
use block::{Caps, DevErrorKind, Queue, Remap, RemapCaps, RemapPair};
use ondisk::jbd2::{ChecksumMode, JournalIncompat};
use std::collections::{BTreeMap, BTreeSet};

/// The homes that recovery points at the log (see the head of this file).
pub(crate) struct Repoint {
    /// `None`: everything is copied.
    caps: Option<RemapCaps>,
    pointed: Vec<Target>,
    /// Images of `pointed` were not read (Y2).
    unread: bool,
    blocks: u64,
    commands: u64,
}

impl Repoint {
    /// Chosen by the scheme that the journal will have, as far as the device can REMAP.
    pub fn new(scheme: Option<&Scheme>, caps: &Caps) -> Repoint {
        let remaps = scheme.is_some_and(|s| matches!(s.home, Home::Remap { .. }));
        Repoint {
            caps: caps.remap.filter(|_| remaps),
            pointed: Vec::new(),
            unread: false,
            blocks: 0,
            commands: 0,
        }
    }

    /// True if no image has to be read: there is nothing to check it by, and it is where it was
    /// written (Y2, Y5).
    pub fn reads_no_images(&self, log: &LogSuper) -> bool {
        let moved = log.sb.incompat().has(JournalIncompat::REMAP_MOVE);
        let checked = log.sb.format().checksum != ChecksumMode::None;
        self.caps.is_some() && !moved && !checked
    }

    /// The table that targets are filtered by (Y1).
    pub fn revoked(&self, table: BTreeMap<BlockNo, Tid>) -> BTreeMap<BlockNo, Tid> {
        // hazards-R12.
        let mistake = self.caps.is_some() && !table.is_empty() && rt::mutant(Mutant::RemapRevoked);
        if mistake { BTreeMap::new() } else { table }
    }

    /// Called before any image is read.
    pub fn begin(&mut self, log: &LogSuper, targets: &mut Vec<Target>, replay: &mut Replay) {
        if self.caps.is_none() {
            return;
        }
        self.unread = self.reads_no_images(log);
        match self.unread {
            true => self.divide(log, targets),
            false => replay.expect(),
        }
    }

    /// Called when all that has to be read is read, and right.
    pub fn checked(&mut self, log: &LogSuper, targets: &mut Vec<Target>) {
        if self.caps.is_some() && !self.unread {
            self.divide(log, targets);
        }
    }

    /// Takes the targets for REMAP out of the others (Y1).
    fn divide(&mut self, log: &LogSuper, targets: &mut Vec<Target>) {
        let Some(caps) = &self.caps else { return };
        let pointed = |target: &Target| {
            let source = target.plain().map(|at| log.place.block(at));
            source
                .is_some_and(|source| is_aligned(caps, log.place.block_size(), target.home, source))
        };
        let (pointed, copied) = targets.drain(..).partition(pointed);
        (self.pointed, *targets) = (pointed, copied);
    }

    /// The target of this block, if it waits for REMAP.
    pub fn pointed(&self, home: BlockNo) -> Option<&Target> {
        let at = self.pointed.binary_search_by_key(&home, |t| t.home);
        at.ok().map(|at| &self.pointed[at])
    }

    /// Blocks that wait for REMAP.
    pub fn pending(&self) -> u64 {
        self.pointed.len() as u64
    }

    /// Blocks remapped, and commands for them.
    pub fn done(&self) -> (u64, u64) {
        (self.blocks, self.commands)
    }

    /// Points homes at the log. `targets` gets what the device has refused, to be copied with the
    /// others; answers the images of them all, or `None`: they have to be read (Y4).
    pub fn send(
        &mut self,
        queue: &Queue,
        log: &LogSuper,
        (targets, images): (&mut Vec<Target>, Option<Images>),
        replay: &Replay,
    ) -> Result<Option<Images>, JournalError> {
        let Some(caps) = self.caps else {
            return Ok(images);
        };
        let mut refused = Vec::new();
        let mut rest = std::mem::take(&mut self.pointed).into_iter().peekable();
        while rest.peek().is_some() {
            let batch: Vec<Target> = rest.by_ref().take(caps.pairs_max.max(1) as usize).collect();
            match queue.remap(list(log, &batch, replay)) {
                Ok(_) => {
                    self.blocks += batch.len() as u64;
                    self.commands += 1;
                }
                Err(e) if e.kind == DevErrorKind::PowerLost => return Err(e.into()),
                Err(_) => refused.extend(batch),
            }
        }
        let all_read = refused.is_empty() || !self.unread;
        targets.extend(refused);
        targets.sort_by_key(|t| t.home);
        let wanted: BTreeSet<BlockNo> = targets.iter().map(|t| t.home).collect();
        let images = images.filter(|_| all_read);
        Ok(images.map(|mut images| {
            images.retain(|(home, _)| wanted.contains(home));
            images
        }))
    }
}

/// One batch (Y2, Y3).
fn list(log: &LogSuper, batch: &[Target], replay: &Replay) -> Remap {
    let size = log.place.block_size();
    let pair = |target: &Target| {
        let at = target.plain().expect("divided before");
        RemapPair {
            expect: replay.expected(target.home),
            ..RemapPair::new(size.lba(target.home), log.place.lba(at), size.bytes())
        }
    };
    Remap {
        pairs: batch.iter().map(pair).collect(),
        ..Remap::default()
    }
}
