//! F2FS in user space, byte-compatible with Linux.
//!
//! ```text
//!  vfs -> fs (FileSystem) -> namei -> dir ------------+
//!                         -> file (read, write, write-back, truncate) -> map
//!                         -> fsync, checkpoint        |                  |
//!                                                     nodes <------------+
//!                               nat, segs (SIT, SSA, logs), space, gc
//!                                                     |
//!                                                   block
//! ```
//!
//! Metadata changes only under an `Op`; a checkpoint holds the `Freeze`
//! that keeps all of them out. The durable state of the volume is the last checkpoint, and what
//! roll-forward adds to it.
//!
//! Locks, in their order:
//!
//! | lock | held by | guards |
//! |---|---|---|
//! | `gate` of an inode | operations, from start to end; several inodes by ascending number | content, name space (Linux `i_rwsem`) |
//! | `Op` / `Freeze` | operations while they change metadata; checkpoint and GC | the state that a checkpoint saves (Linux `cp_rwsem`) |
//! | `wb` of an inode | write-back and truncation | which pages are on their way |
//! | `tree` of an inode | users of a file's mapping | its node blocks' addresses, extent cache |
//! | `core` of an inode | short looks and changes | the fields |
//! | inside `nodes`, `nat`, `segs`, `space`, `orphans` | one call | their tables; none of them calls another but `nodes` -> `nat` -> `segs` |
//!
//! A task never enters twice: a function that needs an `Op` takes it as an argument. A task that
//! waits for space (`balance`) holds gates at most. Checkpoint, GC and roll-forward take no inode
//! lock that ranks above `Op`.

mod bell;
pub mod check;
mod checkpoint;
mod dir;
mod fault;
mod file;
mod flights;
mod fs;
mod gc;
mod inode;
mod journal;
mod locks;
mod map;
#[doc(hidden)]
pub mod measured;
mod memory;
pub mod mkfs;
mod mount;
mod namei;
mod nat;
mod nodes;
mod ops;
mod options;
mod recover;
mod segs;
mod space;
mod superblock;
mod sync;
mod volume;
mod xattr;

pub use checkpoint::{CheckpointStats, Phase};
pub use file::{DataStats, FileExtent, InPlace};
pub use gc::GcStats;
#[cfg(feature = "mutants")]
pub use journal::plane::explore as journal_explore;
pub use journal::{
    ApplyPhase, ApplyStats, CommitPhase, CommitReason, JournalStats, PagesLogged, PlaneStats,
};
pub use journal::{
    Guard, Ideas, JournalOptions, JournalRecovery, Redone, Rounds, WaitCause, Waits,
};
pub use memory::Memory;
pub use ops::Cause;
pub use options::{
    CheckpointPolicy, FsyncMode, GcPolicy, LookupMode, MountOptions, Preset, Scheme, Triggers,
};
pub use sync::Reason;
pub use volume::F2fs;
