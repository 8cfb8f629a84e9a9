//! Data blocks of which transactions have checksums, and what must not happen to them.
//!
//! A commit in one round (f2fs-commit-K9) sends data and transaction side by side. After a cut,
//! recovery compares the data with the checksums in the transaction, and leaves the epoch out if
//! they differ. An acknowledged epoch must never be left out, so its blocks keep their bytes as
//! long as recovery may compare them:
//!
//! - Q1 recovery compares the last whole transaction only, and not even that one if a block of the
//!   next one is in the ring (scan-S4). So it may ask for the blocks of epoch e until the
//!   transaction of e + 1 is durable, and not after that;
//! - Q2 until then no page is written in place over such a block: write-back gives the page a new
//!   one (writeback-W6), because an acknowledged epoch would be left out for what came after it. A
//!   file whose blocks must not move (pinned) gets no checksums;
//! - Q3 until then such a block is neither given out again nor discarded. What frees it is in epoch
//!   e or a later one, and the block is held until a pack is durable that has the epoch which freed
//!   it (f2fs-journal-I6, segs-V8). That pack has e too, and recovery compares nothing that the
//!   pack has. Cleaning and atomic writes go to new blocks and free the old ones, so the same holds
//!   for them;
//! - Q4 a block is noted here inside the operation that sends it, before its epoch can be
//!   committed, under the `wb` lock that write-back of the same file needs: so no write in place
//!   comes between;
//! - Q5 while nothing is logged, the last transaction would stay without a next one, and damage to
//!   its data would pass for a cut. So when a commit interval has passed without a change, an empty
//!   transaction follows it (f2fs-commit-K10).

use super::Epoch;
use ondisk::f2fs::BlockAddr;
use ondisk::f2fs::journal::Sums;
use rt::Mutex;
use std::collections::{BTreeMap, BTreeSet};

/// A data block and its checksum.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct BlockSum {
    pub addr: BlockAddr,
    pub sum: u32,
}

impl BlockSum {
    /// Of a block that is sent with these bytes.
    pub fn of(addr: BlockAddr, bytes: &[u8]) -> BlockSum {
        let sum = Sums::of(bytes);
        BlockSum { addr, sum }
    }
}

/// The blocks that recovery may ask for.
pub(crate) struct Summed(Mutex<State>);

#[derive(Default)]
struct State {
    /// By the epoch whose transaction has their checksums, or will have them.
    blocks: BTreeMap<Epoch, BTreeSet<BlockAddr>>,
    /// The last committed transaction has checksums.
    unsealed: bool,
}

impl Summed {
    /// No transaction has any.
    pub fn new() -> Summed {
        Summed(Mutex::named("f2fs summed blocks", State::default()))
    }

    /// Q4: the transaction of `epoch` may have the checksums of these blocks.
    pub fn note(&self, epoch: Epoch, sums: &[BlockSum]) {
        let mut state = self.0.lock();
        let blocks = state.blocks.entry(epoch).or_default();
        blocks.extend(sums.iter().map(|sum| sum.addr));
    }

    /// True if the block must keep its bytes (Q2).
    pub fn has(&self, addr: BlockAddr) -> bool {
        let state = self.0.lock();
        state.blocks.values().any(|blocks| blocks.contains(&addr))
    }

    /// The transaction of `epoch` is durable: recovery does not ask for the blocks of earlier ones
    /// any more (Q1), nor for those of this one if it has no checksums.
    pub fn committed(&self, epoch: Epoch, sums: bool) {
        let mut state = self.0.lock();
        state.unsealed = sums;
        let asked = |of: Epoch| of > epoch || sums && of == epoch;
        state.blocks.retain(|of, _| asked(*of));
    }

    /// True if the last committed transaction has checksums (Q5).
    pub fn is_unsealed(&self) -> bool {
        self.0.lock().unsealed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_kept_until_the_next_transaction_is_durable() {
        let summed = Summed::new();
        let sum = |addr| BlockSum::of(BlockAddr(addr), &[1]);
        summed.note(Epoch(5), &[sum(100), sum(101)]);
        summed.note(Epoch(6), &[sum(200)]);
        let kept = || [100, 101, 200, 300].map(|addr| summed.has(BlockAddr(addr)));
        assert_eq!(kept(), [true, true, true, false], "Q4: before the commit");
        summed.committed(Epoch(5), true);
        assert_eq!(kept(), [true, true, true, false], "Q2");
        assert!(summed.is_unsealed(), "Q5");
        summed.committed(Epoch(6), false);
        assert_eq!(kept(), [false; 4], "Q1: the last one has no checksums");
        assert!(!summed.is_unsealed());
        summed.note(Epoch(7), &[sum(300)]);
        summed.committed(Epoch(7), true);
        summed.committed(Epoch(8), true);
        assert_eq!(kept(), [false; 4], "Q1");
    }
}
