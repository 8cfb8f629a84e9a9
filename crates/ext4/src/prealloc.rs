//! Windows: free blocks kept for one file, or for small files together, so that files that grow
//! side by side stay contiguous.
//!
//! As in Linux (mballoc): an open file of more than 16 blocks that grows gets a window behind its
//! last block, up to the next round size; smaller open files share a window of 512 blocks, in which
//! they lie one behind the other. Windows live in memory only, and are given up when nothing else
//! is free.
//!
//! Invariants:
//! - W1 the bits of a window are set in the allocator's map and clear on the device; `held` of the
//!   group counts them;
//! - W2 windows are not taken off the account of free blocks: before a search fails they are all
//!   closed, and none is opened until it has ended (balloc-A4). A task that opens a window looks at
//!   `starving` under the lock that guards the window, and keeps that lock until the window is in
//!   place. So of a search that raises `starving` and then closes windows, one of two things is
//!   true: the opener saw `starving`, or the search waits for the lock and finds the window.

use crate::Ext4;
use crate::balloc::Got;
use crate::bitmap::{self, Run};
use crate::group::Window;
use crate::inode::Inode;
use crate::tx::Tx;
use base::{BlockNo, Mutant};
use fscore::{Errno, FsResult};
use std::sync::atomic::Ordering;

/// Blocks of a file up to which it shares the window for small files (`mb_stream_req`).
const SMALL_BLOCKS: u64 = 16;
/// Blocks of the shared window, and the least number of its clusters (`mb_group_prealloc`).
const SHARED_BLOCKS: u32 = 512;
const SHARED_CLUSTERS_MIN: u32 = 32;
/// Round sizes up to this one are powers of two; larger ones are multiples of twice this.
const POWER_BLOCKS: u64 = 256;

/// The size, in blocks, to which the room for a file that reaches `end` is rounded up.
fn round_size(end: u64) -> u64 {
    if end <= POWER_BLOCKS {
        end.next_power_of_two()
    } else {
        end.next_multiple_of(2 * POWER_BLOCKS)
    }
}

impl Ext4 {
    /// Allocates `len` clusters of a file for a hole at `lblk`, where a cluster begins. The `tree`
    /// lock is held.
    pub(crate) fn alloc_data(
        &self,
        tx: &mut Tx<'_>,
        inode: &Inode,
        lblk: u32,
        len: u32,
        (goal, continues): (BlockNo, bool),
    ) -> FsResult<Got> {
        let mut core = inode.core();
        let size = core.size.div_ceil(self.block());
        let end = (u64::from(lblk) + self.cluster_len(len)).max(size);
        if core.pins == 0 || !core.disk.is_regular() {
            drop(core);
            return self.alloc_clusters(tx, goal, len, continues);
        }
        if end <= SMALL_BLOCKS {
            drop(core);
            return self.alloc_small(tx, goal, len);
        }
        // Windows are used and replaced under the lock that guards them, so that `close_windows`
        // sees them all.
        match &mut core.window {
            Some(w) if w.len > 0 && self.window_start(w) == goal => {
                return self.alloc_from(tx, w, len);
            }
            other => self.close_window(other.take()),
        }
        drop(core);
        let got = self.alloc_clusters(tx, goal, len, continues)?;
        let next = u64::from(lblk) + self.cluster_len(got.len);
        if next >= size && end > SMALL_BLOCKS {
            let more = round_size(end).saturating_sub(next) as u32 / self.geo.cluster_blocks();
            let mut core = inode.core();
            core.window = self.open_window(got.start.plus(self.cluster_len(got.len)), more);
        }
        Ok(got)
    }

    /// Allocates from the shared window, so that small files lie one behind the other.
    fn alloc_small(&self, tx: &mut Tx<'_>, goal: BlockNo, len: u32) -> FsResult<Got> {
        let mut shared = self.small_window.lock();
        if shared.is_none_or(|w| w.len < len) {
            self.close_window(shared.take());
            // Where all files are small no other search takes back what was freed, and each window
            // would lie in blocks that nothing has used.
            self.reap_pending()?;
            let most = SHARED_BLOCKS / self.geo.cluster_blocks();
            let most = match self.geo.cluster_blocks() {
                1 => most,
                _ => most.max(SHARED_CLUSTERS_MIN),
            };
            let at = self.find_free_run(goal, most)?;
            *shared = at.and_then(|start| self.open_window(start, most));
        }
        if let Some(w) = &mut *shared {
            return self.alloc_from(tx, w, len);
        }
        drop(shared);
        self.alloc_clusters(tx, goal, len, false)
    }

    fn window_start(&self, w: &Window) -> BlockNo {
        self.geo.cluster_start(w.group, w.start)
    }

    /// Allocates the front of a window.
    fn alloc_from(&self, tx: &mut Tx<'_>, w: &mut Window, len: u32) -> FsResult<Got> {
        let claim = self.claim(len.min(w.len).into(), &mut tx.pool, tx.right);
        if claim.blocks == 0 {
            return Err(Errno::NoSpc.into());
        }
        let run = Run {
            start: w.start,
            len: claim.blocks as u32,
        };
        let start = self.window_start(w);
        let mut state = self.groups.get(w.group).lock();
        let taken = self.take_bits(tx, w.group, &mut state, run);
        let used = if taken.is_ok() { claim.blocks } else { 0 };
        self.space.settle(claim, used, &mut tx.pool);
        taken?;
        state.held -= run.len;
        w.start += run.len;
        w.len -= run.len;
        Ok(Got {
            start,
            len: run.len,
        })
    }

    /// Keeps up to `len` free clusters from `start` on. `None` if the first one is taken, or if a
    /// search for the last free blocks is under way (W2). The lock that guards the window is held.
    fn open_window(&self, start: BlockNo, len: u32) -> Option<Window> {
        let (group, bit) = self.geo.cluster_place(start)?;
        let starving = self.starving.load(Ordering::SeqCst) > 0;
        if len == 0 || starving && !rt::mutant(Mutant::WindowWhileStarving) {
            return None;
        }
        let mut state = self.groups.get(group).lock();
        let end = self.geo.group_clusters(group);
        // A group without a map was never allocated from, so there is nothing to stay contiguous
        // with.
        let map = state.map.as_deref_mut()?;
        let run = bitmap::run_at(map, bit, end, len)?;
        bitmap::fill(map, run.start, run.len, true);
        state.held += run.len;
        Some(Window {
            group,
            start: run.start,
            len: run.len,
        })
    }

    /// Gives up the blocks of a window. The caller holds the lock that guards the window, so that
    /// no task can put a window there in between that would be taken for closed (W2).
    pub(crate) fn close_window(&self, window: Option<Window>) {
        let Some(w) = window else { return };
        let mut state = self.groups.get(w.group).lock();
        let map = state.map.as_deref_mut();
        bitmap::fill(map.expect("W1: the map is loaded"), w.start, w.len, false);
        state.held -= w.len;
        if w.len > 0 {
            self.longest.freed();
        }
    }

    /// Closes the window of an inode.
    pub(crate) fn close_window_of(&self, inode: &Inode) {
        let mut core = inode.core();
        self.close_window(core.window.take());
    }

    /// Closes all windows (W2).
    pub(crate) fn close_windows(&self) {
        {
            let mut shared = self.small_window.lock();
            self.close_window(shared.take());
        }
        for inode in self.inodes.all() {
            self.close_window_of(&inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_sizes() {
        let sizes = [1, 17, 255, 256, 257, 1000, 1024, 1025].map(round_size);
        assert_eq!(sizes, [1, 32, 256, 256, 512, 1024, 1024, 1536]);
    }
}
