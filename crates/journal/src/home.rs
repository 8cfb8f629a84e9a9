//! Writing committed images home, and moving the tail of the log behind them.
//!
//! - M1: only committed images go home (hazards-H5); without a log, current ones.
//! - M2: the tail moves only when the images are home and durable: written with FUA, or followed by
//!   a flush that *started* when they had completed; and the superblock that names the new tail is
//!   durable before the log blocks before that tail are free (hazards-H2). Homes and log may lie on
//!   two devices, each with a flush of its own (devices-L5).
//! - M3: every home write of a running journal, except by REMAP (`home_remap.rs`), passes
//!   `write_home_batch`, so that home writes of blocks with deltas leave each byte old or new where
//!   full-first does not protect them (track-D2, hazards-H1). A checkpoint also writes the
//!   committed image of a block that a transaction is working on, so that a block changed all the
//!   time does not hold the tail back for ever.
//! - M4: `copy-reliable` takes FUA where a FUA write is a reliable write
//!   ([`blockdev::Caps::writes_old_or_new`]). On a device whose FUA promises nothing about a cut
//!   inside the write (a file of a host, where FUA is a write and a flush) it writes as `copy`
//!   does, and one flush for all home writes makes them durable before the tail moves (M2). That is
//!   safe: deltas are then protected by full-first (track-D2: `home_is_safe` is false there, and
//!   `full-first=off` is refused), and full images need nothing of home (journal-checkpoint-C1).

use crate::inner::{Inner, Log};
use crate::ring::LogPos;
use crate::state::State;
use crate::{Home, JournalError, LogBlock};
use base::{BlockNo, Bytes, Mutant, Tid};

/// Blocks that are written home under one plug, as in Linux.
const BATCH: usize = 64;

impl Inner {
    /// Frees about one largest transaction's worth of log. The task that needs space calls it.
    pub fn make_room(&self, log: &Log) -> Result<(), JournalError> {
        let _home = self.home.lock();
        let blocks = {
            let mut state = self.lock()?;
            let room = u64::from(log.limits.transaction_max);
            let upto = LogPos(state.ring().tail().0 + room);
            state.checkpoints.blocks_before(upto)
        };
        self.write_home(&blocks, false)?;
        self.advance_tail(log)
    }

    /// Brings every committed image home and moves the tail to the head.
    pub fn checkpoint_all(&self) -> Result<(), JournalError> {
        let _home = self.home.lock();
        let Some(log) = &self.log else {
            self.write_home_all(false)?;
            let mark = self.queue.mark();
            return self
                .queue
                .ensure_flushed(mark)
                .map_err(|e| self.fail(e.into(), "flush"));
        };
        let blocks = self.lock()?.checkpoints.blocks_before(LogPos(u64::MAX));
        self.write_home(&blocks, false)?;
        self.advance_tail(log)
    }

    /// Writes home all pending images of blocks that no transaction is working on. The caller holds
    /// `home`; `background`: nobody waits for it.
    pub fn write_home_all(&self, background: bool) -> Result<(), JournalError> {
        let blocks = self.lock()?.cache.write_back_list();
        self.write_home(&blocks, background)
    }

    /// Writes the pending images of these blocks home. The caller holds `home`. A checkpoint is
    /// awaited, as in Linux; the flusher's write-back is not.
    pub fn write_home(&self, blocks: &[BlockNo], background: bool) -> Result<(), JournalError> {
        // A list that fails leaves its remaining blocks marked as under way. `fail` ends the
        // journal, so no task waits for them.
        let rest = self
            .remap_home(blocks)
            .map_err(|e| self.fail(e, "REMAP of committed blocks"))?;
        let start = rt::now();
        for chunk in rest.chunks(BATCH) {
            self.write_home_batch(chunk, background)
                .map_err(|e| self.fail(e, "home write of metadata"))?;
        }
        self.state.lock().stats.homing += rt::now() - start;
        Ok(())
    }

    /// M3: every home write except a REMAP is made here.
    fn write_home_batch(&self, chunk: &[BlockNo], background: bool) -> Result<(), JournalError> {
        let reliable = self.writes_home_reliably();
        // hazards-H1: the mutant drops FUA where nothing else keeps a home write from leaving
        // garbage.
        let fua = reliable && (self.full_first || !rt::mutant(Mutant::NormalHomeWrite));
        let size = self.block_size;
        let mut plug = self.queue.plug();
        let mut images: Vec<(BlockNo, Bytes)> = Vec::with_capacity(chunk.len());
        {
            let mut state = self.lock()?;
            for &block in chunk {
                let Some((image, kind)) = state.cache.begin_home(block) else {
                    continue;
                };
                let sent = self.home_image(&state, block, &image);
                images.push((block, image));
                // hazards-H2: the mutant takes the image for written.
                if self.log.is_some() && rt::mutant(Mutant::TailEarly) {
                    continue;
                }
                match fua {
                    true => plug.write_fua(size.lba(block), kind.home_class(), sent),
                    false => plug.write(size.lba(block), kind.home_class(), sent),
                }
            }
        }
        rt::charge_each(base::cost::journal::SEND_BLOCK, images.len() as u64);
        let plug = match background {
            true => plug.background(),
            false => plug,
        };
        let result = plug.submit().wait();
        let mut state = self.state.lock();
        for (block, image) in &images {
            let refile = state.cache.end_home(*block, image, result.is_ok());
            state.refile(*block, refile);
        }
        if !reliable {
            state.home_mark = Some(self.queue.mark());
        }
        state.stats.blocks_home += images.len() as u64;
        self.buffers.notify_all();
        self.progress.notify_all();
        Ok(result?)
    }

    /// True if home writes are reliable writes, and so durable when they complete (M4).
    fn writes_home_reliably(&self) -> bool {
        let scheme = self.options.scheme.filter(|_| self.log.is_some());
        scheme.is_some_and(|s| s.home == Home::CopyReliable)
            && self.queue.caps().writes_old_or_new()
    }

    /// The image to write (M1), or the running one for the mutant that makes this mistake.
    fn home_image(&self, state: &State, block: BlockNo, image: &Bytes) -> Bytes {
        match state.cache.uncommitted(block) {
            // hazards-H5.
            Some(current) if rt::mutant(Mutant::HomeCurrent) => current,
            _ => image.clone(),
        }
    }

    /// Moves the tail of the log as far as the checkpoint list allows (M2).
    pub fn advance_tail(&self, log: &Log) -> Result<(), JournalError> {
        let mut superblock = log.superblock.lock();
        let ((tid, to), block, home) = {
            let mut state = self.lock()?;
            let candidate = state.tail_candidate();
            if candidate.1 <= state.ring().tail() {
                return Ok(());
            }
            let block = state.ring().block(candidate.1);
            (candidate, block, state.home_mark)
        };
        if let Some(mark) = home.filter(|mark| !self.queue.is_flushed(*mark))
            && !rt::mutant(Mutant::TailUnflushed)
        // hazards-H2
        {
            let flushed = self.queue.ensure_flushed(mark);
            flushed.map_err(|e| self.fail(e.into(), "flush before the tail moves"))?;
        }
        let written = superblock.write(&log.queue, tid, Some(block));
        written.map_err(|e| self.fail(e, "tail update"))?;
        self.release_log(tid, to);
        Ok(())
    }

    /// The superblock on the medium names `to`, where transaction `tid` begins: the log before it
    /// is free.
    pub fn release_log(&self, tid: Tid, to: LogPos) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.ring().release(to);
        // logged_data-L3.
        for block in state.logged_data.released(tid) {
            state.cache.drop_clean(block);
        }
        state.stats.tail_updates += 1;
        self.progress.notify_all();
    }

    /// Marks the log empty. Everything is committed and home.
    pub fn mark_clean(&self, log: &Log) -> Result<(), JournalError> {
        let mut superblock = log.superblock.lock();
        let tid = {
            let mut state = self.lock()?;
            let (tid, at) = state.tail_candidate();
            assert!(
                at == state.ring().head() && state.checkpoints.oldest().is_none(),
                "M2: an empty log has nothing that waits for its way home"
            );
            tid
        };
        // devices-L9: what ended an earlier life is in a superblock that is home by now.
        superblock.sb.set_errno(0);
        let written = superblock.write(&log.queue, tid, None::<LogBlock>);
        written.map_err(|e| self.fail(e, "marking the log clean"))
    }
}
