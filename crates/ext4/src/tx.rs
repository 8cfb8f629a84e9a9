//! Handles of the journal as the file system uses them.
//!
//! [`Ext4::transact`] is the only way to change metadata. It ends the handle on every path (rule
//! 11, hazards-H21):
//!
//! - T1 a body that answers a POSIX error has left everything consistent (nothing changed, or
//!   undone); its handle is finished and may commit;
//! - T2 any other error after a change aborts the journal and latches the mount: half an operation
//!   never commits;
//! - T3 blocks promised to the handle and not allocated are released when it ends.

use crate::Ext4;
use crate::Inode;
use crate::fast_record::{FastNotes, Named, named};
use crate::fault;
use crate::space::Right;
use crate::superblock::{superblock_place, write_in_place};
use base::bytes::changed_ranges;
use base::{BlockNo, Bytes, Ino, Mutant, Tid};
use block::Batch;
use fscore::{FsError, FsResult};
use journal::{FastBug, Handle, Journal};
use ondisk::ext4::{InodeFlags, SUPERBLOCK_BYTES, Superblock};
use std::ops::Range;

/// Two changed ranges with at most this many unchanged bytes between them are written as one range.
const GAP_BYTES_MAX: usize = 8;

/// A running handle.
pub(crate) struct Tx<'f> {
    /// `None` only inside [`Tx::restart`].
    handle: Option<Handle<'f>>,
    changed: bool,
    /// All that the handle has changed stands in the notes for a fast commit, or follows from them
    /// (fast_record-B1).
    told: bool,
    /// Some of it cannot be told, whatever else is.
    untellable: bool,
    fast: &'f FastNotes,
    /// The journal, if the scheme makes the mistake of [`FastBug::MissedActions`].
    misses: Option<&'f Journal>,
    /// Blocks promised to this handle and not allocated yet.
    pub pool: u64,
    /// By which right the handle takes blocks that were not promised.
    pub right: Right,
}

impl Ext4 {
    /// Runs `body` inside a handle of `credits` blocks. See the module for what errors do.
    pub(crate) fn transact<'f, T>(
        &'f self,
        credits: u32,
        body: impl FnOnce(&mut Tx<'f>) -> FsResult<T>,
    ) -> FsResult<T> {
        self.transact_promised(credits, 0, |tx| body(tx))
    }

    /// Runs `body` like [`Ext4::transact`], with `promised` blocks that the caller got from
    /// [`Space`](crate::space::Space).
    pub(crate) fn transact_promised<'f, T>(
        &'f self,
        credits: u32,
        promised: u64,
        body: impl FnOnce(&mut Tx<'f>) -> FsResult<T>,
    ) -> FsResult<T> {
        let handle = match self.begin(credits) {
            Ok(handle) => handle,
            Err(e) => {
                self.space.release(promised);
                return Err(e);
            }
        };
        let mut tx = Tx {
            handle: Some(handle),
            changed: false,
            told: false,
            untellable: false,
            fast: &self.fast,
            misses: (self.fast_mistake(FastBug::MissedActions)).then_some(&self.journal),
            pool: promised,
            right: Right::default(),
        };
        let answer = body(&mut tx);
        // T3.
        self.space.release(std::mem::take(&mut tx.pool));
        tx.settle_told();
        match &answer {
            Err(e)
                if tx.changed
                    && !matches!(e, FsError::Posix(_))
                    && !rt::mutant(Mutant::DropFinishes) =>
            {
                // T2.
                self.fail(e);
                drop(tx);
            }
            _ => {
                if let Some(handle) = tx.handle.take() {
                    handle.finish().map_err(fault::journal)?;
                }
            }
        }
        answer
    }

    fn begin(&self, credits: u32) -> FsResult<Handle<'_>> {
        self.check_writable()?;
        self.journal.start(credits).map_err(fault::journal)
    }

    /// The content of a metadata block.
    pub(crate) fn read_meta(&self, block: BlockNo) -> FsResult<Bytes> {
        self.check_block(block, "metadata")?;
        self.journal.read(block).map_err(fault::journal)
    }

    /// The content of a metadata block that `check` finds right: now, or when it found the same
    /// `found` before and only handles have changed the block since.
    pub(crate) fn read_meta_checked(
        &self,
        block: BlockNo,
        found: u64,
        check: &dyn Fn(&[u8]) -> FsResult<()>,
    ) -> FsResult<Bytes> {
        self.check_block(block, "metadata")?;
        let (bytes, known) = self.journal.read_checked(block).map_err(fault::journal)?;
        if known != Some(found) {
            check(&bytes)?;
            self.journal.note_checked(block, &bytes, found);
        }
        Ok(bytes)
    }

    /// Changes the superblock inside a handle.
    pub(crate) fn update_superblock(
        &self,
        tx: &mut Tx<'_>,
        change: impl FnOnce(&mut Superblock),
    ) -> FsResult<()> {
        let mut sb = self.sb.lock();
        let old = *sb.bytes();
        change(&mut sb);
        if rt::mutant(Mutant::SuperblockDirect) {
            // hazards-H9: a write in place would bypass the transaction and change the home block
            // under the deltas of the next one.
            return write_in_place(&self.queue, &mut sb);
        }
        let mut new = [0; SUPERBLOCK_BYTES];
        sb.encode(&mut new);
        let (home, at) = superblock_place(self.block_size);
        tx.update(home, at, &old, &new)
    }
}

impl<'f> Tx<'f> {
    fn handle(&mut self) -> &mut Handle<'f> {
        self.handle.as_mut().expect("a handle is open")
    }

    /// Runs `f`, in which blocks are taken by `right`.
    pub fn by<T>(&mut self, right: Right, f: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.right, right);
        let answer = f(self);
        self.right = before;
        answer
    }

    /// The number of the transaction that the handle is in.
    pub fn tid(&self) -> Tid {
        self.handle.as_ref().expect("a handle is open").tid()
    }

    /// Where to note for a fast commit, if the scheme has them.
    fn notes(&self) -> Option<&'f FastNotes> {
        // The mistake forgets at the end of a commit what came during it, and whoever syncs waits
        // for that end: that is as if nothing had been noted.
        let missed = |journal: &Journal| !journal.committed().geq(self.tid().prev());
        (self.fast.is_on() && !self.misses.is_some_and(missed)).then_some(self.fast)
    }

    /// Says that all changes of this handle, so far and until it ends or is restarted, are noted
    /// for a fast commit or follow from what is: fields and blocks of inodes are noted where they
    /// change, names by [`tell_name`](Tx::tell_name).
    pub fn tell(&mut self) {
        self.told = true;
    }

    /// As [`tell`](Tx::tell), if what changes of this inode can be told.
    pub fn tell_of(&mut self, fs: &Ext4, inode: &Inode) {
        self.told |= self.fast.is_on() && fs.can_tell(inode);
    }

    /// Tells of a name that came or went.
    pub fn tell_name(&mut self, what: Named, (dir, inode, name): (&Inode, &Inode, &[u8])) {
        self.told = true;
        if !self.fast.is_on() {
            return;
        }
        if dir.core().disk.flags().has(InodeFlags::CASEFOLD) {
            // The name need not be spelt as the entry is, and e2fsck's replay compares bytes.
            self.refuse_fast();
        } else if let Some(notes) = self.notes() {
            notes.name(self.tid(), what, named(dir, inode, name));
            if what == Named::Link {
                // A replay of the name changes the time of the inode, which is to stay as it is
                // even if the clock has not moved on since its last change.
                notes.inode(self.tid(), inode.ino);
            }
        }
    }

    /// Notes that fields of an inode have changed. Those of a directory follow from its names, as
    /// far as a handle that tells may change them.
    pub fn note_fields(&mut self, ino: Ino, is_dir: bool) {
        if let Some(notes) = self.notes().filter(|_| !is_dir) {
            notes.inode(self.tid(), ino);
        }
    }

    /// Notes that the mapping of these blocks of an inode has changed. That of a directory follows
    /// from its names.
    pub fn note_blocks(&mut self, inode: &Inode, blocks: Range<u64>) {
        if let Some(notes) = self.notes().filter(|_| !inode.is_dir()) {
            notes.range(self.tid(), inode.ino, blocks);
        }
    }

    /// Tells that an inode was freed, with all that it had.
    pub fn tell_freed(&mut self, ino: Ino) {
        self.told = true;
        if let Some(notes) = self.notes() {
            notes.freed(self.tid(), ino);
        }
    }

    /// Says that this handle changes something that no fast commit can tell, whatever it tells
    /// besides.
    pub fn refuse_fast(&mut self) {
        self.untellable = true;
    }

    /// fast_record-B1, at the end of a handle and before it is restarted.
    fn settle_told(&mut self) {
        if self.fast.is_on() && self.changed && (!self.told || self.untellable) {
            self.fast.refuse(self.tid());
        }
        (self.told, self.untellable) = (false, false);
    }

    /// Overwrites pieces (offset and bytes) of a metadata block, all of which end at `end` or
    /// before.
    pub fn write_pieces<'b>(
        &mut self,
        block: BlockNo,
        end: usize,
        pieces: impl IntoIterator<Item = (usize, &'b [u8])>,
    ) -> FsResult<()> {
        self.changed = true;
        self.handle()
            .write_pieces(block, end, pieces)
            .map_err(fault::journal)
    }

    /// Overwrites bytes of a metadata block.
    pub fn write(&mut self, block: BlockNo, offset: usize, bytes: &[u8]) -> FsResult<()> {
        self.changed = true;
        self.handle()
            .write(block, offset, bytes)
            .map_err(fault::journal)
    }

    /// Writes those bytes at `offset` in which `new` differs from `old`.
    pub fn update(
        &mut self,
        block: BlockNo,
        offset: usize,
        old: &[u8],
        new: &[u8],
    ) -> FsResult<()> {
        let mut ranges = changed_ranges(old, new, GAP_BYTES_MAX).peekable();
        if ranges.peek().is_none() {
            return Ok(());
        }
        let pieces = ranges.map(|range| (offset + range.start, &new[range]));
        self.write_pieces(block, offset + new.len(), pieces)
    }

    /// Gives a new metadata block its content; what lies on the device is not read.
    pub fn create(&mut self, block: BlockNo, content: Bytes) -> FsResult<()> {
        self.changed = true;
        self.handle().create(block, content).map_err(fault::journal)
    }

    /// Tells the journal that a metadata block was freed.
    pub fn forget(&mut self, block: BlockNo) -> FsResult<()> {
        self.changed = true;
        self.handle().forget(block).map_err(fault::journal)
    }

    /// Logs a block of file data.
    pub fn write_data(&mut self, block: BlockNo, content: Bytes) -> FsResult<()> {
        self.changed = true;
        self.handle()
            .write_journaled_data(block, content)
            .map_err(fault::journal)
    }

    /// Registers data that must be complete before this transaction commits.
    pub fn add_ordered(&mut self, data: Batch) -> FsResult<()> {
        self.changed = true;
        self.handle().add_ordered(data).map_err(fault::journal)
    }

    /// Ensures that the handle has `credits` blocks left. Answers false if the handle had to be
    /// restarted for it: another transaction may then be running, so everything must be consistent
    /// at the call and the caller may hold no lock of an inode's mapping.
    pub fn ensure(&mut self, credits: u32) -> FsResult<bool> {
        let missing = credits.saturating_sub(self.handle().credits());
        if missing == 0 || self.handle().extend(missing).map_err(fault::journal)? {
            return Ok(true);
        }
        self.settle_told();
        let old = self.handle.take().expect("a handle is open");
        self.handle = Some(old.restart(credits).map_err(fault::journal)?);
        self.changed = false;
        Ok(false)
    }
}
