//! Describes what changed in a node block or a directory block as records.
//!
//! Operations change blocks through [`Edit`], whose methods make the records of what they change.
//! Where no method says what is done, the block is compared with a copy from before, so that no
//! operation can forget a record: `redo(before, records)` is `after` byte for byte, except for what
//! writing the block sets (version, next address and fsync marks in the footer, and the checksum of
//! an inode). A difference that no other record describes better becomes [`Record::Bytes`].
//!
//! The copy of the bytes before is consumed: as each record is logged, its part of the copy becomes
//! the bytes after. What still differs at the end is logged as bytes, so a typed record that says
//! less than it should costs room in the log and nothing else.
//!
//! No record has the address of a node or directory block, because these change with a checkpoint
//! alone: such an address slot of a directory says NULL or NEW here.

pub(crate) mod edit;
#[cfg(test)]
pub(crate) mod hooks_tests;
pub mod measured;
mod pair;
pub(crate) mod redo;
#[cfg(test)]
mod shadow_tests;
#[cfg(test)]
mod tests;

pub(crate) use edit::Edit;

use base::bytes::{get_le16, get_le32};
use fscore::FsResult;
use ondisk::f2fs::journal::{Content, Record, attr};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCK_BYTES, BlockAddr, DENTRY_SLOT_BYTES, DentryLayout, FOOTER_AT, Features,
    FileType, Footer, INODE_EXTRA_BYTES_MAX, INODE_NID_SLOT0, Inline, InodeFields, NAME_BYTES_MAX,
    NIDS_PER_BLOCK, Nid, NodeKind, addr, addr_slot0, dentry_slots, footer, nid_slot,
};
use pair::{ENTRY_BYTES, EXTRA_AT, Pair};
use std::ops::Range;

/// Takes one record after the other.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(&Record<'_>);

/// Where the checksum of an inode stands: it is set when the block is written.
const CHECKSUM: Range<usize> = 0x170..0x174;

/// In test builds: whether the records that were logged make the block what it is.
pub(super) struct Check {
    redone: Vec<u8>,
    seen: Vec<String>,
}

impl Check {
    /// Before an edit.
    fn begin(block: &[u8]) -> Option<Check> {
        cfg!(debug_assertions).then(|| Check {
            redone: block.to_vec(),
            seen: Vec::new(),
        })
    }

    fn see(
        this: &mut Option<Check>,
        record: &Record<'_>,
        redo: impl FnOnce(&mut [u8], &Record<'_>) -> FsResult<bool>,
    ) {
        if let Some(this) = this {
            let done = redo(&mut this.redone, record);
            assert!(
                matches!(done, Ok(true)),
                "f2fs-journal-I3: {record:?} is not redone: {done:?}"
            );
            this.seen.push(format!("{record:?}"));
        }
    }

    /// `like`: what of the block no record says.
    fn end(this: Option<Check>, after: &[u8], like: impl FnOnce(&mut [u8])) {
        if let Some(mut this) = this {
            like(&mut this.redone);
            assert!(
                this.redone == after,
                "f2fs-journal-I3: these records do not make the block what it is: {:?}",
                this.seen
            );
        }
    }
}

/// Logs how a node block changed. `before` becomes `after`, except for version, next address and
/// marks in the footer, and the checksum.
///
/// # Panics
/// If a block is not 4096 bytes long. In test builds, if an edit made another node of it.
fn node(before: &mut [u8], after: &[u8], features: Features, emit: Emit<'_>) {
    let foot = footer(after);
    debug_assert!(
        is_same_node(&footer(before), &foot),
        "an edit makes no other node of a block"
    );
    as_written(before, after);
    let Some(mut pair) = Pair::new(before, after) else {
        return;
    };
    match foot.kind() {
        NodeKind::Inode => inode(&mut pair, &foot, features, emit),
        NodeKind::Direct => {
            let slots = 0..ADDRS_PER_BLOCK as usize;
            map_runs(&mut pair, slots, foot.nid, !foot.is_cold(), emit);
        }
        NodeKind::Indirect | NodeKind::DoubleIndirect => {
            node_ptrs(&mut pair, 0..NIDS_PER_BLOCK as usize, foot.nid, emit);
        }
        NodeKind::Xattr => bytes(&mut pair, 0..FOOTER_AT, Content::XattrNode, foot.nid, emit),
    }
    bytes(&mut pair, 0..FOOTER_AT, Content::Node, foot.nid, emit);
    debug_assert!(pair.is_settled(), "all of it is logged");
}

/// Makes of `before` what writing the block makes of `after` anyway.
fn as_written(before: &mut [u8], after: &[u8]) {
    before[FOOTER_AT..].copy_from_slice(&after[FOOTER_AT..]);
    if footer(after).is_inode() && has_checksum(after) {
        before[CHECKSUM].copy_from_slice(&after[CHECKSUM]);
    }
}

/// Logs how page `page` of directory `dir` changed. `before` becomes `after`.
///
/// # Panics
/// If a block is not 4096 bytes long.
fn dir_block(before: &mut [u8], after: &[u8], (dir, page): (Nid, u32), emit: Emit<'_>) {
    let Some(mut pair) = Pair::new(before, after) else {
        return;
    };
    entries(&mut pair, &DentryLayout::BLOCK, page, emit);
    let mut buf = Vec::new();
    pair.rest(0..BLOCK_BYTES, |at, part| {
        buf.clear();
        buf.extend_from_slice(&page.to_le_bytes());
        buf.extend_from_slice(part);
        emit(&Record::Bytes {
            content: Content::Dentries,
            nid: dir,
            at,
            bytes: &buf,
        });
    });
    debug_assert!(pair.is_settled(), "all of it is logged");
}

fn is_same_node(before: &Footer, after: &Footer) -> bool {
    (before.nid, before.ino, before.ofs_of_node()) == (after.nid, after.ino, after.ofs_of_node())
}

/// There is a checksum, or room for one that this volume does not use.
fn has_checksum(block: &[u8]) -> bool {
    4 * addr_slot0(block) >= CHECKSUM.end
}

/// The fields that differ. Extra attributes of no legal length are bytes like others.
fn changed_fields(before: &[u8], after: &[u8]) -> u32 {
    let mask = attr::changed(before, after);
    let bytes = get_le16(after, EXTRA_AT);
    match bytes <= INODE_EXTRA_BYTES_MAX && bytes.is_multiple_of(4) {
        true => mask,
        false => mask & (attr::EXTRA_ISIZE - 1),
    }
}

fn inode(pair: &mut Pair<'_>, foot: &Footer, features: Features, emit: Emit<'_>) {
    let nid = foot.nid;
    let slot0 = addr_slot0(pair.after);
    if pair.next(0..4 * slot0).is_some() {
        let mask = changed_fields(pair.before, pair.after);
        if mask != 0 {
            let fields = &attr::packed(pair.after, mask)[..];
            emit(&Record::InodeAttr { mask, fields });
            pair.settle_attrs(mask);
        }
        // What follows is laid out as these bytes say.
        bytes(pair, 0..4 * slot0, Content::Node, nid, emit);
    }
    let nids = INODE_NID_SLOT0..INODE_NID_SLOT0 + 5;
    node_ptrs(pair, nids, nid, emit);
    if pair.next(4 * slot0..4 * INODE_NID_SLOT0).is_none() {
        return;
    }
    if let Ok(fields) = InodeFields::parse(pair.after, features) {
        inode_body(pair, &fields, nid, emit);
    }
}

/// What lies between the fields of an inode and its node numbers.
fn inode_body(pair: &mut Pair<'_>, fields: &InodeFields, nid: Nid, emit: Emit<'_>) {
    let area = fields.inline_data_range();
    if fields.inline.has(Inline::DENTRY) {
        let layout = fields.inline_dentry_layout();
        entries(pair, &layout, Record::INLINE, emit);
    } else if fields.inline.has(Inline::DATA) {
        let content = match fields.is_symlink() {
            true => Content::Symlink,
            false => Content::InlineData,
        };
        bytes(pair, area, content, nid, emit);
    } else if fields.is_regular() || fields.is_dir() || fields.is_symlink() {
        let first = fields.addr_slot0();
        let slots = first..first + fields.addrs_per_inode() as usize;
        map_runs(pair, slots, nid, fields.is_dir(), emit);
    }
    bytes(
        pair,
        fields.inline_xattr_range(),
        Content::InlineXattr,
        nid,
        emit,
    );
}

fn bytes(pair: &mut Pair<'_>, range: Range<usize>, content: Content, nid: Nid, emit: Emit<'_>) {
    pair.rest(range, |at, bytes| {
        emit(&Record::Bytes {
            content,
            nid,
            at,
            bytes,
        })
    });
}

/// Words that are node numbers.
fn node_ptrs(pair: &mut Pair<'_>, words: Range<usize>, parent: Nid, emit: Emit<'_>) {
    let mut from = words.start;
    while let Some(at) = pair.next_word(from..words.end) {
        emit(&Record::NodePtr {
            parent,
            slot: at as u16,
            child: nid_slot(pair.after, at),
        });
        pair.settle(4 * at..4 * (at + 1));
        from = at + 1;
    }
}

/// Words that are addresses: runs from one that changed to another one.
fn map_runs(pair: &mut Pair<'_>, words: Range<usize>, nid: Nid, dir: bool, emit: Emit<'_>) {
    let mut from = words.start;
    while let Some(start) = pair.next_word(from..words.end) {
        let end = run_end(pair, start, words.end);
        emit(&Record::MapRun {
            nid,
            slot: (start - words.start) as u16,
            count: (end - start) as u16,
            addr: addr(pair.after, start),
            dir,
        });
        pair.settle(4 * start..4 * end);
        from = end;
    }
}

/// The word behind the last one that changed of the run that begins at `start`. Chunks in which
/// nothing changed end it.
fn run_end(pair: &Pair<'_>, start: usize, limit: usize) -> usize {
    let first = addr(pair.after, start);
    let mut end = start + 1;
    for at in start + 1..limit {
        let here = addr(pair.after, at);
        let like = match first {
            BlockAddr::NULL | BlockAddr::NEW => here == first,
            _ => first.is_data() && first.checked_add((at - start) as u32) == Some(here),
        };
        if !like || !pair.may_differ(4 * at) {
            break;
        }
        if addr(pair.before, at) != here {
            end = at + 1;
        }
    }
    end
}

/// Slots of a directory block, a bit each.
#[derive(Clone, Copy, Default)]
struct Slots([u64; 4]);

impl Slots {
    fn add(&mut self, slot: usize) {
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    fn next(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut word = self.0.get(at)? & (u64::MAX << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(64 * at + word.trailing_zeros() as usize)
    }
}

/// Directory entries where `layout` says; what they leave is the caller's.
fn entries(pair: &mut Pair<'_>, layout: &DentryLayout, block: u32, emit: Emit<'_>) {
    clears(pair, layout, block, emit);
    let touched = touched_slots(pair, layout);
    let mut from = 0;
    while let Some(slot) = touched.next(from) {
        from = slot + set_entry(pair, layout, block, slot, emit).unwrap_or(1);
    }
}

/// Slots that were used and are not.
fn clears(pair: &mut Pair<'_>, layout: &DentryLayout, block: u32, emit: Emit<'_>) {
    let start = layout.bitmap.start;
    let gone = |pair: &Pair<'_>, slot: usize| {
        let (bit, at) = (1 << (slot % 8), start + slot / 8);
        pair.before[at] & !pair.after[at] & bit != 0
    };
    let mut from = 0;
    while from < layout.max {
        // Bytes that are equal hold no cleared bit.
        let Some(at) = pair.next(start + from / 8..layout.bitmap.end) else {
            return;
        };
        from = from.max(8 * (at - start));
        if from >= layout.max || !gone(pair, from) {
            from += 1;
            continue;
        }
        let limit = layout.max.min(from + usize::from(u8::MAX));
        let end = (from + 1..limit)
            .find(|&slot| !gone(pair, slot))
            .unwrap_or(limit);
        emit(&Record::DentClear {
            block,
            slot: from as u16,
            slots: (end - from) as u8,
        });
        // Where a bit is gone, what was there is kept.
        for slot in from..end {
            pair.before[start + slot / 8] &= !(1 << (slot % 8));
        }
        from = end;
    }
}

/// Slots in whose bit, entry or name something differs.
fn touched_slots(pair: &mut Pair<'_>, layout: &DentryLayout) -> Slots {
    let mut found = Slots::default();
    let mut from = layout.bitmap.start;
    while let Some(at) = pair.next(from..layout.bitmap.end) {
        let mut bits = pair.before[at] ^ pair.after[at];
        while bits != 0 {
            let slot = 8 * (at - layout.bitmap.start) + bits.trailing_zeros() as usize;
            if slot < layout.max {
                found.add(slot);
            }
            bits &= bits - 1;
        }
        from = at + 1;
    }
    for (array, each) in [
        (&layout.entries, ENTRY_BYTES),
        (&layout.names, DENTRY_SLOT_BYTES),
    ] {
        let mut from = array.start;
        while let Some(at) = pair.next(from..array.end) {
            let slot = (at - array.start) / each;
            found.add(slot);
            from = array.start + (slot + 1) * each;
        }
    }
    found
}

/// Logs the entry that begins at `slot`, if one does that is in use and differs; answers its slots.
fn set_entry(
    pair: &mut Pair<'_>,
    layout: &DentryLayout,
    block: u32,
    slot: usize,
    emit: Emit<'_>,
) -> Option<usize> {
    let bits = layout.bitmap.start + slot / 8;
    let used = |byte: u8| byte & 1 << (slot % 8) != 0;
    let at = layout.entries.start + slot * ENTRY_BYTES;
    let entry: &[u8; ENTRY_BYTES] = pair.after[at..].first_chunk()?;
    let kind = FileType::from_code(entry[10]);
    if !used(pair.after[bits]) || kind.code() != entry[10] {
        return None;
    }
    let ino = Nid(get_le32(entry, 4));
    let was = &pair.before[at..at + ENTRY_BYTES];
    let slot_no = slot as u16;
    if used(pair.before[bits]) && was[..4] == entry[..4] && was[8..10] == entry[8..10] {
        if was == entry {
            return None;
        }
        emit(&Record::DentIno {
            block,
            slot: slot_no,
            kind,
            ino,
        });
        pair.settle(at..at + ENTRY_BYTES);
        return Some(1);
    }
    let len = usize::from(u16::from_le_bytes([entry[8], entry[9]]));
    let slots = dentry_slots(len);
    if len == 0 || len > NAME_BYTES_MAX || slot + slots > layout.max {
        return None;
    }
    let names = layout.names.start + slot * DENTRY_SLOT_BYTES;
    let dentry = ondisk::f2fs::Dentry {
        hash: get_le32(entry, 0),
        ino,
        kind,
        name: &pair.after[names..names + len],
    };
    emit(&Record::DentSet {
        block,
        slot: slot_no,
        hash: dentry.hash,
        ino,
        kind,
        name: dentry.name,
    });
    let entries = at..at + slots * ENTRY_BYTES;
    ondisk::f2fs::put(pair.before, layout, slot, &dentry);
    // Bits and lengths of its other slots: those of a damaged block may be others.
    pair.stir(layout.bitmap.clone());
    pair.stir(entries);
    Some(slots)
}
