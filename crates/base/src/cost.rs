//! What the work of this code costs a CPU core: the only table of such figures, for `rt::charge`,
//! which lets them pass in virtual time and does nothing in the real world.
//!
//! The figures are those of the core of a PC: what this code takes on a 2.5 GHz Xeon (virtual, two
//! cores) with devices in memory, the least of the rounds and of three runs, because other programs
//! can only make it slower (four of F2FS come from a machine in use: docs/design/models.md says
//! how). `cargo xtask calibrate-cpu` measures again and prints both. Nothing here is fitted to a
//! result. The profile of a device says how slow the core of its host is (`[host] cpu_percent`);
//! `SimConfig.cpu_percent` has the product. Each constant names its measurement in brackets: the
//! benches `cost` of the crates print it. Of the caller's own work the table has SQLite's alone.

/// The kernel between a program and a file system: entering it, descriptors, the walk along a path,
/// the VFS. Measured on the running kernel with tmpfs (`cargo xtask calibrate-cpu --kernel`: Linux
/// 6.18.44 on an Intel Xeon, virtual, shared with other work; the least of five runs), and charged
/// by `vfs` for every file system alike.
///
/// What tmpfs does itself for an inode in memory is in the figures of calls that make one, and what
/// our file systems do for theirs is in theirs. So much is charged twice: about .3 us, by which
/// making a directory exceeds giving a file one more name.
pub mod host {
    use crate::Nanos;

    /// A call without a row of its own: entering the kernel, and a descriptor (`host/call`).
    pub const CALL: Nanos = Nanos(205);
    /// A component of a path, which is in the cache of names (`host/component`).
    pub const COMPONENT: Nanos = Nanos(29);
    /// Opening a file that is there; the walk is not in it, here and below (`host/open`).
    pub const OPEN: Nanos = Nanos(650);
    /// Making a file, and opening it (`host/create`).
    pub const CREATE: Nanos = Nanos(1_850);
    /// Ending an open file (`host/close`).
    pub const CLOSE: Nanos = Nanos(417);
    /// Reading, without the pages that are read (`host/read`).
    pub const READ: Nanos = Nanos(207);
    /// Writing, without the pages that are written (`host/write`).
    pub const WRITE: Nanos = Nanos(218);
    /// Syncing a file of which nothing is dirty (`host/fsync`).
    pub const FSYNC: Nanos = Nanos(175);
    /// Telling the attributes of a file (`host/stat`).
    pub const STAT: Nanos = Nanos(400);
    /// Changing attributes of a file (`host/setattr`).
    pub const SETATTR: Nanos = Nanos(427);
    /// Making a directory (`host/mkdir`).
    pub const MKDIR: Nanos = Nanos(1_680);
    /// Removing an empty directory (`host/rmdir`).
    pub const RMDIR: Nanos = Nanos(1_290);
    /// Removing the only name of an empty file (`host/unlink`).
    pub const UNLINK: Nanos = Nanos(1_260);
    /// Giving a file one more name (`host/link`).
    pub const LINK: Nanos = Nanos(1_420);
    /// `putc` of 4,096 bytes into the buffer of a stream, in the program itself (`host/putc-4k`).
    pub const PUTC_4K: Nanos = Nanos(12_900);
    /// Giving a file another name in its directory (`host/rename`).
    pub const RENAME: Nanos = Nanos(1_960);
}

/// SQLite itself, where the crate `sqlite-vfs` is asked to charge it:
/// statements that are compiled already, and its cache of pages. The SQLite of our simulations on
/// files in memory, less the time in its file layer (2026-11-28; an AMD EPYC, virtual, shared with
/// other work; the middle of five runs). Compiling a statement and what the program does between
/// statements is not in it.
pub mod sqlite {
    use crate::Nanos;

    /// Running a statement that finds or changes a row by its key in a page that is cached
    /// (`sqlite/statement`).
    pub const STATEMENT: Nanos = Nanos(165);
    /// Ending a transaction that changed something, without its pages (`sqlite/commit`).
    pub const COMMIT: Nanos = Nanos(390);
    /// Changing a page of 4 KiB and writing it to the database (`sqlite/page`).
    pub const PAGE: Nanos = Nanos(200);
    /// Keeping such a page in a rollback journal before (`sqlite/journal-page`).
    pub const JOURNAL_PAGE: Nanos = Nanos(320);
    /// Changing such a page and writing it to a write-ahead log, whose checksum covers all of it
    /// (`sqlite/wal-page`).
    pub const WAL_PAGE: Nanos = Nanos(560);
    /// Taking such a page into the cache (`sqlite/read-page`).
    pub const READ_PAGE: Nanos = Nanos(1_610);
}

/// The journal of ext4 (crate `journal`).
pub mod journal {
    use crate::Nanos;

    /// Starting and finishing a handle: admission and bookkeeping (`journal/handle`).
    pub const HANDLE_START: Nanos = Nanos(77);
    /// Copying one 4 KiB block (`journal/block-copy`).
    pub const BLOCK_COPY: Nanos = Nanos(66);
    /// Per block of a commit: CRC32C of 4 KiB, its tag included (`journal/block-checksum`).
    pub const COMMIT_PER_BLOCK: Nanos = Nanos(150);
    /// Comparing the marked words of a block with its previous image, in journal coalition. The
    /// checksum of its new image comes on top, as [`COMMIT_PER_BLOCK`] (`journal/delta-diff`).
    pub const DELTA_DIFF: Nanos = Nanos(140);
    /// A coalition part with a handful of records: encoded, and sealed with two checksums
    /// (`journal/coalition-encode`).
    pub const COALITION_PART: Nanos = Nanos(1_050);
    /// Sending one block of the log, or one home: what a commit with its checkpoint takes for a
    /// block beyond the checksum (`ext4/send-block`).
    pub const SEND_BLOCK: Nanos = Nanos(1_180);
}

/// Locks of both worlds.
pub mod sync {
    use crate::Nanos;

    /// What a contended mutex costs the task that waits for it, beyond the time that it is held:
    /// from its release in one thread to the first instruction behind it in the other
    /// (`sync/lock-handover`).
    pub const LOCK_HANDOVER: Nanos = Nanos(65);
}

/// ext4 (crate `ext4`). What is left of an operation when the charges of its journal are taken off.
pub mod ext4 {
    use crate::Nanos;

    /// Making an empty file, under the directory's lock (`ext4/create`).
    pub const CREATE: Nanos = Nanos(5_650);
    /// Making a directory, under its parent's lock (`ext4/mkdir`).
    pub const MKDIR: Nanos = Nanos(12_450);
    /// Taking a name away, under the locks of directory and inode (`ext4/unlink`).
    pub const UNLINK: Nanos = Nanos(4_900);
    /// Taking the name of a directory away, under the locks of both (`ext4/rmdir`).
    pub const RMDIR: Nanos = Nanos(8_150);
    /// Freeing an inode without a name and what it holds, under its own lock (`ext4/evict`).
    pub const EVICT: Nanos = Nanos(6_430);
    /// Looking for a name that is not there, under the directory's lock, shared (`ext4/lookup`).
    pub const LOOKUP: Nanos = Nanos(1_140);
    /// Giving a file another name in its directory, under the locks of both (`ext4/rename`).
    pub const RENAME: Nanos = Nanos(12_260);
    /// Changing attributes of an inode, under its lock (`ext4/setattr`).
    pub const SETATTR: Nanos = Nanos(710);
    /// One entry of a listing of a directory, under its lock, shared (`ext4/readdir-entry`).
    pub const READDIR_ENTRY: Nanos = Nanos(240);
    /// Reading 4 KiB that are cached, or a part of them, under the file's lock, shared
    /// (`ext4/read-4k`).
    pub const READ_PAGE: Nanos = Nanos(1_220);
    /// Each further page of the same call (`ext4/read-next-page`).
    pub const READ_NEXT_PAGE: Nanos = Nanos(340);
    /// Taking 4 KiB of file content: reservation, copy; under the file's lock (`ext4/write-4k`).
    pub const WRITE_PAGE: Nanos = Nanos(1_850);
    /// Each further page of the same call: pages are mapped, promised and cached together
    /// (`ext4/write-next-page`).
    pub const WRITE_NEXT_PAGE: Nanos = Nanos(510);
    /// Sending one page of content, mapping it before (`ext4/writeback-page`).
    pub const WRITEBACK_PAGE: Nanos = Nanos(3_560);
    /// Each further page of the same run (`ext4/writeback-next-page`).
    pub const WRITEBACK_NEXT_PAGE: Nanos = Nanos(620);
}

/// F2FS, and the journal in it (crate `f2fs`). The first group is charged under locks that all
/// operations share; the figures of the operations are without those parts.
pub mod f2fs {
    use crate::Nanos;

    /// Taking a free node number, under the lock of the NAT (`f2fs/nat-take`).
    pub const NAT_TAKE: Nanos = Nanos(33);
    /// Changing the NAT's entry of a node, or freeing its number, under the lock of the NAT
    /// (`f2fs/nat-set`).
    pub const NAT_SET: Nanos = Nanos(63);
    /// Taking a block from a log, under the lock of the segments (`f2fs/seg-take`).
    pub const SEG_TAKE: Nanos = Nanos(61);
    /// A block is not valid any more, under the lock of the segments (`f2fs/seg-free`).
    pub const SEG_FREE: Nanos = Nanos(17);
    /// Changing a node block in memory, under the lock of their table (`f2fs/node-edit`).
    pub const NODE_EDIT: Nanos = Nanos(79);

    /// Making an empty file, under the directory's lock (`f2fs/create-plain`).
    pub const CREATE: Nanos = Nanos(1_500);
    /// Making a directory, under its parent's lock (`f2fs/mkdir-plain`).
    pub const MKDIR: Nanos = Nanos(1_590);
    /// Taking a name from an inode that stays or is freed later, under the locks of directory and
    /// inode (`f2fs/unlink`).
    pub const UNLINK: Nanos = Nanos(1_850);
    /// The same where the inode is freed with its name; freeing it comes on top
    /// (`f2fs/unlink-plain`).
    pub const UNLINK_LAST: Nanos = Nanos(480);
    /// Taking the name of a directory away, under the locks of both (`f2fs/rmdir-plain`).
    pub const RMDIR: Nanos = Nanos(600);
    /// Freeing an inode without a name, under its own lock (`f2fs/evict-empty`).
    pub const EVICT: Nanos = Nanos(920);
    /// Freeing the mapping of such an inode, whose content lies in blocks: a page of it
    /// (`f2fs/drop-map`).
    pub const DROP_MAP: Nanos = Nanos(2_280);
    /// Looking for a name that is not there in the directory's blocks, under its lock, shared
    /// (`f2fs/lookup`).
    pub const LOOKUP: Nanos = Nanos(800);
    /// Giving a file another name in its directory, under the locks of both (`f2fs/rename-plain`).
    pub const RENAME: Nanos = Nanos(3_640);
    /// Changing attributes of an inode, under its lock (`f2fs/setattr`).
    pub const SETATTR: Nanos = Nanos(540);
    /// One entry of a listing of a directory, under its lock, shared (`f2fs/readdir-entry`).
    pub const READDIR_ENTRY: Nanos = Nanos(41);
    /// Reading 4 KiB that are cached, or a part of them, under the file's lock, shared
    /// (`f2fs/read-4k`).
    pub const READ_PAGE: Nanos = Nanos(750);
    /// Each further page of the same call (`f2fs/read-next-page`).
    pub const READ_NEXT_PAGE: Nanos = Nanos(440);
    /// Taking 4 KiB of file content: mapping, reservation, copy; under the file's lock
    /// (`f2fs/write-4k`).
    pub const WRITE_PAGE: Nanos = Nanos(2_050);
    /// Each further page of the same call: pages are mapped, promised and cached together
    /// (`f2fs/write-next-page`).
    pub const WRITE_NEXT_PAGE: Nanos = Nanos(800);
    /// Sending one page of content (`f2fs/writeback-page`).
    pub const WRITEBACK_PAGE: Nanos = Nanos(1_940);
    /// Each further page of the same run (`f2fs/writeback-next-page`).
    pub const WRITEBACK_NEXT_PAGE: Nanos = Nanos(890);
    /// Sending one block of a checkpoint or of an fsync: node, directory, NAT, SIT, SSA, pack
    /// (`f2fs/checkpoint-block`).
    pub const META_BLOCK: Nanos = Nanos(1_080);

    /// Taking part in an epoch of the journal: picking it and leaving it, buffers, books
    /// (`f2fs/log-epoch`).
    pub const EPOCH_OP: Nanos = Nanos(99);
    /// A record of the journal in a list of an inode: making and encoding it, under the lock of
    /// what it describes; the mean of four operations that free nothing, with what the journal adds
    /// to them besides (`f2fs/log-record`).
    pub const LOG_RECORD: Nanos = Nanos(194);
    /// The end of an inode and its blocks that are freed, which an operation logs in no list, with
    /// what else the journal adds to the three operations that free an inode (`f2fs/log-end`).
    pub const LOG_END: Nanos = Nanos(107);
    /// Finding records by comparing a block with a copy from before the change, where the change
    /// does not make them itself (`f2fs/log-compare`).
    pub const LOG_COMPARE: Nanos = Nanos(250);
    /// A journal of pages, instead of that: a block that an operation changes is looked up, the
    /// first time. This is what our table of them takes; what JBD2's write access and dirty mark
    /// take is not measured, and is more (`f2fs/touch-block`).
    pub const TOUCH_BLOCK: Nanos = Nanos(13);
    /// Appending what an operation has logged to a list of the journal, under the lock of the list
    /// (`f2fs/list-append`).
    pub const LIST_APPEND: Nanos = Nanos(42);
    /// Sorting a record of a list that all inodes share into the group of its inode
    /// (`f2fs/list-sort`).
    pub const LIST_SORT: Nanos = Nanos(46);
    /// Making and sending one block of a transaction of the journal: lists collected, records
    /// copied, checksums (`f2fs/log-block`).
    pub const LOG_BLOCK: Nanos = Nanos(12_400);

    /// Judging and redoing one record of the journal at mount, behind a cut with 10,000 files made
    /// (`rig/redo-record`).
    pub const REDO_RECORD: Nanos = Nanos(280);
    /// Reading and applying one node block of a chain of roll-forward, which also makes the inode
    /// and its name (`rig/roll-forward-node`).
    pub const ROLL_FORWARD_NODE: Nanos = Nanos(10_500);
}
