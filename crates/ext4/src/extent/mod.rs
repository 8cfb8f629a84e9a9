//! The extent tree of an inode: finding, inserting, converting, removing.
//!
//! A task that reads holds the inode's `tree` lock shared; a task that changes holds it exclusively
//! inside a handle.
//!
//! Invariants:
//! - E1 the first record of a node has the logical block of the index record that points to it;
//! - E2 only the root may be empty;
//! - E3 every block of the tree is allocated before the first node is changed, so that a full disk
//!   changes nothing;
//! - the extents of an inode never overlap, neither logically nor (among inodes) physically.

mod cut;
mod insert;
mod node;
mod path;
mod remove;
mod walk;

pub(crate) use cut::{CUT_CREDITS, SHIFT_CREDITS};
pub(crate) use insert::INSERT_NODES_MAX;
pub(crate) use node::parse_root;
pub(crate) use path::Aim;
pub(crate) use remove::{STEP_CREDITS, Step};
pub(crate) use walk::{Source, runs_of};

use base::BlockSize;

/// Deepest tree that the format allows.
pub(crate) const DEPTH_MAX: u16 = 5;

/// Largest file that extents map, bytes: 2^32 - 1 blocks (as Linux: the last block number is not
/// used).
pub(crate) const fn size_max(size: BlockSize) -> u64 {
    ((1 << 32) - 1) * size.bytes() as u64
}
