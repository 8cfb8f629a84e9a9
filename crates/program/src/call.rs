//! What a program did to its volume: system calls that changed, synced or acknowledged something,
//! in one order.
//!
//! - C1: the order of a recording is the order of the effects: no call began after a later one had
//!   been answered. Calls of several threads that overlapped stand in the order in which the volume
//!   carried them out, so a recording is one schedule of a concurrent program.
//! - C2: an acknowledgement stands behind every call that was answered before it was given, and
//!   before every call that its giver made afterwards.
//! - C3: calls that failed without an effect are not recorded, except those that the device
//!   refused: syncs, and what was made to fail or found no room. What a program does behind such a
//!   call decides what it may lose.

use crate::record::fault::Word;
use crate::tree::{Kind, NodeId, Tree};
use base::Bytes;
use serde::{Deserialize, Serialize};

/// A run of a program.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The tree at the begin, all of it durable.
    pub start: Tree,
    /// What was done, in order (C1).
    pub calls: Vec<Call>,
}

/// A system call, or an acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Call {
    /// Who made it.
    pub who: Who,
    /// What it did.
    pub what: What,
    /// The name or names it was made with, relative to the root of the volume, for people: what
    /// counts are the nodes in `what`.
    pub path: String,
    /// The program's stack at the call, innermost frame first; empty unless it was asked for.
    pub stack: Vec<String>,
}

/// A thread of a process. 0 is the kernel, which writes back shared mappings by itself.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Who {
    /// The process.
    pub process: u32,
    /// The thread.
    pub thread: u32,
    /// Name of the program, as in `/proc/PID/comm`.
    pub program: String,
}

/// Metadata of a node that is no name and no content.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Attribute {
    /// Permission bits with set-user-ID, set-group-ID and sticky.
    Mode(u16),
    /// User and group.
    Owner(u32, u32),
    /// An extended attribute with its whole name, and its value; `None`: it is removed.
    Xattr(Vec<u8>, Option<Vec<u8>>),
}

/// What a call did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum What {
    /// Made a node and gave it a name (`creat`, `mkdir`, `symlink`, `mknod`).
    Create {
        /// Directory.
        dir: NodeId,
        /// Name in it.
        name: Vec<u8>,
        /// The new node.
        node: NodeId,
        /// What it is.
        kind: Kind,
        /// Its permission bits.
        mode: u16,
        /// Its user and group.
        owner: (u32, u32),
    },
    /// Made a file without a name (`O_TMPFILE`).
    CreateUnnamed {
        /// The new file.
        node: NodeId,
        /// Its permission bits.
        mode: u16,
        /// Its user and group.
        owner: (u32, u32),
    },
    /// Gave a node one more name.
    Link {
        /// The node.
        node: NodeId,
        /// Directory.
        dir: NodeId,
        /// Name in it.
        name: Vec<u8>,
    },
    /// Removed a name (`unlink`, `rmdir`).
    Unlink {
        /// Directory.
        dir: NodeId,
        /// Name in it.
        name: Vec<u8>,
        /// What it named.
        node: NodeId,
    },
    /// Moved a name.
    Rename {
        /// Directory and name before.
        from: (NodeId, Vec<u8>),
        /// Directory and name afterwards.
        to: (NodeId, Vec<u8>),
        /// What is moved.
        node: NodeId,
        /// What had the new name before, if anything had.
        replaced: Option<NodeId>,
        /// `replaced` gets the old name (`RENAME_EXCHANGE`).
        exchange: bool,
    },
    /// Wrote; the size grows to the end of the data if that lies behind it.
    Write {
        /// The file.
        node: NodeId,
        /// First byte.
        offset: u64,
        /// What was written.
        data: Bytes,
        /// The size before.
        size_before: u64,
    },
    /// Set the size (`truncate`, `O_TRUNC`).
    Truncate {
        /// The file.
        node: NodeId,
        /// The new size.
        size: u64,
        /// The size before.
        size_before: u64,
    },
    /// Made a range read as zeros (`fallocate` with `PUNCH_HOLE` or `ZERO_RANGE`), or gave it space
    /// where `zero` is false.
    Allocate {
        /// The file.
        node: NodeId,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
        /// What was there reads as zeros.
        zero: bool,
        /// The size afterwards.
        size: u64,
        /// The size before.
        size_before: u64,
    },
    /// Set an attribute. Times are not recorded.
    SetAttribute {
        /// The node.
        node: NodeId,
        /// The attribute.
        attribute: Attribute,
    },
    /// `fsync`, `fdatasync` (`data_only`), or the sync of a write with `O_SYNC` or `O_DSYNC`.
    Sync {
        /// File or directory.
        node: NodeId,
        /// Metadata that is not needed to read the data may stay behind.
        data_only: bool,
        /// The error that the program was told, as a number of Linux. A failed sync promises
        /// nothing, and what was written before it may never reach the volume, whatever syncs come
        /// later.
        failed: Option<i32>,
    },
    /// `sync` or `syncfs`.
    SyncAll,
    /// The program promised its user something.
    Acknowledge(String),
    /// A call other than a sync that the device refused: it has changed nothing (C3).
    Failed {
        /// The call.
        call: Word,
        /// The error that the program was told, as a number of Linux.
        error: i32,
        /// The file, where the call was made with one.
        node: Option<NodeId>,
        /// First byte that a write would have written.
        offset: u64,
        /// Number of bytes that a write would have written; 0 of other calls.
        len: u64,
    },
}

impl Recording {
    /// Whether any call has changed the volume: syncs and acknowledgements alone do not.
    pub fn changes(&self) -> bool {
        let changes = |call: &Call| {
            !matches!(
                call.what,
                What::Sync { .. } | What::SyncAll | What::Acknowledge(_) | What::Failed { .. }
            )
        };
        self.calls.iter().any(changes)
    }

    /// Whether the device has refused a call (C3).
    pub fn has_failures(&self) -> bool {
        self.calls.iter().any(|call| call.what.failure().is_some())
    }

    /// Number of writes by which the kernel wrote pages of shared mappings back. The stores into
    /// the mappings are not recorded, and the kernel may write a page back at any moment behind its
    /// store; so what the pages held may also be durable before calls that stand before the write.
    pub fn written_back(&self) -> usize {
        let by_kernel =
            |call: &&Call| call.who.process == 0 && matches!(call.what, What::Write { .. });
        self.calls.iter().filter(by_kernel).count()
    }
}

impl What {
    /// The error that the call failed with, if it is one that did.
    pub fn failure(&self) -> Option<i32> {
        match self {
            What::Sync { failed, .. } => *failed,
            What::Failed { error, .. } => Some(*error),
            _ => None,
        }
    }
}
