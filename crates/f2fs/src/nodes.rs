//! Node blocks in memory: inodes, direct and indirect nodes, xattr nodes. Read through NAT, changed under an `Op`, written out of place.

use crate::F2fs;
use crate::ops::Op;
use base::{Bytes, Ino};
use fscore::FsResult;
use ondisk::f2fs::Nid;

/// The cache.
pub(crate) struct Nodes {}

/// Which dirty nodes to write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    /// All.
    All,
    /// Those of one inode (its own block included).
    Of(Ino),
}

impl Nodes {
    /// Dirty node blocks.
    pub fn dirty(&self) -> u64 {
        todo!("node")
    }
}

impl F2fs {
    /// The content of a node block. Its footer names `nid`, or that is damage; a free number is damage too.
    pub(crate) fn node(&self, nid: Nid) -> FsResult<Bytes> {
        let _ = nid;
        todo!("node")
    }

    /// Looks at a node block without copying it.
    pub(crate) fn with_node<R>(&self, nid: Nid, look: impl FnOnce(&[u8]) -> R) -> FsResult<R> {
        let _ = (nid, look);
        todo!("node")
    }

    /// Changes a node block and makes it dirty.
    pub(crate) fn edit_node<R>(
        &self,
        op: &Op<'_>,
        nid: Nid,
        change: impl FnOnce(&mut [u8]) -> R,
    ) -> FsResult<R> {
        let _ = (op, nid, change);
        todo!("node")
    }

    /// Makes a node block of zeros and footer (node offset `ofs` in inode `ino`, cold mark for whatever is no directory's), lets
    /// `fill` complete it; counts it in `space` and enters it in NAT as NEW.
    ///
    /// # Errors
    /// ENOSPC; then the number is still the caller's.
    pub(crate) fn new_node(
        &self,
        op: &Op<'_>,
        nid: Nid,
        ino: Ino,
        ofs: u32,
        cold: bool,
        fill: impl FnOnce(&mut [u8]),
    ) -> FsResult<()> {
        let _ = (op, nid, ino, ofs, cold, fill);
        todo!("node")
    }

    /// Frees a node: its block, its number, its count.
    pub(crate) fn free_node(&self, op: &Op<'_>, nid: Nid) -> FsResult<()> {
        let _ = (op, nid);
        todo!("node")
    }

    /// Submits dirty nodes to the logs (indirect ones first, then those of directories, then of files); they fly in `self.flights`.
    pub(crate) fn write_nodes(&self, op: &Op<'_>, which: Which) -> FsResult<u64> {
        let _ = (op, which);
        todo!("node")
    }
}
