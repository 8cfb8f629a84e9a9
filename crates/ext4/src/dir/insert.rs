//! Adding a name.

use super::leaf::{self, Leaf};
use super::{DirIo, Item, check_name, corrupt, htree, is_dot, layout};
use base::Ino;
use fscore::{Errno, FileKind, FsResult};

/// Adds an entry. The caller has looked the name up before: in a hash tree the check for a second entry of this name covers
/// the leaf of its hash only.
///
/// # Errors
/// EEXIST; ENOSPC (disk or index full); EINVAL and ENAMETOOLONG for impossible names; I/O errors; `Corrupt`.
pub fn insert(io: &mut dyn DirIo, name: &[u8], ino: Ino, kind: FileKind) -> FsResult<()> {
    check_name(name)?;
    if is_dot(name) {
        return Err(Errno::Exist.into());
    }
    let item = Item { ino, kind, name };
    if io.is_indexed() {
        return htree::insert(io, &item);
    }
    if io.block_count() == 0 {
        return Err(corrupt(io.facts(), 0, "missing: a directory has at least one block"));
    }
    if into_list(io, &item)? {
        return Ok(());
    }
    if io.block_count() == 1 && io.facts().dir_index {
        htree::into_tree(io)?;
        return htree::insert(io, &item);
    }
    append_leaf(io, &item)
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
    let only = layout::Record::new(io.facts(), item);
    let block = leaf::pack(io.facts(), &[only]);
    io.append(block.into())?;
    Ok(())
}
