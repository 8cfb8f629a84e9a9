//! Checks the group descriptors: checksums and places.

use super::finding::{Finding, Findings, Kind};
use fscore::check::Reader;
use ondisk::ext4::{GroupDesc, GroupFlags, RoCompat, Superblock};

/// After this many descriptors with impossible places the others are not looked at any more.
const MISPLACED_MAX: u32 = 64;

/// Reads all descriptors; `None` if one of them has an impossible place, because then what belongs
/// to its group cannot be judged.
pub(super) fn load(
    reader: &Reader<'_>,
    sb: &Superblock,
    found: &mut Findings,
) -> Option<Vec<GroupDesc>> {
    let mut descs = Vec::new();
    let mut misplaced = 0;
    let mut block = None;
    for group in 0..sb.groups_count() {
        let (at, offset) = sb.desc_place(group);
        if offset == 0 {
            block = reader.block(at.0, found);
        }
        let desc = GroupDesc::parse(&block.as_ref()?[offset..], sb.desc_bytes());
        let desc = desc.expect("a block holds whole descriptors");
        let note = |kind, what| Finding::new(kind, what).group(group).block(at.0);
        if let Err(e) = desc.verify_checksum(sb, group) {
            found.add(note(Kind::GroupChecksum, e.to_string()));
        }
        if let Some(what) = misplaced_field(sb, group, &desc) {
            found.add(note(Kind::GroupPlace, what));
            misplaced += 1;
            if misplaced >= MISPLACED_MAX {
                return None;
            }
        }
        if let Some(what) = impossible_field(sb, group, &desc) {
            found.add(note(Kind::GroupField, what));
        }
        descs.push(desc);
    }
    (misplaced == 0).then_some(descs)
}

pub(super) fn misplaced_field(sb: &Superblock, group: u32, desc: &GroupDesc) -> Option<String> {
    let places = [
        ("bg_block_bitmap", desc.block_bitmap(), 1),
        ("bg_inode_bitmap", desc.inode_bitmap(), 1),
        (
            "bg_inode_table",
            desc.inode_table(),
            sb.inode_table_blocks(),
        ),
    ];
    for (field, block, len) in places {
        let end = block.0.checked_add(len);
        if block.0 <= u64::from(sb.first_data_block())
            || end.is_none_or(|end| end > sb.blocks_count())
        {
            return Some(format!("{field} = {block} lies outside the file system"));
        }
    }
    (head_blocks(sb, group) > sb.group_blocks(group).into())
        .then(|| "the group is too small for the descriptors at its start".into())
}

fn impossible_field(sb: &Superblock, group: u32, desc: &GroupDesc) -> Option<String> {
    if desc.free_blocks() > sb.group_clusters(group) {
        let (free, blocks) = (desc.free_blocks(), sb.group_clusters(group));
        return Some(format!("{free} free blocks in a group of {blocks}"));
    }
    let uninit = desc.flags().0 & (GroupFlags::INODE_UNINIT | GroupFlags::BLOCK_UNINIT).0;
    let ro = sb.ro_compat();
    let sums = ro.has(RoCompat::GDT_CSUM) || ro.has(RoCompat::METADATA_CSUM);
    if !sums && (uninit != 0 || desc.unused_inodes() != 0) {
        return Some("marked as never written, without checksums that could vouch for it".into());
    }
    if desc.flags().has(GroupFlags::BLOCK_UNINIT) && group + 1 == sb.groups_count() {
        return Some("the block bitmap of the last group is marked as never written".into());
    }
    let inodes = sb.inodes_per_group();
    let (free, unused) = (desc.free_inodes(), desc.unused_inodes());
    (free > inodes || unused > inodes)
        .then(|| format!("{free} free and {unused} unused inodes in a group of {inodes}"))
}

/// Blocks at the start of a group that hold the superblock, descriptors and the blocks reserved for
/// more descriptors.
pub(super) fn head_blocks(sb: &Superblock, group: u32) -> u64 {
    crate::group::head_blocks(sb, group)
}
