//! Reads a whole extent tree before the file system is mounted: for the journal inode.

use super::node::{parse_block, parse_root};
use base::{BlockNo, Bytes, Ino};
use fscore::{FsError, FsResult};
use ondisk::ext4::{ExtentEntries, ExtentNode, InodeSeed};

/// Most extents of the journal file.
const EXTENTS_MAX: usize = 65536;

/// The device and the volume from which nodes are read.
pub(crate) struct Source<'a> {
    pub ino: Ino,
    pub seed: Option<InodeSeed>,
    pub read: &'a dyn Fn(BlockNo) -> FsResult<Bytes>,
}

/// All extents of a file without holes, as (first block, length) in logical order.
pub(crate) fn runs_of(source: &Source<'_>, area: &[u8]) -> FsResult<Vec<(BlockNo, u32)>> {
    let mut runs = Vec::new();
    let mut next = 0;
    collect(source, parse_root(source.ino, area)?, &mut next, &mut runs)?;
    Ok(runs)
}

fn collect(
    source: &Source<'_>,
    node: ExtentNode,
    next: &mut u64,
    runs: &mut Vec<(BlockNo, u32)>,
) -> FsResult<()> {
    match node.entries {
        ExtentEntries::Leaf(extents) => {
            for e in extents {
                let ino = source.ino;
                if u64::from(e.logical) != *next || e.unwritten || runs.len() >= EXTENTS_MAX {
                    let what = format!("inode {ino}: block {next} of the file is not mapped");
                    return Err(FsError::corrupt(what));
                }
                *next = e.logical_end();
                runs.push((e.physical, e.len));
            }
        }
        ExtentEntries::Index(index) => {
            // The recursion ends because the depth falls with each level and blocks must follow
            // each other without a gap.
            for record in index {
                let bytes = (source.read)(record.child)?;
                let depth = node.depth - 1;
                let child = parse_block(source.ino, record.child, &bytes, source.seed, depth)?;
                collect(source, child, next, runs)?;
            }
        }
    }
    Ok(())
}

impl crate::Ext4 {
    /// Blocks that hold nodes of an inode's tree. The `tree` lock is held. Leaves are not read,
    /// since what lies above names them: a file written at random has hundreds, and each fsync
    /// asks.
    pub(crate) fn tree_blocks_of(&self, inode: &crate::Inode) -> FsResult<Vec<BlockNo>> {
        let mut blocks = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        let mut level = vec![self.read_root(inode)?];
        // The loop ends because the depth falls in each turn.
        while let Some(depth) = level.first().map(|n| n.depth).filter(|&d| d > 0) {
            let mut below = Vec::new();
            for node in &level {
                let ExtentEntries::Index(index) = &node.entries else {
                    continue;
                };
                for record in index {
                    // Damage may let several records point to one node, which would be visited
                    // once for each of them.
                    if !seen.insert(record.child) {
                        let what = "two index records point to it".into();
                        return Err(super::node::bad(inode.ino, record.child, what));
                    }
                    self.check_range(
                        record.child,
                        1,
                        format_args!("extent index of inode {}", inode.ino),
                    )?;
                    blocks.push(record.child);
                    if depth > 1 {
                        below.push(self.read_node(inode, record.child, depth - 1)?);
                    }
                }
            }
            level = below;
        }
        Ok(blocks)
    }
}
