//! Wear: static levelling, and the report on wear.
//!
//! Blocks take turns through the choice of free blocks (`free`); but a block whose data is never
//! overwritten takes no part in that. Static levelling moves such data: when the most worn free
//! block is more than [`Housekeeping::wear_threshold`] (TH) erases ahead of the least worn closed
//! one, the closed one is emptied into the cold stream, which opens the most worn free block next.
//!
//! Bound: a move copies at most one block, and between two moves lie at least TH erases. As long as
//! blocks are filled before they are erased, the copies are at most 1/TH of all units programmed.

use crate::Housekeeping;
use crate::blocks::ORDINARY;
use crate::free::FreeBlocks;
use crate::types::BlockInfo;
use crate::victim::Victims;

/// Units copied for static levelling per unit that the host writes, while a move is under way.
pub(crate) const LEVEL_PACE: u32 = 4;

/// Decides when to move a block for its wear. Shared by the real FTL and [`crate::counting`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Levelling {
    threshold: u32,
    /// Erases since blocks were last compared.
    erases: u32,
}

impl Levelling {
    pub fn new(own: Housekeeping) -> Levelling {
        Levelling {
            threshold: own.wear_threshold,
            erases: 0,
        }
    }
    /// Notes that a block of the ordinary pool was erased.
    pub fn erased(&mut self) {
        self.erases = self.erases.saturating_add(1);
    }
    /// True if it is time to compare blocks.
    pub fn due(&self) -> bool {
        self.threshold > 0 && self.erases >= self.threshold
    }
    /// Compares blocks. Answers the least worn closed block (among equals the one closed first) if
    /// it lags behind by more than the threshold.
    pub fn look(
        &mut self,
        victims: &Victims,
        free: &FreeBlocks,
        blocks: &[BlockInfo],
    ) -> Option<u32> {
        self.erases = 0;
        let erases = |b: u32| blocks[b as usize].erases;
        let most = erases(free.for_cold(ORDINARY, |_| true)?);
        let coldest = victims.closed(ORDINARY).min_by_key(|b| erases(*b))?;
        (most.saturating_sub(erases(coldest)) > self.threshold).then_some(coldest)
    }
}

/// Erase counts of the blocks that carry data, and how much longer they will last.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Wear {
    /// Blocks counted: neither bad nor of the map areas.
    pub blocks: u32,
    /// Fewest erases of a block.
    pub min: u32,
    /// Mean erases.
    pub mean: f64,
    /// Most erases of a block.
    pub max: u32,
    /// Standard deviation.
    pub stddev: f64,
    /// Erases that a block is rated for.
    pub endurance: u32,
    /// Bytes that the host will have written when the most worn block reaches its rating, from the
    /// first erase on: rated erases of all blocks, divided by the write amplification since the FTL
    /// was made, and by how much the most worn block is ahead of the mean. `None`: nothing has been
    /// written or erased yet.
    pub projected_bytes: Option<u64>,
}

impl Wear {
    /// From the erase counts of blocks of `block_bytes`.
    pub(crate) fn of(
        erases: impl Iterator<Item = u32>,
        block_bytes: u64,
        endurance: u32,
        amplification: Option<f64>,
    ) -> Wear {
        let mut wear = Wear {
            min: u32::MAX,
            endurance,
            ..Wear::default()
        };
        let (mut sum, mut squares) = (0u64, 0u128);
        for e in erases {
            wear.blocks += 1;
            (wear.min, wear.max) = (wear.min.min(e), wear.max.max(e));
            sum += u64::from(e);
            squares += u128::from(e) * u128::from(e);
        }
        if wear.blocks == 0 {
            wear.min = 0;
            return wear;
        }
        let n = f64::from(wear.blocks);
        wear.mean = sum as f64 / n;
        wear.stddev = (squares as f64 / n - wear.mean * wear.mean).max(0.0).sqrt();
        let ahead = wear.mean / f64::from(wear.max);
        wear.projected_bytes = amplification
            .filter(|_| wear.max > 0)
            .map(|a| (n * block_bytes as f64 * f64::from(endurance) * ahead / a) as u64);
        wear
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_known_counts() {
        let wear = Wear::of([2, 4, 4, 4, 5, 5, 7, 9].into_iter(), 1000, 90, Some(2.0));
        assert_eq!((wear.min, wear.max, wear.blocks), (2, 9, 8));
        assert_eq!((wear.mean, wear.stddev), (5.0, 2.0));
        // 8 blocks of 1000 bytes, 90 times, by 2, and 5/9 of that is reached when the worst block
        // is done.
        assert_eq!(wear.projected_bytes, Some(200_000));
        let fresh = Wear::of([0, 0].into_iter(), 1000, 90, Some(1.0));
        assert_eq!(fresh.projected_bytes, None);
        assert_eq!(Wear::of([].into_iter(), 1, 1, None).blocks, 0);
    }
}
