//! Checks hash indexes of directories: the index refers to every leaf once, and the names of a leaf
//! hash into its range.

use super::dirs::Reading;
use super::finding::Kind;
use super::mapping::find;
use super::state::State;
use base::bytes::get_le32;
use ondisk::ext4::{
    DirEntries, DxBlock, HashVersion, Incompat, InodeFlags, SuperblockFlags, dir_hash,
};
use std::collections::{BTreeMap, BTreeSet};

/// Levels of nodes below the root, without and with feature large_dir.
const LEVELS_MAX: [u8; 2] = [1, 2];

/// The hashes that a leaf may hold.
#[derive(Clone, Copy)]
struct Range {
    first: u32,
    /// The last one.
    last: u32,
}

/// The index of a directory.
pub(super) struct Index {
    hash: Option<HashVersion>,
    nodes: BTreeSet<u64>,
    leaves: BTreeMap<u64, Range>,
    /// True if part of the index could not be read, so that it is unknown to which blocks it
    /// refers.
    broken: bool,
}

/// Reads the index of a directory.
pub(super) fn load(reading: &Reading<'_>, state: &mut State<'_>) -> Index {
    let mut index = Index {
        hash: None,
        nodes: BTreeSet::from([0]),
        leaves: BTreeMap::new(),
        broken: false,
    };
    let Some((at, block)) = index.read(reading, state, 0) else {
        return index;
    };
    // The two entries of the root leave no gap: '..' fills the block.
    let mut entries = DirEntries::new(&block);
    let shape = entries
        .next()
        .is_some_and(|e| e.is_ok_and(|e| e.rec_len == 12))
        && entries
            .next()
            .is_some_and(|e| e.is_ok_and(|e| e.rec_len + 12 == block.len()));
    if !shape {
        index.bad(
            reading,
            state,
            at,
            "block 0 is no root: '..' does not fill it",
        );
        // The block is then an ordinary block of entries.
        index.nodes.clear();
        return index;
    }
    let Some(root) = index.parse(reading, state, 0, at, &block, true) else {
        return index;
    };
    let info = root.root.expect("parsed as a root");
    let unsigned = reading
        .volume
        .sb
        .flags()
        .has(SuperblockFlags::UNSIGNED_HASH);
    index.hash = HashVersion::from_code(info.hash_version)
        .filter(|&version| version == version.with_unsigned(false))
        .map(|version| version.with_unsigned(unsigned));
    // The hash of an encrypted name without regard to case is keyed, and stands in the entry.
    let flags = reading.dir.flags;
    let keyed = flags.has(InodeFlags::CASEFOLD) && flags.has(InodeFlags::ENCRYPT);
    let known = index.hash.is_some() || keyed;
    index.hash = index.hash.filter(|_| !keyed);
    let large = reading.volume.sb.incompat().has(Incompat::LARGE_DIR);
    if !known
        || info.levels > LEVELS_MAX[usize::from(large)]
        || get_le32(&block, 0x18) != 0
        || info.flags & 1 != 0
    {
        let what = format!(
            "hash version {}, {} levels, flags {:#x}, reserved word {:#x}",
            info.hash_version,
            info.levels,
            info.flags,
            get_le32(&block, 0x18)
        );
        index.bad(reading, state, at, &what);
        return index;
    }
    let all = Range {
        first: 0,
        last: u32::MAX,
    };
    index.records(reading, state, at, &root, info.levels, all);
    index
}

impl Index {
    fn bad(&mut self, reading: &Reading<'_>, state: &mut State<'_>, at: u64, what: &str) {
        self.broken = true;
        state.at_block(reading.dir.ino, at, Kind::Htree, what);
    }

    fn read(
        &mut self,
        reading: &Reading<'_>,
        state: &mut State<'_>,
        lblk: u64,
    ) -> Option<(u64, base::Bytes)> {
        let Some(at) = find(&reading.dir.runs, lblk) else {
            self.broken = true;
            let what = format!("block {lblk} of the index is not mapped");
            state.at_inode(reading.dir.ino, Kind::Htree, what);
            return None;
        };
        let block = reading.volume.reader.block(at, state.found);
        self.broken |= block.is_none();
        Some((at, block?))
    }

    fn parse(
        &mut self,
        reading: &Reading<'_>,
        state: &mut State<'_>,
        lblk: u64,
        at: u64,
        block: &[u8],
        root: bool,
    ) -> Option<DxBlock> {
        let checksums = reading.seed.is_some();
        let parsed = if root {
            DxBlock::parse_root(block, checksums)
        } else {
            DxBlock::parse_node(block, checksums)
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(e) => {
                self.bad(reading, state, at, &format!("block {lblk}: {e}"));
                return None;
            }
        };
        if let Some(seed) = reading.seed
            && let Err(e) = DxBlock::verify_checksum(seed, root, block)
        {
            let what = format!("block {lblk}: {e}");
            state.at_block(reading.dir.ino, at, Kind::DirChecksum, what);
        }
        Some(parsed)
    }

    /// Follows the records of a node. The recursion is at most `levels` deep.
    fn records(
        &mut self,
        reading: &Reading<'_>,
        state: &mut State<'_>,
        at: u64,
        node: &DxBlock,
        levels: u8,
        range: Range,
    ) {
        for (n, record) in node.entries.iter().enumerate() {
            let lblk = u64::from(record.block);
            let first = if n == 0 {
                range.first
            } else {
                record.hash & !1
            };
            // With bit 0 set, names with the hash of the next record may begin in this leaf
            // already.
            let last = node.entries.get(n + 1).map_or(range.last, |next| {
                if next.hash & 1 == 1 {
                    next.hash & !1
                } else {
                    next.hash.saturating_sub(1)
                }
            });
            if first < range.first || (n > 0 && first > range.last) {
                let what = format!("hash {first:#x} of a record lies outside the node's range");
                self.bad(reading, state, at, &what);
            }
            let child = Range { first, last };
            if levels == 0 {
                if find(&reading.dir.runs, lblk).is_none() {
                    self.bad(
                        reading,
                        state,
                        at,
                        &format!("leads to block {lblk}, which is not mapped"),
                    );
                } else if self.nodes.contains(&lblk) || self.leaves.insert(lblk, child).is_some() {
                    self.bad(
                        reading,
                        state,
                        at,
                        &format!("block {lblk} is referred to twice"),
                    );
                }
                continue;
            }
            if !self.nodes.insert(lblk) {
                self.bad(
                    reading,
                    state,
                    at,
                    &format!("block {lblk} is referred to twice"),
                );
                continue;
            }
            self.node(reading, state, lblk, levels - 1, child);
        }
    }

    fn node(
        &mut self,
        reading: &Reading<'_>,
        state: &mut State<'_>,
        lblk: u64,
        levels: u8,
        range: Range,
    ) {
        let Some((at, block)) = self.read(reading, state, lblk) else {
            return;
        };
        let head = DirEntries::new(&block).next();
        if !head.is_some_and(|e| e.is_ok_and(|e| e.ino.is_none() && e.rec_len == block.len())) {
            return self.bad(reading, state, at, &format!("block {lblk} is no node"));
        }
        if let Some(node) = self.parse(reading, state, lblk, at, &block, false) {
            self.records(reading, state, at, &node, levels, range);
        }
    }

    /// True if the block belongs to the index.
    pub fn is_node(&self, lblk: u64) -> bool {
        self.nodes.contains(&lblk)
    }

    /// Checks that a name lies in the leaf in which a lookup searches for it.
    pub fn check_name(
        &self,
        reading: &Reading<'_>,
        state: &mut State<'_>,
        lblk: u64,
        at: u64,
        name: &[u8],
    ) {
        let (Some(version), Some(range)) = (self.hash, self.leaves.get(&lblk)) else {
            return;
        };
        let hash = dir_hash(
            version,
            &reading.volume.sb.hash_seed(),
            &reading.hashed(name),
        )
        .major;
        if hash < range.first || hash > range.last {
            let what = format!(
                "\"{}\" hashes to {hash:#x}, its block {lblk} holds {:#x} to {:#x}",
                name.escape_ascii(),
                range.first,
                range.last
            );
            state.at_block(reading.dir.ino, at, Kind::Htree, what);
        }
    }

    /// Checks that every block belongs to the index or is a leaf of it.
    pub fn check_complete(&self, reading: &Reading<'_>, state: &mut State<'_>) {
        if self.broken {
            return;
        }
        for run in &reading.dir.runs {
            for lblk in run.logical..run.logical + run.len {
                if !self.nodes.contains(&lblk) && !self.leaves.contains_key(&lblk) {
                    let what = format!("no record leads to block {lblk}");
                    return state.at_inode(reading.dir.ino, Kind::Htree, what);
                }
            }
        }
    }
}
