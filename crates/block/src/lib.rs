//! The block layer: requests with a class (why a block is written) and FUA, plugs, merging, and the
//! counts that decide whether a flush is needed.
//!
//! ```text
//! journal, ext4, f2fs -> Plug (sort, merge), OrderPlug (groups, packs) -> Queue (marks, figures)
//!                     -> Elevator, if there is a scheduler -> BlockDevice
//! ```

mod ahead;
mod batch;
mod command;
mod durability;
mod elevator;
mod flushing;
mod lanes;
mod observe;
mod order_plug;
mod plug;
mod queue;
mod scheduler;
mod split;
mod stats;

pub use ahead::Plan;
pub use batch::{Batch, Held, Watch, Written};
pub use blockdev::{
    BlockDevice, Caps, Class, DevError, DevErrorKind, PackOrder, Packed, Remap, RemapCaps,
    RemapMode, RemapPair, Remapped, Scheduler, expectation,
};
pub use durability::WriteMark;
pub use flushing::Flushing;
pub use observe::{Sample, Work};
pub use order_plug::OrderPlug;
pub use plug::Plug;
pub use queue::Queue;
pub use stats::QueueStats;
