//! Directory entries: a bitmap of used slots, an array of entries, an array of name slots.
//!
//! A dentry block (`f2fs_dentry_block`, 4096 bytes):
//!
//! | offset | size | field | meaning |
//! |---|---|---|---|
//! | 0x000 | 27 | `dentry_bitmap` | bit n (lowest first in each byte): slot n is used |
//! | 0x01B | 3 | `reserved` | |
//! | 0x01E | 214 * 11 | `dentry` | le32 hash, le32 inode, le16 length of the name, u8 file type |
//! | 0x950 | 214 * 8 | `filename` | 8 bytes per slot |
//!
//! A name longer than 8 bytes occupies several consecutive slots; the entry is that of the first.
//! Small directories keep the same arrays inside their inode, with as many slots as fit
//! ([`DentryLayout::inline`]): bitmap first, then the reserved bytes, entries and names at the end.
//!
//! In a damaged block the bitmap may mark as used what is no valid entry: [`iter`] reports it,
//! [`find`] passes over it.

use super::Nid;
use crate::Corrupt;
use base::bytes::{get_le16, get_le32, get_le64, put_le16, put_le32};
use std::ops::Range;

/// Longest name (`F2FS_NAME_LEN`).
pub const NAME_BYTES_MAX: usize = 255;
/// Bytes of the name that one slot holds.
pub const DENTRY_SLOT_BYTES: usize = 8;
/// Slots of a dentry block.
pub const DENTRIES_PER_BLOCK: usize = 214;

const ENTRY_BYTES: usize = 11;
/// A bitmap in memory: four words hold the 214 slots of a block, and an inode has fewer.
const WORDS: usize = 4;
const SLOTS_MAX: usize = WORDS * 64;
const WHAT: &str = "directory entry";

/// What an entry names (`file_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FileType {
    /// Not stored, or a number the format does not know.
    #[default]
    Unknown = 0,
    /// Regular file.
    Regular = 1,
    /// Directory.
    Directory = 2,
    /// Character device.
    Char = 3,
    /// Block device.
    Block = 4,
    /// Named pipe.
    Fifo = 5,
    /// Socket.
    Socket = 6,
    /// Symbolic link.
    Symlink = 7,
}

impl FileType {
    const ALL: [FileType; 8] = [
        FileType::Unknown,
        FileType::Regular,
        FileType::Directory,
        FileType::Char,
        FileType::Block,
        FileType::Fifo,
        FileType::Socket,
        FileType::Symlink,
    ];
    /// The type with this number; an unknown number is [`FileType::Unknown`].
    pub fn from_code(code: u8) -> FileType {
        Self::ALL
            .get(usize::from(code))
            .copied()
            .unwrap_or_default()
    }
    /// The number of the type on disk.
    pub const fn code(self) -> u8 {
        self as u8
    }
    /// The type that the mode of an inode says.
    pub const fn from_mode(mode: u16) -> FileType {
        use super::inode as i;
        match mode & i::MODE_TYPE_MASK {
            i::MODE_REGULAR => FileType::Regular,
            i::MODE_DIR => FileType::Directory,
            i::MODE_CHAR => FileType::Char,
            i::MODE_BLOCK => FileType::Block,
            i::MODE_FIFO => FileType::Fifo,
            i::MODE_SOCKET => FileType::Socket,
            i::MODE_SYMLINK => FileType::Symlink,
            _ => FileType::Unknown,
        }
    }
}

/// One entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dentry<'a> {
    /// Hash of the name.
    pub hash: u32,
    /// The inode.
    pub ino: Nid,
    /// Type of that inode.
    pub kind: FileType,
    /// The name: 1 to 255 bytes.
    pub name: &'a [u8],
}

/// Where the arrays lie in a block (a dentry block, or an inode).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DentryLayout {
    /// Number of slots.
    pub max: usize,
    /// Bytes of the bitmap.
    pub bitmap: Range<usize>,
    /// Bytes of the entries, 11 per slot.
    pub entries: Range<usize>,
    /// Bytes of the names, 8 per slot.
    pub names: Range<usize>,
}

impl DentryLayout {
    /// A dentry block.
    pub const BLOCK: DentryLayout = DentryLayout {
        max: DENTRIES_PER_BLOCK,
        bitmap: 0..27,
        entries: 30..30 + DENTRIES_PER_BLOCK * ENTRY_BYTES,
        names: 30 + DENTRIES_PER_BLOCK * ENTRY_BYTES..4096,
    };

    /// The arrays in the inline data area `area` of an inode (bytes of its block): as many slots as
    /// fit.
    ///
    /// # Panics
    /// If more than 256 slots fit: no inode has so large an area.
    pub fn inline(area: Range<usize>) -> DentryLayout {
        let bytes = area.len();
        let max = bytes * 8 / ((ENTRY_BYTES + DENTRY_SLOT_BYTES) * 8 + 1);
        assert!(
            max <= SLOTS_MAX,
            "an inode has room for fewer slots than a bitmap in memory"
        );
        let names = area.end - max * DENTRY_SLOT_BYTES..area.end;
        let entries = names.start - max * ENTRY_BYTES..names.start;
        DentryLayout {
            max,
            bitmap: area.start..area.start + max.div_ceil(8),
            entries,
            names,
        }
    }

    /// The bitmap in words, bits from `max` on clear.
    fn used(&self, buf: &[u8]) -> [u64; WORDS] {
        let bytes = &buf[self.bitmap.clone()];
        let mut words = [0; WORDS];
        let mut rest = bytes;
        for word in &mut words {
            if rest.len() >= 8 {
                *word = get_le64(rest, 0);
                rest = &rest[8..];
            } else {
                for (n, &b) in rest.iter().enumerate() {
                    *word |= u64::from(b) << (8 * n);
                }
                rest = &[];
            }
        }
        let limit = mask_below(self.max);
        std::array::from_fn(|n| words[n] & limit[n])
    }
    fn entry<'a>(&self, buf: &'a [u8], slot: usize) -> &'a [u8] {
        &buf[self.entries.start + slot * ENTRY_BYTES..][..ENTRY_BYTES]
    }
    fn entry_mut<'a>(&self, buf: &'a mut [u8], slot: usize) -> &'a mut [u8] {
        &mut buf[self.entries.start + slot * ENTRY_BYTES..][..ENTRY_BYTES]
    }
    fn name_len(&self, buf: &[u8], slot: usize) -> usize {
        usize::from(get_le16(self.entry(buf, slot), 8))
    }
    /// The entry at `slot` if its name has a legal length and ends within the slots.
    fn dentry<'a>(&self, buf: &'a [u8], slot: usize) -> Result<Dentry<'a>, Corrupt> {
        let entry = self.entry(buf, slot);
        let len = usize::from(get_le16(entry, 8));
        if len == 0 || len > NAME_BYTES_MAX || slot + dentry_slots(len) > self.max {
            let reason = "the name must have 1 to 255 bytes and end within the block";
            return Err(Corrupt::field(WHAT, "name_len", len as u64, reason));
        }
        let at = self.names.start + slot * DENTRY_SLOT_BYTES;
        Ok(Dentry {
            hash: get_le32(entry, 0),
            ino: Nid(get_le32(entry, 4)),
            kind: FileType::from_code(entry[10]),
            name: &buf[at..at + len],
        })
    }
    /// Sets (or clears) the bits of `count` slots.
    fn mark(&self, buf: &mut [u8], slot: usize, count: usize, used: bool) {
        let bitmap = &mut buf[self.bitmap.clone()];
        for n in slot..slot + count {
            let bit = 1 << (n % 8);
            bitmap[n / 8] = if used {
                bitmap[n / 8] | bit
            } else {
                bitmap[n / 8] & !bit
            };
        }
    }
}

/// Words with the lowest `n` bits set.
fn mask_below(n: usize) -> [u64; WORDS] {
    std::array::from_fn(|w| match n.saturating_sub(64 * w) {
        0 => 0,
        bits @ 1..64 => (1 << bits) - 1,
        _ => u64::MAX,
    })
}

/// The first set bit from `from` on.
fn next_set(words: &[u64; WORDS], from: usize) -> Option<usize> {
    let mut at = from / 64;
    let mut word = words.get(at)? & (u64::MAX << (from % 64));
    while word == 0 {
        at += 1;
        word = *words.get(at)?;
    }
    Some(64 * at + word.trailing_zeros() as usize)
}

/// All bits moved down by `by` (1 to 63).
fn shift_down(words: &[u64; WORDS], by: usize) -> [u64; WORDS] {
    std::array::from_fn(|n| words[n] >> by | words.get(n + 1).map_or(0, |next| next << (64 - by)))
}

/// Slots that a name of `len` bytes takes.
pub const fn dentry_slots(len: usize) -> usize {
    len.div_ceil(DENTRY_SLOT_BYTES)
}

/// The entry with this hash whose name `is` the one, with its slot.
///
/// # Panics
/// If `buf` is shorter than the layout says.
pub fn find<'a>(
    buf: &'a [u8],
    layout: &DentryLayout,
    hash: u32,
    is: impl Fn(&[u8]) -> bool,
) -> Option<(usize, Dentry<'a>)> {
    // Most blocks looked at do not hold the name: one pass over all hashes, used or not, says so
    // without following the lengths of names from entry to entry.
    let entries = &buf[layout.entries.clone()];
    let hit =
        |entry: &[u8; ENTRY_BYTES]| [entry[0], entry[1], entry[2], entry[3]] == hash.to_le_bytes();
    if !entries
        .as_chunks::<ENTRY_BYTES>()
        .0
        .iter()
        .fold(false, |any, e| any | hit(e))
    {
        return None;
    }
    iter(buf, layout, 0)
        .filter_map(Result::ok)
        .find(|(_, d)| d.hash == hash && is(d.name))
}

/// The first slot from which on `name_len` bytes of name have room.
///
/// # Panics
/// If `buf` is shorter than the layout says.
pub fn room_for(buf: &[u8], layout: &DentryLayout, name_len: usize) -> Option<usize> {
    let need = dentry_slots(name_len.clamp(1, NAME_BYTES_MAX));
    let (used, limit) = (layout.used(buf), mask_below(layout.max));
    let mut free: [u64; WORDS] = std::array::from_fn(|n| !used[n] & limit[n]);
    // Bit n stays set while `have` slots from n on are free.
    let mut have = 1;
    while have < need {
        let step = have.min(need - have);
        let moved = shift_down(&free, step);
        free = std::array::from_fn(|n| free[n] & moved[n]);
        have += step;
    }
    next_set(&free, 0)
}

/// Writes an entry at `slot`, which has room for it ([`room_for`]).
///
/// # Panics
/// If the name has no or more than 255 bytes, or does not end within the slots.
pub fn put(buf: &mut [u8], layout: &DentryLayout, slot: usize, dentry: &Dentry<'_>) {
    let len = dentry.name.len();
    let slots = dentry_slots(len);
    assert!(
        (1..=NAME_BYTES_MAX).contains(&len) && slot + slots <= layout.max,
        "the caller has made sure that the entry fits"
    );
    let entry = layout.entry_mut(buf, slot);
    put_le32(entry, 0, dentry.hash);
    put_le32(entry, 4, dentry.ino.0);
    put_le16(entry, 8, len as u16);
    entry[10] = dentry.kind.code();
    let at = layout.names.start + slot * DENTRY_SLOT_BYTES;
    buf[at..at + len].copy_from_slice(dentry.name);
    // A reader that took a later slot for an entry must see no name there.
    for later in 1..slots {
        put_le16(layout.entry_mut(buf, slot + later), 8, 0);
    }
    layout.mark(buf, slot, slots, true);
}

/// Lets the entry at `slot` name another inode.
///
/// # Panics
/// If there is no such slot.
pub fn set_target(buf: &mut [u8], layout: &DentryLayout, slot: usize, ino: Nid, kind: FileType) {
    assert!(slot < layout.max, "a slot of this layout");
    let entry = layout.entry_mut(buf, slot);
    put_le32(entry, 4, ino.0);
    entry[10] = kind.code();
}

/// Frees the slots of the entry at `slot`; answers how many.
///
/// # Panics
/// If there is no such slot.
pub fn clear(buf: &mut [u8], layout: &DentryLayout, slot: usize) -> usize {
    assert!(slot < layout.max, "a slot of this layout");
    let slots = dentry_slots(layout.name_len(buf, slot)).max(1);
    let slots = slots.min(layout.max - slot);
    layout.mark(buf, slot, slots, false);
    slots
}

/// True if no slot from `from` on is used.
///
/// # Panics
/// If `buf` is shorter than the layout says.
pub fn is_empty(buf: &[u8], layout: &DentryLayout, from: usize) -> bool {
    next_set(&layout.used(buf), from).is_none()
}

/// The entries from slot `from` on, which must be the first slot of an entry or a free one.
///
/// # Panics
/// If `buf` is shorter than the layout says.
pub fn iter<'a, 'l>(buf: &'a [u8], layout: &'l DentryLayout, from: usize) -> DentryIter<'a, 'l> {
    DentryIter {
        buf,
        layout,
        used: layout.used(buf),
        at: from,
    }
}

/// Iterator of [`iter`]: slot and entry. A slot that is marked used and holds no entry gives an
/// error; the next one is looked at then.
pub struct DentryIter<'a, 'l> {
    buf: &'a [u8],
    layout: &'l DentryLayout,
    used: [u64; WORDS],
    at: usize,
}

impl<'a> Iterator for DentryIter<'a, '_> {
    type Item = Result<(usize, Dentry<'a>), Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        let slot = next_set(&self.used, self.at)?;
        let dentry = self.layout.dentry(self.buf, slot);
        self.at = slot + dentry.as_ref().map_or(1, |d| dentry_slots(d.name.len()));
        Some(dentry.map(|d| (slot, d)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn layouts() -> [DentryLayout; 4] {
        [
            DentryLayout::BLOCK,
            DentryLayout::inline(0x16C..0xF0C),
            DentryLayout::inline(0x190..0xFD4),
            DentryLayout::inline(0x190..0x1B8),
        ]
    }

    #[test]
    fn arrays_of_inodes() {
        // 3488 bytes: 182 slots; the numbers of the kernel's documentation of inline dentries.
        let l = DentryLayout::inline(0x16C..0xF0C);
        assert_eq!(
            (l.max, l.bitmap.len(), l.entries.len(), l.names.len()),
            (182, 23, 2002, 1456)
        );
        assert_eq!((l.bitmap.start, l.names.end), (0x16C, 0xF0C));
        for l in layouts() {
            assert!(l.bitmap.end <= l.entries.start && l.entries.end == l.names.start);
            assert!(l.max <= 8 * l.bitmap.len());
        }
    }

    #[test]
    fn a_name_never_ends_beyond_the_slots() {
        let layout = DentryLayout::BLOCK;
        let mut block = vec![0; 4096];
        let dentry = |name| Dentry {
            hash: 1,
            ino: Nid(4),
            kind: FileType::Regular,
            name,
        };
        for slot in 0..212 {
            put(&mut block, &layout, slot, &dentry(b"x"));
        }
        assert_eq!(room_for(&block, &layout, 16), Some(212));
        assert_eq!(room_for(&block, &layout, 17), None);
        put(&mut block, &layout, 212, &dentry(b"123456789"));
        assert_eq!(room_for(&block, &layout, 1), None);
        // A length that leads out of the block makes no entry.
        put_le16(layout.entry_mut(&mut block, 212), 8, 17);
        assert_eq!(
            find(&block, &layout, 1, |n| n == b"123456789abcdefgh"),
            None
        );
        assert_eq!(iter(&block, &layout, 0).filter(Result::is_err).count(), 2);
        clear(&mut block, &layout, 212);
        assert_eq!(room_for(&block, &layout, 16), Some(212));
    }

    #[test]
    fn stale_hashes_of_later_slots_are_no_entries() {
        let layout = DentryLayout::BLOCK;
        let mut block = vec![0; 4096];
        put(
            &mut block,
            &layout,
            1,
            &Dentry {
                hash: 7,
                ino: Nid(9),
                kind: FileType::Regular,
                name: b"old",
            },
        );
        clear(&mut block, &layout, 1);
        let long = Dentry {
            hash: 8,
            ino: Nid(5),
            kind: FileType::Fifo,
            name: b"longer than 8 bytes",
        };
        put(&mut block, &layout, 0, &long);
        assert_eq!(find(&block, &layout, 7, |n| n == b"old"), None);
        assert_eq!(
            find(&block, &layout, 8, |n| n == long.name),
            Some((0, long))
        );
    }

    /// One step of a history: insert or remove.
    fn any_steps() -> impl Strategy<Value = Vec<(bool, u8, usize)>> {
        proptest::collection::vec((any::<bool>(), 0..40u8, 1..256usize), 1..120)
    }

    proptest! {
        #[test]
        fn as_a_map(layout in 0..4usize, steps in any_steps()) {
            let layout = layouts()[layout].clone();
            let mut block = vec![0xA5; 4096];
            block[layout.bitmap.clone()].fill(0);
            let mut model: BTreeMap<Vec<u8>, (usize, u32)> = BTreeMap::new();
            for (n, (insert, tag, len)) in steps.into_iter().enumerate() {
                let name = vec![tag + 1; 1 + (len * usize::from(tag + 1)) % 255];
                let hash = u32::from(tag % 5);
                if insert && !model.contains_key(&name) {
                    // The first run of free slots, found the slow way.
                    let used: Vec<bool> = (0..layout.max).map(|s| model.iter()
                        .any(|(k, (at, _))| (*at..at + dentry_slots(k.len())).contains(&s))).collect();
                    let need = dentry_slots(name.len());
                    let expected = (0..layout.max).find(|&s| {
                        s + need <= layout.max && !used[s..s + need].contains(&true)
                    });
                    prop_assert_eq!(room_for(&block, &layout, name.len()), expected);
                    if let Some(slot) = expected {
                        let ino = n as u32;
                        put(&mut block, &layout, slot, &Dentry { hash, ino: Nid(ino), kind: FileType::Char, name: &name });
                        model.insert(name.clone(), (slot, ino));
                    }
                } else if let Some((slot, _)) = model.remove(&name) {
                    clear(&mut block, &layout, slot);
                }
                let found = find(&block, &layout, hash, |n| n == name).map(|(s, d)| (s, d.ino.0));
                prop_assert_eq!(found, model.get(&name).copied());
            }
            let mut listed: Vec<_> = iter(&block, &layout, 0)
                .map(|e| e.map(|(s, d)| (d.name.to_vec(), (s, d.ino.0)))).collect::<Result<_, _>>().expect("valid");
            listed.sort();
            prop_assert_eq!(listed, model.clone().into_iter().collect::<Vec<_>>());
            prop_assert_eq!(is_empty(&block, &layout, 0), model.is_empty());
            let outside = |n: &usize| *n < layout.bitmap.start || *n >= layout.names.end;
            prop_assert!((0..4096).filter(outside).all(|n| block[n] == 0xA5));
        }

        #[test]
        fn hostile_blocks(block in proptest::collection::vec(any::<u8>(), 4096), layout in 0..4usize, len in 0..300usize) {
            let layout = layouts()[layout].clone();
            prop_assert!(iter(&block, &layout, 0).count() <= layout.max);
            let name = vec![b'n'; len];
            for hash in [0, get_le32(&block, layout.entries.start)] {
                let _ = find(&block, &layout, hash, |n| n == name);
            }
            if let Some(slot) = room_for(&block, &layout, len) {
                prop_assert!(slot < layout.max);
            }
            for e in iter(&block, &layout, 3).filter_map(Result::ok) {
                prop_assert!((1..=NAME_BYTES_MAX).contains(&e.1.name.len()));
            }
            let mut block = block;
            for slot in 0..layout.max {
                clear(&mut block, &layout, slot);
            }
        }
    }
}
