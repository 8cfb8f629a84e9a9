//! Reserves blocks: the address slot of a hole becomes NEW, and the block is counted in `space` and
//! in the inode (f2fs-space-S1, file-D1).

use crate::F2fs;
use crate::inode::Inode;
use crate::map::{Slot, Tree};
use crate::ops::Op;
use base::Mutant;
use fscore::{Errno, FsResult};
use ondisk::f2fs::{BlockAddr, max_file_blocks};

use super::BLOCK;

/// Largest file, bytes (Linux `s_maxbytes`).
pub(super) const SIZE_MAX: u64 = max_file_blocks() * BLOCK;

impl F2fs {
    /// Reserves a block for page `index` if it has none. Answers the slot as it was. The caller
    /// puts the inode.
    ///
    /// # Errors
    /// ENOSPC, EFBIG: nothing is reserved.
    pub(super) fn reserve(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
    ) -> FsResult<Slot> {
        let slot = self.make_slot(op, inode, tree, index)?;
        if slot.addr == BlockAddr::NULL {
            self.space.claim_blocks(op, 1)?;
            if let Err(e) = self.set_slot(op, inode, tree, index, &slot, BlockAddr::NEW) {
                self.space.return_blocks(op, 1);
                return Err(e);
            }
            let mut core = inode.core();
            core.fields.blocks += 1;
            core.changed();
        }
        Ok(slot)
    }

    /// Reserves blocks for page `index` and the holes behind it in the same node, as long as there
    /// is room, of `max` (> 0) pages. Answers how many pages from `index` on have a slot now that
    /// is no hole. One change of the node, and with a journal one record. The caller puts the
    /// inode.
    ///
    /// # Errors
    /// ENOSPC, EFBIG: nothing is reserved.
    pub(super) fn reserve_run(
        &self,
        op: &Op<'_>,
        inode: &Inode,
        tree: &mut Tree,
        index: u64,
        max: u64,
    ) -> FsResult<u64> {
        let (slot, like) = self.make_slots(op, inode, tree, index)?;
        if slot.addr != BlockAddr::NULL {
            return Ok(1);
        }
        let holes = like.min(max);
        let pages = match self.space.claim_blocks(op, holes) {
            Ok(()) => holes,
            Err(_) if rt::mutant(Mutant::F2fsSlotUncounted) => holes,
            // Less may fit.
            Err(_) => self.space.claim_blocks(op, 1).map(|()| 1)?,
        };
        let addrs = vec![BlockAddr::NEW; pages as usize];
        if let Err(e) = self.set_slots(op, inode, tree, index, &slot, &addrs) {
            self.space.return_blocks(op, pages);
            return Err(e);
        }
        let mut core = inode.core();
        core.fields.blocks += pages;
        core.changed();
        Ok(pages)
    }

    /// EFBIG unless `offset..offset + len` lies in the largest file; answers the end.
    pub(super) fn check_end(&self, offset: u64, len: u64) -> FsResult<u64> {
        let end = offset.checked_add(len).filter(|&end| end <= SIZE_MAX);
        end.ok_or_else(|| Errno::FBig.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MountOptions;
    use crate::journal::capture::hooks_tests::mounted_over;
    use fscore::{Creds, FileKind, FileSystem};

    #[test]
    fn holes_are_reserved_together_with_one_record_and_one_by_one_where_room_ends() {
        let options = MountOptions::parse("scheme=f2fsj").expect("options");
        let (_, fs) = mounted_over(MountOptions {
            timers: false,
            ..options
        });
        let creds = Creds::default();
        let made = fs.create(fs.root(), b"f", FileKind::File, 0o644, 0, creds);
        let inode = fs.inode(made.expect("made").ino).expect("there");
        fs.leave_inline_now(&inode).expect("has slots");
        let blocks = || inode.core().fields.blocks;
        let before = blocks();
        let runs: FsResult<_> = fs.with_op(|op| {
            let reserve = |index, max| {
                fs.reserve_run(op, &inode, &mut inode.tree.lock(), index, max)
                    .map_err(|e| e.errno())
            };
            assert_eq!(reserve(5, 1), Ok(1));
            let tx = op.tx().expect("a journal");
            let logged = tx.bytes();
            assert_eq!(reserve(0, 32), Ok(5), "up to what is no hole");
            assert_eq!(reserve(5, 27), Ok(1), "no hole");
            assert_eq!(reserve(6, 26), Ok(26));
            let two_records = tx.bytes() - logged;
            assert!(two_records < 32 * 8, "{two_records} bytes for 31 slots");
            let mut filled = 0;
            while fs.space.claim_blocks(op, 1).is_ok() {
                filled += 1;
            }
            fs.space.return_blocks(op, 2);
            let last = [reserve(32, 8), reserve(33, 8), reserve(34, 8)];
            fs.space.return_blocks(op, filled - 2);
            Ok(last)
        });
        assert_eq!(runs.expect("done"), [Ok(1), Ok(1), Err(Errno::NoSpc)]);
        assert_eq!(blocks() - before, 34);
        fs.check();
        fs.unmount().expect("unmounted");
    }
}
