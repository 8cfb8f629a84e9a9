//! Redo of records: pure functions that turn records back into changes of the bytes of one node
//! block or one directory block.
//!
//! Records come from the device and are not trusted: a record that does not fit the block that it
//! names is an error and changes nothing in it, and no record makes these functions panic.
//!
//! Where a record means more than bytes of a block, the caller has to act on it:
//! - records of inode `ino` stand in its group, in the order of its operations; a block is redone
//!   by passing it all of them in that order;
//! - [`NodeNew`](Record::NodeNew) makes the block; whatever had this node number before does not
//!   count any more;
//! - a directory's block whose slot became NULL or NEW by a [`MapRun`](Record::MapRun) is zero from
//!   there on: the caller, which knows the page that a slot stands for, starts from zeros;
//! - a node's [`Page`](Record::Page) is all of it except for its footer, and for slots of
//!   directories, which keep the places that they have; redone on zeros it makes the node;
//! - [`NodeDel`](Record::NodeDel), `InodeDel`, `BlockRun`, `SumRun`, `Orphan*`, `Trunc`, `Head` and
//!   `Quota` concern no block here.

use crate::journal::pages::image::put_node;
use fscore::{FsError, FsResult};
use ondisk::f2fs::journal::{Content, PageKind, Record, attr};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCK_BYTES, BlockAddr, Dentry, DentryLayout, FOOTER_AT, Features, FileType,
    Footer, INODE_NID_SLOT0, Inline, InodeFields, NAME_BYTES_MAX, NIDS_PER_BLOCK, NODE_COLD, Nid,
    NodeKind, dentry_slots, footer, node_kind, set_addr, set_footer, set_nid_slot,
};
use std::ops::Range;

/// Redoes a record on the block of node `nid` of inode `ino`, in whose group it stands; `features`
/// are the volume's. Answers whether the record concerned this node.
///
/// # Errors
/// The record does not fit the node.
pub(crate) fn node(
    block: &mut [u8],
    nid: Nid,
    ino: Nid,
    features: Features,
    record: &Record<'_>,
) -> FsResult<bool> {
    if !concerns_node(nid, ino, record) {
        return Ok(false);
    }
    let done = match block.len() == BLOCK_BYTES {
        true => redo_node(block, nid, ino, features, record),
        false => Err("the block is no block"),
    };
    match done {
        Ok(()) => Ok(true),
        Err(why) => Err(FsError::corrupt(format!(
            "journal: {record:?} does not fit node {nid} of inode {ino}: {why}"
        ))),
    }
}

/// True if a record in the group of inode `ino` changes the block of its node `nid`.
pub(crate) fn concerns_node(nid: Nid, ino: Nid, record: &Record<'_>) -> bool {
    match *record {
        Record::InodeNew { .. } | Record::InodeAttr { .. } => nid == ino,
        Record::DentSet { block, .. }
        | Record::DentClear { block, .. }
        | Record::DentIno { block, .. } => nid == ino && block == Record::INLINE,
        Record::MapRun { nid: of, .. } | Record::NodeNew { nid: of, .. } => of == nid,
        Record::NodePtr { parent, .. } => parent == nid,
        Record::Bytes {
            content, nid: of, ..
        } => of == nid && content != Content::Dentries,
        Record::Page { what, number, .. } => what == PageKind::Node && number == nid.0,
        Record::NodeDel { .. }
        | Record::BlockRun { .. }
        | Record::BlockMask { .. }
        | Record::SumRun { .. }
        | Record::OrphanAdd
        | Record::OrphanDel
        | Record::Trunc { .. }
        | Record::Quota { .. }
        | Record::Head { .. }
        | Record::DataSum { .. }
        | Record::InodeDel { .. } => false,
    }
}

/// What makes a record impossible.
type Misfit = &'static str;

fn redo_node(
    block: &mut [u8],
    nid: Nid,
    ino: Nid,
    features: Features,
    record: &Record<'_>,
) -> Result<(), Misfit> {
    if let Record::NodeNew { ofs, cold, .. } = *record {
        return make_node(block, nid, ino, ofs, cold);
    }
    if let Record::Page { block: image, .. } = *record {
        return put_node(block, nid, ino, features, image.0);
    }
    let footer = footer(block);
    if footer.nid != nid || footer.ino != ino {
        return Err("the block is another node");
    }
    match *record {
        Record::InodeNew { mask, fields, name } => {
            set_fields(block, mask, fields)?;
            set_name(block, name)
        }
        Record::InodeAttr { mask, fields } => set_fields(block, mask, fields),
        Record::MapRun {
            slot, count, addr, ..
        } => {
            let slots = slots(block, &footer, features)?;
            map_run(block, slots, slot, count, addr)
        }
        Record::NodePtr { slot, child, .. } => node_ptr(block, &footer, slot, child),
        Record::Bytes { at, bytes, .. } => put_bytes(block, at, bytes, FOOTER_AT),
        Record::DentSet { .. } | Record::DentClear { .. } | Record::DentIno { .. } => {
            let layout = inline_layout(block, features)?;
            entry(block, &layout, record)
        }
        _ => Err("it concerns no block"),
    }
}

/// Redoes a record on page `page` of directory `dir`, in whose group it stands. Answers whether it
/// concerned this page.
///
/// # Errors
/// The record does not fit the page.
pub(crate) fn dir_block(
    block: &mut [u8],
    dir: Nid,
    page: u32,
    record: &Record<'_>,
) -> FsResult<bool> {
    if page_of(record) != Some(page) {
        return Ok(false);
    }
    let done = match *record {
        _ if block.len() != BLOCK_BYTES => Err("the block is no block"),
        Record::Bytes { nid, .. } if nid != dir => Err("it is of another directory"),
        Record::Bytes { at, bytes, .. } => put_bytes(block, at, &bytes[4..], BLOCK_BYTES),
        Record::Page { number, .. } if number != dir.0 => Err("it is of another directory"),
        Record::Page { block: image, .. } => {
            block.copy_from_slice(image.0);
            Ok(())
        }
        _ => entry(block, &DentryLayout::BLOCK, record),
    };
    match done {
        Ok(()) => Ok(true),
        Err(why) => Err(FsError::corrupt(format!(
            "journal: {record:?} does not fit page {page} of directory {dir}: {why}"
        ))),
    }
}

/// The node whose block a record in the group of inode `ino` changes, makes or frees. What an
/// `InodeDel` frees belongs to other inodes than its group.
pub(crate) fn node_of(record: &Record<'_>, ino: Nid) -> Option<Nid> {
    match *record {
        Record::InodeNew { .. } | Record::InodeAttr { .. } => Some(ino),
        Record::DentSet { block, .. }
        | Record::DentClear { block, .. }
        | Record::DentIno { block, .. } => (block == Record::INLINE).then_some(ino),
        Record::MapRun { nid, .. }
        | Record::NodeNew { nid, .. }
        | Record::NodeDel { nid, .. }
        | Record::NodePtr { parent: nid, .. } => Some(nid),
        Record::Bytes { content, nid, .. } => (content != Content::Dentries).then_some(nid),
        _ => None,
    }
}

/// The page of its directory that a record changes, if it is such a record.
pub(crate) fn page_of(record: &Record<'_>) -> Option<u32> {
    match *record {
        Record::DentSet { block, .. }
        | Record::DentClear { block, .. }
        | Record::DentIno { block, .. } => (block != Record::INLINE).then_some(block),
        Record::Bytes {
            content: Content::Dentries,
            bytes,
            ..
        } => Some(u32::from_le_bytes(*bytes.first_chunk()?)),
        Record::Page {
            what: PageKind::Dentries,
            page,
            ..
        } => Some(page),
        _ => None,
    }
}

fn make_node(block: &mut [u8], nid: Nid, ino: Nid, ofs: u32, cold: bool) -> Result<(), Misfit> {
    let mut footer = Footer {
        nid,
        ino,
        flags: if cold { NODE_COLD } else { 0 },
        ..Footer::default()
    };
    footer.set_ofs_of_node(ofs);
    if footer.ofs_of_node() != ofs {
        return Err("an offset beyond every tree");
    }
    if (nid == ino) != (node_kind(ofs) == NodeKind::Inode) {
        return Err("an inode and no other node has offset 0");
    }
    block.fill(0);
    set_footer(block, &footer);
    Ok(())
}

fn set_fields(block: &mut [u8], mask: u32, fields: &[u8]) -> Result<(), Misfit> {
    attr::unpack(block, mask, fields).map_err(|_| "the fields are not those of its mask")
}

fn set_name(block: &mut [u8], name: &[u8]) -> Result<(), Misfit> {
    if name.len() > NAME_BYTES_MAX {
        return Err("a name of more than 255 bytes");
    }
    attr::set_name(block, name);
    Ok(())
}

/// Words of the block that are addresses.
fn slots(block: &[u8], footer: &Footer, features: Features) -> Result<Range<usize>, Misfit> {
    match footer.kind() {
        NodeKind::Direct => Ok(0..ADDRS_PER_BLOCK as usize),
        NodeKind::Inode => {
            let fields = InodeFields::parse(block, features).map_err(|_| "no inode")?;
            if fields.inline.has(Inline::DATA) || fields.inline.has(Inline::DENTRY) {
                return Err("its content lies where addresses would");
            }
            let first = fields.addr_slot0();
            Ok(first..first + fields.addrs_per_inode() as usize)
        }
        _ => Err("it holds no addresses"),
    }
}

fn map_run(
    block: &mut [u8],
    slots: Range<usize>,
    slot: u16,
    count: u16,
    first: BlockAddr,
) -> Result<(), Misfit> {
    let from = slots.start + usize::from(slot);
    let to = from + usize::from(count);
    if to > slots.end {
        return Err("slots behind the last one");
    }
    let last = u32::from(count).checked_sub(1).ok_or("no slots")?;
    if first.is_data() {
        first
            .checked_add(last)
            .ok_or("addresses behind the last one")?;
        for (n, at) in (from..to).enumerate() {
            set_addr(block, at, BlockAddr(first.0 + n as u32));
        }
    } else {
        for at in from..to {
            set_addr(block, at, first);
        }
    }
    Ok(())
}

fn node_ptr(block: &mut [u8], footer: &Footer, slot: u16, child: Nid) -> Result<(), Misfit> {
    let slot = usize::from(slot);
    let legal = match footer.kind() {
        NodeKind::Inode => INODE_NID_SLOT0..INODE_NID_SLOT0 + 5,
        NodeKind::Indirect | NodeKind::DoubleIndirect => 0..NIDS_PER_BLOCK as usize,
        NodeKind::Direct | NodeKind::Xattr => 0..0,
    };
    if !legal.contains(&slot) {
        return Err("no node number stands there");
    }
    set_nid_slot(block, slot, child);
    Ok(())
}

fn put_bytes(block: &mut [u8], at: u16, bytes: &[u8], end: usize) -> Result<(), Misfit> {
    let at = usize::from(at);
    let to = at + bytes.len();
    if to > end {
        return Err("bytes behind the last one");
    }
    block[at..to].copy_from_slice(bytes);
    Ok(())
}

fn inline_layout(block: &[u8], features: Features) -> Result<DentryLayout, Misfit> {
    let fields = InodeFields::parse(block, features).map_err(|_| "no inode")?;
    match fields.is_dir() && fields.inline.has(Inline::DENTRY) {
        true => Ok(fields.inline_dentry_layout()),
        false => Err("it has no entries in the inode"),
    }
}

/// A record of a directory entry, on the block where the arrays lie as `layout` says.
fn entry(block: &mut [u8], layout: &DentryLayout, record: &Record<'_>) -> Result<(), Misfit> {
    let inside = |slot: u16, slots: usize| match usize::from(slot) + slots <= layout.max {
        true => Ok(usize::from(slot)),
        false => Err("slots behind the last one"),
    };
    match *record {
        Record::DentSet {
            slot,
            hash,
            ino,
            kind,
            name,
            ..
        } => {
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err("a name of no or more than 255 bytes");
            }
            let slot = inside(slot, dentry_slots(name.len()))?;
            let dentry = Dentry {
                hash,
                ino,
                kind,
                name,
            };
            ondisk::f2fs::put(block, layout, slot, &dentry);
        }
        Record::DentIno {
            slot, kind, ino, ..
        } => retarget(block, layout, inside(slot, 1)?, ino, kind),
        Record::DentClear { slot, slots, .. } => {
            let slot = inside(slot, usize::from(slots))?;
            clear_bits(
                &mut block[layout.bitmap.clone()],
                slot..slot + usize::from(slots),
            );
        }
        _ => return Err("it is no entry"),
    }
    Ok(())
}

fn retarget(block: &mut [u8], layout: &DentryLayout, slot: usize, ino: Nid, kind: FileType) {
    ondisk::f2fs::set_target(block, layout, slot, ino, kind);
}

fn clear_bits(bitmap: &mut [u8], slots: Range<usize>) {
    for slot in slots {
        bitmap[slot / 8] &= !(1 << (slot % 8));
    }
}
