//! Checks the records of a transaction against the volume; the whole chain is checked before
//! anything is redone.
//!
//! A contradiction with one block (such as a slot behind the last one of a node) is found by the
//! code that redoes the record. Here records are checked against the volume: node numbers exist,
//! are in use, and belong to the inode in whose group the record stands; addresses lie in the main
//! area; segments exist. Blocks that the chain calls valid are noted, and so is where the logs
//! stand at the end of the chain.
//!
//! - U1 a checksum is of a data block that the same transaction takes, and of each such block there
//!   is one at most, and they are no more than the format has: so a hostile ring makes a mount read
//!   no more, and cannot make it leave an epoch out for a block that is not its own;
//! - U2 inodes that are freed together are inodes, each of them in use, and no group of an inode
//!   stands behind them in the same epoch (tx-O1): so a hostile ring can free no number twice, none
//!   that is no inode's, and none that it gives to somebody else in one epoch.

use super::tables;
use crate::segs::Head;
use base::Map;
use fscore::FsResult;
use ondisk::f2fs::journal::{
    Content, DATA_SUMS_MAX, Group, Groups, JournalVersion, PageKind, Record, Sums,
};
use ondisk::f2fs::{
    BLOCKS_PER_SEG, BlockAddr, Geometry, Nid, NodeKind, SIT_PER_BLOCK, bits, node_kind,
};
use std::collections::{BTreeMap, BTreeSet};

/// Looks up which inode owned a node number before the chain; `None`: none did.
pub(super) type Owner<'a> = &'a dyn Fn(Nid) -> FsResult<Option<Nid>>;

/// Why a record cannot be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Misfit {
    /// It is of a kind that is not supported.
    pub unsupported: bool,
    /// Which one, and what is wrong with it.
    pub what: String,
}

/// What the records of the chain have said so far.
pub(super) struct Check<'a> {
    geo: &'a Geometry,
    owner: Owner<'a>,
    /// Node numbers that came or went in the chain.
    changed: Map<Nid, Option<Nid>>,
    /// Data blocks that became valid: first, how many.
    pub taken: Vec<(BlockAddr, u32)>,
    /// Where each log stands, in the order of `Log::ALL`.
    pub heads: [Option<Head>; 6],
    pub records: u64,
    /// Checksums of the transaction that was checked last, by address.
    pub sums: BTreeMap<BlockAddr, u32>,
    /// What records the ring may have.
    version: JournalVersion,
    /// Inodes were freed together in the transaction that is being checked (U2).
    ended: bool,
}

impl<'a> Check<'a> {
    pub fn new(geo: &'a Geometry, owner: Owner<'a>, version: JournalVersion) -> Check<'a> {
        Check {
            geo,
            owner,
            changed: Map::default(),
            taken: Vec::new(),
            heads: [None; 6],
            records: 0,
            sums: BTreeMap::new(),
            version,
            ended: false,
        }
    }

    /// Checks the records of one transaction. The outer error is I/O of the NAT.
    pub fn transaction(&mut self, payload: &[u8]) -> FsResult<Result<(), Misfit>> {
        self.sums.clear();
        self.ended = false;
        let taken = self.taken.len();
        for (n, group) in Groups::new(payload).enumerate() {
            let group = match group {
                Ok(group) => group,
                Err(e) => return Ok(Err(damaged(format!("group {n}: {e}")))),
            };
            let bad = |at: usize, mut why: Misfit| {
                let ino = group.ino;
                why.what = format!("group {n}, of inode {ino}, record {at}: {}", why.what);
                Ok(Err(why))
            };
            if group.ino != Nid(0) {
                if let Err(why) = self.known(group.ino) {
                    return bad(0, why);
                }
                if self.ended {
                    let what = "it stands behind inodes that are freed together";
                    return bad(0, damaged(what.into()));
                }
            }
            for (at, record) in group.iter().enumerate() {
                self.records += 1;
                match record {
                    Err(e) => return bad(at, damaged(e.to_string())),
                    Ok(record) => match self.record(&group, &record)? {
                        Ok(()) => {}
                        Err(why) => return bad(at, why),
                    },
                }
            }
        }
        let owned = self.sums_are_of(taken);
        Ok(owned.and_then(|()| tables::agree(payload, self.geo)))
    }

    /// U1: each checksum is of a block that became valid since `taken` had so many entries.
    fn sums_are_of(&self, taken: usize) -> Result<(), Misfit> {
        let mut left: BTreeSet<BlockAddr> = self.sums.keys().copied().collect();
        for &(first, count) in &self.taken[taken..] {
            let run = first..BlockAddr(first.0 + count);
            while let Some(&addr) = left.range(run.clone()).next() {
                left.remove(&addr);
            }
        }
        match left.first() {
            None => Ok(()),
            Some(addr) => Err(damaged(format!(
                "a checksum of block {addr}, which the transaction does not take"
            ))),
        }
    }

    /// U1.
    fn data_sum(&mut self, addr: BlockAddr, sums: Sums<'_>) -> Result<(), Misfit> {
        let count = sums.count() as u32;
        if self.version < JournalVersion::Summed {
            return Err(damaged("checksums of data, in a ring of version 1".into()));
        }
        if !self.in_main(addr, count) {
            return Err(outside(addr, count));
        }
        for (n, sum) in (0..).zip(sums.iter()) {
            let addr = BlockAddr(addr.0 + n);
            if self.sums.insert(addr, sum).is_some() {
                return Err(damaged(format!("two checksums of block {addr}")));
            }
        }
        match self.sums.len() > DATA_SUMS_MAX {
            true => Err(damaged(format!("more than {DATA_SUMS_MAX} checksums"))),
            false => Ok(()),
        }
    }

    fn record(&mut self, group: &Group<'_>, record: &Record<'_>) -> FsResult<Result<(), Misfit>> {
        let ino = group.ino;
        let of_volume = match record {
            Record::Head { .. } | Record::DataSum { .. } | Record::InodeDel { .. } => true,
            // Of several inodes together.
            Record::BlockRun { alloc, .. } | Record::BlockMask { alloc, .. } => !alloc,
            Record::Page { what, .. } => matches!(what, PageKind::Nat | PageKind::Sit),
            _ => false,
        };
        if ino == Nid(0) && !of_volume {
            return Ok(Err(damaged("it belongs to no inode".into())));
        }
        match *record {
            Record::NodeNew { nid, ofs, .. } => self.new_node(ino, nid, ofs),
            Record::NodeDel { nid, .. } => {
                let fits = self.is_of(ino, nid)?;
                self.changed.insert(nid, None);
                Ok(fits)
            }
            Record::InodeNew { .. } | Record::InodeAttr { .. } => self.is_of(ino, ino),
            Record::DentSet { ino: child, .. } | Record::DentIno { ino: child, .. } => {
                match self.known(child) {
                    Ok(()) => self.is_of(ino, ino),
                    bad => Ok(bad),
                }
            }
            Record::DentClear { .. } => self.is_of(ino, ino),
            Record::MapRun {
                nid, addr, count, ..
            } => match addr.is_data() && !self.in_main(addr, count.into()) {
                true => Ok(Err(outside(addr, count.into()))),
                false => self.is_of(ino, nid),
            },
            Record::NodePtr { parent, child, .. } => match child {
                Nid(0) => self.is_of(ino, parent),
                child => match self.known(child) {
                    Ok(()) => self.is_of(ino, parent),
                    bad => Ok(bad),
                },
            },
            Record::Bytes {
                content: Content::Dentries,
                nid,
                ..
            } if nid != ino => Ok(Err(damaged(format!("entries of directory {nid}")))),
            Record::Bytes { nid, .. } => self.is_of(ino, nid),
            Record::Page { what, number, .. } => self.page(ino, what, number),
            Record::DataSum { .. } if ino != Nid(0) => {
                Ok(Err(damaged("checksums of data are of no inode".into())))
            }
            Record::InodeDel { first, count, .. } => self.ends(ino, first, count),
            _ => Ok(self.table_record(record)),
        }
    }

    /// U2.
    fn ends(&mut self, ino: Nid, first: Nid, count: u16) -> FsResult<Result<(), Misfit>> {
        if self.version < JournalVersion::Together {
            let version = self.version;
            let what = format!("inodes that are freed together, in a ring of version {version}");
            return Ok(Err(damaged(what)));
        }
        if ino != Nid(0) {
            let what = "inodes that are freed together are of no inode";
            return Ok(Err(damaged(what.into())));
        }
        for nid in (first.0..first.0 + u32::from(count)).map(Nid) {
            if let Err(why) = self.is_of(nid, nid)? {
                return Ok(Err(why));
            }
            self.changed.insert(nid, None);
        }
        self.ended = true;
        Ok(Ok(()))
    }

    /// Records about no node.
    fn table_record(&mut self, record: &Record<'_>) -> Result<(), Misfit> {
        match *record {
            Record::BlockRun {
                addr, count, alloc, ..
            } => {
                let count = count.into();
                if !self.in_main(addr, count) {
                    return Err(outside(addr, count));
                }
                if alloc {
                    self.taken.push((addr, count));
                }
                Ok(())
            }
            Record::BlockMask {
                seg, alloc, mask, ..
            } => {
                self.segment(seg.0)?;
                if alloc {
                    let start = self.geo.seg_start(seg);
                    let ones = (0..BLOCKS_PER_SEG).filter(|&n| bits::test_bit(mask, n as usize));
                    self.taken.extend(ones.map(|n| (BlockAddr(start.0 + n), 1)));
                }
                Ok(())
            }
            Record::SumRun {
                addr, count, nid, ..
            } => match self.in_main(addr, count.into()) {
                true => self.known(nid),
                false => Err(outside(addr, count.into())),
            },
            Record::Head {
                log,
                alloc,
                seg,
                next,
            } => {
                self.segment(seg.0)?;
                self.heads[log.index()] = Some(Head {
                    log,
                    alloc,
                    seg,
                    next,
                });
                Ok(())
            }
            Record::DataSum { addr, sums } => self.data_sum(addr, sums),
            Record::Quota { kind, id, .. } => Err(Misfit {
                unsupported: true,
                what: format!("usage of quota {kind} of id {id}"),
            }),
            _ => Ok(()),
        }
    }

    /// A whole block: its content is checked when it is redone, or by [`tables`].
    fn page(&self, ino: Nid, what: PageKind, number: u32) -> FsResult<Result<(), Misfit>> {
        let most = match what {
            PageKind::Node => return self.is_of(ino, Nid(number)),
            PageKind::Dentries if number != ino.0 => {
                return Ok(Err(damaged(format!("a page of directory {number}"))));
            }
            PageKind::Dentries => return self.is_of(ino, ino),
            PageKind::Nat => self.geo.nat_blocks,
            PageKind::Sit => self.geo.segments_main.div_ceil(SIT_PER_BLOCK as u32),
        };
        Ok(match ino == Nid(0) && number < most {
            true => Ok(()),
            false => Err(damaged(format!(
                "{} block {number}; the volume has {most}, and they are of inode 0",
                what.word()
            ))),
        })
    }

    fn new_node(&mut self, ino: Nid, nid: Nid, ofs: u32) -> FsResult<Result<(), Misfit>> {
        if let Err(why) = self.known(nid) {
            return Ok(Err(why));
        }
        if (nid == ino) != (node_kind(ofs) == NodeKind::Inode) {
            return Ok(Err(damaged(format!("node {nid} at offset {ofs}"))));
        }
        if let Some(owner) = self.owner_of(nid)? {
            let what = format!("node {nid} is made, and inode {owner} has it");
            return Ok(Err(damaged(what)));
        }
        self.changed.insert(nid, Some(ino));
        Ok(Ok(()))
    }

    fn owner_of(&self, nid: Nid) -> FsResult<Option<Nid>> {
        match self.changed.get(&nid) {
            Some(&owner) => Ok(owner),
            None => (self.owner)(nid),
        }
    }

    /// The node is in use, and of that inode.
    fn is_of(&self, ino: Nid, nid: Nid) -> FsResult<Result<(), Misfit>> {
        if let Err(why) = self.known(nid) {
            return Ok(Err(why));
        }
        Ok(match self.owner_of(nid)? {
            Some(owner) if owner == ino => Ok(()),
            Some(owner) => Err(damaged(format!("node {nid} is of inode {owner}"))),
            None => Err(damaged(format!("node {nid} is free"))),
        })
    }

    /// There is such a number.
    fn known(&self, nid: Nid) -> Result<(), Misfit> {
        let geo = self.geo;
        let reserved = nid == Nid(0) || nid == geo.node_ino || nid == geo.meta_ino;
        match !reserved && nid.0 < geo.max_nid {
            true => Ok(()),
            false => Err(damaged(format!(
                "node number {nid}; there are numbers up to {}",
                geo.max_nid - 1
            ))),
        }
    }

    fn in_main(&self, first: BlockAddr, count: u32) -> bool {
        let last = count.checked_sub(1).and_then(|n| first.checked_add(n));
        self.geo.is_main(first) && last.is_some_and(|last| self.geo.is_main(last))
    }

    fn segment(&self, seg: u32) -> Result<(), Misfit> {
        let most = self.geo.segments_main;
        match seg < most {
            true => Ok(()),
            false => Err(damaged(format!("segment {seg}; the main area has {most}"))),
        }
    }
}

pub(super) fn damaged(what: String) -> Misfit {
    Misfit {
        unsupported: false,
        what,
    }
}

fn outside(addr: BlockAddr, count: u32) -> Misfit {
    damaged(format!("{count} blocks from {addr} on leave the main area"))
}
