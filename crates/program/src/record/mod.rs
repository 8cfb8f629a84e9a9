//! The door: records what programs do to a mounted volume.
//!
//! ```text
//! program -> kernel -> fuse::Server -> Vfs -> Recorder -> ext4 in memory
//!                                                |--note--> Recording
//! ```
//!
//! [`Recorder`] stands where a file system stands, so what is recorded are the operations that the
//! kernel asks for, after it has resolved paths and descriptors. It works for every program, also
//! for one that is linked statically or maps its files, and needs no tracing of processes.
//!
//! - R1: a call is carried out and noted under one lock, so the order of the notes is the order of
//!   the effects (call-C1).
//! - R2: the number of an inode leads to the node that has it now. A node is given its id in the
//!   call that makes it, under the lock, and the file system below gives a number away again only
//!   when nothing can name the inode that had it before.
//! - R3: what a recording has no word for is refused before it has an effect, with an error that
//!   programs know from other file systems.
//! - R4: a recording stays within its room. The first call that does not fit fails, and so do all
//!   behind it, so a recording has no gap.
//! - R5: an acknowledgement is a write to a file of the same mount ([`ACKS`], [`STDOUT`]), noted
//!   under the lock of R1 before the write is answered. Calls that were answered before it are
//!   noted before it, and what its giver does afterwards is noted behind it (call-C2).
//! - R6: a write with `O_SYNC` or `O_DSYNC` has one sync behind it. The front door makes it, and
//!   the kernel asks for the same once more, which is not noted. A write with `RWF_SYNC` or
//!   `RWF_DSYNC` is a write like others to a file system of FUSE, and the kernel asks for its sync.
//!   `RWF_ATOMIC` is refused there by the kernel.
//!
//! The kernel tells a file system of FUSE neither of `sync` nor of `syncfs`, and of a shared
//! mapping only when it writes pages back: at an `msync`, or by itself, for which thread 0 stands.

mod acks;
pub(crate) mod fault;
mod kept;
mod nodes;
mod recorder;
mod refused;
mod show;
mod socket;
mod stack;
mod syncs;
mod system;
#[cfg(test)]
mod tests;
mod volume;
mod who;

pub use acks::{ACKS, STDOUT};
pub(crate) use fault::error_name;
pub use fault::{Fault, Word};
pub use kept::{Damaged, load, save};
pub use recorder::{RecordError, Recorder};
pub use show::{line, list};
pub use socket::AckSocket;
pub use stack::stacks_can_be_read;
pub use syncs::Syncs;
pub use volume::volume;
