//! The buffers of one operation: what it has logged, until it ends and its records go to the lists
//! of their inodes.
//!
//! The buffers come from a pool, so that in the steady state logging allocates nothing.

use super::gate::Padded;
use super::global::Mixed;
use super::lists::{InodeLog, List};
use super::touched::Touches;
use super::{DataSent, Plane};
use crate::journal::UsageDelta;
use crate::journal::pages::Load;
use ondisk::f2fs::{BlockAddr, Nid};
use rt::Mutex;
use std::sync::Arc;

/// Buffers of a pool's shard.
const POOLED: usize = 16;
/// Buffers above this size are not kept.
const KEPT_BYTES: usize = 64 << 10;

/// What an operation has logged of one inode.
#[derive(Default)]
pub(super) struct OfInode {
    pub log: Option<Arc<InodeLog>>,
    pub list: List,
}

/// What operations say in no list of an inode, because it has no order among what they say there
/// (tx-O1).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct OfVolume {
    /// Inodes that are freed, and their versions in the NAT.
    pub ends: Vec<(Nid, u8)>,
    /// Encoded records of blocks of files that are freed.
    pub frees: Vec<u8>,
}

impl OfVolume {
    /// Bytes that one inode takes in the log at most.
    pub const END_BYTES: usize = 12;

    /// Nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.frees.is_empty()
    }

    /// Bytes in the log at most.
    pub fn bytes(&self) -> usize {
        self.ends.len() * OfVolume::END_BYTES + self.frees.len()
    }

    /// Adds what another one has.
    pub fn extend(&mut self, other: &OfVolume) {
        self.ends.extend_from_slice(&other.ends);
        self.frees.extend_from_slice(&other.frees);
    }

    fn clear(&mut self) {
        self.ends.clear();
        self.frees.clear();
    }
}

/// What an operation has gathered.
#[derive(Default)]
pub(super) struct Gathered {
    /// Of these the first `used` count; the others keep their memory.
    inodes: Vec<OfInode>,
    used: usize,
    /// With one list for all: the records of all of them.
    pub mixed: Mixed,
    /// With a journal of pages.
    pub touches: Touches,
    pub bytes: usize,
    /// With `records=pages`: what it adds to its epoch.
    pub load: Load,
    pub usage: UsageDelta,
    pub freed_blocks: Vec<BlockAddr>,
    pub freed_nids: Vec<Nid>,
    /// What it says in no list (tx-O1).
    pub own: OfVolume,
    /// Inodes that it concerns, with records or without.
    pub touched: Vec<Nid>,
    pub data: Vec<DataSent>,
}

impl Gathered {
    /// What it has of each inode.
    pub fn inodes(&self) -> &[OfInode] {
        &self.inodes[..self.used]
    }

    /// True if there is nothing for the epoch but records.
    pub fn is_only_records(&self) -> bool {
        self.usage.is_none()
            && self.freed_blocks.is_empty()
            && self.freed_nids.is_empty()
            && self.own.is_empty()
            && self.touched.is_empty()
            && self.data.is_empty()
    }

    pub fn of(&mut self, plane: &Plane, ino: Nid) -> &mut OfInode {
        let is = |of: &OfInode| of.log.as_ref().is_some_and(|log| log.ino == ino);
        // Most operations touch one inode to three.
        if let Some(at) = self.inodes[..self.used].iter().position(is) {
            return &mut self.inodes[at];
        }
        if self.used == self.inodes.len() {
            self.inodes.push(OfInode::default());
        }
        let fresh = &mut self.inodes[self.used];
        self.used += 1;
        fresh.log = Some(plane.log_of(ino));
        fresh
    }

    fn clear(&mut self) {
        for of in &mut self.inodes[..self.used] {
            of.log = None;
            of.list.clear();
        }
        self.used = 0;
        self.mixed.clear();
        self.touches.clear();
        self.bytes = 0;
        self.load = Load::default();
        self.usage = UsageDelta::default();
        self.freed_blocks.clear();
        self.freed_nids.clear();
        self.own.clear();
        self.touched.clear();
        self.data.clear();
    }
}

/// Memory of operations that have ended.
#[expect(
    clippy::vec_box,
    reason = "the boxes are what is kept: an operation takes one and gives it back"
)]
pub(super) struct Pool(Vec<Padded<Mutex<Vec<Box<Gathered>>>>>);

impl Pool {
    pub fn new(shards: usize) -> Pool {
        let shard = || Padded(Mutex::named("f2fs log buffers", Vec::new()));
        Pool((0..shards).map(|_| shard()).collect())
    }

    pub fn take(&self, shard: usize) -> Box<Gathered> {
        let pooled = self.0[shard % self.0.len()].0.lock().pop();
        pooled.unwrap_or_default()
    }

    pub fn give(&self, shard: usize, mut gathered: Box<Gathered>) {
        let large = gathered.bytes > KEPT_BYTES;
        gathered.clear();
        let mut pool = self.0[shard % self.0.len()].0.lock();
        if pool.len() < POOLED && !large {
            pool.push(gathered);
        }
    }
}
