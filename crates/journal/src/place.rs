//! Where the blocks of a log lie on the device, and what a cut may leave of one of them.
//!
//! A block has 1 to 64 KiB, as those of its volume. A device promises less of a write: that sectors
//! of 512 bytes, pages of 4 KiB or single bytes are old or new. So a cut leaves a block that is old
//! in some places and new in others; of one above 4 KiB it does so on every device. Nothing here
//! counts on the write of a whole block:
//!
//! - B1 (blocks before the record) descriptors, images and revokes, in whatever state, mean nothing
//!   without the record of their transaction. That one is sent when they are durable
//!   (journal-commit-F2), or in order behind them (journal-commit-F4), or has a checksum over all
//!   of them (journal-commit-K1).
//! - B2 (record) all that a commit block says lies in its first sector. In a log with checksums the
//!   whole block has to match its own; in one without, nothing behind that sector is read. So it is
//!   there or it is not. A part of a coalition has a checksum over its whole block in every log.
//! - B3 (superblock) it says all that changes in its first sector, too (log_super-J1,
//!   log_super-J4).
//! - B4 (home) recovery overwrites a home of which the log has an image, without a look at it. A
//!   home to which deltas are applied may have old and new bytes in any mixture, because the
//!   argument for them is about single bytes (track-D1, track-D2).
//! - B5 (REMAP) homes above the granule of the device are runs of its pages, and a pair is the
//!   whole run. A cut leaves all pages of all pairs of a command, or none (remap-S4), so
//!   home_remap-X6 and home_remap-X7 hold as they stand. Blocks below the granule are copied.
//! - B6 (fast commits) a checksum in the tail covers everything since the tail before, wherever
//!   blocks end; what lies behind a tail in its block is part of no tag.
//! - B7 (what leads to the log) superblock and descriptors of the volume are read before recovery:
//!   they are mended from their backup (ext4-mount-M2, ext4-mount-M3), which a volume of one group
//!   lacks. With large blocks such a volume may have up to 4 GiB.

use crate::JournalError;
use base::{BlockNo, BlockSize, Lba};

/// A block of the log, counted from the journal superblock (0).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LogBlock(pub u32);

/// The blocks of the journal file in log order, and the size of the file system around it.
#[derive(Clone, Debug)]
pub struct LogPlace {
    runs: Vec<Run>,
    blocks_count: u32,
    fs_blocks: u64,
    block_size: BlockSize,
    /// The log lies on a device of its own.
    external: bool,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Log block of its first block.
    at: u32,
    home: BlockNo,
    len: u32,
}

impl LogPlace {
    /// A log in these runs of (first block, length) in log order, inside a file system of
    /// `fs_blocks` blocks: of 4 KiB unless [`LogPlace::with_block_size`] says otherwise.
    ///
    /// # Errors
    /// A run is empty, lies outside the file system, or overlaps another one; or there are more
    /// than 2^32 blocks.
    pub fn new(runs: &[(BlockNo, u32)], fs_blocks: u64) -> Result<LogPlace, JournalError> {
        let mut place = LogPlace {
            runs: Vec::with_capacity(runs.len()),
            blocks_count: 0,
            fs_blocks,
            block_size: BlockSize::KIB4,
            external: false,
        };
        for &(home, len) in runs {
            let end = home.0.checked_add(len.into());
            if len == 0 || end.is_none_or(|end| end > fs_blocks) {
                return Err(JournalError::Corrupt(format!(
                    "the journal file has {len} blocks at block {home}, but the file system ends at block {fs_blocks}"
                )));
            }
            let at = place.blocks_count;
            place.runs.push(Run { at, home, len });
            place.blocks_count = at.checked_add(len).ok_or_else(|| {
                JournalError::Corrupt("the journal file has more than 2^32 blocks".into())
            })?;
        }
        place.refuse_overlap()?;
        Ok(place)
    }

    /// A log of `blocks` blocks on a device of its own: block numbers of the device are those of
    /// the log, and its superblock lies at `superblock`. The file system has `fs_blocks` blocks.
    pub fn external(superblock: BlockNo, blocks: u32, fs_blocks: u64) -> LogPlace {
        let run = |at, home, len| Run { at, home, len };
        let rest = run(1, BlockNo(1), blocks.saturating_sub(1));
        LogPlace {
            runs: vec![run(0, superblock, 1), rest],
            blocks_count: blocks,
            fs_blocks,
            block_size: BlockSize::KIB4,
            external: true,
        }
    }

    /// True if the log lies on a device of its own.
    pub fn is_external(&self) -> bool {
        self.external
    }

    /// This place, with blocks of this size.
    #[must_use]
    pub fn with_block_size(mut self, size: BlockSize) -> LogPlace {
        self.block_size = size;
        self
    }

    fn refuse_overlap(&self) -> Result<(), JournalError> {
        let mut sorted = self.runs.clone();
        sorted.sort_by_key(|r| r.home);
        for pair in sorted.windows(2) {
            if pair[0].home.plus(pair[0].len.into()) > pair[1].home {
                let home = pair[1].home;
                let why = format!("block {home} belongs to the journal file twice");
                return Err(JournalError::Corrupt(why));
            }
        }
        Ok(())
    }

    /// Number of blocks, the superblock included.
    pub fn blocks_count(&self) -> u32 {
        self.blocks_count
    }

    /// Blocks of the file system around the log.
    pub fn fs_blocks(&self) -> u64 {
        self.fs_blocks
    }

    /// Size of the blocks of log and file system.
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// First sector of a block of the log.
    ///
    /// # Panics
    /// If the log has no such block.
    pub fn lba(&self, at: LogBlock) -> Lba {
        self.block_size.lba(self.block(at))
    }

    /// Address of a block of the log.
    ///
    /// # Panics
    /// If the log has no such block.
    pub fn block(&self, at: LogBlock) -> BlockNo {
        assert!(at.0 < self.blocks_count, "log block {} exists", at.0);
        let run = self.runs[self.runs.partition_point(|r| r.at <= at.0) - 1];
        run.home.plus((at.0 - run.at).into())
    }

    /// True if `block` of the file system is one of the log.
    pub fn contains(&self, block: BlockNo) -> bool {
        !self.external
            && self
                .runs
                .iter()
                .any(|r| r.home <= block && block < r.home.plus(r.len.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_log_order() {
        let place = LogPlace::new(&[(BlockNo(100), 3), (BlockNo(10), 2)], 200).expect("fits");
        let homes: Vec<u64> = (0..5).map(|n| place.block(LogBlock(n)).0).collect();
        assert_eq!(homes, [100, 101, 102, 10, 11]);
        assert!(place.contains(BlockNo(11)) && !place.contains(BlockNo(12)));
    }

    #[test]
    fn a_log_on_its_own_device() {
        let place = LogPlace::external(BlockNo(2), 1024, 50);
        let homes = [0, 1, 3, 1023].map(|n| place.block(LogBlock(n)).0);
        assert_eq!(homes, [2, 1, 3, 1023]);
        assert!(
            !place.contains(BlockNo(3)),
            "that is one of the file system"
        );
    }

    #[test]
    fn bad_runs_are_refused() {
        for runs in [
            &[(BlockNo(5), 0)][..],
            &[(BlockNo(199), 2)],
            &[(BlockNo(u64::MAX), 2)],
            &[(BlockNo(5), 3), (BlockNo(7), 1)],
        ] {
            assert!(LogPlace::new(runs, 200).is_err(), "{runs:?}");
        }
    }
}
