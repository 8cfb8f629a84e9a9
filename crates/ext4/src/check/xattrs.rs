//! Checks extended attributes, in the inode and in a block of their own.

use super::finding::Kind;
use super::state::{Apart, State, XattrUse};
use super::volume::Volume;
use base::bytes::{get_le16, get_le32};
use base::{BlockNo, Ino};
use ondisk::ext4::{Compat, Incompat, Inode, InodeFlags, XattrBlock, XattrEntry, inode_xattrs};

/// The header of a block of attributes.
const BLOCK_HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = 16;

/// Checks the attributes of an inode, including those in its block if it has one. Answers what
/// their values in inodes of their own count.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) -> Apart {
    let mut all = Apart::default();
    match inode_xattrs(inode) {
        Ok(entries) => {
            check_entries(volume, state, ino, None, &entries);
            // The area without its magic number; offsets of values count from behind that number.
            let area = inode.xattr_area().get(4..).unwrap_or_default();
            if !entries.is_empty() {
                if let Some(what) = stored_fault(area, area, true) {
                    state.at_inode(ino, Kind::Xattr, what);
                }
                all = values_apart(volume, state, (ino, inode), None, area);
            }
        }
        Err(e) => state.at_inode(ino, Kind::Xattr, e.to_string()),
    }
    if let Some(more) = check_own_block(volume, state, ino, inode) {
        all.inodes += more.inodes;
        all.clusters += 1 + more.clusters;
    }
    all
}

/// Checks the block of attributes, if the inode has one inside the volume. Answers what its values
/// in inodes of their own count.
fn check_own_block(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    inode: &Inode,
) -> Option<Apart> {
    let at = inode.xattr_block().0;
    if at == 0 {
        return None;
    }
    if !volume.sb.compat().has(Compat::EXT_ATTR) {
        let what = format!("a block of attributes, {at}, without feature ext_attr");
        state.at_inode(ino, Kind::Xattr, what);
    }
    if !volume.inside(at, 1) {
        let what = format!("the block of attributes, {at}, lies outside the volume");
        state.at_inode(ino, Kind::MapOutside, what);
        return None;
    }
    if let Some(used) = state.xattrs.get_mut(&at) {
        used.seen += 1;
        return Some(used.apart);
    }
    if state.usage.take(volume, at, 1).is_some() {
        let what = "the block of attributes belongs to something else already";
        state.at_block(ino, at, Kind::SharedBlock, what);
        return Some(Apart::default());
    }
    let Some((stored, apart)) = check_block(volume, state, (ino, inode), at) else {
        return Some(Apart::default());
    };
    let used = XattrUse {
        stored,
        seen: 1,
        apart,
    };
    state.xattrs.insert(at, used);
    Some(apart)
}

/// The value of an attribute, if it can be read and does not lie in an inode of its own.
pub(super) fn find(volume: &Volume<'_>, inode: &Inode, prefix: u8, name: &[u8]) -> Option<Vec<u8>> {
    let value = |list: Vec<XattrEntry>| {
        let entry = list.into_iter().find(|entry| entry.is(prefix, name))?;
        entry.value_ino.is_none().then_some(entry.value)
    };
    let inside = inode_xattrs(inode).ok().and_then(value);
    inside.or_else(|| {
        let at = inode.xattr_block().0;
        let block = volume.inside(at, 1).then(|| volume.reader.try_block(at))?;
        value(XattrBlock::parse(&block.ok()?).ok()?.entries)
    })
}

fn check_block(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    (ino, inode): (u32, &Inode),
    at: u64,
) -> Option<(u32, Apart)> {
    let block = volume.reader.block(at, state.found)?;
    if let Some(seed) = volume.seed
        && let Err(e) = XattrBlock::verify_checksum(seed, BlockNo(at), &block)
    {
        state.at_block(ino, at, Kind::XattrChecksum, e.to_string());
    }
    match XattrBlock::parse(&block) {
        Ok(parsed) => {
            check_entries(volume, state, ino, Some(at), &parsed.entries);
            let list = &block[BLOCK_HEADER_BYTES..];
            let outside = || value_outside(list, block.len()).then(|| "a value outside".into());
            if let Some(what) = stored_fault(list, &block, false).or_else(outside) {
                state.at_block(ino, at, Kind::Xattr, what);
            }
            let apart = values_apart(volume, state, (ino, inode), Some(at), list);
            Some((parsed.references, apart))
        }
        Err(e) => {
            state.at_block(ino, at, Kind::Xattr, e.to_string());
            None
        }
    }
}

fn check_entries(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    ino: u32,
    block: Option<u64>,
    entries: &[XattrEntry],
) {
    let apart = volume.sb.incompat().has(Incompat::EA_INODE);
    for (n, entry) in entries.iter().enumerate() {
        let same =
            |other: &XattrEntry| other.name_index == entry.name_index && other.name == entry.name;
        let what = if entry.value_ino.is_some() && !apart {
            "a value in an inode of its own, without feature ea_inode"
        } else if entries[..n].iter().any(same) {
            "two attributes of one name"
        } else if block.is_some() && entry.name_index == 0 {
            "a name without a prefix"
        } else {
            continue;
        };
        match block {
            Some(block) => state.at_block(ino, block, Kind::Xattr, what),
            None => state.at_inode(ino, Kind::Xattr, what),
        }
    }
}

/// Checks the values that lie in inodes of their own, for a list that could be read, and counts the
/// references to them. Answers what the values count for the owner of the attributes.
fn values_apart(
    volume: &Volume<'_>,
    state: &mut State<'_>,
    (ino, owner): (u32, &Inode),
    block: Option<u64>,
    list: &[u8],
) -> Apart {
    let mut all = Apart::default();
    if !volume.sb.incompat().has(Incompat::EA_INODE) {
        return all;
    }
    let mut at = 0;
    // The loop ends as in `stored_fault`.
    while get_le32(list, at) != 0 {
        let head = &list[at..at + ENTRY_BYTES];
        let name = &list[at + ENTRY_BYTES..at + ENTRY_BYTES + usize::from(head[0])];
        at += (ENTRY_BYTES + name.len()).next_multiple_of(4);
        let (value, size) = (get_le32(head, 4), u64::from(get_le32(head, 8)));
        if value == 0 {
            continue;
        }
        all.inodes += 1;
        *state.values.entry(value).or_default() += 1;
        match value_fault(volume, owner, (ino, value), name, get_le32(head, 12)) {
            Ok(true) => all.clusters += size.div_ceil(volume.cluster_bytes(1)),
            Ok(false) => {}
            Err(what) => state.at_place(ino, block, Kind::Xattr, what),
        }
    }
    all
}

/// True if the owner of an attribute is charged for its value in inode `value`, which only Lustre
/// did not do; or the fault of that inode.
fn value_fault(
    volume: &Volume<'_>,
    owner: &Inode,
    (ino, value): (u32, u32),
    name: &[u8],
    stored: u32,
) -> Result<bool, String> {
    let sb = &volume.sb;
    let place = sb
        .inode_place(Ino(value))
        .filter(|_| value >= sb.first_ino().0)
        .ok_or_else(|| format!("its value lies in inode {value}, which cannot be"))?;
    let table = volume.descs[place.group as usize].inode_table().0;
    let block = volume.reader.try_block(table + place.table_block)?;
    let inode = Inode::parse(&block[place.offset..], sb.inode_bytes());
    let inode = inode.map_err(|e| format!("its value lies in inode {value}: {e}"))?;
    // The hash of the value is stored where other inodes have their time of access.
    let word = get_le32(inode.bytes(), 0x08).to_le_bytes();
    let fits =
        stored == hash(name, &word, u32::from) || stored == hash(name, &word, |c| c as i8 as u32);
    let parent = get_le32(inode.bytes(), 0x10) == ino && inode.generation() == owner.generation();
    if !fits && !parent {
        return Err(format!(
            "hash {stored:#x} of \"{}\" does not fit to its value in inode {value}",
            name.escape_ascii()
        ));
    }
    match inode.flags().has(InodeFlags::EA_INODE) {
        true => Ok(fits),
        false => Err(format!(
            "its value lies in inode {value}, which is not marked as one for that"
        )),
    }
}

/// The fault, if any, of hashes and places in a list that could be read: hashes over name and
/// value, and values that overlap. Entries in an inode may have no hash.
fn stored_fault(list: &[u8], values: &[u8], in_inode: bool) -> Option<String> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    let mut at = 0;
    // Each turn takes at least 16 bytes, and the list was parsed before, so the loop ends.
    while get_le32(list, at) != 0 {
        let head = &list[at..at + ENTRY_BYTES];
        let name = &list[at + ENTRY_BYTES..at + ENTRY_BYTES + usize::from(head[0])];
        let (start, len) = (usize::from(get_le16(head, 2)), get_le32(head, 8) as usize);
        at += (ENTRY_BYTES + name.len()).next_multiple_of(4);
        // The value lies in an inode of its own, so its place in this area does not count.
        if get_le32(head, 4) != 0 {
            continue;
        }
        // The hash covers whole words, including the bytes behind the value.
        let value = match len {
            0 => &[][..],
            len => &values[start..start + len.next_multiple_of(4)],
        };
        if len > 0 {
            ranges.push((start, start + len));
        }
        let stored = get_le32(head, 12);
        let fits = stored == hash(name, value, u32::from)
            || stored == hash(name, value, |c| c as i8 as u32);
        let none = in_inode && stored == 0;
        if !fits && !none {
            return Some(format!(
                "hash {stored:#x} of \"{}\" is wrong",
                name.escape_ascii()
            ));
        }
    }
    ranges.sort_unstable();
    let overlap = ranges.windows(2).find(|pair| pair[0].1 > pair[1].0)?;
    Some(format!("two values hold byte {}", overlap[1].0))
}

/// True if an attribute of an inode whose attributes can be read claims a value, even an empty one,
/// that lies outside the area: e2fsck then finds none of the attributes.
pub(super) fn has_value_outside(inode: &Inode) -> bool {
    let list = inode.xattr_area().get(4..).unwrap_or_default();
    value_outside(list, list.len())
}

/// True if an attribute of a list that could be read claims a value, even an empty one, that ends
/// behind `end`.
fn value_outside(list: &[u8], end: usize) -> bool {
    let mut at = 0;
    // The loop ends as in `stored_fault`.
    while get_le32(list, at) != 0 {
        let head = &list[at..at + ENTRY_BYTES];
        let (start, len) = (usize::from(get_le16(head, 2)), get_le32(head, 8) as usize);
        if start.saturating_add(len) > end {
            return true;
        }
        at += (ENTRY_BYTES + usize::from(head[0])).next_multiple_of(4);
    }
    false
}

/// Hash of name and value (`e_hash`). Bytes of names above 127 were negative on some machines.
fn hash(name: &[u8], value: &[u8], widen: fn(u8) -> u32) -> u32 {
    let name = name.iter().fold(0u32, |h, &c| h.rotate_left(5) ^ widen(c));
    value.chunks(4).fold(name, |h, word| {
        let mut le = [0; 4];
        le[..word.len()].copy_from_slice(word);
        h.rotate_left(16) ^ u32::from_le_bytes(le)
    })
}

/// Compares the number of owners of each block with the number that it stores.
pub(super) fn check_references(state: &mut State<'_>) {
    for (&at, used) in &state.xattrs {
        if used.stored != used.seen {
            let what = format!("{} owners noted, {} found", used.stored, used.seen);
            state.found.at_block(at, Kind::XattrReferences, what);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::bytes::{put_le16, put_le32};

    /// A list of one attribute named `k`, and the zero word behind it.
    fn list(start: u16, ino: u32, len: u32) -> Vec<u8> {
        let mut list = vec![0; 64];
        (list[0], list[1], list[ENTRY_BYTES]) = (1, 1, b'k');
        put_le16(&mut list, 2, start);
        put_le32(&mut list, 4, ino);
        put_le32(&mut list, 8, len);
        list
    }

    #[test]
    fn a_value_in_an_inode_of_its_own_has_no_place_in_the_list() {
        for (start, len) in [(0, 4), (u16::MAX, 4), (0, u32::MAX), (u16::MAX, u32::MAX)] {
            let list = list(start, 12, len);
            assert_eq!(stored_fault(&list, &list, false), None);
            assert!(value_outside(&list, list.len()) == (start > 0 || len > 4));
        }
    }

    #[test]
    fn hashes_are_over_whole_words() {
        let mut list = list(32, 0, 3);
        list[32..36].copy_from_slice(b"valu");
        let right = hash(b"k", b"valu", u32::from);
        put_le32(&mut list, 12, right);
        assert_eq!(stored_fault(&list, &list, false), None);
        put_le32(&mut list, 12, hash(b"k", b"val", u32::from));
        assert!(stored_fault(&list, &list, false).is_some_and(|what| what.contains("hash")));
    }
}
