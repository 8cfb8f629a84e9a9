//! Follows an inode to its nodes, and to the block addresses in them.

use super::dirs;
use super::files::Walk;
use super::finding::{Finding, Kind};
use super::state::State;
use super::usage::Claim;
use base::Bytes;
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BlockAddr, Features, NIDS_PER_BLOCK, NatEntry, Nid, Summary, SummaryKind,
    addr, footer, nid_slot,
};

/// Node numbers in the inode: two of direct nodes, two of indirect ones, one of a double indirect
/// one.
const DIRECT: usize = 2;
const INDIRECT: usize = 4;

/// A node that was reached.
pub(super) struct Node {
    pub nid: Nid,
    pub block: Bytes,
    /// Version of its nid.
    pub version: u8,
}

impl State<'_> {
    /// The node `nid`, which is to belong to `ino` and lie at `ofs` in its tree. `None`, with a
    /// finding, if it is not to be followed.
    pub fn node(&mut self, nid: Nid, ino: Nid, ofs: u32) -> Option<Node> {
        let finding = |kind, what: String| Finding::new(kind, what).ino(ino).nid(nid);
        if nid.0 == 0 || nid.0 >= self.volume.geo.max_nid {
            self.found.add(finding(
                Kind::NodeMissing,
                format!("nids end below {}", self.volume.geo.max_nid),
            ));
            return None;
        }
        let entry = self.tables.nat(nid, self.found);
        if entry.addr == BlockAddr::NULL {
            self.found.add(finding(
                Kind::NodeMissing,
                "the NAT has no address for it".to_string(),
            ));
            return None;
        }
        if !self.volume.geo.is_main(entry.addr) {
            let what = format!(
                "the NAT says address {}, no block of the main area",
                entry.addr
            );
            self.found.add(finding(Kind::NatEntry, what));
            return None;
        }
        if !self.seen_nodes.insert(nid.0) {
            self.found.add(finding(
                Kind::NodeShared,
                "something else names it, too".to_string(),
            ));
            return None;
        }
        if entry.ino != ino {
            let what = format!("the NAT says inode {}", entry.ino);
            self.found
                .add(finding(Kind::NatOwner, what).block(entry.addr));
        }
        let owner = Summary {
            nid,
            version: entry.version,
            ofs_in_node: 0,
        };
        let claim = Claim {
            addr: entry.addr,
            kind: SummaryKind::Node,
            owner,
            ino,
        };
        if !self.claim(&claim) {
            return None;
        }
        self.nodes += 1;
        self.blocks += 1;
        self.read_node(nid, ino, ofs, entry)
    }

    fn read_node(&mut self, nid: Nid, ino: Nid, ofs: u32, entry: NatEntry) -> Option<Node> {
        let block = self.volume.reader.block(entry.addr, self.found)?;
        let footer = footer(&block);
        let finding =
            |kind, what: String| Finding::new(kind, what).ino(ino).nid(nid).block(entry.addr);
        if footer.nid != nid || footer.ino != ino {
            let what = format!("the block says node {} of inode {}", footer.nid, footer.ino);
            self.found.add(finding(Kind::NodeFooter, what));
            return None;
        }
        if footer.ofs_of_node() != ofs {
            let what = format!(
                "the block says place {}, it is at {ofs}",
                footer.ofs_of_node()
            );
            self.found.add(finding(Kind::NodePlace, what));
        }
        Some(Node {
            nid,
            block,
            version: entry.version,
        })
    }
}

/// Follows all addresses of an inode.
pub(super) fn follow(state: &mut State<'_>, walk: &mut Walk, inode: &Node) {
    let in_inode = walk.fields.addrs_per_inode();
    addresses(state, walk, inode, walk.fields.addr_slot0(), in_inode, 0);
    let per_direct = u64::from(ADDRS_PER_BLOCK);
    let nids = walk.fields.nids;
    let mut fofs = u64::from(in_inode);
    for (n, nid) in nids.into_iter().enumerate() {
        if n < DIRECT {
            direct(state, walk, nid, 1 + n as u32, fofs);
            fofs += per_direct;
        } else if n < INDIRECT {
            let ofs = 3 + (n - DIRECT) as u32 * (1 + NIDS_PER_BLOCK);
            indirect(state, walk, nid, ofs, fofs);
            fofs += per_direct * u64::from(NIDS_PER_BLOCK);
        } else {
            double_indirect(state, walk, nid, 5 + 2 * NIDS_PER_BLOCK, fofs);
        }
    }
}

fn child(state: &mut State<'_>, walk: &mut Walk, nid: Nid, ofs: u32) -> Option<Node> {
    if nid == Nid(0) {
        return None;
    }
    let node = state.node(nid, walk.ino, ofs)?;
    walk.blocks += 1;
    Some(node)
}

fn direct(state: &mut State<'_>, walk: &mut Walk, nid: Nid, ofs: u32, fofs: u64) {
    if let Some(node) = child(state, walk, nid, ofs) {
        addresses(state, walk, &node, 0, ADDRS_PER_BLOCK, fofs);
    }
}

fn indirect(state: &mut State<'_>, walk: &mut Walk, nid: Nid, ofs: u32, fofs: u64) {
    if let Some(node) = child(state, walk, nid, ofs) {
        for n in 0..NIDS_PER_BLOCK {
            let below = fofs + u64::from(n) * u64::from(ADDRS_PER_BLOCK);
            direct(
                state,
                walk,
                nid_slot(&node.block, n as usize),
                ofs + 1 + n,
                below,
            );
        }
    }
}

fn double_indirect(state: &mut State<'_>, walk: &mut Walk, nid: Nid, ofs: u32, fofs: u64) {
    if let Some(node) = child(state, walk, nid, ofs) {
        for n in 0..NIDS_PER_BLOCK {
            let per_child = u64::from(ADDRS_PER_BLOCK) * u64::from(NIDS_PER_BLOCK);
            let below = fofs + u64::from(n) * per_child;
            let at = ofs + 1 + n * (1 + NIDS_PER_BLOCK);
            indirect(state, walk, nid_slot(&node.block, n as usize), at, below);
        }
    }
}

fn addresses(
    state: &mut State<'_>,
    walk: &mut Walk,
    node: &Node,
    slot0: usize,
    count: u32,
    fofs: u64,
) {
    for n in 0..count {
        let at = addr(&node.block, slot0 + n as usize);
        let file_block = fofs + u64::from(n);
        walk.note_extent(file_block, at);
        match at {
            BlockAddr::NULL => continue,
            BlockAddr::NEW => {
                walk.blocks += 1;
                state.blocks += 1;
                continue;
            }
            BlockAddr::COMPRESS if state.volume.features.has(Features::COMPRESSION) => continue,
            _ => {}
        }
        let owner = Summary {
            nid: node.nid,
            version: node.version,
            ofs_in_node: n as u16,
        };
        let claim = Claim {
            addr: at,
            kind: SummaryKind::Data,
            owner,
            ino: walk.ino,
        };
        walk.last_block = Some(file_block);
        walk.blocks += 1;
        if !state.claim(&claim) {
            continue;
        }
        state.blocks += 1;
        if walk.dir.is_some()
            && let Some(block) = state.volume.reader.block(at, state.found)
        {
            dirs::check_block(state, walk, file_block, at, &block);
        }
    }
}
