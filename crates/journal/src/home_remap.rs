//! `home=remap`: committed images come home without a copy (JFTL, 3.1). The device points the home
//! address at the page that holds the image in the log.
//!
//! When a transaction is durable and published, the task that committed it sends one REMAP for all
//! of its blocks that can be remapped, its *list*, or several where the device takes fewer pairs.
//! An fsync that the commit task serves does not wait for the REMAP, the next commit does; an fsync
//! that commits in its own thread (`turn.rs`) waits. A checkpoint that comes first sends the REMAP
//! in the place of that task. Blocks that are not on the list are written home by an ordinary
//! checkpoint (`home.rs`).
//!
//! # What is on a list
//!
//! The blocks of the transaction whose newest committed image is the one it has logged, less
//!
//! - escaped ones: the log does not hold the bytes of home (X2, hazards-R9);
//! - those that the transaction has itself freed, which have no image in it, and those freed by any
//!   transaction that is published (X3, hazards-R12);
//! - those with an older home write on its way (X5, hazards-R10);
//! - blocks of zeros, where the log's addresses are cleared (X7);
//! - all of them, where home or log block does not lie on the device's granule.
//!
//! # Why it is right
//!
//! - X1: a list is built from `pending`, and publishing sets `pending` (buffer-U2): so what comes
//!   home is committed and durable in the log, and it is the newest committed image. A change that
//!   a handle has made to the block since is no obstacle: it is in `current`, belongs to the
//!   running transaction and stays there (buffer-U1). So a REMAP takes no block out of a
//!   transaction (hazards-R13). The image in the log never changes, like the `frozen data` of JBD2.
//! - X2: the bytes of the log block at `source` are the bytes of the image: the image was logged
//!   there without an escape.
//! - X3: a block that a transaction frees is pending until that transaction is published, and no
//!   longer; publishing waits for a REMAP that is under way, as for any home write. Only then may
//!   the block be used again (hazards-H18) or discarded. So no REMAP hits the content that the next
//!   owner of a block wrote, and none follows the discard of its block (hazards-R12, hazards-R14).
//! - X4: while a block is on a list, or its REMAP is under way, it waits in the checkpoint list of
//!   the transaction that logged it. So the tail has not passed that transaction, and no other
//!   image is written to the log block before the REMAP is complete (hazards-R25). A block that is
//!   logged again leaves that list when its next transaction is published: by then no REMAP of the
//!   older image can be under way, for only the transaction published last has sources, and the
//!   task that committed it is done with its list before another commit begins (turn-T1).
//! - X5: at most one home write of a block is under way, and a REMAP is one (buffer-U3); a task
//!   that writes home holds `home`. So no two of them overtake each other (hazards-R10).
//! - X6: a block leaves the checkpoint list when its REMAP has succeeded. If the device refuses a
//!   REMAP, it has carried out none of it: the blocks stay pending without a source, and a
//!   checkpoint writes them (hazards-R24). A REMAP is volatile as a cached write is, and counts as
//!   one in the marks of the queue: the tail moves only after a flush that started later (home-M2).
//!   Until then the log has all images: a cut leaves all homes of one REMAP old, or all new
//!   (remap-S4), and recovery makes them new again, which changes nothing where they are new
//!   already.
//! - X7: [`RemapMode::Share`] leaves the log as it was: any program recovers it.
//!   [`RemapMode::Move`] clears the log blocks, which read as zeros afterwards, and a program that
//!   does not know the mode takes the zeros for damage or for images (hazards-R1). Therefore such a
//!   log carries a feature that keeps other programs out, from before its first record on until the
//!   log is empty. In a log block whose tag is of a plain image, neither escaped nor flagged as an
//!   image of zeros, recovery finds either the image or zeros. Zeros mean that its pair was carried
//!   out, and that its home got the image in the same moment. Both hold for each pair alone, so it
//!   does not matter into how many batches a list was cut, or which of several volatile batches a
//!   cut has kept. After that, home may hold a later image, whose transaction is in the log with a
//!   later tag, or belong to a new owner, after the old one was revoked: in both cases recovery
//!   does not look at this tag (journal-replay-P1; the newest tag counts).
//! - When the tail has passed and the log block is written again, home keeps its page: the device
//!   guarantees that (hazards-R20).

use crate::commit::Job;
use crate::inner::{Inner, Log};
use crate::ring::LogPos;
use crate::state::State;
use crate::{Home, JournalError};
use base::{BlockNo, BlockSize, Bytes, Mutant, Tid};
use block::{DevErrorKind, Remap, RemapCaps, RemapMode, RemapPair, Remapped};
use std::collections::BTreeSet;

/// One block of a list.
struct Listed {
    block: BlockNo,
    /// Address of its image in the log.
    source: BlockNo,
    at: LogPos,
    image: Bytes,
}

/// True if the device can make `home` and `source` share a page.
pub(crate) fn is_aligned(
    caps: &RemapCaps,
    size: BlockSize,
    home: BlockNo,
    source: BlockNo,
) -> bool {
    let (granule, block) = (u64::from(caps.granule.max(1)), size.bytes() as u64);
    let whole = |n: BlockNo| (n.0 * block).is_multiple_of(granule);
    block.is_multiple_of(granule) && whole(home) && whole(source)
}

impl Inner {
    /// How homes are remapped, if they are.
    fn remapping(&self) -> Option<(RemapMode, RemapCaps)> {
        let scheme = self.options.scheme.filter(|_| self.log.is_some())?;
        match scheme.home {
            Home::Remap { mode } => Some((mode, self.queue.caps().remap?)),
            Home::Copy | Home::CopyReliable => None,
        }
    }

    /// True if the log blocks of remapped images are cleared (X7).
    pub fn moves(&self) -> bool {
        matches!(self.remapping(), Some((RemapMode::Move, _)))
    }

    /// The images of a durable transaction that homes can be pointed at.
    pub fn remappable(&self, state: &mut State, job: &Job<'_>) -> Vec<(BlockNo, LogPos)> {
        let (Some((_, caps)), Some(log)) = (self.remapping(), &self.log) else {
            return Vec::new();
        };
        let mut place = |at| log.place.block(state.ring().block(at));
        let plain = job.images.iter().zip(job.sources());
        plain
            .filter_map(|(image, at)| Some((image.block, at?)))
            .filter(|&(block, at)| is_aligned(&caps, self.block_size, block, place(at)))
            .collect()
    }

    /// Remaps what a transaction has logged, once it is published. What is not on its list, or
    /// refused, is left to checkpoints.
    pub fn remap_committed(&self, log: &Log, blocks: &[BlockNo]) -> Result<(), JournalError> {
        self.use_again(log)?;
        if blocks.is_empty() {
            return Ok(());
        }
        let _home = (!rt::mutant(Mutant::RemapInFlight)).then(|| self.home.lock());
        self.remap_home(blocks).map(|_| ())
    }

    /// Brings those of `blocks` home that can be remapped, and answers the others. The caller holds
    /// `home`.
    ///
    /// # Errors
    /// The journal is aborted, or the power is lost.
    pub fn remap_home(&self, blocks: &[BlockNo]) -> Result<Vec<BlockNo>, JournalError> {
        let (Some((mode, caps)), Some(log)) = (self.remapping(), &self.log) else {
            return Ok(blocks.to_vec());
        };
        let (list, mut rest) = self.list(log, blocks)?;
        for batch in list.chunks(caps.pairs_max.max(1) as usize) {
            rest.extend(self.remap_batch(mode, batch)?);
        }
        Ok(rest)
    }

    /// Divides `blocks` into those that can be remapped now (X1 to X5) and the others.
    fn list(
        &self,
        log: &Log,
        blocks: &[BlockNo],
    ) -> Result<(Vec<Listed>, Vec<BlockNo>), JournalError> {
        let mut state = self.lock()?;
        let (mut list, mut rest) = (Vec::new(), Vec::new());
        for &block in blocks {
            let Some((image, at)) = state.cache.begin_remap(block) else {
                rest.push(block);
                continue;
            };
            let ring = state.ring();
            assert!(
                ring.tail() <= at && at < ring.head(),
                "X4: the image of block {block} is still in the log"
            );
            list.push(Listed {
                block,
                source: log.place.block(ring.block(at)),
                at,
                image,
            });
        }
        Ok((list, rest))
    }

    /// Sends one REMAP. Answers the blocks that have to be written instead.
    fn remap_batch(&self, mode: RemapMode, batch: &[Listed]) -> Result<Vec<BlockNo>, JournalError> {
        let pair = |l: &Listed| self.remap_pair(l.block, l.source);
        let remap = Remap {
            pairs: batch.iter().map(pair).collect(),
            mode,
            ..Remap::default()
        };
        let result = self.queue.remap(remap);
        let mut state = self.state.lock();
        // X6, hazards-R24.
        let done = result.is_ok() || rt::mutant(Mutant::RemapErrorClean);
        for l in batch {
            let refile = state.cache.end_home(l.block, &l.image, done);
            state.refile(l.block, refile);
            match done {
                true => self.remapped(&mut state, l),
                false => state.cache.set_source(l.block, None),
            }
        }
        state.home_mark = Some(self.queue.mark());
        let of_list = batch.len() as u64;
        match &result {
            Ok((remapped, _)) => state.stats.remapped(of_list, remapped, self.block_size),
            Err(_) => state.stats.remaps_refused += of_list,
        }
        self.buffers.notify_all();
        self.progress.notify_all();
        match result {
            Err(e) if e.kind == DevErrorKind::PowerLost => Err(e.into()),
            Err(_) if !done => Ok(batch.iter().map(|l| l.block).collect()),
            _ => Ok(Vec::new()),
        }
    }

    fn remap_pair(&self, home: BlockNo, source: BlockNo) -> RemapPair {
        let size = self.block_size;
        RemapPair::new(size.lba(home), size.lba(source), size.bytes())
    }

    /// X1: only the image that came home becomes clean; later changes of the block stay.
    fn remapped(&self, state: &mut State, listed: &Listed) {
        let running = state.running.as_mut();
        let running = running.filter(|r| !r.locked && r.blocks.contains_key(&listed.block));
        if let Some(running) = running
            && rt::mutant(Mutant::CleanRedirtied)
        {
            // hazards-R13: the published scheme sets the buffer clean here.
            running.blocks.remove(&listed.block);
            state.cache.leave_running(listed.block);
        }
        if rt::MUTANTS {
            state.done.insert(listed.block, (listed.at, None));
        }
    }

    /// Records which transaction freed a block that was remapped (for mutants only).
    pub fn note_freed(&self, state: &mut State, tid: Tid, forgotten: &BTreeSet<BlockNo>) {
        if rt::MUTANTS {
            for block in forgotten {
                if let Some((_, freed)) = state.done.get_mut(block) {
                    freed.get_or_insert(tid);
                }
            }
        }
    }

    /// The deliberate mistakes hazards-R25 and hazards-R12: the pairs of an old list are sent once
    /// more, later.
    fn use_again(&self, log: &Log) -> Result<(), JournalError> {
        if !rt::MUTANTS {
            return Ok(());
        }
        let pairs: Vec<RemapPair> = {
            let mut guard = self.lock()?;
            let state = &mut *guard;
            let done = std::mem::take(&mut state.done);
            let (head, tail) = (state.ring().head(), state.ring().tail());
            let len = u64::from(state.ring().len());
            let (mut pairs, mut kept) = (Vec::new(), std::collections::BTreeMap::new());
            for (block, (at, freed)) in done {
                let overwritten = at.0 + len < head.0;
                let again = match freed {
                    None => overwritten && rt::mutant(Mutant::RemapStaleSource),
                    Some(tid) => {
                        state.committed.gt(tid) && at >= tail && rt::mutant(Mutant::RemapFreed)
                    }
                };
                if again {
                    let source = log.place.block(state.ring().block(at));
                    pairs.push(self.remap_pair(block, source));
                } else if !overwritten {
                    kept.insert(block, (at, freed));
                }
            }
            state.done = kept;
            pairs
        };
        if pairs.is_empty() {
            return Ok(());
        }
        let remap = Remap {
            pairs,
            ..Remap::default()
        };
        self.queue.remap(remap)?;
        Ok(())
    }
}

impl crate::Stats {
    fn remapped(&mut self, blocks: u64, remapped: &Remapped, size: BlockSize) {
        self.blocks_remapped += blocks;
        self.remap_commands += 1;
        self.remaps_copied += remapped.copied / size.sectors();
    }
}
