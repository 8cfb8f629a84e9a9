//! Finding a name in a directory, linearly or by its hash tree.

use super::htree::Path;
use super::leaf::{Leaf, Room, Spot};
use super::{DirRead, Sought, check_name, corrupt, is_dot, layout, read_block};
use base::Ino;
use fscore::{FileKind, FsResult};

/// The inode that a name leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The inode.
    pub ino: Ino,
    /// Its kind as the entry has it; `None` without feature `filetype`.
    pub kind: Option<FileKind>,
}

/// An entry and its place in a block.
pub struct Entry {
    pub(super) leaf: Leaf,
    pub(super) spot: Spot,
}

impl Entry {
    /// What it leads to.
    pub fn found(&self) -> Found {
        Found {
            ino: self.spot.ino,
            kind: self.spot.kind,
        }
    }
    /// Its name, as it is spelt.
    pub fn name(&self) -> &[u8] {
        self.leaf.name(&self.spot)
    }
    /// True if the block with the entry has not changed since it was found.
    ///
    /// # Errors
    /// I/O errors; `Corrupt`.
    pub fn is_current(&self, io: &dyn DirRead) -> FsResult<bool> {
        self.leaf.is_current(io)
    }
}

/// Where a name that a directory does not have can be put.
pub struct Vacancy {
    /// The first place that the search for the name has come by.
    pub(super) place: Option<(Leaf, Room)>,
    /// No other block was searched.
    alone: bool,
}

/// What a search for a name found.
pub enum Probe {
    /// The entry of that name.
    Taken(Entry),
    /// There is none.
    Free(Vacancy),
}

impl Probe {
    /// True if the same search would find the same: no block that was searched has changed. False
    /// also if that is not known.
    ///
    /// # Errors
    /// I/O errors; `Corrupt`.
    pub fn is_current(&self, io: &dyn DirRead) -> FsResult<bool> {
        match self {
            Probe::Taken(entry) => entry.is_current(io),
            Probe::Free(Vacancy {
                place: Some((leaf, _)),
                alone: true,
            }) => Ok(io.block_count() == 1 && leaf.is_current(io)?),
            Probe::Free(_) => Ok(false),
        }
    }
}

/// What the entry called `name` leads to; the name may be `.` or `..`.
///
/// # Errors
/// As [`probe`].
pub fn lookup(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<Found>> {
    Ok(find(io, name)?.map(|entry| entry.found()))
}

/// The entry called `name`, which may be `.` or `..`.
///
/// # Errors
/// As [`probe`].
pub fn find(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<Entry>> {
    match probe(io, name)? {
        Probe::Taken(entry) => Ok(Some(entry)),
        Probe::Free(_) => Ok(None),
    }
}

/// Searches for the entry called `name`, which may be `.` or `..`.
///
/// # Errors
/// EINVAL and ENAMETOOLONG for impossible names; I/O errors; `Corrupt`.
pub fn probe(io: &dyn DirRead, name: &[u8]) -> FsResult<Probe> {
    check_name(io.facts(), name)?;
    let sought = &Sought::new(io.facts(), name);
    match io.is_indexed() {
        true if is_dot(name) => {
            let mut place = None;
            let found = in_block(Leaf::load_root(io)?, sought, &mut place)?;
            // No name is ever put into the root of a tree.
            Ok(found.map_or_else(|| free(None, false), Probe::Taken))
        }
        true => match in_tree(io, sought)? {
            Probe::Free(place) => {
                Ok(in_leaves(io, sought)?.map_or(Probe::Free(place), Probe::Taken))
            }
            taken => Ok(taken),
        },
        false => in_list(io, sought),
    }
}

/// In a directory without regard to case: searches all leaves for an entry to which its hash does
/// not lead, because the kernel that made it folded its name in another way (as Linux 6.12 did).
fn in_leaves(io: &dyn DirRead, sought: &Sought<'_>) -> FsResult<Option<Entry>> {
    if !matches!(&sought.folded, Some((folding, _)) if folding.searches_all()) {
        return Ok(None);
    }
    for lblk in 1..io.block_count() {
        if layout::looks_like_node(&read_block(io, lblk)?) {
            continue;
        }
        let entry = in_block(Leaf::load(io, lblk)?, sought, &mut None)?;
        if entry.is_some() {
            return Ok(entry);
        }
    }
    Ok(None)
}

fn in_list(io: &dyn DirRead, sought: &Sought<'_>) -> FsResult<Probe> {
    // `.` and `..` are never anywhere else than in the first block.
    let blocks = if is_dot(sought.name) {
        1
    } else {
        io.block_count()
    };
    let mut place = None;
    for lblk in 0..blocks {
        if let Some(entry) = in_block(Leaf::load(io, lblk)?, sought, &mut place)? {
            return Ok(Probe::Taken(entry));
        }
    }
    Ok(free(place, blocks == 1))
}

fn free(place: Option<(Leaf, Room)>, alone: bool) -> Probe {
    Probe::Free(Vacancy { place, alone })
}

fn in_tree(io: &dyn DirRead, sought: &Sought<'_>) -> FsResult<Probe> {
    let mut path = Path::probe_name(io, sought.name)?;
    // A new entry goes to the first leaf that can hold its hash, and to no other.
    let (mut place, mut elsewhere) = (None, None);
    for n in 0..io.block_count() {
        let kept = if n == 0 { &mut place } else { &mut elsewhere };
        if let Some(entry) = in_block(path.load_leaf(io)?, sought, kept)? {
            return Ok(Probe::Taken(entry));
        }
        if path
            .next_hash()
            .is_none_or(|next| next & !1 != path.target())
        {
            return Ok(free(place, false));
        }
        path.advance(io)?;
    }
    Err(corrupt(
        io.facts(),
        0,
        "more leaves of one hash value than the directory has blocks",
    ))
}

/// The entry of this name in this block. If there is none, `place` keeps the first room for it.
fn in_block(
    leaf: Leaf,
    sought: &Sought<'_>,
    place: &mut Option<(Leaf, Room)>,
) -> FsResult<Option<Entry>> {
    match leaf.search(sought)? {
        Ok(spot) => Ok(Some(Entry { leaf, spot })),
        Err(room) => {
            if place.is_none() {
                *place = room.map(|room| (leaf, room));
            }
            Ok(None)
        }
    }
}
