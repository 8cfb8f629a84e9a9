//! What changed in a node block or a directory block, as records: by comparing the bytes before and after.
//!
//! So no operation can forget a record, and `redo(before, records)` is `after` byte for byte but for what writing the block sets: version,
//! next address and fsync marks in the footer, and the checksum of an inode. A difference that no record describes better is
//! [`Record::Bytes`].
//!
//! The bytes before are given up: they become those after, piece by piece, as each record is logged. Whatever is left at the end is
//! logged as bytes, so that a typed record which says less than it should costs room and nothing else.
//!
//! Directory blocks and the address slots of a directory say NULL or NEW here; addresses of nodes and directory blocks are a checkpoint's
//! business alone.

use super::redo;
use base::bytes::{get_le16, get_le32};
use fscore::FsResult;
use ondisk::f2fs::journal::{Content, Record, attr};
use ondisk::f2fs::{
    ADDRS_PER_BLOCK, BLOCK_BYTES, BlockAddr, DENTRY_SLOT_BYTES, DentryLayout, FOOTER_AT, Features,
    FileType, Footer, INODE_EXTRA_BYTES_MAX, INODE_NID_SLOT0, Inline, InodeFields, NAME_BYTES_MAX,
    NIDS_PER_BLOCK, Nid, NodeKind, addr, addr_slot0, dentry_slots, footer, nid_slot, set_footer,
};
use std::ops::Range;

/// Takes one record after the other.
pub(crate) type Emit<'a> = &'a mut dyn FnMut(&Record<'_>);

/// Bytes compared at once: 64 of these are a block.
const CHUNK: usize = 64;
/// Equal bytes between two changed ones that are logged rather than a record of their own.
const GAP: usize = 12;
/// Where the checksum of an inode stands: whoever writes the block sets it.
const CHECKSUM: Range<usize> = 0x170..0x174;
/// Bytes of a directory entry in its array.
const ENTRY_BYTES: usize = 11;

/// A block before and after, and which chunks of it differ still.
struct Pair<'a> {
    before: &'a mut [u8],
    after: &'a [u8],
    /// Bit n: chunk n may differ.
    chunks: u64,
}

impl<'a> Pair<'a> {
    /// `None` if nothing differs.
    fn new(before: &'a mut [u8], after: &'a [u8]) -> Option<Pair<'a>> {
        assert!(
            before.len() == BLOCK_BYTES && after.len() == BLOCK_BYTES,
            "whole blocks are compared"
        );
        let mut chunks = 0;
        let (b, a) = (before.as_chunks::<CHUNK>().0, after.as_chunks::<CHUNK>().0);
        for (n, (b, a)) in b.iter().zip(a).enumerate() {
            chunks |= u64::from(b != a) << n;
        }
        (chunks != 0).then_some(Pair {
            before,
            after,
            chunks,
        })
    }

    /// The first byte of `range` that differs.
    fn next(&self, range: Range<usize>) -> Option<usize> {
        let mut at = range.start;
        while at < range.end {
            let chunk = at / CHUNK;
            let end = range.end.min((chunk + 1) * CHUNK);
            if self.chunks >> chunk & 1 == 1 {
                let (b, a) = (&self.before[at..end], &self.after[at..end]);
                if let Some(n) = b.iter().zip(a).position(|(b, a)| b != a) {
                    return Some(at + n);
                }
            }
            at = end;
        }
        None
    }

    /// The first word of `words` that differs.
    fn next_word(&self, words: Range<usize>) -> Option<usize> {
        self.next(4 * words.start..4 * words.end).map(|at| at / 4)
    }

    /// `range` is logged.
    fn settle(&mut self, range: Range<usize>) {
        self.before[range.clone()].copy_from_slice(&self.after[range]);
    }

    /// Whatever differs in `range`, as bytes.
    fn rest(&mut self, range: Range<usize>, mut log: impl FnMut(u16, &[u8])) {
        let mut from = range.start;
        while let Some(start) = self.next(from..range.end) {
            let mut end = start + 1;
            while let Some(more) = self.next(end..range.end.min(end + GAP)) {
                end = more + 1;
            }
            log(start as u16, &self.after[start..end]);
            self.settle(start..end);
            from = end;
        }
    }

    /// A record did something to `range` that the bytes after need not say.
    fn stir(&mut self, range: Range<usize>) {
        for chunk in range.start / CHUNK..range.end.div_ceil(CHUNK) {
            self.chunks |= 1 << chunk;
        }
    }

    fn is_settled(&self) -> bool {
        *self.before == *self.after
    }
}

/// In test builds: whether the records that were logged make the block what it is.
struct Check {
    redone: Vec<u8>,
    seen: Vec<String>,
}

impl Check {
    fn begin(before: &[u8]) -> Option<Check> {
        cfg!(debug_assertions).then(|| Check {
            redone: before.to_vec(),
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
                "I3: {record:?} is not redone: {done:?}"
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
                "I3: these records do not make the block what it is: {:?}",
                this.seen
            );
        }
    }
}

/// Logs how a node block changed. `before` becomes `after`, but for version, next address and marks in the footer, and the checksum.
///
/// # Panics
/// If a block is not 4096 bytes long. In test builds, if an edit made another node of it.
pub(crate) fn node(before: &mut [u8], after: &[u8], features: Features, emit: Emit<'_>) {
    let foot = footer(after);
    debug_assert!(
        is_same_node(&footer(before), &foot),
        "an edit makes no other node of a block"
    );
    as_written(before, after);
    let mut check = Check::begin(before);
    let emit: Emit<'_> = &mut |record| {
        Check::see(&mut check, record, |block, record| {
            redo::node(block, foot.nid, foot.ino, features, record)
        });
        emit(record);
    };
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
    Check::end(check, after, |redone| as_written(redone, after));
}

/// Makes of `before` what writing the block makes of `after` anyway.
fn as_written(before: &mut [u8], after: &[u8]) {
    before[FOOTER_AT..].copy_from_slice(&after[FOOTER_AT..]);
    if footer(after).is_inode() && has_checksum(after) {
        before[CHECKSUM].copy_from_slice(&after[CHECKSUM]);
    }
}

/// Logs a new node: what it is, and what it holds; `version`: that of its NAT entry. `scratch` becomes `after`.
///
/// # Panics
/// If a block is not 4096 bytes long.
pub(crate) fn new_node(
    scratch: &mut [u8],
    after: &[u8],
    version: u8,
    features: Features,
    emit: Emit<'_>,
) {
    let foot = footer(after);
    emit(&Record::NodeNew {
        nid: foot.nid,
        ofs: foot.ofs_of_node(),
        cold: foot.is_cold(),
        version,
    });
    scratch.fill(0);
    set_footer(scratch, &foot);
    if foot.is_inode() {
        new_inode(scratch, after, emit);
    }
    node(scratch, after, features, emit);
}

/// Logs how page `page` of directory `dir` changed. `before` becomes `after`.
///
/// # Panics
/// If a block is not 4096 bytes long.
pub(crate) fn dir_block(before: &mut [u8], after: &[u8], dir: Nid, page: u32, emit: Emit<'_>) {
    let mut check = Check::begin(before);
    let emit: Emit<'_> = &mut |record| {
        Check::see(&mut check, record, |block, record| {
            redo::dir_block(block, dir, page, record)
        });
        emit(record);
    };
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
    Check::end(check, after, |_| {});
}

fn is_same_node(before: &Footer, after: &Footer) -> bool {
    (before.nid, before.ino, before.ofs_of_node()) == (after.nid, after.ino, after.ofs_of_node())
}

/// There is a checksum, or room for one that this volume does not use.
fn has_checksum(block: &[u8]) -> bool {
    4 * addr_slot0(block) >= CHECKSUM.end
}

/// The fields of a new inode, and its name.
fn new_inode(scratch: &mut [u8], after: &[u8], emit: Emit<'_>) {
    let mask = changed_fields(scratch, after) & !attr::NAME;
    let fields = attr::pack(after, mask);
    let name = attr::name(after);
    emit(&Record::InodeNew {
        mask,
        fields: &fields,
        name,
    });
    let fits = attr::unpack(scratch, mask, &fields);
    debug_assert!(fits.is_ok(), "what was packed is unpacked");
    attr::set_name(scratch, name);
}

/// The fields that differ. Extra attributes of no legal length are bytes like others.
fn changed_fields(before: &[u8], after: &[u8]) -> u32 {
    let mask = attr::changed(before, after);
    let first = attr::EXTRA_ISIZE.trailing_zeros();
    let extra = attr::FIELDS[first as usize].pieces[0].0;
    let legal =
        get_le16(after, extra) <= INODE_EXTRA_BYTES_MAX && get_le16(after, extra).is_multiple_of(4);
    match legal {
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
            let fields = attr::pack(pair.after, mask);
            let fields = &fields[..];
            emit(&Record::InodeAttr { mask, fields });
            let fits = attr::unpack(pair.before, mask, fields);
            debug_assert!(fits.is_ok(), "what was packed is unpacked");
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

/// The word behind the last one that changed of the run that begins at `start`. Chunks in which nothing changed end it.
fn run_end(pair: &Pair<'_>, start: usize, limit: usize) -> usize {
    let first = addr(pair.after, start);
    let mut end = start + 1;
    for at in start + 1..limit {
        let here = addr(pair.after, at);
        let like = match first {
            BlockAddr::NULL | BlockAddr::NEW => here == first,
            _ => first.is_data() && first.checked_add((at - start) as u32) == Some(here),
        };
        if !like || pair.chunks >> (4 * at / CHUNK) & 1 == 0 {
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
        let bit = 1 << (slot % 8);
        pair.before[start + slot / 8] & !pair.after[start + slot / 8] & bit != 0
    };
    let mut from = 0;
    while from < layout.max {
        // Whole bytes that are equal hold none.
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
        for slot in from..end {
            pair.before[start + slot / 8] &= !(1 << (slot % 8));
        }
        from = end;
    }
}

/// Slots in whose bit, entry or name something differs.
fn touched_slots(pair: &Pair<'_>, layout: &DentryLayout) -> Slots {
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
    let used = |buf: &[u8]| buf[layout.bitmap.start + slot / 8] & 1 << (slot % 8) != 0;
    let at = layout.entries.start + slot * ENTRY_BYTES;
    let entry: &[u8; ENTRY_BYTES] = pair.after[at..].first_chunk()?;
    let kind = FileType::from_code(entry[10]);
    if !used(pair.after) || kind.code() != entry[10] {
        return None;
    }
    let ino = Nid(get_le32(entry, 4));
    let was = &pair.before[at..at + ENTRY_BYTES];
    let slot_no = slot as u16;
    if used(pair.before) && was[..4] == entry[..4] && was[8..10] == entry[8..10] {
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
    ondisk::f2fs::put(pair.before, layout, slot, &dentry);
    // Bits and lengths of its other slots: those of a damaged block may be others.
    pair.stir(layout.bitmap.clone());
    pair.stir(at..at + slots * ENTRY_BYTES);
    Some(slots)
}
