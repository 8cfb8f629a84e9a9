//! Checks extended attributes: the area in the inode, and the xattr node.

use super::files::Walk;
use super::finding::Kind;
use super::state::State;
use super::tree::Node;
use ondisk::f2fs::{Nid, XATTR_NODE_OFFSET, XattrBuf};

/// Follows the node of attributes and reads the entries.
pub(super) fn check(state: &mut State<'_>, walk: &mut Walk, inode: &Node) {
    let nid = walk.fields.xattr_nid;
    let node = match nid {
        Nid(0) => None,
        _ => state.node(nid, walk.ino, XATTR_NODE_OFFSET),
    };
    if node.is_some() {
        walk.blocks += 1;
    }
    let inline = &inode.block[walk.fields.inline_xattr_range()];
    if inline.is_empty() && node.is_none() {
        return;
    }
    let block = node.as_ref().map(|n| &n.block[..]);
    if let Err(e) = XattrBuf::parse(inline, block) {
        state.found.at_inode(walk.ino, Kind::Xattr, e.to_string());
    }
}
