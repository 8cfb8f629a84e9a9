//! Inserting into a hash tree: split of a leaf, of an index block, and growth by a level.
//!
//! Each step appends first and writes afterwards (dir-I1), and leaves a whole tree behind, so an
//! insert that meets a full disk half-way has lost nothing.

use super::super::layout;
use super::super::leaf::{Leaf, pack};
use super::super::{DirIo, Item, corrupt};
use super::index::Index;
use super::path::{Frame, Path};
use fscore::{Errno, FsResult};
use ondisk::ext4::{DirEntry, DxEntry};

/// Adds an entry.
///
/// # Errors
/// EEXIST if the leaf of its hash has the name; ENOSPC if the disk or the index is full; I/O
/// errors; `Corrupt`.
pub(in crate::dir) fn insert(io: &mut dyn DirIo, item: &Item<'_>) -> FsResult<()> {
    let mut path = Path::probe_name(io, item.name)?;
    let leaf = path.load_leaf(io)?;
    if let Some(room) = leaf.room(item.name)? {
        return leaf.insert(io, room, item);
    }
    if pack_sparse(io, &leaf)? {
        let packed = path.load_leaf(io)?;
        return insert_again(io, packed, item);
    }
    make_index_room(io, &mut path)?;
    let half = split_leaf(io, &mut path, &leaf)?;
    let half = Leaf::load(io, half)?;
    insert_again(io, half, item)
}

/// Inserts into a leaf that must have room now.
fn insert_again(io: &mut dyn DirIo, leaf: Leaf, item: &Item<'_>) -> FsResult<()> {
    let room = leaf.room(item.name)?.expect("half a leaf holds any entry");
    leaf.insert(io, room, item)
}

/// Packs a leaf in which the entries take at most half of the space (the free rest is scattered in
/// pieces that are too small). False if the entries take more.
fn pack_sparse(io: &mut dyn DirIo, leaf: &Leaf) -> FsResult<bool> {
    let records: Vec<DirEntry<'_>> = leaf.entries()?;
    let used: usize = records.iter().map(DirEntry::used_bytes).sum();
    let sparse = used <= layout::leaf_limit(io.facts()) / 2;
    if sparse {
        leaf.rewrite(io, &records)?;
    }
    Ok(sparse)
}

/// Makes sure that the index block above the leaf takes one more pair. Full blocks on the path are
/// split from above to below, beginning under the last one that has room; if none has room, the
/// tree grows by a level.
fn make_index_room(io: &mut dyn DirIo, path: &mut Path) -> FsResult<()> {
    let roomy = path.frames.iter().rposition(|f| !f.index.is_full());
    let above = match roomy {
        Some(at) => at,
        None if path.frames.len() > usize::from(io.facts().levels_max) => {
            return Err(Errno::NoSpc.into());
        }
        None => {
            add_level(io, path)?;
            1
        }
    };
    for at in above + 1..path.frames.len() {
        split_node(io, path, at)?;
    }
    Ok(())
}

/// Moves the root's pairs into a new node, which has room for more than the root; the root keeps
/// one pair that points to it.
fn add_level(io: &mut dyn DirIo, path: &mut Path) -> FsResult<()> {
    let at = path.frames[0].at;
    let mut records = path.frames[0].index.records();
    let pairs = std::mem::take(&mut records.entries);
    let lblk = io.append(layout::new_node(io.facts(), pairs).into())?;
    records.entries.push(DxEntry {
        hash: 0,
        block: lblk,
    });
    if let Some(info) = &mut records.root {
        info.levels += 1;
    }
    let root = &mut path.frames[0];
    root.at = 0;
    root.index.store(io, &records)?;
    let index = Index::node(io, lblk)?;
    path.frames.insert(1, Frame { index, at });
    Ok(())
}

/// Moves the upper half of a node's pairs into a new node. The path follows if it leads through
/// that half. The block above has room.
fn split_node(io: &mut dyn DirIo, path: &mut Path, level: usize) -> FsResult<()> {
    let Frame { mut index, at } = path.frames.remove(level);
    let parent = &mut path.frames[level - 1];
    let mut records = index.records();
    let half = records.entries.len() / 2;
    let upper = records.entries.split_off(half);
    let hash = upper[0].hash;
    let lblk = io.append(layout::new_node(io.facts(), upper).into())?;
    index.store(io, &records)?;
    add_pair(io, parent, DxEntry { hash, block: lblk })?;
    let frame = if at >= half {
        parent.at += 1;
        Frame {
            index: Index::node(io, lblk)?,
            at: at - half,
        }
    } else {
        Frame { index, at }
    };
    path.frames.insert(level, frame);
    Ok(())
}

/// Adds a pair behind the one that the path takes.
fn add_pair(io: &mut dyn DirIo, frame: &mut Frame, pair: DxEntry) -> FsResult<()> {
    let mut records = frame.index.records();
    records.entries.insert(frame.at + 1, pair);
    frame.index.store(io, &records)
}

/// Moves the upper half of a leaf, by hash, into a new leaf. Answers the one in which the path's
/// target belongs.
fn split_leaf(io: &mut dyn DirIo, path: &mut Path, leaf: &Leaf) -> FsResult<u32> {
    let mut sorted: Vec<(u32, DirEntry<'_>)> = Vec::new();
    for record in leaf.entries()? {
        sorted.push((hash_in_range(io, path, leaf, record.name)?, record));
    }
    sorted.sort_by_key(|(hash, _)| *hash);
    let cut = half_by_size(&sorted);
    let (hash, below) = (sorted[cut].0, sorted[cut - 1].0);
    let continued = u32::from(hash == below);
    let records: Vec<DirEntry<'_>> = sorted.iter().map(|(_, record)| *record).collect();
    let upper = io.append(pack(io.facts(), &records[cut..]).into())?;
    leaf.rewrite(io, &records[..cut])?;
    add_pair(
        io,
        path.last_mut(),
        DxEntry {
            hash: hash | continued,
            block: upper,
        },
    )?;
    Ok(if path.target() >= hash {
        upper
    } else {
        leaf.lblk
    })
}

/// dir-I3: the hash of a name of this leaf, which must lie in the leaf's range, because a split
/// would otherwise put an index pair out of order.
fn hash_in_range(io: &dyn DirIo, path: &Path, leaf: &Leaf, name: &[u8]) -> FsResult<u32> {
    path.hash_here(io, name).map_or_else(
        || {
            let hash = path.hash(io, name).major;
            let what =
                format!("a name of hash {hash:#x} lies outside of the leaf's range in the index");
            Err(corrupt(io.facts(), leaf.lblk, what))
        },
        |hash| Ok(hash.major),
    )
}

/// The index at which the entries before it take half of the space; between 1 and `len - 1`.
fn half_by_size(sorted: &[(u32, DirEntry<'_>)]) -> usize {
    assert!(
        sorted.len() >= 2,
        "a leaf that is more than half full has several entries"
    );
    let total: usize = sorted.iter().map(|(_, record)| record.used_bytes()).sum();
    let mut below = 0;
    for (n, (_, record)) in sorted.iter().enumerate() {
        below += record.used_bytes();
        if below >= total / 2 {
            return (n + 1).min(sorted.len() - 1);
        }
    }
    sorted.len() - 1
}
