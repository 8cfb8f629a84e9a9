//! The inodes in memory, by number, and which of them wait for something. This file only keeps
//! them; reading, changing and dropping them is the file system's business.

use super::extensions::Extensions;
use super::{Change, Inode};
use base::{Ino, Map, Set, Time};
use ondisk::f2fs::Superblock;
use rt::Mutex;
use rt::atomic::{AtomicU32, Ordering};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Inodes kept beyond those in use.
pub(super) const IDLE_MAX: usize = 8192;

/// The inodes in memory.
pub(crate) struct Inodes {
    pub(super) known: Mutex<Known>,
    next_generation: AtomicU32,
    pub(super) extensions: Extensions,
    pub(super) accesses: Accesses,
}

pub(super) struct Known {
    pub map: Map<Ino, Arc<Inode>>,
    /// Number of inodes at which idle ones are dropped.
    pub prune_at: usize,
    /// How often inodes have left `map` (f2fs-inode-N4).
    pub departures: u64,
    /// Dropped since the last checkpoint, although an fsync would have something to write: it must
    /// not find them clean.
    pub dropped: Set<Ino>,
}

impl Known {
    fn is_still(&self, ino: Ino, missing: &Missing) -> bool {
        self.departures == missing.0 && !self.map.contains_key(&ino)
    }
}

/// The count of departures from the cache when an inode was not there.
pub(super) struct Missing(u64);

impl Inodes {
    /// Bytes of the inodes in memory.
    pub fn memory(&self) -> u64 {
        (self.known.lock().map.len() * size_of::<Inode>()) as u64
    }

    /// None yet. The superblock has the extensions of hot and cold files.
    pub fn new(sb: &Superblock) -> Inodes {
        let known = Known {
            map: Map::default(),
            prune_at: IDLE_MAX,
            departures: 0,
            dropped: Set::default(),
        };
        let wall = rt::wall();
        Inodes {
            known: Mutex::named("f2fs inode cache", known),
            // Any start will do: a number that is used again must not get the generation it had.
            next_generation: AtomicU32::new(
                (wall.secs as u32).wrapping_mul(0x9E37_79B9) ^ wall.nanos,
            ),
            extensions: Extensions::new(sb),
            accesses: Accesses::new(),
        }
    }

    /// The inode with this number, if it is in memory.
    pub fn get(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.find(ino).ok()
    }

    /// The inode, or what [`add`](Self::add) has to know of one that is read from now on.
    pub(super) fn find(&self, ino: Ino) -> Result<Arc<Inode>, Missing> {
        let known = self.known.lock();
        let inode = known.map.get(&ino).cloned();
        let inode = inode.ok_or(Missing(known.departures))?;
        inode.recent.store(true, Ordering::Relaxed);
        Ok(inode)
    }

    /// A checkpoint contains everything that was changed before its freeze, which still holds: the
    /// marks that fsync needs are cleared.
    pub fn checkpointed(&self) {
        let all = {
            let mut known = self.known.lock();
            known.dropped.clear();
            known.map.values().cloned().collect::<Vec<_>>()
        };
        for inode in all {
            inode.tree.lock().cut_below = false;
            let mut core = inode.core();
            core.needs_checkpoint = false;
            core.change = Change::None;
            core.appended = false;
        }
    }

    /// A generation for a new inode.
    pub(super) fn generation(&self) -> u32 {
        self.next_generation.fetch_add(1, Ordering::Relaxed)
    }

    /// Adds an inode that was read while it was missing; false if another task has added it
    /// meanwhile, or if it may have changed since it was read (f2fs-inode-N4).
    pub(super) fn add(&self, inode: &Arc<Inode>, missing: &Missing) -> bool {
        let mut known = self.known.lock();
        if !known.is_still(inode.ino, missing) {
            return false;
        }
        if known.dropped.contains(&inode.ino) {
            let mut core = inode.core();
            (core.change, core.appended, core.updated) = (Change::Data, true, true);
        }
        known.map.insert(inode.ino, inode.clone());
        true
    }

    /// True if an inode with this number has not been in memory since it was missing.
    pub(super) fn is_still(&self, ino: Ino, missing: &Missing) -> bool {
        self.known.lock().is_still(ino, missing)
    }

    /// Puts a new inode in the place of what had its number before; true if there are many now.
    #[must_use]
    pub(super) fn replace(&self, inode: Arc<Inode>) -> bool {
        let mut known = self.known.lock();
        known.map.insert(inode.ino, inode);
        known.map.len() >= known.prune_at
    }

    /// Drops a freed inode, unless its number has a new owner already.
    pub(super) fn remove(&self, inode: &Inode) {
        let mut known = self.known.lock();
        let here = known.map.get(&inode.ino);
        if here.is_some_and(|here| std::ptr::eq(&**here, inode)) {
            known.map.remove(&inode.ino);
            known.departures += 1;
        }
    }
}

/// Inodes whose access times wait. One that was put meanwhile may still be named.
pub(super) struct Accesses(pub Mutex<Waiting>);

#[derive(Default)]
pub(super) struct Waiting {
    pub inos: BTreeSet<Ino>,
    /// When the first one of them began to wait.
    pub since: Option<Time>,
}

impl Accesses {
    pub fn new() -> Accesses {
        Accesses(Mutex::named("f2fs access times", Waiting::default()))
    }
}
