//! Adding a name to a directory.

use super::leaf::Leaf;
use super::lookup::Vacancy;
use super::{DirIo, Item, check_name, htree, is_dot, layout, no_block};
use base::Ino;
use fscore::{Errno, FileKind, FsResult};

/// Adds an entry. The caller has looked the name up before, because in a hash tree an existing
/// entry of this name is found here only if it lies in the leaf of its hash.
///
/// # Errors
/// EEXIST; ENOSPC (disk or index full); EINVAL and ENAMETOOLONG for impossible names; I/O errors;
/// `Corrupt`.
pub fn insert(io: &mut dyn DirIo, name: &[u8], ino: Ino, kind: FileKind) -> FsResult<()> {
    check_name(io.facts(), name)?;
    if is_dot(name) {
        return Err(Errno::Exist.into());
    }
    let item = Item { ino, kind, name };
    if io.is_indexed() {
        return htree::insert(io, &item);
    }
    if io.block_count() == 0 {
        return Err(no_block(io));
    }
    // The loop ends because inline content grows into the rest of the inode once, and then gets a
    // block.
    while !into_list(io, &item)? {
        if !io.widen()? {
            return beyond_list(io, &item);
        }
    }
    Ok(())
}

/// Adds an entry like [`insert`], at the place that the search for its name has found, if there is
/// one and nothing has changed since.
///
/// # Errors
/// As [`insert`].
pub fn insert_at(
    io: &mut dyn DirIo,
    place: Vacancy,
    name: &[u8],
    ino: Ino,
    kind: FileKind,
) -> FsResult<()> {
    match place.place {
        Some((leaf, room)) if leaf.is_current(io)? => {
            leaf.insert(io, room, &Item { ino, kind, name })
        }
        _ => insert(io, name, ino, kind),
    }
}

/// Adds an entry to a list of blocks of which none has room.
fn beyond_list(io: &mut dyn DirIo, item: &Item<'_>) -> FsResult<()> {
    if io.block_count() == 1 && io.facts().dir_index {
        htree::into_tree(io)?;
        return htree::insert(io, item);
    }
    append_leaf(io, item)
}

/// Puts the entry into the first block with room, false if there is none.
fn into_list(io: &mut dyn DirIo, item: &Item<'_>) -> FsResult<bool> {
    let mut place = None;
    for lblk in 0..io.block_count() {
        let leaf = Leaf::load(io, lblk)?;
        let room = leaf.room(item.name)?;
        if place.is_none() {
            place = room.map(|room| (leaf, room));
        }
    }
    match place {
        Some((leaf, room)) => leaf.insert(io, room, item).map(|()| true),
        None => Ok(false),
    }
}

/// Adds a block that holds this entry alone.
fn append_leaf(io: &mut dyn DirIo, item: &Item<'_>) -> FsResult<()> {
    let facts = io.facts();
    let mut block = layout::empty_leaf(facts);
    layout::put_item(facts, &mut block, 0, layout::leaf_limit(facts), item);
    layout::seal_leaf(facts, &mut block);
    io.append(block.into())?;
    Ok(())
}
