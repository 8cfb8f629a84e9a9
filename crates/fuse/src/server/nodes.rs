//! What the kernel knows: looked-up inodes and open files (U1).

use base::{Ino, Map};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use vfs::Errno;

/// An inode that the kernel knows.
#[derive(Default)]
struct Node {
    /// Lookups that it has not forgotten.
    lookups: u64,
    /// Open files.
    opens: u64,
    failures: Arc<Failures>,
    /// There is no `security.capability` attribute to take away.
    plain: bool,
}

/// Failed fsyncs of one inode (U4).
#[derive(Default)]
pub(super) struct Failures {
    count: AtomicU32,
    last: AtomicU32,
}

/// An open file or directory.
pub(super) struct Open {
    pub ino: Ino,
    failures: Arc<Failures>,
    /// Failures of the inode that this file was told.
    seen: AtomicU32,
}

impl Open {
    /// What this file's fsync answers, when that of the file system has answered `result`.
    pub fn settle(&self, result: Result<(), Errno>) -> Result<(), Errno> {
        let failures = &self.failures;
        if let Err(errno) = result {
            failures
                .last
                .store(errno.code().unsigned_abs(), Ordering::Release);
            let count = failures.count.fetch_add(1, Ordering::AcqRel) + 1;
            self.seen.store(count, Ordering::Release);
            return Err(errno);
        }
        let count = failures.count.load(Ordering::Acquire);
        if self.seen.swap(count, Ordering::AcqRel) == count {
            return Ok(());
        }
        let no_space = failures.last.load(Ordering::Acquire) == Errno::NoSpc.code().unsigned_abs();
        Err(if no_space { Errno::NoSpc } else { Errno::Io })
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Nodes {
    known: Map<Ino, Node>,
    open: Map<u64, Arc<Open>>,
    last_handle: u64,
}

impl Nodes {
    /// A lookup, with a pin of its own. True: the inode was pinned before, and the caller gives the pin back.
    pub fn looked_up(&mut self, ino: Ino) -> bool {
        let node = self.known.entry(ino).or_default();
        let pinned = node.lookups + node.opens > 0;
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

    fn end(&mut self, ino: Ino) -> bool {
        let over = self
            .known
            .get(&ino)
            .is_some_and(|n| n.lookups + n.opens == 0);
        if over {
            self.known.remove(&ino);
        }
        over
    }

    /// An open file, with a pin of its own: its handle, and whether the caller gives the pin back.
    pub fn opened(&mut self, ino: Ino) -> (u64, bool) {
        let node = self.known.entry(ino).or_default();
        let pinned = node.lookups + node.opens > 0;
        node.opens += 1;
        let failures = Arc::clone(&node.failures);
        let seen = AtomicU32::new(failures.count.load(Ordering::Acquire));
        self.last_handle += 1;
        let open = Open {
            ino,
            failures,
            seen,
        };
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

    /// Forgets everything: the inodes to give back, in order.
    pub fn take_all(&mut self) -> Vec<Ino> {
        self.open.clear();
        let mut all: Vec<Ino> = std::mem::take(&mut self.known).into_keys().collect();
        all.sort_unstable();
        all
    }

    /// Inodes that are pinned.
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_open_file_is_told_a_failure_once() {
        let mut nodes = Nodes::default();
        let ino = Ino(12);
        let [a, b] = [0; 2].map(|_| nodes.opened(ino).0);
        let file = |nodes: &Nodes, handle| nodes.file(handle).expect("open");
        assert_eq!(file(&nodes, a).settle(Err(Errno::NoSpc)), Err(Errno::NoSpc));
        let later = nodes.opened(ino).0;
        assert_eq!(file(&nodes, a).settle(Ok(())), Ok(()));
        assert_eq!(
            file(&nodes, later).settle(Ok(())),
            Ok(()),
            "opened after it"
        );
        assert_eq!(file(&nodes, b).settle(Ok(())), Err(Errno::NoSpc));
        assert_eq!(file(&nodes, b).settle(Ok(())), Ok(()));
        for handle in [a, b] {
            assert_eq!(nodes.closed(handle), None);
        }
        assert_eq!(nodes.closed(later), Some(ino));
    }
}
