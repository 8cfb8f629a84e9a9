//! Blocks held back (`s_r_blocks_count`), and which callers may use them.
//!
//! As in Linux, these may: the superuser, the user `s_def_resuid`, and members of the group
//! `s_def_resgid` unless that is 0. The caller is the one that [`fscore::Caller`] names for the
//! running task.
//!
//! - R1 a caller that may not use them is given blocks only as far as those held back stay
//!   (ext4-space-S3), in whatever operation;
//! - R2 the right is checked when blocks are promised, or claimed without a promise. Promised
//!   blocks may later be allocated in any task that writes the pages back; apart from those, no
//!   task takes blocks on behalf of another caller;
//! - R3 a file that has blocks already, to which nothing was written so far or which it gives up,
//!   is not refused the tree blocks that this takes: the right was checked when the file got its
//!   blocks (Linux takes them from 2 % of the volume that it keeps for that);
//! - R4 the groups of the caller, which cost the reading of a file of the host, are asked for only
//!   when the blocks that are not held back do not suffice.

use crate::Ext4;
use crate::space::{Claim, Right, Share};

impl Ext4 {
    /// The share of the free blocks that is tried first (R1).
    fn share(&self, right: Right) -> Share {
        let admitted = || self.reserve.owner.admits_by_number() == Some(true);
        match right {
            Right::Owed => Share::All,
            Right::Caller if self.reserve.blocks == 0 || admitted() => Share::All,
            Right::Caller | Right::Nobodys => Share::Common,
        }
    }

    /// True if a caller for which `share` was not enough may try to take from all free blocks (R4).
    fn may_have_more(&self, right: Right, share: Share) -> bool {
        share == Share::Common && right == Right::Caller && self.reserve.owner.admits()
    }

    /// Promises `blocks`; false if there are not as many.
    pub(crate) fn promise(&self, blocks: u64, right: Right) -> bool {
        let share = self.share(right);
        self.space.promise(blocks, share)
            || self.may_have_more(right, share) && self.space.promise(blocks, Share::All)
    }

    /// Promises the caller up to `blocks`, as many as there are.
    pub(crate) fn promise_up_to(&self, blocks: u64) -> u64 {
        let share = self.share(Right::Caller);
        let got = self.space.promise_up_to(blocks, share);
        match got < blocks && self.may_have_more(Right::Caller, share) {
            true => got + self.space.promise_up_to(blocks - got, Share::All),
            false => got,
        }
    }

    /// Claims up to `want` blocks: first out of the promise `pool`, then by `right`.
    pub(crate) fn claim(&self, want: u64, pool: &mut u64, right: Right) -> Claim {
        let share = self.share(right);
        let claim = self.space.claim(want, pool, share);
        if claim.blocks == want || !self.may_have_more(right, share) {
            return claim;
        }
        self.space.settle(claim, 0, pool);
        self.space.claim(want, pool, Share::All)
    }
}
