//! The account of free blocks, counted in clusters: without feature `bigalloc` a cluster is a
//! block.
//!
//! Free blocks are *usable* (an allocation may take them now) or *pending* (freed in a transaction
//! that is not committed; hazards-H18). Of the usable ones some are *promised* to delayed writes
//! and to operations under way. A write that returned Ok has its blocks promised, so they can
//! always be allocated later: ENOSPC is reported by the write, never by write-back.
//!
//! Invariants:
//! - S1 `promised <= usable`;
//! - S2 `usable` never exceeds the free bits of the allocator's maps: blocks are claimed here
//!   before a bit is looked for;
//! - S3 what is not promised yet is given to [`Share::Common`] only as far as `held_back` blocks
//!   remain; module `reserve` decides which callers may take from [`Share::All`].

use base::Mutant;
use fscore::ReserveOwner;
use rt::Mutex;

/// Blocks taken off the account while the allocator looks for their bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub blocks: u64,
    from_pool: u64,
}

/// The part of the free blocks that a request may take from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Share {
    /// All usable blocks.
    All,
    /// The usable blocks without those held back.
    Common,
}

/// By which right blocks are taken for which there is no promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Right {
    /// The right of the caller.
    #[default]
    Caller,
    /// No right is needed: the blocks are owed to the file (reserve-R3).
    Owed,
    /// No right to blocks held back: the blocks are for another call, which will be checked itself
    /// (reserve-R2).
    Nobodys,
}

/// How many blocks are held back, and for whom.
pub(crate) struct Reserve {
    pub blocks: u64,
    pub owner: ReserveOwner,
}

/// The account. See the module.
pub(crate) struct Space {
    state: Mutex<State>,
}

#[derive(Clone, Copy, Default, Debug)]
struct State {
    usable: u64,
    pending: u64,
    promised: u64,
    /// Blocks that only some callers may use (`s_r_blocks_count`).
    held_back: u64,
    /// Blocks for which bits are being looked for.
    claimed: u64,
    /// Number of requests that were refused while blocks were promised, claimed or pending.
    refused_early: u64,
}

impl Space {
    pub fn new(usable: u64, held_back: u64) -> Space {
        Space {
            state: Mutex::named(
                "space",
                State {
                    usable,
                    held_back,
                    ..State::default()
                },
            ),
        }
    }

    /// Promises `blocks`; false if there are not as many.
    pub fn promise(&self, blocks: u64, share: Share) -> bool {
        let mut state = self.state.lock();
        let room = state.room(share);
        if room < blocks && !rt::mutant(Mutant::PromiseTwice) {
            state.refuse(0);
            return false;
        }
        state.promised += blocks;
        true
    }

    /// Promises up to `blocks`, as many as there are.
    pub fn promise_up_to(&self, blocks: u64, share: Share) -> u64 {
        let mut state = self.state.lock();
        let got = state.room(share).min(blocks);
        if got < blocks {
            state.refuse(0);
        }
        state.promised += got;
        got
    }

    /// Takes a promise back.
    pub fn release(&self, blocks: u64) {
        let mut state = self.state.lock();
        assert!(
            state.promised >= blocks,
            "S1: {blocks} blocks released, {} are promised",
            state.promised
        );
        state.promised -= blocks;
    }

    /// Claims up to `want` blocks: first out of the caller's promise `pool` (which shrinks), then
    /// free ones. An empty claim means that there is no space.
    pub fn claim(&self, want: u64, pool: &mut u64, share: Share) -> Claim {
        let mut state = self.state.lock();
        let from_pool = want.min(*pool);
        let more = (want - from_pool).min(state.room(share));
        assert!(
            state.usable >= from_pool && state.promised >= from_pool,
            "S1: promised blocks are usable"
        );
        state.promised -= from_pool;
        *pool -= from_pool;
        if from_pool + more < want {
            state.refuse(*pool);
        }
        state.usable -= from_pool + more;
        state.claimed += from_pool + more;
        Claim {
            blocks: from_pool + more,
            from_pool,
        }
    }

    /// Settles a claim for which `used` blocks were found. The rest becomes usable again, or
    /// promised again if it came from `pool`.
    pub fn settle(&self, claim: Claim, used: u64, pool: &mut u64) {
        let again = claim.from_pool - used.min(claim.from_pool);
        let mut state = self.state.lock();
        state.claimed -= claim.blocks;
        state.usable += claim.blocks - used;
        state.promised += again;
        *pool += again;
    }

    /// Blocks were freed and wait for their commit.
    pub fn freed_pending(&self, blocks: u64) {
        self.state.lock().pending += blocks;
    }

    /// Pending blocks became usable.
    pub fn matured(&self, blocks: u64) {
        let mut state = self.state.lock();
        assert!(state.pending >= blocks, "S2: more blocks mature than wait");
        state.pending -= blocks;
        state.usable += blocks;
    }

    /// Blocks that wait for a commit.
    pub fn pending(&self) -> u64 {
        self.state.lock().pending
    }

    /// Number of requests that were refused although other tasks held blocks that they may not
    /// need: such a refusal is not final (promise-B5).
    pub fn refused_early(&self) -> u64 {
        self.state.lock().refused_early
    }

    /// Blocks that could be promised now.
    #[cfg(test)]
    pub fn room(&self, share: Share) -> u64 {
        self.state.lock().room(share)
    }

    /// Free blocks as `statfs` reports them: all but the promised ones.
    pub fn free(&self) -> u64 {
        let state = self.state.lock();
        state.usable + state.pending - state.promised
    }

    /// Free blocks as the group descriptors count them.
    pub fn on_disk(&self) -> u64 {
        let state = self.state.lock();
        state.usable + state.pending
    }

    /// Free blocks that no commit has to end before they are taken, promised ones included.
    pub fn usable(&self) -> u64 {
        self.state.lock().usable
    }

    /// Promised blocks: 0 when nothing is delayed and nothing under way.
    pub fn promised(&self) -> u64 {
        self.state.lock().promised
    }
}

impl State {
    /// Counts a refusal of a request whose caller holds `own` promised blocks.
    fn refuse(&mut self, own: u64) {
        if self.promised > own || self.pending > 0 || self.claimed > 0 {
            self.refused_early += 1;
        }
    }

    fn room(&self, share: Share) -> u64 {
        let all = self.usable - self.promised;
        match share {
            Share::All => all,
            Share::Common => all.saturating_sub(self.held_back),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Share::{All, Common};

    #[test]
    fn a_promise_is_kept_against_other_claims() {
        let space = Space::new(10, 0);
        assert!(space.promise(8, All) && !space.promise(3, All));
        let mut none = 0;
        let claim = space.claim(5, &mut none, All);
        assert_eq!(claim.blocks, 2, "only the unpromised ones");
        let mut pool = 8;
        let other = space.claim(9, &mut pool, All);
        assert_eq!((other.blocks, pool), (8, 0));
        assert_eq!((space.free(), space.promised()), (0, 0));
        space.settle(other, 5, &mut pool);
        assert_eq!((pool, space.promised(), space.room(All)), (3, 3, 0));
        space.settle(claim, 0, &mut none);
        assert_eq!((none, space.room(All)), (0, 2));
    }

    #[test]
    fn pending_blocks_are_free_but_not_usable() {
        let space = Space::new(4, 1);
        let mut none = 0;
        let claim = space.claim(9, &mut none, Common);
        assert_eq!(claim.blocks, 3, "one is held back");
        space.freed_pending(3);
        assert_eq!((space.free(), space.room(Common)), (4, 0));
        space.matured(3);
        assert_eq!(
            (space.free(), space.room(Common), space.pending()),
            (4, 3, 0)
        );
    }

    #[test]
    fn a_refusal_is_early_while_other_tasks_hold_blocks() {
        let early = |space: &Space, own: &mut u64| {
            let before = space.refused_early();
            let claim = space.claim(100, own, All);
            space.settle(claim, 0, own);
            space.refused_early() > before
        };
        let space = Space::new(10, 0);
        assert!(!early(&space, &mut 0), "all blocks are in use");
        assert!(space.promise(4, All));
        assert!(!early(&space, &mut 4), "promise-B5: only its own promise");
        assert!(early(&space, &mut 0), "promise-B5: promised to others");
        space.release(4);
        space.freed_pending(1);
        assert!(early(&space, &mut 0), "promise-B5: pending");
        space.matured(1);
        let other = space.claim(2, &mut 0, All);
        assert!(early(&space, &mut 0), "promise-B5: claimed by others");
        space.settle(other, 2, &mut 0);
        assert!(!early(&space, &mut 0));
        assert!(!space.promise(100, All));
        assert_eq!(space.promise_up_to(100, All), 9);
    }

    #[test]
    fn what_is_held_back_is_not_common_but_a_promise_of_it_is_kept() {
        let space = Space::new(10, 4);
        assert!(!space.promise(7, Common) && space.promise(6, Common));
        assert_eq!(space.promise_up_to(5, Common), 0);
        assert!(space.promise(3, All), "S3");
        assert_eq!((space.room(Common), space.room(All)), (0, 1));
        let mut pool = 9;
        let claim = space.claim(9, &mut pool, Common);
        assert_eq!((claim.blocks, pool), (9, 0), "promised is promised");
        assert_eq!(space.claim(1, &mut pool, Common).blocks, 0);
        assert_eq!(space.claim(2, &mut pool, All).blocks, 1);
        let all = Space::new(3, u64::MAX);
        assert!(!all.promise(1, Common) && all.promise(3, All));
    }
}
