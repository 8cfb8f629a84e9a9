//! The orphan file and list as the bytes of a device show them.

use base::bytes::{get_le32, put_le32};
use base::{BLOCK_BYTES, BlockNo, Ino};
use block::Class;
use blockdev::{Ram, write_block};
use ondisk::ext4::{
    ExtentEntries, ExtentNode, GroupDesc, Inode, InodeSeed, OrphanBlock, RoCompat, Superblock,
    update_orphan_checksum, verify_orphan_checksum,
};

/// The parsed content of a device.
pub struct View {
    bytes: Vec<u8>,
    pub sb: Superblock,
}

impl View {
    pub fn of(ram: &Ram) -> View {
        let bytes = ram.image();
        let sb = Superblock::parse(&bytes[1024..]).expect("a superblock");
        View { bytes, sb }
    }

    fn size(&self) -> usize {
        self.sb.block_bytes() as usize
    }

    pub fn block(&self, at: u64) -> &[u8] {
        &self.bytes[at as usize * self.size()..][..self.size()]
    }

    /// Where the bytes of an inode begin.
    fn inode_at(&self, ino: Ino) -> usize {
        let place = self.sb.inode_place(ino).expect("an inode");
        let (at, offset) = self.sb.desc_place(place.group);
        let desc = GroupDesc::parse(&self.block(at.0)[offset..], self.sb.desc_bytes());
        let table = desc.expect("a descriptor").inode_table().0 + place.table_block;
        table as usize * self.size() + place.offset
    }

    pub fn inode(&self, ino: Ino) -> Inode {
        let bytes = self.sb.inode_bytes();
        Inode::parse(&self.bytes[self.inode_at(ino)..][..bytes], bytes).expect("an inode")
    }

    /// Blocks of the orphan file.
    pub fn file(&self) -> Vec<u64> {
        self.blocks_of(self.sb.orphan_file_ino())
    }

    /// Blocks of a file.
    pub fn blocks_of(&self, ino: Ino) -> Vec<u64> {
        let inode = self.inode(ino);
        let node = ExtentNode::parse(inode.block_area()).expect("extents");
        let ExtentEntries::Leaf(list) = node.entries else {
            panic!("a small file");
        };
        let blocks = list.iter();
        blocks
            .flat_map(|e| e.physical.0..e.physical.0 + u64::from(e.len))
            .collect()
    }

    fn seed(&self) -> InodeSeed {
        let ino = self.sb.orphan_file_ino();
        self.sb.seed().inode(ino, self.inode(ino).generation())
    }

    /// The inodes that the slots name, block by block; the checksums are checked.
    pub fn slots(&self) -> Vec<Vec<Ino>> {
        let named = |&at: &u64| {
            let block = self.block(at);
            if self.sb.has_metadata_checksums() {
                verify_orphan_checksum(self.seed(), BlockNo(at), block).expect("its checksum");
            }
            let parsed = OrphanBlock::parse(block).expect("a block of the file");
            parsed.orphans().map(|(_, ino)| ino).collect()
        };
        self.file().iter().map(named).collect()
    }

    /// All inodes that the file names.
    pub fn named(&self) -> Vec<Ino> {
        self.slots().concat()
    }

    pub fn is_marked(&self) -> bool {
        self.sb.ro_compat().has(RoCompat::ORPHAN_PRESENT)
    }

    /// The list, newest first.
    pub fn list(&self) -> Vec<Ino> {
        let mut list = Vec::new();
        let mut next = self.sb.last_orphan();
        while next.0 != 0 {
            list.push(next);
            next = Ino(self.inode(next).deletion_time());
        }
        list
    }

    /// Puts a number into a slot of the first block, and corrects the block's checksum.
    pub fn set_slot(&mut self, slot: usize, number: u32) {
        self.change_block(|block| put_le32(block, slot * 4, number), true);
    }

    /// Changes the first block of the file.
    pub fn change_block(&mut self, change: impl FnOnce(&mut [u8]), fix: bool) {
        let (at, size, seed) = (self.file()[0], self.size(), self.seed());
        let block = &mut self.bytes[at as usize * size..][..size];
        change(block);
        if fix {
            let magic = get_le32(block, size - 8);
            update_orphan_checksum(seed, BlockNo(at), block);
            put_le32(block, size - 8, magic);
        }
    }

    pub fn change_sb(&mut self, change: impl FnOnce(&mut Superblock)) {
        change(&mut self.sb);
        self.sb.encode(&mut self.bytes[1024..2048]);
    }

    pub fn change_inode(&mut self, ino: Ino, change: impl FnOnce(&mut Inode)) {
        let (at, bytes) = (self.inode_at(ino), self.sb.inode_bytes());
        let mut inode = self.inode(ino);
        change(&mut inode);
        inode.update_checksum(self.sb.seed(), ino);
        inode.encode(&mut self.bytes[at..at + bytes]);
    }

    /// Writes everything back.
    pub fn store(&self, ram: &Ram) {
        for (n, block) in (0..).zip(self.bytes.chunks(BLOCK_BYTES)) {
            let lba = BlockNo(n).lba();
            write_block(ram, lba, Class::Home, block.to_vec().into()).expect("in range");
        }
    }
}
