//! What F2FS's work costs a CPU core. The only place with such figures; in the real world charging does nothing.
//!
//! Measured on this code by `cargo bench -p varve-f2fs --bench cost` (medians, a 2.5 GHz Xeon, RAM device); `cargo xtask calibrate-cpu` prints
//! them beside this table. They stand for the core of a PC such as those that drive NVMe drives, at face value: nothing is fitted to
//! a result. System-call entry and the caller's own work are not in them.

use base::Nanos;

/// Making an empty file: inode, name, node number (`create`).
pub(crate) const CREATE: Nanos = Nanos(3_800);
/// Making a directory (`mkdir`).
pub(crate) const MKDIR: Nanos = Nanos(4_000);
/// Removing a name, and the inode with it if it was the last (`unlink`).
pub(crate) const UNLINK: Nanos = Nanos(10_000);
/// Removing a directory (`rmdir`).
pub(crate) const RMDIR: Nanos = Nanos(10_000);
/// Looking a name up in the directory's blocks (`lookup`).
pub(crate) const LOOKUP: Nanos = Nanos(1_000);
/// Taking 4 KiB of file content: mapping, reservation, copy (`write-4k`).
pub(crate) const WRITE_PAGE: Nanos = Nanos(6_000);
/// Sending one page of content (`writeback-page`).
pub(crate) const WRITEBACK_PAGE: Nanos = Nanos(5_850);
/// Sending one block of a checkpoint or of an fsync: node, directory, NAT, SIT, SSA, pack (`checkpoint-block`).
pub(crate) const META_BLOCK: Nanos = Nanos(3_070);

/// What the journal adds to an operation that changes metadata: comparing blocks before and after, records, lists (`log-op`). An estimate,
/// as is the next one: half of what the operations themselves cost, and two passes of a checksum over a block with a copy; the bench
/// measures both.
pub(crate) const LOG_OP: Nanos = Nanos(2_000);
/// Making one block of a transaction of the journal: records copied, checksums (`log-block`).
pub(crate) const LOG_BLOCK: Nanos = Nanos(1_500);

/// Judging and redoing one record of the journal at mount. This and the next one are what the mount takes on a device in memory, less its
/// checkpoint, for each of 31,315 records and 9,999 nodes: `cargo bench -p varve-rig --bench recovery`, medians of five and four.
pub(crate) const REDO_RECORD: Nanos = Nanos(850);
/// Reading and applying one node block of a chain of roll-forward, which also makes the inode and its name.
pub(crate) const ROLL_FORWARD_NODE: Nanos = Nanos(10_500);

/// `n` times `each`.
pub(crate) fn charge(each: Nanos, n: u64) {
    if n > 0 {
        rt::charge(Nanos(each.0 * n));
    }
}
