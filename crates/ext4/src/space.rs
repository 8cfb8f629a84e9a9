//! The account of free blocks.
//!
//! Free blocks are of three kinds: *usable* (an allocation may take them now), *pending* (freed in a transaction that is not
//! committed; hazard H18), and of the usable ones some are *promised* to delayed writes and to operations under way. A write
//! that returned Ok has its blocks promised, so it can always be allocated later: ENOSPC is said at the write.
//!
//! Invariants:
//! - S1 `promised <= usable`;
//! - S2 `usable` never exceeds the free bits of the allocator's maps: blocks are claimed here before a bit is looked for.

use rt::Mutex;

/// Blocks taken off the account for which bits are being looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    pub blocks: u64,
    from_pool: u64,
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
    /// Blocks that only a privileged caller may use (`s_r_blocks_count`); 0 if all callers count as privileged.
    held_back: u64,
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
    pub fn promise(&self, blocks: u64) -> bool {
        let mut state = self.state.lock();
        let room = state.room();
        if room < blocks {
            return false;
        }
        state.promised += blocks;
        true
    }

    /// Promises as many as there are, up to `blocks`.
    pub fn promise_up_to(&self, blocks: u64) -> u64 {
        let mut state = self.state.lock();
        let got = state.room().min(blocks);
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

    /// Claims up to `want` blocks: first out of the caller's promise `pool` (which shrinks), then free ones. None: no space.
    pub fn claim(&self, want: u64, pool: &mut u64) -> Claim {
        let mut state = self.state.lock();
        let from_pool = want.min(*pool);
        let more = (want - from_pool).min(state.room());
        assert!(
            state.usable >= from_pool && state.promised >= from_pool,
            "S1: promised blocks are usable"
        );
        state.promised -= from_pool;
        *pool -= from_pool;
        state.usable -= from_pool + more;
        Claim {
            blocks: from_pool + more,
            from_pool,
        }
    }

    /// Settles a claim of which `used` blocks were found: the rest is usable again, or promised again if it came from `pool`.
    pub fn settle(&self, claim: Claim, used: u64, pool: &mut u64) {
        let again = claim.from_pool - used.min(claim.from_pool);
        let mut state = self.state.lock();
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

    /// Blocks that could be promised now.
    #[cfg(test)]
    pub fn room(&self) -> u64 {
        self.state.lock().room()
    }

    /// Free blocks as `statfs` tells them: all, without the promised ones.
    pub fn free(&self) -> u64 {
        let state = self.state.lock();
        state.usable + state.pending - state.promised
    }

    /// Free blocks as the group descriptors count them.
    pub fn on_disk(&self) -> u64 {
        let state = self.state.lock();
        state.usable + state.pending
    }

    /// Promised blocks: 0 when nothing is delayed and nothing under way.
    pub fn promised(&self) -> u64 {
        self.state.lock().promised
    }
}

impl State {
    fn room(&self) -> u64 {
        (self.usable - self.promised).saturating_sub(self.held_back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_against_other_claims() {
        let space = Space::new(10, 0);
        assert!(space.promise(8) && !space.promise(3));
        let mut none = 0;
        let claim = space.claim(5, &mut none);
        assert_eq!(claim.blocks, 2, "only the unpromised ones");
        let mut pool = 8;
        let other = space.claim(9, &mut pool);
        assert_eq!((other.blocks, pool), (8, 0));
        assert_eq!((space.free(), space.promised()), (0, 0));
        space.settle(other, 5, &mut pool);
        assert_eq!((pool, space.promised(), space.room()), (3, 3, 0));
        space.settle(claim, 0, &mut none);
        assert_eq!((none, space.room()), (0, 2));
    }

    #[test]
    fn pending_blocks_are_free_but_not_usable() {
        let space = Space::new(4, 1);
        let mut none = 0;
        assert_eq!(space.claim(9, &mut none).blocks, 3, "one is held back");
        space.freed_pending(3);
        assert_eq!((space.free(), space.room()), (4, 0));
        space.matured(3);
        assert_eq!((space.free(), space.room(), space.pending()), (4, 3, 0));
    }
}
