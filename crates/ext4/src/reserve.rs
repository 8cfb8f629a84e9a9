//! Blocks held back (`s_r_blocks_count`), and who may use them.
//!
//! As in Linux: the superuser, the user `s_def_resuid`, and who is in the group `s_def_resgid` unless that is 0. Who calls is what
//! [`fscore::Caller`] says of the running task.
//!
//! - R1 whoever may not is given blocks only as far as those held back stay (ext4-space-S3), in whatever operation;
//! - R2 it is decided when blocks are promised, or claimed without a promise: what is promised is allocated in whosever call it is written back,
//!   and nothing else is in the name of somebody else;
//! - R3 a file that has blocks already, for which nothing was written so far or which it gives up, is not refused the blocks of its tree
//!   that this takes: the right to them was asked for when it got them (Linux takes them from 2 % of the volume that it keeps for that);
//! - R4 groups of the caller, which take a file of the host to read, are asked for only when the other blocks do not do.

use crate::Ext4;
use crate::space::{Claim, Share};
use fscore::ReserveOwner;

/// By which right blocks are taken that nobody has promised.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Right {
    /// That of the caller.
    #[default]
    Caller,
    /// They are owed to the file (R3).
    Owed,
    /// None: they are for another call, which will ask for them itself (R2).
    Nobodys,
}

/// What is held back, and for whom.
pub(crate) struct Reserve {
    pub blocks: u64,
    pub owner: ReserveOwner,
}

impl Ext4 {
    /// What is tried first (R1).
    fn share(&self, right: Right) -> Share {
        let admitted = || self.reserve.owner.admits_by_number() == Some(true);
        match right {
            Right::Owed => Share::All,
            Right::Caller if self.reserve.blocks == 0 || admitted() => Share::All,
            Right::Caller | Right::Nobodys => Share::Common,
        }
    }

    /// Whether more than `share` may be tried, which was not enough (R4).
    fn may_have_more(&self, right: Right, share: Share) -> bool {
        share == Share::Common && right == Right::Caller && self.reserve.owner.admits()
    }

    /// Promises `blocks`; false if there are not as many.
    pub(crate) fn promise(&self, blocks: u64, right: Right) -> bool {
        let share = self.share(right);
        self.space.promise(blocks, share)
            || self.may_have_more(right, share) && self.space.promise(blocks, Share::All)
    }

    /// Promises the caller as many as there are, up to `blocks`.
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
