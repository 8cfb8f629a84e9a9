//! Computes the bytes of a new volume.

use super::geometry::{FIRST_INO, Geometry, LOG_FLEX_GROUPS};
use super::layout::Layout;
use super::pointers::PointerMap;
use super::resize::{resize_block_count, resize_blocks, resize_bytes};
use super::{FastCommitArea, JournalSize, Kind, MkfsOptions, Plan};
use base::bytes::{get_le32, is_zero, put_le32};
use base::{BlockNo, Ino};
use ondisk::Folding;
use ondisk::ext4::{
    BLOCK_MAP_DIRECT, BitmapChecksum, Compat, DIR_TAIL_BYTES, Extent, ExtentEntries, ExtentIndex,
    ExtentNode, FIRST_INO_DEFAULT, FileType, GroupDesc, GroupFlags, HashVersion, Incompat, Inode,
    InodeFlags, JOURNAL_INO, MODE_DIR, MODE_REGULAR, RESIZE_INO, ROOT_INO, RoCompat, SUPERBLOCK_AT,
    State, Superblock, SuperblockFlags, Timestamp, put_dir_entry, put_dir_tail,
    update_dir_checksum, update_extent_checksum,
};
use ondisk::jbd2;
use std::collections::BTreeMap;

const BAD_BLOCKS_INO: Ino = Ino(1);
const LOST_FOUND: &[u8] = b"lost+found";
const _: () = assert!(FIRST_INO == FIRST_INO_DEFAULT.0);

/// Fills in every block of the plan.
pub(super) fn build(options: &MkfsOptions, g: &Geometry, layout: &Layout) -> Plan {
    let mut sb = superblock(options, g, layout);
    let mut image = Image {
        options,
        g,
        layout,
        blocks: BTreeMap::new(),
    };
    image.directories(&sb);
    if !g.has_clusters() {
        for (block, bytes) in resize_blocks(g, layout.resize) {
            image.blocks.insert(block, bytes);
        }
    }
    image.inodes(&mut sb);
    let descs = image.groups(&mut sb);
    image.copies(&mut sb, &descs);
    let table_blocks = u64::from(g.table_blocks);
    let tables = layout.groups.iter().map(|p| (p.inode_table, table_blocks));
    // An old log in the journal could look like the continuation of the new one.
    let journal = layout.journal.iter().copied();
    let areas = tables.chain(journal).collect();
    Plan::new(image.blocks, areas, g.block_bytes as usize)
}

struct Image<'a> {
    options: &'a MkfsOptions,
    g: &'a Geometry,
    layout: &'a Layout,
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// The superblock without its free counts, its checksum and what the journal adds.
fn superblock(options: &MkfsOptions, g: &Geometry, layout: &Layout) -> Superblock {
    let mut sb = Superblock::blank();
    let journal = match options.journal {
        JournalSize::None => Compat::NONE,
        _ => Compat::HAS_JOURNAL,
    };
    if let JournalSize::External(uuid) = options.journal {
        sb.set_journal_uuid(uuid);
    }
    let resize = match g.has_clusters() {
        true => Compat::NONE,
        false => Compat::RESIZE_INODE,
    };
    let fast = match options.fast_commits {
        FastCommitArea::Feature => Compat::FAST_COMMIT,
        FastCommitArea::None | FastCommitArea::Room => Compat::NONE,
    };
    sb.set_compat(Compat::EXT_ATTR | resize | Compat::DIR_INDEX | journal | fast);
    sb.set_incompat(Incompat::FILETYPE);
    sb.set_ro_compat(RoCompat::SPARSE_SUPER | RoCompat::LARGE_FILE);
    if g.kind == Kind::Ext4 {
        let incompat = Incompat::FILETYPE | Incompat::EXTENTS | Incompat::WIDE_BLOCKS;
        sb.set_incompat(incompat | Incompat::FLEX_BG);
        let ro = sb.ro_compat() | RoCompat::HUGE_FILE | RoCompat::DIR_NLINK;
        sb.set_ro_compat(ro | RoCompat::EXTRA_ISIZE | RoCompat::METADATA_CSUM);
        sb.set_desc_size(g.desc_bytes() as u16);
        sb.set_log_groups_per_flex(LOG_FLEX_GROUPS);
        sb.set_checksum_type(1);
    }
    let mut overhead = g.overhead();
    if g.has_clusters() {
        sb.set_ro_compat(sb.ro_compat() | RoCompat::BIGALLOC);
        overhead = layout.fixed + g.whole_clusters(g.journal_blocks.into());
    }
    if options.casefold {
        sb.set_incompat(sb.incompat() | Incompat::CASEFOLD);
        sb.set_name_encoding(Folding::fields());
    }

    sb.set_inodes_count(g.inodes());
    sb.set_blocks_count(g.blocks);
    sb.set_reserved_blocks(g.reserved_blocks);
    let log_block_size = g.block_bytes.ilog2() - 10;
    sb.set_log_block_size(log_block_size);
    sb.set_log_cluster_size(log_block_size + g.cluster_blocks.ilog2());
    sb.set_first_data_block(g.first_block() as u32);
    sb.set_blocks_per_group(g.blocks_per_group);
    sb.set_clusters_per_group(g.blocks_per_group / g.cluster_blocks);
    sb.set_inodes_per_group(g.inodes_per_group);
    sb.set_max_mount_count(u16::MAX);
    sb.set_errors_behavior(1);
    sb.set_revision(1);
    sb.set_first_ino(FIRST_INO_DEFAULT);
    sb.set_inode_bytes(g.inode_bytes as u16);
    sb.set_reserved_gdt_blocks(g.reserved_desc_blocks as u16);
    sb.set_min_extra_isize(g.extra_bytes());
    sb.set_want_extra_isize(g.extra_bytes());
    let overhead = overhead / u64::from(g.cluster_blocks);
    sb.set_overhead_clusters(u32::try_from(overhead).unwrap_or(0));
    sb.set_default_mount_options(0xC); // user_xattr, acl

    sb.set_uuid(options.uuid);
    sb.set_label(options.label.as_bytes());
    sb.set_hash_seed(options.hash_seed);
    sb.set_default_hash(HashVersion::HalfMd4);
    sb.set_flags(SuperblockFlags::SIGNED_HASH);
    let secs = u64::try_from(options.time.secs).unwrap_or(0);
    sb.set_mkfs_time(secs);
    sb.set_write_time(secs);
    sb.set_check_time(secs);
    sb
}

impl Image<'_> {
    fn time(&self) -> Timestamp {
        Timestamp {
            secs: self.options.time.secs,
            nanos: 0,
        }
    }

    fn has_checksums(&self) -> bool {
        self.g.kind == Kind::Ext4
    }

    /// Root directory and `lost+found`.
    fn directories(&mut self, sb: &Superblock) {
        let tail = if self.has_checksums() {
            DIR_TAIL_BYTES
        } else {
            0
        };
        let end = self.g.block_bytes as usize - tail;
        let lost_found = Ino(FIRST_INO);
        let dir = FileType::Directory;
        let mut root = self.g.empty();
        put_dir_entry(&mut root, 0, 12, Some(ROOT_INO), dir, b".");
        put_dir_entry(&mut root, 12, 12, Some(ROOT_INO), dir, b"..");
        put_dir_entry(&mut root, 24, end - 24, Some(lost_found), dir, LOST_FOUND);
        self.leaf(sb, ROOT_INO, self.layout.root, root);

        let blocks = self
            .layout
            .lost_found
            .iter()
            .flat_map(|&(start, len)| start..start + len);
        for (n, block) in blocks.enumerate() {
            let mut leaf = self.g.empty();
            if n == 0 {
                put_dir_entry(&mut leaf, 0, 12, Some(lost_found), dir, b".");
                put_dir_entry(&mut leaf, 12, end - 12, Some(ROOT_INO), dir, b"..");
            } else {
                put_dir_entry(&mut leaf, 0, end, None, FileType::Unknown, b"");
            }
            self.leaf(sb, lost_found, block, leaf);
        }
    }

    fn leaf(&mut self, sb: &Superblock, ino: Ino, block: u64, mut bytes: Vec<u8>) {
        if self.has_checksums() {
            put_dir_tail(&mut bytes);
            update_dir_checksum(sb.seed().inode(ino, 0), &mut bytes);
        }
        self.blocks.insert(block, bytes);
    }

    /// Fills in the inodes that are not empty, and the copy of the journal's mapping in the
    /// superblock.
    fn inodes(&mut self, sb: &mut Superblock) {
        let mut bad = Inode::blank(self.g.inode_bytes as usize, 0);
        bad.set_access_time(self.time());
        bad.set_change_time(self.time());
        bad.set_modify_time(self.time());
        self.put_inode(sb, BAD_BLOCKS_INO, bad);
        // The other reserved inodes are empty, but carry a checksum.
        let checked = self.has_checksums();
        let others = (1..FIRST_INO).map(Ino).filter(|i| *i != BAD_BLOCKS_INO);
        for ino in others.filter(|_| checked) {
            self.put_inode(sb, ino, Inode::blank(self.g.inode_bytes as usize, 0));
        }

        let mut root = self.inode(MODE_DIR | 0o755, 3, self.g.block_bytes.into());
        root.set_uid(self.options.root_owner.0);
        root.set_gid(self.options.root_owner.1);
        self.map(sb, ROOT_INO, &mut root, &[(self.layout.root, 1)], None);
        self.put_inode(sb, ROOT_INO, root);

        let bytes = u64::from(self.g.lost_found_blocks() * self.g.block_bytes);
        let mut lost_found = self.inode(MODE_DIR | 0o700, 2, bytes);
        let runs = &self.layout.lost_found;
        self.map(sb, Ino(FIRST_INO), &mut lost_found, runs, None);
        self.put_inode(sb, Ino(FIRST_INO), lost_found);

        if !self.g.has_clusters() {
            self.resize_inode(sb);
        }
        if self.g.journal_blocks > 0 {
            self.journal(sb);
        }
    }

    fn resize_inode(&mut self, sb: &Superblock) {
        let mut resize = self.inode(MODE_REGULAR | 0o600, 1, resize_bytes(self.g));
        let top = u32::try_from(self.layout.resize).expect("volumes end below 2^32 blocks");
        put_le32(resize.block_area_mut(), 4 * 13, top);
        self.set_blocks(&mut resize, resize_block_count(self.g));
        self.put_inode(sb, RESIZE_INO, resize);
    }

    fn journal(&mut self, sb: &mut Superblock) {
        let bytes = u64::from(self.g.journal_blocks) * u64::from(self.g.block_bytes);
        let mut inode = self.inode(MODE_REGULAR | 0o600, 1, bytes);
        match &self.layout.journal_map {
            Some(map) => self.map_by_pointers(&mut inode, map),
            None => {
                let node = self.layout.journal_node;
                self.map(sb, JOURNAL_INO, &mut inode, &self.layout.journal, node);
            }
        }

        let mut backup = [0; 17];
        for (n, word) in backup[..15].iter_mut().enumerate() {
            *word = get_le32(inode.block_area(), 4 * n);
        }
        backup[15] = (bytes >> 32) as u32;
        backup[16] = bytes as u32;
        sb.set_journal_backup(&backup);
        sb.set_journal_ino(JOURNAL_INO);
        self.put_inode(sb, JOURNAL_INO, inode);

        let uuid = self.options.uuid;
        let mut log = jbd2::Superblock::new(self.g.block_bytes, self.g.journal_blocks, uuid);
        // As mke2fs leaves it: the log has no feature of fast commits before it is used.
        log.set_fast_commit_blocks(self.g.fast_commit_blocks);
        let mut block = self.g.empty();
        log.encode(&mut block);
        self.blocks.insert(self.layout.journal[0].0, block);
    }

    fn inode(&self, mode: u16, links: u16, size: u64) -> Inode {
        let mut inode = Inode::blank(self.g.inode_bytes as usize, self.g.extra_bytes());
        inode.set_mode(mode);
        inode.set_links(links);
        inode.set_size(size);
        inode.set_access_time(self.time());
        inode.set_change_time(self.time());
        inode.set_modify_time(self.time());
        inode.set_create_time(self.time());
        inode
    }

    /// Block area and pointer blocks of a file that is mapped already.
    fn map_by_pointers(&mut self, inode: &mut Inode, map: &PointerMap) {
        for (n, word) in map.area.iter().enumerate() {
            put_le32(inode.block_area_mut(), 4 * n, *word);
        }
        for (block, pointers) in &map.pointers {
            let mut bytes = vec![0; 4 * pointers.len()];
            // Most point nowhere.
            for (n, pointer) in pointers.iter().enumerate().filter(|(_, p)| **p != 0) {
                put_le32(&mut bytes, 4 * n, *pointer);
            }
            self.blocks.insert((*block).into(), bytes);
        }
        let data: u64 = map.runs().iter().map(|(_, len)| len).sum();
        self.set_blocks(inode, data + map.pointers.len() as u64);
    }

    /// Maps `runs`: by extents in the inode, or in the block `node` if there are more than four;
    /// those of an ext3, which are few, by direct pointers.
    fn map(
        &mut self,
        sb: &Superblock,
        ino: Ino,
        inode: &mut Inode,
        runs: &[(u64, u64)],
        node: Option<u64>,
    ) {
        if self.g.kind == Kind::Ext3 {
            let blocks = runs.iter().flat_map(|&(start, len)| start..start + len);
            for (n, block) in blocks.enumerate() {
                assert!(n < BLOCK_MAP_DIRECT as usize, "direct pointers do");
                put_le32(inode.block_area_mut(), 4 * n, block as u32);
            }
            return self.set_blocks(inode, runs.iter().map(|(_, len)| len).sum());
        }
        let mut logical = 0;
        let extent = |&(start, len): &(u64, u64)| {
            let len = len as u32;
            let extent = Extent {
                logical,
                len,
                physical: BlockNo(start),
                unwritten: false,
            };
            logical += len;
            extent
        };
        let extents: Vec<Extent> = runs.iter().map(extent).collect();
        let leaf = ExtentEntries::Leaf(extents.clone());
        let mut root = ExtentNode::inline_root();
        match node {
            None => root.entries = leaf,
            Some(child) => {
                let max = ExtentNode::block_max(self.g.block_bytes as usize);
                let mut block = self.g.empty();
                ExtentNode {
                    depth: 0,
                    max,
                    generation: 0,
                    entries: leaf,
                }
                .encode(&mut block);
                update_extent_checksum(sb.seed().inode(ino, 0), &mut block);
                self.blocks.insert(child, block);
                // The root was a full leaf before the tree grew: mke2fs leaves its last three
                // records behind the index.
                let full = extents.iter().take(root.max.into()).copied().collect();
                root.entries = ExtentEntries::Leaf(full);
                root.encode(inode.block_area_mut());
                root.depth = 1;
                let child = ExtentIndex {
                    logical: 0,
                    child: BlockNo(child),
                };
                root.entries = ExtentEntries::Index(vec![child]);
            }
        }
        root.encode(inode.block_area_mut());
        inode.set_flags(InodeFlags::EXTENTS);
        let blocks: u64 = runs.iter().map(|(_, len)| len).sum();
        let node = u64::from(node.is_some());
        self.set_blocks(
            inode,
            self.g.whole_clusters(blocks) + self.g.whole_clusters(node),
        );
    }

    fn put_inode(&mut self, sb: &Superblock, ino: Ino, mut inode: Inode) {
        if self.has_checksums() {
            inode.update_checksum(sb.seed(), ino);
        }
        let place = sb.inode_place(ino).expect("reserved inodes lie in group 0");
        assert_eq!(place.group, 0, "reserved inodes lie in group 0");
        let block = self.layout.groups[0].inode_table + place.table_block;
        let empty = || self.g.empty();
        let bytes = self.blocks.entry(block).or_insert_with(empty);
        inode.encode(&mut bytes[place.offset..]);
    }

    /// Fills in bitmaps and descriptors, and the free counts of the superblock.
    fn groups(&mut self, sb: &mut Superblock) -> Vec<u8> {
        let g = self.g;
        let bytes = g.desc_blocks as usize * g.block_bytes as usize;
        let mut descs = vec![0; bytes];
        let (mut free_blocks, mut free_inodes) = (0, 0);
        for group in 0..g.groups {
            let desc = self.group(sb, group);
            free_blocks += u64::from(desc.free_blocks());
            free_inodes += desc.free_inodes();
            desc.encode(&mut descs[group as usize * g.desc_bytes() as usize..]);
        }
        sb.set_free_blocks(free_blocks * u64::from(g.cluster_blocks));
        sb.set_free_inodes(free_inodes);
        descs
    }

    fn group(&mut self, sb: &Superblock, group: u32) -> GroupDesc {
        let (g, places) = (self.g, self.layout.groups[group as usize]);
        let (start, len) = (g.group_start(group), g.group_blocks(group));
        // mkfs-I2: bitmap and count come from the same set.
        let taken = self.layout.space.taken_count(start, start + len);
        let used_inodes = if group == 0 { FIRST_INO } else { 0 };
        let mut desc = GroupDesc::blank(g.desc_bytes() as usize);
        desc.set_block_bitmap(BlockNo(places.block_bitmap));
        desc.set_inode_bitmap(BlockNo(places.inode_bitmap));
        desc.set_inode_table(BlockNo(places.inode_table));
        desc.set_free_blocks((len - taken) as u32 / g.cluster_blocks);
        desc.set_free_inodes(g.inodes_per_group - used_inodes);
        desc.set_used_dirs(if group == 0 { 2 } else { 0 });

        // Without checksums of descriptors nothing may be left uninitialised.
        let lazy = self.has_checksums();
        let mut flags = GroupFlags::ITABLE_ZEROED;
        if lazy {
            desc.set_unused_inodes(g.inodes_per_group - used_inodes);
        }
        let only_own = taken == g.whole_clusters(g.own_blocks(group).into());
        if lazy && only_own && group != 0 && group + 1 != g.groups {
            flags = flags | GroupFlags::BLOCK_UNINIT;
        } else {
            let bitmap = self.block_bitmap(start, len);
            BitmapChecksum::Block.update(sb, &mut desc, &bitmap);
            self.blocks.insert(places.block_bitmap, bitmap);
        }
        if lazy && used_inodes == 0 {
            flags = flags | GroupFlags::INODE_UNINIT;
        } else {
            let mut bitmap = self.g.empty();
            set_bits(&mut bitmap, 0, used_inodes.into());
            set_bits(&mut bitmap, g.inodes_per_group.into(), g.bits_per_block());
            BitmapChecksum::Inode.update(sb, &mut desc, &bitmap);
            self.blocks.insert(places.inode_bitmap, bitmap);
        }
        desc.set_flags(flags);
        desc.update_checksum(sb, group);
        desc
    }

    fn block_bitmap(&self, start: u64, len: u64) -> Vec<u8> {
        let mut bitmap = self.g.empty();
        let unit = u64::from(self.g.cluster_blocks);
        for (at, n) in self.layout.space.taken_in(start, start + len) {
            let (from, to) = (at - start, at - start + n);
            set_bits(&mut bitmap, from / unit, to.div_ceil(unit));
        }
        set_bits(&mut bitmap, len / unit, self.g.bits_per_block());
        bitmap
    }

    /// The superblock, the descriptors and their backups.
    fn copies(&mut self, sb: &mut Superblock, descs: &[u8]) {
        let listed = self.blocks.values().filter(|b| !is_zero(b)).count() as u64;
        let written = listed
            + (1 + u64::from(self.g.desc_blocks)) * (1 + self.g.backup_groups().count() as u64);
        sb.set_kbytes_written(written * u64::from(self.g.block_bytes) / 1024);
        let groups: Vec<u32> = std::iter::once(0).chain(self.g.backup_groups()).collect();
        for group in groups {
            let start = self.g.group_start(group);
            sb.set_group_of_copy(group as u16);
            // Backups are never marked clean, because a volume that needs one has to be checked.
            sb.set_state(if group == 0 {
                State::VALID
            } else {
                State::NONE
            });
            let mut block = self.g.empty();
            let at = if start == 0 {
                SUPERBLOCK_AT as usize
            } else {
                0
            };
            sb.encode(&mut block[at..]);
            self.blocks.insert(start, block);
            for (n, bytes) in descs.chunks(self.g.block_bytes as usize).enumerate() {
                self.blocks.insert(start + 1 + n as u64, bytes.to_vec());
            }
        }
    }

    fn set_blocks(&self, inode: &mut Inode, blocks: u64) {
        let sectors = blocks * u64::from(self.g.block_bytes) / base::SECTOR_BYTES as u64;
        let stored = inode.set_sectors(sectors, self.has_checksums(), self.g.block_bytes);
        assert!(
            stored,
            "the metadata of a volume fits the block count of an inode"
        );
    }
}

fn set_bits(bitmap: &mut [u8], from: u64, to: u64) {
    for bit in from..to {
        bitmap[(bit / 8) as usize] |= 1 << (bit % 8);
    }
}
