//! The area of fast commits in an image: where it lies, its tags, and repair of its checksums.

use base::bytes::{get_le16, get_le32, put_le32};
use base::checksum::crc32c;
use base::{BLOCK_BYTES, Ino};
use blockdev::Image;
use ondisk::ext4::{ExtentEntries, ExtentNode, GroupDesc, Inode, Superblock};

pub const PAD: u16 = 7;
pub const TAIL: u16 = 8;
pub const HEAD: u16 = 9;
/// Bytes of a tag before its value.
pub const TAG_BYTES: usize = 4;

/// One tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    pub kind: u16,
    /// Where it begins in the area.
    pub at: usize,
    /// Length in bytes, including the tag's head.
    pub len: usize,
}

impl Tag {
    /// Number of bytes that have a meaning: bytes behind the number and the checksum of a tail, and
    /// those in a pad, have none.
    pub fn meaning(&self) -> usize {
        match self.kind {
            PAD => TAG_BYTES,
            TAIL => self.len.min(TAG_BYTES + 8),
            _ => self.len,
        }
    }
}

/// Where the area lies.
pub struct Area {
    /// Byte of the image at which each block begins.
    at: Vec<u64>,
    block_bytes: usize,
}

fn read(image: &Image, at: u64, len: usize) -> Vec<u8> {
    let within = (at % BLOCK_BYTES as u64) as usize;
    image.block(at / BLOCK_BYTES as u64)[within..within + len].to_vec()
}

impl Area {
    /// The area behind the log, whose inode must hold its extents itself; `None` if the log has no
    /// such area.
    pub fn of(image: &Image) -> Option<Area> {
        let sb = Superblock::parse(&read(image, 1024, 1024)).expect("a volume");
        let bytes = sb.block_bytes() as usize;
        let (block, offset) = sb.desc_place(0);
        let desc = read(
            image,
            block.0 * bytes as u64 + offset as u64,
            sb.desc_bytes(),
        );
        let desc = GroupDesc::parse(&desc, sb.desc_bytes()).expect("a descriptor");
        let table = desc.inode_table().0 * bytes as u64;
        let Ino(journal) = sb.journal_ino();
        let at = table + u64::from(journal - 1) * sb.inode_bytes() as u64;
        let inode = read(image, at, sb.inode_bytes());
        let inode = Inode::parse(&inode, sb.inode_bytes()).expect("the inode of the log");
        let root = ExtentNode::parse(inode.block_area()).expect("extents");
        let ExtentEntries::Leaf(extents) = root.entries else {
            panic!("the log has few extents");
        };
        let mut at = Vec::new();
        for e in extents {
            let blocks = e.physical.0..e.physical.0 + u64::from(e.len);
            at.extend(blocks.map(|n| n * bytes as u64));
        }
        let log = ondisk::jbd2::Superblock::parse(&read(image, at[0], 1024)).expect("a log");
        if log.fast_commit_blocks() == 0 || log.is_clean() {
            return None;
        }
        let at = at[log.fast_commit_first() as usize..log.blocks_count() as usize].to_vec();
        Some(Area {
            at,
            block_bytes: bytes,
        })
    }

    /// Its content.
    pub fn read(&self, image: &Image) -> Vec<u8> {
        let blocks = self.at.iter();
        blocks
            .flat_map(|&at| read(image, at, self.block_bytes))
            .collect()
    }

    /// Stores the content of the area.
    pub fn write(&self, image: &mut Image, bytes: &[u8]) {
        for (&at, new) in self.at.iter().zip(bytes.chunks(self.block_bytes)) {
            let within = (at % BLOCK_BYTES as u64) as usize;
            image.edit_block(at / BLOCK_BYTES as u64, |block| {
                block[within..within + new.len()].copy_from_slice(new);
            });
        }
    }

    /// The tags that count: up to the last tail of the transaction that the head names.
    pub fn tags(&self, bytes: &[u8]) -> Vec<Tag> {
        let (mut tags, mut counted, mut tid) = (Vec::new(), 0, None);
        for (n, block) in bytes.chunks(self.block_bytes).enumerate() {
            let mut at = 0;
            while at + TAG_BYTES <= block.len() {
                let (kind, len) = (get_le16(block, at), usize::from(get_le16(block, at + 2)));
                let value = at + TAG_BYTES;
                if !(1..=HEAD).contains(&kind) || value + len > block.len() {
                    break;
                }
                let own = match kind {
                    HEAD if len >= 8 => Some(get_le32(block, value + 4)),
                    TAIL if len >= 8 => Some(get_le32(block, value)),
                    _ => tid,
                };
                tid = tid.or(own);
                if own != tid {
                    break;
                }
                tags.push(Tag {
                    kind,
                    at: n * self.block_bytes + at,
                    len: TAG_BYTES + len,
                });
                if kind == TAIL {
                    counted = tags.len();
                }
                at = value + len;
            }
            if at + TAG_BYTES <= block.len() {
                break;
            }
        }
        tags.truncate(counted);
        tags
    }

    /// Corrects the checksums of all tails that can be reached.
    pub fn mend(&self, bytes: &mut [u8]) {
        let mut crc = 0;
        for block in bytes.chunks_mut(self.block_bytes) {
            let mut at = 0;
            while at + TAG_BYTES <= block.len() {
                let (kind, len) = (get_le16(block, at), usize::from(get_le16(block, at + 2)));
                let end = at + TAG_BYTES + len;
                if kind == 0 || end > block.len() {
                    return;
                }
                if kind == TAIL && len >= 8 {
                    crc = crc32c(crc, &block[at..at + TAG_BYTES + 4]);
                    put_le32(block, at + TAG_BYTES + 4, crc);
                    crc = 0;
                } else {
                    crc = crc32c(crc, &block[at..end]);
                }
                at = end;
            }
        }
    }
}
