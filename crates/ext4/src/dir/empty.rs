//! The blocks of a new directory, and the check that a directory is empty.

use super::leaf::Leaf;
use super::{DirFacts, DirRead, Item, is_dot, layout, no_block, read_block};
use base::{Bytes, Ino};
use fscore::{FileKind, FsResult};
use ondisk::ext4::{DirEntries, set_dir_rec_len};

/// The first block of a new directory: `.` and `..`.
pub fn first_block(facts: &DirFacts, parent: Ino) -> Bytes {
    let mut block = layout::empty_leaf(facts);
    let dot = Item {
        ino: facts.ino,
        kind: FileKind::Dir,
        name: b".",
    };
    let dotdot = Item {
        ino: parent,
        kind: FileKind::Dir,
        name: b"..",
    };
    let at = layout::item_bytes(dot.name);
    layout::put_item(facts, &mut block, 0, at, &dot);
    layout::put_item(
        facts,
        &mut block,
        at,
        layout::leaf_limit(facts) - at,
        &dotdot,
    );
    layout::seal_leaf(facts, &mut block);
    block.into()
}

/// Block 0 of a directory that had the records of `content` in its inode: the records keep their
/// offsets, and the last one takes the rest of the block.
pub fn grown_block(facts: &DirFacts, content: &[u8]) -> Bytes {
    let mut block = layout::empty_leaf(facts);
    block[..content.len()].copy_from_slice(content);
    let last = DirEntries::new(content).filter_map(Result::ok).last();
    let last = last.map_or(0, |e| e.offset);
    set_dir_rec_len(&mut block, last, layout::leaf_limit(facts) - last);
    layout::seal_leaf(facts, &mut block);
    block.into()
}

/// True if the directory holds nothing but `.` and `..`.
///
/// # Errors
/// I/O errors; `Corrupt`.
pub fn is_empty(io: &dyn DirRead) -> FsResult<bool> {
    if io.block_count() == 0 {
        return Err(no_block(io));
    }
    for lblk in 0..io.block_count() {
        if !block_is_empty(io, lblk)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Looks at the blocks one by one, not along the index: an entry in a leaf that the index has lost
/// still counts.
fn block_is_empty(io: &dyn DirRead, lblk: u32) -> FsResult<bool> {
    let leaf = if io.is_indexed() && lblk == 0 {
        Leaf::load_root(io)?
    } else if io.is_indexed() && layout::looks_like_node(&read_block(io, lblk)?) {
        return Ok(true);
    } else {
        Leaf::load(io, lblk)?
    };
    Ok(leaf
        .entries()?
        .iter()
        .all(|entry| lblk == 0 && is_dot(entry.name)))
}
