//! Atomic writes (`F2FS_IOC_START_ATOMIC_WRITE`, `..._COMMIT_...`, `..._ABORT_...`): after a cut,
//! either all writes between start and commit are there, or none.
//!
//! Pages written while an atomic write is open lie in [`Pending`], where only reads of the file see
//! them (file-D5). The commit is atomic because:
//!
//! - A1 before the commit the mapping is the old one, and no block in it is overwritten: a cut
//!   leaves the whole old content;
//! - A2 all new blocks, all slots, the size and the inode change in one `Op`, and data goes to new
//!   blocks only. So a checkpoint contains all of the change or nothing of it (ops-O2), and a
//!   checkpoint that contains it waits for the data (file-D2);
//! - A3 roll-forward must not find a part of the change either: until the fsync of the commit has
//!   ended, the inode has the mark `atomic`. An fsync of such an inode marks only the last of its
//!   node blocks, and sends that one behind a flush that covers the data and the other nodes.
//!   Recovery takes node blocks of an inode only if a marked one follows;
//! - A4 a step that fails is undone inside the `Op`, or else the mount is latched, so no checkpoint
//!   contains half of the change.

use super::sending::send_or_hold;
use super::write::parts;
use super::zero_page;
use crate::F2fs;
use crate::flights::First;
use crate::inode::Inode;
use crate::journal::DataSent;
use crate::map::Slot;
use crate::ops::Op;
use crate::segs::Owned;
use base::{BlockNo, Bytes, Ino, Mutant};
use block::Class;
use fscore::{Errno, FsResult, Home, Take};
use ondisk::f2fs::{BlockAddr, Log, Summary};
use std::collections::BTreeMap;

/// Pages of an open atomic write.
pub(super) type Pending = BTreeMap<u64, Bytes>;

/// Bytes of an operation's room in the journal for each page of an atomic write, which is one
/// operation: a page logs up to 96 (its block, its owner, its slot, the block freed, a node on the
/// way).
const ROOM_PER_PAGE: usize = 128;

/// A page of a commit: its slot as it was, and its new block.
struct Moved {
    index: u64,
    slot: Slot,
    new: BlockAddr,
}

impl F2fs {
    /// Begins an atomic write: what is written to the file from now on becomes visible to other
    /// readers, and durable, only as a whole with [`atomic_commit`](Self::atomic_commit). If an
    /// atomic write is already open, it stays open.
    ///
    /// # Errors
    /// EINVAL if it is no regular file; ENOSPC if inline data needs a block; ESTALE; I/O; damage.
    pub fn atomic_begin(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.inode(ino)?;
            self.balance()?;
            let _gate = inode.gate.write();
            {
                let core = inode.core();
                if core.gone {
                    return Err(Errno::Stale.into());
                }
                if !core.fields.is_regular() {
                    return Err(Errno::Inval.into());
                }
                if core.atomic_size.is_some() {
                    return Ok(());
                }
            }
            self.continue_truncate(&inode)?;
            self.leave_inline_now(&inode)?;
            self.content.atomic.lock().insert(ino, Pending::new());
            let mut core = inode.core();
            core.atomic_size = Some(core.fields.size);
            Ok(())
        })
    }

    /// Makes everything written since [`atomic_begin`](Self::atomic_begin) durable, as a whole, and
    /// ends the atomic write.
    ///
    /// # Errors
    /// EINVAL if none is open. ENOSPC: the atomic write is still open. After any other error it has
    /// ended, and a cut leaves old or new content.
    pub fn atomic_commit(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| {
            self.check_writable()?;
            let inode = self.inode(ino)?;
            self.balance()?;
            {
                let _gate = inode.gate.write();
                let pages = self.content.atomic.lock().get(&ino).cloned();
                let pages = pages.ok_or(Errno::Inval)?;
                let _ = self.land(&inode);
                inode.core().atomic = !rt::mutant(Mutant::F2fsAtomicByParts);
                let committed = self.with_op(|op| self.commit_pending(op, &inode, &pages));
                if let Err(e) = committed {
                    inode.core().atomic = false;
                    return Err(e);
                }
                self.forget_pending(&inode);
            }
            let synced = self.sync_inode(&inode, false);
            inode.core().atomic = false;
            synced
        })
    }

    /// Drops everything written since [`atomic_begin`](Self::atomic_begin).
    ///
    /// # Errors
    /// ESTALE; I/O; damage. None if no atomic write is open.
    pub fn atomic_abort(&self, ino: Ino) -> FsResult<()> {
        self.guarded(|| {
            let inode = self.inode(ino)?;
            let _gate = inode.gate.write();
            self.forget_pending(&inode);
            Ok(())
        })
    }

    /// Ends an atomic write without a trace.
    pub(crate) fn forget_pending(&self, inode: &Inode) {
        if inode.core().atomic_size.take().is_some() {
            self.content.atomic.lock().remove(&inode.ino);
        }
    }

    /// A page of the open atomic write.
    pub(super) fn pending_page(&self, inode: &Inode, index: u64) -> Option<Bytes> {
        let open = self.content.atomic.lock();
        open.get(&inode.ino)?.get(&index).cloned()
    }

    /// Writes while an atomic write is open. The gate is held.
    pub(super) fn write_pending(&self, inode: &Inode, offset: u64, data: &[u8]) -> FsResult<usize> {
        // Pending pages cannot be written back, so at most half the cache may hold them.
        let mut limit = self.pages.limit_pages() / 2;
        if self.journal.is_some() {
            limit = limit.min((self.op_max() / ROOM_PER_PAGE) as u64);
        }
        for part in parts(offset, data) {
            let mut page = self.base_of(inode, part.index)?.to_vec();
            page[part.at..part.at + part.data.len()].copy_from_slice(part.data);
            let mut open = self.content.atomic.lock();
            let pending = open.entry(inode.ino).or_default();
            if pending.len() as u64 >= limit && !pending.contains_key(&part.index) {
                return Err(Errno::NoSpc.into());
            }
            pending.insert(part.index, page.into());
        }
        let mut core = inode.core();
        let end = offset + data.len() as u64;
        core.atomic_size = core.atomic_size.map(|size| size.max(end));
        Ok(data.len())
    }

    /// Maps and sends the pages (A2). The gate is held, and the only writes of the file under way
    /// are those of other tasks' write-back.
    fn commit_pending(&self, op: &Op<'_>, inode: &Inode, pages: &Pending) -> FsResult<()> {
        let _wb = inode.wb.lock();
        let _ = self.land(inode);
        let moved = self.place_pending(op, inode, pages)?;
        let owner = Owned::by(inode.nid(), false);
        for page in &moved {
            let mut tree = inode.tree.lock();
            let set = self.set_slot(op, inode, &mut tree, page.index, &page.slot, page.new);
            let old = page.slot.addr;
            let freed = match old.is_data() {
                true => set.and_then(|()| self.invalidate_all(op, owner, &[old])),
                false => set,
            };
            // A4: half of the slots are set.
            freed.inspect_err(|e| self.fail(e))?;
        }
        let clean = !self.pages.is_dirty(inode.ino);
        {
            let mut core = inode.core();
            let size = core.atomic_size.unwrap_or(core.fields.size);
            core.fields.size = size.max(core.fields.size);
            core.changed();
            core.touch(true);
            core.appended = true;
        }
        let size = inode.core().fields.size;
        let end = match clean {
            true => u64::MAX,
            false => moved.last().map_or(0, |page| page.index + 1),
        };
        let put = self.grow_size(op, inode, size, end);
        let put = put.and_then(|()| self.put_inode(op, inode));
        put.inspect_err(|e| self.fail(e))?;
        self.send_pending(op, inode, pages, &moved);
        Ok(())
    }

    /// A new block for each page, and none of them mapped yet (A1). On failure nothing has changed
    /// (A4).
    fn place_pending(&self, op: &Op<'_>, inode: &Inode, pages: &Pending) -> FsResult<Vec<Moved>> {
        let mut moved: Vec<Moved> = Vec::with_capacity(pages.len());
        let mut place = |index: u64| -> FsResult<()> {
            let slot = {
                let mut tree = inode.tree.lock();
                self.make_slot(op, inode, &mut tree, index)?
            };
            let counts = slot.addr == BlockAddr::NULL;
            if counts {
                self.space.claim_blocks(op, 1)?;
            }
            let owner = self.nat.get(slot.nid).map(|entry| Summary {
                nid: slot.nid,
                version: entry.version,
                ofs_in_node: slot.slot,
            });
            let placed =
                owner.and_then(|owner| self.allocate(op, Log::HotData, BlockAddr::NULL, owner));
            if placed.is_err() && counts {
                self.space.return_blocks(op, 1);
            }
            let new = placed?.addr;
            moved.push(Moved { index, slot, new });
            Ok(())
        };
        let placed = pages.keys().try_for_each(|&index| place(index));
        let taken: Vec<BlockAddr> = moved.iter().map(|page| page.new).collect();
        self.log_taken(op, inode.nid(), Log::HotData, &taken);
        let counted = moved.iter().filter(|m| m.slot.addr == BlockAddr::NULL);
        let counted = counted.count() as u64;
        if let Err(e) = placed {
            for page in &moved {
                let owner = Owned::by(inode.nid(), false);
                let taken_back = self.invalidate_all(op, owner, &[page.new]);
                taken_back.inspect_err(|e| self.fail(e))?;
            }
            self.space.return_blocks(op, counted);
            // Nodes may have been made on the way.
            self.put_inode(op, inode)?;
            return Err(e);
        }
        inode.core().fields.blocks += counted;
        Ok(moved)
    }

    /// Hands the pages to the cache, as pages whose writes are under way. `wb` is held.
    fn send_pending(&self, op: &Op<'_>, inode: &Inode, pages: &Pending, moved: &[Moved]) {
        let ino = inode.ino;
        let mut plug = self.queue.plug();
        let mut runs = Vec::with_capacity(moved.len());
        let mut fresh = Vec::with_capacity(moved.len());
        for Moved { index, new, .. } in moved {
            let known = Home::Known;
            self.pages
                .write(ino, *index, 0, &pages[index], &zero_page(), known);
            let Take::Run(run) = self.pages.take_dirty(ino, *index..index + 1, 1) else {
                unreachable!("file-D3: the page is dirty, and all that flew has landed");
            };
            let lba = BlockNo(u64::from(new.0)).lba();
            plug.write(lba, Class::Data, run.pages[0].clone());
            fresh.push((*new, run.pages[0].clone()));
            runs.push(run.range());
        }
        if !plug.is_empty() {
            let sums = match self.may_sum(inode) {
                true => self.sum_blocks(op, &fresh),
                false => Vec::new(),
            };
            let grouped = self.may_group(sums.len());
            let first = match sums.is_empty() {
                true => First::Sender,
                false => First::Commit,
            };
            let batch = send_or_hold(plug, grouped, inode);
            let watch = inode.flights.add_runs(runs, batch, first);
            self.content.took_off(ino);
            if let (Some(tx), Some(watch)) = (op.tx(), watch) {
                tx.data_sent(DataSent {
                    watch,
                    sums,
                    grouped,
                });
            }
        }
    }
}
