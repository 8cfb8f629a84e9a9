//! A write into an unwritten extent with data=journal: a small rest of the extent is zeroed and
//! becomes written with the page, so that the tree does not grow by a record for each such write.
//! Linux does so in this mode (`extent_max_zeroout_kb`); in the others it converts at the end of
//! the write and zeroes nothing, and so do we.
//!
//! Why no cut shows what the blocks held before (fallocate-U1): the zeros have been written when
//! the extent changes, in the handle of the page, and the transaction has them as its ordered
//! data, so that they are flushed before it commits. A cut in between leaves an unwritten extent
//! over zeros. Blocks of which the log may hold older content are left out, because recovery would
//! write that over the zeros (small-S2).

use crate::Ext4;
use crate::extent::Aim;
use crate::fault;
use crate::inode::Inode;
use crate::tx::Tx;
use block::Class;
use fscore::FsResult;
use ondisk::ext4::{EXTENT_LEN_MAX, Extent};
use std::ops::Range;

/// Bytes that are zeroed rather than split off: the default of Linux.
const ZERO_BYTES_MAX: u32 = 32 << 10;

impl Ext4 {
    /// Makes the block `lblk` of an unwritten extent written, and with it what is zeroed around it.
    /// The `tree` lock is held, and the page of the block is logged in the same handle.
    pub(super) fn convert_around(&self, tx: &mut Tx<'_>, inode: &Inode, lblk: u32) -> FsResult<()> {
        let whole = self.with_zeroed(inode, lblk)?;
        if let Some((extent, blocks)) = whole {
            self.zero_around(tx, &extent, &blocks, lblk)?;
            return self.convert_written(tx, inode, blocks.start, blocks.len() as u32);
        }
        self.convert_written(tx, inode, lblk, 1)
    }

    /// The unwritten extent of a block, and the blocks of it that become written with that one;
    /// `None`: no other does.
    fn with_zeroed(&self, inode: &Inode, lblk: u32) -> FsResult<Option<(Extent, Range<u32>)>> {
        let path = self.find_path(inode, Aim::Block(lblk))?;
        let leaf = path.leaf();
        let Some(at) = leaf.partition_point(|e| e.logical <= lblk).checked_sub(1) else {
            return Ok(None);
        };
        let extent = leaf[at];
        let left = at.checked_sub(1).map(|i| leaf[i]);
        let right = leaf.get(at + 1).copied();
        let end = inode.core().size.div_ceil(self.block());
        let most = ZERO_BYTES_MAX / self.block_size.bytes() as u32;
        let blocks = match extent.logical_end() <= end {
            true => widened(&extent, lblk, (left, right), most),
            false => lblk..lblk + 1,
        };
        let first = extent
            .physical
            .plus(u64::from(blocks.start - extent.logical));
        let logged = || self.journal.data_in_log(first, blocks.len() as u32);
        let zeroes = blocks.len() > 1 && logged().is_none();
        Ok(zeroes.then_some((extent, blocks)))
    }

    /// Writes zeros to `blocks` but `lblk`, and waits for them.
    fn zero_around(
        &self,
        tx: &mut Tx<'_>,
        extent: &Extent,
        blocks: &Range<u32>,
        lblk: u32,
    ) -> FsResult<()> {
        self.check_range(extent.physical, extent.len, format_args!("an extent"))?;
        let mut plug = self.queue.plug();
        for block in blocks.clone().filter(|block| *block != lblk) {
            let place = extent.physical.plus(u64::from(block - extent.logical));
            plug.write(self.block_size.lba(place), Class::Data, self.zero_page());
        }
        let mut batch = plug.submit();
        let written = batch.watch().wait_written();
        written.result.map_err(fault::device("zeroing blocks"))?;
        tx.add_ordered(batch)
    }
}

/// The blocks that become written with `lblk`, which lies in the unwritten `extent`. `most` is the
/// number of blocks that Linux prefers to zero.
///
/// A block at an edge that joins a written neighbour becomes part of that, and nothing is zeroed.
/// Otherwise the rest of the extent behind it is zeroed if block and rest are at most `most`, and
/// what lies before it if all is less than that then.
fn widened(
    extent: &Extent,
    lblk: u32,
    (left, right): (Option<Extent>, Option<Extent>),
    most: u32,
) -> Range<u32> {
    let alone = lblk..lblk + 1;
    let before = lblk - extent.logical;
    let from_here = extent.len - before;
    let joins = before == 0 && left.is_some_and(|left| continues(&left, extent))
        || from_here == 1 && right.is_some_and(|right| continues_behind(extent, &right));
    if extent.len == 1 || joins || from_here == 1 {
        return alone;
    }
    let behind = match from_here <= most {
        true => from_here,
        false => 1,
    };
    let start = match before + behind < most {
        true => extent.logical,
        false => lblk,
    };
    start..lblk + behind
}

/// True if a block at the front of `extent` may become part of the written extent on its left.
fn continues(left: &Extent, extent: &Extent) -> bool {
    !left.unwritten
        && left.logical_end() == u64::from(extent.logical)
        && left.physical.plus(left.len.into()) == extent.physical
        && left.len < EXTENT_LEN_MAX
}

/// True if a block at the end of `extent` may become part of the written extent on its right.
fn continues_behind(extent: &Extent, right: &Extent) -> bool {
    !right.unwritten
        && extent.logical_end() == u64::from(right.logical)
        && extent.physical.plus(extent.len.into()) == right.physical
        && right.len < EXTENT_LEN_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BlockNo;

    fn extent(logical: u32, len: u32, unwritten: bool) -> Extent {
        Extent {
            logical,
            len,
            physical: BlockNo(1000 + u64::from(logical)),
            unwritten,
        }
    }

    #[test]
    fn small_rests_are_zeroed_and_large_ones_are_not() {
        for (len, lblk, wanted) in [
            // All of it.
            (8, 0, 0..8),
            (5, 3, 0..5),
            // The rest behind it is small, the whole is not.
            (100, 95, 95..100),
            (8, 3, 3..8),
            // What is before it is small.
            (100, 3, 0..4),
            // Neither.
            (100, 50, 50..51),
            (100, 0, 0..1),
            // Nothing is behind it.
            (5, 4, 4..5),
            (1, 0, 0..1),
        ] {
            let found = widened(&extent(0, len, true), lblk, (None, None), 8);
            assert_eq!(found, wanted, "block {lblk} of {len}");
        }
    }

    #[test]
    fn a_block_that_joins_written_ones_is_written_alone() {
        let (left, middle, right) = (extent(0, 4, false), extent(4, 4, true), extent(8, 2, false));
        let of = |lblk, left, right| widened(&middle, lblk, (left, right), 8);
        assert_eq!(of(4, Some(left), None), 4..5);
        assert_eq!(of(7, None, Some(right)), 7..8);
        assert_eq!(of(5, Some(left), Some(right)), 4..8);
        let unwritten = extent(0, 4, true);
        assert_eq!(of(4, Some(unwritten), None), 4..8);
        let elsewhere = Extent {
            physical: BlockNo(5000),
            ..left
        };
        assert_eq!(of(4, Some(elsewhere), None), 4..8);
    }
}
