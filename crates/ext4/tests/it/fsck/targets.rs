//! Every structure of a volume, with the way to correct its checksum.

use base::bytes::{get_le32, put_le32};
use base::{BlockNo, Bytes, Ino};
use ondisk::ext4::{
    BitmapChecksum, DirEntries, DxBlock, ExtentEntries, ExtentNode, GroupDesc, Inode, InodeFlags,
    InodeSeed, Superblock, XattrBlock, update_dir_checksum, update_extent_checksum,
    update_orphan_checksum,
};
use ondisk::jbd2;
use std::collections::BTreeMap;

/// How the checksum of a structure is corrected.
#[derive(Clone, Copy, Debug)]
pub enum Fix {
    None,
    Superblock,
    Desc(u32),
    BlockBitmap(u32),
    InodeBitmap(u32),
    Inode(u32),
    Extent(InodeSeed),
    Leaf(InodeSeed),
    Root(InodeSeed),
    Node(InodeSeed),
    Xattr,
    Journal,
    Orphan(InodeSeed),
}

/// A structure.
#[derive(Clone, Debug)]
pub struct Target {
    pub name: String,
    pub block: u64,
    pub offset: usize,
    pub len: usize,
    pub fix: Fix,
}

pub type Blocks = BTreeMap<u64, Bytes>;

pub struct Volume {
    pub sb: Superblock,
    pub blocks: Blocks,
    pub targets: Vec<Target>,
}

fn zero() -> Bytes {
    vec![0; 4096].into()
}

pub fn block(blocks: &Blocks, n: u64) -> Bytes {
    blocks.get(&n).cloned().unwrap_or_else(zero)
}

impl Volume {
    /// Finds all structures.
    pub fn of(blocks: Blocks) -> Volume {
        let sb = Superblock::parse(&block(&blocks, 0)[1024..]).expect("a volume");
        let mut volume = Volume {
            sb,
            blocks,
            targets: Vec::new(),
        };
        volume.add("superblock", 0, 1024, 1024, Fix::Superblock);
        for group in 0..volume.sb.groups_count() {
            volume.group(group);
        }
        volume
    }

    fn add(&mut self, name: impl Into<String>, block: u64, offset: usize, len: usize, fix: Fix) {
        self.targets.push(Target {
            name: name.into(),
            block,
            offset,
            len,
            fix,
        });
    }

    fn group(&mut self, group: u32) {
        let (at, offset) = self.sb.desc_place(group);
        let bytes = self.sb.desc_bytes();
        let desc = GroupDesc::parse(&block(&self.blocks, at.0)[offset..], bytes).expect("64 bytes");
        self.add(
            format!("descriptor {group}"),
            at.0,
            offset,
            bytes,
            Fix::Desc(group),
        );
        let (blocks, inodes) = (desc.block_bitmap().0, desc.inode_bitmap().0);
        let len = self.sb.clusters_per_group() as usize / 8;
        self.add(
            format!("block bitmap {group}"),
            blocks,
            0,
            len,
            Fix::BlockBitmap(group),
        );
        let len = self.sb.inodes_per_group() as usize / 8;
        self.add(
            format!("inode bitmap {group}"),
            inodes,
            0,
            len,
            Fix::InodeBitmap(group),
        );
        if group > 0 && self.sb.has_superblock(group) {
            let first = self.sb.group_first_block(group).0;
            self.add(
                format!("backup superblock {group}"),
                first,
                0,
                1024,
                Fix::None,
            );
            let len = bytes * self.sb.groups_count() as usize;
            self.add(
                format!("backup descriptors {group}"),
                first + 1,
                0,
                len,
                Fix::None,
            );
        }
        let used = self.sb.inodes_per_group() - desc.unused_inodes();
        for index in 0..used.min(self.sb.inodes_per_group()) {
            let ino = group * self.sb.inodes_per_group() + index + 1;
            self.inode(ino, desc.inode_table().0);
        }
    }

    fn inode(&mut self, ino: u32, table: u64) {
        let place = self.sb.inode_place(Ino(ino)).expect("an inode");
        let at = table + place.table_block;
        let size = self.sb.inode_bytes();
        let raw = block(&self.blocks, at).slice(place.offset..place.offset + size);
        let inode = Inode::parse(&raw, size).expect("an inode");
        let kind = if inode.is_blank() {
            "blank inode"
        } else if inode.links() == 0 {
            "deleted inode"
        } else if ino < self.sb.first_ino().0 {
            "reserved inode"
        } else {
            match inode.file_type() {
                ondisk::ext4::MODE_DIR => "directory inode",
                ondisk::ext4::MODE_REGULAR => "file inode",
                ondisk::ext4::MODE_SYMLINK => "symlink inode",
                _ => "special inode",
            }
        };
        // Of structures that are all alike, a few are enough.
        let alike = self
            .targets
            .iter()
            .filter(|t| t.name.starts_with(kind))
            .count();
        if alike < 12 {
            self.add(
                format!("{kind} {ino}"),
                at,
                place.offset,
                size,
                Fix::Inode(ino),
            );
        }
        if inode.links() == 0 {
            return;
        }
        let seed = self.sb.seed().inode(Ino(ino), inode.generation());
        if inode.xattr_block().0 != 0 && alike < 12 {
            let at = inode.xattr_block().0;
            let len = if ino.is_multiple_of(2) { 128 } else { 4096 };
            self.add(format!("xattr block of {ino}"), at, 0, len, Fix::Xattr);
        }
        let mut data = Vec::new();
        if inode.flags().has(InodeFlags::EXTENTS) {
            self.extents(ino, seed, inode.block_area(), &mut data);
        } else if inode.flags().has(InodeFlags::INLINE_DATA) {
            // The whole directory was added with the inode.
        } else if inode.is_regular() || inode.is_dir() {
            self.pointers(ino, inode.block_area(), &mut data);
        }
        if ino == self.sb.journal_ino().0 {
            self.add("journal superblock", data[0], 0, 1024, Fix::Journal);
        }
        if ino == self.sb.orphan_file_ino().0 {
            self.add("orphan file", data[0], 0, 4096, Fix::Orphan(seed));
        }
        if inode.is_dir() {
            self.dir(ino, seed, inode.flags().has(InodeFlags::INDEX), &data);
        }
    }

    fn extents(&mut self, ino: u32, seed: InodeSeed, bytes: &[u8], data: &mut Vec<u64>) {
        match ExtentNode::parse(bytes).expect("a node").entries {
            ExtentEntries::Leaf(list) => {
                for e in list {
                    data.extend(e.physical.0..e.physical.0 + u64::from(e.len));
                }
            }
            ExtentEntries::Index(list) => {
                for record in list {
                    let at = record.child.0;
                    let node = block(&self.blocks, at);
                    let len = 12 + 12 * ExtentNode::parse(&node).expect("a node").entries.len();
                    self.add(
                        format!("extent block of {ino}"),
                        at,
                        0,
                        len.min(400),
                        Fix::Extent(seed),
                    );
                    self.extents(ino, seed, &node, data);
                }
            }
        }
    }

    fn pointers(&mut self, ino: u32, area: &[u8], data: &mut Vec<u64>) {
        for slot in 0..15 {
            let pointer = u64::from(get_le32(area, 4 * slot));
            if pointer == 0 {
                continue;
            }
            if slot < 12 {
                data.push(pointer);
                continue;
            }
            self.add(
                format!("pointer block of {ino}"),
                pointer,
                0,
                256,
                Fix::None,
            );
            let list = block(&self.blocks, pointer);
            for word in list
                .chunks_exact(4)
                .map(|w| get_le32(w, 0))
                .filter(|&w| w != 0)
            {
                if slot == 12 {
                    data.push(word.into());
                }
            }
        }
    }

    fn dir(&mut self, ino: u32, seed: InodeSeed, indexed: bool, data: &[u64]) {
        for (lblk, &at) in data.iter().enumerate().take(24) {
            let bytes = block(&self.blocks, at);
            let head = DirEntries::new(&bytes).next();
            let inner = matches!(head, Some(Ok(e)) if e.ino.is_none() && e.rec_len == 4096);
            let fix = match lblk {
                0 if indexed => Fix::Root(seed),
                _ if indexed && inner => Fix::Node(seed),
                _ => Fix::Leaf(seed),
            };
            let len = if matches!(fix, Fix::Leaf(_)) {
                4096
            } else {
                160
            };
            let name = match fix {
                Fix::Leaf(_) => "leaf",
                Fix::Root(_) => "index root",
                _ => "index node",
            };
            self.add(format!("{name} {lblk} of {ino}"), at, 0, len, fix);
            if matches!(fix, Fix::Leaf(_)) {
                self.add(format!("{name} head {lblk} of {ino}"), at, 0, 96, fix);
            }
        }
    }

    /// Corrects the checksum of `target` in `changed` (blocks that differ).
    pub fn mend(&self, target: &Target, changed: &mut Blocks) {
        let sums = self.sb.has_metadata_checksums();
        let mut bytes = changed[&target.block].to_vec();
        let at = target.offset;
        match target.fix {
            Fix::None => {}
            Fix::Superblock => {
                let crc = base::checksum::crc32c(!0, &bytes[1024..2044]);
                put_le32(&mut bytes, 2044, crc);
            }
            Fix::Desc(group) => self.mend_desc(group, &mut bytes),
            Fix::BlockBitmap(group) | Fix::InodeBitmap(group) => {
                let kind = match target.fix {
                    Fix::BlockBitmap(_) => BitmapChecksum::Block,
                    _ => BitmapChecksum::Inode,
                };
                let (descs, offset) = self.sb.desc_place(group);
                let mut block = block(&self.blocks, descs.0).to_vec();
                let mut desc =
                    GroupDesc::parse(&block[offset..], self.sb.desc_bytes()).expect("whole");
                kind.update(&self.sb, &mut desc, &bytes);
                desc.encode(&mut block[offset..]);
                self.mend_desc(group, &mut block);
                changed.insert(descs.0, block.into());
            }
            Fix::Inode(ino) if sums => {
                let size = self.sb.inode_bytes();
                if let Ok(mut inode) = Inode::parse(&bytes[at..], size) {
                    inode.update_checksum(self.sb.seed(), Ino(ino));
                    inode.encode(&mut bytes[at..]);
                }
            }
            // A damaged limit would move the checksum.
            Fix::Extent(seed) if sums && bytes[4..6] == 340u16.to_le_bytes() => {
                update_extent_checksum(seed, &mut bytes);
            }
            Fix::Leaf(seed) if sums && has_tail(&bytes) => update_dir_checksum(seed, &mut bytes),
            Fix::Root(seed) | Fix::Node(seed) if sums => {
                let root = matches!(target.fix, Fix::Root(_));
                if DxBlock::verify_checksum(seed, root, &bytes).is_err_and(|e| e.is_checksum()) {
                    DxBlock::update_checksum(seed, root, &mut bytes);
                }
            }
            Fix::Xattr if sums => {
                XattrBlock::update_checksum(self.sb.seed(), BlockNo(target.block), &mut bytes);
            }
            Fix::Journal if jbd2::Superblock::parse(&bytes).is_err_and(|e| e.is_checksum()) => {
                put_be32(&mut bytes, 0xFC, 0);
                let crc = base::checksum::crc32c(!0, &bytes[..1024]);
                put_be32(&mut bytes, 0xFC, crc);
            }
            Fix::Orphan(seed) if sums => {
                let magic = bytes[4088..4092].to_vec();
                update_orphan_checksum(seed, BlockNo(target.block), &mut bytes);
                bytes[4088..4092].copy_from_slice(&magic);
            }
            _ => {}
        }
        changed.insert(target.block, bytes.into());
    }

    fn mend_desc(&self, group: u32, block: &mut [u8]) {
        let (_, offset) = self.sb.desc_place(group);
        let mut desc = GroupDesc::parse(&block[offset..], self.sb.desc_bytes()).expect("whole");
        desc.update_checksum(&self.sb, group);
        desc.encode(&mut block[offset..]);
    }
}

fn put_be32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn has_tail(bytes: &[u8]) -> bool {
    bytes[4084..4092] == [0, 0, 0, 0, 12, 0, 0, 0xDE]
}
