//! Checks images of NAT and SIT blocks against the records beside them (pages-J4): both say which
//! node numbers and data blocks were taken and freed in an epoch, and must agree. The records
//! count; a transaction in which the two differ was not made by this implementation.

use super::records::{Misfit, damaged};
use crate::segs::BlockMap;
use base::{BLOCK_BYTES, Map};
use ondisk::f2fs::journal::{Groups, PageKind, Record};
use ondisk::f2fs::{
    BLOCKS_PER_SEG, BlockAddr, Geometry, NAT_PER_BLOCK, NatEntry, Nid, SIT_PER_BLOCK, SegNo,
    SitEntry,
};
use std::collections::BTreeMap;

/// Images of one kind, by number.
type Pages<'a> = Map<u32, &'a [u8; BLOCK_BYTES]>;

/// Checks a payload whose records can all be read, and are of this volume.
pub(super) fn agree(payload: &[u8], geo: &Geometry) -> Result<(), Misfit> {
    let (mut nat, mut sit) = (Pages::default(), Pages::default());
    for_each(payload, |ino, record| {
        if let (
            Nid(0),
            Record::Page {
                what,
                number,
                block,
                ..
            },
        ) = (ino, record)
        {
            match what {
                PageKind::Nat => nat.insert(number, block.0),
                _ => sit.insert(number, block.0),
            };
        }
    });
    if !nat.is_empty() {
        nodes_agree(payload, &nat)?;
    }
    match sit.is_empty() {
        true => Ok(()),
        false => blocks_agree(payload, geo, &sit),
    }
}

fn for_each<'a>(payload: &'a [u8], mut see: impl FnMut(Nid, Record<'a>)) {
    for group in Groups::new(payload).flatten() {
        for record in group.iter().flatten() {
            see(group.ino, record);
        }
    }
}

fn nodes_agree(payload: &[u8], pages: &Pages<'_>) -> Result<(), Misfit> {
    let mut said: BTreeMap<Nid, (u8, Nid)> = BTreeMap::new();
    for_each(payload, |ino, record| match record {
        Record::NodeNew { nid, version, .. } => drop(said.insert(nid, (version, ino))),
        Record::NodeDel { nid, version } => drop(said.insert(nid, (version, Nid(0)))),
        Record::InodeDel {
            first,
            count,
            version,
        } => {
            let nids = (first.0..first.0 + u32::from(count)).map(Nid);
            said.extend(nids.map(|nid| (nid, (version, Nid(0)))));
        }
        _ => {}
    });
    for (nid, said) in said {
        let per_block = NAT_PER_BLOCK as u32;
        let Some(page) = pages.get(&(nid.0 / per_block)) else {
            continue;
        };
        let entry = NatEntry::get(&page[..], (nid.0 % per_block) as usize);
        let alive = entry.addr != BlockAddr::NULL;
        let same = (entry.version, entry.ino) == said && alive == (said.1 != Nid(0));
        if !same {
            return Err(damaged(format!(
                "node {nid}: its block of the NAT says {entry:?}, the records say version {} of inode {}",
                said.0, said.1
            )));
        }
    }
    Ok(())
}

fn blocks_agree(payload: &[u8], geo: &Geometry, pages: &Pages<'_>) -> Result<(), Misfit> {
    let mut said: BTreeMap<SegNo, [BlockMap; 2]> = BTreeMap::new();
    for_each(payload, |_, record| match record {
        Record::BlockRun {
            addr, count, alloc, ..
        } => {
            for addr in (addr.0..).take(count.into()).map(BlockAddr) {
                if let Some(seg) = geo.segno(addr) {
                    let of = &mut said.entry(seg).or_default()[usize::from(alloc)];
                    of.set(geo.offset_in_seg(addr));
                }
            }
        }
        Record::BlockMask {
            seg, alloc, mask, ..
        } => {
            said.entry(seg).or_default()[usize::from(alloc)].add(&BlockMap::from_bytes(mask));
        }
        _ => {}
    });
    for (seg, [freed, taken]) in said {
        let Some(page) = pages.get(&(seg.0 / SIT_PER_BLOCK as u32)) else {
            continue;
        };
        let entry = SitEntry::parse(&page[..], seg.0 as usize % SIT_PER_BLOCK);
        let valid = BlockMap::from_bytes(&entry.map);
        let mut odd = taken.without(&freed).without(&valid);
        odd.add(&freed.without(&freed.without(&valid)));
        if let Some(first) = odd.ones().next() {
            return Err(damaged(format!(
                "block {first} of segment {seg}: its block of the SIT and the records differ"
            )));
        }
        if u32::from(entry.valid) != valid.count() || u32::from(entry.valid) > BLOCKS_PER_SEG {
            return Err(damaged(format!(
                "segment {seg}: its block of the SIT counts {} valid blocks of {}",
                entry.valid,
                valid.count()
            )));
        }
    }
    Ok(())
}
