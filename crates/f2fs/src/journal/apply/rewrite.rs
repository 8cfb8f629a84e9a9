//! The list of nodes and directory blocks that cleaning wants to have moved. Apply alone writes
//! such blocks.
//!
//! Cleaning moves no node and no directory block itself, because their addresses are in no record
//! (they change only with a pack). It marks them here, and the next apply treats them as touched:
//! it writes them, as they are at its epoch, to a new place. The old block is freed with that pack,
//! like that of any node that apply writes (f2fs-journal-I6).

use base::Ino;
use ondisk::f2fs::Nid;
use rt::Mutex;
use std::collections::BTreeSet;

/// What the next apply writes beside what records touch.
pub(crate) struct Rewrite {
    wanted: Mutex<Wanted>,
}

/// What was marked.
#[derive(Default, Clone, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    /// Nodes. One that has been freed since is no reason to do anything.
    pub nodes: BTreeSet<Nid>,
    /// Pages of directories; a hole by now: nothing to do.
    pub pages: BTreeSet<(Ino, u64)>,
}

impl Rewrite {
    /// Nothing yet.
    pub fn new() -> Rewrite {
        Rewrite {
            wanted: Mutex::named("f2fs blocks to rewrite", Wanted::default()),
        }
    }

    /// Marks a node.
    pub fn node(&self, nid: Nid) {
        self.wanted.lock().nodes.insert(nid);
    }

    /// Marks a page of a directory.
    pub fn page(&self, dir: Ino, index: u64) {
        self.wanted.lock().pages.insert((dir, index));
    }

    /// How many blocks are marked.
    pub fn blocks(&self) -> u64 {
        let wanted = self.wanted.lock();
        (wanted.nodes.len() + wanted.pages.len()) as u64
    }

    /// Takes all of them: what the apply that asks has to write. After a failed apply the mount is
    /// latched, so nothing is put back.
    pub fn take(&self) -> Wanted {
        std::mem::take(&mut *self.wanted.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_rewritten_once() {
        let rewrite = Rewrite::new();
        rewrite.node(Nid(9));
        rewrite.node(Nid(9));
        rewrite.page(Ino(4), 2);
        assert_eq!(rewrite.blocks(), 2);
        let wanted = rewrite.take();
        assert!(wanted.nodes.contains(&Nid(9)) && wanted.pages.contains(&(Ino(4), 2)));
        assert_eq!((rewrite.take(), rewrite.blocks()), (Wanted::default(), 0));
    }
}
