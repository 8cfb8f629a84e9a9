//! Which tree an image leads to, known from images that differ from it only in what no recovery
//! reads.
//!
//! Most states of a cut differ in blocks that nothing durable refers to, and a recovery costs a
//! hundred times as much as a look into this memo.
//!
//! - M1: a recovery is a function of the blocks that it has read: what it reads next, and the tree
//!   in the end, depend on nothing else (simulations have no other input). So two images that
//!   agree in the blocks that the recovery of one has read lead to one tree.
//! - M2: the blocks that were read stand in the order of their first read. So a walk asks of an
//!   image only for blocks that its own recovery would read.

use base::Map;

/// What comes after a sequence of blocks and their contents.
enum Next {
    /// No recovery has come here.
    Unknown,
    /// This block is read; what follows depends on its fingerprint.
    Read(u64, Map<u64, usize>),
    /// The recovery ends, and its tree has this number.
    Tree(usize),
}

/// Recoveries that were done.
pub struct Memo {
    steps: Vec<Next>,
}

impl Memo {
    /// Of no recovery.
    pub fn new() -> Memo {
        Memo {
            steps: vec![Next::Unknown],
        }
    }

    /// Steps that are kept.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// The number of the tree that an image leads to, if that is known; `print` answers the
    /// fingerprints of its blocks.
    pub fn find(&self, print: impl Fn(u64) -> u64) -> Option<usize> {
        let mut at = 0;
        loop {
            match &self.steps[at] {
                Next::Unknown => return None,
                Next::Tree(tree) => return Some(*tree),
                Next::Read(block, follow) => at = *follow.get(&print(*block))?,
            }
        }
    }

    /// Notes a recovery that has read these blocks, with their fingerprints, and led to a tree.
    ///
    /// # Panics
    /// M1: if another recovery that had read the same did something else then.
    pub fn enter(&mut self, reads: &[(u64, u64)], tree: usize) {
        let mut at = 0;
        for (block, print) in reads {
            let fresh = self.steps.len();
            if let Next::Unknown = self.steps[at] {
                self.steps[at] = Next::Read(*block, Map::default());
            }
            let Next::Read(known, follow) = &mut self.steps[at] else {
                panic!("M1: a recovery ended where this one reads block {block}");
            };
            assert_eq!(known, block, "M1: what is read next");
            at = *follow.entry(*print).or_insert(fresh);
            if at == fresh {
                self.steps.push(Next::Unknown);
            }
        }
        assert!(
            matches!(self.steps[at], Next::Unknown),
            "M1: the recovery of this image was known"
        );
        self.steps[at] = Next::Tree(tree);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_that_agree_in_what_is_read_are_one() {
        let mut memo = Memo::new();
        assert_eq!(memo.find(|_| 0), None);
        memo.enter(&[(1, 10), (5, 50)], 0);
        memo.enter(&[(1, 10), (5, 51), (6, 60)], 1);
        memo.enter(&[(1, 11)], 2);
        let with = |prints: &'static [(u64, u64)]| {
            memo.find(|block| {
                let known = prints.iter().find(|p| p.0 == block);
                known.map_or(0, |p| p.1)
            })
        };
        // Block 6 counts only where it is read.
        assert_eq!(with(&[(1, 10), (5, 50), (6, 99)]), Some(0));
        assert_eq!(with(&[(1, 10), (5, 51), (6, 60)]), Some(1));
        assert_eq!(with(&[(1, 10), (5, 51), (6, 61)]), None);
        assert_eq!(with(&[(1, 11), (5, 1)]), Some(2));
        assert_eq!(with(&[(1, 12)]), None);
    }

    #[test]
    #[should_panic(expected = "M1: what is read next")]
    fn a_recovery_that_reads_something_else_is_noticed() {
        let mut memo = Memo::new();
        memo.enter(&[(1, 10), (5, 50)], 0);
        memo.enter(&[(1, 10), (6, 50)], 1);
    }
}
