//! The commands of the host in a film, also in the form in which the block seam records them.

use super::film::Film;
use base::{Bytes, Lba, SECTOR_BYTES, SECTORS_PER_BLOCK, Time, bytes::is_zero};
use blockdev::spec::{Kind, Write};
use blockdev::trace::{RemapDone, Step, What};
use blockdev::{Class, Image, Model, Op, Remap, RemapMode, Request, Ticket, Trace};
use rig::AnyModel;
use std::sync::Arc;

/// A command that the host gave.
pub(super) struct Command {
    request: Request,
    ticket: Ticket,
    /// When the host learned of its completion, if it did.
    pub end: Option<Time>,
    /// The device has done nothing of it: a source of the REMAP held other content than expected.
    pub refused: bool,
}

impl Command {
    pub fn new(request: Request, ticket: Ticket) -> Command {
        Command {
            request,
            ticket,
            end: None,
            refused: false,
        }
    }

    /// True if the command has this ticket and nobody has waited for it.
    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.ticket == ticket && self.end.is_none() && !self.refused
    }

    /// What the fingerprint of a run covers of the command.
    pub fn words(&self) -> Vec<u64> {
        let (kind, fua) = match &self.request.op {
            Op::Read { .. } => (1, false),
            Op::Write { fua, .. } => (2, *fua),
            Op::Pack { .. } => (3, false),
            Op::Barrier => (4, false),
            Op::Flush => (5, false),
            Op::Discard { .. } => (6, false),
            Op::Remap(remap) => (7, remap.fua),
        };
        let end = self.end.map_or(u64::MAX, |end| end.0);
        let mut words = vec![kind, u64::from(fua), end];
        for (lba, sectors) in self.request.spans() {
            words.extend([lba.0, sectors]);
        }
        words
    }

    /// The command as the block seam records it; `None` for a read and for a refused one. `before`
    /// is the device before it.
    fn step(&self, start: Time, before: &AnyModel) -> Option<Step> {
        let end = self.end.unwrap_or(Time(u64::MAX));
        let mut classes: Vec<Class> = Vec::new();
        let mut write = |lba: Lba, pieces: &[blockdev::Piece], fua: bool| {
            classes.extend(pieces.iter().map(|p| p.class));
            let kind = match (fua, before.caps().volatile_cache) {
                (true, _) => Kind::Fua,
                (false, true) => Kind::Normal,
                (false, false) => Kind::Through,
            };
            let new: Vec<Bytes> = pieces.iter().map(|p| p.bytes.clone()).collect();
            let bytes: usize = new.iter().map(Bytes::len).sum();
            let sectors = (bytes / base::SECTOR_BYTES) as u64;
            Arc::new(Write {
                start,
                end,
                kind,
                lba,
                sectors,
                new,
                prev: prev(before, lba, sectors),
            })
        };
        let what = match &self.request.op {
            _ if self.refused => return None,
            Op::Read { .. } => return None,
            Op::Remap(remap) => What::Remap(Arc::new(remapped(remap, (start, end), before))),
            Op::Flush => What::Flush,
            Op::Barrier => What::Barrier,
            Op::Write { lba, pieces, fua } => What::Write(write(*lba, pieces, *fua)),
            Op::Pack { writes } => {
                let all = writes.iter();
                What::Pack(all.map(|w| write(w.lba, &w.pieces, w.fua)).collect())
            }
            Op::Discard { lba, sectors } => What::Write(Arc::new(Write {
                start,
                end,
                kind: Kind::Discard,
                lba: *lba,
                sectors: *sectors,
                new: Vec::new(),
                prev: prev(before, *lba, *sectors),
            })),
        };
        Some(Step {
            start,
            end,
            what,
            classes,
        })
    }
}

/// A REMAP that has let its homes take over what their sources held `before`.
fn remapped(remap: &Remap, (start, end): (Time, Time), before: &AnyModel) -> RemapDone {
    let durable = remap.fua || !before.caps().volatile_cache;
    let part = |lba: Lba, sectors: u64, new: Vec<Bytes>| {
        Arc::new(Write {
            start,
            end,
            kind: Kind::Remap { durable },
            lba,
            sectors,
            new,
            prev: prev(before, lba, sectors),
        })
    };
    let homes = remap.pairs.iter();
    let homes = homes.map(|p| part(p.home, p.sectors, content(before, p.src, p.sectors)));
    let mut writes: Vec<Arc<Write>> = homes.collect();
    if remap.mode == RemapMode::Move {
        let gone = remap.sources().into_iter();
        writes.extend(gone.map(|(lba, sectors)| part(lba, sectors, Vec::new())));
    }
    RemapDone {
        pairs: remap.pairs.clone(),
        mode: remap.mode,
        writes,
    }
}

/// The content of a run of sectors, block by block.
fn content(before: &AnyModel, lba: Lba, sectors: u64) -> Vec<Bytes> {
    let end = lba.0 + sectors;
    let blocks = lba.0 / SECTORS_PER_BLOCK..end.div_ceil(SECTORS_PER_BLOCK);
    let piece = |block: u64| {
        let first = block * SECTORS_PER_BLOCK;
        let from = lba.0.saturating_sub(first) as usize * SECTOR_BYTES;
        let to = (end - first).min(SECTORS_PER_BLOCK) as usize * SECTOR_BYTES;
        before.visible(block).slice(from..to)
    };
    blocks.map(piece).collect()
}

/// The content that the blocks of a write held before; blocks of zeros are left out.
fn prev(before: &AnyModel, lba: Lba, sectors: u64) -> Vec<(u64, Bytes)> {
    let blocks = lba.0 / SECTORS_PER_BLOCK..(lba.0 + sectors).div_ceil(SECTORS_PER_BLOCK);
    let held = blocks.map(|block| (block, before.visible(block)));
    held.filter(|(_, bytes)| !is_zero(bytes)).collect()
}

impl Film {
    /// The commands of the host without the reads, as a disk in memory records them.
    pub fn trace(&self) -> Trace {
        let pairs = self.frames.windows(2).zip(&self.commands);
        let steps = pairs.filter_map(|(frames, command)| command.step(frames[1].0, &frames[0].1));
        let first = &self.frames[0].1;
        Trace {
            start: logical(first),
            caps: first.caps().clone(),
            steps: steps.collect(),
        }
    }
}

/// The content that a host would read from a device now.
pub fn logical(model: &AnyModel) -> Image {
    let mut blocks: Vec<(u64, Bytes)> = Vec::new();
    model.dump_logical(|lba, bytes| {
        blocks.push((lba.0 / SECTORS_PER_BLOCK, Bytes::copy_from_slice(bytes)));
    });
    blocks.into_iter().collect()
}
