//! Finding a name in a directory, linearly or by its hash tree.

use super::htree::Path;
use super::leaf::{Leaf, Spot};
use super::{DirRead, check_name, corrupt, is_dot};
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

/// The entry called `name`, which may be `.` or `..`.
///
/// # Errors
/// EINVAL and ENAMETOOLONG for impossible names; I/O errors; `Corrupt`.
pub fn lookup(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<Found>> {
    let found = locate(io, name)?;
    Ok(found.map(|(_, spot)| Found {
        ino: spot.ino,
        kind: spot.kind,
    }))
}

/// The block with the entry called `name`, and its place there.
pub(super) fn locate(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<(Leaf, Spot)>> {
    check_name(name)?;
    match io.is_indexed() {
        true if is_dot(name) => in_block(Leaf::load_root(io)?, name),
        true => in_tree(io, name),
        false => in_list(io, name),
    }
}

fn in_list(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<(Leaf, Spot)>> {
    // `.` and `..` are never anywhere else than in the first block.
    let blocks = if is_dot(name) { 1 } else { io.block_count() };
    for lblk in 0..blocks {
        if let Some(found) = in_block(Leaf::load(io, lblk)?, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn in_tree(io: &dyn DirRead, name: &[u8]) -> FsResult<Option<(Leaf, Spot)>> {
    let mut path = Path::probe_name(io, name)?;
    for _ in 0..io.block_count() {
        if let Some(found) = in_block(path.load_leaf(io)?, name)? {
            return Ok(Some(found));
        }
        if path
            .next_hash()
            .is_none_or(|next| next & !1 != path.target())
        {
            return Ok(None);
        }
        path.advance(io)?;
    }
    Err(corrupt(
        io.facts(),
        0,
        "more leaves of one hash value than the directory has blocks",
    ))
}

/// The place of the name in this block.
fn in_block(leaf: Leaf, name: &[u8]) -> FsResult<Option<(Leaf, Spot)>> {
    Ok(leaf.find(name)?.map(|spot| (leaf, spot)))
}
