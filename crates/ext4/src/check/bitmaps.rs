//! Compares bitmaps and counts with what the check found to be in use.

use super::Options;
use super::finding::{Finding, Kind};
use super::state::State as Gathered;
use super::usage::Usage;
use super::volume::Volume;
use crate::bitmap;
use ondisk::ext4::{BitmapChecksum, FileType, GroupFlags, Incompat, State};

/// Checks bitmaps and counts of all groups, and the totals.
pub(super) fn check(volume: &Volume<'_>, state: &mut Gathered<'_>, options: &Options) {
    let (mut blocks, mut inodes) = (0, 0);
    for group in 0..volume.sb.groups_count() {
        blocks += u64::from(check_blocks(volume, state, group)) * volume.cluster();
        inodes += u64::from(check_inodes(volume, state, group));
    }
    let sb = &volume.sb;
    // The totals are brought up to date only at unmount.
    let settled = sb.state().has(State::VALID) && !sb.incompat().has(Incompat::RECOVER);
    if options.in_use || !settled {
        return;
    }
    if sb.free_blocks() != blocks {
        let what = format!(
            "{} noted in the superblock, {blocks} found",
            sb.free_blocks()
        );
        state.found.at_block(0u32, Kind::FreeBlocks, what);
    }
    if u64::from(sb.free_inodes()) != inodes {
        let what = format!(
            "{} noted in the superblock, {inodes} found",
            sb.free_inodes()
        );
        state.found.at_block(0u32, Kind::FreeInodes, what);
    }
}

/// Free blocks of a group; with clusters, whole ones.
fn check_blocks(volume: &Volume<'_>, state: &mut Gathered<'_>, group: u32) -> u32 {
    let desc = &volume.descs[group as usize];
    let len = volume.sb.group_clusters(group);
    let expected = state.usage.map(volume, group).into_owned();
    let free = bitmap::count_zeros(&expected, len);
    let note = |kind, what: String| Finding::new(kind, what).group(group);
    if desc.free_blocks() != free {
        let what = format!("{} noted, {free} found", desc.free_blocks());
        state.found.add(note(Kind::FreeBlocks, what));
    }
    if volume.flags(group).has(GroupFlags::BLOCK_UNINIT) {
        if state.usage.has_owners(group) && expected[..] != Usage::fresh(volume, group)[..] {
            let what = "blocks are in use in a group whose bitmap was never written".into();
            state.found.add(note(Kind::UsedMarkedFree, what));
        }
        return free;
    }
    let at = desc.block_bitmap();
    let Some(map) = volume.reader.block(at.0, state.found) else {
        return free;
    };
    if let Err(e) = BitmapChecksum::Block.verify(&volume.sb, group, desc, &map) {
        state
            .found
            .add(note(Kind::BlockBitmapChecksum, e.to_string()).block(at.0));
    }
    if map[..] == expected[..] {
        return free;
    }
    let (first, cluster) = (volume.sb.group_first_block(group).0, volume.cluster());
    let mut differ = |bit: u32, count: u32, used: bool| {
        let (kind, what) = if used {
            (Kind::UsedMarkedFree, "in use, marked free")
        } else {
            (Kind::LostBlocks, "marked used, belong to nothing")
        };
        let (bit, count) = (u64::from(bit) * cluster, u64::from(count) * cluster);
        let what = format!("blocks {}+{count}: {what}", first + bit);
        state.found.add(note(kind, what).block(at.0));
    };
    each_difference(&expected, &map, len, &mut differ);
    check_padding(state, &map, len, group, at.0);
    free
}

/// Free inodes of a group.
fn check_inodes(volume: &Volume<'_>, state: &mut Gathered<'_>, group: u32) -> u32 {
    let (sb, desc) = (&volume.sb, &volume.descs[group as usize]);
    let per_group = sb.inodes_per_group();
    let base = group * per_group;
    let mut expected = vec![0; volume.block_bytes()];
    bitmap::fill(&mut expected, per_group, volume.bits() - per_group, true);
    // Reserved inodes are never free; small groups have a part of them each.
    let reserved = sb.first_ino().0.saturating_sub(1);
    let reserved = reserved.saturating_sub(base).min(per_group);
    bitmap::fill(&mut expected, 0, reserved, true);
    let mut dirs = 0;
    for (ino, file) in state.files.range(base + 1..=base + per_group) {
        bitmap::fill(&mut expected, ino - base - 1, 1, true);
        dirs += u32::from(file.kind == FileType::Directory);
    }
    let free = bitmap::count_zeros(&expected, per_group);
    let note = |kind, what: String| Finding::new(kind, what).group(group);
    if desc.free_inodes() != free {
        let what = format!("{} noted, {free} found", desc.free_inodes());
        state.found.add(note(Kind::FreeInodes, what));
    }
    if desc.used_dirs() != dirs {
        let what = format!("{} noted, {dirs} found", desc.used_dirs());
        state.found.add(note(Kind::DirCount, what));
    }
    if volume.flags(group).has(GroupFlags::INODE_UNINIT) {
        return free;
    }
    let at = desc.inode_bitmap();
    let Some(map) = volume.reader.block(at.0, state.found) else {
        return free;
    };
    if let Err(e) = BitmapChecksum::Inode.verify(sb, group, desc, &map) {
        state
            .found
            .add(note(Kind::InodeBitmapChecksum, e.to_string()).block(at.0));
    }
    if map[..] == expected[..] {
        return free;
    }
    let mut differ = |bit: u32, count: u32, used: bool| {
        let (kind, what) = if used {
            (Kind::InodeMarkedFree, "in use, marked free")
        } else {
            (Kind::LostInode, "marked used, not in use")
        };
        let what = format!("inodes {}+{count}: {what}", base + 1 + bit);
        state.found.add(note(kind, what).block(at.0));
    };
    each_difference(&expected, &map, per_group, &mut differ);
    check_padding(state, &map, per_group, group, at.0);
    free
}

/// Calls `differ` with (first bit, bits, expected to be set) for each stretch of bits that differ.
fn each_difference(expected: &[u8], map: &[u8], len: u32, differ: &mut dyn FnMut(u32, u32, bool)) {
    let wrong: Vec<u8> = expected.iter().zip(map).map(|(a, b)| a ^ b).collect();
    let mut at = bitmap::next(&wrong, 0, len, true);
    while at < len {
        let used = bitmap::get(expected, at);
        let end = bitmap::next(&wrong, at, len, false);
        let stop = bitmap::next(expected, at, end, !used);
        differ(at, stop - at, used);
        at = bitmap::next(&wrong, stop, len, true);
    }
}

fn check_padding(state: &mut Gathered<'_>, map: &[u8], len: u32, group: u32, at: u64) {
    let bits = map.len() as u32 * 8;
    let clear = bitmap::next(map, len, bits, false);
    if clear < bits {
        let what = format!("bit {clear} is clear, behind the {len} of the group");
        let finding = Finding::new(Kind::BitmapPadding, what)
            .group(group)
            .block(at);
        state.found.add(finding);
    }
}
