//! The path from the root of a hash tree to a leaf, and the step to the next leaf.

use super::super::layout;
use super::super::leaf::Leaf;
use super::super::{DirRead, corrupt};
use super::index::Index;
use fscore::FsResult;
use ondisk::ext4::{DirHash, HashVersion};
use smallvec::{SmallVec, smallvec};

/// An index block and the pair in it that the path takes.
pub(super) struct Frame {
    pub index: Index,
    pub at: usize,
}

/// A path to a leaf. `frames` is never empty and begins with the root, which is all of it in most
/// directories.
pub(in crate::dir) struct Path {
    pub(super) frames: SmallVec<[Frame; 1]>,
    hash: HashVersion,
    target: u32,
}

impl Path {
    /// The path to the first leaf that can hold `name`.
    pub(in crate::dir) fn probe_name(io: &dyn DirRead, name: &[u8]) -> FsResult<Path> {
        let (root, hash) = Path::root(io)?;
        let target = layout::name_hash(io.facts(), Some(hash), name).major;
        Path::descend(io, root, hash, target)
    }
    /// The path to the first leaf that can hold names of major hash `target`.
    pub(in crate::dir) fn probe(io: &dyn DirRead, target: u32) -> FsResult<Path> {
        let (root, hash) = Path::root(io)?;
        Path::descend(io, root, hash, target)
    }
    fn root(io: &dyn DirRead) -> FsResult<(Index, HashVersion)> {
        let root = Index::root(io)?;
        let info = root.root_info().expect("a root has what only a root has");
        let most = io.facts().levels_max;
        if info.levels > most {
            let what = format!(
                "{} index levels, at most {most} with the features of this volume",
                info.levels
            );
            return Err(corrupt(io.facts(), 0, what));
        }
        let hash =
            layout::root_hash(io.facts(), &info).map_err(|why| corrupt(io.facts(), 0, why))?;
        Ok((root, hash))
    }
    fn descend(io: &dyn DirRead, root: Index, hash: HashVersion, target: u32) -> FsResult<Path> {
        let levels = root.root_info().map_or(0, |info| info.levels);
        let at = root.find(target);
        let mut path = Path {
            frames: smallvec![Frame { index: root, at }],
            hash,
            target,
        };
        for _ in 0..levels {
            let index = path.load_child(io)?;
            let at = index.find(target);
            path.frames.push(Frame { index, at });
        }
        Ok(path)
    }
    fn load_child(&self, io: &dyn DirRead) -> FsResult<Index> {
        Index::node(io, self.child(io)?)
    }
    /// The block that the last frame points to.
    fn child(&self, io: &dyn DirRead) -> FsResult<u32> {
        let frame = self.last();
        let record = frame.index.get(frame.at);
        let child = record.expect("the path takes a record").block;
        match self.frames.iter().find(|above| above.index.lblk == child) {
            Some(_) => Err(corrupt(
                io.facts(),
                frame.index.lblk,
                format!("index points back to block {child}"),
            )),
            None => Ok(child),
        }
    }
    /// The frame above the leaf.
    pub(super) fn last(&self) -> &Frame {
        self.frames.last().expect("a path begins with the root")
    }
    /// The frame above the leaf.
    pub(super) fn last_mut(&mut self) -> &mut Frame {
        self.frames.last_mut().expect("a path begins with the root")
    }
    /// The major hash that the path was made for.
    pub(in crate::dir) fn target(&self) -> u32 {
        self.target
    }
    /// The hash of a name in this directory.
    pub(in crate::dir) fn hash(&self, io: &dyn DirRead, name: &[u8]) -> DirHash {
        layout::name_hash(io.facts(), Some(self.hash), name)
    }
    /// The hash by which a name of the leaf is ordered: its own, which lies in the leaf's range
    /// (dir-I3). In a directory without regard to case another kernel may have folded the name in
    /// another way and put it elsewhere; there it counts as the first one of the leaf. `None`: the
    /// name must not stand here.
    pub(in crate::dir) fn hash_here(&self, io: &dyn DirRead, name: &[u8]) -> Option<DirHash> {
        let own = self.hash(io, name);
        let folding = io.facts().folding.as_ref();
        match self.covers(own.major) {
            true => Some(own),
            false if folding.is_some_and(|folding| folding.searches_all()) => Some(DirHash {
                major: self.own_hash() & !1,
                minor: own.minor,
            }),
            false => None,
        }
    }
    /// Reads the leaf at the end of the path.
    pub(in crate::dir) fn load_leaf(&self, io: &dyn DirRead) -> FsResult<Leaf> {
        Leaf::load(io, self.child(io)?)
    }
    /// Where the leaf's range begins; bit 0 marks a continuation.
    pub(in crate::dir) fn own_hash(&self) -> u32 {
        let frame = self.frames.iter().rev().find(|frame| frame.at > 0);
        let record = frame.and_then(|frame| frame.index.get(frame.at));
        record.map_or(0, |record| record.hash)
    }
    /// Where the range of the next leaf begins; `None` at the last one.
    pub(in crate::dir) fn next_hash(&self) -> Option<u32> {
        self.frames
            .iter()
            .rev()
            .find_map(|frame| frame.index.get(frame.at + 1))
            .map(|pair| pair.hash)
    }
    /// dir-I3: true if a name of this hash may stand in the leaf.
    pub(in crate::dir) fn covers(&self, hash: u32) -> bool {
        let below_next = match self.next_hash() {
            None => true,
            Some(next) if next & 1 == 1 => hash <= next & !1,
            Some(next) => hash < next,
        };
        hash >= self.own_hash() & !1 && below_next
    }
    /// Moves on to the next leaf; false at the last one.
    pub(in crate::dir) fn advance(&mut self, io: &dyn DirRead) -> FsResult<bool> {
        let levels = self.frames.len();
        while let Some(frame) = self.frames.last_mut() {
            if frame.at + 1 < frame.index.len() {
                frame.at += 1;
                break;
            }
            self.frames.pop();
        }
        if self.frames.is_empty() {
            return Ok(false);
        }
        while self.frames.len() < levels {
            let index = self.load_child(io)?;
            self.frames.push(Frame { index, at: 0 });
        }
        Ok(true)
    }
}
