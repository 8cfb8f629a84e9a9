//! Growth of a one-block directory into a hash tree.

use super::super::edit::Edit;
use super::super::layout;
use super::super::leaf::{Leaf, pack};
use super::super::{DirIo, corrupt, read_block};
use fscore::FsResult;

/// Moves all entries but `.` and `..` from block 0 into a new leaf and makes block 0 the root over
/// it.
pub(in crate::dir) fn into_tree(io: &mut dyn DirIo) -> FsResult<()> {
    let bytes = read_block(io, 0)?;
    let leaf = Leaf::load(io, 0)?;
    let entries = leaf.entries()?;
    let [dot, dotdot, others @ ..] = &entries[..] else {
        return Err(corrupt(
            io.facts(),
            0,
            "does not begin with \".\" and \"..\"",
        ));
    };
    if dot.name != b"." || dotdot.name != b".." {
        return Err(corrupt(
            io.facts(),
            0,
            "does not begin with \".\" and \"..\"",
        ));
    }
    let block = io.append(pack(io.facts(), others).into())?;
    let root = layout::new_root(io.facts(), dot, dotdot, block);
    Edit::replace(0, &bytes, root).store(io)?;
    io.set_indexed()
}
