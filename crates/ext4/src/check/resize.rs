//! Checks the resize inode: it owns the blocks that are reserved for more group descriptors, and
//! their copies in the backup groups.

use super::finding::Kind;
use super::state::State;
use super::volume::Volume;
use base::bytes::get_le32;
use ondisk::ext4::{Compat, Inode, InodeFlags, RESIZE_INO};

/// Word of the block area that leads to the double-indirect block.
const DOUBLE: usize = 13;

/// Checks inode 7.
pub(super) fn check(volume: &Volume<'_>, state: &mut State<'_>, inode: &Inode) {
    let ino = RESIZE_INO.0;
    let words: Vec<u32> = inode
        .block_area()
        .chunks_exact(4)
        .map(|w| get_le32(w, 0))
        .collect();
    let used = volume.sb.compat().has(Compat::RESIZE_INODE);
    if !used {
        if inode.links() != 0 || words.iter().any(|&w| w != 0) {
            state.at_inode(
                ino,
                Kind::ResizeInode,
                "in use without feature resize_inode",
            );
        }
        return;
    }
    if inode.links() == 0 || !inode.is_regular() || inode.flags().has(InodeFlags::EXTENTS) {
        return state.at_inode(
            ino,
            Kind::ResizeInode,
            "not a regular file with a link and a block map",
        );
    }
    let top = u64::from(words[DOUBLE]);
    let others = words
        .iter()
        .enumerate()
        .any(|(n, &w)| n != DOUBLE && w != 0);
    if others || !volume.inside(top, 1) {
        return state.at_inode(
            ino,
            Kind::ResizeInode,
            "it has one double-indirect block and no other",
        );
    }
    if let Some(shared) = state.usage.take(volume, top, 1) {
        let what = "its double-indirect block belongs to something else";
        state.at_block(ino, shared, Kind::SharedBlock, what);
        return;
    }
    let Some(block) = volume.reader.block(top, state.found) else {
        return;
    };
    check_lists(volume, state, top, &block);
    let copies = backups(volume).len() as u64;
    let expected = 1 + u64::from(volume.sb.reserved_gdt_blocks()) * (1 + copies);
    super::inodes::check_sectors(volume, state, ino, inode, expected);
    let written_end = written_end(volume, copies);
    super::inodes::check_regular_size(volume, state, ino, inode, written_end);
}

/// One past the last block of the file, whose data blocks are the copies that its lists name.
fn written_end(volume: &Volume<'_>, copies: u64) -> u64 {
    let pointers = volume.pointers();
    let last = reserved(volume).map(|n| u64::from(n) % pointers).max();
    match last.filter(|_| copies > 0) {
        Some(list) => 12 + pointers + list * pointers + copies,
        None => 0,
    }
}

/// Blocks of descriptors that are reserved.
fn reserved(volume: &Volume<'_>) -> std::ops::Range<u32> {
    let first = volume.sb.desc_blocks();
    first..first + u32::from(volume.sb.reserved_gdt_blocks())
}

/// How far the groups with backups are from the first one, blocks.
fn backups(volume: &Volume<'_>) -> Vec<u64> {
    let sb = &volume.sb;
    let groups = (1..sb.groups_count()).filter(|&group| sb.has_superblock(group));
    let each = u64::from(sb.blocks_per_group());
    groups.map(|group| u64::from(group) * each).collect()
}

/// The block that is reserved as number `n` of those for descriptors.
fn reserved_place(volume: &Volume<'_>, n: u32) -> u64 {
    volume.sb.superblock_place(0).0 + 1 + u64::from(n)
}

fn check_lists(volume: &Volume<'_>, state: &mut State<'_>, top: u64, root: &[u8]) {
    let ino = RESIZE_INO.0;
    let backups = backups(volume);
    let reserved = reserved(volume);
    let pointers = volume.pointers() as u32;
    let mut expected = vec![0u32; pointers as usize];
    for n in reserved.clone() {
        // These blocks lie in the first group, so their numbers fit 32 bits.
        expected[(n % pointers) as usize] = reserved_place(volume, n) as u32;
    }
    for (n, &want) in expected.iter().enumerate() {
        let word = get_le32(root, 4 * n);
        if word != want {
            let what = format!("word {n} is {word}, should be {want}");
            return state.at_block(ino, top, Kind::ResizeInode, what);
        }
    }
    for n in reserved {
        let at = reserved_place(volume, n);
        let Some(list) = volume.reader.block(at, state.found) else {
            return;
        };
        // Behind the backups all is zero, and a block is compared at once.
        let named = backups.len().min(pointers as usize);
        let slots = match list[4 * named..].iter().all(|&byte| byte == 0) {
            true => named,
            false => pointers as usize,
        };
        for slot in 0..slots {
            let want = backups.get(slot).map_or(0, |distance| at + distance);
            let word = u64::from(get_le32(&list, 4 * slot));
            if word != want {
                let what = format!("word {slot} is {word}, should be {want}");
                return state.at_block(ino, at, Kind::ResizeInode, what);
            }
        }
    }
}
