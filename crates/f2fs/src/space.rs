//! Counts of blocks, nodes and inodes in use: what a checkpoint says of them, and ENOSPC.
//!
//! - S1 a block counts from the moment its address slot says "reserved" (`NEW`) or a node number is taken, not from its allocation
//!   in a log: delayed allocation never fails for lack of space;
//! - S2 `blocks` never exceeds what the volume offers its users: overprovisioned segments are for cleaning;
//! - S3 nor, by what a caller adds who is not [admitted](fscore::ReserveOwner) to them, that without the blocks held back (`reserve_root=`).
//!   It is decided where they are counted (S1), so write-back, cleaning and checkpoints are never refused.

use crate::F2fs;
use crate::journal::UsageDelta;
use crate::ops::Op;
use fscore::{Errno, FsResult, ReserveOwner};
use rt::Mutex;

/// What is in use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Usage {
    /// Blocks of users: data and nodes, reserved ones included.
    pub blocks: u64,
    /// Of that, node blocks.
    pub nodes: u32,
    /// Inodes.
    pub inodes: u32,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    blocks: u64,
    nodes: u32,
}

/// Blocks held back, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reserve {
    pub blocks: u64,
    pub owner: ReserveOwner,
}

/// The counts of a mounted volume.
pub(crate) struct Space {
    usage: Mutex<Usage>,
    limits: Mutex<Limits>,
    reserve: Reserve,
}

impl Space {
    /// `blocks`: what users may take (`user_block_count`, less what is kept back); `nodes`: node numbers there are.
    pub fn new(usage: Usage, blocks: u64, nodes: u32, reserve: Reserve) -> Space {
        Space {
            usage: Mutex::named("f2fs usage", usage),
            limits: Mutex::named("f2fs limits", Limits { blocks, nodes }),
            reserve,
        }
    }

    /// What is in use.
    pub fn usage(&self) -> Usage {
        *self.usage.lock()
    }

    /// Blocks everybody may still take.
    pub fn blocks_common(&self) -> u64 {
        self.blocks_free().saturating_sub(self.reserve.blocks)
    }

    /// Blocks users may still take, those held back among them.
    pub fn blocks_free(&self) -> u64 {
        let limit = self.limits.lock().blocks;
        limit.saturating_sub(self.usage.lock().blocks)
    }

    /// Counts `n` data blocks.
    ///
    /// # Errors
    /// ENOSPC (S2); then nothing is counted.
    pub fn claim_blocks(&self, n: u64) -> FsResult<()> {
        self.by_caller(|held_back| {
            let limit = self.limits.lock().blocks;
            let mut usage = self.usage.lock();
            if usage.blocks + n > limit.saturating_sub(held_back) {
                return Err(Errno::NoSpc.into());
            }
            usage.blocks += n;
            Ok(())
        })
    }

    /// S3: claims with so many blocks held back as the caller may not use. His groups are asked for only when the others do not do.
    fn by_caller(&self, claim: impl Fn(u64) -> FsResult<()>) -> FsResult<()> {
        let Reserve { blocks, owner } = self.reserve;
        if blocks == 0 || owner.admits_by_number() == Some(true) {
            return claim(0);
        }
        match claim(blocks) {
            Err(_) if owner.admits() => claim(0),
            other => other,
        }
    }

    /// Counts a node block.
    ///
    /// # Errors
    /// ENOSPC; then nothing is counted.
    pub fn claim_node(&self, inode: bool) -> FsResult<()> {
        self.by_caller(|held_back| {
            let limits = *self.limits.lock();
            let mut usage = self.usage.lock();
            let blocks = limits.blocks.saturating_sub(held_back);
            if usage.blocks + 1 > blocks || usage.nodes + 1 > limits.nodes {
                return Err(Errno::NoSpc.into());
            }
            usage.blocks += 1;
            usage.nodes += 1;
            usage.inodes += u32::from(inode);
            Ok(())
        })
    }

    /// `n` data blocks are free again.
    ///
    /// # Panics
    /// In test builds, if so many were never counted.
    pub fn return_blocks(&self, n: u64) {
        let mut usage = self.usage.lock();
        debug_assert!(
            usage.blocks >= n,
            "S1: {n} blocks of {} returned",
            usage.blocks
        );
        usage.blocks = usage.blocks.saturating_sub(n);
    }

    /// A node block is free again.
    pub fn return_node(&self, inode: bool) {
        let mut usage = self.usage.lock();
        debug_assert!(
            usage.nodes > 0 && usage.blocks > 0,
            "S1: a node too many returned"
        );
        usage.blocks = usage.blocks.saturating_sub(1);
        usage.nodes = usage.nodes.saturating_sub(1);
        usage.inodes = usage.inodes.saturating_sub(u32::from(inode));
    }

    /// Recovery found blocks in use that the checkpoint did not count; they count whatever the limit.
    pub fn add_recovered(&self, found: Usage) {
        let mut usage = self.usage.lock();
        usage.blocks += found.blocks;
        usage.nodes += found.nodes;
        usage.inodes += found.inodes;
    }

    /// What is in use after a journal was redone, whatever the limit.
    pub fn set_recovered(&self, usage: Usage) {
        *self.usage.lock() = usage;
    }

    /// `checkpoint=disable`: no more than so many blocks may be in use, as what is freed cannot be used again.
    pub fn limit_blocks(&self, blocks: u64) {
        self.limits.lock().blocks = blocks;
    }
}

/// The same inside an operation: with a journal the counts of its epoch say so, too.
impl F2fs {
    /// Counts `n` data blocks.
    ///
    /// # Errors
    /// ENOSPC (S2); then nothing is counted.
    pub(crate) fn claim_blocks(&self, op: &Op<'_>, n: u64) -> FsResult<()> {
        self.space.claim_blocks(n)?;
        count(op, n as i64, 0, 0);
        Ok(())
    }

    /// `n` data blocks are free again.
    pub(crate) fn return_blocks(&self, op: &Op<'_>, n: u64) {
        self.space.return_blocks(n);
        count(op, -(n as i64), 0, 0);
    }

    /// Counts a node block.
    ///
    /// # Errors
    /// ENOSPC; then nothing is counted.
    pub(crate) fn claim_node(&self, op: &Op<'_>, inode: bool) -> FsResult<()> {
        self.space.claim_node(inode)?;
        count(op, 1, 1, i64::from(inode));
        Ok(())
    }

    /// A node block is free again.
    pub(crate) fn return_node(&self, op: &Op<'_>, inode: bool) {
        self.space.return_node(inode);
        count(op, -1, -1, -i64::from(inode));
    }
}

fn count(op: &Op<'_>, blocks: i64, nodes: i64, inodes: i64) {
    if let Some(tx) = op.tx() {
        tx.count(UsageDelta {
            blocks,
            nodes,
            inodes,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fscore::Caller;

    #[test]
    fn nothing_is_counted_beyond_the_limit() {
        let space = Space::new(Usage::default(), 3, 2, Reserve::default());
        space.claim_node(true).expect("1 of 3");
        space.claim_blocks(1).expect("2 of 3");
        assert!(space.claim_blocks(2).is_err(), "S2");
        space.claim_node(false).expect("3 of 3");
        assert!(space.claim_node(false).is_err(), "S2");
        let full = Usage {
            blocks: 3,
            nodes: 2,
            inodes: 1,
        };
        assert_eq!((space.usage(), space.blocks_free()), (full, 0));
        space.return_blocks(1);
        assert!(space.claim_node(false).is_err(), "node numbers are used up");
        space.return_node(false);
        assert_eq!(space.blocks_free(), 2);
    }

    #[test]
    fn what_is_held_back_is_for_who_is_admitted() {
        let owner = ReserveOwner { uid: 5, gid: 9 };
        let reserve = Reserve { blocks: 4, owner };
        let space = Space::new(Usage::default(), 10, 20, reserve);
        let user = |uid, groups: &[u32], n| {
            let caller = Caller::new(uid, 1, groups.to_vec());
            caller.scope(|| space.claim_blocks(n)).is_ok()
        };
        assert!(user(6, &[], 6) && !user(6, &[], 1), "S3");
        assert_eq!((space.blocks_common(), space.blocks_free()), (0, 4));
        let node = Caller::new(6, 1, vec![8]).scope(|| space.claim_node(false));
        assert!(node.is_err(), "S3");
        assert!(user(5, &[], 1) && user(6, &[8, 9], 1) && user(0, &[], 1));
        space.claim_node(true).expect("nobody says who calls");
        assert!(space.claim_blocks(1).is_err(), "S2");
        let all = Reserve { blocks: 11, owner };
        let small = Space::new(Usage::default(), 10, 20, all);
        assert_eq!(small.blocks_common(), 0);
        assert!(small.claim_blocks(10).is_ok());
    }
}
