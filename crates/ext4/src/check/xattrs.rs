//! Extended attributes, in the inode and in a block of their own.

use super::finding::{Finding, Kind};
use super::state::{State, XattrUse};
use super::volume::Volume;
use base::BlockNo;
use ondisk::ext4::{Inode, XattrBlock, XattrEntry, inode_xattrs};

/// Checks the attributes of an inode; true if it has a block of them.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, inode: &Inode) -> bool {
    match inode_xattrs(inode) {
        Ok(entries) => check_entries(state, ino, None, &entries),
        Err(e) => state.at_inode(ino, Kind::Xattr, e.to_string()),
    }
    let at = inode.xattr_block().0;
    if at == 0 {
        return false;
    }
    if !volume.inside(at, 1) {
        let what = format!("the block of attributes, {at}, lies outside the volume");
        state.at_inode(ino, Kind::MapOutside, what);
        return false;
    }
    if let Some(used) = state.xattrs.get_mut(&at) {
        used.seen += 1;
        return true;
    }
    if state.usage.take(volume, at, 1).is_some() {
        let what = "the block of attributes belongs to something else already";
        state.at_block(ino, at, Kind::SharedBlock, what);
        return true;
    }
    if let Some(stored) = check_block(volume, state, ino, at) {
        state.xattrs.insert(at, XattrUse { stored, seen: 1 });
    }
    true
}

fn check_block(volume: &Volume<'_>, state: &mut State<'_>, ino: u32, at: u64) -> Option<u32> {
    let block = volume.reader.block(at, state.found)?;
    if let Some(seed) = volume.seed
        && let Err(e) = XattrBlock::verify_checksum(seed, BlockNo(at), &block)
    {
        state.at_block(ino, at, Kind::XattrChecksum, e.to_string());
    }
    match XattrBlock::parse(&block) {
        Ok(parsed) => {
            check_entries(state, ino, Some(at), &parsed.entries);
            Some(parsed.references)
        }
        Err(e) => {
            state.at_block(ino, at, Kind::Xattr, e.to_string());
            None
        }
    }
}

fn check_entries(state: &mut State<'_>, ino: u32, block: Option<u64>, entries: &[XattrEntry]) {
    for (n, entry) in entries.iter().enumerate() {
        let same =
            |other: &XattrEntry| other.name_index == entry.name_index && other.name == entry.name;
        let what = if entry.value_ino.is_some() {
            "a value in an inode of its own, without feature ea_inode"
        } else if entries[..n].iter().any(same) {
            "two attributes of one name"
        } else {
            continue;
        };
        match block {
            Some(block) => state.at_block(ino, block, Kind::Xattr, what),
            None => state.at_inode(ino, Kind::Xattr, what),
        }
    }
}

/// Compares the owners of each block with what it says.
pub(super) fn check_references(state: &mut State<'_>) {
    for (&at, used) in &state.xattrs {
        if used.stored != used.seen {
            let what = format!("{} owners noted, {} found", used.stored, used.seen);
            state
                .found
                .add(Finding::new(Kind::XattrReferences, what).block(at));
        }
    }
}
