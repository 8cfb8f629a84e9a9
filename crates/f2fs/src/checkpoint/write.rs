//! Writes a checkpoint, in the order that the head of `checkpoint/mod.rs` gives.

use super::build::{Built, Saved, build};
use super::{Phase, State};
use crate::F2fs;
use crate::fault;
use crate::file::{ALL, Why};
use crate::nat::NatToWrite;
use crate::ops::{Cause, Freeze};
use crate::segs::SegsToWrite;
use crate::segs::lba;
use crate::space::Usage;
use base::cost::f2fs as cost;
use base::{Ino, Mutant, Nanos, Time};
use block::{Class, Plug};
use fscore::{FsError, FsResult};
use ondisk::f2fs::BlockAddr;
use rt::MutexGuard;

/// Rounds of directory blocks and nodes until none is dirty: writing the former dirties the latter,
/// never the other way round.
const ROUNDS: u32 = 8;

/// What a pack is to say.
pub(crate) struct Wanted<'a> {
    pub cause: Cause,
    pub usage: Usage,
    pub orphans: Vec<Ino>,
    pub nat: &'a NatToWrite,
    pub segs: &'a SegsToWrite,
}

/// A pack, built and not written.
pub(crate) struct Packed {
    built: Built,
    usage: Usage,
    orphans: Vec<Ino>,
}

/// Measures phases.
pub(crate) struct Clock {
    since: Time,
    spans: Vec<(Phase, Nanos)>,
}

impl Clock {
    pub fn start() -> Clock {
        Clock {
            since: rt::now(),
            spans: Vec::new(),
        }
    }
    pub fn end_of(&mut self, phase: Phase) {
        let now = rt::now();
        self.spans.push((phase, now - self.since));
        self.since = now;
    }
}

impl F2fs {
    /// Writes a checkpoint, unless nothing has changed since the last one; with a journal
    /// everything is committed and applied. The caller holds no lock.
    ///
    /// # Errors
    /// I/O, damage: then the mount is latched (f2fs-checkpoint-C7).
    pub(crate) fn checkpoint(&self, cause: Cause) -> FsResult<()> {
        if self.options.read_only || self.cp.is_disabled() {
            return Ok(());
        }
        if self.journal.is_some() {
            return self.apply_all(cause);
        }
        self.check_writable()?;
        let mut clock = Clock::start();
        self.write_ahead()?;
        clock.end_of(Phase::Ahead);
        self.frozen(cause, |freeze| {
            clock.end_of(Phase::Freeze);
            self.write_checkpoint(freeze, clock)
        })?;
        self.discard_soon();
        Ok(())
    }

    /// A checkpoint for a caller that already holds the freeze (cleaning, recovery). It submits no
    /// discards; the next ordinary checkpoint does.
    pub(crate) fn checkpoint_frozen(&self, freeze: &Freeze<'_>) -> FsResult<()> {
        if self.options.read_only || self.cp.is_disabled() {
            return Ok(());
        }
        // What recovery has redone is in no epoch that an apply could take.
        if self.journal.is_some() && freeze.cause() != Cause::Recovery {
            return self.apply_all(freeze.cause());
        }
        self.write_checkpoint(freeze, Clock::start())
    }

    /// Before the freeze: writes directory blocks. Nodes are written during it, as in Linux.
    fn write_ahead(&self) -> FsResult<()> {
        for dir in self.pages.dirty_meta_files() {
            match self.inode(dir) {
                Ok(inode) => self.write_pages(&inode, ALL, Why::Flush)?,
                // Freed since.
                Err(FsError::Posix(_)) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn write_checkpoint(&self, freeze: &Freeze<'_>, clock: Clock) -> FsResult<()> {
        self.check_writable()?;
        if !self.needs_checkpoint(freeze.cause())? {
            let mut state = self.cp.state.lock();
            state.last = rt::now();
            state.stats.unnecessary += 1;
            return Ok(());
        }
        let begun = rt::now();
        let written = self.write_frozen(freeze, clock);
        if let Err(e) = &written {
            // f2fs-checkpoint-C7 (hazards-F25).
            if !rt::mutant(Mutant::F2fsPackAfterFailure) {
                self.fail(e);
            }
            return written;
        }
        let mut state = self.cp.state.lock();
        *state.stats.by_cause.entry(freeze.cause()).or_default() += 1;
        state.stats.longest = state.stats.longest.max(rt::now() - begun);
        Ok(())
    }

    /// Linux `SBI_IS_DIRTY`; an unmount wants its mark in any case.
    fn needs_checkpoint(&self, cause: Cause) -> FsResult<bool> {
        let changed = self.nodes.dirty() > 0
            || self.nat.dirty() > 0
            || self.segs.is_dirty()
            || !self.pages.dirty_meta_files().is_empty();
        let orphans = self.orphans.all();
        let usage = self.space.usage();
        let state = self.cp.state.lock();
        let unmarked = || !state.cp.flags().has(ondisk::f2fs::CpFlags::UMOUNT);
        Ok(changed
            || state.forced
            || state.usage != usage
            || state.orphans != orphans
            || (cause == Cause::Umount && unmarked()))
    }

    fn write_frozen(&self, freeze: &Freeze<'_>, mut clock: Clock) -> FsResult<()> {
        let nodes = self.write_all_nodes(freeze)?;
        clock.end_of(Phase::Nodes);
        // f2fs-checkpoint-C2 (hazards-F21).
        let landed = match rt::mutant(Mutant::F2fsPackBeforeNodes) {
            false => Some((self.land_all()?, self.land_nodes()?)),
            true => None,
        };
        clock.end_of(Phase::Land);
        let mut plug = self.queue.plug();
        let nat = self.nat.flush(&mut plug)?;
        let segs = self.segs.flush(&mut plug);
        let packed = self.build_pack(Wanted {
            cause: freeze.cause(),
            usage: self.space.usage(),
            orphans: self.orphans.all(),
            nat: &nat,
            segs: &segs,
        })?;
        self.write_pack(packed, &nat, nodes, plug, &mut clock)?;
        self.nat.committed(nat);
        self.segs.committed(self.options.discard);
        let (_, (_, flight)) = match landed {
            Some(landed) => landed,
            None => (self.land_all()?, self.land_nodes()?),
        };
        self.nodes_durable(flight);
        self.inodes.checkpointed();
        Ok(())
    }

    /// Builds the pack that is to follow the last one.
    ///
    /// # Errors
    /// More orphans than a pack has room for.
    pub(crate) fn build_pack(&self, wanted: Wanted<'_>) -> FsResult<Packed> {
        let Wanted {
            cause,
            usage,
            orphans,
            nat,
            segs,
        } = wanted;
        let clock = self.cp.clock();
        let next_free = self.nat.next_free();
        let state = self.cp.state.lock();
        let saved = Saved {
            usage,
            orphans: &orphans,
            nat,
            segs,
            next_free,
            clock,
            umount: cause == Cause::Umount,
            disable: state.disabling,
        };
        Ok(Packed {
            built: build(&state, &self.geo, &saved)?,
            usage,
            orphans,
        })
    }

    /// Writes a pack behind what is in `plug`: all of that completes, and is durable before the
    /// last block of the pack is written. After that the tables in memory know the new pack
    /// (f2fs-checkpoint-C6); whatever else the new pack allows, the caller does. `nodes`: how many
    /// nodes were written for the pack, for the statistics.
    ///
    /// # Errors
    /// I/O: it is unknown whether the pack counts, and the caller latches the mount
    /// (f2fs-checkpoint-C7).
    pub(crate) fn write_pack(
        &self,
        packed: Packed,
        nat: &NatToWrite,
        nodes: u64,
        mut plug: Plug,
        clock: &mut Clock,
    ) -> FsResult<()> {
        let Packed {
            built,
            usage,
            orphans,
        } = packed;
        // f2fs-checkpoint-C3: the other segment (hazards-F23).
        let second = !self.cp.state.lock().second ^ rt::mutant(Mutant::F2fsSamePack);
        let start = self.geo.cp_pack(second);
        for (n, block) in built.blocks.iter().enumerate() {
            let at = lba(BlockAddr(start.0 + n as u32));
            plug.write(at, Class::CheckpointPack, block.clone());
        }
        rt::charge_each(cost::META_BLOCK, plug.len() as u64);
        let batch = plug.submit();
        batch
            .wait()
            .map_err(fault::device("writing a checkpoint"))?;
        clock.end_of(Phase::Pack);
        self.commit_pack(&built, start, clock)?;
        // f2fs-checkpoint-C6.
        let mut state = self.cp.state.lock();
        state.stats.pack_blocks += built.blocks.len() as u64 + 1;
        state.stats.compact += u64::from(built.compact);
        state.stats.node_blocks += nodes;
        account(&mut state, nat, clock);
        state.version = built.cp.version();
        state.cp = built.cp;
        state.second = second;
        state.usage = usage;
        state.orphans = orphans;
        state.forced = false;
        state.last = rt::now();
        Ok(())
    }

    /// Directory blocks and nodes until none is dirty; answers how many nodes.
    fn write_all_nodes(&self, freeze: &Freeze<'_>) -> FsResult<u64> {
        let op = freeze.op();
        let mut written = 0;
        for _ in 0..ROUNDS {
            for dir in self.pages.dirty_meta_files() {
                let dir = self.inode(dir)?;
                self.write_pages_within(op, &dir, ALL, Why::Flush, &dir.wb.lock())?;
            }
            written += self.write_nodes(op)?;
            if self.nodes.dirty() == 0 && self.pages.dirty_meta_files().is_empty() {
                return Ok(written);
            }
        }
        Err(FsError::corrupt(format!(
            "f2fs-checkpoint-C1: {} nodes are dirty after {ROUNDS} rounds of a checkpoint",
            self.nodes.dirty()
        )))
    }

    /// f2fs-checkpoint-C4: the last block, when all the others are durable.
    fn commit_pack(&self, built: &Built, start: BlockAddr, clock: &mut Clock) -> FsResult<()> {
        // hazards-F22.
        if !rt::mutant(Mutant::F2fsCommitUnflushed) {
            self.queue
                .flush()
                .map_err(fault::device("flushing before the end of a checkpoint"))?;
        }
        clock.end_of(Phase::Flush);
        let last = BlockAddr(start.0 + built.blocks.len() as u32);
        assert_eq!(
            built.blocks.len() as u32 + 1,
            built.cp.pack_blocks(),
            "f2fs-checkpoint-C4: the last block of the pack is where its first one says"
        );
        self.queue
            .write_fua(lba(last), Class::CheckpointPack, built.blocks[0].clone())
            .map_err(fault::device("writing the end of a checkpoint"))?;
        clock.end_of(Phase::Commit);
        Ok(())
    }
}

fn account(state: &mut MutexGuard<'_, State>, nat: &NatToWrite, clock: &mut Clock) {
    state.stats.nat_blocks += nat.blocks();
    state.stats.nat_journal_entries += nat.journal.len() as u64;
    for (phase, span) in clock.spans.drain(..) {
        *state.stats.time.entry(phase).or_default() += span;
    }
}
