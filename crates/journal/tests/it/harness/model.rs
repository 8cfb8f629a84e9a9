//! The model that cuts are judged by: the content that every block has after every transaction.

use super::*;
use base::bytes::put_be32;
use base::{Rng, Tid};
use ondisk::jbd2::MAGIC;
use std::collections::BTreeMap;

/// File data in a block.
#[derive(Clone, Debug)]
pub struct Data {
    pub content: Bytes,
    /// The newest write of it.
    pub version: u64,
    /// Its transaction waits for it.
    pub ordered: bool,
}

/// The file system after some transaction.
#[derive(Clone, Default)]
pub struct State {
    /// Metadata, and file data that goes through the log.
    pub meta: BTreeMap<BlockNo, Bytes>,
    pub data: BTreeMap<BlockNo, Data>,
}

/// A block holds file data from one tick to another.
#[derive(Clone, Debug)]
pub struct Owned {
    pub block: BlockNo,
    pub from: u64,
    pub until: u64,
}

/// One cut: what the device would hold, and what was promised by then.
pub struct Cut {
    pub image: Image,
    /// Newest published transaction.
    pub acked: u32,
    /// Ticks before and after the snapshot.
    pub ticks: (u64, u64),
}

/// Everything that the tasks of a life share.
#[derive(Default)]
pub struct Model {
    pub now: State,
    /// Which metadata blocks are file data in the log.
    pub journaled: BTreeMap<BlockNo, ()>,
    pub free: BTreeMap<BlockNo, Tid>,
    pub states: BTreeMap<u32, State>,
    /// Counts everything that happens to file data.
    pub tick: u64,
    pub owned: Vec<Owned>,
    /// (tick, block, version) of each write to file data.
    pub overwritten: Vec<(u64, BlockNo, u64)>,
    pub cuts: Vec<Cut>,
    /// A handle was dropped in the middle of its work: this transaction and those behind it must
    /// never be found.
    pub dropped: Option<u32>,
    pub stamp: u32,
}

impl Model {
    /// The state after transaction `tid` is this one, until the next change of it.
    pub fn note(&mut self, tid: Tid) {
        self.states.insert(tid.0, self.now.clone());
    }

    pub fn tick(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// New content for a block: unlike all others, at both ends; it may pose as a control block.
    pub fn content(&mut self, rng: &mut Rng, pose_one_in: u64, near: Tid) -> Bytes {
        self.stamp += 1;
        let mut block = vec![self.stamp as u8; BLOCK_BYTES];
        for at in [16, 600, 2044, BLOCK_BYTES - 4] {
            put_be32(&mut block, at, self.stamp);
        }
        if pose_one_in > 0 && rng.one_in(pose_one_in) {
            const KINDS: [u32; 8] = [1, 2, 2, 2, 2, 2, 5, 6];
            put_be32(&mut block, 0, MAGIC);
            put_be32(&mut block, 4, KINDS[rng.below(8) as usize]);
            put_be32(&mut block, 8, near.0 + 1 + rng.below(6) as u32);
        }
        block.into()
    }

    /// A free block that may be used again (hazards-H18).
    pub fn reusable(&self, rng: &mut Rng, committed: Tid, range: (u64, u64)) -> Option<BlockNo> {
        let free = self.free.iter();
        let list: Vec<BlockNo> = free
            .filter(|(b, t)| committed.geq(**t) && range.0 <= b.0 && b.0 < range.1)
            .map(|(b, _)| *b)
            .collect();
        pick(rng, &list)
    }

    /// File data is about to be written to `block`.
    pub fn write_data(&mut self, block: BlockNo, content: Bytes, ordered: bool) {
        let version = self.tick();
        self.overwritten.push((version, block, version));
        if !self.now.data.contains_key(&block) {
            self.owned.push(Owned {
                block,
                from: version,
                until: u64::MAX,
            });
        }
        self.free.remove(&block);
        let data = Data {
            content,
            version,
            ordered,
        };
        self.now.data.insert(block, data);
    }

    /// The block will hold metadata.
    pub fn end_data(&mut self, block: BlockNo) {
        let tick = self.tick();
        for o in &mut self.owned {
            if o.block == block && o.until == u64::MAX {
                o.until = tick;
            }
        }
    }
}

pub fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> Option<T> {
    let n = list.len() as u64;
    (n > 0).then(|| list[rng.below(n.max(1)) as usize])
}
