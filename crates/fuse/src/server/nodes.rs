//! What the kernel knows of inodes: those that it has looked up, and its open files (fuse-U1).

use base::{Ino, Map, Nanos, Time};
use std::sync::Arc;
use vfs::{ErrorSeen, WriteErrorCounts};

/// Within which the kernel forgets a file without a name that nobody has open.
const LATELY: Nanos = Nanos::from_secs(2);
/// Most inodes whose end is looked for.
const REMOVED_MAX: usize = 4096;

fn is_late(at: Time, now: Time) -> bool {
    now.0.saturating_sub(at.0) < LATELY.0
}

/// An inode that the kernel knows.
#[derive(Default)]
struct Node {
    /// Lookups that it has not forgotten.
    lookups: u64,
    /// Open files.
    opens: u32,
    /// There is no `security.capability` attribute to take away.
    plain: bool,
    /// The kernel may hold pages of its content (fuse-U8).
    paged: bool,
    /// Failures of write-back in the mounts before this one (remount-E3).
    errors: WriteErrorCounts,
}

impl Node {
    fn is_known(&self) -> bool {
        self.lookups > 0 || self.opens > 0
    }
}

/// An open file or directory.
pub(super) struct Open {
    pub ino: Ino,
    /// Up to which failure of write-back its user was told (fuse-U4).
    pub told: ErrorSeen,
    /// A change is synced before its answer (fuse-U3).
    pub syncs: bool,
}

/// All inodes that the kernel knows, and its open files.
#[derive(Default)]
pub(super) struct Nodes {
    known: Map<Ino, Node>,
    open: Map<u64, Arc<Open>>,
    last_handle: u64,
    /// Inodes that lost a name lately, with the time; those that the kernel knows until they are
    /// forgotten and gone.
    removed: Map<Ino, Time>,
}

impl Nodes {
    /// A lookup, with a pin of its own. True: the inode was pinned before, and the caller gives the
    /// pin back.
    pub fn looked_up(&mut self, ino: Ino) -> bool {
        let node = self.known.entry(ino).or_default();
        let pinned = node.is_known();
        node.lookups += 1;
        pinned
    }

    /// True: the kernel does not know the inode any more, and the caller gives the pin back.
    pub fn forget(&mut self, ino: Ino, lookups: u64) -> bool {
        let Some(node) = self.known.get_mut(&ino) else {
            return false;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        self.end(ino)
    }

    /// A name of an inode was removed.
    pub fn removed(&mut self, ino: Ino, now: Time) {
        if self.removed.len() >= REMOVED_MAX {
            self.removed.retain(|_, at| is_late(*at, now));
        }
        if self.known.contains_key(&ino) && self.removed.len() < REMOVED_MAX {
            self.removed.insert(ino, now);
        }
    }

    /// An inode that was forgotten has given its room back, if it had no name. True: it had lost a
    /// name lately.
    pub fn died(&mut self, ino: Ino) -> bool {
        self.removed.remove(&ino).is_some()
    }

    /// Inodes that lost a name lately and have not died; `closed`: that are not open either.
    pub fn dying(&mut self, now: Time, closed: bool) -> Vec<Ino> {
        self.removed.retain(|_, at| is_late(*at, now));
        let is_open = |ino: &Ino| self.known.get(ino).is_some_and(|node| node.opens > 0);
        let mut dying: Vec<Ino> = self.removed.keys().copied().collect();
        dying.retain(|ino| !closed || !is_open(ino));
        dying
    }

    fn end(&mut self, ino: Ino) -> bool {
        let over = self.known.get(&ino).is_some_and(|n| !n.is_known());
        if over {
            self.known.remove(&ino);
        }
        over
    }

    /// An open file, with a pin of its own: its handle, and whether the caller gives the pin back.
    /// `told` is up to which failure of write-back it is told of nothing, `syncs` whether a change
    /// is synced before its answer.
    pub fn opened(&mut self, ino: Ino, told: ErrorSeen, syncs: bool) -> (u64, bool) {
        let node = self.known.entry(ino).or_default();
        let pinned = node.is_known();
        node.opens += 1;
        self.last_handle += 1;
        let open = Open { ino, told, syncs };
        self.open.insert(self.last_handle, Arc::new(open));
        (self.last_handle, pinned)
    }

    pub fn file(&self, handle: u64) -> Option<Arc<Open>> {
        self.open.get(&handle).cloned()
    }

    /// The inode, if the caller gives its pin back.
    pub fn closed(&mut self, handle: u64) -> Option<Ino> {
        let open = self.open.remove(&handle)?;
        let node = self.known.get_mut(&open.ino)?;
        node.opens = node.opens.saturating_sub(1);
        self.end(open.ino).then_some(open.ino)
    }

    pub fn is_plain(&self, ino: Ino) -> bool {
        self.known.get(&ino).is_some_and(|n| n.plain)
    }

    pub fn set_plain(&mut self, ino: Ino, plain: bool) {
        if let Some(node) = self.known.get_mut(&ino) {
            node.plain = plain;
        }
    }

    pub fn may_have_pages(&self, ino: Ino) -> bool {
        self.known.get(&ino).is_some_and(|n| n.paged)
    }

    pub fn note_pages(&mut self, ino: Ino) {
        if let Some(node) = self.known.get_mut(&ino) {
            node.paged = true;
        }
    }

    /// Forgets everything: the inodes to give back, in order.
    pub fn take_all(&mut self) -> Vec<Ino> {
        let all = self.all();
        self.open.clear();
        self.known.clear();
        all
    }

    /// Inodes that are pinned, in order.
    pub fn all(&self) -> Vec<Ino> {
        let mut all: Vec<Ino> = self.known.keys().copied().collect();
        all.sort_unstable();
        all
    }

    /// Failures of write-back in the mounts before this one (remount-E3).
    pub fn errors_before(&self, ino: Ino) -> WriteErrorCounts {
        (self.known.get(&ino)).map_or_else(Default::default, |n| n.errors)
    }

    /// The mount ends in which failures were counted up to `errors`.
    pub fn keep_errors(&mut self, ino: Ino, errors: WriteErrorCounts) {
        if let Some(node) = self.known.get_mut(&ino) {
            node.errors = errors;
        }
    }

    /// An open file has been told of all failures.
    pub fn note_told(&mut self, ino: Ino) {
        if let Some(node) = self.known.get_mut(&ino) {
            node.errors.told = node.errors.all;
        }
    }

    /// Inodes that are pinned.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}
