//! Checks content that lies in the inode: part of it where other inodes map their blocks, the rest
//! in the attribute `system.data`.

use super::finding::Kind;
use super::state::State;
use super::xattrs;
use base::Ino;
use base::bytes::get_le32;
use ondisk::ext4::{
    BLOCK_AREA_BYTES, DIR_ENTRY_MIN_BYTES, DirEntries, FileType, Inode, InodeFlags, inode_xattrs,
    put_dir_entry,
};

/// Prefix `system.`, and the name behind it.
const DATA: (u8, &[u8]) = (7, b"data");
/// Bytes of the parent's number at the start of a directory.
const PARENT_BYTES: usize = 4;

/// Checks the content of an inode that has inline data. For a directory, answers the block as which
/// its content is read.
pub(super) fn check(state: &mut State<'_>, ino: u32, inode: &Inode) -> Option<Vec<u8>> {
    let kind = FileType::of_mode(inode.mode());
    let holds = matches!(
        kind,
        FileType::Regular | FileType::Directory | FileType::Symlink
    );
    let mut bad = |what: String| state.at_inode(ino, Kind::InlineData, what);
    if !holds {
        bad("content in the inode of a device, pipe or socket".into());
        return None;
    }
    if inode.flags().has(InodeFlags::EXTENTS) {
        bad("content in the inode, and extents".into());
    }
    if inode.flags().has(InodeFlags::INDEX) {
        bad("content in the inode, and a hash index".into());
    }
    let list = inode_xattrs(inode).ok()?;
    let Some(rest) = list.into_iter().find(|e| e.is(DATA.0, DATA.1)) else {
        bad("content in the inode, without its attribute".into());
        return None;
    };
    if xattrs::has_value_outside(inode) {
        bad("content in the inode, and an attribute whose value lies outside".into());
    }
    let rest = rest.value;
    let room = BLOCK_AREA_BYTES + rest.len();
    // A file may be shorter, or end in zeros that are stored nowhere.
    if kind != FileType::Regular && inode.size() != room as u64 {
        let what = format!("{} bytes noted, {room} of content", inode.size());
        bad(what);
    }
    if kind != FileType::Directory {
        return None;
    }
    let area = inode.block_area();
    let (block, damage) = seeming_block(ino, area, &rest);
    if let Some(what) = damage {
        state.at_inode(ino, Kind::DirBlock, what);
        return None;
    }
    Some(block)
}

/// Composes `.` and `..`, and the entries of both parts; each part has to be filled by its own
/// entries.
fn seeming_block(ino: u32, area: &[u8], rest: &[u8]) -> (Vec<u8>, Option<String>) {
    let (kind, dot) = (FileType::Unknown, DIR_ENTRY_MIN_BYTES);
    let mut block = vec![0; 2 * dot];
    let parent = Some(Ino(get_le32(area, 0))).filter(|parent| parent.0 != 0);
    put_dir_entry(&mut block, 0, dot, Some(Ino(ino)), kind, b".");
    put_dir_entry(&mut block, dot, dot, parent, kind, b"..");
    for part in [&area[PARENT_BYTES..], rest] {
        if let Some(e) = DirEntries::new(part).find_map(Result::err) {
            return (block, Some(e.to_string()));
        }
        block.extend_from_slice(part);
    }
    (block, None)
}
