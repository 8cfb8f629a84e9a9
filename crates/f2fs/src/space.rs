//! Counts of blocks, nodes and inodes in use, which a checkpoint saves and which decide about
//! ENOSPC.
//!
//! The space argument of F2FS: write-back of accepted data cannot meet ENOSPC. It says who may
//! dirty what, what is reserved for it, and why that is enough:
//!
//! - S1 a block counts from the moment its address slot says "reserved" (`NEW`) or a node number is
//!   taken, not from its allocation in a log. So `blocks` is never below the number of valid
//!   blocks, and the difference is what is still to be written for the first time;
//! - S2 no claim takes `blocks` beyond what the volume offers its users (`user_block_count`; less
//!   with `checkpoint=disable`): overprovisioned segments are for cleaning. What recovery finds in
//!   use counts even beyond that;
//! - S3 a claim for a caller that is not [admitted](fscore::ReserveOwner) to what is held back
//!   (`reserve_root=`, `reserve_node=`) cannot take `blocks` beyond that limit less these blocks,
//!   nor a node of those held back. This is decided where blocks are counted (S1), so write-back,
//!   cleaning and checkpoints are never refused;
//! - S4 *who may dirty a page*: a writer whose page has an address slot that is not a hole
//!   (file-D1), so the block is counted and all nodes that lead to it exist and are counted. A
//!   refused claim leaves the slot a hole. A page of a directory has its block from the operation
//!   that makes the entry, a node has its block from the operation that takes its number, and
//!   inline content lies in a node that exists;
//! - S5 *write-back counts nothing*: a page out of place, a node, a directory block, and a copy by
//!   cleaning each take one block of a log and give one back, or use one that was counted. Only the
//!   place in the log is still to be found, and for it there are the free segments, which
//!   [`balance`](crate::F2fs::balance) keeps above the reserve before each operation and before
//!   each batch of write-back, which is a segment at most. By S2 the overprovisioned segments can
//!   always be had, by cleaning or, where blocks only wait for a checkpoint, by that checkpoint;
//!   and when free segments run low, logs fill holes (except with `mode=lfs`);
//! - S6 what is dirty fits into the checkpoint that is to write it: nodes and directory blocks are
//!   counted as pressure, and cleaning or an apply comes first if the free segments would not
//!   suffice (`gc/room.rs`);
//! - S7 what `statfs` calls available can be used by one file: the nodes that name its blocks are
//!   subtracted.
//!
//! Data that the kernel has in its cache and has not sent yet does not count as accepted:
//! `fuse/src/server/write.rs` says how it is refused.

use crate::journal::UsageDelta;
use crate::ops::Op;
use base::Mutant;
use fscore::{Errno, FsResult, ReserveOwner};
use ondisk::f2fs::{ADDRS_PER_BLOCK, NIDS_PER_BLOCK};
use rt::Mutex;
use rt::atomic::{AtomicBool, Ordering};

/// Nodes that a new file of so many blocks has at most: its inode, those that hold addresses, and
/// those that hold their numbers.
const fn nodes_of(blocks: u64) -> u64 {
    let direct = blocks.div_ceil(ADDRS_PER_BLOCK as u64);
    let indirect = direct.div_ceil(NIDS_PER_BLOCK as u64);
    1 + direct + indirect + indirect.div_ceil(NIDS_PER_BLOCK as u64)
}

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

/// What is held back, and for whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reserve {
    pub blocks: u64,
    pub nodes: u32,
    pub owner: ReserveOwner,
}

/// The counts of a mounted volume.
pub(crate) struct Space {
    usage: Mutex<Usage>,
    limits: Mutex<Limits>,
    reserve: Reserve,
    /// More may be in use than the limit says: by recovery, or because it was lowered.
    over: AtomicBool,
}

impl Space {
    /// New counts. `blocks`: how many users may take (`user_block_count`, less what is kept back);
    /// `nodes`: how many node numbers exist.
    pub fn new(usage: Usage, blocks: u64, nodes: u32, reserve: Reserve) -> Space {
        Space {
            usage: Mutex::named("f2fs usage", usage),
            limits: Mutex::named("f2fs limits", Limits { blocks, nodes }),
            reserve,
            over: AtomicBool::new(usage.blocks > blocks || usage.nodes > nodes),
        }
    }

    /// What is in use.
    pub fn usage(&self) -> Usage {
        *self.usage.lock()
    }

    /// Blocks that a caller without a right to the blocks held back may still take.
    pub fn blocks_common(&self) -> u64 {
        self.blocks_free().saturating_sub(self.reserve.blocks)
    }

    /// Blocks that one new file of such a caller may have as content (S7).
    pub fn blocks_available(&self) -> u64 {
        let common = self.blocks_common();
        common.saturating_sub(nodes_of(common))
    }

    /// Blocks that users may still take, those held back included.
    pub fn blocks_free(&self) -> u64 {
        let limit = self.limits.lock().blocks;
        limit.saturating_sub(self.usage.lock().blocks)
    }

    /// Counts `n` data blocks; with a journal the counts of the operation's epoch say so, too.
    ///
    /// # Errors
    /// ENOSPC (S2); then nothing is counted.
    pub fn claim_blocks(&self, op: &Op<'_>, n: u64) -> FsResult<()> {
        self.by_caller(|held_back| {
            let limit = self.limits.lock().blocks;
            let mut usage = self.usage.lock();
            let full = usage.blocks + n > limit.saturating_sub(held_back.blocks);
            if full && !rt::mutant(Mutant::F2fsClaimBeyond) {
                return Err(Errno::NoSpc.into());
            }
            usage.blocks += n;
            Ok(())
        })?;
        count(op, n as i64, 0, 0);
        Ok(())
    }

    /// S3: claims with so much held back as the caller may not use. His groups are asked for only
    /// when the others do not do.
    fn by_caller(&self, claim: impl Fn(Limits) -> FsResult<()>) -> FsResult<()> {
        let Reserve {
            blocks,
            nodes,
            owner,
        } = self.reserve;
        let nothing = Limits {
            blocks: 0,
            nodes: 0,
        };
        if (blocks, nodes) == (0, 0) || owner.admits_by_number() == Some(true) {
            return claim(nothing);
        }
        match claim(Limits { blocks, nodes }) {
            Err(_) if owner.admits() => claim(nothing),
            other => other,
        }
    }

    /// Counts a node block.
    ///
    /// # Errors
    /// ENOSPC; then nothing is counted.
    pub fn claim_node(&self, op: &Op<'_>, inode: bool) -> FsResult<()> {
        self.by_caller(|held_back| {
            let limits = *self.limits.lock();
            let mut usage = self.usage.lock();
            let blocks = limits.blocks.saturating_sub(held_back.blocks);
            let nodes = limits.nodes.saturating_sub(held_back.nodes);
            let full = usage.blocks + 1 > blocks && !rt::mutant(Mutant::F2fsNodeBeyond);
            if full || usage.nodes + 1 > nodes {
                return Err(Errno::NoSpc.into());
            }
            usage.blocks += 1;
            usage.nodes += 1;
            usage.inodes += u32::from(inode);
            Ok(())
        })?;
        count(op, 1, 1, i64::from(inode));
        Ok(())
    }

    /// `n` data blocks are free again.
    ///
    /// # Panics
    /// In test builds, if so many were never counted.
    pub fn return_blocks(&self, op: &Op<'_>, n: u64) {
        let mut usage = self.usage.lock();
        debug_assert!(
            usage.blocks >= n,
            "S1: {n} blocks of {} returned",
            usage.blocks
        );
        usage.blocks = usage.blocks.saturating_sub(n);
        drop(usage);
        count(op, -(n as i64), 0, 0);
    }

    /// A node block is free again.
    pub fn return_node(&self, op: &Op<'_>, inode: bool) {
        let mut usage = self.usage.lock();
        debug_assert!(
            usage.nodes > 0 && usage.blocks > 0,
            "S1: a node too many returned"
        );
        usage.blocks = usage.blocks.saturating_sub(1);
        usage.nodes = usage.nodes.saturating_sub(1);
        usage.inodes = usage.inodes.saturating_sub(u32::from(inode));
        drop(usage);
        count(op, -1, -1, -i64::from(inode));
    }

    /// Adds blocks that recovery found in use and the checkpoint did not count; they count even
    /// beyond the limit.
    pub fn add_recovered(&self, found: Usage) {
        let mut usage = self.usage.lock();
        usage.blocks += found.blocks;
        usage.nodes += found.nodes;
        usage.inodes += found.inodes;
        self.over.store(true, Ordering::Relaxed);
    }

    /// Sets what is in use after a journal was redone, even beyond the limit.
    pub fn set_recovered(&self, usage: Usage) {
        *self.usage.lock() = usage;
        self.over.store(true, Ordering::Relaxed);
    }

    /// Checks S2, unless a recovery has brought more than the limit.
    ///
    /// # Panics
    /// If more is counted than the limit.
    pub fn check(&self) {
        let limit = *self.limits.lock();
        let usage = self.usage.lock();
        let over = self.over.load(Ordering::Relaxed);
        assert!(
            over || usage.blocks <= limit.blocks && usage.nodes <= limit.nodes,
            "S2: {usage:?} are counted, {limit:?} are there"
        );
        assert!(
            u64::from(usage.nodes) <= usage.blocks && usage.inodes <= usage.nodes,
            "S1: {usage:?}"
        );
    }

    /// `checkpoint=disable`: limits the blocks in use to this number, because freed blocks cannot
    /// be reused.
    pub fn limit_blocks(&self, blocks: u64) {
        self.limits.lock().blocks = blocks;
        self.over.store(true, Ordering::Relaxed);
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
    use crate::ops::Ops;
    use fscore::Caller;

    #[test]
    fn a_file_of_what_is_available_has_room_for_its_nodes() {
        for free in [0, 1, 2, 10, 1018, 1019, 5_000, 40_000, 3_000_000] {
            let space = Space::new(Usage::default(), free, 1, Reserve::default());
            let data = space.blocks_available();
            assert!(
                data == 0 || data + nodes_of(data) <= free,
                "S7: {data} of {free}"
            );
            assert!(
                data + nodes_of(data) + 4 >= free,
                "S7: {data} of {free} only"
            );
        }
    }

    #[test]
    fn nothing_is_counted_beyond_the_limit() {
        let ops = Ops::new();
        let op = ops.enter();
        let space = Space::new(Usage::default(), 3, 2, Reserve::default());
        space.claim_node(&op, true).expect("1 of 3");
        space.claim_blocks(&op, 1).expect("2 of 3");
        assert!(space.claim_blocks(&op, 2).is_err(), "S2");
        space.claim_node(&op, false).expect("3 of 3");
        assert!(space.claim_node(&op, false).is_err(), "S2");
        let full = Usage {
            blocks: 3,
            nodes: 2,
            inodes: 1,
        };
        assert_eq!((space.usage(), space.blocks_free()), (full, 0));
        space.return_blocks(&op, 1);
        assert!(
            space.claim_node(&op, false).is_err(),
            "node numbers are used up"
        );
        space.return_node(&op, false);
        assert_eq!(space.blocks_free(), 2);
    }

    #[test]
    fn what_is_held_back_is_for_who_is_admitted() {
        let ops = Ops::new();
        let op = ops.enter();
        let owner = ReserveOwner { uid: 5, gid: 9 };
        let reserve = Reserve {
            blocks: 4,
            nodes: 0,
            owner,
        };
        let space = Space::new(Usage::default(), 10, 20, reserve);
        let user = |uid, groups: &[u32], n| {
            let caller = Caller::new(uid, 1, groups.to_vec());
            caller.scope(|| space.claim_blocks(&op, n)).is_ok()
        };
        assert!(user(6, &[], 6) && !user(6, &[], 1), "S3");
        assert_eq!((space.blocks_common(), space.blocks_free()), (0, 4));
        let node = Caller::new(6, 1, vec![8]).scope(|| space.claim_node(&op, false));
        assert!(node.is_err(), "S3");
        assert!(user(5, &[], 1) && user(6, &[8, 9], 1) && user(0, &[], 1));
        space.claim_node(&op, true).expect("nobody says who calls");
        assert!(space.claim_blocks(&op, 1).is_err(), "S2");
        let nodes = Space::new(
            Usage::default(),
            10,
            3,
            Reserve {
                blocks: 0,
                nodes: 1,
                owner,
            },
        );
        let node = |uid| Caller::new(uid, 1, Vec::new()).scope(|| nodes.claim_node(&op, false));
        assert!(node(6).is_ok() && node(6).is_ok() && node(6).is_err(), "S3");
        let data = Caller::new(6, 1, Vec::new()).scope(|| nodes.claim_blocks(&op, 1));
        assert!(data.is_ok() && node(5).is_ok() && node(5).is_err(), "S2");
        let all = Reserve {
            blocks: 11,
            nodes: 0,
            owner,
        };
        let small = Space::new(Usage::default(), 10, 20, all);
        assert_eq!(small.blocks_common(), 0);
        assert!(small.claim_blocks(&op, 10).is_ok());
    }
}
