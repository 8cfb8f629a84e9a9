//! The path from the number of a block of a file to the nodes that lead to its address.
//!
//! An inode has up to 923 addresses and five node numbers: two direct nodes (1018 addresses each),
//! two indirect nodes (1018 node numbers each), one double indirect node. Each node has an
//! *offset*, its number in a walk that visits a node before its children: inode 0, direct 1 and 2,
//! indirect 3 with its children 4 to 1021, and so on.

/// Addresses in a direct node.
pub const ADDRS_PER_BLOCK: u32 = 1018;
/// Node numbers in an indirect node.
pub const NIDS_PER_BLOCK: u32 = 1018;
/// Addresses in an inode without extra attributes and without inline attributes.
pub const DEF_ADDRS_PER_INODE: u32 = 923;

/// The way from an inode to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePath {
    /// Nodes below the inode: 0 to 3.
    pub level: u8,
    /// `offsets[0]`: at level 0 the address slot in the inode (from the first one), else which of
    /// its five node numbers; `offsets[level]`: the address slot in the last node; between them the
    /// slots of node numbers.
    pub offsets: [u16; 4],
    /// Offset in the tree of each node on the way, `noffset[0]` = 0 being the inode.
    pub noffset: [u32; 4],
}

/// The way to block `block` of a file whose inode has `addrs_per_inode` addresses; `None` beyond
/// the largest file.
pub fn node_path(block: u64, addrs_per_inode: u32) -> Option<NodePath> {
    const DIRECT: u64 = ADDRS_PER_BLOCK as u64;
    const NIDS: u64 = NIDS_PER_BLOCK as u64;
    const INDIRECT: u64 = DIRECT * NIDS;
    const DOUBLE: u64 = INDIRECT * NIDS;
    let path = |level: u8, offsets: [u64; 4], noffset: [u64; 4]| NodePath {
        level,
        offsets: offsets.map(|n| n as u16),
        noffset: noffset.map(|n| n as u32),
    };
    let mut rest = block;
    if rest < u64::from(addrs_per_inode) {
        return Some(path(0, [rest, 0, 0, 0], [0; 4]));
    }
    rest -= u64::from(addrs_per_inode);
    for slot in 0..2 {
        if rest < DIRECT {
            return Some(path(1, [slot, rest, 0, 0], [0, 1 + slot, 0, 0]));
        }
        rest -= DIRECT;
    }
    for slot in 0..2 {
        if rest < INDIRECT {
            let (child, at) = (rest / DIRECT, rest % DIRECT);
            let node = 3 + slot * (1 + NIDS);
            return Some(path(
                2,
                [2 + slot, child, at, 0],
                [0, node, node + 1 + child, 0],
            ));
        }
        rest -= INDIRECT;
    }
    if rest < DOUBLE {
        let (child, grandchild, at) = (rest / INDIRECT, rest / DIRECT % NIDS, rest % DIRECT);
        let node = 5 + 2 * NIDS;
        let below = node + 1 + child * (NIDS + 1);
        return Some(path(
            3,
            [4, child, grandchild, at],
            [0, node, below, below + 1 + grandchild],
        ));
    }
    None
}

/// Blocks of the largest file, the same for every inode: those reached through nodes (`s_maxbytes`
/// of the kernel).
pub const fn max_file_blocks() -> u64 {
    let direct = ADDRS_PER_BLOCK as u64;
    let nids = NIDS_PER_BLOCK as u64;
    2 * direct + 2 * direct * nids + direct * nids * nids
}

#[cfg(test)]
mod tests {
    use super::super::node::{NodeKind, node_kind};
    use super::*;

    #[test]
    fn edges_of_each_level() {
        let d = 1018u64;
        let i = d * d;
        let cases = [
            (0, 0, [0, 0, 0, 0], [0, 0, 0, 0]),
            (922, 0, [922, 0, 0, 0], [0, 0, 0, 0]),
            (923, 1, [0, 0, 0, 0], [0, 1, 0, 0]),
            (923 + d, 1, [1, 0, 0, 0], [0, 2, 0, 0]),
            (923 + 2 * d, 2, [2, 0, 0, 0], [0, 3, 4, 0]),
            (923 + 2 * d + i - 1, 2, [2, 1017, 1017, 0], [0, 3, 1021, 0]),
            (923 + 2 * d + i, 2, [3, 0, 0, 0], [0, 1022, 1023, 0]),
            (923 + 2 * d + 2 * i, 3, [4, 0, 0, 0], [0, 2041, 2042, 2043]),
            (
                923 + 2 * d + 3 * i + d + 5,
                3,
                [4, 1, 1, 5],
                [0, 2041, 3061, 3063],
            ),
        ];
        for (block, level, offsets, noffset) in cases {
            let expected = NodePath {
                level,
                offsets,
                noffset,
            };
            assert_eq!(node_path(block, 923), Some(expected), "{block}");
        }
        let all = 923 + max_file_blocks();
        assert_eq!(node_path(all, 923), None);
        assert_eq!(node_path(u64::MAX, 0), None);
        assert_eq!(
            node_path(all - 1, 923).expect("last").offsets,
            [4, 1017, 1017, 1017]
        );
    }

    #[test]
    fn the_kind_of_each_node_on_a_way_fits_its_level() {
        for block in (0..max_file_blocks()).step_by(700_001) {
            let p = node_path(block, 873).expect("below the largest file");
            let level = usize::from(p.level);
            assert_eq!(node_kind(p.noffset[level]) == NodeKind::Inode, level == 0);
            let kinds: Vec<_> = p.noffset[1..=level].iter().map(|&n| node_kind(n)).collect();
            let expected: &[NodeKind] = match level {
                0 => &[],
                1 => &[NodeKind::Direct],
                2 => &[NodeKind::Indirect, NodeKind::Direct],
                _ => &[
                    NodeKind::DoubleIndirect,
                    NodeKind::Indirect,
                    NodeKind::Direct,
                ],
            };
            assert_eq!(kinds, expected, "{block}");
        }
    }
}
