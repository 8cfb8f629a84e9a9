//! Counts how many blocks the running epoch touches (pages-J6). It counts while operations log, so
//! that no operation waits for the count.
//!
//! A node or directory page carries a stamp: the last epoch that changed it. The operation that
//! raises the stamp is the first in its epoch to touch the block. For NAT and SIT the stamps are
//! here, a few hundred of them, so the count is approximate: blocks that share a stamp are counted
//! as one, and a block is not counted if an operation of a later epoch has touched it before. This
//! is enough because the bound of an epoch is soft.

use crate::journal::Epoch;
use crate::journal::capture::redo::{node_of, page_of};
use base::BLOCK_BYTES;
use ondisk::f2fs::journal::{RECORD_HEADER_BYTES, Record};
use ondisk::f2fs::{BLOCKS_PER_SEG, NAT_PER_BLOCK, Nid, SIT_PER_BLOCK};
use rt::atomic::{AtomicU64, Ordering};

/// Bytes of a PAGE record.
const PAGE_BYTES: usize = RECORD_HEADER_BYTES + 8 + BLOCK_BYTES;
/// Stamps of NAT blocks, and as many of SIT blocks.
const STAMPS: usize = 512;
/// Records that images stand for take memory until the epoch is committed: so much of them counts.
const LEFT_OUT_PART: usize = 16;

/// Stamps of NAT and SIT blocks.
pub(in crate::journal) struct Touched {
    nat: Vec<AtomicU64>,
    sit: Vec<AtomicU64>,
}

/// What an operation adds to its epoch.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::journal) struct Load {
    /// Blocks that it is the first of its epoch to touch.
    pub blocks: usize,
    /// Bytes of records that stay beside images.
    beside: usize,
    left_out: usize,
}

impl Load {
    /// Bytes that it adds to the transaction, about.
    pub fn bytes(&self) -> usize {
        self.blocks * PAGE_BYTES + self.beside + self.left_out / LEFT_OUT_PART
    }
}

/// True for records that stay beside the images (pages-J3), whatever becomes of the node.
pub(super) fn stays(record: &Record<'_>) -> bool {
    match record {
        Record::NodeNew { .. } | Record::NodeDel { .. } => true,
        Record::MapRun { dir, .. } => *dir,
        record => node_of(record, Nid(0)).is_none() && page_of(record).is_none(),
    }
}

impl Touched {
    /// Nothing yet.
    pub fn new() -> Touched {
        let stamps = || (0..STAMPS).map(|_| AtomicU64::new(0)).collect();
        Touched {
            nat: stamps(),
            sit: stamps(),
        }
    }

    /// An operation in `epoch` logs a record of so many bytes.
    pub fn log(&self, epoch: Epoch, record: &Record<'_>, bytes: usize, load: &mut Load) {
        match stays(record) {
            true => load.beside += bytes,
            false => load.left_out += bytes,
        }
        let per_sit_block = SIT_PER_BLOCK as u32 * BLOCKS_PER_SEG;
        let stamp = match *record {
            Record::NodeNew { nid, .. } | Record::NodeDel { nid, .. } => {
                &self.nat[nid.0 as usize / NAT_PER_BLOCK % STAMPS]
            }
            Record::BlockRun { addr, .. } => &self.sit[(addr.0 / per_sit_block) as usize % STAMPS],
            Record::BlockMask { seg, .. } => &self.sit[seg.0 as usize / SIT_PER_BLOCK % STAMPS],
            _ => return,
        };
        if stamp.load(Ordering::Acquire) < epoch.0
            && stamp.fetch_max(epoch.0, Ordering::AcqRel) < epoch.0
        {
            load.blocks += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondisk::f2fs::Nid;

    #[test]
    fn a_block_counts_once_in_an_epoch() {
        let touched = Touched::new();
        let mut load = Load::default();
        let made = |nid| Record::NodeDel {
            nid: Nid(nid),
            version: 1,
        };
        for nid in 0..455 {
            touched.log(Epoch(3), &made(nid), 12, &mut load);
        }
        assert_eq!((load.blocks, load.bytes()), (1, 4108 + 455 * 12));
        touched.log(Epoch(3), &made(455), 12, &mut load);
        touched.log(Epoch(4), &made(7), 12, &mut load);
        assert_eq!(load.blocks, 3);
        let attr = Record::InodeAttr {
            mask: 0,
            fields: &[],
        };
        let before = load.bytes();
        touched.log(Epoch(4), &attr, 160, &mut load);
        assert_eq!(load.bytes() - before, 10, "an image stands for it");
    }
}
