//! Reads the chain of roll-forward, and decides which of its nodes count.

use crate::F2fs;
use crate::fault;
use crate::ops::Op;
use base::{BlockNo, BlockSize, Bytes, Mutant, Set};
use fscore::{FsError, FsResult};
use ondisk::f2fs::{
    BLOCKS_PER_SEG, BlockAddr, Footer, Inline, Log, Nid, NodeKind, addr, addr_slot0, footer,
    verify_inode_checksum,
};
use std::collections::BTreeMap;

/// Blocks read at once.
const AHEAD: u32 = 64;

/// A node block of the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub at: BlockAddr,
    pub footer: Footer,
}

/// What the chain says of one inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    /// Its last node with a mark.
    pub last: usize,
    /// Its first inode block from which it can be made, if the checkpoint does not have it.
    pub made_from: Option<usize>,
    /// The last inode block that asks for its name.
    pub name: Option<usize>,
}

/// What of the chain counts.
pub(super) struct Plan {
    pub inodes: BTreeMap<Nid, Wanted>,
}

/// Reads blocks of the main area, some ahead: a chain mostly runs on.
#[derive(Default)]
pub(super) struct Reader {
    first: u32,
    blocks: Vec<Bytes>,
}

impl Reader {
    pub fn read(&mut self, fs: &F2fs, at: BlockAddr) -> FsResult<Bytes> {
        let known = at.0.checked_sub(self.first).map(|n| n as usize);
        if let Some(block) = known.and_then(|n| self.blocks.get(n)) {
            return Ok(block.clone());
        }
        let left = BLOCKS_PER_SEG - fs.geo.offset_in_seg(at);
        let count = u64::from(left.min(AHEAD));
        let read = fs
            .queue
            .read_blocks(BlockNo(at.into()).lba(), count, BlockSize::KIB4);
        self.blocks = read.map_err(fault::device("reading the chain of roll-forward"))?;
        self.first = at.0;
        Ok(self.blocks[0].clone())
    }
}

impl F2fs {
    /// The node blocks since the last checkpoint, in order (recover-V1).
    pub(super) fn read_chain(&self) -> FsResult<Vec<Link>> {
        let mut chain = Vec::new();
        let mut seen = Set::default();
        let mut reader = Reader::default();
        let mut at = self.segs.next_of(Log::WarmNode);
        while self.geo.is_main(at) {
            let block = reader.read(self, at)?;
            let footer = footer(&block);
            if !self.cp.is_chain_version(footer.cp_ver) && !rt::mutant(Mutant::F2fsAnyVersion) {
                break;
            }
            if footer.is_inode()
                && verify_inode_checksum(&block, self.features, self.inode_seed).is_err()
            {
                break;
            }
            if !seen.insert(at) {
                return Err(FsError::corrupt(format!(
                    "the chain of node blocks comes back to block {at}"
                )));
            }
            self.check_link(at, &footer)?;
            chain.push(Link { at, footer });
            at = footer.next;
        }
        Ok(chain)
    }

    fn check_link(&self, at: BlockAddr, footer: &Footer) -> FsResult<()> {
        let number = |nid: Nid| nid.0 > self.geo.root.0 && nid.0 < self.geo.max_nid;
        let what = if !number(footer.nid) || !number(footer.ino) {
            format!("says it is node {} of inode {}", footer.nid, footer.ino)
        } else if footer.is_inode() != (footer.kind() == NodeKind::Inode) {
            format!("says it is node {} of itself", footer.ofs_of_node())
        } else if self.segs.is_valid(at)? {
            "is in use by the last checkpoint".into()
        } else {
            return Ok(());
        };
        Err(FsError::corrupt(format!("block {at} of the chain {what}")))
    }

    /// recover-V2: keeps the chain, and the data that it leads to, from the logs. The data first: a
    /// log of nodes that has to leave its segment must not open one that holds it.
    pub(super) fn hold_chain(&self, op: &Op<'_>, chain: &[Link], plan: &Plan) -> FsResult<()> {
        let mut reader = Reader::default();
        for (n, link) in chain.iter().enumerate() {
            if plan.counts(n, link) {
                let block = reader.read(self, link.at)?;
                for at in data_of(&block).filter(|&at| self.geo.is_main(at)) {
                    self.hold(op, at)?;
                }
            }
        }
        if rt::mutant(Mutant::F2fsOverwriteChain) {
            return Ok(());
        }
        chain.iter().try_for_each(|link| self.hold(op, link.at))
    }
}

/// The words of a node block where addresses of data may stand.
pub(super) fn slots_of(block: &[u8]) -> std::ops::Range<usize> {
    let footer = footer(block);
    match footer.kind() {
        NodeKind::Inode => {
            let inline = Inline(block[3]);
            let start = addr_slot0(block);
            match inline.has(Inline::DATA) || inline.has(Inline::DENTRY) {
                true => start..start,
                false => start..ondisk::f2fs::INODE_NID_SLOT0,
            }
        }
        NodeKind::Direct => 0..ondisk::f2fs::ADDRS_PER_BLOCK as usize,
        _ => 0..0,
    }
}

fn data_of(block: &[u8]) -> impl Iterator<Item = BlockAddr> {
    slots_of(block)
        .map(|slot| addr(block, slot))
        .filter(|at| at.is_data())
}

impl Plan {
    /// Which inodes have a node with a mark, and can be found or made.
    pub fn new(fs: &F2fs, chain: &[Link]) -> FsResult<Plan> {
        let mut inodes: BTreeMap<Nid, Wanted> = BTreeMap::new();
        for (n, link) in chain.iter().enumerate() {
            let footer = &link.footer;
            if !footer.is_fsync() {
                continue;
            }
            let ino = footer.ino;
            let named = footer.is_inode() && footer.is_dentry();
            if let Some(wanted) = inodes.get_mut(&ino) {
                wanted.last = n;
                wanted.name = if named { Some(n) } else { wanted.name };
                continue;
            }
            let known = fs.nat.get(ino)?.addr != BlockAddr::NULL;
            if known || named {
                let wanted = Wanted {
                    last: n,
                    made_from: (!known).then_some(n),
                    name: named.then_some(n),
                };
                inodes.insert(ino, wanted);
            }
        }
        Ok(Plan { inodes })
    }

    pub fn is_empty(&self) -> bool {
        self.inodes.is_empty()
    }

    /// True if the `n`-th block of the chain is to be applied: it belongs to an inode that comes
    /// back, and does not lie behind the last mark of that inode.
    pub fn counts(&self, n: usize, link: &Link) -> bool {
        self.inodes
            .get(&link.footer.ino)
            .is_some_and(|w| n <= w.last)
    }
}
