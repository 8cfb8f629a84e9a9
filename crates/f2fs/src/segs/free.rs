//! Frees many blocks at once, and logs that.
//!
//! The records of the epoch that frees a file's blocks list these blocks, which then wait for the
//! apply of that epoch. Blocks of a directory are not listed, and neither are those of nodes: their
//! addresses change with apply alone, so apply knows which block a page had at home, and releases
//! that one.

use super::Segments;
use crate::F2fs;
use crate::journal::Tx;
use crate::ops::Op;
use base::Mutant;
use fscore::FsResult;
use ondisk::f2fs::journal::Record;
use ondisk::f2fs::{BlockAddr, Geometry, Log, Nid, SegNo};

use super::map::BlockMap;

/// Runs of one segment that take as many bytes in the journal as its map does (12 bytes each,
/// against 76).
const RUNS_MAX: usize = 6;

/// The owner of blocks that are freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owned {
    ino: Nid,
    dir: bool,
}

impl Owned {
    /// An inode; `dir`: a directory.
    pub fn by(ino: Nid, dir: bool) -> Owned {
        Owned { ino, dir }
    }
}

impl F2fs {
    /// These blocks are not valid any more. What can be freed is; the first damage is the answer.
    ///
    /// # Errors
    /// Damage: one was not valid.
    pub(crate) fn invalidate_all(
        &self,
        op: &Op<'_>,
        owner: Owned,
        blocks: &[BlockAddr],
    ) -> FsResult<()> {
        let mut first = Ok(());
        let mut freed = Vec::with_capacity(blocks.len());
        for &addr in blocks {
            match self.segs.invalidate(addr) {
                Ok(()) => freed.push(addr),
                Err(e) => first = first.and(Err(e)),
            }
        }
        if let Some(tx) = op.tx().filter(|_| !owner.dir) {
            freed.iter().for_each(|&addr| tx.freed_block(addr));
            // f2fs-journal-I6 (hazards-F61).
            if rt::mutant(Mutant::F2fsjReuseEarly) {
                self.segs.release(&freed, self.options.discard);
            }
            self.segs.log_freed(tx, owner.ino, freed);
        }
        first
    }

    /// Blocks that inode `ino`, no directory, has taken from `log` are valid. Their owners need no
    /// record: the slots that name them say node and place, and the node's entry in the NAT the
    /// version.
    pub(crate) fn log_taken(&self, op: &Op<'_>, ino: Nid, log: Log, blocks: &[BlockAddr]) {
        let Some(tx) = op.tx() else {
            return;
        };
        for run in blocks.chunk_by(|a, b| a.checked_add(1) == Some(*b)) {
            let record = Record::BlockRun {
                addr: run[0],
                count: run.len() as u16,
                alloc: true,
                log,
            };
            tx.log(ino, &record);
        }
    }

    /// Blocks of inode `ino`, no directory, were valid until others took their place.
    pub(crate) fn log_replaced(&self, op: &Op<'_>, ino: Nid, blocks: Vec<BlockAddr>) {
        if let Some(tx) = op.tx()
            && !blocks.is_empty()
        {
            blocks.iter().for_each(|&addr| tx.freed_block(addr));
            self.segs.log_freed(tx, ino, blocks);
        }
    }
}

impl Segments {
    /// Runs of neighbours, or the map of a segment where that is shorter.
    fn log_freed(&self, tx: &Tx<'_>, ino: Nid, mut blocks: Vec<BlockAddr>) {
        blocks.sort_unstable();
        let place = |addr: BlockAddr| self.geo.segno(addr).expect("they were valid");
        for blocks in blocks.chunk_by(|&a, &b| place(a) == place(b)) {
            let seg = place(blocks[0]);
            let mut map = BlockMap::default();
            for &addr in blocks {
                map.set(self.geo.offset_in_seg(addr));
            }
            self.log_map(tx, ino, seg, map);
        }
    }

    fn log_map(&self, tx: &Tx<'_>, ino: Nid, seg: SegNo, map: BlockMap) {
        let log = self.look(seg).1;
        freed_records(&self.geo, seg, log, &map, |record| tx.log_free(ino, record));
    }
}

/// The records of blocks of a segment that are not valid any more.
pub(crate) fn freed_records(
    geo: &Geometry,
    seg: SegNo,
    log: Log,
    map: &BlockMap,
    mut emit: impl FnMut(&Record<'_>),
) {
    let alloc = false;
    if map.runs().count() > RUNS_MAX {
        let mask = &map.to_bytes();
        return emit(&Record::BlockMask {
            seg,
            alloc,
            log,
            mask,
        });
    }
    let start = geo.seg_start(seg).0;
    for (first, len) in map.runs() {
        emit(&Record::BlockRun {
            addr: BlockAddr(start + first),
            count: len as u16,
            alloc,
            log,
        });
    }
}
