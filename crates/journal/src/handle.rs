//! Handles: one operation of the file system, all of it in one transaction or none of it.
//!
//! - A1: a handle ends in [`Handle::finish`]. One that is dropped after it changed something aborts
//!   the journal (hazards-H21): half an operation must never be committed.
//! - A2: a block that joins the transaction costs one credit; credits are reserved before the
//!   handle starts, so a handle never waits for log space in the middle of its work. It may wait
//!   for a block that is being read.

use crate::JournalError;
use crate::inner::{Inner, Log};
use crate::space::Admission;
use crate::state::State;
use crate::transaction::{Kind, Running, Shared};
use base::{BlockNo, Bytes, Mutant, Tid};
use block::Batch;
use rt::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One atomic operation on metadata.
#[must_use = "a handle ends in finish()"]
pub struct Handle<'j> {
    inner: &'j Inner,
    tid: Tid,
    shared: Arc<Shared>,
    credits: u32,
    dirtied: bool,
    finished: bool,
}

impl<'j> Handle<'j> {
    pub(crate) fn start(inner: &'j Inner, credits: u32) -> Result<Handle<'j>, JournalError> {
        let (tid, shared) = inner.start(credits)?;
        Ok(Handle {
            inner,
            tid,
            shared,
            credits,
            dirtied: false,
            finished: false,
        })
    }

    /// The transaction this handle belongs to.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Credits left: blocks that may still join the transaction through this handle.
    pub fn credits(&self) -> u32 {
        self.credits
    }

    /// Changes bytes of a metadata block.
    ///
    /// # Errors
    /// The range lies outside the block, the credits are used up, the block cannot be read, or the
    /// journal is aborted.
    pub fn write(
        &mut self,
        block: BlockNo,
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), JournalError> {
        let Some(end) = offset.checked_add(bytes.len()) else {
            let len = bytes.len();
            return Err(JournalError::misuse(format!(
                "{len} bytes at {offset} leave block {block}"
            )));
        };
        self.write_pieces(block, end, [(offset, bytes)])
    }

    /// Changes pieces (offset and bytes) of a metadata block, all of which end at `end` or before.
    ///
    /// # Errors
    /// As [`Handle::write`].
    ///
    /// # Panics
    /// If a piece leaves the block though `end` lies in it.
    pub fn write_pieces<'b>(
        &mut self,
        block: BlockNo,
        end: usize,
        pieces: impl IntoIterator<Item = (usize, &'b [u8])>,
    ) -> Result<(), JournalError> {
        if end > self.inner.block_size.bytes() {
            return Err(JournalError::misuse(format!(
                "bytes up to {end} leave block {block}"
            )));
        }
        let mut state = self.inner.lock_for_handle()?;
        if state.cache.is_member(block) {
            // buffer-U6.
            debug_assert_eq!(
                running(&mut state, self.tid).kind(block),
                Some(Kind::Metadata)
            );
            self.dirtied = true;
        } else {
            drop(state);
            let content;
            (state, content) = self.inner.load(block)?;
            // The extra reference would turn the change below into a copy.
            drop(content);
            self.join(&mut state, block, Kind::Metadata)?;
        }
        state.cache.modify(block, pieces.into_iter());
        Ok(())
    }

    /// A new metadata block: its home is not read. Cancels a revoke of this transaction.
    ///
    /// # Errors
    /// The content is not one block, the credits are used up, or the journal is aborted.
    pub fn create(&mut self, block: BlockNo, content: Bytes) -> Result<(), JournalError> {
        self.replace(block, content, Kind::Metadata)
    }

    /// Sends a whole data block through the log (`data=journal`).
    ///
    /// # Errors
    /// As [`Handle::create`].
    pub fn write_journaled_data(
        &mut self,
        block: BlockNo,
        content: Bytes,
    ) -> Result<(), JournalError> {
        self.replace(block, content, Kind::Data)
    }

    fn replace(&mut self, block: BlockNo, content: Bytes, kind: Kind) -> Result<(), JournalError> {
        if content.len() != self.inner.block_size.bytes() {
            let len = content.len();
            return Err(JournalError::misuse(format!(
                "block {block} gets {len} bytes of content"
            )));
        }
        let mut state = self.inner.lock_for_handle()?;
        self.join(&mut state, block, kind)?;
        if kind == Kind::Data && self.inner.log.is_some() {
            state.logged_data.logged(block, self.tid);
        }
        state.cache.create(block, content);
        self.inner.buffers.notify_all();
        Ok(())
    }

    /// A metadata block was freed: it leaves the transaction, and older images of it are revoked.
    /// As in Linux each freed block is revoked, whether or not the log holds it.
    ///
    /// The block must not be used again, as data or metadata of another owner, before
    /// [`committed`](crate::Journal::committed) has reached this handle's transaction
    /// (hazards-H18).
    ///
    /// # Errors
    /// The log has no room for one more revoke block and no credit is left, or the journal is
    /// aborted.
    pub fn forget(&mut self, block: BlockNo) -> Result<(), JournalError> {
        let mut state = self.inner.lock()?;
        let Some(log) = &self.inner.log else {
            while state.cache.is_writing(block) {
                self.inner.sleep(&self.inner.buffers, &mut state);
                self.inner.check(&mut state)?;
            }
            self.dirtied = true;
            state.cache.forget(block);
            return Ok(());
        };
        self.reserve_revoke(&mut state, log, block)?;
        self.dirtied = true;
        let running = running(&mut state, self.tid);
        if running.blocks.remove(&block).is_some() {
            self.shared.add_credits(1);
            self.credits += 1;
        }
        running.forgotten.insert(block);
        running.revokes.insert(block);
        state.logged_data.freed(block);
        state.cache.forget(block);
        self.inner.buffers.notify_all();
        Ok(())
    }

    /// A journaled data block was freed (`data=journal`): does what [`Handle::forget`] does.
    ///
    /// # Errors
    /// As [`Handle::forget`].
    pub fn revoke_data(&mut self, block: BlockNo) -> Result<(), JournalError> {
        self.forget(block)
    }

    /// One more revoke record may need one more log block: a credit turns into it if the log has no
    /// other room.
    fn reserve_revoke(
        &mut self,
        state: &mut State,
        log: &Log,
        block: BlockNo,
    ) -> Result<(), JournalError> {
        let free = state.ring().free();
        let r = running(state, self.tid);
        let revokes = r.revokes.len() as u32 + 1;
        let images = r.images();
        if r.revokes.contains(&block) || log.limits.reserve(images, revokes) <= free {
            return Ok(());
        }
        if self.credits == 0 {
            let why =
                format!("no log space for a revoke record of block {block}; restart the handle");
            return Err(JournalError::misuse(why));
        }
        self.credits -= 1;
        self.shared.use_credits(1);
        Ok(())
    }

    /// Ordered data that has been submitted: the commit waits for it before it writes anything.
    ///
    /// # Errors
    /// The journal is aborted (the data has been waited for all the same).
    pub fn add_ordered(&mut self, data: Batch) -> Result<(), JournalError> {
        let refused = {
            let mut state = self.inner.state.lock();
            match self.inner.check(&mut state) {
                Ok(()) if self.inner.log.is_some() => {
                    let ordered = &mut running(&mut state, self.tid).ordered;
                    match ordered {
                        Some(batch) => batch.merge(data),
                        None => *ordered = Some(data),
                    }
                    return Ok(());
                }
                other => other,
            }
        };
        // Without a log, or after an abort, no commit waits for this data.
        let waited = data.wait().map_err(JournalError::from);
        refused.and(waited)
    }

    /// Asks for more credits without waiting. False: no room, [`restart`](Handle::restart) at a
    /// point where the file system is consistent.
    ///
    /// # Errors
    /// The journal is aborted.
    pub fn extend(&mut self, credits: u32) -> Result<bool, JournalError> {
        let mut state = self.inner.lock()?;
        if let Some(log) = &self.inner.log {
            if running(&mut state, self.tid).locked {
                return Ok(false);
            }
            if self.inner.admit(&mut state, log, credits) != Admission::Granted {
                return Ok(false);
            }
            self.shared.add_credits(credits);
        }
        self.credits += credits;
        Ok(true)
    }

    /// Finishes this handle and starts another one of `credits`, maybe in a later transaction.
    ///
    /// # Errors
    /// As [`Handle::finish`] and [`Journal::start`](crate::Journal::start).
    pub fn restart(self, credits: u32) -> Result<Handle<'j>, JournalError> {
        let inner = self.inner;
        self.finish()?;
        Handle::start(inner, credits)
    }

    /// Ends the operation.
    ///
    /// # Errors
    /// The journal is aborted: the operation may be lost.
    pub fn finish(mut self) -> Result<Tid, JournalError> {
        let mut state = self.inner.state.lock();
        self.finished = true;
        self.shared.leave(self.credits);
        state.stats.handles += 1;
        let draining = state.running.as_ref().is_some_and(|r| r.locked);
        if draining && self.shared.updates() == 0 {
            self.inner.work.notify_all();
        }
        self.inner.check(&mut state)?;
        Ok(self.tid)
    }

    /// Makes `block` one of the transaction (A2).
    fn join(
        &mut self,
        state: &mut MutexGuard<'_, State>,
        block: BlockNo,
        kind: Kind,
    ) -> Result<(), JournalError> {
        if self.inner.log.is_none() {
            self.dirtied = true;
            state.cache.mark_dirty(block, kind, rt::now());
            return Ok(());
        }
        let running = running(state, self.tid);
        if !running.blocks.contains_key(&block) {
            if self.credits == 0 {
                return Err(JournalError::misuse(format!(
                    "block {block} needs a credit and the handle has none left"
                )));
            }
            self.credits -= 1;
            self.shared.use_credits(1);
        }
        self.dirtied = true;
        running.blocks.insert(block, kind);
        // What is logged now must be replayed: a revoke of the same transaction would suppress it.
        running.revokes.remove(&block);
        running.forgotten.remove(&block);
        state.cache.join_running(block, kind);
        Ok(())
    }
}

/// The transaction of an open handle.
fn running(state: &mut State, tid: Tid) -> &mut Running {
    let running = state.running.as_mut();
    let running = running.expect("A1: a transaction with an open handle is not committed");
    assert_eq!(
        running.tid, tid,
        "A1: a transaction with an open handle is not committed"
    );
    running
}

impl Drop for Handle<'_> {
    /// A1. Takes no lock: it sets a flag that every wait loop tests.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if self.dirtied && !rt::mutant(Mutant::DropFinishes) {
            self.inner.dropped.store(true, Ordering::SeqCst);
        }
        self.shared.leave(self.credits);
    }
}
